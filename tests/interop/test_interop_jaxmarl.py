"""JaxMARL's contract on two-player games, its wrappers, and its baselines' way of batching."""

import copy
import functools
import importlib.util
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stroll import Stroll, assert_same, at

import gpicljax
from gpicljax import spaces
from gpicljax.wrappers.wrapper import RecordEpisodeStatistics

if not importlib.util.find_spec("jaxmarl"):
    pytest.skip("needs jaxmarl", allow_module_level=True)

STROLL = Stroll(players=2)
RG = gpicljax.make("MetaRG-v0", view="players")


def to_jaxmarl(*arguments):
    """Imported when it is used: that takes three seconds, in every process that collects."""
    return importlib.import_module("gpicljax.interop.jaxmarl").to_jaxmarl(*arguments)


@pytest.fixture(scope="module")
def stroll():
    return to_jaxmarl(STROLL)


@pytest.fixture(scope="module")
def rg():
    return to_jaxmarl(RG)


@pytest.fixture(scope="module")
def started(rg):
    """The first observations and state of a MetaRG episode."""
    return jax.jit(rg.reset)(jax.random.key(0))


@pytest.fixture
def baselines():
    """Another four seconds, for what uses it alone."""
    return importlib.import_module("jaxmarl.wrappers.baselines")


def play(env, key, num_steps):
    """Random actions in one scan, which raises if the state changes its type."""
    reset_key, key = jax.random.split(key)
    observation, state = env.reset(reset_key)

    def body(state, key):
        *action_keys, step_key = jax.random.split(key, 3)
        actions = {
            agent: env.action_space(agent).sample(k)
            for agent, k in zip(env.agents, action_keys, strict=True)
        }
        out = env.step(step_key, state, actions)
        return out[1], (state, actions, step_key, *out)

    return observation, jax.lax.scan(body, state, jax.random.split(key, num_steps))[1]


# The contract --------------------------------------------------------------------------------


def test_the_contract_on_two_player_metarg(rg, key):
    from jaxmarl.environments import MultiAgentEnv
    from jaxmarl.environments import spaces as jaxmarl_spaces

    assert isinstance(rg, MultiAgentEnv)
    assert (rg.agents, rg.num_agents, rg.name) == (["agent_0", "agent_1"], 2, "MetaRG")
    assert rg.agent_classes == {"agent": rg.agents}
    by_agent = dict.fromkeys(rg.agents)
    first, (_, _, _, observation, state, reward, done, info) = jax.eval_shape(
        jax.vmap(functools.partial(play, rg, num_steps=5)), jax.random.split(key, 3)
    )
    for agent in rg.agents:
        space = rg.observation_space(agent)
        assert isinstance(space, jaxmarl_spaces.Box)
        assert first[agent].shape == (3, *space.shape)
        assert observation[agent].shape == (3, 5, *space.shape)
        assert observation[agent].dtype == space.dtype
        # A decision (3) and three tokens of 7, in one integer.
        assert rg.action_space(agent).n == 3 * 7**3
        assert reward[agent].shape == done[agent].shape == (3, 5)
    assert set(first) == set(observation) == set(reward) == set(by_agent)
    assert set(done) == {*by_agent, "__all__"}
    # One entry per agent: the baselines reshape every one of them to all actors.
    assert {leaf.shape for leaf in info.values()} == {(3, 5, 2)}
    assert state.step.shape == (3, 5)


