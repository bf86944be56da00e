"""The page of an episode: what an environment shows of it, in words, pictures and a stage."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax import spaces
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import Episode
from gpicljax.runtime import RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.typing import JsonObject
from gpicljax.viz.episode_page import Stage, episode_content, fill_page
from gpicljax.viz.films import Frames, choose_frames
from gpicljax.wrappers.wrapper import innermost

MOST_FRAMES = 240
"""Pictures on the page of an episode that is over."""

_LETTERS = "0123456789abcdefghijkloptuvwxyz"


class Drawing(NamedTuple):
    """The visible parts of an episode of T steps.

    Attributes:
      words: T + 1 descriptions of the situation; empty where they are not asked for.
      actions: T names of what was done.
      rewards: float `[T]`, those that are told.
      readings: what else there is to read, by name, T + 1 texts each.
      frames: `uint8[F, H, W, 3]`; None where nothing is to be seen.
      frame_steps: `int[F]`, the steps of the frames.
      stage: what else is drawn of it.
      picture_title: what the frames show.
    """

    words: Sequence[str] | None
    actions: Sequence[str]
    rewards: ArrayLike
    readings: Mapping[str, Sequence[str]] = {}
    frames: Frames | None = None
    frame_steps: Sequence[int] | None = None
    stage: Stage | None = None
    picture_title: str = "Seen"

    def content(self) -> dict[str, Any]:
        """Returns what the script of the episode's page reads."""
        shown = self._asdict()
        del shown["picture_title"]
        return episode_content(**shown)

    def page(self, title: str, about: JsonObject | None = None) -> str:
        """Returns the page of the episode, a file of its own."""
        more = {"picture_title": self.picture_title, "stage": self.stage}
        return fill_page(title, self.content(), about=about, **more)


Draw = Callable[..., Drawing]
"""`(env, episode, *, revealed, last_only, player) -> Drawing`; see `draw_episode`."""


def draw_episode(
    env: Environment, episode: Episode, *, last_only: bool = False, **unused: Any
) -> Drawing:
    """Draws an episode of any environment: pictures of it, and the situation in words.

    Args:
      env: the environment.
      episode: the episode, arrays on the host.
      last_only: whether frame and words of the last situation are enough, as in an episode that is
        being played.
      **unused: what other drawings depend on: `revealed`, whether they may show what the agent
        does not see, and `player`, the `play.match.Player` of the episode.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> from gpicljax.evaluation.returns import record_episode
      >>> env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
      >>> agent, key = random_agent(env), jax.random.key(0)
      >>> episode = jax.device_get(record_episode(key, env, agent, (), max_steps=3))
      >>> "1 of 100 pulls made" in draw_episode(env, episode).page("Two arms")
      True
    """
    del unused
    length = int(episode.length)
    frames, frame_steps = draw_frames(picture_of(env), episode, last_only=last_only)
    return Drawing(
        words=describe_situations(env, episode, last_only=last_only),
        actions=[name_action(env, action) for action in episode.actions[:length]],
        rewards=mean_rewards(episode),
        frames=frames,
        frame_steps=frame_steps,
    )


def mean_rewards(episode: Episode) -> NDArray[Any]:
    """Returns the reward of every step, float `[T]`; of several agents, their mean."""
    rewards = np.asarray(episode.rewards[: int(episode.length)])
    return rewards.mean(tuple(range(1, rewards.ndim)))


def draw_frames(
    picture: Callable[[Any, Any], jax.Array] | None, episode: Episode, *, last_only: bool
) -> tuple[Frames | None, list[int] | None]:
    """Returns pictures of an episode, and the steps that they belong to; None without a picture."""
    if picture is None:
        return None, None
    length = int(episode.length)
    steps = np.array([length]) if last_only else choose_frames(length, MOST_FRAMES)
    states = [jax.tree.map(lambda x, t=t: x[t], episode.states) for t in steps.tolist()]
    frames = np.stack([np.asarray(picture(state, episode.task)) for state in states])
    return frames, [0] if last_only else steps.tolist()


def describe_situations(env: Environment, episode: Episode, *, last_only: bool) -> list[str]:
    """Returns every situation in words, or the last one and nothing of the others."""
    length = int(episode.length)

    def words(t: int) -> str:
        return describe_state(env, jax.tree.map(lambda x: x[t], episode.states), episode.task)

    return ["" if last_only and t < length else words(t) for t in range(length + 1)]


def describe_state(env: Environment, state: Any, task: Any) -> str:
    """Returns a situation in words; the observation where an environment has none."""
    with contextlib.suppress(NotImplementedError):
        return env.describe(state, task)
    values = spaces.observed_values(env.observe(state, task))
    return "\n".join(f"{name}: {value}" for name, value in values.items())


@functools.cache
def picture_of(env: Environment) -> Callable[[Any, Any], jax.Array] | None:
    """Returns the compiled picture of a state and task: what the agent sees, or `render`."""
    space = env.observation_space()
    if _is_picture(space):
        return jax.jit(env.observe)
    if isinstance(space, spaces.Dict):
        for name, entry in space.items:
            if _is_picture(entry):
                return jax.jit(lambda state, task, name=name: env.observe(state, task)[name])
    return jax.jit(env.render) if env.can_render else None


def _is_picture(space: spaces.Space) -> bool:
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) == 3
        and space.shape[-1] == 3
        and space.jax_dtype == np.uint8
    )


def controls(env: Environment, count: int) -> tuple[tuple[str, str], ...]:
    """Returns name and key of each of an environment's `count` actions, as far as there are keys.

    Those that a wrapper adds, which stand for others, have none.
    """
    if 0 < len(env.controls) <= count:
        return env.controls
    inside = innermost(env).action_space()
    count = min(count, inside.n) if isinstance(inside, spaces.Discrete) else count
    return tuple((f"action {i}", letter) for i, letter in zip(range(count), _LETTERS, strict=False))


def name_action(env: Environment, action: Any) -> str:
    """Returns the name of an action, or its numbers."""
    space = env.action_space()
    if isinstance(space, spaces.Discrete):
        names = [name for name, _ in controls(env, space.n)]
        return names[int(action)] if int(action) < len(names) else f"action {int(action)}"
    numbers = np.ravel(action).tolist()
    return " ".join(f"{x:+.2f}" if isinstance(x, float) else f"{x}" for x in numbers)


def write_replay(outcome: RunResult, drawing: Drawing, whose: str) -> str:
    """Writes `figures/episode.html`, the page of an episode of a run; returns a sentence about it.

    Args:
      outcome: of the run.
      drawing: of the episode.
      whose: the seed that played it, as `RunResult.first_sound` names it.

    Returns:
      A sentence for the report; nothing is written where no seed is sound.

    Example:
      >>> from gpicljax.runtime import Report
      >>> def report(outcome):
      ...     whose, episode = outcome.first_sound(outcome.measured["an episode"])
      ...     drawing = draw_episode(outcome.program.more, episode)
      ...     return Report(write_replay(outcome, drawing, whose), {})
    """
    if not outcome.sound.any():
        return "No episode to replay: no seed is sound."
    steps, total = f"{len(drawing.actions):,}", f"{np.sum(drawing.rewards):,.2f}"
    about = {"steps": steps, "return": total, "of": whose, "run": outcome.run.path.name}
    page = drawing.page(outcome.program.title, about)
    write_atomically(outcome.run.figures / "episode.html", page.encode())
    return (
        f"`figures/episode.html` replays an episode of {whose} step by step ({steps} steps, "
        f"return {total})."
    )
