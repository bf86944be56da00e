"""An agent that learns online: its weights are part of its memory and change at every step.

For each of the 256 bytes it predicts what saying that byte would earn, and says the byte with the
best prediction. The prediction is logistic in binary features of the byte: what was heard after the
last similar situation, what was rewarded or punished in such situations, and when the byte was
heard, said or rewarded last. Several rows of weights are added up, chosen by the present situation,
as in the mixers of PAQ compressors (Mahoney, 2005). All of it is learnt from zero within a stream.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax.batching import select
from gpicljax.checks import Count, Range, Share
from gpicljax.interface import Agent, TimeStep
from gpicljax.typing import ArrayTree

BYTES = 256
NEVER_AGE = 10**6
"""Age of an event that has not happened yet, in steps."""
SITUATIONS = 11
"""Definitions of a similar situation."""
PAUSES = 16
"""Steps since the last reward that are distinguished."""
_SIGN_COUNT = 27
_PAIR_COUNT = 512
# First row of each kind; row 0 belongs to every situation.
_SINCE_ROWS, _RECENT_ROWS, _INPUT_ROWS = 1, 1 + 3 * PAUSES, 1 + 3 * PAUSES + _SIGN_COUNT
_PAIR_ROWS = _INPUT_ROWS + BYTES
ROWS = _PAIR_ROWS + _PAIR_COUNT
"""Rows of weights; five are added up at each step."""
_BYTE_ROWS = 4
"""Number of the five rows, the first ones, that also have a weight for each byte."""


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """Sizes and rates of the learner.

    Attributes:
      memory: Steps of its own stream that it remembers and replays.
      lags: Bytes after a similar situation that it may copy.
      credit: Steps for which a reward is credited to bytes said before it.
      discount: Loss of credit for each step.
      learning_rate: Share of an error that an update of one example removes, roughly; 0 freezes
        the weights.
      replay: Remembered steps that are learnt from again at each step.
      identity: Weight of a byte's own value among its features.
      noise: Random noise on predictions where all is well.
      warmth: More of it, where what was said in such a situation was punished.
      heat: Noise on weights, which stays the same for several answers, after many failures.
      redraw: How likely this noise is drawn anew after an answer.
      horizon: Answers over which failures are averaged.
    """

    memory: Annotated[int, Range(32)] = 256
    lags: Count = 4
    credit: Annotated[int, Range(1, 16)] = 6
    discount: Share = 0.95
    learning_rate: Annotated[float, Range(0)] = 1.0
    replay: Annotated[int, Range(0)] = 16
    identity: Annotated[float, Range(0)] = 0.2
    noise: Annotated[float, Range(0)] = 0.01
    warmth: Annotated[float, Range(0)] = 1.0
    heat: Annotated[float, Range(0)] = 1.0
    redraw: Share = 0.15
    horizon: Count = 16

    @property
    def features(self) -> int:
        """Returns the number of features of a byte, its own value aside."""
        return SITUATIONS * (self.lags + 4) + 23


@struct.dataclass
class LearnerMemory:
    """The memory of one learner, `[B, ...]`; N remembered steps, F features.

    Attributes:
      time: `int32`, steps so far.
      pause: `int32`, steps since the last reward.
      sign: `int32`, sign of the last reward, 0 to 2.
      signs: `int32`, signs of the rewards of the last three steps.
      situations: `uint32[SITUATIONS, N]`, hashes of each remembered moment.
      inputs: `int32[N]`, the environment's byte at each remembered step.
      replies: `int32[N]`, the reply at each.
      credit: float `[N]`, the credit of each reply, from -1 to 1.
      features: `bool[N, F]`, the features of each reply.
      rows: `int32[N, 5]`, the rows of weights at each step.
      last_input: `int32[256]`, the step at which each byte was last an input.
      last_reply: `int32[256]`, the step at which each byte was last a reply.
      last_paid: `int32[256]`, the step at which each byte was last rewarded.
      quiet: float `[256]`, number of replies of each byte that had no reward of either sign.
      failures: float, share of punishments among the recent rewards.
      failure_shares: float `[PAUSES * 3, 27]`, share of punishments by situation.
      place: `int32[2]`, the situation of the last step.
      tilt: float `[F]`, the noise on weights.
      weights: float `[ROWS, F]`.
      byte_weights: float `[_PAIR_ROWS, 256]`, weights of a byte's own value.
    """

    time: Any
    pause: Any
    sign: Any
    signs: Any
    situations: Any
    inputs: Any
    replies: Any
    credit: Any
    features: Any
    rows: Any
    last_input: Any
    last_reply: Any
    last_paid: Any
    quiet: Any
    failures: Any
    failure_shares: Any
    place: Any
    tilt: Any
    weights: Any
    byte_weights: Any


def _empty_memory(config: LearnerConfig, fixed: bool) -> LearnerMemory:
    size, number = config.memory, config.features
    zero, ages = jnp.int32(0), jnp.full(BYTES, -NEVER_AGE, jnp.int32)
    weights = jnp.zeros((ROWS, number))
    if fixed:
        outcome_features = SITUATIONS * config.lags + jnp.arange(4 * SITUATIONS)
        is_good = jnp.arange(4 * SITUATIONS) < 2 * SITUATIONS
        weights = weights.at[0, outcome_features].set(jnp.where(is_good, 1.0, -1.0))
    return LearnerMemory(
        time=zero,
        pause=zero,
        sign=jnp.int32(1),
        signs=jnp.int32(13),
        situations=jnp.zeros((SITUATIONS, size), jnp.uint32),
        inputs=jnp.zeros(size, jnp.int32),
        replies=jnp.zeros(size, jnp.int32),
        credit=jnp.zeros(size),
        features=jnp.zeros((size, number), bool),
        rows=jnp.zeros((size, 5), jnp.int32),
        last_input=ages,
        last_reply=ages,
        last_paid=ages,
        quiet=jnp.zeros(BYTES),
        failures=jnp.asarray(0.5),
        failure_shares=jnp.zeros((3 * PAUSES, _SIGN_COUNT)),
        place=jnp.zeros(2, jnp.int32),
        tilt=jnp.zeros(number),
        weights=weights,
        byte_weights=jnp.zeros((_PAIR_ROWS, BYTES)),
    )


def _hash_parts(*parts: Any) -> jax.Array:
    value = jnp.uint32(2166136261)
    for part in parts:
        value = (value ^ jnp.asarray(part).astype(jnp.uint32)) * jnp.uint32(16777619)
        value = value ^ (value >> 15)
    return value


def _observe(
    config: LearnerConfig, memory: LearnerMemory, byte: jax.Array, reward: jax.Array
) -> LearnerMemory:
    """Stores a byte and the reward of the last reply, and credits replies with it."""
    time, size = memory.time, config.memory
    credit, has_begun = memory.credit, time > 0
    for back in range(1, config.credit + 1):
        place = (time - back) % size
        gets_credit = (time >= back) & (reward != 0) & (credit[place] == 0)
        share = reward * config.discount ** (back - 1)
        credit = credit.at[place].set(jnp.where(gets_credit, share, credit[place]))
    sign = jnp.sign(reward).astype(jnp.int32) + 1
    before, place = memory.replies[(time - 1) % size], memory.place
    paid = jnp.where((reward > 0) & has_begun, time, memory.last_paid[before])
    lost = (reward < 0) - memory.failure_shares[place[0], place[1]]
    failures = memory.failures + ((reward < 0) - memory.failures) / config.horizon
    return dataclasses.replace(
        memory,
        pause=jnp.where(reward != 0, 0, jnp.minimum(memory.pause + 1, PAUSES - 1)),
        sign=jnp.where(reward != 0, sign, memory.sign),
        signs=(memory.signs * 3 + sign) % _SIGN_COUNT,
        inputs=memory.inputs.at[time % size].set(byte),
        credit=credit,
        last_input=memory.last_input.at[byte].set(time),
        last_paid=memory.last_paid.at[before].set(paid),
        quiet=memory.quiet.at[before].add((reward == 0) & has_begun),
        failures=jnp.where(reward != 0, failures, memory.failures),
        failure_shares=memory.failure_shares.at[place[0], place[1]].add(
            jnp.where(has_begun, lost / config.horizon, 0.0)
        ),
    )


class Moment(NamedTuple):
    """A situation: hashes `[SITUATIONS]`, rows `[5]`, place `[2]`, features `[F, 256]`."""

    situations: jax.Array
    rows: jax.Array
    place: jax.Array
    features: jax.Array


def _describe_moment(config: LearnerConfig, memory: LearnerMemory) -> Moment:
    """Returns the present situation, and the features of every byte in it."""
    time, size = memory.time, config.memory
    pause, signs, since = memory.pause, memory.signs, memory.pause * 3 + memory.sign
    inputs = [jnp.where(time >= i, memory.inputs[(time - i) % size], BYTES) for i in range(4)]
    replies = [jnp.where(time >= i, memory.replies[(time - i) % size], BYTES) for i in range(1, 4)]
    keys = [(), inputs[:1], inputs[:2], inputs[:3], (*inputs[:1], pause), (*inputs[:2], pause)]
    keys += [inputs, (pause,), (*inputs, pause), (since, signs), (signs, inputs[0])]
    situations = jnp.stack([_hash_parts(number, *key) for number, key in enumerate(keys)])
    pair = (_hash_parts(9, inputs[0], pause) % _PAIR_COUNT).astype(jnp.int32)
    rows = jnp.stack(
        [0, _SINCE_ROWS + since, _RECENT_ROWS + signs, _INPUT_ROWS + inputs[0], _PAIR_ROWS + pair]
    )

    times = time - 1 - (time - 1 - jnp.arange(size)) % size
    is_similar = (memory.situations == situations[:, None]) & (times >= 0)
    is_similar = is_similar & (jnp.arange(size) != time % size)
    last = jnp.where(is_similar, times, -1).max(1)
    bytes_ = jnp.arange(BYTES)
    places = last + 1 + jnp.arange(config.lags)[:, None]
    copied = jnp.where((last >= 0) & (places <= time), memory.inputs[places % size], BYTES)

    def latest(mask: jax.Array) -> jax.Array:
        similar_times = jnp.where(is_similar & mask, times, -1)
        return jnp.full((SITUATIONS, BYTES), -1, jnp.int32).at[:, memory.replies].max(similar_times)

    good, bad = latest(memory.credit > 0), latest(memory.credit < 0)
    newest = good.max(1, keepdims=True)
    outcome_features = [(good > bad) & (good == newest), (good > bad) & (good < newest)]
    outcome_features += [(bad > good) & (bad > newest), (bad > good) & (bad < newest)]

    ages = [time - memory.last_input, time - memory.last_reply, time - memory.last_paid]
    limits = [(4, 16, 48, 160), (16, 64), (64, 640)]
    recent = [
        [age < limit for limit in (*most, NEVER_AGE)]
        for age, most in zip(ages, limits, strict=True)
    ]
    is_never = [age >= NEVER_AGE for age in ages]
    idle = (memory.quiet > 0) & (bytes_ == memory.quiet.argmax())
    echo = [bytes_ == value for value in (*inputs, *replies)]
    single = [*recent[0], *recent[1], *recent[2], *is_never, idle, *echo, jnp.ones(BYTES, bool)]
    features = [
        (copied[..., None] == bytes_).reshape(-1, BYTES),
        *outcome_features,
        jnp.stack(single),
    ]
    return Moment(situations, rows, jnp.stack([since, signs]), jnp.concatenate(features))


def _update_weights(
    config: LearnerConfig, memory: LearnerMemory, key: jax.Array, before: LearnerMemory
) -> LearnerMemory:
    """Updates the weights on steps whose credit has just been settled, and on a replay.

    An update is a step of normalised least mean squares on the logistic prediction: a step is
    divided by the number of features that take part.
    """
    time, size, recent = memory.time, config.memory, jnp.arange(1, config.credit + 1)
    most = jnp.minimum(time, size - 8)
    replayed = jax.random.randint(key, (config.replay,), 1, most + 1)
    back = jnp.concatenate([recent, replayed])
    rewarded = memory.pause == 0
    is_due = (rewarded & (recent <= before.pause + 1)) | (recent == config.credit)
    is_settled = jnp.concatenate([is_due, jnp.ones(config.replay, bool)])
    place = (time - back) % size
    earned = memory.credit[place]
    is_used = (time >= back) & is_settled & ((earned != 0) | (back >= config.credit))
    features = memory.features[place].astype(jnp.float32)
    rows, replies = memory.rows[place], memory.replies[place, None]
    byte_rows = rows[:, :_BYTE_ROWS]
    score = (memory.weights[rows] * features[:, None]).sum((1, 2))
    score = score + memory.byte_weights[byte_rows, replies].sum(1)
    error = (earned + 1) / 2 - jax.nn.sigmoid(score)
    norm = rows.shape[1] * features.sum(1) + _BYTE_ROWS * config.identity + 1e-6
    step = jnp.where(is_used, config.learning_rate * error / norm, 0)
    return dataclasses.replace(
        memory,
        weights=memory.weights.at[rows].add((step[:, None] * features)[:, None]),
        byte_weights=memory.byte_weights.at[byte_rows, replies].add(
            config.identity * step[:, None]
        ),
    )


def _draw_tilt(config: LearnerConfig, memory: LearnerMemory, key: jax.Array) -> LearnerMemory:
    """Draws the noise on weights anew, now and then: one number by lag, and one by situation."""
    chance_key, lag_key, situation_key = jax.random.split(key, 3)
    lags = jnp.repeat(jax.random.normal(lag_key, (config.lags,)), SITUATIONS)
    situations = jnp.tile(jax.random.normal(situation_key, (SITUATIONS,)), config.lags)
    rest = jnp.zeros(config.features - len(lags))
    is_redrawn = (memory.pause == 0) & (jax.random.uniform(chance_key) < config.redraw)
    tilt = jnp.where(is_redrawn, jnp.concatenate([lags + situations, rest]), memory.tilt)
    return dataclasses.replace(memory, tilt=tilt)


def _step(
    config: LearnerConfig, memory: LearnerMemory, key: jax.Array, byte: jax.Array, reward: jax.Array
) -> tuple[jax.Array, LearnerMemory]:
    """Returns one stream's reply, and the memory after it."""
    replay_key, tilt_key, noise_key = jax.random.split(key, 3)
    last_memory = memory
    memory = _observe(config, memory, byte, reward)
    moment = _describe_moment(config, memory)
    if config.learning_rate > 0:
        memory = _update_weights(config, memory, replay_key, last_memory)
    memory = _draw_tilt(config, memory, tilt_key)
    weights = memory.weights[moment.rows].sum(0) + config.heat * memory.failures**4 * memory.tilt
    score = weights @ moment.features.astype(jnp.float32) + memory.byte_weights[
        moment.rows[:_BYTE_ROWS]
    ].sum(0)
    noise = (
        config.noise + config.warmth * memory.failure_shares[moment.place[0], moment.place[1]] ** 4
    )
    reply = jnp.argmax(score + noise * jax.random.gumbel(noise_key, (BYTES,))).astype(jnp.int32)
    place = memory.time % config.memory
    return reply, dataclasses.replace(
        memory,
        time=memory.time + 1,
        situations=memory.situations.at[:, place].set(moment.situations),
        replies=memory.replies.at[place].set(reply),
        credit=memory.credit.at[place].set(0),
        features=memory.features.at[place].set(moment.features[:, reply]),
        rows=memory.rows.at[place].set(moment.rows),
        last_reply=memory.last_reply.at[reply].set(memory.time),
        place=moment.place,
    )


def online_learner(config: LearnerConfig | None = None, *, fixed: bool = False) -> Agent:
    """Returns an agent that learns to give rewarded replies from its stream alone.

    Args:
      config: sizes and rates.
      fixed: begin with weights of 1 for what was rewarded in a similar situation and -1 for what
        was punished, instead of zeros. Without learning, this is a table of replies.
    """
    config = LearnerConfig() if config is None else config

    def initial_carry(batch: int) -> LearnerMemory:
        blank = _empty_memory(config, fixed)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), blank)

    def act(keys: jax.Array, params: ArrayTree, carry: LearnerMemory, timestep: TimeStep) -> Any:
        del params
        is_start, batch = timestep.trial_start, timestep.observation.shape[0]
        # The weights are large, and streams begin once: they are not copied at every step.
        carry = jax.lax.cond(
            is_start.any(), lambda: select(is_start, initial_carry(batch), carry), lambda: carry
        )
        byte, reward = timestep.observation.astype(jnp.int32), timestep.reward.astype(jnp.float32)
        step = lambda *arguments: _step(config, *arguments)  # noqa: E731
        reply, after = jax.vmap(step)(carry, keys, byte, reward)
        return reply, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(initial_carry, act)
