"""A map of what was seen where, for a model that predicts what an agent sees next.

The agent turns by quarters and goes from cell to cell. Where it is follows from its actions by dead
reckoning, relative to the start of its trial: an action that leaves what is seen as it was did not
move it. The latents last seen in each place are kept, and the action's token reads the one of the
place to which the action leads. What an address is, is built in; what to make of a latent found
there is learnt.

Where observations are the model's own predictions, nothing is kept, and a learnt guess says whether
something was in the way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from gpicljax.networks.embeddings import TokenEmbedding
from gpicljax.networks.feedforward import dense
from gpicljax.networks.layers import default_float
from gpicljax.typing import ArrayTree

TURNS = np.array([0, -1, 1, 0, 0], np.int32)
STEPS = np.array([0, 0, 0, -1, 1], np.int32)
"""Quarters of a turn and cells forward of: stay, turn left, turn right, go back, go forward."""
HEADINGS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)], np.int32)
UNLIMITED = 2**20
"""A window that no sequence outgrows."""
# Latents of the same picture differ by rounding alone; those of different ones by about 1.
SAME = 1e-3
# Relative to the vectors of tokens.
PLACES = 0.4


class MapCarry(NamedTuple):
    """The map of a maze so far, and the pose on it.

    Attributes:
      pose: `int32[B, 3]`, x and y in cells and quarters of a turn, relative to the start.
      latent: float `[B, Z]`, the last one.
      stored: float `[B, P, Z]`, the last one seen in each place.
      steps: `int32[B]`, steps of the trial so far.
      seen_at: `int32[B, P]`, the step at which a place was last seen; -1 for none.
      met_at: `int32[B, P]`, the step at which something was in the way ahead of a place; likewise.
      sums: float `[B, X Y, C]`, what stored latents show of cells, for a planner; else empty.
    """

    pose: jax.Array
    latent: jax.Array
    stored: jax.Array
    steps: jax.Array
    seen_at: jax.Array
    met_at: jax.Array
    sums: jax.Array


class Whereabouts(NamedTuple):
    """Places of a step, and what is known of them; leaves `[..., B, *]`.

    Attributes:
      ahead: `int32`, the place to which the last action leads if nothing is in the way.
      here: `int32`, the place of the step.
      recalled: float `[Z]`, the latent stored at `ahead`; zeros where there is none.
      is_recalled: `bool`.
      before: float `[Z]`, the latent of the step before.
      is_free: `bool`, whether the cell at `ahead` was entered before.
      moved: `bool`, whether the latent changed.
    """

    ahead: jax.Array
    here: jax.Array
    recalled: jax.Array
    is_recalled: jax.Array
    before: jax.Array
    is_free: jax.Array
    moved: jax.Array


class MapTrace(NamedTuple):
    """The map at each step; leaves `[T, B, ...]`.

    Attributes:
      place: `int32`, that of the step.
      row: `int32[P]`, of the latent stored in each place; -1 where there is none.
      is_blocked: `bool[P]`.
    """

    place: jax.Array
    row: jax.Array
    is_blocked: jax.Array


def empty_map(batch: int, latent: int, radius: int, sums: jax.Array | None = None) -> MapCarry:
    """Returns the map at the start of a trial."""
    places, dtype = number_of_places(radius), default_float()
    return MapCarry(
        jnp.zeros((batch, 3), jnp.int32),
        jnp.zeros((batch, latent), dtype),
        jnp.zeros((batch, places, latent), dtype),
        jnp.zeros(batch, jnp.int32),
        jnp.full((batch, places), -1, jnp.int32),
        jnp.full((batch, places), -1, jnp.int32),
        jnp.zeros((batch, 0, 0), dtype) if sums is None else sums,
    )


def number_of_places(radius: int) -> int:
    """Returns P: cells up to `radius` away along each axis, times four headings."""
    return 4 * (2 * radius + 1) ** 2


def all_places(batch: int, radius: int) -> jax.Array:
    """Returns the numbers of all places, `int32[P, B]`."""
    places = jnp.arange(number_of_places(radius), dtype=jnp.int32)
    return jnp.broadcast_to(places[:, None], (len(places), batch))


class PlaceEmbedding(nn.Module):
    """Vectors of places: of x, y and heading, and of all three together."""

    radius: int
    width: int

    @nn.compact
    def __call__(self, place: jax.Array) -> jax.Array:
        """`int32[...]` in 0 .. P - 1 -> float `[..., width]`."""
        side = 2 * self.radius + 1
        parts = (side, place // (4 * side)), (side, place // 4 % side), (4, place % 4)
        parts = (*parts, (number_of_places(self.radius), place))
        vectors = [TokenEmbedding(n, self.width)(index) for n, index in parts]
        return PLACES * jnp.stack(vectors).sum(0)


class PlacedTokens(nn.Module):
    """An embedding of a step's input, and of where it belongs.

    Attributes:
      embedding: of the input.
      places: of where it belongs.
      width: of the embeddings' vectors.
    """

    embedding: nn.Module
    places: nn.Module
    width: int

    @nn.compact
    def __call__(self, inputs: tuple[Any, jax.Array, Any]) -> jax.Array:
        """Input, its place, and what is recalled, float `[..., *]` or None."""
        content, place, recalled = inputs
        tokens = self.embedding(content) + self.places(place)  # type: ignore[operator]
        return tokens if recalled is None else tokens + dense(self.width)(recalled)


class MapReader(nn.Module):
    """A model over actions and latents whose tokens know their place and what was seen there.

    Attributes:
      model: reads a dictionary of `action` and `latent`, embedded by `PlacedTokens`; its outputs
        are a dictionary with an entry `latent`.
      latent: Z.
      radius: cells that the map reaches from the start along each axis; beyond, its edge stands
        for what is outside.
      planner: a `map_planning.MapPlanner`, whose logits take the place of the outputs' `policy`;
        None for none.
      has_window: whether the model takes a `window`, too.
      width: of the hidden layer that guesses whether something is in the way.
    """

    model: Any
    latent: int
    radius: int
    planner: Any = None
    has_window: bool = False
    width: int = 64

    def setup(self) -> None:
        """The model's own parts are in `model`."""
        self.hidden, self.obstacle = dense(self.width), dense(1)
        self.gate = self.param(
            "gate", nn.initializers.constant(0.9), (self.latent,), default_float()
        )

    def initial_carry(self, batch: int) -> tuple[Any, MapCarry]:
        """Returns the model's carry, and an empty map."""
        return self.model.initial_carry(batch), self._empty_map(batch)

    def _empty_map(self, batch: int) -> MapCarry:
        sums = None if self.planner is None else self.planner.empty_sums(batch)
        return empty_map(batch, self.latent, self.radius, sums)

    def unroll(
        self,
        carry: tuple[ArrayTree, MapCarry] | None,
        inputs: dict[str, Any],
        starts: jax.Array | None,
        window: jax.Array | int = UNLIMITED,
        **more: Any,
    ) -> tuple[dict[str, Any], tuple[Any, MapCarry]]:
        """Inputs `[T, B, ...]`, `bool[T, B]` -> outputs `[T, B, ...]`, and the carry.

        Args:
          carry: before the first step; None if that starts a trial.
          inputs: `action`, `int32`; `latent` as the model's embedding takes it; `observed`, float
            `[T, B, Z]`, the latents as they were; `hidden`, `bool`, those not to be kept.
          starts: steps that start a trial; None for the first alone.
          window: steps that are remembered, on the map and by the model. Dead reckoning goes on.
          **more: goes to the model.

        Returns:
          The model's outputs, and besides: `moved`, float, the logit that the last action moved
          the agent, and `has_moved`, `bool`.
        """
        observed = jax.lax.stop_gradient(inputs["observed"])
        steps, batch = observed.shape[:2]
        first = jnp.zeros((steps, batch), bool) if starts is None else starts
        trunk, memory = carry or (None, self._empty_map(batch))
        if carry is None:
            first = first.at[0].set(True)

        latents, offset = observed, 0
        if carry is not None:
            offset = memory.stored.shape[1]
            latents = jnp.concatenate([memory.stored.swapaxes(0, 1), observed])
        stored_at = all_places(batch, self.radius)[:offset]
        row = jnp.broadcast_to(jnp.arange(memory.seen_at.shape[1]), memory.seen_at.shape)

        def see(
            before: tuple[MapCarry, jax.Array], step: Any
        ) -> tuple[tuple[MapCarry, jax.Array], tuple[Whereabouts, MapTrace]]:
            memory, row = before
            index, *arguments = step
            memory, where = follow(memory, *arguments, radius=self.radius, window=window)
            latest = row.at[jnp.arange(batch), where.here].set(index)
            row = jnp.where(arguments[2][:, None], row, latest)
            return (memory, row), (where, trace_map(memory, where, row, window))

        index = offset + jnp.arange(steps)
        arguments = index, observed, inputs["action"], inputs["hidden"], first
        (memory, _), (where, trace) = jax.lax.scan(see, (memory, row), arguments)
        more |= {"window": window} if self.has_window else {}
        outputs, trunk = self.model.unroll(trunk, self._place(inputs, where), starts, **more)
        outputs |= {"moved": self._guess(inputs["action"], where), "has_moved": where.moved}
        if self.planner is None:
            return self._recall(outputs, where), (trunk, memory)
        shown, command = self.planner.read(latents)
        sums = self.planner.add_up(shown, jnp.concatenate([stored_at, where.here]), trace)
        here = jnp.take_along_axis(trace.row, where.here[..., None], axis=-1)
        target = jnp.where(here < 0, 0, jnp.take_along_axis(command, here, axis=0))
        outputs["shown"] = shown[offset:], command[offset:]
        return self._recall(outputs, where, sums, target, trace), (
            trunk,
            memory._replace(sums=sums[-1]),
        )

    def step(
        self,
        carry: tuple[ArrayTree, MapCarry],
        inputs: dict[str, Any],
        start: jax.Array,
        window: jax.Array | int = UNLIMITED,
        *,
        imagined: bool = False,
        **more: Any,
    ) -> tuple[dict[str, Any], tuple[Any, MapCarry]]:
        """Inputs `[B, ...]`, `bool[B]` -> outputs `[B, ...]`, and the carry.

        With `imagined`, latents are the model's own predictions.
        """
        trunk, memory = carry
        observed, action = inputs["observed"], inputs["action"]
        arguments = observed, action, inputs["hidden"] | imagined, start
        then, where = follow(memory, *arguments, radius=self.radius, window=window)
        guess = self._guess(action, where)
        if imagined:
            moved = where.is_free | (guess > 0)
            then, where = follow(memory, *arguments, radius=self.radius, window=window, moved=moved)
        more |= {"window": window} if self.has_window else {}
        outputs, trunk = self.model.step(trunk, self._place(inputs, where), start, **more)
        outputs |= {"moved": guess, "has_moved": where.moved}
        if self.planner is None:
            return self._recall(outputs, where), (trunk, then)
        row = jnp.broadcast_to(jnp.arange(then.seen_at.shape[1]), then.seen_at.shape)
        trace = trace_map(then, where, row, window)
        sums, target = self._update_sums(memory, then, where.here, arguments[2], start, window)
        here = jnp.take_along_axis(trace.row, where.here[:, None], axis=-1)
        known = sums, jnp.where(here < 0, 0, target), trace
        known = jax.tree.map(lambda x: x[None], known)
        return self._recall(outputs, where, *known), (trunk, then._replace(sums=sums))

    def _update_sums(
        self,
        memory: MapCarry,
        then: MapCarry,
        here: jax.Array,
        hidden: jax.Array,
        start: jax.Array,
        window: jax.Array | int,
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the planner's sums after a step, and logits of the command there.

        What is forgotten, and what was seen here before, is taken away; what is seen is added.
        """
        rows = jnp.arange(len(here))
        sums = jnp.where(start[:, None, None], 0, memory.sums)
        age = jnp.where(
            start[:, None] | (memory.seen_at < 0), 0, then.steps[:, None] - memory.seen_at
        )
        forgotten = (age == window).argmax(-1)
        is_forgotten, own = age[rows, forgotten] == window, age[rows, here]
        is_replaced = ~hidden & (own > 0) & (own < window)
        latents = memory.stored[rows, forgotten], memory.stored[rows, here], then.stored[rows, here]
        shown, command = self.planner.read(jnp.stack(latents))
        weight = jnp.stack([-1.0 * is_forgotten, -1.0 * is_replaced, 1.0 * ~hidden])
        places = jnp.stack([forgotten, here, here])
        return self.planner.add_sights(sums, places, shown, weight), command[-1]

    def _place(self, inputs: dict[str, Any], where: Whereabouts) -> dict[str, Any]:
        recalled = jnp.concatenate([where.recalled, where.is_recalled[..., None]], axis=-1)
        return {
            "action": (inputs["action"], where.ahead, recalled),
            "latent": (inputs["latent"], where.here, None),
        }

    def _guess(self, action: jax.Array, where: Whereabouts) -> jax.Array:
        known = nn.one_hot(action, len(STEPS)), where.is_free[..., None]
        hidden = nn.gelu(self.hidden(jnp.concatenate([where.before, *known], axis=-1)))
        return self.obstacle(hidden)[..., 0]

    def _recall(
        self,
        outputs: dict[str, Any],
        where: Whereabouts,
        *known: Any,
    ) -> dict[str, Any]:
        outputs = outputs | {"latent": outputs["latent"] + self.gate * where.recalled}
        if known:
            outputs["policy"] = self.planner(*known).reshape(outputs["policy"].shape)
        return outputs


def trace_map(
    memory: MapCarry, where: Whereabouts, row: jax.Array, window: jax.Array | int
) -> MapTrace:
    """Returns the map after a step, leaves `[B, ...]`; `row`, `int32[B, P]`, is of each latent."""
    is_seen, is_met = (
        known_since(at, memory.steps, window) for at in (memory.seen_at, memory.met_at)
    )
    return MapTrace(where.here, jnp.where(is_seen, row, -1), is_met)


def follow(
    memory: MapCarry,
    latent: jax.Array,
    action: jax.Array,
    hidden: jax.Array,
    start: jax.Array,
    radius: int,
    window: jax.Array | int,
    moved: jax.Array | None = None,
) -> tuple[MapCarry, Whereabouts]:
    """Returns what is known after one step, and where it led.

    Args:
      memory: what was known before.
      latent: float `[B, Z]`, of what is seen now.
      action: `int32[B]`, the last one.
      hidden: `bool[B]`, whether the latent is not to be kept.
      start: `bool[B]`, whether a trial starts.
      radius: see `MapReader`.
      window: steps that are remembered, this one included.
      moved: `bool[B]`, whether the action moved the agent; by default, whether the latent changed.
    """
    rows, side = jnp.arange(len(action)), 2 * radius + 1
    pose = jnp.where(start[:, None], 0, memory.pose)
    steps = jnp.where(start, 0, memory.steps + 1)
    seen_at, met_at = (jnp.where(start[:, None], -1, x) for x in (memory.seen_at, memory.met_at))
    is_known = known_since(seen_at, steps, window)
    action = jnp.where(start, 0, jnp.clip(action, 0, len(STEPS) - 1))
    heading = (pose[:, 2] + jnp.asarray(TURNS)[action]) % 4
    way = jnp.asarray(STEPS)[action][:, None] * jnp.asarray(HEADINGS)[pose[:, 2]]
    changed = jnp.abs(latent - memory.latent).max(-1) > SAME
    moved = changed if moved is None else moved

    def place_of(cell: jax.Array) -> jax.Array:
        x, y = jnp.clip(cell, -radius, radius).T + radius
        return (x * side + y) * 4 + heading

    ahead = place_of(pose[:, :2] + way)
    cell = jnp.where(moved[:, None], pose[:, :2] + way, pose[:, :2])
    here = place_of(cell)
    is_recalled = is_known[rows, ahead]
    recalled = jnp.where(is_recalled[:, None], memory.stored[rows, ahead], 0)
    is_free = is_known.reshape(len(rows), side * side, 4)[rows, ahead // 4].any(-1)
    where = Whereabouts(ahead, here, recalled, is_recalled, memory.latent, is_free, moved)
    kept = jnp.where(hidden[:, None], memory.stored[rows, here], latent)
    # An agent that goes back against something has it behind.
    wall = here // 4 * 4 + (heading + 2 * (jnp.asarray(STEPS)[action] < 0)) % 4
    has_met = (jnp.asarray(STEPS)[action] != 0) & ~moved & ~hidden
    then = MapCarry(
        jnp.concatenate([cell, heading[:, None]], axis=-1),
        latent,
        memory.stored.at[rows, here].set(kept),
        steps,
        seen_at.at[rows, here].set(jnp.where(hidden, seen_at[rows, here], steps)),
        met_at.at[rows, wall].set(jnp.where(has_met, steps, met_at[rows, wall])),
        memory.sums,
    )
    return then, where


def known_since(at: jax.Array, steps: jax.Array, window: jax.Array | int) -> jax.Array:
    """Returns what of `int32[B, P]` steps is remembered at `int32[B]` steps, `bool[B, P]`."""
    return (at >= 0) & (steps[:, None] - at < window)
