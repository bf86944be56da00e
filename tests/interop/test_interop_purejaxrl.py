"""purejaxrl's PPO, unmodified, learns on environments that are registered with gymnax.

purejaxrl is a folder of scripts and no package: PUREJAXRL names a checkout.
"""

import functools
import importlib
import os
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import gpicljax

CHECKOUT = Path(os.environ.get("PUREJAXRL", "")) / "purejaxrl"
if not (CHECKOUT / "ppo.py").exists():
    pytest.skip("needs purejaxrl: PUREJAXRL=CHECKOUT", allow_module_level=True)
gymnax = pytest.importorskip("gymnax")
pytestmark = pytest.mark.slow

from gpicljax.interop import to_gymnax  # noqa: E402

# Imported by its wrappers, for environments of these libraries alone.
UNUSED = ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix")
NUM_ENVS, NUM_STEPS, UPDATES = 32, 32, 128
CONFIG = {
    "LR": 3e-3,
    "NUM_ENVS": NUM_ENVS,
    "NUM_STEPS": NUM_STEPS,
    "TOTAL_TIMESTEPS": NUM_ENVS * NUM_STEPS * UPDATES,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 4,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "tanh",
    "ANNEAL_LR": False,
}
ENVS = {
    # The optimum is 1; random play reaches the goal in 1.4 % of the episodes.
    "gpicljax/lake": functools.partial(
        to_gymnax, gpicljax.make("FrozenLake-v1", is_slippery=False)
    ),
    # New arms in every episode: an agent that ignores what the last pull paid gets 50 of 100.
    "gpicljax/bandit": functools.partial(
        to_gymnax, gpicljax.make("BernoulliBandit-v0", num_arms=2), observe_previous=True
    ),
}


@pytest.fixture(scope="module")
def ppo():
    """The module `ppo`, and our environments among gymnax's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT))
        for name in UNUSED:
            stand_in = types.ModuleType(name)
            stand_in.envs = stand_in.EpisodeWrapper = stand_in.AutoResetWrapper = None
            patch.setitem(sys.modules, name, stand_in)
        for name, factory in ENVS.items():
            gymnax.register(name, factory)
        yield importlib.import_module("ppo")
    for name in ("ppo", "wrappers"):
        sys.modules.pop(name, None)


def train(ppo, name, gamma):
    """Returns of three seeds in the first four updates, and in the second half of the training."""
    config = CONFIG | {"ENV_NAME": name, "GAMMA": gamma}
    keys = jax.random.split(jax.random.key(0), 3)
    metrics = jax.jit(jax.vmap(ppo.make_train(config)))(keys)["metrics"]
    ended, returned = (
        np.asarray(metrics[key]) for key in ("returned_episode", "returned_episode_returns")
    )
    assert ended.shape == (3, UPDATES, NUM_STEPS, NUM_ENVS)
    half = UPDATES // 2
    first, last = returned[:, :4][ended[:, :4]], returned[:, half:][ended[:, half:]]
    print(f"{name}: {first.mean():.3f} -> {last.mean():.3f} ({len(first)}, {len(last)} episodes)")
    return first, last


def test_learns_to_cross_the_lake(ppo):
    first, last = train(ppo, "gpicljax/lake", 0.95)
    assert first.mean() < 0.3 and last.mean() > 0.9


def test_learns_to_learn_which_arm_pays(ppo):
    """Stay with what paid, leave what did not: all that one step of memory allows."""
    _, last = train(ppo, "gpicljax/bandit", 0.5)
    error = last.std() / np.sqrt(len(last))
    assert last.mean() - 50 > max(4, 3 * error)
