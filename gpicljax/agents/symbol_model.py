"""A language model of trials: it predicts the next symbol of streams, and acts by its predictions.

Streams (`gpicljax.symbols`) are drawn as it learns: a teacher plays trials, which are written down
symbol by symbol. What it learns is what comes next, observations and rewards among it; where an
action comes next, that is what the teacher would do. Acting, it writes down its own trial and takes
its action from the same logits, those of the legal ones. So one network can learn all environments
that declare a code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents import sequence
from gpicljax.agents.algorithm import Algorithm, get_algorithm, register_algorithm
from gpicljax.agents.sequence import ActingConfig, Loss, SequenceHParams, Sequences
from gpicljax.agents.symbol_lessons import Sample, stream_sampler
from gpicljax.batching import select
from gpicljax.checks import Count, Rate, Share
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.networks.policies import draw_choice, legal_actions
from gpicljax.networks.transformer_block import KVCache
from gpicljax.symbols import (
    ACTION,
    SYMBOLS,
    align_left,
    code_of,
    write_step,
)
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


@dataclasses.dataclass(frozen=True)
class SymbolModelConfig(ActingConfig):
    """Sizes and switches of a model of trials; see `ActingConfig`; steps are symbols.

    Attributes:
      teacher: name of the registered agent whose trials are learnt from.
      steps: time steps of a trial, of which the first symbols are learnt from.
      exploration: greatest share of the teacher's actions that random ones replace; each trial
        draws its share from 0 to this.
      temperature: of the agent's choices where it is to be greedy; 0 takes the most probable one.

    Example:
      >>> SymbolModelConfig(batch_size=32).length
      1024
    """

    length: Count = 1024
    teacher: str = "random"
    steps: Count = 200
    exploration: Share = 0.0
    temperature: Rate = 0.0


# Acting ------------------------------------------------------------------------------------------


class SymbolCarry(NamedTuple):
    """The memory of a model that acts.

    Attributes:
      core: the network's carry.
      logits: float `[B, SYMBOLS]`, of the next symbol.
      last_action: `int32[B]`.
    """

    core: Any
    logits: jax.Array
    last_action: jax.Array


def _carry_on(goes_on: jax.Array, after: ArrayTree, before: ArrayTree) -> Any:
    """Returns the carry after a symbol where there was one, `bool[B]`, and that before elsewhere.

    What a cache holds beyond its length is not seen and written over: only the length goes back.
    """

    def pick(new: Any, old: Any) -> Any:
        if isinstance(new, KVCache):
            return new.replace(length=jnp.where(goes_on, new.length, old.length))
        return select(goes_on, new, old)

    return jax.tree.map(pick, after, before, is_leaf=lambda x: isinstance(x, KVCache))


def symbol_agent(
    network: Network, env: Environment, temperature: float = 1.0, must_speak: bool = False
) -> Agent:
    """Returns a model of streams that acts, over its network's parameters.

    Args:
      network: from symbols to logits float `[B, SYMBOLS]`.
      env: the environment; its actions are `Discrete`, or, where its code has none, predictions.
      temperature: of its choices; 0 takes the most probable action.
      must_speak: whether it has to act where silence is an action, too.
    """
    code, space = code_of(env), env.action_space()

    def act(
        keys: jax.Array, params: ArrayTree, carry: SymbolCarry, timestep: TimeStep
    ) -> tuple[Any, Any, SymbolCarry]:
        written = write_step(code, carry.last_action, timestep)
        count = written.is_written.sum(1, dtype=jnp.int32)
        (symbols,) = align_left(written.is_written, written.symbols.shape[1] + 1, written.symbols)
        symbols = symbols.at[jnp.arange(len(keys)), count].set(ACTION)

        def read_next(place: jax.Array, so_far: tuple[SymbolCarry, jax.Array]) -> Any:
            carry, asked = so_far
            start, goes_on = timestep.trial_start & (place == 0), place < count
            logits, core = network.step(params, carry.core, symbols[:, place], start)
            core, after = _carry_on(goes_on, (core, logits), (carry.core, carry.logits))
            # What is chosen is written at the next step, when it is known what was played.
            asked = select(place == count, logits, asked)
            return carry._replace(core=core, logits=after), asked

        last = count.max() + 1 if code.acts else count.max()
        carry, asked = jax.lax.fori_loop(0, last, read_next, (carry, carry.logits))
        if not code.acts:
            assert isinstance(space, spaces.Box)
            values = carry.logits[:, : space.shape[0]]
            return jax.nn.log_softmax(values).astype(space.jax_dtype), {}, carry
        assert isinstance(space, spaces.Discrete)
        legal = jnp.broadcast_to(legal_actions(timestep.observation, space), (len(keys), space.n))
        logits = jnp.where(legal, asked[:, : space.n], -jnp.inf)
        if code.silence is not None:
            logits = _with_silence(code.silence, carry.logits, logits, must_speak)
        choose = lambda key, row: draw_choice(key, row, temperature)  # noqa: E731
        action = jax.vmap(choose)(keys, logits)
        return action, {"logits": logits}, carry._replace(last_action=action)

    def initial_carry(batch: int) -> SymbolCarry:
        logits = jnp.zeros((batch, SYMBOLS), jnp.result_type(float))
        return SymbolCarry(network.initial_carry(batch), logits, jnp.zeros(batch, jnp.int32))

    return Agent(initial_carry, act, lambda carry, action: carry._replace(last_action=action))


def _with_silence(
    silence: int, before: jax.Array, logits: jax.Array, must_speak: bool
) -> jax.Array:
    """Returns logits of actions, one of which is to let the stream go on without one.

    Args:
      silence: that action.
      before: float `[B, SYMBOLS]`, logits of the symbol after the observation.
      logits: float `[B, A]`, of the symbol after `ACTION`; minus infinity where illegal.
      must_speak: whether silence is out of the question.
    """
    is_silence = jnp.arange(logits.shape[-1]) == silence
    may_be_silent = jnp.isfinite(logits[:, silence])
    spoken = jnp.where(is_silence, -jnp.inf, logits)
    if must_speak:
        return spoken
    can_speak = jnp.isfinite(spoken).any(-1)
    chances = jax.nn.log_softmax(before)
    speaks = chances[:, ACTION]
    goes_on = jnp.log1p(-jnp.minimum(jnp.exp(speaks), 1 - 1e-6))
    # Where nothing can be said, no logit is finite.
    total = jnp.where(can_speak, jax.nn.logsumexp(spoken, axis=-1), 0.0)
    said = spoken - total[:, None] + speaks[:, None]
    said = jnp.where(is_silence, jnp.where(may_be_silent, goes_on, -jnp.inf)[:, None], said)
    return said


# Learning ----------------------------------------------------------------------------------------

CHOICES = 4.0
"""Weight of the losses of all choices, beside that of all symbols."""


def symbol_losses(sources: Sequence[str] = ("choices",)) -> list[Loss]:
    """Returns the loss of all symbols, and that of the actions of each source.

    Where nothing is chosen, the latter is that of all symbols of the source. Choices weigh more
    than other symbols, of which there are more and which are easier to learn; all sources the same.

    Args:
      sources: names of what is drawn by a `mixed_sampler`; one, where it is drawn without.
    """
    nats = sequence.cross_entropy("nats", target=lambda targets: targets["next"])

    def counts(number: int) -> Callable[[Sequences], jax.Array]:
        def is_counted(sequences: Sequences) -> jax.Array:
            targets = sequences.targets
            is_own, is_action = targets.get("source", 0) == number, targets["is_action"]
            chooses = (is_own & is_action).any()
            return is_own & (targets["next"] >= 0) & (is_action | ~chooses)

        return is_counted

    apart = [
        nats._replace(name=f"nats.{name}", weight=CHOICES / len(sources), counts=counts(number))
        for number, name in enumerate(sources)
    ]
    return [nats, *apart]


def choice_nats(
    network: Network, sample: Sample, keys: jax.Array, data: ArrayTree, params: ArrayTree
) -> jax.Array:
    """Returns what a teacher's choices cost a model, in nats, float `[]`.

    Args:
      network: from symbols to logits.
      sample: draws streams of one source, by `mixed_sampler`.
      keys: typed keys `[N]`; streams are drawn and read one after the other.
      data: what `sample` is given.
      params: of the network.
    """
    _, choices = symbol_losses()

    def add_up(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        sequences = sample(key[None], data)
        at = sequence.evaluate(network, [choices], params, sequences)[choices.name]
        assert choices.counts is not None
        is_counted = choices.counts(sequences)
        return jnp.sum(at, where=is_counted), is_counted.sum()

    total, count = jax.lax.map(add_up, keys)
    return total.sum() / count.sum()


def fits(observations: spaces.Space, actions: spaces.Space) -> str | None:
    """Returns why a model of streams does not fit these spaces; None if it does."""
    del observations
    if isinstance(actions, spaces.Discrete | spaces.Box):
        return None
    return f"a single choice, or a prediction, is needed, not {actions}"


def make(config: SymbolModelConfig, vec: VectorEnv, network: Network, teacher: Agent) -> Trainer:
    """Builds the trainer of a model of one environment's trials.

    Args:
      config: sizes and switches; there are as many sequences as instances in `vec`.
      vec: the environments.
      network: from symbols to logits.
      teacher: whose trials are learnt from.
    """
    config = dataclasses.replace(config, batch_size=vec.num_envs)
    part = vec.part(config.microbatches)
    sample = stream_sampler(part, teacher, config.steps, config.length, config.exploration)

    def agent(greedy: bool = False) -> Agent:
        return symbol_agent(network, vec.env, config.temperature if greedy else 1.0)

    return sequence.make(
        config, network, sample, symbol_losses(), length=config.length, agent=agent
    )


def _make(config: SymbolModelConfig, vec: VectorEnv, network: LanguageModelSettings) -> Trainer:
    teacher = get_algorithm(config.teacher)
    acting = teacher.make(teacher.config(), vec, teacher.network()).agent(greedy=True)
    capacity = config.capacity or config.length
    return make(config, vec, language_model(network, SYMBOLS, capacity), acting)


register_algorithm(
    Algorithm(
        "symbol-model",
        _make,
        fits,
        SymbolModelConfig,
        SequenceHParams,
        LanguageModelSettings,
        privileged=True,
        remembers=True,
        reads_symbols=True,
        to_act=lambda config: dataclasses.replace(config.to_act(), teacher="random"),
    )
)
