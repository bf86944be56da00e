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
    """A row of small curves for each system, up is better; each says which share the agent has.

    The share over the whole context is the one scale of all: 0 is as well as the strongest null
    that needs no training, 1 as well as the oracle.

    Args:
      records: what to draw; those of one system stand in a row, in this order.
      columns: panels of a row; of a system with more the first are drawn.

    Returns:
      A matplotlib figure.

    Raises:
      ValueError: if there is no record.

    Example:
      >>> import numpy as np
      >>> from gpicljax.evaluation import icl_record
      >>> record = icl_record(
      ...     {"agent": np.tile([0.5, 0.9], (3, 1)), "oracle": np.ones((3, 2))},
      ...     {"always the same": np.full((3, 2), 0.5)},
      ...     system="MetaRG", task="V = 2", agent="LSTM", measure="accuracy", context="games",
      ...     oracle="nearest neighbour",
      ... )
      >>> figure = icl_panels([record])
    """
    check(records, "records", list(records), "at least one")
    systems = list(dict.fromkeys(record.system for record in records))
    rows = [[x for x in records if x.system == system][:columns] for system in systems]
    width = max(map(len, rows))
    figure = style.new_figure(0.6 + 2.3 * width, 0.6 + 1.9 * len(rows))
    grid = figure.subplots(len(rows), width, squeeze=False)
    for row, drawn in zip(rows, grid, strict=True):
        for place, axes in enumerate(drawn):
            if place < len(row):
                _panel(axes, row[place])
            else:
                axes.set_axis_off()
    marks = [
        figure.axes[0].plot([], [], color=colour, linewidth=width, linestyle=dashes)[0]
        for _, colour, width, dashes in _LINES.values()
    ]
    figure.legend(
        marks[::-1],
        [name for name, *_ in _LINES.values()][::-1],
        loc="outside upper left",
        ncols=len(marks),
        frameon=False,
        fontsize=style.SMALL,
    )
    return figure


def _panel(axes: Axes, record: ICLRecord) -> None:
    style.style_axes(axes)
    shown = []
    for role, (_, colour, width, dashes) in _LINES.items():
        if role not in record.curves:
            continue
        values = record.curves[role]
        curve = icl_curve(values, np.isfinite(values))
        x = record.position + 1
        # An oracle's first rewards come to all trials at once: high and narrow.
        shown.append(curve.mean[len(x) // 2 :] if role == "oracle" else curve.mean)
        axes.plot(x, curve.mean, color=colour, linewidth=width, linestyle=dashes, zorder=3)
        if role == "agent":
            axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xscale("log")
    axes.set_xlim(record.position[0] + 1, record.position[-1] + 1)
    low, high = np.nanmin(np.concatenate(shown)), np.nanmax(np.concatenate(shown))
    room = 0.06 * (high - low or 1.0)
    limits = low - room, high + room
    axes.set_ylim(*(limits if record.higher_is_better else limits[::-1]))
    axes.xaxis.set_major_formatter(style.big_number)
    axes.tick_params(labelsize=style.SMALL - 1)
    share = icl_summary(record).overall.value
    title = f"{record.system}: {record.task}\n{record.agent}"
    axes.set_title(title, fontsize=style.SMALL - 1, color=style.INK, loc="left")
    label = f"{record.context} before + 1"
    axes.set_xlabel(label, fontsize=style.SMALL - 1, color=style.INK, loc="left")
    axes.set_ylabel(record.measure, fontsize=style.SMALL - 1, color=style.INK)
    axes.text(
        *(1.0, -0.34),
        "" if np.isnan(share) else f"{share:.2f}",
        transform=axes.transAxes,
        ha="right",
        fontsize=style.TITLE,
        color=style.PALETTE[0],
        weight="bold",
    )
