"""R2D2: recurrent Q-learning from stored-state sequence replay (Kapturowski et al., 2019).

One update collects `unroll - overlap` steps from all actors, inserts one sequence per actor and
learns `updates_per_collect` times. Everything the next update depends on is in `TrainState`, so
that `vmap` over seeds, exact resumption and sharding need nothing else.

Sequences run on across episodes and trials: start flags clear the carry in mid-sequence, and steps
whose action the environment ignores carry no loss. So no padding is stored or learnt from.

Several agents (an agent axis behind the batch's) share their parameters or have their own. Each
learns from its own reward and values; or, with `mixing="vdn"`, the sum of their values from the
team's reward (Sunehag et al., 2018). With `announce`, each also announces its greedy action
to the others (the simplified action decoder of Hu & Foerster, 2020), in environments with actions
that have room for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax import spaces
from gpicljax.agents.acting import (
    AgentCarry,
    agent_input,
    greedy,
    q_agent,
)
from gpicljax.agents.algorithm import (
    Algorithm,
    agent_spaces,
    network_from,
    register_algorithm,
)
from gpicljax.agents.fits import need_choices
from gpicljax.agents.optimisation import (
    AdamHParams,
    Target,
    add_count,
    clipped_adam,
    learnt_if,
    target_update,
)
from gpicljax.agents.returns import n_step_targets
from gpicljax.batching import donatable, strip_weak_types
from gpicljax.checks import Count, Natural, Rate, Share, Updates, check, check_fields
from gpicljax.data import replay as replay_buffer
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import AgentInput, Network, over_agents
from gpicljax.networks.policies import Choices, choices, chosen_value, legal_actions, no_action
from gpicljax.networks.q_network import QOutput, RecurrentQSettings
from gpicljax.rollout import Record, RolloutState, rollout, start_rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Carries = Literal["stored", "none"]
Mixing = Literal["none", "vdn"]
Metrics = dict[str, jax.Array]


class Auxiliary(NamedTuple):
    """An auxiliary regression inside the unroll.

    Attributes:
      name: of the network's prediction.
      target: `(observation, next_observation) -> (target, weight)`: what to predict at a step,
        float `[..., size]`, and float `[...]`, 0 where nothing is to be predicted.
      coefficient: weight of its loss.
      tolerance: of its accuracy, the share of predicted entries that are no farther off.

    Example:
      >>> def next_position(observation, next_observation):
      ...     return next_observation["position"], jnp.ones(next_observation["position"].shape[:-1])
      >>> Auxiliary("position", next_position, coefficient=0.5).name
      'position'
    """

    name: str
    target: Callable[[Any, Any], tuple[jax.Array, jax.Array]]
    coefficient: float = 1.0
    tolerance: float = 0.05


@dataclasses.dataclass(frozen=True)
class R2D2Config:
    """Sizes and switches, all static. Defaults: Table 5 of the Meta-Referential Games paper.

    Attributes:
      num_envs: actors.
      unroll: transitions per sequence, burn-in included.
      overlap: transitions that successive sequences share; `unroll - overlap` must divide it.
      burn_in: transitions that only warm the carry up.
      carries: `"stored"`: sequences begin with the memory that the actor had; `"none"`: with an
        empty one, and only what follows the first start of a trial counts, which is exact. For
        memories too large to be stored; sequences should then be longer than most trials.
      n_step: n of the n-step return (shorter at the end of a sequence, if it is bootstrapped).
      replay_capacity: sequences; rounded up to a multiple of `num_envs`.
      min_replay: sequences collected before anything is learnt.
      batch_size: sequences per update.
      updates_per_collect: updates per collection of `unroll - overlap` steps.
      bootstrap: learn from returns; False learns the next `n_step` rewards only, and neither needs
        nor has a target network.
      target: `"hard"` copies every `target_period` updates, `"polyak"` averages with `target_rate`.
      rescale: learn in the rescaled value space h of Pohlen et al. (2018).
      forced_steps: whether steps with a single legal action carry Q loss. Where actions do not
        change what is reached, they only cost capacity.
      share_parameters: whether several agents have the same parameters.
      mixing: `"none"`: several agents learn independently; `"vdn"`: the sum of their values is
        learnt from the team's reward, the mean of theirs: one that all get counts once.
      announce: whether actions name all choices twice: as made, and as they would be without
        exploration. The environment shows the latter to the other agents.

    Example:
      >>> config = R2D2Config(unroll=20, overlap=10, num_envs=32, replay_capacity=5_000)
      >>> config.period, config.capacity
      (10, 5024)
    """

    num_envs: Count = 32
    unroll: Count = 20
    overlap: Natural = 10
    burn_in: Natural = 10
    carries: Carries = "stored"
    n_step: Count = 3
    replay_capacity: Count = 5_000
    min_replay: Count = 320
    batch_size: Count = 32
    updates_per_collect: Count = 10
    bootstrap: bool = True
    target: Target = "hard"
    rescale: bool = False
    forced_steps: bool = True
    share_parameters: bool = True
    mixing: Mixing = "none"
    announce: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        fits = self.overlap < self.unroll and self.overlap % self.period == 0
        accepted_values = f"0 .. {self.unroll - 1}, a multiple of unroll - overlap"
        check(fits, "overlap", self.overlap, accepted_values)
        burns = self.burn_in < self.unroll
        check(burns, "burn_in", self.burn_in, f"0 .. {self.unroll - 1}")
        warm = self.carries == "stored" or self.burn_in == 0
        check(warm, "burn_in", self.burn_in, "0 where no carries are stored")

    @property
    def period(self) -> int:
        """Steps between the starts of successive sequences."""
        return self.unroll - self.overlap

    @property
    def capacity(self) -> int:
        """Replay capacity in sequences, a multiple of `num_envs`."""
        return -(-self.replay_capacity // self.num_envs) * self.num_envs

    @property
    def collections_to_fill(self) -> int:
        """Collections before the first window of `unroll` steps is full."""
        return self.overlap // self.period


@struct.dataclass
class R2D2HParams(AdamHParams):
    """Hyper-parameters of R2D2, beside Adam's. They may be traced, e.g. for a vmapped sweep.

    Attributes:
      discount: gamma.
      target_period: updates between hard copies of the target network.
      target_rate: tau of the Polyak average.
      priority_exponent: alpha.
      importance_exponent: beta.
      priority_eta: share of the largest error in a sequence's priority; the rest is the mean error.
      epsilon_base: actor i explores with base ** (1 + alpha i / (actors - 1)).
      epsilon_alpha: alpha in that formula.

    Example:
      >>> hparams = R2D2HParams(epsilon_base=0.5, epsilon_alpha=1.0)
      >>> hparams.epsilon_base ** (1 + hparams.epsilon_alpha)  # exploration rate of the last actor
      0.25
    """

    learning_rate: Rate = 6.25e-5
    adam_epsilon: Rate = 1e-12
    discount: Share = 0.997
    target_period: Updates = 2500
    target_rate: Share = 4e-4
    priority_exponent: Rate = 0.9
    importance_exponent: Rate = 0.6
    priority_eta: Share = 0.9
    epsilon_base: Share = 0.4
    epsilon_alpha: Rate = 2.0


class Sequence(NamedTuple):
    """A replayed sequence; leaves `[unroll + 1, ...]` but for the carry.

    Attributes:
      timestep: what was seen (without `info`).
      action: what was done.
      carry: the agent's carry before the first step; its core is `()` where none is stored.
    """

    timestep: TimeStep
    action: jax.Array
    carry: AgentCarry


@struct.dataclass
class TrainState:
    """Everything the next update depends on.

    Attributes:
      params: of the network.
      target_params: of the target network; None without `bootstrap`.
      opt_state: of the optimiser.
      replay: the sequences.
      rollout: environments, current time step, agents' carries.
      window: time steps and actions since the current window's start, leaves `[overlap, B, ...]`.
      carries: carries at the starts of the open windows, leaves `[overlap / period, B, ...]`.
      hparams: traced hyper-parameters.
      key: of everything random.
      updates: `int32[]`, optimiser updates.
      observations: `int32[]`, environment steps times actors.
    """

    params: Any
    target_params: Any
    opt_state: Any
    replay: replay_buffer.ReplayState
    rollout: RolloutState
    window: Any
    carries: Any
    hparams: R2D2HParams
    key: jax.Array
    updates: jax.Array
    observations: jax.Array


def actor_epsilons(hparams: R2D2HParams, num_envs: int) -> jax.Array:
    """base ** (1 + alpha i / (N - 1)) for actor i of N, `float[N]`.

    Source: Horgan et al. (2018), "Ape-X", section 4, with alpha 7; the default alpha of 2 is that
    of the Meta-Referential Games paper's reference configuration.
    """
    places = jnp.arange(num_envs) / max(num_envs - 1, 1)
    return jnp.power(hparams.epsilon_base, 1 + hparams.epsilon_alpha * places)


def make(
    config: R2D2Config,
    vec: VectorEnv,
    network: Network,
    auxiliaries: tuple[Auxiliary, ...] = (),
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      vec: the actors' environments; discrete actions, one choice or several at once.
      network: of one agent; outputs `QOutput`.
      auxiliaries: regressions trained along.

    Returns:
      The trainer. Unless greedy, its agent explores as actors do by default, each with its own
      epsilon (see `actor_epsilons`); `acting.q_agent` takes others. Its metrics are means over the
      steps of the optimiser: `q_loss`, `gradient_norm` before clipping, and of every auxiliary
      `<name>_loss` and `<name>_accuracy`.
    """
    agents = vec.env.num_agents
    actions = agent_choices(vec.env, config.announce)
    fits = vec.num_envs == config.num_envs
    check(fits, "num_envs", config.num_envs, f"{vec.num_envs}, the size of the batch")
    accepted_values = "'none' for one agent, without an agent axis"
    check(agents is not None or config.mixing == "none", "mixing", config.mixing, accepted_values)
    if agents is not None:
        network = over_agents(network, agents, config.share_parameters)
    r2d2 = R2D2(config, vec, network, actions, auxiliaries)
    observations = config.period * config.num_envs
    return Trainer(r2d2.init, r2d2.update, r2d2.agent, observations, config.updates_per_collect)


