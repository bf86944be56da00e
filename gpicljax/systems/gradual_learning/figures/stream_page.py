"""The page of a stream: what the environment says, what the agent says, and what that is paid."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.systems.gradual_learning.env.tasks import ALL_NAMES
from gpicljax.systems.gradual_learning.measures.streams import StreamSteps
from gpicljax.viz.episode_page import Stage, episode_page


def stream_page(steps: StreamSteps, *, title: str, about: Mapping[str, Any] | None = None) -> str:
    """A page that replays a stream in the challenge's three rows: input, output and reward.

    Args:
      steps: of the stream, arrays on the host.
      title: of the page.
      about: facts to put below the title, by name.

    Returns:
      The file's content.
    """
    length = int(steps.length)
    told: StreamSteps = StreamSteps(
        length, *(None if x is None else np.asarray(x)[:length] for x in steps[1:])
    )
    begins = np.flatnonzero(np.diff(told.instance, prepend=-1))
    names = [ALL_NAMES[task] for task in told.task]
    # The last one may be cut off: then it is neither solved nor failed.
    ends = np.flatnonzero(told.ended).tolist()
    instances = [
        {
            "start": start,
            "task": names[start],
            "number": int(told.instance[start]),
            "end": end,
            "solved": end is not None and bool(told.solved[end]),
        }
        for start, end in itertools.zip_longest(begins.tolist(), ends)
    ]
    words = [
        f"{name}, instance {instance}, question {question}; {row} instances solved in a row"
        for name, instance, question, row in zip(
            names, told.instance, told.question, told.row, strict=True
        )
    ]
    data = {
        "heard": _packed(told.heard),
        "said": _packed(told.said),
        "instances": instances,
        "likeliest": 0 if told.choices is None else told.choices.shape[1],
        "choices": _packed(told.choices),
        "chances": _packed_shares(told.chances),
        "chance": _packed_shares(told.chance),
    }
    file = Path(__file__).with_name("stream.html")
    return episode_page(
        title=title,
        about={"steps": f"{length:,}", "return": f"{told.reward.sum():+,.0f}", **(about or {})},
        words=[*words, "the recording ends"],
        actions=[byte_name(byte) for byte in told.said],
        rewards=told.reward,
        stage=Stage(file, {"stream": data}, begins.tolist(), "instance"),
    )


def byte_name(byte: int) -> str:
    """A byte as it is read: its character, or its number in base 16.

    Example:
      >>> [byte_name(byte) for byte in (97, 32, 10)]
      ['a', 'space', '0a']
    """
    return "space" if byte == 32 else chr(byte) if 32 < byte < 127 else f"{byte:02x}"


def _packed(values: ArrayLike | None) -> str | None:
    if values is None:
        return None
    return base64.b64encode(np.asarray(values).astype(np.uint8).tobytes()).decode()


def _packed_shares(shares: ArrayLike | None) -> str | None:
    return None if shares is None else _packed(np.round(255 * np.asarray(shares)))
