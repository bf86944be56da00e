"""Ways to train agents that learn within trials: methods, memories, temperatures and teachers."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from gpicljax import agents
from gpicljax.agents.acting import optimal_agent
from gpicljax.agents.bandits import gittins_bernoulli
from gpicljax.agents.symbol_lessons import StreamTask
from gpicljax.batching import select
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.systems.in_context_rl.env import Family, family_tasks, training_trials
from gpicljax.systems.in_context_rl.measures.playing import learning_source
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.task_mixture import TaskMixture
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.wrapper import Wrapper

Learner = Literal[
    "dpt",
    "dpt-attention",
    "dpt-planning",
    "ad",
    "ad-tables",
    "clone",
    "clone-planning",
    "rl2",
    "rl2-lstm",
    "rl2-events",
    "rl2-planning",
    "r2d2-events",
]
MEMORIES: dict[Learner, str] = {
    "dpt": "tables",
    "dpt-attention": "transformer",
    "dpt-planning": "planning",
    "ad": "transformer",
    "ad-tables": "tables",
    "clone": "tables",
    "clone-planning": "planning",
    "rl2": "tables",
    "rl2-lstm": "lstm",
    "rl2-events": "events",
    "rl2-planning": "planning",
    "r2d2-events": "events",
}
METHODS = {"dpt": "DPT", "ad": "AD", "clone": "cloning", "rl2": "PPO", "r2d2": "R2D2"}
TEMPERATURES: dict[Family, float] = {
    "lakes": 0.0,
    "lakes-anywhere": 1.0,
    "lakes-slippery": 0.3,
    "cliffs": 0.0,
    "two-arms": 0.5,
    "ten-arms": 0.5,
    "dark-room": 0.6,
    "key-to-door": 1.0,
    "any-mdp": 0.3,
    "mixture": 0.45,
}
"""Temperatures of trained policies: the best of some on training tasks, on average over families
(mixture) or learners (dark rooms, keys and doors, random processes); of bandits and cliffs alone,
set beforehand."""


agents.register_algorithm(
    agents.algorithm_from_agent(
        "told-what-is-best", lambda _, env: optimal_agent(), privileged=True
    )
)
agents.register_algorithm(
    agents.algorithm_from_agent("source", lambda _, env: learning_source(env)[1])
)


def _index_or_best(env: Environment) -> Agent:
    """Returns the teacher of all families: on bandits the Gittins index, elsewhere an oracle."""
    trials = env
    while not isinstance(trials, Trial):
        assert isinstance(trials, TaskMixture | Wrapper)
        trials = trials.envs[0] if isinstance(trials, TaskMixture) else trials.env
    best, index = optimal_agent(), gittins_bernoulli(env.action_space(), trials.actions)

    def act(keys: jax.Array, params: ArrayTree, carry: Any, timestep: TimeStep) -> Any:
        label, told, _ = best.act(keys, params, (), timestep)
        arm, aux, carry = index.act(keys, params, carry, timestep)
        scores = jnp.where(timestep.observation["action_mask"], aux["scores"], -jnp.inf)
        highest = scores == scores.max(-1, keepdims=True)
        is_bandit = timestep.privileged["situations"] == 1
        shares = select(is_bandit, highest / highest.sum(-1, keepdims=True), told["shares"])
        return jnp.where(is_bandit, arm, label), {"shares": shares}, carry

    return index._replace(act=act)


agents.register_algorithm(
    agents.algorithm_from_agent(
        "index-or-best", lambda _, env: _index_or_best(env), privileged=True
    )
)
agents.register_algorithm(
    agents.algorithm_from_agent("program", lambda _, env: learning_source(env, searches=True)[1])
)


def stream_task(family: Family, actions: int) -> StreamTask:
    """Returns the trials of a family to be written as symbols; its strongest program teaches."""
    env, params = training_trials(family, actions)
    tests = family_tasks(family, held_out=True).trials(actions)
    name, teacher = learning_source(env, searches=True)
    # What a teacher was not told cannot be replaced.
    exploration = 0.0 if teacher.record_action is None else 0.2
    nulls, oracle = {name: teacher}, (optimal_agent(), "knows the task")
    plays_own = family in ("lakes", "dark-room", "key-to-door")
    about = (teacher, actions, "reward per action", nulls, oracle, exploration, plays_own)
    return StreamTask(env, params, *tests, *about)
