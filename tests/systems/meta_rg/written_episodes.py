"""Episodes with given targets, played with given actions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.meta_rg.env.targets import INDEX, Skeleton
from gpicljax.systems.meta_rg.env.types import CHANNELS

SUPPORT = [(0, 0, 0), (1, 2, 0), (2, 3, 2), (2, 0, 3)]
QUERY = [(1, 3, 0), (3, 3, 3), (1, 0, 1)]
GAMES = len(SUPPORT) + len(QUERY)


def skeleton_of(support=SUPPORT, query=QUERY, num_values=(4, 4, 4), repeated=()):
    """The skeleton of an episode with these targets."""
    cap = 8
    index = [int(np.dot(t, (25, 5, 1))) for t in [*support, *repeated, *query]]
    num_support = len(support) + len(repeated)
    pool = sorted(index[:num_support]) + sorted(index[num_support:])
    first, count = [], []
    for game, target in enumerate(index):
        side = slice(0, num_support) if game < num_support else slice(num_support, None)
        first.append((0 if game < num_support else num_support) + pool[side].index(target))
        count.append(pool[side].count(target))

    def pad(values, fill):
        return jnp.asarray(values + [fill] * (2 * cap - len(values)), INDEX)

    return Skeleton(
        num_values=jnp.asarray(num_values, jnp.int32),
        targets=pad(index, 0),
        first=pad(first, 0),
        count=pad(count, 1),
        pool=pad(pool, jnp.iinfo(INDEX).max),
        nonmatches=None,
        num_support=jnp.int32(num_support),
        num_games=jnp.int32(len(index)),
        pools=jnp.asarray([[0, num_support], [0, len(index)]], jnp.int32),
        overflow=jnp.zeros((), bool),
    )


@functools.cache
def player(env):
    """Plays a written episode with given actions, or rightly and wrongly where they are None."""

    def play(key, skeleton, actions, right, channel):
        params = env.default_params
        params = params.replace(samples=jnp.int32(env.max_samples), channel=channel)
        task, state = env.start(key, skeleton, params)

        def body(state, inputs):
            action, right = inputs
            answer = state.game.answer
            chosen = jnp.where(right, answer, (answer + 1) % env.num_decisions)
            action = jnp.where(action < 0, chosen, action)
            step_record = {
                "observation": env.observe(state, task),
                "state": state,
                "answer": answer,
                "round": state.round,
                "target": state.game.speaker_latents[0],
            }
            _, state, reward, terminated, _, info = env.step(key, state, action, task)
            return state, {**step_record, "reward": reward, "terminated": terminated, "info": info}

        return task, jax.lax.scan(body, state, (actions, right))[1]

    return jax.jit(play)


def play(env, actions=None, *, right=None, seed=0, skeleton=None, games=GAMES, channel="episode"):
    steps = games * (env.num_rounds + 1 + env.feedback) - env.feedback
    if actions is None:
        shape = () if env.view == "listener" else (2, 1 + env.message_length)
        actions = np.full((steps, *shape), -1)
    right = np.ones(steps, bool) if right is None else right
    skeleton = skeleton_of() if skeleton is None else skeleton
    actions, channel = jnp.asarray(actions, jnp.int32), jnp.int32(CHANNELS.index(channel))
    return jax.device_get(player(env)(jax.random.key(seed), skeleton, actions, right, channel))
