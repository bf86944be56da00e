"""Linear probes of a maze in a model's activations."""

import numpy as np

from gpicljax.systems.maze_world.measures.probes import ProbeSamples, probe_errors, probe_table

MAZES, MOMENTS = 40, 12


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=(MAZES, MOMENTS, *shape))


def test_a_probe_reads_linear_functions_alone():
    features = draw(0, 5)
    linear = features @ draw(1, 5)[0, 0] + 3.0
    targets = np.stack([linear, draw(2)], axis=-1)
    only_linear = np.broadcast_to([True, False], targets.shape)
    probe, constant = probe_errors(features, targets, only_linear)
    assert probe.shape == constant.shape == (MAZES // 2,)
    assert probe.mean() < 0.01 * constant.mean()
    probe, constant = probe_errors(features, targets, ~only_linear)
    assert probe.mean() > 0.9 * constant.mean()


def test_mazes_in_which_nothing_counts_have_no_error():
    features, targets = draw(0, 2), draw(1, 3)
    counts = np.ones(targets.shape, bool)
    counts[-1] = False
    errors = np.array(probe_errors(features, targets, counts))
    assert np.isnan(errors[:, -1]).all() and np.isfinite(errors[:, :-1]).all()


def test_the_table_compares_activations_with_the_last_picture():
    activations, latent = draw(0, 4)[None], draw(1, 4)[None]
    samples = ProbeSamples(
        activations,
        latent,
        walls=(activations[..., :1] > 0).astype(float),
        landmarks=activations[..., 1:3],
        counts=np.ones((1, MAZES, MOMENTS, 3), bool),
    )
    lines = probe_table({"model": samples}).splitlines()
    names = [line.split("|")[1].strip() for line in lines[2:]]
    assert names == ["constants", "the last picture", "model"]
    picture, model = ([float(line.split("|")[i].split()[0]) for i in (2, 4)] for line in lines[3:])
    assert model[0] < 0.6 * picture[0] and model[1] < 0.01
