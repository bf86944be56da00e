"""One place for how figures look: colours, sizes, axes, labels, and how they reach the disk.

Figures are built through matplotlib's object-oriented interface; `pyplot` and its global state are
never touched, and matplotlib itself is imported only when the first figure is made.
"""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check
from gpicljax.storage.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI: Final = 144

INK: Final = "#1f2328"
MUTED: Final = "#656d76"
RULE: Final = "#c8ccd1"
GRID: Final = "#eceef0"
SHADE: Final = "#f3f4f6"

SMALL: Final = 8.0
BODY: Final = 9.0
TITLE: Final = 10.5

PALETTE: Final = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7A3E9D",
    "#8C6D31",
    "#B22234",
    "#2F4B5C",
)
"""Okabe and Ito (2008) without its yellow and black, then four that stay apart from them."""


class Label(NamedTuple):
    """A text for the right margin, at a level of the vertical axis."""

    text: str
    level: float
    colour: str
    bold: bool = False


def colours(count: int) -> tuple[str, ...]:
    """`count` distinct colours as hex strings: the palette, or a perceptual ramp beyond it."""
    if count <= len(PALETTE):
        return PALETTE[:count]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return tuple(to_hex(c) for c in colormaps["turbo"](np.linspace(0.05, 0.95, count)))


def text_colour(background: str) -> str:
    """Black or white ink, whichever reads better on `background` (WCAG relative luminance)."""
    from matplotlib.colors import to_rgb

    rgb = np.asarray(to_rgb(background))
    linear = np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return INK if luminance > 0.32 else "#ffffff"


def new_figure(width: float, height: float) -> "Figure":
    """Returns an empty white figure, `width` x `height` inches, laid out by constraints.

    Example:
      >>> new_figure(4, 3).get_size_inches().tolist()
      [4.0, 3.0]
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.08)
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: "Axes", *, grid: str | None = "y") -> None:
    """Thin left and bottom spines, quiet ticks, and a faint grid along `"x"`, `"y"` or neither."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(RULE)
        spine.set_linewidth(0.8)
    axes.tick_params(
        labelsize=SMALL, labelcolor=MUTED, color=RULE, length=3, width=0.8, which="major"
    )
    axes.tick_params(length=0, which="minor")
    axes.set_axisbelow(True)
    if grid == "x":
        axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    elif grid == "y":
        axes.grid(True, axis="y", color=GRID, linewidth=0.8)


def name_axes(axes: "Axes", xlabel: str, ylabel: str, title: str | None) -> None:
    """Axis names in body size and a left-aligned title."""
    axes.set_xlabel(xlabel, fontsize=BODY, color=INK, labelpad=5)
    axes.set_ylabel(ylabel, fontsize=BODY, color=INK, labelpad=6)
    if title:
        axes.set_title(title, fontsize=TITLE, color=INK, loc="left", pad=9, fontweight="bold")


def name_rows(axes: "Axes", names: Sequence[str], size: float = SMALL) -> None:
    """Names the rows 0, 1, ... of the vertical axis, from top to bottom."""
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names, fontsize=size, color=INK)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=size)


