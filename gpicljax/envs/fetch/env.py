"""FetchPush-v4, FetchSlide-v4 and FetchPickAndPlace-v4: an arm brings a block to a goal.

They are models in JAX: `dynamics` has the physics, which follow MuJoCo's, without the arm.

Source: Plappert et al. (2018), "Multi-goal reinforcement learning"; Gymnasium-Robotics 1.4.2.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count
from gpicljax.envs.fetch import dynamics, view
from gpicljax.envs.fetch.scene import SCENES, STEP, SUBSTEPS, Scene, World, first_world

REACH = 0.05
"""As near as this, in metres, the block is at the goal."""
ELEMENTS, GOAL, ACTION = 25, 3, 4

# How far from the gripper's first place blocks and goals may be along x and y.
_BLOCKS = {"push": 0.15, "slide": 0.1, "pick_and_place": 0.15}
_GOALS = {"push": 0.15, "slide": 0.3, "pick_and_place": 0.15}
_SHIFT, _HIGHEST, _CLEARANCE = 0.4, 0.45, 0.1
_DRAWS = 64  # of a block's place; that all lie too near the gripper has a chance below 2e-7


@struct.dataclass
class Params:
    """The distribution over tasks, of which there is one.

    Attributes:
      horizon: `int32[]`, steps until an episode is truncated.
    """

    horizon: Count


@struct.dataclass
class Task:
    """The one task.

    Attributes:
      horizon: `int32[]`, steps until an episode is truncated.
    """

    horizon: jax.Array


@struct.dataclass
class State:
    """An episode in progress.

    Attributes:
      world: all that moves, without the last axis of `dynamics.World`.
      goal: float `[3]`, where the block is to be, in metres.
      steps: `int32[]`, steps taken.
    """

    world: World
    goal: jax.Array
    steps: jax.Array


Episode = TypeVar("Episode", bound=Any)


@dataclasses.dataclass(frozen=True)
class FetchTask(Environment[Params, Task, Episode], Generic[Episode]):
    """Base class of the tasks of the model and of the simulator.

    An action is float `[4]` within [-1, 1]: by how much the gripper is to move along x, y and z, in
    units of 5 cm, and whether its fingers open (PickAndPlace alone; else they are closed). Shown
    are 25 numbers (`observation`), the block's position (`achieved_goal`) and the goal
    (`desired_goal`), float `[3]` each. The reward is 0 where the block is within 5 cm of the goal
    and -1 elsewhere; a dense reward is the distance in metres, negative. An episode never
    terminates and is truncated after `params.horizon` steps. A step has no noise; an episode starts
    with block and goal drawn anew. `info["success"]` is whether the block is within 5 cm of the
    goal, `bool[]`.

    Args:
      task: which of the three.
      reward: which of the two.
    """

    task: Literal["push", "slide", "pick_and_place"] = "push"
    reward: Literal["sparse", "dense"] = "sparse"

    @property
    def name(self) -> str:
        """`FetchPush` and so on."""
        return f"Fetch{self.task.title().replace('_', '')}"

    @property
    def default_params(self) -> Params:
        """50 steps."""
        return Params(jnp.asarray(50, jnp.int32))

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Returns the task."""
        del key
        return Task(jnp.asarray(params.horizon, jnp.int32))

    def goal_reward(self, achieved: jax.Array, desired: jax.Array) -> jax.Array:
        """0 within 5 cm, else -1; or the distance, negative."""
        distance = jnp.linalg.norm(achieved - desired, axis=-1)
        if self.reward == "dense":
            return -distance
        return -(distance > REACH).astype(jnp.result_type(float)) + 0.0

    def action_space(self, task: Task | None = None) -> spaces.Box:
        """Four numbers."""
        return spaces.Box(-1.0, 1.0, (ACTION,))

    def observation_space(self, task: Task | None = None) -> spaces.Dict:
        """Real numbers."""

        def numbers(count: int) -> spaces.Box:
            return spaces.Box(-np.inf, np.inf, (count,))

        return spaces.Dict.of(
            observation=numbers(ELEMENTS),
            achieved_goal=numbers(GOAL),
            desired_goal=numbers(GOAL),
        )

    def privileged(self, state: Episode, task: Task) -> dict[str, jax.Array]:
        """Returns the block's distance from the goal, in metres."""
        obs = self.observe(state, task)
        return {"distance": jnp.linalg.norm(obs["achieved_goal"] - obs["desired_goal"])}

    def describe(self, state: Episode, task: Task) -> str:
        """Gripper, block, goal and step, in one line."""
        obs = jax.tree.map(np.asarray, self.observe(state, task))
        gripper, block, goal = (
            "(" + ", ".join(f"{float(x):.3f}" for x in place) + ")"
            for place in (obs["observation"][:3], obs["achieved_goal"], obs["desired_goal"])
        )
        away = float(np.linalg.norm(obs["achieved_goal"] - obs["desired_goal"]))
        return (
            f"gripper at {gripper} m, block at {block}, {100 * away:.1f} cm from the goal at "
            f"{goal}, step {int(state.steps)} of {int(task.horizon)}"
        )


