"""The tables, the figures and the summary of `gradual_learning.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gpicljax.evaluation.icl import icl_curve
from gpicljax.evaluation.records import ICLRecord, icl_record
from gpicljax.evaluation.tables import markdown_table
from gpicljax.runs.metrics import throughput
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
    NULL,
    REQUIRES,
    SIMPLE,
    WIPED,
    Config,
    Study,
    studies_of,
)
from gpicljax.systems.gradual_learning.studies.gradual_learning.elsewhere import elsewhere_section
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


def against(
    null: Streams, streams: Streams, studies: tuple[list[Study], list[Study]], config: Config
) -> dict[str, Transfer]:
    """How many times faster than a null every task set is cleared alone, stream by stream."""
    found = {}
    for task in config.curriculum:
        both = zip((null, streams), studies, strict=True)
        found[task] = transfer(*(x.completion_times(index(y, "alone", task), 1) for x, y in both))
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
    """The targets the first time and once more after what a run clears, in the same streams."""
    steps, cleared, found = np.asarray(streams.steps), np.asarray(streams.cleared), {}
    reached = cleared[[i for i, one in enumerate(studies) if one.kind == "order"]]
    for place, task in enumerate(config.curriculum):
        if which := index(studies, "again", task):
            came = np.minimum(cleared[which], reached)
            # What was cleared in order, and then in this stream, before the task came once more.
            counts = (reached > place) & (came >= reached)
            first = CompletionTimes(steps[which, place][:, None], counts[:, None])
            done = counts & (cleared[which] > reached)
            again = CompletionTimes(steps[which, reached][:, None], done[:, None])
            found[task] = retention(first, again)
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
    names = [f"{task} (look-up)" if task in LOOKUP else task for task in tasks]
    rows = [[name, *(steps_cell(x, i) for x in agents.values())] for i, name in enumerate(names)]
    return markdown_table(["task set", *agents], rows)


def transfer_table(transfers: dict[str, Transfer], names: tuple[str, str]) -> str:
    """Ratios by task set; `names` are of the slower runs, and of the faster ones."""
    head = ["task set", "times faster (medians)", "geometric mean [95 %]", "sign test p"]
    rows = [
        [
            task,
            f"{each.ratio:.2f}",
            f"{each.mean:.2f} [{each.low:.2f}, {each.high:.2f}]",
            f"{each.p:.3f}",
            f"{each.censored[0]}, {each.censored[1]} of {each.pairs}",
        ]
        for task, each in transfers.items()
    ]
    return markdown_table([*head, f"not cleared: {', '.join(names)}"], rows)


def orders_text(transfers: dict[str, Transfer], config: Config) -> str:
    """In how many orders the predecessors came."""
    after = studies_of(config, "after")
    counts = {
        task: len({one.curriculum.tasks for one in after if one.task == task}) for task in transfers
    }
    return "Orders of the predecessors: " + ", ".join(f"{t} {n}" for t, n in counts.items()) + "."


def retention_table(held: dict[str, Retention]) -> str:
    """Criterion C by task set."""
    head = ["task set", "first / again, geometric mean [95 %]", "runs", "not cleared again", "kept"]
    rows = []
    for task, each in held.items():
        verdict = "yes" if each.kept else "no" if each.forgets else "undecided"
        ratio = f"{each.ratio:.2f} [{each.low:.2f}, {each.high:.2f}]"
        none = [task, "", 0, "", "not measured: no run cleared it"]
        rows.append([task, ratio, each.pairs, each.lost, verdict] if each.pairs else none)
    return markdown_table(head, rows)


def of_seeds(outcome: RunResult, measure: str = "streams") -> list[dict[str, Any]]:
    """What was measured, by agent, seed by seed."""
    measured = outcome.measured.get(measure, {})
    return [
        jax.tree.map(lambda x, i=i: np.asarray(x)[i], measured)
        for i in range(outcome.config.seeds)
        if outcome.sound[i]
    ]


def joined(streams: list[dict[str, Streams]]) -> dict[str, Streams]:
    """The streams of all seeds behind one another, study by study, by agent."""
    return jax.tree.map(lambda *x: np.concatenate(x), *streams)


class Findings(NamedTuple):
    """What a run comes to, all seeds together.

    Attributes:
      agents: steps by agent, task sets in order.
      single: likewise, every task set alone.
      faster: by null and task set, how many times faster than it the learner is alone.
      transfers: criterion B by target, of the learner and of the null.
      held: criterion C by target, likewise.
      hints: what hints are worth to the learner; None where that was not measured.
      oracle: the oracle's steps on every task set alone.
    """

    agents: dict[str, Efficiency]
    single: dict[str, Efficiency]
    faster: dict[str, dict[str, Transfer]]
    transfers: dict[str, dict[str, Transfer]]
    held: dict[str, dict[str, Retention]]
    hints: Transfer | None
    oracle: np.ndarray


def findings(everything: dict[str, Streams], config: Config, seeds: int) -> Findings:
    """Computes the criteria of all agents, on the same streams."""
    whole, simple = (studies_of(config, *x) * seeds for x in (ALL, SIMPLE))
    learner = config.learner_name
    names = (learner, *config.nulls, "knows the tasks", "oracle")
    everything = {name: everything[name] for name in names}
    studies = {agent: whole if agent in (learner, NULL) else simple for agent in everything}
    oracle = alone(everything["oracle"], simple, config).steps
    return Findings(
        agents={
            agent: efficiency(in_order(of, studies[agent], config), oracle)
            for agent, of in everything.items()
        },
        single={agent: alone(of, studies[agent], config) for agent, of in everything.items()},
        faster={
            name: against(everything[name], everything[learner], (studies[name], whole), config)
            for name in config.nulls
        },
        transfers={x: gains(everything[x], whole, config) for x in (learner, NULL)},
        held={x: kept(everything[x], whole, config) for x in (learner, NULL)},
        hints=hinted(everything[learner], whole, config, oracle),
        oracle=oracle,
    )


def places(found: Findings, config: Config) -> str:
    """The challenge's ranking."""
    contestants = []
    for agent, each in found.agents.items():
        gradual = remembers = None
        if agent in found.held:
            gradual = learns_gradually([*found.transfers[agent].values()])
            held = found.held[agent].values()
            remembers = bool(held) and all(x.kept for x in held)
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
        f"{place}. {one.name}: {one.solved:.4g} of {count} task sets in {one.steps:,.0f} steps"
        + (f"; learns gradually: {one.gradual}, shown to forget nothing: {one.remembers}")
        * (one.gradual is not None)
        for place, one in enumerate(ranking(contestants), 1)
    )


