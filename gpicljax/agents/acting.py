"""Memory, inputs and choice of actions of agents over a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gpicljax import spaces
from gpicljax.agents.algorithm import algorithm_from_agent, register_algorithm
from gpicljax.agents.normalisation import Moments, normalise
from gpicljax.batching import select
from gpicljax.environment import Environment
from gpicljax.interface import Agent, TimeStep
from gpicljax.networks.actor_critic import PolicyOutput
from gpicljax.networks.contract import AgentInput, Network
from gpicljax.networks.policies import TanhPolicy, choices, draw_choice, legal_actions, no_action
from gpicljax.networks.q_network import QOutput
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv


class AgentCarry(NamedTuple):
    """The network's carry and the last action.

    Attributes:
      core: leaves `[B, ...]`, or `[B, A, ...]` of A agents.
      last_action: `[B, ...]`, or `[B, A, ...]`; see `policies.no_action`.
    """

    core: Any
    last_action: jax.Array


class Params(NamedTuple):
    """The network's parameters, and the moments that scale observations."""

    network: Any
    scale: Moments | None

    def scale_observation(self, observation: ArrayTree) -> Any:
        """Returns the observation `[..., *shape]` as the network reads it."""
        return observation if self.scale is None else normalise(self.scale, observation)


def initial_memory(network: Network, space: spaces.Space, batch: int) -> AgentCarry:
    """The memory of `batch` agents at the start of a trial; `space` is that of all actions."""
    return AgentCarry(network.initial_carry(batch), no_action(space, batch))


def agent_input(space: spaces.Space, carry: AgentCarry, timestep: TimeStep) -> AgentInput:
    """Returns the network's inputs at a time step `[B]`, with no last action at a trial's start."""
    none = no_action(space, carry.last_action.shape[0])
    last_action = select(timestep.trial_start, none, carry.last_action)
    return AgentInput(timestep.observation, last_action, timestep.reward)


def first_input(space: spaces.Space, observation: ArrayTree) -> tuple[AgentInput, jax.Array]:
    """Returns the input of a network without a memory, before which nothing was done.

    Args:
      space: of actions.
      observation: leaves `[N, ...]`.

    Returns:
      The input, and start flags `bool[N]`.
    """
    count = jax.tree.leaves(observation)[0].shape[0]
    nothing = jnp.zeros(count, jnp.result_type(float))
    inputs = AgentInput(observation, no_action(space, count), nothing)
    return inputs, jnp.zeros(count, bool)


Choose = Callable[[jax.Array, AgentInput, Any], tuple[jax.Array, Any, jax.Array]]
"""`(keys[B], inputs, outputs) -> action, aux, last action`: what to do with a network's outputs."""


