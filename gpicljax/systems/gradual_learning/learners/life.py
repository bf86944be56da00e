"""A life: task sets that are learnt one after another, with the skill in all after each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gpicljax.agents import cloning
from gpicljax.agents.cloning import CloningConfig, CloningHParams, TrainState
from gpicljax.checks import Count, Range, Share, check, check_array
from gpicljax.networks.recurrent_settings import RecurrentSettings
from gpicljax.runtime import fast_jit
from gpicljax.runtime.dry_run import within_memory
from gpicljax.systems.gradual_learning import experts
from gpicljax.systems.gradual_learning.env.byte_stream import ByteStream, Params
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum
from gpicljax.systems.gradual_learning.measures.streams import Streams, play_streams, streams_of
from gpicljax.typing import ArrayTree
from gpicljax.vector import VectorEnv

Method = Literal["plain", "replay", "rehearsal", "elastic", "anew"]
METHODS: tuple[Method, ...] = ("plain", "replay", "rehearsal", "elastic", "anew")
"""Treatments of the weights when the next task set comes; `anew` discards them."""


@dataclasses.dataclass(frozen=True)
class LifeConfig:
    """Settings of a life in which an agent is taught one task set after the other.

    Attributes:
      replayed: Share of the instances of replay and of rehearsal that are of earlier sets.
      elasticity: Strength of the pull after an update, for a weight of average importance.
      updates: Most updates on a task set; an update has parallel times agent.unroll steps.
      streams: Streams with frozen weights in each check whether a set is cleared.
      cleared: Share of these streams that have to clear it.
      budget: Steps of such a stream.
      threshold: So many instances solved in a row clear a task set.
      repeats: So many instances in a row are of the task set that was drawn, where several are
        mixed.
      parallel: Streams that are learnt from at once.
      stretch: Steps after which another stream begins.
      network: Kind and sizes of the network.
      agent: Sizes of the imitation.
      hparams: Its hyper-parameters; the learning rate stays the same.
    """

    replayed: Share = 0.5
    elasticity: Annotated[float, Range(0)] = 0.1
    updates: Count = 20
    streams: Annotated[int, Range(2)] = 4
    cleared: Annotated[float, Range(above=0, most=1)] = 1.0
    budget: Count = 2_500
    threshold: Count = 5
    repeats: Count = 3
    parallel: Count = 32
    stretch: Count = 1_500
    network: RecurrentSettings = RecurrentSettings()
    agent: CloningConfig = CloningConfig(unroll=64, minibatches=8, temperature=0.3)
    hparams: CloningHParams = CloningHParams(learning_rate=2e-3, teacher_instances=0.25)

    @property
    def steps(self) -> int:
        """Returns the steps of an update."""
        return self.parallel * self.agent.unroll


class Life(NamedTuple):
    """The results of one agent on n task sets, in its own order.

    Attributes:
      order: names of the task sets.
      steps: `int[n]`, steps of training until each was cleared, or its whole budget.
      cleared: `bool[n]`, whether each was cleared.
      solved: float `[n + 1, n, R]`, share of the instances that are solved in each of R streams of
        a set: row 0 before anything was learnt, row j + 1 after the j-th set.
      taken: `int[n + 1, n, R]`, steps of such a stream until the set is cleared, or its budget.
      kept: `bool[n + 1, n, R]`, whether the stream clears the set.
    """

    order: tuple[str, ...]
    steps: np.ndarray
    cleared: np.ndarray
    solved: np.ndarray
    taken: np.ndarray
    kept: np.ndarray

    def to_content(self) -> dict[str, Any]:
        """Returns the content of a file."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self._asdict().items()
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Life:
        """Returns the life of a file's content."""
        arrays = {name: np.asarray(content[name]) for name in cls._fields if name != "order"}
        return cls(tuple(content["order"]), **arrays)


