"""The in-context RL evaluation as a task of Inspect AI.

```bash
pip install "gpicljax[llm]"
inspect eval gpicljax/in_context_rl --model openai/gpt-4o-mini -T actions=50
```

A sample is one trial of one environment. Inspect asks the model, counts, caches and logs; the trial
is played by `play_trials`. Random play and an oracle play the same tasks beside it, so that the
normalised score is that of the study's table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.agents.acting import optimal_agent, random_agent
from gpicljax.checks import check_choice, missing
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.inspect_model import InspectModel, by_group, play_samples, score_stored
from gpicljax.llm.outcomes import SILENT
from gpicljax.llm.prompts import PromptSettings
from gpicljax.registration import make
from gpicljax.rollout import play, start_rollout
from gpicljax.runtime import fast_jit
from gpicljax.spaces import Discrete
from gpicljax.systems.in_context_rl.env import ENDS_ARE_GOALS
from gpicljax.systems.in_context_rl.measures.trials import (
    keep_trial_step,
    measure_trials,
    regrets,
    scaled_score,
    summarise_measures,
    trial_records,
    trial_values,
)
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import WithOptimalActions

# pyright: reportMissingImports=false
try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Metric, SampleScore, Value, grouped, metric, scorer
    from inspect_ai.solver import Solver, solver
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "FrozenLake-v1": {"is_slippery": False},
    "CliffWalking-v1": {},
    "BanditTwoArmedHighLowFixed-v0": {},
    "BanditTenArmedRandomFixed-v0": {},
}
"""The evaluation's four, with their options."""
_MEASURES = (
    "average_episode_reward",
    "total_return",
    "total_steps",
    "last_5",
    "last_10",
    "last_20",
    "last_50",
    "invalid_response_rate",
    "regret",
    *SILENT,
)
_SCALED = ("earned", "random", "oracle")


@functools.cache
def _reference_players(env: Environment, actions: int) -> Callable[[jax.Array], Any] | None:
    """Returns `key -> (trials, trials)` of random play and an oracle; None without an oracle."""
    if not env.has_transition_model:
        return None
    solved = Trial(WithOptimalActions(env, actions=actions), actions)
    vec = single_trial_batch(solved, 1, actions, privileged=True)

    def play_references(key: jax.Array) -> Any:
        trials = []
        for agent in (random_agent(solved), optimal_agent()):
            start = start_rollout(key, vec, agent)
            steps = play(vec, agent, (), start, max_steps=actions, keep=keep_trial_step)
            trials.append(trial_records(steps))
        return tuple(trials)

    return fast_jit(play_references)


def _measure_trial(env_id: str, env: Environment, trials: Any, references: Any) -> dict[str, float]:
    """Returns all measures of one trial, by name; NaN where there is none."""
    space = env.action_space()
    number = space.n if isinstance(space, Discrete) else None
    measures = {
        name: interval.mean
        for name, interval in summarise_measures(measure_trials(trials, num_actions=number)).items()
    }
    if references is None:
        return measures
    random, oracle = references
    goals, worst = env_id in ENDS_ARE_GOALS, min(0.0, float(np.min(random.rewards)))
    players = {"earned": trials, "random": random, "oracle": oracle}
    measures |= {name: float(trial_values(x, goals, worst)[0]) for name, x in players.items()}
    if np.any(random.regret):
        best = np.asarray(measure_trials(oracle).reward_per_step)
        measures["regret"] = float(regrets(trials, best)[0])
    return measures


@solver
def play_trial(settings: PromptSettings, actions: int, max_tokens: int) -> Solver:
    """Plays the sample's trial; its measures are kept in the sample's store.

    Random play and an oracle play the same task, with the same noise.
    """

    def play_one(
        about: Mapping[str, Any], key: jax.Array, model: InspectModel, folder: Path
    ) -> dict[str, Any]:
        env = make(about["env"], **about["options"])
        vec = single_trial_batch(Trial(env, actions), 1, actions)
        once = RetryPolicy(attempts=1)
        result = play_trials(
            key, vec, model, folder, settings, patience=once, max_tokens=max_tokens
        )
        play_references = _reference_players(env, actions)
        references = None if play_references is None else jax.device_get(play_references(key))
        measures = _measure_trial(about["env"], env, result.trials, references)
        measures |= {outcome: result.tally.share(outcome) for outcome in SILENT}
        return {"measures": measures, "report": result.in_words()}

    return play_samples(play_one)


@scorer(metrics={"*": by_group("env")})
def trial_measures() -> Any:
    """Returns the scorer of the trial's measures; see
    `systems.in_context_rl.measures.TrialMeasures`.

    Beside these, the regret of bandits.
    """
    return score_stored(_MEASURES)


@metric
def normalised_metric() -> Metric:
    """Returns the score of the study's table: random play is 0, an oracle 1, on the same tasks."""

    def ratio(scores: list[SampleScore]) -> Value:
        values_by_trial = [score.score.as_dict() for score in scores]
        values = [np.asarray([float(x[name]) for x in values_by_trial]) for name in _SCALED]  # type: ignore[arg-type]
        return scaled_score(*values).mean if values_by_trial else float("nan")

    return ratio


@scorer(metrics=[grouped(normalised_metric(), "env", all=False)])
def score() -> Any:
    """Returns the scorer of a trial's value, beside random play and an oracle on the same task."""
    return score_stored(_SCALED)


@task
def in_context_rl(
    actions: int = 200,
    trials: int = 1,
    explanations: bool = True,
    history: str = "full",
    wording: str = "own",
    max_tokens: int = 512,
    seed: int = 0,
    env: str | None = None,
) -> Task:
    """Returns the evaluation's four environments, or one: so many trials of each.

    Args:
      actions: of a trial.
      trials: of every environment, with tasks of their own.
      explanations: whether the model is told what the task is.
      history: "full" or "summary".
      wording: "own" or "paper", the reference's.
      max_tokens: the longest reply.
      seed: of all tasks.
      env: the id of one environment; all four if None.
    """
    check_choice("wording", wording, ("own", "paper"))
    if wording == "paper":  # as the reference tells and reads a trial
        settings = PromptSettings(
            explanations, wording="paper", parsing="strict", permute_arms=False
        )
    else:
        settings = PromptSettings(explanations=explanations, history=history)  # type: ignore[arg-type]
    chosen = ENVIRONMENTS if env is None else {env: ENVIRONMENTS.get(env, {})}
    samples = [
        Sample(
            input=f"{name}, trial {number}",
            id=f"{name}-{number}",
            metadata={"env": name, "options": options, "seed": seed + number},
        )
        for name, options in chosen.items()
        for number in range(trials)
    ]
    return Task(
        dataset=MemoryDataset(samples, name="in_context_rl"),
        solver=play_trial(settings, actions, max_tokens),
        scorer=[trial_measures(), score()],
    )
