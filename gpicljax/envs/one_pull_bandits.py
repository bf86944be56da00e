"""Bandits whose episodes are one pull: those of the in-context RL evaluation.

A pull of arm i pays with a chance p_i. What it pays is r_i, or a normal number with mean r_i.
Eight configurations have names; the evaluation uses two of them.

Source: the environments of the package `gymnasium-bandits` (after J. Cooper's `gym-bandits`),
restated. Two of its flaws are not copied: its arms are drawn at construction from a generator that
no seed reaches, and so are its pulls. Here the arms are a task and pulls follow their key.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Size, check, check_choice
from gpicljax.environment import Transition, TransitionModel
from gpicljax.envs._bandit import Bandit, State
from gpicljax.envs._checks import NotNegative, Probability, Real, check_values
from gpicljax.symbols import SymbolCode, levels

Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Kind:
    """The distribution over arms that a name stands for; see `Params`."""

    chances: tuple[Range, ...]
    payments: Range = (1.0, 1.0)
    spread: float = 0.0
    noise: float = 0.0


def _fixed_kind(*chances: float) -> Kind:
    return Kind(tuple((p, p) for p in chances))


_SURE, _ANY = ((1.0, 1.0),) * 10, ((0.0, 1.0),) * 10
KINDS = {
    "TwoArmedDeterministicFixed": _fixed_kind(1.0, 0.0),
    "TwoArmedHighHighFixed": _fixed_kind(0.8, 0.9),
    "TwoArmedHighLowFixed": _fixed_kind(0.8, 0.2),
    "TwoArmedLowLowFixed": _fixed_kind(0.1, 0.2),
    "TenArmedRandomFixed": Kind(_ANY),
    "TenArmedRandomRandom": Kind(_ANY, payments=(0.0, 1.0)),
    "TenArmedUniformDistributedReward": Kind(_SURE, payments=(0.0, 1.0)),
    "TenArmedGaussian": Kind(_SURE, payments=(0.0, 0.0), spread=1.0, noise=1.0),
}


@struct.dataclass
class Params:
    """The distribution over bandits; ranges are `[lowest, highest]`, and draws are uniform.

    Attributes:
      chances: float `[num_arms, 2]`, range of each arm's chance to pay.
      payments: float `[num_arms, 2]`, range of what each arm pays if it pays.
      spread: float `[]`, standard deviation of a normal number added to each arm's payment.
      noise: float `[]`, standard deviation of a single payment.
    """

    chances: Probability
    payments: Real
    spread: NotNegative
    noise: NotNegative


@struct.dataclass
class Task:
    """One bandit.

    Attributes:
      chances: float `[num_arms]`, the chance that a pull of each arm pays.
      payments: float `[num_arms]`, what it pays on average if it pays.
      noise: float `[]`, standard deviation of a single payment.
    """

    chances: jax.Array
    payments: jax.Array
    noise: jax.Array


@dataclasses.dataclass(frozen=True)
class OnePullBandit(Bandit[Params, Task]):
    """Arms to choose from once in an episode: every pull terminates it.

    The observation is always 0, `Discrete(1)`. Give `VectorEnv` an `episodes_per_trial` for many
    pulls of one bandit. `info["regret"]` is the best arm's expected reward minus the pulled arm's.
    The noise of a pull is a uniform and a normal number, see `draw_noise`.

    Args:
      kind: which of `KINDS` the default params describe.
      num_arms: another number of arms than the kind has, where all its arms are drawn alike.

    Raises:
      ValueError: for an unknown kind, or one that has the number of arms it has.

    Example:
      >>> import jax
      >>> env = OnePullBandit("TwoArmedHighLowFixed")
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> env.describe(env.initial(jax.random.key(0), task), task)
      'no pull made yet'
    """

    kind: str
    num_arms: Size | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kind", self.kind, KINDS)
        chances = KINDS[self.kind].chances
        free = self.num_arms in (None, len(chances)) or len(set(chances)) == 1
        accepted_values = f"{len(chances)}, as the arms of {self.kind} differ"
        check(free, "num_arms", self.num_arms, accepted_values)

    @property
    def arms(self) -> int:
        """Two or ten, unless said otherwise."""
        return self.num_arms or len(KINDS[self.kind].chances)

    def horizon(self, params: Params | None = None) -> Any:
        """Steps of an episode: one pull."""
        del params
        return np.ones((), np.int32)

    @property
    def default_params(self) -> Params:
        """Params of this kind of bandit."""
        dtype, kind = jnp.result_type(float), KINDS[self.kind]
        return Params(
            jnp.resize(jnp.asarray(kind.chances, dtype), (self.arms, 2)),
            jnp.broadcast_to(jnp.asarray(kind.payments, dtype), (self.arms, 2)),
            jnp.asarray(kind.spread, dtype),
            jnp.asarray(kind.noise, dtype),
        )

    def validate(self, params: Params) -> None:
        """Raises ValueError for ranges out of order, bad probabilities or standard deviations."""
        super().validate(params)
        for field in ("chances", "payments"):
            ranges = np.asarray(getattr(params, field))
            accepted_values = f"a range (lowest, highest) for each of the {self.arms} arms"
            check_values(field, ranges, ranges.shape[-2:] == (self.arms, 2), accepted_values)
            check_values(field, ranges, ranges[..., 0] <= ranges[..., 1], accepted_values)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws every arm's chance and payment."""
        dtype, shape = jnp.result_type(float), (self.arms,)
        chance_key, payment_key, normal_key = jax.random.split(key, 3)

        def draw(key: jax.Array, ranges: jax.Array) -> jax.Array:
            share = jax.random.uniform(key, shape, dtype)
            return ranges[:, 0] + share * (ranges[:, 1] - ranges[:, 0])

        payments = draw(payment_key, params.payments)
        payments += params.spread * jax.random.normal(normal_key, shape, dtype)
        return Task(draw(chance_key, params.chances), payments, jnp.asarray(params.noise, dtype))

    def means(self, task: Task) -> jax.Array:
        """Chance times payment."""
        return task.chances * task.payments

    def transition_model(self, task: Task) -> TransitionModel:
        """Returns a pull of every arm, `[1, arms, 1]`; its reward is the mean."""
        means = self.means(task)[None, :, None]
        yes = jnp.ones(means.shape, bool)
        return TransitionModel(jnp.ones_like(means), jnp.zeros(means.shape, jnp.int32), means, yes)

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[2]`.

        A uniform number in [0, 1): arms pay whose chance exceeds it. And a standard normal one, by
        how many standard deviations a payment is off.
        """
        # One call of the generator for both; the second as `jax.random.normal` makes it.
        dtype = task.noise.dtype
        low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
        draws = jax.random.uniform(key, (2,), dtype, low, 1)
        return jnp.stack([(draws[0] + 1) / 2, np.sqrt(2).astype(dtype) * jax.lax.erf_inv(draws[1])])

    def payment(self, action: jax.Array, noise: jax.Array, task: Task) -> jax.Array:
        """0, or the arm's payment plus noise."""
        amount = task.payments[action] + task.noise * noise[1]
        return jnp.where(noise[0] < task.chances[action], amount, 0)

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Pulls arm `action: int32[]`, with the noise given, see `draw_noise`."""
        return Transition(
            State(jnp.ones((), jnp.int32)),
            self.payment(action, noise, task),
            jnp.ones((), bool),
            jnp.zeros((), bool),
            {"regret": self.regret(action, task)},
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Always 0, `int32[]`."""
        return jnp.zeros((), jnp.int32)

    def symbols(self) -> SymbolCode:
        """Returns the code: pulls, and what each paid."""
        pays_one = KINDS[self.kind].payments == (1.0, 1.0)
        rewards = (0.0, 1.0) if pays_one else levels(-4.0, 4.0, 65)
        return SymbolCode(rewards, observation=(), nothing=None)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns one member: there is nothing to see."""
        return spaces.Discrete(1)

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`chances`, `payments`: float `[arms]`; `best_arm`: `int32[]`, of greatest mean reward."""
        best_arm = jnp.argmax(self.means(task)).astype(jnp.int32)
        return {"chances": task.chances, "payments": task.payments, "best_arm": best_arm}

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.in_context_rl.figures.matches:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns whether an arm was pulled."""
        return "one pull made" if int(state.pulls) else "no pull made yet"


TwoArmedDeterministicFixed = functools.partial(OnePullBandit, "TwoArmedDeterministicFixed")
TwoArmedHighHighFixed = functools.partial(OnePullBandit, "TwoArmedHighHighFixed")
TwoArmedHighLowFixed = functools.partial(OnePullBandit, "TwoArmedHighLowFixed")
TwoArmedLowLowFixed = functools.partial(OnePullBandit, "TwoArmedLowLowFixed")
TenArmedRandomFixed = functools.partial(OnePullBandit, "TenArmedRandomFixed")
TenArmedRandomRandom = functools.partial(OnePullBandit, "TenArmedRandomRandom")
TenArmedUniformDistributedReward = functools.partial(
    OnePullBandit, "TenArmedUniformDistributedReward"
)
TenArmedGaussian = functools.partial(OnePullBandit, "TenArmedGaussian")
