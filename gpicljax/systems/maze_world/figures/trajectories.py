"""Mazes seen from above: trajectories in the colours of time, and films with the map beside.

x runs to the right and y down, so that a turn to the right on the map is one in the first person's
view. Positions are in cells: cell (i, j) covers `[i, i + 1) x [j, j + 1)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.viz import style
from gpicljax.viz.films import Frames

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

TIME_COLOURS = ((26, 160, 84), (150, 190, 40), (242, 176, 20), (232, 100, 22), (190, 22, 44))
"""From the first step to the last, evenly spaced."""

WALL, FLOOR, UNSEEN, AGENT = (52, 58, 68), (246, 244, 238), (196, 198, 202), (24, 28, 36)
INSET = 0.16
"""Landmarks are smaller than their cell by this on every side, but for the target."""

FINE = 3
"""Maps are drawn this much larger and averaged, for smooth edges."""


class MazeEpisode(NamedTuple):
    """The drawn parts of an episode of T steps in a maze of n x n cells with L landmarks.

    Attributes:
      walls: `bool[n, n]`.
      position: float `[T + 1, 2]`, x and y in cells.
      heading: float `[T + 1]`, radians, from +x towards +y.
      landmarks: `int[L, 2]`, their cells; negative for those that are not there.
      colours: `uint8[L, 3]`, of the landmarks.
      command: `int[T + 1]`, the landmark to go to; None where there is none.
      reward: float `[T]`; None to draw none.
      memory: `bool[T + 1, n, n]`, the cells that an expert remembers; None to draw none.

    Example:
      >>> walls = np.pad(np.zeros((2, 2), bool), 1, constant_values=True)
      >>> way = [(1.5, 1.5), (2.5, 1.5)]
      >>> episode = MazeEpisode(walls, way, [0, 0], landmarks=[(2, 2)], colours=[(255, 0, 0)])
      >>> episode.to_numpy().position.shape
      (2, 2)
    """

    walls: Any
    position: Any
    heading: Any
    landmarks: Any
    colours: Any
    command: Any = None
    reward: Any = None
    memory: Any = None

    def to_numpy(self) -> MazeEpisode:
        """Returns the episode as NumPy arrays of the right shapes.

        Raises:
          ValueError: if an array has another shape than it should.
        """
        arrays: dict[str, Any] = {
            name: None if x is None else np.asarray(x) for name, x in self._asdict().items()
        }
        walls, position = arrays["walls"], arrays["position"]
        n, steps = len(walls), len(position) - 1
        count = len(arrays["landmarks"])
        expected = {
            "walls": (n, n),
            "position": (steps + 1, 2),
            "heading": (steps + 1,),
            "landmarks": (count, 2),
            "colours": (count, 3),
            "command": (steps + 1,),
            "reward": (steps,),
            "memory": (steps + 1, n, n),
        }
        for name, shape in expected.items():
            array = arrays[name]
            fits = array is None or array.shape == shape
            check_array(fits, name, array, f"shape {[*shape]}")
        fits = n >= 1 and steps >= 0
        check(fits, "walls, position", (n, steps + 1), "at least 1 row and 1 moment")
        return MazeEpisode(**arrays)


def time_colours(share: ArrayLike) -> NDArray[np.uint8]:
    """Colours of moments from the start (0, green) to the end (1, red); `[...]` -> `[..., 3]`."""
    stops = np.asarray(TIME_COLOURS, np.float64)
    share = np.clip(np.asarray(share, np.float64), 0, 1)
    grid = np.linspace(0, 1, len(stops))
    channels = [np.interp(share, grid, stops[:, c]) for c in range(3)]
    return np.rint(np.stack(channels, -1)).astype(np.uint8)


def trajectory_figure(
    episodes: Sequence[MazeEpisode] | MazeEpisode,
    *,
    labels: Sequence[str] = (),
    columns: int = 4,
    title: str | None = None,
) -> Figure:
    """Maps with the way that was taken: green where it begins, red where it ends.

    Where a path is taken again, the later passage is drawn a little to the lower right.

    Args:
      episodes: one or more.
      labels: what to write above each, or none.
      columns: maps in a row.
      title: over all, or none.

    Returns:
      A matplotlib figure; `style.save_figure` writes it.

    Raises:
      ValueError: if there is no episode, `labels` has another number or `columns` < 1.

    Source: Figure 17 of the GPICL benchmarks paper.

    Example:
      >>> walls = np.pad(np.zeros((2, 2), bool), 1, constant_values=True)
      >>> way = [(1.5, 1.5), (2.5, 1.5)]
      >>> episode = MazeEpisode(walls, way, [0, 0], landmarks=[(2, 2)], colours=[(255, 0, 0)])
      >>> figure = trajectory_figure([episode, episode], labels=["before", "after"])
      >>> [axes.get_title("left") for axes in figure.axes[:2]]
      ['before', 'after']
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    shown = [episodes] if isinstance(episodes, MazeEpisode) else list(episodes)
    check(shown, "episodes", shown, "at least one")
    check_at_least(1, columns=columns)
    several = len(shown)
    check(len(labels) in (0, several), "labels", labels, f"{several}, as many as episodes, or none")
    shown = [episode.to_numpy() for episode in shown]
    columns = min(columns, len(shown))
    rows = -(-len(shown) // columns)
    side = 4.0 if len(shown) == 1 else max(1.9, 7.6 / columns)
    figure = style.new_figure(columns * side + 0.8, rows * (side + 0.25) + (0.3 if title else 0))
    panels = []
    for i, episode in enumerate(shown):
        axes = figure.add_subplot(rows, columns, i + 1)
        panels.append(axes)
        n = len(episode.walls)
        picture = np.where(episode.walls.T[..., None], WALL, FLOOR).astype(np.uint8)
        axes.imshow(picture, extent=(0, n, n, 0), interpolation="nearest")
        for (x, y), colour in zip(episode.landmarks, episode.colours, strict=True):
            if min(x, y) >= 0:
                axes.add_patch(_square(x, y, colour))
        share = np.linspace(0, 1, len(episode.position))
        # Passages fan out by their time, so that one does not hide another.
        points = episode.position + 0.36 * (share[:, None] - 0.5)
        segments = list(np.stack([points[:-1], points[1:]], axis=1))
        width = max(0.7, 26 * side / 4 / n)
        lines = LineCollection(segments, colors=time_colours(share[1:]) / 255, linewidths=width)
        lines.set_capstyle("round")
        axes.add_collection(lines)
        for place, marker, size in ((0, "o", 2.6), (-1, "s", 2.4)):
            axes.plot(
                *points[place],
                marker,
                markersize=max(4.0, size * width),
                color=time_colours(share[place]) / 255,
                markeredgecolor="white",
                markeredgewidth=0.8,
                zorder=4,
            )
        axes.set_xlim(0, n)
        axes.set_ylim(n, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        if labels:
            axes.set_title(labels[i], fontsize=style.BODY, color=style.INK, loc="left", pad=4)
    scale = ScalarMappable(cmap=ListedColormap(time_colours(np.linspace(0, 1, 128)) / 255))
    bar = figure.colorbar(scale, ax=panels, fraction=0.035, pad=0.02, aspect=28)
    bar.set_ticks([0, 1], labels=["start", "end"])
    bar.ax.tick_params(labelsize=style.SMALL, labelcolor=style.MUTED, length=0)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    style.title_figure(figure, title)
    return figure


def _square(x: int, y: int, colour: NDArray[np.uint8]) -> Any:
    from matplotlib.patches import Rectangle

    side = 1 - 2 * INSET
    return Rectangle((x + INSET, y + INSET), side, side, facecolor=colour / 255, edgecolor="none")


def map_frames(
    episode: MazeEpisode, chosen: ArrayLike | None = None, *, pixels: int = 384
) -> Frames:
    """Returns the map at some moments: the way so far, the agent, its target and what it remembers.

    Args:
      episode: what to draw.
      chosen: `int[K]`, which of the T + 1 moments; all by default.
      pixels: side of a picture.

    Returns:
      `uint8[K, pixels, pixels, 3]`.

    Raises:
      ValueError: if a moment is out of range, or a cell would be smaller than 3 pixels.
    """
    episode = episode.to_numpy()
    moments = len(episode.position)
    places = np.arange(moments) if chosen is None else np.asarray(chosen)
    is_list = places.ndim == 1 and places.size > 0
    fits = is_list and places.min() >= 0 and places.max() < moments
    check(fits, "chosen", places.tolist(), f"moments 0 .. {moments - 1}")
    n = len(episode.walls)
    check(pixels >= 3 * n, "pixels", pixels, f"at least {3 * n}, 3 for each cell")
    scale = FINE * pixels / n
    canvas = _Canvas(episode, scale, FINE * pixels)
    frames, drawn = [], 0
    order = np.argsort(places, kind="stable")
    for place in places[order]:
        canvas.walk(drawn, int(place))
        drawn = int(place)
        frames.append(canvas.frame(int(place), pixels))
    out = np.empty((len(places), pixels, pixels, 3), np.uint8)
    out[order] = np.stack(frames)
    return out


class _Canvas:
    """A map under construction; the way is added to as time goes on."""

    def __init__(self, episode: MazeEpisode, scale: float, side: int) -> None:
        from PIL import Image

        self.episode = episode
        self.scale = scale
        self.side = side
        self.trail = Image.new("RGBA", (side, side))
        n = len(episode.walls)
        self.cells = np.minimum((np.arange(side) / scale).astype(int), n - 1)
        self.still = self._floor_plan(None) if episode.memory is None else None

    def _floor_plan(self, known_cells: NDArray[np.bool_] | None) -> Image:
        from PIL import Image, ImageDraw

        colours = np.where(self.episode.walls.T[..., None], WALL, FLOOR).astype(np.float64)
        if known_cells is not None:
            colours = np.where(
                known_cells.T[..., None], colours, 0.22 * colours + 0.78 * np.array(UNSEEN)
            )
        plan = Image.fromarray(colours.astype(np.uint8)[self.cells][:, self.cells])
        draw = ImageDraw.Draw(plan)
        for (x, y), colour in zip(self.episode.landmarks, self.episode.colours, strict=True):
            if min(x, y) >= 0:
                is_known = known_cells is None or known_cells[x, y]
                shade = colour if is_known else 0.4 * colour + 0.6 * np.array(UNSEEN)
                draw.rectangle(self._box(x, y, -INSET), fill=tuple(int(c) for c in shade))
        return plan

    def _box(self, x: int, y: int, beyond: float) -> tuple[float, float, float, float]:
        """Returns a cell and so much more, or less, on every side."""
        low, high = -beyond, 1 + beyond
        return (
            (x + low) * self.scale,
            (y + low) * self.scale,
            (x + high) * self.scale - 1,
            (y + high) * self.scale - 1,
        )

    def walk(self, first: int, last: int) -> None:
        """Adds the way between two moments."""
        from PIL import ImageDraw

        draw = ImageDraw.Draw(self.trail)
        points = self.episode.position * self.scale
        total = max(1, len(points) - 1)
        width = max(2, round(0.16 * self.scale))
        for t in range(first, last):
            (x0, y0), (x1, y1) = points[t], points[t + 1]
            colour = tuple(int(c) for c in time_colours((t + 1) / total))
            draw.line((x0, y0, x1, y1), fill=(*colour, 235), width=width)
            r = width / 2
            draw.ellipse((x1 - r, y1 - r, x1 + r, y1 + r), fill=(*colour, 235))

    def frame(self, place: int, pixels: int) -> NDArray[np.uint8]:
        """Returns the picture at one moment."""
        from PIL import Image, ImageDraw

        episode, scale = self.episode, self.scale
        memory = episode.memory
        plan = self.still.copy() if self.still else self._floor_plan(memory[place])
        plan.paste(self.trail, (0, 0), self.trail)
        draw = ImageDraw.Draw(plan)
        if episode.command is not None and len(episode.landmarks):
            target = int(episode.command[place])
            x, y = episode.landmarks[target]
            draw.rectangle(self._box(x, y, 0.12), fill=AGENT)
            draw.rectangle(
                self._box(x, y, 0.0), fill=tuple(int(c) for c in episode.colours[target])
            )
        x, y = episode.position[place] * scale
        angle, size = float(episode.heading[place]), 0.62 * scale
        corners = [
            (x + size * r * math.cos(angle + a), y + size * r * math.sin(angle + a))
            for r, a in ((1.0, 0.0), (0.85, 2.5), (0.35, math.pi), (0.85, -2.5))
        ]
        draw.polygon(corners, fill=AGENT, outline=(255, 255, 255), width=max(1, round(scale / 14)))
        return np.asarray(plan.resize((pixels, pixels), Image.Resampling.BOX))


def film_frames(
    first_person: Frames,
    episode: MazeEpisode,
    chosen: ArrayLike | None = None,
    *,
    pixels: int = 320,
) -> Frames:
    """First-person frames with the map beside them; `films.animation` makes a film of them.

    Args:
      first_person: `uint8[K, H, W, 3]`, the observations at the chosen moments.
      episode: the episode they belong to.
      chosen: `int[K]`, which of its T + 1 moments; all by default.
      pixels: height of the film.

    Returns:
      `uint8[K, pixels, width, 3]`.

    Raises:
      ValueError: if the frames are of another number, shape or dtype.

    Example:
      >>> walls = np.pad(np.zeros((2, 2), bool), 1, constant_values=True)
      >>> way = [(1.5, 1.5), (2.5, 1.5)]
      >>> episode = MazeEpisode(walls, way, [0, 0], landmarks=[(2, 2)], colours=[(255, 0, 0)])
      >>> film_frames(np.zeros((2, 16, 16, 3), np.uint8), episode, pixels=48).shape
      (2, 48, 98, 3)
    """
    from PIL import Image

    frames = np.asarray(first_person)
    maps = map_frames(episode, chosen, pixels=pixels)
    fits = frames.ndim == 4 and frames.shape[::3] == (len(maps), 3) and frames.dtype == np.uint8
    check_array(fits, "first_person", frames, f"uint8[{len(maps)}, H, W, 3]")
    height, width = frames.shape[1:3]
    size = max(1, round(pixels * width / height)), pixels
    views = [np.asarray(Image.fromarray(f).resize(size, Image.Resampling.NEAREST)) for f in frames]
    gap = np.full((len(maps), pixels, max(2, pixels // 40), 3), 255, np.uint8)
    return np.concatenate([np.stack(views), gap, maps], axis=2)
