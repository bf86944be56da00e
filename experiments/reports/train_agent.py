"""The table, the figures, the film and the saved agents of `train_agent.py`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from train_agent_settings import GOALS, SETTINGS

from gpicljax.evaluation.returns import EpisodeReturns
from gpicljax.evaluation.statistics import Interval, bootstrap_interval, mean_interval
from gpicljax.runtime import Outcome, Report, throughput, write_atomically
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.style import save_figure


def episodes(outcome: Outcome, measure: str) -> EpisodeReturns:
    """The episodes of `"greedy"` agents, or of `"random"` actions on the same tasks.

    Leaves are `[seeds, N]`; returns are NaN where a seed has broken.
    """
    count = outcome.config.evaluation_episodes
    played = jax.tree.map(lambda x: x[:, :count], outcome.measured[measure].episodes)
    if measure == "random":
        return played
    return played._replace(returns=outcome.seeds(played.returns))


def seed_means(played: EpisodeReturns) -> np.ndarray:
    """Mean return of every seed, `float64[seeds]`."""
    return np.asarray(played.returns, np.float64).mean(1)


def goal(config: Any) -> float | None:
    """The mean return that tuned settings are to reach; None for another task."""
    tuned = SETTINGS.get((config.env, config.algo), {})
    same = all(
        getattr(config, name) == tuned.get(name, ()) for name in ("env_options", "env_params")
    )
    return GOALS.get(config.env) if tuned and same else None


def _said(interval: Interval) -> str:
    if interval.count < 2:
        return f"{interval.mean:,.2f}"
    return f"{interval.mean:,.2f} ± {interval.std:,.2f} [{interval.low:,.2f}, {interval.high:,.2f}]"


def table(outcome: Outcome) -> str:
    """Returns with intervals, of the agents and of random actions, and how episodes ended."""
    config = outcome.config
    greedy, null = episodes(outcome, "greedy"), episodes(outcome, "random")

    def row(name: str, played: EpisodeReturns) -> str:
        ends = [100 * np.mean(x) for x in (played.terminated, played.truncated, played.cut)]
        return (
            f"| {name} | {_said(mean_interval(seed_means(played)))} | "
            f"{np.mean(played.lengths):,.1f} | {' / '.join(f'{x:.0f}' for x in ends)} |"
        )

    lines = [
        "| agent | return | length | terminated / truncated / cut off, % |",
        "|---|---|---|---|",
        row(f"**{config.algo}**" + (", greedy" if outcome.history else ""), greedy),
        row("random actions", null),
        "",
        "| seed | mean return [95 % bootstrap interval over trials] | least | greatest |",
        "|---|---|---|---|",
    ]
    for seed, returns in enumerate(np.asarray(greedy.returns, np.float64)):
        trials = returns.reshape(-1, config.episodes_per_trial).mean(1)
        low, high = bootstrap_interval(trials)
        lines.append(
            f"| {seed} | {returns.mean():,.2f} [{low:,.2f}, {high:,.2f}] | "
            f"{returns.min():,.2f} | {returns.max():,.2f} |"
        )
    if config.episodes_per_trial > 1:
        by_episode = [
            np.nanmean(np.reshape(x.returns, (-1, config.episodes_per_trial)), axis=0)
            for x in (greedy, null)
        ]
        said = [" ".join(f"{x:,.2f}" for x in means) for means in by_episode]
        lines += ["", f"By episode of the trial: {said[0]} (random actions: {said[1]})."]
    return "\n".join(lines)


def draw_learning(outcome: Outcome) -> None:
    """The learning curve, if there are two points of it."""
    config = outcome.config
    if len(outcome.history) < 2:
        return
    curve = outcome.curve("return")
    low, high = float(np.nanmin(curve)), float(np.nanmax(curve))
    lines = {"random": float(seed_means(episodes(outcome, "random")).mean())}
    target = goal(config)
    lines |= {} if target is None else {"goal": target}
    # A level far outside would flatten the curve, and so would the interval of two or three seeds.
    room = max(high - low, 1e-9)
    shown = {name: y for name, y in lines.items() if low - room / 2 <= y <= high + room / 2}
    levels = [low, high, *shown.values()]
    margin = 0.06 * max(max(levels) - min(levels), 1e-9)
    figure = learning_curves(
        outcome.steps,
        curve,
        baselines=shown,
        xlabel="environment steps per seed",
        ylabel=f"return, greedy, mean of {config.probe_episodes}",
        title=f"{config.algo} on {config.env}",
        ylim=(min(levels) - margin, max(levels) + margin),
    )
    save_figure(figure, outcome.run.figures / "learning.png")


def draw_film(outcome: Outcome) -> str:
    """Films one greedy episode of the first seed; returns what became of it, in words."""
    config, env = outcome.config, outcome.program.more
    played = outcome.measured["greedy"]
    if played.look is None:
        asked = f"No film: {config.env} draws no pictures."
        return asked if config.film_frames else "No film was asked for."
    task, states = jax.tree.map(lambda x: x[0, 0], played.look)
    first = jax.tree.map(lambda x: x[0, 0], played.episodes)
    length, total = int(first.lengths), float(first.returns)
    chosen = choose_frames(length, config.film_frames)
    frames = render_frames(env.render, states, task, chosen)
    speed = float(np.clip(len(chosen) / 8, 3, 20))
    gif = animation(frames, frames_per_second=speed)
    write_atomically(outcome.run.figures / "episode.gif", gif)
    stills = np.unique(np.linspace(0, len(chosen) - 1, 8).round().astype(int))
    title = f"{config.algo} on {config.env}: {length} steps, return {total:,.1f}"
    figure = contact_sheet(
        frames[stills], labels=[f"step {i}" for i in chosen[stills]], title=title
    )
    save_figure(figure, outcome.run.figures / "episode.png")
    return (
        f"`figures/episode.gif`: an episode of seed 0 ({length} steps, return {total:,.2f}) in "
        f"{len(chosen)} frames; `figures/episode.png`: stills of it."
    )


def evaluations(outcome: Outcome) -> list[dict[str, Any]]:
    """What every saved agent's card says of how well it does."""
    config, found = outcome.config, []
    for returns in np.asarray(episodes(outcome, "greedy").returns, np.float64):
        interval = bootstrap_interval(returns.reshape(-1, config.episodes_per_trial).mean(1))
        found.append(
            {
                "mean_return": returns.mean(),
                "interval": list(interval),
                "episodes": returns.size,
                "episodes_per_trial": config.episodes_per_trial,
                "max_steps": config.evaluation_steps,
            }
        )
    return found


