"""Demonstrations in Maze World: one agent acts, badly; another says what it would have done.

Both follow the same trajectory. The one that acts forgets much of what it saw, and often acts at
random; the one that labels forgets nothing. Both see `MazeWorld.visible_cells`: in first person
what rays traverse, in the local view its window.

What is kept of a step is where the agent was and what it was told, not what it saw: the task comes
back from its key, and `frames` renders the observations bit for bit, in the training step. A step
then takes some bytes instead of 49,152.

`sample_trajectories` makes new ones in any compiled program, `stored.collect_trajectories` writes
them to a folder. New ones are the default for training: every batch is another one, a run goes on
exactly from its key, there is nothing to keep, and making them costs less than rendering them,
which has to be done in any case (steps per CPU-second, 64 episodes of 2,048 steps, one core of an
Intel Xeon shared with other programs, jax 0.10.2, 2026-11-22):

| mazes | made, both agents | read from a folder | task and frames, 64 steps of 16 episodes |
|---|---|---|---|
| 15 x 15 | 60,500 | 4,900,000 | 10,900 |
| 35 x 35 | 16,900 | 5,700,000 | 10,100 |

A folder is for data that many trainings share. The paper's 120 K episodes of 2,048 steps take
0.33 GB (1.36 bytes per step; 3.2 GB if motion is continuous, for poses are stored exactly) and
1.1 CPU-hours at 15 x 15, 4.0 at 35 x 35.

Source: section 3.1 and appendix A.3 of the GPICL paper. The reference code's random actions never
act and never go forward; here they do both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from gpicljax import spaces
from gpicljax.batching import select
from gpicljax.checks import Count, Share, check, check_at_least, check_fields
from gpicljax.environment import Environment
from gpicljax.evaluation.returns import single_trial_batch
from gpicljax.interface import Agent, TimeStep
from gpicljax.rollout import Record, RolloutState, play
from gpicljax.systems.maze_world.env.maze_world import MazeWorld
from gpicljax.systems.maze_world.env.types import Params, State, Task
from gpicljax.systems.maze_world.experts.privileged import Rule, privileged_agent
from gpicljax.task_set import TaskSet
from gpicljax.typing import ArrayTree
from gpicljax.wrappers.wrapper import Wrapper

_QUARTER = np.pi / 2


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """Settings of recorded episodes; each episode draws uniformly from every range.

    Attributes:
      length: T, steps of an episode.
      probability: range of p(STM -> LTM) of the agent that acts.
      epsilon: range of epsilon. Step t is random with probability `epsilon * (1 - u t / T)`, u
        uniform in [0, 1] for each episode.
      label_probability: p(STM -> LTM) of the agent that labels.
      rule: by which both agents choose, see `experts`.

    Raises:
      ValueError: for a length below 1, or a range outside [0, 1].

    Example:
      >>> Demonstration(length=256, epsilon=(0.0, 0.5)).probability
      (0.0, 0.5)
      >>> Demonstration(epsilon=(0.5, 0.0))
      Traceback (most recent call last):
      ValueError: epsilon: got (0.5, 0.0); accepted: two of [0, 1] in order
    """

    length: Count = 2048
    probability: tuple[Share, Share] = (0.0, 0.5)
    epsilon: tuple[Share, Share] = (0.0, 0.8)
    label_probability: Share = 1.0
    rule: Rule = "default"

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("probability", "epsilon"):
            low, high = getattr(self, name)
            check(low <= high, name, (low, high), "two of [0, 1] in order")


class MazeTrajectory(NamedTuple):
    """One episode of T steps. Beyond its end, nothing moves and rewards are 0.

    Attributes:
      task: `uint32[2]`, key data of the task.
      distribution: `uint8[]`, number of the given params that the task is from.
      length: `int32[]`, steps until the episode ended, at most T.
      probability: float `[]`, p(STM -> LTM) of the demonstrator that acts. If another agent acts it
        is -1, and `epsilon` and `decay` are 0.
      epsilon: float `[]`, see `Demonstration`.
      decay: float `[]`, u, see `Demonstration`.
      pose: `uint8[3, T + 1]`, x and y of the cell and the heading in quarter turns; float
        `[3, T + 1]` in metres and radians if motion is continuous. One component after the other,
        which compresses well.
      action: `uint8[T]`, the action taken; `float16[T, 2]` if motion is continuous.
      label: `uint8[T]` or `float16[T, 2]`, the action that the labelling agent would have taken.
      reward: `float32[T]`.
      command: `uint8[T + 1]` (navigation).
      active: `uint16[T + 1]`, a bit for each landmark that is there (survival).
      life: float `[T + 1]` (survival).
      aux: leaves `[T, ...]`, the part of the actor's `aux` that was asked for.

    Example:
      >>> rest = dict.fromkeys(MazeTrajectory._fields)
      >>> reward = np.array([0.0, 1.0, 1.0, 0.0, 0.0], np.float32)  # T = 5
      >>> episode = MazeTrajectory(**rest | {"length": 3, "reward": reward})
      >>> float(episode.reward[: episode.length].sum())
      2.0
    """

    task: Any
    distribution: Any
    length: Any
    probability: Any
    epsilon: Any
    decay: Any
    pose: Any
    action: Any
    label: Any
    reward: Any
    command: Any = None
    active: Any = None
    life: Any = None
    aux: Any = None


def sample_trajectories(
    key: jax.Array,
    env: MazeWorld,
    params: Params | Sequence[Params],
    episodes: int,
    settings: Demonstration = Demonstration(),
    *,
    actor: Agent | None = None,
    actor_params: ArrayTree = None,
    labeller: Agent | None = None,
    tasks: TaskSet | jax.Array | None = None,
    generated: Task | None = None,
    noise: Noise | None = None,
    noted: Callable[[Any], Any] = lambda aux: None,
    pictures: bool = True,
) -> tuple[MazeTrajectory, Task]:
    """Samples episodes, as a rule each in a new maze. Jittable; arguments without arrays are
    static.

    With a student as `actor`, what comes back is a round of DAgger: the labels say what the teacher
    would have done where the student went (Ross et al., 2011).

    Args:
      key: a typed key.
      env: the environment; demonstrators see the cells that its `exposed` says.
      params: the distribution over tasks, or several, among which episodes draw uniformly.
      episodes: B. A compiled step costs least from a hundred on.
      settings: how they are made.
      actor: the agent that acts, without further noise; `demonstrator` by default. For another one,
        every step makes the observations of `env`.
      actor_params: what `actor` acts with.
      labeller: the agent whose actions are recorded as labels; it has no parameters and reads
        `privileged`, as observations may be missing. By default the privileged agent of `settings`.
      tasks: a finite set from which episodes draw the keys of their tasks, each another task in
        each distribution; or these keys themselves, `[B]`; new keys if None.
      generated: what `tasks`, keys, stand for under one distribution, leaves `[B, ...]`, where that
        is known already: the program is then spared their generation.
      noise: how badly the demonstrators act; drawn by `settings` if None.
      noted: what to keep of the actor's `aux`; nothing by default.
      pictures: whether observations are made for the actor; an actor that reads `privileged` alone
        can do without.

    Returns:
      The episodes and their tasks, leaves `[B, ...]`: what `task_of` would generate once more.

    Raises:
      ValueError: if B < 1, there are no params, a horizon is shorter than T, or there are
        parameters for no actor.

    Example:
      >>> env = MazeWorld()
      >>> def some(key):
      ...     return sample_trajectories(key, env, env.default_params, 2, Demonstration(length=16))
      >>> made, tasks = jax.eval_shape(some, jax.random.key(0))
      >>> made.pose.shape, tasks.walls.shape
      ((2, 3, 17), (2, 15, 15))
    """
    choices = distributions(env, params, settings)
    check_at_least(1, episodes=episodes)
    lonely = actor is None and actor_params is not None
    check(not lonely, "actor_params", actor_params, "None without an actor")
    task_key, which_key, noise_key, start_key = jax.random.split(key, 4)
    task_keys = _task_keys(task_key, episodes, tasks)
    choice = jax.random.randint(which_key, (episodes,), 0, len(choices))
    episode_params = jax.tree.map(lambda *leaves: jnp.stack(leaves)[choice], *choices)
    has_one_distribution = isinstance(tasks, jax.Array) and len(choices) == 1
    accepted_values = "None, without keys of one distribution"
    check(generated is None or has_one_distribution, "generated", "tasks", accepted_values)
    task = jax.vmap(env.sample_task)(task_keys, episode_params) if generated is None else generated

    world: Environment = _Blind(env) if actor is None or not pictures else env
    if actor is None:
        noise = sample_noise(noise_key, episodes, settings) if noise is None else noise
        actor = demonstrator(env, noise, settings)
    else:
        check(noise is None, "noise", "given", "None beside an actor")
        none = jnp.zeros(episodes)
        noise = Noise(none - 1, none, none)
    if labeller is None:
        labeller = privileged_agent(env, settings.label_probability, settings.rule)
    agent = _with_labels(actor, labeller)
    vec = single_trial_batch(world, episodes, settings.length, privileged=True)
    start = RolloutState(*vec.init(start_key, task=task), agent.initial_carry(episodes))

    def keep(record: Record) -> Any:
        after = _stored_arrays(env, record.next_vstate.state, record.next_vstate.task)
        reward = record.next_timestep.reward.astype(jnp.float32)
        return after, _small(record.action), record.aux["label"], reward, noted(record.aux["actor"])

    played = play(vec, agent, actor_params, start, max_steps=settings.length, keep=keep)
    states, action, label, reward, kept = jax.tree.map(lambda x: x[:, 0], played.records)
    length = played.length[:, 0]
    whole = _all_moments(_stored_arrays(env, start.vstate.state, task), states, length)
    pose = whole.pop("pose").swapaxes(1, 2)
    trajectory = MazeTrajectory(
        task=jax.vmap(jax.random.key_data)(task_keys),
        distribution=choice.astype(jnp.uint8),
        length=length,
        **{name: x.astype(jnp.float32) for name, x in noise._asdict().items()},
        pose=pose,
        action=action,
        label=label,
        reward=reward,
        aux=kept,
        **whole,
    )
    return trajectory, task


@dataclasses.dataclass(frozen=True)
class _Blind(Wrapper[Params, Task, State]):
    """The same world without pictures, which only agents that read `privileged` can do without."""

    def observe(self, state: State, task: Task) -> tuple[()]:
        """Nothing."""
        return ()

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """Returns a space without entries."""
        del task
        return spaces.Dict(())


class Noise(NamedTuple):
    """The demonstrators' noise, float `[B]` each; see `MazeTrajectory`."""

    probability: jax.Array
    epsilon: jax.Array
    decay: jax.Array


