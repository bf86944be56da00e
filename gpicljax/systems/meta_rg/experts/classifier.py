"""A small supervised classifier: what can be known from one observation, without memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.typing import ArrayLike

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.networks.feedforward import MLP, dense
from gpicljax.typing import Variables


class Classifier(NamedTuple):
    """A fitted classifier.

    Attributes:
      params: its parameters.
      predict: `(params, features float[..., F]) -> int32[...]`, the most probable label.
    """

    params: Any
    predict: Callable[[Any, ArrayLike], jax.Array]


class _Network(nn.Module):
    hidden: tuple[int, ...]
    num_classes: int

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        return dense(self.num_classes)(MLP(self.hidden)(features))


def _logits(network: _Network, params: Variables, features: ArrayLike) -> jax.Array:
    scaled = (jnp.asarray(features) - params["mean"]) / params["scale"]
    return network.apply(params["network"], scaled)  # pyright: ignore[reportReturnType]


def _predict(network: _Network, params: Variables, features: ArrayLike) -> jax.Array:
    return jnp.argmax(_logits(network, params, features), axis=-1).astype(jnp.int32)


def fit_classifier(
    key: jax.Array,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    hidden: Sequence[int] = (128, 128),
    steps: int = 2_000,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
) -> Classifier:
    """Fits a multi-layer perceptron by cross-entropy, in one compiled scan.

    Features are standardised; minibatches are drawn with replacement; Adam's learning rate falls
    to zero along a cosine. Call it outside `jit`: the labels are looked at first.

    Args:
      key: a typed key.
      features: `float[N, F]`.
      labels: `int[N]`, 0 .. C - 1; C is the largest label and one.
      hidden: sizes of the hidden layers.
      steps: minibatches.
      batch_size: examples per minibatch.
      learning_rate: Adam's at the start.

    Returns:
      The classifier.

    Raises:
      ValueError: for empty data, shapes that do not fit, labels that are negative or not integers,
        features that are not finite, or a size or rate that is not positive.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> x = jnp.linspace(-1, 1, 64)[:, None]
      >>> fitted = fit_classifier(jax.random.key(0), x, (x[:, 0] > 0).astype(int), steps=200)
      >>> fitted.predict(fitted.params, jnp.array([[-0.5], [0.5]])).tolist()
      [0, 1]
    """
    inputs = np.asarray(features, jnp.result_type(float))
    targets = np.asarray(labels)
    shape = inputs.shape
    is_table = inputs.ndim == 2 and inputs.size
    check_array(is_table, "features", inputs, "float[N, F] with N, F >= 1")
    one_each = targets.shape == shape[:1] and targets.dtype.kind in "iu"
    check_array(one_each, "labels", targets, f"int[{shape[0]}], one per row of features")
    check(targets.min() >= 0, "labels", targets.min(), "0, 1, 2, ...")
    check(np.isfinite(inputs).all(), "features", "infinite values or NaN", "finite ones")
    check_at_least(1, steps=steps, batch_size=batch_size)
    check(all(size >= 1 for size in hidden), "hidden", tuple(hidden), "integers >= 1")
    check(learning_rate > 0, "learning_rate", learning_rate, "a number above 0")
    network = _Network(tuple(hidden), int(targets.max()) + 1)
    rate = jnp.asarray(learning_rate, inputs.dtype)
    params = _fit(key, inputs, targets.astype(np.int32), rate, network, steps, batch_size)
    return Classifier(params, functools.partial(_predict, network))


@functools.partial(jax.jit, static_argnames=("network", "steps", "batch_size"))
def _fit(
    key: jax.Array,
    features: jax.Array,
    labels: jax.Array,
    learning_rate: jax.Array,
    network: _Network,
    steps: int,
    batch_size: int,
) -> Any:
    init_key, key = jax.random.split(key)
    spread = features.std(0)
    fixed = {"mean": features.mean(0), "scale": jnp.where(spread > 0, spread, 1)}
    weights = network.init(init_key, features[:1])
    adam = optax.scale_by_adam()
    # The rate is traced, which keeps one program for a search over rates.
    schedule = optax.cosine_decay_schedule(1.0, steps)

    def loss(weights: Any, batch: jax.Array) -> jax.Array:
        logits = _logits(network, {**fixed, "network": weights}, features[batch])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels[batch]).mean()

    def update(carry: tuple[Any, Any], step: jax.Array) -> tuple[tuple[Any, Any], None]:
        weights, opt_state = carry
        batch = jax.random.randint(
            jax.random.fold_in(key, step), (batch_size,), 0, features.shape[0]
        )
        steps, opt_state = adam.update(jax.grad(loss)(weights, batch), opt_state)
        rate = -learning_rate * schedule(step)
        steps = jax.tree.map(lambda x: rate * x, steps)
        return (optax.apply_updates(weights, steps), opt_state), None

    (weights, _), _ = jax.lax.scan(update, (weights, adam.init(weights)), jnp.arange(steps))
    return {**fixed, "network": weights}


def accuracy(
    classifier: Classifier, features: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None
) -> jax.Array:
    """Returns the share of the examples that are classified correctly.

    Args:
      classifier: the classifier.
      features: `float[N, F]`.
      labels: `int[N]`.
      mask: `bool[N]`, the examples that count; all if None.

    Returns:
      `float[]`; NaN if none counts.

    Raises:
      ValueError: if the lengths differ.
    """
    shape = jnp.shape(features)[:1]
    counts = jnp.ones(shape, bool) if mask is None else jnp.asarray(mask, bool)
    lengths = {"features": shape, "labels": jnp.shape(labels), "where": counts.shape}
    for name, length in lengths.items():
        check(length == shape, name, f"the leading shape {length}", f"one length N, here {shape}")
    right = classifier.predict(classifier.params, features) == jnp.asarray(labels)
    total = counts.sum()
    hits = (right & counts).sum() / jnp.maximum(total, 1)
    return jnp.where(total > 0, hits, jnp.nan).astype(jnp.result_type(float))
