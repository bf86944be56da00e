"""From the outputs of a policy head to actions: one small object per kind of action space.

Samples are what a distribution is over: the action itself where actions are discrete, an unbounded
vector where they are continuous. Learners keep samples, since their probabilities are those of what
was drawn; environments get `to_action(sample)`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal, get_args

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gpicljax import spaces
from gpicljax.checks import check, check_choice
from gpicljax.typing import Observation

if TYPE_CHECKING:  # slow to import
    import distrax


Bounds = Literal["clip", "squash"]
Choices = spaces.Discrete | spaces.MultiDiscrete


def choices(actions: spaces.Space | int) -> Choices:
    """The discrete choices of one agent: one of n actions, or K of them at once, one row of them.

    Args:
      actions: of one agent; an integer n stands for `Discrete(n)`.
    """
    space = spaces.Discrete(actions) if isinstance(actions, int) else actions
    single = isinstance(space, spaces.Discrete)
    several = isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1
    check(single or several, "actions", space, "Discrete, or a MultiDiscrete of one row")
    return space  # type: ignore[return-value]


def by_choice(space: Choices, outputs: jax.Array) -> jax.Array:
    """Returns a head's outputs, one for every action of every choice, by choice.

    Args:
      space: the choices.
      outputs: float `[..., flat_size(space)]`.

    Returns:
      The outputs themselves for one choice; of K choices float `[..., K, max]`, minus infinity
      where a choice has fewer actions than the largest.
    """
    if isinstance(space, spaces.Discrete):
        return outputs
    most = max(space.sizes)
    parts = jnp.split(outputs, np.cumsum(space.sizes)[:-1].tolist(), axis=-1)
    unpadded = [(0, 0)] * (outputs.ndim - 1)
    padded = [
        jnp.pad(part, [*unpadded, (0, most - n)], constant_values=-jnp.inf)
        for part, n in zip(parts, space.sizes, strict=True)
    ]
    return jnp.stack(padded, axis=-2)


def legal_actions(observation: Observation | None, actions: spaces.Space | int) -> jax.Array:
    """Returns the observation's `action_mask`, or all actions where it has none.

    Args:
      observation: with any leading axes; a dictionary, if there is a mask.
      actions: see `choices`.

    Returns:
      `bool[..., n]`, or `bool[..., K, max]` of K choices; without leading axes if there is no mask.
    """
    space = choices(actions)
    if isinstance(space, spaces.Discrete):
        exists = jnp.ones(space.n, bool)
    else:
        exists = jnp.arange(max(space.sizes)) < jnp.asarray(space.sizes)[:, None]
    if isinstance(observation, dict) and "action_mask" in observation:
        # A mask may be wider than the largest choice, and know choices that are only announced.
        return observation["action_mask"][(..., *map(slice, exists.shape))] & exists
    return exists


def draw_choice(key: jax.Array, logits: jax.Array, temperature: ArrayLike = 1.0) -> jax.Array:
    """Returns a choice from logits, sharpened or not.

    Args:
      key: a typed key, one for all leading axes.
      logits: float `[..., n]`; minus infinity where illegal.
      temperature: float `[]`, may be traced; 1 is the distribution itself, 0 takes the most
        probable choice.

    Returns:
      `int32[...]`.
    """
    if not (isinstance(temperature, int | float) and temperature == 0):
        # Gumbel's trick: noise in proportion to the temperature.
        noise = jax.random.gumbel(key, logits.shape, logits.dtype)
        logits = logits + jnp.asarray(temperature, logits.dtype) * noise
    return logits.argmax(-1).astype(jnp.int32)


def chosen_value(space: Choices, values: jax.Array, action: jax.Array) -> jax.Array:
    """The value of an action; of K choices the mean of theirs, so that K does not set its scale.

    Args:
      space: the choices.
      values: float `[..., n]`, or `[..., K, max]`.
      action: `int32[...]`, or `[..., K]`.

    Returns:
      float `[...]`.

    Source: of K choices, Tavakoli, Pardo & Kormushev (2018), "Action branching", equation 6 with a
      mean for the sum, as in value decomposition (Sunehag et al., 2018): the best joint action is
      made of the best of every choice.
    """
    chex.assert_equal_shape([values[..., 0], action])
    value = jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
    return value if isinstance(space, spaces.Discrete) else value.mean(-1)


def no_action(space: spaces.Space, *batch: int) -> jax.Array:
    """Returns the last action of a first step: -1 if discrete, else zeros.

    Both are zeros in `spaces.flatten`.

    Returns:
      `[*batch, *space.shape]`.
    """
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return jnp.full((*batch, *space.shape), -1, jnp.int32)
    assert isinstance(space, spaces.Box)
    return jnp.zeros((*batch, *space.shape), space.jax_dtype)


@dataclasses.dataclass(frozen=True)
class CategoricalPolicy:
    """Discrete choices; the head's outputs are logits. Illegal actions have probability 0.

    Of K choices at once each has a distribution of its own: log-probabilities and entropies are
    summed over them.
    """

    space: Choices

    def __post_init__(self) -> None:
        choices(self.space)

    @property
    def size(self) -> int:
        """Outputs of the head: one for every action of every choice."""
        return spaces.flat_size(self.space)

    def distribution(
        self, outputs: jax.Array, observation: Observation | None
    ) -> distrax.Distribution:
        """Outputs float `[..., size]` and observations with the same leading axes."""
        import distrax

        logits = by_choice(self.space, outputs)
        if isinstance(observation, dict) and "action_mask" in observation:
            legal = legal_actions(observation, self.space)
            # Where nothing is legal, as at the end of a board game, whose action is ignored, there
            # is still a distribution: a NaN would pass through every mask.
            allowed = legal | ~legal.any(-1, keepdims=True)
            logits = jnp.where(allowed, logits, -jnp.inf)
        distribution = distrax.Categorical(logits, dtype=jnp.int32)
        if isinstance(self.space, spaces.Discrete):
            return distribution
        return distrax.Independent(distribution, 1)

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Returns the sample itself, `int32[...]`, or `int32[..., K]` of K choices."""
        return sample

    def to_sample(self, action: jax.Array) -> jax.Array:
        """Returns the action itself."""
        return action


