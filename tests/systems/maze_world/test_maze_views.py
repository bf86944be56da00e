"""Mazes from above show where the agent was, when, and what it knew."""

import numpy as np
import pytest
from PIL import Image
from small_maze import COLOURS, PATH, small_maze, views

from gpicljax.systems.maze_world.figures.trajectories import (
    AGENT,
    FLOOR,
    UNSEEN,
    WALL,
    film_frames,
    map_frames,
    time_colours,
    trajectory_figure,
)
from gpicljax.viz import save_figure


def near(pixel, colour, within=12):
    return np.abs(np.asarray(pixel).astype(int) - colour).max() <= within


def test_time_goes_from_green_to_red():
    first, middle, last = time_colours([0, 0.5, 1]).astype(int)
    assert first.argmax() == 1 and last.argmax() == 0
    assert middle[0] > 200 and middle[1] > 150 and middle[2] < 60
    assert np.array_equal(time_colours([-1.0, 2.0]), time_colours([0.0, 1.0]))


def test_the_map_shows_walls_agent_landmarks_and_the_way():
    pixels = 210  # 30 for each cell
    frames = map_frames(small_maze(memory=None), pixels=pixels)
    assert frames.shape == (len(PATH), pixels, pixels, 3)

    def at(frame, x, y):  # in cells; x runs to the right, y down
        return frames[frame][int(30 * y), int(30 * x)]

    assert near(at(0, 0.5, 3.5), WALL) and near(at(0, 2.5, 2.5), WALL)
    assert near(at(0, 5.5, 1.5), FLOOR) and near(at(0, 5.5, 5.5), FLOOR)
    assert near(at(0, 1.7, 1.5), AGENT)  # looks along +x
    assert near(at(0, 3.05, 1.5), COLOURS[0])  # the target fills its cell
    assert near(at(0, 1.5, 3.5), COLOURS[1]) and near(at(0, 1.08, 3.5), FLOOR)
    assert near(at(4, 1.08, 3.5), COLOURS[1])  # now it is the target
    # The way is not there before it was walked, and has the colour of its time afterwards.
    assert near(at(1, 3.5, 3.0), FLOOR)
    assert near(at(8, 3.5, 2.98), time_colours(0.4), 25)


def test_what_is_not_remembered_is_dim():
    frames = map_frames(small_maze(), [0, 10], pixels=210)

    def at(frame, x, y):
        return frames[frame][int(30 * y), int(30 * x)]

    assert near(at(0, 1.5, 4.5), FLOOR) and near(at(0, 0.5, 4.5), WALL)
    assert near(at(0, 5.5, 4.5), UNSEEN, 25) and near(at(0, 2.5, 0.5), UNSEEN, 45)
    assert near(at(1, 5.5, 4.5), FLOOR) and near(at(1, 2.5, 0.5), WALL)


def test_moments_can_be_chosen_in_any_order():
    whole = map_frames(small_maze(), pixels=84)
    assert np.array_equal(map_frames(small_maze(), [7, 0, 7, 3], pixels=84), whole[[7, 0, 7, 3]])


def test_film_frames_have_the_map_beside():
    frames = film_frames(views(3), small_maze(), [0, 5, 10], pixels=120)
    assert frames.shape == (3, 120, 144 + 3 + 120, 3) and frames.dtype == np.uint8
    assert np.array_equal(frames[1, 60, 70], views()[1, 0, 0])
    assert np.array_equal(frames[:, :, -120:], map_frames(small_maze(), [0, 5, 10], pixels=120))


def test_trajectories_in_one_figure(tmp_path):
    figure = trajectory_figure(
        [small_maze(), small_maze(command=None, memory=None, reward=None), small_maze()],
        labels=["one", "two", "three"],
        columns=2,
        title="Figure 17",
    )
    maps = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in maps] == ["one", "two", "three"]
    (lines,) = maps[0].collections
    assert len(lines.get_segments()) == len(PATH) - 1
    colours = lines.get_colors()[:, :3]
    assert np.allclose(colours[-1] * 255, time_colours(1), atol=1)
    assert colours[0][1] > colours[0][0] and colours[-1][0] > colours[-1][1]
    # A later passage does not hide an earlier one: step 9 stays where it is, step 10 is step 1.
    assert np.abs(lines.get_segments()[0] - lines.get_segments()[9]).min() > 0.1
    low, high = maps[0].get_ylim()
    assert low > high  # y runs down
    with Image.open(save_figure(figure, tmp_path / "figure.png")) as picture:
        assert min(picture.size) > 300
    assert trajectory_figure(small_maze(position=np.full((1, 2), 1.5), heading=np.zeros(1),
                                        command=None, reward=None, memory=None)).axes  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda: trajectory_figure([]),
        lambda: trajectory_figure(small_maze(), labels=["a", "b"]),
        lambda: trajectory_figure(small_maze(), columns=0),
        lambda: map_frames(small_maze(), [0, 11]),
        lambda: map_frames(small_maze(), [-1]),
        lambda: map_frames(small_maze(), []),
        lambda: map_frames(small_maze(), pixels=20),
        lambda: map_frames(small_maze(walls=np.ones((7, 5), bool))),
        lambda: map_frames(small_maze(heading=np.zeros(3))),
        lambda: map_frames(small_maze(command=np.zeros(3, int))),
        lambda: map_frames(small_maze(memory=np.zeros((3, 7, 7), bool))),
        lambda: map_frames(small_maze(colours=np.zeros((2, 3), np.uint8))),
        lambda: map_frames(small_maze(reward=np.zeros(11))),
        lambda: film_frames(views(2), small_maze(), [0, 1, 2]),
        lambda: film_frames(views().astype(float), small_maze()),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError, match="accepted"):
        call()