@dataclasses.dataclass(frozen=True)
class Fetch(FetchTask[State]):
    """A block is to be pushed, hit, or lifted to where the goal is, and to stay there.

    It is a model of the task, not of MuJoCo: trajectories part from the simulator's. Over 50 random
    steps the gripper is within 5 mm of the simulator's in the median. Rules succeed as often within
    10 points, and blocks go as far within an eighth, in the median. The table is as soft and as
    solid as there, and what fingers hold slips by .05 mm a step (.04 there). A block that is pushed
    slowly and obliquely for 25 cm ends 1 cm from where it does there, in the median of eight pushes
    (5 cm at most), and turns the same way, by 25 to 42 degrees instead of 39 to 87. Pucks that are
    hit beside the middle, and go for 38 to 60 cm, end 3 cm apart (9 cm at most). The results page
    `fetch_cpu.md` has all of it.

    The arm is not there: it cannot touch anything. What touches the hand finds it leaning by its
    velocity alone, and not by forces or the end of its reach. A body on the floor passes through
    the sides of the table.

    For actions, observations and rewards see `FetchTask`.

    Args:
      task: which of the three.
      reward: `sparse` or `dense`.

    Example:
      >>> env = Fetch("push")
      >>> env.action_space().shape, env.observation_space()["desired_goal"].shape
      ((4,), (3,))
      >>> float(env.goal_reward(jnp.zeros(3), jnp.full(3, 0.02)))
      0.0
    """

    @property
    def _scene(self) -> Scene:
        return SCENES[self.task]

    def initial(self, key: jax.Array, task: Task) -> State:
        """Block and goal somewhere, the block at least 10 cm from the gripper."""
        del task
        scene, dtype = self._scene, jnp.result_type(float)
        # One draw for everything: each call of the generator takes a second to compile.
        shares = jax.random.uniform(key, (2 * _DRAWS + 4,), dtype)
        middle = jnp.asarray(scene.middle, dtype)
        away = _BLOCKS[self.task] * (2 * shares[: 2 * _DRAWS].reshape(_DRAWS, 2) - 1)
        far = (away * away).sum(-1) >= _CLEARANCE**2
        body = jnp.append(middle + away[jnp.argmax(far)], scene.height)
        across, along, flies, height = shares[2 * _DRAWS :]
        goal = middle + _GOALS[self.task] * (2 * jnp.stack([across, along]) - 1)
        if self.task == "slide":
            goal = goal.at[0].add(_SHIFT)
        lifted = jnp.where(flies < 0.5, _HIGHEST * height, 0.0)
        lifted = lifted if self.task == "pick_and_place" else 0.0
        goal = jnp.append(goal, scene.height + lifted)
        return State(first_world(scene, body), goal.astype(dtype), jnp.zeros((), jnp.int32))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Twenty substeps of 2 ms."""
        del noise
        action = jnp.clip(jnp.nan_to_num(action.astype(jnp.result_type(float))), -1, 1)
        state = State(dynamics.advance(self.task, state.world, action), state.goal, state.steps + 1)
        _, block, _ = dynamics.observed_places(self._scene, state.world)
        distance = jnp.linalg.norm(block - state.goal)
        return Transition(
            state,
            self.goal_reward(block, state.goal),
            jnp.zeros((), bool),
            state.steps >= task.horizon,
            {"success": distance < REACH},
        )

    def observe(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Places, velocities times 40 ms and the block's angles; what is achieved and desired."""
        world, time = state.world, STEP * SUBSTEPS
        gripper, block, angles = dynamics.observed_places(self._scene, world)
        velocity = time * world.hand_velocity
        parts = [
            gripper,
            block,
            block - gripper,
            world.fingers,
            angles,
            time * world.velocity - velocity,
            time * world.spin,
            velocity,
            time * world.finger_velocity,
        ]
        return {
            "observation": jnp.concatenate(parts),
            "achieved_goal": block,
            "desired_goal": state.goal,
        }

    def physical_state(self, state: State) -> jax.Array:
        """Hand, fingers, block, its quaternion, their velocities and the goal, float `[26]`."""
        world = state.world
        return jnp.concatenate(
            [
                world.hand,
                world.fingers,
                world.body,
                world.turn,
                world.hand_velocity,
                world.finger_velocity,
                world.velocity,
                world.spin,
                state.goal,
            ]
        )

    def with_physical_state(self, state: State, vector: jax.Array) -> State:
        """Returns the state with places and velocities from float `[26]`; the step count stays."""
        vector = jnp.asarray(vector, jnp.result_type(float))
        parts = jnp.split(vector, np.cumsum([3, 2, 3, 4, 3, 2, 3, 3]))
        hand, fingers, body, turn, *speeds, goal = parts
        hand_velocity, finger_velocity, velocity, spin = speeds
        world = World(
            hand=hand,
            hand_velocity=hand_velocity,
            fingers=fingers,
            finger_velocity=finger_velocity,
            body=body,
            turn=turn,
            velocity=velocity,
            spin=spin,
            acceleration=jnp.zeros_like(state.world.acceleration),
            reaction=jnp.zeros_like(state.world.reaction),
        )
        return State(world, goal, state.steps)

    def render(self, state: State, task: Task) -> jax.Array:
        """Returns the table from above, and below it from the front; the goal is a red dot.

        Returns:
          `uint8[240, 240, 3]`.
        """
        return view.render(self._scene, state.world, state.goal)


def push(reward: Literal["sparse", "dense"] = "sparse") -> Fetch:
    """The block is to be pushed along the table.

    Args:
      reward: `sparse` or `dense`.
    """
    return Fetch("push", reward)


def slide(reward: Literal["sparse", "dense"] = "sparse") -> Fetch:
    """The puck is to be hit, for the goal may be out of reach. For the argument see `push`."""
    return Fetch("slide", reward)


def pick_and_place(reward: Literal["sparse", "dense"] = "sparse") -> Fetch:
    """The block is to be lifted, for half of the goals are in the air. See `push`."""
    return Fetch("pick_and_place", reward)