def read_life(order: tuple[str, ...], streams: int, content: Any) -> Life:
    """Returns a life from a file.

    Args:
      order: names of the task sets in the order of this life.
      streams: R.
      content: of the file.

    Raises:
      ValueError: if it is no life, or one of other task sets or numbers; it names the field.
      TypeError: if it is no life.
    """
    check(isinstance(content, dict), "content", content, "a life")
    for name in Life._fields:
        check(name in content, name, None, f"one of {', '.join(Life._fields)}")
    life, n = Life.from_content(content), len(order)
    check(life.order == order, "order", life.order, " ".join(order))
    matrix = (n + 1, n, streams)
    shapes = {"steps": (n,), "cleared": (n,), "solved": matrix, "taken": matrix, "kept": matrix}
    for name, shape in shapes.items():
        value = getattr(life, name)
        kind = {"solved": "f", "cleared": "b", "kept": "b"}.get(name, "i")
        fits = value.shape == shape and value.dtype.kind == kind and (value >= 0).all()
        check_array(bool(fits), name, value, f"numbers >= 0 of kind {kind}, {[*shape]}")
    check_array(bool((life.solved <= 1).all()), "solved", life.solved, "shares, 0 .. 1")
    return life


@dataclasses.dataclass(frozen=True)
class Programs:
    """The compiled programs that all lives share.

    Attributes:
      begin: `(key, env_params) -> TrainState`, new weights and new streams.
      update: `TrainState -> TrainState`.
      streams: `(key, params, tasks) -> Streams`, with frozen weights.
      env: of the training.
      evaluated: of the streams with frozen weights.
    """

    begin: Callable[..., TrainState]
    update: Callable[[TrainState], TrainState]
    streams: Callable[..., Streams]
    env: ByteStream
    evaluated: ByteStream


def build_programs(config: LifeConfig, task_sets: tuple[str, ...]) -> Programs:
    """Builds the programs of lives in these sets; each is compiled when it is first called."""
    families = Curriculum(task_sets).families
    env = ByteStream(max_tasks=len(task_sets), families=families)
    evaluated = ByteStream(max_tasks=1, families=families)
    params = params_of(config, env, "plain", task_sets[:1])
    vec = VectorEnv(env, config.parallel, resets="fresh", params=params, privileged=True)
    network = config.network.network(env.observation_space(), env.action_space())
    trainer = cloning.make(config.agent, vec, network, experts.teacher_agent())
    agent = trainer.agent(greedy=True)
    program = lambda name, function: within_memory(fast_jit(function), name)  # noqa: E731
    return Programs(
        begin=program("a start", lambda key, params: trainer.init(key, config.hparams, params)),
        update=program("an update", lambda state: trainer.update(state)[0]),
        streams=program(
            "streams with frozen weights",
            lambda key, params, tasks: play_streams(
                key, evaluated, agent, params, tasks, config.budget
            ),
        ),
        env=env,
        evaluated=evaluated,
    )


def params_of(
    config: LifeConfig, env: ByteStream, method: Method, names_so_far: tuple[str, ...]
) -> Params:
    """Returns streams of the newest of the task sets; with replay, of the earlier ones too."""
    *earlier, newest = names_so_far
    names, weights = (newest,), (1.0,)
    if method in ("replay", "rehearsal") and earlier:
        share = config.replayed / len(earlier)
        names, weights = names_so_far, (*[share] * len(earlier), 1 - config.replayed)
    repeats = config.repeats if len(names) > 1 else 1
    mixture = Curriculum(names, mode="mixture", weights=weights, repeats=repeats)
    return env.make_params(curriculum=mixture, horizon=config.stretch)


def teach_life(
    key: jax.Array, config: LifeConfig, programs: Programs, order: tuple[str, ...], method: Method
) -> Life:
    """Teaches one agent all task sets in this order.

    Agents of one key begin with the same weights and are asked the same questions, whatever the
    method.
    """
    state, anchor = None, None
    steps, cleared = [], []
    skills = [
        _measure_skills(config, programs, key, _initial_params(config, programs, key, order), order)
    ]
    for place in range(len(order)):
        stage_key = jax.random.fold_in(key, place)
        params = params_of(config, programs.env, method, order[: place + 1])
        started = programs.begin(key if place == 0 else stage_key, params)
        if state is not None and method != "anew":
            started = dataclasses.replace(started, params=state.params)
        names = order[place::-1] if method == "rehearsal" else order[place : place + 1]
        state, count, is_cleared = _teach_sets(config, programs, stage_key, started, names, anchor)
        steps.append(count * config.steps)
        cleared.append(is_cleared)
        skills.append(_measure_skills(config, programs, key, state.params, order))
        if method == "elastic":
            anchor = _update_anchor(anchor, state)
    solved, taken, kept = (np.stack(x) for x in zip(*skills, strict=True))
    return Life(order, np.array(steps), np.array(cleared), solved, taken, kept)


