"""Gymnasium-Robotics' Fetch as pure functions of NumPy arrays: a state in, a state out.

All that a step depends on goes in and comes out as a vector of words: MuJoCo's integration state,
the pose of the gripper's link as the simulator last had it (in PickAndPlace that is one substep
old, and the next action starts from it), and the goal. A word is the 64 bits of a float in two
integers, so that nothing is lost where JAX has single precision.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from gpicljax.typing import ArrayTree

CLASSES = {
    "push": ("push", "MujocoFetchPushEnv"),
    "slide": ("slide", "MujocoFetchSlideEnv"),
    "pick_and_place": ("pick_and_place", "MujocoFetchPickAndPlaceEnv"),
}
"""Module and class of each task in `gymnasium_robotics.envs.fetch`."""
GOAL = 3
PICTURE = (240, 240)
_INSTALL = 'pip install "gpicljax[fetch]"'


class Outcome(NamedTuple):
    """The outcome of a reset or a step; leaves have the leading axes of the arguments.

    Attributes:
      words: `uint32[W, 2]`, all that the next step depends on.
      observation: `float64[25]`.
      goal: `float64[3]`.
      reward: `float64[]`.
    """

    words: Any
    observation: Any
    goal: Any
    reward: Any


@functools.cache
def simulator(task: str) -> Simulator:
    """The one simulator of a task in this process.

    Raises:
      ModuleNotFoundError: if Gymnasium-Robotics or MuJoCo is not installed.
      ImportError: if the two do not go together.
    """
    return Simulator(task)


class Simulator:
    """A task's simulator; calls from several threads wait for one another."""

    def __init__(self, task: str) -> None:
        """Loads the model; see `simulator`."""
        self.task = task
        name, kind = CLASSES[task]
        try:
            mujoco: Any = importlib.import_module("mujoco")
            module = importlib.import_module(f"gymnasium_robotics.envs.fetch.{name}")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{error.name} is not installed: {_INSTALL}", name=error.name
            ) from error
        self.mujoco, self._lock = mujoco, threading.Lock()
        try:
            env = getattr(module, kind)()
            env.reset(seed=0)
        except AssertionError as error:  # the newer bindings give joints' places another shape
            raise ImportError(
                f"gymnasium-robotics does not go with mujoco {mujoco.__version__}: {_INSTALL}"
            ) from error
        self._env, self.model, self._data = env, env.model, env.data
        kinds = mujoco.mjtState
        self._parts = int(
            kinds.mjSTATE_FULLPHYSICS
            | kinds.mjSTATE_WARMSTART
            | kinds.mjSTATE_CTRL
            | kinds.mjSTATE_MOCAP_POS
            | kinds.mjSTATE_MOCAP_QUAT
        )
        self._physics = mujoco.mj_stateSize(self.model, self._parts)
        self._link = self.model.body("robot0:gripper_link").id
        self.size = self._physics + 7 + GOAL

    def start(self, seed: Any) -> Outcome:
        """Episodes begin, as after `env.reset(seed=seed)`.

        Args:
          seed: `uint32[...]`.
        """

        def reset(number: Any) -> Outcome:
            return self._outcome(self._env.reset(seed=int(number))[0], 0.0)

        return self._map(reset, np.asarray(seed), inner=(0,))

    def step(self, words: Any, action: ArrayTree) -> Outcome:
        """Acts once.

        Args:
          words: `uint32[..., W, 2]`.
          action: float `[..., 4]`; rounded to single precision, as that of the action space.
        """

        def step(words: np.ndarray, action: np.ndarray) -> Outcome:
            self._restore(words)
            # What is no number would stop the simulator, and is paid as none elsewhere.
            observation, reward, *_ = self._env.step(np.nan_to_num(action.astype(np.float32)))
            return self._outcome(observation, float(reward))

        return self._map(step, np.asarray(words), np.asarray(action), inner=(2, 1))

    def picture(self, words: Any) -> np.ndarray:
        """Returns the picture of a camera, `uint8[..., H, W, 3]`.

        Args:
          words: `uint32[..., W, 2]`.
        """
        words = np.asarray(words)
        rows = words.reshape(-1, *words.shape[-2:])
        camera = _camera(self)
        assert camera is not None
        with self._lock:
            pictures = [camera.picture(self, _numbers(row)) for row in rows]
        return np.stack(pictures).reshape(*words.shape[:-2], *PICTURE, 3)

    @property
    def can_see(self) -> bool:
        """Returns whether there is a way to draw without a screen."""
        return _camera(self) is not None

    def place(self, data: Any, numbers: np.ndarray) -> None:
        """Puts MuJoCo's own part of a state in place."""
        self.mujoco.mj_setState(self.model, data, numbers[: self._physics], self._parts)

    def _map(self, function: Any, *batched: np.ndarray, inner: tuple[int, ...]) -> Outcome:
        """Calls a function for every entry along the leading axes."""
        first = batched[0]
        leading = first.shape[: first.ndim - inner[0]]
        flat = [x.reshape(-1, *x.shape[x.ndim - n :]) for x, n in zip(batched, inner, strict=True)]
        with self._lock:
            rows = [function(*row) for row in zip(*flat, strict=True)]
        columns = [np.stack(column) for column in zip(*rows, strict=True)]
        return Outcome(*(x.reshape((*leading, *x.shape[1:])) for x in columns))

    def _restore(self, words: np.ndarray) -> None:
        numbers = _numbers(words)
        data = self._data
        self.place(data, numbers)
        pose = numbers[self._physics : self._physics + 7]
        data.xpos[self._link], data.xquat[self._link] = pose[:3], pose[3:]
        self._env.goal = numbers[-GOAL:].copy()

    def _outcome(self, observation: dict[str, np.ndarray], reward: float) -> Outcome:
        numbers = np.zeros(self.size)
        physics, data = np.zeros(self._physics), self._data
        self.mujoco.mj_getState(self.model, data, physics, self._parts)
        numbers[: self._physics] = physics
        pose = np.concatenate([data.xpos[self._link], data.xquat[self._link]])
        numbers[self._physics : -GOAL] = pose
        numbers[-GOAL:] = self._env.goal
        words = numbers.view(np.uint32).reshape(-1, 2)
        values = observation["observation"], observation["desired_goal"]
        return Outcome(words, *values, np.asarray(reward + 0.0))


