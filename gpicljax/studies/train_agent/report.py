"""The tables, the figures, the film, the page and the saved agents of `train_agent.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import ICLCurve, icl_curve
from gpicljax.evaluation.returns import EpisodeReturns
from gpicljax.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    format_interval,
    mean_interval,
)
from gpicljax.evaluation.tables import (
    Row,
    join_paragraphs,
    markdown_table,
    results_table,
    seeds_legend,
)
from gpicljax.play.drawing import draw_episode, write_replay
from gpicljax.runtime import Report, RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.studies.train_agent.config import GOALS, SETTINGS
from gpicljax.studies.train_agent.measures import arm_means, is_bandit
from gpicljax.viz.arms import arms_stage
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.style import save_figure

TRAINED, ELSEWHERE = "trained", "elsewhere"
"""The distributions over tasks that agents are evaluated on."""
NULLS = {"random": "random actions", "thompson": "Thompson sampling", "ucb1": "UCB1"}
"""Names of the nulls on the same tasks, by measure."""


class Player(NamedTuple):
    """An agent that was evaluated.

    Attributes:
      name: name in tables and figures.
      played: its episodes, leaves `[seeds, N]`; returns are NaN where a seed has broken.
      regrets: float `[seeds, N / E, E, T]`, regret of every pull of bandits; else None.
    """

    name: str
    played: EpisodeReturns
    regrets: np.ndarray | None


def episodes(
    outcome: RunResult, player: str, cell: int = 0, distribution: str = TRAINED
) -> EpisodeReturns:
    """Returns the episodes of `"greedy"` agents, or of `"random"` actions on the same tasks.

    Leaves are `[seeds, N]`, those of one cell; returns are NaN where a seed has broken.
    """
    count = outcome.config.evaluation_episodes
    played = jax.tree.map(lambda x: x[:, :count], outcome.measured[distribution][player].episodes)
    if player == "greedy":
        played = played._replace(returns=outcome.seeds(played.returns))
    return jax.tree.map(lambda x: x[_cell_slice(outcome, cell)], played)


def _cell_slice(outcome: RunResult, cell: int) -> slice:
    return slice(cell * outcome.config.seeds, (cell + 1) * outcome.config.seeds)


def players(outcome: RunResult, distribution: str = TRAINED) -> list[Player]:
    """Returns the agents, cell by cell, then all that they are compared with.

    Args:
      outcome: of the run.
      distribution: `TRAINED` or `ELSEWHERE`.
    """
    config = outcome.config

    def player(name: str, measure: str, cell: int = 0) -> Player:
        played = episodes(outcome, measure, cell, distribution)
        regrets = outcome.measured[distribution][measure].regrets
        if regrets is not None:
            trials = config.evaluation_episodes // config.episodes_per_trial
            regrets = np.asarray(regrets, np.float64)[_cell_slice(outcome, cell), :trials]
        return Player(name, played, regrets)

    cells = list(outcome.program.cells)
    agents = [player(name or config.algo, "greedy", i) for i, name in enumerate(cells)]
    nulls = [null for null in NULLS if null in outcome.measured[distribution]]
    return agents + [player(NULLS[null], null) for null in nulls]


def distributions(outcome: RunResult) -> dict[str, str]:
    """Returns the distributions over tasks of the evaluations, in words."""
    changed = " ".join(outcome.config.evaluation_params)
    return {TRAINED: ""} | ({ELSEWHERE: changed} if changed else {})


def seed_means(played: EpisodeReturns) -> np.ndarray:
    """Returns the mean return of every seed, `float64[seeds]`."""
    return np.asarray(played.returns, np.float64).mean(1)


def goal(config: Any) -> float | None:
    """Returns the mean return that tuned settings are to reach; None for another task."""
    tuned = SETTINGS.get((config.env, config.algo), {})
    is_tuned = all(
        getattr(config, name) == tuned.get(name, ()) for name in ("env_options", "env_params")
    )
    return GOALS.get(config.env) if tuned and is_tuned else None


# Tables ------------------------------------------------------------------------------------------


def _format(interval: Interval) -> str:
    if interval.count < 2:
        return f"{interval.mean:,.2f}"
    low, high = f"{interval.low:,.2f}", f"{interval.high:,.2f}"
    return f"{interval.mean:,.2f} ± {interval.std:,.2f} [{low}, {high}]"


def results_tables(outcome: RunResult) -> str:
    """Returns tables of returns with intervals, of agents and nulls, and of every seed."""
    config = outcome.config
    head = ["agent", "return", "length", "terminated / truncated / cut off, %"]
    rows, seeds = [], []
    for distribution, words in distributions(outcome).items():
        for i, (name, played, _) in enumerate(players(outcome, distribution)):
            ends = [
                100 * np.mean(x)
                for x in (played.terminated, played.truncated, played.is_unfinished)
            ]
            is_learner = i < len(outcome.program.cells)
            conditions = ["greedy"] if is_learner and outcome.history else []
            conditions += [f"on {words}"] if words else []
            returns, length = _format(mean_interval(seed_means(played))), np.mean(played.lengths)
            cells = [returns, f"{length:,.1f}", " / ".join(f"{x:.0f}" for x in ends)]
            kind = "learner" if is_learner else "rule"
            rows.append(Row(name, kind, cells, ", ".join(conditions)))
    for i, cell in enumerate(outcome.program.cells):
        for seed, returns in enumerate(episodes(outcome, "greedy", i).returns):
            low, high = bootstrap_interval(_trial_means(config, returns))
            ends = f"{returns.min():,.2f}", f"{returns.max():,.2f}"
            mean = format_interval(returns.mean(), low, high, ",.2f")
            seeds.append([f"{f'{cell}, ' * bool(cell)}{seed}", mean, *ends])
    seed_head = ["seed", "mean return [95 % bootstrap interval over trials]", "least", "greatest"]
    return join_paragraphs(results_table(head, rows), markdown_table(seed_head, seeds))


def _trial_means(config: Any, returns: np.ndarray) -> np.ndarray:
    """Returns the mean returns of trials, `float[N] -> float[N / E]`."""
    return returns.reshape(-1, config.episodes_per_trial).mean(1)


def evaluations(outcome: RunResult) -> list[dict[str, Any]]:
    """Returns the evaluation of each saved agent, for its card."""
    config, results = outcome.config, []
    for cell in range(len(outcome.program.cells)):
        for returns in episodes(outcome, "greedy", cell).returns:
            results.append(
                {
                    "mean_return": returns.mean(),
                    "interval": list(bootstrap_interval(_trial_means(config, returns))),
                    "episodes": returns.size,
                    "episodes_per_trial": config.episodes_per_trial,
                    "max_steps": config.evaluation_steps,
                }
            )
    return results


# Over a trial ------------------------------------------------------------------------------------


def returns_by_episode(config: Any, player: Player) -> np.ndarray:
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


def mean_curve(values: np.ndarray) -> tuple[ICLCurve, str]:
    """Returns the mean over a trial of float `[seeds, trials, P]`, and a note on its interval.

    Seeds, where there are three of them or more; else all trials.
    """
    seeds = len(values)
    samples = values.mean(1) if seeds >= 3 else values.reshape(-1, values.shape[-1])
    over = "seeds" if seeds >= 3 else "trials"
    return icl_curve(samples, np.isfinite(samples)), f"95 % t-intervals over {len(samples)} {over}"


def draw_trials(outcome: RunResult, distribution: str, words: str) -> list[str]:
    """Draws returns by episode and regret by pull, where there are such; returns them in words."""
    config, played_by_all, notes = outcome.config, players(outcome, distribution), []
    on = f", on {words}" if words else ""
    about = f"{config.algo} on {config.env}" + (f", {words}" if words else "")

    def draw(
        measure: Callable[[Any, Player], np.ndarray], name: str, xlabel: str, ylabel: str
    ) -> tuple[dict[str, ICLCurve], str]:
        """Draws the curve of each player; returns the curves, and a note on their intervals."""
        results = {player.name: mean_curve(measure(config, player)) for player in played_by_all}
        curves = {player: line for player, (line, _) in results.items()}
        over = next(iter(results.values()))[1]
        figure = icl_figure(curves, xlabel=xlabel, ylabel=f"{ylabel}; {over}", title=about)
        save_figure(figure, outcome.run.figures / name)
        return curves, over

    ending = "_elsewhere" * (distribution == ELSEWHERE)
    if config.episodes_per_trial > 1:
        name = f"by_episode{ending}.png"
        curves, _ = draw(returns_by_episode, name, "episodes seen in the trial", "return")
        means = "; ".join(
            f"{player} {' '.join(f'{x:,.2f}' for x in _thin_out(line.mean))}"
            for player, line in curves.items()
        )
        notes.append(
            f"By episode of the trial{on}, from 1 to {config.episodes_per_trial} "
            f"(`figures/{name}`): {means}."
        )
    if played_by_all[0].regrets is not None:
        name = f"regret{ending}.png"
        curves, over = draw(regret_by_pull, name, "pulls in the trial", "cumulative regret")
        ends = "; ".join(
            f"{player} {format_interval(line.mean[-1], line.low[-1], line.high[-1], ',.2f')}"
            for player, line in curves.items()
        )
        pulls = len(next(iter(curves.values())).mean) - 1
        notes.append(f"Regret of a trial's {pulls} pulls{on} (`figures/{name}`): {ends}; {over}.")
    return notes


def _thin_out(values: np.ndarray) -> np.ndarray:
    """Returns at most eight of the values, from the first to the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, 8).round().astype(int))]


