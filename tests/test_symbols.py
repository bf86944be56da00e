"""Trials as streams of symbols: written and read again without loss, and what agents make of it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.agents.acting import random_agent
from gpicljax.envs.frozen_lake import FrozenLake
from gpicljax.rollout import rollout, start_rollout
from gpicljax.symbols import (
    ACTION,
    END,
    OBSERVATION,
    REWARD,
    SYMBOLS,
    TRIAL,
    VALUES,
    Entry,
    SymbolCode,
    code_of,
    levels,
    nearest_level,
    read_stream,
    write_stream,
)
from gpicljax.wrappers import Trial

ENVIRONMENTS = {
    "lakes": lambda: gpicljax.make("FrozenLake-v1", size=4),
    "lakes in trials": lambda: Trial(gpicljax.make("FrozenLake-v1", size=4), actions=40),
    "dark rooms": lambda: Trial(gpicljax.make("DarkRoom-v0"), actions=40),
    "keys to doors": lambda: gpicljax.make("KeyToDoor-v0"),
    "bandits": lambda: Trial(gpicljax.make("BanditTenArmedRandomFixed-v0"), actions=40),
    "byte streams": lambda: gpicljax.make("ByteStream-v0", families=("mapping",)),
}


def play(env, steps=60, batch=2):
    """A random agent's steps in trials after each other, and their streams."""
    # A trial of exactly so many actions is one episode.
    episodes = 1 if isinstance(env, Trial) else 2
    vec, agent = gpicljax.VectorEnv(env, batch, episodes_per_trial=episodes), random_agent(env)

    @jax.jit
    def trials(key):
        start = start_rollout(key, vec, agent)
        keep = lambda record: (record.timestep, record.action)  # noqa: E731
        _, (timesteps, actions) = rollout(vec, agent, (), start, steps, keep)
        return timesteps, actions, write_stream(env.symbols(), actions, timesteps, 12 * steps)

    return jax.device_get(trials(jax.random.key(0)))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_nothing_is_lost(name):
    env = ENVIRONMENTS[name]()
    timesteps, actions, stream = play(env)
    code, in_trials = env.symbols(), isinstance(env, Trial)
    for i in range(2):
        symbols = stream.symbols[: stream.is_written[:, i].sum(), i]
        steps = read_stream(code, symbols, jax.tree.map(lambda x: x[0, 0], timesteps.observation))
        assert len(steps) == len(timesteps.reward)
        for t, step in enumerate(steps):
            start = timesteps.episode_start[t, i] or timesteps.trial_start[t, i]
            assert (step.start == "trial") == timesteps.trial_start[t, i]
            assert bool(step.start) == start
            if not start:
                assert step.action == actions[t - 1, i]
                assert step.reward == timesteps.reward[t, i]
            seen = jax.tree.map(lambda x, t=t, i=i: x[t, i], timesteps.observation)
            if not in_trials:
                assert step.observation == (seen,)
            elif code.observation:
                ended = seen["terminated"] or seen["truncated"]
                told = (seen["reached"], END) if ended else ()
                assert step.observation == (*told, seen["now"])


def test_a_stream_reads_as_the_module_says():
    _, actions, stream = play(ENVIRONMENTS["lakes"](), steps=3, batch=1)
    left, right = actions[:2, 0]
    first = stream.symbols[:9, 0].tolist()
    assert first[:2] == [TRIAL, 0]
    assert first[2:5] == [ACTION, left, OBSERVATION]
    assert first[6:9] == [ACTION, right, OBSERVATION]
    assert stream.starts[:, 0].tolist() == [True] + [False] * 35
    assert stream.is_action[:9, 0].tolist() == [False] * 3 + [True] + [False] * 3 + [True, False]
    assert stream.symbols.max() < SYMBOLS


def test_every_code_writes_its_environment():
    codes = 0
    for env_id in gpicljax.registered():
        env = gpicljax.make(env_id)
        if env.has_symbols:
            codes += 1
            assert code_of(env).rewards == env.symbols().rewards
            written = jax.eval_shape(lambda env=env: play_shapes(env))
            assert written.symbols.shape == (40, 2)
    assert codes >= 12
    assert not Trial(gpicljax.make("Acrobot-v1"), actions=3).has_symbols


