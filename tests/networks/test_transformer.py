"""Transformer: sizes, step = unroll with caches of every kind, against a plain one, generation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from variants import daily

from gpicljax.networks.contract import as_network
from gpicljax.networks.embeddings import (
    Interleaved,
    ResidualHead,
    TokenEmbedding,
    VectorEmbedding,
)
from gpicljax.networks.language_model import LanguageModel
from gpicljax.networks.layers import add_bias, gelu, layer_norm, matmul
from gpicljax.networks.recurrent import LSTMStack
from gpicljax.networks.transformer import (
    SequenceTransformer,
    Transformer,
    generate,
)

LENGTH, BATCH, WIDTH = 13, 3, 8
TOLERANCE = 2e-5
trunk = partial(Transformer, 2, WIDTH, 2, capacity=64)


def count(module, *inputs, method=None):
    init = module.init if method else as_network(module).init
    shapes = jax.eval_shape(init, jax.random.key(0), *inputs)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def draw(shape, seed=0):
    return jnp.asarray(
        np.random.default_rng(seed).normal(size=shape).astype(jnp.result_type(float))
    )


def draw_starts(length=LENGTH):
    """The first instance never restarts, the second does at once and in the middle."""
    starts = np.random.default_rng(1).random((length, BATCH)) < 0.2
    starts[:, 0], starts[:, 1] = False, np.arange(length) % 5 == 0
    return jnp.asarray(starts)


def random_params(network, first):
    """All of them random, biases and scales too."""
    shapes = jax.eval_shape(network.init, jax.random.key(0), first)
    rng = np.random.default_rng(2)
    return jax.tree.map(
        lambda s: jnp.asarray((0.5 * rng.normal(size=s.shape)).astype(s.dtype)), shapes
    )


def over(trunk, vocabulary=32):
    return LanguageModel(trunk, vocabulary, trunk.width)


def stepwise(network, params, carry, inputs, starts):
    """`step` in a loop: outputs `[T, B, ...]`, and the carry."""

    def tick(carry, x):
        output, carry = network.step(params, carry, *x)
        return carry, output

    carry, outputs = jax.lax.scan(tick, carry, (inputs, starts))
    return outputs, carry


def assert_close(a, b, tolerance=TOLERANCE):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=tolerance), a, b)


@pytest.mark.parametrize(
    ("layers", "width", "heads", "parameters"),
    [(8, 512, 8, 25_737_216), (12, 1280, 16, 237_407_744)],
)
def test_sizes_of_the_papers_causal_transformers(layers, width, heads, parameters):
    def model(maskable):
        latent = VectorEmbedding(1024, width, maskable)
        parts = {"latent": latent, "action": TokenEmbedding(5, width)}
        embedding = Interleaved(parts, ("latent", "action"))
        return SequenceTransformer(embedding, Transformer(layers, width, heads, tokens_per_step=2))

    inputs = {"latent": jnp.zeros((1, 1024)), "action": jnp.zeros(1, jnp.int32)}
    assert count(model(True), inputs) == parameters
    assert count(model(False), inputs) == parameters - 1024


def test_sizes_of_the_papers_heads():
    hidden = jnp.zeros((1, 512))
    assert count(ResidualHead(5), hidden, method="__call__") == 1_053_701
    assert count(ResidualHead(1024), hidden, method="__call__") == 1_576_448


CASES = {
    "whole trial": trunk(),
    "window of 3 steps": trunk(window=3),
    "two tokens a step": trunk(tokens_per_step=2),
    "window of 2 steps of 2 tokens": trunk(window=2, tokens_per_step=2),
    "a last action, dropped at starts": trunk(tokens_per_step=2, lead=1),
    "and a window": trunk(window=2, tokens_per_step=2, lead=1),
    "a cache as long as a pass": trunk(capacity=LENGTH),
}


def compare_step_with_unroll(name):
    """Largest differences: of outputs; of caches; of outputs after the carries."""
    module = CASES[name]
    shape = (3 * LENGTH, BATCH, WIDTH)
    if module.tokens_per_step > 1:
        shape = (3 * LENGTH, BATCH, module.tokens_per_step, WIDTH)
    inputs, starts = draw(shape), draw_starts(3 * LENGTH)
    if name == "a cache as long as a pass":
        starts = starts.at[:: LENGTH // 2, 0].set(True)  # full, but never more than that
    network = as_network(module)
    params = random_params(network, inputs[0])

    # A carry that is not empty: the first third, by steps.
    steps = jax.jit(partial(stepwise, network, params))
    first, second, third = (
        (inputs[i : i + LENGTH], starts[i : i + LENGTH]) for i in (0, LENGTH, 2 * LENGTH)
    )
    _, carry = steps(network.initial_carry(BATCH), *first)
    stepped, kept = steps(carry, *second)
    unrolled, also_kept = jax.jit(partial(network.unroll, params))(carry, *second)
    outputs = np.stack([stepped, steps(kept, *third)[0]])
    differences = np.abs(outputs - np.stack([unrolled, steps(also_kept, *third)[0]]))
    if module.lead:  # outputs of tokens that are not there mean nothing
        gone = np.stack([second[1], third[1]])
        differences[..., 0, :] *= ~gone[..., None]
    np.testing.assert_array_equal(kept.length, also_kept.length)
    caches = jax.tree.map(lambda a, b: np.abs(a - b).max(), kept, also_kept)
    return float(differences.max()), float(max(jax.tree.leaves(caches)))


@pytest.mark.parametrize("name", daily(["whole trial", "window of 2 steps of 2 tokens"], CASES))
def test_step_is_unroll(name):
    outputs, caches = compare_step_with_unroll(name)
    assert outputs < TOLERANCE
    assert caches < TOLERANCE


def test_step_is_unroll_in_double_precision():
    with jax.enable_x64(True):
        assert max(compare_step_with_unroll("and a window")) < 1e-12


@pytest.mark.parametrize(
    "name",
    daily(["and a window"], ["whole trial", "window of 3 steps", "and a window"]),
)
def test_without_a_carry_the_beginning_is_a_start(name):
    module = CASES[name]
    shape = (LENGTH, BATCH, WIDTH) if module.tokens_per_step == 1 else (LENGTH, BATCH, 2, WIDTH)
    inputs, starts = draw(shape), draw_starts()
    network = as_network(module)
    params = random_params(network, inputs[0])

    @jax.jit
    def three(params):
        first = jnp.arange(LENGTH)[:, None] == 0
        begun = network.unroll(params, network.initial_carry(BATCH), inputs, starts | first)[0]
        without_carry, nothing = network.unroll(params, None, inputs, starts)
        assert nothing is None
        once = network.unroll(params, None, inputs, None)[0]
        return begun, without_carry, once

    begun, without_carry, once = three(params)
    if module.lead:  # the last action's own outputs mean nothing at starts
        begun, without_carry, once = begun[:, :, 1], without_carry[:, :, 1], once[:, :, 1]
    assert_close(begun, without_carry)
    assert_close(once[:, 0], without_carry[:, 0])


def test_equals_a_plain_transformer():
    """Written down again, from the paper's description, on whole matrices."""
    module = over(Transformer(2, WIDTH, 2), 7)
    tokens = jnp.asarray(np.random.default_rng(0).integers(7, size=(LENGTH, 1)))
    network = as_network(module)
    params = random_params(network, tokens[0])
    out = jax.jit(lambda p: network.unroll(p, None, tokens, None)[0])(params)[:, 0]

    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params["params"])

    def norm(x, p):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]

    def turn(x):  # [T, 2 heads, 4]: pairs (0, 1) and (2, 3)
        angle = np.arange(LENGTH)[:, None, None] * np.array([1.0, 1e-2])
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    def dense(x, p):
        return x @ p["kernel"] + p["bias"]

    x = p["embedding"]["table"][np.asarray(tokens[:, 0])]
    for layer in range(2):
        block = jax.tree.map(lambda a: a[layer], p["core"]["blocks"])  # noqa: B023
        q, k, v = (norm(x, block["norm1"]) @ block["qkv"]).reshape(LENGTH, 3, 2, 4).swapaxes(0, 1)
        score = np.einsum("thd,shd->hts", turn(q), turn(k)) / 2
        score = np.where(np.tri(LENGTH, dtype=bool), score, -np.inf)
        weight = np.exp(score - score.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        x = x + dense(np.einsum("hts,shd->thd", weight, v).reshape(LENGTH, WIDTH), block["out"])
        hidden = dense(norm(x, block["norm2"]), block["up"])
        hidden = hidden * np.asarray(jax.scipy.stats.norm.cdf(hidden))
        x = x + dense(hidden, block["down"])
    expected = dense(norm(x, p["core"]["norm"]), p["head"])
    np.testing.assert_allclose(out, expected, atol=5e-5, rtol=1e-4)


def test_reach_of_a_window_is_one_more_step_per_layer():
    # Section 3.3: a window of 2 lets layers + 1 steps through; a window of 1 none but the own.
    for window, reach in ((2, 3), (1, 1)):
        network = as_network(trunk(window=window, tokens_per_step=2))
        inputs = draw((8, 1, 2, WIDTH))
        params = random_params(network, inputs[0])
        gradient = jax.jit(
            jax.grad(lambda x: jnp.square(network.unroll(params, None, x, None)[0][5, :, 1]).sum())  # noqa: B023
        )(inputs)
        used = np.abs(gradient).max((1, 2, 3)) > 0
        np.testing.assert_array_equal(used, [5 - reach < i <= 5 for i in range(8)])


def test_a_traced_window_is_the_attribute():
    whole, windowed = (as_network(trunk(window=w, tokens_per_step=2, lead=1)) for w in (None, 3))
    inputs, starts = draw((LENGTH, BATCH, 2, WIDTH)), draw_starts()
    params = random_params(whole, inputs[0])

    @jax.jit
    def both(params, window):
        module = trunk(tokens_per_step=2, lead=1)

        def apply(method, *args):
            return module.apply(params, *args, window=window, method=method)

        def tick(carry, x):
            output, carry = apply("step", carry, *x)
            return carry, output

        stepped = jax.lax.scan(tick, whole.initial_carry(BATCH), (inputs, starts))[1]
        without_carry = apply("unroll", None, inputs, starts)[0]
        carried = apply("unroll", whole.initial_carry(BATCH), inputs, starts)[0]
        return stepped[:, :, 1], without_carry[:, :, 1], carried[:, :, 1]

    expected = jax.jit(windowed.unroll)(params, None, inputs, starts)[0][:, :, 1]
    for limited in both(params, jnp.int32(3)):
        assert_close(limited, expected)
    assert np.abs(both(params, jnp.int32(2))[1] - expected).max() > 0.01


def test_the_order_of_a_last_action_is_no_other_function():
    """(z, a) per step, as it is trained, and (last a, z), as it acts: the same outputs."""
    parts = {"latent": VectorEmbedding(4, WIDTH), "action": TokenEmbedding(3, WIDTH)}
    base = trunk(tokens_per_step=2, window=3)
    trained = as_network(SequenceTransformer(Interleaved(parts, ("latent", "action")), base))
    embedding = Interleaved(parts, ("action", "latent"))
    acting = as_network(SequenceTransformer(embedding, base.clone(lead=1)))
    latent, action = draw((LENGTH, BATCH, 4)), draw_starts().astype(jnp.int32)
    inputs = {"latent": latent, "action": action}
    params = random_params(trained, jax.tree.map(lambda x: x[0], inputs))
    last = {"latent": latent, "action": jnp.roll(action, 1, 0).at[0].set(-1)}
    at_z = jax.jit(lambda p: trained.unroll(p, None, inputs, None)[0][:, :, 0])(params)
    starts = jnp.zeros((LENGTH, BATCH), bool)
    acted = jax.jit(lambda p: stepwise(acting, p, acting.initial_carry(BATCH), last, starts)[0])
    assert_close(at_z, acted(params)[:, :, 1])


def test_heads_sit_on_their_tokens():
    parts = {"latent": VectorEmbedding(4, WIDTH), "action": TokenEmbedding(3, WIDTH)}
    embedding = Interleaved(parts, ("latent", "action"))
    heads = (("policy", 0, ResidualHead(3)), ("latent", 1, nn.Dense(4)))
    network = as_network(SequenceTransformer(embedding, trunk(tokens_per_step=2), heads))
    masked = jnp.zeros((5, 2), bool).at[2, 0].set(True)
    inputs = {"latent": (draw((5, 2, 4)), masked), "action": jnp.zeros((5, 2), jnp.int32)}
    params = random_params(network, jax.tree.map(lambda x: x[0], inputs))
    unroll = jax.jit(lambda p, x: network.unroll(p, None, x, None)[0])
    out = unroll(params, inputs)
    assert {name: x.shape for name, x in out.items()} == {"policy": (5, 2, 3), "latent": (5, 2, 4)}
    # The policy does not see the action of its own step; the next latent's prediction does.
    changed = unroll(params, inputs | {"action": inputs["action"].at[4, 0].set(2)})
    assert_close(out["policy"], changed["policy"])
    assert np.abs(out["latent"] - changed["latent"])[4, 0].max() > 1e-3
    # What is masked is not seen.
    changed = unroll(params, inputs | {"latent": (inputs["latent"][0].at[2, 0].set(9.0), masked)})
    assert_close(out, changed, 0)


def test_a_full_cache_forgets_the_oldest():
    module = Transformer(1, WIDTH, 2, capacity=5)
    network = as_network(module)
    inputs = draw((12, 1, WIDTH))
    params = random_params(network, inputs[0])
    starts = jnp.zeros((12, 1), bool)
    kept = jax.jit(lambda: stepwise(network, params, network.initial_carry(1), inputs, starts)[0])()
    windowed = as_network(module.clone(window=5))
    assert_close(kept, jax.jit(lambda: windowed.unroll(params, None, inputs, None)[0])())
    with pytest.raises(ValueError, match="accepted: 5 tokens, the cache"):
        network.unroll(params, network.initial_carry(1), inputs, starts)


@pytest.mark.slow
def test_dtypes_and_options_change_rounding_only():
    tokens = jnp.asarray(np.random.default_rng(0).integers(7, size=(LENGTH, 2)))
    base = Transformer(2, WIDTH, 2)
    params = jax.jit(as_network(over(base, 7)).init)(jax.random.key(0), tokens[0])

    def loss(base, params, rngs=None):
        module = over(base, 7)
        logits, _ = module.apply(params, None, tokens, None, rngs=rngs, method="unroll")
        assert logits.dtype == jnp.float32
        return nn.log_softmax(logits)[..., 0].mean()

    expected = jax.jit(partial(loss, base))(params)
    rounded = jax.jit(partial(loss, base.clone(dtype=jnp.bfloat16)))(params)
    assert 0 < abs(rounded - expected) < 0.02
    # Dropout needs a key; without one, nothing is dropped.
    dropping = jax.jit(partial(loss, base.clone(dropout=0.5)))
    assert_close(dropping(params), expected)
    drops = [dropping(params, {"dropout": jax.random.key(i)}) for i in (1, 1, 2)]
    assert drops[0] == drops[1] != drops[2]


def test_fast_layers_are_linens():
    x, weight = draw((4, 5, 6)), draw((4, 5, 3), 1)

    def ours(x, w, b, s):
        return (gelu(add_bias(matmul(layer_norm(x, s, s * 2), w), b)) * weight).sum()

    def theirs(x, w, b, s):
        x = nn.LayerNorm(epsilon=1e-5).apply({"params": {"scale": s, "bias": s * 2}}, x)
        return (nn.gelu(x @ w + b, approximate=False) * weight).sum()

    arguments = x, draw((6, 3), 2), draw((3,), 3), draw((6,), 4)
    assert_close(
        *(jax.jit(jax.value_and_grad(f, (0, 1, 2, 3)))(*arguments) for f in (ours, theirs))
    )


def test_embeddings_of_small_and_large_vocabularies_agree():
    tokens = jnp.array([[0, 3], [-1, 4]])
    table = draw((300, 6))
    large = TokenEmbedding(300, 6).apply({"params": {"table": table}}, tokens)
    small = TokenEmbedding(5, 6).apply({"params": {"table": table[:5]}}, tokens)
    assert_close(large, small, 0)
    np.testing.assert_array_equal(small[1, 0], 0)
    np.testing.assert_array_equal(small[0, 1], table[3])


@pytest.fixture(scope="module")
def model():
    network = as_network(over(Transformer(2, WIDTH, 2, capacity=24), 7))
    tokens = jnp.asarray(np.random.default_rng(0).integers(7, size=(2, 6)))
    return network, random_params(network, tokens[:, 0]), tokens


@pytest.mark.slow
def test_greedy_generation_is_the_likeliest_continuation(model):
    network, params, prompt = model
    drawn = jax.jit(partial(generate, network=network, length=9, temperature=0.0))(
        jax.random.key(0), params=params, prompt=prompt
    )
    assert drawn.shape == (2, 9) and drawn.dtype == jnp.int32
    text = jnp.concatenate([prompt, drawn], 1).T
    logits = jax.jit(lambda: network.unroll(params, None, text[:-1], None)[0])()
    np.testing.assert_array_equal(logits[5:].argmax(-1).T, drawn)


@pytest.mark.slow
def test_generation_draws_from_the_logits(model):
    network, params, prompt = model
    prompts = jnp.repeat(prompt[:1], 4000, 0)
    draw_one = jax.jit(partial(generate, network=network, length=1))
    drawn = draw_one(jax.random.key(1), params=params, prompt=prompts, temperature=2.0)[:, 0]
    read = jax.jit(lambda: nn.softmax(network.unroll(params, None, prompt[:1].T, None)[0] / 2.0))
    p = np.asarray(read()[-1, 0])
    shares = np.bincount(drawn, minlength=7) / 4000
    assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-9).all()
    repeated = draw_one(jax.random.key(1), params=params, prompt=prompts, temperature=2.0)[:, 0]
    np.testing.assert_array_equal(drawn, repeated)


