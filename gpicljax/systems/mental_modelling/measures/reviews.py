"""Reviewers' judgements of a language model's replies: errors of six types, and right or wrong.

A sheet (`figures.review_page`) collects the judgements and saves one file for each reviewer. By the
agent's actions a judgement may count as right that a reviewer finds wrong, for agents are not
always sensible: so both stand side by side, and how far they agree.

Source: section 5.3, Tables 1, 2 and 5 of Lu et al. (2024), "Mental modelling of reinforcement
learning agents by language models".
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpicljax.checks import check, check_array
from gpicljax.storage.array_folder import SavedError
from gpicljax.storage.reading import read_json
from gpicljax.systems.mental_modelling.measures.published import ERRORS

FORMAT = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Review:
    """One reviewer's sheet about N replies of one model.

    Attributes:
      model: whose replies they are.
      judge: name of the reviewer.
      right: float `[N]`, 1 where the reviewer finds the reply right, 0 where not; NaN where nothing
        was said.
      automatic: `bool[N]`, right by the agent's action.
      errors: `bool[N, 6]`, of the types `published.ERRORS`.
      sheet: digest of the replies on the sheet.
    """

    model: str
    judge: str
    right: np.ndarray
    automatic: np.ndarray
    errors: np.ndarray
    sheet: str = ""

    @property
    def is_judged(self) -> np.ndarray:
        """Returns `bool[N]`, whether a reply was judged right or wrong."""
        return np.isfinite(self.right)

    @property
    def manual_accuracy(self) -> float:
        """Returns the share of right replies among those judged; NaN without any."""
        return float(self.right[self.is_judged].mean()) if self.is_judged.any() else float("nan")

    @property
    def automatic_accuracy(self) -> float:
        """Returns the share of right replies among the same, by the agent's actions."""
        return (
            float(self.automatic[self.is_judged].mean()) if self.is_judged.any() else float("nan")
        )

    @property
    def error_counts(self) -> tuple[int, ...]:
        """Returns the number of replies with an error of each type, as in Table 1."""
        return tuple(int(x) for x in self.errors.sum(0))


class Agreement(NamedTuple):
    """The agreement of two judgements of the same replies.

    Attributes:
      replies: number of replies with both judgements.
      share: on which they agree; NaN without any.
      kappa: beyond what their preferences alone would give (Cohen, 1960); NaN where that is all.
    """

    replies: int
    share: float
    kappa: float


def compare_judgements(first: ArrayLike, second: ArrayLike) -> Agreement:
    """Compares two judgements, numbers `[N]` of which NaN are left out.

    Raises:
      ValueError: if they are of different replies.
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    check_array(a.ndim == 1 and a.shape == b.shape, "second", b, f"float{list(a.shape)}")
    is_comparable = np.isfinite(a) & np.isfinite(b)
    a, b = a[is_comparable], b[is_comparable]
    if not a.size:
        return Agreement(0, float("nan"), float("nan"))
    share = float((a == b).mean())
    chance = sum(float((a == x).mean() * (b == x).mean()) for x in np.unique([a, b]))
    kappa = (share - chance) / (1 - chance) if chance < 1 else float("nan")
    return Agreement(int(a.size), share, kappa)


def pairs_of(reviews: Sequence[Review]) -> list[tuple[Review, Review]]:
    """Returns pairs of reviews of the same sheet by two reviewers.

    Raises:
      ValueError: if two of them are of one reviewer and sheet.
    """
    pairs = [
        (first, second)
        for first, second in itertools.combinations(reviews, 2)
        if first.model == second.model
        and first.sheet == second.sheet
        and np.array_equal(first.automatic, second.automatic)
    ]
    for first, second in pairs:
        expected = "one file for each reviewer and sheet"
        check(first.judge != second.judge, "reviews", f"two of {first.judge}", expected)
    return pairs


def load_review(path: str | Path) -> Review:
    """Reads a file that a sheet saved.

    Raises:
      SavedError: for a file that is missing, damaged or of something else.
    """
    path = Path(path)
    try:
        body = read_json(path)
        check(body["format"] == FORMAT, "format", body["format"], str(FORMAT))
        items = body["items"]
        check(len(items) > 0, "items", items, "one or more")
        error_names = set(ERRORS)
        for item in items:
            check(set(item["errors"]) <= error_names, "errors", item["errors"], ", ".join(ERRORS))
            check(item["right"] in (True, False, None), "right", item["right"], "true, false, null")
            check(item["automatic"] in (True, False), "automatic", item["automatic"], "true, false")
        return Review(
            sheet=str(body["sheet"]),
            model=str(body["model"]),
            judge=str(body["judge"]),
            right=np.array([np.nan if item["right"] is None else item["right"] for item in items]),
            automatic=np.array([item["automatic"] for item in items], bool),
            errors=np.array([[error in item["errors"] for error in ERRORS] for item in items]),
        )
    except OSError as error:
        raise SavedError(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SavedError(f"{path} is damaged or no review ({error})") from error