def play_shapes(env):
    """The stream of two time steps of a batch of two, to be evaluated for its shapes alone."""
    vec = gpicljax.VectorEnv(env, 2)
    _, timestep = vec.init(jax.random.key(0))
    steps = jax.tree.map(lambda x: jnp.stack([x, x]), timestep)
    return write_stream(env.symbols(), jnp.zeros((2, 2), jnp.int32), steps, 40)


def test_silence_and_nothing_are_not_written():
    env = ENVIRONMENTS["byte streams"]()
    timesteps, actions, stream = play(env, steps=8, batch=1)
    replies = (actions[:-1, 0] != ord(" ")).sum()
    paid = (timesteps.reward[1:, 0] != 0).sum()
    assert (stream.symbols[stream.is_written] == ACTION).sum() == replies
    assert (stream.symbols[stream.is_written] == REWARD).sum() == paid


@dataclasses.dataclass(frozen=True)
class HalfHiddenLake(FrozenLake):
    """A lake of which only the lower half is shown."""

    def symbols(self):
        cell = Entry(is_shown=lambda cell: cell >= 8)
        return dataclasses.replace(super().symbols(), observation=(cell,))


@pytest.mark.parametrize(
    ("reached", "now", "terminated", "shown"),
    [(9, 3, True, [1, 1, 0]), (3, 9, True, [0, 1, 1]), (9, 9, False, [0, 0, 1])],
)
def test_trials_hide_what_their_environment_hides(reached, now, terminated, shown):
    observation = {"reached": reached, "now": now, "terminated": terminated, "truncated": False}
    entries = Trial(HalfHiddenLake(size=4), actions=9).symbols().observation
    assert [int(entry.is_shown(observation)) for entry in entries] == shown


def test_numbers_are_written_as_the_nearest_level():
    steps = levels(-1.0, 1.0, 5)
    numbers = jnp.array([-9.0, -0.76, -0.74, 0.0, 0.3, 2.0])
    assert nearest_level(numbers, steps).tolist() == [0, 0, 1, 2, 3, 4]


def test_labels_stand_where_actions_do():
    env = ENVIRONMENTS["lakes"]()
    timesteps, actions, _ = play(env, steps=6, batch=1)
    stream = write_stream(env.symbols(), actions, timesteps, 30, labels=(actions + 1) % 4)
    label, symbols = np.asarray(stream.label), np.asarray(stream.symbols)
    is_action = np.asarray(stream.is_action)
    np.testing.assert_array_equal(label[is_action], (symbols[is_action] + 1) % 4)
    np.testing.assert_array_equal(label[~is_action], symbols[~is_action])


def test_what_cannot_be_read_is_refused():
    code = SymbolCode((0.0, 1.0))
    cell = jnp.zeros((), jnp.int32)
    with pytest.raises(ValueError, match="a stream that starts a trial"):
        read_stream(code, [0, ACTION, 1], cell)
    with pytest.raises(ValueError, match="whole steps"):
        read_stream(code, [TRIAL, 3, ACTION], cell)
    for symbols in ([TRIAL, ACTION], [TRIAL, -1], [TRIAL, 3, ACTION, REWARD]):
        with pytest.raises(ValueError, match="values, from 0 to 255"):
            read_stream(code, symbols, cell)
    with_end = SymbolCode((0.0, 1.0), (Entry(), Entry(marker=END, is_shown=lambda _: True)))
    with pytest.raises(ValueError, match="values, from 0 to 255"):
        read_stream(with_end, [TRIAL, 3, END, ACTION, END, OBSERVATION, 3, END], cell)
    with pytest.raises(ValueError, match="level"):
        read_stream(code, [TRIAL, 3, ACTION, 1, REWARD, 7, OBSERVATION, 2], cell)
    hidden = SymbolCode((0.0,), (Entry(is_shown=lambda observation: observation > 0),))
    with pytest.raises(ValueError, match="without a marker"):
        read_stream(hidden, [TRIAL, 3], cell)
    with pytest.raises(ValueError, match="up to 256"):
        SymbolCode(tuple(range(VALUES + 1)))
    with pytest.raises(ValueError, match="nothing: got 0.0; accepted: one of the rewards"):
        SymbolCode((-1.0, 1.0))
    with pytest.raises(NotImplementedError, match="symbols"):
        code_of(gpicljax.make("MountainCar-v0"))
    with pytest.raises(ValueError, match="values below 256"):
        code_of(gpicljax.make("DarkRoom-v0", size=17))
    with pytest.raises(ValueError, match="n up to 256"):
        code_of(gpicljax.make("MetaRG-v0", actions="reference"))
