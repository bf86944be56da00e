"""Measures of agents on streams of bytes: steps, instances and answers by task set."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent
from gpicljax.rollout import Record, RolloutState, play
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Task
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.measures.criteria import CompletionTimes, completion_times
from gpicljax.typing import ArrayTree

QUESTIONS = 32
"""Questions of an instance that are counted separately; later ones count as the last."""


LIKELIEST = 5
"""Bytes of an agent's policy that are stored at each step."""


class Streams(NamedTuple):
    """The counts of N streams, by place in their curricula (P places).

    Attributes:
      steps: `int32[N, P]`, steps spent at a place.
      cleared: `int32[N]`, the number of places that were passed.
      instances: `int32[N, P]`, instances that ended.
      solved: `int32[N, P]`, number of them that were solved.
      asked: `int32[N, P, QUESTIONS]`, questions that were answered, by their number in the
        instance.
      right: `int32[N, P, QUESTIONS]`, number of them that were answered right.
    """

    steps: Any
    cleared: Any
    instances: Any
    solved: Any
    asked: Any
    right: Any

    def completion_times(self, index: Any, places: int, **budgets: Any) -> CompletionTimes:
        """Returns the steps of some streams until places were passed, under a budget.

        Args:
          index: index of the streams.
          places: number of places in the curriculum.
          **budgets: `budget` and `total`.
        """
        steps = np.asarray(self.steps)[index, :places]
        return completion_times(steps, np.asarray(self.cleared)[index], **budgets)

    def accuracy(self, index: Any, places: Any) -> np.ndarray:
        """Returns the share of right answers by the question's number, `float[n, QUESTIONS]`.

        Args:
          index: index of n streams.
          places: index of places, over which questions are added up.
        """
        questions, right = (
            np.asarray(x)[index][:, places].sum(1) for x in (self.asked, self.right)
        )
        return np.where(questions > 0, right / np.maximum(questions, 1), np.nan)


def streams_of(
    key: jax.Array,
    env: ByteStream,
    curricula: Sequence[Curriculum],
    horizon: int,
    permutation: ArrayTree = None,
) -> Task:
    """Returns one stream for each curriculum; the same keys give the same instances.

    Args:
      key: typed key `[]`, or `[N]`, one for each.
      env: the environment.
      curricula: N of them.
      horizon: most steps of each.
      permutation: of the bytes, see `ByteStream`; the environment's default if None.

    Returns:
      Tasks, leaves `[N, ...]`.

    Example:
      >>> import gpicljax
      >>> env = gpicljax.make("ByteStream-v0")
      >>> two = [Curriculum(("micro4",)), Curriculum(("micro1", "micro4"))]
      >>> streams_of(jax.random.key(0), env, two, horizon=500).count.tolist()
      [1, 2]
    """
    with jax.ensure_compile_time_eval():
        options = {} if permutation is None else {"permutation": permutation}
        params_by_stream = [
            env.make_params(curriculum=curriculum, horizon=horizon, **options)
            for curriculum in curricula
        ]
        params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params_by_stream)
    keys = jax.random.split(key, len(params_by_stream)) if key.ndim == 0 else key
    return _sample_tasks(env, keys, params)


@functools.partial(jax.jit, static_argnums=0)
def _sample_tasks(env: ByteStream, keys: jax.Array, params: Any) -> Task:
    return jax.vmap(env.sample_task)(keys, params)


class StreamSteps(NamedTuple):
    """A stream of T steps.

    Attributes:
      length: `int32[]`, steps taken; what follows is 0 beyond.
      heard: `int32[T]`, the environment's byte.
      said: `int32[T]`, the agent's reply.
      reward: float `[T]`, the reward of the reply.
      task: `int32[T]`, index of the task set in `TASK_SETS`.
      instance: `int32[T]`, number of the instance in the stream.
      question: `int32[T]`, number of the question in the instance.
      row: `int32[T]`, instances of the task set that were solved in a row.
      ended: `bool[T]`, whether the step ended the instance.
      solved: `bool[T]`, whether the instance was then solved.
      choices: `int32[T, LIKELIEST]`, the bytes that the agent's policy found most likely; None for
        an agent that does not tell its logits, and so are the next two.
      chances: float `[T, LIKELIEST]`, their probabilities.
      chance: float `[T]`, the probability of the reply. A policy that is sharpened says the
        likelier bytes more often than that.
    """

    length: Any
    heard: Any
    said: Any
    reward: Any
    task: Any
    instance: Any
    question: Any
    row: Any
    ended: Any
    solved: Any
    choices: Any
    chances: Any
    chance: Any


