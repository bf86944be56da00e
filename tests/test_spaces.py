import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax import spaces

BOX = spaces.Box(-1.0, 2.0, (2, 3))
NESTED = spaces.Dict.of(
    place=spaces.Discrete(5), move=spaces.MultiDiscrete((2, 3)), picture=spaces.Box(0, 255, (4,))
)
ALL = [
    spaces.Discrete(1),
    spaces.Discrete(7),
    spaces.MultiDiscrete((3, 1, 4)),
    spaces.MultiDiscrete(((2, 5), (2, 5))),
    BOX,
    spaces.Box(0, 255, (2, 2), jnp.uint8),
    spaces.Box(0, 1, (3,), bool),
    spaces.Box(float("-inf"), float("inf"), (3,)),
    spaces.Box(0.0, float("inf")),
    NESTED,
]


@pytest.mark.parametrize("space", ALL, ids=str)
def test_samples_are_members_under_jit_and_vmap(space, key):
    keys = jax.random.split(key, 50)
    members = jax.jit(jax.vmap(space.sample))(keys)
    assert jax.jit(jax.vmap(space.contains))(members).all()


@pytest.mark.parametrize("space", ALL, ids=str)
def test_value_semantics(space):
    twin = pickle.loads(pickle.dumps(space))
    assert twin == space == copy.deepcopy(space)
    assert hash(twin) == hash(space)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Discrete(3), 3),
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3), 1.0),
        (spaces.Discrete(3), [1]),
        (spaces.MultiDiscrete((2, 3)), [1, 3]),
        (spaces.MultiDiscrete((2, 3)), [-1, 0]),
        (spaces.MultiDiscrete(((2, 3),)), [1, 2]),
        (spaces.MultiDiscrete(((2, 3),)), [[2, 2]]),
        (spaces.MultiDiscrete((2, 3)), [1, 2, 0]),
        (spaces.MultiDiscrete((2, 3)), [1.0, 2.0]),
        (spaces.Box(0, 1, (2,)), [0.0, 1.5]),
        (spaces.Box(0, 1, (2,)), [0.0, float("nan")]),
        (spaces.Box(0, 1, (2,)), [0, 1]),
        (spaces.Box(0, 1, (2,)), 0.5),
        (spaces.Dict.of(a=spaces.Discrete(2)), {"a": 2}),
        (spaces.Dict.of(a=spaces.Discrete(2)), {"b": 1}),
        (spaces.Dict.of(a=spaces.Discrete(2)), {"a": 1, "b": 1}),
        (spaces.Dict.of(a=spaces.Discrete(2)), 1),
    ],
)
def test_others_are_not_members(space, value):
    assert not space.contains(value)


def test_discrete_samples_are_uniform(key):
    draws = jax.vmap(spaces.Discrete(4).sample)(jax.random.split(key, 4_000))
    assert draws.dtype == jnp.int32
    # Each count is binomial(4000, 1/4), with a standard deviation of 27.4.
    assert np.abs(np.bincount(draws, minlength=4) - 1_000).max() < 4 * 27.4


def test_masks_are_obeyed(key):
    keys = jax.random.split(key, 300)
    mask = jnp.array([False, True, False, True])
    draws = jax.jit(jax.vmap(lambda k: spaces.Discrete(4).sample(k, mask)))(keys)
    assert set(draws.tolist()) == {1, 3}
    mask = jnp.array([[True, False, False], [False, False, True]])
    draws = jax.jit(jax.vmap(lambda k: spaces.MultiDiscrete((2, 3)).sample(k, mask)))(keys)
    assert (draws == jnp.array([0, 2])).all()
    masks = {"place": jnp.arange(5) == 4}
    draws = jax.jit(jax.vmap(lambda k: NESTED.sample(k, masks)))(keys)
    assert (draws["place"] == 4).all()
    with pytest.raises(ValueError, match="mask"):
        BOX.sample(key, jnp.ones(3, bool))


def test_repeat_stacks_members(key):
    for space in ALL:
        stacked = jax.jit(jax.vmap(space.sample))(jax.random.split(key, 3))
        assert spaces.repeat(space, 3).contains(stacked), space
        assert spaces.of_one_agent(spaces.repeat(space, 3), 3) == space
    assert spaces.repeat(spaces.Discrete(4), 2) == spaces.MultiDiscrete((4, 4))
    assert spaces.repeat(spaces.MultiDiscrete((2, 5)), 2) == spaces.MultiDiscrete(((2, 5), (2, 5)))
    for uneven in (spaces.MultiDiscrete((2, 3)), BOX, spaces.Discrete(2)):
        with pytest.raises(TypeError, match="each of 3 agents the same"):
            spaces.of_one_agent(uneven, 3)
    with pytest.raises(TypeError, match="Space"):
        spaces.repeat(spaces.Space(), 2)