def sample_noise(key: jax.Array, episodes: int, settings: Demonstration) -> Noise:
    """Draws the noise of each episode."""
    dtype = jnp.result_type(float)
    ranges = jnp.asarray([settings.probability, settings.epsilon, (0, 1)], dtype)
    low, high = ranges[:, :1], ranges[:, 1:]
    return Noise(*jax.random.uniform(key, (3, episodes), dtype, low, high))


def demonstrator(env: MazeWorld, noise: Noise, settings: Demonstration) -> Agent:
    """Returns the noisy agent that acts in demonstrations; it reads `privileged`."""
    rule = privileged_agent(env, noise.probability, settings.rule)
    space = env.action_space()

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, jax.Array], timestep: TimeStep
    ) -> Any:
        memory, time = carry
        rule_keys, explore_keys, random_keys = jax.vmap(
            lambda key: jax.random.split(key, 3), out_axes=1
        )(keys)
        action, aux, memory = rule.act(rule_keys, params, memory, timestep)
        chance = noise.epsilon * (1 - noise.decay * time / settings.length)
        explore = jax.vmap(jax.random.uniform)(explore_keys) < chance
        random_action = jax.vmap(space.sample)(random_keys)
        return (
            select(explore, random_action, action.astype(random_action.dtype)),
            aux,
            (memory, time + 1),
        )

    def initial_carry(batch: int) -> Any:
        return rule.initial_carry(batch), jnp.zeros((), jnp.int32)

    return Agent(initial_carry, act)


