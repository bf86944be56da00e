"""From the outputs of a policy head to actions: one small object per kind of action space.

Samples are what a distribution is over: the action itself where actions are discrete, an unbounded
vector where they are continuous. Learners keep samples, since their probabilities are those of what
was drawn; environments get `to_action(sample)`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp

from gpicljax import spaces

if TYPE_CHECKING:  # slow to import
    import distrax


def legal_actions(observation: Any, num_actions: int) -> jax.Array:
    """The observation's `action_mask`, or all actions where it has none; `bool[..., A]`."""
    if isinstance(observation, dict) and "action_mask" in observation:
        return observation["action_mask"]
    return jnp.ones(num_actions, bool)


def no_action(space: spaces.Space, batch: int) -> jax.Array:
    """What stands for the last action where there is none: -1 if discrete, else zeros; `[B, ...]`.

    Both are zeros in `spaces.flatten`.
    """
    if isinstance(space, spaces.Discrete):
        return jnp.full(batch, -1, jnp.int32)
    assert isinstance(space, spaces.Box)
    return jnp.zeros((batch, *space.shape), space.dtype or jnp.result_type(float))


@dataclasses.dataclass(frozen=True)
class CategoricalPolicy:
    """Discrete actions; the head's outputs are logits. Illegal actions have probability 0."""

    space: spaces.Discrete

    @property
    def size(self) -> int:
        """Outputs of the head: A."""
        return self.space.n

    def distribution(self, outputs: jax.Array, observation: Any) -> distrax.Categorical:
        """Outputs float `[..., A]` and observations with the same leading axes."""
        import distrax

        if isinstance(observation, dict) and "action_mask" in observation:
            outputs = jnp.where(observation["action_mask"], outputs, -jnp.inf)
        return distrax.Categorical(outputs, dtype=jnp.int32)

    def to_action(self, sample: jax.Array) -> jax.Array:
        """The sample itself, `int32[...]`."""
        return sample


@dataclasses.dataclass(frozen=True)
class GaussianPolicy:
    """Continuous actions; the head's outputs are means, then log standard deviations.

    Samples are unbounded; [-1, 1] is the range of the actions, where that is finite. Beyond it they
    are clipped, or squashed by tanh. Ratios of probabilities are the same before and after; the
    entropy is the Gaussian's.
    """

    space: spaces.Box
    bounds: Literal["clip", "squash"] = "clip"

    def __post_init__(self) -> None:
        if self.bounds not in ("clip", "squash"):
            raise ValueError(f"bounds = {self.bounds!r}: choose 'clip' or 'squash'")
        if not jnp.issubdtype(self.space.dtype or float, jnp.floating):
            raise ValueError(f"space = {self.space}: continuous actions are floats")
        if self.bounds == "squash" and not self._bounded:
            raise ValueError(f"bounds = 'squash' needs finite bounds, not those of {self.space}")

    @property
    def _bounded(self) -> bool:
        return math.isfinite(self.space.low) and math.isfinite(self.space.high)

    @property
    def size(self) -> int:
        """Outputs of the head: 2 D."""
        return 2 * spaces.flat_size(self.space)

    def distribution(self, outputs: jax.Array, observation: Any) -> distrax.MultivariateNormalDiag:
        """Outputs float `[..., 2 D]`; the distribution of samples float `[..., D]`."""
        import distrax

        del observation
        mean, log_std = jnp.split(outputs, 2, axis=-1)
        return distrax.MultivariateNormalDiag(mean, jnp.exp(log_std))

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Samples float `[..., D]` -> actions `[..., *space.shape]` within the space."""
        if self.bounds == "squash":
            sample = jnp.tanh(sample)
        return _within(self.space, sample, scaled=self._bounded)


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
        if not finite or not jnp.issubdtype(space.dtype or float, jnp.floating):
            raise ValueError(f"space = {space}: a box of floats with finite bounds is needed")
        if space.low == space.high:
            raise ValueError(f"space = {space}: low must be below high")

    @property
    def size(self) -> int:
        """Entries of a sample: D."""
        return spaces.flat_size(self.space)

    def sample_and_log_prob(
        self, key: jax.Array, outputs: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """A reparametrised sample, and its log-density.

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
        """The tanh of the mean; outputs float `[..., 2 D]` -> float `[..., D]`."""
        return jnp.tanh(jnp.split(outputs, 2, axis=-1)[0])

    def to_action(self, sample: jax.Array) -> jax.Array:
        """Samples float `[..., D]` -> actions `[..., *space.shape]` within the space."""
        return _within(self.space, sample, scaled=True)

    def to_sample(self, action: jax.Array) -> jax.Array:
        """The inverse of `to_action`; actions `[..., *space.shape]` -> float `[..., D]`."""
        low, high = self.space.low, self.space.high
        leading = action.shape[: action.ndim - len(self.space.shape)]
        flat = action.reshape(*leading, self.size).astype(jnp.result_type(float))
        return (flat - (high + low) / 2) / ((high - low) / 2)


def _within(space: spaces.Box, sample: jax.Array, scaled: bool) -> jax.Array:
    """Samples `[..., D]`, from [-1, 1] if `scaled`, as members of the space."""
    low, high = space.low, space.high
    if scaled:
        sample = (high + low) / 2 + (high - low) / 2 * sample
    action = jnp.clip(sample, low, high).reshape(*sample.shape[:-1], *space.shape)
    return action.astype(space.dtype or jnp.result_type(float))


Policy = CategoricalPolicy | GaussianPolicy


def policy_for(space: spaces.Space, bounds: Literal["clip", "squash"] = "clip") -> Policy:
    """The policy over a space.

    Args:
      space: of the unbatched action, discrete or a box of floats.
      bounds: how continuous samples come within the bounds.

    Raises:
      ValueError: for another space.
    """
    if isinstance(space, spaces.Discrete):
        return CategoricalPolicy(space)
    if isinstance(space, spaces.Box):
        return GaussianPolicy(space, bounds)
    raise ValueError(f"space = {space}: one agent with discrete or continuous actions is needed")
