"""Ease of acquisition: how fast a new listener learns a language, without meta-learning.

A listener that knows nothing is trained on a common referential game about one structure: every
epoch, each meaning of the support phase is said once, and the listener is shown another sample of
it or of another meaning. What it has understood is asked with the meanings of the query phase.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from gpicljax.checks import check, check_array, check_at_least
from gpicljax.interface import Agent
from gpicljax.networks.feedforward import MLP, dense
from gpicljax.networks.recurrent import GRUStack
from gpicljax.systems.meta_rg.env import structure
from gpicljax.systems.meta_rg.env.meta_rg import MetaRG
from gpicljax.systems.meta_rg.env.types import Params
from gpicljax.systems.meta_rg.measures.speaker_language import utterances
from gpicljax.typing import ArrayTree, Variables


class Acquisition(NamedTuple):
    """The success of a new listener; accuracies as fractions, by epoch.

    Attributes:
      support: float `[E]`, accuracy on the epoch's games, as they were learnt from.
      query: float `[]`, accuracy after the last epoch on meanings never learnt from.
      learnt: float `[]`, the same on those learnt from.
    """

    support: jax.Array
    query: jax.Array
    learnt: jax.Array


class CommonListener(nn.Module):
    """Whether a message means a stimulus: the product of an MLP's and a GRU's codes.

    Attributes:
      vocab_size: V, tokens besides the end of a sentence.
      size: of the codes.
    """

    vocab_size: int
    size: int = 32

    @nn.compact
    def __call__(self, messages: jax.Array, stimuli: jax.Array) -> jax.Array:
        """`int32[B, L]`, `float[B, F]` -> logits of "the same", `float[B]`."""
        tokens = jax.nn.one_hot(messages, self.vocab_size + 1).swapaxes(0, 1)
        reader = GRUStack((self.size,))
        starts = jnp.zeros(tokens.shape[:2], bool)
        read, _ = reader.unroll(reader.initial_carry(len(messages)), tokens, starts)
        stimulus_code = dense(self.size)(MLP((self.size, self.size))(stimuli))
        return (dense(self.size)(read[-1]) * stimulus_code).sum(-1) / self.size**0.5


def _check_shapes(messages: jax.Array, stimuli: jax.Array, **weights: jax.Array) -> None:
    shape = messages.shape[:2]
    whole = messages.ndim == 3 and 0 not in messages.shape
    check_array(whole, "messages", messages, "int[M, O, L]")
    fits = stimuli.ndim == 3 and stimuli.shape[:2] == shape
    check_array(fits, "stimuli", stimuli, f"float[{shape[0]}, {shape[1]}, F]")
    for name, weight in weights.items():
        check_array(weight.shape == shape[:1], name, weight, f"[{shape[0]}]")


class _Games(NamedTuple):
    """B games: messages `[B, L]`, stimuli `[B, F]` and whether they mean the same, float `[B]`."""

    messages: jax.Array
    stimuli: jax.Array
    same: jax.Array


def _draw_games(
    key: jax.Array,
    messages: jax.Array,
    stimuli: jax.Array,
    weights: jax.Array,
    targets: jax.Array,
    share: jax.Array,
) -> _Games:
    """Draws a game about each target.

    Args:
      key: a typed key.
      messages: `int[M, O, L]`, what is said of every sample of every meaning.
      stimuli: float `[M, O, F]`, the samples.
      weights: float `[M]`, how often each meaning is shown in the place of another one.
      targets: `int[B]`, the meanings that are said.
      share: float, `[]` or `[B]`, probability that the stimulus has the meaning that is said.
    """
    same_key, other_key, *views = jax.random.split(key, 4)
    samples = messages.shape[1]
    same = jax.random.uniform(same_key, targets.shape) < share
    logits = jnp.log(weights) + jnp.zeros((len(targets), 1))
    logits = logits.at[jnp.arange(len(targets)), targets].set(-jnp.inf)
    other_meanings = jax.random.categorical(other_key, logits)
    spoken_sample, seen_sample = (
        jax.random.randint(view, targets.shape, 0, samples) for view in views
    )
    # With several samples, the one seen is not the one that the message was about.
    another = (spoken_sample + 1 + seen_sample % max(samples - 1, 1)) % samples
    shown = jnp.where(same, targets, other_meanings)
    seen_sample = jnp.where(same, another, seen_sample)
    return _Games(
        messages[targets, spoken_sample], stimuli[shown, seen_sample], same.astype(stimuli.dtype)
    )


def ease_of_acquisition(
    key: jax.Array,
    messages: jax.Array,
    stimuli: jax.Array,
    support: jax.Array,
    query: jax.Array,
    *,
    vocab_size: int,
    epochs: int = 512,
    batch_size: int = 32,
    learning_rate: float = 3e-4,
    descriptive_ratio: float = 0.5,
    questions: int = 8,
    size: int = 32,
) -> Acquisition:
    """Trains a new listener on a language.

    Args:
      key: a typed key.
      messages: `int[M, O, L]`, what is said of every sample of every meaning.
      stimuli: float `[M, O, F]`, the samples.
      support: `[M]`, the weight of each meaning in learning: 0 or 1, or how often it occurs.
      query: `[M]`, likewise in the final examination.
      vocab_size: V.
      epochs: E, passes over the meanings.
      batch_size: games per step of Adam.
      learning_rate: of Adam.
      descriptive_ratio: how often the listener is shown the meaning that is said (Algorithm 1).
      questions: pairs of games about each meaning in the examination, one with the same meaning.
      size: of the listener's codes.

    Returns:
      What it has learnt. It maps over many speakers with `vmap`. NaN where there is nothing to ask.

    Raises:
      ValueError: for arrays that do not belong together, tokens beyond V or sizes below 1.

    Source: Algorithms 1 to 4 and the evaluation of Table 1 of the Meta-Referential Games paper;
      the listener's network and its loss (binary cross-entropy) are ours.

    Example:
      >>> from gpicljax.systems.meta_rg.env.structure import combinations
      >>> meanings = jnp.asarray(combinations(2, 3))
      >>> def learn(key):
      ...     half = meanings.sum(-1) % 2
      ...     samples = meanings[:, None]
      ...     return ease_of_acquisition(
      ...         key, samples + 1, samples.astype(float), half, 1 - half, vocab_size=3, epochs=4
      ...     )
      >>> jax.eval_shape(learn, jax.random.key(0)).support.shape
      (4,)
    """
    check_at_least(1, epochs=epochs, batch_size=batch_size, questions=questions, size=size)
    check(0 <= descriptive_ratio <= 1, "descriptive_ratio", descriptive_ratio, "0 .. 1")
    _check_shapes(messages, stimuli, support=support, query=query)
    count = len(messages)
    listener, adam = CommonListener(vocab_size, size), optax.adam(learning_rate)
    places = -(-count // batch_size) * batch_size
    support, query = jnp.asarray(support, float), jnp.asarray(query, float)

    def loss(params: Variables, games: _Games, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits: Any = listener.apply(params, games.messages, games.stimuli)
        losses = optax.sigmoid_binary_cross_entropy(logits, games.same)
        total = jnp.maximum(weight.sum(), 1e-9)
        right = ((logits > 0) == (games.same > 0)) * weight
        return (losses * weight).sum() / total, right.sum()

    def step(
        carry: tuple[Variables, optax.OptState], batch: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[Variables, optax.OptState], jax.Array]:
        params, state = carry
        targets, key = batch
        weight = jnp.where(targets < count, support[targets % count], 0)
        ratio = jnp.asarray(descriptive_ratio)
        games = _draw_games(key, messages, stimuli, support, targets % count, ratio)
        grads, right = jax.grad(loss, has_aux=True)(params, games, weight)
        updates, state = adam.update(grads, state)
        moved: Any = optax.apply_updates(params, updates)
        return (moved, state), right

    def epoch(
        carry: tuple[Variables, optax.OptState], key: jax.Array
    ) -> tuple[tuple[Variables, optax.OptState], jax.Array]:
        order_key, games_key = jax.random.split(key)
        order = jax.random.permutation(order_key, places).reshape(-1, batch_size)
        keys = jax.random.split(games_key, len(order))
        carry, right = jax.lax.scan(step, carry, (order, keys))
        return carry, right.sum() / support.sum()

    init_key, train_key, *exam_keys = jax.random.split(key, 4)
    params = listener.init(init_key, messages[:1, 0], stimuli[:1, 0])
    start = params, adam.init(params)
    (params, _), curve = jax.lax.scan(epoch, start, jax.random.split(train_key, epochs))

    def examine(key: jax.Array, phase: jax.Array) -> jax.Array:
        targets = jnp.repeat(jnp.arange(count), 2 * questions)
        share = jnp.tile(jnp.array([0.0, 1.0]), count * questions)
        games = _draw_games(key, messages, stimuli, phase, targets, share)
        _, right = loss(params, games, weight := phase[targets])
        return right / weight.sum()

    query_key, seen_key = exam_keys
    return Acquisition(curve, examine(query_key, query), examine(seen_key, support))


def language_acquisition(
    key: jax.Array,
    env: MetaRG,
    agent: Agent,
    params: ArrayTree,
    env_params: Params,
    *,
    structures: int,
    **options: Any,
) -> Acquisition:
    """Teaches a speaker's language about newly drawn structures to a new listener for each.

    The new listener learns from what is said of the support phase's meanings at the end of an
    episode, and is asked about those of the query phase.

    Args:
      key: a typed key.
      env: the players' view of the game; `max_samples` samples of each meaning are spoken of.
      agent: both players.
      params: their parameters.
      env_params: the distribution over tasks.
      structures: T.
      options: of `ease_of_acquisition`.

    Returns:
      What the new listeners have learnt, leaves `[T, ...]`.

    Source: section 4.2 and Table 1 of the Meta-Referential Games paper.
    """
    ask_key, learn_key = jax.random.split(key)
    spoken = utterances(
        ask_key,
        env,
        agent,
        params,
        env_params,
        structures=structures,
        samples=env.max_samples,
    )

    def learn(
        key: jax.Array, messages: jax.Array, stimuli: jax.Array, num_values: jax.Array
    ) -> Acquisition:
        phases = structure.phase_masks(num_values, env.max_values)
        return ease_of_acquisition(
            key, messages, stimuli, *phases, vocab_size=env.vocab_size, **options
        )

    keys = jax.random.split(learn_key, structures)
    return jax.vmap(learn)(keys, spoken.messages, spoken.stimuli, spoken.num_values)
