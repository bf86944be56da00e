"""`MazeWorld`: the environment.

Source: section 3.1 and appendices A.5 and A.6 of the GPICL paper; where it is silent, its reference
simulator, Xenoverse's MazeWorld v1.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import spaces
from gpicljax.checks import Range, check
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import expand_ranges
from gpicljax.systems.maze_world.env import (
    distribution,
    exposure,
    first_person,
    generation,
    local_view,
    motion,
    overhead,
    textures,
    words,
)
from gpicljax.systems.maze_world.env.distribution import Maze
from gpicljax.systems.maze_world.env.types import Params, State, Task

LIFE_COLOUR = (255, 0, 0)
MAX_SIZE = 511
Pixels = Annotated[int, Range(1, 4096)]
MAX_LANDMARKS = len(textures.LANDMARK_COLOURS)


@dataclasses.dataclass(frozen=True)
class MazeWorld(Environment[Params, Task, State]):
    """A random maze with coloured landmarks.

    Modes:

    - `"navigation"`: go to the landmark that is commanded, then to the next one. Commands are
      uniform and independent, so that one may repeat. A step's reward is `step_reward` (below 0),
      plus `goal_reward` if the agent is then in the commanded landmark's cell. The episode
      terminates after `num_commands` targets.
    - `"survival"`: landmarks have values, good and bad. The reward is the value of the landmark in
      the agent's cell, which then counts (and is seen) no more for `refresh_interval` steps. Life
      changes by `step_reward` plus the reward, up to `max_life`; the episode terminates when it is
      below 0.

    In both, episodes are truncated after `horizon` steps. They start at the task's start with a
    heading of 0. `info["reached"]`, `bool[]`: the target, or a landmark that counted, was reached.

    Actions:

    - `"discrete"`: 0 stay, 1 turn left, 2 turn right (90 degrees each), 3 one cell back, 4 one cell
      forward.
    - `"continuous"`: float `[2]` within [-1, 1], turn and speed: half turns per second, and metres
      per second of which backwards only half is done; a step is 0.1 s. Walls push softly.
    - `"moves"`: 0 stay, one cell 1 along -x, 2 along +x, 3 along -y, 4 along +y; the heading stays.

    Views:

    - `"first_person"`: `uint8[H, W, 3]`, what the agent sees, with a bar: the commanded landmark's
      colour, or how much of `max_life` is left.
    - `"local"`: `uint8[2 r + 1, 2 r + 1, 3]`, the cells around (`local_view`), whose middle shows
      the command's colour or what is left of life.

    From a bank, `VectorEnv` hands out nothing but walls again: textures, landmarks, values and
    commands are always fresh.

    Args:
      size: cap N on the cells n of a maze's side, and the default n; odd, at least 7.
      max_landmarks: cap L on landmarks, 1 .. 15.
      mode: `"navigation"` or `"survival"`.
      actions: `"discrete"`, `"continuous"` or `"moves"`.
      view: `"first_person"` or `"local"`.
      resolution: height H and width W of the first-person view, in pixels.
      field_of_view: of the first-person view, horizontally, in degrees.
      local_radius: r, how many cells the local view reaches in each direction.
      rays: number of rays over the field of view by which it is traced which cells experts see,
        whatever the resolution. The reference's are the columns of its pictures, 128 pixels wide.
      textures: a registered set of textures (`textures.register_textures`), of which tasks draw
        theirs.
      with_pose: the observation is a dictionary of `image` and `pose`, see `pose`.

    Raises:
      ValueError: for sizes out of range and unknown names.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("MazeWorld-v0", size=15, view="local")
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> observation.shape
      (3, 3, 3)
    """

    size: Annotated[int, Range(7, MAX_SIZE)] = 15
    max_landmarks: Annotated[int, Range(1, MAX_LANDMARKS)] = 10
    mode: Literal["navigation", "survival"] = "navigation"
    actions: Literal["discrete", "continuous", "moves"] = "discrete"
    view: Literal["first_person", "local"] = "first_person"
    resolution: tuple[Pixels, Pixels] = (128, 128)
    field_of_view: Annotated[float, Range(above=0, most=170)] = 108.0
    local_radius: Annotated[int, Range(1, MAX_SIZE)] = 1
    rays: Pixels = 128
    textures: str = "default"
    with_pose: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.size % 2 == 1, "size", self.size, f"an odd number from 7 to {MAX_SIZE}")
        textures.texture_set(self.textures)  # refuses unknown names

    @property
    def survival(self) -> bool:
        """Whether the mode is survival."""
        return self.mode == "survival"

    # The distribution over tasks -------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """The paper's, see `distribution.default_params`."""
        return distribution.default_params(self.size, self.max_landmarks)

    def make_params(self, **overrides: Any) -> Params:
        """Returns params; one number for a range of lengths is both of its ends."""
        return super().make_params(**expand_ranges(overrides, distribution.RANGES))

    def validate(self, params: Params) -> None:
        """Raises ValueError where params contradict each other or exceed a cap."""
        super().validate(params)
        continuous = self.actions == "continuous"
        distribution.check(params, self.size, self.max_landmarks, continuous)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a maze and what stands in it."""
        maze_key, key = jax.random.split(key)
        maze = self.sample_blueprint(maze_key, params)
        return distribution.sample_contents(key, maze, params, self.max_landmarks, self.textures)

    def sample_blueprint(self, key: jax.Array, params: Params) -> Maze:
        """Draws the walls of a maze."""
        size = jnp.asarray(params.size, jnp.int32)
        walls = generation.carve(key, size, self.size, params.density, params.allow_loops)
        return Maze(size, walls)

    def start(self, key: jax.Array, blueprint: Maze, params: Params) -> tuple[Task, State]:
        """Draws what stands in the maze, and starts an episode."""
        task_key, state_key = jax.random.split(key)
        task = distribution.sample_contents(
            task_key, blueprint, params, self.max_landmarks, self.textures
        )
        return task, self.initial(state_key, task)

    # One episode -----------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """At the start, with a new script of commands."""
        script, zero = jax.random.bits(key, (2,), jnp.uint32), jnp.zeros((), jnp.int32)
        return State(
            position=motion.middle_of(task.start, task.cell_size),
            heading=jnp.zeros((), task.cell_size.dtype),
            steps=zero,
            script=script,
            command_index=zero,
            command=zero if self.survival else self.command(script, zero, task),
            life=task.initial_life,
            countdown=jnp.zeros(self.max_landmarks, jnp.int32),
        )

    def command(self, script: jax.Array, index: jax.Array, task: Task) -> jax.Array:
        """Returns an episode's command number `index`.

        Args:
          script: `uint32[2]`, see `State.script`.
          index: `int32[]`.
          task: the task.

        Returns:
          `int32[]`, a landmark: uniform, and independent of the other commands.
        """
        key = jax.random.fold_in(jax.random.wrap_key_data(script, impl="threefry2x32"), index)
        # The bias of the remainder is below 15 / 2**32.
        drawn = jax.random.bits(key, (), jnp.uint32) % task.num_landmarks.astype(jnp.uint32)
        return drawn.astype(jnp.int32)

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step.

        Args:
          state: the state.
          action: `int32[]`, or float `[2]` in continuous motion.
          noise: nothing; commands come from the state's script.
          task: the task.

        Returns:
          The transition.
        """
        del noise
        position, heading = self._next_pose(state, action, task)
        cell = motion.cell_of(position, task.cell_size)
        landmark = task.landmark_at[cell[0], cell[1]].astype(jnp.int32)
        steps = state.steps + 1
        state = dataclasses.replace(state, position=position, heading=heading, steps=steps)
        if self.survival:
            moved, reward, reached = self._touch_landmark(state, landmark, task)
            terminated = moved.life < 0
        else:
            reached = landmark == state.command
            reward = task.step_reward + jnp.where(reached, task.goal_reward, 0)
            index = state.command_index + reached
            command = self.command(state.script, index, task)
            moved = dataclasses.replace(state, command_index=index, command=command)
            terminated = index >= task.num_commands
        return Transition(moved, reward, terminated, steps >= task.horizon, {"reached": reached})

    def _next_pose(
        self, state: State, action: jax.Array, task: Task
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the next position and heading."""
        pose = state.position, state.heading
        if self.actions == "continuous":
            return motion.drive(task.walls, *pose, action, task.cell_size)
        cell, heading = self.cell(state, task), state.heading
        if self.actions == "moves":
            cell = motion.move(task.walls, cell, action)
        else:
            quarter = motion.quarter_of(heading)
            cell, quarter = motion.turn_or_go(task.walls, cell, quarter, action)
            heading = quarter.astype(heading.dtype) * (np.pi / 2)
        return motion.middle_of(cell, task.cell_size), heading

    def _touch_landmark(
        self, state: State, landmark: jax.Array, task: Task
    ) -> tuple[State, jax.Array, jax.Array]:
        """Returns the state after touching `landmark: int32[]` (-1: none), its reward, and whether
        it counted.

        A landmark that is touched counts again when `refresh_interval` steps have passed.
        """
        countdown = jnp.maximum(state.countdown - 1, 0)
        at = jnp.maximum(landmark, 0)
        reached = (landmark >= 0) & (countdown[at] == 0)
        reward = jnp.where(reached, task.landmark_rewards[at], 0)
        life = jnp.minimum(task.max_life, state.life + task.step_reward + reward)
        touched = reached & (jnp.arange(self.max_landmarks) == landmark)
        countdown = jnp.where(touched, task.refresh_interval, countdown)
        return dataclasses.replace(state, life=life, countdown=countdown), reward, reached

    # Where the agent is, and what is there ---------------------------------------------------

    def cell(self, state: State, task: Task) -> jax.Array:
        """Returns the agent's cell, `int32[2]`."""
        return motion.cell_of(state.position, task.cell_size)

    def pose(self, state: State) -> jax.Array:
        """Float `[4]`: x and y in metres, cosine and sine of the heading."""
        turned = jnp.stack([jnp.cos(state.heading), jnp.sin(state.heading)])
        return jnp.concatenate([state.position, turned])

    def active(self, state: State, task: Task) -> jax.Array:
        """The landmarks that are there, count and can be seen, `bool[L]`."""
        exists = jnp.arange(self.max_landmarks) < task.num_landmarks
        return exists & (state.countdown == 0) if self.survival else exists

    def visible_cells(self, state: State, task: Task) -> jax.Array:
        """Returns the cells that the agent sees now, `bool[N, N]`.

        In the local view, and where moves have no heading, the window of cells around it; else what
        `rays` rays traverse.
        """
        position = state.position / task.cell_size
        if self.view == "local" or self.actions == "moves":
            cell = position.astype(jnp.int32)
            return exposure.seen_around(cell, self.size, self.local_radius)
        return exposure.seen_by_rays(
            task.walls,
            position,
            state.heading,
            task.view_range / task.cell_size,
            columns=self.rays,
            field_of_view=self.field_of_view,
            poses="any" if self.actions == "continuous" else "quarter",
        )

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Space:
        """Five actions, or (turn, speed) within [-1, 1]."""
        if self.actions == "continuous":
            return spaces.Box(-1.0, 1.0, (2,))
        return spaces.Discrete(motion.NUM_ACTIONS)

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the view, in pixels or cells."""
        side = 2 * self.local_radius + 1
        return (side, side) if self.view == "local" else self.resolution

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """Space of the view: a picture, perhaps with the pose."""
        image = spaces.Box(0, 255, (*self.sides, 3), jnp.uint8)
        return spaces.Dict.of(image=image, pose=_real(4)) if self.with_pose else image

    def observe(self, state: State, task: Task) -> Any:
        """Returns the agent's view: a picture, with the pose if asked for."""
        active = self.active(state, task)
        image = self.image(state.position, state.heading, state.command, state.life, active, task)
        return {"image": image, "pose": self.pose(state)} if self.with_pose else image

    def image(
        self,
        position: jax.Array,
        heading: jax.Array,
        command: jax.Array,
        life: jax.Array,
        active: jax.Array,
        task: Task,
    ) -> jax.Array:
        """The picture, from no more of the state than it shows: a stored pose gives it again.

        Args:
          position: float `[2]`, metres.
          heading: float `[]`, radians.
          command: `int32[]` (shown in navigation).
          life: float `[]` (shown in survival).
          active: `bool[L]`, the landmarks that can be seen.
          task: the task.

        Returns:
          `uint8[H, W, 3]`, or `uint8[2 r + 1, 2 r + 1, 3]` in the local view.
        """
        colours = textures.LANDMARK_COLOURS
        colour = jnp.asarray(colours, jnp.uint8)[command]
        if self.view == "local":
            middle = local_view.life_colour(life) if self.survival else colour
            cell = motion.cell_of(position, task.cell_size)
            maze = task.walls, task.landmark_at
            return local_view.picture(*maze, cell, self.local_radius, active, middle, colours)
        dtype = position.dtype
        left, right = jnp.asarray(0.25, dtype), jnp.asarray(0.75, dtype)
        if self.survival:
            colour = jnp.asarray(LIFE_COLOUR, jnp.uint8)
            left = jnp.asarray(0.1, dtype)
            right = left + 0.8 * jnp.clip(life / task.max_life, 0, 1)
        camera = first_person.Camera(*self.resolution, self.field_of_view, self.textures)
        bar = first_person.Bar(left, right, colour)
        return first_person.render(camera, task, position, heading, active, bar)

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        if self.actions == "moves":
            return (
                ("stay", "."),
                ("left", "ArrowLeft"),
                ("right", "ArrowRight"),
                ("up", "ArrowUp"),
                ("down", "ArrowDown"),
            )
        return (
            ("stay", "."),
            ("turn left", "ArrowLeft"),
            ("turn right", "ArrowRight"),
            ("back", "ArrowDown"),
            ("forward", "ArrowUp"),
        )

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the state of the maze, for experts alone.

        Returns:
          walls: `bool[N, N]`.
          cell: `int32[2]`, the agent's.
          position: float `[2]`, in cells.
          heading: float `[]`, radians.
          exposed: `bool[N, N]`, the cells that can be seen from here, see `exposed`.
          command: `int32[]`.
          landmarks: `int32[L, 2]`, (-1, -1) for those that are not there.
          landmark_at: `int8[N, N]`, -1 for none.
          active: `bool[L]`, see `active`.
          landmark_rewards: float `[L]`.
          countdown: `int32[L]`.
          step_reward: float `[]`.
          life: float `[]`.
        """
        return {
            "walls": task.walls,
            "cell": self.cell(state, task),
            "position": state.position / task.cell_size,
            "heading": state.heading,
            "exposed": self.visible_cells(state, task),
            "command": state.command,
            "landmarks": task.landmarks,
            "landmark_at": task.landmark_at,
            "active": self.active(state, task),
            "landmark_rewards": task.landmark_rewards,
            "countdown": state.countdown,
            "step_reward": task.step_reward,
            "life": state.life,
        }

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.maze_world.figures.episode_page:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the step, the command or what is left of life, and the pose if it is observed."""
        pose = np.asarray(self.pose(state)) if self.with_pose else None
        return words.describe(self.survival, state, task, pose)

    def render(self, state: State, task: Task) -> jax.Array:
        """The maze from above with the agent and its target, `uint8[P, P, 3]`; see `overhead`."""
        target = jnp.full((), -1, jnp.int32) if self.survival else state.command
        heading = None if self.actions == "moves" else state.heading
        position, active = state.position / task.cell_size, self.active(state, task)
        return overhead.render(task, position, heading, active, target, self.textures)


def _real(*shape: int) -> spaces.Box:
    return spaces.Box(-float("inf"), float("inf"), shape)