@pytest.mark.parametrize("space", ALL, ids=str)
def test_flatten_has_flat_size_and_keeps_batch_axes(space, key):
    def shapes(keys):
        batch = jax.vmap(jax.vmap(space.sample))(keys)
        return spaces.flatten(space, space.sample(key)), spaces.flatten(space, batch)

    single, batch = jax.eval_shape(shapes, jax.random.split(key, (2, 3)))
    assert single.shape == (spaces.flat_size(space),)
    assert batch.shape == (2, 3, spaces.flat_size(space))


def test_flatten_values():
    flat = spaces.flatten(spaces.MultiDiscrete((2, 3)), jnp.array([1, 0]))
    assert flat.tolist() == [0, 1, 1, 0, 0]
    chances = jnp.array([0.2, 0.8, 0.5, 0.5, 0.0])  # they stand for themselves
    assert spaces.flatten(spaces.MultiDiscrete((2, 3)), chances) is chances
    flat = spaces.flatten(spaces.MultiDiscrete(((2, 3), (1, 2))), jnp.array([[1, 0], [0, 1]]))
    assert flat.tolist() == [0, 1, 1, 0, 0, 1, 0, 1]
    space = spaces.Dict.of(a=spaces.Discrete(2), b=spaces.Box(0, 9, (2,)))
    assert spaces.flatten(space, {"b": jnp.array([7, 8]), "a": 0}).tolist() == [1, 0, 7, 8]
    with pytest.raises(TypeError, match="Space"):
        spaces.flatten(spaces.Space(), 0)
    with pytest.raises(TypeError, match="Space"):
        spaces.flat_size(spaces.Space())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: spaces.Discrete(0), "n: got 0; accepted: an integer >= 1"),
        (lambda: spaces.MultiDiscrete(()), "nvec"),
        (lambda: spaces.MultiDiscrete((2, 0)), "nvec"),
        (lambda: spaces.MultiDiscrete(((2, 3), (2,))), "nvec"),
        (lambda: spaces.Box(1, 0), "low: got 1; accepted: numbers up to high = 0"),
        (lambda: spaces.Box(float("nan"), 0), "low"),
    ],
)
def test_bad_spaces(make, message):
    with pytest.raises(ValueError, match=message):
        make()


LARGEST = float(np.finfo(np.float32).max)
WIDEST = [
    spaces.Box(-LARGEST, LARGEST, (3,)),
    spaces.Box(-1e300, 1e300, (3,), "float32"),
    spaces.Box(0, LARGEST, (3,)),
    spaces.Box(-LARGEST, 0, (3,)),
    spaces.Box(-65504, 65504, (3,), "float16"),
    spaces.Box(float("-inf"), -5, (3,)),
    spaces.Box(0, float("inf"), (3,), "int32"),
    *(
        spaces.Box(int(low), int(high), (3,), dtype)
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
        for least, greatest in [(np.iinfo(dtype).min, np.iinfo(dtype).max)]
        for low, high in [(least, greatest), (least + 1, greatest), (least, greatest - 1)]
    ),
    spaces.Box(2**31, 2**32 - 1, (3,), "uint32"),
    spaces.Box(1, 1, (3,), bool),
]


@pytest.mark.parametrize("space", WIDEST, ids=str)
def test_the_widest_bounds_have_members(space, key):
    members = jax.vmap(space.sample)(jax.random.split(key, 50))
    assert jax.vmap(space.contains)(members).all()
    finite = np.asarray(members, float)
    assert np.isfinite(finite).all()
    if space.high > max(space.low, 1) and space.low > float("-inf"):
        assert finite.std() > 0.1 * (min(space.high, finite.max()) - max(space.low, finite.min()))


def test_the_widest_integers_of_64_bits():
    with jax.enable_x64(True):
        for dtype in ("int64", "uint64"):
            least, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            for low, high in [(least, greatest), (least + 1, greatest), (greatest - 1, greatest)]:
                space = spaces.Box(low, high, (100,), dtype)
                members = space.sample(jax.random.key(0))
                assert space.contains(members) and len(np.unique(members)) > 1


def test_numbers_beyond_a_wide_box_become_the_nearest():
    whole = spaces.Box(0, 2**32 - 1, (3,), "uint32")
    assert spaces.nearest(whole, jnp.array([-5, 0, 7])).tolist() == [0, 0, 7]
    half = spaces.Box(0, float("inf"), (3,))
    near = spaces.nearest(half, jnp.array([-5.0, 7.0, float("nan")]))
    assert near[:2].tolist() == [0, 7] and jnp.isnan(near[2])
