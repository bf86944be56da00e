"""Compares the model of Fetch with MuJoCo: `python -m benchmarks.mujoco_fetch.compare`.

Per task it plays the simulator at random and puts the same actions into the model, from the same
starts; it plays the rules in either, from starts of their own; and it plays saved agents in either.
It needs `pip install "gpicljax[fetch]"`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks.mujoco_fetch import registered  # noqa: F401 (agents may come from these)
from benchmarks.mujoco_fetch.reference import FetchSimulator
from gpicljax.agents.acting import random_agent
from gpicljax.checks import Count, refusal
from gpicljax.envs.fetch import dynamics
from gpicljax.envs.fetch.env import Fetch, FetchTask
from gpicljax.envs.fetch.experts import script
from gpicljax.envs.fetch.scene import SCENES, first_world
from gpicljax.interface import Agent
from gpicljax.rollout import play, start_rollout
from gpicljax.runs import load_agent
from gpicljax.runs.arguments import read_arguments
from gpicljax.runtime import named_key
from gpicljax.runtime.failures import failures_reported
from gpicljax.vector import VectorEnv
from gpicljax.viz import new_figure, save_figure

Name = Literal["push", "slide", "pick_and_place"]
_STEPS = 50
_MOVED = 0.001  # metres


@dataclasses.dataclass(frozen=True)
class Config:
    """Configuration of the comparison.

    Attributes:
      out: Folder of the table and the figure.
      episodes: Episodes per task and simulator.
      tasks: Those that are played.
      agents: Folders of saved agents.
      rules: Whether the rules are played, and random actions.
      seed: Seed of starts and actions.
    """

    out: Path = Path("runs/fetch")
    episodes: Count = 200
    tasks: tuple[Name, ...] = get_args(Name)
    agents: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    rules: bool = True
    seed: int = 0


class Played(NamedTuple):
    """Episodes, `[N, 50, ...]`: the observation before each action, the action, and the reward."""

    observation: dict[str, np.ndarray]
    action: np.ndarray
    reward: np.ndarray


def _play(env: FetchTask, agent: Agent, params: Any, key: jax.Array, episodes: int) -> Played:
    vec = VectorEnv(env, episodes, resets="synchronous", steps_per_trial=_STEPS + 1)

    def keep(record: Any) -> Any:
        return record.timestep.observation, record.action, record.next_timestep.reward

    def run(key: jax.Array, params: Any) -> Any:
        start = start_rollout(key, vec, agent)
        return play(vec, agent, params, start, max_steps=_STEPS, keep=keep).records

    records = jax.jit(run)(key, params)
    return Played(*jax.tree.map(lambda x: np.asarray(x[:, 0]), records))


def _replay(task: str, real: Played) -> tuple[np.ndarray, np.ndarray]:
    """Returns gripper and block in the model, by the simulator's starts and actions.

    Both are float `[N, 50, 3]`.
    """
    scene = SCENES[task]

    def replay(body: jax.Array, actions: jax.Array) -> Any:
        def step(world: Any, action: jax.Array) -> Any:
            return dynamics.advance(task, world, action), dynamics.observed_places(scene, world)[:2]

        return jax.lax.scan(step, first_world(scene, body), actions)[1]

    body = jnp.asarray(real.observation["achieved_goal"][:, 0], jnp.float32)
    gripper, block = jax.jit(jax.vmap(replay))(body, jnp.asarray(real.action))
    return np.asarray(gripper), np.asarray(block)


def _displacement(played: Played) -> np.ndarray:
    """Returns how far blocks have moved by the last step, in metres."""
    places = played.observation["achieved_goal"]
    return np.linalg.norm(places[:, -1] - places[:, 0], axis=-1)


def _success(played: Played) -> str:
    """At the last step, and at any, in per cent with 95 % intervals."""
    done = played.reward == 0
    shares = [x.mean() for x in (done[:, -1], done.any(1))]
    return " / ".join(
        f"{100 * p:.0f} ± {196 * np.sqrt(p * (1 - p) / len(done)):.0f} %" for p in shares
    )


def _open_loop(task: str, real: Played) -> list[str]:
    """The row about random actions."""
    gripper, block = _replay(task, real)
    away = 1000 * np.linalg.norm(gripper - real.observation["observation"][..., :3], axis=-1)
    touched = _displacement(real) > _MOVED
    moved = np.linalg.norm(block[:, -1] - block[:, 0], axis=-1) > _MOVED
    by_step = ", ".join(f"{np.median(away[:, t]):.1f}" for t in (1, 10, 25, 49))
    return [
        f"{np.median(away):.1f} mm",
        f"{np.percentile(away, 90):.1f} mm",
        by_step,
        f"{touched.sum()} / {moved.sum()}",
    ]


def _displacement_figure(displacements: dict[str, list[np.ndarray]]) -> Any:
    """Returns the cumulative distributions of how far the rules moved blocks, per task."""
    figure = new_figure(3.2 * len(displacements), 2.6)
    panels = figure.subplots(1, len(displacements), squeeze=False)[0]
    for panel, (task, pair) in zip(panels, displacements.items(), strict=True):
        for name, metres, style in zip(("MuJoCo", "model"), pair, ("-", "--"), strict=True):
            ranked = np.sort(metres)
            share = np.arange(1, len(ranked) + 1) / len(ranked)
            panel.step(100 * ranked, share, style, where="post", label=name)
        panel.set(title=task.replace("_", " "), xlabel="the block's displacement, cm")
    panels[0].set_ylabel("share of episodes")
    panels[0].legend()
    return figure


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def compare(config: Config) -> list[str]:
    """The tables, line by line; the figure goes to the folder."""
    lines: list[str] = []
    if config.rules:
        lines += _rules(config)
    rows = []
    for folder in config.agents:
        saved = load_agent(folder)
        if not isinstance(saved.env, FetchTask):
            accepted_values = "folders of agents trained on a Fetch task"
            raise ValueError(refusal("agents", str(folder), accepted_values))
        key = named_key(config.seed, str(folder.name))
        trained = "MuJoCo" if isinstance(saved.env, FetchSimulator) else "the model"
        successes = [
            _success(_play(kind(saved.env.task), saved.agent, saved.params, key, config.episodes))
            for kind in (Fetch, FetchSimulator)
        ]
        rows.append([saved.env.task, saved.info["algorithm"], trained, *successes])
    if rows:
        head = ["task", "agent", "trained in", "success in the model", "success in MuJoCo"]
        lines += _table(head, rows)
    return lines


def _rules(config: Config) -> list[str]:
    random_rows, rule_rows, displacements = [], [], {}
    for task in config.tasks:
        model, real = Fetch(task), FetchSimulator(task)
        key = named_key(config.seed, task)
        played = _play(real, random_agent(real), (), key, config.episodes)
        random_rows.append([task, *_open_loop(task, played)])
        pair = [_play(env, script(env), (), key, config.episodes) for env in (real, model)]
        displacements[task] = [_displacement(x) for x in pair]
        medians = [f"{100 * np.median(x):.1f} cm" for x in displacements[task]]
        rule_rows.append([task, *map(_success, pair), *medians])
    save_figure(_displacement_figure(displacements), config.out / "fetch_displacements.png")
    head = ["task", "median", "90 % below", "medians after 1, 10, 25, 49 steps, mm", "blocks moved"]
    lines = ["Gripper, random actions:", "", *_table(head, random_rows)]
    head = ["task", "success in MuJoCo", "in the model", "median displacement", "in the model"]
    return [*lines, "Rules, at the last step / at any:", "", *_table(head, rule_rows)]


def main() -> None:
    """Prints the tables."""
    config = read_arguments(Config, description=__doc__)
    with failures_reported(ValueError, ModuleNotFoundError):
        print("\n".join(compare(config)))


if __name__ == "__main__":
    main()
