"""Which results pages are older than the code that made them: `python docs/ages.py` lists them."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "experiments/results"
LEARNERS = {
    "compiled_for_accelerators": (
        "sequence",
        "causal_model",
        "causal_losses",
        "autoencoder",
        "r2d2",
    ),
    "fetch": ("td3",),
    "gradual_learning": ("sequence", "ppo"),
    "in_context_control": ("ppo",),
    "in_context_learning": ("sequence", "causal_model", "causal_losses", "r2d2", "cloning", "ppo"),
    "in_context_rl": ("ppo", "tabular", "bandits"),
    "maze_world": ("causal_model", "causal_losses", "autoencoder"),
    "mental_modelling": ("ppo", "dqn", "sac", "causal_model", "causal_losses"),
    "meta_language": ("sequence",),
    "meta_rg": ("r2d2", "sequence"),
    "one_learner": ("sequence", "symbol_lessons", "symbol_model"),
    "recall": ("r2d2",),
    "train_agent": ("ppo", "dqn", "td3", "sac"),
}
"""What begins the names of a study's pages, and the agents that they measure."""
ELSEWHERE = {
    "in_context_learning": "gpicljax/systems",
    "compiled_for_accelerators": "gpicljax/systems",
    "fetch": "gpicljax/envs/fetch",
    "in_context_control": "gpicljax/systems/in_context_rl",
    "one_learner": "gpicljax/symbols.py",
    "recall": "gpicljax/systems/meta_rg",
    "train_agent": "gpicljax/envs",
}


def code(page):
    """The paths, relative to the root, of the code that a page measures."""
    study = next(name for name in LEARNERS if page.stem.startswith(name))
    system = ELSEWHERE.get(study, f"gpicljax/systems/{study}")
    return [system, *(f"gpicljax/agents/{agent}.py" for agent in LEARNERS[study])]


def _git(root, *arguments):
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return None
    return done.stdout if done.returncode == 0 else None


def status(text, paths, root=ROOT):
    """What is to be known of a page's age, in a sentence; "" if no code has changed since.

    Args:
      text: the page. Of several commits the oldest counts.
      paths: of its code.
      root: of the checkout.
    """
    named = re.findall(r"\bcommits?:? `?([0-9a-f]{7,40})\b", text)
    if not named:
        return "This page names no commit: its code may have changed since."
    counts = [
        _git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *paths) for commit in named
    ]
    known = [int(count) for count in counts if count is not None]
    if not known:
        return "The history here does not have this page's commit: its code may have changed since."
    most = max(known)
    changes = "one commit has" if most == 1 else f"{most} commits have"
    measured = "the oldest measurement on this page" if len(set(named)) > 1 else "this measurement"
    return f"Since {measured}, {changes} changed its code." if most else ""


def main():
    """Prints a line for each page that is older than its code."""
    for page in sorted((ROOT / RESULTS).glob("*.md")):
        if found := status(page.read_text(), code(page)):
            print(f"{page.relative_to(ROOT)}: {found}")


if __name__ == "__main__":
    main()
