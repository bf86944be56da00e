"""Causal models: one sequence model imitates a teacher and predicts the next observation.

They learn from sequences of observations and actions, labelled with a teacher's actions; `losses`
are the paper's. The agent acts by the policy's head, one step of the cache per decision.
`imagined_agent` reads the model's predictions instead of observations, while the environments run
on with its actions: the comparison of both evaluates the world model.

Source: section 3.2 of the GPICL paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents import sequence
from gpicljax.agents.acting import AgentCarry, agent_input, initial_memory
from gpicljax.agents.algorithm import Algorithm, agent_spaces, register_algorithm
from gpicljax.agents.causal_losses import (
    Targets,
    image_loss,
    imitation_loss,
    latent_loss,
    map_losses,
    reconstruction_loss,
    reward_loss,
)
from gpicljax.agents.cloning import find_teacher
from gpicljax.agents.fits import is_continuous
from gpicljax.agents.sequence import ActingConfig, Loss, SequenceHParams, Sequences
from gpicljax.batching import select
from gpicljax.checks import Rate, Share, check
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.autoencoder import (
    AutoencoderSettings,
    autoencoder,
    standardise,
)
from gpicljax.networks.causal_model import (
    AUTOENCODER,
    WINDOW,
    CausalModelSettings,
    causal_model,
)
from gpicljax.networks.contract import Network
from gpicljax.networks.policies import GaussianPolicy, Policy
from gpicljax.rollout import Record, RolloutState, rollout
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

# Acting ------------------------------------------------------------------------------------------


class Cooling(NamedTuple):
    """The temperature of decision t of a trial: `max(least, start * factor^t)`.

    Attributes:
      start: temperature, by which logits are divided.
      factor: of every decision to the next.
      least: temperature.

    Source: the reference code of the GPICL paper draws so, from 1 by .995 down to .01.
    """

    start: float | jax.Array = 1.0
    factor: float | jax.Array = 1.0
    least: float | jax.Array = 0.0

    def at(self, decision: jax.Array) -> jax.Array:
        """Returns the temperature of decisions `int32[...]`, float `[...]`."""
        exponent = decision.astype(jnp.result_type(float))
        return jnp.maximum(self.least, self.start * jnp.power(self.factor, exponent))


AS_IT_IS = Cooling()
PAPER_COOLING = Cooling(1.0, 0.995, 0.01)


class CausalCarry(NamedTuple):
    """The memory of a causal agent.

    Attributes:
      agent: the network's carry, and the last action.
      decisions: `int32[B]`, made in the trial.
    """

    agent: AgentCarry
    decisions: jax.Array


def causal_agent(
    network: Network,
    policy: Policy,
    greedy: bool = False,
    cooling: Cooling = AS_IT_IS,
) -> Agent:
    """Returns a causal model that acts.

    Args:
      network: `networks.causal_model.causal_model`.
      policy: over the actions of one agent.
      greedy: whether it does what is most probable; else it draws.
      cooling: temperatures at which it draws.

    Returns:
      The agent; its `aux` is a dictionary with what the `policy` reads and the `image` that was
      expected, float `[B, H, W, 3]` in [0, 1]; where it is not kept, it is not computed.

    Example:
      >>> from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder
      >>> from gpicljax.networks.causal_model import CausalModelSettings, causal_model
      >>> pictures = autoencoder(AutoencoderSettings("patches", latent=8, width=8), (16, 16))
      >>> settings, actions = CausalModelSettings(layers=1), spaces.Discrete(5)
      >>> network = causal_model(settings, pictures, actions, capacity=32)
      >>> agent = causal_agent(network, settings.policy(actions))
      >>> jax.eval_shape(lambda: agent.initial_carry(4)).decisions.shape
      (4,)
    """
    choose = _chooser(policy, greedy, cooling)

    def act(keys: jax.Array, params: ArrayTree, carry: CausalCarry, timestep: TimeStep) -> Any:
        inputs = agent_input(policy.space, carry.agent, timestep)
        decisions = jnp.where(timestep.trial_start, 0, carry.decisions)
        output, core = network.step(params, carry.agent.core, inputs, timestep.trial_start)
        action = choose(keys, output.policy, decisions)
        aux = {"policy": output.policy, "image": output.image}
        return action, aux, CausalCarry(AgentCarry(core, action), decisions + 1)

    def initial_carry(batch: int) -> CausalCarry:
        memory = initial_memory(network, policy.space, batch)
        return CausalCarry(memory, jnp.zeros(batch, jnp.int32))

    return Agent(initial_carry, act)


def imagined_agent(
    network: Network,
    policy: Policy,
    latent: int,
    greedy: bool = False,
    cooling: Cooling = AS_IT_IS,
) -> Agent:
    """Returns an agent that reads its own predictions instead of observations.

    It starts from the carry of `causal_agent` in mid-trial, while the environments run on with its
    actions.

    Args:
      network: see `causal_agent`.
      policy: likewise.
      latent: Z, numbers that a picture becomes.
      greedy: likewise.
      cooling: likewise.

    Returns:
      The agent; its `aux` is a dictionary with the predicted `image` of this step, float `[B, H, W,
      3]` in [0, 1].

    Source: sections 3.3 and A.5 of the GPICL paper (Figures 9 and 18).

    Example:
      >>> from gpicljax.networks.autoencoder import AutoencoderSettings, autoencoder
      >>> from gpicljax.networks.causal_model import CausalModelSettings, causal_model
      >>> pictures = autoencoder(AutoencoderSettings("patches", latent=8, width=8), (16, 16))
      >>> settings, actions = CausalModelSettings(layers=1), spaces.Discrete(5)
      >>> network = causal_model(settings, pictures, actions, capacity=32)
      >>> agent = imagined_agent(network, settings.policy(actions), pictures.latent)
      >>> jax.eval_shape(lambda: agent.initial_carry(4)).decisions.shape
      (4,)
    """
    choose = _chooser(policy, greedy, cooling)
    awake = causal_agent(network, policy)

    def act(keys: jax.Array, params: ArrayTree, carry: CausalCarry, timestep: TimeStep) -> Any:
        false = jnp.zeros_like(timestep.trial_start)
        inputs = agent_input(policy.space, carry.agent, timestep)
        # What is expected does not depend on what is seen now: that token comes later.
        blank = jnp.zeros((false.shape[0], latent), jnp.result_type(float))
        blind = inputs._replace(observation=blank)
        expected, _ = network.step(params, carry.agent.core, blind, false)
        believed = inputs._replace(observation=expected.latent)
        output, core = network.step(params, carry.agent.core, believed, false)
        action = choose(keys, output.policy, carry.decisions)
        after = CausalCarry(AgentCarry(core, action), carry.decisions + 1)
        return action, {"image": expected.image}, after

    return Agent(awake.initial_carry, act)


def _chooser(
    policy: Policy, greedy: bool, cooling: Cooling
) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    """Returns a function from keys `[B]`, outputs `[B, P]` and decisions `int32[B]` to actions."""

    def choose(keys: jax.Array, outputs: jax.Array, decisions: jax.Array) -> jax.Array:
        if greedy:
            best: Any = policy.distribution(outputs, None).mode()
            return policy.to_action(best)
        temperature = jnp.maximum(cooling.at(decisions), 1e-6)[:, None]
        if isinstance(policy, GaussianPolicy):
            mean, log_std = jnp.split(outputs, 2, axis=-1)
            outputs = jnp.concatenate([mean, log_std + jnp.log(temperature)], axis=-1)
        else:
            outputs = outputs / temperature

        def draw(key: jax.Array, outputs: jax.Array) -> jax.Array:
            return policy.distribution(outputs, None).sample(seed=key)

        return policy.to_action(jax.vmap(draw)(keys, outputs))

    return choose


# Learning by itself ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CausalModelConfig(ActingConfig):
    """Sizes and switches, all static: those of `ActingConfig`, and more.

    Attributes:
      explore: probability with which what is done is random instead of what the teacher does.
      joint: whether the autoencoder is trained too; else it stays what it is.
      policy_weight: of L_pm.
      image_weight: of L_wm.
      latent_weight: of L_z.
      reconstruction_weight: of the autoencoder's error, if it is trained.
    """

    explore: Share = 0.4
    joint: bool = False
    policy_weight: Rate = 0.25
    image_weight: Rate = 0.70
    latent_weight: Rate = 0.05
    reconstruction_weight: Rate = 1.0


def make(
    config: CausalModelConfig,
    vec: VectorEnv,
    network: Network,
    policy: Policy,
    teacher: Agent,
    more_losses: Sequence[Loss] = (),
) -> Trainer:
    """Builds the trainer of a model of any environment with pictures, and a teacher's policy in it.

    One update starts all instances afresh, and the teacher acts in them, sometimes at random.

    Args:
      config: sizes and switches.
      vec: the environments; one agent; built with `privileged=True` if the teacher reads what is.
      network: `networks.causal_model.causal_model`.
      policy: over the actions.
      teacher: the agent to imitate, without parameters.
      more_losses: of what else the network predicts.

    Returns:
      The trainer (see `sequence.make`), with the losses' names for metrics.

    Raises:
      ValueError: if there are several agents.
    """
    env: Environment = vec.env
    check(env.num_agents is None, "num_agents", env.num_agents, "None, one agent")
    config = dataclasses.replace(config, batch_size=vec.num_envs)
    part = vec.part(config.microbatches)
    space = env.action_space()

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, jax.Array], timestep: TimeStep
    ) -> Any:
        memory, last_action = carry
        teacher_keys, coin_keys, noise_keys = jax.vmap(
            lambda key: jax.random.split(key, 3), out_axes=1
        )(keys)
        label, _, memory = teacher.act(teacher_keys, params, memory, timestep)
        random = jax.vmap(jax.random.uniform)(coin_keys) < config.explore
        noise = jax.vmap(space.sample)(noise_keys)
        action = select(random, noise, label.astype(noise.dtype))
        read = agent_input(space, AgentCarry((), last_action), timestep._replace(privileged=None))
        return action, (read, label), (memory, action)

    def initial_carry(batch: int) -> Any:
        last_action = initial_memory(network, space, batch).last_action
        return teacher.initial_carry(batch), last_action

    behaviour = Agent(initial_carry, act)

    def keep(record: Record) -> Any:
        before = record.timestep
        return *record.aux, before.trial_start, ~before.last

    def sample(keys: jax.Array, env_params: ArrayTree) -> Sequences:
        start = RolloutState(*part.init(keys[0], env_params), initial_carry(part.num_envs))
        _, (read, label, starts, counts) = rollout(part, behaviour, (), start, config.length, keep)
        return Sequences(read, starts, Targets(label, counts))

    losses = [
        imitation_loss(policy, weight=config.policy_weight),
        image_loss(weight=config.image_weight),
        latent_loss(weight=config.latent_weight),
        *more_losses,
    ]
    if config.joint:
        losses.append(reconstruction_loss(weight=config.reconstruction_weight))

    def agent(greedy: bool = False) -> Agent:
        return causal_agent(network, policy, greedy)

    frozen = (WINDOW,) if config.joint else (WINDOW, AUTOENCODER)
    return sequence.make(
        config, network, sample, losses, length=config.length, agent=agent, frozen=frozen
    )


@dataclasses.dataclass(frozen=True)
class TeacherCausalModelConfig(CausalModelConfig):
    """Sizes of a causal model's training, and the teacher whose actions are imitated.

    Attributes:
      teacher: the name of an algorithm with nothing to train: a rule, or a registered expert.

    Example:
      >>> TeacherCausalModelConfig(teacher="random", explore=0.0, length=64).policy_weight
      0.25
    """

    teacher: str = "random"


@dataclasses.dataclass(frozen=True)
class VisualCausalModelSettings(CausalModelSettings):
    """A causal model and the autoencoder of its pictures.

    Attributes:
      autoencoder: kind and size of the autoencoder.

    Example:
      >>> VisualCausalModelSettings("lstm", layers=2, width=128).autoencoder.kind
      'patches'
    """

    autoencoder: AutoencoderSettings = AutoencoderSettings("patches", latent=64, width=64)


def need_pictures(observation_space: spaces.Space, action_space: spaces.Space) -> str | None:
    """Returns why observations are not pictures that autoencoders read."""
    shape = getattr(observation_space, "shape", ())
    bytes_ = isinstance(observation_space, spaces.Box) and observation_space.jax_dtype == jnp.uint8
    if not (bytes_ and len(shape) == 3 and shape[2] == 3):
        return f"pictures uint8[H, W, 3] are needed, not {observation_space}"
    if not (isinstance(action_space, spaces.Discrete) or is_continuous(action_space)):
        return f"one choice or continuous actions are needed, not {action_space}"
    return None


def _make(
    config: TeacherCausalModelConfig, vec: VectorEnv, network: VisualCausalModelSettings
) -> Trainer:
    observations, actions = agent_spaces(vec.env)
    height, width, _ = observations.shape  # type: ignore[attr-defined]
    pictures = standardise(autoencoder(network.autoencoder, (height, width)))
    model = causal_model(network, pictures, actions, config.capacity or config.length)
    teacher = find_teacher(config.teacher, vec)
    losses = [reward_loss()] * network.rewards + map_losses(network)
    return make(config, vec, model, network.policy(actions), teacher, losses)


register_algorithm(
    Algorithm(
        "causal-model",
        _make,
        need_pictures,
        TeacherCausalModelConfig,
        SequenceHParams,
        VisualCausalModelSettings,
        privileged=True,
        remembers=True,
        to_act=lambda config: dataclasses.replace(config.to_act(), teacher="random"),
    )
)
