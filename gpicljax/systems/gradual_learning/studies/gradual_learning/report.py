"""The tables, the figures and the summary of `gradual_learning.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve
from gpicljax.evaluation.records import ICLRecord, icl_record, reached_length
from gpicljax.evaluation.statistics import mean_interval
from gpicljax.evaluation.tables import join_paragraphs, markdown_table
from gpicljax.runtime import Report, RunResult
from gpicljax.storage.atomic import write_atomically
from gpicljax.systems.gradual_learning.env.permutation import PERMUTATIONS
from gpicljax.systems.gradual_learning.figures import (
    efficiency_figure,
    prerequisites_figure,
    transfer_figure,
)
from gpicljax.systems.gradual_learning.figures.stream_page import stream_page
from gpicljax.systems.gradual_learning.measures.criteria import (
    MARGIN,
    Efficiency,
    Retention,
    Transfer,
)
from gpicljax.systems.gradual_learning.measures.played_studies import (
    ALL_KINDS,
    HINTS,
    REQUIRES,
    SIMPLE_KINDS,
    SYNONYMS,
    WIPED,
    Findings,
    Plan,
    PlayedStudies,
    compute_findings,
)
from gpicljax.systems.gradual_learning.measures.streams import Streams
from gpicljax.systems.gradual_learning.studies.gradual_learning.config import (
    LOOKUP,
    NULL,
    Config,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.elsewhere import elsewhere_section
from gpicljax.viz import icl_figure, save_figure


def _count_names(names: Sequence[str]) -> list[str]:
    """Returns every name once, with its count."""
    return [name + f" x{n}" * (n > 1) for name, n in Counter(names).items()]


def hints_text(gain: Transfer) -> str:
    """Returns the gain in a sentence."""
    verdict = "a sign of having learnt to learn" if gain.gradual else "no sign beyond doubt"
    return (
        f"With hints ({HINTS}) {gain.ratio:.2f} times as fast as with synonyms alone ({SYNONYMS}), "
        "in steps of the oracle on each (medians); geometric mean "
        f"{gain.interval}, sign test p = {gain.p:.3f}, "
        f"not cleared: {gain.censored[0]} and {gain.censored[1]} of {gain.pairs} runs: {verdict}."
    )


def steps_cell(agent: Efficiency, place: int) -> str:
    """Formats median steps; in brackets, with the share of runs that cleared it, if not all did."""
    steps, cleared = agent.steps[place], agent.cleared[place]
    if not np.isfinite(steps):
        return ""
    return f"{steps:,.0f}" if cleared == 1 else f"({steps:,.0f}; {100 * cleared:.0f} %)"


def steps_table(agents: dict[str, Efficiency], tasks: tuple[str, ...]) -> str:
    """Returns a table of task sets by agents."""
    names = [f"{task} (look-up)" if task in LOOKUP else task for task in tasks]
    rows = [[name, *(steps_cell(x, i) for x in agents.values())] for i, name in enumerate(names)]
    return markdown_table(["task set", *agents], rows)


def questions_table(played: dict[str, PlayedStudies], tasks: Sequence[str]) -> str:
    """Returns the shares of right answers to the first questions, means over streams, in %."""
    rows = []
    for task in tasks:
        shares = [agent.accuracy_alone(task) for agent in played.values()]
        for question in (1, 2, 3, 10):
            kept = (share[np.isfinite(share)] for share in (x[:, question - 1] for x in shares))
            cells = (mean_interval(x).percent if x.size else "" for x in kept)
            rows.append([task, question, *cells])
    return markdown_table(["task set", "question", *played], rows)


def transfer_table(transfers: dict[str, Transfer], names: tuple[str, str]) -> str:
    """Returns ratios by task set; `names` are of the slower runs, and of the faster ones."""
    head = ["task set", "times faster (medians)", "geometric mean [95 %]", "sign test p"]
    rows = [
        [task, f"{gain.ratio:.2f}", gain.interval, f"{gain.p:.3f}", gain.not_cleared]
        for task, gain in transfers.items()
    ]
    return markdown_table([*head, f"not cleared: {', '.join(names)}"], rows)


def orders_text(transfers: dict[str, Transfer], plan: Plan) -> str:
    """Returns in how many orders the predecessors came."""
    after = plan.studies("after")
    counts = {
        task: len({study.curriculum.tasks for study in after if study.task == task})
        for task in transfers
    }
    return "Orders of the predecessors: " + ", ".join(f"{t} {n}" for t, n in counts.items()) + "."


def retention_table(retentions: dict[str, Retention]) -> str:
    """Returns criterion C by task set."""
    head = ["task set", "first / again, geometric mean [95 %]", "runs", "not cleared again", "kept"]
    rows = []
    for task, retained in retentions.items():
        verdict = "yes" if retained.is_retained else "no" if retained.is_forgotten else "undecided"
        none = [task, "", 0, "", "not measured: no run cleared it"]
        measured = [task, retained.interval, retained.pairs, retained.lost, verdict]
        rows.append(measured if retained.pairs else none)
    return markdown_table(head, rows)


def measured_by_seed(outcome: RunResult, measure: str = "streams") -> list[dict[str, Any]]:
    """Returns the measurements, by agent, seed by seed."""
    measured = outcome.measured.get(measure, {})
    return [
        jax.tree.map(lambda x, i=i: np.asarray(x)[i], measured)
        for i in range(outcome.config.seeds)
        if outcome.sound[i]
    ]


def played_studies(
    streams: dict[str, Streams], config: Config, seeds: int
) -> dict[str, PlayedStudies]:
    """Returns the streams of every agent, of so many seeds, with their studies."""
    plan, whole = config.plan, (config.learner_name, NULL)
    names = (config.learner_name, *config.nulls, "knows the tasks", "oracle")
    return {
        agent: PlayedStudies(
            streams[agent],
            plan.studies(*(ALL_KINDS if agent in whole else SIMPLE_KINDS)) * seeds,
            plan.curriculum,
        )
        for agent in names
    }


def ranking_text(findings: Findings, config: Config) -> str:
    """Returns the challenge's ranking."""
    count = len(config.curriculum)
    return "\n".join(
        f"{place}. {entrant.name}: {entrant.solved:.4g} of {count} task sets in "
        f"{entrant.steps:,.0f} steps"
        + (f"; learns gradually: {entrant.gradual}, shown to forget nothing: {entrant.remembers}")
        * (entrant.gradual is not None)
        for place, entrant in enumerate(findings.ranking(), 1)
    )


