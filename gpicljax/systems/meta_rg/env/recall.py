"""`Recall`: which value did the stimulus have, in a dimension told a step later?

An episode is about one newly drawn semantic structure and shows all of its stimuli, `shots` times,
a game each. A game has two steps. In the first one a stimulus is seen, and nothing can be done. In
the second one a dimension i is asked for, and the answer is the index l(i) of the value that the
stimulus had in it. One sample stands for a value all through an episode, so that an agent
that has seen the whole space, in the first shot, can name every value in the second.

Two representations: continuous values (`"scs"`), of which the sections have to be found out, and
one-hot ones (`"ohe"`), which only have to be remembered for a step.

Source: appendix E.1 of the Meta-Referential Games paper.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer

from gpicljax import random, spaces
from gpicljax.checks import Range, Size, check
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count, check_values
from gpicljax.systems.meta_rg.env import structure as _structure

MOST_STIMULI = 2**14


@struct.dataclass
class Params:
    """The distribution over tasks, all `int32[]`.

    Attributes:
      min_values: V_min, smallest number of values d(i) of a latent dimension; at least 2.
      max_values: V_max, largest d(i).
      shots: how often the whole space is shown.
    """

    min_values: Annotated[jax.Array, Range(2)]
    max_values: Annotated[jax.Array, Range(2)]
    shots: Count


@struct.dataclass
class Task:
    """One semantic structure.

    Attributes:
      num_values: `int32[N_dim]`, d(i).
      values: float `[N_dim, V]`, what stands for each value in the continuous representation;
        entries beyond d(i) are 0.
      shots: `int32[]`, see `Params`.
    """

    num_values: jax.Array
    values: jax.Array
    shots: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      shown: `int32[max_shots, M]`, the latent tuples in the order of their games, by index.
      dimensions: `int32[max_shots, M]`, the dimension asked for in each game.
      num_stimuli: `int32[]`, games of a shot.
      index: `int32[]`, which game.
      asking: `bool[]`, its second step.
      last_result: `int32[]`, 0 before the first answer, 1 failure, 2 success.
    """

    shown: jax.Array
    dimensions: jax.Array
    num_stimuli: jax.Array
    index: jax.Array
    asking: jax.Array
    last_result: jax.Array


