import jax
import jax.numpy as jnp

from gpicljax.interface import TimeStep


def replies_of(agent):
    """A function from texts, each with a reward at its first byte, to an agent's replies."""
    keys = jax.random.split(jax.random.key(0), 1)
    act = jax.jit(lambda carry, timestep: agent.act(keys, (), carry, timestep))

    def reply_to(*parts):
        carry, reply, start = agent.initial_carry(1), "", True
        for text, reward in parts:
            for place, byte in enumerate(text):
                flags = [jnp.array([flag]) for flag in (False, False, start, start)]
                inputs = jnp.array([ord(byte)], jnp.uint8), jnp.array([0.0 if place else reward])
                output, _, carry = act(carry, TimeStep(*inputs, *flags, {}, None))
                reply, start = reply + chr(int(output[0])), False
        return reply

    return reply_to
