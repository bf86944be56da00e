"""Building and running the study `in_context_rl_train`."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any

import jax

from gpicljax import agents
from gpicljax.agents import cloning, ppo
from gpicljax.agents.cloning import TeacherCloningConfig
from gpicljax.agents.r2d2 import R2D2Config, R2D2HParams
from gpicljax.checks import Count, Range, Rate
from gpicljax.environment import Environment
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runs import save_agent
from gpicljax.runs.saved_agents import start_from
from gpicljax.runtime import (
    Measure,
    Probe,
    Program,
    RunResult,
    TrainingConfig,
    check_config,
    run_config,
    run_experiment,
)
from gpicljax.systems.in_context_rl.data.histories import stored_histories
from gpicljax.systems.in_context_rl.env import (
    ROOM_SIZE,
    ROOMS,
    Family,
    Tasks,
    family_tasks,
    is_bandit,
    own_tests,
    training_trials,
    trial_settings,
)
from gpicljax.systems.in_context_rl.learners import MEMORIES, METHODS, TEMPERATURES, Learner
from gpicljax.systems.in_context_rl.measures.playing import (
    CONDITIONS,
    agent_tester,
    play_rules,
    play_test_trials,
)
from gpicljax.systems.in_context_rl.studies.in_context_rl_train.report import report
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains an agent to learn within trials.

    Attributes:
      family: Tasks; those it is tested on are never trained on. Bandits, lakes and cliffs at
        once, in one padded space, are a mixture.
      learner: How it is trained, and with what memory. dpt imitates an oracle from its own play
        (Decision-Pretrained Transformer), rl2 is PPO over whole trials, ad imitates Q-learning or
        the Gittins index as they learn (Algorithm Distillation), clone imitates the strongest
        program that needs no training, r2d2 is Q-learning from replayed trials. dpt, ad-tables,
        clone and rl2 read tables of what was tried; the others a memory that plans, an LSTM, a
        store of events, or attention.
      histories: Folder of `in_context_rl_histories`, of the same family, for ad to imitate in place
        of algorithms that learn while it trains.
      start_from: Folder of a saved agent that dpt, ad or rl2 have trained with the same network, to
        go on from: a clone, for rl2.
      actions: Actions of a trial.
      num_envs: Trials of an update; r2d2 has its own number.
      minibatches: Groups of them that are learnt from one after the other.
      temperature: Temperature of the trained policy; by default that of the family. The agent of
        r2d2 is greedy.
      known_moves: Whether a planning memory is told what the actions in dark rooms do.
      splits_episodes: Whether it keeps sums of dark rooms apart before and after an episode has
        paid.
      replicas: Trials that an agent is tested in, each on a task of its own.
      network: Sizes; the kind of memory is the learner's.
      cloning: Hyper-parameters of dpt and ad; decay_updates is set to the length of the run.
      ppo: Hyper-parameters of rl2; likewise.
      q_network: Sizes of the network of r2d2; the kind of memory is the learner's.
      r2d2: Sizes and switches of r2d2; a sequence is a trial. By default it learns the next reward
        alone, which is enough on bandits; elsewhere it needs `bootstrap`.
      r2d2_hparams: Hyper-parameters of r2d2; decay_updates is set to the length of the run.
    """

    family: Family = "ten-arms"
    learner: Learner = "dpt"
    histories: Path | None = None
    start_from: Path | None = None
    actions: Annotated[int, Range(2)] = 200
    num_envs: Count = 256
    minibatches: Count = 16
    temperature: Rate | None = None
    known_moves: bool = True
    splits_episodes: bool = True
    replicas: Count = 1000
    network: RecurrentSettings = RecurrentSettings(slots=256)
    cloning: cloning.CloningHParams = cloning.CloningHParams(final_share=0.05)
    ppo: ppo.PPOHParams = ppo.PPOHParams(
        learning_rate=1e-3, final_share=0.1, discount=0.98, entropy_coefficient=0.01
    )
    q_network: RecurrentQSettings = RecurrentQSettings(
        mixer=(), core=(96,), heads=12, slots=200, head=(128,)
    )
    r2d2: R2D2Config = R2D2Config(
        num_envs=64,
        overlap=0,
        burn_in=0,
        carries="none",
        n_step=1,
        replay_capacity=4096,
        min_replay=64,
        batch_size=16,
        updates_per_collect=16,
        bootstrap=False,
    )
    r2d2_hparams: R2D2HParams = R2D2HParams(
        learning_rate=2e-3,
        final_share=0.1,
        adam_epsilon=1e-8,
        max_gradient_norm=5.0,
        priority_exponent=0.0,
        importance_exponent=0.0,
    )

    def validate(self) -> None:
        """Refuses histories for a learner that imitates nothing of the kind."""
        super().validate()
        fits = self.histories is None or self.is_distillation
        check_config(fits, "histories", str(self.histories), "nothing, but with --learner ad")
        start = self.start_from
        check_config(
            start is None or start.is_dir(), "start_from", str(start), "an existing folder"
        )
        can_start = start is None or self.learner != "r2d2-events"
        check_config(can_start, "start_from", str(start), "nothing, for r2d2")

    @property
    def is_distillation(self) -> bool:
        """Returns whether another learner is imitated as it learns."""
        return self.learner.startswith("ad")

    @property
    def sharpness(self) -> float:
        """Returns the temperature that is used."""
        if self.learner == "r2d2-events":
            return 0.0
        return TEMPERATURES[self.family] if self.temperature is None else self.temperature

    @property
    def architecture(self) -> str:
        """Returns the training method and the memory, as in other systems' records."""
        return f"{METHODS[self.learner.partition('-')[0]]}, {MEMORIES[self.learner]}"

    @property
    def trials(self) -> int:
        """Returns the number of trials of an update."""
        return self.r2d2.num_envs if self.learner == "r2d2-events" else self.num_envs

    @property
    def is_padded(self) -> bool:
        """Returns whether the agent lives in the space that all families fit into."""
        return self.family == "mixture"

    @property
    def memory(self) -> RecurrentSettings | RecurrentQSettings:
        """Returns the network's settings."""
        kind: Any = MEMORIES[self.learner]
        if kind == "planning":
            is_room = self.family in ROOMS
            planning = dataclasses.replace(
                self.network.planning,
                grid=ROOM_SIZE if is_room and self.known_moves else 0,
                splits_episodes=is_room and self.splits_episodes,
            )
            return dataclasses.replace(self.network, memory=kind, planning=planning)
        if self.learner == "r2d2-events":
            return dataclasses.replace(self.q_network, memory=kind)
        if kind != "transformer":
            return dataclasses.replace(self.network, memory=kind)
        window = self.actions + 1
        return dataclasses.replace(self.network, memory=kind, core=(64, 64), window=window)

    def default_name(self) -> str:
        """Returns the preset, the family and the learner."""
        return f"{self.preset}-{self.family}-{self.learner}"


