"""One episode of a Meta-Referential Game: what the speaker saw, and what it said."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array
from gpicljax.viz import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SILENCE = "#eceef0"


def stimuli_figure(
    stimuli: ArrayLike,
    latents: ArrayLike,
    means: ArrayLike,
    sigmas: ArrayLike,
    num_values: ArrayLike,
    num_support: int,
    *,
    title: str | None = None,
) -> "Figure":
    """Returns the stimuli of an episode and the semantic structure behind them.

    One panel per latent dimension: a dot per game at the stimulus' value, coloured by the latent
    value it stands for; beside it the Gaussian kernel of every latent value, on the same axis. Thin
    lines part the sections of [-1, 1]; the query phase is shaded.

    Args:
      stimuli: `float[G, N_dim]`, the speaker's stimulus in each of the G games, about [-1, 1].
      latents: `int[G, N_dim]`, the latent values behind them, 0-based.
      means: `float[N_dim, V]`, mean of each value's kernel; entries past `num_values` are ignored.
      sigmas: `float[N_dim, V]`, its standard deviation.
      num_values: `int[N_dim]`, number of values d(i) of each dimension, at most V.
      num_support: number of games of the support phase, which comes first.
      title: title, or none.

    Returns:
      A matplotlib figure with two axes per dimension: games, then kernels.

    Raises:
      ValueError: if shapes disagree, a latent or `num_values` is out of range, or `num_support` is
        not in [0, G].

    Source: Figure 4 of the Meta-Referential Games paper.

    Example:
      >>> latents = np.array([[0, 1], [1, 0], [1, 1]])
      >>> means, sigmas = np.tile([-0.5, 0.5], (2, 1)), np.full((2, 2), 0.1)
      >>> stimuli = means[[0, 1], latents]
      >>> figure = stimuli_figure(stimuli, latents, means, sigmas, num_values=[2, 2], num_support=2)
      >>> len(figure.axes)
      4
    """
    x, z = np.asarray(stimuli, np.float64), np.asarray(latents)
    mean, sigma = np.asarray(means, np.float64), np.asarray(sigmas, np.float64)
    count = np.asarray(num_values)
    _check_structure(x, z, mean, sigma, count)
    games, dims = x.shape
    _check_support(num_support, games)

    figure = style.new_figure(_width(games) + 0.9, 0.95 + 1.3 * dims)
    grid = figure.add_gridspec(dims, 2, width_ratios=[_width(games), 1.0], wspace=0.0)
    low, high = min(-1.06, float(x.min()) - 0.03), max(1.06, float(x.max()) + 0.03)
    heights = np.linspace(low, high, 600)
    for i in range(dims):
        values = int(count[i])
        hues = style.colours(values)
        axes, side = figure.add_subplot(grid[i, 0]), figure.add_subplot(grid[i, 1])
        for panel in (axes, side):
            style.style_axes(panel, grid=None)
            panel.set_ylim(low, high)
            for border in np.linspace(-1, 1, values + 1)[1:-1]:
                panel.axhline(border, color=style.RULE, linewidth=0.7, zorder=0.5)
        axes.scatter(
            np.arange(games),
            x[:, i],
            s=26,
            c=[hues[int(v)] for v in z[:, i]],
            edgecolor="white",
            linewidth=0.6,
            zorder=3,
        )
        axes.set_yticks([-1, 0, 1], ["\N{MINUS SIGN}1", "0", "1"])
        axes.set_ylabel(f"$d({i})={values}$", fontsize=style.BODY, color=style.INK)
        _phases(axes, games, num_support, named=i == 0)
        _game_ticks(axes, games, named=i == dims - 1)
        _kernels(side, heights, mean[i, :values], sigma[i, :values], hues)
    style.title_figure(figure, title)
    return figure


def messages_figure(
    messages: ArrayLike, num_support: int, vocab_size: int, *, title: str | None = None
) -> "Figure":
    """Returns the messages of an episode: columns are games, rows positions, colours tokens.

    Args:
      messages: `int[G, L]`, token ids in [0, vocab_size]; 0 is the end of the sentence, in grey.
      num_support: number of games of the support phase, which comes first.
      vocab_size: number of tokens besides 0.
      title: title, or none.

    Returns:
      A matplotlib figure with one axes. Token ids are printed where the cells have room for them.

    Raises:
      ValueError: if `messages` is not `[G, L]`, a token is out of range, or `num_support` is not in
        [0, G].

    Source: Figure 7 of the Meta-Referential Games paper.

    Example:
      >>> import numpy as np
      >>> messages = np.random.default_rng(0).integers(0, 7, size=(12, 3))
      >>> figure = messages_figure(messages, num_support=8, vocab_size=6)
    """
    m = np.asarray(messages)
    is_table = m.ndim == 2 and m.size > 0
    check_array(is_table and np.issubdtype(m.dtype, np.integer), "messages", m, "int[G, L]")
    if vocab_size < 1 or m.min() < 0 or m.max() > vocab_size:
        raise ValueError(
            f"messages: got {m.min()} to {m.max()}; accepted: 0 to vocab_size, {vocab_size}"
        )
    games, length = m.shape
    _check_support(num_support, games)

    hues = token_hues(vocab_size)
    figure = style.new_figure(_width(games) + 0.9, 1.15 + 0.25 * length + (0.25 if title else 0))
    axes = figure.add_subplot()
    style.style_axes(axes, grid=None)
    draw_tokens(axes, m, hues, size=0.62 * 72 * _width(games) / games)
    axes.set_ylim(length + 0.5, 0.5)
    axes.set_yticks(np.arange(1, length + 1))
    axes.tick_params(axis="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("position", fontsize=style.BODY, color=style.INK)
    _phases(axes, games, num_support, named=True, shade=False)
    _game_ticks(axes, games, named=True)
    token_legend(figure, hues, columns=1 if vocab_size < 4 * length else 2)
    style.title_figure(figure, title)
    return figure


def token_hues(vocab_size: int) -> tuple[str, ...]:
    """Returns a colour for every token, grey for the end of a sentence."""
    return (_SILENCE, *style.colours(vocab_size))


def draw_tokens(
    axes: "Axes", tokens: NDArray[np.integer], hues: tuple[str, ...], size: float
) -> None:
    """A cell for every token `[G, L]`, by columns, with its id where `size` points suffice."""
    from matplotlib.colors import ListedColormap

    games, length = tokens.shape
    axes.pcolormesh(
        np.arange(games + 1) - 0.5,
        np.arange(length + 1) + 0.5,
        tokens.T,
        cmap=ListedColormap(hues),
        vmin=-0.5,
        vmax=len(hues) - 0.5,
        edgecolors="white",
        linewidth=1.1,
    )
    size = min(style.SMALL, size)
    if size < 4.5:
        return
    inks = [style.MUTED, *(style.text_colour(hue) for hue in hues[1:])]
    for game, position in np.ndindex(games, length):
        token = int(tokens[game, position])
        axes.text(
            game,
            position + 1,
            str(token),
            fontsize=size,
            color=inks[token],
            ha="center",
            va="center_baseline",
        )


def token_legend(figure: "Figure", hues: tuple[str, ...], columns: int) -> None:
    """Draws the legend of the tokens' colours, to the right."""
    from matplotlib.patches import Patch

    names = ["0 (end)", *(str(token) for token in range(1, len(hues)))]
    figure.legend(
        handles=[Patch(facecolor=h, label=n) for h, n in zip(hues, names, strict=True)],
        loc="outside right center",
        title="token",
        title_fontsize=style.SMALL,
        fontsize=style.SMALL,
        labelcolor=style.INK,
        frameon=False,
        handlelength=1.0,
        handleheight=1.0,
        labelspacing=0.25,
        handletextpad=0.5,
        ncols=columns,
    )


