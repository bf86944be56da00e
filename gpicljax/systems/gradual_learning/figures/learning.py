"""Learning task by task: steps until each is cleared, what helps, what is kept, what needs what."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.systems.gradual_learning.measures.criteria import (
    Efficiency,
    Transfer,
    curriculum_orders,
)
from gpicljax.viz import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def efficiency_figure(
    agents: Mapping[str, Efficiency],
    tasks: Sequence[str],
    *,
    reference: ArrayLike | None = None,
    title: str | None = None,
) -> "Figure":
    """Draws Figure A: the steps of each task of a sequence, from top to bottom.

    A dot is a median over runs, hollow where fewer than half of the runs cleared the task (it is
    then a lower bound); nothing is drawn where no run came so far.

    Args:
      agents: results of `efficiency`, by agent.
      tasks: names of the n tasks.
      reference: `float[n]`, steps of an oracle, drawn as a line; or none.
      title: title, or none.

    Returns:
      A matplotlib figure with one axes, steps in powers of ten.

    Raises:
      ValueError: if there is no agent, or one has another number of tasks.

    Example:
      >>> from gpicljax.systems.gradual_learning.measures import completion_times, efficiency
      >>> runs = completion_times([[10, 30], [20, 50]], [2, 1])
      >>> figure = efficiency_figure({"table": efficiency(runs)}, ["copy", "spell"])
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    check(agents, "agents", agents, "at least one")
    count = len(tasks)
    for name, agent in agents.items():
        fits = agent.steps.shape == (count,)
        check_array(fits, f"agents[{name!r}]", agent.steps, f"{count} tasks, as `tasks`")
    figure = style.new_figure(6.4, 1.1 + 0.19 * max(count, 3) + (0.25 if title else 0))
    axes = figure.add_subplot()
    style.style_axes(axes, grid="x")
    rows = np.arange(count)
    if reference is not None:
        reference_steps = np.asarray(reference, float)
        check_array(
            reference_steps.shape == (count,), "reference", reference_steps, f"float[{count}]"
        )
        axes.plot(
            reference_steps,
            rows,
            color=style.MUTED,
            linewidth=1.0,
            linestyle=(0, (4, 3)),
            label="oracle",
        )
    for (name, agent), colour in zip(agents.items(), style.colours(len(agents)), strict=True):
        whole = agent.cleared >= 0.5
        axes.plot(agent.steps, rows, color=colour, linewidth=0.8, alpha=0.5)
        for is_shown, face in ((whole, colour), (~whole, "white")):
            axes.scatter(
                agent.steps[is_shown],
                rows[is_shown],
                s=18,
                color=face,
                edgecolor=colour,
                linewidth=1.0,
                zorder=4,
                label=name if face == colour else None,
            )
    axes.set_xscale("log")
    style.name_rows(axes, list(tasks))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(style.big_number)
    axes.xaxis.set_minor_formatter(NullFormatter())
    style.name_axes(axes, "steps until cleared", "", title)
    figure.legend(
        loc="outside lower left", ncols=4, frameon=False, fontsize=style.SMALL, handletextpad=0.4
    )
    return figure


def transfer_figure(transfers: Mapping[str, Transfer], *, title: str | None = None) -> "Figure":
    """Draws Figure B: how many times faster a task is cleared after its predecessors.

    Args:
      transfers: results of `transfer`, by task.
      title: title, or none.

    Returns:
      A matplotlib figure with one axes; ratios in powers of two, with their intervals; hollow where
      the interval holds 1.

    Raises:
      ValueError: if there is no task.

    Example:
      >>> from gpicljax.systems.gradual_learning.measures import completion_times, transfer
      >>> alone = completion_times([[9], [8]], [1, 1])
      >>> after = completion_times([[1, 3], [1, 4]], [2, 2])
      >>> figure = transfer_figure({"spell": transfer(alone, after)})
    """
    check(transfers, "transfers", transfers, "at least one task")
    count = len(transfers)
    figure = style.new_figure(6.4, 1.2 + 0.24 * max(count, 3) + (0.25 if title else 0))
    axes = figure.add_subplot()
    style.style_axes(axes, grid="x")
    colour = style.PALETTE[0]
    for row, gain in enumerate(transfers.values()):
        axes.plot([gain.low, gain.high], [row, row], color=colour, linewidth=1.4)
        face = colour if gain.gradual else "white"
        axes.scatter(gain.mean, row, s=26, color=face, edgecolor=colour, zorder=4)
    axes.axvline(1.0, color=style.INK, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set_xscale("log", base=2)
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, 0.5), max(right, 2.0))
    axes.xaxis.set_major_formatter(style.tick(percent=False))
    style.name_rows(axes, list(transfers))
    style.name_axes(axes, "times faster after the tasks before it", "", title)
    return figure


