"""Bandit agents against closed forms, plain Python and published means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from agent_checks import keys_of, timestep

import gpicljax
from gpicljax import spaces
from gpicljax.agents import bandits, optimal_agent
from gpicljax.rollout import rollout, start_rollout

# Compiling takes longer than running.
TWO, TEN = spaces.Discrete(2), spaces.Discrete(10)


def pulls_of(counts, sums, batch=1):
    """The same past in every instance."""
    counts = jnp.tile(jnp.asarray(counts, jnp.int32), (batch, 1))
    sums = jnp.broadcast_to(jnp.asarray(sums, jnp.result_type(float)), counts.shape)
    return bandits.Pulls(counts, sums, jnp.full(batch, -1, jnp.int32))


def epsilon_greedy(space, epsilon=0.1):
    """The arm of highest mean payment, or any with probability epsilon; untried arms first."""

    def score(key, pulls):
        values = jnp.where(pulls.counts == 0, jnp.inf, pulls.means)
        return jnp.where(jax.random.uniform(key) < epsilon, 0, values)

    return bandits.arm_puller(space, score, "epsilon_greedy")


# Mean rewards -------------------------------------------------------------------------------------

# Means of 200 pulls as the in-context RL evaluation plays them. Uniform play earns the mean of the
# arms. The ten arms' figure for Thompson sampling is that of 20,000 trials of a loop in NumPy
# (0.8192, standard error 0.0008); 0.810 +- 0.113 was found in a smaller number of trials.
ANCHORS = {
    ("TwoArmedHighLowFixed", "thompson"): (0.785, 400),
    ("TwoArmedHighLowFixed", "random"): (0.5, 400),
    ("TenArmedRandomFixed", "thompson"): (0.8192, 250),
    ("TenArmedRandomFixed", "random"): (0.5, 250),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["TwoArmedHighLowFixed", "TenArmedRandomFixed"])
def test_mean_rewards_of_200_pulls(kind):
    env = gpicljax.make(f"Bandit{kind}-v0")
    space = env.action_space()
    agents = {
        "thompson": bandits.thompson_bernoulli(space),
        "random": epsilon_greedy(space, 1.0),
    }
    for name, agent in agents.items():
        expected, trials = ANCHORS[kind, name]
        vec = gpicljax.VectorEnv(
            env, trials, resets="synchronous", steps_per_trial=400, group=trials
        )

        @jax.jit
        def play(key, vec=vec, agent=agent):
            # Every second step is ignored: it starts the next episode.
            state, rewards = rollout(
                vec, agent, None, start_rollout(key, vec, agent), 400,
                keep=lambda record: record.timestep.reward,
            )  # fmt: skip
            return rewards.sum(0) / 200, state.carry.counts.sum(-1)

        means, counts = play(jax.random.key(1))
        assert (np.asarray(counts) == 200).all()  # one trial was 200 pulls, and nothing else
        error = np.std(means) / np.sqrt(trials)
        assert error < 0.008
        assert abs(np.mean(means) - expected) < 3 * error, name


@pytest.mark.slow
def test_ucb1s_regret_is_logarithmic_and_epsilon_greedys_is_not():
    env = gpicljax.make("BernoulliBandit-v0", num_arms=2)
    horizon, trials = 4000, 100
    vec = gpicljax.VectorEnv(
        env, trials, resets="fresh", params=env.make_params(low=0.0, high=1.0, horizon=horizon + 1)
    )

    def study(agent):
        @jax.jit
        def play(key):
            start = start_rollout(key, vec, agent)
            task = start.vstate.task.replace(
                probabilities=jnp.broadcast_to(jnp.array([0.2, 0.8]), (trials, 2))
            )
            start = start._replace(vstate=start.vstate.replace(task=task))
            _, regret = rollout(
                vec, agent, None, start, horizon,
                keep=lambda record: record.timestep.info["regret"].mean(),
            )  # fmt: skip
            return jnp.cumsum(regret)

        return np.asarray(play(jax.random.key(0)))

    ucb, greedy = study(bandits.ucb1(TWO)), study(epsilon_greedy(TWO, 0.1))
    # Exploration costs epsilon-greedy 0.1 * 0.6 / 2 a pull, for ever.
    late = slice(horizon // 2, None)
    assert greedy[late][-1] - greedy[late][0] == pytest.approx(0.03 * horizon / 2, rel=0.1)
    # The bound of Auer et al. (2002), theorem 1, and that it grows as ln n: from 1000 to 4000 as
    # much as from 250 to 1000, within a third.
    assert ucb[-1] < 8 * np.log(horizon) / 0.6 + (1 + np.pi**2 / 3) * 0.6
    grown = [ucb[4 * n - 1] - ucb[n - 1] for n in (250, 1000)]
    assert grown[1] == pytest.approx(grown[0], rel=1 / 3)
    assert ucb[-1] < greedy[-1] / 2


def test_gittins_indices_are_those_that_are_known():
    table = bandits.gittins_table(3)
    # With one pull left, the mean of the posterior; with two, 5/9 solves (5/6 + y/2) = 2 y.
    assert table[1, 0, 0] == 50 and table[1, 2, 0] == 75 and table[1, 0, 2] == 25
    assert table[2, 0, 0] == 55
    assert (
        np.diff(table[1:, 0, 0].astype(int)) > 0
    ).all()  # the more is left, the more it is worth


def test_more_pulls_than_a_table_holds_are_refused():
    with pytest.raises(ValueError, match="pulls: got 401; accepted: 1 to 400"):
        bandits.gittins_bernoulli(TWO, 401)


def test_gittins_index_has_less_regret_than_thompson_sampling():
    """The same 400 bandits of ten arms, 60 pulls."""
    env = gpicljax.make("BernoulliBandit-v0", num_arms=10)
    space, trials, pulls = env.action_space(), 400, 60
    vec = gpicljax.VectorEnv(env, trials, resets="fresh", params=env.make_params(horizon=pulls + 1))

    def regret(agent):
        @jax.jit
        def play(key):
            start = start_rollout(key, vec, agent)
            return rollout(
                vec, agent, None, start, pulls,
                keep=lambda record: record.next_timestep.info["regret"],
            )[1].sum(0)  # fmt: skip

        return np.asarray(play(jax.random.key(0)))

    indices = regret(bandits.gittins_bernoulli(space, pulls))
    less = regret(bandits.thompson_bernoulli(space)) - indices
    assert less.mean() > 4 * less.std() / np.sqrt(trials)


# Against definitions ------------------------------------------------------------------------------


def gaussian_study(agent, batch=4, length=120, horizon=10, trial=3):
    """Returns an agent's records over several trials of several episodes: numpy `[T, B, ...]`."""
    env = gpicljax.make("GaussianBandit-v0", num_arms=3)
    vec = gpicljax.VectorEnv(
        env, batch, trial, resets="fresh", params=env.make_params(horizon=horizon)
    )

    @jax.jit
    def play(key):
        return rollout(
            vec, agent, None, start_rollout(key, vec, agent), length,
            keep=lambda record: record._replace(vstate=None, next_vstate=None, next_timestep=None),
        )[1]  # fmt: skip

    return jax.tree.map(np.asarray, play(jax.random.key(3)))


