"""The tables, the figures and the summary of `gradual_learning.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve
from gpicljax.runs.metrics import throughput
from gpicljax.runtime import Report, RunResult
from gpicljax.systems.gradual_learning.figures import (
    efficiency_figure,
    prerequisites_figure,
    transfer_figure,
)
from gpicljax.systems.gradual_learning.measures.criteria import (
    CompletionTimes,
    Efficiency,
    Entrant,
    Retention,
    Transfer,
    efficiency,
    hint_gain,
    learns_gradually,
    ranking,
    retention,
    transfer,
)
from gpicljax.systems.gradual_learning.measures.streams import Streams
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    ALL,
    LOOKUP,
    REQUIRES,
    Config,
    Study,
    studies_of,
)
from gpicljax.viz import icl_figure, save_figure

SYNONYMS, HINTS = "micro19", "micro20"


def _mix(names: Sequence[str]) -> list[str]:
    """Every name once, and how often it was given."""
    return [name + f" x{n}" * (n > 1) for name, n in Counter(names).items()]


def index(studies: list[Study], kind: str, task: str = "") -> list[int]:
    """Where the streams of a study are, run by run."""
    return [i for i, one in enumerate(studies) if (one.kind, one.task) == (kind, task)]


def in_order(streams: Streams, studies: list[Study], config: Config) -> CompletionTimes:
    """The curriculum in order."""
    return streams.completion_times(index(studies, "order"), len(config.curriculum))


def alone(streams: Streams, studies: list[Study], config: Config) -> Efficiency:
    """Every task set alone, as if they were a sequence."""
    each = [
        streams.completion_times(index(studies, "alone", task), 1) for task in config.curriculum
    ]
    steps, cleared = (np.concatenate([x[i] for x in each], 1) for i in range(2))
    medians = np.median(steps, axis=0)
    return Efficiency(
        steps=medians,
        cleared=cleared.mean(0),
        relative=medians,
        tasks=efficiency(each[0]).tasks,
        total=efficiency(CompletionTimes(steps, cleared)).total,
    )


def gains(streams: Streams, studies: list[Study], config: Config) -> dict[str, Transfer]:
    """What predecessors are worth for every task set that has some in the curriculum."""
    found = {}
    for task in config.curriculum:
        if after := index(studies, "after", task):
            places = len(studies[after[0]].curriculum.tasks)
            without = streams.completion_times(index(studies, "alone", task), 1)
            found[task] = transfer(without, streams.completion_times(after, places))
    return found


def hinted(
    streams: Streams, studies: list[Study], config: Config, oracle: np.ndarray
) -> Transfer | None:
    """What hints are worth beside synonyms, where both task sets were measured, each alone.

    Args:
      streams: the agent's.
      studies: what they are of.
      config: the experiment's.
      oracle: `float[n]`, steps of an agent that knows the answers, by task set.
    """
    if not {SYNONYMS, HINTS} <= {*config.curriculum}:
        return None
    runs = [
        streams.completion_times(index(studies, "alone", task), 1) for task in (SYNONYMS, HINTS)
    ]
    places = [config.curriculum.index(task) for task in (SYNONYMS, HINTS)]
    return hint_gain(*runs, reference=(float(oracle[places[0]]), float(oracle[places[1]])))


def hints_text(gain: Transfer) -> str:
    """The gain in a sentence."""
    verdict = "a sign of having learnt to learn" if gain.gradual else "no sign beyond doubt"
    return (
        f"With hints ({HINTS}) {gain.ratio:.2f} times as fast as with synonyms alone ({SYNONYMS}), "
        "in steps of the oracle on each (medians); geometric mean "
        f"{gain.mean:.2f} [{gain.low:.2f}, {gain.high:.2f}], sign test p = {gain.p:.3f}, "
        f"not cleared: {gain.censored[0]} and {gain.censored[1]} of {gain.pairs} runs: {verdict}."
    )


def kept(streams: Streams, studies: list[Study], config: Config) -> dict[str, Retention]:
    """The targets the first time and once more, in the same streams, if these came so far."""
    count, found = len(config.curriculum), {}
    for place, task in enumerate(config.curriculum):
        if which := index(studies, "again", task):
            steps, cleared = streams.completion_times(which, count + 1)
            again = np.where(cleared, steps, config.budget)[:, count:], cleared[:, count:]
            at, there = slice(place, place + 1), cleared[:, count - 1 : count]
            first = CompletionTimes(steps[:, at], cleared[:, at] & there)
            found[task] = retention(first, CompletionTimes(*again))
    return found


def number(value: float) -> str:
    """A number of steps."""
    return f"{value:,.0f}" if np.isfinite(value) else ""


def steps_cell(agent: Efficiency, place: int) -> str:
    """Median steps; in brackets, with the share of runs that cleared it, where not all did."""
    steps, cleared = number(agent.steps[place]), agent.cleared[place]
    return steps if cleared == 1 or not steps else f"({steps}; {100 * cleared:.0f} %)"


def steps_table(agents: dict[str, Efficiency], tasks: tuple[str, ...]) -> str:
    """Task sets by agents."""
    lines = [f"| task set | {' | '.join(agents)} |", "|---" * (1 + len(agents)) + "|"]
    for place, task in enumerate(tasks):
        name = f"{task} (look-up)" if task in LOOKUP else task
        cells = [steps_cell(agent, place) for agent in agents.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def transfer_table(transfers: dict[str, Transfer]) -> str:
    """Ratios by task set."""
    lines = [
        "| task set | times faster (medians) | geometric mean [95 %] | sign test p | "
        "not cleared: alone, after | with the steps before |",
        "|---|---|---|---|---|---|",
    ]
    for task, each in transfers.items():
        lines.append(
            f"| {task} | {each.ratio:.2f} | {each.mean:.2f} [{each.low:.2f}, {each.high:.2f}] | "
            f"{each.p:.3f} | {each.censored[0]}, {each.censored[1]} of {each.pairs} | "
            f"{each.inclusive:.2f} |"
        )
    return "\n".join(lines)


def of_seeds(outcome: RunResult) -> list[Streams]:
    """What was measured, seed by seed."""
    measured = outcome.measured["streams"]
    return [
        jax.tree.map(lambda x, i=i: np.asarray(x)[i], measured)
        for i in range(outcome.config.seeds)
        if outcome.sound[i]
    ]


def joined(streams: list[Streams]) -> Streams:
    """The streams of all seeds behind one another, study by study."""
    return jax.tree.map(lambda *x: np.concatenate(x), *streams)


class Findings(NamedTuple):
    """What a run comes to, all seeds together.

    Attributes:
      agents: steps by agent, task sets in order.
      single: likewise, every task set alone.
      transfers: criterion B, by target.
      held: criterion C, by task set.
      hints: what hints are worth; None where that was not measured.
      oracle: the oracle's steps on every task set alone.
    """

    agents: dict[str, Efficiency]
    single: dict[str, Efficiency]
    transfers: dict[str, Transfer]
    held: dict[str, Retention]
    hints: Transfer | None
    oracle: np.ndarray


def findings(
    outcome: RunResult, everything: Streams, studies: list[Study], config: Config
) -> Findings:
    """Computes the criteria of the learner, and of the agents without training beside it."""
    rules, simple = outcome.host_measured, studies_of(config, "order", "alone")
    oracle, name = alone(rules["oracle"], simple, config).steps, config.learner_name
    learner = efficiency(in_order(everything, studies, config), oracle)
    return Findings(
        agents={name: learner}
        | {rule: efficiency(in_order(of, simple, config), oracle) for rule, of in rules.items()},
        single={name: alone(everything, studies, config)}
        | {rule: alone(of, simple, config) for rule, of in rules.items()},
        transfers=gains(everything, studies, config),
        held=kept(everything, studies, config),
        hints=hinted(everything, studies, config, oracle),
        oracle=oracle,
    )


def places(found: Findings, config: Config) -> str:
    """The challenge's ranking."""
    contestants = []
    for agent, each in found.agents.items():
        gradual = remembers = None
        if agent == config.learner_name:
            gradual = learns_gradually([*found.transfers.values()])
            remembers = bool(found.held) and all(x.kept.all() for x in found.held.values())
        entrant = Entrant(
            agent,
            solved=each.tasks.mean,
            steps=each.total.mean,
            gradual=gradual,
            remembers=remembers,
        )
        contestants.append(entrant)
    count = len(config.curriculum)
    return "\n".join(
        f"{place}. {one.name}: {one.solved:g} of {count} task sets in {one.steps:,.0f} steps"
        + (f"; learns gradually: {one.gradual}, forgets nothing: {one.remembers}")
        * (one.gradual is not None)
        for place, one in enumerate(ranking(contestants), 1)
    )


