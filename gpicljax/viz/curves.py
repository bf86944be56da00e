"""Learning curves over seeds, in-context learning curves, and bars that compare agents."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array
from gpicljax.evaluation.icl import ICLCurve, ICLProfile, icl_curve
from gpicljax.viz import style
from gpicljax.viz.style import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Limits = tuple[float | None, float | None]


def learning_curves(
    steps: ArrayLike | Mapping[str, ArrayLike],
    values: ArrayLike | Mapping[str, ArrayLike],
    *,
    baselines: Mapping[str, float] | None = None,
    xlabel: str = "environment steps",
    ylabel: str = "",
    title: str | None = None,
    confidence: float = 0.95,
    percent: bool = False,
    ylim: Limits = (None, None),
) -> "Figure":
    """A measure over training: every seed thin, the mean bold, the t-interval over seeds shaded.

    Args:
      steps: `float[T]`, ascending, shared by all agents; or one such array for each, by name.
      values: `float[seeds, T]`, or several agents by name; NaN where a seed has no value.
      baselines: reference levels by name, drawn dashed and labelled at the right edge.
      xlabel: name of the horizontal axis.
      ylabel: name of the vertical axis.
      title: title, or none.
      confidence: coverage of the shaded interval, in (0, 1).
      percent: show fractions as per cent.
      ylim: vertical limits; None leaves an end to the data.

    Returns:
      A matplotlib figure with one axes; `style.save_figure` writes it.

    Raises:
      ValueError: if `steps` is not `[T]`, does not ascend or lacks an agent, `values` is not
        `[seeds, T]` or has no data, or there is no agent.

    Example:
      >>> import numpy as np
      >>> steps, returns = np.arange(1, 6) * 1000, np.random.default_rng(0).normal(size=(3, 5))
      >>> figure = learning_curves(steps, {"ppo": returns}, baselines={"random": 0.0})
    """
    agents = cast(Mapping[str, ArrayLike], values if isinstance(values, Mapping) else {"": values})
    axis = dict(steps) if isinstance(steps, Mapping) else dict.fromkeys(agents, steps)
    check(set(axis) == set(agents), "steps", [*axis], f"the agents, {[*agents]}")
    axis = {name: np.asarray(x, np.float64) for name, x in axis.items()}
    for x in axis.values():
        ascending = x.ndim == 1 and x.size >= 2 and not np.any(np.diff(x) <= 0)
        check_array(ascending, "steps", x, "float[T], T >= 2, ascending")
    check(agents, "values", values, "float[seeds, T] or at least one of them")
    runs = {name: np.asarray(v, np.float64) for name, v in agents.items()}
    for name, run in runs.items():
        suffix, moments = f" of {name!r}" if name else "", axis[name].size
        fits = run.ndim == 2 and run.shape[1] == moments
        check_array(fits, f"values{suffix}", run, f"float[seeds, {moments}], as steps")

    figure = style.new_figure(6.4, 3.7)
    axes = figure.add_subplot()
    style.style_axes(axes)
    labels: list[Label] = []
    for (name, run), colour in zip(runs.items(), style.colours(len(runs)), strict=True):
        x, curve = axis[name], icl_curve(run, np.isfinite(run), confidence=confidence)
        for seed in run:
            axes.plot(x, seed, color=colour, linewidth=0.8, alpha=0.3)
        # The interval of a few seeds may be far wider than what they differ in: it sets no axis.
        before = axes.dataLim.frozen()
        axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.14, linewidth=0)
        axes.dataLim.set(before)
        axes.plot(x, curve.mean, color=colour, linewidth=2.2, solid_capstyle="round")
        if name:
            labels.append(Label(name, _last(curve.mean), colour, bold=True))
    axes.set_xlim(min(x[0] for x in axis.values()), max(x[-1] for x in axis.values()))
    labels += _finish_axes(axes, baselines, ylim, percent=percent)
    style.name_axes(axes, xlabel, ylabel, title)
    style.label_right(axes, labels)
    return figure


def icl_figure(
    curves: ICLCurve | Mapping[str, ICLCurve],
    *,
    profile: ICLProfile | Mapping[str, ICLProfile] | None = None,
    baselines: Mapping[str, float] | None = None,
    xlabel: str = "games seen in the context",
    ylabel: str = "",
    title: str | None = None,
    percent: bool = False,
    log: bool = False,
    ylim: Limits = (None, None),
) -> "Figure":
    """In-context learning: the measure by context with its interval, and what sums it up.

    For a single curve the profile is drawn in full: zero-shot, asymptote with its band, potential,
    and horizon with its bootstrap interval. For several, a diamond marks each horizon and an
    arrowhead a horizon beyond the end.

    Args:
      curves: an `ICLCurve`, or several by name.
      profile: its `ICLProfile`, or profiles by the same names (not every curve needs one).
      baselines: reference levels by name, drawn dashed and labelled at the right edge.
      xlabel: name of the horizontal axis, with its unit.
      ylabel: name of the vertical axis.
      title: title, or none.
      percent: show fractions as per cent.
      log: logarithmic context, drawn at context + 1 so that zero-shot has a place.
      ylim: vertical limits; None leaves an end to the data.

    Returns:
      A matplotlib figure with one axes.

    Raises:
      ValueError: if there is no curve, or a profile has no curve of its name.

    Source: Figure 1 of the GPICL paper, with data.

    Example:
      >>> import numpy as np
      >>> from gpicljax.evaluation import icl_curve
      >>> curve = icl_curve(np.random.default_rng(0).random((20, 8)))
      >>> figure = icl_figure(curve, ylabel="accuracy")
    """
    named = dict(curves) if isinstance(curves, Mapping) else {"": curves}
    profiles = (
        dict(profile) if isinstance(profile, Mapping) else {} if profile is None else {"": profile}
    )
    check(named, "curves", named, "an ICLCurve or at least one by name")
    unknown = sorted(set(profiles) - set(named))
    check(not unknown, "profile", unknown, f"names of curves, {sorted(named)}")

    figure = style.new_figure(6.4, 3.9)
    axes = figure.add_subplot()
    style.style_axes(axes)
    shift = 1.0 if log else 0.0
    labels: list[Label] = []
    for (name, curve), colour in zip(named.items(), style.colours(len(named)), strict=True):
        x = curve.position + shift
        axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, curve.mean, color=colour, linewidth=1.8, solid_capstyle="round", zorder=3)
        if name:
            labels.append(Label(name, _last(curve.mean), colour, bold=True))
    ends = [float(x) for c in named.values() for x in (c.position[0], c.position[-1])]
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(ends) + shift, max(ends) + shift)
    else:
        axes.set_xlim(min(0.0, *ends), max(ends))
        axes.locator_params(axis="x", integer=True)
    labels += _finish_axes(axes, baselines, ylim, percent=percent)
    style.name_axes(axes, xlabel + (" + 1" if log else ""), ylabel, title)
    if len(named) == 1 and profiles:
        (only,), (curve,) = profiles.values(), named.values()
        if ylim == (None, None):
            _make_room(axes, below=only.asymptote.value > only.zero_shot.value)
        labels += _draw_profile(
            axes, curve, only, shift, percent=percent, avoid=list((baselines or {}).values())
        )
    elif profiles:
        for (name, curve), colour in zip(named.items(), style.colours(len(named)), strict=True):
            if name in profiles:
                _mark_horizon(axes, curve, profiles[name], shift, colour)
        _explain_marks(axes, [p.horizon.value for p in profiles.values()])
    style.label_right(axes, labels)
    return figure


def _draw_interval(axes: "Axes", row: int, low: float, high: float) -> None:
    # A white edge keeps the interval legible on its own bar.
    for ink, extra in (("white", 1.6), (style.INK, 0.0)):
        axes.plot(
            [low, high],
            [row, row],
            marker="|",
            color=ink,
            linewidth=1.3 + extra,
            markersize=7 + extra,
            markeredgewidth=1.3 + extra,
            clip_on=False,
            zorder=4,
        )


def _draw_seeds(axes: "Axes", row: int, seeds: np.ndarray) -> None:
    # A fixed fan instead of random jitter: the same data give the same picture.
    fan = np.linspace(-0.17, 0.17, seeds.size) if seeds.size > 1 else np.zeros(1)
    axes.scatter(
        seeds,
        row + fan,
        s=11,
        color="white",
        edgecolor=style.INK,
        linewidth=0.6,
        zorder=5,
        clip_on=False,
    )


def results_bars(
    names: Sequence[str],
    means: ArrayLike,
    lows: ArrayLike,
    highs: ArrayLike,
    *,
    samples: Sequence[ArrayLike] | None = None,
    reference: float | None = 0.5,
    highlight: Collection[str] = (),
    xlabel: str = "",
    title: str | None = None,
    percent: bool = True,
) -> "Figure":
    """Agents compared: one horizontal bar each, its interval, its seeds, and a reference line.

    Args:
      names: N agents, drawn from top to bottom.
      means: `float[N]`.
      lows: `float[N]`, lower ends of the intervals; NaN for none.
      highs: `float[N]`, upper ends.
      samples: the seeds behind each mean, N arrays, drawn as dots; or none.
      reference: the level of chance, a vertical line (0.5 in a yes-or-no game), or None.
      highlight: names to be drawn in colour; all, if empty.
      xlabel: name of the horizontal axis.
      title: title, or none.
      percent: show fractions as per cent; the axis then runs from 0 to 1.

    Returns:
      A matplotlib figure with one axes.

    Raises:
      ValueError: if there is no agent, the lengths differ, or `highlight` names an unknown agent.

    Example:
      >>> figure = results_bars(["agent", "random"], [0.94, 0.49], [0.93, 0.48], [0.95, 0.50])
    """
    mean, low, high = (np.asarray(v, np.float64) for v in (means, lows, highs))
    count = len(names)
    shapes = {"means": mean.shape, "lows": low.shape, "highs": high.shape}
    if samples is not None:
        shapes["samples"] = (len(samples),)
    for name, shape in shapes.items():
        fits = shape == (count,) and count > 0
        check(fits, name, [*shape], f"shape [N], N >= 1, for N = {count} names")
    unknown = sorted(set(highlight) - set(names))
    check(not unknown, "highlight", unknown, f"names, {[*names]}")

    figure = style.new_figure(6.4, 1.05 + 0.36 * count + (0.25 if title else 0))
    axes = figure.add_subplot()
    style.style_axes(axes, grid="x")
    axes.spines["left"].set_visible(False)
    rows = np.arange(count)
    for row, name in enumerate(names):
        strong = not highlight or name in highlight
        colour = style.PALETTE[0] if strong else "#b7bec6"
        axes.barh(row, mean[row], height=0.62, color=colour, linewidth=0)
        if np.isfinite(low[row]) and np.isfinite(high[row]):
            _draw_interval(axes, row, low[row], high[row])
        if samples is not None:
            _draw_seeds(axes, row, np.asarray(samples[row], np.float64).ravel())
    style.name_rows(axes, names, style.BODY)
    if percent:
        axes.set_xlim(0.0, 1.0)
    for row in rows:
        axes.annotate(
            style.number(float(mean[row]), percent) if np.isfinite(mean[row]) else "no data",
            xy=(1.0, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(8, 0),
            textcoords="offset points",
            fontsize=style.BODY,
            color=style.INK,
            va="center_baseline",
            annotation_clip=False,
        )
    if reference is not None:
        axes.axvline(reference, color=style.INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=6)
        axes.annotate(
            "chance",
            xy=(reference, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.MUTED,
            ha="center",
            va="bottom",
            annotation_clip=False,
        )
    axes.xaxis.set_major_formatter(style.tick(percent))
    style.name_axes(axes, xlabel, "", None)
    style.title_figure(figure, title)  # over the whole figure: the names need most of its width
    return figure


def _draw_profile(
    axes: "Axes",
    curve: ICLCurve,
    profile: ICLProfile,
    shift: float,
    *,
    percent: bool,
    avoid: Sequence[float],
) -> list[Label]:
    """Zero-shot, asymptote, potential and horizon of one curve; returns the margin's labels."""
    colour = style.PALETTE[0]
    zero, level, gap = profile.zero_shot, profile.asymptote, profile.potential
    half = profile.tolerance * abs(gap.value)
    axes.axhspan(level.value - half, level.value + half, color=colour, alpha=0.08, linewidth=0)
    axes.axhline(level.value, color=colour, linewidth=1.0, linestyle=(0, (5, 3)), zorder=2)
    axes.axhline(zero.value, color=style.MUTED, linewidth=0.9, linestyle=(0, (1, 2.2)), zorder=2)
    axes.plot(
        [float(curve.position[0]) + shift],
        [zero.value],
        "o",
        color="white",
        markeredgecolor=colour,
        markeredgewidth=1.8,
        markersize=6.5,
        clip_on=False,
        zorder=6,
    )
    if gap.value != 0:
        _draw_potential(axes, profile, shift, percent=percent, avoid=avoid)
    _draw_horizon(axes, profile, shift)
    return [
        Label(f"asymptote {style.number(level.value, percent)}", level.value, colour),
        Label(f"zero-shot {style.number(zero.value, percent)}", zero.value, style.MUTED),
    ]


