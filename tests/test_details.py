"""Details of functions that other tests reach only through what uses them."""

import numpy as np
import pytest

from gpicljax import checks, registration
from gpicljax.evaluation.statistics import as_samples, t_quantile
from gpicljax.runtime.compile_update import collectives_in_words, memory_in_words
from gpicljax.runtime.compiled import Block, Collective
from gpicljax.runtime.targets import CompiledReport, Target
from gpicljax.storage.manifest import digest_of
from gpicljax.storage.patience import Patience, in_a_line
from gpicljax.systems.maze_world.env import distribution


def test_collectives_and_memory_in_words():
    sums = [Collective("all-reduce", 2**20), Collective("all-reduce", 2**19)]
    words = "2 all-reduce of 1.50 MiB; 1 all-gather of 8 B in a loop of 40 rounds"
    assert collectives_in_words([*sums, Collective("all-gather", 8, (40,))]) == words
    chip = Target("h100", "cuda", (), 80 * 2**30, 60 * 2**30)
    words = memory_in_words(CompiledReport(2**30, 2**29, Block({})), chip)
    assert words.startswith("fits: 1.50 GiB (1.00 GiB kept, 512 MiB temporary) of the 60.0 GiB")


def test_quantiles_of_student_s_distribution():
    assert t_quantile(0.95, [1, 5, 1000]).round(2).tolist() == [12.71, 2.57, 1.96]


def test_an_environment_s_module_is_that_of_its_factory_or_the_one_named():
    assert registration.module_of("Pendulum-v1") == "gpicljax.envs.pendulum"
    assert registration.module_of("mypackage.envs:Pond-v0") == "mypackage.envs"


def test_patience_ends_at_its_number_of_failures():
    patience = Patience(failures=2, seconds=0.0)
    assert [patience.fails(), patience.fails()] == [False, True]
    assert in_a_line(OSError("No space left\nTraceback ...")) == "OSError: No space left"


def test_a_digest_is_of_the_file_s_bytes(tmp_path):
    (tmp_path / "notes.txt").write_text("all is well")
    assert digest_of(tmp_path / "notes.txt").startswith("f70579cc")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: as_samples([94.1], "samples", minimum=2),
            r"samples: got float64\[1\]; accepted: float\[N\] with N of at least 2",
        ),
        (
            lambda: checks.check_array(False, "steps", np.zeros(1), "float[T], T >= 2"),
            r"steps: got float64\[1\]; accepted: float\[T\], T >= 2",
        ),
        (
            lambda: checks.check_at_least(1, num_envs=4, group=0),
            "group: got 0; accepted: an integer >= 1",
        ),
        (
            lambda: distribution.check(
                distribution.default_params(15, 10), size=9, max_landmarks=10, continuous=False
            ),
            r"size: got 15; accepted: odd, 7 .. 9; make\(..., size=...\) raises the cap",
        ),
    ],
)
def test_refusals_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_number_of_choices_of_the_byte_streams_is_held_out():
    from gpicljax.systems.gradual_learning.env.composition import second_operands

    held = [int(second_operands(part)[1][0].sum()) for part in ("train", "test")]
    assert held == [24, 12]  # of 6 times 6