def title_figure(figure: "Figure", title: str | None) -> None:
    """A title over the whole figure, at its left edge, if there is one."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TITLE, fontweight="bold", color=INK)


def tick(percent: bool) -> Callable[..., str]:
    """Formatter of axis ticks, exact: `"62.5 %"` for 0.625 in per cent, else `"0.625"`."""
    scale, unit = (100.0, " %") if percent else (1.0, "")
    return lambda value, _=None: f"{scale * value:.6g}{unit}".replace("-", "\N{MINUS SIGN}")


def number(value: float, percent: bool) -> str:
    """A measured value for a label: one decimal of a per cent, else three significant digits."""
    text = f"{100 * value:.1f} %" if percent else f"{value:#.3g}".rstrip(".")
    return text.replace("-", "\N{MINUS SIGN}")


def big_number(value: float, _: object = None) -> str:
    """Counts as people say them: `"500 k"`, `"2.5 M"`."""
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.6g} {unit}"
    return f"{value:.6g}"


def spread(levels: ArrayLike, gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Moves label positions apart as little as possible, keeping their order.

    Args:
      levels: `float[N]`, where the labels belong.
      gap: smallest distance allowed between two of them, same unit.
      low: lower end of the room there is.
      high: upper end; if N labels do not fit, they are set as close as the room demands.

    Returns:
      `float64[N]`: the positions nearest to `levels` (least squares) that are `gap` apart, then
      moved into [low, high].

    Source: isotonic regression by pooling adjacent violators (Barlow et al., 1972).
    """
    want = np.asarray(levels, np.float64)
    count = want.size
    if count == 0:
        return want
    gap = min(gap, (high - low) / max(count - 1, 1))
    order = np.argsort(want, kind="stable")
    steps = gap * np.arange(count)
    blocks: list[tuple[float, int]] = []
    for value in want[order] - steps:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, members = blocks.pop()
            mean = (mean * size + before * members) / (size + members)
            size += members
        blocks.append((mean, size))
    pooled = np.repeat([mean for mean, _ in blocks], [size for _, size in blocks])
    placed = np.empty(count)
    placed[order] = np.clip(pooled, low, high - steps[-1]) + steps
    return placed


def label_right(axes: "Axes", labels: Sequence[Label]) -> None:
    """Writes labels beside the right edge at their levels, spread so that none overlap.

    A label that had to move is tied to its level by a thin leader; one whose level lies outside the
    axes is left out. Call it last: the room there is follows from the final limits and layout.
    """
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("axes: got axes of no figure; accepted: those of a figure")
    figure.draw_without_rendering()
    low, high = axes.get_ylim()
    shown = [label for label in labels if low <= label.level <= high]
    points = axes.get_window_extent().height * 72 / figure.dpi
    per_point = (high - low) / points
    levels = [label.level for label in shown]
    placed = spread(levels, 1.3 * SMALL * per_point, low, high)
    edge = axes.get_yaxis_transform()
    for label, level, at in zip(shown, levels, placed, strict=True):
        if abs(at - level) > per_point:
            axes.annotate(
                "",
                xy=(1.0, level),
                xycoords=edge,
                xytext=(9, (at - level) / per_point),
                textcoords="offset points",
                arrowprops={
                    "arrowstyle": "-",
                    "color": label.colour,
                    "linewidth": 0.7,
                    "alpha": 0.7,
                    "shrinkA": 0,
                    "shrinkB": 1,
                },
                annotation_clip=False,
            )
        axes.annotate(
            label.text,
            xy=(1.0, level),
            xycoords=edge,
            xytext=(11 if abs(at - level) > per_point else 6, (at - level) / per_point),
            textcoords="offset points",
            fontsize=SMALL,
            color=label.colour,
            fontweight="bold" if label.bold else "normal",
            va="center_baseline",
            ha="left",
            annotation_clip=False,
        )


def figure_pixels(figure: "Figure") -> NDArray[np.uint8]:
    """Returns a figure as it is drawn at 144 dpi, `uint8[H, W, 3]`.

    Example:
      >>> figure_pixels(new_figure(2, 1)).shape
      (144, 288, 3)
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Writes a figure at 144 dpi; the file appears whole or not at all.

    Args:
      figure: a matplotlib figure.
      path: where to; the suffix chooses the format (`.png`, `.pdf`, `.svg`, ...). Folders are made.

    Returns:
      The path written.

    Raises:
      ValueError: if the suffix is missing or names no format.
      OSError: if it cannot be written; an existing file is then left as it was.

    Example:
      >>> import tempfile
      >>> from gpicljax.viz import results_bars
      >>> figure = results_bars(["agent"], [0.94], [0.93], [0.95])
      >>> save_figure(figure, Path(tempfile.mkdtemp()) / "results.png").name
      'results.png'
    """
    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    filetypes = figure.canvas.get_supported_filetypes()
    endings = ", ".join(f".{k}" for k in sorted(filetypes))
    check(kind in filetypes, "path", str(target), f"a path that ends in {endings}")
    target.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=DPI, facecolor="white")
    write_atomically(target, content.getvalue())
    return target