_UPDATE = 201 * 256
"""Observations of an update of the default size."""
QUICK = Config(seeds=1, observations=30 * _UPDATE, log_lines=6)
PRESETS = {
    "quick": QUICK,
    "full": dataclasses.replace(QUICK, seeds=3, observations=80 * _UPDATE, log_lines=16),
}


# The program -------------------------------------------------------------------------------------


def _teacher(config: Config) -> tuple[str, dict[str, float]]:
    """Returns the name of the teacher, and how often its actions are played."""
    if config.learner.startswith("dpt"):
        return "told-what-is-best", {}
    if config.is_distillation:
        # Histories tell what their learner did; otherwise it learns and is imitated meanwhile.
        source = "source" if config.histories is None else "told-what-is-best"
        return source, {"teacher_share": 1.0}
    if config.is_padded:
        return "index-or-best", {}
    # An index is imitated as it plays; elsewhere, also where the student gets itself.
    on_bandits = config.family in ("two-arms", "ten-arms")
    return "program", {"teacher_share": 1.0} if on_bandits else {"teacher_instances": 0.5}


def _sizes(config: Config) -> tuple[str, Any, Any]:
    """Returns the algorithm's name in the catalogue, its sizes and its hyper-parameters."""
    unroll, minibatches = config.actions + 1, config.minibatches
    shared_options: dict[str, Any] = {"whole_trials": True, "temperature": config.sharpness}
    if config.learner.startswith("rl2"):
        return (
            "recurrent-ppo",
            ppo.PPOConfig(
                unroll, epochs=2, minibatches=minibatches, normalise_rewards=True, **shared_options
            ),
            config.ppo,
        )
    if config.learner == "r2d2-events":
        return "r2d2", dataclasses.replace(config.r2d2, unroll=unroll), config.r2d2_hparams
    teacher, share = _teacher(config)
    sizes = TeacherCloningConfig(unroll, minibatches, teacher=teacher, **shared_options)
    return "cloning", sizes, dataclasses.replace(config.cloning, **share)


