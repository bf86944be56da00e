"""The batch, shown on an environment small enough to be followed by hand."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.environment import Environment, Transition
from gpicljax.task_set import TaskSet


@struct.dataclass
class Params:
    shortest: jax.Array
    longest: jax.Array


@struct.dataclass
class Task:
    name: jax.Array
    length: jax.Array


@struct.dataclass
class State:
    script: jax.Array
    noise: jax.Array
    steps: jax.Array
    key: jax.Array  # a typed key, which a state may hold


def random_numbers(key, shape=()):
    return (jax.random.bits(key, shape) // 4).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Corridor(Environment[Params, Task, State]):
    """Walk `length` steps; odd lengths end in termination, even ones in truncation.

    Everything random is shown: the task's name, the episode's script, each step's noise.
    """

    @property
    def default_params(self):
        return Params(jnp.asarray(2, jnp.int32), jnp.asarray(6, jnp.int32))

    def validate(self, params):
        if params.shortest > params.longest:
            raise ValueError("shortest exceeds longest")

    def sample_task(self, key, params):
        name, length = random_numbers(key, (2,))
        span = params.longest + 1 - params.shortest
        return Task(name, params.shortest + length % span)

    def initial(self, key, task):
        zero = jnp.zeros((), jnp.int32)
        return State(random_numbers(key), zero, zero, key)

    def transition(self, key, state, action, task):
        noise = random_numbers(key)
        steps = state.steps + 1
        over, odd = steps >= task.length, task.length % 2 == 1
        state = state.replace(noise=noise, steps=steps, key=jax.random.fold_in(state.key, 0))
        reward = (1 + action).astype(jnp.result_type(float))
        return Transition(state, reward, over & odd, over & ~odd, {"noise": noise})

    def observe(self, state, task):
        return {
            "name": task.name,
            "length": task.length,
            "script": state.script,
            "steps": state.steps,
            "noise": state.noise,
        }

    def action_space(self, task=None):
        return spaces.Discrete(3)


ENV = Corridor()
KINDS = {
    "fresh": {"resets": "fresh"},
    "bank": {"resets": "bank", "bank_size": 16},
    "synchronous": {"resets": "synchronous", "steps_per_trial": 9},
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def batch(num_envs=4, **arguments):
    return gpicljax.VectorEnv(ENV, num_envs, **{"resets": "fresh", **arguments})


class Programs:
    """A batch's functions, compiled once for all tests that use the same arguments."""

    def __init__(self, **arguments):
        self.vec = batch(**arguments)
        fast = functools.partial(jax.jit)
        self.init, self.step = fast(self.vec.init), fast(self.vec.step)
        self.renew = fast(self.vec.renew)


@functools.cache
def _cached_programs(arguments):
    return Programs(**dict(arguments))


def programs_of(num_envs=4, **arguments):
    return _cached_programs(tuple(sorted({"num_envs": num_envs, **arguments}.items())))


def plain(tree):
    def leaf(x):
        typed = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(x) if typed else x)

    return jax.tree.map(leaf, tree)


def run(programs, key, length, action=1):
    """The first time step and `length` more, stacked, and the last state."""
    vstate, timestep = programs.init(key)
    actions = jnp.full((programs.vec.num_envs,), action, jnp.int32)
    steps = [timestep]
    for _ in range(length):
        vstate, timestep = programs.step(vstate, actions)
        steps.append(timestep)
    return plain(vstate), jax.tree.map(lambda *x: np.stack(x), *map(plain, steps))


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, plain(a), plain(b))


# Next-step resets -------------------------------------------------------------------------------


@pytest.mark.parametrize("episodes", daily([3], [1, 3]))
def test_next_step_reset(kind, episodes, key):
    wide = kind | {"bank_size": 2**16} if kind["resets"] == "bank" else kind  # no start twice
    _, t = run(programs_of(episodes_per_trial=episodes, **wide), key, 40)
    last = t.terminated | t.truncated
    synchronous = kind["resets"] == "synchronous"
    assert t.episode_start[0].all()
    assert t.trial_start[0].all()
    # An episode starts exactly one step after another ended.
    np.testing.assert_array_equal(t.episode_start[1:], last[:-1])
    observation = t.observation
    # Its first observation belongs to a new state; the reward is 0, and the action counts not.
    first = t.episode_start
    assert (observation["steps"][first] == 0).all()
    assert (t.reward[first] == 0).all()
    assert (t.info["noise"][first] == 0).all()
    cut = np.zeros_like(last)
    cut[9] = synchronous  # where the trial's last step cuts every episode off, even new ones
    assert not (last & first & ~cut).any()
    # Elsewhere time goes on, and the terminal observation is the one of the full length.
    assert (t.reward[~first] == 2).all()
    on = ~first[1:]
    assert (observation["steps"][1:][on] == observation["steps"][:-1][on] + 1).all()
    assert (observation["script"][1:][on] == observation["script"][:-1][on]).all()
    assert (observation["script"][1:][~on] != observation["script"][:-1][~on]).all()
    natural_ends = last.copy()
    if synchronous:
        assert last[9].all()
        natural_ends[9] = False
    assert (observation["steps"][natural_ends] == observation["length"][natural_ends]).all()
    odd = observation["length"] % 2 == 1
    assert (t.terminated[natural_ends] == odd[natural_ends]).all()
    assert (t.truncated[natural_ends] == ~odd[natural_ends]).all()


