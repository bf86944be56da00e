"""Pictures pass through convolutions; everything else is flattened as it always was."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from variants import daily

import gpicljax
from gpicljax import agents, spaces
from gpicljax.networks.encoder import Encoder, is_picture
from gpicljax.networks.feedforward import dense

PICTURE = spaces.Box(0, 255, (16, 24, 3), jnp.uint8)


def apply(module, value):
    params = jax.jit(module.init)(jax.random.key(0), value)
    return params, jax.jit(module.apply)(params, value)


def test_without_a_picture_it_is_flatten():
    space = spaces.Dict.of(
        cells=spaces.Box(0, 255, (3, 3, 2), jnp.uint8), mask=spaces.Box(0, 1, (4,), bool),
        place=spaces.Discrete(5),
    )  # fmt: skip
    value = jax.vmap(space.sample)(jax.random.split(jax.random.key(1), 6))
    params, encoding = apply(Encoder(space), value)
    assert not jax.tree.leaves(params)
    np.testing.assert_array_equal(encoding, spaces.flatten(space, value))


def test_pictures_of_a_dictionary_are_encoded_each_and_the_rest_is_there():
    space = spaces.Dict.of(left=PICTURE, right=PICTURE, place=spaces.Discrete(5))
    value = jax.vmap(space.sample)(jax.random.split(jax.random.key(1), 6))
    folded = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), value)
    params, encoding = apply(Encoder(space, (4, 8), 7), folded)
    convolutions = 9 * (3 * 4 + 4 * 8) + 4 + 8
    assert sum(x.size for x in jax.tree.leaves(params)) == 2 * (convolutions + 4 * 6 * 8 * 7 + 7)
    assert encoding.shape == (2, 3, 7 + 7 + 5)
    np.testing.assert_array_equal(encoding[..., 14:], jax.nn.one_hot(folded["place"], 5))
    flat = jax.jit(Encoder(space, (4, 8), 7).apply)(params, value)
    np.testing.assert_allclose(encoding.reshape(6, -1), flat, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((7, 20, 3), jnp.uint8), ((20, 20), jnp.uint8), ((20, 20, 3), jnp.int32)]
)
def test_what_is_no_picture(shape, dtype):
    assert is_picture(PICTURE) and not is_picture(spaces.Box(0, 255, shape, dtype))


@pytest.mark.parametrize(
    "name", daily(["ppo", "r2d2"], ["ppo", "recurrent-ppo", "dqn", "r2d2", "sac"])
)
def test_a_picture_needs_less_than_a_million_and_a_half_parameters(name):
    """Tests 128 x 128 pixels, which an MLP reads with 6.3 million (a layer of 128)."""
    options = {"actions": "continuous"} if name == "sac" else {}
    env = gpicljax.make("MazeWorld-v0", size=7, resolution=(128, 128), **options)
    algorithm = agents.get_algorithm(name)
    vec = gpicljax.VectorEnv(env, 4)
    trainer = algorithm.make(algorithm.to_act(algorithm.config()), vec, algorithm.network())
    state = jax.eval_shape(trainer.init, jax.random.key(0), algorithm.hparams())
    kernels = jax.tree_util.tree_leaves_with_path(state.params)
    sizes = {jax.tree_util.keystr(path): x.size for path, x in kernels}
    assert any("picture_conv_0" in path for path in sizes)
    assert max(sizes.values()) == 8 * 8 * 64 * 256


def test_it_learns_to_see_what_lies_anywhere():
    """A cross or a ring, wherever it is: of the single pixels none says which."""
    marks = np.array([[[1, 0, 1], [0, 1, 0], [1, 0, 1]], [[0, 1, 0], [1, 0, 1], [0, 1, 0]]])

    def draw(key):
        label, row, column = jax.random.randint(key, (3,), 0, jnp.array([2, 6, 10]))
        mark = 255 * jnp.asarray(marks)[label].astype(jnp.uint8)
        blank = jnp.zeros((8, 12, 3), jnp.uint8)
        patch = jnp.broadcast_to(mark[..., None], (3, 3, 3))
        return jax.lax.dynamic_update_slice(blank, patch, (row, column, 0)), label

    small = spaces.Box(0, 255, (8, 12, 3), jnp.uint8)
    encoder, head = Encoder(small, (16,), 32), dense(2)
    optimiser = optax.adam(1e-2)

    def loss(params, pictures, labels):
        logits = head.apply(params[1], encoder.apply(params[0], pictures))
        wrong = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return wrong.mean(), (logits.argmax(-1) == labels).mean()

    @jax.jit
    def study(key):
        examples = jax.vmap(draw)(jax.random.split(key, 2))[0]
        params = encoder.init(key, examples)
        params = (params, head.init(key, encoder.apply(params, examples)))

        def update(loop, key):
            params, state = loop
            batch = jax.vmap(draw)(jax.random.split(key, 32))
            grads, right = jax.grad(loss, has_aux=True)(params, *batch)
            changes, state = optimiser.update(grads, state)
            return (optax.apply_updates(params, changes), state), right

        keys = jax.random.split(key, 80)
        return jax.lax.scan(update, (params, optimiser.init(params)), keys)[1]

    right = study(jax.random.key(0))
    assert right[:5].mean() < 0.7 and right[-20:].mean() > 0.97
