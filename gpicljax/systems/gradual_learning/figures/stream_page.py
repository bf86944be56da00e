"""The page of a stream: the environment's bytes, the agent's bytes and the rewards."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.measures.streams import StreamSteps
from gpicljax.typing import JsonObject
from gpicljax.viz.episode_page import Stage, episode_page


def stream_page(steps: StreamSteps, *, title: str, about: JsonObject | None = None) -> str:
    """Returns a page that replays a stream in the challenge's rows: input, output, reward."""
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
    file = Path(__file__).with_name("stream.html")
    return episode_page(
        title=title,
        about={
            "steps": f"{length:,}",
            "return": f"{steps_on_host.reward.sum():+,.0f}",
            **(about or {}),
        },
        words=[*words, "the recording ends"],
        actions=[byte_name(byte) for byte in steps_on_host.said],
        rewards=steps_on_host.reward,
        stage=Stage(file, {"stream": data}, starts.tolist(), "instance"),
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
