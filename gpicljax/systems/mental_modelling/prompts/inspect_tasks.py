"""Mental modelling as a task of Inspect AI.

```bash
pip install "gpicljax[llm]"
gpicljax run mental_modelling collect --tasks MountainCar-v0
inspect eval gpicljax/mental_modelling --model openai/gpt-4o-mini -T history=5
```

A sample is one question about one step of an agent's episode, as `ask_questions` asks it. Beside
what the model answers stands what copying the last action, or the last change, would have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpicljax.checks import check, missing, refusal
from gpicljax.llm.inspect_model import as_messages, by_group
from gpicljax.llm.outcomes import SILENT, outcome_of
from gpicljax.storage.reading import visible_files
from gpicljax.systems.mental_modelling.data.episodes import Episodes, join_episodes, take_episodes
from gpicljax.systems.mental_modelling.data.stored import load_episodes
from gpicljax.systems.mental_modelling.measures.baselines import baseline_answers
from gpicljax.systems.mental_modelling.measures.questions import (
    QUESTIONS,
    Queries,
    Question,
    build_queries,
    pick_queries,
    take_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import answers_of, score_answers
from gpicljax.systems.mental_modelling.prompts.questions import (
    QuestionSettings,
    answer_in,
    question_messages,
)

# pyright: reportMissingImports=false
try:
    from inspect_ai import Task, task
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import GenerateConfig
    from inspect_ai.scorer import Score, Target, scorer
    from inspect_ai.solver import TaskState, generate
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error

_COPYING = ("copy last", "same change")


class NoDataError(PrerequisiteError, ValueError):
    """There are no episodes to ask about; Inspect prints the message alone."""


@scorer(metrics={"*": by_group("asked")})
def right_answers(queries: list[Queries], settings: QuestionSettings) -> Any:
    """Returns the scorer: whether an answer could be read, is right, and whether copying is.

    Args:
      queries: one for each sample, numbered by its metadata `number`.
      settings: settings of the questions.
    """

    async def score_sample(state: TaskState, target: Target) -> Score:
        del target
        query = queries[state.metadata["number"]]
        answer = answer_in(state.output.completion, query, settings)
        score = score_answers(query, answers_of(query, [answer]))
        values: Any = {"accuracy": score.accuracy, "parsed": float(answer is not None)}
        outcome = outcome_of(str(state.output.stop_reason), answer is not None)
        values |= {name: float(outcome == name) for name in SILENT}
        values["copying"] = state.metadata["copying"]
        return Score(value=values, answer="" if answer is None else str(answer))

    return score_sample


def _folders_by_task(data: str, env: str | None) -> dict[str, list[Path]]:
    folders: dict[str, list[Path]] = {}
    for card in visible_files(Path(data), "*/*/episodes.json"):
        folders.setdefault(card.parent.parent.name, []).append(card.parent)
    if not folders:
        expected = "a folder that `gpicljax run mental_modelling collect` wrote"
        raise NoDataError(refusal("data", data, expected))
    check(env is None or env in folders, "env", env, ", ".join(folders))
    return folders if env is None else {env: folders[env]}


def _select_agents(episodes: Episodes, agents: str) -> Episodes:
    """Returns the episodes of agents whose names have all of these words; all, where none has."""
    is_chosen = np.array([set(agents.split()) <= set(name.split()) for name in episodes.agents])
    return take_episodes(episodes, is_chosen) if is_chosen.any() else episodes


def _queries(
    episodes: Episodes, questions: list[Question], history: int, count: int, seed: int
) -> Iterator[Queries]:
    is_long = episodes.length > history + 2
    check(bool(is_long.any()), "history", history, f"up to {episodes.length.max() - 3}")
    for question in questions:
        question_queries = build_queries(
            take_episodes(episodes, is_long), question, history=history, seed=seed
        )
        yield pick_queries(question_queries, count, seed)


@task
def mental_modelling(
    data: str = "runs/mental_modelling_data/quick",
    env: str | None = None,
    question: str | None = None,
    history: int = 5,
    queries: int = 20,
    agents: str = "expert 0",
    indexed: bool = True,
    dynamics: bool = True,
    instructions: bool = True,
    reasons: bool = True,
    wording: str = "own",
    max_tokens: int = 512,
    seed: int = 0,
) -> Task:
    """Returns questions about agents' episodes: so many of each kind, in each task.

    Args:
      data: folder of episodes.
      env: the id of one task; all that the folder has if None.
      question: one of `next_action`, `last_action`, `next_state`, `last_state`, `argue`; all if
        None.
      history: steps that are told.
      queries: of each question in each task.
      agents: words that their names have; all agents of a task where no name has them.
      indexed: see `QuestionSettings`, as for the next four.
      dynamics: likewise.
      instructions: likewise.
      reasons: likewise.
      wording: likewise.
      max_tokens: the longest reply.
      seed: of which queries are drawn.

    Raises:
      ValueError: for a folder without episodes, and what is unknown.
      SavedError: for damaged episodes.
    """
    expected = ", ".join(QUESTIONS)
    check(question is None or question in QUESTIONS, "question", question, expected)
    settings = QuestionSettings(indexed, dynamics, instructions, reasons, wording)  # type: ignore[arg-type]
    questions: list[Question] = [kind for kind in QUESTIONS if question in (None, kind)]
    single_queries: list[Queries] = []
    samples: list[Sample] = []
    for name, folders in _folders_by_task(data, env).items():
        episodes = _select_agents(join_episodes(*map(load_episodes, folders)), agents)
        for question_queries in _queries(episodes, questions, history, queries, seed):
            rules = baseline_answers(question_queries)
            best_copy = max(
                (
                    score_answers(question_queries, rules[rule])
                    for rule in _COPYING
                    if rule in rules
                ),
                key=lambda found: found.accuracy,
            )
            for n in range(len(question_queries.truth)):
                about = {
                    "asked": f"{name}, {question_queries.question}",
                    "number": len(single_queries),
                }
                about |= {
                    "episode": int(question_queries.episode[n]),
                    "step": int(question_queries.step[n]),
                }
                samples.append(
                    Sample(
                        input=as_messages(question_messages(question_queries, n, settings)),
                        target=str(question_queries.truth[n].tolist()),
                        id=f"{name}-{question_queries.question}-{n}",
                        metadata=about | {"copying": float(best_copy.right[n])},
                    )
                )
                single_queries.append(take_queries(question_queries, np.array([n])))
    return Task(
        dataset=MemoryDataset(samples, name="mental_modelling"),
        solver=generate(),
        scorer=right_answers(single_queries, settings),
        config=GenerateConfig(max_tokens=max_tokens),
    )
