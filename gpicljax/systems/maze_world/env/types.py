"""The pytrees of Maze World: `Params`, `Task`, `State`.

Coordinates: x runs along the first axis of the maze's arrays and y along the second; cell (i, j)
covers `[i, i + 1) x [j, j + 1)` cells, times `cell_size` in metres. A heading of 0 looks along +x
and grows towards +y.
"""

from __future__ import annotations

from typing import Annotated

import jax
from flax import struct

from gpicljax.checks import Range
from gpicljax.envs._checks import Count, NotNegative, Positive, Real

Long = Annotated[jax.Array, Range(1, 2**30)]  # so that nothing overflows


@struct.dataclass
class Params:
    """The distribution over mazes.

    Attributes:
      size: `int32[]`, cells n on a side: odd, at least 7, at most the static `size`.
      density: float `[]`, share of walls aimed at among the (n - 2)^2 cells inside the outer wall.
      allow_loops: `bool[]`, whether walls are opened until `density` is met; otherwise the maze is
        a tree.
      num_landmarks: `int32[]`, potential navigation targets, at most the static `max_landmarks`.
      mean_landmark_reward: float `[]`, mean of a landmark's value (survival only); the values
        spread uniformly over 1 around it; `distribution.SIMULATOR_MEAN_LANDMARK_REWARD` is the
        reference simulator's.
      step_reward: float `[]`, below 0.
      goal_scale: float `[]`; arriving at a target is worth `goal_scale * n^1.5 * |step_reward|`.
      cell_size: float `[2]`, side of a cell in metres, lowest and highest.
      wall_height: float `[2]`, metres from floor to ceiling, lowest and highest.
      eye_height: float `[2]`, metres from floor to eye, lowest and highest.
      view_range: float `[2]`, metres after which all is black, lowest and highest.
      horizon: `int32[]`, steps until an episode is truncated.
      num_commands: `int32[]`, targets of an episode, after which it terminates (navigation only).
      refresh_interval: `int32[]`, steps until a landmark is worth something again (survival only).
      initial_life: float `[]`, see `State.life` (survival only).
      max_life: float `[]`, the most there can be of it (survival only).
    """

    size: Annotated[jax.Array, Range(7)]
    density: Annotated[jax.Array, Range(0, below=1)]
    allow_loops: jax.Array
    num_landmarks: Count
    mean_landmark_reward: Real
    step_reward: Annotated[jax.Array, Range(below=0)]
    goal_scale: NotNegative
    cell_size: Positive
    wall_height: Positive
    eye_height: Positive
    view_range: Positive
    horizon: Count
    num_commands: Long
    refresh_interval: Long
    initial_life: NotNegative
    max_life: NotNegative


@struct.dataclass
class Task:
    """One maze. N is the static `size`, L the static `max_landmarks`.

    Attributes:
      size: `int32[]`, cells n on a side; what lies beyond is wall.
      walls: `bool[N, N]`.
      textures: `uint8[N, N]`, each wall's texture, an index into the texture set's walls.
      ground: `int32[]`, the floor's texture, an index into the set's grounds.
      ceiling: `int32[]`, the ceiling's texture, an index into the set's ceilings.
      landmarks: `int32[L, 2]`, their cells; (-1, -1) for those that are not there.
      landmark_at: `int8[N, N]`, the landmark in each cell, -1 for none.
      num_landmarks: `int32[]`.
      landmark_rewards: float `[L]`, their values (survival).
      start: `int32[2]`, the cell in which episodes start, never a landmark's.
      cell_size: float `[]`, metres.
      wall_height: float `[]`, metres.
      eye_height: float `[]`, metres.
      view_range: float `[]`, metres.
      step_reward: float `[]`.
      goal_reward: float `[]`.
      horizon: `int32[]`.
      num_commands: `int32[]`.
      refresh_interval: `int32[]`.
      initial_life: float `[]`.
      max_life: float `[]`.
    """

    size: jax.Array
    walls: jax.Array
    textures: jax.Array
    ground: jax.Array
    ceiling: jax.Array
    landmarks: jax.Array
    landmark_at: jax.Array
    num_landmarks: jax.Array
    landmark_rewards: jax.Array
    start: jax.Array
    cell_size: jax.Array
    wall_height: jax.Array
    eye_height: jax.Array
    view_range: jax.Array
    step_reward: jax.Array
    goal_reward: jax.Array
    horizon: jax.Array
    num_commands: jax.Array
    refresh_interval: jax.Array
    initial_life: jax.Array
    max_life: jax.Array


@struct.dataclass
class State:
    """One episode in progress.

    Attributes:
      position: float `[2]`, x and y in metres; the middle of a cell unless motion is continuous.
      heading: float `[]`, radians in [0, 2 pi); a quarter's multiple unless motion is continuous.
      steps: `int32[]`, steps taken.
      script: `uint32[2]`, key data from which command number i follows.
      command_index: `int32[]`, targets reached so far (navigation).
      command: `int32[]`, the landmark to go to now (navigation; 0 otherwise).
      life: float `[]`, the episode terminates when it falls below 0 (survival).
      countdown: `int32[L]`, steps until each landmark is active again, 0 where it is (survival).
    """

    position: jax.Array
    heading: jax.Array
    steps: jax.Array
    script: jax.Array
    command_index: jax.Array
    command: jax.Array
    life: jax.Array
    countdown: jax.Array
