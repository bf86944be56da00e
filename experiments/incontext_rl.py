"""The old name of `in_context_rl.py`, kept for one release."""

from gpicljax.studies.registry import run_renamed

if __name__ == "__main__":
    run_renamed("incontext_rl", "in_context_rl")