def _kernels(
    axes: "Axes",
    heights: NDArray[np.float64],
    means: NDArray[np.float64],
    sigmas: NDArray[np.float64],
    hues: tuple[str, ...],
) -> None:
    """Gaussian densities drawn sideways, each with its latent value at the peak."""
    peak = float(1 / sigmas.min())
    for value, (mean, sigma, hue) in enumerate(zip(means, sigmas, hues, strict=True)):
        near = heights[np.abs(heights - mean) <= 3.5 * sigma]
        density = np.exp(-0.5 * ((near - mean) / sigma) ** 2) / sigma / peak
        axes.fill_betweenx(near, 0, density, color=hue, alpha=0.3, linewidth=0)
        axes.plot(density, near, color=hue, linewidth=1.1)
        axes.annotate(
            str(value),
            xy=(1 / sigma / peak, mean),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=hue,
            fontweight="bold",
            va="center_baseline",
        )
    axes.set_xlim(0, 1.3)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)


def _phases(axes: "Axes", games: int, num_support: int, *, named: bool, shade: bool = True) -> None:
    """The border between support and query phase, and above it the names of both."""
    edge = num_support - 0.5
    axes.set_xlim(-0.5 - 0.3 * shade, games - 0.5 + 0.3 * shade)
    left, right = axes.get_xlim()
    if 0 < num_support < games:
        axes.axvline(edge, color=style.INK, linewidth=1.0 if shade else 1.6, zorder=4)
    if shade and num_support < games:
        axes.axvspan(edge if num_support else left, right, color=style.SHADE, zorder=0, linewidth=0)
    if not named:
        return
    for name, first, last in (("support", 0, num_support), ("query", num_support, games)):
        if last > first:
            axes.annotate(
                f"{name}, {last - first} games",
                xy=((first + last - 1) / 2, 1.0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0, 5),
                textcoords="offset points",
                fontsize=style.BODY,
                color=style.INK,
                ha="center",
                va="bottom",
            )


