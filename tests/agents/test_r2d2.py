"""R2D2 against definitions in plain Python, on an environment that does everything it may do.

The learner is compared as a whole with an oracle that computes one update on its own: time step by
time step, target by target. What it draws need not be known: the priorities are set to integers
and the batch to their sum, so that stratified sampling takes every sequence that often.
"""

import dataclasses
import functools
import itertools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax
from agent_checks import (
    assert_one_float_type,
    assert_replica_is,
    assert_resumes_exactly,
    raw,
    timestep,
)
from lottery import ACTIONS, ACTORS, ENV, Lottery, State
from variants import daily

import gpicljax
from gpicljax import spaces
from gpicljax.agents import r2d2, returns
from gpicljax.agents.acting import greedy, q_agent
from gpicljax.data import replay as replay_buffer
from gpicljax.environment import Transition
from gpicljax.networks.contract import AgentInput, Network, as_network
from gpicljax.networks.policies import legal_actions
from gpicljax.networks.q_network import QOutput, RecurrentQNetwork
from gpicljax.networks.recurrent import LSTMStack

# Semantics only are tested: compiling takes longer than running.


VEC = gpicljax.VectorEnv(ENV, ACTORS, episodes_per_trial=2, resets="fresh", group=ACTORS)
MODULE = RecurrentQNetwork(
    ENV.observation_space(),
    ACTIONS,
    mixer_sizes=(8,),
    core=LSTMStack((6,)),
    predictions=(("noise", 3),),
    prediction_hidden=6,
)


def quick_init(network):
    """The network with random parameters drawn by one call: much less to compile."""

    def init(key, inputs):
        shapes = jax.eval_shape(network.init, jax.random.key(0), inputs)
        leaves, tree = jax.tree.flatten(shapes)
        ends = list(itertools.accumulate(leaf.size for leaf in leaves))
        numbers = 2 * jax.random.uniform(key, (ends[-1],)) - 1
        parts = jnp.split(numbers, ends[:-1])
        shaped = [p.reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(tree, shaped)

    return network._replace(init=init)


NETWORK = quick_init(as_network(MODULE))
AUXILIARY = r2d2.Auxiliary(
    "noise",
    lambda here, following: (following["noise"], (here["noise"][..., 0] > 0).astype(jnp.float32)),
    0.7,
)
BASE = r2d2.R2D2Config(
    num_envs=ACTORS,
    unroll=8,
    overlap=4,
    burn_in=3,
    n_step=3,
    replay_capacity=2 * ACTORS,
    min_replay=2 * ACTORS,
    batch_size=3 * ACTORS,
    updates_per_collect=1,
)
HPARAMS = r2d2.R2D2HParams(
    learning_rate=1e-2,
    adam_epsilon=1e-2,
    max_gradient_norm=0.3,
    discount=0.9,
    target_period=2,
    target_rate=0.25,
    importance_exponent=0.6,
)


def select(tree, index):
    return jax.tree.map(operator.itemgetter(index), tree)


def inputs_of(sequences):
    """The definition: the last action is -1 at the start of a trial. Time-major sequences."""
    timestep = sequences.timestep
    last = jnp.concatenate([sequences.carry.last_action[None], sequences.action[:-1]])
    last = jnp.where(timestep.trial_start, -1, last)
    return AgentInput(timestep.observation, last, timestep.reward)


def time_major(items):
    first = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), (items.timestep, items.action))
    return r2d2.Sequence(*first, items.carry)


def every_step(network, params, carry, inputs, starts):
    """`step` after `step`: outputs `[T, B, ...]`, and the carries *before* every step."""

    def tick(carry, x):
        output, following = network.step(params, carry, *x)
        return following, (output, carry)

    return jax.lax.scan(tick, carry, (inputs, starts))


every_step_of_the_network = jax.jit(functools.partial(every_step, NETWORK))


# The definition of the targets --------------------------------------------------------------------


