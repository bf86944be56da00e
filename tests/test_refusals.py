"""Refusals before anything is compiled, and their words: one table for the Python layer.

Flags have theirs in `tests/experiments`, what is refused of each environment's params alone and by
each adapter is in their own tests.
"""

import dataclasses
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax import checks, registration, spaces
from gpicljax.runs import load_agent

PENDULUM, BANDIT = gpicljax.make("Pendulum-v1"), gpicljax.make("BernoulliBandit-v0")
CAR, LANDER = gpicljax.make("MountainCar-v0"), gpicljax.make("LunarLander-v3", continuous=True)
PLAYERS = gpicljax.make("MetaRG-v0", view="players", max_values=3)
KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
INT, FLOAT = jnp.int32, jnp.float32


def make(env_id, **options):
    return lambda: gpicljax.make(env_id, **options)


def params(env, **overrides):
    return lambda: env.make_params(**overrides)


def vec(env=BANDIT, **options):
    return lambda: gpicljax.VectorEnv(env, **{"num_envs": 4} | options)


def life(env):
    """Task and state of an environment, traced."""
    task = env.sample_task(KEY, env.default_params)
    return task, env.initial(KEY, task)


def step(env, action, key=KEY, state=None, task=None):
    """A step that is traced only."""

    def trace():
        own_task, own_state = life(env)
        start = own_state if state is None else state
        return env.step(key, start, action, own_task if task is None else task)

    return lambda: jax.eval_shape(trace)


def batch_step(actions, env=BANDIT, vstate=None):
    def trace():
        batch = gpicljax.VectorEnv(env, 4, resets="fresh")
        return batch.step(batch.init(KEY)[0] if vstate is None else vstate, actions)

    return lambda: jax.eval_shape(trace)


def interop(name, *args, **options):
    def call():
        pytest.importorskip("gymnasium")
        from gpicljax import interop

        return getattr(interop, name)(*args, **options)

    return call


def register(env_id, factory):
    return lambda: gpicljax.register(env_id, factory)