def introduction(outcome: RunResult, seeds: int) -> str:
    """What was taught, and how the agents were tested."""
    config, temperature = outcome.config, outcome.config.temperature
    chosen = f"actions at temperature {temperature:g}" if temperature else "most probable actions"
    return (
        f"{config.rules} rules; taught on {outcome.observations:,} steps per seed of "
        f"{', '.join(_mix(config.taught))}, {config.repeats} instances in a row of each draw; held "
        f"out whole: {', '.join(config.held_out) or 'none'}. "
        f"{config.runs} streams of at most {config.budget:,} steps for each study and seed, "
        + f"{config.rules_budget:,} for agents without training, "
        * bool(config.rules_budget)
        + f"{seeds} seed(s), weights frozen, {chosen}; {config.threshold} "
        "instances solved "
        "in a row clear a task set. Medians of steps; in brackets, where not all runs cleared it, "
        "a lower bound and the share that did. A look-up table solves the sets marked so."
    )


def sections(found: Findings, config: Config) -> list[str]:
    """The summary's tables."""
    tasks, ours = config.curriculum, found.single[config.learner_name]
    table = found.single["look-up table"]
    faster = table.steps / ours.steps
    ratios = ", ".join(
        f"{task} {'at least ' * bool(table.cleared[i] < 0.5)}{faster[i]:.1f}"
        for i, task in enumerate(tasks)
        if ours.cleared[i] >= 0.5
    )
    kept_rows = "\n".join(
        f"| {task} | {each.ratio[0]:.2f} | {'yes' if each.kept[0] else 'no'} |"
        if np.isfinite(each.ratio[0])
        else f"| {task} | no stream came so far | |"
        for task, each in found.held.items()
    )
    none = "No task set builds on another of these."
    hints = found.hints
    return [
        "## A. Steps until cleared, in order",
        "",
        steps_table(found.agents, tasks),
        "",
        "## Steps until cleared, each alone",
        "",
        steps_table(found.single, tasks),
        "",
        f"Times faster than the look-up table, alone: {ratios or 'nothing was cleared'}.",
        "",
        "## B. Gradual learning",
        "",
        transfer_table(found.transfers) if found.transfers else none,
        "",
        *([] if hints is None else ["## Hints beside synonyms", "", hints_text(hints), ""]),
        "## C. Not forgetting",
        "",
        "| task set | first / again | in no more steps |\n|---|---|---|\n" + kept_rows,
        "",
        "## The challenge's ranking",
        "",
        places(found, config),
        "",
    ]