def plain_targets(rewards, over, cut, values, n_step, discount, rescale=False):
    """n-step returns of one sequence, as one would explain them."""
    squash, unsquash = (lambda x: x), (lambda x: x)
    if rescale:
        squash = lambda x: np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x  # noqa: E731
        unsquash = lambda x: (  # noqa: E731
            np.sign(x) * (((np.sqrt(1 + 4e-3 * (abs(x) + 1 + 1e-3)) - 1) / 2e-3) ** 2 - 1)
        )
    rewards, values = np.asarray(rewards, np.float64), np.asarray(values, np.float64)
    targets = []
    for t in range(len(rewards)):
        total, factor = 0.0, 1.0
        for k in range(n_step):
            i = t + k
            if i == len(rewards):  # nothing more is known: the last value stands for the rest
                total += factor * unsquash(values[-1])
                break
            total += factor * rewards[i]
            factor *= discount
            if over[i]:
                break
            if cut[i] or k == n_step - 1:
                total += factor * unsquash(values[i])
                break
        targets.append(squash(total))
    return np.array(targets)


n_step_targets = jax.jit(returns.n_step_targets, static_argnums=(4, 5))


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("n_step", [1, 3, 12])
def test_n_step_targets(n_step, rescale):
    draw = np.random.default_rng(n_step)
    length = 10
    for _ in range(10):
        rewards, values = draw.normal(size=(2, length)).astype(np.float32)
        kind = draw.random(length)
        over, cut = kind < 0.15, (kind > 0.15) & (kind < 0.35)
        targets = n_step_targets(
            jnp.asarray(rewards),
            jnp.asarray(0.9 * ~over, jnp.float32),
            jnp.asarray(~cut, jnp.float32),
            jnp.asarray(values),
            n_step,
            rescale,
        )
        expected = plain_targets(rewards, over, cut, values, n_step, 0.9, rescale)
        # h^-1 subtracts nearly equal numbers: float32 leaves three digits.
        np.testing.assert_allclose(targets, expected, atol=2e-3 if rescale else 1e-5)


def test_n_step_targets_are_rlaxs_within_an_episode():
    draw = np.random.default_rng(0)
    rewards, values = jnp.asarray(draw.normal(size=(2, 9)), jnp.float32)
    discounts = jnp.full(9, 0.9).at[4].set(0)
    n_step = jax.jit(returns.n_step_targets, static_argnums=(4, 5))
    rlax_n_step = jax.jit(rlax.transformed_n_step_returns, static_argnums=(0, 4))
    for rescale, pair in ((False, rlax.IDENTITY_PAIR), (True, rlax.SIGNED_HYPERBOLIC_PAIR)):
        expected = rlax_n_step(pair, rewards, discounts, values, 3)
        actual = n_step(rewards, discounts, jnp.ones(9), values, 3, rescale)
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_n_step_targets_have_no_gradient():
    gradient = jax.grad(
        lambda v: returns.n_step_targets(jnp.ones(4), jnp.ones(4), jnp.ones(4), v, 2).sum()
    )(jnp.ones(4))
    np.testing.assert_array_equal(gradient, 0)


# Acting -------------------------------------------------------------------------------------------


def bandit_network(q_values):
    """A network whose Q-values are constants: its parameters."""

    def step(params, carry, inputs, start):
        batch = start.shape
        return QOutput(jnp.broadcast_to(params, (*batch, params.shape[0])), {}), carry

    return Network(
        lambda key, inputs: jnp.asarray(q_values), lambda batch: jnp.zeros((batch, 1)), step, step
    )


def test_actors_epsilons():
    hparams = r2d2.R2D2HParams(epsilon_base=0.4, epsilon_alpha=2.0)
    epsilons = np.asarray(r2d2.actor_epsilons(hparams, 32))
    np.testing.assert_allclose(epsilons, [0.4 ** (1 + 2 * i / 31) for i in range(32)], rtol=1e-5)
    assert abs(epsilons.mean() - 0.185) < 1e-3  # what the reference's settings come to
    np.testing.assert_allclose(r2d2.actor_epsilons(hparams, 1), [0.4], rtol=1e-6)


def test_exploration_is_legal_uniform_and_as_frequent_as_told():
    batch, steps = 3, 4000
    mask = jnp.array([[True, False, True, True], [True] * 4, [False, True, False, False]])
    agent = q_agent(bandit_network([1.0, 9.0, 0.0, 2.0]), 4, jnp.array([0.6, 0.2, 1.0]))
    moment = timestep(batch, observation={"action_mask": mask})
    params, carry = jnp.array([1.0, 9.0, 0.0, 2.0]), agent.initial_carry(batch)
    act = jax.jit(
        jax.vmap(lambda key: agent.act(jax.random.split(key, batch), params, carry, moment)[0])
    )
    actions = np.asarray(act(jax.random.split(jax.random.key(0), steps)))
    assert actions.dtype == np.int32
    shares = np.stack([(actions == a).mean(0) for a in range(4)], axis=1)
    expected = np.array([[0.2, 0, 0.2, 0.6], [0.05, 0.85, 0.05, 0.05], [0, 1, 0, 0]])
    assert (shares[expected == 0] == 0).all()
    error = np.sqrt(expected * (1 - expected) / steps) + 1e-9
    assert (np.abs(shares - expected) < 3.5 * error).all()