def _game_ticks(axes: "Axes", games: int, *, named: bool) -> None:
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, games) if games / s <= 20)
    axes.set_xticks(np.arange(0, games, step))
    if named:
        axes.set_xlabel("game", fontsize=style.BODY, color=style.INK)
    else:
        axes.tick_params(axis="x", labelbottom=False)


def _width(games: int) -> float:
    """Width of the games' axes in inches: a column each, within what a page holds."""
    return float(np.clip(0.17 * games, 4.2, 9.6))


def _check_support(num_support: int, games: int) -> None:
    accepted_values = f"0 to the number of games, {games}"
    check(0 <= num_support <= games, "num_support", num_support, accepted_values)


def _check_structure(
    x: NDArray[np.float64],
    z: NDArray[np.int64],
    mean: NDArray[np.float64],
    sigma: NDArray[np.float64],
    count: NDArray[np.int64],
) -> None:
    check_array(x.ndim == 2 and x.size > 0, "stimuli", x, "float[G, N_dim]")
    dims = x.shape[1]
    for name, values, shape in (("latents", z, x.shape), ("num_values", count, (dims,))):
        fits = values.shape == shape and np.issubdtype(values.dtype, np.integer)
        check_array(fits, name, values, f"int{[*shape]}")
    for name, table in (("means", mean), ("sigmas", sigma)):
        fits = table.ndim == 2 and table.shape[0] == dims and table.shape[1] >= count.max()
        check_array(fits, name, table, f"float[{dims}, V], V >= {count.max()}")
    if count.min() < 1 or z.min() < 0 or np.any(z >= count):
        raise ValueError(
            f"latents: got {z.min(0).tolist()} to {z.max(0).tolist()}; accepted: 0 to "
            f"{(count - 1).tolist()}, as num_values says"
        )
    for i in range(dims):
        used = sigma[i, : count[i]]
        check(not np.any(used <= 0), f"sigmas[{i}]", used, "positive ones")
