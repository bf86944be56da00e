"""Decisions of experts, for language models to be shown before a trial.

Source: the idea, of Nie et al. (2024), "EVOLvE: evaluating and optimizing LLMs for exploration"
(arXiv 2410.06238): an optimal explorer's decisions as examples in the context.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from gpicljax import spaces
from gpicljax.agents.acting import optimal_agent, within_trial
from gpicljax.agents.bandits import ucb1
from gpicljax.checks import check_at_least
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.rollout import play, start_rollout
from gpicljax.systems.in_context_rl.prompts.session import Decision
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.trial import Trial

EXPLORATION = 0.2
"""UCB1's, tuned: the source's 2 explores too long for trials of a few hundred pulls."""


def expert_decisions(
    key: jax.Array, env: Trial, params: ArrayTree, trials: int
) -> list[list[Decision]]:
    """Returns all decisions of an expert in so many trials, each on a task of its own.

    On bandits the expert is UCB1, which has to explore as a model has to; elsewhere it knows the
    task and takes the best actions.

    Args:
      key: a typed key: tasks and noise follow from it.
      env: trials of solved tasks: `Trial(WithOptimalActions(env), actions)`.
      params: of the tasks.
      trials: number of trials.

    Raises:
      ValueError: for numbers below 1.
    """
    check_at_least(1, trials=trials)
    space, limit = env.action_space(), int(env.horizon(params))
    bandit = env.env.observation_space() == spaces.Discrete(1)
    agent = within_trial(ucb1(space, EXPLORATION)) if bandit else optimal_agent()
    vec = single_trial_batch(env, trials, limit, params=params, privileged=True)

    def stored_decision(record: Any) -> Decision:
        observation, after = record.timestep.observation, record.next_timestep
        ended = after.observation["terminated"] | after.observation["truncated"]
        reached, next_situation = after.observation["reached"], after.observation["now"]
        return Decision(
            observation["now"], record.action, reached, after.reward, ended, next_situation
        )

    def play_expert(key: jax.Array) -> Decision:
        start = start_rollout(key, vec, agent, params)
        return play(vec, agent, (), start, max_steps=limit, keep=stored_decision).records

    records = jax.tree.map(np.asarray, jax.device_get(jax.jit(play_expert)(key)))

    def decision(trial: int, step: int) -> Decision:
        decision = jax.tree.map(lambda x: x[trial, 0, step], records)
        return decision._replace(reward=float(decision.reward), ended=bool(decision.ended))

    return [[decision(trial, step) for step in range(limit)] for trial in range(trials)]
