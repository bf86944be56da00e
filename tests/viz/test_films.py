"""Films are files that players read, of the frames they were given."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from gpicljax.viz.films import animation, choose_frames, contact_sheet, render_frames
from gpicljax.viz.style import save_figure

COLOURS = np.array([[200, 30, 30], [30, 160, 60], [20, 40, 220], [240, 220, 30]], np.uint8)


def frames(count=4, height=24, width=36):
    """A flat colour each, with a white square."""
    pictures = np.broadcast_to(
        COLOURS[np.arange(count) % 4][:, None, None], (count, height, width, 3)
    ).copy()
    pictures[:, 4:8, 4:8] = 255
    return pictures


def read(content):
    film = Image.open(io.BytesIO(content))
    pictures, durations = [], []
    for i in range(film.n_frames):
        film.seek(i)
        durations.append(film.info["duration"])
        pictures.append(np.asarray(film.convert("RGB")))
    return film, np.stack(pictures), durations


def test_a_film_shows_its_frames_in_order_and_loops():
    film, shown, durations = read(animation(frames(), frames_per_second=10))
    assert film.format == "GIF" and film.is_animated and film.size == (36, 24)
    assert film.info["loop"] == 0
    assert durations == [100, 100, 100, 1500]
    # One palette for all: colours differ by less than the eye can see.
    assert np.abs(shown.astype(int) - frames()).max() <= 4


def test_equal_frames_are_equal_in_the_film():
    still = frames(3)[[0, 0, 1, 0]]
    _, shown, durations = read(animation(still))
    # Equal neighbours may be one frame that lasts longer.
    assert len(shown) in (3, 4) and sum(durations) == 1500 + 3 * 70
    assert np.array_equal(shown[0], shown[-1])


def test_large_frames_are_reduced_in_proportion():
    film, *_ = read(animation(frames(2, 400, 600), most_pixels=150))
    assert film.size == (150, 100)


def test_one_frame_is_a_film_too():
    film, shown, _ = read(animation(frames(1)))
    assert len(shown) == 1 and film.size == (36, 24)


def test_frames_are_chosen_evenly_and_end_with_the_last():
    assert choose_frames(5, 100).tolist() == [0, 1, 2, 3, 4, 5]
    assert choose_frames(0, 2).tolist() == [0]
    for length in (1, 7, 99, 100, 1000):
        for most in (2, 3, 50):
            chosen = choose_frames(length, most)
            assert chosen[0] == 0 and chosen[-1] == length and len(chosen) <= most
            steps = np.diff(chosen)
            assert (steps[:-1] == steps[0]).all() and 0 < steps[-1] <= steps[0]
    assert len(choose_frames(1000, 50)) > 40


def test_rendering_in_chunks_changes_nothing():
    def render(state, task):
        return jnp.full((4, 6, 3), state + task, jnp.uint8)

    states, chosen = jnp.arange(20), [0, 3, 4, 9, 17]
    for chunk in (1, 2, 3, 5, 64):
        drawn = render_frames(render, states, 7, chosen, chunk=chunk)
        assert drawn.shape == (5, 4, 6, 3) and drawn.dtype == np.uint8
        assert drawn[:, 0, 0, 0].tolist() == [7, 10, 11, 16, 24]


def test_chunks_are_one_program():
    count = 0

    def render(state, task):
        nonlocal count
        count += 1
        return jnp.zeros((2, 2, 3), jnp.uint8)

    render_frames(render, jnp.arange(50), jnp.zeros(()), np.arange(50), chunk=8)
    assert count == 1


def test_a_sheet_of_stills(tmp_path):
    figure = contact_sheet(frames(6), labels=[f"step {i}" for i in range(6)], title="A lake")
    assert len(figure.axes) == 6
    assert [axes.get_title() for axes in figure.axes][:2] == ["step 0", "step 1"]
    assert np.array_equal(figure.axes[2].get_images()[0].get_array(), frames(6)[2])
    path = save_figure(figure, tmp_path / "sheet.png")
    with Image.open(path) as picture:
        width, height = picture.size
    assert width > 900 and 200 < height < width


@pytest.mark.parametrize(
    "call",
    [
        lambda: animation(frames().astype(float)),
        lambda: animation(frames()[..., :2]),
        lambda: animation(frames()[:0]),
        lambda: animation(frames(), frames_per_second=0),
        lambda: animation(frames(), frames_per_second=60),
        lambda: animation(frames(), most_pixels=0),
        lambda: contact_sheet(frames()[0]),
        lambda: contact_sheet(frames(), labels=["one"]),
        lambda: contact_sheet(frames(), columns=0),
        lambda: choose_frames(-1, 5),
        lambda: choose_frames(5, 1),
        lambda: render_frames(lambda s, t: s, jnp.zeros(3), 0, []),
        lambda: render_frames(lambda s, t: s, jnp.zeros(3), 0, [0], chunk=0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError, match="accepted"):
        call()


def test_every_environment_that_can_be_seen_can_be_filmed():
    import gpicljax

    for env_id in ("FrozenLake-v1", "Pendulum-v1"):
        env = gpicljax.make(env_id)
        task = env.sample_task(jax.random.key(0), env.default_params)
        first = env.initial(jax.random.key(1), task)
        drawn = render_frames(env.render, jax.tree.map(lambda x: x[None], first), task, [0])
        film, *_ = read(animation(drawn))
        assert film.size == drawn.shape[2:0:-1]