def test_ucb1s_index_is_that_of_a_loop():
    record = gaussian_study(bandits.ucb1(spaces.Discrete(3), 0.7))
    timestep = record.timestep
    assert timestep.trial_start.sum() > 4 and timestep.last.sum() > 20
    for b in range(timestep.reward.shape[1]):
        paid, pending = [], None
        for t in range(timestep.reward.shape[0]):
            if pending is not None:
                paid[pending].append(timestep.reward[t, b])
            if timestep.trial_start[t, b]:
                paid = [[], [], []]
            total = sum(map(len, paid))
            index = [
                np.mean(x) + np.sqrt(0.7 * np.log(total) / len(x)) if x else np.inf for x in paid
            ]
            np.testing.assert_allclose(record.aux["scores"][t, b], index, rtol=2e-4, atol=2e-4)
            pending = record.action[t, b]
            assert record.aux["scores"][t, b][pending] == record.aux["scores"][t, b].max()
            if timestep.last[t, b]:
                pending = None


CONTEXTS = {"num_arms": 3, "context_size": 4}


def contextual_study(agent, batch, length, horizon, trial, privileged=False, **static):
    """Returns the records of `gaussian_study` for bandits with a context."""
    env = gpicljax.make("ContextualBandit-v0", **CONTEXTS, **static)
    vec = gpicljax.VectorEnv(
        env,
        batch,
        trial,
        resets="fresh",
        params=env.make_params(horizon=horizon),
        privileged=privileged,
    )

    @jax.jit
    def play(key):
        return rollout(
            vec, agent, None, start_rollout(key, vec, agent), length,
            keep=lambda record: (record.timestep, record.action, record.aux,
                                 record.next_timestep.info["regret"]),
        )[1]  # fmt: skip

    return jax.tree.map(np.asarray, play(jax.random.key(3)))


def contextual_agent(**settings):
    env = gpicljax.make("ContextualBandit-v0", **CONTEXTS)
    return bandits.linucb(env.observation_space(), env.action_space(), **settings)


