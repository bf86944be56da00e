"""A small transformer, trained on many agents, that predicts another one in its context.

It is trained in its weights, by the sequence trainer, on episodes of agents of the same task, and
asked about agents that it has never seen. All questions share it, and a step of an episode is one
token, see `tokens`. As it answers at every position, one sequence teaches all sizes of history up
to its length.

Beside the tokens stands what each rule answers to the query. The transformer decides from what it
has read how much each of these answers counts, so that it need not know the agents by heart.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.agents import sequence
from gpicljax.checks import Count, Rate, check, check_fields
from gpicljax.networks.contract import Network, as_network
from gpicljax.networks.layers import Linear, default_float, scaled_uniform
from gpicljax.networks.transformer import Transformer
from gpicljax.networks.vectors import VectorModel
from gpicljax.spaces import Box
from gpicljax.systems.mental_modelling.data.episodes import Episodes
from gpicljax.systems.mental_modelling.measures.baselines import vote_answers
from gpicljax.systems.mental_modelling.measures.questions import (
    ACTION_QUESTIONS,
    Queries,
    from_bins,
    take_queries,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers
from gpicljax.systems.mental_modelling.measures.tokens import (
    READER_QUESTIONS,
    RULES,
    WINDOW_LENGTH,
    TaskScales,
    is_asked_at,
    make_tokens,
    prepare_windows,
    rule_codes,
    window_inputs,
)
from gpicljax.typing import ArrayTree

_WINDOW_LENGTHS = (4, 11, WINDOW_LENGTH)


@dataclasses.dataclass(frozen=True)
class ReaderSettings:
    """Size and training of a reader.

    Attributes:
      layers: of the transformer.
      width: of its tokens.
      heads: of its attention.
      updates: of the sequence trainer.
      batch_size: sequences of an update, of 41 steps each.
      learning_rate: at its peak; it falls like a cosine.
      windows: pieces of episodes that are drawn once, for each of which rules answer as well.

    Example:
      >>> ReaderSettings(updates=10).width
      64
    """

    layers: Count = 2
    width: Count = 64
    heads: Count = 4
    updates: Count = 400
    batch_size: Count = 16
    learning_rate: Rate = 2e-3
    windows: Count = 6_000

    def __post_init__(self) -> None:
        check_fields(self)


class TrainedReader(NamedTuple):
    """A trained reader.

    Attributes:
      network: over tokens.
      params: of the network.
      task: sizes and scales of the task that it knows.
      nats: float `[updates]`, loss during its training.
    """

    network: Network
    params: Any
    task: TaskScales
    nats: np.ndarray


def train_reader(
    key: jax.Array, episodes: Episodes, settings: ReaderSettings | None = None
) -> TrainedReader:
    """Trains a reader on the episodes of many agents in one task.

    Args:
      key: a typed key.
      episodes: of other agents than those it is to be asked about.
      settings: size and training.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> walk = episode_from_actions([0, 1, 1, 0, 1], states=[0.0, 5.0, 6.0, 0.5, 5.5])
      >>> sizes = ReaderSettings(layers=1, width=8, heads=1, updates=1, batch_size=2, windows=8)
      >>> reader = train_reader(jax.random.key(0), walk, sizes)
      >>> reader_answers(reader, build_queries(walk, "next_state", history=1)).values.shape
      (3, 1)
    """
    return train_readers([key], episodes, settings)[0]


def train_readers(
    keys: Iterable[jax.Array],
    episodes: Episodes,
    settings: ReaderSettings | None = None,
    *,
    decimals: int = 4,
    jit: Callable[..., Any] = jax.jit,
) -> list[TrainedReader]:
    """Trains a reader for each key, one after another, which is quicker on a CPU.

    A study passes a `jit` that refuses what does not fit into memory.
    """
    settings = settings or ReaderSettings()
    task, data = prepare_windows(episodes, decimals, settings.windows)
    shapes = task.action_answers, task.state_answers
    network = _make_network(settings.layers, settings.width, settings.heads, shapes)
    config = sequence.SequenceConfig(batch_size=settings.batch_size, schedule="cosine")
    hparams = sequence.SequenceHParams(
        learning_rate=settings.learning_rate,
        warmup_updates=max(settings.updates // 20, 1),
        decay_updates=settings.updates,
    )
    trainer = sequence.make(
        config,
        network,
        _sample_sequences,
        [_loss("actions", task, 0), _loss("states", task, 1)],
        length=WINDOW_LENGTH,
    )
    init = jit(trainer.init)

    def advance(state: ArrayTree) -> Any:
        def update(state: ArrayTree, _: None) -> Any:
            state, metrics = trainer.update(state)
            return state, metrics["loss"]

        return jax.lax.scan(update, state, None, settings.updates)

    train = jit(advance)
    results = (train(init(key, hparams, data)) for key in keys)
    return [
        TrainedReader(network, jax.device_get(x.params), task, np.asarray(n)) for x, n in results
    ]


class _ReaderModel(VectorModel):
    """A transformer over tokens, whose logits and the answers of rules are added by weight.

    Attributes:
      shapes: entries and choices of each kind of answer.
    """

    shapes: tuple[tuple[int, int], ...]

    def setup(self) -> None:
        """The transformer's layers, and the weights of rules."""
        super().setup()
        self.trust = Linear(self.codes, scaled_uniform(), default_float())

    @property
    def codes(self) -> int:
        """Returns the number of entries that all rules answer with."""
        return len(RULES) * sum(entries for entries, _ in self.shapes)

    def unroll(self, carry: Any, inputs: jax.Array, starts: jax.Array | None) -> tuple[Any, Any]:
        """Tokens and rules' answers `[T, B, F]` -> float `[T, B, O]`, and the carry."""
        tokens, codes = jnp.split(inputs, [inputs.shape[-1] - self.codes], -1)
        features, carry = self.core.unroll(carry, self.read(tokens), starts)
        return self.weigh(features, codes), carry

    def step(self, carry: Any, inputs: jax.Array, start: jax.Array) -> tuple[Any, Any]:
        """Tokens and rules' answers `[B, F]` -> float `[B, O]`, and the carry."""
        tokens, codes = jnp.split(inputs, [inputs.shape[-1] - self.codes], -1)
        features, carry = self.core.step(carry, self.read(tokens), start)
        return self.weigh(features, codes), carry

    def weigh(self, features: jax.Array, codes: jax.Array) -> jax.Array:
        """Returns logits `[..., O]` from what was read and the rules' answers, -1 for none."""
        batch = features.shape[:-1]
        ends = list(itertools.accumulate(entries for entries, _ in self.shapes))[:-1]
        codes = codes.astype(jnp.int32).reshape(*batch, len(RULES), -1)
        answers = [
            jax.nn.one_hot(part, choices)
            for part, (_, choices) in zip(jnp.split(codes, ends, -1), self.shapes, strict=True)
        ]
        seen = [features, *(answer.reshape(*batch, -1) for answer in answers)]
        weights = self.trust(jnp.concatenate(seen, -1)).reshape(codes.shape)
        votes = [
            (part[..., None] * answer).sum(-3).reshape(*batch, -1)
            for part, answer in zip(jnp.split(weights, ends, -1), answers, strict=True)
        ]
        return self.write(features) + jnp.concatenate(votes, -1)


