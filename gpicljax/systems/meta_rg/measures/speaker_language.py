"""The language of a speaker in Meta-Referential Games: what it says of every meaning."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.batching import select
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import agent_step, start_rollout
from gpicljax.systems.meta_rg.env import messaging, structure
from gpicljax.systems.meta_rg.env.game import represent
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import SPEAKER, Params, State, Task
from gpicljax.systems.meta_rg.measures.compositionality import (
    bosdis,
    posdis,
    topographic_similarity,
)
from gpicljax.typing import ArrayTree

Asked = Literal["start", "end"]


class Languages(NamedTuple):
    """Messages for every meaning of T semantic structures.

    Attributes:
      messages: `int32[T, M, L]`, as sent, 0 behind the end of a sentence.
      counts: `int32[T, M]`, 1 where the structure has the meaning, else 0.
      topsim: float `[T]`, topographic similarity over the whole space of the structure.
      posdis: float `[T]`, positional disentanglement.
      bosdis: float `[T]`, bag-of-symbols disentanglement.
    """

    messages: jax.Array
    counts: jax.Array
    topsim: jax.Array
    posdis: jax.Array
    bosdis: jax.Array


def meanings(env: MetaRG) -> np.ndarray:
    """Returns all meanings below the cap of values, `int32[M, N_dim]`; see `Languages`.

    Example:
      >>> import gpicljax
      >>> meanings(gpicljax.make("MetaRG-v1", max_values=3)).shape
      (27, 3)
    """
    return structure.combinations(env.num_dims, env.max_values)


class Utterances(NamedTuple):
    """Messages for samples of every meaning of T semantic structures.

    Attributes:
      messages: `int32[T, M, O, L]`, as sent, 0 behind the end of a sentence.
      stimuli: float `[T, M, O, F]`, what the speaker saw.
      counts: `int32[T, M]`, 1 where the structure has the meaning, else 0.
      num_values: `int32[T, N_dim]`, of each structure.
    """

    messages: jax.Array
    stimuli: jax.Array
    counts: jax.Array
    num_values: jax.Array


def utterances(
    key: jax.Array,
    env: MetaRG,
    agent: Agent,
    params: ArrayTree,
    env_params: Params,
    *,
    structures: int,
    samples: int = 1,
    asked: Asked = "end",
) -> Utterances:
    """Asks a speaker for every meaning of newly drawn structures, and keeps its messages.

    Args:
      key: a typed key.
      env: the players' view of the game.
      agent: both players.
      params: their parameters.
      env_params: the distribution over tasks.
      structures: T.
      samples: O, of each meaning; where structures have fewer, they recur.
      asked: at the start of an episode, when nothing has been said before, or at the end of one
        that it played. Each question is asked for itself: answers are not remembered.
    """
    space = jnp.asarray(meanings(env))
    play_key, act_key = jax.random.split(key)
    longest = int(env.horizon())
    vec = single_trial_batch(env, structures, longest)
    start = start_rollout(play_key, vec, agent, env_params)

    def play_on(_: int, loop: Any) -> Any:
        """Plays a step where the episode is not over; elsewhere, all stays as it was."""
        last, rollout_state, over = loop
        following, record = agent_step(vec, agent, params, rollout_state)
        last = select(over, last, (record.vstate.state, following.carry))
        return last, following, over | record.next_timestep.last

    last, fresh = (start.vstate.state, start.carry), jnp.zeros(structures, bool)
    if asked == "end":
        last, _, _ = jax.lax.fori_loop(0, longest, play_on, (last, start, fresh))
    task, (state, carry) = start.vstate.task, last

    def ask(state: State, task: Task) -> tuple[Any, ...]:
        def see(meaning: jax.Array, sample: jax.Array) -> tuple[Any, jax.Array]:
            if env.stimulus == "mhe":
                stimulus = jax.nn.one_hot(meaning, env.max_values).reshape(-1)
            else:
                entries = task.table[jnp.arange(env.num_dims), meaning, sample]
                stimulus = represent(entries, env.stimulus)
            game_stimuli = jnp.zeros_like(state.game.speaker).at[0].set(stimulus)
            game = dataclasses.replace(state.game, speaker=game_stimuli)
            silence = jnp.zeros_like(state.channel)
            seen = dataclasses.replace(
                state, game=game, round=jnp.zeros_like(state.round), channel=silence
            )
            return env.observe(seen, task), stimulus

        sample_index = jnp.arange(samples) % task.samples
        shown, stimuli = jax.vmap(jax.vmap(see, (None, 0)), (0, None))(space, sample_index)
        return shown, stimuli, (space < task.num_values).all(-1).astype(jnp.int32), task.num_values

    shown, stimuli, counts, num_values = jax.vmap(ask)(state, task)
    questions = len(space) * samples
    size = structures * questions
    never, starts = jnp.zeros(size, bool), jnp.full(size, asked == "start")
    timestep = TimeStep(
        observation=jax.tree.map(lambda x: x.reshape(size, *x.shape[3:]), shown),
        reward=jnp.zeros((size, 2), jnp.result_type(float)),
        terminated=never,
        truncated=never,
        episode_start=starts,
        trial_start=starts,
        info={},
    )
    keys = jax.random.split(act_key, size)
    carry = jax.tree.map(lambda x: jnp.repeat(x, questions, axis=0), carry)
    action, _, _ = agent.act(keys, params, carry, timestep)
    tokens = messaging.regularise(action[:, SPEAKER, 1 : 1 + env.message_length])
    messages = tokens.reshape(structures, len(space), samples, -1)
    return Utterances(messages, stimuli, counts, num_values)


def languages(
    key: jax.Array,
    env: MetaRG,
    agent: Agent,
    params: ArrayTree,
    env_params: Params,
    *,
    structures: int = 64,
    asked: Asked = "end",
) -> Languages:
    """Asks a speaker for every meaning of newly drawn structures, and measures what it says.

    Args:
      key: a typed key.
      env: the players' view of the game.
      agent: both players.
      params: their parameters.
      env_params: the distribution over tasks.
      structures: T.
      asked: see `utterances`. At the end of an episode is what the paper does.

    Returns:
      The languages, with a sample of every meaning.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.acting import random_agent
      >>> env = gpicljax.make("MetaRG-v1", view="players", max_values=2)
      >>> def ask(key):
      ...     return languages(key, env, random_agent(env), (), env.default_params, structures=4)
      >>> jax.eval_shape(ask, jax.random.key(0)).messages.shape
      (4, 8, 3)
    """
    space = meanings(env)
    spoken_structures = utterances(
        key, env, agent, params, env_params, structures=structures, asked=asked
    )
    messages = spoken_structures.messages[:, :, 0]

    def measure(spoken: jax.Array, count: jax.Array) -> tuple[jax.Array, ...]:
        sizes = {"vocab_size": env.vocab_size + 1, "num_values": env.max_values}
        return (
            topographic_similarity(spoken, space, counts=count),
            posdis(spoken, space, counts=count, **sizes),
            bosdis(spoken, space, counts=count, **sizes),
        )

    return Languages(
        messages, spoken_structures.counts, *jax.vmap(measure)(messages, spoken_structures.counts)
    )