def report(outcome: Outcome) -> Report:
    """Draws figures and film, and says what was found."""
    config = outcome.config
    draw_learning(outcome)
    film = draw_film(outcome)
    greedy = episodes(outcome, "greedy")
    means, nulls = seed_means(greedy), seed_means(episodes(outcome, "random"))
    target = goal(config)
    text = [
        f"# {outcome.program.title}",
        "",
        f"Undiscounted return of {config.evaluation_episodes} whole episodes per seed on fresh "
        f"tasks: mean ± standard deviation [95 % t-interval] over {config.seeds} seed(s).",
        "",
        table(outcome),
        "",
    ]
    if target is not None:
        text += [f"Goal {target:,.0f}: {np.sum(means >= target)} of {means.size} seeds.", ""]
    if outcome.observations:
        rate = throughput(outcome.history)
        text.append(
            f"{outcome.observations:,} environment steps per seed"
            + (f", {rate:,.0f} per second over all seeds, probes included" if rate > 0 else "")
            + f"; {outcome.parameters:,} parameters each."
        )
    text += [film, "Every seed's agent is in `agents/`; `gpicljax.runtime.load_agent` reads it."]
    numbers = {
        "return": {"seeds": means.tolist(), **dataclasses.asdict(mean_interval(means))},
        "random": {"seeds": nulls.tolist(), **dataclasses.asdict(mean_interval(nulls))},
        "goal": target,
        "cut_share": float(np.mean(greedy.cut)),
        "observations": outcome.observations,
        "observations_per_s": throughput(outcome.history),
        "parameters": outcome.parameters,
    }
    return Report("\n".join(text), numbers, evaluations(outcome))
