"""Numbers as printed in the papers, for tables that compare ours with theirs.

Accuracies are fractions in [0, 1] (the paper prints per cent) with the standard deviation over
seeds, taken to be the sample standard deviation. Two cautions go with them. Chance is 0.5, but it
is not the null to beat: a rule that ignores the messages reaches 0.71 to 0.83 on the reference
rules, depending on shots and samples. And the reference code logs these accuracies from actors that
still explore, with a mean epsilon near 0.185, so a greedy evaluation of the same agent would read
higher; the paper does not say which of the two it prints.

Source: "Meta-Referential Games to Learn Compositional Learning Behaviours" (ICLR 2025 submission),
Tables 1 to 4.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpicljax.evaluation.statistics import SummaryStats

CHANCE: Final = 0.5
"""Accuracy of guessing "same" or "different" (K = 0, descriptive)."""


def _percent(mean: float, std: float, seeds: int) -> SummaryStats:
    return SummaryStats(round(mean / 100, 6), round(std / 100, 6), seeds)


TABLE_1: Final[Mapping[tuple[str, int], SummaryStats]] = MappingProxyType(
    {
        ("zsct", 1): _percent(53.6, 4.7, 3),
        ("zsct", 2): _percent(51.6, 2.2, 3),
        ("ease_of_acquisition", 1): _percent(50.6, 8.8, 3),
        ("ease_of_acquisition", 2): _percent(50.6, 5.8, 3),
        ("topsim", 1): _percent(29.6, 16.8, 3),
        ("topsim", 2): _percent(21.3, 16.6, 3),
        ("posdis", 1): _percent(23.7, 20.8, 3),
        ("posdis", 2): _percent(13.8, 12.8, 3),
        ("bosdis", 1): _percent(25.6, 22.9, 3),
        ("bosdis", 2): _percent(19.1, 17.5, 3),
    }
)
"""Two learning players by (measure, shots S): V in [2, 5], O = 4, 500 k observations, 3 seeds."""

TABLE_1_POSDIS_SPEAKER: Final[Mapping[str, float]] = MappingProxyType(
    {"topsim": 0.967, "posdis": 0.920, "bosdis": 0.116}
)
"""The rule-based speaker in the same table: one language, so no spread."""

TABLE_2: Final[Mapping[str, SummaryStats]] = MappingProxyType(
    {
        "LSTM": _percent(86.0, 0.1, 3),
        "ESBN": _percent(89.4, 2.8, 3),
        "DCEM": _percent(81.9, 0.6, 3),
    }
)
"""Listener's ZSCT accuracy by architecture: V in [2, 3], S = O = 1, 10 M observations, 3 seeds."""

TABLE_3: Final[Mapping[tuple[int, int], SummaryStats]] = MappingProxyType(
    {
        (1, 1): _percent(62.2, 3.7, 6),
        (2, 1): _percent(73.5, 2.4, 6),
        (4, 1): _percent(75.0, 2.3, 6),
        (1, 4): _percent(62.8, 0.8, 6),
        (2, 4): _percent(62.6, 1.7, 6),
        (4, 4): _percent(60.2, 2.2, 6),
        (1, 16): _percent(64.9, 1.7, 6),
        (2, 16): _percent(62.0, 2.0, 6),
        (4, 16): _percent(61.8, 2.1, 6),
    }
)
"""LSTM listener's ZSCT accuracy by (shots S, samples O): V in [2, 5], 6 seeds per cell."""

TABLE_4: Final[Mapping[tuple[str, int, int], SummaryStats]] = MappingProxyType(
    {
        ("Mixtral-8x7B", 1, 1): _percent(45.6, 10.5, 5),
        ("Mixtral-8x7B", 2, 1): _percent(49.3, 13.7, 5),
        ("Mixtral-8x7B", 1, 4): _percent(48.6, 17.6, 5),
        ("Mixtral-8x7B", 2, 4): _percent(49.9, 7.9, 5),
        ("GPT-4o-mini", 1, 1): _percent(33.1, 11.4, 5),
        ("GPT-4o-mini", 2, 1): _percent(36.8, 12.7, 5),
        ("GPT-4o-mini", 1, 4): _percent(39.8, 11.6, 5),
        ("GPT-4o-mini", 2, 4): _percent(42.9, 3.8, 5),
    }
)
"""Language models as listeners, by (model, shots S, samples O): 5 seeds of 64 episodes each.

Less than one half, where two answers are equally frequent, says that they were biased or not valid.
"""
