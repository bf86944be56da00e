"""Checks of what every environment has to be like, for one of your own.

`check_environment` is the whole suite for one environment; a project's tests call it once.
`check_interface` looks at shapes and dtypes alone, and `VectorEnv` calls it.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.checks import check
from gpicljax.environment import Environment
from gpicljax.typing import ArrayTree, Observation

__all__ = ["check_environment", "check_interface"]


class NotAnEnvironmentError(ValueError):
    """An environment that is not as all others are."""


def _refuse(
    condition: bool, env: Environment, aspect: str, value: object, accepted_values_values: str
) -> None:
    if not condition:
        raise NotAnEnvironmentError(
            f"{env.name}: {aspect}: got {value}; accepted: {accepted_values_values}"
        )


def _kind(leaf: jax.Array) -> str:
    return f"{leaf.dtype}{[*leaf.shape]}"


def _kinds(tree: ArrayTree) -> dict[str, str]:
    """Shape and dtype of every leaf, by its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path) or "it": _kind(leaf) for path, leaf in leaves}


def _check_like(
    env: Environment, aspect: str, tree: ArrayTree, expected: ArrayTree, source: str
) -> None:
    """Refuses trees whose leaves have other paths, shapes or dtypes."""
    kinds, expected_kinds = _kinds(tree), _kinds(expected)
    for path in expected_kinds.keys() | kinds.keys():
        fits = kinds.get(path) == expected_kinds.get(path)
        place = aspect if path == "it" else f"{aspect}{path}"
        _refuse(
            fits, env, place, kinds.get(path, "nothing"), f"{expected_kinds.get(path)}, {source}"
        )


@functools.lru_cache(maxsize=256)
def check_interface(env: Environment) -> None:
    """Refuses an environment whose functions return other shapes or dtypes than they are to.

    Nothing is computed: everything is traced abstractly, once for each environment.

    Args:
      env: the environment.

    Raises:
      ValueError: unless observations are what `observation_space` says; the state keeps its
        structure, shapes and dtypes over a step; the reward is a float `[]` (`[A]` of A agents);
        `terminated` and `truncated` are `bool[]`; and `info` is a dictionary of such scalars.

    Example:
      >>> import gpicljax
      >>> check_interface(gpicljax.make("FrozenLake-v1"))
    """
    key = jax.random.key(0)
    task = jax.eval_shape(env.sample_task, key, env.default_params)
    observation, state = jax.eval_shape(env.reset, key, task)
    action = jax.eval_shape(env.action_space().sample, key)
    step = jax.eval_shape(env.step, key, state, action, task)
    with contextlib.suppress(NotImplementedError):  # nothing but trainers needs the space
        space = env.observation_space()
        drawn = jax.eval_shape(space.sample, key)
        _check_like(env, "observation", observation, drawn, f"as in {space}")
    _check_like(env, "state after a step", step.state, state, "as after reset")
    _check_like(env, "observation after a step", step.observation, observation, "as after reset")
    agents = () if env.num_agents is None else (env.num_agents,)
    default = jnp.result_type(float)
    fits = step.reward.shape == agents and step.reward.dtype == default
    _refuse(fits, env, "reward", _kind(step.reward), f"{default}{[*agents]}")
    for name in ("terminated", "truncated"):
        flag = getattr(step, name)
        fits = flag.shape == () and flag.dtype == bool
        _refuse(fits, env, name, _kind(flag), "bool[]")
    _refuse(isinstance(step.info, dict), env, "info", type(step.info).__name__, "a dictionary")
    for path, leaf in jax.tree_util.tree_flatten_with_path(step.info)[0]:
        place = f"info{jax.tree_util.keystr(path)}"
        accepted_values = f"an array {[*agents]}" if agents else "a scalar []"
        _refuse(leaf.shape in ((), agents), env, place, _kind(leaf), accepted_values)


