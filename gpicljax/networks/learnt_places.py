"""A memory of what was seen where, whose addresses are learnt.

The pose is a vector that every action turns by a learnt rotation, unless what is seen shows that
something was in the way. A step attends to what was seen earlier in the trial, by the pose to which
its action leads. That poses are turned is built in; that there are cells, headings and a plane is
not. Rotations are learnt from predictions, and from which earlier step showed the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from gpicljax.networks.contract import Core
from gpicljax.networks.feedforward import dense
from gpicljax.networks.layers import default_float
from gpicljax.networks.map_memory import SAME, STEPS, UNLIMITED
from gpicljax.typing import ArrayTree

PART = 8
"""Entries of a part of the pose, which is turned on its own."""
NEVER = -(2**20)
IMPOSSIBLE = -1e9


class PoseCarry(NamedTuple):
    """Latents and poses of a trial so far, and the pose now.

    Attributes:
      pose: float `[B, K, 8]`, K vectors of length 1.
      latent: float `[B, Z]`, the last one.
      latents: float `[B, S, Z]`, the last S of them.
      poses: float `[B, S, K, 8]`, theirs.
      time: `int32[B, S]`, when they were seen, at most -1; far below for those that do not count.
    """

    pose: jax.Array
    latent: jax.Array
    latents: jax.Array
    poses: jax.Array
    time: jax.Array


class PoseReader(Core):
    """A model over actions and latents that reads what was seen at the pose ahead.

    Attributes:
      model: see `map_memory.MapReader`; its tokens are `PlacedTokens`, whose places are poses.
      latent: Z.
      capacity: S, steps that are remembered beyond a call.
      parts: K.
      has_window: whether the model takes a `window`, too.
      width: of the hidden layer that guesses whether something is in the way.
    """

    model: Any
    latent: int
    capacity: int
    parts: int
    has_window: bool = False
    width: int = 64

    def setup(self) -> None:
        """The model's own parts are in `model`."""
        self.hidden, self.obstacle = dense(self.width), dense(1)
        draw, dtype = nn.initializers.normal, default_float()
        shape = len(STEPS), self.parts, PART, PART
        self.turns = self.param("turns", draw(0.1), shape, dtype)
        self.start = self.param("start", draw(1.0), (self.parts, PART), dtype)
        self.gate = self.param("gate", nn.initializers.constant(0.9), (self.latent,), dtype)
        starts = {"sharpness": 4.0, "slope": 0.0, "trust": 2.0}
        self.numbers = {
            name: self.param(name, nn.initializers.constant(value), (), dtype)
            for name, value in starts.items()
        }

    def initial_carry(self, batch: int) -> tuple[Any, PoseCarry]:
        """Returns the model's carry, and nothing seen."""
        dtype = default_float()
        seen = PoseCarry(
            jnp.zeros((batch, self.parts, PART), dtype),
            jnp.zeros((batch, self.latent), dtype),
            jnp.zeros((batch, self.capacity, self.latent), dtype),
            jnp.zeros((batch, self.capacity, self.parts, PART), dtype),
            jnp.full((batch, self.capacity), NEVER, jnp.int32),
        )
        return self.model.initial_carry(batch), seen

    def unroll(
        self,
        carry: tuple[ArrayTree, PoseCarry] | None,
        inputs: dict[str, Any],
        starts: jax.Array | None,
        window: jax.Array | int = UNLIMITED,
        *,
        imagined: bool = False,
        **more: Any,
    ) -> tuple[dict[str, Any], tuple[Any, PoseCarry]]:
        """Inputs `[T, B, ...]`, `bool[T, B]` -> outputs `[T, B, ...]`, and the carry.

        Arguments and outputs are those of `MapReader.unroll`, and besides:

        Args:
          imagined: whether latents are the model's own predictions, of a single step.

        Returns:
          In the outputs, too: `address`, float, nats of the earlier steps that showed the same; 0
          where none did.
        """
        observed = jax.lax.stop_gradient(inputs["observed"])
        steps, batch = observed.shape[:2]
        first = jnp.zeros((steps, batch), bool) if starts is None else starts
        trunk, memory = carry or (None, self.initial_carry(batch)[1])
        # A pose of zeros is that of a carry before its first trial.
        first = first.at[0].set(first[0] | (memory.pose == 0).all((-2, -1)))
        last = jnp.concatenate([memory.latent[None], observed[:-1]])
        action = jnp.where(first, 0, jnp.clip(inputs["action"], 0, len(STEPS) - 1))
        leads = jnp.asarray(STEPS)[action] != 0
        changed = jnp.abs(observed - last).max(-1) > SAME
        time = jnp.broadcast_to(jnp.arange(steps)[:, None], (steps, batch))
        began = jax.lax.cummax(jnp.where(first, time, NEVER))
        when = jnp.where(inputs["hidden"] | imagined, NEVER, time)
        when = jnp.concatenate([memory.time.swapaxes(0, 1), when])
        latents = jnp.concatenate([memory.latents.swapaxes(0, 1), observed])
        is_there = (when >= began[:, None]) & (when < time[:, None])  # [T, J, B]
        is_there &= (when > NEVER) & (time[:, None] - when < window)

        moved = changed | ~leads
        poses, ahead = self._turn(memory.pose, first, action, moved)
        earlier = memory.poses.swapaxes(0, 1)
        known = jnp.concatenate([earlier, poses])
        match = jnp.einsum("tbkd,jbkd->tjb", ahead, known) / self.parts - 1
        age = jax.nn.softplus(self.numbers["slope"]) * (time[:, None] - when) / 100
        logits = jnp.exp(self.numbers["sharpness"]) * match - age
        logits = jnp.where(is_there, logits, IMPOSSIBLE)
        total = jax.nn.logsumexp(logits, axis=1)
        trust = jax.nn.sigmoid(self.numbers["trust"] + total)
        recalled = jnp.einsum("tjb,jbz->tbz", jax.nn.softmax(logits, axis=1), latents)
        recalled = trust[..., None] * recalled
        guess = self._guess(action, last, trust)
        if imagined:
            moved = (guess > 0) | ~leads
            poses, _ = self._turn(memory.pose, first, action, moved)
            known = jnp.concatenate([earlier, poses])

        more |= {"window": window} if self.has_window else {}
        read = jnp.concatenate([recalled, trust[..., None]], axis=-1)
        placed = {
            "action": (inputs["action"], ahead.reshape(steps, batch, -1), read),
            "latent": (inputs["latent"], poses.reshape(steps, batch, -1), None),
        }
        outputs, trunk = self.model.unroll(trunk, placed, starts, **more)
        same = is_there & jax.lax.map(lambda x: (jnp.abs(x - latents) < SAME).all(-1), observed)
        nats = total - jax.nn.logsumexp(jnp.where(same, logits, IMPOSSIBLE), axis=1)
        outputs = outputs | {
            "latent": outputs["latent"] + self.gate * recalled,
            "moved": guess,
            "has_moved": moved if imagined else changed,
            "address": jnp.where(same.any(1) & moved, nats, 0),
        }
        when = jnp.where(when < began[-1], NEVER, when - steps)
        kept = (x[-self.capacity :].swapaxes(0, 1) for x in (latents, known, when))
        return outputs, (trunk, PoseCarry(poses[-1], observed[-1], *kept))

    def _turn(
        self, pose: jax.Array, first: jax.Array, action: jax.Array, moved: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the pose of each step, and the one to which its action leads."""
        rotations = jax.scipy.linalg.expm(self.turns - self.turns.swapaxes(-1, -2))
        start = self.start / jnp.linalg.norm(self.start, axis=-1, keepdims=True)

        def follow(pose: jax.Array, step: Any) -> tuple[jax.Array, Any]:
            first, action, moved = step
            pose = jnp.where(first[:, None, None], start, pose)
            ahead = jnp.einsum("bkd,bkde->bke", pose, rotations[action])
            pose = jnp.where((moved & ~first)[:, None, None], ahead, pose)
            return pose, (pose, ahead)

        return jax.lax.scan(follow, pose, (first, action, moved))[1]

    def _guess(self, action: jax.Array, last: jax.Array, trust: jax.Array) -> jax.Array:
        known = last, nn.one_hot(action, len(STEPS)), trust[..., None]
        hidden = nn.gelu(self.hidden(jnp.concatenate(known, axis=-1)))
        return self.obstacle(hidden)[..., 0]