# Figures -----------------------------------------------------------------------------------------


def draw_learning(outcome: RunResult) -> None:
    """Draws the learning curves, if there are two points of them."""
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
    outcome.draw_learning(
        "return",
        baselines=shown,
        xlabel="environment steps per seed",
        ylabel=f"return, greedy, mean of {config.probe_episodes}",
        title=f"{config.algo} on {config.env}",
        ylim=(min(levels) - margin, max(levels) + margin),
    )


def film_episode(outcome: RunResult) -> str:
    """Films a greedy episode of the first sound seed, and writes its page; returns a sentence."""
    config, env = outcome.config, outcome.program.more
    agent_name, episode_of_seeds = outcome.first_sound(outcome.measured[TRAINED]["greedy"].look)
    episode = jax.tree.map(lambda x: x[0], episode_of_seeds)
    drawing = draw_episode(env, episode)
    if is_bandit(env):
        arms, means = env.action_space().n, arm_means(env, episode.task)
        taken = episode.actions[: int(episode.length)]
        drawing = drawing._replace(stage=arms_stage(taken, drawing.rewards, arms, means))
    page = write_replay(outcome, drawing, agent_name)
    if not config.film_frames or not env.can_render:
        none = f"{config.env} draws no pictures" if config.film_frames else "none was asked for"
        return f"{page} No film: {none}."
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
    films = f"`figures/episode.gif` films it in {len(chosen)} frames"
    return f"{page} {films}; `figures/episode.png` has stills."


