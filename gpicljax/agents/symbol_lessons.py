"""Lessons of models of streams: trials that teachers or the models play, written as symbols.

Whatever is played, what is to be learnt at an action is what the teacher would have done. Trials of
the model's own show it where its mistakes lead (dataset aggregation: Ross et al., 2011).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax.agents.acting import random_agent
from gpicljax.agents.sequence import Sequences, TrainState
from gpicljax.checks import check
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import Record, rollout, start_rollout
from gpicljax.symbols import SymbolCode, code_of, write_stream
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

OWN_SHARE = 0.5
"""Share of the streams that a model has played itself, once there are any."""


class StreamTask(NamedTuple):
    """Trials of one kind to be written as streams, and agents to compare a model with.

    Attributes:
      env: the environment to learn from.
      params: the distribution over its tasks.
      test_env: the environment to be tested in: of tasks that are not learnt from.
      test_params: likewise.
      teacher: an agent without parameters, which knows no more of a task than a learner can.
      steps: time steps of a trial, which about 1,000 symbols hold.
      measure: what a reward is, such as "accuracy".
      nulls: agents that need no training, by name; the strongest one counts.
      oracle: the agent that is told the task, and what it is told.
      exploration: see `SymbolModelConfig`.
      plays_own: whether trials that a model plays itself teach it, too: where its mistakes lead to
        places that its teacher does not see.
    """

    env: Environment
    params: Any
    test_env: Environment
    test_params: Any
    teacher: Agent
    steps: int
    measure: str
    nulls: Mapping[str, Agent]
    oracle: tuple[Agent, str]
    exploration: float = 0.0
    plays_own: bool = False


class _Teaching(NamedTuple):
    """The memory of a teacher some of whose actions another agent takes.

    Attributes:
      teacher: its carry.
      player: the other agent's.
      share: float `[B]`, how many of the actions are the other agent's.
    """

    teacher: Any
    player: Any
    share: jax.Array


def _with_labels(
    teacher: Agent, player: Agent, code: SymbolCode, shares: tuple[float, float]
) -> Agent:
    """Returns an agent some of whose actions are a player's; its `aux` are those of a teacher.

    Args:
      teacher: without parameters.
      player: over the parameters that the agent is given.
      code: the declaration; where the teacher is silent the player is, too.
      shares: least and greatest share of actions that are the player's, one for each trial.
    """

    def act(keys: jax.Array, params: ArrayTree, carry: _Teaching, timestep: TimeStep) -> Any:
        label, _, memory = teacher.act(keys, (), carry.teacher, timestep)
        if not any(shares):
            return label, label, carry._replace(teacher=memory)
        keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
        share_keys, is_keys, own_keys = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)(
            keys
        )
        own, _, played = player.act(own_keys, params, carry.player, timestep)
        draw = lambda key: jax.random.uniform(key, (), carry.share.dtype, *shares)  # noqa: E731
        share = jnp.where(timestep.trial_start, jax.vmap(draw)(share_keys), carry.share)
        is_replaced = jax.vmap(jax.random.uniform)(is_keys) < share
        is_replaced &= label != code.silence
        action = jnp.where(is_replaced, own.astype(label.dtype), label)
        if teacher.record_action is not None:
            memory = teacher.record_action(memory, action)
        if player.record_action is not None:
            played = player.record_action(played, action)
        return action, label, _Teaching(memory, played, share)

    def initial_carry(batch: int) -> _Teaching:
        share = jnp.zeros(batch, jnp.result_type(float))
        return _Teaching(teacher.initial_carry(batch), player.initial_carry(batch), share)

    return Agent(initial_carry, act)


Sample = Callable[[jax.Array, Any], Sequences]
Play = Callable[[jax.Array, ArrayTree, ArrayTree], Sequences]


def _write_trials(vec: VectorEnv, player: Agent, steps: int, length: int) -> Play:
    """Returns `(key, env_params, params) -> Sequences` of an agent whose `aux` are labels."""

    def keep(record: Record) -> tuple[Any, jax.Array, jax.Array]:
        timestep = record.timestep._replace(info={}, privileged=None)
        return timestep, record.action, record.aux

    def play(key: jax.Array, env_params: ArrayTree, params: ArrayTree) -> Sequences:
        start = start_rollout(key, vec, player, env_params)
        _, (timesteps, actions, labels) = rollout(vec, player, params, start, steps, keep)
        stream = write_stream(code_of(vec.env), actions, timesteps, length + 1, labels)
        known = stream.is_written & ~stream.starts
        following = jnp.where(known, stream.label, -1)[1:]
        targets = {"next": following, "is_action": stream.is_action[1:]}
        return Sequences(stream.symbols[:-1], stream.starts[:-1], targets)

    return play


def _can_be_told(teacher: Agent) -> bool:
    """Returns whether a teacher takes what was played in place of its actions into account."""
    memory = jax.eval_shape(lambda: teacher.initial_carry(1))
    return teacher.record_action is not None or not jax.tree.leaves(memory)


def stream_sampler(
    vec: VectorEnv, teacher: Agent, steps: int, length: int, exploration: float = 0.0
) -> Sample:
    """Returns `(keys, env_params) -> Sequences` of a teacher's trials.

    As many sequences are drawn as `vec` has instances, all from the first key.

    Args:
      vec: the environments; with `privileged=True` where the teacher needs it.
      teacher: without parameters.
      steps: time steps that are played; what they write beyond `length` + 1 symbols is left out.
      length: L, symbols to predict.
      exploration: see `SymbolModelConfig`.

    Raises:
      ValueError: for a teacher whose memory cannot be told which actions were played instead.
    """
    code = code_of(vec.env)
    fits = not exploration or _can_be_told(teacher)
    check(fits, "exploration", exploration, "0, for a teacher that has no record_action")
    shares = 0.0, exploration if code.acts else 0.0
    player = _with_labels(teacher, random_agent(vec.env), code, shares)
    play = _write_trials(vec, player, steps, length)
    return lambda keys, env_params: play(keys[0], env_params, ())


class OwnTrials(NamedTuple):
    """Streams that a model has played, to learn from beside those of its teacher.

    Attributes:
      params: the distribution over tasks of the teacher's trials.
      streams: leaves `[L, N]`.
      share: float `[]`, of what is learnt from, drawn at random from these.
    """

    params: Any
    streams: Sequences
    share: jax.Array


def _with_own_trials(sample: Sample) -> Sample:
    """Returns the sampler of a teacher's trials and a model's, from `OwnTrials`."""

    def draw(keys: jax.Array, data: OwnTrials) -> Sequences:
        apart = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)
        taught_keys, number_keys, is_keys = apart(keys)
        taught, count = sample(taught_keys, data.params), data.streams.inputs.shape[1]
        number = jax.vmap(lambda key: jax.random.randint(key, (), 0, count))(number_keys)
        is_own = jax.vmap(jax.random.uniform)(is_keys) < data.share
        return jax.tree.map(
            lambda own, new: jnp.where(is_own, own[:, number], new), data.streams, taught
        )

    return draw


def mixed_sampler(samplers: Sequence[Sample]) -> Sample:
    """Returns the sampler of all of them side by side; its data are those of each, as a tuple.

    It draws from as many keys as there are samplers, or a multiple: each has its share. Targets
    have `source`, the number of the sampler, `int32[T, B]`.
    """

    def sample(keys: jax.Array, data: Sequence[ArrayTree]) -> Sequences:
        shares, parts = jnp.split(keys, len(samplers)), []
        for number, (draw, share, each) in enumerate(zip(samplers, shares, data, strict=True)):
            part = draw(share, each)
            source = jnp.full(part.inputs.shape, number, jnp.int32)
            parts.append(part._replace(targets=part.targets | {"source": source}))
        return jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts)

    return sample


class Lessons(NamedTuple):
    """Streams of several kinds to learn from.

    Attributes:
      sample: draws them, see `mixed_sampler`.
      data: what it is given at first, by kind.
      play_own: from the state of a trainer of sequences to that with new trials of its model's own,
        of the kinds where it is to learn from them.
    """

    sample: Sample
    data: tuple[Any, ...]
    play_own: Callable[[TrainState], TrainState]


def mixed_lessons(
    tasks: Sequence[StreamTask],
    streams: int,
    length: int,
    student: Callable[[Environment], Agent] | None = None,
    own_trials: int = 0,
) -> Lessons:
    """Returns the lessons of several kinds of trials, side by side.

    Args:
      tasks: the kinds.
      streams: of each kind that are drawn at once.
      length: L, symbols of a stream to predict.
      student: from an environment to the agent that plays trials of its own. Where its code has an
        action that is not written, it must always take another one: the teacher says when.
      own_trials: N, trials of each kind that it plays; 0 for none.

    Raises:
      ValueError: see `stream_sampler`; it holds for trials of a model's own, too.
    """

    def batch(task: StreamTask, count: int) -> VectorEnv:
        return VectorEnv(task.env, count, resets="fresh", params=task.params, privileged=True)

    def sample_of(task: StreamTask) -> Sample:
        vec = batch(task, streams)
        return stream_sampler(vec, task.teacher, task.steps, length, task.exploration)

    def play_of(task: StreamTask, student: Agent) -> Play:
        told = _can_be_told(task.teacher)
        check(told, "own_trials", own_trials, "0, for a teacher that has no record_action")
        vec, code = batch(task, own_trials), code_of(task.env)
        player = _with_labels(task.teacher, student, code, (1.0, 1.0))
        return _write_trials(vec, player, task.steps, length)

    plays = {
        number: play_of(task, student(task.env))
        for number, task in enumerate(tasks)
        if own_trials and student is not None and task.plays_own
    }

    def none_yet(task: StreamTask) -> OwnTrials:
        number, no = (jnp.zeros((length, own_trials), dtype) for dtype in (jnp.int32, bool))
        streams = Sequences(number, no, {"next": number, "is_action": no})
        return OwnTrials(task.params, streams, jnp.zeros((), jnp.result_type(float)))

    def play_own(state: TrainState) -> TrainState:
        key, data = jax.random.fold_in(state.key, state.updates), list(state.data)
        for number, play in plays.items():
            params = tasks[number].params
            streams = play(jax.random.fold_in(key, number), params, state.params)
            data[number] = OwnTrials(params, streams, jnp.full((), OWN_SHARE))
        return dataclasses.replace(state, data=tuple(data))

    samples = [sample_of(task) for task in tasks]
    data: list[Any] = [task.params for task in tasks]
    for number in plays:
        samples[number] = _with_own_trials(samples[number])
        data[number] = none_yet(tasks[number])
    return Lessons(mixed_sampler(samples), tuple(data), play_own)
