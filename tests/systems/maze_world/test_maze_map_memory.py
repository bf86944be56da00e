"""A map by dead reckoning, against the poses of the simulator."""

import jax
import jax.numpy as jnp
import numpy as np

import gpicljax
from gpicljax.agents import random_agent
from gpicljax.networks.map_memory import empty_map, follow
from gpicljax.rollout import rollout, start_rollout
from gpicljax.systems.maze_world.data.sequences import look_around

STEPS, MAZES = 80, 4


def test_dead_reckoning_agrees_with_the_simulator():
    env = gpicljax.make("MazeWorld-v0", size=7, resolution=(16, 16))
    vec = gpicljax.VectorEnv(env, MAZES, resets="synchronous", steps_per_trial=STEPS + 1)
    agent = random_agent(env)

    def keep(record):
        state, task = record.vstate.state, record.vstate.task
        cell = jax.vmap(env.cell)(state, task)
        return record.timestep.observation, record.action, cell, state.heading

    def see(memory, step):
        picture, action, start = step
        latent, seen = picture.reshape(MAZES, -1).astype(float), jnp.zeros(MAZES, bool)
        memory, _ = follow(memory, latent, action, seen, jnp.full(MAZES, start), 5, STEPS)
        return memory, memory.pose

    @jax.jit
    def track(key):
        start = start_rollout(key, vec, agent)
        _, (pictures, actions, cells, headings) = rollout(vec, agent, (), start, STEPS, keep)
        done = jnp.concatenate([jnp.full((1, MAZES), -1), actions[:-1]])
        inputs = pictures, done, jnp.arange(STEPS) == 0
        memory = empty_map(MAZES, 16 * 16 * 3, 5)
        return jax.lax.scan(see, memory, inputs)[1], cells, headings

    poses, cells, headings = map(np.asarray, track(jax.random.key(0)))
    quarters = np.round(headings / (np.pi / 2)).astype(int)
    turned = np.stack([np.cos(headings[0]), np.sin(headings[0])])
    x, y = np.moveaxis(cells - cells[:1], -1, 0)
    relative = [turned[0] * x + turned[1] * y, turned[0] * y - turned[1] * x]
    np.testing.assert_allclose(poses[..., 0], relative[0], atol=1e-4)
    np.testing.assert_allclose(poses[..., 1], relative[1], atol=1e-4)
    np.testing.assert_array_equal(poses[..., 2], (quarters - quarters[0]) % 4)
    assert len(np.unique(poses.reshape(-1, 3), axis=0)) > 20


def test_what_is_seen_around_a_pose_turns_with_it():
    seen, cells = np.arange(1, 26).reshape(5, 5), np.array([(1, 0), (1, 1), (0, -1), (4, 0)])
    look = jax.jit(lambda seen, pose: look_around(seen, pose, cells))
    ahead = seen[2, 4], seen[1, 4], seen[3, 3], 0  # along +y; the right is -x
    assert look(seen, np.array([2, 3, 1])).tolist() == list(ahead)
    back = seen[1, 3], seen[1, 2], seen[2, 4], 0  # along -x; the right is -y
    assert look(seen, np.array([2, 3, 2])).tolist() == list(back)