def test_a_step_is_a_step_of_layer_1_and_a_reset_is_a_new_task_and_episode(stroll, key):
    _, played = jax.jit(functools.partial(play, stroll, num_steps=25))(key)
    layer_1, start = jax.jit(STROLL.step), jax.jit(new_episode)
    ended = 0
    for t in range(25):
        before, actions, step_key, observations, after, rewards, dones, infos = at(played, t)
        step_key, reset_key = (jax.random.fold_in(step_key, i) for i in (0, 1))
        both = jnp.stack([actions["agent_0"], actions["agent_1"]])
        stepped = layer_1(step_key, before.state, both, before.task)
        done = stepped.terminated | stepped.truncated
        assert [rewards[a] for a in stroll.agents] == stepped.reward.tolist()
        assert all(flag == done for flag in dones.values())
        assert (infos["noise"] == stepped.info["noise"]).all()
        task, (native, state) = before.task, (stepped.observation, stepped.state)
        if done:
            ended += 1
            task, (native, state) = start(reset_key)
            assert after.task.name != before.task.name
        assert (after.step, after.done) == ((0, False) if done else (before.step + 1, False))
        assert_same((after.task, after.state), (task, state))
        one = spaces.Dict.of(place=spaces.Discrete(7), story=spaces.Box(-np.inf, np.inf, (3,)))
        for i, agent in enumerate(stroll.agents):
            assert_same(observations[agent], spaces.flatten(one, at(native, i)))
    assert ended > 3


def new_episode(key):
    task_key, state_key = jax.random.split(key)
    task = STROLL.sample_task(task_key, STROLL.default_params)
    return task, STROLL.reset(state_key, task)


def test_a_state_to_reset_to_can_be_given(stroll, key):
    _, start = stroll.reset(jax.random.key(1))
    _, state = stroll.reset(key)
    actions = dict.fromkeys(stroll.agents, jnp.ones((), jnp.int32))
    state = state.replace(task=state.task.replace(length=jnp.asarray(2)))
    observation, state, _, dones, _ = stroll.step(key, state, actions, start)
    assert not dones["__all__"]
    assert state.step == 1
    observation, state, _, dones, _ = stroll.step(key, state, actions, start)
    assert dones["__all__"]
    assert_same(state, start)
    assert_same(observation, stroll.get_obs(start))


def test_infos_within_infos_are_by_agent(key):
    env = to_jaxmarl(RecordEpisodeStatistics(STROLL))
    _, state = env.reset(key)
    infos = env.step(key, state, dict.fromkeys(env.agents, jnp.int32(1)))[-1]
    assert infos["episode"]["length"].tolist() == [1, 1]
    assert infos["episode"]["return"].tolist() == [1, 0]


def test_step_env_never_resets(stroll, key):
    _, state = stroll.reset(key)
    actions = dict.fromkeys(stroll.agents, jnp.ones((), jnp.int32))
    for _ in range(6):
        observation, state, _, dones, _ = stroll.step_env(key, state, actions)
    assert dones["__all__"]
    assert (state.step, state.state.steps) == (6, 6)
    assert observation["agent_0"].argmax() == 6


def test_batches_equal_single_instances(stroll, key):
    keys = jax.random.split(key, (2, 12))
    run = functools.partial(play, stroll, num_steps=8)
    nested, one = jax.jit(jax.vmap(jax.vmap(run)))(keys), jax.jit(run)
    assert nested[1][6]["__all__"].sum() > 20
    for i, j in (0, 0), (1, 11):
        assert_same(at(nested, i, j), one(keys[i, j]))


# MetaRG in homogeneous spaces ----------------------------------------------------------------


def test_the_flat_observation_holds_what_the_player_sees(rg, started):
    observation, state = started
    native = RG.observe(state.state, state.task)
    for i, agent in enumerate(rg.agents):
        parts = [
            native["stimulus"][i],
            np.eye(7)[native["message"][i]].ravel(),
            np.eye(2)[i],
            np.eye(3)[native["round"][i]],
            np.eye(2)[native["phase"][i]],
            np.eye(3)[native["previous_result"][i]],
            native["previous_reward"][i].reshape(1),
            native["action_mask"][i].ravel(),
        ]
        np.testing.assert_array_equal(observation[agent], np.concatenate(parts))
        assert rg.observation_space(agent).shape == observation[agent].shape


