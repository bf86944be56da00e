import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from variants import daily

import gpicljax
from gpicljax.systems.meta_language.env.meta_language import State
from gpicljax.systems.meta_language.env.ngram_language import parameter_count

ORDERS = tuple(range(2, 9))
# Of the reference generator, 500 languages for each order n = 2 .. 8: nats per token, and their
# standard deviation over languages; the same normalised over the 500 jointly; entropy of the
# unigram distribution and tokens in use; distinct contexts of n - 1 tokens among 1,024.
NATS = (0.693, 0.705, 0.717, 0.733, 0.745, 0.750, 0.762)
DEVIATIONS = (0.289, 0.241, 0.206, 0.179, 0.171, 0.152, 0.141)
JOINT_NATS = (0.734, 0.755, 0.766, 0.792, 0.791, 0.805, 0.816)
UNIFORM_NATS = {2: 0.734, 4: 0.764, 8: 0.771}
UNIGRAM_ENTROPY = (2.23, 2.52, 2.71, 2.83, 2.93, 2.98, 3.03)
TOKENS_USED = (23.7, 26.7, 28.6, 29.5, 30.0, 30.4, 30.6)
CONTEXTS = (26, 114, 277, 486, 682, 816, 904)
REFERENCE_N = 500
# The length of text behind entropy and tokens in use is not on record. It was not the 1,024 of the
# contexts: for n = 2, where contexts are tokens, those are 26. 400 fits all orders.
SHORTER = 400


def language_env(**static):
    return gpicljax.make("MetaLanguage-v0", **static)


@functools.cache
def drawing(env, num):
    """The program that draws some languages."""
    return jax.jit(
        lambda key, params: jax.vmap(env.sample_task, (0, None))(jax.random.split(key, num), params)
    )


def languages(env, key, num, **params):
    """Some languages of one distribution."""
    return drawing(env, num)(key, env.make_params(**params))


def one_language(env, key, **params):
    return jax.tree.map(lambda x: x[0], languages(env, key, 1, **params))


@functools.cache
def writing(env, length, per_language, tile=None):
    """The program that draws texts, with their log-probabilities."""
    return jax.jit(
        lambda key, tasks: env.sample_sequences(
            key, tasks, length, per_language, with_log_probs=True, tile=tile
        )
    )


@functools.cache
def judging(env):
    """The program that tells the log-probabilities of texts, language by language."""
    return jax.jit(jax.vmap(jax.vmap(env.log_likelihood, (None, 0))))


@functools.cache
def predicting(env):
    """The program that predicts what follows each of some contexts."""
    return jax.jit(jax.vmap(env.next_token_log_probs, (None, 0)))


def uniforms_of(key, language, sequence, length):
    """The noise behind one sequence of `sample_sequences`."""
    key = jax.random.fold_in(jax.random.fold_in(key, language), sequence)
    return jax.random.uniform(key, (length,))


# The generator ----------------------------------------------------------------------------------


def test_parameter_count_is_the_papers(key):
    assert [parameter_count(n) for n in (2, 4, 8)] == [7_328, 11_552, 20_000]
    assert all(parameter_count(n) == 3_104 + 2_112 * n for n in range(1, 9))
    env = language_env()
    theta = env.sample_theta(key, env.default_params)
    assert sum(leaf.size for leaf in jax.tree.leaves(theta)) == env.parameter_count(8)


def network(theta, context, n, slot_weights):
    """Logits after a context, the latest token last: the generator as the paper states it."""
    theta = jax.tree.map(lambda x: np.asarray(x, np.float64), theta)
    hidden = 0
    for k, token in enumerate(context[-n:]):  # from the oldest to the newest
        age = n - 1 - k
        slot = np.tanh(theta.embedding[token] @ theta.weights[age] + theta.biases[age])
        hidden = hidden + (k if slot_weights == "reference" else 1) * slot / n
    return hidden @ theta.output + theta.output_bias