def _draw_potential(
    axes: "Axes", profile: ICLProfile, shift: float, *, percent: bool, avoid: Sequence[float]
) -> None:
    """A double arrow from zero-shot to asymptote, named where no reference line runs."""
    zero, level, gap = profile.zero_shot.value, profile.asymptote.value, profile.potential.value
    # Clear of the horizon's line, which in a logarithmic context tends to stand at the right.
    across = _across(axes, profile.horizon.value + shift)
    at = across - 0.05 if abs(across - 0.955) < 0.05 else 0.955
    edge = axes.get_yaxis_transform()
    axes.annotate(
        "",
        xy=(at, level),
        xytext=(at, zero),
        xycoords=edge,
        textcoords=edge,
        arrowprops={
            "arrowstyle": "<|-|>,head_width=0.18,head_length=0.35",
            "color": style.INK,
            "linewidth": 0.9,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
    places = zero + (level - zero) * np.array([0.5, 0.42, 0.58, 0.34, 0.66, 0.26])
    clear = [min((abs(p - line) for line in avoid), default=np.inf) for p in places]
    room = 0.06 * abs(np.subtract(*axes.get_ylim()))
    place = next((p for p, c in zip(places, clear, strict=True) if c > room), places[0])
    text = style.number(100 * gap if percent else gap, percent=False)
    axes.annotate(
        f"potential {text}" + (" points" if percent else ""),
        xy=(at, place),
        xycoords=edge,
        xytext=(-6, 0),
        textcoords="offset points",
        fontsize=style.SMALL,
        color=style.INK,
        ha="right",
        va="center_baseline",
        bbox={"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"},
        zorder=7,
    )


def _draw_horizon(axes: "Axes", profile: ICLProfile, shift: float) -> None:
    """The horizon's line; its interval as a bar along the edge that the curve leaves free."""
    value, low, high = profile.horizon
    if np.isnan(value):
        return
    accent = style.PALETTE[1]
    end = axes.get_xlim()[1]
    below = profile.asymptote.value > profile.zero_shot.value
    rail = 0.03 if below else 0.97
    along = axes.get_xaxis_transform()
    if np.isfinite(low):
        reach = [low + shift, min(high + shift, end)]
        axes.plot(reach, [rail, rail], color=accent, alpha=0.35, linewidth=3.5, transform=along)
    if np.isfinite(value):
        at, text = value + shift, f"horizon {value:.4g}"
        axes.axvline(at, color=accent, linewidth=1.1, zorder=2)
        side = 1 if _across(axes, at) < 0.6 else -1
    else:
        at, text, side = end, f"horizon beyond {profile.length} \N{RIGHTWARDS ARROW}", -1
    axes.annotate(
        text,
        xy=(at, rail),
        xycoords=along,
        xytext=(5 * side, 4 if below else -4),
        textcoords="offset points",
        fontsize=style.SMALL,
        fontweight="bold",
        color=accent,
        ha="left" if side > 0 else "right",
        va="bottom" if below else "top",
        zorder=7,
    )


def _across(axes: "Axes", x: float) -> float:
    """Returns a position of the context as a share of the axes' width; NaN if it is outside."""
    if not np.isfinite(x):
        return float("nan")
    return float(axes.transAxes.inverted().transform(axes.transData.transform((x, 1.0)))[0])


def _make_room(axes: "Axes", *, below: bool) -> None:
    """Widens the vertical limits on one side by what the horizon's name needs."""
    low, high = axes.get_ylim()
    room = 0.09 * (high - low)
    axes.set_ylim(low - room * below, high + room * (not below))


def _explain_marks(axes: "Axes", horizons: Sequence[float]) -> None:
    """A legend for the marks on the curves, naming only those that were drawn."""
    from matplotlib.lines import Line2D

    kinds = {"D": ("horizon", np.isfinite), ">": ("horizon beyond the end", np.isinf)}
    handles = [
        Line2D([], [], marker=mark, color=style.MUTED, markersize=5.5, linestyle="", label=name)
        for mark, (name, drawn) in kinds.items()
        if np.any(drawn(horizons))
    ]
    if handles:
        axes.legend(
            handles=handles,
            frameon=False,
            fontsize=style.SMALL,
            labelcolor=style.MUTED,
            handletextpad=0.2,
        )


def _mark_horizon(
    axes: "Axes", curve: ICLCurve, profile: ICLProfile, shift: float, colour: str
) -> None:
    """Draws a diamond on the curve at its horizon, or an arrowhead at the end if it lies beyond."""
    value = profile.horizon.value
    if np.isnan(value):
        return
    finite = np.isfinite(value)
    is_finite = np.isfinite(curve.mean)
    at = value if finite else curve.position[is_finite][-1]
    level = np.interp(at, curve.position[is_finite], curve.mean[is_finite])
    axes.plot(
        [at + shift],
        [level],
        "D" if finite else ">",
        color=colour,
        markeredgecolor="white",
        markeredgewidth=1.2,
        markersize=8 if finite else 9,
        clip_on=False,
        zorder=6,
    )


def _finish_axes(
    axes: "Axes", baselines: Mapping[str, float] | None, ylim: Limits, *, percent: bool
) -> list[Label]:
    """Draws reference lines and sets limits and ticks; returns the lines' labels for the margin."""
    labels: list[Label] = []
    for name, level in (baselines or {}).items():
        axes.axhline(level, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
        labels.append(Label(name, level, style.MUTED))
    # Fixed, so that what is drawn or labelled later does not move the limits.
    low, high = axes.get_ylim()
    axes.set_ylim(low if ylim[0] is None else ylim[0], high if ylim[1] is None else ylim[1])
    axes.xaxis.set_major_formatter(style.big_number)
    axes.yaxis.set_major_formatter(style.tick(percent))
    return labels


def _last(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1])
