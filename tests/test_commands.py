"""Every command of README and manual: what comes out is what the page says.

Those that take minutes are run (`-m slow`) and their outcome is compared with the least that the
page's claim needs. The others are listed with the reason why they are not.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "manual").glob("*.md"))]


def commands(page):
    """The shell commands of a page, without comments, one line each."""
    for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = " ".join(line.split(" #")[0].split())
            if words and not words.startswith("#"):
                yield words


EVERY = list(dict.fromkeys(words for page in PAGES for words in commands(page)))


def mean_return(results):
    return results["return"]["mean"]


def over_random(results):
    """The mean return, less that of random actions on the same tasks."""
    return results["return"]["mean"] - results["random"]["mean"]


def over_thompson(results):
    return results["return"]["mean"] - results["thompson"]["mean"]


def bound_words(results):
    """Query accuracy of greedy listeners in the first cell."""
    return next(iter(results.values()))["greedy"]["query by game"]["mean"]


def understood(results):
    return next(iter(results.values()))["greedy"]["mean"]


def second_shot_accuracy(results):
    return min(results["greedy"]["second shot"])


def worth_of_memory(results):
    """Recall with its memory, less that of an agent which forgets every game."""
    return min(results["greedy"]["second shot"]) - max(
        results["memory cleared every game"]["second shot"]
    )


def score(row):
    return lambda results: results[row]["score"]


BANDIT = "python experiments/train_agent.py --env BernoulliBandit-v0 --env-options num_arms="
# Beginnings of commands that are run: what to read from the summary, and the least that it is.
OUTCOMES = {
    "python experiments/meta_rg.py --seeds 6": (bound_words, 0.95),
    "python experiments/train_agent.py --env LunarLander-v3 --seeds 3": (mean_return, 200.0),
    f"{BANDIT}2 ": (over_thompson, -0.2),
    f"{BANDIT}3 ": (over_random, 0.5),
    "python experiments/recall.py --stimulus ohe": (second_shot_accuracy, 0.95),
    "python experiments/recall.py --stimulus scs": (worth_of_memory, -0.05),
    "python experiments/meta_rg_players.py --preset straight-through": (understood, 0.6),
    "python experiments/in_context_rl_train.py --family lakes --learner rl2": (
        score("lakes: **rl2**"),
        0.5,
    ),
}
DRY = re.compile(r" --dry-run$")
# Beginnings of commands that are not run here, and why.
NOT_RUN = {
    "python3 -m venv": "continuous integration runs the two set-up commands",
    "pip install": "installs",
    "inspect eval": "asks a language model behind a paid or local endpoint",
    "LOCAL_BASE_URL=": "asks a language model behind a local endpoint",
    "gpicljax compile": "takes minutes; tests/runtime compiles smaller programs",
    "gpicljax serve": "waits for a learner; tests/serve plays it",
    "gpicljax play": "waits for keys; tests/test_play.py presses them",
    "gpicljax watch": "tests/test_play.py watches agents",
    "gpicljax run meta_rg --seeds 6": "the same as python experiments/meta_rg.py --seeds 6",
    "gpicljax runs": "tests/runs/test_run_command.py reads stored runs",
    "gpicljax profile": "tests/runs/test_profile.py reads records",
    "export JAX_": "of two processes; tests/runtime/test_runtime_distributed.py starts them",
    "JAX_PROCESS_ID=": "likewise",
    "export XLA_": "needs a GPU, as do the others of its block",
    "nvidia-cuda-mps-control": "likewise",
    "python experiments/in_context_rl_train.py --family key-to-door": "likewise",
    "python experiments/in_context_rl_train.py --family lakes-anywhere": "likewise",
    "wait": "likewise",
    "echo quit": "likewise",
    "srun": "needs a cluster",
    "code=": "of a cluster's script",
    "if [": "of a cluster's script",
    "exit": "of a cluster's script",
    "python experiments/mental_modelling.py --llm": "asks a language model",
    "python experiments/mental_modelling.py": "an hour; a results page has its outcome",
    "python experiments/gradual_learning_lifelong.py": "tests/systems/gradual_learning lives some",
    "python experiments/gradual_learning_online.py": "tests/systems/gradual_learning plays some",
    "python experiments/gradual_learning.py": "an hour and more; results pages have the outcomes",
    "python experiments/one_learner.py": "half an hour and more; a results page has the outcome",
    "python experiments/maze_world.py": "half an hour and more; results pages have the outcomes",
    "python experiments/maze_world_data.py --out": "tests/systems/maze_world collects a small set",
    "python experiments/meta_language.py": "half an hour and more; results pages have the outcomes",
    "python experiments/meta_rg.py --preset cpu-events": "minutes; a results page",
    "python experiments/meta_rg.py --preset cpu-sections": "an hour; a results page",
    "python experiments/meta_rg_players.py --preset cpu-memory": "an hour; a results page",
    "python experiments/meta_rg.py --preset cpu-lstm-v0": "an hour; a results page has its outcome",
    "python experiments/meta_rg_players.py": "an hour; results pages have the outcomes",
    "python experiments/in_context_rl_histories.py": "tests/systems/in_context_rl collects some",
    "python experiments/in_context_rl_bias.py": "tests/systems/in_context_rl asks a fake",
    "python experiments/in_context_control.py": "ten minutes and more; a results page",
    "python experiments/in_context_rl_train.py --family dark-room": "an hour; a test learns less",
    "python experiments/in_context_rl.py": "half an hour; a results page has its outcome",
}


def prefix(words):
    """The longest beginning of a command that is listed; None without one."""
    beginnings = [start for start in [*OUTCOMES, *NOT_RUN] if words.startswith(start)]
    return max(beginnings, key=len, default=None)


def test_every_command_is_run_or_left_out_for_a_reason():
    assert [words for words in EVERY if not DRY.search(words) and prefix(words) is None] == []
    used = {prefix(words) for words in EVERY}
    assert [start for start in [*OUTCOMES, *NOT_RUN] if start not in used] == []


def run(words, folder):
    _, script, *flags = shlex.split(words)
    command = [sys.executable, str(ROOT / script), *flags, f"--runs-dir={folder}", "--no-progress"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


RUN = [words for words in EVERY if not DRY.search(words) and prefix(words) in OUTCOMES]


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN, ids=[words[19:99] for words in RUN])
def test_commands_come_out_as_the_page_says(words, tmp_path):
    run(words, tmp_path)
    (summary,) = tmp_path.glob("*/*/summary.json")
    read, least = OUTCOMES[prefix(words)]
    assert read(json.loads(summary.read_text())["results"]) >= least


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in EVERY if DRY.search(words)])
def test_dry_runs_of_the_paper_s_sizes_say_what_they_take(words, tmp_path):
    output = run(words, tmp_path)
    assert "dry run of" in output and not [*tmp_path.iterdir()]
