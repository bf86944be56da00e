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
NEVER = 10**6
"""Age of what has not happened yet, in steps."""
SITUATIONS = 11
"""Ways to call two moments similar."""
PAUSES = 16
"""Steps since the last reward that are told apart."""
_SIGNS = 27
_PAIRS = 512
# Where each kind of row begins; the first row belongs to every situation.
_SINCE, _RECENT, _HEARD = 1, 1 + 3 * PAUSES, 1 + 3 * PAUSES + _SIGNS
_PAIR = _HEARD + BYTES
ROWS = _PAIR + _PAIRS
"""Rows of weights, of which five are added up at each step."""
_NAMED = 4
"""The first so many of the five rows have a weight for each byte, too."""


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
        """Features of a byte, its own value aside."""
        return SITUATIONS * (self.lags + 4) + 23


@struct.dataclass
class Memory:
    """All that one learner carries along, `[B, ...]`; N remembered steps, F features.

    Attributes:
      time: `int32`, steps so far.
      pause: `int32`, steps since the last reward.
      sign: `int32`, that of the last reward, 0 to 2.
      signs: `int32`, those of the last three steps.
      situations: `uint32[SITUATIONS, N]`, hashes of each remembered moment.
      heard: `int32[N]`, what was heard at it, and
      said: `int32[N]`, what was said.
      credit: float `[N]`, what that earned, from -1 to 1.
      features: `bool[N, F]`, of what was said, and
      rows: `int32[N, 5]`, the rows of weights at that time.
      last_heard: `int32[256]`, when each byte was heard last, and
      last_said: `int32[256]`, when said, and
      last_paid: `int32[256]`, when rewarded.
      quiet: float `[256]`, how often it was said and no reward of either sign followed.
      failures: float, share of rewards that were punishments of late.
      failed: float `[PAUSES * 3, 27]`, that share by situation.
      place: `int32[2]`, the situation of the last step.
      tilt: float `[F]`, the noise on weights.
      weights: float `[ROWS, F]`.
      own: float `[_PAIR, 256]`, weights of a byte's own value.
    """

    time: Any
    pause: Any
    sign: Any
    signs: Any
    situations: Any
    heard: Any
    said: Any
    credit: Any
    features: Any
    rows: Any
    last_heard: Any
    last_said: Any
    last_paid: Any
    quiet: Any
    failures: Any
    failed: Any
    place: Any
    tilt: Any
    weights: Any
    own: Any


def _blank(config: LearnerConfig, fixed: bool) -> Memory:
    size, number = config.memory, config.features
    zero, ages = jnp.int32(0), jnp.full(BYTES, -NEVER, jnp.int32)
    weights = jnp.zeros((ROWS, number))
    if fixed:
        known = SITUATIONS * config.lags + jnp.arange(4 * SITUATIONS)
        good = jnp.arange(4 * SITUATIONS) < 2 * SITUATIONS
        weights = weights.at[0, known].set(jnp.where(good, 1.0, -1.0))
    return Memory(
        time=zero,
        pause=zero,
        sign=jnp.int32(1),
        signs=jnp.int32(13),
        situations=jnp.zeros((SITUATIONS, size), jnp.uint32),
        heard=jnp.zeros(size, jnp.int32),
        said=jnp.zeros(size, jnp.int32),
        credit=jnp.zeros(size),
        features=jnp.zeros((size, number), bool),
        rows=jnp.zeros((size, 5), jnp.int32),
        last_heard=ages,
        last_said=ages,
        last_paid=ages,
        quiet=jnp.zeros(BYTES),
        failures=jnp.asarray(0.5),
        failed=jnp.zeros((3 * PAUSES, _SIGNS)),
        place=jnp.zeros(2, jnp.int32),
        tilt=jnp.zeros(number),
        weights=weights,
        own=jnp.zeros((_PAIR, BYTES)),
    )


def _hashed(*parts: Any) -> jax.Array:
    value = jnp.uint32(2166136261)
    for part in parts:
        value = (value ^ jnp.asarray(part).astype(jnp.uint32)) * jnp.uint32(16777619)
        value = value ^ (value >> 15)
    return value


