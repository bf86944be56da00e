"""`MetaLanguage`: the environment, the distribution over languages, and the sequences as data."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range, Size, check, check_at_least
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count, NotNegative, Positive, check_values
from gpicljax.symbols import SymbolCode
from gpicljax.systems.meta_language.env import calibration, ngram_language
from gpicljax.systems.meta_language.env.ngram_language import SlotWeights, Theta
from gpicljax.systems.meta_language.env.sequences import Normalisation, sequences

Calibration = Literal["none", "reject", "scale"]


@struct.dataclass
class Params:
    """The distribution over languages.

    Attributes:
      min_order: `int32[]`, least order n.
      max_order: `int32[]`, greatest order n; every order in between is equally likely.
      scale: float `[]`, lambda: the standard deviation that logits are brought to.
      sigma: float `[]`, standard deviation of the generator's parameters.
      min_nats: float `[]`, least nats per token of a language (if calibrated),
      max_nats: float `[]`, greatest.
      horizon: `int32[]`, tokens in an episode.
    """

    min_order: Count
    max_order: Count
    scale: Positive
    sigma: Positive
    min_nats: NotNegative
    max_nats: Positive
    horizon: Count


@struct.dataclass
class Task:
    """One language.

    Attributes:
      tables: float `[slots, V, V]`, entry `[a, x]` is what token x at age a (the newest has age 0)
        adds to the logits of the next token: all that the parameters amount to, at about a third of
        their size.
      order: `int32[]`, n.
      scale: float `[]`, lambda.
      horizon: `int32[]`, tokens in an episode.
      missed: `bool[]`, calibration was asked for and failed.
    """

    tables: jax.Array
    order: jax.Array
    scale: jax.Array
    horizon: jax.Array
    missed: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      context: `int32[slots]`, the tokens that can matter, the latest last.
      time: `int32[]`, tokens drawn so far.
    """

    context: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class MetaLanguage(Environment[Params, Task, State]):
    """Predict each next token of a language that a random n-gram generator speaks.

    The observation is the latest token; an episode starts with token 0, as if there had been
    nothing but token 0 before, and is truncated after `horizon` tokens. An action is a prediction:
    one finite number for each token, as float `[V]`, of which the softmax is taken. The reward is
    the log-probability, in nats, that this gave to the token then drawn: on average it is highest
    for the true distribution, and log(1 / V) for equal numbers. What is predicted does not
    influence what is drawn.

    `info["attainable"]` is the reward for predicting the true distribution: the generator's own
    log-probability of the token, float `[]`, on average the most that can be had; and
    `info["regret"]` by how much the prediction is worse on average: the Kullback-Leibler divergence
    in nats, float `[]`. `info["missed"]` is the task's, `bool[]`. The noise of a step is one
    uniform number, see `draw_noise`.

    Sequences as training data come from `sample_sequences`, many times faster.

    Args:
      vocab_size: V, tokens.
      embedding_size: of the generator.
      hidden_size: of the generator.
      max_order: cap of n.
      slot_weights: `"reference"`: the k-th oldest of the n tokens weighs k = 0 .. n - 1, as in the
        paper's data, so that the oldest has no influence and n = 2 is a Markov chain; `"uniform"`:
        all weigh the same.
      normalisation: `"row"`: logits are normalised over the vocabulary, as in Algorithm 1 of the
        paper; `"joint"`: over the vocabulary and all sequences of a `sample_sequences` call, as in
        the paper's first data set (500 languages of one order in a call). As the probabilities
        then depend on the other sequences, nothing but `sample_sequences` accepts it.
      calibration: `"none"`; `"reject"`: languages are drawn until one's nats per token are within
        the params' range; `"scale"`: each language's lambda is changed until they are. Measured on
        2,048 tokens, see `calibration`.
      calibration_rounds: languages drawn, or values of lambda tried, at most.

    Raises:
      ValueError: for sizes that are too small, and unknown options.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("MetaLanguage-v0")
      >>> params = env.make_params(min_order=3, max_order=6)
      >>> keys = jax.random.split(jax.random.key(0), 10)
      >>> tasks = jax.vmap(env.sample_task, (0, None))(keys, params)
      >>> env.sample_sequences(jax.random.key(1), tasks, length=20).shape
      (10, 1, 21)
    """

    vocab_size: Annotated[int, Range(2, 2**20)] = 32
    embedding_size: Size = 32
    hidden_size: Size = 64
    max_order: Size = 8
    slot_weights: SlotWeights = "reference"
    normalisation: Normalisation = "row"
    calibration: Calibration = "none"
    calibration_rounds: Annotated[int, Range(1)] = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.normalisation == "row" or self.calibration == "none"
        check(fits, "calibration", self.calibration, 'none, or normalisation="row"')

    # The distribution over languages ---------------------------------------------------------

    @property
    def num_slots(self) -> int:
        """The number of latest tokens that can matter: `max_order`, or 1 less by `reference`."""
        return ngram_language.num_slots(self.max_order, self.slot_weights)

    def parameter_count(self, order: int) -> int:
        """Returns numbers that define a language of this order: 3104 + 2112 n by default."""
        sizes = self.vocab_size, self.embedding_size, self.hidden_size
        return ngram_language.parameter_count(order, *sizes)

    @property
    def default_params(self) -> Params:
        """The paper's: n in 3 .. 6 (or the cap), lambda 5, sigma 1, 0.5 .. 1.0 nats; 512 tokens."""
        dtype = jnp.result_type(float)
        return Params(
            min_order=jnp.asarray(min(3, self.max_order), jnp.int32),
            max_order=jnp.asarray(min(6, self.max_order), jnp.int32),
            scale=jnp.asarray(5.0, dtype),
            sigma=jnp.asarray(1.0, dtype),
            min_nats=jnp.asarray(0.5, dtype),
            max_nats=jnp.asarray(1.0, dtype),
            horizon=jnp.asarray(512, jnp.int32),
        )

    def validate(self, params: Params) -> None:
        """Raises ValueError for orders outside 1 .. cap, and numbers out of range."""
        super().validate(params)
        low, high = np.asarray(params.min_order), np.asarray(params.max_order)
        cap = f"orders n up to {self.max_order}; make(..., max_order=...) raises the cap"
        check_values("max_order", high, high <= self.max_order, cap)
        check_values("min_order, max_order", (low, high), low <= high, "min_order <= max_order")
        low, high = np.asarray(params.min_nats), np.asarray(params.max_nats)
        fine = (low < high) & (low < np.log(self.vocab_size))
        accepted_values = f"min_nats < max_nats, and min_nats below log({self.vocab_size})"
        check_values("min_nats, max_nats", (low, high), fine, accepted_values)

    def sample_theta(self, key: jax.Array, params: Params) -> Theta:
        """Draws the parameters of a generator, for the largest order."""
        sizes = self.max_order, self.vocab_size, self.embedding_size, self.hidden_size
        return ngram_language.sample_theta(key, jnp.asarray(params.sigma), *sizes)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws an order and a language of it."""
        order_key, key = jax.random.split(key)
        dtype = jnp.result_type(float)
        lowest = jnp.asarray(params.min_order, jnp.int32)
        order = jax.random.randint(order_key, (), lowest, params.max_order + 1, jnp.int32)
        scale = jnp.asarray(params.scale, dtype)

        def draw(key: jax.Array) -> jax.Array:
            return self.task_of(self.sample_theta(key, params), order, params).tables

        bounds = params.min_nats, params.max_nats, self.calibration_rounds
        if self.calibration == "reject":
            drawn = calibration.by_rejection(key, draw, scale, *bounds)
        elif self.calibration == "scale":
            draw_key, key = jax.random.split(key)
            drawn = calibration.by_scale(key, draw(draw_key), scale, *bounds)
        else:
            drawn = calibration.Calibrated(draw(key), scale, jnp.zeros((), bool))
        horizon = jnp.asarray(params.horizon, jnp.int32)
        return Task(drawn.tables, order, drawn.scale, horizon, drawn.missed)

    def task_of(self, theta: Theta, order: jax.Array | int, params: Params) -> Task:
        """The language of order n that `theta` defines, with scale and horizon of `params`."""
        order = jnp.asarray(order, jnp.int32)
        tables = ngram_language.tables_of(theta, order, self.slot_weights)
        scale = jnp.asarray(params.scale, tables.dtype)
        horizon = jnp.asarray(params.horizon, jnp.int32)
        return Task(tables, order, scale, horizon, jnp.zeros((), bool))

    # What follows what -----------------------------------------------------------------------

    def _check_row(self) -> None:
        only = "row; joint probabilities depend on a whole batch: in sample_sequences only"
        check(self.normalisation == "row", "normalisation", self.normalisation, only)

    def next_token_log_probs(self, task: Task, context: jax.Array) -> jax.Array:
        """Returns the generator's log-probabilities of the next token, float `[V]`.

        Args:
          task: the language.
          context: int `[C]`, the text so far, the latest token last; only the last `num_slots`
            tokens matter, and what is missing of them counts as token 0.

        Raises:
          ValueError: if logits are normalised jointly.
        """
        self._check_row()
        slots = self.num_slots
        context = jnp.pad(jnp.asarray(context, jnp.int32), (slots, 0))[-slots:]
        return ngram_language.log_probs_of(
            ngram_language.logits_after(task.tables, context), task.scale
        )

    def log_likelihood(self, task: Task, tokens: jax.Array) -> jax.Array:
        """The generator's log-probability of each token but the first, float `[L]`, in nats.

        Args:
          task: the language.
          tokens: int `[L + 1]`, a sequence as `sample_sequences` draws them.

        Raises:
          ValueError: if there is no second token, or logits are normalised jointly.
        """
        self._check_row()
        tokens = jnp.asarray(tokens)
        fits = tokens.ndim == 1 and tokens.shape[0] >= 2
        check(fits, "tokens", tokens.shape, "the shape of one sequence of two or more")
        return ngram_language.log_likelihood(task.tables, task.scale, tokens)

    def sample_sequences(
        self,
        key: jax.Array,
        tasks: Task,
        length: int,
        sequences_per_task: int = 1,
        *,
        with_log_probs: bool = False,
        tile: int | None = None,
    ) -> Any:
        """Draws sequences of N languages: inputs are `[..., :-1]`, targets `[..., 1:]`.

        Jittable, with static `length` and `sequences_per_task`. Each sequence starts with token 0
        and follows the generator from there, as in the paper's data. Normalised by row, a sequence
        does not depend on the others, nor on `tile`: equal keys give equal bits.

        Args:
          key: a typed key; or one for each language, `[N]`.
          tasks: the languages, with one leading axis `[N]`.
          length: L, tokens to draw.
          sequences_per_task: S; the paper's data have 1.
          with_log_probs: whether to return the true log-probabilities too.
          tile: languages generated at a time; by default as many as a CPU's cache holds, and all
            of them on other devices.

        Returns:
          Tokens, `int32[N, S, L + 1]`. With `with_log_probs`, a pair of them and of the
          generator's log-probability of each token but the first, float `[N, S, L]`, in nats.

        Raises:
          ValueError: for numbers below 1, tasks without a leading axis or of another
            configuration, another number of keys, and a tile where logits are normalised jointly.
        """
        check_at_least(1, length=length, sequences_per_task=sequences_per_task, tile=tile)
        expected = self.num_slots, self.vocab_size, self.vocab_size
        shape = jnp.shape(tasks.tables)
        fine = len(shape) == 4 and shape[0] >= 1 and shape[1:] == expected
        sizes = f"[N, {', '.join(map(str, expected))}]"
        check(fine, "tasks.tables", shape, f"{sizes}: tasks of this configuration, one axis")
        check(key.shape in ((), shape[:1]), "key", key.shape, f"one typed key or {shape[0]}")
        tiled = self.normalisation == "row" or tile is None
        check(tiled, "tile", tile, 'None, or normalisation="row"')
        tokens, log_probs = sequences(
            key,
            tasks.tables,
            tasks.scale,
            length,
            sequences_per_task,
            self.normalisation,
            with_log_probs,
            tile,
        )
        return (tokens, log_probs) if with_log_probs else tokens

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """Returns the context of token 0 alone."""
        del key, task
        self._check_row()
        return State(jnp.zeros(self.num_slots, jnp.int32), jnp.zeros((), jnp.int32))

    def draw_noise(self, key: jax.Array, state: State, task: Task) -> jax.Array:
        """Float `[]`, uniform in [0, 1): where it falls among the probabilities' running sums."""
        return jax.random.uniform(key, (), task.tables.dtype)

    def move(self, state: State, action: jax.Array, noise: jax.Array, task: Task) -> Transition:
        """Draws the next token, see `draw_noise`, and judges the prediction."""
        log_probs = self.next_token_log_probs(task, state.context)
        probabilities = jnp.exp(log_probs)
        sums = jnp.cumsum(probabilities)
        token = (sums[:-1] <= noise * sums[-1]).sum(dtype=jnp.int32)
        predicted = jax.nn.log_softmax(jnp.asarray(action, log_probs.dtype))
        time = jnp.minimum(state.time + 1, task.horizon)
        info = {
            "attainable": log_probs[token],
            "regret": jnp.sum(probabilities * (log_probs - predicted)),
            "missed": task.missed,
        }
        state = State(jnp.append(state.context[1:], token), time)
        over = time >= task.horizon
        return Transition(state, predicted[token], jnp.zeros((), bool), over, info)

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the latest token, `int32[]`."""
        return state.context[-1]

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Box:
        """Logits of the next token, float `[V]`."""
        return spaces.Box(-np.inf, np.inf, (self.vocab_size,))

    def symbols(self) -> SymbolCode:
        """Returns the code: tokens alone, as predictions change nothing."""
        return SymbolCode(rewards=(), acts=False)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the tokens."""
        return spaces.Discrete(self.vocab_size)

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """`log_probs`: float `[V]`, of the next token; `order`: `int32[]`, n."""
        log_probs = self.next_token_log_probs(task, state.context)
        return {"log_probs": log_probs, "order": task.order}

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.meta_language.figures:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the latest token and how many were drawn, in one line."""
        drawn = f"{int(state.time)} of {int(task.horizon)} tokens drawn"
        return f"token {int(state.context[-1])}, {drawn}"
