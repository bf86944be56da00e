"""Meta-Referential Games as tasks of Inspect AI: a language model listens, or speaks.

```bash
pip install "gpicljax[llm]"
inspect eval gpicljax/referential_listener --model openai/gpt-4o-mini -T shots=1 -T samples=4
inspect eval gpicljax/referential_speaker --model openai/gpt-4o-mini
```

A sample is one episode of games, played by `play_listener` or `play_speaker`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.checks import check_choice, missing
from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.inspect_model import InspectModel, play_samples, score_stored
from gpicljax.llm.outcomes import SILENT
from gpicljax.registration import make
from gpicljax.systems.meta_rg.measures.listening import Confusion
from gpicljax.systems.meta_rg.prompts.games import (
    nearest_listener,
    play_listener,
    play_speaker,
)
from gpicljax.systems.meta_rg.prompts.sessions import ListenerSettings
from gpicljax.vector import VectorEnv

# pyright: reportMissingImports=false
try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Metric, SampleScore, mean, metric, scorer, stderr
    from inspect_ai.solver import Solver, solver
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error


def _of_all(value: Callable[[Confusion], float]) -> Metric:
    """Returns a number of the decisions of all samples together."""

    def compute(scores: list[SampleScore]) -> float:
        tables = np.array(
            [score.score.metadata["decisions"] for score in scores if score.score.metadata]
        )
        if not len(tables):  # while nothing is scored yet
            return float("nan")
        same, different = tables.sum(0).tolist()
        return float(value(Confusion(tuple(same), tuple(different))))

    return compute


@metric
def balanced_accuracy() -> Metric:
    """Returns the mean of the shares of both truths that were told rightly."""
    return _of_all(lambda found: found.balanced_accuracy)


@metric
def says_same() -> Metric:
    """Returns the share of "same" in valid answers: one half where nothing is preferred."""
    return _of_all(lambda found: found.says_same)


@metric
def always_same() -> Metric:
    """Accuracy of always saying "same": the control."""
    return _of_all(lambda found: found.always_same)


@solver
def play(role: str, env: str, static: dict[str, int], max_tokens: int, turned: bool) -> Solver:
    """Plays the sample's episode; its decisions are kept in the sample's store.

    Args:
      role: "listener", or "speaker".
      env: `MetaRG-v0` or `MetaRG-v1`.
      static: its params: `shots` and `samples`; and `max_values`.
      max_tokens: the longest reply.
      turned: whether a listener's answers stand in the other order.
    """
    shots, samples = static["shots"], static["samples"]
    caps = {"max_shots": shots, "max_samples": samples, "max_values": static["max_values"]}

    def play_one(
        about: Mapping[str, Any], key: jax.Array, model: InspectModel, folder: Path
    ) -> dict[str, Any]:
        del about
        options: Any = {"patience": RetryPolicy(attempts=1), "max_tokens": max_tokens}
        view = {} if role == "listener" else {"view": "players"}
        game: Any = make(env, **caps, **view)
        params = game.make_params(shots=shots, samples=samples)
        vec = VectorEnv(game, 1, resets="fresh", params=params)
        if role == "listener":
            settings = ListenerSettings(different_first=turned)
            played = play_listener(key, vec, model, folder, settings, **options)
        else:
            played = play_speaker(key, vec, model, folder, nearest_listener(game), **options)
        silent = {outcome: played.tally.counts[outcome] for outcome in SILENT}
        measures = {"accuracy": played.query.accuracy, "invalid": played.invalid, **silent}
        decisions = [list(played.query.same), list(played.query.different)]
        report = played.query.in_words()
        return {"measures": measures, "report": report, "about": {"decisions": decisions}}

    return play_samples(play_one)


@scorer(
    metrics=[
        {"accuracy": [mean(), stderr()], **{x: [mean()] for x in ("invalid", *SILENT)}},
        balanced_accuracy(),
        says_same(),
        always_same(),
    ]
)
def decisions() -> Any:
    """The decisions in the games of the second phase; see `measures.listening.Confusion`."""
    return score_stored(("accuracy", "invalid", *SILENT))


def _task(
    role: str,
    env: str,
    static: dict[str, int],
    episodes: int,
    seed: int,
    max_tokens: int,
    turned: bool = False,
) -> Task:
    check_choice("env", env, ("MetaRG-v0", "MetaRG-v1"))
    samples = [
        Sample(input=f"{env}, episode {n}", id=n + 1, metadata={"seed": seed + n})
        for n in range(episodes)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"referential_{role}"),
        solver=play(role, env, static, max_tokens, turned),
        scorer=decisions(),
    )


@task
def referential_listener(
    shots: int = 1,
    samples: int = 1,
    max_values: int = 5,
    episodes: int = 64,
    env: str = "MetaRG-v0",
    different_first: bool = False,
    max_tokens: int = 64,
    seed: int = 0,
) -> Task:
    """Table 4: the model listens to the rule-based speaker.

    Args:
      shots: S.
      samples: O.
      max_values: the most values of a dimension.
      episodes: of each seed.
      env: `MetaRG-v0`, the paper's, or `MetaRG-v1`, without its shortcuts.
      different_first: whether the answers stand in the other order.
      max_tokens: the longest reply.
      seed: of the first episode.

    Raises:
      ValueError: for another environment.
    """
    static = {"shots": shots, "samples": samples, "max_values": max_values}
    return _task("listener", env, static, episodes, seed, max_tokens, different_first)


@task
def referential_speaker(
    shots: int = 1,
    samples: int = 1,
    max_values: int = 5,
    episodes: int = 64,
    env: str = "MetaRG-v0",
    max_tokens: int = 256,
    seed: int = 0,
) -> Task:
    """Returns the model speaks, to a listener that decides by the nearest stimulus it was shown.

    Args:
      shots: see `referential_listener`, as for the rest.
      samples: likewise.
      max_values: likewise.
      episodes: likewise.
      env: likewise.
      max_tokens: likewise.
      seed: likewise.
    """
    static = {"shots": shots, "samples": samples, "max_values": max_values}
    return _task("speaker", env, static, episodes, seed, max_tokens)