@pytest.mark.parametrize("slot_weights", ["reference", "uniform"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_next_token_log_probs_are_the_networks_normalised(key, n, slot_weights):
    env = language_env(max_order=5, slot_weights=slot_weights)
    params = env.make_params(scale=3.0, sigma=0.3)
    theta = env.sample_theta(key, params)
    task = env.task_of(theta, n, params)
    contexts = np.random.default_rng(0).integers(0, 32, (5, 5))
    predictions = predicting(env)(task, contexts)
    for context, log_probs in zip(contexts, predictions, strict=True):
        logits = network(theta, context, n, slot_weights)
        z = 3.0 * (logits - logits.mean()) / logits.std()
        expected = z - np.log(np.exp(z).sum())
        np.testing.assert_allclose(log_probs, expected, atol=2e-4)
        assert np.std(log_probs) == pytest.approx(3.0, rel=1e-5)
    missing = predicting(env)(task, contexts[:, -2:])
    padded = predicting(env)(task, np.pad(contexts[:, -2:], ((0, 0), (3, 0))))
    np.testing.assert_array_equal(missing, padded)


def influences(env, key, n):
    """For each age, from the oldest to the newest of 8: whether that token matters."""
    task = one_language(env, key, min_order=n, max_order=n)
    contexts = np.random.default_rng(0).integers(0, 32, (50, 8))
    before = np.asarray(predicting(env)(task, contexts))
    variants = [(contexts + (np.arange(8) == i)) % 32 for i in range(8)]
    return [bool((np.asarray(predicting(env)(task, x)) != before).any()) for x in variants]


def test_under_reference_weights_the_oldest_token_has_no_influence(key):
    for n in (2, 3, 8):
        expected = [False] * (8 - n + 1) + [True] * (n - 1)
        assert influences(language_env(), key, n) == expected
        expected = [False] * (8 - n) + [True] * n
        assert influences(language_env(slot_weights="uniform"), key, n) == expected


def test_orders_are_uniform_between_the_bounds(key):
    env = language_env(max_order=6, vocab_size=2, embedding_size=1, hidden_size=1)
    orders = np.asarray(languages(env, key, 3_000, min_order=3, max_order=6).order)
    values, counts = np.unique(orders, return_counts=True)
    assert values.tolist() == [3, 4, 5, 6]
    # Each has 750 on average, with a standard deviation of 24.
    assert np.abs(counts - 750).max() < 4 * 24


# Sequences ----------------------------------------------------------------------------------------


def test_sequences_start_with_token_0_and_log_probs_are_those_of_the_language(key):
    env = language_env(max_order=4)
    tasks = languages(env, key, 3, min_order=1, max_order=4)
    tokens, log_probs = writing(env, 40, 2)(key, tasks)
    assert tokens.shape == (3, 2, 41)
    assert tokens.dtype == jnp.int32
    assert (tokens[..., 0] == 0).all()
    assert tokens.min() >= 0
    assert tokens.max() < 32
    assert len(np.unique(tokens[..., 1:])) > 8
    expected = judging(env)(tasks, tokens)
    np.testing.assert_allclose(log_probs, expected, atol=1e-4)
    # The parallel form is the step by step one.
    task = jax.tree.map(lambda x: x[1], tasks)
    tokens = np.asarray(tokens)[1, 0]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(tokens, (2, 0)), 3)[:-1]
    step = np.asarray(predicting(env)(task, windows))
    np.testing.assert_allclose(step[np.arange(40), tokens[1:]], expected[1, 0], atol=1e-4)


@pytest.mark.parametrize(
    "static",
    [
        {"vocab_size": 2, "max_order": 3},
        {"vocab_size": 300, "max_order": 2},
        {"max_order": 1},
    ],
    ids=str,
)
def test_unusual_sizes(key, static):
    env = language_env(**static)
    tasks = languages(env, key, 2, min_order=1, scale=1.0)
    tokens, log_probs = writing(env, 30, 3)(key, tasks)
    expected = judging(env)(tasks, tokens)
    np.testing.assert_allclose(log_probs, expected, atol=1e-4)
    assert tokens.max() < env.vocab_size
    assert len(np.unique(tokens)) > 1


def test_the_environment_draws_the_same_tokens_from_the_same_noise(key):
    env = language_env(max_order=5, vocab_size=12)
    tasks = languages(env, key, 4, min_order=2, max_order=5, horizon=64)
    tokens, log_probs = writing(env, 64, 2)(key, tasks)

    def loop(task, uniforms):
        def step(state, uniform):
            moved = env.move(state, jnp.zeros(12), uniform, task)
            token = env.observe(moved.state, task)
            return moved.state, (token, moved.info["attainable"], moved.truncated)

        return jax.lax.scan(step, env.initial(key, task), uniforms)[1]

    run = jax.jit(loop)
    for i in range(4):
        for j in range(2):
            task = jax.tree.map(lambda x, i=i: x[i], tasks)
            observed, floor, truncated = run(task, uniforms_of(key, i, j, 64))
            np.testing.assert_array_equal(observed, tokens[i, j, 1:])
            np.testing.assert_allclose(floor, log_probs[i, j], atol=1e-4)
            assert np.flatnonzero(truncated).tolist() == [63]


@pytest.mark.parametrize("n", [2, 3])
def test_transition_frequencies_are_the_generators(key, n):
    env = language_env(max_order=4)
    tasks = languages(env, key, 1, min_order=n, max_order=n, scale=2.0)
    tokens = np.asarray(writing(env, 1_000, 200)(key, tasks)[0])[0]
    task = jax.tree.map(lambda x: x[0], tasks)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, n, axis=1).reshape(-1, n)
    contexts, context_index = np.unique(windows[:, :-1], axis=0, return_inverse=True)
    counts = np.zeros((len(contexts), 32))
    np.add.at(counts, (context_index.ravel(), windows[:, -1]), 1)
    visits = counts.sum(1)
    frequent = np.argsort(-visits)[:20]
    assert visits[frequent].min() > 300
    # Windows at the start of a text lack nothing: the context holds all that matters.
    log_probs = predicting(env)(task, contexts[frequent])
    expected = np.exp(np.asarray(log_probs, np.float64)) * visits[frequent, None]
    likely = expected >= 5
    z = (counts[frequent] - expected)[likely] / np.sqrt(expected[likely])
    # Pearson's statistic: about as many as there are terms, with variance twice that.
    assert likely.sum() > 40
    assert abs((z**2).sum() - likely.sum()) < 4 * np.sqrt(2 * likely.sum()) + len(frequent)
    null = (counts[frequent] - np.roll(expected, 1, axis=1))[likely] / np.sqrt(expected[likely])
    assert (null**2).sum() > 100 * likely.sum()


