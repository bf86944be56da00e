"""One step of an agent in its environments, and the three drivers that repeat it.

| driver | for | how |
|---|---|---|
| `rollout` | trainers | a fixed number of steps, one `lax.scan` |
| `play` | evaluations, films, datasets | until so many trials are over, by trial and episode |
| `host_play` | untraceable agents: language models, persons, remote learners | a Python loop |

All draw an agent's choices from the instances' own keys: from the same state they give the same
episodes, whatever the batch. No other loop over environments exists.
"""

from gpicljax.interface import ActionRequest, Record
from gpicljax.rollout.host import GIVE_UP, HostAgent, HostBatch, as_host_agent, host_play
from gpicljax.rollout.traced import (
    PlayedEpisodes,
    RolloutState,
    agent_step,
    play,
    rollout,
    start_rollout,
)

__all__ = [
    "GIVE_UP",
    "ActionRequest",
    "HostAgent",
    "HostBatch",
    "PlayedEpisodes",
    "Record",
    "RolloutState",
    "agent_step",
    "as_host_agent",
    "host_play",
    "play",
    "rollout",
    "start_rollout",
]
