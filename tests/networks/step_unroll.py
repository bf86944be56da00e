"""Compares `step` applied T times with `unroll`, for every recurrent core and the whole Q-network.

As a script (with `JAX_ENABLE_X64`), prints the largest difference of all but `VARIANTS` as JSON.
"""

import functools
import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.dnc import DNC
from gpicljax.networks.dual_coding import DualCoding
from gpicljax.networks.esbn import ESBN
from gpicljax.networks.event_store import Event, EventStore, event_of
from gpicljax.networks.fast_weights import DeltaMemory
from gpicljax.networks.linear_attention import LinearAttention, LinearTransformer
from gpicljax.networks.q_network import RecurrentQNetwork
from gpicljax.networks.recurrent import GRUStack, LSTMStack

LENGTH, BATCH, ACTIONS = 9, 4, 3
CORES = {"lstm": LSTMStack((6, 5)), "delta": DeltaMemory(6, heads=2, width=4)}
OBSERVATIONS = spaces.Dict.of(
    seen=spaces.Box(-1, 1, (4,)),
    phase=spaces.Discrete(3),
    message=spaces.MultiDiscrete((2, 5)),
    action_mask=spaces.Box(0, 1, (ACTIONS,), bool),
)


def q_network(core, **options):
    """A small Q-network with every part in use."""
    return RecurrentQNetwork(
        OBSERVATIONS,
        ACTIONS,
        encoded="seen",
        encoder_sizes=(8, 7),
        mixer_sizes=(10, 6),
        core=core,
        predictions=(("next", 4), ("other", 2)),
        prediction_hidden=5,
        compare=("next",),
        **options,
    )


event, *EVENT_PARTS = event_of(
    OBSERVATIONS, spaces.Discrete(ACTIONS), ("message",), ("seen",), ("phase", 2)
)
MODULES = {
    **CORES,
    "gru": GRUStack((6, 5)),
    "dnc": DNC(6, slots=4, width=3, heads=2),
    "dnc, unlinked": DNC(6, slots=4, width=3, heads=1, links=False),
    "esbn": ESBN(6, keys=4, values=3, slots=4),
    "dual coding": DualCoding(6, slots=4, width=3, heads=2, nearest=3),
    "dual coding, events": DualCoding(6, slots=4, width=3, heads=2, nearest=3),
    "linear attention": LinearAttention(2, 3, chunk=4),
    "linear transformer": LinearTransformer(2, 6, 2, 12, chunk=4),
    "delta rule": LinearTransformer(2, 6, 2, 12, chunk=4, corrects=True),
    "q-network, lstm": q_network(CORES["lstm"]),
    "q-network, delta": q_network(CORES["delta"], residual=True),
    "event store": EventStore(4, 2, slots=3, heads=2, width=3),
    "event store, distance": EventStore(4, 2, slots=3, heads=2, metric="distance"),
    "q-network, events": q_network(
        EventStore(*map(sum, EVENT_PARTS), slots=3, heads=2, width=3),
        event=event,
        residual=True,
        head_sizes=(6,),
    ),
}

# These step as others do that are looked at always.
VARIANTS = "gru", "dnc, unlinked", "dual coding"


def draw_inputs(name):
    """Random inputs `[LENGTH, BATCH, ...]` for the case, and starts, some in mid-sequence."""
    draw = np.random.default_rng(1)
    dtype, size = jnp.result_type(float), (LENGTH, BATCH)
    starts = draw.random(size) < 0.25
    # One instance carries over its memory, one starts at once and restarts in the middle.
    starts[:, 0], starts[:, 1] = False, np.arange(LENGTH) % 5 == 0
    if name in ("event store", "event store, distance", "dual coding, events"):
        key, value = (jnp.asarray(draw.normal(size=(*size, n)), dtype) for n in (4, 2))
        return Event(key, value, jnp.asarray(draw.random(size) < 0.7)), jnp.asarray(starts)
    if not name.startswith("q-network"):
        return jnp.asarray(draw.normal(size=(*size, 6)), dtype), jnp.asarray(starts)
    observation = {
        "seen": jnp.asarray(draw.normal(size=(*size, 4)), dtype),
        "phase": jnp.asarray(draw.integers(3, size=size), jnp.int32),
        "message": jnp.asarray(draw.integers(2, size=(*size, 2)), jnp.int32),
        "action_mask": jnp.asarray(draw.random((*size, ACTIONS)) < 0.7),
    }
    action = jnp.asarray(draw.integers(-1, ACTIONS, size=size), jnp.int32)
    reward = jnp.asarray(draw.normal(size=size), dtype)
    return AgentInput(observation, action, reward), jnp.asarray(starts)


class Case(NamedTuple):
    """A network with compiled functions, its parameters, a carry that is not empty, inputs."""

    network: Network
    params: Any
    carry: Any
    inputs: Any
    starts: jax.Array


def fill(carry, value):
    """A carry with something in it: counts of 2, and elsewhere the value added."""
    inexact = lambda c: jnp.issubdtype(c.dtype, jnp.inexact)  # noqa: E731
    return jax.tree.map(lambda c: c + value if inexact(c) else jnp.full_like(c, 2), carry)


@functools.cache
def prepare(name):
    """The case of that name, with random parameters."""
    network = as_network(MODULES[name])
    network = network._replace(step=jax.jit(network.step), unroll=jax.jit(network.unroll))
    inputs, starts = draw_inputs(name)
    first = jax.tree.map(lambda x: x[0], inputs)
    shapes = jax.eval_shape(network.init, jax.random.key(0), first)
    draw = np.random.default_rng(2)
    params = jax.tree.map(lambda s: jnp.asarray(0.5 * draw.normal(size=s.shape), s.dtype), shapes)
    carry = fill(network.initial_carry(BATCH), 0.3)
    return Case(network, params, carry, inputs, starts)


def both_ways(name):
    """(outputs, carry) of `unroll`, and of `step` in a loop."""
    network, params, carry, inputs, starts = prepare(name)
    together = network.unroll(params, carry, inputs, starts)
    outputs = []
    for t in range(LENGTH):
        output, carry = network.step(
            params,
            carry,
            jax.tree.map(lambda x: x[t], inputs),  # noqa: B023
            starts[t],
        )
        outputs.append(output)
    return together, (jax.tree.map(lambda *x: np.stack(x), *outputs), carry)


def largest_difference(name):
    """The largest absolute difference between the two ways; floats are of one type only."""
    ways = both_ways(name)
    for leaf in jax.tree.leaves((ways, prepare(name).params)):
        assert leaf.dtype in (jnp.result_type(float), jnp.int32)
    differences = jax.tree.map(lambda a, b: np.abs(np.asarray(a) - b).max(), *ways)
    return float(max(jax.tree.leaves(differences)))


if __name__ == "__main__":
    print(json.dumps({name: largest_difference(name) for name in MODULES if name not in VARIANTS}))
