"""A language at a glance: what is said of every meaning."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.systems.meta_rg.figures.messages import draw_tokens, token_hues, token_legend
from gpicljax.viz import style
from gpicljax.viz.films import animation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def languages_figure(
    languages: dict[str, ArrayLike],
    meanings: ArrayLike,
    vocab_size: int,
    *,
    title: str | None = None,
) -> "Figure":
    """Draws the messages of speakers for the same meanings: columns are meanings, rows positions,
    colours tokens.

    Args:
      languages: messages `int[M, L]` of each speaker, by the name to print.
      meanings: `int[M, N_dim]`, 0-based values; they are drawn above as shades of grey, in their
        lexicographic order.
      vocab_size: number of tokens besides 0.
      title: title, or none.

    Returns:
      A matplotlib figure with an axes for the meanings and one for each speaker.

    Raises:
      ValueError: if there is no speaker, or messages and meanings do not belong together.

    Example:
      >>> import itertools
      >>> meanings = np.array(list(itertools.product(range(2), repeat=3)))
      >>> figure = languages_figure({"posdis": meanings + 1}, meanings, vocab_size=6)
      >>> len(figure.axes)
      2
    """
    latents = np.asarray(meanings)
    check_array(latents.ndim == 2 and latents.size > 0, "meanings", latents, "int[M, N_dim]")
    messages_by_speaker = {name: np.asarray(messages) for name, messages in languages.items()}
    for name, messages in messages_by_speaker.items():
        fits = messages.ndim == 2 and len(messages) == len(latents)
        check_array(fits, f"languages[{name!r}]", messages, f"int[{len(latents)}, L]")
        is_in_range = messages.min() >= 0 and messages.max() <= vocab_size
        check_array(is_in_range, f"languages[{name!r}]", messages, f"tokens in 0 .. {vocab_size}")
    check_array(len(messages_by_speaker) > 0, "languages", np.zeros(0), "one or more speakers")
    order = np.lexsort(latents.T[::-1])
    latents = latents[order]

    count, dims = latents.shape
    hues = token_hues(vocab_size)
    width = min(9.5, 1.6 + 0.24 * count)
    rows = [dims, *(messages.shape[1] for messages in messages_by_speaker.values())]
    figure = style.new_figure(width + 0.9, 0.7 + 0.3 * sum(rows) + (0.3 if title else 0))
    panels = figure.subplots(len(rows), 1, sharex=True, height_ratios=rows, squeeze=False)[:, 0]
    values = int(latents.max()) + 1
    panels[0].pcolormesh(
        np.arange(count + 1) - 0.5,
        np.arange(dims + 1) + 0.5,
        latents.T,
        cmap="Greys",
        vmin=-0.5,
        vmax=values + 0.5,
        edgecolors="white",
        linewidth=1.1,
    )
    size = 0.62 * 72 * width / count
    for axes, messages in zip(panels[1:], messages_by_speaker.values(), strict=True):
        draw_tokens(axes, messages[order], hues, size)
    for axes, name, length in zip(panels, ["meaning", *messages_by_speaker], rows, strict=True):
        style.style_axes(axes, grid=None)
        axes.set_ylim(length + 0.5, 0.5)
        axes.set_yticks(np.arange(1, length + 1))
        axes.set_xticks([])
        axes.tick_params(axis="both", length=0)
        axes.set_ylabel(name, fontsize=style.SMALL, color=style.INK)
        axes.spines[:].set_visible(False)
    token_legend(figure, hues, columns=1)
    style.title_figure(figure, title)
    return figure


def languages_film(
    messages: ArrayLike,
    meanings: ArrayLike,
    vocab_size: int,
    *,
    titles: Sequence[str],
) -> bytes:
    """Films how a speaker's messages for the same meanings change, drawn as in `languages_figure`.

    Args:
      messages: `int[T, M, L]`, of T moments of the training, at least one.
      meanings: `int[M, N_dim]`, 0-based values.
      vocab_size: number of tokens besides 0.
      titles: T titles, one over each frame.

    Returns:
      The content of an animated GIF with a frame for each moment.

    Raises:
      ValueError: if messages, meanings and titles do not belong together.

    Example:
      >>> import itertools
      >>> meanings = np.array(list(itertools.product(range(2), repeat=3)))
      >>> messages = np.stack([np.ones_like(meanings), meanings + 1])
      >>> film = languages_film(messages, meanings, vocab_size=6, titles=["before", "after"])
      >>> film[:6]
      b'GIF89a'
    """
    moments = np.asarray(messages)
    check_array(moments.ndim == 3 and moments.size > 0, "messages", moments, "int[T, M, L]")
    accepted = f"{len(moments)} titles, one for each moment"
    check(len(titles) == len(moments), "titles", len(titles), accepted)
    figures = (
        languages_figure({"message": spoken}, meanings, vocab_size, title=title)
        for spoken, title in zip(moments, titles, strict=True)
    )
    frames = np.stack([style.figure_pixels(figure) for figure in figures])
    return animation(frames, frames_per_second=2.0, most_pixels=640)