WORDS = {
    # Ids and static options: kind, range, cap.
    "env_id: got None; accepted: an id": make(None),
    "env_id: got 3; accepted: an id": make(3),
    "env_id: got ['Pendulum-v1']; accepted: an id": make(["Pendulum-v1"]),
    "env_id: got 'mazeworld' (did you mean 'MazeWorld-v0'?)": make("mazeworld"),
    "got 'slippery' (did you mean 'is_slippery'?)": make("FrozenLake-v1", slippery=True),
    "got 'colour'; accepted: none": make("MountainCar-v0", colour=1),
    "size: got '4'; accepted: an integer from 2 to 512 or None": make("FrozenLake-v1", size="4"),
    "size: got 4.5; accepted: an integer": make("FrozenLake-v1", size=4.5),
    "size: got -1; accepted: an integer": make("FrozenLake-v1", size=-1),
    "size: got 100000; accepted: an integer": make("FrozenLake-v1", size=100_000),
    "is_slippery: got 'no'; accepted: True or False": make("FrozenLake-v1", is_slippery="no"),
    "is_slippery: got 1; accepted: True or False": make("FrozenLake-v1", is_slippery=1),
    "description: got 'SG'; accepted: a tuple": make("FrozenLake-v1", description="SG"),
    "map_name: got 44; accepted: text": make("FrozenLake-v1", map_name=44),
    "max_rows: got 1; accepted: an integer from 2": make("CliffWalking-v1", max_rows=1),
    "max_rows: got nan; accepted: an integer": make("CliffWalking-v1", max_rows=NAN),
    "num_arms: got 2.5; accepted: an integer": make("BernoulliBandit-v0", num_arms=2.5),
    "num_arms: got True; accepted: an integer": make("BernoulliBandit-v0", num_arms=True),
    "num_arms: got '10'; accepted: an integer": make("GaussianBandit-v0", num_arms="10"),
    "max_torque: got inf; accepted: a finite number": make("Pendulum-v1", max_torque=INF),
    "max_torque: got 'much'; accepted: a finite number": make("Pendulum-v1", max_torque="much"),
    "equations: got 'new'; accepted: book, nips": make("Acrobot-v1", equations="new"),
    "continuous: got 'yes'; accepted: True or False": make("LunarLander-v3", continuous="yes"),
    "size: got 14; accepted: an odd number": make("MazeWorld-v0", size=14),
    "size: got 100001; accepted: an integer from 7 to 511": make("MazeWorld-v0", size=100_001),
    "view: got 'nope'; accepted: first_person": make("MazeWorld-v0", view="nope"),
    "resolution: got (0, 9); accepted: (an": make("MazeWorld-v0", resolution=(0, 9)),
    "field_of_view: got 180; accepted: a number": make("MazeWorld-v0", field_of_view=180),
    "with_pose: got 'maybe'; accepted: True": make("MazeWorld-v0", with_pose="maybe"),
    "max_values: got 5.0; accepted: an integer >= 2": make("MetaRG-v0", max_values=5.0),
    "num_distractors: got 9; accepted: an integer": make("MetaRG-v1", num_distractors=9),
    "vocab_size: got 1; accepted: an integer": make("MetaLanguage-v0", vocab_size=1),
    "hidden_size: got 64.0; accepted: an integer": make("MetaLanguage-v0", hidden_size=64.0),
    # Params.
    "mass: got 'heavy'; accepted: numbers that float32": params(PENDULUM, mass="heavy"),
    "mass: got None; accepted: numbers that float32": params(PENDULUM, mass=None),
    "mass: got [1.0, 2.0, 3.0]; accepted: a number or": params(PENDULUM, mass=(1, 2, 3)),
    "mass: got [2.0, 1.0]; accepted: a range": params(PENDULUM, mass=(2, 1)),
    "mass: got [-1.0, -1.0]; accepted: finite numbers above 0": params(PENDULUM, mass=-1.0),
    "gravity: got [nan, nan]; accepted: finite numbers": params(PENDULUM, gravity=NAN),
    "gravity: got [0.0, 0.0]; accepted: numbers within (-12, 0)": params(LANDER, gravity=0.0),
    "horizon: got 1.5; accepted: integers that int32": params(PENDULUM, horizon=1.5),
    "horizon: got 'abc'; accepted: integers that int32": params(PENDULUM, horizon="abc"),
    "horizon: got -5; accepted: integers >= 1": params(PENDULUM, horizon=-5),
    "make_params: got 'g'; accepted: gravity": params(PENDULUM, g=9),
    "low: got nan; accepted: numbers within [0, 1]": params(BANDIT, low=NAN),
    "params.low: got [2]; accepted: shape []": lambda: vec(
        params=BANDIT.make_params(low=[0.1, 0.2])
    )(),
    # Keys, params, tasks and states.
    "key: got 0; accepted: one key": lambda: BANDIT.sample_task(0, BANDIT.default_params),
    "key: got key<fry>[3]; accepted: one key": lambda: BANDIT.sample_task(
        jax.random.split(KEY, 3), BANDIT.default_params
    ),
    "params: got gpicljax.envs.pendulum.Params; accepted: gpicljax.envs.bernoulli": (
        lambda: BANDIT.sample_task(KEY, PENDULUM.default_params)
    ),
    "params: got {'low': 0.0}; accepted: gpicljax": lambda: BANDIT.sample_task(KEY, {"low": 0.0}),
    "key: got gpicljax.envs.bernoulli_bandit.Params; accepted: one key": lambda: BANDIT.reset(
        BANDIT.default_params, KEY
    ),
    "task: got key<fry>[]; accepted: gpicljax.envs": lambda: BANDIT.initial(KEY, KEY),
    "Params; accepted: gpicljax.envs.pendulum.Task, as from env.sample_task": step(
        PENDULUM, jnp.zeros(1), task=PENDULUM.default_params
    ),
    "Params; accepted: gpicljax.envs.mountain_car.Task, as from": step(
        CAR, 0, task=CAR.default_params
    ),
    "state: got gpicljax.envs.mountain_car.Params; accepted": step(
        CAR, 0, state=CAR.default_params
    ),
    "key: got 2; accepted: one key": step(CAR, 0, key=2),
    # Actions.
    "action: got 1.7; accepted: int32[], in Discrete(n=10)": step(BANDIT, 1.7),
    "action: got nan; accepted: int32[], in Discrete(n=10)": step(BANDIT, NAN),
    "action: got int32[3]; accepted: int32[], in": step(BANDIT, jnp.zeros(3, INT)),
    "action: got int32[1]; accepted: int32[], in": step(CAR, jnp.zeros(1, INT)),
    "action: got bool[]; accepted: int32[], in": step(CAR, jnp.zeros((), bool)),
    "action: got 'left'; accepted: int32[], in": step(BANDIT, "left"),
    "action: got None; accepted: int32[], in": step(BANDIT, None),
    "action: got 0.5; accepted: float32[1], in Box": step(PENDULUM, 0.5),
    "action: got float32[2]; accepted: float32[1], in Box": step(PENDULUM, jnp.zeros(2)),
    "action: got float32[4, 2]; accepted: float32[2], in Box": step(LANDER, jnp.zeros((4, 2))),
    "action: got int32[4]; accepted: int32[2, 4], in": step(PLAYERS, jnp.zeros(4, INT)),
    "actions: got int32[3]; accepted: int32[4], each in": batch_step(jnp.zeros(3, INT)),
    "actions: got int32[4, 1]; accepted: int32[4], each": batch_step(jnp.zeros((4, 1), INT)),
    "actions: got float32[4]; accepted: int32[4], each in": batch_step(jnp.zeros(4)),
    "actions: got 0; accepted: int32[4], each in": batch_step(0),
    "actions: got float32[4, 2]; accepted: float32[4, 1]": batch_step(jnp.zeros((4, 2)), PENDULUM),
    "actions: got float32[4]; accepted: float32[4, 1]": batch_step(jnp.zeros(4), PENDULUM),
    "vstate: got int32[4]; accepted: the state": batch_step(0, vstate=jnp.zeros(4, INT)),
    # Batches.
    "num_envs: got 2.5; accepted: an integer >= 1": vec(num_envs=2.5),
    "num_envs: got '8'; accepted: an integer >= 1": vec(num_envs="8"),
    "num_envs: got True; accepted: an integer >= 1": vec(num_envs=True),
    "resets: got 'now'; accepted: fresh, bank": vec(resets="now"),
    "bank_size: got 0; accepted: an integer >= 1": vec(bank_size=0),
    "renew_share: got nan; accepted: a number within": vec(renew_share=NAN),
    "privileged: got 'yes'; accepted: True or False": vec(privileged="yes"),
    "tasks: got 3; accepted: a TaskSet or None": vec(tasks=3),
    "env: got 3; accepted: an environment, or its id": vec(3),
    "env_id: got 'BernouliBandit-v0' (did you mean 'BernoulliBandit-v0'?)": vec(
        "BernouliBandit-v0"
    ),
    "params: got gpicljax.envs.pendulum.Params; accepted": vec(params=PENDULUM.default_params),
    "low: got nan; accepted: numbers within": vec(params=BANDIT.default_params.replace(low=NAN)),
    "key: got 7; accepted: one key": lambda: vec()().init(7),
    # The registry.
    "env_id: got 'Pendulum-v1', which is registered already": register("Pendulum-v1", len),
    "factory: got 'nomodule'; accepted: a callable, or 'module:attribute'": register(
        "X-v0", "nomodule"
    ),
    "factory: got 3; accepted: a callable": register("X-v0", 3),
    "env_id: got None; accepted: a name": register(None, len),
    # Adapters and saved agents.
    "env: got None; accepted: an environment, or its id": interop("to_gymnasium", None),
    "num_agents: got 2; accepted: one": interop("to_gymnasium", PLAYERS),
    "num_envs: got 'x'; accepted": interop("to_gymnasium_vector", BANDIT, "x"),
    "folder: got 3; accepted: the path": lambda: load_agent(3),
}