@pytest.mark.slow
def test_the_same_bits_whatever_the_tile_and_the_company(key):
    env = language_env(max_order=3, vocab_size=12)
    tasks = languages(env, key, 7)
    everything = writing(env, 300, 2)(key, tasks)
    for tile in (1, 3):
        same = writing(env, 300, 2, tile)(key, tasks)
        np.testing.assert_array_equal(same[0], everything[0])
    few = writing(env, 300, 1)(key, jax.tree.map(lambda x: x[:2], tasks))
    np.testing.assert_array_equal(few[0], everything[0][:2, :1])
    # A key for each language makes its sequences independent of its place, too.
    language_keys = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(7))
    last = writing(env, 300, 2)(language_keys[3:], jax.tree.map(lambda x: x[3:], tasks))
    np.testing.assert_array_equal(last[0], everything[0][3:])
    assert (writing(env, 300, 2)(jax.random.key(1), tasks)[0] != everything[0]).any()


def test_inside_a_program_over_seeds(key):
    env = language_env(max_order=3, vocab_size=12)
    params = env.default_params

    def batch(key):
        task_key, key = jax.random.split(key)
        tasks = jax.vmap(env.sample_task, (0, None))(jax.random.split(task_key, 3), params)
        return env.sample_sequences(key, tasks, 50, 2, tile=2)

    keys = jax.random.split(key, 2)
    together = jax.jit(jax.vmap(batch))(keys)
    for seed_key, drawn in zip(keys, together, strict=True):
        np.testing.assert_array_equal(jax.jit(batch)(seed_key), drawn)


