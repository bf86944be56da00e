"""Films of episodes: frames from a render function, as an animated GIF or a sheet of stills."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.typing import ArrayTree
from gpicljax.viz.pictures import picture_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Frames = NDArray[np.uint8]


def render_frames(
    render: Callable[[Any, Any], Any],
    states: ArrayTree,
    task: ArrayTree,
    chosen: Sequence[int] | NDArray[np.integer],
    *,
    chunk: int = 32,
) -> Frames:
    """Draws some states of an episode, a chunk of them at a time in one compiled program.

    Args:
      render: `(state, task) -> uint8[H, W, 3]`, such as `env.render`.
      states: leaves `[T, ...]`.
      task: the episode's task.
      chosen: which of the T states, N of them.
      chunk: frames drawn together; memory is in proportion.

    Returns:
      `uint8[N, H, W, 3]`.

    Raises:
      ValueError: if nothing is chosen or `chunk` < 1.

    Example:
      >>> import jax.numpy as jnp
      >>> def grey(state, task):
      ...     return jnp.full((2, 2, 3), state, jnp.uint8)
      >>> render_frames(grey, np.arange(5), None, [0, 4])[:, 0, 0, 0].tolist()
      [0, 4]
    """
    import jax

    indices = np.asarray(chosen, np.int32)
    check_array(indices.ndim == 1 and indices.size > 0, "chosen", indices, "int[N], N >= 1")
    check_at_least(1, chunk=chunk)
    chunk = min(chunk, indices.size)
    # The last chunk is filled up with its first frame, so that one program does.
    filled = np.concatenate([indices, np.full(-indices.size % chunk, indices[0], np.int32)])

    @jax.jit
    def draw(states: ArrayTree, task: ArrayTree, places: Any) -> Any:
        return jax.vmap(render, (0, None))(jax.tree.map(lambda x: x[places], states), task)

    parts = [np.asarray(draw(states, task, part)) for part in filled.reshape(-1, chunk)]
    return np.concatenate(parts)[: indices.size]


def choose_frames(length: int, most: int) -> NDArray[np.int32]:
    """Chooses which states of 0 .. length to show: every k-th and the last, at most `most`.

    Raises:
      ValueError: if `length` < 0 or `most` < 2.

    Example:
      >>> choose_frames(10, 4).tolist()
      [0, 4, 8, 10]
    """
    check_at_least(0, length=length)
    check_at_least(2, most=most)
    stride = max(1, -(-length // (most - 1)))
    return np.append(np.arange(0, length, stride, dtype=np.int32), np.int32(length))


def animation(frames: Frames, *, frames_per_second: float = 15.0, most_pixels: int = 320) -> bytes:
    """Returns an animated GIF that loops; its last frame stays for a second and a half.

    All frames share one palette of 256 colours, made from a sample of them, so that nothing
    flickers where nothing moves.

    Args:
      frames: `uint8[T, H, W, 3]`.
      frames_per_second: speed, at most 50 (players slow down what is faster).
      most_pixels: larger frames are reduced until neither side exceeds this.

    Returns:
      The file's content.

    Raises:
      ValueError: if the frames are of another shape or dtype, or a number is out of range.

    Example:
      >>> import numpy as np
      >>> gif = animation(np.zeros((3, 8, 8, 3), np.uint8))
      >>> gif[:6]
      b'GIF89a'
    """
    from PIL import Image

    frames = _check_frames(frames)
    rate = frames_per_second
    check(0 < rate <= 50, "frames_per_second", rate, "0 < frames_per_second <= 50")
    check_at_least(1, most_pixels=most_pixels)
    height, width = frames.shape[1:3]
    share = min(1.0, most_pixels / max(height, width))
    size = max(1, round(width * share)), max(1, round(height * share))
    images = [Image.fromarray(frame) for frame in frames]
    if share < 1:
        images = [image.resize(size, Image.Resampling.LANCZOS) for image in images]
    sample = images[:: -(-len(images) // 16)]
    strip = Image.fromarray(np.concatenate([np.asarray(image) for image in sample]))
    palette = strip.quantize(256, method=Image.Quantize.MEDIANCUT)
    pictures = [im.quantize(palette=palette, dither=Image.Dither.NONE) for im in images]
    # GIF counts in hundredths of a second. Equal neighbours become one frame that lasts longer.
    durations = [10 * round(100 / frames_per_second)] * len(pictures)
    durations[-1] = 1500
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=durations,
        loop=0,
        optimize=False,
    )
    return file.getvalue()


def contact_sheet(
    frames: Frames, *, labels: Sequence[str] = (), columns: int = 4, title: str | None = None
) -> Figure:
    """Stills side by side, read like text.

    Args:
      frames: `uint8[K, H, W, 3]`.
      labels: what to write below each, K of them or none.
      columns: stills in a row.
      title: over the whole sheet, or none.

    Returns:
      A matplotlib figure; `style.save_figure` writes it.

    Raises:
      ValueError: if the frames are of another shape or dtype, `labels` of another number, or
        `columns` < 1.

    Example:
      >>> import numpy as np
      >>> figure = contact_sheet(np.zeros((2, 8, 8, 3), np.uint8), labels=["before", "after"])
    """
    frames = _check_frames(frames)
    count = len(frames)
    check_at_least(1, columns=columns)
    check(len(labels) in (0, count), "labels", labels, f"{count}, as many as frames, or none")
    captioned = list(zip(labels or [""] * count, frames, strict=True))
    columns = min(columns, count)
    rows = [("", captioned[first : first + columns]) for first in range(0, count, columns)]
    return picture_grid(rows, title=title, width=7.2 / columns)


def _check_frames(frames: Frames) -> Frames:
    frames = np.asarray(frames)
    pictures = frames.ndim == 4 and frames.shape[-1] == 3 and frames.dtype == np.uint8
    check_array(pictures and frames.size > 0, "frames", frames, "uint8[T, H, W, 3], T >= 1")
    return frames
