"""The studies by name, and the one that belongs to no system: `train_agent`.

`gpicljax run NAME` and the scripts in `experiments/` call the `main` of a study's `program`.
"""

from gpicljax.studies.registry import STUDIES, run_study, study_summary

__all__ = ["STUDIES", "run_study", "study_summary"]
