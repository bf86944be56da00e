"""The page of an episode in a maze: first person, map, and what an expert remembers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check_array
from gpicljax.systems.maze_world.figures import trajectories as maze
from gpicljax.systems.maze_world.figures.trajectories import MazeEpisode
from gpicljax.typing import JsonObject
from gpicljax.viz import episode_page as pages
from gpicljax.viz.films import Frames


def maze_episode_page(
    frames: Frames,
    episode: MazeEpisode,
    *,
    title: str,
    about: JsonObject | None = None,
    actions: Sequence[str] | None = None,
    advice: Sequence[str] | None = None,
    quality: int = 80,
) -> str:
    """A page that shows first person, map, what an expert remembers, and reward, step by step.

    It plays, and is searched with a slider and the keyboard. `#step=120` at the end of its address
    opens it at that step.

    Args:
      frames: `uint8[T + 1, H, W, 3]`, the observations.
      episode: the episode they belong to.
      title: of the page.
      about: facts to put below the title, by name.
      actions: T names of what was done, or None.
      advice: T names of what an expert would have done, or None.
      quality: of the frames, 1 .. 100, or 100 for no loss at all. At 80 a frame of 128 x 128 pixels
        takes 3 to 6 kilobytes.

    Returns:
      The file's content.

    Raises:
      ValueError: if an argument has another shape, dtype or length than it should.

    Example:
      >>> walls = np.pad(np.zeros((2, 2), bool), 1, constant_values=True)
      >>> way = [(1.5, 1.5), (2.5, 1.5)]
      >>> episode = MazeEpisode(walls, way, [0, 0], landmarks=[(2, 2)], colours=[(255, 0, 0)])
      >>> frames = np.zeros((2, 16, 16, 3), np.uint8)
      >>> page = maze_episode_page(frames, episode, title="Two cells", actions=["forward"])
      >>> "Two cells" in page
      True
    """
    episode = episode.to_numpy()
    frames, moments = np.asarray(frames), len(episode.position)
    check_array(len(frames) == moments, "frames", frames, f"uint8[{moments}, H, W, 3]")
    data = {
        "walls": ["".join("1" if wall else "0" for wall in row) for row in episode.walls],
        "position": np.round(episode.position.astype(np.float64), 3).tolist(),
        "heading": np.round(episode.heading.astype(np.float64), 4).tolist(),
        "landmarks": episode.landmarks.tolist(),
        "colours": episode.colours.tolist(),
        "command": None if episode.command is None else episode.command.tolist(),
        "memory": None if episode.memory is None else [_pack_mask(m) for m in episode.memory],
        "timeColours": maze.TIME_COLOURS,
        "inset": maze.INSET,
        "shades": {
            "wall": maze.WALL,
            "floor": maze.FLOOR,
            "unseen": maze.UNSEEN,
            "agent": maze.AGENT,
        },
    }
    return pages.episode_page(
        title=title,
        about=about,
        frames=frames,
        actions=actions,
        advice=advice,
        rewards=episode.reward,
        quality=quality,
        picture_title="First person",
        stage=pages.Stage(Path(__file__).with_name("map.html"), data),
    )


def _pack_mask(mask: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(mask.reshape(-1)).tobytes()).decode()
