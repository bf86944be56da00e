"""Causal attention: against all scores at once, in every shape; its memory; its cost by tiles."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpicljax.networks import attention
from gpicljax.networks.attention import earliest_keys, trial_positions
from gpicljax.networks.tiled_attention import _exp2

# Against a plain softmax on unit-normal inputs, all in float32.
OUTPUT, GRADIENT = 3e-6, 2e-5


def draw(shape, dtype=jnp.float32, scale=1.0, seed=0):
    """Queries, keys, values, and what the output is multiplied with for a gradient."""
    rng = np.random.default_rng(seed)
    return [jnp.asarray(scale * rng.normal(size=shape), dtype) for _ in range(4)]


def visible_keys(length, window=None, tokens_per_step=1, starts=None):
    """Returns the keys that each query may see, by the definition; `bool[B or 1, T, T]`."""
    mask = np.tri(length, dtype=bool)[None]
    step = np.arange(length) // tokens_per_step
    if window is not None:
        mask = mask & (step[:, None] - step < window)
    if starts is not None:
        trial = np.repeat(np.cumsum(starts, axis=0), tokens_per_step, axis=0).T
        mask = mask & (trial[:, :, None] == trial[:, None])
    return mask


def plain(q, k, v, mask, weight=None):
    """A softmax over all scores in float64; with weights, the gradients of the sum instead."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    score = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    score = np.where(mask[:, None], score, -np.inf)
    p = np.exp(score - score.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    if weight is None:
        return np.einsum("bhqk,bkhd->bqhd", p, v)
    weight = np.asarray(weight, np.float64)
    dp = np.einsum("bqhd,bkhd->bhqk", weight, v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dq, dk = np.einsum("bhqk,bkhd->bqhd", ds, k), np.einsum("bhqk,bqhd->bkhd", ds, q)
    return dq, dk, np.einsum("bhqk,bqhd->bkhd", p, weight)


def causal_attention(q, k, v, **options):
    """Attention of arrays `[B, T, H, d]`."""
    q, k, v = (x.transpose(0, 2, 3, 1) for x in (q, k, v))
    return attention.causal_attention(q, k, v, **options).transpose(0, 3, 1, 2)


def attend(q, k, v, **options):
    return jax.jit(partial(causal_attention, **options))(q, k, v)


def compare(inputs, mask, output=OUTPUT, gradient=GRADIENT, **options):
    """Output and gradients of `causal_attention` against a plain softmax's."""
    q, k, v, weight = inputs

    def both(q, k, v):
        out, pull = jax.vjp(partial(causal_attention, **options), q, k, v)
        return out, pull(weight)

    out, gradients = jax.jit(both)(q, k, v)
    np.testing.assert_allclose(out, plain(q, k, v, mask), atol=output, rtol=output)
    for actual, expected in zip(gradients, plain(q, k, v, mask, weight), strict=True):
        np.testing.assert_allclose(actual, expected, atol=gradient, rtol=gradient)
    return out, gradients


@pytest.mark.parametrize("shape", [(1, 1, 1, 4), (2, 7, 3, 6), (3, 130, 3, 8), (2, 256, 4, 16)])
def test_equals_a_plain_softmax(shape):
    compare(draw(shape), visible_keys(shape[1]))


@pytest.mark.parametrize(
    ("length", "window", "tokens_per_step"),
    [(40, 1, 1), (151, 5, 2), (700, 300, 2)],
)
def test_windows_are_counted_in_steps(length, window, tokens_per_step):
    compare(
        draw((2, length, 2, 8)),
        visible_keys(length, window, tokens_per_step),
        window=window,
        tokens_per_step=tokens_per_step,
    )


@pytest.mark.parametrize(("window", "tokens_per_step"), [(None, 1), (20, 1), (9, 2), (300, 2)])
def test_nobody_attends_across_a_start(window, tokens_per_step):
    starts = np.random.default_rng(3).random((330, 2)) < 0.02
    starts[:, 1] = False
    starts[[100, 128, 129], 1] = True
    length = 330 * tokens_per_step
    compare(
        draw((2, length, 2, 8)),
        visible_keys(length, window, tokens_per_step, starts),
        window=window,
        tokens_per_step=tokens_per_step,
        starts=jnp.asarray(starts),
    )


def test_a_start_hides_what_is_before_entirely():
    q, k, v, _ = draw((1, 200, 1, 8))
    starts = jnp.zeros((200, 1), bool).at[150].set(True)
    out = attend(q, k, v.at[:, :150].multiply(1e30), starts=starts)
    expected = plain(q[:, 150:], k[:, 150:], v[:, 150:], visible_keys(50))
    np.testing.assert_allclose(out[:, 150:], expected, atol=OUTPUT)


@pytest.mark.parametrize("window", [None, 5, 200])
def test_more_keys_than_queries(window):
    # As with a cache: the last queries of a longer sequence.
    q, k, v, _ = draw((2, 333, 2, 8))
    whole = plain(q, k, v, visible_keys(333, window))
    for last in (1, 150):
        out = attend(q[:, -last:], k, v, window=window)
        np.testing.assert_allclose(out, whole[:, -last:], atol=OUTPUT)


def test_positions_in_trials():
    starts = jnp.array([[0, 1], [0, 0], [1, 0], [0, 1]], bool)
    expected = [[0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 0, 1]]
    positions = trial_positions(starts, 2)
    assert positions.dtype == jnp.int32
    np.testing.assert_array_equal(positions, expected)
    first = [[0, 0, 0, 0, 4, 4, 4, 4], [0, 0, 0, 0, 2, 2, 6, 6]]
    np.testing.assert_array_equal(earliest_keys(positions, 2, 2), first)


@pytest.mark.parametrize("scale", [3.0, 100.0])
def test_large_inputs_do_not_overflow(scale):
    # At 100, the scores span +-1e5: the softmax is a maximum nearly everywhere.
    inputs = draw((1, 260, 2, 16), scale=scale)
    inputs[3] = inputs[3] / scale
    tolerance = 2e-5 * scale * scale
    compare(inputs, visible_keys(260), 2e-5 * scale, tolerance)


def test_scores_far_below_zero():
    # All scores at -5000: only their differences matter.
    q, k, v, _ = draw((1, 200, 1, 16))
    q, k = q.at[..., 0].set(1000.0), k.at[..., 0].set(-20.0)
    np.testing.assert_allclose(attend(q, k, v), plain(q, k, v, visible_keys(200)), atol=2e-3)


def test_half_precision():
    q, k, v, weight = draw((2, 200, 2, 16), jnp.bfloat16)
    mask = visible_keys(200)
    # Computed in float32: only results are rounded, to 8 bits.
    out, gradients = compare((q, k, v, weight), mask, 2**-8, 2**-8)
    assert {out.dtype, *(g.dtype for g in gradients)} == {jnp.dtype(jnp.bfloat16)}


def test_double_precision():
    with jax.enable_x64(True):
        inputs = draw((2, 150, 2, 8), jnp.float64)
        starts = jnp.zeros((150, 2), bool).at[70, 1].set(True)
        mask = visible_keys(150, 100, 1, np.asarray(starts))
        out, _ = compare(inputs, mask, 1e-12, 1e-12, starts=starts, window=100)
        assert out.dtype == jnp.float64
        np.testing.assert_allclose(
            attend(*inputs[:3], starts=starts, window=100, implementation="xla"), out, atol=1e-12
        )


def test_vmap_and_checkpoint():
    q, k, v, weight = (x.reshape(3, 2, 140, 2, 8) for x in draw((6, 140, 2, 8)))
    starts = jnp.asarray(np.random.default_rng(1).random((3, 140, 2)) < 0.03)

    def loss(q, k, v, weight, starts):
        return (causal_attention(q, k, v, starts=starts) * weight).sum()

    gradient = jax.grad(loss, (0, 1, 2))
    batched = jax.jit(jax.vmap(gradient))(q, k, v, weight, starts)
    checkpointed = jax.grad(jax.checkpoint(loss), (0, 1, 2))
    single = jax.jit(checkpointed)(*(x[1] for x in (q, k, v, weight, starts)))
    for a, b in zip(batched, single, strict=True):
        np.testing.assert_allclose(a[1], b, atol=GRADIENT)
    for i in (0, 2):
        mask = visible_keys(140, starts=np.asarray(starts[i]))
        expected = plain(q[i], k[i], v[i], mask, weight[i])
        for a, b in zip(batched, expected, strict=True):
            np.testing.assert_allclose(a[i], b, atol=GRADIENT)


def equations(jaxpr):
    """(name, shapes of the results) of all equations, also of inner functions, on a CPU.

    A loop comes as "while condition" with the shapes within its condition.
    """
    for equation in jaxpr.eqns:
        yield equation.primitive.name, [x.aval.shape for x in equation.outvars]
        if equation.primitive.name == "while":
            inner = equation.params["cond_jaxpr"].jaxpr.eqns
            yield "while condition", [x.aval.shape for e in inner for x in e.outvars]
        params = dict(equation.params)
        if platforms := params.get("branches_platforms"):
            params["branches"] = params["branches"][platforms.index(("cpu",))]
        for value in jax.tree.leaves(list(params.values())):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def test_batched_loops_keep_scalar_bounds():
    # With bounds of its own for every member of the batch, `vmap` would copy all state per round.
    q, k, v, _ = (x.reshape(3, 1, 300, 1, 8) for x in draw((3, 300, 1, 8)))
    starts = jnp.zeros((3, 300, 1), bool)
    batched = jax.make_jaxpr(jax.vmap(lambda *x: causal_attention(*x[:3], starts=x[3])))
    loops = [e for e in equations(batched(q, k, v, starts).jaxpr) if e[0] == "while condition"]
    assert len(loops) == 3  # over tiles of queries; over masked and clear tiles of keys
    assert all(shape == () for _, shapes in loops for shape in shapes)


def test_sharded_over_the_batch():
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("data")
    inputs = draw((2, 140, 2, 8))[:3]
    mapped = jax.shard_map(
        causal_attention, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec, check_vma=False
    )
    sharded = jax.device_put(inputs, jax.sharding.NamedSharding(mesh, spec))
    expected = plain(*inputs, visible_keys(140))
    np.testing.assert_allclose(jax.jit(mapped)(*sharded), expected, atol=OUTPUT)
    np.testing.assert_allclose(jax.jit(causal_attention)(*sharded), expected, atol=OUTPUT)


@pytest.mark.parametrize("window", [None, 256])
def test_memory_grows_with_the_length_only(window):
    def temporary_mib(length):
        shape = jax.ShapeDtypeStruct((1, length, 4, 16), jnp.float32)

        def loss(q, k, v):
            return causal_attention(q, k, v, window=window).sum()

        program = jax.jit(jax.grad(loss, (0, 1, 2))).lower(shape, shape, shape).compile()
        return program.memory_analysis().temp_size_in_bytes / 2**20

    # One head's scores alone would be 64 MiB; one array of queries is 1 MiB. Matrix products of a
    # GPU take a constant 32 MiB beside them.
    long = temporary_mib(4096)
    assert long - temporary_mib(2048) < 12
    assert jax.default_backend() != "cpu" or long < 16


def test_a_window_costs_a_window():
    """Scores that are computed: of one tile of 256 - 1 + 64 keys per 64 queries, no more."""
    shape = jax.ShapeDtypeStruct((1, 4096, 4, 16), jnp.float32)
    attend = jax.make_jaxpr(lambda *x: causal_attention(*x, window=256))
    products = [e for e in equations(attend(shape, shape, shape).jaxpr) if "dot" in str(e[0])]
    assert [shapes[0] for _, shapes in products] == [(4, 320, 64), (4, 16, 64)]


def test_exp2_is_accurate_and_ends_at_zero():
    x = np.linspace(-126, 100, 200_001).astype(np.float32)
    exact = np.exp2(x.astype(np.float64))
    assert np.abs(np.asarray(jax.jit(_exp2)(x)) / exact - 1).max() < 3e-7
    np.testing.assert_array_equal(_exp2(jnp.array([-1e30, -127.0, -3e38])), 0)
    assert _exp2(jnp.zeros(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("implementation", ["auto", "tiled", "xla"])
def test_implementations_agree(implementation):
    q, k, v, _ = draw((2, 100, 2, 8))
    starts = jnp.zeros((100, 2), bool).at[40, 0].set(True)
    out = attend(q, k, v, starts=starts, window=50, implementation=implementation)
    expected = plain(q, k, v, visible_keys(100, 50, 1, np.asarray(starts)))
    np.testing.assert_allclose(out, expected, atol=OUTPUT)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"implementation": "flash"}, "implementation: got 'flash'"),
        ({"implementation": "cudnn"}, "implementation: got 'cudnn"),
        ({"window": 0}, "window: got 0"),
        ({"tokens_per_step": 0}, "tokens_per_step: got 0"),
        ({"starts": jnp.zeros((3, 2), bool)}, "starts"),
        ({"starts": jnp.zeros((10, 2), bool), "first": jnp.zeros((2, 10), int)}, "starts"),
        ({"first": jnp.zeros((2, 9), jnp.int32)}, "first"),
        ({"k": jnp.zeros((2, 2, 4, 9)), "v": jnp.zeros((2, 2, 4, 9))}, "k, v"),
        ({"v": jnp.zeros((2, 2, 8, 10))}, "k, v"),
        ({"v": jnp.zeros((2, 2, 4, 10), jnp.bfloat16)}, "one float type"),
        ({"q": jnp.zeros((2, 4, 10))}, r"\[B, H, d, T\]"),
    ],
)
def test_what_does_not_fit_is_named(options, match):
    arrays = {name: jnp.zeros((2, 2, 4, 10)) for name in "qkv"}
    with pytest.raises(ValueError, match=match):
        attention.causal_attention(**(arrays | options))