def _variation_text(config: Config) -> str:
    split = ", tested with operands that were held out of each operation" * config.env.split
    chances = config.env.params.get("permutation", ())
    if not chances:
        return split
    shares = zip(PERMUTATIONS, chances, strict=True)
    named = ", ".join(f"{kind} {share / sum(chances):.0%}" for kind, share in shares if share)
    return f", bytes permuted by stream ({named}){split}"


def introduction(outcome: RunResult, seeds: int) -> str:
    """Returns the first paragraph: the training and the tests."""
    config, temperature = outcome.config, outcome.config.temperature
    chosen = f"actions at temperature {temperature:g}" if temperature else "most probable actions"
    return (
        f"{config.env.rules} rules{_variation_text(config)}; "
        f"taught on {outcome.observations:,} steps per seed of "
        f"{', '.join(_count_names(config.taught))}, {config.repeats} instances in a row of each "
        f"draw; held out whole: "
        + ("; ".join(map(config.describe_neighbours, config.held_out)) or "nothing but instances")
        + ". "
        f"{config.runs} streams of at most {config.budget:,} steps for each study and seed, "
        f"{seeds} seed(s), each with streams of its own, the same for all agents; weights frozen, "
        f"{chosen}; {config.threshold} instances solved in a row clear a task set. Medians of "
        "steps; in brackets, where not all runs cleared it, a lower bound and the share that did. "
        f"Intervals are over streams. Nulls, which are not trained: {', '.join(config.nulls)}. "
        "A look-up table solves the sets marked so."
    )


def sections(findings: Findings, played: dict[str, PlayedStudies], config: Config) -> list[str]:
    """Returns the summary's tables."""
    parts = [
        "## A. Steps until cleared, in order",
        steps_table(findings.agents, config.curriculum),
        "## Steps until cleared, each alone",
        steps_table(findings.single, config.curriculum),
        "## Right answers in % by the number of the question, each alone",
        questions_table(played, config.targets or config.curriculum),
    ]
    for null, faster in findings.faster.items():
        parts += [
            f"## What training adds: times faster than the {null}, each alone",
            transfer_table(faster, (null, config.learner_name)),
        ]
    for agent, transfers in findings.transfers.items():
        table = [transfer_table(transfers, ("alone", "after")), orders_text(transfers, config.plan)]
        none = ["No task set builds on another of these."]
        parts += [f"## B. Gradual learning: {agent}", *(table if transfers else none)]
    if findings.hints is not None:
        parts += ["## Hints beside synonyms", hints_text(findings.hints)]
    for agent, retentions in findings.retentions.items():
        parts += [f"## C. Not forgetting: {agent}", retention_table(retentions)]
    return [
        *parts,
        f"Kept: the interval says that once more takes at most {MARGIN:g} times the steps of the "
        "first time; each task set comes once more after all that the run cleared.",
        "## The challenge's ranking",
        ranking_text(findings, config),
    ]


