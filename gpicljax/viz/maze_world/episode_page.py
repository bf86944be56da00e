"""One HTML file that replays an episode in a maze, with everything in it: no network, no server."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpicljax.checks import check, check_array
from gpicljax.viz.films import Frames
from gpicljax.viz.maze_world import trajectories as maze
from gpicljax.viz.maze_world.trajectories import MazeEpisode

TILES = 64
"""Frames in one picture."""

_COLUMNS = 8
_BLOCK = 16  # WebP compresses blocks of this many pixels a side; tiles do not share one


def episode_page(
    frames: Frames,
    episode: MazeEpisode,
    *,
    title: str,
    about: Mapping[str, Any] | None = None,
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
    """
    episode = episode.checked()
    frames = np.asarray(frames)
    moments = len(episode.position)
    fits = frames.ndim == 4 and frames.dtype == np.uint8 and frames.shape[::3] == (moments, 3)
    check_array(fits, "frames", frames, f"uint8[{moments}, H, W, 3]")
    for name, words in (("actions", actions), ("advice", advice)):
        fits = words is None or len(words) == moments - 1
        check(fits, name, words, f"{moments - 1} entries")
    check(1 <= quality <= 100, "quality", quality, "1 .. 100")
    height, width = frames.shape[1:3]
    tile_height, tile_width = (-(-side // _BLOCK) * _BLOCK for side in (height, width))
    parts = [frames[i : i + TILES] for i in range(0, moments, TILES)]
    data = {
        "width": width,
        "height": height,
        "tileWidth": tile_width,
        "tileHeight": tile_height,
        "tiles": TILES,
        "columns": _COLUMNS,
        "sheets": [_sheet(part, tile_height, tile_width, quality) for part in parts],
        "walls": ["".join("1" if wall else "0" for wall in row) for row in episode.walls],
        "position": np.round(episode.position.astype(np.float64), 3).tolist(),
        "heading": np.round(episode.heading.astype(np.float64), 4).tolist(),
        "landmarks": episode.landmarks.tolist(),
        "colours": episode.colours.tolist(),
        "command": None if episode.command is None else episode.command.tolist(),
        "reward": None if episode.reward is None else _rounded(episode.reward),
        "memory": None if episode.memory is None else [_packed(m) for m in episode.memory],
        "actions": None if actions is None else list(actions),
        "advice": None if advice is None else list(advice),
        "timeColours": maze.TIME_COLOURS,
        "inset": maze.INSET,
        "shades": {
            "wall": maze.WALL,
            "floor": maze.FLOOR,
            "unseen": maze.UNSEEN,
            "agent": maze.AGENT,
        },
    }
    facts = (html.escape(f"{name} {value}") for name, value in (about or {}).items())
    # "</script>" in a name must not end the script.
    said = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    values = {
        "title": html.escape(title),
        "about": "".join(f"<span>{fact}</span>" for fact in facts),
        "width": str(width),
        "height": str(height),
        "data": said,
    }
    template = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], template)


def _rounded(values: NDArray[Any]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _packed(mask: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(mask.reshape(-1)).tobytes()).decode()


def _sheet(frames: Frames, tile_height: int, tile_width: int, quality: int) -> str:
    """Frames side by side in one WebP picture, as a data URI."""
    from PIL import Image

    count, height, width, _ = frames.shape
    rows = -(-count // _COLUMNS)
    sheet = np.zeros((rows, _COLUMNS, tile_height, tile_width, 3), np.uint8)
    # The margin repeats the edge, so that compression has nothing to blur there.
    margin = ((0, 0), (0, tile_height - height), (0, tile_width - width), (0, 0))
    sheet.reshape(-1, tile_height, tile_width, 3)[:count] = np.pad(frames, margin, mode="edge")
    sheet = sheet.transpose(0, 2, 1, 3, 4).reshape(rows * tile_height, _COLUMNS * tile_width, 3)
    file = io.BytesIO()
    Image.fromarray(sheet).save(
        file, format="WEBP", quality=quality, lossless=quality == 100, method=4
    )
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