def test_joint_normalisation_divides_by_the_deviation_of_all(key):
    env = language_env(max_order=3, vocab_size=12, normalisation="joint")
    tasks = languages(env, key, 6, min_order=3, max_order=3)
    tokens, log_probs = writing(env, 30, 1)(key, tasks)
    log_probs = np.asarray(log_probs)
    tables, tokens = np.asarray(tasks.tables, np.float64), np.asarray(tokens)[:, 0]
    deviations = []
    for t in range(30):
        before = tokens[:, max(t - 1, 0)] if t else np.zeros(6, int)
        current = tokens[:, t]
        logits = np.stack([tables[i, 0, current[i]] + tables[i, 1, before[i]] for i in range(6)])
        z = 5 * (logits - logits.mean()) / logits.std()
        deviations.append(z.std(1))
        expected = z - np.log(np.exp(z).sum(1, keepdims=True))
        chosen = expected[np.arange(6), tokens[:, t + 1]]
        np.testing.assert_allclose(log_probs[:, 0, t], chosen, atol=2e-4)
    assert np.std(deviations) > 0.5  # so it is not the normalisation by row


# Statistics of the paper's generator ------------------------------------------------------------


@functools.cache
def program(num, normalisation="row", slot_weights="reference"):
    """Draws languages of one order and a text of 1,024 tokens of each; one program for all n."""
    env = language_env(normalisation=normalisation, slot_weights=slot_weights)

    @jax.jit
    def run(key, n):
        task_key, key = jax.random.split(key)
        params = env.default_params.replace(min_order=n, max_order=n)
        tasks = jax.vmap(env.sample_task, (0, None))(jax.random.split(task_key, num), params)
        tokens, log_probs = env.sample_sequences(key, tasks, 1_024, with_log_probs=True)
        return tokens[:, 0], -log_probs[:, 0].mean(-1)

    return run


def assert_close(values, expected, deviation=None):
    """Means within three combined standard errors, the reference's of 500 languages."""
    deviation_found = np.std(values, ddof=1)
    error = np.sqrt(
        deviation_found**2 / len(values) + (deviation or deviation_found) ** 2 / REFERENCE_N
    )
    assert abs(np.mean(values) - expected) < 3 * error, (np.mean(values), expected, error)


def check_order(num, n):
    """Texts and nats per token, which and whose contexts are those of the reference's."""
    tokens, nats = (np.asarray(x) for x in program(num)(jax.random.key(n), jnp.int32(n)))
    i = n - 2
    assert_close(nats, NATS[i], DEVIATIONS[i])
    windows = [np.lib.stride_tricks.sliding_window_view(text, n - 1) for text in tokens]
    assert_close([len(np.unique(window, axis=0)) for window in windows], CONTEXTS[i])
    return tokens, nats


@pytest.mark.parametrize("n", daily([2, 3, 8], ORDERS))
def test_statistics_of_128_languages(n):
    check_order(128, n)


@pytest.mark.slow
@pytest.mark.parametrize("n", ORDERS)
def test_statistics_of_500_languages(n):
    tokens, nats = check_order(500, n)
    # A deviation's standard error, allowing for tails twice as heavy as the normal's.
    deviation = DEVIATIONS[n - 2]
    assert abs(nats.std(ddof=1) - deviation) < 3 * np.sqrt(2) * deviation / np.sqrt(500)
    entropy, used = [], []
    for text in tokens:
        share = np.bincount(text[1 : SHORTER + 1], minlength=32) / SHORTER
        share = share[share > 0]
        entropy.append(-(share * np.log(share)).sum())
        used.append(len(share))
    assert_close(entropy, UNIGRAM_ENTROPY[n - 2])
    assert_close(used, TOKENS_USED[n - 2])


@pytest.mark.slow
@pytest.mark.parametrize("n", ORDERS)
def test_statistics_of_500_languages_normalised_jointly(n):
    _, nats = program(500, normalisation="joint")(jax.random.key(n), jnp.int32(n))
    assert_close(nats, JOINT_NATS[n - 2])
    _, by_row = program(500)(jax.random.key(n), jnp.int32(n))
    assert 0.02 < np.mean(nats) - np.mean(by_row) < 0.09  # the same languages