def test_greedy_takes_the_best_legal_action():
    q_values = jnp.array([[1.0, 5.0, 2.0], [-3.0, 5.0, -4.0]])
    legal = jnp.array([[True, False, True], [True, False, True]])
    np.testing.assert_array_equal(greedy(q_values, legal), [2, 0])
    assert greedy(q_values, legal).dtype == jnp.int32
    assert legal_actions(jnp.zeros((2, 3)), 4).all()
    assert legal_actions({"x": jnp.zeros(2)}, 4).shape == (4,)


def test_memory_and_last_action_are_cleared_at_trial_starts():
    calls = {}

    def step(params, carry, inputs, start):
        calls.update(inputs=inputs, start=start)
        return QOutput(jnp.zeros((2, 2)), {}), carry

    agent = q_agent(bandit_network([0.0, 0.0])._replace(step=step), 2)
    carry = r2d2.AgentCarry(jnp.zeros((2, 1)), jnp.array([1, 1]))
    begun, reward = jnp.array([True, False]), jnp.array([0.0, 2.0])
    moment = timestep(2, observation=jnp.zeros((2, 3)), trial_start=begun, reward=reward)
    agent.act(jax.random.split(jax.random.key(0)), None, carry, moment)
    np.testing.assert_array_equal(calls["inputs"].last_action, [-1, 1])
    np.testing.assert_array_equal(calls["inputs"].last_reward, [0, 2])
    np.testing.assert_array_equal(calls["start"], [True, False])


# Collecting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", daily([0], [0, 10, 15]))
def test_stored_carries_reproduce_what_the_actors_computed(overlap):
    period, rounds = 20 - overlap, 5
    opening = overlap // period
    # One collection too few for learning to begin: the parameters stay what they are.
    places = (opening + rounds) * ACTORS
    config = dataclasses.replace(
        BASE,
        unroll=20,
        overlap=overlap,
        replay_capacity=places + ACTORS,
        min_replay=places + 1,
        bootstrap=False,
    )
    trainer = r2d2.make(config, VEC, NETWORK)
    # Without exploration every action shows what the actor computed.
    state = jax.jit(trainer.init)(jax.random.key(1), dataclasses.replace(HPARAMS, epsilon_base=0.0))
    update = jax.jit(trainer.update)
    for _ in range(opening + rounds):
        state, _ = update(state)
    assert int(state.updates) == 0 and config.collections_to_fill == opening
    assert int(state.observations) == places * period
    # Windows that are not yet full are no sequences.
    filled = np.repeat([0, 1, 0], [opening * ACTORS, rounds * ACTORS, ACTORS])
    np.testing.assert_array_equal(state.replay.priorities, filled)
    ring = jax.tree.map(
        lambda x: np.asarray(x)[filled > 0].reshape(rounds, ACTORS, *x.shape[1:]),
        state.replay.items,
    )

    # The actors' life, put together from the sequences: `[time, actor, ...]`.
    def life(x):
        x = np.moveaxis(x, 2, 1)
        new = [x[0, :-1]] + [x[i, overlap:-1] for i in range(1, rounds)]
        joined = np.concatenate(new)
        for i in range(rounds):  # successive sequences agree on what they share
            start = i * period
            np.testing.assert_array_equal(x[i, :-1], joined[start : start + 20])
            if i + 1 < rounds and x.dtype != np.int32:
                np.testing.assert_array_equal(x[i, -1], joined[start + 20])
        return joined

    timestep, action = jax.tree.map(life, (ring.timestep, ring.action))
    length = overlap + rounds * period
    assert timestep.trial_start[1:].sum() >= 3 and timestep.terminated.sum() >= 3
    assert timestep.truncated.sum() >= 3 and timestep.episode_start.sum() >= 6

    agent = q_agent(NETWORK, ACTIONS)
    begin = r2d2.Sequence(timestep, action, agent.initial_carry(ACTORS))
    inputs = inputs_of(begin)
    end, (outputs, before) = every_step_of_the_network(
        state.params, begin.carry.core, inputs, timestep.trial_start
    )
    best = np.where(timestep.observation["action_mask"], outputs.q_values, -np.inf).argmax(-1)
    np.testing.assert_array_equal(action, best)
    assert len(np.unique(action)) == 3
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state.rollout.carry.core, end
    )
    np.testing.assert_array_equal(state.rollout.carry.last_action, action[-1])

    # Every stored carry, and what the learner computes from it: the same Q-values, at every step
    # that has been acted on, across the boundaries of episodes and trials.
    unroll = jax.jit(NETWORK.unroll)
    for i in range(rounds):
        start = i * period
        stored = select(ring.carry, i)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b[start], atol=1e-5),  # noqa: B023
            stored.core,
            before,
        )
        last = -1 if i == 0 else action[start - 1]
        np.testing.assert_array_equal(stored.last_action, np.broadcast_to(last, ACTORS))
        sequence = time_major(select(ring, i))
        learnt, _ = unroll(
            state.params, stored.core, inputs_of(sequence), sequence.timestep.trial_start
        )
        acted = outputs.q_values[start : start + 21]
        np.testing.assert_allclose(learnt.q_values[: len(acted)], acted, atol=1e-5)
    assert length == len(action)