def _varied(config: Config) -> str:
    split = ", tested with operands that were held out of each operation" * config.env.split
    chances = config.env.params.get("permutation", ())
    if not chances:
        return split
    shares = zip(PERMUTATIONS, chances, strict=True)
    named = ", ".join(f"{kind} {share / sum(chances):.0%}" for kind, share in shares if share)
    return f", bytes permuted by stream ({named}){split}"


def introduction(outcome: RunResult, seeds: int) -> str:
    """What was taught, and how the agents were tested."""
    config, temperature = outcome.config, outcome.config.temperature
    chosen = f"actions at temperature {temperature:g}" if temperature else "most probable actions"
    return (
        f"{config.env.rules} rules{_varied(config)}; "
        f"taught on {outcome.observations:,} steps per seed of "
        f"{', '.join(_mix(config.taught))}, {config.repeats} instances in a row of each draw; held "
        f"out whole: {'; '.join(map(config.beside, config.held_out)) or 'nothing but instances'}. "
        f"{config.runs} streams of at most {config.budget:,} steps for each study and seed, "
        f"{seeds} seed(s), each with streams of its own, the same for all agents; weights frozen, "
        f"{chosen}; {config.threshold} instances solved in a row clear a task set. Medians of "
        "steps; in brackets, where not all runs cleared it, a lower bound and the share that did. "
        f"Intervals are over streams. Nulls, which are not trained: {', '.join(config.nulls)}. "
        "A look-up table solves the sets marked so."
    )


def sections(found: Findings, config: Config) -> list[str]:
    """The summary's tables."""
    tasks = config.curriculum
    parts = [
        "## A. Steps until cleared, in order",
        "",
        steps_table(found.agents, tasks),
        "",
        "## Steps until cleared, each alone",
        "",
        steps_table(found.single, tasks),
        "",
    ]
    for null, faster in found.faster.items():
        title = f"## What training adds: times faster than the {null}, each alone"
        parts += [title, "", transfer_table(faster, (null, config.learner_name)), ""]
    for agent, transfers in found.transfers.items():
        table = [transfer_table(transfers, ("alone", "after")), "", orders_text(transfers, config)]
        none = ["No task set builds on another of these."]
        parts += [f"## B. Gradual learning: {agent}", "", *(table if transfers else none), ""]
    if found.hints is not None:
        parts += ["## Hints beside synonyms", "", hints_text(found.hints), ""]
    for agent, held in found.held.items():
        parts += [f"## C. Not forgetting: {agent}", "", retention_table(held), ""]
    margin = (
        f"Kept: the interval says that once more takes at most {MARGIN:g} times the steps of the "
        "first time; each task set comes once more after all that the run cleared."
    )
    return [*parts, margin, "", "## The challenge's ranking", "", places(found, config), ""]


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
    for name, kinds in (("transfer", found.transfers), ("retention", found.held)):
        numbers[name] = {
            agent: {task: vars(each) for task, each in by_task.items()}
            for agent, by_task in kinds.items()
        }
    numbers["against"] = {
        null: {task: vars(each) for task, each in faster.items()}
        for null, faster in found.faster.items()
    }
    if found.hints is not None:
        numbers["hints"] = vars(found.hints)
    return numbers