def numbers_of(findings: Findings) -> dict[str, Any]:
    """Returns the results for `summary.json`."""
    numbers: dict[str, Any] = {
        agent: {
            "steps in order": values.steps,
            "cleared in order": values.cleared,
            "steps alone": findings.single[agent].steps,
            "cleared alone": findings.single[agent].cleared,
        }
        for agent, values in findings.agents.items()
    }
    numbers |= {"transfer": findings.transfers, "retention": findings.retentions}
    numbers |= {"against": findings.faster}
    return numbers if findings.hints is None else numbers | {"hints": findings.hints}


def icl_records(seeds: list[dict[str, Streams]], config: Config) -> list[ICLRecord]:
    """Returns the shares of right answers by the questions before, over all task sets alone.

    Positions that fewer than a tenth of the learner's streams reach are left out.
    """

    def shares(agent: str, kinds: Sequence[str]) -> np.ndarray:
        studies = config.plan.studies(*kinds)
        indices = [i for i, study in enumerate(studies) if study.kind == "alone"]
        # The last one counts all later questions.
        return np.stack([streams[agent].accuracy(indices, [0])[:, :-1] for streams in seeds])

    oracle_shares = shares("oracle", SIMPLE_KINDS)
    curves = {
        "agent": shares(config.learner_name, ALL_KINDS),
        # It has solved an instance long before the later questions, and would be right in them.
        "oracle": np.where(np.isfinite(oracle_shares), oracle_shares, 1.0),
        "memory wiped": shares(WIPED, ("alone",)),
    }
    names = config.curriculum
    nulls = {x: shares(x, ALL_KINDS if x == NULL else SIMPLE_KINDS) for x in config.nulls}
    if reached_length(curves["agent"]) < 2:
        return []
    return [
        icl_record(
            curves,
            nulls,
            system="Byte streams",
            task=f"{len(names)} task sets, {names[0]} to {names[-1]}",
            agent=config.learner_name,
            measure="share of right answers",
            context="questions",
            oracle="knows the answers",
            reached=True,
        )
    ]


def report(outcome: RunResult) -> Report:
    """Draws the figures; returns the summary, the numbers and the records."""
    config, seeds = outcome.config, measured_by_seed(outcome)
    learner = config.learner_name
    joined = jax.tree.map(lambda *x: np.concatenate(x), *seeds)
    played = played_studies(joined, config, len(seeds))
    findings = compute_findings(played, learner, config.nulls)
    draw_figures(outcome, findings, played[learner])
    evaluations = [
        {"cleared": float(agents[learner].in_order().cleared.sum(1).mean())}
        for agents in (played_studies(streams, config, 1) for streams in seeds)
    ]
    text = join_paragraphs(
        f"# Gradual learning on streams of bytes: {config.learner_name}, preset {config.preset}",
        introduction(outcome, len(seeds)),
        *sections(findings, played, config),
        *elsewhere_section(measured_by_seed(outcome, "elsewhere"), config),
        write_stream_page(outcome),
        outcome.training_note("steps"),
    )
    numbers = numbers_of(findings) | {"steps_per_s": outcome.speed}
    return Report(text, numbers, evaluations, icl_records(seeds, config))


def write_stream_page(outcome: RunResult) -> str:
    """Writes the page of the first steps of the curriculum; returns a sentence about it."""
    if not outcome.sound.any():
        return "No stream to replay: no seed is sound."
    config = outcome.config
    agent_name, steps = outcome.first_sound(outcome.measured["steps"])
    page = stream_page(
        steps, title=outcome.program.title, about={"of": agent_name, "run": outcome.run.path.name}
    )
    write_atomically(outcome.run.figures / "episode.html", page.encode())
    extent = "all" if steps.length < config.budget else f"the first {int(steps.length):,}"
    return (
        f"`figures/episode.html` replays {extent} steps of a stream of {agent_name}, byte by byte, "
        "with the curriculum in order."
    )


def draw_figures(outcome: RunResult, findings: Findings, played: PlayedStudies) -> None:
    """Draws figures A and B, the graph, and, of the targets, accuracy by the question's number."""
    config, folder = outcome.config, outcome.run.figures
    title = f"{config.learner_name}, preset {config.preset}"
    agents = {
        agent: agent_efficiency
        for agent, agent_efficiency in findings.agents.items()
        if agent != "oracle"
    }
    figure = efficiency_figure(
        agents, config.curriculum, reference=findings.oracle, title=f"Steps until cleared: {title}"
    )
    save_figure(figure, folder / "efficiency.png")
    if transfers := findings.transfers[config.learner_name]:
        figure = transfer_figure(transfers, title=f"Gradual learning: {title}")
        save_figure(figure, folder / "transfer.png")
    task_sets = {*config.curriculum}
    graph = {t: [o for o in REQUIRES[t] if o in task_sets] for t in config.curriculum}
    save_figure(prerequisites_figure(graph), folder / "prerequisites.png")
    curves = {}
    for task in config.targets or config.curriculum:
        # The last one counts all later questions.
        right = played.accuracy_alone(task)[:, :-1]
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