def test_one_integer_stands_for_a_decision_and_a_message(rg, started, key):
    _, state = started
    step = jax.jit(rg.step_env)
    # Decision 2 is no-operation; tokens 4, 0 and 6 are cut at the end of sentence, 4, 1, 6 are not.
    for tokens, sent in ((4, 0, 6), (4, 0, 0)), ((4, 1, 6), (4, 1, 6)):
        index = np.ravel_multi_index((2, *tokens), (3, 7, 7, 7))
        actions = {"agent_0": jnp.asarray([index]), "agent_1": jnp.asarray([2 * 343])}
        _, moved, *_ = step(key, state, actions)
        assert tuple(moved.state.channel[0].tolist()) == sent
    assert not moved.state.channel[1].any()


def test_available_actions_are_the_masks_of_all_choices_together(rg, started):
    _, state = started
    masks = jax.jit(rg.get_avail_actions)(state)
    native = RG.observe(state.state, state.task)["action_mask"]
    for i, agent in enumerate(rg.agents):
        assert masks[agent].shape == (3 * 7**3,)
        expected = np.ones((), bool)
        for choice, n in enumerate((3, 7, 7, 7)):
            expected = np.multiply.outer(expected, np.asarray(native[i, choice, :n]))
        np.testing.assert_array_equal(masks[agent], expected.ravel())
    # In the first round the speaker says anything and decides nothing; the listener waits.
    assert [int(masks[agent].sum()) for agent in rg.agents] == [343, 1]


def test_every_action_is_available_where_the_game_has_no_masks(stroll, key):
    _, state = stroll.reset(key)
    assert {agent: m.tolist() for agent, m in stroll.get_avail_actions(state).items()} == {
        agent: [True] * 3 for agent in stroll.agents
    }


# JaxMARL's own wrappers ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrapper", "factor"),
    [("LogWrapper", 1), ("MPELogWrapper", 2), ("SMAXLogWrapper", 1)],
)
def test_log_wrappers_count_what_happened(stroll, baselines, wrapper, factor, key):
    env = getattr(baselines, wrapper)(stroll)
    keys = jax.random.split(key, 2)
    _, (*_, rewards, dones, infos) = jax.jit(jax.vmap(functools.partial(play, env, num_steps=20)))(
        keys
    )
    rewards = np.stack([rewards[agent] for agent in env.agents], axis=-1)
    for i in range(2):
        start = 0
        for end in np.flatnonzero(dones["__all__"][i]):
            total = factor * rewards[i, start : end + 1].sum(0)
            np.testing.assert_array_equal(infos["returned_episode_returns"][i, end], total)
            assert (infos["returned_episode_lengths"][i, end] == end + 1 - start).all()
            start = end + 1
        assert start > 0


@pytest.mark.parametrize("wrapper", ["LogWrapper", "MPELogWrapper", "SMAXLogWrapper"])
def test_log_wrappers_go_around_two_player_metarg(rg, baselines, wrapper, key):
    run = jax.vmap(functools.partial(play, getattr(baselines, wrapper)(rg), num_steps=4))
    *_, infos = jax.eval_shape(run, jax.random.split(key, 3))[1]
    assert {leaf.shape for leaf in infos.values()} == {(3, 4, 2)}


@pytest.mark.slow
def test_rollout_manager_of_the_q_learning_baselines(stroll, rg, baselines, key):
    manager = baselines.CTRolloutManager(stroll, batch_size=3)
    observations, state = manager.batch_reset(key)
    actions = {agent: manager.batch_sample(key, agent) for agent in manager.agents}
    observations, state, rewards, _, _ = manager.batch_step(key, state, actions)
    np.testing.assert_array_equal(observations["agent_1"][:, -2:], np.eye(2)[[1] * 3])
    np.testing.assert_array_equal(rewards["__all__"], actions["agent_0"] + actions["agent_1"] - 1)

    manager = baselines.CTRolloutManager(rg, batch_size=3)
    observations, state = jax.eval_shape(manager.batch_reset, key)
    size = rg.observation_space("agent_0").shape[0]
    assert manager.max_action_space == 3 * 7**3
    assert observations["agent_0"].shape == (3, size + 2)
    assert observations["__all__"].shape == (3, 2 * size)
    actions = {agent: manager.batch_sample(key, agent) for agent in manager.agents}
    out = jax.eval_shape(manager.batch_step, key, state, actions)
    assert out[2]["__all__"].shape == (3,)
    assert manager.get_valid_actions(state)["agent_0"].shape == (3, 3 * 7**3)