# Learning -----------------------------------------------------------------------------------------


@functools.cache
def compile_loss(burn_in, constant_burn_in, auxiliary):
    """Outputs after the burn-in, and the gradients of the loss towards given targets."""

    def outputs(params, sequence):
        inputs, starts = inputs_of(sequence), sequence.timestep.trial_start
        carry = sequence.carry.core
        if burn_in:
            early = jax.tree.map(lambda x: x[:burn_in], (inputs, starts))
            carry, _ = every_step(NETWORK, params, carry, *early)
            if constant_burn_in:
                carry = jax.lax.stop_gradient(carry)
        late = jax.tree.map(lambda x: x[burn_in:], (inputs, starts))
        return every_step(NETWORK, params, carry, *late)[1][0]

    def loss(params, sequence, targets, counted, weights):
        late = jax.tree.map(lambda x: x[burn_in:], sequence.timestep)
        q_values, predictions = outputs(params, sequence)
        action = sequence.action[burn_in:-1]
        errors = targets - (q_values[:-1] * jax.nn.one_hot(action, ACTIONS)).sum(-1)
        q_loss = (0.5 * errors**2 * weights * counted).sum() / counted.sum()
        noise = late.observation["noise"]
        counts = (noise[:-1, :, 0] > 0) & ~late.terminated[:-1] & ~late.truncated[:-1]
        gap = ((predictions["noise"][:-1] - noise[1:]) ** 2).mean(-1)
        side = (gap * counts).sum() / counts.sum()
        return q_loss + 0.7 * side if auxiliary else q_loss, (q_loss, side, errors)

    return jax.jit(outputs), jax.jit(jax.grad(loss, has_aux=True))


