"""R2D2 learns what needs memory: a cue seen at the first step is to be named three steps later.

The same learner without a memory, trained beside it in the same program, stays at chance.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from untasked import Untasked

import gpicljax
from gpicljax import spaces
from gpicljax.agents import r2d2
from gpicljax.environment import Transition
from gpicljax.networks.contract import as_network
from gpicljax.networks.q_network import RecurrentQNetwork
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.rollout import rollout, start_rollout

CUES, DELAY, ACTORS, SEEDS = 3, 3, 16, 3


@struct.dataclass
class State:
    cue: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class DelayedCue(Untasked):
    """Shows a cue, then nothing, then asks for it; 1 for the right answer, and the end.

    The params, and so the task, say whether the agent is to have no memory.
    """

    @property
    def default_params(self):
        return jnp.zeros((), bool)

    def initial(self, key, task):
        return State(jax.random.randint(key, (), 0, CUES, jnp.int32), jnp.zeros((), jnp.int32))

    def transition(self, key, state, action, task):
        is_question = state.time == DELAY
        reward = jnp.where(is_question & (action == state.cue), 1.0, 0.0)
        state = state.replace(time=state.time + 1)
        return Transition(state, reward, is_question, jnp.zeros((), bool), {})

    def observe(self, state, task):
        cue = jax.nn.one_hot(state.cue, CUES) * (state.time == 0)
        is_question = (state.time == DELAY).astype(cue.dtype)
        return {"view": jnp.append(cue, is_question), "amnesia": task}

    def action_space(self, task=None):
        return spaces.Discrete(CUES)

    def observation_space(self, task=None):
        return spaces.Dict.of(
            view=spaces.Box(0, 1, (CUES + 1,)), amnesia=spaces.Box(0, 1, (), bool)
        )


def forgetful(network):
    """Clears the memory at every step where the observation says so.

    The last action goes as well: what one has just done is a memory that one can write to.
    """

    def erase(inputs, start):
        amnesia = inputs.observation["amnesia"]
        last_action = jnp.where(amnesia, -1, inputs.last_action)
        view = inputs.observation["view"]
        return inputs._replace(observation=view, last_action=last_action), start | amnesia

    return network._replace(
        init=lambda key, inputs: network.init(key, erase(inputs, False)[0]),
        step=lambda params, carry, *x: network.step(params, carry, *erase(*x)),
        unroll=lambda params, carry, *x: network.unroll(params, carry, *erase(*x)),
    )


def test_memory_is_learnt_and_needed():
    env = DelayedCue()
    vec = gpicljax.VectorEnv(env, ACTORS, resets="fresh", group=ACTORS)
    module = RecurrentQNetwork(
        spaces.Box(0, 1, (CUES + 1,)), CUES, mixer_sizes=(32,), core=LSTMStack((32,))
    )
    config = r2d2.R2D2Config(
        num_envs=ACTORS,
        unroll=12,
        overlap=6,
        burn_in=2,
        n_step=3,
        replay_capacity=1600,
        min_replay=160,
        batch_size=32,
        updates_per_collect=4,
    )
    hparams = r2d2.R2D2HParams(
        learning_rate=3e-3, adam_epsilon=1e-8, discount=0.95, target_period=25
    )
    trainer = r2d2.make(config, vec, forgetful(as_network(module)))

    @jax.jit
    @jax.vmap
    def study(key, amnesia):
        """Trains and returns the greedy return of an episode."""
        key, evaluation = jax.random.split(key)
        state = trainer.init(key, hparams, amnesia)
        state, metrics = jax.lax.scan(lambda s, _: trainer.update(s), state, length=150)
        begin = start_rollout(evaluation, vec, trainer.agent(greedy=True), amnesia)
        _, (rewards, ends) = rollout(
            vec,
            trainer.agent(greedy=True),
            state.params,
            begin,
            200,
            keep=lambda record: (record.timestep.reward, record.timestep.terminated),
        )
        return rewards.sum() / ends.sum(), ends.sum(), metrics

    amnesia = jnp.repeat(jnp.array([False, True]), SEEDS)
    returns, episodes, metrics = study(jax.random.split(jax.random.key(0), 2 * SEEDS), amnesia)
    assert np.isfinite(metrics["q_loss"]).all()
    assert (np.asarray(episodes) >= 600).all()
    remembering, forgetting = np.asarray(returns).reshape(2, SEEDS)
    assert remembering.mean() >= 0.95, remembering  # of the optimal return 1
    # Three standard errors around chance, whatever fixed answers they have settled on.
    error = np.sqrt(2 / 9 / int(episodes[SEEDS:].sum()))
    assert abs(forgetting.mean() - 1 / CUES) < 3 * error, forgetting
