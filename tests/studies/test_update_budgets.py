"""Updates of studies, compiled for a GPU: how many kernels, and how often the host has to wait."""

import importlib
import re

import pytest

from gpicljax.runtime import targets
from gpicljax.studies.registry import STUDIES

BUDGETS = {
    # Kernels and data-dependent loops of an update of one seed. A data-dependent loop counts as if
    # it made one round whenever it is reached; most make none until a trial ends.
    ("gradual_learning", ""): (9_035, 0),
    ("in_context_control", ""): (113_592, 0),
    ("in_context_rl_train", ""): (181_955, 201),
    ("in_context_rl_train", "--family lakes --learner dpt-planning"): (264_456, 1_206),
    ("maze_world", ""): (14_545, 6),
    ("maze_world", "--preset cpu-7x7"): (2_330, 5),
    ("maze_world_autoencoder", ""): (484, 0),
    ("meta_language", ""): (3_624, 0),
    ("meta_rg", ""): (3_132, 0),
    ("meta_rg_players", ""): (181, 1),
    ("meta_rg_players", "--preset cpu-memory"): (7_958, 1),
    ("meta_rg_players", "--preset vdn-sad"): (3_615, 0),
    ("one_learner", ""): (1_337_834, 1_729),
    ("recall", ""): (4_238, 0),
    ("train_agent", ""): (2_141, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("study", "flags"), BUDGETS)
def test_an_update_of_a_study_stays_within_its_kernels_and_loops(study, flags, capsys):
    try:
        targets.target("h100")
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    main = importlib.import_module(f"{STUDIES[study]}.program").main
    main([*flags.split(), "--seeds=1", "--dry-run", "--target=h100", "--no-progress"])
    printed = capsys.readouterr().out
    counts = [
        int(re.search(rf"{line}: ([\d,]+)", printed)[1].replace(",", ""))
        for line in ("kernels", "data-dependent loops")
    ]
    print(f"\n{study} {flags}: {counts[0]:,} kernels, {counts[1]:,} data-dependent loops")
    most = BUDGETS[study, flags]
    assert counts[0] <= 1.02 * most[0]
    assert counts[1] <= most[1]