@dataclasses.dataclass(frozen=True)
class GaussianPolicy:
    """Continuous actions; the head's outputs are means, then log standard deviations.

    Samples are unbounded; [-1, 1] is the range of the actions, where that is finite. Beyond it they
    are clipped, or squashed by tanh. Ratios of probabilities are the same before and after; the
    entropy is the Gaussian's.
    """

    space: spaces.Box
    bounds: Bounds = "clip"

    def __post_init__(self) -> None:
        check_choice("bounds", self.bounds, get_args(Bounds))
        floats = jnp.issubdtype(self.space.dtype or float, jnp.floating)
        check(floats, "space", self.space, "a Box of floats")
        if self.bounds == "squash":
            check(self._is_bounded, "space", self.space, "finite bounds, with bounds='squash'")

    @property
    def _is_bounded(self) -> bool:
        return math.isfinite(self.space.low) and math.isfinite(self.space.high)

    @property
    def size(self) -> int:
        """Outputs of the head: 2 D."""
        return 2 * spaces.flat_size(self.space)

    def distribution(
        self, outputs: jax.Array, observation: Observation | None
    ) -> distrax.MultivariateNormalDiag:
        """Outputs float `[..., 2 D]`; the distribution of samples float `[..., D]`."""
        import distrax

        del observation
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return distrax.MultivariateNormalDiag(mean, jnp.exp(log_std))

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Samples float `[..., D]` -> actions `[..., *space.shape]` within the space."""
        if self.bounds == "squash":
            sample = jnp.tanh(sample)
        return _within(self.space, sample, scaled=self._is_bounded)

    def to_sample(self, action: jax.Array) -> jax.Array:
        """The sample of an action that is not clipped; `[..., *space.shape]` -> float `[..., D]`.

        Squashed actions at their bounds have none: they count as a little within.
        """
        sample = _unscale(self.space, action, scaled=self._is_bounded)
        if self.bounds == "squash":
            return jnp.arctanh(jnp.clip(sample, -1 + 1e-6, 1 - 1e-6))
        return sample


@dataclasses.dataclass(frozen=True)
class BinnedPolicy:
    """Continuous actions within finite bounds, each entry one of K values at equal distances.

    Samples are the values' numbers; the head's outputs are logits, K for each entry. Both bounds
    are among the values.
    """

    space: spaces.Box
    bins: int

    def __post_init__(self) -> None:
        TanhPolicy(self.space)  # refuses the same spaces
        check(self.bins >= 2, "bins", self.bins, "an integer >= 2")

    @property
    def _choices(self) -> CategoricalPolicy:
        return CategoricalPolicy(spaces.MultiDiscrete((self.bins,) * spaces.flat_size(self.space)))

    @property
    def size(self) -> int:
        """Outputs of the head: D K."""
        return self._choices.size

    def distribution(
        self, outputs: jax.Array, observation: Observation | None
    ) -> distrax.Distribution:
        """Outputs float `[..., D K]`; the distribution of samples `int32[..., D]`."""
        del observation
        return self._choices.distribution(outputs, None)

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Samples `int32[..., D]` -> actions `[..., *space.shape]`."""
        share = sample.astype(jnp.result_type(float)) * (2 / (self.bins - 1)) - 1
        return _within(self.space, share, scaled=True)

    def to_sample(self, action: jax.Array) -> jax.Array:
        """Returns the nearest values; actions `[..., *space.shape]` -> `int32[..., D]`."""
        share = _unscale(self.space, action, scaled=True)
        nearest = jnp.round((share + 1) * ((self.bins - 1) / 2)).astype(jnp.int32)
        return jnp.clip(nearest, 0, self.bins - 1)


