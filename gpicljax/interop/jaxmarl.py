"""JaxMARL's interface: dictionaries of agents, no params, a `step` that resets itself."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gpicljax import spaces
from gpicljax.batching import Constant, restart
from gpicljax.checks import missing, refusal
from gpicljax.environment import Environment
from gpicljax.interop import _spaces
from gpicljax.registration import resolve
from gpicljax.typing import ArrayTree

try:
    from jaxmarl.environments import MultiAgentEnv, State
    from jaxmarl.environments import spaces as jaxmarl_spaces
except ImportError as error:
    raise missing("jaxmarl", "gymnax") from error

ByAgent = dict[str, Any]


@struct.dataclass
class JaxMARLState(State):
    """An episode in progress, with its task.

    Attributes:
      done: `bool[]`, the episode is over.
      step: `int32[]`, steps taken.
      task: the task.
      state: the environment's state.
    """

    task: Any
    state: Any


@dataclasses.dataclass(unsafe_hash=True)
class JaxMARLEnv(MultiAgentEnv):
    """An environment behind JaxMARL's interface; `to_jaxmarl` makes one.

    Every agent has the same spaces: its observation is one float vector, its action one integer.
    Hashable by value, so that equal ones share compiled programs. A `vmap` over `step` generates
    new tasks and episodes for the instances that ended only, and observes once, after the reset.
    """

    env: Environment
    params: Constant

    def __post_init__(self) -> None:
        assert self.env.num_agents is not None
        super().__init__(self.env.num_agents)
        observation = _spaces.flat_box(self._one_observation)
        action = _spaces.joint_space(self._one_action)
        assert isinstance(action, spaces.Discrete)
        for agent in self.agents:
            self.observation_spaces[agent] = jaxmarl_spaces.Box(
                observation.low, observation.high, observation.shape, observation.jax_dtype
            )
            self.action_spaces[agent] = jaxmarl_spaces.Discrete(action.n)

    @property
    def name(self) -> str:
        """The environment's name."""
        return self.env.name

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """All agents are of one class."""
        return {"agent": self.agents}

    @functools.partial(jax.jit, static_argnums=(0,))
    def reset(self, key: jax.Array) -> tuple[ByAgent, JaxMARLState]:
        """Draws a task and starts an episode: the observations by agent and the state."""
        state = self._start(key, self.params.value)
        return self.get_obs(state), state

    @functools.partial(jax.jit, static_argnums=(0,))
    def step(
        self,
        key: jax.Array,
        state: JaxMARLState,
        actions: ByAgent,
        reset_state: JaxMARLState | None = None,
    ) -> tuple[ByAgent, JaxMARLState, ByAgent, ByAgent, dict[str, jax.Array]]:
        """Runs one step; where it ends the episode, the state and observations are the next one's.

        Args:
          key: a typed key.
          state: the state.
          actions: an `int32[]` (or `[1]`) by agent.
          reset_state: the state to go on from after an episode; a newly drawn one if None.

        Returns:
          Observations, state, rewards, dones (with `"__all__"`) and infos; the latter are the
          environment's scalars, as one entry per agent, as JaxMARL's baselines reshape them.
        """
        arrived, rewards, infos = self._move(jax.random.fold_in(key, 0), state, actions)
        if reset_state is None:
            following = restart(self._restart, arrived.done, key, arrived, self.params.value)
        else:
            following = jax.lax.cond(arrived.done, lambda: reset_state, lambda: arrived)
        return self.get_obs(following), following, rewards, self._dones(arrived), infos

    def step_env(
        self, key: jax.Array, state: State, actions: ByAgent
    ) -> tuple[ByAgent, Any, ByAgent, ByAgent, dict[str, jax.Array]]:
        """`step` without the reset."""
        assert isinstance(state, JaxMARLState)
        arrived, rewards, infos = self._move(key, state, actions)
        return self.get_obs(arrived), arrived, rewards, self._dones(arrived), infos

    def get_obs(self, state: State) -> ByAgent:
        """Returns every agent's observation, float `[n]`."""
        assert isinstance(state, JaxMARLState)
        observation = self.env.observe(state.state, state.task)
        return self._by_agent(spaces.flatten(self._one_observation, observation))

    @functools.partial(jax.jit, static_argnums=(0,))
    def get_avail_actions(self, state: JaxMARLState) -> ByAgent:
        """Every agent's legal actions, `bool[n]`: all, where the game has no `action_mask`."""
        observation = self.env.observe(state.state, state.task)
        if not isinstance(observation, dict) or "action_mask" not in observation:
            return {a: jnp.ones(self.action_spaces[a].n, bool) for a in self.agents}
        joint = functools.partial(_spaces.joint_mask, self._one_action)
        return self._by_agent(jax.vmap(joint)(observation["action_mask"]))

    # -----------------------------------------------------------------------------------------

    @property
    def _one_observation(self) -> spaces.Space:
        return spaces.of_one_agent(self.env.observation_space(), self.num_agents)

    @property
    def _one_action(self) -> spaces.Space:
        return spaces.of_one_agent(self.env.action_space(), self.num_agents)

    def _by_agent(self, values: jax.Array) -> ByAgent:
        return {agent: values[i] for i, agent in enumerate(self.agents)}

    def _dones(self, state: JaxMARLState) -> ByAgent:
        return dict.fromkeys([*self.agents, "__all__"], state.done)

    def _start(self, key: jax.Array, params: ArrayTree) -> JaxMARLState:
        task_key, state_key = jax.random.split(key)
        task = self.env.sample_task(task_key, params)
        state = self.env.initial(state_key, task)
        false, zero = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
        return JaxMARLState(done=false, step=zero, task=task, state=state)

    def _restart(self, key: jax.Array, params: ArrayTree) -> JaxMARLState:
        # Another key than the step's, made for those alone that need it.
        return self._start(jax.random.fold_in(key, 1), params)

    def _move(
        self, key: jax.Array, state: JaxMARLState, actions: ByAgent
    ) -> tuple[JaxMARLState, ByAgent, dict[str, jax.Array]]:
        native = [_spaces.to_native(self._one_action, actions[agent]) for agent in self.agents]
        moved, rewards, terminated, truncated, info = self.env.transition(
            key, state.state, jnp.stack(native), state.task
        )
        infos = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_agents,)), info)
        arrived = JaxMARLState(
            done=terminated | truncated, step=state.step + 1, task=state.task, state=moved
        )
        return arrived, self._by_agent(rewards), infos