@dataclasses.dataclass(frozen=True)
class Oracle:
    """One update by hand. The switches leave out one rule each, to show that it matters."""

    config: r2d2.R2D2Config
    auxiliary: bool = False
    masked_target: bool = True
    constant_burn_in: bool = True
    endings_excluded: bool = True

    @property
    def loss_functions(self):
        return compile_loss(self.config.burn_in, self.constant_burn_in, self.auxiliary)

    def targets(self, state, sequence):
        """Targets and the mask of what counts, `[T, B]`, from values in plain Python."""
        config, discount = self.config, float(state.hparams.discount)
        outputs = compile_loss(config.burn_in, True, self.auxiliary)[0]
        online = np.asarray(outputs(state.params, sequence).q_values)
        late = jax.tree.map(lambda x: np.asarray(x)[config.burn_in :], sequence.timestep)
        legal = late.observation["action_mask"]
        counted = np.ones_like(late.terminated[:-1])
        if self.endings_excluded:
            counted = ~(late.terminated | late.truncated)[:-1]
        if not config.forced_steps:
            counted = counted & (legal[:-1].sum(-1) > 1)
        if not config.bootstrap:
            # Rewards behind the sequence's end are unknown, unless the episode's came first.
            ended = late.terminated[1:] | late.truncated[1:]
            for t, b in np.ndindex(counted.shape):
                is_known = t + config.n_step <= len(counted) or ended[t:, b].any()
                counted[t, b] &= is_known
        target = np.asarray(outputs(state.target_params or state.params, sequence).q_values)
        candidates = np.where(legal, online, -np.inf) if self.masked_target else online
        best = candidates.argmax(-1)
        values = np.take_along_axis(target, best[..., None], -1)[..., 0] * config.bootstrap
        columns = [
            plain_targets(
                late.reward[1:, b],
                late.terminated[1:, b],
                late.truncated[1:, b],
                values[1:, b],
                config.n_step,
                discount,
                config.rescale,
            )
            for b in range(values.shape[1])
        ]
        return np.stack(columns, axis=1), counted

    def update(self, state, items, priorities):
        """(q_loss, auxiliary loss, gradients, priorities) on all `items`, each as often as told."""
        hparams = state.hparams
        places = np.repeat(np.arange(len(priorities)), priorities)
        sequence = time_major(jax.tree.map(lambda x: np.asarray(x)[places], items))
        share = priorities[places] / priorities.sum()
        weights = (len(priorities) * share) ** -float(hparams.importance_exponent)
        weights = weights / weights.max()
        targets, counted = self.targets(state, sequence)
        gradients, (q_loss, auxiliary, errors) = self.loss_functions[1](
            state.params, sequence, jnp.asarray(targets, jnp.float32), counted, weights
        )
        size, eta = np.abs(errors) * counted, float(hparams.priority_eta)
        mean = size.sum(0) / np.maximum(counted.sum(0), 1)
        new = (eta * size.max(0) + (1 - eta) * mean + 1e-4) ** float(hparams.priority_exponent)
        renewed = np.zeros(len(priorities))
        renewed[places] = new
        return float(q_loss), float(auxiliary), jax.device_get(gradients), renewed


@functools.cache
def filled_state():
    """A state before its first update: target network unlike the online one, priorities set."""
    trainer = r2d2.make(BASE, VEC, NETWORK)
    state = jax.jit(trainer.init)(jax.random.key(2), HPARAMS)
    # One collection fills the window, the next is half of what learning waits for.
    for expected in ([0] * 6, [0] * 3 + [1] * 3):
        fresh = state
        state, metrics = compiled_update("table 5")(state)
        np.testing.assert_array_equal(state.replay.priorities, expected)
        assert all(np.isfinite(x) for x in metrics.values())
        unchanged = lambda s: (s.params, s.target_params, raw(s.opt_state), s.updates)  # noqa: E731
        jax.tree.map(np.testing.assert_array_equal, unchanged(state), unchanged(fresh))
    target = jax.tree.map(lambda p: 0.7 * p + 0.05, jax.device_get(state.params))
    # The action that is illegal most often looks best to the online network.
    params = jax.tree.map(lambda p: p, state.params)
    bias = params["params"]["head"]["advantage"]["bias"]
    params["params"]["head"]["advantage"]["bias"] = bias.at[1].add(1.5)
    weighted = jnp.where(state.replay.priorities > 0, 2.0, 0.0)
    replay = state.replay.replace(priorities=weighted)
    return state.replace(params=params, target_params=target, replay=replay)


CASES = {
    "table 5": ({}, False),
    "all options": ({"forced_steps": False, "rescale": True, "target": "polyak"}, True),
    "myopic": ({"bootstrap": False, "n_step": 1, "burn_in": 0}, False),
    "the next rewards": ({"bootstrap": False, "n_step": 3, "burn_in": 0}, False),
}


def configuration(name):
    options, auxiliary = CASES[name]
    return dataclasses.replace(BASE, **options), auxiliary


@functools.cache
def compiled_update(name):
    config, auxiliary = configuration(name)
    return jax.jit(r2d2.make(config, VEC, NETWORK, (AUXILIARY,) if auxiliary else ()).update)


@functools.cache
def run_update(name):
    """(oracle, trainer's compiled update, state before, state after, metrics) of a case."""
    config, auxiliary = configuration(name)
    state = filled_state()
    if not config.bootstrap:
        state = state.replace(target_params=None)
    update = compiled_update(name)
    return Oracle(config, auxiliary), update, state, *update(state)


def norm_of(gradients):
    return np.sqrt(sum(np.square(g).sum() for g in jax.tree.leaves(gradients)))


def at_most(actual, expected, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance), actual, expected
    )