@dataclasses.dataclass(frozen=True)
class TanhPolicy:
    """Continuous actions within finite bounds, drawn as the tanh of a Gaussian vector.

    Samples are within [-1, 1]; unlike `GaussianPolicy`'s, their densities are those after the tanh,
    over [-1, 1]^D. A deterministic actor that ends in a tanh has such samples too.
    """

    space: spaces.Box

    def __post_init__(self) -> None:
        space = self.space
        finite = isinstance(space, spaces.Box) and math.isfinite(space.low + space.high)
        floats = finite and jnp.issubdtype(space.dtype or float, jnp.floating)
        accepted_values = "a Box of floats with finite bounds, low below high"
        check(floats and space.low < space.high, "space", space, accepted_values)

    @property
    def size(self) -> int:
        """Entries of a sample: D."""
        return spaces.flat_size(self.space)

    def sample_and_log_prob(
        self, key: jax.Array, outputs: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns a reparametrised sample, and its log-density.

        Args:
          key: a typed key.
          outputs: float `[..., 2 D]`, mean and log standard deviation before the tanh.

        Returns:
          float `[..., D]`, and float `[...]` in nats.

        Source: Haarnoja et al. (2018b), appendix C.
        """
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        drawn = mean + jnp.exp(log_std) * noise
        normal = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(x)^2), which rounds to log(0) for an x of 10 if computed as it is written.
        slope = 2 * (math.log(2) - drawn - jax.nn.softplus(-2 * drawn))
        return jnp.tanh(drawn), (normal - slope).sum(-1)

    def mode(self, outputs: jax.Array) -> jax.Array:
        """Returns the tanh of the mean; outputs float `[..., 2 D]` -> float `[..., D]`."""
        return jnp.tanh(jnp.split(outputs, 2, axis=-1)[0])

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Samples float `[..., D]` -> actions `[..., *space.shape]` within the space."""
        return _within(self.space, sample, scaled=True)

    def to_sample(self, action: jax.Array) -> jax.Array:
        """Returns the inverse of `to_action`; actions `[..., *space.shape]` -> float `[..., D]`."""
        return _unscale(self.space, action, scaled=True)


def _within(space: spaces.Box, sample: jax.Array, scaled: bool) -> jax.Array:
    """Samples `[..., D]`, from [-1, 1] if `scaled`, as members of the space."""
    low, high = space.low, space.high
    if scaled:
        sample = (high / 2 + low / 2) + (high / 2 - low / 2) * sample
    action = jnp.clip(sample, low, high).reshape(*sample.shape[:-1], *space.shape)
    return action.astype(space.dtype or jnp.result_type(float))


def _unscale(space: spaces.Box, action: jax.Array, scaled: bool) -> jax.Array:
    """The inverse of `_within` for what is within."""
    leading = action.shape[: action.ndim - len(space.shape)]
    flat = action.reshape(*leading, spaces.flat_size(space)).astype(jnp.result_type(float))
    low, high = space.low, space.high
    return (flat - (high / 2 + low / 2)) / (high / 2 - low / 2) if scaled else flat


Policy = CategoricalPolicy | GaussianPolicy | BinnedPolicy


def policy_for(space: spaces.Space, bounds: Bounds = "clip", bins: int = 0) -> Policy:
    """Returns the policy over a space.

    Args:
      space: of one agent's unbatched action: discrete, several discrete ones, a box of floats.
      bounds: how continuous samples come within the bounds.
      bins: of how many values each entry of a continuous action is one; 0 for a Gaussian.

    Raises:
      ValueError: for another space.

    Example:
      >>> from gpicljax import spaces
      >>> policy_for(spaces.Discrete(3))
      CategoricalPolicy(space=Discrete(n=3))
    """
    if isinstance(space, spaces.Box):
        return BinnedPolicy(space, bins) if bins else GaussianPolicy(space, bounds)
    discrete = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    check(discrete, "space", space, "Discrete, MultiDiscrete, a Box of floats")
    return CategoricalPolicy(space)  # type: ignore[arg-type]
