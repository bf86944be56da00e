"""Episodes of agents: recorded as they were lived, kept, and refused where they make no sense."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from untasked import Untasked

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.environment import Transition
from gpicljax.interface import Agent
from gpicljax.spaces import Box, Dict, Discrete
from gpicljax.storage import SavedError
from gpicljax.systems.mental_modelling.data.episodes import (
    episodes_from_arrays,
    join_episodes,
    take_episodes,
)
from gpicljax.systems.mental_modelling.data.recording import recorder
from gpicljax.systems.mental_modelling.data.stored import load_episodes, read_npz, save_episodes

CAR = {"environment": "MountainCar-v0", "action_space": Discrete(3)}
PUSH = {"environment": "FetchPush-v4", "action_space": Box(-1.0, 1.0, (4,))}


def steps(length, dim=2):
    return {
        "states": np.arange(length * dim, dtype=np.float32).reshape(length, 1, dim),
        "actions": np.arange(length)[:, None] % 3,
        "rewards": -np.ones((length, 1)),
        "episodic_return": np.array([-float(length)]),
    }


def same(first, second):
    for field in dataclasses.fields(first):
        a, b = getattr(first, field.name), getattr(second, field.name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, field.name


def test_recorded_episodes_are_those_that_were_lived(tmp_path):
    env = gpicljax.make("FrozenLake-v1")
    sizes = {"episodes": 8, "max_steps": 12}
    record = recorder(env, random_agent(env), environment="FrozenLake-v1", **sizes)
    lake = record(jax.random.key(3), (), "random", "none")
    assert lake.num_states == 16 and lake.states.shape == (8, 12)
    assert (lake.states[:, 0] == 0).all() and lake.agents == ("random",) * 8
    assert np.array_equal(lake.returns, lake.rewards.sum(1))
    # Every step leads to the same square or to a neighbour, and no episode goes on in a hole.
    going = lake.is_step[:, 1:]
    rows_after, back = np.divmod(lake.states[:, 1:], 4), np.divmod(lake.states[:, :-1], 4)
    moved = abs(rows_after[0] - back[0]) + abs(rows_after[1] - back[1])
    assert (moved[going] <= 1).all() and moved[going].any()
    assert not np.isin(lake.states[lake.is_step], (5, 7, 11, 12, 15)).any()
    save_episodes(tmp_path / "lake", lake)
    same(load_episodes(tmp_path / "lake"), lake)


class Reach(Untasked):
    """A point on a line that moves as it is told, towards a goal, for 4 steps."""

    def initial(self, key, task):
        return jnp.zeros(2)

    def transition(self, key, state, action, task):
        state = jnp.stack([state[0] + jnp.clip(action[0], -1, 1), state[1] + 1])
        return Transition(state, -state[0], jnp.zeros((), bool), state[1] >= 4, {})

    def observe(self, state, task):
        goal = {"achieved_goal": state[:1], "desired_goal": jnp.full(1, 3.0)}
        return {"observation": state, **goal}

    def action_space(self, task=None):
        return Box(-1.0, 1.0, (1,))

    def observation_space(self, task=None):
        line = Box(-5.0, 5.0, (1,))
        goals = {"achieved_goal": line, "desired_goal": line}
        return Dict.of(observation=Box(-5.0, 5.0, (2,)), **goals)


def test_goals_are_kept_and_actions_as_they_took_effect():
    # It grows bolder, and beyond what there is.
    bold = Agent(
        lambda batch: (),
        lambda keys, params, carry, step: (0.5 + step.observation["observation"][:, 1:], {}, ()),
    )
    record = recorder(Reach(), bold, environment="Reach", episodes=2, max_steps=9)
    reach = record(jax.random.key(0), (), "bold", "")
    assert reach.length.tolist() == [4, 4] and reach.rewards.shape == (2, 9)
    assert reach.actions[0, :5, 0].tolist() == [0.5, 1, 1, 1, 0]
    assert reach.states[1, :4].tolist() == [[0, 0], [0.5, 1], [1.5, 2], [2.5, 3]]
    assert reach.achieved_goals[0, :4, 0].tolist() == [0, 0.5, 1.5, 2.5]
    assert (reach.desired_goals[reach.is_step] == 3).all()
    assert reach.returns.tolist() == [-8, -8]
    with pytest.raises(ValueError, match="episodes: got 0"):
        recorder(Reach(), bold, environment="Reach", episodes=0, max_steps=9)


def test_files_of_the_reference_and_own_arrays_load_alike(tmp_path):
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path, length in zip(paths, (5, 3), strict=True):
        np.savez(path, agent_dirs=np.zeros(2), **steps(length))
    read = read_npz(paths, agent="DQN", checkpoint="abc", **CAR)
    assert read.states.shape == (2, 5, 2) and read.length.tolist() == [5, 3]
    assert read.actions[1].tolist() == [0, 1, 2, 0, 0] and read.returns.tolist() == [-5, -3]
    # Gymnasium's rollouts have a last observation, and no axis of a vector environment.
    lived = [np.arange(12.0).reshape(6, 2), np.arange(8.0).reshape(4, 2)]
    rollouts = episodes_from_arrays(
        [x.astype(np.float32) for x in lived],
        [np.arange(5) % 3, np.arange(3)],
        [-np.ones(5), -np.ones(3)],
        agent="DQN",
        checkpoint="abc",
        **CAR,
    )
    same(read, rollouts)
    same(join_episodes(*(read_npz(p, agent="DQN", checkpoint="abc", **CAR) for p in paths)), read)

    goals = {f"{kind}_goals": np.ones((6, 1, 3)) for kind in ("achieved", "desired")}
    pushed = steps(6, dim=25) | {"actions": np.full((6, 1, 4), 0.5)} | goals
    np.savez(paths[0], **pushed)
    push = read_npz(paths[0], agent="DDPG", **PUSH)
    assert push.actions.shape == (1, 6, 4) and push.desired_goals.shape == (1, 6, 3)
    save_episodes(tmp_path / "push", push)
    same(load_episodes(tmp_path / "push"), push)
    np.savez(paths[1], **{k: v for k, v in pushed.items() if k != "desired_goals"})
    with pytest.raises(SavedError, match="b.npz has no desired_goals"):
        read_npz(paths, agent="DDPG", **PUSH)
    with pytest.raises(ValueError, match="environment: got"):
        join_episodes(read, push)
    same(
        join_episodes(take_episodes(read, [1]), take_episodes(read, read.length == 5)),
        take_episodes(read, np.array([1, 0])),
    )
    assert take_episodes(push, [0, 0]).agents == ("DDPG", "DDPG")
    for indices in ([2], [-1], [], read.length > 9, [0.0]):
        with pytest.raises(
            ValueError, match=r"indices: got .*; accepted: integers from 0 to 1, or"
        ):
            take_episodes(read, indices)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": np.array([0, 1, 3])}, "actions, episode 0, step 2: got 3; accepted: .*0 to 2"),
        ({"actions": np.array([0.0, 1.0, 2.0])}, r"actions: got float64\[1, 3\]; accepted: integ"),
        ({"actions": np.zeros((3, 2), int)}, "actions, episode 0: got int64.*3 steps, as there"),
        ({"states": np.zeros((5, 2))}, r"states, episode 0: got float64\[5, 2\]"),
        ({"states": np.zeros((3, 4, 2))}, r"states, episode 0: got float64\[3, 4, 2\]"),
        ({"states": np.full((3, 2), np.nan)}, "states, episode 0, step 0: got .*finite"),
        ({"rewards": np.zeros((3, 2))}, "rewards, episode 0: got"),
        ({"episodic_return": np.array(np.inf)}, "returns: got"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path, change, message):
    np.savez(tmp_path / "a.npz", **(steps(3) | change))
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "a.npz", agent="DQN", **CAR)


def test_damaged_and_foreign_files_are_named(tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(SavedError, match=r"a.npz cannot be read \(No such file"):
        read_npz(path, agent="DQN", **CAR)
    np.savez_compressed(path, **steps(300))
    whole = path.read_bytes()
    for broken in (whole[:-40], whole[:60] + b"x" * 80 + whole[140:], b"", b"PK\x03\x04nothing"):
        path.write_bytes(broken)
        with pytest.raises(SavedError, match="a.npz"):
            read_npz(path, agent="DQN", **CAR)
    np.savez(path, states=np.zeros(3), weights=np.zeros(3))
    with pytest.raises(SavedError, match="has states, weights, but no actions, rewards"):
        read_npz(path, agent="DQN", **CAR)
    np.savez(path, **(steps(3) | {"states": np.array([{}, {}, {}])}))
    with pytest.raises(SavedError, match="a.npz is damaged or no .npz file of arrays"):
        read_npz(path, agent="DQN", **CAR)
    np.save(tmp_path / "b.npy", np.zeros(3))
    with pytest.raises(SavedError, match="b.npy is no .npz file"):
        read_npz(tmp_path / "b.npy", agent="DQN", **CAR)

    path.write_bytes(whole)
    save_episodes(tmp_path / "kept", read_npz(path, agent="DQN", **CAR))
    card = tmp_path / "kept" / "episodes.json"
    text = card.read_text()
    card.write_text(text.replace('"n": 3', '"n": 2'))
    with pytest.raises(SavedError, match=r"episodes.json is damaged .*actions, episode 0, step 2"):
        load_episodes(tmp_path / "kept")
    card.write_text(text)
    arrays = tmp_path / "kept" / "params.npz"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(SavedError, match="params.npz has .* bytes"):
        load_episodes(tmp_path / "kept")