def check_environment(
    env: Environment, params: ArrayTree = None, *, steps: int = 1_000, seed: int = 0
) -> None:
    """Checks an environment of your own as thoroughly as this package's are.

    It compiles one program that plays random legal actions on a task, episode after episode.

    Args:
      env: the environment.
      params: the distribution over tasks; the environment's default if None.
      steps: how many to play.
      seed: of task and actions.

    Raises:
      ValueError: if the environment is not hashable, compared by value, picklable and frozen; as
        `check_interface`; if an observation lies outside its space, a number is not finite, an
        episode is longer than `horizon`, equal keys give different results, a batch gives others
        than single instances, or `describe` says nothing, or more than an agent may know.

    Example:
      >>> import gpicljax
      >>> check_environment(gpicljax.make("FrozenLake-v1"), steps=100)
    """
    check(steps >= 1, "steps", steps, "an integer >= 1")
    _check_value(env)
    check_interface(env)
    params = env.params_or_default(params)
    _check_types(env, params)
    key, length = jax.random.key(seed), jnp.int32(steps)
    program = jax.jit(functools.partial(play_randomly, env, steps))
    played, flags = jax.device_get(program(key, params, length, key))
    horizon = int(env.horizon(params))
    ends = np.flatnonzero(flags.pop("ended"))
    for name, held in flags.items():
        _refuse(bool(held.all()), env, name, f"no at step {held.argmin()}", "yes at every step")
    longest = int(np.diff(ends, prepend=-1).max(initial=0))
    accepted_values = f"at most horizon(params) = {horizon}"
    _refuse(longest <= horizon + 1, env, "steps of an episode", longest - 1, accepted_values)
    _refuse(len(ends) > 0 or steps <= horizon, env, "ends of episodes", 0, accepted_values)
    replayed = jax.device_get(program(key, params, length, key)[0])
    _check_equal(env, "two plays of one key", replayed, played, exact=True)
    few = jnp.int32(min(steps, 6))
    keys = jax.random.split(key, 2)
    single = program(keys[1], params, few, keys[1])[0]
    batched = jax.vmap(program, (0, None, None, 0))(keys, params, few, keys)[0]
    instance = jax.tree.map(lambda x: x[1], batched)
    _check_equal(env, "an instance of a batch", instance, single, exact=False)
    task, (_, state), _ = played
    words = env.describe(state, task)
    _refuse(bool(words.strip()), env, "describe", repr(words), "words about the state")
    secret = different_words(env, program, key, params)
    accepted_values = "one text where all that was observed, done and paid is the same"
    _refuse(not secret, env, "describe", " and ".join(map(repr, secret)), accepted_values)


def legal_action(env: Environment, key: jax.Array, observation: Observation) -> Any:
    """Returns an action drawn uniformly; from the legal ones where the observation has a mask."""
    mask = observation.get("action_mask") if isinstance(observation, dict) else None
    return env.action_space().sample(key, mask)


def finite(tree: ArrayTree) -> jax.Array:
    """Returns whether all floats of a pytree are finite, `bool[]`."""
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.asarray([jnp.isfinite(x).all() for x in floats]).all()


def different_words(
    env: Environment,
    program: Callable[..., Any],
    key: jax.Array,
    params: ArrayTree,
) -> list[str]:
    """Returns two descriptions of what no agent can tell apart, which differ; none if all agree.

    64 tasks are played for three steps with the same draws of actions and noise. Where an agent has
    observed, done and been paid the same in two of them, words that differ can only come from the
    task, or from a part of the state that `privileged` alone shows.

    Args:
      env: the environment.
      program: `play_randomly` of it, compiled.
      key: a typed key.
      params: the distribution over tasks.
    """
    starts = jax.random.split(key, 64)
    histories = [b""] * len(starts)
    for length in range(4):
        alike = collections.defaultdict(list)
        for i, start_key in enumerate(starts):
            task, _, step = program(key, params, np.int32(length), start_key)[0]
            seen = jax.tree.leaves((step.observation, step.reward, step.terminated, step.truncated))
            histories[i] += b"".join(np.asarray(leaf).tobytes() for leaf in seen)
            alike[histories[i]].append((step.state, task))
        for group in alike.values():
            pairs = jax.device_get(group) if len(group) > 1 else []
            words = {env.describe(*pair) for pair in pairs}
            if len(words) > 1:
                return sorted(words)[:2]
    return []


