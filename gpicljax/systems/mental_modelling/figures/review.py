"""A sheet on which replies are judged, and figures of reviewers' judgements.

Source: section 5.3, Tables 1, 2 and 5 of Lu et al. (2024), "Mental modelling of reinforcement
learning agents by language models".
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpicljax.checks import check
from gpicljax.systems.mental_modelling.figures.curves import grouped_bars
from gpicljax.systems.mental_modelling.measures.published import ERRORS, TABLE_1, TABLE_2
from gpicljax.systems.mental_modelling.measures.reviews import (
    FORMAT,
    Review,
    compare_judgements,
    pairs_of,
)
from gpicljax.viz import style
from gpicljax.viz.episode_page import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Reply(NamedTuple):
    """A reply to be judged.

    Attributes:
      question: text of the question.
      reply: text of the model's reply.
      automatic: whether its answer is that of the agent's action.
      about: a few words, such as the step.
    """

    question: str
    reply: str
    automatic: bool
    about: str = ""


def review_page(title: str, model: str, replies: Sequence[Reply]) -> str:
    """Returns one HTML file with all replies, the six types of errors to tick, and live agreement.

    It needs no network and no server. "Save" writes a file for
    `mental_modelling.measures.load_review`.

    Raises:
      ValueError: if there is none.
    """
    check(len(replies) > 0, "replies", len(replies), "one or more")
    items = [reply._asdict() | {"automatic": bool(reply.automatic)} for reply in replies]
    content = {
        "format": FORMAT,
        "sheet": hashlib.sha256(json.dumps([model, items]).encode()).hexdigest()[:16],
        "model": model,
        "errors": list(ERRORS),
        "published": [list(counts) for counts in TABLE_1.values()],
        "items": items,
    }
    data = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    heads = "".join(f"<th>{html.escape(name)}, paper, of 50</th>" for name in TABLE_1)
    values = {
        "title": html.escape(title),
        "base": STYLE.read_text(encoding="utf-8"),
        "heads": heads,
        "data": data,
    }
    template = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda name: values[name[1]], template)


def errors_figure(reviews: Sequence[Review]) -> Figure:
    """Draws Table 1 as bars: the share of replies with an error of each type, beside the paper's.

    Raises:
      ValueError: if there is none.
    """
    check(len(reviews) > 0, "reviews", len(reviews), "one or more")
    groups: dict[str, dict[str, float]] = {error: {} for error in ERRORS}
    for review in reviews:
        for error, count in zip(ERRORS, review.error_counts, strict=True):
            groups[error][f"{review.model} ({review.judge})"] = count / len(review.errors)
    for model, counts in TABLE_1.items():
        for error, count in zip(ERRORS, counts, strict=True):
            groups[error][f"{model}, paper"] = count / 50
    short = {error.partition(" ")[0]: group for error, group in groups.items()}
    return grouped_bars(short, ylabel="replies")


def agreement_figure(reviews: Sequence[Review]) -> Figure:
    """Draws Table 2 as bars, with reviewers' agreement with the agent's actions and each other.

    Raises:
      ValueError: if there is none.
    """
    check(len(reviews) > 0, "reviews", len(reviews), "one or more")
    groups = {
        f"{model}\n(paper)": {"reviewer": manual, "agent's action": automatic}
        for model, (manual, automatic) in TABLE_2.items()
    }
    for review in reviews:
        agreed = compare_judgements(
            review.right, np.where(review.is_judged, review.automatic, np.nan)
        )
        groups[f"{review.model}\n({review.judge})"] = {
            "reviewer": review.manual_accuracy,
            "agent's action": review.automatic_accuracy,
            "both agree": agreed.share,
        }
    for first, second in pairs_of(reviews):
        name = f"{first.model}\n({first.judge}, {second.judge})"
        groups[name] = {"reviewers agree": compare_judgements(first.right, second.right).share}
    figure = grouped_bars(groups, ylabel="right, or agreed")
    figure.axes[0].tick_params(axis="x", labelsize=style.SMALL)
    return figure
