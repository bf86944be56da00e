"""The sequence trainer: networks that predict what comes next, from data made as they learn.

One update draws fresh sequences on the device, learns from them in one step of the optimiser and
forgets them. What is predicted (the next token, the next action, the next latent state) and from
what is configured by losses; where sequences come from is a function. So the same trainer serves
language, decision and world models.

The sequences of a batch may be spread over devices (`runtime.per_part`). Each is drawn from a key
of its own, and losses are summed over devices, so that the result is that of one device within
rounding. Dropout alone is drawn anew for every device: with it, runs differ.

Several models may learn from the same sequences, which are then made once (`make(several=True)`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import struct
from jax.typing import ArrayLike

from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import (
    BelowOne,
    Count,
    Limit,
    Natural,
    Range,
    Rate,
    Share,
    Updates,
    check,
    check_at_least,
    check_fields,
    refusal,
)
from gpicljax.interface import Agent, Trainer, prefix_of
from gpicljax.networks.contract import Network
from gpicljax.typing import ArrayTree, Variables

Metrics = dict[str, jax.Array]
Schedule = Literal["noam", "cosine", "constant"]
Optimiser = Literal["adam", "muon"]
# Apart from the keys of a batch's sequences, which have small numbers.
_DROPOUT = 2**31


class Sequences(NamedTuple):
    """A batch to learn from; leaves `[T, B, ...]`.

    Attributes:
      inputs: what the network reads.
      starts: `bool[T, B]`, a new trial begins here: nothing before it is remembered. None where
        every sequence is one trial.
      targets: what losses compare the outputs with, such as `int32[T, B]` next tokens.
    """

    inputs: Any
    starts: jax.Array | None
    targets: Any


Weight = float | Callable[[Any], jax.Array]
Phase = Callable[[Any, jax.Array], Any]
Prepare = Callable[[Any, Sequences], Sequences]


class Loss(NamedTuple):
    """One term of the objective.

    Attributes:
      name: of its metric.
      at: `(outputs, sequences) -> float[T, B]`, the loss at every position.
      weight: in the sum of all terms; or `data -> float[]`, where it follows from what `sample` is
        given (see `make`), so that weights may be traced, or change in phases.
      counts: `sequences -> bool[T, B]`, which positions count; None for all.
    """

    name: str
    at: Callable[[Any, Sequences], jax.Array]
    weight: Weight = 1.0
    counts: Callable[[Sequences], jax.Array] | None = None


def cross_entropy(
    name: str,
    outputs: Callable[[Any], jax.Array] = lambda outputs: outputs,
    target: Callable[[Any], jax.Array] = lambda targets: targets,
    weight: Weight = 1.0,
) -> Loss:
    """Returns the negative log-probability of a discrete target, in nats.

    Args:
      name: of its metric.
      outputs: where in the network's outputs the logits float `[T, B, A]` are.
      target: where in the targets the `int32[T, B]` are; negative where there is none.
      weight: in the sum of all terms.
    """

    def at(out: ArrayTree, sequences: Sequences) -> jax.Array:
        labels = jnp.maximum(target(sequences.targets), 0)
        return optax.softmax_cross_entropy_with_integer_labels(outputs(out), labels)

    return Loss(name, at, weight, lambda sequences: target(sequences.targets) >= 0)


def squared_error(
    name: str,
    outputs: Callable[[Any], jax.Array] = lambda outputs: outputs,
    target: Callable[[Any], jax.Array] = lambda targets: targets,
    counts: Callable[[Sequences], jax.Array] | None = None,
) -> Loss:
    """Returns the mean squared difference from a target vector, float `[T, B, D]`.

    Args:
      name: of its metric.
      outputs: where in the network's outputs the predictions float `[T, B, D]` are.
      target: where in the targets the vectors are.
      counts: which positions count; None for all.
    """

    def at(out: ArrayTree, sequences: Sequences) -> jax.Array:
        difference = outputs(out) - target(sequences.targets)
        if counts is not None:
            # A target that is none may be NaN, and so would be the gradient of its square.
            difference = jnp.where(counts(sequences)[..., None], difference, 0)
        return jnp.square(difference).mean(-1)

    return Loss(name, at, counts=counts)


@dataclasses.dataclass(frozen=True)
class SequenceConfig:
    """Sizes and switches, all static.

    Attributes:
      batch_size: B, keys per update, over all devices; see `make`.
      microbatches: parts of a batch whose gradients are averaged before the optimiser's one step,
        for batches that do not fit into memory. The sequences are those of the whole batch. Where
        the same number of positions counts in all parts, so is the step, within rounding.
      schedule: of the learning rate after its warm-up: `"noam"` falls with the square root of the
        number of updates (Vaswani et al., 2017), `"cosine"` to `final_share` at `decay_updates`,
        `"constant"` stays.
      optimiser: `"adam"`, or `"muon"` (Jordan et al., 2024) for matrices, with Adam for the rest.
      ramp: positions of a sequence over which the weight of its losses rises from 0 to 1: what
        cannot be known yet teaches little.
    """

    batch_size: Count = 16
    microbatches: Count = 1
    schedule: Schedule = "noam"
    optimiser: Optimiser = "adam"
    ramp: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        divides = self.batch_size % self.microbatches == 0
        accepted_values = f"a divisor of batch_size = {self.batch_size}"
        check(divides, "microbatches", self.microbatches, accepted_values)


@dataclasses.dataclass(frozen=True)
class ActingConfig(SequenceConfig):
    """Sizes and switches of a model that acts too: those of `SequenceConfig`, and two more.

    Attributes:
      length: T, steps of a sequence to learn from.
      capacity: steps that a transformer's cache holds when it acts; 0 for `length`.
    """

    length: Count = 128
    capacity: Natural = 0

    def to_act(self) -> Self:
        """Returns the smallest configuration whose agent is the same."""
        sizes = {"batch_size": 1, "microbatches": 1, "length": 1}
        return dataclasses.replace(self, **sizes, capacity=self.capacity or self.length)


@struct.dataclass
class SequenceHParams:
    """Hyper-parameters of a sequence trainer. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      learning_rate: Adam's learning rate at its peak.
      warmup_updates: updates over which the learning rate rises linearly from 0.
      decay_updates: updates after which a cosine schedule has ended, warm-up included.
      final_share: share of the learning rate that a cosine schedule leaves.
      adam_b1: decay of Adam's mean.
      adam_b2: decay of Adam's square.
      adam_epsilon: Adam's epsilon.
      weight_decay: decoupled weight decay (Loshchilov & Hutter, 2019), for matrices only.
      max_gradient_norm: global norm at which gradients are clipped; infinite for no clipping.

    Example:
      >>> hparams = SequenceHParams(learning_rate=0.5, warmup_updates=10)
      >>> float(learning_rate("constant", hparams, jnp.array(100)))
      0.5
    """

    learning_rate: Rate = 1e-3
    warmup_updates: Annotated[int, Range(0, 2**31 - 1)] = 1_000
    decay_updates: Updates = 100_000
    final_share: Share = 0.1
    adam_b1: BelowOne = 0.9
    adam_b2: BelowOne = 0.999
    adam_epsilon: Rate = 1e-8
    weight_decay: Rate = 0.0
    max_gradient_norm: Limit = 1.0


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      opt_state: of Adam.
      data: what `sample` is given beside keys, such as the parameters of a distribution over tasks;
        the host may change it between updates (a curriculum).
      hparams: traced hyper-parameters.
      key: of the data, the same throughout.
      updates: `int32[]`, updates made.
    """

    params: Any
    opt_state: Any
    data: Any
    hparams: SequenceHParams
    key: jax.Array
    updates: jax.Array