def _heard(config: LearnerConfig, memory: Memory, byte: jax.Array, reward: jax.Array) -> Memory:
    """Takes in a byte and the reward of the last reply, and gives credit for it."""
    time, size = memory.time, config.memory
    credit, begun = memory.credit, time > 0
    for back in range(1, config.credit + 1):
        place = (time - back) % size
        earns = (time >= back) & (reward != 0) & (credit[place] == 0)
        share = reward * config.discount ** (back - 1)
        credit = credit.at[place].set(jnp.where(earns, share, credit[place]))
    sign = jnp.sign(reward).astype(jnp.int32) + 1
    before, place = memory.said[(time - 1) % size], memory.place
    paid = jnp.where((reward > 0) & begun, time, memory.last_paid[before])
    lost = (reward < 0) - memory.failed[place[0], place[1]]
    failures = memory.failures + ((reward < 0) - memory.failures) / config.horizon
    return dataclasses.replace(
        memory,
        pause=jnp.where(reward != 0, 0, jnp.minimum(memory.pause + 1, PAUSES - 1)),
        sign=jnp.where(reward != 0, sign, memory.sign),
        signs=(memory.signs * 3 + sign) % _SIGNS,
        heard=memory.heard.at[time % size].set(byte),
        credit=credit,
        last_heard=memory.last_heard.at[byte].set(time),
        last_paid=memory.last_paid.at[before].set(paid),
        quiet=memory.quiet.at[before].add((reward == 0) & begun),
        failures=jnp.where(reward != 0, failures, memory.failures),
        failed=memory.failed.at[place[0], place[1]].add(
            jnp.where(begun, lost / config.horizon, 0.0)
        ),
    )


class Moment(NamedTuple):
    """The present: hashes `[SITUATIONS]`, rows `[5]`, place `[2]`, features `[F, 256]`."""

    situations: jax.Array
    rows: jax.Array
    place: jax.Array
    features: jax.Array


def _present(config: LearnerConfig, memory: Memory) -> Moment:
    """What the present situation is like, and the features of every byte in it."""
    time, size = memory.time, config.memory
    pause, signs, since = memory.pause, memory.signs, memory.pause * 3 + memory.sign
    heard = [jnp.where(time >= i, memory.heard[(time - i) % size], BYTES) for i in range(4)]
    said = [jnp.where(time >= i, memory.said[(time - i) % size], BYTES) for i in range(1, 4)]
    keys = [(), heard[:1], heard[:2], heard[:3], (*heard[:1], pause), (*heard[:2], pause)]
    keys += [heard, (pause,), (*heard, pause), (since, signs), (signs, heard[0])]
    situations = jnp.stack([_hashed(number, *key) for number, key in enumerate(keys)])
    pair = (_hashed(9, heard[0], pause) % _PAIRS).astype(jnp.int32)
    rows = jnp.stack([0, _SINCE + since, _RECENT + signs, _HEARD + heard[0], _PAIR + pair])

    times = time - 1 - (time - 1 - jnp.arange(size)) % size
    same = (memory.situations == situations[:, None]) & (times >= 0)
    same = same & (jnp.arange(size) != time % size)
    last = jnp.where(same, times, -1).max(1)
    bytes_ = jnp.arange(BYTES)
    places = last + 1 + jnp.arange(config.lags)[:, None]
    copied = jnp.where((last >= 0) & (places <= time), memory.heard[places % size], BYTES)

    def latest(which: jax.Array) -> jax.Array:
        when = jnp.where(same & which, times, -1)
        return jnp.full((SITUATIONS, BYTES), -1, jnp.int32).at[:, memory.said].max(when)

    good, bad = latest(memory.credit > 0), latest(memory.credit < 0)
    newest = good.max(1, keepdims=True)
    known = [(good > bad) & (good == newest), (good > bad) & (good < newest)]
    known += [(bad > good) & (bad > newest), (bad > good) & (bad < newest)]

    ages = [time - memory.last_heard, time - memory.last_said, time - memory.last_paid]
    limits = [(4, 16, 48, 160), (16, 64), (64, 640)]
    recent = [
        [age < limit for limit in (*most, NEVER)] for age, most in zip(ages, limits, strict=True)
    ]
    never = [age >= NEVER for age in ages]
    idle = (memory.quiet > 0) & (bytes_ == memory.quiet.argmax())
    echo = [bytes_ == value for value in (*heard, *said)]
    single = [*recent[0], *recent[1], *recent[2], *never, idle, *echo, jnp.ones(BYTES, bool)]
    features = [(copied[..., None] == bytes_).reshape(-1, BYTES), *known, jnp.stack(single)]
    return Moment(situations, rows, jnp.stack([since, signs]), jnp.concatenate(features))


