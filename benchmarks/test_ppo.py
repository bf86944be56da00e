"""PPO's training steps per CPU-second, beside those of rejax on the same task in the same process.

64 environments x 128 steps, 4 epochs of 4 minibatches, two MLPs of 64 x 64 with ReLU: the same
work, except that a reset takes a step of its own here (a sixth of FrozenLake's steps), as
Gymnasium's does, and none there. Both step counts are of environment steps as each counts them; the
`counting` figure leaves our resets out.
"""

import statistics

import jax
import jax.numpy as jnp
import pytest

import gpicljax
from benchmarks.timing import compile_program, time_call
from gpicljax.agents import ppo
from gpicljax.networks.actor_critic import ActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.runtime import FAST_COMPILE

ENVS, STEPS, UPDATES, ROUNDS = 64, 128, 10, 7
TASKS = {
    "FrozenLake-v1": {"is_slippery": False},
    "BernoulliBandit-v0": {"num_arms": 10},
    "MountainCar-v0": {},
}


def our_updates(env):
    """A program of UPDATES updates, and the state to start from."""
    vec = gpicljax.VectorEnv(env, ENVS, resets="fresh")
    network = as_network(ActorCritic(env.observation_space(), env.action_space()))
    trainer = ppo.make(ppo.PPOConfig(unroll=STEPS), vec, network)
    state = jax.jit(trainer.init)(jax.random.key(0), ppo.PPOHParams())

    def counting(state):
        """Updates, and the steps whose action counts."""

        def one(state, _):
            following, metrics = trainer.update(state)
            return following, metrics["episodes"]

        state, episodes = jax.lax.scan(one, state, None, UPDATES)
        return state, UPDATES * ENVS * STEPS - episodes.sum()

    return counting, state


def rejax_updates(env):
    """The same of rejax."""
    rejax = pytest.importorskip("rejax")
    from gpicljax.interop import to_gymnax

    trainer = rejax.PPO.create(
        env=to_gymnax(env, step_api=5),
        num_envs=ENVS,
        num_steps=STEPS,
        num_epochs=4,
        num_minibatches=4,
        total_timesteps=ENVS * STEPS * UPDATES,
        agent_kwargs={"activation": "relu", "hidden_layer_sizes": (64, 64)},
    )
    state = jax.jit(trainer.init_state)(jax.random.key(0))

    def updates(state):
        def one(state, _):
            return trainer.train_iteration(state), None

        state, _ = jax.lax.scan(one, state, None, UPDATES)
        return state, jnp.asarray(UPDATES * ENVS * STEPS)

    return updates, state


@pytest.mark.parametrize("name", TASKS)
def test_ppo_beside_rejax(benchmark, one_core, name):
    if name not in gpicljax.registered():
        pytest.skip(f"{name} is not registered")
    env = gpicljax.make(name, **TASKS[name])
    programs = {}
    for who, make in (("gpicljax", our_updates), ("rejax", rejax_updates)):
        function, state = make(env)
        program, compile_s = compile_program(function, state, compiler_options=FAST_COMPILE)
        benchmark.extra_info[f"{who}_compile_cpu_s"] = compile_s
        programs[who] = [program, state]

    def run(who):
        program, state = programs[who]
        state, counted = jax.block_until_ready(program(state))
        programs[who][1] = state
        return int(counted)

    rates = {who: [] for who in programs}
    counting = []
    for i in range(ROUNDS + 1):
        for who in programs:  # in turns: both see the same neighbours
            counted, seconds = time_call(run, who)
            if i:  # the first round warms up
                rates[who].append(ENVS * STEPS * UPDATES / seconds)
                if who == "gpicljax":
                    counting.append(counted / seconds)
    benchmark.pedantic(run, ("gpicljax",), rounds=1)
    medians = {who: statistics.median(values) for who, values in rates.items()}
    benchmark.extra_info["counting_steps_per_cpu_second"] = statistics.median(counting)
    benchmark.extra_info["ratio"] = medians["gpicljax"] / medians["rejax"]
    for who, values in rates.items():
        benchmark.extra_info[f"{who}_steps_per_cpu_second"] = medians[who]
        benchmark.extra_info[f"{who}_range"] = [min(values), max(values)]
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(programs["gpicljax"][1].params))