def evaluate(
    network: Network, losses: Sequence[Loss], params: ArrayTree, sequences: Sequences
) -> Metrics:
    """Returns every loss at every position, `{name: float[T, B]}`, without dropout."""
    outputs, _ = network.unroll(params, None, sequences.inputs, sequences.starts)
    return {loss.name: loss.at(outputs, sequences) for loss in losses}


def learning_rate(schedule: Schedule, hparams: SequenceHParams, updates: ArrayLike) -> jax.Array:
    """Returns the learning rate of the update after so many others, float `[]`.

    Source: Vaswani et al. (2017), section 5.3, scaled by its peak; Loshchilov & Hutter (2017).
    """
    step = jnp.asarray(updates, jnp.result_type(float)) + 1
    warm = jnp.maximum(jnp.asarray(hparams.warmup_updates, step.dtype), 1)
    factor = jnp.minimum(step / warm, 1.0)
    if schedule == "noam":
        factor = jnp.minimum(step / warm, jnp.sqrt(warm / step))
    elif schedule == "cosine":
        progress = (step - warm) / jnp.maximum(hparams.decay_updates - warm, 1)
        wave = (1 + jnp.cos(jnp.pi * jnp.clip(progress, 0, 1))) / 2
        factor = factor * (hparams.final_share + (1 - hparams.final_share) * wave)
    return hparams.learning_rate * factor