def network_agent(network: Network, space: spaces.Space, choose: Choose) -> Agent:
    """Returns an agent over a network, which remembers the network's carry and the last action.

    Args:
      network: its outputs are read by `choose`.
      space: of the network's last action.
      choose: from typed keys `[B]`, the network's inputs and its outputs to the action, the agent's
        `aux`, and the network's last action at the next step.

    Returns:
      The agent over the network's parameters; see `over_params` for one that scales observations.

    Example:
      >>> import gpicljax
      >>> from gpicljax.networks.contract import as_network
      >>> from gpicljax.networks.q_network import QNetwork
      >>> env = gpicljax.make("CliffWalking-v1")
      >>> network = as_network(QNetwork(env.observation_space(), env.action_space()))
      >>> def best(keys, inputs, outputs):
      ...     action = outputs.q_values.argmax(-1)
      ...     return action, {}, action
      >>> network_agent(network, env.action_space(), best).initial_carry(2).last_action.shape
      (2,)
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, AgentCarry]:
        inputs = agent_input(space, carry, timestep)
        outputs, core = network.step(params, carry.core, inputs, timestep.trial_start)
        action, aux, last_action = choose(keys, inputs, outputs)
        return action, aux, AgentCarry(core, last_action)

    return Agent(
        lambda batch: initial_memory(network, space, batch),
        act,
        lambda carry, action: carry._replace(last_action=action),
    )


def greedy(q_values: jax.Array, legal: jax.Array) -> jax.Array:
    """The legal action of highest value; `float[..., n]`, `bool[..., n]` -> `int32[...]`."""
    return jnp.argmax(jnp.where(legal, q_values, -jnp.inf), axis=-1).astype(jnp.int32)


def q_agent(
    network: Network,
    actions: spaces.Space | int,
    epsilons: jax.Array | float | Callable[[int], jax.Array] = 0.0,
    num_agents: int | None = None,
    announce: bool = False,
) -> Agent:
    """Returns an epsilon-greedy agent over the legal actions.

    Args:
      network: outputs `QOutput`; of several agents, `contract.over_agents`.
      actions: of one agent: one choice, several at once, or the number n of actions.
      epsilons: exploration rate, one, `float[B]`, or a function of B; 0 is greedy. Every agent
        explores by itself, with all its choices or with none.
      num_agents: A; None for one agent without an agent axis.
      announce: whether its actions name all choices twice: as made, then as they would be made
        without exploration (Hu & Foerster, 2020).

    Returns:
      The agent; its `aux` is a dictionary with the `q_values` and the network's predictions.

    Raises:
      ValueError: if the actions are not discrete.

    Example:
      >>> import gpicljax
      >>> from gpicljax.networks.contract import as_network
      >>> from gpicljax.networks.q_network import QNetwork
      >>> env = gpicljax.make("CliffWalking-v1")
      >>> network = as_network(QNetwork(env.observation_space(), env.action_space()))
      >>> agent = q_agent(network, env.action_space(), epsilons=0.05)
      >>> agent.initial_carry(2).last_action.shape
      (2,)
    """
    single = choices(actions)
    space = single if num_agents is None else spaces.repeat(single, num_agents)

    def explore(
        key: jax.Array, action: jax.Array, legal: jax.Array, epsilon: jax.Array
    ) -> jax.Array:
        explore_key, choice_key = jax.random.split(key)
        alternative = jax.random.categorical(choice_key, jnp.where(legal, 0.0, -jnp.inf))
        coins = jax.random.uniform(explore_key, action.shape[: action.ndim - len(single.shape)])
        coins = coins.reshape(*coins.shape, *(1,) * len(single.shape))
        return jnp.where(coins < epsilon, alternative.astype(jnp.int32), action)

    def choose(keys: jax.Array, inputs: AgentInput, output: QOutput) -> tuple[jax.Array, Any, Any]:
        legal = jnp.broadcast_to(legal_actions(inputs.observation, single), output.q_values.shape)
        best = action = greedy(output.q_values, legal)
        if not (isinstance(epsilons, float) and epsilons == 0):
            batch = keys.shape[0]
            rates = epsilons(batch) if callable(epsilons) else epsilons
            action = jax.vmap(explore)(keys, best, legal, jnp.broadcast_to(rates, batch))
        announced = jnp.concatenate([action, best], axis=-1) if announce else action
        return announced, {"q_values": output.q_values, **output.predictions}, action

    return network_agent(network, space, choose)


def box_agent(
    network: Network,
    policy: TanhPolicy,
    choose: Callable[[jax.Array, Any], jax.Array],
    uniform: jax.Array | float = False,
) -> Agent:
    """Returns an agent with continuous actions within bounds, over `Params`.

    Args:
      network: of the actor.
      policy: over the space of actions.
      choose: `(key, outputs) -> float[D]` within [-1, 1], of one instance.
      uniform: float `[]`, how often to draw uniformly from the whole space instead.

    Returns:
      The agent; its `aux` is empty.
    """

    def draw(key: jax.Array, outputs: ArrayTree) -> jax.Array:
        choice_key, uniform_key = jax.random.split(key)
        sample = choose(choice_key, outputs)
        if uniform is False:
            return sample
        uniform_draw = jax.random.uniform(uniform_key, sample.shape, sample.dtype, -1, 1)
        chance = jax.random.uniform(jax.random.fold_in(uniform_key, 1), (), sample.dtype)
        return jnp.where(chance < uniform, uniform_draw, sample)

    def choose_all(keys: jax.Array, inputs: AgentInput, outputs: ArrayTree) -> tuple[Any, Any, Any]:
        action = policy.to_action(jax.vmap(draw)(keys, outputs))
        return action, {}, action

    return over_params(network_agent(network, policy.space, choose_all))


def replace_pending_action(carry: Any, action: jax.Array) -> Any:
    """Returns a memory whose pending `action` is what was played; -1 stays: nothing is pending."""
    return dataclasses.replace(carry, action=jnp.where(carry.action < 0, -1, action))


def random_agent(env: Environment) -> Agent:
    """Draws uniformly from the action space, or from the legal actions where there is a mask.

    Example:
      >>> import gpicljax
      >>> agent = random_agent(gpicljax.make("FrozenLake-v1"))
      >>> agent.initial_carry(4)
      ()
    """
    space = env.action_space()
    masked = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)

    def act(
        keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep
    ) -> tuple[Any, Any, Any]:
        del params
        if not masked or not isinstance(timestep.observation, dict):
            return jax.vmap(space.sample)(keys), {}, carry
        mask = timestep.observation.get("action_mask")
        return jax.vmap(space.sample)(keys, mask), {}, carry

    return Agent(lambda batch: (), act)


def optimal_agent() -> Agent:
    """Returns an agent that draws from the best actions, `timestep.privileged["optimal"]`.

    On `wrappers.WithOptimalActions` it is the upper bound that scores are scaled by, and the
    teacher of a Decision-Pretrained Transformer (Lee et al., 2023).

    The batch is to be built with `privileged=True`.

    Returns:
      The agent; its `aux` is a dictionary with `shares`, float `[B, A]`, the probabilities it draws
      with.

    Example:
      >>> import gpicljax
      >>> from gpicljax.rollout import agent_step, start_rollout
      >>> env = gpicljax.wrappers.WithOptimalActions(gpicljax.make("BanditTwoArmedHighLowFixed-v0"))
      >>> vec = gpicljax.VectorEnv(env, 4, resets="fresh", privileged=True)
      >>> @jax.jit
      ... def pull(key):
      ...     agent = optimal_agent()
      ...     return agent_step(vec, agent, (), start_rollout(key, vec, agent))[1].action
      >>> pull(jax.random.key(0)).tolist()
      [0, 0, 0, 0]
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep
    ) -> tuple[Any, Any, Any]:
        del params
        best = timestep.privileged["optimal"]
        shares = best / best.sum(-1, keepdims=True)
        action = jax.vmap(jax.random.categorical)(keys, jnp.where(best, 0.0, -jnp.inf))
        return action.astype(jnp.int32), {"shares": shares}, carry

    return Agent(lambda batch: (), act)


