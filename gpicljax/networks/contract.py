"""The contract between networks and the agents that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.checks import check
from gpicljax.typing import ArrayTree


class AgentInput(NamedTuple):
    """Inputs of an agent's network at each step.

    Attributes:
      observation: the environment's observation.
      last_action: `int32[...]`, -1 at the start of a trial. For continuous actions float, and 0 at
        the start of a trial.
      last_reward: float `[...]`.

    Example:
      >>> first = AgentInput(jnp.zeros((2, 8)), jnp.full(2, -1), jnp.zeros(2))  # two instances
      >>> first.last_action.tolist()
      [-1, -1]
    """

    observation: Any
    last_action: jax.Array
    last_reward: jax.Array


ParamsT = TypeVar("ParamsT", contravariant=True)
CarryT = TypeVar("CarryT", contravariant=True)
InputsT = TypeVar("InputsT", contravariant=True)


class Unroll(Protocol[ParamsT, CarryT, InputsT]):
    """See `Network.unroll`."""

    def __call__(
        self,
        params: ParamsT,
        carry: CarryT,
        inputs: InputsT,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        """Outputs, and the carry."""
        ...


class Network(NamedTuple):
    """Pure functions of one network. `unroll` equals `step` applied T times, for every network.

    Attributes:
      init: `(key, inputs) -> params`, from inputs with leading axis `[B]`.
      initial_carry: maps a batch size to the memory `[B, ...]` at the start of a trial.
      step: `(params, carry, inputs [B, ...], start bool[B]) -> (outputs [B, ...], carry)`. Where
        `start` is set the carry is cleared before the input is processed.
      unroll: the same over inputs and starts with leading axes `[T, B]`. It also takes None for
        the carry, to begin with an empty memory and have no use for the last one (which may come
        back as None), and None for starts, where there is none. With a typed `key`, units are
        dropped where the network has a rate of dropout: for the gradient of a trainer. Without
        one, as in acting and in evaluations, nothing is.
      attention: `(params, inputs [T, B, ...], starts bool[T, B]) -> float [T, B, H, T]`, what each
        head of a memory of events attends to at each step, by the step that stored it, from an
        empty memory on; sums below 1 leave the rest to nothing. None of other networks.

    Example:
      >>> def linear(params, carry, inputs, starts, key=None):
      ...     return inputs @ params, carry
      >>> def init(key, inputs):
      ...     return jax.random.normal(key, (inputs.shape[-1], 2))
      >>> network = Network(init, lambda batch: (), step=linear, unroll=linear)
      >>> network.step(jnp.ones((3, 2)), (), jnp.ones((4, 3)), jnp.zeros(4, bool))[0].shape
      (4, 2)
    """

    init: Callable[[jax.Array, Any], Any]
    initial_carry: Callable[[int], Any]
    step: Callable[[Any, Any, Any, jax.Array], tuple[Any, Any]]
    unroll: Unroll[Any, Any, Any]
    attention: Callable[[Any, Any, jax.Array], jax.Array] | None = None


class Core(nn.Module):
    """Base class of modules with a memory whose `step` is their `unroll` over one step."""

    def initial_carry(self, batch: int) -> Any:
        """Returns the memory at the start of a trial, leaves `[batch, ...]`."""
        raise NotImplementedError

    def unroll(self, carry: Any, inputs: Any, starts: jax.Array) -> tuple[Any, Any]:
        """Inputs `[T, B, ...]`, starts `bool[T, B]` -> outputs `[T, B, ...]`, and the carry."""
        raise NotImplementedError

    def step(
        self, carry: Any, inputs: Any, start: jax.Array, *arguments: Any, **more: Any
    ) -> tuple[Any, Any]:
        """Runs one step: inputs `[B, ...]`, `bool[B]` -> outputs `[B, ...]`, and the carry.

        Further arguments go to `unroll`.
        """
        single_step = jax.tree.map(lambda x: x[None], inputs)
        outputs, carry = self.unroll(carry, single_step, start[None], *arguments, **more)
        return jax.tree.map(lambda x: x[0], outputs), carry


def as_network(module: nn.Module) -> Network:
    """Returns the `Network` of a Linen module with methods `initial_carry`, `step` and `unroll`.

    Where the module has an attribute `reads_none` that is true, its `unroll` is handed a carry or
    starts of None as they come; others get the empty memory, and no start. A module with an
    attribute `attends` that is true has a method `attention`.

    Raises:
      ValueError: by `init`, for a module with other collections of variables than `params`, such as
        the running statistics of BatchNorm: a trainer would move them as if they were parameters.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from gpicljax.networks.recurrent import LSTMStack
      >>> network = as_network(LSTMStack((16,)))
      >>> inputs = jnp.zeros((7, 4, 3))  # [T, B, features]
      >>> params = jax.eval_shape(network.init, jax.random.key(0), inputs[0])
      >>> jax.eval_shape(network.unroll, params, None, inputs, None)[0].shape
      (7, 4, 16)
    """

    def init(key: jax.Array, inputs: ArrayTree) -> Any:
        batch = jax.tree.leaves(inputs)[0].shape[0]
        carry = module.initial_carry(batch)  # type: ignore[attr-defined]
        variables = module.init(key, carry, inputs, jnp.zeros(batch, bool), method="step")
        contents = f"{type(module).__name__} with {', '.join(variables)}"
        accepted_values = "a module whose variables are params alone, which an optimiser may move"
        check(variables.keys() <= {"params"}, "module", contents, accepted_values)
        return variables

    def step(
        params: ArrayTree, carry: ArrayTree, inputs: ArrayTree, start: jax.Array
    ) -> tuple[Any, Any]:
        return module.apply(params, carry, inputs, start, method="step")  # type: ignore[return-value]

    def unroll(
        params: ArrayTree,
        carry: ArrayTree,
        inputs: ArrayTree,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        if not getattr(module, "reads_none", False):
            shape = jax.tree.leaves(inputs)[0].shape[:2]
            carry = module.initial_carry(shape[1]) if carry is None else carry  # type: ignore[attr-defined]
            starts = jnp.zeros(shape, bool) if starts is None else starts
        rngs = None if key is None else {"dropout": key}
        return module.apply(params, carry, inputs, starts, rngs=rngs, method="unroll")  # type: ignore[return-value]

    def attention(params: ArrayTree, inputs: ArrayTree, starts: jax.Array) -> jax.Array:
        return module.apply(params, inputs, starts, method="attention")  # type: ignore[return-value]

    attends = attention if getattr(module, "attends", False) else None
    # Outside a compiled program, each of an initialiser's operations would be compiled alone.
    return Network(jax.jit(init), module.initial_carry, step, unroll, attends)  # type: ignore[attr-defined]


def over_agents(network: Network, num_agents: int, share_parameters: bool = True) -> Network:
    """Returns one agent's network for all agents of an environment, each with a memory of its own.

    Inputs, outputs and carries get an agent axis behind that of the batch, `[B, A, ...]` (`[T, B,
    A, ...]` in `unroll`); starts do not, as a trial starts for all.

    Args:
      network: of one agent.
      num_agents: A.
      share_parameters: whether all agents have the same parameters; else every leaf of them has a
        leading axis A, drawn from keys of their own.

    Example:
      >>> from gpicljax.networks.recurrent import LSTMStack
      >>> network = over_agents(as_network(LSTMStack((16,))), num_agents=2)
      >>> jax.tree.leaves(network.initial_carry(4))[0].shape
      (4, 2, 16)
    """
    agents = jnp.arange(num_agents)
    params_axis = None if share_parameters else 0

    def init(key: jax.Array, inputs: ArrayTree) -> Any:
        if share_parameters:
            return network.init(key, jax.tree.map(lambda x: x[:, 0], inputs))
        return jax.vmap(network.init, (0, 1))(jax.random.split(key, num_agents), inputs)

    def initial_carry(batch: int) -> Any:
        return jax.vmap(lambda _: network.initial_carry(batch), out_axes=1)(agents)

    def step(
        params: ArrayTree, carry: ArrayTree, inputs: ArrayTree, start: jax.Array
    ) -> tuple[Any, Any]:
        return jax.vmap(network.step, (params_axis, 1, 1, None), 1)(params, carry, inputs, start)

    def unroll(
        params: ArrayTree,
        carry: ArrayTree,
        inputs: ArrayTree,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[Any, Any]:
        keys = None if key is None else jax.random.split(key, num_agents)
        over_all = jax.vmap(network.unroll, (params_axis, 1, 2, None, 0), (2, 1))
        return over_all(params, carry, inputs, starts, keys)

    def attention(params: ArrayTree, inputs: ArrayTree, starts: jax.Array) -> jax.Array:
        assert network.attention is not None
        return jax.vmap(network.attention, (params_axis, 2, None), 2)(params, inputs, starts)

    attends = None if network.attention is None else attention
    return Network(init, initial_carry, step, unroll, attends)