def _with_labels(actor: Agent, labeller: Agent) -> Agent:
    """Acts with `actor`; stores the labeller's action in `aux["label"]`."""

    def act(
        keys: jax.Array, params: ArrayTree, carry: tuple[ArrayTree, ArrayTree], timestep: TimeStep
    ) -> Any:
        acted, labelled = carry
        actor_keys, label_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        action, aux, acted = actor.act(actor_keys, params, acted, timestep)
        label, _, labelled = labeller.act(label_keys, None, labelled, timestep)
        # What acts is what is stored, rounding included.
        aux = {"label": _small(label), "actor": aux}
        return _small(action).astype(action.dtype), aux, (acted, labelled)

    def initial_carry(batch: int) -> Any:
        return actor.initial_carry(batch), labeller.initial_carry(batch)

    return Agent(initial_carry, act)


def task_of(env: MazeWorld, params: Params | Sequence[Params], episode: MazeTrajectory) -> Task:
    """Returns the task of one stored episode (leaves without a batch axis), from its key."""
    choices = as_distributions(params)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *choices)
    chosen = jax.tree.map(lambda x: x[jnp.asarray(episode.distribution)], stacked)
    return env.sample_task(jax.random.wrap_key_data(jnp.asarray(episode.task)), chosen)


def states_of(env: MazeWorld, task: Task, episode: MazeTrajectory) -> State:
    """Returns an episode's states as far as they can be seen, leaves `[T + 1, ...]`.

    Countdowns say no more than whether a landmark is active, and the script of commands is empty.

    Args:
      env: the environment.
      task: the episode's, see `frames`.
      episode: one episode, or a piece of one: any number of poses with what belongs to them.
    """
    pose = jnp.asarray(episode.pose)
    count = pose.shape[-1]
    dtype = jnp.result_type(float)
    if env.actions == "continuous":
        position, heading = pose[:2].T.astype(dtype), pose[2].astype(dtype)
    else:
        position = (pose[:2].T.astype(dtype) + 0.5) * task.cell_size
        heading = pose[2].astype(dtype) * _QUARTER
    nothing = jnp.zeros(count, jnp.int32)
    countdown = jnp.zeros((count, env.max_landmarks), jnp.int32)
    command, life = nothing, jnp.broadcast_to(task.initial_life, (count,))
    if env.survival:
        bits = jnp.arange(env.max_landmarks, dtype=jnp.uint16)
        active = (jnp.asarray(episode.active)[:, None] >> bits) & 1
        exists = bits < task.num_landmarks
        countdown = (exists & (active == 0)).astype(jnp.int32)
        life = jnp.asarray(episode.life).astype(dtype)
    else:
        command = jnp.asarray(episode.command).astype(jnp.int32)
    return State(
        position=position,
        heading=heading,
        steps=jnp.arange(count, dtype=jnp.int32),
        script=jnp.zeros((count, 2), jnp.uint32),
        command_index=nothing,
        command=command,
        life=life,
        countdown=countdown,
    )


