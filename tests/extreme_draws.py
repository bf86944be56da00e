"""Typed keys whose draws can be made extreme: every generator is fed the ends of its range.

A uniform draw hits an end once in some ten million times, and then a logarithm or an inverse error
function is infinite: too seldom for random play, and too often for training.
"""

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl, threefry_prng_impl

PLAIN, EXTREME = 0, 1


def _split(key, shape):
    parts = threefry_prng_impl.split(key[:2], shape)
    return jnp.concatenate([parts, jnp.broadcast_to(key[2:], (*parts.shape[:-1], 1))], axis=-1)


def _fold_in(key, data):
    return jnp.concatenate([threefry_prng_impl.fold_in(key[:2], data), key[2:]])


def _bits(key, bit_width, shape):
    drawn = threefry_prng_impl.random_bits(key[:2], bit_width, shape)
    ends = jnp.zeros_like(drawn) - (drawn & 1)  # no bit set, or all of them
    return jnp.where(key[2] == EXTREME, ends, drawn)


def _seed(seed):
    return jnp.append(threefry_prng_impl.seed(seed), jnp.uint32(PLAIN))


IMPL = define_prng_impl(
    key_shape=(3,),
    seed=_seed,
    split=_split,
    random_bits=_bits,
    fold_in=_fold_in,
    name="extreme_draws",
    tag="ends",
)


def make_key(seed, kind=PLAIN):
    """A typed key: draws are threefry's, or if `EXTREME` each is the least or greatest there is.

    Both kinds are values of one type, so that one compiled program serves them.
    """
    data = jax.random.key_data(jax.random.key(seed, impl=IMPL))
    return jax.random.wrap_key_data(data.at[2].set(kind), impl=IMPL)