@pytest.mark.parametrize("words", WORDS)
def test_refused_in_these_words(words, monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    with pytest.raises(ValueError) as refused:
        WORDS[words]()
    assert words in str(refused.value), str(refused.value)


def test_a_factory_that_cannot_be_imported_is_named(monkeypatch):
    monkeypatch.setattr(registration, "_FACTORIES", dict(registration._FACTORIES))
    for env_id, factory in ("Y-v0", "no.such:Z"), ("Z-v0", "gpicljax.envs.pendulum:Nothing"):
        gpicljax.register(env_id, factory)
        with pytest.raises(ValueError, match=f"factory of {env_id}: got '{factory}'; accepted: "):
            gpicljax.make(env_id)


def test_ids_work_where_environments_do():
    pytest.importorskip("gymnasium")
    from gpicljax.interop import to_gymnasium, to_gymnasium_vector

    assert gpicljax.VectorEnv("MountainCar-v0", 2).env == CAR
    assert to_gymnasium("MountainCar-v0").env == CAR
    assert to_gymnasium_vector("MountainCar-v0", 2).vec.env == CAR


def test_lists_are_tuples_and_whole_numbers_pass_for_floats():
    lake = gpicljax.make("FrozenLake-v1", description=["SF", "FG"])
    assert hash(lake) == hash(gpicljax.make("FrozenLake-v1", description=("SF", "FG")))
    assert gpicljax.make("MazeWorld-v0", resolution=[5, 9]).resolution == (5, 9)
    assert gpicljax.make("Pendulum-v1", max_torque=np.float32(3)).max_torque == 3
    assert gpicljax.make("BernoulliBandit-v0", num_arms=np.int64(3)).num_arms == 3


@pytest.mark.parametrize("env", [CAR, PENDULUM], ids=["discrete", "continuous"])
def test_actions_out_of_range_are_the_nearest_and_nan_is_in_the_reward(env):
    task, state = jax.jit(lambda: life(env))()
    box = isinstance(env.action_space(), spaces.Box)
    actions = [[-2.0], [-1e9], [2.0], [1e9], [NAN]] if box else [0, -1, 2, 99]
    move = jax.jit(jax.vmap(lambda action: env.step(KEY, state, action, task)))
    steps = move(jnp.asarray(actions))
    moves = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), steps) for i in range(len(actions))]
    for inside, outside in ((0, 1), (2, 3)):
        jax.tree.map(np.testing.assert_array_equal, moves[inside], moves[outside])
    assert np.isfinite([step.reward for step in moves[:4]]).all()
    assert not box or np.isnan(moves[4].reward)


