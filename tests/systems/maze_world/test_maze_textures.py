"""Sets of textures: what ships, what users register, what is refused."""

import numpy as np
import pytest

from gpicljax.systems.maze_world.env import patterns, textures
from gpicljax.systems.maze_world.env.textures import (
    TextureSet,
    random_textures,
    register_textures,
    texture_set,
)


def blank(number=1, size=64, dtype=np.uint8):
    return np.zeros((number, size, size, 3), dtype)


def test_the_default_set():
    chosen = texture_set("default")
    assert [len(v) for v in (chosen.walls, chosen.grounds, chosen.ceilings)] == [6, 1, 1]
    assert chosen is texture_set("default")  # made once
    walls = chosen.walls.astype(float)
    means = walls.mean((1, 2))
    away = np.linalg.norm(means[:, None] - means, axis=-1)
    # Any two walls can be told apart by colour alone, and none is flat or lost in the dark.
    assert away[~np.eye(6, dtype=bool)].min() > 25
    assert walls.std((1, 2)).max(-1).min() > 12
    assert means.max(-1).min() > 60


PATTERNS = dict.fromkeys((*patterns.WALLS, *patterns.GROUNDS, *patterns.CEILINGS))


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
def test_patterns_repeat_without_a_seam(pattern):
    drawn = [pattern(np.random.default_rng(s), (0.7, 0.5, 0.3), (0.2, 0.3, 0.4)) for s in range(6)]
    pictures = np.stack(drawn)
    assert pictures.shape == (6, 64, 64, 3)
    assert pictures.min() >= 0 and pictures.max() <= 1
    for axis in (1, 2):
        steps = np.abs(np.roll(pictures, -1, axis) - pictures).mean((0, 3 - axis, 3))
        assert steps[-1] <= 1.25 * steps[:-1].max()


def test_random_sets_are_diverse_and_repeatable():
    first, repeated_set, other_set = (random_textures(seed, 12, 3, 2) for seed in (1, 1, 2))
    assert [len(v) for v in (first.walls, first.grounds, first.ceilings)] == [12, 3, 2]
    for name in ("walls", "grounds", "ceilings"):
        np.testing.assert_array_equal(getattr(first, name), getattr(repeated_set, name))
    assert (first.walls != other_set.walls).any()
    assert len(np.unique(first.walls, axis=0)) == 12
    # A larger set of the same seed begins with the smaller one.
    np.testing.assert_array_equal(random_textures(1, 2, 1, 1).walls, first.walls[:2])


def test_the_big_set():
    chosen = texture_set("random-64")
    assert [len(v) for v in (chosen.walls, chosen.grounds, chosen.ceilings)] == [64, 16, 16]
    assert len(np.unique(chosen.walls, axis=0)) == 64


def test_tables_hold_the_texels_in_order():
    table, chosen = textures.table("default"), texture_set("default")
    every = np.concatenate([chosen.walls, chosen.grounds, chosen.ceilings])
    assert table.dtype == np.uint32
    bytes_of = table.astype("<u4").view(np.uint8).reshape(8, 64, 64, 4)
    np.testing.assert_array_equal(bytes_of[..., :3], every)
    assert not bytes_of[..., 3].any()


def test_landmarks_have_fifteen_colours():
    assert textures.LANDMARK_COLOURS.shape == (15, 3)
    assert len(np.unique(textures.LANDMARK_COLOURS, axis=0)) == 15
    assert textures.LANDMARK_COLOURS[[0, 9, 14]].tolist() == [
        [0, 255, 0],
        [0, 96, 128],
        [128, 0, 96],
    ]


def test_own_sets():
    walls = blank(3)
    own_set = TextureSet(walls, blank(), blank(2))
    register_textures("test-own", own_set)
    register_textures("test-own", own_set)  # the same again is fine
    assert texture_set("test-own") is own_set
    walls[:] = 7
    assert not own_set.walls.any()  # the set keeps its own copy
    with pytest.raises(ValueError, match="read-only"):
        own_set.walls[0] = 1
    with pytest.raises(ValueError, match="'test-own'; accepted: one that is not registered"):
        register_textures("test-own", TextureSet(blank(), blank(), blank()))


def test_sets_are_made_when_first_used():
    calls = []

    def make():
        calls.append(1)
        return TextureSet(blank(), blank(), blank())

    register_textures("test-lazy", make)
    assert not calls
    assert texture_set("test-lazy") is texture_set("test-lazy")
    assert calls == [1]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (
            "walls",
            blank(1, 32),
            r"walls: got 'uint8\[1, 32, 32, 3\]'; accepted: uint8\[N, 64, 64, 3\]",
        ),
        ("grounds", blank(1, 64, np.float32), r"grounds: got 'float32\[1, 64, 64, 3\]'"),
        ("ceilings", blank(0), r"ceilings: got 'uint8\[0, 64, 64, 3\]'; accepted: .* N >= 1"),
        ("walls", blank()[0], r"walls: got 'uint8\[64, 64, 3\]'"),
        ("walls", "stone", r"walls: got 'str\[\]'"),
        ("walls", blank(257), "walls: got 257; accepted: at most 256"),
        ("grounds", blank(1024), "got 1026; accepted: at most 1024"),
    ],
)
def test_wrong_textures_are_refused(part, value, message):
    arrays = {"walls": blank(), "grounds": blank(), "ceilings": blank()} | {part: value}
    with pytest.raises(ValueError, match=message):
        TextureSet(**arrays)


def test_unknown_names_and_sources_are_refused():
    with pytest.raises(ValueError, match="textures: got 'defualt' .did you mean 'default'"):
        texture_set("defualt")
    with pytest.raises(ValueError, match="source: got 'ndarray'; accepted: a TextureSet"):
        register_textures("test-array", blank())
    register_textures("test-wrong", lambda: blank())
    with pytest.raises(ValueError, match="'test-wrong': got 'ndarray'; accepted: a function"):
        texture_set("test-wrong")
    with pytest.raises(ValueError, match="walls: got 0; accepted: an integer >= 1"):
        random_textures(0, 0, 1, 1)
