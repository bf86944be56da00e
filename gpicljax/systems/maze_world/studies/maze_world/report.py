"""The tables and figures of `maze_world.py`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve, icl_profile
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.runtime import Report, RunResult
from gpicljax.spaces import Box
from gpicljax.storage.atomic import write_atomically
from gpicljax.systems.maze_world.data.demonstrations import MazeTrajectory, frames
from gpicljax.systems.maze_world.data.rules import MAP_FREE, ORACLE, PROGRAMS, RULES
from gpicljax.systems.maze_world.env.textures import LANDMARK_COLOURS
from gpicljax.systems.maze_world.env.types import Task
from gpicljax.systems.maze_world.experts.privileged import Rule
from gpicljax.systems.maze_world.figures.episode_page import maze_episode_page
from gpicljax.systems.maze_world.figures.reconstructions import (
    foresight_error_figure,
    foresight_figure,
)
from gpicljax.systems.maze_world.figures.trajectories import MazeEpisode, trajectory_figure
from gpicljax.systems.maze_world.measures.exploration import cells_visited
from gpicljax.systems.maze_world.measures.models import (
    FULL,
    curves_of,
    density_table,
    imitation_table,
    late_means,
    quarter_means,
    seen_tables,
)
from gpicljax.systems.maze_world.measures.probes import probe_table
from gpicljax.systems.maze_world.measures.world_model import STEPS_AHEAD, foresight_table
from gpicljax.systems.maze_world.studies.maze_world.measures import Measures
from gpicljax.viz.curves import icl_figure
from gpicljax.viz.style import save_figure

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")
SHOWN_RULES = ("random", "wall follower", "privileged, p = 25 %", "privileged, p = 100 %", ORACLE)
"""Beside the models in figures, as far as they exist; tables have them all."""
PAGE_STEPS = 512
"""Steps of the episode that is shown step by step."""


class Results:
    """The measurements of a run, by model.

    Args:
      outcome: of the run.
    """

    def __init__(self, outcome: RunResult) -> None:
        self.outcome, self.models = outcome, list(outcome.program.cells)
        contexts = itertools.product(outcome.config.contexts, outcome.config.tasks)
        self.full_context_models = [
            model for model, (steps, _) in zip(self.models, contexts, strict=True) if steps == 0
        ]
        measured: Measures = outcome.measured
        self.shown = self._by_model(measured.shown)
        self.densities = self._by_model(measured.densities)
        self.acted = self._by_model(measured.acted)
        self.wiped = self._by_model(measured.wiped)
        self.ahead = self._by_model(measured.ahead)
        self.acted_in_seen = self._by_model(measured.acted_in_seen)
        self.ahead_in_seen = self._by_model(measured.ahead_in_seen)
        self.probed = self._by_model(measured.probed)
        # The nats of continuous actions are those of a density: ratios of them mean nothing.
        self.compares_by_differences = isinstance(outcome.program.more.env.action_space(), Box)
        self.rules: Mapping[tuple[int, Rule], Mapping[str, MazeTrajectory]] = outcome.host_measured

    def programs(self, size: int) -> dict[str, np.ndarray]:
        """The programs' rewards, without steps' cost, by name."""
        played = self.rules[size, self.outcome.config.rules[0]]
        earned = self.outcome.program.more.without_step_costs
        return {name: earned(played[name].reward) for name in PROGRAMS if name in played}

    def _by_model(self, measured: Mapping[KeyT, ResultT]) -> dict[KeyT, dict[str, ResultT]]:
        """Results of each kind by model: leaves `[seeds, N, ...]`, of sound seeds alone."""
        sound = self.outcome.by_cell(self.outcome.sound)
        return {
            key: {
                model: jax.tree.map(lambda x, own=sound[model]: x[own], of_model)
                for model, of_model in self.outcome.by_cell(result).items()
            }
            for key, result in measured.items()
        }

    def position(self, pose: np.ndarray) -> np.ndarray:
        """Stored poses `[..., 3, T]` as places in cells, float `[..., T, 2]`."""
        place = np.moveaxis(pose[..., :2, :].astype(np.float64), -1, -2)
        if self.outcome.config.actions != "continuous":
            return place + 0.5
        size = self.outcome.config.sizes[0]
        return place / self.outcome.program.more.rules.mazes(size).cell_size[0]

    def episode(self, task: Task, size: int, pose: np.ndarray) -> MazeEpisode:
        """Stored poses `[3, T]` in a maze of so many cells a side, as they are drawn."""
        turn = 1 if self.outcome.config.actions == "continuous" else np.pi / 2
        return MazeEpisode(
            walls=task.walls[:size, :size],
            position=self.position(pose),
            heading=pose[2] * turn,
            landmarks=task.landmarks,
            colours=np.asarray(LANDMARK_COLOURS[: len(task.landmarks)], np.uint8),
        )

    def action(self, stored: np.ndarray) -> str:
        """Returns an action in words."""
        if self.outcome.config.actions == "continuous":
            return ", ".join(f"{x:.2f}" for x in stored)
        return ("stay", "turn left", "turn right", "back", "forward")[int(stored)]


def acting_table(results: Results, size: int) -> str:
    """Returns the rewards of all agents in mazes of one size, and what is known beside them."""
    config = results.outcome.config
    head = [f"n = {size}", "how", "rewards", "cells explored", "agrees, %", "own L_pm by quarter"]
    rows = []

    def row(agent: str, mode: str, rewards: np.ndarray, pose: np.ndarray, *more: str) -> None:
        earned = mean_interval(rewards.sum(-1).reshape(-1).astype(np.float64))
        ways = results.position(pose.reshape(-1, *pose.shape[-2:])).astype(np.int32)
        area = jax.vmap(lambda way: cells_visited(way, config.env_options["size"])[-1])
        cells = mean_interval(np.asarray(area(ways), np.float64))
        half = earned.high - earned.mean
        rows.append([agent, mode, f"{earned.mean:.2f} ± {half:.2f}", f"{cells.mean:.1f}", *more])

    for acting_mode in config.acting:
        for model, acted in results.acted[size, acting_mode].items():
            agrees = f"{100 * acted.agrees.mean():.1f}"
            row(model, acting_mode, acted.reward, acted.pose, agrees, quarter_means(acted.policy))
    for rule in config.rules:
        for name in RULES:
            episode = results.rules[size, rule][name]
            rewards = results.outcome.program.more.without_step_costs(episode.reward)
            row(name, f"{rule} rule", rewards, episode.pose)
    programs = results.programs(size)
    for name, rewards in programs.items():
        row(name, "program", rewards, results.rules[size, config.rules[0]][name].pose)
    parts = [markdown_table(head, rows)]
    acted = results.acted[size, config.acting[0]]
    if FULL in acted:
        earned = acted[FULL].reward.sum(-1).mean(0).astype(np.float64)
        others = {name: x.reward.sum(-1).mean(0) for name, x in acted.items() if name != FULL}
        others |= {name: x.sum(-1) for name, x in programs.items()}
        leads = [
            f"{mean_interval(earned - x).format('+.2f')} over {name}" for name, x in others.items()
        ]
        parts.append(f"Paired by maze, {FULL} has a lead of {'; '.join(leads)}.")
    return join_paragraphs(*parts)


# Figures -----------------------------------------------------------------------------------------


def draw(results: Results) -> None:
    """Figures 7, 8, 9, 17 and 18 of the paper."""
    outcome, figures = results.outcome, results.outcome.run.figures
    config = outcome.config
    outcome.draw_learning("policy_loss", "training", xlabel="steps per model", ylabel="L_pm, nats")
    first = next(iter(results.shown))
    for part, name in (("policy", "L_pm, nats"), ("image", "L_wm, mean squared error")):
        figure = icl_figure(
            curves_of(results.shown[first], part),
            xlabel="steps of context",
            ylabel=name,
            log=True,
            title="Unseen mazes, episodes of a demonstrator",
        )
        save_figure(figure, figures / f"shown_{part}.png")
    for size in config.sizes:
        save_figure(earned_figure(results, size), figures / f"acted_{size}.png")
    if len(config.marks) > 1:
        for k in {*filter(config.horizon.__gt__, STEPS_AHEAD), config.horizon}:
            save_figure(foresight_error_figure(results.ahead, k), figures / f"ahead_{k}.png")
    model = results.models[0]
    foresight = {
        mark: jax.tree.map(lambda x: x[0], results.ahead[mark][model]) for mark in config.marks
    }
    save_figure(foresight_figure(foresight, model), figures / "ahead_frames.png")
    save_figure(trajectories_figure(results), figures / "trajectories.png")
    if results.outcome.config.mode == "navigation":
        write_atomically(figures / "episode.html", page(results))


def earned_figure(results: Results, size: int) -> Any:
    """Rewards of arrivals added up, with 95 % intervals over mazes (Figure 8)."""
    extras, config = results.outcome.program.more, results.outcome.config
    drawn = results.acted[size, config.acting[0]]
    earned = {model: np.cumsum(acted.reward.mean(0), axis=-1) for model, acted in drawn.items()}
    rules = results.rules[size, config.rules[0]]
    for name in filter(rules.__contains__, SHOWN_RULES):
        earned[name] = np.cumsum(extras.without_step_costs(rules[name].reward), axis=-1)
    return icl_figure(
        {name: icl_curve(values) for name, values in earned.items()},
        xlabel="steps",
        ylabel="rewards, without steps' cost",
        title=f"Acting in {len(rules['random'].reward)} unseen mazes of {size} x {size}",
    )


def trajectories_figure(results: Results) -> Any:
    """Ways through up to three mazes of the largest size (Figure 17)."""
    config = results.outcome.config
    size = config.sizes[-1]
    acted = results.acted[size, config.acting[0]]
    rules = results.rules[size, config.rules[0]]
    tasks = results.outcome.program.more.rules.mazes(size)
    episodes, labels = [], []
    mazes = min(3, config.evaluation_tasks)
    for maze in range(mazes):
        ways = {"random": rules["random"].pose[maze]}
        ways |= {model: acted[model].pose[0, maze] for model in reversed(results.models)}
        ways["privileged"] = rules["privileged, p = 100 %"].pose[maze]
        task = jax.tree.map(lambda x, maze=maze: x[maze], tasks)
        episodes += [results.episode(task, size, pose) for pose in ways.values()]
        labels += [name if maze == 0 else "" for name in ways]
    columns = len(labels) // mazes
    return trajectory_figure(episodes, labels=labels, columns=columns)


def page(results: Results) -> str:
    """The first model in the first maze, step by step, with what its teacher would have done."""
    config, model, maze = results.outcome.config, results.models[0], 0
    env, rules = results.outcome.program.more.env, results.outcome.program.more.rules
    size = config.sizes[0]
    task = jax.tree.map(lambda x: np.asarray(x)[maze], rules.mazes(size))
    played = results.acted[size, config.acting[0]][model]
    pose, action, label, command, reward = (
        np.asarray(x)[0, maze]
        for x in (played.pose, played.action, played.label, played.command, played.reward)
    )
    pose, command = pose[:, : PAGE_STEPS + 1], command[: PAGE_STEPS + 1]
    blank = dict.fromkeys(MazeTrajectory._fields)
    shown = MazeTrajectory(**blank | {"pose": pose, "command": command})
    episode = results.episode(task, size, pose)
    episode = episode._replace(command=command, reward=reward[:PAGE_STEPS])
    return maze_episode_page(
        np.asarray(jax.jit(lambda task, shown: frames(env, task, shown))(task, shown)),
        episode,
        title=f"{model}, {config.acting[0]}, in a maze that it has never seen",
        about={"maze": f"{size} x {size}", "steps": len(command) - 1},
        actions=[results.action(action_taken) for action_taken in action[:PAGE_STEPS]],
        advice=[results.action(action_taken) for action_taken in label[:PAGE_STEPS]],
    )


def icl_records(results: Results) -> list[ICLRecord]:
    """Rewards by step of every model in unseen mazes, beside random and all-knowing agents."""
    records, config = [], results.outcome.config
    for size in config.sizes:
        rules = {
            name: results.outcome.program.more.without_step_costs(episodes.reward)
            for name, episodes in results.rules[size, config.rules[0]].items()
        }
        for model, acted in results.acted[size, config.acting[0]].items():
            if not len(acted.reward):
                continue  # no seed is sound
            curves = {
                "agent": acted.reward,
                "memory wiped": results.wiped[size][model].reward,
                "oracle": rules[ORACLE if ORACLE in rules else "privileged, p = 100 %"],
            }
            records.append(
                icl_record(
                    curves,
                    {
                        name: rewards
                        for name, rewards in rules.items()
                        if name in ("random", *MAP_FREE)
                    },
                    system="Maze World",
                    task=f"n = {size}, acting {config.acting[0]}",
                    agent=f"{config.model.kind}, {model}",
                    measure="reward per step",
                    context="steps",
                    oracle="knows the maze",
                    end=0.5,
                    bins=12,
                )
            )
    return records


# The summary -------------------------------------------------------------------------------------


def report(outcome: RunResult) -> Report:
    """Draws the figures and returns the summary."""
    results, config = Results(outcome), outcome.config
    draw(results)
    parts = [
        f"# Maze World: {config.model.kind} models with and without context",
        f"{outcome.training_note('steps')} The autoencoder's are included. Measured on "
        f"mazes that no model has seen ({config.sequences:,} that they are shown, "
        f"{config.evaluation_tasks} that they act in), {config.steps:,} steps each. "
        "L_pm: nats of the teacher's action. L_wm: mean squared error of the next picture, of "
        "values in [0, 1]. L_z: of its standardised latents. Late: the last quarter of an episode.",
    ]
    for name, by_model in results.shown.items():
        parts += [f"## Shown: {name}", imitation_table(by_model, results.compares_by_differences)]
    if results.densities and FULL in results.models:
        table = density_table(results.densities, results.compares_by_differences)
        parts += ["## Shown: other densities, L_pm late", table]
    for model in results.full_context_models:
        nats = next(iter(results.shown.values()))[model].policy.astype(np.float64)
        bins = min(32, nats.shape[-1] // 2)
        profile = icl_profile(nats.reshape(-1, nats.shape[-1]), higher_is_better=False, bins=bins)
        parts += [f"In-context learning of L_pm, {model} (bins of the episode):", profile.table()]
    for size in config.sizes:
        parts += [f"## Acting, n = {size}", acting_table(results, size)]
    parts += [
        "## Seeing ahead, blind",
        "Mean squared error, and in brackets that less the error of the best of three nulls on the "
        "same pictures: the last picture, the mean of those that other mazes show, or of all that "
        "this maze has shown. A model foresees only where that is below 0. A map memory shows what "
        "was last seen in the same place, that mean elsewhere. Below: on the first model's way.",
        foresight_table(results.ahead, config.horizon),
    ]
    if results.acted_in_seen:
        acted = {"unseen mazes": results.acted[config.size, config.acting[0]]}
        ahead = {"unseen mazes": results.ahead[config.marks[-1]]} | results.ahead_in_seen
        tables = seen_tables(acted | results.acted_in_seen, ahead, config.horizon)
        parts += ["## In mazes of the training", *tables]
    for name, by_model in results.probed.items():
        parts += [
            f"## Read from activations, linearly: {name}",
            "Walls and landmarks around the agent that are out of sight, in the second half of "
            "episodes: fitted on half of the mazes, tested on the others.",
            probe_table(by_model),
        ]
    numbers: dict[str, Any] = {
        "parameters": outcome.parameters,
        "steps": outcome.observations,
        "steps_per_s": outcome.speed,
        "shown": {
            name: {model: late_means(m) for model, m in by_model.items()}
            for name, by_model in [
                *results.shown.items(),
                *((f"density {x}", models) for x, models in results.densities.items()),
            ]
        },
        "acted": {
            f"n = {size}, {mode}": {
                model: float(m.reward.sum(-1).mean()) for model, m in models.items()
            }
            for (size, mode), models in results.acted.items()
        },
        "ahead": {
            str(mark): {model: m.error.mean((0, 1)) for model, m in models.items()}
            for mark, models in results.ahead.items()
        },
    }
    return Report(join_paragraphs(*parts), numbers, icl=icl_records(results))
