"""The in-context RL evaluation as a task of Inspect AI.

```bash
pip install "gpicljax[llm]"
inspect eval gpicljax/in_context_rl --model openai/gpt-4o-mini -T actions=50
```

A sample is one trial of one environment. Inspect asks the model, counts, caches and logs; the trial
is played by `play_trials`.
"""

from __future__ import annotations

import math
from typing import Any

import jax

from gpicljax.checks import missing
from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.inspect_model import by_group, with_model
from gpicljax.llm.prompts import PromptSettings
from gpicljax.registration import make
from gpicljax.spaces import Discrete
from gpicljax.systems.in_context_rl.measures import measure_trials, summary
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.vector import VectorEnv
from gpicljax.wrappers.trial import Trial

try:
    from inspect_ai import Task, task  # pyright: ignore[reportMissingImports]
    from inspect_ai.dataset import (  # pyright: ignore[reportMissingImports]
        MemoryDataset,
        Sample,
    )
    from inspect_ai.scorer import (  # pyright: ignore[reportMissingImports]
        Score,
        Target,
        scorer,
    )
    from inspect_ai.solver import (  # pyright: ignore[reportMissingImports]
        Generate,
        Solver,
        TaskState,
        solver,
    )
except ModuleNotFoundError as error:
    raise missing("inspect_ai", "llm") from error


ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "FrozenLake-v1": {"is_slippery": False},
    "CliffWalking-v1": {},
    "BanditTwoArmedHighLowFixed-v0": {},
    "BanditTenArmedRandomFixed-v0": {},
}
"""The evaluation's four, with their options."""
_SCORES = ("average_episode_reward", "total_return", "total_steps", "invalid_response_rate")


@solver
def play(settings: PromptSettings, actions: int, max_tokens: int) -> Solver:
    """Plays the sample's trial; its measures are kept in the sample's store.

    Args:
      settings: how trials are told.
      actions: of a trial.
      max_tokens: the longest reply.

    Example:
      >>> solver = play(PromptSettings(), actions=50, max_tokens=256)
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate
        about = state.metadata
        env = Trial(make(about["env"], **about["options"]), actions)
        space = env.action_space()
        vec = VectorEnv(env, 1, resets="fresh")
        key = jax.random.fold_in(jax.random.key(about["seed"]), state.epoch)
        result, state.messages = await with_model(
            lambda model, folder: play_trials(
                key,
                vec,
                model,
                folder,
                settings,
                patience=RetryPolicy(attempts=1),
                max_tokens=max_tokens,
            )
        )
        number = space.n if isinstance(space, Discrete) else None
        found = summary(measure_trials(result.trials, num_actions=number))
        state.store.set("measures", {name: interval.mean for name, interval in found.items()})
        state.store.set("report", result.in_words())
        return state

    return solve


@scorer(metrics={"*": by_group("env")})
def trial_measures() -> Any:
    """What the trial came to, by name; see `systems.in_context_rl.measures.TrialMeasures`."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        measures = state.store.get("measures", {})
        values: Any = {name: float(measures.get(name, math.nan)) for name in _SCORES}
        return Score(value=values, explanation=state.store.get("report", "no trial"))

    return score


@task
def in_context_rl(
    actions: int = 200,
    trials: int = 1,
    explanations: bool = True,
    history: str = "full",
    max_tokens: int = 512,
    seed: int = 0,
    env: str | None = None,
) -> Task:
    """The evaluation's four environments, or one: so many trials of each.

    Args:
      actions: of a trial.
      trials: of every environment, with tasks of their own.
      explanations: whether the model is told what the task is.
      history: "full" or "summary".
      max_tokens: the longest reply.
      seed: of all tasks.
      env: the id of one environment; all four if None.
    """
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
        solver=play(settings, actions, max_tokens),
        scorer=trial_measures(),
    )