def make(
    config: SequenceConfig,
    network: Network,
    sample: Callable[[jax.Array, Any], Sequences],
    losses: Sequence[Loss],
    devices: int = 1,
    axis: str | None = None,
    *,
    length: int = 1,
    agent: Callable[..., Agent] | None = None,
    phase: Phase = lambda data, updates: data,
    frozen: Sequence[str] = (),
    prepare: Prepare = lambda params, sequences: sequences,
    several: bool = False,
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      network: reads `Sequences.inputs`; its outputs are what the losses read.
      sample: `(keys [N], data) -> Sequences`, as many sequences as keys, or the same multiple of
        them; each depends on its own key.
      losses: terms of the objective, with different names.
      devices: over how many the batch is spread; a divisor of `batch_size / microbatches`.
      axis: the mesh axis over which `update` then runs inside `shard_map`. None outside.
      length: T, positions of a sequence, by which observations are counted.
      agent: `(greedy=False) -> Agent` over the network's parameters; None if it is not to act.
      phase: `(data, updates) -> data`, what `sample` and the losses' weights are given after so
        many updates, `int32[]`; by default `TrainState.data` as it is.
      frozen: entries of the parameters, then a dictionary, that stay what they are.
      prepare: `(params, sequences) -> sequences`, what frozen parts make of them before models
        learn: their networks read what it returns.
      several: whether `update` takes the states of several models, leaves `[M, ...]`, that learn
        from the same sequences: those that the first would draw and prepare for itself. Models
        whose keys, data and frozen parts are the first's learn as they would alone.

    Returns:
      The trainer. Its metrics are `loss`, every loss by its name (means over the positions that
      count, by their weight), `gradient_norm` before clipping and `learning_rate`.

    Raises:
      ValueError: if there is no loss, two have the same name, or the devices do not divide; from
        `init`, if the parameters have no such entries to be frozen.
    """
    names = [loss.name for loss in losses]
    different = names and len(set(names)) == len(names)
    check(different, "losses", f"the names {names}", "one or more different ones")
    check_at_least(1, devices=devices, length=length)
    part = config.batch_size // config.microbatches
    divides = part % devices == 0
    check(divides, "devices", devices, f"a divisor of batch_size / microbatches = {part}")
    trainer = SequenceTrainer(
        config, network, sample, losses, devices, axis, phase, frozen, prepare, several
    )
    observations = config.batch_size * length
    return Trainer(
        trainer.init, trainer.update, agent or _no_agent, observations, partition=trainer.partition
    )


def _matrices(params: Any) -> Any:
    """Returns the axes of matrices, for Muon; layers of a stack are matrices of their own."""

    def axes(leaf: jax.Array) -> optax.contrib.MuonDimensionNumbers | None:
        if leaf.ndim < 2:
            return None
        return optax.contrib.MuonDimensionNumbers(leaf.ndim - 2, leaf.ndim - 1)

    return jax.tree.map(axes, params)


def _no_agent(greedy: bool = False) -> Agent:
    raise ValueError(refusal("agent", None, "a function, where the network is to act"))


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceTrainer:
    """The algorithm; see `make`, which checks the arguments, for the fields."""

    config: SequenceConfig
    network: Network
    sample: Callable[[jax.Array, Any], Sequences]
    losses: Sequence[Loss]
    devices: int
    axis: str | None
    phase: Phase
    frozen: Sequence[str]
    prepare: Prepare
    several: bool

    @donatable
    def init(self, key: jax.Array, hparams: SequenceHParams, data: ArrayTree = None) -> TrainState:
        """See `interface.Trainer`."""
        hparams = strip_weak_types(hparams)
        init_key, key = jax.random.split(key)
        # Shapes only: no sequence is made here.
        start = jax.eval_shape(self.phase, data, jnp.zeros((), jnp.int32))
        like = jax.eval_shape(self.sample, jax.random.split(key, self._each), start)
        first = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), like.inputs)
        params = strip_weak_types(self.network.init(init_key, first))
        for name in self.frozen:
            has_entry = isinstance(params, dict) and name in params
            check(has_entry, "frozen", name, f"an entry of the parameters: {sorted(params)}")
        opt_state = self._optimiser(hparams).init(self._split_frozen(params)[0])
        return TrainState(params, opt_state, data, hparams, key, jnp.zeros((), jnp.int32))

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """See `interface.Trainer`."""
        step = jax.vmap(self._step) if self.several else self._step
        return step(state, *self._gradient(state))

    def partition(self, batch: object, replicated: object) -> TrainState:
        """See `interface.Trainer`."""
        del batch
        return prefix_of(TrainState, *(replicated,) * 6)

    @property
    def _each(self) -> int:
        """Keys of a microbatch on one device."""
        return self.config.batch_size // self.config.microbatches // self.devices

    def _total(self, x: ArrayTree) -> Any:
        return x if self.axis is None else jax.lax.psum(x, self.axis)

    def _optimiser(self, hparams: SequenceHParams) -> optax.GradientTransformation:
        scale: Any = optax.scale_by_adam(hparams.adam_b1, hparams.adam_b2, hparams.adam_epsilon)
        if self.config.optimiser == "muon":
            # A rate of 1: the schedule below has the rate of both parts.
            scale = optax.chain(
                optax.contrib.muon(
                    1.0,
                    eps=hparams.adam_epsilon,
                    adam_b1=hparams.adam_b1,
                    adam_b2=hparams.adam_b2,
                    muon_weight_dimension_numbers=_matrices,
                    consistent_rms=0.2,
                ),
                optax.scale(-1.0),
            )
        return optax.chain(
            optax.clip_by_global_norm(hparams.max_gradient_norm),
            scale,
            optax.add_decayed_weights(
                hparams.weight_decay, lambda params: jax.tree.map(lambda x: x.ndim > 1, params)
            ),
            optax.scale_by_learning_rate(
                lambda count: learning_rate(self.config.schedule, hparams, count)
            ),
        )

    def _split_frozen(self, params: Variables) -> tuple[Any, Any]:
        """Returns the learnt parameters, and the frozen ones."""
        if not self.frozen:
            return params, {}
        learnt = {name: part for name, part in params.items() if name not in self.frozen}
        return learnt, {name: params[name] for name in self.frozen}

    def _together(self, learnt: Variables, rest: Variables) -> Variables:
        return {**learnt, **rest} if self.frozen else learnt

    def _step(
        self, state: TrainState, grads: optax.Updates, metrics: Metrics
    ) -> tuple[TrainState, Metrics]:
        """Returns one model's step along its gradient."""
        metrics["gradient_norm"] = optax.tree.norm(grads)
        rate = learning_rate(self.config.schedule, state.hparams, state.updates)
        metrics["learning_rate"] = rate
        learnt, rest = self._split_frozen(state.params)
        steps, opt_state = self._optimiser(state.hparams).update(grads, state.opt_state, learnt)
        moved: Any = optax.apply_updates(learnt, steps)
        params = self._together(moved, rest)
        updates = state.updates + 1
        state = dataclasses.replace(state, params=params, opt_state=opt_state, updates=updates)
        return state, metrics

    # The gradient ----------------------------------------------------------------------------

    def _gradient(self, state: TrainState) -> tuple[Any, Metrics]:
        """Returns the mean over microbatches of the gradients of their mean losses, and metrics."""
        device = 0 if self.axis is None else jax.lax.axis_index(self.axis)
        first = jax.tree.map(lambda x: x[0], state) if self.several else state
        key = jax.random.fold_in(first.key, first.updates)
        data = self.phase(first.data, first.updates)
        count, zero = self.config.microbatches, jnp.zeros((), jnp.int32)
        # However a batch is cut, its sequences are the same.
        keys = jax.random.split(jax.random.fold_in(key, zero), self.config.batch_size)

        def part(index: jax.Array) -> tuple[Any, Metrics]:
            start = (index * self.devices + device) * self._each
            part_keys = jax.lax.dynamic_slice_in_dim(keys, start, self._each)
            sequences = self.prepare(first.params, self.sample(part_keys, data))
            dropout_key = jax.random.fold_in(jax.random.fold_in(key, index), _DROPOUT)
            dropout_key = jax.random.fold_in(dropout_key, device)
            return self._gradient_from(state, jax.lax.stop_gradient(sequences), dropout_key)

        def add(so_far: tuple[ArrayTree, Metrics], index: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, so_far, part(index)), None

        if count == 1:
            return self._total(part(zero))
        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, zero))
        # The gradient of this device's part, summed over devices once, at the end.
        sums, _ = jax.lax.scan(add, blank, jnp.arange(count, dtype=jnp.int32))
        return self._total(jax.tree.map(lambda x: x / count, sums))

    def _gradient_from(
        self, state: TrainState, sequences: Sequences, key: jax.Array
    ) -> tuple[Any, Metrics]:
        """Returns the gradient of this device's part of the loss, and metrics; of every model."""

        def of_one(model: tuple[Variables, ArrayTree, jax.Array]) -> tuple[Any, Metrics]:
            params, data, updates = model
            terms = *self._split_frozen(params), sequences, self.phase(data, updates), key
            return jax.grad(self._loss, has_aux=True)(*terms)

        models = state.params, state.data, state.updates
        # One after the other: activations of one model fit a CPU's caches.
        return jax.lax.map(of_one, models) if self.several else of_one(models)

    def _loss(
        self,
        learnt: Variables,
        rest: Variables,
        sequences: Sequences,
        data: ArrayTree,
        key: jax.Array,
    ) -> tuple[jax.Array, Metrics]:
        """This device's part of the loss; summed over devices it is a mean."""
        params = self._together(learnt, rest)
        outputs, _ = self.network.unroll(params, None, sequences.inputs, sequences.starts, key)
        objective, metrics = jnp.zeros((), jnp.result_type(float)), {}
        for loss in self.losses:
            at = loss.at(outputs, sequences)
            ramp = jnp.minimum(jnp.arange(1, at.shape[0] + 1) / max(self.config.ramp, 1), 1)
            weights = jnp.broadcast_to(ramp[:, None], at.shape)
            if loss.counts is not None:
                weights = jnp.where(loss.counts(sequences), weights, 0)
            weights = weights / jnp.maximum(self._total(weights.sum()), 1e-9)
            # Where nothing counts, even an infinite loss is none.
            at = jnp.where(weights > 0, at, 0)
            metrics[loss.name] = (at * weights).sum()
            weight = loss.weight(data) if callable(loss.weight) else loss.weight
            objective = objective + weight * metrics[loss.name]
        return objective, metrics | {"loss": objective}
