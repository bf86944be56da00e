"""A small transformer, trained on many agents, that predicts another one in its context.

It is trained in its weights, by the sequence trainer, on episodes of agents of the same task, and
asked about agents that it has never seen. All questions share it: a step of an episode is one
token, which holds the step before as a whole, and of this step what the question gives. As it
answers at every position, one sequence teaches all sizes of history up to its length.

What a question hides is in no token that an answer can look at. `last_state` is asked at every
second position only, for the step before would show what is asked for as its next state.

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
from gpicljax.spaces import Box, Discrete
from gpicljax.systems.mental_modelling.data.episodes import PER_STEP, Episodes, take_episodes
from gpicljax.systems.mental_modelling.measures.baselines import BASELINES, vote_answers
from gpicljax.systems.mental_modelling.measures.physics import answers_of_rules
from gpicljax.systems.mental_modelling.measures.questions import (
    ACTION_QUESTIONS,
    BINS,
    Queries,
    build_queries,
    from_bins,
    round_numbers,
    take_queries,
    to_bins,
)
from gpicljax.systems.mental_modelling.measures.scoring import Answers
from gpicljax.typing import ArrayTree

_READER_QUESTIONS = ("next_action", "last_action", "next_state", "last_state")
RULES = (*BASELINES, "physics")
"""Rules whose answers a reader knows beside the history."""
_WINDOW_LENGTH = 41
_WINDOW_LENGTHS = (4, 11, _WINDOW_LENGTH)


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


class _TaskScales(NamedTuple):
    """Sizes and scales of a task's episodes; static but for the arrays."""

    action_space: Discrete | Box
    num_states: int | None
    dims: int
    decimals: int
    mean: np.ndarray
    scale: np.ndarray
    step: np.ndarray
    reward: float
    goals: tuple[np.ndarray, np.ndarray] | None

    @property
    def action_answers(self) -> tuple[int, int]:
        """Returns the entries of an action, and the choices for each."""
        if isinstance(self.action_space, Discrete):
            return 1, self.action_space.n
        return int(np.prod(self.action_space.shape, dtype=int)), BINS

    @property
    def state_answers(self) -> tuple[int, int]:
        """Returns the elements of a state, and the choices for each."""
        return (self.dims, 3) if self.num_states is None else (1, self.num_states)


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
    task: _TaskScales
    nats: np.ndarray


def train_reader(
    key: jax.Array,
    episodes: Episodes,
    settings: ReaderSettings | None = None,
    *,
    decimals: int = 4,
) -> TrainedReader:
    """Trains a reader on the episodes of many agents in one task.

    Args:
      key: a typed key.
      episodes: of other agents than those it is to be asked about.
      settings: size and training.
      decimals: to which everything is rounded, as in the queries to come.

    Example:
      >>> from gpicljax.systems.mental_modelling.data import episode_from_actions
      >>> from gpicljax.systems.mental_modelling.measures import build_queries
      >>> walk = episode_from_actions([0, 1, 1, 0, 1], states=[0.0, 5.0, 6.0, 0.5, 5.5])
      >>> sizes = ReaderSettings(layers=1, width=8, heads=1, updates=1, batch_size=2, windows=8)
      >>> reader = train_reader(jax.random.key(0), walk, sizes)
      >>> reader_answers(reader, build_queries(walk, "next_state", history=1)).values.shape
      (3, 1)
    """
    return train_readers([key], episodes, settings, decimals=decimals)[0]


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
    task, data = _prepare_windows(episodes, decimals, settings.windows)
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
        length=_WINDOW_LENGTH,
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
    core = Transformer(layers, width, heads, capacity=_WINDOW_LENGTH)
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
    inputs = _window_inputs(task, queries, length)
    inputs["rules"] = _rule_codes(task, queries)
    parts, size = [], 256
    for start in range(0, len(queries.truth), size):
        block_inputs = {
            name: _pad_rows(x[start : start + size], size) for name, x in inputs.items()
        }
        number = np.int32(_READER_QUESTIONS.index(queries.question))
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


# Rules -------------------------------------------------------------------------------------------