@functools.cache
def _make_network(
    layers: int, width: int, heads: int, shapes: tuple[tuple[int, int], ...]
) -> Network:
    """Returns one network for all readers of these sizes, so that their answers are one program."""
    core = Transformer(layers, width, heads, capacity=WINDOW_LENGTH)
    outputs = sum(entries * choices for entries, choices in shapes)
    return as_network(_ReaderModel(core, outputs, width, shapes))


def reader_answers(reader: TrainedReader, queries: Queries) -> Answers:
    """Returns a reader's answers to queries, by the most probable choices.

    Where numbers are asked for, the answer is the middle of the most probable part of the range.
    The example of `train_reader` has a reader that answers; the one below is of another task.

    Args:
      reader: a reader of the same task.
      queries: queries of any question and history.

    Raises:
      ValueError: for queries about another task.

    Example:
      >>> from types import SimpleNamespace as Some
      >>> from gpicljax.spaces import Discrete
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> asked = build_queries(episode_from_actions([0, 1, 1, 0]), "next_action", history=1)
      >>> reader = Some(task=Some(action_space=Discrete(3), num_states=None, goals=None))
      >>> reader_answers(reader, asked)
      Traceback (most recent call last):
      ValueError: queries: got 'Walk'; accepted: those of a task with Discrete(n=3)
    """
    task = reader.task
    same = (queries.action_space, queries.num_states) == (task.action_space, task.num_states)
    same = same and (queries.goal is None) == (task.goals is None)
    check(same, "queries", queries.environment, f"those of a task with {task.action_space}")
    if queries.question == "argue":
        return vote_answers(queries, functools.partial(reader_answers, reader))
    length = min(size for size in _WINDOW_LENGTHS if size > queries.history)
    inputs = window_inputs(task, queries, length)
    inputs["rules"] = rule_codes(task, queries)
    parts, size = [], 256
    for start in range(0, len(queries.truth), size):
        block_inputs = {
            name: _pad_rows(x[start : start + size], size) for name, x in inputs.items()
        }
        number = np.int32(READER_QUESTIONS.index(queries.question))
        parts.append(_answer_logits(reader.network, reader.params, number, block_inputs))
    logits = np.concatenate(parts)[: len(queries.truth)]
    split = int(np.prod(task.action_answers))
    if queries.question in ACTION_QUESTIONS:
        values = logits[:, :split].reshape(-1, *task.action_answers).argmax(-1)
    else:
        values = logits[:, split:].reshape(-1, *task.state_answers).argmax(-1)
    if queries.form == "absolute":
        space = task.action_space
        assert isinstance(space, Box)
        values = from_bins(values, space.low, space.high, queries.decimals)
    return Answers(values, np.ones(len(values), bool))