@pytest.mark.slow
def test_the_batching_of_the_ippo_baselines(stroll, baselines, key):
    """All agents of all environments as one batch of actors, and their actions back again."""
    env = baselines.LogWrapper(stroll)
    num_envs, num_actors = 5, 10

    def as_actors(by_agent):
        stacked = jnp.stack([by_agent[agent] for agent in env.agents])
        return stacked.reshape((num_actors, -1))

    def by_agent(actors):
        per_agent = actors.reshape((env.num_agents, num_envs, -1))
        return {agent: per_agent[i] for i, agent in enumerate(env.agents)}

    def step(carry, key):
        observations, state = carry
        action_key, step_key = jax.random.split(key)
        inputs = as_actors(observations)
        actions = jax.random.randint(action_key, (num_actors,), 0, 3)
        sent = by_agent(actions)
        assert sent["agent_0"].shape == (num_envs, 1)
        keys = jax.random.split(step_key, num_envs)
        observations, state, rewards, dones, infos = jax.vmap(env.step)(keys, state, sent)
        infos = jax.tree.map(lambda x: x.reshape(num_actors), infos)
        kept = (inputs, actions, as_actors(rewards)[:, 0], as_actors(dones)[:, 0], infos)
        return (observations, state), kept

    start = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    _, (inputs, actions, rewards, dones, infos) = jax.jit(
        lambda carry: jax.lax.scan(step, carry, jax.random.split(key, 12))
    )(start)
    assert inputs.shape == (12, num_actors, *env.observation_space("agent_0").shape)
    # Each actor is paid for its own action, the second agent of each game one less.
    np.testing.assert_array_equal(rewards, actions - np.repeat([0, 1], num_envs))
    assert dones.any()
    assert infos["returned_episode"].sum() == dones.sum()


# Value semantics and errors ------------------------------------------------------------------


def test_adapters_are_values(rg):
    twin = to_jaxmarl(gpicljax.make("MetaRG-v0", view="players"))
    assert rg == twin
    assert hash(rg) == hash(twin)
    for clone in copy.deepcopy(rg), pickle.loads(pickle.dumps(rg)):
        assert clone == rg
        assert hash(clone) == hash(rg)
        assert clone.agents == rg.agents
    assert rg != to_jaxmarl(RG, RG.make_params(min_values=3, max_values=3))


def test_params_describe_the_tasks(key):
    env = to_jaxmarl(STROLL, STROLL.make_params(longest=2))
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(key, 9))
    assert (state.task.length == 2).all()


def test_bad_input_is_refused(monkeypatch):
    with pytest.raises(
        ValueError, match="num_agents: got None; accepted: several agents; to_gymnax"
    ):
        to_jaxmarl(gpicljax.make("FrozenLake-v1"))
    with pytest.raises(ValueError, match="min_values, max_values: got"):
        to_jaxmarl(RG, RG.default_params.replace(min_values=9))
    uneven = spaces.MultiDiscrete((2, 3))
    monkeypatch.setattr(Stroll, "action_space", lambda self, task=None: uneven)
    with pytest.raises(TypeError, match="what gives each of 2 agents the same"):
        to_jaxmarl(STROLL)
    moves = spaces.Box(-1.0, 1.0, (2, 4))
    monkeypatch.setattr(Stroll, "action_space", lambda self, task=None: moves)
    with pytest.raises(TypeError, match="accepted: Discrete, MultiDiscrete"):
        to_jaxmarl(STROLL)
    many = spaces.repeat(spaces.MultiDiscrete((100,) * 9), 2)
    monkeypatch.setattr(Stroll, "action_space", lambda self, task=None: many)
    with pytest.raises(ValueError, match="do not fit into an int32"):
        to_jaxmarl(STROLL)