@pytest.mark.slow
@pytest.mark.parametrize("n", UNIFORM_NATS)
def test_statistics_of_500_languages_with_uniform_weights(n):
    _, nats = program(500, slot_weights="uniform")(jax.random.key(n), jnp.int32(n))
    assert_close(nats, UNIFORM_NATS[n])


# Calibration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["reject", "scale"])
def test_calibrated_languages_are_within_the_range(key, calibration):
    static = {"max_order": 3, "vocab_size": 12, "hidden_size": 32}
    plain, env = language_env(**static), language_env(**static, calibration=calibration)
    params = {"min_nats": 0.4, "max_nats": 0.6, "min_order": 2}

    def nats_of(tasks):
        return -np.asarray(writing(plain, 512, 8)(jax.random.key(7), tasks)[1]).mean((1, 2))

    before, tasks = languages(plain, key, 24, **params), languages(env, key, 24, **params)
    # Beyond the range only by what the measurement may be off.
    nats, plain_nats = nats_of(tasks), nats_of(before)
    within = (nats > 0.4 - 0.1) & (nats < 0.6 + 0.1)
    assert not tasks.missed.any()
    assert within.mean() > 0.95
    assert ((plain_nats > 0.3) & (plain_nats < 0.7)).mean() < 0.8
    assert not before.missed.any()
    kept = tasks.scale == 5.0
    assert kept.all() if calibration == "reject" else 0 < kept.sum() < 24


@pytest.mark.parametrize("calibration", ["reject", "scale"])
def test_languages_that_miss_the_range_are_told(key, calibration):
    env = language_env(max_order=2, vocab_size=6, calibration=calibration, calibration_rounds=2)
    tasks = languages(env, key, 3, min_nats=1.7, max_nats=1.71, scale=50.0, horizon=5)
    assert tasks.missed.all()
    task = jax.tree.map(lambda x: x[0], tasks)
    moved = env.transition(key, env.initial(key, task), jnp.zeros(6), task)
    assert moved.info["missed"]


# The environment --------------------------------------------------------------------------------


def test_rewards_are_log_probabilities(key):
    env = language_env(max_order=3)
    task = one_language(env, key)
    state = State(jnp.array([3, 7], jnp.int32), jnp.int32(2))
    truth = env.privileged(state, task)["log_probs"]
    np.testing.assert_allclose(jnp.exp(truth).sum(), 1, rtol=1e-5)

    move = jax.jit(jax.vmap(env.transition, (0, None, None, None)))

    def mean_reward(action):
        moved = move(jax.random.split(key, 4_000), state, action, task)
        drawn = moved.state.context[:, -1]
        np.testing.assert_allclose(moved.reward, jax.nn.log_softmax(action)[drawn], rtol=1e-5)
        return moved.reward.mean(), moved.info["regret"][0]

    best, no_regret = mean_reward(truth + 3.0)  # whatever is added to all
    level, regret = mean_reward(jnp.zeros(32))
    assert level == pytest.approx(-np.log(32))
    assert no_regret == pytest.approx(0, abs=1e-5)
    # The regret is what a prediction loses on average; the noise is that of 4,000 draws.
    entropy = float(-(jnp.exp(truth) * truth).sum())
    assert regret == pytest.approx(np.log(32) - entropy, rel=1e-4)
    assert abs(best + entropy) < 4 * 1.5 / np.sqrt(4_000)


def test_the_languages_own_distribution_has_no_regret(key):
    env = language_env(max_order=3, vocab_size=12)
    task = one_language(env, key)
    privileged = env.privileged(env.initial(key, task), task)
    moved = env.transition(key, env.initial(key, task), privileged["log_probs"], task)
    assert moved.info["regret"] == pytest.approx(0, abs=1e-5)
    assert moved.reward == pytest.approx(float(moved.info["attainable"]), abs=1e-5)