def test_linucbs_index_is_that_of_a_loop():
    agent = contextual_agent(alpha=0.7, ridge=2.0)
    timesteps, action, aux, _ = contextual_study(agent, batch=3, length=90, horizon=10, trial=3)
    assert timesteps.trial_start.sum() > 3 and timesteps.last.sum() > 12
    for b in range(3):
        pending = None
        for t in range(90):
            context = timesteps.observation[t, b].astype(np.float64)
            if pending is not None:
                arm, before = pending
                products[arm] += np.outer(before, before)  # noqa: F821
                sums[arm] += timesteps.reward[t, b] * before  # noqa: F821
            if timesteps.trial_start[t, b]:
                products = [2.0 * np.eye(4) for _ in range(3)]
                sums = [np.zeros(4) for _ in range(3)]
            inverse = [np.linalg.inv(x) for x in products]
            index = [
                y @ x @ context + 0.7 * np.sqrt(context @ x @ context)
                for x, y in zip(inverse, sums, strict=True)
            ]
            np.testing.assert_allclose(aux["scores"][t, b], index, rtol=2e-4, atol=2e-4)
            assert index[action[t, b]] == pytest.approx(max(index), abs=1e-3)
            pending = None if timesteps.last[t, b] else (action[t, b], context)


def test_linucb_learns_what_a_rule_without_context_cannot():
    """Regret by pull, over 64 bandits: of the rules, random play and the oracle."""
    env = gpicljax.make("ContextualBandit-v0", **CONTEXTS)
    space = env.action_space()
    pulls = 200
    for payoff, bound in (("linear", 0.1), ("logistic", 0.55)):
        regret = {}
        for name, agent in {
            "linucb": contextual_agent(alpha=0.5),
            "ucb1": bandits.ucb1(space),
            "random": epsilon_greedy(space, 1.0),
            "oracle": optimal_agent(),
        }.items():
            *_, lost = contextual_study(
                agent, 64, pulls, pulls, 1, privileged=name == "oracle", payoff=payoff
            )
            regret[name] = lost.mean(1)
        assert np.abs(regret["oracle"]).max() < 1e-6
        second = {name: lost[pulls // 2 :].mean() for name, lost in regret.items()}
        assert second["linucb"] < bound * second["ucb1"], (payoff, second)
        # Which arm is best depends on the context alone.
        assert second["ucb1"] > 0.7 * second["random"]


def test_linucb_refuses_what_has_no_context():
    with pytest.raises(ValueError, match="observations: got Discrete"):
        bandits.linucb(TWO, TWO)
    with pytest.raises(ValueError, match="space: got Box"):
        bandits.linucb(spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (2,)))
    with pytest.raises(ValueError, match="ridge: got 0"):
        bandits.linucb(spaces.Box(-1.0, 1.0, (2,)), TWO, ridge=0)


def share_of_first(agent, pulls):
    """Returns how often the agent pulls the first arm, and the standard error."""
    batch = pulls.action.shape[0]
    action, _, _ = jax.jit(agent.act)(keys_of(batch, 0), None, pulls, timestep(batch))
    share = float((np.asarray(action) == 0).mean())
    return share, np.sqrt(share * (1 - share) / batch)


@pytest.mark.slow
def test_thompson_pulls_an_arm_as_often_as_it_is_best_under_beta_posteriors():
    pulls = pulls_of([5, 9], [3, 4], batch=40_000)
    share, error = share_of_first(bandits.thompson_bernoulli(TWO, 1.5, 2.0), pulls)
    first, second = (scipy.stats.beta(a, b) for a, b in ((4.5, 4.0), (5.5, 7.0)))
    exact = scipy.integrate.quad(lambda x: first.pdf(x) * second.cdf(x), 0, 1)[0]
    assert 0.6 < exact < 0.8
    assert abs(share - exact) < 4 * error


def test_thompson_pulls_an_arm_as_often_as_it_is_best_under_normal_posteriors():
    mean, variance, noise = 0.5, 4.0, 0.8
    payments = [1.3, 0.4, 2.2], [2.0, 1.9]
    pulls = pulls_of([3, 2], [sum(x) for x in payments], batch=40_000)
    agent = bandits.thompson_gaussian(TWO, mean, variance, noise)
    share, error = share_of_first(agent, pulls)
    posteriors = []
    for x in payments:
        precision = 1 / variance + len(x) / noise**2
        middle = (mean / variance + sum(x) / noise**2) / precision
        posteriors.append(scipy.stats.norm(middle, precision**-0.5))
    first, second = posteriors
    exact = scipy.integrate.quad(lambda x: first.pdf(x) * second.cdf(x), -20, 20)[0]
    assert 0.05 < exact < 0.3
    assert abs(share - exact) < 4 * error


# What counts --------------------------------------------------------------------------------------


def test_ignored_actions_are_not_counted_and_trials_forgotten():
    agent = epsilon_greedy(TWO)
    act = jax.jit(agent.act)
    yes, carry = jnp.ones(1, bool), agent.initial_carry(1)
    action, _, carry = act(keys_of(1), None, carry, timestep(1, trial_start=yes))
    first = int(action[0])
    # Its payment comes with the last time step; the action there is ignored, and the 5 is not one.
    step = timestep(1, reward=jnp.array([3.0]), terminated=yes)
    _, _, carry = act(keys_of(1, 1), None, carry, step)
    _, _, carry = act(keys_of(1, 2), None, carry, timestep(1, reward=jnp.array([5.0])))
    assert int(carry.counts[0, first]) == 1 and int(carry.counts.sum()) == 1
    np.testing.assert_array_equal(carry.sums.sum(), 3)
    _, _, carry = act(keys_of(1, 3), None, carry, timestep(1, reward=jnp.array([4.0])))
    np.testing.assert_array_equal(carry.counts, [[1, 1]])  # the other arm came next
    _, aux, carry = act(keys_of(1, 4), None, carry, timestep(1, trial_start=yes))
    assert int(carry.counts.sum()) == 0 and float(carry.sums.sum()) == 0
    np.testing.assert_array_equal(aux["scores"], np.inf)


@pytest.mark.parametrize(
    "agent", [bandits.ucb1(TEN), epsilon_greedy(TEN, 0.3), bandits.thompson_bernoulli(TEN)]
)
def test_masks_are_honoured_and_ties_broken_at_random(agent):
    batch = 4_000
    # The illegal arms are those that look best.
    legal = np.arange(10) >= 6
    pulls = pulls_of([200] * 10, np.where(legal, 20, 180), batch=batch)
    mask = jnp.broadcast_to(jnp.asarray(legal), (batch, 10))
    masked = timestep(batch, observation={"action_mask": mask})
    action, _, _ = jax.jit(agent.act)(keys_of(len(masked.reward)), None, pulls, masked)
    counts = np.bincount(action, minlength=10)
    assert counts[:6].sum() == 0
    # Uniform over four: three degrees of freedom, p = 0.001.
    assert ((counts[6:] - batch / 4) ** 2 / (batch / 4)).sum() < 16.3


def test_what_is_set_may_be_traced():
    pulls = pulls_of([10, 10], [9, 1], batch=2_000)

    def share(epsilon):
        agent = epsilon_greedy(TWO, epsilon)
        return (agent.act(keys_of(2_000), None, pulls, timestep(2_000))[0] == 1).mean()

    shares = jax.jit(jax.vmap(share))(jnp.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(shares, [0, 0.25, 0.5], atol=0.04)


def test_double_precision_is_one_float_type_throughout():
    with jax.enable_x64(True):
        for make in (
            bandits.ucb1,
            epsilon_greedy,
            bandits.thompson_bernoulli,
            bandits.thompson_gaussian,
        ):
            agent = make(TWO)
            carry = agent.initial_carry(3)
            _, aux, after = jax.eval_shape(agent.act, keys_of(3), None, carry, timestep(3))
            types = [[(x.shape, x.dtype) for x in jax.tree.leaves(c)] for c in (carry, after)]
            assert types[0] == types[1] and aux["scores"].dtype == jnp.float64
            assert not any(x.weak_type for x in jax.tree.leaves(after))


def test_what_does_not_fit_is_refused():
    box = spaces.Box(0, 1, (2,))
    for make in (bandits.ucb1, epsilon_greedy, bandits.thompson_gaussian):
        with pytest.raises(ValueError, match=rf"space: got Box.*{make.__name__} chooses from arms"):
            make(box)
    for field, value in (("variance", 0.0), ("noise", -1.0)):
        with pytest.raises(ValueError, match=f"{field}: got {value}; accepted: a number above 0"):
            bandits.thompson_gaussian(TWO, **{field: value})


def test_ucb1_counts_more_pulls_than_an_integer_holds():
    agent = bandits.ucb1(spaces.Discrete(3))
    carry = agent.initial_carry(1)
    counts = jnp.full((1, 3), 2**30, jnp.int32)  # together beyond 2**31
    carry = carry.replace(counts=counts, sums=counts * jnp.array([0.2, 0.8, 0.5]))
    assert agent.act(keys_of(1), (), carry, timestep(1))[0].tolist() == [1]
