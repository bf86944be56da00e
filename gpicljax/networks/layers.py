"""Linear layer, layer norm and GELU whose gradients a CPU computes fast.

Same functions as Linen's. What differs is how the backward pass is written: weights' gradients as
matrix products of two flat arrays, sums over all rows as products with ones, and GELU from its
input alone.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax


def default_float() -> Any:
    """JAX's default float type."""
    return jnp.result_type(float)


def scaled_uniform(scale: float = 1.0) -> Any:
    """An initialiser, uniform in +-scale / sqrt(fan-in): with 1, that of `torch.nn.Linear`."""
    return nn.initializers.variance_scaling(scale**2 / 3, "fan_in", "uniform")


def _rows(x: jax.Array) -> jax.Array:
    return x.reshape(-1, x.shape[-1])


def _sum_rows(x: jax.Array) -> jax.Array:
    """Sum over all but the last axis."""
    x = _rows(x)
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    return jnp.matmul(jnp.ones((1, x.shape[0]), x.dtype), x, preferred_element_type=dtype)[0]


@jax.custom_vjp
def matmul(x: jax.Array, weights: jax.Array) -> jax.Array:
    """`float[..., D]`, `float[D, F] -> float[..., F]`."""
    return (_rows(x) @ weights).reshape(*x.shape[:-1], weights.shape[1])


def _matmul_backward(saved: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weights = saved
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    d_weights = lax.dot_general(
        _rows(x), _rows(dy), (((0,), (0,)), ((), ())), preferred_element_type=dtype
    )
    return (_rows(dy) @ weights.T).reshape(x.shape), d_weights.astype(weights.dtype)


matmul.defvjp(lambda x, weights: (matmul(x, weights), (x, weights)), _matmul_backward)


@jax.custom_vjp
def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """`float[..., F]`, `float[F] -> float[..., F]`."""
    return x + bias.astype(x.dtype)


add_bias.defvjp(
    lambda x, bias: (add_bias(x, bias), bias),
    lambda bias, dy: (dy, _sum_rows(dy).astype(bias.dtype)),
)


@jax.custom_vjp
def gelu(x: jax.Array) -> jax.Array:
    """x times the normal distribution's cumulative probability of x (the exact GELU)."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return (wide * _cumulative(wide)).astype(x.dtype)


def _cumulative(x: jax.Array) -> jax.Array:
    return 0.5 * (1 + lax.erf(x * math.sqrt(0.5)))


def _gelu_backward(x: jax.Array, dy: jax.Array) -> tuple[jax.Array]:
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    density = jnp.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    return ((dy * (_cumulative(wide) + wide * density)).astype(x.dtype),)


gelu.defvjp(lambda x: (gelu(x), x), _gelu_backward)


def _normalise(x: jax.Array, epsilon: float) -> tuple[jax.Array, jax.Array]:
    x = x - x.mean(-1, keepdims=True)
    rate = lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + epsilon)
    return x * rate, rate


@jax.custom_vjp
def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """Returns mean 0 and variance 1 over the last axis (epsilon 1e-5), then scaled and shifted."""
    return _normalise(x, 1e-5)[0] * scale + bias


def _layer_norm_forward(x: jax.Array, scale: jax.Array, bias: jax.Array) -> Any:
    unit, rate = _normalise(x, 1e-5)
    return unit * scale + bias, (unit, rate, scale)


def _layer_norm_backward(saved: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, ...]:
    unit, rate, scale = saved
    scaled = dy * scale
    inner = (scaled * unit).mean(-1, keepdims=True)
    dx = rate * (scaled - scaled.mean(-1, keepdims=True) - unit * inner)
    return dx, _sum_rows(dy * unit), _sum_rows(dy)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


class Linear(nn.Module):
    """A dense layer of the last axis; parameters as those of `flax.linen.Dense`.

    `dtype` is that of the product and the output.
    """

    size: int
    kernel_init: Any
    dtype: Any
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """`float[..., F] -> float[..., size]`."""
        kind = default_float()
        kernel = self.param("kernel", self.kernel_init, (x.shape[-1], self.size), kind)
        y = matmul(x.astype(self.dtype), kernel.astype(self.dtype))
        if not self.use_bias:
            return y
        return add_bias(y, self.param("bias", nn.initializers.zeros, (self.size,), kind))


class LayerNorm(nn.Module):
    """Layer norm of the last axis in JAX's default float type; parameters as Linen's."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """`float[..., F] -> float[..., F]`."""
        kind = default_float()
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],), kind)
        bias = self.param("bias", nn.initializers.zeros, (x.shape[-1],), kind)
        return layer_norm(x.astype(kind), scale, bias)