def test_describe(key):
    env = language_env()
    task = one_language(env, key, min_order=4, max_order=4, horizon=9)
    assert env.describe(env.initial(key, task), task) == "token 0, 0 of 9 tokens drawn"


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("static", "message"),
    [
        ({"vocab_size": 1}, "vocab_size: got 1; accepted: an integer from 2"),
        ({"embedding_size": 0}, "embedding_size: got 0; accepted: an integer from 1"),
        ({"hidden_size": 0}, "hidden_size: got 0; accepted: an integer from 1"),
        ({"max_order": 0}, "max_order: got 0; accepted: an integer from 1"),
        ({"calibration_rounds": 0}, "calibration_rounds: got 0; accepted: an integer >= 1"),
        ({"slot_weights": "equal"}, "slot_weights: got 'equal'.*; accepted: "),
        ({"normalisation": "batch"}, "normalisation: got 'batch'.*; accepted: "),
        ({"calibration": "yes"}, "calibration: got 'yes'.*; accepted: "),
        (
            {"normalisation": "joint", "calibration": "scale"},
            "calibration: got 'scale'; accepted: none",
        ),
    ],
    ids=str,
)
def test_bad_configurations_are_refused(static, message):
    with pytest.raises(ValueError, match=message):
        language_env(**static)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"min_order": 0}, "min_order: got 0; accepted: integers >= 1"),
        ({"max_order": 9}, r"max_order: got 9; accepted: orders n up to 8; make\(..., max_order"),
        ({"min_order": 5, "max_order": 4}, r"got \(5, 4\); accepted: min_order <= max_order"),
        ({"scale": 0.0}, "scale: got 0.0; accepted: finite numbers above 0"),
        ({"scale": np.inf}, "scale: got inf; accepted: finite numbers above 0"),
        ({"sigma": -1.0}, "sigma: got -1.0; accepted: finite numbers above 0"),
        ({"min_nats": 1.0, "max_nats": 0.5}, r"got \(1.0, 0.5\); accepted: min_nats"),
        ({"min_nats": 4.0, "max_nats": 5.0}, r"min_nats below log\(32\)"),
        ({"horizon": 0}, "horizon: got 0; accepted: integers >= 1"),
    ],
    ids=str,
)
def test_bad_params_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        language_env().make_params(**params)


def test_bad_requests_are_refused(key):
    env = language_env(max_order=3)
    tasks = languages(env, key, 2)
    single = jax.tree.map(lambda x: x[0], tasks)
    for arguments, message in [
        ((tasks, 0), "length: got 0; accepted: an integer >= 1"),
        ((tasks, 5, 0), "sequences_per_task: got 0; accepted: an integer >= 1"),
        ((single, 5), "tasks of this configuration, one axis"),
        ((jax.tree.map(lambda x: x[:0], tasks), 5), "tasks of this configuration"),
    ]:
        with pytest.raises(ValueError, match=message):
            env.sample_sequences(key, *arguments)
    with pytest.raises(ValueError, match=r"key: got \(3,\); accepted: one typed key or 2"):
        env.sample_sequences(jax.random.split(key, 3), tasks, 5)
    with pytest.raises(ValueError, match="tile: got 0; accepted: an integer >= 1"):
        env.sample_sequences(key, tasks, 5, tile=0)
    with pytest.raises(ValueError, match=r"accepted: \[N, 7, 32, 32\]"):
        language_env().sample_sequences(key, tasks, 5)
    with pytest.raises(ValueError, match=r"tokens: got \(1,\)"):
        env.log_likelihood(single, np.zeros(1, int))
    with pytest.raises(ValueError, match="order: got 0"):
        parameter_count(0)


def test_joint_normalisation_is_for_sequences_only(key):
    env = language_env(max_order=3, normalisation="joint")
    tasks = languages(env, key, 2)
    single = jax.tree.map(lambda x: x[0], tasks)
    for call in (
        lambda: env.reset(key, single),
        lambda: env.next_token_log_probs(single, jnp.zeros(2, jnp.int32)),
        lambda: env.log_likelihood(single, jnp.zeros(3, jnp.int32)),
    ):
        with pytest.raises(ValueError, match="in sample_sequences only"):
            call()
    with pytest.raises(ValueError, match="tile: got 1; accepted: None"):
        env.sample_sequences(key, tasks, 5, tile=1)