@dataclasses.dataclass(frozen=True)
class Pond:
    """Fields of every kind."""

    size: Annotated[int, checks.Range(2, 64)] = 8
    depth: Annotated[float, checks.Range(above=0)] | None = None
    water: Literal["salt", "fresh"] = "fresh"
    name: str = ""
    sides: tuple[checks.Size, checks.Size] = (1, 1)
    fish: tuple[str, ...] = ()
    more: Any = None

    def __post_init__(self):
        checks.check_fields(self)


@pytest.mark.parametrize(
    ("field", "bad", "requirement"),
    [
        ("size", 65, "an integer from 2 to 64"),
        ("depth", 0.0, "a finite number above 0 or None"),
        ("depth", INF, "a finite number above 0 or None"),
        ("water", "sweet", "salt, fresh"),
        ("name", 3, "text"),
        ("sides", (1,), "(an integer from 1 to 65536, an integer from 1 to 65536)"),
        ("fish", ("cod", 3), "a tuple, each entry text"),
        ("fish", "cod", "a tuple, each entry text"),
    ],
)
def test_annotations_say_what_fields_accept(field, bad, requirement):
    Pond(size=2, depth=3, water="salt", name="deep", sides=(2, 3), fish=("cod",), more=object())
    with pytest.raises(ValueError) as refused:
        Pond(**{field: bad})
    assert str(refused.value).endswith(f"; accepted: {requirement}")
