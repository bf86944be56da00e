"""Tests of agents on the same tasks and with the same noise."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.agents.acting import AgentCarry, optimal_agent, random_agent, within_trial
from gpicljax.agents.bandits import MOST_PULLS, gittins_bernoulli, thompson_bernoulli, ucb1
from gpicljax.agents.combinators import select_agent, with_params
from gpicljax.agents.tabular import REFERENCE, TUNED_Q_LEARNING, TabularHParams, q_learner
from gpicljax.environment import Environment
from gpicljax.envs.dark_room import DarkRoom
from gpicljax.envs.key_to_door import KeyToDoor
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.evaluation.tables import Row, RowKind
from gpicljax.interface import Agent, TimeStep
from gpicljax.llm.outcomes import ReplyTally
from gpicljax.networks.experience import trial_spaces
from gpicljax.rollout import Record, play, start_rollout
from gpicljax.runtime import fast_jit, named_key
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.in_context_rl.env import Tasks, is_bandit
from gpicljax.systems.in_context_rl.experts import PRESUMPTIONS, Presumptions, planner, sweep
from gpicljax.systems.in_context_rl.measures.trials import (
    TrialRecords,
    keep_trial_step,
    trial_records,
)
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.trial import Trial
from gpicljax.wrappers.with_optimal_actions import SolvedTask, WithOptimalActions
from gpicljax.wrappers.wrapper import innermost

CONDITIONS = {"": 0, "memory wiped": 1, "rewards hidden": 2, "another trial's context": 3}
"""Conditions of the tests of trained agents, each without one thing."""


class PlayedTrials(NamedTuple):
    """The N test trials of one agent.

    Attributes:
      trials: Rewards, actions and ends, step by step.
      best: `bool[N, A]`, the best actions at the start.
      task: `uint32[N]`, the same number for the same task; None if all are apart.
      means: float `[N, A]`, mean reward of each arm of a bandit; None for other tasks, and in the
        padded space of the mixture.
      usage: Requests and tokens of a language model; None for other agents.
      tally: Replies of a language model by outcome; None for other agents.
    """

    trials: TrialRecords
    best: Any
    task: Any = None
    means: Any = None
    usage: Any = None
    tally: ReplyTally | None = None


@dataclasses.dataclass(frozen=True)
class Contender:
    """An agent on one set of tasks, with the test trials of each of its seeds.

    Attributes:
      name: Name of the agent.
      kind: Kind of its row, as in `evaluation.tables.Row`.
      seeds: Test trials by training seed; one entry for an agent without training.
      condition: Key of `CONDITIONS`; "" for the whole agent.
    """

    name: str
    kind: RowKind
    seeds: Sequence[PlayedTrials]
    condition: str = ""

    @property
    def label(self) -> str:
        """The name in tables; learners are bold."""
        return Row(self.name, self.kind, condition=self.condition).label

    @property
    def full_name(self) -> str:
        """The name with its condition."""
        return f"{self.name}, {self.condition}" if self.condition else self.name


Contenders = Mapping[str, Contender]
"""The agents on one set of tasks, by full name."""


def learner_contender(name: str, condition: str, seeds: Sequence[PlayedTrials]) -> Contender:
    """Returns a trained agent, or the control that lacks what `condition` says."""
    return Contender(name, "control" if condition else "learner", seeds, condition)


def play_test_trials(
    key: jax.Array,
    env: Environment,
    env_params: ArrayTree,
    count: int,
    agent: Agent,
    params: ArrayTree,
) -> PlayedTrials:
    """Returns `count` trials of an agent, each on a task of its own."""
    limit = int(env.horizon(env_params))
    vec = single_trial_batch(env, count, limit, privileged=True)

    def stored_fields(record: Record) -> dict[str, Any]:
        return keep_trial_step(record) | {"best": record.timestep.privileged["optimal"]}

    start = start_rollout(key, vec, agent, env_params)
    steps = play(vec, agent, params, start, max_steps=limit, keep=stored_fields)
    first_best = steps.records["best"][:, 0, 0]
    task = start.vstate.task
    return PlayedTrials(
        trial_records(steps), first_best, _task_numbers(task), _arm_means(env, task)
    )


def _task_numbers(tasks: ArrayTree) -> jax.Array:
    """Returns a number of each task, `uint32[N]`, from all its bits."""
    inner = tasks.inner if isinstance(tasks, SolvedTask) else tasks
    number, rng = jnp.zeros(len(jax.tree.leaves(tasks)[0]), jnp.uint32), np.random.default_rng(0)
    for leaf in jax.tree.leaves(inner):
        floats = jnp.issubdtype(leaf.dtype, jnp.floating)
        bits = leaf.astype(jnp.float32).view(jnp.uint32) if floats else leaf.astype(jnp.uint32)
        rows = bits.reshape(len(number), -1)
        weights = rng.integers(1, 2**32, rows.shape[1], np.uint32) | 1
        number += (rows * weights).sum(1, dtype=jnp.uint32)
    return number


def _arm_means(env: Environment, tasks: SolvedTask) -> jax.Array | None:
    """Returns the mean reward of each arm of the bandits in trials; None for other tasks."""
    if not isinstance(env, Trial) or not is_bandit(env):
        return None
    solved = env.env
    assert isinstance(solved, WithOptimalActions)
    outcomes = jax.vmap(solved.env.transition_model)(tasks.inner)
    return (outcomes.chance * outcomes.reward).sum(-1)[:, 0]


def agent_tester(
    agent: Agent, env: Environment, replicas: int, seed: int
) -> Callable[..., PlayedTrials]:
    """Returns `(params, env_params, condition) -> PlayedTrials` of a trained agent."""

    def test(params: ArrayTree, env_params: ArrayTree, condition: jax.Array) -> PlayedTrials:
        impaired = _impair(agent, condition)
        return play_test_trials(
            named_key(seed, "tasks"), env, env_params, replicas, impaired, params
        )

    return test


def _impair(whole: Agent, condition: jax.Array) -> Agent:
    """Returns the agent without what a number of `CONDITIONS` (traced) names."""

    def act(keys: jax.Array, params: ArrayTree, carry: AgentCarry, timestep: TimeStep) -> Any:
        observation, own_timestep = timestep.observation, timestep
        start = timestep.trial_start | (condition == 1)
        reward = jnp.where(condition == 2, 0, timestep.reward)
        context = observation, reward, carry.last_action
        shifted = jax.tree.map(lambda x: jnp.where(condition == 3, jnp.roll(x, 1, 0), x), context)
        # The agent's own situation and permitted actions stay.
        kept_entries = {
            name: observation[name]
            for name in ("now", "elapsed", "action_mask")
            if name in observation
        }
        timestep = own_timestep._replace(
            observation=shifted[0] | kept_entries, reward=shifted[1], trial_start=start
        )
        return whole.act(keys, params, carry._replace(last_action=shifted[2]), timestep)

    return Agent(whole.initial_carry, act)


# Agents that are not trained ---------------------------------------------------------------------


def _rules(env: Trial, with_learners: bool) -> dict[str, tuple[Agent, Any]]:
    """Returns agents by name, with their parameters; at least those that scores are scaled by."""
    rules: dict[str, tuple[Agent, Any]] = {
        "random": (random_agent(env), ()),
        "oracle": (optimal_agent(), ()),
    }
    if not with_learners:
        return rules
    situations, space = env.env.observation_space(), env.action_space()
    table = within_trial(q_learner(situations, space))
    reference = within_trial(q_learner(situations, space, variant="reference"))
    rules |= {
        "Q-learning, reference": (reference, REFERENCE),
        "Q-learning, textbook": (table, TabularHParams()),
        "Q-learning, tuned": (table, TUNED_Q_LEARNING),
    }
    room = innermost(env)
    if isinstance(room, DarkRoom | KeyToDoor):
        horizon = int(room.default_params.horizon)
        rules["sweep"] = sweep(room.size, horizon, isinstance(room, KeyToDoor)), ()
    if isinstance(situations, spaces.Discrete) and not is_bandit(env):
        sizes = trial_spaces(env.observation_space(), space)
        rules["planner"] = planner(*sizes, PRESUMPTIONS.get(room.name, Presumptions())), ()
    if is_bandit(env) and env.actions <= MOST_PULLS:
        rules["Gittins index"] = within_trial(gittins_bernoulli(space, env.actions)), ()
    if is_bandit(env):
        rules |= {
            "UCB1, textbook": (within_trial(ucb1(space)), ()),
            "UCB1, tuned (0.2)": (within_trial(ucb1(space, 0.2)), ()),
            "Thompson sampling": (within_trial(thompson_bernoulli(space)), ()),
        }
    return rules


def learning_source(env: Environment, searches: bool = False) -> tuple[str, Agent]:
    """Returns a learner to imitate, with its name: on bandits the strongest rule.

    Elsewhere it is tuned Q-learning, whose histories Algorithm Distillation imitates; or, of those
    that search or plan, the strongest.
    """
    assert isinstance(env, Trial)
    rules = _rules(env, with_learners=True)
    programs = ("sweep", "planner") if searches else ()
    names = "Gittins index", "UCB1, tuned (0.2)", *programs, "Q-learning, tuned"
    name = next(name for name in names if name in rules)
    return name, with_params(*rules[name])


@functools.cache
def _rules_program(env: Trial, names: tuple[str, ...], replicas: int, seed: int) -> Any:
    """Returns `(env_params, number of the rule) -> PlayedTrials`, one program for all rules."""
    rules = _rules(env, with_learners=True)
    agents = [with_params(*rules[name]) for name in names]

    def test(env_params: ArrayTree, number: jax.Array) -> PlayedTrials:
        agent = select_agent(agents, number)
        return play_test_trials(named_key(seed, "tasks"), env, env_params, replicas, agent, ())

    return within_memory(fast_jit(test), f"{replicas:,} trials of rules")


_RULE_KINDS: Mapping[str, RowKind] = {"oracle": "oracle", "Q-learning, reference": "control"}
"""Kinds of agents without training that are no ordinary rules; the reference plays at random."""


def play_rules(
    task_set: Tasks, actions: int, replicas: int, seed: int, with_learners: bool = True
) -> dict[str, Contender]:
    """Returns the trials of agents without training: bandit rules, tables, random play, oracle."""
    env, params = task_set.trials(actions)
    assert isinstance(env, Trial)
    contenders, names = {}, list(_rules(env, with_learners))
    # Each takes longer than all others together.
    slow = [name for name in names if name in ("Thompson sampling", "planner")]
    for group in ([name for name in names if name not in slow], *([name] for name in slow)):
        for number, name in enumerate(group):
            program = _rules_program(env, tuple(group), replicas, seed)
            trials = jax.device_get(program(params, jnp.int32(number)))
            contenders[name] = Contender(name, _RULE_KINDS.get(name, "rule"), [trials])
    return contenders
