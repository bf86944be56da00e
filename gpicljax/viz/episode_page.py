"""One HTML file that replays an episode, with everything in it: no network, no server."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpicljax.checks import check, check_array
from gpicljax.typing import JsonObject
from gpicljax.viz.films import Frames

TILES = 64
"""Frames in one picture."""

_HERE = Path(__file__).parent
STYLE = _HERE / "page.css"
"""What all pages look like, for a place `{{base}}` within their style."""


class Stage(NamedTuple):
    """The drawing that a system adds to the page of an episode.

    Attributes:
      file: the pieces of the page, each below a line `<!-- place -->`: `style`, `views` (figures),
        `readings` (of a list of definitions) and `script`, which may add functions to `more`,
        called at every step, and to `loads`, called whenever there are new data.
      data: what the script reads, for JSON.
      chapters: `int[C]`, ascending, the steps at which the keys page up and page down stop.
      chapter: what begins at such a step, for the legend of the keys.
    """

    file: Path
    data: Mapping[str, Any]
    chapters: Sequence[int] = ()
    chapter: str = ""


_COLUMNS = 8
_BLOCK = 16  # WebP compresses blocks of this many pixels a side; tiles do not share one


def episode_page(
    *,
    title: str,
    about: JsonObject | None = None,
    picture_title: str = "Seen",
    stage: Stage | None = None,
    **episode: Any,
) -> str:
    """Returns a page that shows an episode step by step: pictures, words and rewards.

    It plays, and is searched with a slider and the keyboard. `#step=120` at the end of its address
    opens it at that step.

    Args:
      title: of the page.
      about: facts to put below the title, by name.
      picture_title: what the frames show.
      stage: what else is drawn of the episode.
      **episode: what is shown of it, as `episode_content` takes it.

    Raises:
      ValueError: as `episode_content`.
    """
    content = episode_content(stage=stage, **episode)
    return fill_page(title, content, about=about, picture_title=picture_title, stage=stage)


def episode_content(
    *,
    words: Sequence[str] | None = None,
    frames: Frames | None = None,
    frame_steps: ArrayLike | None = None,
    actions: Sequence[str] | None = None,
    advice: Sequence[str] | None = None,
    rewards: ArrayLike | None = None,
    readings: Mapping[str, Sequence[str]] | None = None,
    quality: int = 80,
    stage: Stage | None = None,
) -> dict[str, Any]:
    """Returns what the script of a page reads, for JSON.

    Args:
      words: T + 1 descriptions of the situation, as `Environment.describe` gives them, or None.
      frames: `uint8[F, H, W, 3]`, or None where there is nothing to be seen.
      frame_steps: `int[F]`, ascending from 0, the steps that the frames belong to, beside words;
        each is shown until the next one. By default there is a frame for every situation.
      actions: T names of what was done, or None.
      advice: T names of what an expert would have done, or None.
      rewards: float `[T]`, or None.
      readings: what else there is to read, by name, T + 1 words or numbers each.
      quality: of the frames, 1 .. 100, or 100 for no loss at all. At 80 a frame of 128 x 128 pixels
        takes 3 to 6 kilobytes.
      stage: what else is drawn of the episode.

    Raises:
      ValueError: if there are neither words nor frames, or an argument has another shape, dtype or
        length than it should.
    """
    check(words is not None or frames is not None, "words", None, "descriptions, or frames")
    frames = np.zeros((0, 1, 1, 3), np.uint8) if frames is None else np.asarray(frames)
    situations = len(frames) if words is None else len(words)
    shown = np.arange(situations * bool(len(frames))) if frame_steps is None else frame_steps
    shown = np.asarray(shown, np.int64)
    fits = frames.dtype == np.uint8 and frames.shape[:1] + frames.shape[3:] == (shown.size, 3)
    check_array(fits, "frames", frames, f"uint8[{shown.size}, H, W, 3]")
    ordered = shown.ndim == 1 and (np.diff(shown, prepend=-1) > 0).all()
    ordered &= not shown.size or (shown[0] == 0 and shown[-1] < situations)
    check(ordered, "frame_steps", shown, f"ascending from 0, below {situations}")
    for name, texts in (("actions", actions), ("advice", advice), ("rewards", rewards)):
        fits = texts is None or np.shape(texts)[:1] == (situations - 1,)
        check(fits, name, texts, f"{situations - 1} entries")
    paid = None if rewards is None else np.asarray(rewards)
    sound = paid is None or (paid.dtype.kind in "biuf" and bool(np.isfinite(paid).all()))
    check(sound, "rewards", rewards, "finite numbers")
    readings = readings or {}
    for name, texts in readings.items():
        check(len(texts) == situations, f"readings {name}", texts, f"{situations} entries")
    chapters = np.asarray(stage.chapters if stage else (), np.int64)
    ordered = (np.diff(chapters, prepend=-1) > 0).all() and (chapters < situations).all()
    check(ordered, "chapters", chapters, f"ascending, from 0 to {situations - 1}")
    check(1 <= quality <= 100, "quality", quality, "1 .. 100")
    height, width = frames.shape[1:3]
    tile_height, tile_width = (-(-side // _BLOCK) * _BLOCK for side in (height, width))
    sheets = [frames[i : i + TILES] for i in range(0, len(frames), TILES)]
    return {
        "last": situations - 1,
        "width": width,
        "height": height,
        "tileWidth": tile_width,
        "tileHeight": tile_height,
        "tiles": TILES,
        "columns": _COLUMNS,
        "frames": shown.tolist(),
        "sheets": [_sheet(part, tile_height, tile_width, quality) for part in sheets],
        "words": None if words is None else list(words),
        "reward": None if paid is None else _round_all(paid),
        "actions": None if actions is None else list(actions),
        "advice": None if advice is None else list(advice),
        "names": list(readings),
        "readings": [[_to_json_value(value) for value in texts] for texts in readings.values()],
        "chapters": chapters.tolist(),
        **(stage.data if stage else {}),
    }


def fill_page(
    title: str,
    content: JsonObject,
    *,
    about: JsonObject | None = None,
    picture_title: str = "Seen",
    stage: Stage | None = None,
    live: Path | None = None,
) -> str:
    """Returns the page of an episode.

    Args:
      title: of the page.
      content: what its script reads, as `episode_content` returns it.
      about: facts to put below the title, by name.
      picture_title: what the frames show.
      stage: what else is drawn of the episode.
      live: pieces of a page whose episode is being played, as of `Stage.file`, `dock` and
        `connect` beside them; None where it is over.
    """
    facts = (html.escape(f"{name} {value}".strip()) for name, value in (about or {}).items())
    boxes = (f"    <div><dt>{html.escape(name)}</dt><dd></dd></div>\n" for name in content["names"])
    drawn = page_parts(stage.file) if stage else {}
    played = page_parts(live) if live else {}
    places = "style", "views", "readings", "script", "dock", "connect"
    return fill_template(
        "episode_page.html",
        title=html.escape(title),
        about="".join(f"<span>{fact}</span>" for fact in facts),
        seen=html.escape(picture_title),
        width=str(content["width"]),
        height=str(content["height"]),
        # "</script>" in a name must not end the script.
        data=json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        more="".join(boxes),
        chapter=html.escape(stage.chapter if stage else ""),
        **{place: drawn.get(place, "") + played.get(place, "") for place in places},
    )


def side_by_side(title: str, pages: Mapping[str, str]) -> str:
    """Returns one page that shows several pages of episodes, by name, led by one slider."""
    frames = (
        f'    <iframe title="{html.escape(name)}" srcdoc="{html.escape(page)}"></iframe>\n'
        for name, page in pages.items()
    )
    return fill_template(
        "side_by_side.html", title=html.escape(title), pages="".join(frames), chapter=""
    )


def fill_template(name: str, **values: str) -> str:
    """Returns a template of this folder with values, the player and the pages' style in it."""
    player = page_parts(_HERE / "player.html")
    values = {"base": STYLE.read_text(encoding="utf-8"), **player, **values}

    def fill(text: str) -> str:
        return re.sub(r"\{\{(\w+)\}\}", lambda place: fill_once(place[1]), text)

    def fill_once(place: str) -> str:
        return fill(values[place]) if place in player else values[place]

    page = fill((_HERE / name).read_text(encoding="utf-8"))
    return page.encode("utf-8", "replace").decode()  # half a surrogate pair is no character


def _to_json_value(value: object) -> Any:
    """Returns a reading for JSON, which has no numbers that are not finite."""
    is_number = isinstance(value, float | np.floating)
    return str(value) if is_number and not np.isfinite(value) else value


def page_parts(file: Path) -> dict[str, str]:
    """Returns the parts of a page that a file has, each below a line `<!-- name -->`."""
    pieces = re.split(r"<!-- (\w+) -->\n", file.read_text(encoding="utf-8"))
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _round_all(values: NDArray[Any]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


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