def likeliest_bytes(logits: jax.Array, action: jax.Array) -> dict[str, jax.Array]:
    """Returns `choices`, `chances` and `chance` of `StreamSteps` from logits `[T, 256]`."""
    shares = jax.nn.softmax(logits)
    chances, choices = jax.lax.top_k(shares, LIKELIEST)
    chance = jnp.take_along_axis(shares, action[:, None], axis=1)[:, 0]
    return {"choices": choices, "chances": chances, "chance": chance}


def record_stream(
    key: jax.Array, env: ByteStream, agent: Agent, params: ArrayTree, task: Task, steps: int
) -> StreamSteps:
    """Plays a stream and keeps its steps.

    Args:
      key: of the agent's choices.
      env: the environment.
      agent: the agent.
      params: its parameters.
      task: the stream.
      steps: T, most steps.
    """
    vec = single_trial_batch(env, 1, steps)
    tasks = jax.tree.map(lambda x: x[None], task)
    start = RolloutState(*vec.init(key, None, tasks), agent.initial_carry(1))

    def stored_fields(record: Record) -> dict[str, Any]:
        state, after = record.vstate.state, record.next_timestep
        likely: dict[str, Any] = dict.fromkeys(("choices", "chances", "chance"))
        if isinstance(record.aux, dict) and "logits" in record.aux:
            likely = likeliest_bytes(record.aux["logits"], record.action)
        return {
            "heard": record.timestep.observation,
            "said": record.action,
            "reward": after.reward,
            "task": state.task,
            "instance": state.instance,
            "question": state.number,
            "row": state.solved,
            "ended": after.info["instance_ended"],
            "solved": after.info["solved"],
            **likely,
        }

    played = play(vec, agent, params, start, max_steps=steps, keep=stored_fields, limit=steps)
    first_record = jax.tree.map(lambda x: x[0, 0], played.records)
    return StreamSteps(length=played.length[0, 0], **first_record)


def play_streams(
    key: jax.Array,
    env: ByteStream,
    agent: Agent,
    params: ArrayTree,
    tasks: Task,
    horizon: int,
    *,
    privileged: bool = False,
) -> Streams:
    """Plays one stream of each task, to its end or its horizon.

    Args:
      key: of the agent's choices.
      env: the environment.
      agent: the agent.
      params: its parameters.
      tasks: `[N]`, see `streams_of`.
      horizon: steps after which everything ends.
      privileged: whether the agent is an expert.

    Returns:
      Counts by stream and place.

    Example:
      >>> import gpicljax
      >>> from gpicljax.systems.gradual_learning.experts import answering
      >>> env = gpicljax.make("ByteStream-v0", max_tasks=4)
      >>> tasks = streams_of(jax.random.key(0), env, [Curriculum(("micro4",))] * 2, 500)
      >>> play = lambda key: play_streams(key, env, answering.echo(), (), tasks, 500)
      >>> jax.eval_shape(play, jax.random.key(1)).right.shape
      (2, 4, 32)
    """
    count = len(tasks.count)
    vec = single_trial_batch(env, count, horizon, privileged=privileged)
    start = RolloutState(*vec.init(key, None, tasks), agent.initial_carry(count))

    def stored_counts(record: Record) -> Any:
        state, after = record.vstate.state, record.next_vstate.state
        info, reward = record.next_timestep.info, record.next_timestep.reward
        right = reward > 0
        counts = {
            "steps": jnp.ones_like(state.number),
            "cleared": info["cleared"] - state.cleared,
            "instances": info["instance_ended"],
            "solved": info["solved"],
            "asked": right | (~info["instance_ended"] & (after.number > state.number)),
            "right": right,
        }
        return jax.tree.map(lambda x: x.astype(jnp.int32), counts)

    def slot(record: Record) -> jax.Array:
        state = record.vstate.state
        number = jnp.minimum(state.number, QUESTIONS - 1)
        return jnp.minimum(state.cleared, env.max_tasks - 1) * QUESTIONS + number

    played = play(
        vec,
        agent,
        params,
        start,
        max_steps=horizon,
        keep=stored_counts,
        slot=slot,
        slots=env.max_tasks * QUESTIONS,
        add=True,
        limit=horizon,
    )
    counts = {
        name: x[:, 0].reshape(count, env.max_tasks, QUESTIONS) for name, x in played.records.items()
    }
    by_place = {name: counts[name].sum(-1) for name in ("steps", "instances", "solved")}
    questions = {name: counts[name] for name in ("asked", "right")}
    return Streams(**by_place, cleared=counts["cleared"].sum((1, 2)), **questions)
