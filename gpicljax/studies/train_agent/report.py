"""The tables, the figures, the film, the page and the saved agents of `train_agent.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve
from gpicljax.evaluation.returns import EpisodeReturns
from gpicljax.evaluation.statistics import Interval, bootstrap_interval, mean_interval
from gpicljax.evaluation.tables import Row, markdown_table, results_table
from gpicljax.play.replay import write_replay
from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.studies.train_agent.config import GOALS, SETTINGS
from gpicljax.studies.train_agent.measures import arm_means, is_bandit
from gpicljax.viz.arms import arms_stage
from gpicljax.viz.curves import icl_figure, learning_curves
from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.style import save_figure

TRAINED, ELSEWHERE = "trained", "elsewhere"
"""The distributions over tasks that agents are evaluated on."""
NULLS = {"random": "random actions", "thompson": "Thompson sampling", "ucb1": "UCB1"}
"""What agents are compared with on the same tasks, by measure."""


class Player(NamedTuple):
    """An agent that was evaluated.

    Attributes:
      name: in tables and figures.
      played: its episodes, leaves `[seeds, N]`; returns are NaN where a seed has broken.
      regrets: of bandits, float `[seeds, N / E, E, T]`, of every pull; else None.
    """

    name: str
    played: EpisodeReturns
    regrets: np.ndarray | None


def episodes(
    outcome: RunResult, player: str, cell: int = 0, where: str = TRAINED
) -> EpisodeReturns:
    """The episodes of `"greedy"` agents, or of `"random"` actions on the same tasks.

    Leaves are `[seeds, N]`, those of one cell; returns are NaN where a seed has broken.
    """
    count = outcome.config.evaluation_episodes
    played = jax.tree.map(lambda x: x[:, :count], outcome.measured[where][player].episodes)
    if player == "greedy":
        played = played._replace(returns=outcome.seeds(played.returns))
    return jax.tree.map(lambda x: x[_lanes(outcome, cell)], played)


def _lanes(outcome: RunResult, cell: int) -> slice:
    return slice(cell * outcome.config.seeds, (cell + 1) * outcome.config.seeds)


def players(outcome: RunResult, where: str = TRAINED) -> list[Player]:
    """The agents, cell by cell, then all that they are compared with.

    Args:
      outcome: of the run.
      where: which tasks: `TRAINED` or `ELSEWHERE`.
    """
    config = outcome.config

    def player(name: str, measure: str, cell: int = 0) -> Player:
        played = episodes(outcome, measure, cell, where)
        regrets = outcome.measured[where][measure].regrets
        if regrets is not None:
            trials = config.evaluation_episodes // config.episodes_per_trial
            regrets = np.asarray(regrets, np.float64)[_lanes(outcome, cell), :trials]
        return Player(name, played, regrets)

    cells = list(outcome.program.cells)
    found = [player(name or config.algo, "greedy", i) for i, name in enumerate(cells)]
    nulls = [null for null in NULLS if null in outcome.measured[where]]
    return found + [player(NULLS[null], null) for null in nulls]


def distributions(outcome: RunResult) -> dict[str, str]:
    """The distributions over tasks that agents were evaluated on, in words, by `where`."""
    other = " ".join(outcome.config.evaluation_params)
    return {TRAINED: ""} | ({ELSEWHERE: other} if other else {})


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


# Tables ------------------------------------------------------------------------------------------


def _format(interval: Interval) -> str:
    if interval.count < 2:
        return f"{interval.mean:,.2f}"
    return f"{interval.mean:,.2f} ± {interval.std:,.2f} [{interval.low:,.2f}, {interval.high:,.2f}]"


def table(outcome: RunResult) -> str:
    """Returns with intervals, of agents and nulls, how episodes ended, and every seed."""
    config = outcome.config
    head = ["agent", "return", "length", "terminated / truncated / cut off, %"]
    rows, seeds = [], []
    for where, words in distributions(outcome).items():
        for i, (name, played, _) in enumerate(players(outcome, where)):
            ends = [100 * np.mean(x) for x in (played.terminated, played.truncated, played.cut)]
            is_learner = i < len(outcome.program.cells)
            conditions = ["greedy"] if is_learner and outcome.history else []
            conditions += [f"on {words}"] if words else []
            returns, length = _format(mean_interval(seed_means(played))), np.mean(played.lengths)
            cells = [returns, f"{length:,.1f}", " / ".join(f"{x:.0f}" for x in ends)]
            kind = "learner" if is_learner else "rule"
            rows.append(Row(name, kind, cells, ", ".join(conditions)))
    for i, cell in enumerate(outcome.program.cells):
        for seed, returns in enumerate(episodes(outcome, "greedy", i).returns):
            low, high = bootstrap_interval(_trials(config, returns))
            mean = f"{returns.mean():,.2f} [{low:,.2f}, {high:,.2f}]"
            ends = f"{returns.min():,.2f}", f"{returns.max():,.2f}"
            seeds.append([f"{f'{cell}, ' * bool(cell)}{seed}", mean, *ends])
    told = ["seed", "mean return [95 % bootstrap interval over trials]", "least", "greatest"]
    return "\n\n".join([results_table(head, rows), markdown_table(told, seeds)])


def _trials(config: Any, returns: np.ndarray) -> np.ndarray:
    """Mean returns of trials, `float[N] -> float[N / E]`."""
    return returns.reshape(-1, config.episodes_per_trial).mean(1)


def evaluations(outcome: RunResult) -> list[dict[str, Any]]:
    """What every saved agent's card says of how well it does."""
    config, found = outcome.config, []
    for cell in range(len(outcome.program.cells)):
        for returns in episodes(outcome, "greedy", cell).returns:
            found.append(
                {
                    "mean_return": returns.mean(),
                    "interval": list(bootstrap_interval(_trials(config, returns))),
                    "episodes": returns.size,
                    "episodes_per_trial": config.episodes_per_trial,
                    "max_steps": config.evaluation_steps,
                }
            )
    return found


