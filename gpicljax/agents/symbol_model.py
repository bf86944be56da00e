"""A language model of trials: it predicts the next symbol of streams, and acts by its predictions.

Streams (`gpicljax.symbols`) are drawn as it learns: a teacher plays trials, which are written down
symbol by symbol. What it learns is what comes next, observations and rewards among it; where an
action comes next, that is what the teacher would do. Acting, it writes down its own trial and takes
its action from the same logits, those of the legal ones. So one network can learn all environments
that declare a code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents import sequence
from gpicljax.agents.acting import random_agent
from gpicljax.agents.algorithm import Algorithm, get_algorithm, register_algorithm
from gpicljax.agents.sequence import ActingConfig, Loss, SequenceHParams, Sequences
from gpicljax.batching import select
from gpicljax.checks import Count, Rate, Share, check
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import Network
from gpicljax.networks.language_model import LanguageModelSettings, language_model
from gpicljax.networks.policies import draw_choice, legal_actions
from gpicljax.networks.transformer_block import KVCache
from gpicljax.rollout import Record, rollout, start_rollout
from gpicljax.symbols import (
    ACTION,
    SYMBOLS,
    SymbolCode,
    align_left,
    code_of,
    write_step,
    write_stream,
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

    def read(
        params: ArrayTree, carry: SymbolCarry, symbol: jax.Array, start: jax.Array, is_read: Any
    ) -> SymbolCarry:
        logits, core = network.step(params, carry.core, symbol, start)
        logits = jnp.where(is_read[:, None], logits, carry.logits)
        return carry._replace(core=_carry_on(is_read, core, carry.core), logits=logits)

    def act(
        keys: jax.Array, params: ArrayTree, carry: SymbolCarry, timestep: TimeStep
    ) -> tuple[Any, Any, SymbolCarry]:
        written = write_step(code, carry.last_action, timestep)
        size = written.symbols.shape[1]
        (symbols,) = align_left(written.is_written, size, written.symbols)
        count = written.is_written.sum(1, dtype=jnp.int32)

        def read_next(place: jax.Array, carry: SymbolCarry) -> SymbolCarry:
            start = timestep.trial_start & (place == 0)
            return read(params, carry, symbols[:, place], start, place < count)

        carry = jax.lax.fori_loop(0, count.max(), read_next, carry)
        if not code.acts:
            assert isinstance(space, spaces.Box)
            values = carry.logits[:, : space.shape[0]]
            return jax.nn.log_softmax(values).astype(space.jax_dtype), {}, carry
        assert isinstance(space, spaces.Discrete)
        # What is chosen is written at the next step, when it is known what was played.
        none = jnp.zeros(keys.shape[0], bool)
        asked = read(params, carry, jnp.full(keys.shape[0], ACTION), none, ~none)
        legal = jnp.broadcast_to(legal_actions(timestep.observation, space), (len(keys), space.n))
        logits = jnp.where(legal, asked.logits[:, : space.n], -jnp.inf)
        if code.silence is not None:
            logits = _with_silence(code.silence, carry.logits, logits, must_speak)
        choose = lambda key, row: draw_choice(key, row, temperature)  # noqa: E731
        action = jax.vmap(choose)(keys, logits)
        carry = carry._replace(core=_carry_on(none, asked.core, carry.core), last_action=action)
        return action, {"logits": logits}, carry

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


def _write_trials(
    vec: VectorEnv, player: Agent, steps: int, length: int
) -> Callable[[jax.Array, ArrayTree, ArrayTree], Sequences]:
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
    has_memory = bool(jax.tree.leaves(jax.eval_shape(lambda: teacher.initial_carry(1))))
    fits = not exploration or not has_memory or teacher.record_action is not None
    check(fits, "exploration", exploration, "0, for a teacher that has no record_action")
    shares = 0.0, exploration if code.acts else 0.0
    player = _with_labels(teacher, random_agent(vec.env), code, shares)
    play = _write_trials(vec, player, steps, length)
    return lambda keys, env_params: play(keys[0], env_params, ())


class OwnTrials(NamedTuple):
    """Streams that a model has played, to learn from beside those of its teacher.

    Attributes:
      params: the distribution over tasks of the teacher's trials.
      streams: leaves `[L, N]`; their targets are what the teacher would have done.
      share: float `[]`, of what is learnt from, drawn at random from these.
    """

    params: Any
    streams: Sequences
    share: jax.Array


def no_own_trials(params: ArrayTree, length: int, count: int) -> OwnTrials:
    """Returns room for N streams of L symbols before the model has played any."""
    number, no = (jnp.zeros((length, count), dtype) for dtype in (jnp.int32, bool))
    streams = Sequences(number, no, {"next": number, "is_action": no})
    return OwnTrials(params, streams, jnp.zeros((), jnp.result_type(float)))


def own_trials(
    vec: VectorEnv, teacher: Agent, steps: int, length: int, network: Network
) -> Callable[[jax.Array, ArrayTree, ArrayTree], Sequences]:
    """Returns `(key, env_params, params) -> Sequences` of trials that a model itself plays.

    What it is to learn there is what the teacher would do in its place, so that it sees where its
    own mistakes lead (dataset aggregation: Ross et al., 2011). Where silence is an action, the
    teacher says when to speak, and the model what.

    Args:
      vec: the environments.
      teacher: without parameters; it is told what was played by its `record_action`.
      steps: see `stream_sampler`.
      length: likewise.
      network: from symbols to logits; its parameters are the last argument.
    """
    model = symbol_agent(network, vec.env, must_speak=True)
    player = _with_labels(teacher, model, code_of(vec.env), (1.0, 1.0))
    return _write_trials(vec, player, steps, length)


def with_own_trials(sample: Sample) -> Sample:
    """Returns the sampler of a teacher's trials or a model's, from `OwnTrials`."""

    def draw(keys: jax.Array, data: OwnTrials) -> Sequences:
        taught, keys = sample(keys, data.params), jax.vmap(jax.random.split, out_axes=1)(keys)
        count = data.streams.inputs.shape[1]
        number = jax.vmap(lambda key: jax.random.randint(key, (), 0, count))(keys[0])
        is_own = jax.vmap(jax.random.uniform)(keys[1]) < data.share
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
