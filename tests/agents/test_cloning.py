"""Behaviour cloning: it learns in context, and spread over devices it is the same run."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cloning_subjects import make

import gpicljax
from gpicljax.agents import cloning
from gpicljax.agents.bandits import ucb1
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.contract import as_network
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.rollout import rollout, start_rollout
from gpicljax.systems.maze_world.experts.privileged import privileged_agent


@pytest.mark.slow
def test_a_clone_of_the_best_arm_learns_to_find_it():
    env = gpicljax.make("BernoulliBandit-v0", num_arms=3)
    params = env.make_params(horizon=20)
    vec = gpicljax.VectorEnv(env, 64, resets="fresh", params=params, privileged=True)
    trainer = make(vec)

    @jax.jit
    @jax.vmap
    def train(key):
        state = trainer.init(key, cloning.CloningHParams(learning_rate=5e-3))
        return jax.lax.scan(lambda s, _: trainer.update(s), state, None, 200)

    state, metrics = train(jax.random.split(jax.random.key(0), 3))
    np.testing.assert_allclose(metrics["loss"][:, 0], np.log(3), atol=0.01)  # nothing known yet
    # Fresh bandits: the mean reward by position in the episode, from ignorance upwards.
    fresh = gpicljax.VectorEnv(env, 2048, resets="fresh", params=params)
    agent = make(fresh).agent()
    start = start_rollout(jax.random.key(1), fresh, agent)
    _, chance = jax.jit(jax.vmap(
        lambda p: rollout(
            fresh, agent, p, start, 20,
            keep=lambda r: jnp.take_along_axis(chances(start), r.action[:, None], 1).mean(),
        )
    ))(state.params)  # fmt: skip
    best = chances(start).max(1).mean()
    # 0.5 is chance, 0.75 the mean of the best of three.
    assert chance[:, 0].mean() == pytest.approx(0.5, abs=0.02)
    assert chance[:, -5:].mean() > 0.5 + 0.5 * (best - 0.5)


def chances(start):
    return start.vstate.task.probabilities


@pytest.mark.slow
def test_a_clone_of_the_mazes_privileged_agent_sees_what_it_can():
    """The teacher remembers the maze; the student sees the cells around, or for the null nothing.

    Both students train side by side, in one program; the blind one knows its last action and
    reward, and how often the teacher goes where.
    """
    env = gpicljax.make(
        "MazeWorld-v0", size=7, view="local", local_radius=1, actions="moves", max_landmarks=3
    )
    vec = gpicljax.VectorEnv(env, 16, bank_size=64, privileged=True)
    teacher = privileged_agent(env, 1.0)
    module = RecurrentActorCritic(
        env.observation_space(), env.action_space(), (32,), LSTMStack((32,))
    )
    network = as_network(module)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(None, 0))
    @functools.partial(jax.vmap, in_axes=(0, None))
    def study(sight, key):
        def seen(inputs):
            shade = lambda x: x * (sight / 255) if x.dtype == jnp.uint8 else x * (sight > 0)  # noqa: E731
            return inputs._replace(observation=jax.tree.map(shade, inputs.observation))

        eyes = network._replace(
            init=lambda key, inputs: network.init(key, seen(inputs)),
            step=lambda p, carry, inputs, start: network.step(p, carry, seen(inputs), start),
            unroll=lambda p, carry, inputs, starts: network.unroll(p, carry, seen(inputs), starts),
        )
        trainer = cloning.make(cloning.CloningConfig(12), vec, eyes, teacher)
        hparams = cloning.CloningHParams(learning_rate=5e-3, teacher_share=0.5)
        state = trainer.init(key, hparams)
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, None, 150)
        return metrics, state.rollout.carry

    metrics, memories = study(jnp.array([1.0, 0.0]), jax.random.split(jax.random.key(0), 3))
    sighted, blind = np.asarray(metrics["agreement"][..., -30:]).mean((0, 2))
    assert sighted > blind + 0.15, (sighted, blind)
    assert np.isfinite(metrics["loss"]).all()
    # The teacher's memory went along: what it has kept is more than what is in view now.
    kept, in_view = memories.teacher.kept.sum((-1, -2)), memories.teacher.recent[0].sum((-1, -2))
    assert (kept > in_view).mean() > 0.5
    # What is privileged is told to the teacher alone.
    assert jax.tree.structure(memories.student) == jax.tree.structure(
        cloning.make(cloning.CloningConfig(), vec, network, teacher).agent().initial_carry(1)
    )


def test_choices_do_not_depend_on_the_batch():
    env = gpicljax.make("BernoulliBandit-v0")
    small, large = (gpicljax.VectorEnv(env, n, resets="fresh") for n in (4, 16))
    keys = [
        jax.random.key_data(vec.choice_keys(vec.init(jax.random.key(0))[0]))
        for vec in (small, large)
    ]
    np.testing.assert_array_equal(keys[0], keys[1][:4])


def test_bad_input_is_refused():
    env = gpicljax.make("BernoulliBandit-v0")
    vec = gpicljax.VectorEnv(env, 6)
    with pytest.raises(ValueError, match="unroll: got 0; accepted: an integer >= 1"):
        make(vec, unroll=0)


@pytest.mark.slow
@pytest.mark.parametrize("resets", ["fresh", "bank", "synchronous"])
def test_eight_devices_train_as_one(resets, on_eight_devices):
    on_eight_devices(Path(__file__).with_name("trainers_on_eight_devices.py"), resets)


def test_a_teacher_with_a_memory_is_told_what_was_played():
    """The student never pulls what its teacher would: pay is booked for what was pulled."""
    env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
    params = env.make_params(horizon=10)
    vec = gpicljax.VectorEnv(env, 8, resets="fresh", params=params, privileged=True)
    network = RecurrentSettings("lstm", core=(4,), sizes=(4,)).network(
        env.observation_space(), env.action_space()
    )

    def always_first(params, carry, inputs, start):
        output, carry = network.step(params, carry, inputs, start)
        return output._replace(logits=output.logits + jnp.array([1e4, 0.0])), carry

    student = network._replace(step=always_first)
    trainer = cloning.make(cloning.CloningConfig(unroll=9), vec, student, ucb1(env.action_space()))
    state = jax.jit(trainer.init)(jax.random.key(0), cloning.CloningHParams())
    counts = jax.jit(trainer.update)(state)[0].rollout.carry.teacher.counts
    np.testing.assert_array_equal(counts, [[8, 0]] * 8)  # the ninth has not paid yet

    untold = ucb1(env.action_space())._replace(record_action=None)
    with pytest.raises(ValueError, match="teacher: got .an agent with a memory and no record_act"):
        cloning.make(cloning.CloningConfig(), vec, student, untold)
