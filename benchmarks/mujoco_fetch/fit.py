"""Fits the hand's response to MuJoCo: `python -m benchmarks.mujoco_fetch.fit`.

It plays episodes of the three tasks in Gymnasium-Robotics' simulator, half of them at random and
half by the rules, and looks at every substep of 2 ms in which the robot touches nothing and its
hand leans by less than 8 degrees. What the hand's accelerations are in those, as a linear function
of where it is, is fitted by least squares, and how it leans as one of its velocity. So is the arm's
reach, over episodes whose actions stay the same for eight steps. It needs
`pip install "gpicljax[fetch]"` and takes a minute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.mujoco_fetch.simulator import simulator
from gpicljax.envs.fetch import hand as hands
from gpicljax.envs.fetch.env import Fetch
from gpicljax.envs.fetch.experts import script
from gpicljax.envs.fetch.scene import SCENES, STEP, SUBSTEPS
from gpicljax.interface import TimeStep

_LEANING = 0.14  # radians
_ROBOT = ("gripper_link", "r_gripper_finger_link", "l_gripper_finger_link")


class Substeps(NamedTuple):
    """The hand in substeps, `[N, ...]`.

    Attributes:
      error: from the hand to its target, float `[N, 3]`, in metres.
      velocity: float `[N, 3]`, in m/s.
      lean: how far its lower end is ahead along x and y, float `[N, 2]`, in radians.
      place: float `[N, 3]`, in metres.
      acceleration: float `[N, 3]`, in m/s^2.
      free: whether the robot touches nothing, bool `[N]`.
    """

    error: np.ndarray
    velocity: np.ndarray
    lean: np.ndarray
    place: np.ndarray
    acceleration: np.ndarray
    free: np.ndarray


def _policy(task: str, behaviour: str, rng: np.random.Generator) -> Any:
    """Returns a function from an observation to an action."""
    actions: list[Any] = []
    if behaviour != "rules":

        def act_at_random(observation: dict[str, np.ndarray]) -> np.ndarray:
            draws = behaviour == "random" or len(actions) % 8 == 0
            actions.append(rng.uniform(-1, 1, 4) if draws else actions[-1])
            return actions[-1]

        return act_at_random
    agent = script(Fetch(task))  # pyright: ignore[reportArgumentType] - one of the three
    carry = agent.initial_carry(1)
    step = jax.jit(lambda keys, *arguments: agent.act(keys, (), *arguments))

    def act_by_rule(observation: dict[str, np.ndarray]) -> np.ndarray:
        nonlocal carry
        batch = {name: jnp.asarray(x, jnp.float32)[None] for name, x in observation.items()}
        false, first = jnp.zeros(1, bool), jnp.full(1, not actions)
        timestep = TimeStep(batch, jnp.zeros(1), false, false, first, first, info={})
        action, _, carry = step(jax.random.split(jax.random.key(0), 1), carry, timestep)
        actions.append(np.asarray(action[0], float))
        return actions[-1]

    return act_by_rule


def record(task: str, behaviour: str, episodes: int, seed: int) -> Substeps:
    """Plays in the simulator; returns the substeps.

    Args:
      task: one of `SCENES`.
      behaviour: `random`, `repeats` (the same action for eight steps) or `rules`.
      episodes: of 50 steps.
      seed: of starts and actions.
    """
    host, rng = simulator(task), np.random.default_rng(seed)
    env, mujoco = type(host._env)(), host.mujoco
    model, data = env.model, env.data
    link = model.body("robot0:gripper_link").id
    robot = {model.body(f"robot0:{name}").id for name in _ROBOT}
    rows: list[tuple] = []
    for _ in range(episodes):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        act = _policy(task, behaviour, rng)
        for _ in range(50):
            env._set_action(np.clip(act(observation), -1, 1).astype(np.float32))
            for _ in range(SUBSTEPS):
                mujoco.mj_step(model, data)  # places and velocities are those it started from
                moving = np.zeros(6)
                body = mujoco.mjtObj.mjOBJ_XBODY
                mujoco.mj_objectVelocity(model, data, body, link, moving, 0)
                touching = model.geom_bodyid[data.contact.geom].flatten()
                free = not robot & set(touching.tolist())
                place, target = data.xpos[link].copy(), data.mocap_pos[0]
                lean = data.xmat[link][[0, 3]].copy()
                rows.append((target - place, moving[3:], lean, place, free))
            env._step_callback()
            observation = env._get_obs()
    error, velocity, lean, place, free = map(np.array, zip(*rows, strict=True))
    last = np.arange(len(free)) % (50 * SUBSTEPS) == 50 * SUBSTEPS - 1
    acceleration = (np.roll(velocity, -1, 0) - velocity) / STEP
    return Substeps(*(x[~last] for x in (error, velocity, lean, place, acceleration, free)))


def _join(parts: list[Substeps]) -> Substeps:
    return Substeps(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _select(substeps: Substeps) -> np.ndarray:
    """Returns which substeps count, bool `[N]`."""
    return substeps.free & (np.linalg.norm(substeps.lean, axis=-1) < _LEANING)


def fit_lean(substeps: Substeps) -> list[float]:
    """Returns `hand.LEAN`, for velocity along x and y."""
    used = _select(substeps)
    velocity, lean = substeps.velocity[used], substeps.lean[used]
    return [float(np.polyfit(velocity[:, i], lean[:, i], 1)[0]) for i in range(2)]


def fit_response(substeps: Substeps) -> np.ndarray:
    """Returns `hand.SPRING`, `DAMPER` and `SAG`, float `[3, 3]`, by axes."""
    used = _select(substeps)
    coefficients = []
    for axis in range(3):
        error, velocity = substeps.error[used, axis], substeps.velocity[used, axis]
        features = np.stack([error, -velocity, np.ones_like(error)], -1)
        target = substeps.acceleration[used, axis]
        coefficients.append(np.linalg.lstsq(features, target, rcond=None)[0])
        rest = np.var(target - features @ coefficients[-1]) / np.var(target)
        print(f"{'xyz'[axis]}: explains {1 - rest:.4f} of the variance")
    return np.array(coefficients)


def resistance(substeps: Substeps) -> list[tuple[float, float]]:
    """Returns the force that holds the hand back, by the wrist's distance from the shoulder."""
    error, velocity, _, place, acceleration, _ = (x[substeps.free] for x in substeps)
    rest = 2490 * error - 100 * velocity - acceleration
    place = jnp.asarray(place.T)
    _, way = hands.held_back((place[0], place[1], place[2]))
    far = np.asarray(hands.distance((place[0], place[1], place[2]))[0])
    inwards = np.sum([r * np.asarray(w) for r, w in zip(rest.T, way, strict=True)], 0)
    edges = np.arange(0.62, 0.9, 0.03)
    forces = []
    for low in edges:
        inside = (far >= low) & (far < low + 0.03)
        if inside.sum() > 100:
            force = float(np.median(inwards[inside]))
            forces.append((round(float(low + 0.015), 3), round(force, 1)))
    return forces


def main() -> None:
    """Prints constants, from which those of `hand` are."""
    np.set_printoptions(precision=2, suppress=True, linewidth=100)
    usual = _join([record(task, x, 12, 0) for task in SCENES for x in ("random", "rules")])
    spring, damper, sag = fit_response(usual).T.round(1).tolist()
    print("SPRING, DAMPER, SAG =", spring, damper, sag)
    print("LEAN =", np.round(fit_lean(usual), 4).tolist())
    print("held back:", resistance(_join([record(task, "repeats", 12, 0) for task in SCENES])))


if __name__ == "__main__":
    main()