def frames(env: MazeWorld, task: Task, episode: MazeTrajectory) -> Any:
    """Returns the observations of an episode or of a piece of it, the ones that the agent had.

    Args:
      env: the environment; its view says what is rendered.
      task: the episode's; `sample_trajectories` returns it, `task_of` makes it of a stored one.
      episode: see `states_of`.

    Returns:
      Observations with a leading axis of time, such as `uint8[T + 1, H, W, 3]`.
    """
    return jax.vmap(env.observe, (0, None))(states_of(env, task, episode), task)


def advice(
    key: jax.Array, env: MazeWorld, task: Task, states: State
) -> tuple[jax.Array, jax.Array]:
    """Returns the actions of a privileged agent along a trajectory, and the cells that it
    remembers.

    Args:
      key: a typed key, for what it forgets.
      env: the environment, whose `exposed` says what the agent sees.
      task: the task.
      states: leaves `[T, ...]`, such as those of `states_of`.

    Returns:
      Actions `int32[T]`, or float `[T, 2]`; and `bool[T, N, N]`, the cells it knows.
    """
    agent = privileged_agent(env, probability=1.0)
    batched_task = jax.tree.map(lambda x: jnp.asarray(x)[None], task)

    def step(carry: ArrayTree, inputs: Any) -> tuple[Any, Any]:
        state, first, key = inputs
        timestep = _expert_timestep(
            env, jax.tree.map(lambda x: x[None], state), batched_task, first[None]
        )
        action, aux, carry = agent.act(key[None], None, carry, timestep)
        return carry, (action[0], aux["known"][0])

    count = states.heading.shape[0]
    inputs = states, jnp.arange(count) == 0, jax.random.split(key, count)
    return jax.lax.scan(step, agent.initial_carry(1), inputs)[1]


