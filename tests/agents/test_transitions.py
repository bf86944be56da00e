"""Tests of the collection of transitions, and of what learners that replay them share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lottery import ENV
from variants import daily

import gpicljax
from gpicljax.agents.optimisation import add_count, learnt_if
from gpicljax.data.transitions import collect, initial_window
from gpicljax.interface import Agent
from gpicljax.rollout import start_rollout

ENVS, PERIOD, ROUNDS = 3, 4, 6
VEC = gpicljax.VectorEnv(ENV, ENVS, resets="fresh", group=ENVS)


def draw(key):
    return jax.random.randint(key, (), 0, 3)


AGENT = Agent(
    lambda batch: (),
    lambda keys, params, carry, timestep: (jax.vmap(draw)(keys), {}, carry),
)


@pytest.mark.parametrize("n_step", daily([3], [1, 3, 6]))
def test_collections_follow_each_other_without_a_gap(n_step):
    """Stored transitions, put together, are those of one recording: n = 6 outlasts a period."""
    step = jax.jit(functools.partial(collect, vec=VEC, agent=AGENT, period=PERIOD, n_step=n_step))
    state = start_rollout(jax.random.key(0), VEC, AGENT)
    action = jnp.zeros(ENVS, jnp.int32)
    window, item = initial_window(state.timestep._replace(info={}), action, n_step)
    assert jax.tree.map(jnp.shape, item.observation) == {"noise": (3,), "action_mask": (3,)}
    first, parts, ends = state.timestep, [], []
    for _ in range(ROUNDS):
        new = step(params=None, start=state, window=window, discount=0.9)
        state, window = new.rollout, new.window
        parts.append(new)
        ends.append(int(new.metrics["episodes"]))
    join = lambda *x: np.concatenate(x)  # noqa: E731
    items, valid, last, observed = (
        jax.tree.map(join, *(getattr(part, name) for part in parts))
        for name in ("items", "valid", "last", "observations")
    )
    assert valid.shape == last.shape == (PERIOD * ROUNDS, ENVS)
    np.testing.assert_array_equal(observed["noise"][0], first.observation["noise"])
    # They begin where the agent was, in the same order, n - 1 steps late.
    late = n_step - 1
    assert not valid[:late].any() and not last[:late].any()
    np.testing.assert_array_equal(
        items.observation["noise"][late:], observed["noise"][: len(observed["noise"]) - late]
    )
    # Episodes of k steps are k transitions, the last one of which is marked, and an ignored action.
    assert valid[last].all()
    for b in range(ENVS):
        stops, ignored = np.flatnonzero(last[late:, b]), np.flatnonzero(~valid[late:, b])
        count = len(observed["noise"]) - late
        np.testing.assert_array_equal(ignored, [i + 1 for i in stops if i + 1 < count])
        assert len(stops) > 2 and set(np.diff(stops)) <= {3, 4, 5, 6}
        # All that begin within n steps of the end of their episode lead there.
        following = items.following["noise"][late:, b]
        for begin, stop in zip(stops[:-1] + 2, stops[1:], strict=True):
            near = following[max(begin, stop - late) : stop + 1]
            np.testing.assert_array_equal(near, np.broadcast_to(near[-1], near.shape))
    if n_step == 1:
        assert sum(ends) == last.sum()


def test_a_renewal_ends_the_episode_without_a_transition():
    vec = gpicljax.VectorEnv(ENV, ENVS, resets="synchronous", steps_per_trial=50)
    state = start_rollout(jax.random.key(0), vec, AGENT)
    window, _ = initial_window(state.timestep._replace(info={}), jnp.zeros(ENVS, jnp.int32), 2)
    step = jax.jit(functools.partial(collect, vec=vec, agent=AGENT, period=2, n_step=2))
    before = step(params=None, start=state, window=window, discount=0.9)
    vstate, timestep = vec.renew(before.rollout.vstate, before.rollout.timestep)
    state = before.rollout._replace(vstate=vstate, timestep=timestep)
    after = step(params=None, start=state, window=before.window, discount=0.9)
    # The window's one time step was followed by another trial.
    open_ = ~np.asarray(before.window[0].last[0])
    assert open_.any()
    np.testing.assert_array_equal(after.valid[0], False)
    np.testing.assert_array_equal(after.last[0], open_)


def test_counts_stop_before_they_overflow():
    assert add_count(jnp.int32(5), 12) == 17
    full = add_count(jnp.int32(2**30), 12)
    assert full == 2**30 and full.dtype == jnp.int32


def test_what_was_not_changed_is_not_chosen():
    old = {"items": jnp.arange(3.0), "params": jnp.zeros(2)}
    new = {"items": old["items"], "params": jnp.ones(2)}
    text = str(jax.make_jaxpr(lambda f, a, b: learnt_if(f, a | {"items": b["items"]}, b))(
        True, new, old
    ))  # fmt: skip
    assert text.count("select_n") == 1 or text.count("_where") == 1
    assert learnt_if(jnp.bool_(True), new, old)["params"].sum() == 2
    kept = learnt_if(jnp.bool_(False), new, old)
    assert kept["params"].sum() == 0 and kept["items"] is old["items"]
