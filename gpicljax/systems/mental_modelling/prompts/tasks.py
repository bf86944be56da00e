"""Descriptions of tasks for language models, in this project's own words.

Source of the facts: the environments' documentation; which fields there are, appendix A.2 of Lu et
al. (2024), "Mental modelling of reinforcement learning agents by language models".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpicljax.registration import id_without_version


class TaskText(NamedTuple):
    """A description of a task in parts of a few sentences, empty if unknown.

    Attributes:
      task: its purpose.
      states: the elements of a state.
      actions: the elements of an action.
      rewards: the rule of the rewards.
      dynamics: the law of the next state.
      start: the beginning of an episode.
      end: the end of an episode.
    """

    task: str
    states: str
    actions: str
    rewards: str
    dynamics: str
    start: str
    end: str


_ARM = (
    "A robot's arm moves a gripper over a table, in small steps. A block is to be brought to a "
    "goal. The task goes on when it is there: the block has to stay."
)
_ARM_STATES = (
    "25 numbers: 0-2 the gripper's position, in metres; 3-5 the block's, which is what is to be at "
    "the goal; 6-8 the block's less the gripper's; 9-10 by how much the right and the left finger "
    "are out; 11-13 the block's rotation about x, y and z; 14-16 its velocity less the gripper's; "
    "17-19 its angular velocity; 20-22 the gripper's velocity; 23-24 that of the right and of the "
    "left finger. Velocities are what is moved in a step, of 0.04 seconds. The goal is a position "
    "as well, the same all through an episode."
)
_MOVES = "4 numbers from -1 to 1: 0-2 by how much the gripper is to move in x, y and z, in 5 cm; 3 "
_ARM_ACTIONS = f"{_MOVES}does nothing, for the fingers are held closed."
_GRIPPING = f"{_MOVES}whether the fingers open (above 0) or close (below 0)."
_ARM_REWARDS = "0 while the block is within 5 cm of the goal, else -1."
_ARM_END = "The episode is cut after 50 steps; it does not end before."


def _arm(task: str, start: str, actions: str = _ARM_ACTIONS) -> TaskText:
    return TaskText(f"{_ARM} {task}", _ARM_STATES, actions, _ARM_REWARDS, "", start, _ARM_END)


TASKS: Mapping[str, TaskText] = {
    "MountainCar": TaskText(
        "A car stands in a valley between two hills. Its engine is too weak to climb the hill on "
        "the right at once: it has to swing up by going back and forth.",
        "2 numbers: 0 the car's position, from -1.2 to 0.6; 1 its velocity, from -0.07 to 0.07.",
        "0 pushes to the left, 1 does not push, 2 pushes to the right.",
        "-1 for every step.",
        "velocity' = velocity + 0.001 * (action - 1) - 0.0025 * cos(3 * position); "
        "position' = position + velocity'. Both stay within their ranges; at the left end the "
        "velocity becomes 0.",
        "Somewhere from -0.6 to -0.4, at rest.",
        "The episode ends where the position is 0.5 or more.",
    ),
    "Acrobot": TaskText(
        "Two links hang from a fixed joint, one below the other, with a second joint between them. "
        "Only the second joint has a motor. The lower end is to be swung above a line, as high "
        "over the upper joint as one link is long.",
        "6 numbers: 0-1 cosine and sine of the first angle, which is 0 when the upper link hangs "
        "down; 2-3 cosine and sine of the second angle, against the upper link; 4-5 the two "
        "angular velocities, up to 12.567 and 28.274 either way.",
        "0, 1 and 2 apply a torque of -1, 0 and 1 between the links.",
        "-1 for every step, 0 for the one that reaches the line.",
        "",
        "All angles and velocities from -0.1 to 0.1.",
        "The episode ends where -cos(first) - cos(first + second) is above 1.",
    ),
    "LunarLander": TaskText(
        "A lander is to come down softly between two flags, at the point (0, 0). Fuel does not run "
        "out, but its use costs.",
        "8 numbers: 0-1 its position across and above the pad; 2-3 its velocity; 4 its angle; 5 "
        "its angular velocity; 6-7 whether the left and the right leg touch the ground.",
        "0 does nothing, 1 fires the left engine, 2 the main engine, 3 the right engine.",
        "More the nearer it comes to the pad, the slower it is and the more upright; 10 for each "
        "leg on the ground; -0.3 for each step of the main engine, -0.03 of another; at the end "
        "100 for a landing, -100 for a crash.",
        "",
        "At the top, in the middle, with a random push.",
        "The episode ends where the lander crashes, leaves the picture, or comes to rest.",
    ),
    "Pendulum": TaskText(
        "A pendulum hangs from a joint with a motor, which is too weak to lift it at once. It is "
        "to be swung up and kept upright.",
        "3 numbers: 0-1 cosine and sine of the angle, which is 0 upright; 2 the angular velocity, "
        "from -8 to 8.",
        "The torque, a number from -2 to 2.",
        "-(angle ** 2 + 0.1 * velocity ** 2 + 0.001 * torque ** 2), with the angle from -pi to pi.",
        "velocity' = velocity + 0.05 * (15 * sin(angle) + 3 * torque), within its range; "
        "angle' = angle + 0.05 * velocity'.",
        "Any angle, a velocity from -1 to 1.",
        "The episode does not end by itself.",
    ),
    "InvertedDoublePendulum": TaskText(
        "A cart on a rail carries two poles, one upon the other. Pushing the cart is to keep them "
        "upright.",
        "11 numbers: 0 the cart's position; 1-2 the sines of the two angles; 3-4 their cosines; "
        "5-7 the velocities of the cart and of the angles; 8-10 forces of constraints. (Where "
        "there are 9, the last two forces are left out.)",
        "The force on the cart, a number from -1 to 1.",
        "10 for each step, less 0.01 * x ** 2 + (y - 2) ** 2, where (x, y) is the tip, and less a "
        "little for angular velocities.",
        "",
        "Near upright, with small random differences.",
        "The episode ends where the tip is at 1 or below.",
    ),
    "FrozenLake": TaskText(
        "Someone walks over a frozen lake of 4 x 4 squares, counted row by row from 0, towards a "
        "goal on square 15. Squares 5, 7, 11 and 12 are holes. The ice may be slippery.",
        "The number of the square.",
        "0 left, 1 down, 2 right, 3 up.",
        "1 at the goal, else 0.",
        "On slippery ice a step goes in the wished direction or in one of the two beside it, with "
        "a third each. Who would leave the lake stays.",
        "On square 0.",
        "The episode ends in a hole or at the goal.",
    ),
    "CliffWalking": TaskText(
        "Someone walks over a grid of 4 rows of 12 squares, counted row by row from 0, from square "
        "36 to square 47. Squares 37 to 46 between them are a cliff. The ground may be slippery.",
        "The number of the square.",
        "0 up, 1 right, 2 down, 3 left.",
        "-1 for every step, -100 for one over the cliff.",
        "A step over the cliff leads back to square 36. Who would leave the grid stays. On "
        "slippery ground a step goes in the wished direction or in one of the two beside it, with "
        "a third each.",
        "On square 36.",
        "The episode ends on square 47.",
    ),
    "FetchPush": _arm(
        "The block is to be pushed along the table; the fingers stay closed.",
        "Block and goal lie on the table, within 15 cm of below the gripper in x and in y; the "
        "block at least 10 cm from there.",
    ),
    "FetchSlide": _arm(
        "The block is a puck on a slippery table, which has to be hit: the goal is out of reach.",
        "The puck lies within 10 cm of below the gripper in x and in y, and 10 cm or more from "
        "there; the goal within 30 cm of a point that is 40 cm ahead in x.",
    ),
    "FetchPickAndPlace": _arm(
        "The goal may be in the air: the block has to be lifted.",
        "Block and goal lie within 15 cm of below the gripper in x and in y, the block at least 10 "
        "cm from there; half of the goals are up to 45 cm above the table.",
        _GRIPPING,
    ),
}
"""By the first part of an environment's id."""


def task_text(environment: str) -> TaskText | None:
    """Returns the description of an environment; None if there is none."""
    return TASKS.get(id_without_version(environment))