def numbers_of(found: Findings) -> dict[str, Any]:
    """The results for `summary.json`."""
    numbers: dict[str, Any] = {
        agent: {
            "steps in order": each.steps.tolist(),
            "cleared in order": each.cleared.tolist(),
            "steps alone": found.single[agent].steps.tolist(),
            "cleared alone": found.single[agent].cleared.tolist(),
        }
        for agent, each in found.agents.items()
    }
    numbers["transfer"] = {task: vars(each) for task, each in found.transfers.items()}
    if found.hints is not None:
        numbers["hints"] = vars(found.hints)
    numbers["retention"] = {task: float(each.ratio[0]) for task, each in found.held.items()}
    return numbers


def report(outcome: RunResult) -> Report:
    """Draws the figures, and says what was found."""
    config, seeds = outcome.config, of_seeds(outcome)
    everything, studies = joined(seeds), studies_of(config, *ALL) * len(seeds)
    found = findings(outcome, everything, studies, config)
    draw(outcome, found.agents, found.oracle, found.transfers, everything, studies)
    speed = throughput(outcome.history)
    text = [
        f"# Gradual learning on streams of bytes: {config.learner_name}, preset {config.preset}",
        "",
        introduction(outcome, len(seeds)),
        "",
        *sections(found, config),
        f"Agents have {outcome.parameters:,} parameters. Training ran at "
        f"{speed:,.0f} steps/s over all seeds.",
    ]
    own = studies_of(config, *ALL)
    evaluations = [
        {"cleared": float(in_order(of, own, config).cleared.sum(1).mean())} for of in seeds
    ]
    return Report("\n".join(text), numbers_of(found) | {"steps_per_s": speed}, evaluations)


def draw(
    outcome: RunResult,
    agents: dict[str, Efficiency],
    oracle: np.ndarray,
    transfers: dict[str, Transfer],
    everything: Streams,
    studies: list[Study],
) -> None:
    """Figures A and B, the graph, and, of the targets, accuracy by the question's number."""
    config, folder = outcome.config, outcome.run.figures
    title = f"{config.learner_name}, preset {config.preset}"
    shown = {agent: each for agent, each in agents.items() if agent != "oracle"}
    figure = efficiency_figure(
        shown, config.curriculum, reference=oracle, title=f"Steps until cleared: {title}"
    )
    save_figure(figure, folder / "efficiency.png")
    if transfers:
        figure = transfer_figure(transfers, title=f"Gradual learning: {title}")
        save_figure(figure, folder / "transfer.png")
    known = {*config.curriculum}
    graph = {t: [o for o in REQUIRES[t] if o in known] for t in config.curriculum}
    save_figure(prerequisites_figure(graph), folder / "prerequisites.png")
    curves = {}
    for task in config.targets or config.curriculum:
        # The last one counts all later questions.
        right = everything.accuracy(index(studies, "alone", task), [0])[:, :-1]
        if np.isfinite(right).any(0).all():
            curves[task] = icl_curve(right, np.isfinite(right))
    if curves:
        figure = icl_figure(
            curves,
            xlabel="questions of the instance before",
            ylabel="share of right answers",
            title=f"Learning in context: {title}",
            percent=True,
            ylim=(0, 1),
        )
        save_figure(figure, folder / "icl.png")