# Small pieces ------------------------------------------------------------------------------------


def as_distributions(params: Params | Sequence[Params]) -> tuple[Params, ...]:
    """Returns one distribution or several as a tuple."""
    return (params,) if isinstance(params, Params) else tuple(params)


def distributions(
    env: MazeWorld, params: Params | Sequence[Params], settings: Demonstration
) -> tuple[Params, ...]:
    """Returns the distributions that episodes of so many steps draw from.

    Raises:
      ValueError: for none or more than 256, horizons below the steps, mazes that do not fit bytes.
    """
    choices = as_distributions(params)
    check(1 <= len(choices) <= 256, "params", len(choices), "1 .. 256 distributions")
    for choice in choices:
        if isinstance(choice.horizon, Tracer):
            continue
        env.validate(choice)
        horizon, length = int(choice.horizon), settings.length
        check(horizon >= length, "params.horizon", horizon, f"at least the length, {length}")
    check(env.size <= 255, "size", env.size, "at most 255, for poses are stored bytes")
    return choices


def _expert_timestep(env: MazeWorld, state: State, task: Task, start: jax.Array) -> TimeStep:
    """Returns a moment of a stored trajectory, as an expert sees it."""
    privileged = jax.vmap(env.privileged)(state, task)
    never = jnp.zeros_like(start)
    reward = jnp.zeros(start.shape, state.heading.dtype)
    return TimeStep(None, reward, never, never, start, start, {}, privileged)


def _task_keys(key: jax.Array, episodes: int, tasks: TaskSet | jax.Array | None) -> jax.Array:
    """Returns the keys of the episodes' tasks; see `sample_trajectories`."""
    if tasks is None or isinstance(tasks, TaskSet):
        keys = jax.random.split(key, episodes)
        return keys if tasks is None else jax.vmap(tasks.sample)(keys)
    check(tasks.shape == (episodes,), "tasks", tasks.shape, f"{episodes} keys, or a TaskSet")
    return tasks


def _all_moments(first: ArrayTree, states: ArrayTree, length: jax.Array) -> Any:
    """Returns arrays `[B, ...]` with those after each step, `[B, T, ...]`, behind them.

    Beyond its end, nothing of an episode moves.
    """

    def join(before: jax.Array, after: jax.Array) -> jax.Array:
        shown = jnp.minimum(jnp.arange(after.shape[1] + 1), length[:, None])
        moments = jnp.concatenate([before[:, None], after], axis=1)
        return jax.vmap(lambda row, at: row[at])(moments, shown)

    return jax.tree.map(join, first, states)


def _small(action: jax.Array) -> jax.Array:
    discrete = jnp.issubdtype(action.dtype, jnp.integer)
    return action.astype(jnp.uint8 if discrete else jnp.float16)


def _stored_arrays(env: MazeWorld, state: State, task: Task) -> dict[str, jax.Array]:
    """Returns the stored arrays of states, leaves `[B, ...]`."""
    if env.actions == "continuous":
        pose = jnp.concatenate([state.position, state.heading[:, None]], 1)
    else:
        cells = jax.vmap(env.cell)(state, task)
        quarter = jnp.round(state.heading / _QUARTER)[:, None]
        pose = jnp.concatenate([cells, quarter], 1).astype(jnp.uint8)
    if not env.survival:
        return {"pose": pose, "command": state.command.astype(jnp.uint8)}
    active = jax.vmap(env.active)(state, task)
    bits = jnp.left_shift(jnp.uint16(1), jnp.arange(env.max_landmarks, dtype=jnp.uint16))
    active = jnp.where(active, bits, jnp.uint16(0)).sum(1, dtype=jnp.uint16)
    return {"pose": pose, "active": active, "life": state.life}