# Over a trial ------------------------------------------------------------------------------------


def by_episode(config: Any, player: Player) -> np.ndarray:
    """Returns by episode of the trial, float `[seeds, N / E, E]`."""
    returns = np.asarray(player.played.returns, np.float64)
    return returns.reshape(len(returns), -1, config.episodes_per_trial)


def regret_by_pull(config: Any, player: Player) -> np.ndarray:
    """Regret of all pulls of a trial so far, float `[seeds, N / E, P + 1]`; NaN beyond its end."""
    assert player.regrets is not None
    regrets = player.regrets
    lengths = np.reshape(player.played.lengths, (*regrets.shape[:2], config.episodes_per_trial))
    pulled = np.arange(regrets.shape[-1]) < lengths[..., None]
    flat, pulled = (x.reshape(*x.shape[:2], -1) for x in (regrets, pulled))
    # Pulls first, whatever gaps short episodes have left.
    order = np.argsort(~pulled, axis=-1, kind="stable")
    flat, pulled = (np.take_along_axis(x, order, axis=-1) for x in (flat, pulled))
    total = np.where(pulled, flat, np.nan)[..., : pulled.sum(-1).max()].cumsum(-1)
    return np.concatenate([np.zeros((*total.shape[:2], 1)), total], axis=-1)


def curve(values: np.ndarray) -> tuple[ICLCurve, str]:
    """The mean over a trial of float `[seeds, trials, P]`, and what its interval is taken over.

    Seeds, where there are three of them or more; else all trials.
    """
    seeds = len(values)
    each = values.mean(1) if seeds >= 3 else values.reshape(-1, values.shape[-1])
    over = "seeds" if seeds >= 3 else "trials"
    return icl_curve(each, np.isfinite(each)), f"95 % t-intervals over {len(each)} {over}"


