"""Pictures side by side: a row per thing that varies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check_array
from gpicljax.viz import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_grid(
    rows: Sequence[tuple[str, Sequence[tuple[str, NDArray[np.uint8]]]]],
    *,
    title: str | None = None,
    width: float = 1.5,
) -> "Figure":
    """Captioned pictures in named rows.

    Args:
      rows: each a name and its pictures, which are a caption and `uint8[H, W, 3]`. Rows may differ
        in length.
      title: title, or none.
      width: of a picture, inches.

    Returns:
      A matplotlib figure with an axis per picture.

    Raises:
      ValueError: if there are no rows, one of them is empty, or something is not a picture.

    Example:
      >>> import numpy as np
      >>> frame = np.zeros((4, 4, 3), np.uint8)
      >>> len(picture_grid([("size", [("7", frame), ("15", frame)])]).axes)
      2
    """
    if not rows or not all(pictures for _, pictures in rows):
        raise ValueError("rows: at least one row with at least one picture is needed")
    for name, pictures in rows:
        for caption, picture in pictures:
            fits = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[-1] == 3
            check_array(fits, f"rows, {name!r}, {caption!r}", picture, "uint8[H, W, 3]")
    columns = max(len(pictures) for _, pictures in rows)
    tallest = [max(p.shape[0] / p.shape[1] for _, p in pictures) for _, pictures in rows]
    margin = 1.3 if any(name for name, _ in rows) else 0.1
    caption_height, head = 0.24, 0.4 if title else 0.1
    heights = [width * ratio + caption_height for ratio in tallest]
    full = margin + columns * width, head + sum(heights)
    figure = style.new_figure(*full)
    figure.set_layout_engine("none")  # places are known
    top = head
    for (name, pictures), height in zip(rows, heights, strict=True):
        middle = 1 - (top + (height - caption_height) / 2) / full[1]
        figure.text(
            (margin - 0.12) / full[0], middle, name, ha="right", va="center",
            fontsize=style.BODY, color=style.INK,
        )  # fmt: skip
        for index, (caption, picture) in enumerate(pictures):
            left = (margin + index * width + 0.03) / full[0]
            bottom = 1 - (top + height - caption_height) / full[1]
            size = (width - 0.06) / full[0], (height - caption_height - 0.03) / full[1]
            axes = figure.add_axes((left, bottom, *size))
            axes.imshow(picture, interpolation="nearest")
            axes.set_axis_off()
            axes.set_title(caption, fontsize=style.SMALL, color=style.MUTED, y=0, pad=-2, va="top")
        top += height
    if title:
        figure.text(
            0.12 / full[0], 1 - 0.2 / full[1], title, va="center",
            fontsize=style.TITLE, color=style.INK, weight="bold",
        )  # fmt: skip
    return figure