@pytest.mark.parametrize("name", daily(["table 5"], CASES))
def test_one_update_is_the_definitions(name):
    oracle, _, before, after, metrics = run_update(name)
    # The old sequences were at 2, new ones come in at the highest so far, 1: nine in all.
    priorities = np.array([1, 1, 1, 2, 2, 2])
    q_loss, auxiliary, gradients, renewed = oracle.update(before, after.replay.items, priorities)
    tolerance = 2e-3 if oracle.config.rescale else 1e-5
    assert abs(float(metrics["q_loss"]) - q_loss) < tolerance
    assert abs(float(metrics["gradient_norm"]) - norm_of(gradients)) < tolerance
    np.testing.assert_allclose(after.replay.priorities, renewed, atol=2 * tolerance)
    assert float(after.replay.highest) >= float(after.replay.priorities.max())
    if oracle.auxiliary:
        assert abs(float(metrics["noise_loss"]) - auxiliary) < 1e-5

    # Clipping and the first step of Adam.
    norm = norm_of(gradients)
    assert norm > 0.3
    clipped = jax.tree.map(lambda g: g * 0.3 / norm, gradients)
    params = jax.device_get(before.params)
    expected = jax.tree.map(lambda p, g: p - 1e-2 * g / (np.abs(g) + 1e-2), params, clipped)
    at_most(after.params, expected, tolerance)
    assert int(after.updates) == 1
    assert int(after.observations) == int(before.observations) + 4 * ACTORS
    if oracle.config.target == "polyak":
        trees = jax.device_get((after.params, before.target_params))
        mixed = jax.tree.map(lambda new, old: 0.25 * new + 0.75 * old, *trees)
        at_most(after.target_params, mixed, 1e-6)


@pytest.mark.parametrize("rule", ["masked_target", "constant_burn_in", "endings_excluded"])
def test_every_rule_matters(rule):
    oracle, _, before, after, metrics = run_update("table 5")
    broken = dataclasses.replace(oracle, **{rule: False})
    priorities = np.array([1, 1, 1, 2, 2, 2])
    q_loss, _, gradients, _ = broken.update(before, after.replay.items, priorities)
    difference = [
        abs(float(metrics["q_loss"]) - q_loss),
        abs(float(metrics["gradient_norm"]) - norm_of(gradients)),
    ]
    assert max(difference) > 1e-3
    if rule == "constant_burn_in":  # it changes the gradient, not the loss
        assert difference[0] < 1e-5


def test_the_double_q_target_honours_masks():
    # By hand, with constant Q-values: the illegal action has the highest online value.
    q_values = jnp.array([0.5, 9.0, 1.0])
    network = bandit_network(q_values)

    @dataclasses.dataclass(frozen=True)
    class NeverTheSecond(Lottery):
        def initial(self, key, task):
            long = jnp.full((), 1000, jnp.int32)
            return State(jnp.zeros((), jnp.int32), long, jnp.zeros(3))

        def transition(self, key, state, action, task):
            return Transition(state, jnp.ones(()), jnp.zeros((), bool), jnp.zeros((), bool), {})

        def observe(self, state, task):
            return {"noise": state.noise, "action_mask": jnp.array([True, False, True])}

    vec = gpicljax.VectorEnv(NeverTheSecond(), ACTORS, resets="fresh")
    config = dataclasses.replace(BASE, n_step=1, burn_in=0)
    trainer = r2d2.make(config, vec, network)
    hparams = dataclasses.replace(HPARAMS, epsilon_base=0.0)
    state = jax.jit(trainer.init)(jax.random.key(0), hparams)
    state = state.replace(target_params=jnp.array([0.0, 100.0, 2.0]))
    update = jax.jit(trainer.update)
    for _ in range(3):  # a window, and two to begin to learn with
        state, metrics = update(state)
    assert int(state.updates) == 1
    # Action 2 is both taken and the greedy legal one: 1 + 0.9 * 2 - 1.
    assert abs(float(metrics["q_loss"]) - 0.5 * 1.8**2) < 1e-5


