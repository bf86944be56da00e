"""The page of an episode in a maze: first person, map, and what an expert remembers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check_array
from gpicljax.evaluation.returns import Episode
from gpicljax.play.drawing import Drawing, draw_episode
from gpicljax.play.match import Match, Player
from gpicljax.systems.maze_world.env import LANDMARK_COLOURS
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params
from gpicljax.systems.maze_world.experts.privileged import privileged_agent
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
    moments = len(np.asarray(episode.position))
    check_array(len(np.asarray(frames)) == moments, "frames", frames, f"uint8[{moments}, H, W, 3]")
    return pages.episode_page(
        title=title,
        about=about,
        frames=frames,
        actions=actions,
        advice=advice,
        rewards=episode.reward,
        quality=quality,
        picture_title="First person",
        stage=map_stage(episode),
    )


def map_stage(episode: MazeEpisode) -> pages.Stage:
    """Returns the map of an episode, as `map.html` draws it."""
    episode = episode.to_numpy()
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
    return pages.Stage(Path(__file__).with_name("map.html"), data)


def draw_maze(env: MazeWorld, episode: Episode, *, revealed: bool = True, **how: Any) -> Drawing:
    """Draws an episode; see `play.drawing.draw_episode`. The map is hidden until it is revealed."""
    drawing = draw_episode(env, episode, **how)
    if env.view == "first_person":
        drawing = drawing._replace(picture_title="First person")
    if not revealed:
        return drawing
    task, moments = episode.task, slice(int(episode.length) + 1)
    size, states = int(task.size), jax.tree.map(lambda x: np.asarray(x)[moments], episode.states)
    known = episode.aux.get("known")  # of an expert that remembers a map
    memory = None if known is None else np.concatenate([known, known[-1:]])[moments, :size, :size]
    shown = MazeEpisode(
        walls=task.walls[:size, :size],
        position=states.position / task.cell_size,
        heading=states.heading,
        landmarks=task.landmarks,
        colours=np.asarray(LANDMARK_COLOURS[: len(task.landmarks)], np.uint8),
        command=states.command if env.mode == "navigation" else None,
        memory=memory,
    )
    return drawing._replace(stage=map_stage(shown))


def match(env: MazeWorld, params: Params) -> Match:
    """Returns how mazes are played: beside the shipped model, and a map of what was in view."""
    is_discrete = env.actions != "continuous"
    program = Player(privileged_agent(env, 1.0)) if is_discrete else None
    return Match(
        env,
        params,
        draw_maze,
        program,
        "a map of all it has seen",
        "maze_world_small",
        rules="Go to the landmark whose colour is shown, then to the next: steps cost a little."
        if env.mode == "navigation"
        else "Landmarks add to your life or take from it. Stay alive.",
    )


def _pack_mask(mask: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(mask.reshape(-1)).tobytes()).decode()
