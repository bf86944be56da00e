"""A test of `slippery_lakes.py`: `pytest test_slippery_lakes.py`."""

from slippery_lakes import main

SIZES = ["--seeds", "2", "--observations", "1024", "--log-lines", "2", "--evaluation-episodes", "8"]


def test_the_study_runs_to_its_end(tmp_path):
    result = main([*SIZES, "--no-progress", "--runs-dir", str(tmp_path)])
    assert result is not None  # a dry run has no result
    assert result.measured["arrivals"].shape == (6, 8)  # cells times seeds, episodes
    assert (result.run.path / "summary.md").exists()
