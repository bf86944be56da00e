"""The table, the figures, the film and the saved agents of `train_agent.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from train_agent_settings import GOALS, SETTINGS

from gpicljax.evaluation.returns import EpisodeReturns, record_episode
from gpicljax.evaluation.statistics import Interval, bootstrap_interval, mean_interval
from gpicljax.runtime import (
    FAST_COMPILE,
    RunDirectory,
    provenance,
    save_agent,
    throughput,
    write_atomically,
    write_summary,
)
from gpicljax.runtime.dry_run import parameter_count
from gpicljax.viz.curves import learning_curves
from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.style import save_figure


@dataclasses.dataclass(frozen=True)
class Results:
    """What a run measured.

    Attributes:
      played: the greedy agents' episodes, leaves `[seeds, N]`.
      random: those of random actions on the same tasks.
      params: the agents' parameters, leaves `[seeds, ...]`.
      history: the log.
      observations_per_chunk: environment steps of one seed in one chunk.
    """

    played: EpisodeReturns
    random: EpisodeReturns
    params: Any
    history: Sequence[Mapping[str, Any]]
    observations_per_chunk: int


def seed_means(episodes: EpisodeReturns) -> np.ndarray:
    """Mean return of every seed, `float64[seeds]`."""
    return np.asarray(episodes.returns, np.float64).mean(1)


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


def table(results: Results, config: Any) -> str:
    """Returns with intervals, of the agents and of random actions, and how episodes ended."""

    def row(name: str, episodes: EpisodeReturns) -> str:
        ends = [f"{100 * np.mean(x):.0f}" for x in (episodes.terminated, episodes.truncated)] + [
            f"{100 * np.mean(~(episodes.terminated | episodes.truncated)):.0f}"
        ]
        return (
            f"| {name} | {_said(mean_interval(seed_means(episodes)))} | "
            f"{np.mean(episodes.lengths):,.1f} | {' / '.join(ends)} |"
        )

    lines = [
        "| agent | return | length | terminated / truncated / cut off, % |",
        "|---|---|---|---|",
        row(f"**{config.algo}**" + (", greedy" if results.history else ""), results.played),
        row("random actions", results.random),
        "",
        "| seed | mean return [95 % bootstrap interval over trials] | least | greatest |",
        "|---|---|---|---|",
    ]
    for seed, returns in enumerate(np.asarray(results.played.returns, np.float64)):
        trials = returns.reshape(-1, config.episodes_per_trial).mean(1)
        low, high = bootstrap_interval(trials)
        lines.append(
            f"| {seed} | {returns.mean():,.2f} [{low:,.2f}, {high:,.2f}] | "
            f"{returns.min():,.2f} | {returns.max():,.2f} |"
        )
    if config.episodes_per_trial > 1:
        by_episode = [
            np.reshape(x.returns, (-1, config.episodes_per_trial)).mean(0)
            for x in (results.played, results.random)
        ]
        said = [" ".join(f"{x:,.2f}" for x in means) for means in by_episode]
        lines += ["", f"By episode of the trial: {said[0]} (random actions: {said[1]})."]
    return "\n".join(lines)


def draw_learning(run: RunDirectory, results: Results, config: Any) -> None:
    """The learning curve, if there are two points of it."""
    count = len(results.history)
    if count < 2:
        return
    steps = results.observations_per_chunk * np.arange(1, count + 1)
    curve = np.asarray([row["return"] for row in results.history], np.float64).T[: config.seeds]
    low, high = float(curve.min()), float(curve.max())
    lines = {"random": float(seed_means(results.random).mean())}
    target = goal(config)
    lines |= {} if target is None else {"goal": target}
    # A level far outside would flatten the curve, and so would the interval of two or three seeds.
    room = max(high - low, 1e-9)
    shown = {name: y for name, y in lines.items() if low - room / 2 <= y <= high + room / 2}
    levels = [low, high, *shown.values()]
    margin = 0.06 * max(max(levels) - min(levels), 1e-9)
    figure = learning_curves(
        steps,
        curve,
        baselines=shown,
        xlabel="environment steps per seed",
        ylabel=f"return, greedy, mean of {config.probe_episodes}",
        title=f"{config.algo} on {config.env}",
        ylim=(min(levels) - margin, max(levels) + margin),
    )
    save_figure(figure, run.figures / "learning.png")


def draw_film(run: RunDirectory, results: Results, study: Any, config: Any) -> str:
    """Films one greedy episode of the first seed; returns what became of it, in words."""
    if config.film_frames == 0:
        return "No film was asked for."
    if not hasattr(study.env, "render"):
        return f"No film: {config.env} draws no pictures."
    params = jax.tree.map(lambda x: x[0], results.params)

    def play(key: jax.Array, params: Any) -> Any:
        agent = study.trainer.agent(greedy=True)
        limit = config.evaluation_steps
        return record_episode(
            key, study.env, agent, params, max_steps=limit, env_params=study.env_params
        )

    key = jax.random.fold_in(jax.random.key(config.seed), 2)
    episode = jax.jit(play, compiler_options=FAST_COMPILE)(key, params)
    length, total = int(episode.length), float(episode.rewards.sum())
    chosen = choose_frames(length, config.film_frames)
    frames = render_frames(study.env.render, episode.states, episode.task, chosen)
    speed = float(np.clip(len(chosen) / 8, 3, 20))
    film = animation(frames, frames_per_second=speed)
    write_atomically(run.figures / "episode.gif", film)
    stills = np.unique(np.linspace(0, len(chosen) - 1, 8).round().astype(int))
    title = f"{config.algo} on {config.env}: {length} steps, return {total:,.1f}"
    figure = contact_sheet(
        frames[stills], labels=[f"step {i}" for i in chosen[stills]], title=title
    )
    save_figure(figure, run.figures / "episode.png")
    return (
        f"`figures/episode.gif`: an episode of seed 0 ({length} steps, return {total:,.2f}) in "
        f"{len(chosen)} frames; `figures/episode.png`: stills of it."
    )


def save_agents(run: RunDirectory, results: Results, study: Any, config: Any, env: dict) -> None:
    """Saves the agent of every seed, with its evaluation."""
    origin = provenance()
    for seed, returns in enumerate(np.asarray(results.played.returns, np.float64)):
        low, high = bootstrap_interval(returns.reshape(-1, config.episodes_per_trial).mean(1))
        save_agent(
            run.path / "agents" / f"seed_{seed}",
            algorithm=config.algo,
            env_id=config.env,
            env_options=env,
            env_params=study.env_params,
            num_envs=config.num_envs,
            config=config.agent,
            network=config.network,
            params=jax.tree.map(lambda x, i=seed: x[i], results.params),
            evaluation={
                "mean_return": returns.mean(),
                "interval": [low, high],
                "episodes": returns.size,
                "episodes_per_trial": config.episodes_per_trial,
                "max_steps": config.evaluation_steps,
            },
            training={
                "seed": config.seed,
                "lane": seed,
                "observations": len(results.history) * results.observations_per_chunk,
            },
            provenance=origin,
        )


def report(run: RunDirectory, results: Results, study: Any, config: Any, env: dict) -> str:
    """Saves agents, figures, film and summary, and returns what to print."""
    save_agents(run, results, study, config, env)
    draw_learning(run, results, config)
    film = draw_film(run, results, study, config)
    means, nulls = seed_means(results.played), seed_means(results.random)
    observations = len(results.history) * results.observations_per_chunk
    options = " ".join((*config.env_options, *config.env_params))
    size = parameter_count(results.params) // config.seeds
    target = goal(config)
    text = [
        f"# {config.algo} on {config.env}" + (f" ({options})" if options else ""),
        "",
        f"Undiscounted return of {config.evaluation_episodes} whole episodes per seed on fresh "
        f"tasks: mean ± standard deviation [95 % t-interval] over {config.seeds} seed(s).",
        "",
        table(results, config),
        "",
    ]
    if target is not None:
        text += [f"Goal {target:,.0f}: {np.sum(means >= target)} of {means.size} seeds.", ""]
    if observations:
        rate = throughput(results.history)
        text.append(
            f"{observations:,} environment steps per seed"
            + (f", {rate:,.0f} per second over all seeds, probes included" if rate > 0 else "")
            + f"; {size:,} parameters each."
        )
    text += [film, "Every seed's agent is in `agents/`; `gpicljax.runtime.load_agent` reads it."]
    numbers = {
        "return": {"seeds": means.tolist(), **dataclasses.asdict(mean_interval(means))},
        "random": {"seeds": nulls.tolist(), **dataclasses.asdict(mean_interval(nulls))},
        "goal": target,
        "cut_share": float(np.mean(~(results.played.terminated | results.played.truncated))),
        "observations": observations,
        "observations_per_s": throughput(results.history),
        "parameters": size,
    }
    write_summary(run, numbers, "\n".join(text))
    return "\n".join(text) + f"\n\nFigures, agents and summary: {run.path}"
