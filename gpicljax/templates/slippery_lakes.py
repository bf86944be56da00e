"""Q-learning on ice: how often does it arrive?

python slippery_lakes.py --seeds 3
"""

import dataclasses

import gpicljax
from gpicljax.agents import TabularConfig, TabularHParams, make
from gpicljax.evaluation import episode_returns, mean_interval
from gpicljax.runtime import (
    Measure,
    Program,
    Report,
    TrainingConfig,
    check_config,
    run_experiment,
)


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains tables on lakes of ice.

    Attributes:
      success_rates: Chances that a step goes where it should, one for each cell.
      num_envs: Instances per seed.
      evaluation_episodes: Greedy episodes per seed at the end.
      agent: Sizes and switches.
      hparams: Hyper-parameters.
    """

    success_rates: tuple[float, ...] = (0.5, 0.8, 1.0)
    num_envs: int = 8
    evaluation_episodes: int = 200
    agent: TabularConfig = TabularConfig(unroll=64)
    hparams: TabularHParams = TabularHParams(learning_rate=0.1, discount=0.97)
    observations: int = 40_960
    log_lines: int = 8

    def validate(self):
        """Refuses what can be refused without a device."""
        super().validate()
        for rate in self.success_rates:
            check_config(0 < rate <= 1, "success_rates", rate, "chances above 0, at most 1")


PRESETS = {"quick": Config(), "cpu-long": Config(observations=1_000_000)}


def build(config):
    """Wires environment and trainer together; computes nothing."""
    env = gpicljax.make("FrozenLake-v1")
    vec = gpicljax.VectorEnv(env, config.num_envs, resets="fresh")
    trainer = make("q-learning", vec, config.agent)

    def init(key, env_params):
        return trainer.init(key, config.hparams, env_params)

    def arrivals(key, params, env_params):
        return episode_returns(
            key,
            env,
            trainer.agent(greedy=True),
            params,
            episodes=config.evaluation_episodes,
            max_steps=100,
            env_params=env_params,
        ).returns

    return Program(
        title="Q-learning on FrozenLake",
        init=init,
        update=trainer.update,
        observations=trainer.observations,
        cells={
            f"success rate {rate}": env.make_params(success_rate=rate)
            for rate in config.success_rates
        },
        measures={"arrivals": Measure(arrivals)},
        key_metric="reward",
    )


def report(result):
    """One row for each cell, and the learning curves."""
    arrivals = result.by_cell(result.seeds(result.measured["arrivals"]).mean(-1))
    rows = ["| cell | arrivals, mean [95 % interval over seeds] |", "|---|---|"]
    for name, values in arrivals.items():
        rows.append(f"| {name} | {mean_interval(values).format()} |")
    result.draw_learning("reward", xlabel="environment steps per seed", ylabel="reward per step")
    return Report("\n".join(rows), arrivals)


def main(argv=None):
    """Runs the study; returns its result, None after a dry run."""
    return run_experiment("slippery_lakes", PRESETS, build, report, argv)


if __name__ == "__main__":
    main()