def _learnt(config: LearnerConfig, memory: Memory, key: jax.Array, before: Memory) -> Memory:
    """One update of the weights: on steps whose credit has just been settled, and on a replay.

    An update is a step of normalised least mean squares on the logistic prediction: a step is
    divided by the number of features that take part.
    """
    time, size, recent = memory.time, config.memory, jnp.arange(1, config.credit + 1)
    most = jnp.minimum(time, size - 8)
    replayed = jax.random.randint(key, (config.replay,), 1, most + 1)
    back = jnp.concatenate([recent, replayed])
    rewarded = memory.pause == 0
    due = (rewarded & (recent <= before.pause + 1)) | (recent == config.credit)
    settled = jnp.concatenate([due, jnp.ones(config.replay, bool)])
    place = (time - back) % size
    earned = memory.credit[place]
    use = (time >= back) & settled & ((earned != 0) | (back >= config.credit))
    features = memory.features[place].astype(jnp.float32)
    rows, said = memory.rows[place], memory.said[place, None]
    named = rows[:, :_NAMED]
    score = (memory.weights[rows] * features[:, None]).sum((1, 2))
    score = score + memory.own[named, said].sum(1)
    error = (earned + 1) / 2 - jax.nn.sigmoid(score)
    norm = rows.shape[1] * features.sum(1) + _NAMED * config.identity + 1e-6
    step = jnp.where(use, config.learning_rate * error / norm, 0)
    return dataclasses.replace(
        memory,
        weights=memory.weights.at[rows].add((step[:, None] * features)[:, None]),
        own=memory.own.at[named, said].add(config.identity * step[:, None]),
    )


def _tilted(config: LearnerConfig, memory: Memory, key: jax.Array) -> Memory:
    """Draws the noise on weights anew, now and then: one number by lag, and one by situation."""
    chance_key, lag_key, situation_key = jax.random.split(key, 3)
    lags = jnp.repeat(jax.random.normal(lag_key, (config.lags,)), SITUATIONS)
    situations = jnp.tile(jax.random.normal(situation_key, (SITUATIONS,)), config.lags)
    rest = jnp.zeros(config.features - len(lags))
    drawn = (memory.pause == 0) & (jax.random.uniform(chance_key) < config.redraw)
    tilt = jnp.where(drawn, jnp.concatenate([lags + situations, rest]), memory.tilt)
    return dataclasses.replace(memory, tilt=tilt)


def _stepped(
    config: LearnerConfig, memory: Memory, key: jax.Array, byte: jax.Array, reward: jax.Array
) -> tuple[jax.Array, Memory]:
    """One stream's step: what to say, and the memory after it."""
    replay_key, tilt_key, noise_key = jax.random.split(key, 3)
    before = memory
    memory = _heard(config, memory, byte, reward)
    now = _present(config, memory)
    if config.learning_rate > 0:
        memory = _learnt(config, memory, replay_key, before)
    memory = _tilted(config, memory, tilt_key)
    weights = memory.weights[now.rows].sum(0) + config.heat * memory.failures**4 * memory.tilt
    score = weights @ now.features.astype(jnp.float32) + memory.own[now.rows[:_NAMED]].sum(0)
    noise = config.noise + config.warmth * memory.failed[now.place[0], now.place[1]] ** 4
    say = jnp.argmax(score + noise * jax.random.gumbel(noise_key, (BYTES,))).astype(jnp.int32)
    place = memory.time % config.memory
    return say, dataclasses.replace(
        memory,
        time=memory.time + 1,
        situations=memory.situations.at[:, place].set(now.situations),
        said=memory.said.at[place].set(say),
        credit=memory.credit.at[place].set(0),
        features=memory.features.at[place].set(now.features[:, say]),
        rows=memory.rows.at[place].set(now.rows),
        last_said=memory.last_said.at[say].set(memory.time),
        place=now.place,
    )


def online_learner(config: LearnerConfig | None = None, *, fixed: bool = False) -> Agent:
    """Learns to say what is rewarded, within a stream and from that stream alone.

    Args:
      config: sizes and rates.
      fixed: begin with weights of 1 for what was rewarded in a similar situation and -1 for what
        was punished, instead of zeros. Without learning, this is a table of replies.

    Example:
      >>> online_learner(LearnerConfig(memory=64)).initial_carry(2).heard.shape
      (2, 64)
    """
    config = LearnerConfig() if config is None else config

    def initial_carry(batch: int) -> Memory:
        blank = _blank(config, fixed)
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), blank)

    def act(keys: jax.Array, params: ArrayTree, carry: Memory, timestep: TimeStep) -> Any:
        del params
        starts, batch = timestep.trial_start, timestep.observation.shape[0]
        # The weights are large, and streams begin once: they are not copied at every step.
        carry = jax.lax.cond(
            starts.any(), lambda: select(starts, initial_carry(batch), carry), lambda: carry
        )
        byte, reward = timestep.observation.astype(jnp.int32), timestep.reward.astype(jnp.float32)
        step = lambda *given: _stepped(config, *given)  # noqa: E731
        say, after = jax.vmap(step)(carry, keys, byte, reward)
        return say, {}, jax.tree.map(lambda x, like: x.astype(like.dtype), after, carry)

    return Agent(initial_carry, act)