def _initial_params(
    config: LifeConfig, programs: Programs, key: jax.Array, order: tuple[str, ...]
) -> ArrayTree:
    """Returns the weights with which every agent of a seed begins."""
    return programs.begin(key, params_of(config, programs.env, "plain", order[:1])).params


class Anchor(NamedTuple):
    """Weights to pull back to, and the importance of each."""

    params: Any
    weights: Any


def _update_anchor(anchor: Anchor | None, state: TrainState) -> Anchor:
    """Returns the anchor after one more task set.

    How much a weight matters is the mean of the squared gradients, which Adam keeps: an estimate of
    the diagonal of the Fisher information. That of all sets adds up, as in online elastic weight
    consolidation.

    Source: Kirkpatrick et al. (2017), section 2; Schwarz et al. (2018), section 3.1 (online EWC).
    """
    (adam,) = (x for x in jax.tree.leaves(state.opt_state, is_leaf=_is_adam) if _is_adam(x))
    squares = adam.nu
    total = sum(x.sum() for x in jax.tree.leaves(squares))
    size = sum(x.size for x in jax.tree.leaves(squares))
    # A set that is cleared without an update has no gradients, and nothing new matters.
    share = size / jnp.where(total > 0, total, 1.0)
    weights = jax.tree.map(lambda x: x * share, squares)
    if anchor is not None:
        weights = jax.tree.map(jnp.add, anchor.weights, weights)
    return Anchor(state.params, weights)


def _is_adam(x: Any) -> bool:
    return isinstance(x, optax.ScaleByAdamState)


@jax.jit
def _pull_weights(params: ArrayTree, anchor: Anchor, strength: Any) -> Any:
    """Returns the minimum of a quadratic penalty and of the distance to the updated weights.

    It is the implicit step on the penalty, and so stable for any strength.
    """
    back = lambda new, old, weight: (new + strength * weight * old) / (1 + strength * weight)  # noqa: E731
    return jax.tree.map(back, params, anchor.params, anchor.weights)


def _teach_sets(
    config: LifeConfig,
    programs: Programs,
    key: jax.Array,
    state: TrainState,
    names: tuple[str, ...],
    anchor: Anchor | None,
) -> tuple[TrainState, int, bool]:
    """Trains until these sets are cleared; returns the state, its updates, and whether they are."""
    for count in range(config.updates + 1):
        check_key = jax.random.fold_in(key, 1_000 + count)
        if all(_is_cleared(config, programs, check_key, state.params, name) for name in names):
            return state, count, True
        if count < config.updates:
            state = programs.update(state)
            if anchor is not None:
                pulled = _pull_weights(state.params, anchor, config.elasticity)
                state = dataclasses.replace(state, params=pulled)
    return state, config.updates, False


def _is_cleared(
    config: LifeConfig, programs: Programs, key: jax.Array, params: ArrayTree, name: str
) -> bool:
    """Returns whether enough streams with frozen weights clear a task set."""
    streams = _play_sets(config, programs, key, params, [name] * config.streams)
    return float(np.asarray(streams.cleared).mean()) >= config.cleared


def _play_sets(
    config: LifeConfig, programs: Programs, key: jax.Array, params: ArrayTree, names: list[str]
) -> Streams:
    """Plays a stream of each of the sets, with frozen weights."""
    task_key, play_key = jax.random.split(key)
    curricula = [Curriculum((name,), threshold=config.threshold) for name in names]
    tasks = streams_of(task_key, programs.evaluated, curricula, config.budget)
    return programs.streams(play_key, params, tasks)


def _measure_skills(
    config: LifeConfig,
    programs: Programs,
    key: jax.Array,
    params: ArrayTree,
    order: tuple[str, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns an agent's skill in all sets: solved, steps taken and cleared, `[n, R]` each.

    The streams are the same after every set, and for every method.
    """
    names = [name for name in order for _ in range(config.streams)]
    streams = _play_sets(config, programs, jax.random.fold_in(key, 999), params, names)
    shape = len(order), config.streams
    instances = np.maximum(np.asarray(streams.instances)[:, 0], 1)
    return (
        (np.asarray(streams.solved)[:, 0] / instances).reshape(shape),
        np.asarray(streams.steps)[:, 0].reshape(shape),
        (np.asarray(streams.cleared) > 0).reshape(shape),
    )