@dataclasses.dataclass(frozen=True)
class Recall(Environment[Params, Task, State]):
    """Name the value that a stimulus had in the dimension that is asked for a step later.

    | rules | stimuli of a shot | reward | legal actions |
    |---|---|---|---|
    | `"paper"` | all of the space, each once, in random order | 1, 0 if wrong | waiting, answers |
    | `"reference"` | the support split, with replacement | 0, -1 if wrong | all, always |

    With the reference's rules all dimensions have V_max values in the one-hot representation. It
    draws as many stimuli of the support split (see `_structure.phase_masks`) as this has.

    Args:
      stimulus: `"scs"` (continuous, N_dim numbers) or `"ohe"` (one-hot, N_dim x max_values).
      rules: `"paper"` or `"reference"`, see above.
      max_values: cap of V_max; there are as many answers.
      max_shots: cap of the shots.
      num_dims: N_dim.

    Raises:
      ValueError: if the caps allow for more than `MOST_STIMULI` stimuli.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("Recall-v0", max_values=3)
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> step = env.step(jax.random.key(2), state, env.wait, task)
      >>> step.observation["stimulus"].tolist(), step.observation["action_mask"].tolist()
      ([1.0, 0.0, 0.0], [True, True, True, False])
    """

    stimulus: Literal["scs", "ohe"] = "scs"
    rules: Literal["paper", "reference"] = "paper"
    max_values: Annotated[int, Range(2)] = 5
    max_shots: Size = 2
    num_dims: Size = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        accepted_values = (
            f"at most {MOST_STIMULI} combinations of num_dims = {self.num_dims} values"
        )
        # As logarithms: the power of two large caps has more digits than there is room for.
        few = self.num_dims * np.log(self.max_values) <= np.log(MOST_STIMULI) + 1e-9
        check(few, "max_values", self.max_values, accepted_values)

    @property
    def wait(self) -> int:
        """The action that answers nothing: the last one."""
        return self.max_values

    @property
    def max_stimuli(self) -> int:
        """M, cap of the games of a shot."""
        return self.max_values**self.num_dims

    @property
    def max_games(self) -> int:
        """Cap of the games of an episode."""
        return self.max_shots * self.max_stimuli

    def horizon(self, params: Params | None = None) -> Any:
        """Steps of an episode if every dimension has `params.max_values` values."""
        env_params = self.default_params if params is None else params
        values, shots = (
            x if isinstance(x, Tracer) else np.asarray(x)
            for x in (env_params.max_values, env_params.shots)
        )
        stimuli = values**self.num_dims
        if self.rules == "reference":
            tested = values // 2
            untested = values - tested
            stimuli = untested**self.num_dims + self.num_dims * tested * untested ** (
                self.num_dims - 1
            )
        return (2 * shots * stimuli).astype(np.int32)

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """V in 2 .. min(5, cap), two shots or the cap: the paper's."""
        fields = 2, min(5, self.max_values), min(2, self.max_shots)
        return Params(*(jnp.asarray(x, jnp.int32) for x in fields))

    def validate(self, params: Params) -> None:
        """Raises ValueError unless 2 <= V_min <= V_max, within the caps."""
        super().validate(params)
        low, high = np.asarray(params.min_values), np.asarray(params.max_values)
        check_values("min_values, max_values", (low, high), low <= high, "min <= max")
        for name, cap in (("max_values", self.max_values), ("shots", self.max_shots)):
            option = "max_shots" if name == "shots" else name
            value = np.asarray(getattr(params, name))
            accepted_values = f"up to {cap}; make(..., {option}=...) raises the cap"
            check_values(name, value, value <= cap, accepted_values)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws how many values each dimension has, and one sample for each of them."""
        structure_key, table_key = jax.random.split(key)
        high = jnp.asarray(params.max_values, jnp.int32)
        even = self.rules == "reference" and self.stimulus == "ohe"
        low = high if even else jnp.asarray(params.min_values, jnp.int32)
        num_values = _structure.sample_num_values(structure_key, self.num_dims, low, high)
        table, _, _ = _structure.sample_scs(table_key, num_values, self.max_values, 1)
        exists = jnp.arange(self.max_values) < num_values[:, None]
        values = jnp.where(exists, table[..., 0], 0)
        return Task(num_values, values, jnp.asarray(params.shots, jnp.int32))

    def occurring_tuples(self, task: Task) -> jax.Array:
        """Marks the latent tuples that games are about, `bool[M]` (see
        `_structure.combinations`).
        """
        support, query = _structure.phase_masks(task.num_values, self.max_values)
        return support if self.rules == "reference" else support | query

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """Draws the order of the stimuli and what is asked about each."""
        order_key, asked_key = jax.random.split(key)
        shape, exists = (self.max_shots, self.max_stimuli), self.occurring_tuples(task)
        num_stimuli = exists.sum(dtype=jnp.int32)
        if self.rules == "reference":
            members = jnp.argsort(~exists, stable=True).astype(jnp.int32)
            shown = members[random.integers(order_key, shape, 0, num_stimuli)]
        else:
            # 31 bits, so that what does not exist comes last.
            rank = jnp.where(exists, random.bits(order_key, shape) >> 1, jnp.uint32(2**32 - 1))
            shown = jnp.argsort(rank, axis=-1).astype(jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        return State(
            shown=shown,
            dimensions=random.integers(asked_key, shape, 0, self.num_dims),
            num_stimuli=num_stimuli,
            index=zero,
            asking=jnp.zeros((), bool),
            last_result=zero,
        )

    def _game(self, state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The current game: its latent values `int32[N_dim]`, the dimension asked for, the shot."""
        shot, place = state.index // state.num_stimuli, state.index % state.num_stimuli
        tuples = jnp.asarray(_structure.combinations(self.num_dims, self.max_values))
        return tuples[state.shown[shot, place]], state.dimensions[shot, place], shot

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Answers, if it is asked for: `action: int32[]`, a value's index or `wait`.

        Args:
          state: the state.
          action: what is answered. Nothing that is done while a stimulus is shown has an effect.
          noise: nothing; the draws of an episode come from its state.
          task: the task.

        Returns:
          The transition. `info`: `answered` and `correct`, `bool[]`; `shot`, `int32[]`, of the game
          played, from 0: the paper's accuracy is that of answers with shot 1.
        """
        del noise
        latents, dimension, shot = self._game(state)
        correct = state.asking & (action == latents[dimension])
        dtype = jnp.result_type(float)
        reward = correct.astype(dtype)
        if self.rules == "reference":
            reward = reward - state.asking.astype(dtype)
        last = state.index == task.shots * state.num_stimuli - 1
        over = state.asking & last
        result = jnp.where(correct, 2, 1).astype(jnp.int32)
        return Transition(
            state=dataclasses.replace(
                state,
                index=state.index + (state.asking & ~last).astype(jnp.int32),
                asking=~state.asking | over,
                last_result=jnp.where(state.asking, result, state.last_result),
            ),
            reward=reward,
            terminated=over,
            truncated=jnp.zeros((), bool),
            info={"answered": state.asking, "correct": correct, "shot": shot},
        )

    def observe(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the observation.

        Returns:
          stimulus: float `[N_dim]` or `[N_dim x max_values]`, the game's; when asking, 1 at the
            dimension asked for (all of its entries, in the one-hot representation) and else 0.
          previous_result: `int32[]`, of the last answer: 0 none yet, 1 failure, 2 success.
          action_mask: `bool[max_values + 1]`, the legal actions.
        """
        latents, dimension, _ = self._game(state)
        dims, dtype = jnp.arange(self.num_dims), jnp.result_type(float)
        question = (dims == dimension).astype(dtype)
        if self.stimulus == "scs":
            stimulus = jnp.where(state.asking, question, task.values[dims, latents])
        else:
            one_hot = jax.nn.one_hot(latents, self.max_values, dtype=dtype)
            stimulus = jnp.where(state.asking, question[:, None], one_hot).reshape(-1)
        waiting = jnp.arange(self.max_values + 1) == self.wait
        mask = waiting != state.asking
        return {
            "stimulus": stimulus,
            "previous_result": state.last_result,
            "action_mask": mask if self.rules == "paper" else jnp.ones_like(mask),
        }

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the indices of values, and waiting."""
        del task
        return spaces.Discrete(self.max_values + 1)

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """A `Dict` with the entries of `observe`. Samples of values are not cut off at ±1."""
        del task
        continuous = self.stimulus == "scs"
        features = self.num_dims * (1 if continuous else self.max_values)
        low, high = (-float("inf"), float("inf")) if continuous else (0.0, 1.0)
        return spaces.Dict.of(
            stimulus=spaces.Box(low, high, (features,)),
            previous_result=spaces.Discrete(3),
            action_mask=spaces.Box(0, 1, (self.max_values + 1,), bool),
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the game: `latents` and `num_values` `int32[N_dim]`, the rest `[]`.

        `asking` `bool[]`; `dimension`, `answer` and `shot`, `int32[]`.
        """
        latents, dimension, shot = self._game(state)
        return {
            "latents": latents,
            "num_values": task.num_values,
            "asking": state.asking,
            "dimension": dimension,
            "answer": latents[dimension],
            "shot": shot,
        }

    def describe(self, state: State, task: Task) -> str:
        """Returns one line: the game, what is shown or asked for, and the last result."""
        observation = self.observe(state, task)
        stimulus = np.asarray(observation["stimulus"]).reshape(self.num_dims, -1)
        if state.asking:
            seen = f"asked for dimension {stimulus[:, 0].argmax()}"
        elif self.stimulus == "scs":
            seen = f"shown ({', '.join(f'{x:.2f}' for x in stimulus[:, 0])})"
        else:
            seen = f"shown {tuple(stimulus.argmax(-1).tolist())}"
        result = ("", ", last answer wrong", ", last answer right")[int(state.last_result)]
        return f"game {int(state.index) + 1}: {seen}{result}"