def build(config: Config) -> Program:
    """Returns the program: tasks, network and trainer."""
    fits = not (config.is_distillation and config.is_padded)
    check_config(fits, "learner", config.learner, "another one, on a mixture")
    env, env_params = training_trials(config.family, config.actions)
    if config.learner == "r2d2-events":
        looks_ahead = config.r2d2.bootstrap or is_bandit(env)
        check_config(looks_ahead, "r2d2.bootstrap", False, "True, where actions lead elsewhere")
        is_greedy = not config.temperature
        check_config(is_greedy, "temperature", config.temperature, "0 or None, for r2d2")
    learnt_from, params = env, env_params
    if config.histories is not None:
        learnt_from, params = stored_histories(config.histories, config.family, env, config.actions)
    vec = VectorEnv(learnt_from, config.trials, resets="fresh", params=params, privileged=True)
    name, sizes, hparams = _sizes(config)
    trainer = agents.get_algorithm(name).make(sizes, vec, config.memory)
    length = config.updates(trainer.observations) * trainer.optimiser_steps
    hparams = dataclasses.replace(hparams, decay_updates=length)
    init = start_from(config.start_from, lambda key: trainer.init(key, hparams))
    agent, tests = trainer.agent(greedy=True), own_tests(config.family)

    def on_training_tasks(key: jax.Array, params: ArrayTree, cell: ArrayTree) -> Any:
        del cell
        return play_test_trials(key, env, env_params, 256, agent, params).trials.rewards

    @functools.cache
    def test(env: Environment) -> Any:
        function = agent_tester(agent, env, config.replicas, config.seed)
        return lambda key, params, cell, *given: function(params, *given)

    def measure(task_set: Tasks, condition: int) -> Measure:
        env, env_params = task_set.trials(config.actions, config.is_padded)
        return Measure(test(env), (env_params, condition))

    return Program(
        title=f"{config.learner} on {config.family}",
        details={"temperature": f"{config.sharpness:g}"},
        init=lambda key, cell: init(key),
        update=trainer.update,
        observations=trainer.observations,
        measures={
            name: {
                condition: measure(task_set, number)
                for condition, number in CONDITIONS.items()
                if name == config.family or not condition
            }
            for name, task_set in tests.items()
        },
        host_measures=lambda run: {
            name: play_rules(task_set, config.actions, config.replicas, config.seed)
            for name, task_set in tests.items()
        },
        probe=Probe(
            Measure(on_training_tasks), lambda rewards: {"return": rewards.sum(-1).mean(-1)}
        ),
        key_metric="return",
        save=functools.partial(_save, config, name, sizes),
    )


def _save(
    config: Config, algorithm: str, sizes: Any, folder: Path, cell: ArrayTree, **about: Any
) -> None:
    """Writes an agent; that of all families, as one of lakes in the padded space."""
    del cell
    task_set = family_tasks("lakes" if config.is_padded else config.family, held_out=True)
    settings = trial_settings(config.actions, config.is_padded)
    save_agent(
        folder,
        algorithm=algorithm,
        env_id=task_set.env_id,
        env_options=dict(task_set.static),
        env_params=task_set.env.make_params(**dict(task_set.params)),
        num_envs=config.trials,
        config=sizes,
        network=config.memory,
        trials=settings,
        family=config.family,
        learner=config.learner,
        **about,
    )


def run(config: Config) -> RunResult | None:
    """Runs the experiment with a configuration; returns the outcome, None after a dry run."""
    return run_config("in_context_rl_train", config, build, report)


def main(argv: list[str] | None = None) -> RunResult | None:
    """Runs the experiment; returns the outcome, None after a dry run."""
    return run_experiment("in_context_rl_train", PRESETS, build, report, argv)