def prerequisites_figure(requires: Mapping[str, Sequence[str]]) -> "Figure":
    """Draws a graph of prerequisites: every task below all that it builds on.

    Args:
      requires: by task, what it builds on directly.

    Returns:
      A matplotlib figure.

    Raises:
      ValueError: if a task is unknown, or one builds on itself in the end.

    Example:
      >>> figure = prerequisites_figure({"copy": [], "spell": ["copy"]})
    """
    order = curriculum_orders(requires, 0)
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = 1 + max((depth[base] for base in requires[name]), default=-1)
    levels = [[n for n in order if depth[n] == i] for i in range(max(depth.values()) + 1)]
    # Near the middle of what a task builds on, so that few lines cross.
    across: dict[str, float] = {}
    for names in levels:
        targets = [np.mean([across[o] for o in requires[n]] or [i]) for i, n in enumerate(names)]
        placed = style.spread(np.array(targets, float), 1.0, 0.0, float(len(order)))
        across.update(zip(names, placed, strict=True))
    left, right = min(across.values()) - 0.6, max(across.values()) + 0.6
    figure = style.new_figure(max(0.9 * (right - left), 3.0), 0.6 + 0.36 * len(levels))
    axes = figure.add_subplot()
    axes.set_axis_off()
    for name, needed in requires.items():
        for lower in needed:
            # Lines that pass a level bend around what stands in it.
            bend = 0.0 if depth[name] - depth[lower] == 1 else 0.25
            line = {"arrowstyle": "-", "color": style.RULE, "linewidth": 0.9}
            axes.annotate(
                "",
                xy=(across[name], depth[name]),
                xytext=(across[lower], depth[lower]),
                arrowprops={**line, "connectionstyle": f"arc3,rad={bend}"},
            )
    for name in order:
        axes.annotate(
            name,
            (across[name], depth[name]),
            fontsize=style.SMALL,
            color=style.INK,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.3", "facecolor": style.SHADE, "edgecolor": style.RULE},
        )
    axes.set_xlim(left, right)
    axes.set_ylim(len(levels) - 0.4, -0.6)
    return figure


def accuracy_matrix_figure(
    matrices: Mapping[str, ArrayLike], *, title: str | None = None
) -> "Figure":
    """Draws the skill in every task after every task, one matrix for each way to learn.

    Args:
      matrices: by name, float `[n + 1, n]` in [0, 1]: row 0 before anything was learnt, row j + 1
        after the j-th task; columns are tasks in the order in which they are learnt.
      title: title, or none.

    Returns:
      A matplotlib figure with one axes for each matrix.

    Raises:
      ValueError: if there is none, or one has another shape.
    """
    check(matrices, "matrices", matrices, "at least one")
    figure = style.new_figure(1.2 + 1.9 * len(matrices), 2.7 + (0.25 if title else 0))
    grid = figure.subplots(1, len(matrices), sharey=True, squeeze=False)[0]
    pictures = []
    for axes, (name, matrix) in zip(grid, matrices.items(), strict=True):
        skill = np.asarray(matrix, float)
        fits = skill.ndim == 2 and skill.shape[0] == skill.shape[1] + 1
        check_array(fits, f"matrices[{name!r}]", skill, "float[n + 1, n]")
        pictures.append(axes.imshow(skill, vmin=0, vmax=1, cmap="Blues", aspect="auto"))
        places = np.arange(skill.shape[1])
        axes.set_xticks(places, [str(place + 1) for place in places])
        axes.set_yticks(np.arange(len(skill)), ["none", *(str(place + 1) for place in places)])
        axes.tick_params(length=0, labelsize=style.SMALL)
        axes.spines[:].set_visible(False)
        style.name_axes(axes, "task", "tasks learnt" if axes is grid[0] else "", name)
    bar = figure.colorbar(pictures[0], ax=list(grid), shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=style.SMALL)
    style.title_figure(figure, title)
    return figure
