"""Games as sequences are what stepping shows, one behind the other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.systems.meta_rg.env.sequences import game_observations, game_sequence, rule_messages

GAMES, EPISODES = 40, 3


SHORT = {"num_rounds": 2, "num_dims": 2, "message_length": 1, "max_samples": 4, "max_values": 3}
OPTIONS = {
    "ablated, two rounds": {"ablations": True, **SHORT},
    "ablated": {"ablations": True},
    "two rounds": SHORT,
    "distractor": {"feedback": False, "num_distractors": 1, "stimulus": "mhe", "max_values": 3},
}


@pytest.mark.parametrize("name", daily(["ablated, two rounds"], OPTIONS))
def test_sequences_are_what_stepping_shows(name):
    env = gpicljax.make("MetaRG-v1", **OPTIONS[name])
    params = dataclasses.replace(env.make_params(), max_values=jnp.int32(3))
    if env.ablations:
        params = dataclasses.replace(params, channel=jnp.int32(1))

    @jax.jit
    def shown_and_stepped(key):
        games = game_sequence(key, env, params, games=GAMES, episodes=EPISODES)
        decisions = jax.random.randint(key, (GAMES,), 0, env.num_decisions, jnp.int32)
        shown = game_observations(env, games, rule_messages(env, games), decisions)

        def step(carry, place):
            # An episode begins in its first state; what follows is stepped.
            state, game = carry
            first, task = jax.tree.map(lambda x: x[game], (games.state, games.task))
            fresh = games.start[game] & (state.index != first.index)
            state = jax.tree.map(lambda a, b: jnp.where(fresh, a, b), first, state)
            observation = env.observe(state, task)
            decided = state.round == env.num_rounds
            following = env.transition(key, state, decisions[game], task).state
            over = (place + 1) % (env.num_rounds + 1 + env.feedback) == 0
            return (following, game + over), (observation, decided)

        start = jax.tree.map(lambda x: x[0], games.state)
        length = GAMES * (env.num_rounds + 1 + env.feedback)
        _, (stepped, _) = jax.lax.scan(step, (start, jnp.int32(0)), jnp.arange(length))
        return games, shown, stepped

    games, shown, stepped = jax.device_get(shown_and_stepped(jax.random.key(3)))
    assert games.start.sum() >= 2 and games.valid.any() and games.start[0]
    assert games.query.any() and not games.query[games.start].any()
    real = np.repeat(games.valid, shown["round"].shape[1])
    for name, value in shown.items():
        flat = value.reshape(-1, *value.shape[2:])
        np.testing.assert_array_equal(flat[real], stepped[name][real], err_msg=name)


def test_what_is_refused():
    env = gpicljax.make("MetaRG-v1", view="players", listener_speaks=True)
    games = jax.eval_shape(
        lambda key: game_sequence(key, env, env.default_params, games=4), jax.random.key(0)
    )
    with pytest.raises(ValueError, match="listener_speaks: got True"):
        game_observations(env, games, jnp.zeros((4, 1, 3), jnp.int32), jnp.zeros(4, jnp.int32))
    with pytest.raises(ValueError, match="games: got 0"):
        game_sequence(jax.random.key(0), env, env.default_params, games=0)