# The report --------------------------------------------------------------------------------------


def report(outcome: RunResult) -> Report:
    """Draws figures and film; returns the summary and its numbers."""
    config, cells = outcome.config, outcome.program.cells
    draw_learning(outcome)
    trials = [
        note
        for name, words in distributions(outcome).items()
        for note in draw_trials(outcome, name, words)
    ]
    film = film_episode(outcome)
    side_by_side = f" of each of {len(cells)} settings" if len(cells) > 1 else ""
    goals = []
    if (target := goal(config)) is not None:
        for i, cell in enumerate(cells):
            means = seed_means(episodes(outcome, "greedy", i))
            prefix = f"{cell}: " * bool(cell)
            goals.append(
                f"{prefix}Goal {target:,.0f}: {np.sum(means >= target)} of {len(means)} seeds."
            )
    text = join_paragraphs(
        f"# {outcome.program.title}",
        f"Undiscounted return of {config.evaluation_episodes} whole episodes per seed on fresh "
        f"tasks: {seeds_legend(config.seeds)}{side_by_side}.",
        results_tables(outcome),
        *trials,
        *goals,
        outcome.training_note("environment steps") if outcome.observations else "",
        f"{film} Every seed's agent is in `agents/`; `gpicljax.runs.load_agent` reads it.",
    )
    return Report(text, summary_numbers(outcome), evaluations(outcome))


def summary_numbers(outcome: RunResult) -> dict[str, Any]:
    """Returns the numbers of `summary.json`: `return` of the first cell, `cells` of all."""
    cells = outcome.program.cells

    def returns(player: str, cell: int = 0, distribution: str = TRAINED) -> dict[str, Any]:
        means = seed_means(episodes(outcome, player, cell, distribution))
        return {"seeds": means, **vars(mean_interval(means))}

    def returns_of_all(distribution: str) -> dict[str, Any]:
        nulls = [null for null in NULLS if null in outcome.measured[distribution]]
        results = {"return": returns("greedy", 0, distribution)}
        results |= {null: returns(null, 0, distribution) for null in nulls}
        if len(cells) > 1:
            results["cells"] = {n: returns("greedy", i, distribution) for i, n in enumerate(cells)}
        return results

    results = {
        "goal": goal(outcome.config),
        "cut_share": float(np.mean(episodes(outcome, "greedy").is_unfinished)),
        "observations": outcome.observations,
        "observations_per_s": outcome.speed,
        "parameters": outcome.parameters,
        **returns_of_all(TRAINED),
    }
    if ELSEWHERE in distributions(outcome):
        params = list(outcome.config.evaluation_params)
        results["elsewhere"] = {"params": params, **returns_of_all(ELSEWHERE)}
    return results