def to_jaxmarl(env: Environment | str, params: ArrayTree = None) -> JaxMARLEnv:
    """Puts an environment of several agents behind JaxMARL's interface.

    Args:
      env: an environment, or its id, with an agent axis, all of whose agents have the same spaces,
        and discrete actions. Several choices at once (a decision and a message, say) become one
        integer that numbers all combinations.
      params: the distribution over tasks, one of which is drawn at each reset;
        `env.default_params` if None.

    Raises:
      ValueError: for an environment of one agent, or `params` that `env.validate` refuses.
      TypeError: for agents with different spaces, or continuous actions.

    Example:
      >>> import gpicljax, jax
      >>> from gpicljax.interop import to_jaxmarl
      >>> env = to_jaxmarl(gpicljax.make("MetaRG-v0", view="players"))
      >>> observations, state = env.reset(jax.random.key(0))
      >>> sorted(observations), env.action_space("agent_0").n
      (['agent_0', 'agent_1'], 1029)
    """
    env = resolve(env)
    if env.num_agents is None:
        accepted_values = "several agents; to_gymnax and to_gymnasium take one"
        raise ValueError(refusal("num_agents", None, accepted_values))
    one_action = spaces.of_one_agent(env.action_space(), env.num_agents)
    if not isinstance(one_action, spaces.Discrete | spaces.MultiDiscrete):
        raise TypeError(refusal("action_space", one_action, "Discrete, MultiDiscrete"))
    return JaxMARLEnv(env, Constant.of(env.params_or_default(params)))