def test_the_action_after_the_end_is_ignored(key):
    programs = programs_of()
    step = programs.step
    vstate, timestep = programs.init(key)
    met = False
    for _ in range(8):
        action = jnp.zeros(4, jnp.int32)
        at_the_end = timestep.last
        result = step(vstate, action)
        changed_result = step(vstate, jnp.where(at_the_end, 2, action))
        assert_same(result, changed_result)
        met |= bool(at_the_end.any())
        vstate, timestep = result
    assert met


# Trials -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fresh", "bank"])
def test_a_trial_keeps_its_task_for_its_episodes(kind, key):
    episodes = 3
    programs = programs_of(episodes_per_trial=episodes, **{**KINDS[kind], "bank_size": 2**16})
    _, t = run(programs, key, 60)
    names = t.observation["name"]
    for i in range(programs.vec.num_envs):
        starts = np.flatnonzero(t.episode_start[:, i])
        trials = np.flatnonzero(t.trial_start[:, i])
        np.testing.assert_array_equal(trials, starts[::episodes])
        for begin, end in zip(trials, [*trials[1:], None], strict=True):
            assert len(set(names[begin:end, i])) == 1
        assert len(set(names[trials, i])) == len(trials)


def test_synchronous_trials_end_together_and_renew_starts_the_next(key):
    programs = programs_of(**KINDS["synchronous"])
    vstate, timestep = programs.init(key)
    names = []
    for _ in range(4):
        assert timestep.trial_start.all()
        assert timestep.episode_start.all()
        assert (timestep.observation["steps"] == 0).all()
        assert not timestep.last.any()
        name = timestep.observation["name"]
        for _ in range(9):
            vstate, timestep = programs.step(vstate, jnp.zeros(4, jnp.int32))
            assert not timestep.trial_start.any()
            assert (timestep.observation["name"] == name).all()
        assert timestep.last.all()
        names += name.tolist()
        vstate, timestep = programs.renew(vstate, timestep)
    assert len(set(names)) == 16


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0, 0.0])
def test_renew_replaces_exactly_the_share_oldest_first(share, key):
    programs = programs_of(resets="bank", bank_size=16)
    vstate, timestep = programs.init(key)
    renew = jax.jit(batch(resets="bank", bank_size=16, renew_share=share).renew)
    count = round(16 * share)
    for i in range(3):
        before = np.asarray(vstate.bank[0].name)
        following, same = renew(vstate, timestep)
        changed = np.flatnonzero(np.asarray(following.bank[0].name) != before)
        expected = np.sort((i * count + np.arange(count)) % 16)
        np.testing.assert_array_equal(changed, expected)
        assert_same(same, timestep)
        assert_same(
            following.replace(bank=None, cursor=None), vstate.replace(bank=None, cursor=None)
        )
        vstate, timestep = programs.step(following, jnp.zeros(4, jnp.int32))


def test_renew_repeats_no_task(key):
    programs = programs_of(resets="bank", bank_size=16)
    renew = jax.jit(batch(resets="bank", bank_size=16, renew_share=1.0).renew)
    vstate, timestep = programs.init(key)
    names = list(vstate.bank[0].name)
    for _ in range(3):
        vstate, timestep = renew(vstate, timestep)
        names += list(vstate.bank[0].name)
        vstate, timestep = programs.step(vstate, jnp.zeros(4, jnp.int32))
    assert len({int(name) for name in names}) == 64


def test_fresh_needs_no_renewal(key):
    programs = programs_of()
    vstate, timestep = programs.init(key)
    assert programs.vec.renew(vstate, timestep) == (vstate, timestep)


