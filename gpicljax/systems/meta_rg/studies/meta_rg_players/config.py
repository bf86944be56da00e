"""Configuration and presets of the study `meta_rg_players`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal, get_args

from gpicljax.agents import r2d2
from gpicljax.agents.sequence import SequenceHParams
from gpicljax.checks import Count, Range, Rate
from gpicljax.networks.q_network import RecurrentQSettings
from gpicljax.runtime import TrainingConfig, check_config
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.learners import signalling
from gpicljax.systems.meta_rg.learners.predictions import Predicted
from gpicljax.systems.meta_rg.studies.game_config import GameConfig
from gpicljax.systems.meta_rg.studies.meta_rg.config import (
    APPENDIX_C,
    EVENTS,
    EXACT,
    MANY_STEPS,
    NEXT_REWARD,
)

Method = Literal[
    "reinforce", "straight-through", "rule", "quantiser", "independent", "vdn", "vdn-sad"
]
FROM_SEQUENCES = get_args(signalling.SpeakerKind)
"""Methods that learn from whole episodes; the others step through them."""


@dataclasses.dataclass(frozen=True)
class Config(TrainingConfig):
    """Trains a speaker and a listener that have to agree on a language in every episode.

    Attributes:
      game: The games. Several rounds, and a listener that speaks in them, are for R2D2's methods.
      method: How they learn: from whole episodes, the speaker by the score function (reinforce) or
        through its messages (straight-through), beside speakers that follow a rule; or as R2D2
        agents, independent, on the sum of their values (vdn), and announcing what they would do
        without exploration (vdn-sad).
      control: Whether learning speakers are compared with one that keeps its first code.
      network: The listener's network; with R2D2, that of both players.
      players: Sizes and switches of learning from whole episodes; its speaker is the method's.
      schedule: Hyper-parameters of learning from whole episodes; the rate falls till the end.
      agent: Sizes and switches of R2D2; how players are mixed is the method's.
      hparams: Hyper-parameters of R2D2.
      predicted: What R2D2's players predict: the coming feedback, or the stimulus that they see.
      feedback_weight: Weight of that prediction.
      bank_size: Target lists kept ready for new episodes (R2D2).
      probe_episodes: Greedy episodes per log line, played together.
      evaluation_episodes: Episodes per seed and condition at the end, rounded up to such groups.
      structures: Semantic structures of which all meanings are asked for.
      taught: Semantic structures whose language a new listener learns, from all their samples, to
        see how easily (ease of acquisition); 0 for none.
    """

    game: GameConfig = GameConfig("MetaRG-v1", max_values=3)
    seeds: Count = 3
    method: Method = "reinforce"
    control: bool = True
    observations: Count = 10_000_000
    log_lines: Count = 20
    network: RecurrentQSettings = dataclasses.replace(EVENTS, slots=32)
    players: signalling.SignallingConfig = signalling.SignallingConfig(
        games=36, episodes=4, batch_size=8, copies=4, entropy=0.02
    )
    schedule: SequenceHParams = SequenceHParams(
        learning_rate=2e-3, warmup_updates=20, max_gradient_norm=5.0
    )
    # A message is paid for in the next step.
    agent: r2d2.R2D2Config = dataclasses.replace(NEXT_REWARD, n_step=2, share_parameters=False)
    hparams: r2d2.R2D2HParams = dataclasses.replace(MANY_STEPS, learning_rate=1e-3, discount=1.0)
    predicted: Predicted = "feedback"
    feedback_weight: Rate = 10.0
    bank_size: Count = 2048
    probe_episodes: Count = 128
    evaluation_episodes: Count = 512
    structures: Count = 32
    taught: Annotated[int, Range(0)] = 0

    def default_name(self) -> str:
        """Returns the preset, the method and the environment."""
        return f"{self.preset}-{self.method}-{self.game.env}"

    def validate(self) -> None:
        """Refuses counts below 1 and what the environment refuses."""
        super().validate()
        check_config(
            not self.network.predictions, "network.predictions", "names", "none: the feedback is"
        )
        enough = self.method != "reinforce" or self.players.copies > 1
        check_config(enough, "players.copies", self.players.copies, "an integer >= 2 to reinforce")
        self.network.check_carries(self.agent.carries)
        rounds, replies = self.game.num_rounds, self.game.listener_speaks
        accepted_values = (
            f"1, for method {self.method}: several are for R2D2's (independent, vdn, vdn-sad)"
        )
        fits = rounds == 1 or self.method not in FROM_SEQUENCES
        check_config(fits, "game.num_rounds", rounds, accepted_values)
        accepted_values = (
            "False; True with num_rounds >= 2: only the decision comes after the last round"
        )
        check_config(rounds > 1 or not replies, "game.listener_speaks", replies, accepted_values)
        game(self)


def game(config: Config) -> MetaRG:
    """The players' view of the game, or the listener's where the speaker is the game's own."""
    view = "listener" if config.method == "rule" else "players"
    return config.game.make(view=view, announces=config.method == "vdn-sad")


QUICK = Config()
NO_NOISE = dataclasses.replace(QUICK.players, batch_size=32, copies=1, entropy=0.0)
"""Where nothing is explored, copies of a game are but the same game."""
# Sequences hold most episodes to their end, and the memory their support phases.
TABLE_1 = dataclasses.replace(
    QUICK,
    game=GameConfig(shots=(1, 2), samples=(4,)),
    observations=500_000,
    log_lines=5,
    network=dataclasses.replace(EVENTS, slots=64),
    players=dataclasses.replace(QUICK.players, games=72, batch_size=4),
    probe_episodes=32,
    evaluation_episodes=128,
    taught=4,
)
# Where samples of a value lie on both sides of a border, only a memory speaks alike of them.
MEMORY = dataclasses.replace(
    QUICK,
    game=GameConfig("MetaRG-v1", samples=(4,)),
    observations=3_200_000,
    log_lines=10,
    network=EXACT,
    players=dataclasses.replace(
        QUICK.players, games=72, batch_size=4, speaker_slots=64, entropy=0.05
    ),
    feedback_weight=0.0,
)
PRESETS = {
    "quick": QUICK,
    "cpu-memory": MEMORY,
    "straight-through": dataclasses.replace(QUICK, method="straight-through", players=NO_NOISE),
    "quantiser": dataclasses.replace(QUICK, method="quantiser", players=NO_NOISE),
    "rule": dataclasses.replace(QUICK, method="rule", players=NO_NOISE),
    "vdn": dataclasses.replace(QUICK, method="vdn"),
    "vdn-sad": dataclasses.replace(QUICK, method="vdn-sad"),
    "cpu-table1": TABLE_1,
    "paper-table1": dataclasses.replace(
        TABLE_1,
        method="vdn-sad",
        network=APPENDIX_C,
        agent=r2d2.R2D2Config(),
        hparams=r2d2.R2D2HParams(),
        predicted="stimulus",
        feedback_weight=1.0,
    ),
}