def test_without_stored_carries_only_what_follows_a_trials_start_is_learnt():
    state = filled_state()
    config = dataclasses.replace(BASE, burn_in=0)
    bare = dataclasses.replace(config, carries="none")
    stored, none = (r2d2.make(c, VEC, NETWORK).update.__self__ for c in (config, bare))
    assert none.stored_carry(state.rollout.carry).core == ()
    sequence, weights = time_major(state.replay.items), jnp.ones(2 * ACTORS)
    arguments = state.params, state.target_params, state.hparams
    gradient = {
        name: jax.jit(jax.grad(lambda *a, way=way: way.loss(*a)[0]))
        for name, way in (("stored", stored), ("none", none))
    }

    def starting(time):
        starts = jnp.zeros_like(sequence.timestep.trial_start).at[time].set(True)
        return sequence._replace(timestep=sequence.timestep._replace(trial_start=starts))

    # From a start on it does not matter what was stored.
    expected = gradient["stored"](*arguments, starting(0), weights)
    at_most(gradient["none"](*arguments, starting(0), weights), expected, 1e-6)
    # What lies before the start does not matter either.
    shifted = starting(3)
    noise = shifted.timestep.observation["noise"].at[:3].add(0.5)
    observation = shifted.timestep.observation | {"noise": noise}
    changed = shifted._replace(timestep=shifted.timestep._replace(observation=observation))
    first = gradient["none"](*arguments, shifted, weights)
    at_most(gradient["none"](*arguments, changed, weights), first, 1e-6)
    assert max(np.abs(x).max() for x in jax.tree.leaves(jax.device_get(first))) > 1e-3
    # Without a start there is nothing to learn from.
    nothing = shifted._replace(
        timestep=shifted.timestep._replace(trial_start=jnp.zeros((9, 2 * ACTORS), bool))
    )
    at_most(gradient["none"](*arguments, nothing, weights), jax.tree.map(jnp.zeros_like, first), 0)
    with pytest.raises(ValueError, match="burn_in: got 3; accepted: 0 where no carries"):
        dataclasses.replace(BASE, carries="none")


def test_hard_target_copies_every_period():
    _, update, before, first, _ = run_update("table 5")
    same = functools.partial(jax.tree.map, np.testing.assert_array_equal)
    assert int(before.hparams.target_period) == 2
    same(first.target_params, before.target_params)
    second, _ = update(first)
    # The compiler may compute the sum that is copied twice, with another last bit.
    at_most(second.target_params, second.params, 1e-6)
    third, _ = update(second)
    same(third.target_params, second.target_params)
    third_params, second_params = jax.device_get((third.params, second.params))
    assert not jax.tree.all(jax.tree.map(np.array_equal, third_params, second_params))
    fourth, _ = update(third)
    at_most(fourth.target_params, fourth.params, 1e-6)
    target = jax.device_get(fourth.target_params)
    gaps = jax.tree.map(lambda a, b: np.abs(a - b).max(), target, second_params)
    assert max(jax.tree.leaves(gaps)) > 1e-4


def test_a_state_resumes_exactly_through_the_host():
    _, update, _, state, _ = run_update("table 5")
    assert_resumes_exactly(update, state)


def test_a_weakly_typed_network_is_definite_once_it_is_trained():
    """Else the first update would compile a program of its own. Shapes only."""
    network = bandit_network([0.0] * 3)
    weak = network._replace(init=lambda key, inputs: jnp.full(3, 1.0))
    assert weak.init(None, None).weak_type
    trainer = r2d2.make(BASE, VEC, weak)
    state = jax.eval_shape(trainer.init, jax.random.key(0), HPARAMS)
    after, _ = jax.eval_shape(trainer.update, state)
    assert not any(x.weak_type for x in jax.tree.leaves((state, after)))


def test_seeds_under_vmap_are_the_seeds_alone_and_states_may_be_donated():
    _, update_single, _, _, _ = run_update("table 5")
    trainer = r2d2.make(BASE, VEC, NETWORK)
    first = jax.jit(trainer.init)
    keys = jax.random.split(jax.random.key(3), 2)
    grid = dataclasses.replace(HPARAMS, discount=jnp.array([0.9, 0.5]))
    axes = dataclasses.replace(
        r2d2.R2D2HParams(**{f.name: None for f in dataclasses.fields(HPARAMS)}), discount=0
    )
    states = jax.jit(jax.vmap(trainer.init, (0, axes)))(keys, grid)
    kinds = jax.tree.map(lambda x: (x.shape, x.dtype), states)
    update = jax.jit(jax.vmap(trainer.update), donate_argnums=0)
    after = states
    for _ in range(4):  # learning begins with the third
        after, metrics = update(after)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == kinds
    assert not any(x.weak_type for x in jax.tree.leaves(raw(after)))
    assert all(x.is_deleted() for x in jax.tree.leaves(states.params))
    for i, discount in enumerate((0.9, 0.5)):
        state = first(keys[i], dataclasses.replace(HPARAMS, discount=discount))
        for _ in range(4):
            state, expected = update_single(state)
        assert_replica_is(
            (after.params, after.replay, after.rollout, metrics),
            i,
            (state.params, state.replay, state.rollout, expected),
            atol=3e-5,
        )


