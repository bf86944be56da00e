"""The page of a stream: the environment's bytes, the agent's bytes and the rewards."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.evaluation.returns import Episode
from gpicljax.play.drawing import Drawing
from gpicljax.play.match import Match, Player
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Params
from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.experts.copying import copier
from gpicljax.systems.gradual_learning.measures.streams import StreamSteps, likeliest_bytes
from gpicljax.typing import JsonObject
from gpicljax.viz.episode_page import Stage


def stream_page(steps: StreamSteps, *, title: str, about: JsonObject | None = None) -> str:
    """Returns a page that replays a stream in the challenge's rows: input, output, reward."""
    drawing = draw_steps(steps)
    total = f"{np.sum(drawing.rewards):+,.0f}"
    return drawing.page(
        title, {"steps": f"{int(steps.length):,}", "return": total, **(about or {})}
    )


def draw_steps(steps: StreamSteps) -> Drawing:
    """Draws a recorded stream in the challenge's rows."""
    length = int(steps.length)
    steps_on_host: StreamSteps = StreamSteps(
        length, *(None if x is None else np.asarray(x)[:length] for x in steps[1:])
    )
    starts = np.flatnonzero(np.diff(steps_on_host.instance, prepend=-1))
    names = [ALL_NAMES[task] for task in steps_on_host.task]
    # The last one may be cut off: then it is neither solved nor failed.
    ends = np.flatnonzero(steps_on_host.ended).tolist()
    instances = [
        {
            "start": start,
            "task": names[start],
            "number": int(steps_on_host.instance[start]),
            "end": end,
            "solved": end is not None and bool(steps_on_host.solved[end]),
        }
        for start, end in itertools.zip_longest(starts.tolist(), ends)
    ]
    words = [
        f"{name}, instance {instance}, question {question}; {streak} instances solved in a row"
        for name, instance, question, streak in zip(
            names, steps_on_host.instance, steps_on_host.question, steps_on_host.row, strict=True
        )
    ]
    data = {
        "heard": _encode_bytes(steps_on_host.heard),
        "said": _encode_bytes(steps_on_host.said),
        "instances": instances,
        "likeliest": 0 if steps_on_host.choices is None else steps_on_host.choices.shape[1],
        "choices": _encode_bytes(steps_on_host.choices),
        "chances": _encode_shares(steps_on_host.chances),
        "chance": _encode_shares(steps_on_host.chance),
    }
    stage = Stage(
        Path(__file__).with_name("stream.html"), {"stream": data}, starts.tolist(), "instance"
    )
    return Drawing(
        words=[*words, "the recording ends"],
        actions=[byte_name(byte) for byte in steps_on_host.said],
        rewards=steps_on_host.reward,
        stage=stage,
    )


def draw_stream(
    env: ByteStream, episode: Episode, *, revealed: bool = True, **unused: Any
) -> Drawing:
    """Draws a stream; see `play.drawing.draw_episode`. Its task sets are hidden at first."""
    del env, unused
    length, states = int(episode.length), episode.states
    heard = states.byte if episode.task.shown is None else episode.task.shown[states.byte]
    number = np.asarray(states.instance)
    ended = number[1:] != number[:-1]
    likely: dict[str, Any] = dict.fromkeys(("choices", "chances", "chance"))
    if isinstance(episode.aux, dict) and "logits" in episode.aux:
        likely = likeliest_bytes(episode.aux["logits"], episode.actions)
    steps = StreamSteps(
        length=length,
        heard=heard[:-1],
        said=episode.actions,
        reward=episode.rewards,
        task=states.task[:-1],
        instance=number[:-1],
        question=states.number[:-1],
        row=states.solved[:-1],
        ended=ended,
        # Where the last one solved clears the set, the next set begins with none.
        solved=ended & ((states.solved[1:] > states.solved[:-1]) | (np.diff(states.task) != 0)),
        **likely,
    )
    drawing = draw_steps(steps)
    if revealed:
        return drawing
    assert drawing.stage is not None
    stream = drawing.stage.data["stream"] | {"instances": [], "waiting": int(heard[length])}
    stage = drawing.stage._replace(data={"stream": stream}, chapters=())
    return drawing._replace(words=[""] * (length + 1), stage=stage)


def match(env: ByteStream, params: Params) -> Match:
    """Returns how a stream is played: beside the shipped agent, and one that copies answers."""
    return Match(
        env,
        params,
        draw_stream,
        Player(copier()),
        "copier",
        "byte_stream_quick",
        rules="One byte comes in and one goes out at every step. Find out what is asked of you: "
        "+ is right, - is wrong.",
    )


def byte_name(byte: int) -> str:
    """Returns the name of a byte: its character, or its number in base 16."""
    return "space" if byte == 32 else chr(byte) if 32 < byte < 127 else f"{byte:02x}"


def _encode_bytes(values: ArrayLike | None) -> str | None:
    if values is None:
        return None
    return base64.b64encode(np.asarray(values).astype(np.uint8).tobytes()).decode()


def _encode_shares(shares: ArrayLike | None) -> str | None:
    return None if shares is None else _encode_bytes(np.round(255 * np.asarray(shares)))
