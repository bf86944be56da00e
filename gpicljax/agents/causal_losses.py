"""Losses of causal models: what a teacher would do, what comes next, and what a map is to know.

Source: equations 5 to 7 of the GPICL paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gpicljax import spaces
from gpicljax.agents import sequence
from gpicljax.agents.sequence import Loss, Sequences, Weight
from gpicljax.checks import check
from gpicljax.networks.autoencoder import Autoencoder, encode_in_parts
from gpicljax.networks.causal_model import AUTOENCODER, CausalModelSettings, CausalOutput
from gpicljax.networks.map_memory import STEPS
from gpicljax.networks.policies import CategoricalPolicy, Policy
from gpicljax.typing import Variables


class Targets(NamedTuple):
    """Targets of a causal model's outputs; leaves `[T, B, ...]`.

    Attributes:
      label: the teacher's action.
      counts: `bool[T, B]`, whether the step was played.
      picture: `uint8[T, B, H, W, 3]`, what was seen, where inputs are its latents.
      sights: `int32[T, B, K + 1]`, what the teacher sees in cells around the agent: 0 nothing, 1 a
        wall, 2 a free cell, from 3 on landmarks; at last the landmark commanded.
    """

    label: jax.Array
    counts: jax.Array
    picture: jax.Array | None = None
    sights: jax.Array | None = None


def encode_observations(autoencoder: Autoencoder, part: int | None = None) -> sequence.Prepare:
    """Returns a function that replaces pictures by latents: all models and terms share them.

    Args:
      autoencoder: frozen; its parameters are those of the models.
      part: pictures that are encoded at a time; None for all at once.

    Returns:
      What `sequence.make` calls `prepare`.
    """

    def prepare(params: Variables, sequences: Sequences) -> Sequences:
        pictures = sequences.inputs.observation
        latents, _ = encode_in_parts(autoencoder, params[AUTOENCODER], pictures, part)
        inputs = sequences.inputs._replace(observation=latents)
        return Sequences(inputs, sequences.starts, sequences.targets._replace(picture=pictures))

    return prepare


def imitation_loss(policy: Policy, weight: Weight = 1.0) -> Loss:
    """Minus the log-probability of the teacher's action, L_pm, in nats.

    Of Gaussian actions it is a density's; their standard deviation comes from the model.

    Args:
      policy: over the actions.
      weight: in the sum of all terms.

    Source: equation 6 of the GPICL paper.
    """
    if isinstance(policy, CategoricalPolicy) and isinstance(policy.space, spaces.Discrete):
        return sequence.cross_entropy(
            "policy_loss",
            lambda outputs: outputs.policy,
            lambda targets: jnp.where(targets.counts, targets.label.astype(jnp.int32), -1),
            weight,
        )

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        sample = policy.to_sample(sequences.targets.label)
        distribution: Any = policy.distribution(outputs.policy, None)
        return -distribution.log_prob(sample)

    return Loss("policy_loss", at, weight, lambda sequences: sequences.targets.counts)


def _has_predecessor(sequences: Sequences) -> jax.Array:
    """Returns the steps with a step before them in their trial, `bool[T, B]`."""
    counts = sequences.targets.counts
    not_first = jnp.arange(counts.shape[0])[:, None] > 0
    counts = counts & not_first
    return counts if sequences.starts is None else counts & ~sequences.starts


def _picture_error(part: str) -> Callable[[CausalOutput, Sequences], jax.Array]:
    """Returns a function: mean squared error of a part of the outputs, float `[T, B]`."""

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        picture, target = getattr(outputs, part), sequences.targets.picture
        target = sequences.inputs.observation if target is None else target
        return jnp.square(picture - target.astype(picture.dtype) / 255).mean((-3, -2, -1))

    return at


def image_loss(weight: Weight = 1.0) -> Loss:
    """Returns the mean squared difference of expected and seen pictures, L_wm, of values in [0, 1].

    The reference code and the paper sum over pixels; this is their mean.

    Source: equation 7 of the GPICL paper.
    """

    return Loss("image_loss", _picture_error("image"), weight, _has_predecessor)


def latent_loss(weight: Weight = 1.0) -> Loss:
    """Returns the mean squared difference of expected and seen latents, L_z.

    Source: appendix A.2 of the GPICL paper.
    """

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        del sequences
        return jnp.square(outputs.latent - jax.lax.stop_gradient(outputs.observed_latent)).mean(-1)

    return Loss("latent_loss", at, weight, _has_predecessor)


def reward_loss(weight: Weight = 1.0) -> Loss:
    """Returns the squared difference of expected and received rewards."""

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        check(outputs.reward is not None, "rewards", False, "True, for a loss of rewards")
        assert outputs.reward is not None
        return jnp.square(outputs.reward - sequences.inputs.last_reward)

    return Loss("reward_loss", at, weight, _has_predecessor)


def move_loss() -> Loss:
    """Returns the cross-entropy of whether the last action moved the agent, of models with a map.

    Actions that lead nowhere do not count.
    """

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        del sequences
        check(outputs.moved is not None, "map_memory", 0, "above 0, for a loss of moves")
        assert outputs.moved is not None and outputs.has_moved is not None
        return optax.sigmoid_binary_cross_entropy(outputs.moved, outputs.has_moved.astype(float))

    def counts(sequences: Sequences) -> jax.Array:
        leads = jnp.asarray(STEPS)[jnp.maximum(sequences.inputs.last_action, 0)] != 0
        return leads & _has_predecessor(sequences)

    return Loss("move_loss", at, counts=counts)


def address_loss() -> Loss:
    """Returns the nats of the steps that showed the same, of models with a learnt look-up."""

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        del sequences
        check(outputs.address is not None, "learnt_map", 0, "above 0, for a loss of addresses")
        assert outputs.address is not None
        return outputs.address

    return Loss("address_loss", at, counts=lambda sequences: sequences.targets.counts)


def map_losses(settings: CausalModelSettings) -> list[Loss]:
    """Returns what a model with a map of its own needs beside the paper's losses."""
    return [address_loss()] * bool(settings.learnt_map) + [move_loss()] * settings.has_map


def sight_loss() -> Loss:
    """Returns the cross-entropy of what the teacher sees around the agent, of models that plan."""

    def at(outputs: CausalOutput, sequences: Sequences) -> jax.Array:
        sights = sequences.targets.sights
        check(outputs.shown is not None, "plan_sweeps", 0, "above 0, for a loss of sights")
        assert outputs.shown is not None and sights is not None
        shown, command = outputs.shown
        content = jax.nn.one_hot(sights - 1, 2 + command.shape[-1], dtype=shown.dtype)
        is_seen = (sights[..., :-1] > 0).astype(shown.dtype)
        facts = jnp.concatenate(
            [content[..., :-1, :1], is_seen[..., None], content[..., :-1, 2:]], -1
        )
        errors = optax.sigmoid_binary_cross_entropy(shown, facts)
        # What is not seen teaches no more than that.
        unseen = errors[..., 1] * (1 - is_seen)
        cells = (errors.sum(-1) * is_seen + unseen).sum(-1)
        return cells + optax.softmax_cross_entropy(command, content[..., -1, 2:])

    return Loss("sight_loss", at, counts=lambda sequences: sequences.targets.counts)


def reconstruction_loss(weight: Weight = 1.0) -> Loss:
    """Returns the mean squared error of the autoencoder, for models that train it too.

    Source: equation 5 of the GPICL paper, without its second term.
    """

    at = _picture_error("reconstruction")
    return Loss("reconstruction_loss", at, weight, lambda sequences: sequences.targets.counts)