# At the door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unroll": 20, "overlap": 20}, "overlap: got 20"),
        (
            {"unroll": 20, "overlap": 12},
            "overlap: got 12.*a multiple of unroll - overlap",
        ),
        ({"overlap": -1}, "overlap: got -1"),
        ({"burn_in": 20}, "burn_in: got 20; accepted: 0 .. 19"),
        ({"n_step": 0}, "n_step: got 0"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"updates_per_collect": 0}, "updates_per_collect: got 0"),
        ({"target": "soft"}, "target: got 'soft'"),
    ],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        r2d2.R2D2Config(**options)


def test_sizes_follow_from_the_configuration():
    config = r2d2.R2D2Config(num_envs=32, replay_capacity=5000)
    assert (config.period, config.capacity, config.collections_to_fill) == (10, 5024, 1)
    config = r2d2.R2D2Config(num_envs=8, replay_capacity=16, unroll=20, overlap=15)
    assert (config.period, config.capacity, config.collections_to_fill) == (5, 16, 3)


def test_environments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="num_envs: got 32; accepted: 3, the size of the batch"):
        r2d2.make(r2d2.R2D2Config(), VEC, NETWORK)

    with pytest.raises(ValueError, match="actions: got Box.*accepted: Discrete"):
        r2d2.make(BASE, gpicljax.VectorEnv("Pendulum-v1", ACTORS), NETWORK)


def test_agents_announce_what_they_would_do_without_exploration():
    env = gpicljax.make("MetaRG-v1", view="players", announces=True, max_values=2)
    actions = r2d2.agent_choices(env, announce=True)
    assert actions.sizes == (3, 7, 7, 7)
    with pytest.raises(ValueError, match="announce: got True"):
        r2d2.agent_choices(gpicljax.make("MetaRG-v1", view="players"), announce=True)
    vec = gpicljax.VectorEnv(env, ACTORS, resets="fresh")
    space = spaces.of_one_agent(env.observation_space(), 2)
    network = as_network(RecurrentQNetwork(space, actions, mixer_sizes=(8,), core=LSTMStack((6,))))
    config = dataclasses.replace(BASE, announce=True, mixing="vdn", n_step=2)
    trainer = r2d2.make(config, vec, network)

    @jax.jit
    def act_once(key):
        state = trainer.init(key, HPARAMS)
        agent, start = trainer.agent(), state.rollout
        keys = jax.random.split(key, ACTORS)
        done, aux, _ = agent.act(keys, state.params, start.carry, start.timestep)
        return state, done, aux["q_values"], start.timestep.observation

    state, done, q_values, observation = act_once(jax.random.key(0))
    stored = jax.eval_shape(trainer.update, state)[0].replay.items.action
    assert stored.shape[-2:] == (2, 4) and done.shape == (ACTORS, 2, 8)
    legal = observation["action_mask"][..., :4, :]
    best = np.where(legal, q_values, -np.inf).argmax(-1)
    np.testing.assert_array_equal(done[..., 4:], best)


def test_replay_holds_what_its_name_says():
    _, _, before, after, _ = run_update("table 5")
    items = after.replay.items
    assert after.replay.capacity == 6 and isinstance(after.replay, replay_buffer.ReplayState)
    assert items.action.shape == (6, 9) and items.timestep.info == {}
    assert jax.tree.leaves(items.carry.core)[0].shape == (6, 6)
    # The ring has come round: the older sequences keep their places.
    np.testing.assert_array_equal(items.action[3:], before.replay.items.action[3:])
    assert (np.asarray(items.action[:3]) != np.asarray(before.replay.items.action[:3])).any()


def test_auxiliary_losses_are_of_the_one_float_type():
    with jax.enable_x64(True):
        vec = gpicljax.VectorEnv(ENV, ACTORS, resets="fresh")
        trainer = r2d2.make(BASE, vec, as_network(MODULE), (AUXILIARY,))
        assert_one_float_type(trainer, HPARAMS, (".replay.priorities", ".replay.highest"))