def play_randomly(
    env: Environment,
    most: int,
    key: jax.Array,
    params: ArrayTree,
    length: jax.Array,
    start_key: jax.Array | None = None,
) -> Any:
    """Plays `length` random steps on a task, episode after episode: everything layer 1 returns.

    Args:
      env: the environment.
      most: N, the most steps there may be.
      key: a typed key.
      params: the distribution over tasks.
      length: `int32[]`.
      start_key: of the task and the first start; `key` if None.

    Returns:
      The task; the first observation and state; the last step; and flags `bool[N]` by name.
    """
    task_key, reset_key, _, _ = jax.random.split(key if start_key is None else start_key, 4)
    _, _, space_key, key = jax.random.split(key, 4)
    task = env.sample_task(task_key, params)
    first, state = env.reset(reset_key, task)
    action = legal_action(env, space_key, first)
    blank = jax.eval_shape(env.step, key, state, action, task)
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), blank)
    blank = blank._replace(observation=first, state=state)
    drawn = env.observation_space().sample(space_key)
    held = (
        "an action is in its space",
        "an observation is in its space",
        "a drawn observation is in its space",
        "everything is finite",
    )
    flags = {name: jnp.ones(most, bool) for name in held} | {"ended": jnp.zeros(most, bool)}

    def body(t: jax.Array, loop: Any) -> Any:
        step, flags = loop
        action_key, step_key = jax.random.split(jax.random.fold_in(key, t))
        action = legal_action(env, action_key, step.observation)

        def reset() -> Any:
            observation, state = env.reset(step_key, task)
            return blank._replace(observation=observation, state=state)

        over = step.terminated | step.truncated
        step = jax.lax.cond(over, reset, lambda: env.step(step_key, step.state, action, task))
        space = env.observation_space()
        flags_now = {
            "an action is in its space": env.action_space().contains(action),
            "an observation is in its space": space.contains(step.observation),
            "a drawn observation is in its space": space.contains(drawn),
            "everything is finite": finite(step),
            "ended": step.terminated | step.truncated,
        }
        return step, {name: flag.at[t].set(flags_now[name]) for name, flag in flags.items()}

    step, flags = jax.lax.fori_loop(0, length, body, (blank, flags))
    return (task, (first, state), step), flags


def type_problems(env: Environment, params: ArrayTree) -> list[str]:
    """Weak types, and floats or integers at odds with the widths in force."""
    key, default = jax.random.key(0), jnp.result_type(float)
    task = jax.eval_shape(env.sample_task, key, params)
    first, state = jax.eval_shape(env.reset, key, task)
    action = jax.eval_shape(env.action_space().sample, key)
    moved = jax.eval_shape(env.step, key, state, action, task)
    everything = {"task": task, "state": state, "observation": first, "step": moved._asdict()}
    problems = set()
    for path, leaf in jax.tree_util.tree_leaves_with_path(everything):
        wrong_float = jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.dtype != default
        if leaf.weak_type or wrong_float or leaf.dtype in (jnp.int64, jnp.uint64):
            weak = "weakly typed " * bool(leaf.weak_type)
            problems.add(f"{jax.tree_util.keystr(path)} is {weak}{_kind(leaf)}")
    return sorted(problems)


def _check_types(env: Environment, params: ArrayTree) -> None:
    problems = type_problems(env, params)
    accepted_values = (
        f"strong types; floats are {jnp.result_type(float)}, integers int32 or narrower"
    )
    _refuse(not problems, env, "types", "; ".join(problems), accepted_values)


def _check_value(env: Environment) -> None:
    """Checks that it is a value: frozen, hashable, picklable, and without arrays."""
    for aspect, twin in (("a copy", copy.deepcopy(env)), ("a pickled one", _pickle_twin(env))):
        same = twin == env and hash(twin) == hash(env)
        _refuse(same, env, aspect, "another value", "an equal environment with an equal hash")
    frozen = dataclasses.is_dataclass(env) and type(env).__dataclass_params__.frozen  # type: ignore[attr-defined]
    _refuse(frozen, env, "its class", type(env).__name__, "a frozen dataclass")
    for field, value in vars(env).items():
        arrays = [x for x in jax.tree.leaves(value) if isinstance(x, jax.Array | np.ndarray)]
        _refuse(not arrays, env, field, "an array", "numbers, text or tuples; arrays are params")


def _pickle_twin(env: Environment) -> Any:
    try:
        return pickle.loads(pickle.dumps(env))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        text = f"{env.name}: pickle: got {error}; accepted: a class of an importable module"
        raise NotAnEnvironmentError(text) from error


def _check_equal(
    env: Environment, aspect: str, tree: ArrayTree, expected: ArrayTree, *, exact: bool
) -> None:
    for path, (value, expected_value) in _pairs(tree, expected):
        if exact or not jnp.issubdtype(value.dtype, jnp.floating):
            same = np.array_equal(value, expected_value)
        else:
            same = np.allclose(value, expected_value, rtol=1e-5, atol=1e-5)
        _refuse(
            same, env, f"{aspect}, {path}", value.tolist(), f"the same as before, {expected_value}"
        )


def _pairs(tree: ArrayTree, expected: ArrayTree) -> list[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    def plain(leaf: jax.Array) -> np.ndarray:
        key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if key else leaf)

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    expected_leaves = jax.tree.leaves(expected)
    return [
        (jax.tree_util.keystr(path), (plain(a), plain(b)))
        for (path, a), b in zip(leaves, expected_leaves, strict=True)
    ]
