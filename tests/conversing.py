import jax
import jax.numpy as jnp

from gpicljax.interface import TimeStep


def replies_of(agent):
    """What an agent says to texts, each of which comes with a reward at its first byte."""
    keys = jax.random.split(jax.random.key(0), 1)
    act = jax.jit(lambda carry, timestep: agent.act(keys, (), carry, timestep))

    def replied(*parts):
        carry, said, start = agent.initial_carry(1), "", True
        for text, reward in parts:
            for place, byte in enumerate(text):
                flags = [jnp.array([flag]) for flag in (False, False, start, start)]
                now = jnp.array([ord(byte)], jnp.uint8), jnp.array([0.0 if place else reward])
                say, _, carry = act(carry, TimeStep(*now, *flags, {}, None))
                said, start = said + chr(int(say[0])), False
        return said

    return replied