def answers_of_readers(
    readers: Sequence[TrainedReader], queries: Queries, reader_numbers: np.ndarray
) -> Answers:
    """Returns answers to every query by one of several readers.

    So each agent can be asked about with a reader that has seen none of its kind.

    Args:
      readers: of the same task.
      queries: Q of them.
      reader_numbers: `int[Q]`, the number of the reader that is asked.

    Raises:
      ValueError: for a number that no reader has; and see `reader_answers`.
    """
    fits = reader_numbers.shape == queries.step.shape and set(reader_numbers.tolist()) <= set(
        range(len(readers))
    )
    check(
        fits,
        "reader_numbers",
        reader_numbers,
        f"{len(queries.step)} integers from 0 to {len(readers) - 1}",
    )
    values, parsed = None, np.zeros(len(reader_numbers), bool)
    for number in np.unique(reader_numbers):
        indices = np.flatnonzero(reader_numbers == number)
        reader_part = reader_answers(readers[number], take_queries(queries, indices))
        if values is None:
            values = np.zeros(
                (len(reader_numbers), *reader_part.values.shape[1:]), reader_part.values.dtype
            )
        values[indices], parsed[indices] = reader_part.values, reader_part.parsed
    assert values is not None
    return Answers(values, parsed)


def _sample_sequences(keys: jax.Array, data: Any) -> sequence.Sequences:
    """Draws a window for each key, with its question all along it."""

    def piece(key: jax.Array) -> tuple[Any, Any]:
        n = jax.random.randint(key, (), 0, data["number"].shape[0])
        x = {name: values[n] for name, values in data.items()}
        is_asked = is_asked_at(x["number"], WINDOW_LENGTH, x["last"])
        tokens = make_tokens(x["number"], x, is_asked)
        return jnp.concatenate([tokens, x["rules"]], -1), (x["actions"], x["states"])

    inputs, targets = jax.vmap(piece, out_axes=1)(keys)
    return sequence.Sequences(inputs, None, targets)


def _loss(name: str, task: TaskScales, head: int) -> sequence.Loss:
    """Returns the loss of one head: the mean nats of an answer's entries."""
    shapes = task.action_answers, task.state_answers
    first = int(np.prod(shapes[0])) if head else 0
    count = int(np.prod(shapes[head]))

    def at(outputs: jax.Array, sequences: sequence.Sequences) -> jax.Array:
        logits = outputs[..., first : first + count]
        logits = logits.reshape(*logits.shape[:-1], *shapes[head])
        labels = jnp.maximum(sequences.targets[head], 0)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
        return -chosen[..., 0].mean(-1)

    return sequence.Loss(name, at, counts=lambda sequences: sequences.targets[head][..., 0] >= 0)


def _pad_rows(values: np.ndarray, size: int) -> np.ndarray:
    return np.pad(values, [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)])


@functools.partial(jax.jit, static_argnums=0)
def _answer_logits(
    network: Network, params: ArrayTree, number: Any, inputs: dict[str, jax.Array]
) -> jax.Array:
    """Returns logits `[Q, K]` at the query's position."""
    count = inputs["paid"].shape[1]

    def tokens_of_query(x: dict[str, jax.Array]) -> jax.Array:
        tokens = make_tokens(number, x, is_asked_at(number, count, x["last"]))
        # Only what rules answer to the query itself is of use.
        return jnp.concatenate([tokens, jnp.broadcast_to(x["rules"], (count, x["rules"].size))], -1)

    tokens = jax.vmap(tokens_of_query, out_axes=1)(inputs)
    outputs, _ = network.unroll(params, None, tokens, None)
    return jnp.take_along_axis(outputs, inputs["last"][None, :, None], 0)[0]