def test_any_core_generates():
    class Model(nn.Module):
        def setup(self):
            self.core = LSTMStack((4,))
            self.head = nn.Dense(4)

        def initial_carry(self, batch):
            return LSTMStack((4,), parent=None).initial_carry(batch)

        def unroll(self, carry, inputs, starts):
            x, carry = self.core.unroll(carry, nn.one_hot(inputs, 4), starts)
            return self.head(x), carry

        def step(self, carry, inputs, start):
            x, carry = self.core.step(carry, nn.one_hot(inputs, 4), start)
            return self.head(x), carry

    network = as_network(Model())
    prompt = jnp.zeros((2, 3), jnp.int32)
    params = random_params(network, prompt[:, 0])
    drawn = jax.jit(partial(generate, network=network, length=5))(
        jax.random.key(0), params=params, prompt=prompt
    )
    assert drawn.shape == (2, 5)


@pytest.mark.parametrize(
    ("prompt", "length", "match"),
    [
        (jnp.zeros((2, 0), jnp.int32), 3, "prompt"),
        (jnp.zeros((2, 3)), 3, "prompt"),
        (jnp.zeros((2, 3), jnp.int32), 0, "length: got 0"),
        (jnp.zeros((2, 20), jnp.int32), 6, "25 tokens to be kept.*24 tokens"),
    ],
)
def test_what_cannot_be_generated(model, prompt, length, match):
    with pytest.raises(ValueError, match=match):
        generate(jax.random.key(0), model[0], model[1], prompt, length)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"width": 6}, "heads = 2"),
        ({"layers": 0}, "layers: got 0"),
        ({"window": 0}, "window: got 0"),
        ({"tokens_per_step": 2, "lead": 2}, "lead: got 2"),
        ({"tokens_per_step": 2, "capacity": 1}, "capacity: got 1"),
        ({"dropout": 1.0}, "dropout"),
        ({"implementation": "flash"}, "implementation"),
    ],
)
def test_bad_configurations_are_named(options, match):
    module = Transformer(**({"layers": 1, "width": WIDTH, "heads": 2} | options))
    shape = (1, options.get("tokens_per_step", 1), module.width)
    with pytest.raises(ValueError, match=match):
        jax.eval_shape(
            lambda: module.init(
                jax.random.key(0), None, jnp.zeros((3, *shape)), None, method="unroll"
            )  # fmt: skip
        )
    if "tokens_per_step" in options:
        with pytest.raises(ValueError, match="tokens_per_step"):
            jax.eval_shape(
                as_network(over(Transformer(1, WIDTH, 2, tokens_per_step=2))).init,
                jax.random.key(0),
                jnp.zeros(1, jnp.int32),
            )


@pytest.mark.slow
def test_vmap_over_seeds(model):
    network, params, prompt = model
    stacked = jax.tree.map(lambda p: np.stack([p, 0.5 * np.asarray(p)]), params)
    starts = jnp.zeros((6, 2), bool).at[3, 1].set(True)
    carry = network.initial_carry(2)
    unroll = jax.jit(jax.vmap(network.unroll, (0, None, None, None)))
    outputs, _ = unroll(stacked, carry, prompt.T, starts)
    single = jax.jit(network.unroll)(params, carry, prompt.T, starts)[0]
    assert_close(outputs[0], single)
    assert np.abs(outputs[1] - single).max() > 0.01


def test_one_program_whatever_the_depth():
    def lines(layers):
        network = as_network(over(Transformer(layers, WIDTH, 2), 7))
        tokens = jnp.zeros((8, 1), jnp.int32)
        params = jax.eval_shape(network.init, jax.random.key(0), tokens[0])
        loss = jax.grad(lambda p: network.unroll(p, None, tokens, None)[0].sum())
        return len(jax.jit(loss).lower(params).as_text().splitlines())

    assert lines(12) == lines(3)