def draw_trials(outcome: RunResult) -> list[str]:
    """Returns by episode and regret by pull, where there are such; what is to be seen, in words."""
    config, said = outcome.config, []
    for where, words in distributions(outcome).items():
        ending, on = "_elsewhere" * (where == ELSEWHERE), f", on {words}" if words else ""
        about = f"{config.algo} on {config.env}" + (f", {words}" if words else "")
        played_by_all = players(outcome, where)
        if config.episodes_per_trial > 1:
            name = f"by_episode{ending}.png"
            each = {player.name: by_episode(config, player) for player in played_by_all}
            curves, _ = _draw(outcome, name, each, "episodes seen in the trial", "return", about)
            means = "; ".join(
                f"{player} {' '.join(f'{x:,.2f}' for x in _thinned(line.mean))}"
                for player, line in curves.items()
            )
            episodes_seen = f"from 1 to {config.episodes_per_trial}"
            said += [
                f"By episode of the trial{on}, {episodes_seen} (`figures/{name}`): {means}.",
                "",
            ]
        if played_by_all[0].regrets is not None:
            name = f"regret{ending}.png"
            each = {player.name: regret_by_pull(config, player) for player in played_by_all}
            curves, over = _draw(
                outcome, name, each, "pulls in the trial", "cumulative regret", about
            )
            ends = "; ".join(
                f"{player} {line.mean[-1]:,.2f} [{line.low[-1]:,.2f}, {line.high[-1]:,.2f}]"
                for player, line in curves.items()
            )
            pulls = len(next(iter(curves.values())).mean) - 1
            said += [
                f"Regret of a trial's {pulls} pulls{on} (`figures/{name}`): {ends}; {over}.",
                "",
            ]
    return said


def _draw(
    outcome: RunResult,
    name: str,
    values: Mapping[str, np.ndarray],
    xlabel: str,
    ylabel: str,
    about: str,
) -> tuple[dict[str, ICLCurve], str]:
    """Draws the curve of each player; returns them, and what their intervals are taken over."""
    found = {player: curve(each) for player, each in values.items()}
    curves, over = (
        {player: each for player, (each, _) in found.items()},
        next(iter(found.values()))[1],
    )
    figure = icl_figure(curves, xlabel=xlabel, ylabel=f"{ylabel}; {over}", title=about)
    save_figure(figure, outcome.run.figures / name)
    return curves, over