def check_whole_trials(whole_trials: bool, vec: VectorEnv, steps: int) -> None:
    """Refuses `whole_trials` where what is learnt from at once is not one trial of every instance.

    Args:
      whole_trials: whether it is wanted.
      vec: the environments; trials of one episode of fixed length, such as `wrappers.Trial`.
      steps: that are learnt from at once.

    Raises:
      ValueError: unless they are the trial's and the one into the next.
    """
    if whole_trials:
        horizon = int(vec.env.horizon(vec.params))
        fits = vec.episodes_per_trial == 1 and vec.steps_per_trial is None and steps == horizon + 1
        accepted_values = f"True with the trials' {horizon} steps and 1 more, of one episode each"
        setting = f"True with {steps} steps"
        if not fits:
            raise ValueError(f"whole_trials: got {setting}; accepted: {accepted_values}")


def policy_agent(
    network: Network, actions: spaces.Space, temperature: jax.Array | float = 1.0
) -> Agent:
    """Returns an agent that draws from a policy network's logits, sharpened or not.

    Args:
      network: outputs `PolicyOutput`.
      actions: discrete.
      temperature: of the logits, float `[]`, may be traced; 1 is the policy itself, 0 takes its
        most probable action.

    Returns:
      The agent over the network's parameters; its `aux` has the `logits`.

    Example:
      >>> import gpicljax
      >>> from gpicljax.networks.actor_critic import ActorCritic
      >>> from gpicljax.networks.contract import as_network
      >>> env = gpicljax.make("CliffWalking-v1")
      >>> network = as_network(ActorCritic(env.observation_space(), env.action_space()))
      >>> agent = policy_agent(network, env.action_space(), temperature=0.3)
      >>> agent.initial_carry(2).last_action.shape
      (2,)
    """
    space = choices(actions)

    def choose(
        keys: jax.Array, inputs: AgentInput, output: PolicyOutput
    ) -> tuple[jax.Array, Any, Any]:
        logits = jnp.where(legal_actions(inputs.observation, space), output.logits, -jnp.inf)
        action = jax.vmap(lambda key, row: draw_choice(key, row, temperature))(keys, logits)
        return action, {"logits": logits}, action

    return network_agent(network, space, choose)