def _numbers(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float64).reshape(-1)


# Pictures ----------------------------------------------------------------------------------------


class _Camera:
    """MuJoCo's own pictures of a scene; its drawing context belongs to one thread."""

    def __init__(self, owner: Simulator) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._thread.submit(self._open, owner).result()

    def _open(self, owner: Simulator) -> None:
        mujoco = owner.mujoco
        height, width = PICTURE
        chosen = os.environ.get("MUJOCO_GL", "").lower()
        usual = {"linux": ("egl", "osmesa"), "darwin": ("cgl",)}.get(sys.platform, ("glfw",))
        for name in (chosen,) if chosen in ("egl", "osmesa", "glfw", "cgl") else usual:
            try:
                context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
                context.make_current()
                break
            except Exception:  # whatever a platform without a way to draw may raise
                continue
        else:
            raise OSError("no way to draw without a screen")
        atexit.register(context.free)  # later, what it takes to do so is gone
        self._data = mujoco.MjData(owner.model)
        self._drawing = mujoco.MjrContext(owner.model, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawing)
        self._scene = mujoco.MjvScene(owner.model, maxgeom=1_000)
        self._view = mujoco.MjvCamera()
        far = owner.task == "slide"  # its table is longer
        self._view.distance, self._view.azimuth, self._view.elevation = 1.6 + 0.5 * far, 132, -20
        self._view.lookat[:] = 1.3 - 0.2 * far, 0.75, 0.5

    def picture(self, owner: Simulator, numbers: np.ndarray) -> np.ndarray:
        return self._thread.submit(self._draw, owner, numbers).result()

    def _draw(self, owner: Simulator, numbers: np.ndarray) -> np.ndarray:
        mujoco, model, data = owner.mujoco, owner.model, self._data
        owner.place(data, numbers)
        mujoco.mj_kinematics(model, data)
        target = model.site("target0").id
        model.site_pos[target] = numbers[-GOAL:] - data.xpos[model.site_bodyid[target]]
        mujoco.mj_forward(model, data)
        everything = mujoco.mjtCatBit.mjCAT_ALL
        options = mujoco.MjvOption()
        mujoco.mjv_updateScene(model, data, options, None, self._view, everything, self._scene)
        height, width = PICTURE
        pixels = np.zeros((height, width, 3), np.uint8)
        area = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(area, self._scene, self._drawing)
        mujoco.mjr_readPixels(pixels, None, area, self._drawing)
        return pixels[::-1]


@functools.cache
def _camera(owner: Simulator) -> _Camera | None:
    try:
        return _Camera(owner)
    except OSError:
        return None
