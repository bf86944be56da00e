"""Records of in-context learning of all systems in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpicljax.checks import check
from gpicljax.evaluation.icl import icl_curve
from gpicljax.evaluation.records import ICLRecord, icl_summary
from gpicljax.viz import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES: dict[str, tuple[str, str, float, object]] = {
    "oracle": ("oracle", style.INK, 1.0, (0, (4, 3))),
    "null": ("strongest null without training", style.MUTED, 1.4, "-"),
    "memory wiped": ("the agent, memory wiped", style.PALETTE[1], 1.4, "-"),
    "agent": ("the agent", style.PALETTE[0], 1.8, "-"),
}
"""By role: name, colour, width and dashes, in the order in which they are drawn."""


def icl_panels(records: Sequence[ICLRecord], *, columns: int = 4) -> Figure:
    """Returns a figure with one panel for each record; in all of them up is better.

    A measure that is better when it is lower is drawn with its sign reversed. The number of a panel
    is the share over the whole context: 0 is as well as the strongest null that needs no training,
    1 as well as the oracle.

    Args:
      records: Records in the order of the panels, row by row.
      columns: Panels of a row.

    Raises:
      ValueError: if there is no record.
    """
    check(records, "records", list(records), "at least one")
    columns = min(columns, len(records))
    rows = -(-len(records) // columns)
    figure = style.new_figure(0.4 + 2.5 * columns, 0.5 + 2.25 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, record in zip(panels, records, strict=False):
        _panel(axes, record)
    for axes in panels[len(records) :]:
        axes.set_axis_off()
    marks = [
        figure.axes[0].plot([], [], color=colour, linewidth=width, linestyle=dashes)[0]
        for _, colour, width, dashes in _LINES.values()
    ]
    figure.legend(
        marks[::-1],
        [name for name, *_ in _LINES.values()][::-1],
        loc="outside upper left",
        ncols=min(columns, len(marks)),
        frameon=False,
        fontsize=style.SMALL,
    )
    return figure


def first_of_each_system(records: Sequence[ICLRecord]) -> list[ICLRecord]:
    """Returns the first record of each system, in the order of the systems."""
    by_system: dict[str, ICLRecord] = {}
    for record in records:
        by_system.setdefault(record.system, record)
    return list(by_system.values())


def _mean_over_phase(values: np.ndarray, weight: np.ndarray, window: float) -> np.ndarray:
    """Moving means of `[N, T]` over a share of the context.

    Episodes of an oracle begin together in all trials, so that its rewards come at the same steps.
    """
    steps = np.repeat(values, np.maximum(weight.round().astype(int), 1), axis=1)
    half = int(window * steps.shape[1] / 2)
    centres = (np.cumsum(weight) - weight / 2).astype(int)
    return np.stack(
        [np.nanmean(steps[:, max(c - half, 0) : c + half + 1], axis=1) for c in centres], axis=1
    )


def _panel(axes: Axes, record: ICLRecord) -> None:
    style.style_axes(axes)
    sign = 1 if record.higher_is_better else -1
    means = []
    for role, (_, colour, width, dashes) in _LINES.items():
        if role not in record.curves:
            continue
        values = sign * record.curves[role]
        if role == "oracle":
            values = _mean_over_phase(values, record.weight, record.end / 4)
        curve = icl_curve(values, np.isfinite(values))
        x = record.position + 1
        means.append(curve.mean)
        axes.plot(x, curve.mean, color=colour, linewidth=width, linestyle=dashes, zorder=3)
        if role == "agent":
            axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")  # a short context has no power of ten but 1
    axes.set_xlim(record.position[0] + 1, record.position[-1] + 1)
    low, high = np.nanmin(np.concatenate(means)), np.nanmax(np.concatenate(means))
    room = 0.06 * (high - low or 1.0)
    axes.set_ylim(low - room, high + room)
    axes.xaxis.set_major_formatter(style.big_number)
    axes.tick_params(labelsize=style.SMALL)
    share = icl_summary(record).overall.value
    title = f"{record.system}\n{record.task}\n{record.agent}"
    axes.set_title(title, fontsize=style.SMALL, color=style.INK, loc="left")
    label = f"{record.context} before + 1"
    axes.set_xlabel(label, fontsize=style.SMALL, color=style.INK, loc="left")
    measure = record.measure if record.higher_is_better else f"minus {record.measure}"
    axes.set_ylabel(measure, fontsize=style.SMALL, color=style.INK)
    axes.text(
        *(1.0, -0.34),
        "" if np.isnan(share) else f"{share:.2f}",
        transform=axes.transAxes,
        ha="right",
        fontsize=style.TITLE,
        color=style.PALETTE[0],
        weight="bold",
    )