def icl_records(seeds: list[dict[str, Streams]], config: Config) -> list[ICLRecord]:
    """Share of right answers by the instance's questions before, over all task sets alone.

    Positions that fewer than a tenth of the learner's streams reach are left out.
    """

    def shares(agent: str, kinds: Sequence[str]) -> np.ndarray:
        studies = studies_of(config, *kinds)
        which = [i for i, one in enumerate(studies) if one.kind == "alone"]
        # The last one counts all later questions.
        return np.stack([of[agent].accuracy(which, [0])[:, :-1] for of in seeds])

    known = shares("oracle", SIMPLE)
    curves = {
        "agent": shares(config.learner_name, ALL),
        # It has solved an instance long before the later questions, and would be right in them.
        "oracle": np.where(np.isfinite(known), known, 1.0),
        "memory wiped": shares(WIPED, ("alone",)),
    }
    there = np.isfinite(curves["agent"]).mean((0, 1)) >= 0.1
    length = int(np.argmin(there)) if not there.all() else len(there)
    if length < 2:
        return []
    nulls = {x: shares(x, ALL if x == NULL else SIMPLE)[..., :length] for x in config.nulls}
    names = config.curriculum
    return [
        icl_record(
            {role: x[..., :length] for role, x in curves.items()},
            nulls,
            system="Byte streams",
            task=f"{len(names)} task sets, {names[0]} to {names[-1]}",
            agent=config.learner_name,
            measure="share of right answers",
            context="questions",
            oracle="knows the answers",
        )
    ]


def report(outcome: RunResult) -> Report:
    """Draws the figures, and says what was found."""
    config, seeds = outcome.config, of_seeds(outcome)
    everything, learner = joined(seeds), config.learner_name
    found = findings(everything, config, len(seeds))
    draw(outcome, found, everything[learner], studies_of(config, *ALL) * len(seeds))
    speed = throughput(outcome.history)
    text = [
        f"# Gradual learning on streams of bytes: {config.learner_name}, preset {config.preset}",
        "",
        introduction(outcome, len(seeds)),
        "",
        *sections(found, config),
        *elsewhere_section(of_seeds(outcome, "elsewhere"), config),
        replay(outcome),
        "",
        f"Agents have {outcome.parameters:,} parameters. Training ran at "
        f"{speed:,.0f} steps/s over all seeds.",
    ]
    own = studies_of(config, *ALL)
    evaluations = [
        {"cleared": float(in_order(of[learner], own, config).cleared.sum(1).mean())} for of in seeds
    ]
    numbers = numbers_of(found) | {"steps_per_s": speed}
    return Report("\n".join(text), numbers, evaluations, icl_records(seeds, config))


def replay(outcome: RunResult) -> str:
    """Writes the page of the first steps of the curriculum; says so in words."""
    if not outcome.sound.any():
        return "No stream to replay: no seed is sound."
    config = outcome.config
    whose, steps = outcome.first_sound(outcome.measured["steps"])
    page = stream_page(
        steps, title=outcome.program.title, about={"of": whose, "run": outcome.run.path.name}
    )
    write_atomically(outcome.run.figures / "episode.html", page.encode())
    whole = "all" if steps.length < config.budget else f"the first {int(steps.length):,}"
    return (
        f"`figures/episode.html` replays {whole} steps of a stream of {whose}, byte by byte, with "
        "the curriculum in order."
    )


def draw(outcome: RunResult, found: Findings, streams: Streams, studies: list[Study]) -> None:
    """Figures A and B, the graph, and, of the targets, accuracy by the question's number."""
    config, folder = outcome.config, outcome.run.figures
    title = f"{config.learner_name}, preset {config.preset}"
    shown = {agent: each for agent, each in found.agents.items() if agent != "oracle"}
    figure = efficiency_figure(
        shown, config.curriculum, reference=found.oracle, title=f"Steps until cleared: {title}"
    )
    save_figure(figure, folder / "efficiency.png")
    if transfers := found.transfers[config.learner_name]:
        figure = transfer_figure(transfers, title=f"Gradual learning: {title}")
        save_figure(figure, folder / "transfer.png")
    known = {*config.curriculum}
    graph = {t: [o for o in REQUIRES[t] if o in known] for t in config.curriculum}
    save_figure(prerequisites_figure(graph), folder / "prerequisites.png")
    curves = {}
    for task in config.targets or config.curriculum:
        # The last one counts all later questions.
        right = streams.accuracy(index(studies, "alone", task), [0])[:, :-1]
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