def _rule_codes(task: _TaskScales, queries: Queries) -> np.ndarray:
    """Returns the answers of rules as inputs, float `[Q, R E]`: choices, -1 for none."""
    if queries.form == "absolute":
        queries = dataclasses.replace(queries, form="bins")
    answers = answers_of_rules(queries)
    actions, states = task.action_answers[0], task.state_answers[0]
    is_action = queries.question in ACTION_QUESTIONS
    entries = slice(0, actions) if is_action else slice(actions, actions + states)
    codes = np.full((len(queries.truth), len(RULES), actions + states), -1, np.float32)
    for number, name in enumerate(RULES):
        if name in answers:
            codes[:, number, entries] = answers[name].values
    return codes.reshape(len(codes), -1)


def _draw_windows(episodes: Episodes, count: int) -> Episodes:
    """Returns pieces of episodes, of 42 steps or less; each agent is drawn as often."""
    rng = np.random.default_rng(0)
    names, agents = np.unique(episodes.agents, return_inverse=True)
    steps = np.bincount(agents, episodes.length, len(names))
    shares = episodes.length / steps[agents] / len(names)
    numbers = rng.choice(len(shares), count, p=shares)
    length = episodes.length[numbers]
    start = np.maximum(rng.integers(-_WINDOW_LENGTH // 2, length), 0)
    last = episodes.rewards.shape[1] - 1
    at = numbers[:, None], np.minimum(start[:, None] + np.arange(_WINDOW_LENGTH + 1), last)
    arrays = {name: getattr(episodes, name) for name in PER_STEP}
    return dataclasses.replace(
        episodes,
        **{name: x if x is None else x[at] for name, x in arrays.items()},
        length=np.minimum(length - start, _WINDOW_LENGTH + 1),
        returns=episodes.returns[numbers],
        agents=tuple(episodes.agents[n] for n in numbers),
        checkpoints=tuple(episodes.checkpoints[n] for n in numbers),
    )


# Tokens ------------------------------------------------------------------------------------------


def _prepare_windows(
    episodes: Episodes, decimals: int, count: int
) -> tuple[_TaskScales, dict[str, jax.Array]]:
    """Returns sizes and scales, and windows of episodes with a question for each."""
    task = _measure_scales(episodes, decimals)
    windows = _draw_windows(episodes, count)
    numbers = np.arange(count) % len(_READER_QUESTIONS)
    last = np.arange(count) // len(_READER_QUESTIONS) % 2
    shape = count, _WINDOW_LENGTH
    entries = [task.action_answers[0], task.state_answers[0]]
    rules = np.full((*shape, len(RULES) * sum(entries)), -1, np.float32)
    targets = [np.full((*shape, size), -1, np.int32) for size in entries]
    for number, question in enumerate(_READER_QUESTIONS):
        is_state_question = question not in ACTION_QUESTIONS
        for history in range(_WINDOW_LENGTH):
            # The query at this position alone, of windows that are long enough for it.
            steps = history + 1 + (number != 0)
            is_asked = _is_asked(number, history + 1, last[:, None])[:, -1]
            chosen = np.flatnonzero((numbers == number) & (windows.length >= steps) & is_asked)
            if not chosen.size:
                continue
            cut = take_episodes(windows, chosen)
            cut = dataclasses.replace(cut, length=np.full(len(chosen), steps))
            queries = build_queries(cut, question, history=history, decimals=decimals)
            rules[chosen, history] = _rule_codes(task, queries)
            targets[is_state_question][chosen, history] = queries.truth
    states = windows.states if task.num_states else round_numbers(windows.states, decimals)
    actions, goals = windows.actions, windows.desired_goals
    if isinstance(task.action_space, Box):
        actions = round_numbers(actions, decimals)
    goals = None if goals is None else round_numbers(goals, decimals)
    arrays = {
        **_scale_inputs(task, states, actions, round_numbers(windows.rewards, decimals)),
        "goal": _scale_goals(task, goals, states.shape[:2]),
        "number": numbers,
        "last": last,
        "rules": rules,
        "actions": targets[0],
        "states": targets[1],
    }
    for name in ("done", "paid", "goal"):
        arrays[name] = arrays[name][:, :_WINDOW_LENGTH]
    return task, {name: jnp.asarray(x) for name, x in arrays.items()}


def _measure_scales(episodes: Episodes, decimals: int) -> _TaskScales:
    """Returns sizes and scales of a task."""
    is_step, goals = episodes.is_step, episodes.desired_goals
    dims, mean, scale, step = 1, np.zeros(1), np.ones(1), np.ones(1)
    if episodes.num_states is None:
        states = round_numbers(episodes.states, decimals)
        flat, moved = states[is_step], np.diff(states, axis=1)[is_step[:, 1:]]
        dims, mean, scale = states.shape[-1], flat.mean(0), np.maximum(flat.std(0), 1e-6)
        # Most changes are of this size; few may be huge.
        step = np.maximum(np.abs(moved).mean(0) if len(moved) else scale, 10.0**-decimals)
    if goals is not None:
        goals = round_numbers(goals, decimals)[is_step]
    return _TaskScales(
        episodes.action_space,
        episodes.num_states,
        dims,
        decimals,
        mean,
        scale,
        step,
        float(max(np.abs(episodes.rewards[is_step]).mean(), 1e-6)),
        None if goals is None else (goals.mean(0), np.maximum(goals.std(0), 1e-6)),
    )


def _scale_inputs(
    task: _TaskScales, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns inputs of the network: states `[..., T, D]`, their differences and actions."""
    if task.num_states is not None:
        scaled_states = (states[..., None] == np.arange(task.num_states)).astype(float)
        fine = scaled_states
    else:
        scaled_states, fine = (states - task.mean) / task.scale, states / task.step
    space = task.action_space
    if isinstance(space, Discrete):
        scaled_actions = (actions[..., None] == np.arange(space.n)).astype(float)
    else:
        middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
        entries = actions.reshape(*rewards.shape, -1)
        # An action is given as a number, and as the part of the range in which it lies.
        parts = to_bins(entries, space.low, space.high, task.decimals)[..., None]
        places = (parts == np.arange(BINS)).reshape(*rewards.shape, -1)
        scaled_actions = np.concatenate([(entries - middle) / half, places], -1)
    inputs = {
        "seen": np.clip(scaled_states, -8, 8),
        "done": scaled_actions,
        "paid": np.clip(rewards / task.reward, -8, 8),
    }
    # Differences are taken in double precision, before anything is lost.
    inputs |= {"moved": _differences(fine), "jumped": _differences(fine, 2)}
    return {name: x.astype(np.float32) for name, x in inputs.items()}


def _scale_goals(task: _TaskScales, goals: np.ndarray | None, batch: tuple[int, ...]) -> np.ndarray:
    """Returns scaled goals, `[..., G]`; `[..., 0]` where none is set."""
    if task.goals is None or goals is None:
        return np.zeros((*batch, 0), np.float32)
    mean, scale = task.goals
    return np.clip((goals - mean) / scale, -8, 8).astype(np.float32)


def _differences(fine: np.ndarray, steps: int = 1) -> np.ndarray:
    """Returns how much states have changed since so many steps ago; zeros at first."""
    differences = np.zeros_like(fine)
    differences[..., steps:, :] = fine[..., steps:, :] - fine[..., :-steps, :]
    return differences


def _change_features(moved: jax.Array) -> jax.Array:
    """Returns a difference in units of a typical one, and its sign, however small."""
    return jnp.concatenate([jnp.clip(moved, -5, 5), jnp.sign(moved)], -1)


def _make_tokens(number: jax.Array, x: dict[str, jax.Array], is_asked: jax.Array) -> jax.Array:
    """Returns tokens float `[T, F]` of one sequence.

    Args:
      number: `int32[]`, the question.
      x: states of T + 1 steps (`states`, `changes`, `jumped`), actions, rewards and goals of T.
      is_asked: `bool[T]`.
    """
    count = is_asked.shape[0]
    kind = jax.nn.one_hot(number, len(_READER_QUESTIONS))
    gives = is_asked[:, None] * 1.0

    def before(values: jax.Array, steps: int) -> jax.Array:
        return jnp.pad(values, ((steps, 0), (0, 0)))[:count]

    def only(*names: str) -> jax.Array:
        return sum((kind[_READER_QUESTIONS.index(name)] for name in names), jnp.zeros(())) * gives

    states, changes = x["seen"], _change_features(x["moved"])
    next_features = states[1:], changes[1:], _change_features(x["jumped"])[1:]
    gives_state = only("next_action", "last_action", "next_state")
    rest = jnp.arange(count)[:, None]
    parts = [
        jnp.broadcast_to(kind, (count, len(_READER_QUESTIONS))),
        gives,
        (rest > 0) * 1.0,
        # The step before, as a whole.
        before(states, 1),
        before(x["done"], 1),
        before(x["paid"][:, None], 1),
        before(changes, 1) * (rest > 1),
        # The parts of this step that the question gives.
        gives_state * states[:count],
        gives_state * changes[:count] * (rest > 0),
        only("last_action") * next_features[1],
        only("last_action", "last_state") * next_features[0],
        only("last_state") * next_features[2] * (rest > 0),
        only("next_state", "last_state") * x["done"],
        only("next_state") * x["paid"][:, None],
        x["goal"],
    ]
    return jnp.concatenate(parts, -1)


def _is_asked(number: Any, count: int, last: Any) -> Any:
    """Returns where a question is asked: `last_state` at every second position from `last`."""
    return (number != _READER_QUESTIONS.index("last_state")) | ((np.arange(count) - last) % 2 == 0)


def _sample_sequences(keys: jax.Array, data: Any) -> sequence.Sequences:
    """Draws a window for each key, with its question all along it."""

    def piece(key: jax.Array) -> tuple[Any, Any]:
        n = jax.random.randint(key, (), 0, data["number"].shape[0])
        x = {name: values[n] for name, values in data.items()}
        is_asked = _is_asked(x["number"], _WINDOW_LENGTH, x["last"])
        tokens = _make_tokens(x["number"], x, is_asked)
        return jnp.concatenate([tokens, x["rules"]], -1), (x["actions"], x["states"])

    inputs, targets = jax.vmap(piece, out_axes=1)(keys)
    return sequence.Sequences(inputs, None, targets)


def _loss(name: str, task: _TaskScales, head: int) -> sequence.Loss:
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


def _window_inputs(task: _TaskScales, queries: Queries, length: int) -> dict[str, np.ndarray]:
    """Returns the arrays of tokens; the query is at position H, zeros stand behind it."""
    count, history = len(queries.truth), queries.history
    zero = np.zeros((count, 1, *queries.past_states.shape[2:]), queries.past_states.dtype)
    state_part = zero if queries.state is None else queries.state[:, None]
    next_part = zero if queries.next_state is None else queries.next_state[:, None]
    states = np.concatenate([queries.past_states, state_part, next_part], 1)
    past = queries.past_actions
    blank = np.zeros((count, 1, *past.shape[2:]), past.dtype)
    action_part = blank if queries.action is None else queries.action[:, None]
    actions = np.concatenate([past, action_part], 1)
    reward_part = np.zeros((count, 1)) if queries.reward is None else queries.reward[:, None]
    rewards = np.concatenate([queries.past_rewards, reward_part], 1)
    x = _scale_inputs(task, states, actions, rewards)
    spare = length - history - 1
    window = {
        name: np.pad(x[name], [(0, 0), (0, spare), *[(0, 0)] * (x[name].ndim - 2)]) for name in x
    }
    # One goal for all of an episode.
    goal = _scale_goals(task, queries.goal, (count,))
    window["goal"] = np.repeat(goal[:, None], length, 1)
    window["last"] = np.full(count, history, np.int32)
    return window


def _pad_rows(values: np.ndarray, size: int) -> np.ndarray:
    return np.pad(values, [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)])


@functools.partial(jax.jit, static_argnums=0)
def _answer_logits(
    network: Network, params: ArrayTree, number: Any, inputs: dict[str, jax.Array]
) -> jax.Array:
    """Returns logits `[Q, K]` at the query's position."""
    count = inputs["paid"].shape[1]

    def tokens_of_query(x: dict[str, jax.Array]) -> jax.Array:
        tokens = _make_tokens(number, x, _is_asked(number, count, x["last"]))
        # Only what rules answer to the query itself is of use.
        return jnp.concatenate([tokens, jnp.broadcast_to(x["rules"], (count, x["rules"].size))], -1)

    tokens = jax.vmap(tokens_of_query, out_axes=1)(inputs)
    outputs, _ = network.unroll(params, None, tokens, None)
    return jnp.take_along_axis(outputs, inputs["last"][None, :, None], 0)[0]