def over_params(agent: Agent) -> Agent:
    """An agent over its network's parameters as one over `Params`, which scale observations."""

    def act(
        keys: jax.Array, params: Params, carry: ArrayTree, timestep: TimeStep
    ) -> tuple[Any, ...]:
        scaled = timestep._replace(observation=params.scale_observation(timestep.observation))
        return agent.act(keys, params.network, carry, scaled)

    return agent._replace(act=act)


def within_trial(agent: Agent) -> Agent:
    """Returns an agent of an environment, acting in whole trials of it (`wrappers.Trial`).

    It sees what it would see without: the end of an episode, where what it would do is ignored, and
    then the start of the next one.

    Args:
      agent: for the environment inside.

    Returns:
      The agent, with the same parameters and memory; `aux` is that of the action which counts.

    Example:
      >>> import gpicljax
      >>> from gpicljax.agents.bandits import ucb1
      >>> from gpicljax.rollout import play, start_rollout
      >>> env = gpicljax.wrappers.Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), actions=50)
      >>> vec, agent = gpicljax.VectorEnv(env, 8), within_trial(ucb1(env.action_space()))
      >>> def rewards(key):
      ...     return play(vec, agent, (), start_rollout(key, vec, agent), max_steps=50).records
      >>> jax.eval_shape(rewards, jax.random.key(0)).shape
      (8, 1, 50)
    """

    def act(
        keys: jax.Array, params: ArrayTree, carry: ArrayTree, timestep: TimeStep
    ) -> tuple[Any, Any, Any]:
        observation, first = timestep.observation, timestep.trial_start
        false = jnp.zeros_like(first)
        over = (observation["terminated"] | observation["truncated"]) & ~first
        end = timestep._replace(
            observation=observation["reached"],
            terminated=observation["terminated"],
            truncated=observation["truncated"],
            episode_start=false,
            trial_start=false,
        )
        end_keys, keys = jax.vmap(lambda key: jax.random.split(key, 2), out_axes=1)(keys)
        carry = select(over, agent.act(end_keys, params, carry, end)[2], carry)
        current = timestep._replace(
            observation=observation["now"],
            reward=jnp.where(over, 0, timestep.reward),
            terminated=false,
            truncated=false,
            episode_start=first | over,
        )
        return agent.act(keys, params, carry, current)

    return agent._replace(act=act)


register_algorithm(
    algorithm_from_agent("random", lambda config, env: random_agent(env), multi_agent=True)
)