def test_a_bank_hands_out_only_what_it_holds(key):
    vstate, t = run(programs_of(resets="bank", bank_size=5), key, 40)
    assert set(t.observation["name"].ravel()) <= set(vstate.bank[0].name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_set_is_all_that_is_drawn_from(kind, key):
    tasks = TaskSet.create(jax.random.key(7), 3)
    sample = jax.vmap(ENV.sample_task, (0, None))
    names = set(sample(tasks.keys, ENV.default_params).name.tolist())
    _, t = run(Programs(num_envs=8, tasks=tasks, **KINDS[kind]), key, 40)
    assert set(t.observation["name"].ravel().tolist()) == names


# Streams ----------------------------------------------------------------------------------------


def test_an_instances_stream_does_not_depend_on_the_batch_size(kind, key):
    single, eight = (run(programs_of(n, episodes_per_trial=2, **kind), key, 30)[1] for n in (1, 8))
    assert_same(jax.tree.map(lambda x: x[:, :1], eight), single)


@functools.cache
def plain_functions(resets):
    """Functions of one instance at time t, each compiled and of its own key."""
    vec = batch(3, **KINDS[resets])

    @jax.jit
    def move(key, t, state, task):
        return ENV.transition(jax.random.fold_in(key, 2 * t), state, jnp.int32(1), task)

    @jax.jit
    def next_episode(key, t, task):
        return ENV.initial(jax.random.fold_in(key, 2 * t + 1), task)

    @jax.jit
    def next_trial(key, t, bank):
        keys = jax.random.fold_in(key, 2 * t + 1)[None]
        index = None if bank is None else vec._draw_entries(keys)
        begun = vec._begin(keys, index, bank, vec.params)
        return jax.tree.map(lambda x: x[0], begun)

    return move, next_episode, next_trial


def plain_loop(resets, episodes, init_state, i, length):
    """Instance i by itself, with Python's `if` for every reset."""
    move, next_episode, next_trial = plain_functions(resets)
    key, task, state = jax.tree.map(
        lambda x: x[i], (init_state.keys, init_state.task, init_state.state)
    )
    ended, episode, rows = False, 0, []
    for t in range(length):
        reward, trial_start, terminated, truncated = 0.0, False, False, False
        if not ended:
            state, reward, terminated, truncated, _ = move(key, t, state, task)
        else:
            episode += 1
            trial_start = resets != "synchronous" and episode == episodes
            if trial_start:
                task, state = next_trial(key, t, init_state.bank)
                episode = 0
            else:
                state = next_episode(key, t, task)
        if resets == "synchronous" and t + 1 == KINDS[resets]["steps_per_trial"]:
            truncated = not terminated
        ended = bool(terminated) or bool(truncated)
        observation = ENV.observe(state, task)
        values = [observation[name].item() for name in sorted(observation)]
        rows.append([*values, float(reward), ended, trial_start])
    return rows


@pytest.mark.parametrize("episodes", daily([2], [1, 2]))
@pytest.mark.parametrize("resets", KINDS)
def test_compaction_equals_a_plain_loop(resets, episodes, key):
    length = 20
    for group in (1, 2):
        programs = programs_of(3, group=group, episodes_per_trial=episodes, **KINDS[resets])
        _, t = run(programs, key, length)
        observations = [t.observation[name] for name in sorted(t.observation)]
        parts = [*observations, t.reward, t.terminated | t.truncated, t.trial_start]
        rows = np.stack(parts, -1)[1:].transpose(1, 0, 2)
        if group == 1:
            init_state, _ = programs.init(key)
            expected = [plain_loop(resets, episodes, init_state, i, length) for i in range(3)]
        np.testing.assert_array_equal(rows, np.array(expected))


def test_a_grid_of_params_in_one_program(key):
    vec = batch()
    lengths = jnp.array([1, 3, 8], jnp.int32)
    grid = Params(lengths, lengths)
    traces = []

    def go(params):
        traces.append(1)
        vstate, _ = vec.init(key, params)
        step = vec.step
        _, t = jax.lax.scan(lambda v, _: step(v, jnp.zeros(4, jnp.int32)), vstate, length=20)
        return t.observation["length"], t.last.sum(0)

    episode_lengths, ends = jax.jit(jax.vmap(go))(grid)
    assert (episode_lengths == lengths[:, None, None]).all()
    # An episode of n steps takes n + 1 with its reset.
    np.testing.assert_array_equal(ends, np.tile([[10], [5], [2]], (1, 4)))
    assert len(traces) == 1


def test_vmapped_over_seeds_equals_one_by_one(kind):
    programs = programs_of(episodes_per_trial=2, **kind)
    vec, actions = programs.vec, jnp.zeros(4, jnp.int32)

    def go(key):
        vstate, timestep = vec.init(key)
        vstate, t = jax.lax.scan(lambda v, _: vec.step(v, actions), vstate, length=9)
        return vec.renew(vstate, jax.tree.map(lambda x: x[-1], t))

    keys = jax.random.split(jax.random.key(3), 2)
    together = plain(jax.jit(jax.vmap(go))(keys))
    for i, key in enumerate(keys):
        vstate, timestep = programs.init(key)
        for _ in range(9):
            vstate, timestep = programs.step(vstate, actions)
        assert_same(jax.tree.map(lambda x, i=i: x[i], together), programs.renew(vstate, timestep))


def test_carry_is_strong_and_stable(kind, key):
    """Python numbers among the params included."""
    vec = batch(params=Params(2, 6), **kind)
    actions = jnp.zeros(4, jnp.int32)
    vstate, timestep = jax.eval_shape(vec.init, key)
    types = functools.partial(jax.tree.map, lambda x: (x.shape, x.dtype, x.weak_type))
    assert not any(x.weak_type for x in jax.tree.leaves((vstate, timestep)))
    stepped = jax.eval_shape(vec.step, vstate, actions)
    renewed = jax.eval_shape(vec.renew, *stepped)
    assert types((vstate, timestep)) == types(stepped) == types(renewed)
    chex.assert_tree_shape_prefix(timestep, (4,))
    for flag in ("terminated", "truncated", "episode_start", "trial_start"):
        assert getattr(timestep, flag).dtype == bool


def test_the_step_contains_no_generation_when_synchronous(key):
    vec = batch(resets="synchronous", steps_per_trial=9)
    calls = []
    env = dataclasses.replace(ENV)
    object.__setattr__(env, "sample_task", lambda *_: calls.append(1))
    vstate, _ = jax.eval_shape(vec.init, key)
    stub_vec = dataclasses.replace(vec, env=env)
    jax.eval_shape(stub_vec.step, vstate, jnp.zeros(4, jnp.int32))
    assert not calls


# Bad arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs: got 0"),
        ({"episodes_per_trial": 0}, "episodes_per_trial: got 0"),
        ({"group": 0}, "group: got 0"),
        ({"resets": "sometimes"}, "resets: got 'sometimes'"),
        ({"renew_share": 1.5}, "renew_share: got 1.5"),
        ({"renew_share": -0.5}, "renew_share: got -0.5"),
        ({"resets": "synchronous"}, "steps_per_trial"),
        ({"steps_per_trial": 5}, "steps_per_trial"),
        ({"resets": "synchronous", "steps_per_trial": 0}, "steps_per_trial: got 0"),
        ({"params": Params(3, 2)}, "shortest exceeds longest"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        batch(**arguments)


def test_batches_are_compared_by_value(key):
    def batch(**options):
        return gpicljax.VectorEnv("BernoulliBandit-v0", 4, **options)

    env, other_key = gpicljax.make("BernoulliBandit-v0"), jax.random.key(1)
    same = [{}, {"params": env.make_params(horizon=3)}, {"tasks": TaskSet.create(key, 3)}]
    for options in same:
        assert batch(**options) == batch(**options)
        assert hash(batch(**options)) == hash(batch(**options))
    different = [
        *same,
        {"resets": "bank"},
        {"params": env.make_params(horizon=4)},
        {"tasks": TaskSet.create(other_key, 3)},
        {"tasks": TaskSet.create(key, 4)},
    ]
    assert len({batch(**options) for options in different}) == len(different)
    # Where the default params are traced nothing is known of them.
    jax.jit(lambda: differ(batch(), batch()))()


def differ(first, second):
    assert first == first and first != second and hash(first) != hash(second)


def test_a_loop_that_never_renews_meets_a_new_task_in_every_trial(key):
    """The loop is one of a user who says nothing of resets."""
    env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
    vec = gpicljax.VectorEnv(env, 64, params=env.make_params(horizon=2))

    def step(vstate, _):
        vstate, timestep = vec.step(vstate, jnp.zeros(64, jnp.int32))
        return vstate, (vstate.task.probabilities[:, 0], timestep.trial_start)

    tasks, begun = jax.jit(lambda key: jax.lax.scan(step, vec.init(key)[0], None, 120)[1])(key)
    assert len(np.unique(tasks[begun])) == begun.sum() == 64 * 40
    kinds = [gpicljax.VectorEnv(env, 4, bank_size=size).resets for size in (None, 8)]
    assert kinds == ["fresh", "bank"]


def test_a_batch_is_shown_in_one_line():
    vec = gpicljax.VectorEnv("BernoulliBandit-v0", 8)
    assert repr(vec) == "VectorEnv(BernoulliBandit(num_arms=10), num_envs=8, resets='fresh')"
    full_vec = dataclasses.replace(vec, params=vec.env.make_params(horizon=5), privileged=True)
    assert repr(full_vec).endswith("resets='fresh', params=..., privileged=True)")