def agent_choices(env: Environment, announce: bool) -> Choices:
    """Returns one agent's choices: all of an action, or its first half if the rest announces it.

    Raises:
      ValueError: if there is no such half.
    """
    actions = choices(agent_spaces(env)[1])
    if not announce:
        return actions
    nvec = () if isinstance(actions, spaces.Discrete) else actions.sizes
    half = len(nvec) // 2
    fits = half > 0 and nvec[:half] == nvec[half:]
    check(fits, "announce", True, "False, for actions that do not name all choices twice")
    return spaces.MultiDiscrete(nvec[:half])


def _like(x: jax.Array, target: jax.Array) -> jax.Array:
    """`[T, B]` (or `[B]`) with as many axes of 1 behind as `target` has more."""
    return x.reshape(*x.shape, *(1,) * (target.ndim - x.ndim))


@dataclasses.dataclass(frozen=True, eq=False)
class R2D2:
    """The algorithm; see `make`, which checks the arguments.

    Args:
      config: sizes and switches.
      vec: the actors' environments.
      network: of all agents.
      actions: the choices of one agent.
      auxiliaries: regressions trained along.
    """

    config: R2D2Config
    vec: VectorEnv
    network: Network
    actions: Choices
    auxiliaries: tuple[Auxiliary, ...]

    def agent(self, greedy: bool = False) -> Agent:
        """See `interface.Trainer`."""
        if greedy:
            return self.explorer(0.0)
        return self.explorer(lambda batch: actor_epsilons(R2D2HParams(), batch))

    def explorer(self, epsilons: jax.Array | float | Callable[[int], jax.Array]) -> Agent:
        """See `acting.q_agent`."""
        agents, announce = self.vec.env.num_agents, self.config.announce
        return q_agent(self.network, self.actions, epsilons, agents, announce)

    @donatable
    def init(
        self, key: jax.Array, hparams: R2D2HParams, env_params: ArrayTree = None
    ) -> TrainState:
        """See `interface.Trainer`."""
        config = self.config
        hparams = strip_weak_types(hparams)
        init_key, env_key, key = jax.random.split(key, 3)
        start = start_rollout(env_key, self.vec, self.agent(), env_params)
        timestep, action = start.timestep._replace(info={}), start.carry.last_action
        inputs = agent_input(self._joint_space, start.carry, timestep)
        # Definite types: a weak one would compile everything anew after the first update.
        params = strip_weak_types(self.network.init(init_key, inputs))
        overlap = lambda x, n: jnp.zeros((n, *x.shape), x.dtype)  # noqa: E731
        blank = jax.tree.map(
            lambda x: jnp.zeros((config.unroll + 1, *x.shape[1:]), x.dtype), (timestep, action)
        )
        carry = self.stored_carry(start.carry)
        item = Sequence(blank[0], blank[1], jax.tree.map(lambda c: c[0], carry))
        zero = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params) if config.bootstrap else None,
            opt_state=clipped_adam(hparams).init(params),
            replay=replay_buffer.init(item, config.capacity),
            rollout=start,
            window=jax.tree.map(lambda x: overlap(x, config.overlap), (timestep, action)),
            carries=jax.tree.map(lambda c: overlap(c, config.collections_to_fill), carry),
            hparams=hparams,
            key=key,
            updates=zero,
            observations=zero,
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """See `interface.Trainer`."""
        config = self.config
        key, learn_key = jax.random.split(state.key)
        needed = config.collections_to_fill * config.period * config.num_envs
        full = state.observations >= needed
        state, sequences = self.collect(dataclasses.replace(state, key=key))
        replay = replay_buffer.add(state.replay, sequences, full)
        state = dataclasses.replace(state, replay=replay)
        keys = jax.random.split(learn_key, config.updates_per_collect)
        state, metrics = jax.lax.scan(self.learn, state, keys)
        return state, jax.tree.map(lambda m: m.mean(0), metrics)

    def stored_carry(self, carry: AgentCarry) -> AgentCarry:
        """Returns the part of a carry that is stored."""
        return carry if self.config.carries == "stored" else carry._replace(core=())

    @property
    def _joint_space(self) -> spaces.Space:
        agents = self.vec.env.num_agents
        return self.actions if agents is None else spaces.repeat(self.actions, agents)

    # Collecting ------------------------------------------------------------------------------

    def collect(self, state: TrainState) -> tuple[TrainState, Sequence]:
        """`period` more steps, and the sequence of each actor that they complete."""
        config, before = self.config, self.stored_carry(state.rollout.carry)

        def keep(record: Record) -> tuple[TimeStep, jax.Array]:
            action = record.action
            if config.announce:
                action = action[..., : self.actions.shape[0]]
            return record.timestep._replace(info={}), action

        actors = self.explorer(actor_epsilons(state.hparams, config.num_envs))
        following, steps = rollout(
            self.vec, actors, state.params, state.rollout, config.period, keep
        )
        # The last time step closes the sequence: it is where the last transition leads. Its action
        # is not known yet, nor needed.
        closing = (following.timestep._replace(info={}), jnp.zeros_like(steps[1][0]))
        window = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.window, steps)
        carries = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), state.carries, before)
        timestep, action = jax.tree.map(
            lambda a, b: jnp.moveaxis(jnp.concatenate([a, b[None]]), 0, 1), window, closing
        )
        sequence = Sequence(timestep, action, jax.tree.map(lambda c: c[0], carries))
        state = dataclasses.replace(
            state,
            rollout=following,
            window=jax.tree.map(lambda w: w[config.period :], window),
            carries=jax.tree.map(lambda c: c[1:], carries),
            observations=add_count(state.observations, config.period * config.num_envs),
        )
        return state, sequence

    # Learning --------------------------------------------------------------------------------

    def learn(self, state: TrainState, key: jax.Array) -> tuple[TrainState, Metrics]:
        """Runs one step of the optimiser; until the replay has `min_replay` it changes nothing."""
        config, hparams = self.config, state.hparams
        filled = (state.replay.priorities > 0).sum() >= min(config.min_replay, config.capacity)
        batch = replay_buffer.sample(key, state.replay, config.batch_size)
        weights = replay_buffer.importance_weights(
            state.replay, batch.probabilities, hparams.importance_exponent
        )
        steps = jax.tree.map(
            lambda x: jnp.moveaxis(x, 0, 1), (batch.items.timestep, batch.items.action)
        )
        sequence = Sequence(steps[0], steps[1], batch.items.carry)
        grads, (priorities, metrics) = jax.grad(self.loss, has_aux=True)(
            state.params, state.target_params, hparams, sequence, weights
        )
        metrics["gradient_norm"] = optax.tree.norm(grads)
        steps, opt_state = clipped_adam(hparams).update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, steps)
        updates, target_params = state.updates + 1, state.target_params
        if config.bootstrap:
            target_params = target_update(config.target, params, target_params, updates, hparams)
        learnt = dataclasses.replace(
            state,
            params=params,
            target_params=target_params,
            opt_state=opt_state,
            replay=replay_buffer.set_priorities(
                state.replay, batch.indices, priorities, hparams.priority_exponent
            ),
            updates=updates,
        )
        return learnt_if(filled, learnt, state), metrics

    def loss(
        self,
        params: ArrayTree,
        target_params: Any,
        hparams: R2D2HParams,
        sequence: Sequence,
        weights: jax.Array,
    ) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        """The loss of N time-major sequences weighted by float `[N]`; priorities, and metrics."""
        config = self.config
        online = self.outputs(params, sequence)
        timestep = jax.tree.map(lambda x: x[config.burn_in :], sequence.timestep)
        action = sequence.action[config.burn_in : -1]
        legal = legal_actions(timestep.observation, self.actions)
        legal = jnp.broadcast_to(legal, online.q_values.shape)
        value = chosen_value(self.actions, online.q_values[:-1], action)
        rewards = timestep.reward[1:]
        if config.mixing == "vdn":
            # What all get counts once: it is the team's reward.
            value, rewards = value.sum(-1), rewards.mean(-1)
        if config.bootstrap:
            best = greedy(online.q_values[1:], legal[1:])
            following = self.outputs(target_params, sequence).q_values[1:]
            values = chosen_value(self.actions, following, best)
            values = values.sum(-1) if config.mixing == "vdn" else values
        else:
            values = jnp.zeros_like(rewards)
        # Behind the end of an episode lies a step of no account: nothing flows over it.
        over = 1 - timestep.terminated[1:].astype(values.dtype)
        cut = 1 - timestep.truncated[1:].astype(values.dtype)
        discounts, continues = (
            jnp.broadcast_to(_like(x, values), values.shape) for x in (hparams.discount * over, cut)
        )
        targets = n_step_targets(
            rewards, discounts, continues, values, config.n_step, config.rescale
        )
        # No transition leads out of an ended episode, nor over a renewal into another trial.
        real = ~(timestep.last[:-1] | timestep.trial_start[1:])
        if not config.bootstrap and config.n_step > 1:
            # Rewards behind the sequence's end are unknown; behind an episode's there are none.
            ends = jnp.cumsum(timestep.last[1:][::-1], axis=0)[::-1] > 0
            is_complete = jnp.arange(len(real)) <= len(real) - config.n_step
            real &= is_complete[:, None] | ends
        if config.carries == "none":
            real &= jnp.cumsum(timestep.trial_start[:-1], axis=0) > 0
        counts = _like(real, value)
        if not config.forced_steps:
            free = legal[:-1].sum(-1) > 1
            counts = counts & free.reshape(*value.shape, -1).any(-1)
        errors = jnp.where(counts, targets - value, 0)
        mask = jnp.broadcast_to(counts, errors.shape).astype(errors.dtype)
        weighted = 0.5 * jnp.square(errors) * _like(weights, errors[0])
        q_loss = weighted.sum() / jnp.maximum(mask.sum(), 1)
        loss, metrics = self.auxiliary_losses(online, timestep.observation, real)
        size = jnp.abs(errors)
        mean = size.sum(0) / jnp.maximum(mask.sum(0), 1)
        eta = hparams.priority_eta
        priorities = eta * size.max(0) + (1 - eta) * mean + 1e-4
        # With several agents, the mean over them.
        priorities = priorities.reshape(priorities.shape[0], -1).mean(-1)
        return q_loss + loss, (priorities, {"q_loss": q_loss} | metrics)

    def outputs(self, params: ArrayTree, sequence: Sequence) -> QOutput:
        """Returns the outputs after the burn-in; the carry at its end gets no gradient."""
        burn_in, timestep = self.config.burn_in, sequence.timestep
        previous = jnp.concatenate([sequence.carry.last_action[None], sequence.action[:-1]])
        none = no_action(self._joint_space, *previous.shape[:2])
        starts = timestep.trial_start
        previous = jnp.where(_like(starts, previous), none, previous)
        inputs = AgentInput(timestep.observation, previous, timestep.reward)
        carry = sequence.carry.core if self.config.carries == "stored" else None
        if burn_in:
            early = jax.tree.map(lambda x: x[:burn_in], (inputs, starts))
            _, carry = self.network.unroll(params, carry, early[0], early[1])
            carry = jax.lax.stop_gradient(carry)
        late = jax.tree.map(lambda x: x[burn_in:], (inputs, starts))
        return self.network.unroll(params, carry, late[0], late[1])[0]

    def auxiliary_losses(
        self, online: QOutput, observation: ArrayTree, real: jax.Array
    ) -> tuple[jax.Array, Metrics]:
        """Returns the weighted sum of the auxiliary losses, and metrics of each."""
        loss, metrics = jnp.zeros((), jnp.result_type(float)), {}
        current = jax.tree.map(lambda x: x[:-1], observation)
        following = jax.tree.map(lambda x: x[1:], observation)
        for auxiliary in self.auxiliaries:
            target, weight = auxiliary.target(current, following)
            weight = weight * _like(real, weight)
            predicted = online.predictions[auxiliary.name][:-1]
            difference = jnp.where(weight[..., None] > 0, predicted - target, 0)
            distance, total = jnp.abs(difference), jnp.maximum(weight.sum(), 1)
            value = (jnp.square(distance).mean(-1) * weight).sum() / total
            close = (distance <= auxiliary.tolerance).mean(-1, dtype=distance.dtype)
            loss = loss + auxiliary.coefficient * value
            metrics[auxiliary.name + "_loss"] = value
            metrics[auxiliary.name + "_accuracy"] = (close * weight).sum() / total
        return loss, metrics


def _make(
    config: R2D2Config,
    vec: VectorEnv,
    network: RecurrentQSettings | Network,
    auxiliaries: tuple[Auxiliary, ...] = (),
) -> Trainer:
    """Builds R2D2 with as many actors as instances, whatever the configuration says."""
    config = dataclasses.replace(config, num_envs=vec.num_envs)
    if isinstance(network, RecurrentQSettings):
        network.check_carries(config.carries)
    return make(config, vec, network_from(network, vec), auxiliaries)


register_algorithm(
    Algorithm(
        "r2d2",
        _make,
        need_choices,
        R2D2Config,
        R2D2HParams,
        RecurrentQSettings,
        multi_agent=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config, replay_capacity=1, min_replay=1),
    )
)