def _thinned(values: np.ndarray, most: int = 8) -> np.ndarray:
    """At most so many of the values, from the first to the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]


# Figures -----------------------------------------------------------------------------------------


def draw_learning(outcome: RunResult) -> None:
    """The learning curves, if there are two points of them."""
    config = outcome.config
    if len(outcome.history) < 2:
        return
    measured = outcome.curve("return")
    low, high = float(np.nanmin(measured)), float(np.nanmax(measured))
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
        {name: measured[_lanes(outcome, i)] for i, name in enumerate(outcome.program.cells)},
        baselines=shown,
        xlabel="environment steps per seed",
        ylabel=f"return, greedy, mean of {config.probe_episodes}",
        title=f"{config.algo} on {config.env}",
        ylim=(min(levels) - margin, max(levels) + margin),
    )
    save_figure(figure, outcome.run.figures / "learning.png")


def draw_episode(outcome: RunResult) -> str:
    """Films a greedy episode of the first sound seed, and writes its page; says so in words."""
    config, env = outcome.config, outcome.program.more
    whose, look = outcome.first_sound(outcome.measured[TRAINED]["greedy"].look)
    episode = jax.tree.map(lambda x: x[0], look)
    stage = None
    if is_bandit(env):
        taken = slice(int(episode.length))
        arms, means = env.action_space().n, arm_means(env, episode.task)
        stage = arms_stage(episode.actions[taken], episode.rewards[taken], arms, means)
    if not config.film_frames or not env.can_render:
        none = f"{config.env} draws no pictures" if config.film_frames else "none was asked for"
        return f"{write_replay(outcome, env, episode, whose, stage=stage)} No film: {none}."
    length, total = int(episode.length), episode.rewards.sum()
    chosen = choose_frames(length, config.film_frames)
    frames = render_frames(env.render, episode.states, episode.task, chosen)
    speed = float(np.clip(len(chosen) / 8, 3, 20))
    gif = animation(frames, frames_per_second=speed)
    write_atomically(outcome.run.figures / "episode.gif", gif)
    stills = np.unique(np.linspace(0, len(chosen) - 1, 8).round().astype(int))
    figure = contact_sheet(
        frames[stills],
        labels=[f"step {i}" for i in chosen[stills]],
        title=f"{config.algo} on {config.env}: {length} steps, return {total:,.1f}",
    )
    save_figure(figure, outcome.run.figures / "episode.png")
    return (
        f"{write_replay(outcome, env, episode, whose, frames=frames, frame_steps=chosen)} "
        f"`figures/episode.gif` films it in {len(chosen)} frames; `figures/episode.png` has stills."
    )


# The report --------------------------------------------------------------------------------------


def report(outcome: RunResult) -> Report:
    """Draws figures and film, and says what was found."""
    config, cells = outcome.config, outcome.program.cells
    draw_learning(outcome)
    trials = draw_trials(outcome)
    film = draw_episode(outcome)
    target = goal(config)
    side_by_side = f" of each of {len(cells)} settings" if len(cells) > 1 else ""
    text = [
        f"# {outcome.program.title}",
        "",
        f"Undiscounted return of {config.evaluation_episodes} whole episodes per seed on fresh "
        "tasks: mean ± standard deviation [95 % t-interval] over "
        f"{config.seeds} seed(s){side_by_side}.",
        "",
        table(outcome),
        "",
        *trials,
    ]
    if target is not None:
        for i, cell in enumerate(cells):
            means = seed_means(episodes(outcome, "greedy", i))
            of = f"{cell}: " * bool(cell)
            text += [
                f"{of}Goal {target:,.0f}: {np.sum(means >= target)} of {means.size} seeds.",
                "",
            ]
    if outcome.observations:
        rate = throughput(outcome.history)
        text.append(
            f"{outcome.observations:,} environment steps per seed"
            + (f", {rate:,.0f} per second over all seeds, probes included" if rate > 0 else "")
            + f"; {outcome.parameters:,} parameters each."
        )
    text += [film, "Every seed's agent is in `agents/`; `gpicljax.runs.load_agent` reads it."]
    return Report("\n".join(text), numbers(outcome), evaluations(outcome))


def numbers(outcome: RunResult) -> dict[str, Any]:
    """What the summary's JSON holds; `return` is that of the first cell, `cells` has all."""

    def returns(player: str, cell: int = 0, where: str = TRAINED) -> dict[str, Any]:
        means = seed_means(episodes(outcome, player, cell, where))
        return {"seeds": means.tolist(), **dataclasses.asdict(mean_interval(means))}

    def played_by_all(where: str) -> dict[str, Any]:
        found = {player: returns(player, 0, where) for player in outcome.measured[where]}
        return {"return": found.pop("greedy"), **found}

    cells = outcome.program.cells
    found = {
        "return": returns("greedy"),
        "goal": goal(outcome.config),
        "cut_share": float(np.mean(episodes(outcome, "greedy").cut)),
        "observations": outcome.observations,
        "observations_per_s": throughput(outcome.history),
        "parameters": outcome.parameters,
    }
    found |= {null: returns(null) for null in NULLS if null in outcome.measured[TRAINED]}
    if len(cells) > 1:
        found["cells"] = {name: returns("greedy", i) for i, name in enumerate(cells)}
    if ELSEWHERE in distributions(outcome):
        other = {"params": list(outcome.config.evaluation_params), **played_by_all(ELSEWHERE)}
        if len(cells) > 1:
            other["cells"] = {n: returns("greedy", i, ELSEWHERE) for i, n in enumerate(cells)}
        found["elsewhere"] = other
    return found
