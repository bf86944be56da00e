"""Agents that learn within a trial, beside agents that know how to and one that knows it all.

    python experiments/incontext_rl.py --family ten-arms
    python experiments/incontext_rl.py --family lakes --learner rl2 --preset full
    python experiments/incontext_rl.py --agents ten-arms:dpt lakes:dpt lakes:rl2

Each trains one learner on one family of tasks and tests it, with frozen weights, on tasks it has
never seen: 200 actions each, whatever episodes they make up. On the same tasks, with the same
noise, act random play, tabular Q-learning, bandit rules and an oracle; scores are scaled so that
random play is 0 and the oracle 1. With `--agents` what is missing is trained, and one table has
them all.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from incontext_rl_settings import PRESETS, Config, named_lakes, tasks
from reports.incontext_rl import Tested, joint_table, report

from gpicljax.agents import cloning, ppo
from gpicljax.agents.acting import (
    agent_input,
    initial_memory,
    oracle_agent,
    policy_agent,
    random_agent,
    within_trial,
)
from gpicljax.agents.bandits import thompson_bernoulli, ucb1
from gpicljax.agents.tabular import REFERENCE, TUNED, TabularHParams, q_learner
from gpicljax.evaluation.in_context_rl import recorded, step_of
from gpicljax.interface import Agent, Trainer
from gpicljax.networks.actor_critic import RecurrentActorCritic
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.experience import ExperienceSettings, experience_network
from gpicljax.networks.memories import MemorySettings
from gpicljax.rollout import play, start_rollout
from gpicljax.runtime import (
    FAST_COMPILE,
    Measure,
    Outcome,
    Probe,
    Program,
    run_experiment,
    stream,
)
from gpicljax.runtime.config_json import from_json
from gpicljax.storage.array_folder import named, read_folder, restore, write_folder
from gpicljax.trials import Trial
from gpicljax.vector import VectorEnv

CONDITIONS = {"": 0, "memory wiped": 1, "rewards hidden": 2, "another trial's context": 3}
"""What the trained agent is tested without."""


def build(config: Config) -> Program:
    """Wires tasks, network and trainer together."""
    env, params = tasks(config.family, held_out=False).trials(config.actions)
    vec = VectorEnv(env, config.num_envs, resets="fresh", params=params, privileged=True)
    network = _network(config, env)
    trainer, hparams = _trainer(config, vec, network)
    told = {"": tasks(config.family, held_out=True)}
    told |= named_lakes() if config.family.startswith("lakes") else {}
    functions = {
        name: tester(config, each.trials(config.actions), network) for name, each in told.items()
    }

    def on_training_tasks(key: jax.Array, params: Any, cell: Any, temperature: Any) -> Any:
        del cell
        agent = policy_agent(network, env.action_space(), temperature)
        return played(key, config, (env, vec.params), 256, agent, _weights(params)).trials.rewards

    return Program(
        title=f"{config.learner} on {config.family}",
        details={"temperature": f"{config.sharpness:g}"},
        init=lambda key, cell: trainer.init(key, hparams),
        update=trainer.update,
        observations=trainer.observations,
        measures={
            _joined(name, condition): Measure(function, (config.sharpness, number))
            for name, function in functions.items()
            for condition, number in CONDITIONS.items()
            if not (name and condition)
        },
        baselines=lambda: {
            name: rules(config, each.trials(config.actions), scale_only=bool(name))
            for name, each in told.items()
        },
        probe=Probe(
            Measure(on_training_tasks, (config.sharpness,)),
            lambda rewards: {"return": rewards.sum(-1).mean(-1)},
        ),
        key_metric="return",
        save=lambda folder, cell, **about: save_trained(folder, config, **about),
    )


def _joined(*names: str) -> str:
    return ", ".join(name for name in names if name) or "trained"


def _weights(params: Any) -> Any:
    return params.network if isinstance(params, ppo.Params) else params


def _network(config: Config, env: Trial) -> Network:
    seen, actions = env.observation_space(), env.action_space()
    if config.learner in ("dpt", "rl2"):
        return experience_network(seen, actions, config.network)
    kinds = {"rl2-lstm": "lstm", "rl2-events": "events"}
    settings = dataclasses.replace(config.memory, memory=kinds.get(config.learner, "transformer"))
    if settings.memory == "transformer":
        settings = MemorySettings("transformer", (64, 64), heads=4, window=config.actions + 1)
    module = RecurrentActorCritic(seen, actions, (128,), *settings.make(seen, actions))
    return as_network(module)


def _trainer(config: Config, vec: VectorEnv, network: Network) -> tuple[Trainer, Any]:
    """The trainer, and its hyper-parameters for the length of the run."""
    unroll = config.actions + 1
    if config.learner.startswith("rl2"):
        sizes = ppo.PPOConfig(
            unroll,
            epochs=2,
            minibatches=config.minibatches,
            normalise_rewards=True,
            whole_trials=True,
        )
        trainer, hparams = ppo.make(sizes, vec, network), config.ppo
        steps = config.updates(trainer.observations)
        return trainer, dataclasses.replace(hparams, decay_updates=steps)
    hparams, teacher = config.cloning, oracle_agent(vec.env)
    if config.learner == "ad":
        # The learning histories of what learns within a trial, imitated while it acts.
        hparams = dataclasses.replace(hparams, teacher_share=1.0)
        space = vec.env.action_space()
        teacher = within_trial(ucb1(space, 0.2))
        if config.family.startswith("lakes"):
            assert isinstance(vec.env, Trial)
            learner = q_learner(vec.env.env.observation_space(), space)
            teacher = within_trial(
                Agent(
                    learner.initial_carry,
                    lambda keys, _, carry, seen: learner.act(keys, TUNED, carry, seen),
                )
            )
    sizes = cloning.CloningConfig(unroll, minibatches=config.minibatches, whole_trials=True)
    trainer = cloning.make(sizes, vec, network, teacher)
    updates = config.updates(trainer.observations)
    return trainer, dataclasses.replace(hparams, decay_updates=updates)


# Trained agents on disk --------------------------------------------------------------------------

_CARD, _FORMAT = "agent.json", 1
_TOLD = "family", "learner", "actions", "temperature"


def save_trained(folder: Path, config: Config, *, params: Any, **about: Any) -> None:
    """Writes a trained agent: its weights, and what they are to be read with."""
    card = {
        **{name: getattr(config, name) for name in _TOLD},
        "temperature": config.sharpness,
        "network": dataclasses.asdict(config.network),
        "memory": dataclasses.asdict(config.memory),
    }
    arrays = named("params", _weights(params))
    write_folder(Path(folder), _CARD, {"format": _FORMAT, **card, **about}, arrays)


def load_trained(folder: str | Path) -> tuple[Agent, Any, Trial]:
    """A trained agent, its parameters, and the whole trials that it is for.

    Raises:
      SavedError: for a folder without one, or a damaged one.
    """
    folder = Path(folder)
    card, arrays = read_folder(folder, _CARD, _FORMAT, "trained agent")
    config = Config(
        **{name: card[name] for name in _TOLD},
        network=from_json(ExperienceSettings, card["network"]),
        memory=from_json(MemorySettings, card["memory"]),
    )
    env, params = tasks(config.family, held_out=True).trials(config.actions)
    network, space = _network(config, env), env.action_space()
    vec = VectorEnv(env, 1, resets="fresh", params=params)

    def begin(key: jax.Array) -> Any:
        timestep = vec.init(key)[1]
        inputs = agent_input(space, initial_memory(network, space, 1), timestep)
        return network.init(key, inputs)

    like = jax.eval_shape(begin, jax.random.key(0))
    weights = restore(folder, arrays, "params", like)
    return policy_agent(network, space, config.sharpness), weights, env


# Testing -----------------------------------------------------------------------------------------


def played(
    key: jax.Array, config: Config, trials: tuple[Trial, Any], count: int, agent: Agent, params: Any
) -> Tested:
    """So many trials of an agent; for one key, all agents get the same tasks and noise."""
    env, env_params = trials
    limit = config.actions
    vec = VectorEnv(
        env,
        count,
        resets="synchronous",
        steps_per_trial=limit + 1,
        params=env_params,
        privileged=True,
    )

    def keep(record: Any) -> dict[str, Any]:
        after = record.next_timestep
        best = record.timestep.privileged["optimal"]
        regret = after.info.get("regret", jnp.zeros_like(after.reward))
        return step_of(record) | {"best": best, "regret": regret}

    start = start_rollout(key, vec, agent)
    steps = play(vec, agent, params, start, max_steps=limit, keep=keep)
    first_best = steps.records["best"][:, 0, 0]
    return Tested(recorded(steps), steps.records["regret"][:, 0].sum(-1), first_best)


def tester(config: Config, trials: tuple[Trial, Any], network: Network) -> Any:
    """The function that tests a trained agent, whole or without something."""
    space = trials[0].action_space()

    def test(key: jax.Array, params: Any, cell: Any, temperature: Any, without: Any) -> Tested:
        del key, cell  # the same tasks for everybody
        whole = policy_agent(network, space, temperature)

        def act(keys: jax.Array, params: Any, carry: Any, timestep: Any) -> Any:
            seen, own = timestep.observation, timestep
            start = timestep.trial_start | (without == 1)
            reward = jnp.where(without == 2, 0, timestep.reward)
            context = seen, reward, carry.last_action
            other = jax.tree.map(lambda x: jnp.where(without == 3, jnp.roll(x, 1, 0), x), context)
            told = {**other[0], "now": seen["now"], "elapsed": seen["elapsed"]}
            timestep = own._replace(observation=told, reward=other[1], trial_start=start)
            return whole.act(keys, params, carry._replace(last_action=other[2]), timestep)

        agent = Agent(whole.initial_carry, act)
        return played(
            stream(config.seed, "tasks"), config, trials, config.replicas, agent, _weights(params)
        )

    return test


def rules(config: Config, trials: tuple[Trial, Any], scale_only: bool = False) -> dict[str, Tested]:
    """What agents that are not trained come to, on the same tasks; or what scales scores alone."""
    env, space = trials[0], trials[0].action_space()
    now = env.env.observation_space()
    table = within_trial(q_learner(now, space))
    reference = q_learner(now, space, variant="reference")
    agents: dict[str, tuple[Agent, Any]] = {
        "random": (random_agent(env), ()),
        "oracle": (oracle_agent(env), ()),
        "Q-learning, reference": (within_trial(reference), REFERENCE),
        "Q-learning, textbook": (table, TabularHParams()),
        "Q-learning, tuned": (table, TUNED),
    }
    if config.family.endswith("arms"):
        agents |= {
            "UCB1, textbook": (within_trial(ucb1(space)), ()),
            "UCB1, tuned (0.2)": (within_trial(ucb1(space, 0.2)), ()),
            "Thompson sampling": (within_trial(thompson_bernoulli(space)), ()),
        }
    if scale_only:
        agents = {name: agents[name] for name in ("random", "oracle")}
    key = stream(config.seed, "tasks")
    found = {}
    for name, (agent, params) in agents.items():
        test = functools.partial(played, key, config, trials, config.replicas, agent)
        found[name] = jax.device_get(jax.jit(test, compiler_options=FAST_COMPILE)(params))
    return found


# The command line --------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> Outcome | None:
    """Runs the experiment; returns the (last) outcome, None after a dry run."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--agents" not in arguments:
        return run_experiment("incontext_rl", PRESETS, build, report, arguments)
    place = arguments.index("--agents")
    rest, pairs = arguments[:place], []
    for number, word in enumerate(arguments[place + 1 :], place + 1):
        if word.startswith("-"):
            rest += arguments[number:]
            break
        pairs.append(word.split(":"))
    outcomes = []
    for family, learner in pairs:
        given = ["--family", family, "--learner", learner, "--requeue", *rest]
        outcomes.append(run_experiment("incontext_rl", PRESETS, build, report, given))
    done = [outcome for outcome in outcomes if outcome is not None]
    if done:
        print(joint_table(done))
    return outcomes[-1] if outcomes else None


if __name__ == "__main__":
    main()
