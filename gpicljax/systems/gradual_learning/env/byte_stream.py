"""`ByteStream`: gradual learning on one byte in, one byte out."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from gpicljax import spaces
from gpicljax.checks import Range, Size, check, check_array, check_choice, refusal
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import Count, check_values
from gpicljax.systems.gradual_learning.env import conversation, interpreter, tasks
from gpicljax.systems.gradual_learning.env.conversation import (
    SPACE,
    Heard,
    Kept,
    Question,
    Rules,
    Talk,
    kept,
)
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum, load_curriculum
from gpicljax.systems.gradual_learning.env.hashing import Seed, inner, word
from gpicljax.systems.gradual_learning.env.permutation import PERMUTATIONS, drawn
from gpicljax.systems.gradual_learning.env.pool import reached, rendered, shared
from gpicljax.systems.gradual_learning.env.refill import Due, blank, first, prepare, refilled
from gpicljax.systems.gradual_learning.env.tasks import (
    ALL_NAMES,
    ARITHMETIC_NAMES,
    BLOCKS_NAMES,
    FAMILIES,
    LINES,
    MAPPING,
    NAMES,
    TASK_SETS,
)

# Numbers of a stream's draws.
_INSTANCES, _SERIES, _PLACES = 0, 2**28, 2**29
_FULL = 2**16 - 1
RELIABLE = 5
"""After so many answers in a row that ended with a period, micro5.6.later takes that for known."""
MINI_FACTOR = 4
"""With corrected rules, how many times the threshold of other tasks mini tasks have."""


def _pool() -> jax.Array:
    """The bytes that all texts are made of; complete, as their generators have been prepared."""
    prepare()
    return jnp.asarray(shared().bytes())


def _shown(task: Task, byte: jax.Array) -> jax.Array:
    """Bytes as the learner sees them."""
    return byte if task.shown is None else jnp.asarray(task.shown)[byte].astype(byte.dtype)


def _curriculum(given: Any) -> Curriculum:
    """A curriculum, or that of a file."""
    if isinstance(given, str | Path):
        try:
            return load_curriculum(given)
        except OSError as error:
            accepted = f"a curriculum's file ({error.strerror})"
            raise ValueError(refusal("curriculum", str(given), accepted)) from None
    fine = isinstance(given, Curriculum)
    check(fine, "curriculum", given, "a Curriculum, or the path of a curriculum's file")
    return given


@functools.cache
def _packed(corrected: bool) -> np.ndarray:
    """The rules of all task sets, a number each: rows would take longer to look up than to use."""
    table = tasks.table(corrected)
    return conversation.packed(Rules(*(table[name] for name in Rules._fields)))


@struct.dataclass
class Params:
    """The distribution over streams.

    Attributes:
      order: `int32[max_tasks]`, indices of the curriculum's task sets in `TASK_SETS`; 0 beyond its
        end.
      shares: `int32[max_tasks]`, of a mixture: the sum of the shares up to each, out of 65,535.
      count: `int32[]`, how many task sets the curriculum has.
      mixture: `bool[]`, whether instances draw their task sets.
      repeats: `int32[]`, of a mixture: so many instances in a row share a draw.
      threshold: `int32[]`, so many instances solved in a row pass a task set.
      horizon: `int32[]`, most steps of a stream.
      permutation: float `[4]`, how often a stream permutes the bytes in each of the ways
        `PERMUTATIONS`, in proportion; None in an environment that is not `permuted`.
    """

    order: Annotated[jax.Array, Range(0)]
    shares: Annotated[jax.Array, Range(0, _FULL)]
    count: Count
    mixture: jax.Array
    repeats: Annotated[jax.Array, Range(1, 10**6)]
    threshold: Annotated[jax.Array, Range(1, 10**6)]
    horizon: Count
    permutation: jax.Array | None = None


@struct.dataclass
class Task:
    """One stream: a curriculum, and the seed of everything that it says.

    Attributes:
      seed: `uint32[2]`.
      order: `uint8[max_tasks]`, see `Params`; so are the other fields.
      shares: `uint16[max_tasks]`.
      count: `int32[]`.
      mixture: `bool[]`.
      repeats: `int32[]`.
      threshold: `int32[]`.
      horizon: `int32[]`.
      shown: `uint8[256]`, what the learner sees for each byte; None in an environment that is not
        `permuted`, and so is
      meant: `uint8[256]`, what each byte of the learner means.
    """

    seed: jax.Array
    order: jax.Array
    shares: jax.Array
    count: jax.Array
    mixture: jax.Array
    repeats: jax.Array
    threshold: jax.Array
    horizon: jax.Array
    shown: jax.Array | None = None
    meant: jax.Array | None = None


@struct.dataclass
class State:
    """A stream in progress, `int32[]` where nothing else is said.

    Attributes:
      kept: the instance in progress; `talk` has its numbers one by one.
      question: what is being said, and to be answered.
      byte: what was said last, before it is permuted.
      task: index of the task set in `TASK_SETS`.
      place: its place in the curriculum.
      instance: number of the instance in the stream.
      number: number of the question in the instance.
      solved: instances solved in a row.
      cleared: task sets passed.
      shown: instances of mini0 so far.
      time: steps taken.
    """

    kept: Kept
    question: Question
    byte: jax.Array
    task: jax.Array
    place: jax.Array
    instance: jax.Array
    number: jax.Array
    solved: jax.Array
    cleared: jax.Array
    shown: jax.Array
    time: jax.Array

    @property
    def talk(self) -> Talk:
        """The instance in progress."""
        return self.kept.talk


@dataclasses.dataclass(frozen=True)
class ByteStream(Environment[Params, Task, State]):
    """A stream of bytes in which tasks follow one another without a sign.

    The environment says a byte, and the learner replies with one; the reward for the reply arrives
    with the next byte: 1 for a right answer, -1 for a wrong one or for talking while the
    environment does, else 0. A space is silence. Once the environment has said a question's last
    byte, what the learner says is its answer, until it is decided; then come feedback and the next
    question. An *instance* of a task set (one hidden mapping, say) is solved by ten right answers
    in a row, and fails if they do not come within 50 questions after they could be known. A
    *task set* is passed by `threshold` instances solved in a row. A stream is one episode. With an
    ordered curriculum it terminates when all task sets are passed; `params.horizon` cuts it off.

    `make_params(curriculum=Curriculum(...), horizon=...)` says what streams are about; one compiled
    program serves every curriculum. A stream is a function of its task: all of its episodes pose
    the same instances.

    The default curriculum is the reference's, `NAMES`. `TASK_SETS` has further sets that the
    document asks for and the reference lacks: `micro5.2.repeats` (its own rule of success),
    `micro1.prompt`, `micro5.6.later` (no period in feedback once answers end with theirs),
    `micro5.7.early` (feedback right after the period, with any rules), `micro7.1.plain`,
    `micro8.1` to `micro8.3` (spaces in stages), `micro9.2.growing` (the shortest words first),
    `micro9.2.strict` and `micro9.2.graded` (punished, or also rewarded, at once), `micro9.4.1` to
    `micro9.4.7`, `micro11.chained`, `micro13.2.mixed` and `micro16.mixed`; and, in an environment
    with these `families`, ladders to the hardest tasks of two other curricula (A.1.6):
    `arithmetic1` to `arithmetic14`, hexadecimal expressions with variables, and feedback that has
    to be worked out; and `blocks1` to `blocks10`, a conversation about objects that were put
    somewhere. `StreamTaskSet.register` adds sets of one's own.

    `info` (the learner never sees it), of the step's instance, i.e. that in which the byte was
    said that the action replies to:

    - `task`: `int32[]`, index of the task set in `TASK_SETS`;
    - `instance`: `int32[]`, its number in the stream, from 0;
    - `instance_ended`: `bool[]`, this step ended it: the next observation belongs to the next one;
    - `solved`: `bool[]`, and it was solved;
    - `instance_steps`: `int32[]`, how many steps it has had, this one included;
    - `cleared`: `int32[]`, how many task sets of an ordered curriculum are passed so far.

    `permuted=True` gives each stream an alphabet of its own: a permutation of the bytes, through
    which the learner sees the environment and is understood. So a learner can be trained and tested
    on whether it depends on which bytes are digits, periods or silence. `params.permutation` says
    how often each of `PERMUTATIONS` is drawn: none; digits among themselves and letters among
    themselves; digits and letters together, the default; all printable bytes, where even silence
    has to be found out. A stream's instances, questions and rewards are the same in all of them.

    `rules="reference"` goes by the challenge's published environment, slips included; only how the
    mini tasks congratulate is in words of our own. The default,
    `"corrected"`, is without these:

    - In micro13.1, parts of an answer to "x and y" do not pass for it, feedback shows answers with
      their period, and questions have no leading space.
    - The task within an instance of micro19 and micro20 does not depend on earlier instances (nor
      does it with the reference's rules here, where they depend on the stream alone).
    - Talking in reply to the last byte of an instance's feedback counts as talking.
    - An instance that ran out of time (10,000 steps) asks no further question.
    - From micro5.5 on, answers end with their period or at twice the bytes of the longest answer of
      the task set, silent ones included, and not after as many bytes as the right one has, or
      never. Spaces in front of an answer do not belong to it.
    - Mini tasks answer like all others: -1 for a wrong answer and for talking, nothing but
      "true." or "false." is right, and the reward comes with the feedback's first byte. As they can
      be guessed, they are passed by four times as many instances in a row.
    - In micro2 and micro3 only letters, two thirds of the questions, count for the ten right
      answers, and in micro3 no letter stands for itself, so that an echo passes neither.
    - Nothing depends on hash seeds or on other streams.
    - Questions of a mapping are different from one another.
    - mini2 has no descriptions that consist of "anything", whose false string would be empty.

    Args:
      rules: `"corrected"` or `"reference"`, see above.
      max_tasks: cap of a curriculum's length.
      families: generators of questions, of `FAMILIES`: the fewer, the less there is to compile.
        `("mapping",)` has micro1 to micro5.18.
      with_text: whether experts are told the question's text and an accepted answer.
      permuted: whether each stream permutes the bytes.
      composition: of the operations of micro11 and micro12, and of micro16, micro19 and micro20,
        which are made of them: whether a question has any operands; or, for training, those of
        which no operation has a third; or, as a test, none but these, of which every part is known
        from training (`composition.second_operands`).

    Source: the document of the General AI Challenge's first round, appendix A, and what is known of
    its reference environment.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("ByteStream-v0")
      >>> params = env.make_params(curriculum=Curriculum(("micro4",)), horizon=100)
      >>> task = jax.eval_shape(env.sample_task, jax.random.key(0), params)
      >>> observation, state = jax.eval_shape(env.reset, jax.random.key(1), task)
      >>> observation.shape, env.action_space()
      ((), Discrete(n=256))
    """

    rules: Literal["corrected", "reference"] = "corrected"
    max_tasks: Size = 64
    families: tuple[str, ...] = FAMILIES[:3]
    with_text: bool = False
    permuted: bool = False
    composition: Literal["all", "train", "test"] = "all"

    def __post_init__(self) -> None:
        if self.rules == "mended":  # the name in agents that were saved by earlier versions
            object.__setattr__(self, "rules", "corrected")
        super().__post_init__()
        check(self.families, "families", self.families, f"some of {FAMILIES}")
        for family in self.families:
            check_choice("families", family, FAMILIES)

    @property
    def _families(self) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(FAMILIES) if name in self.families)

    @property
    def corrected(self) -> bool:
        """Whether the reference's slips are corrected."""
        return self.rules == "corrected"

    # The distribution over streams -----------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """The curricula of the families, as far as the cap goes, for at most 100,000 steps."""
        own = [task.name for task in TASK_SETS if task.family == LINES]
        curricula = (*NAMES, *ARITHMETIC_NAMES, *BLOCKS_NAMES, *own)
        names = [name for name in curricula if self._asks(ALL_NAMES.index(name))]
        fields = self._fields(Curriculum(tuple(names[: self.max_tasks])))
        return Params(
            **{k: jnp.asarray(v) for k, v in fields.items()},
            horizon=jnp.int32(100_000),
            permutation=jnp.array([0.0, 0.0, 1.0, 0.0]) if self.permuted else None,
        )

    def suited_to(self, **params: Any) -> ByteStream:
        """With the families that the curriculum needs, and room for it; see `Environment`."""
        if params.get("curriculum") is None:
            return self
        curriculum = _curriculum(params["curriculum"])
        size = max(self.max_tasks, len(curriculum.tasks))
        return dataclasses.replace(self, families=curriculum.families, max_tasks=size)

    def make_params(
        self, curriculum: Curriculum | str | Path | None = None, **overrides: Any
    ) -> Params:
        """`default_params` with some fields replaced.

        Args:
          curriculum: says `order`, `shares`, `count`, `mixture`, `repeats` and
            `threshold`; a file's path is loaded.
          **overrides: fields of `Params`.

        Raises:
          ValueError: see `Environment.make_params`; also for more tasks than `max_tasks`.

        Example:
          >>> import gpicljax
          >>> env = gpicljax.make("ByteStream-v0")
          >>> env.make_params(curriculum=Curriculum(("micro1", "micro4"))).order[:3].tolist()
          [0, 3, 0]
        """
        given = overrides.get("permutation")
        accepted = "none, but with make(..., permuted=True)"
        check(self.permuted or given is None, "permutation", given, accepted)
        if not self.permuted:
            overrides.pop("permutation", None)
        if curriculum is not None:
            overrides = self._fields(_curriculum(curriculum)) | overrides
        return super().make_params(**overrides)

    def _fields(self, curriculum: Curriculum) -> dict[str, Any]:
        count = len(curriculum.tasks)
        accepted = f"up to {self.max_tasks} task sets; make(..., max_tasks=...) raises the cap"
        check(count <= self.max_tasks, "curriculum", f"{count} task sets", accepted)
        order, shares = np.zeros((2, self.max_tasks), np.int32)
        order[:count] = [ALL_NAMES.index(name) for name in curriculum.tasks]
        weights = np.array(curriculum.weights or [1.0] * count)
        shares[:] = _FULL
        shares[:count] = np.round(np.cumsum(weights) / weights.sum() * _FULL)
        return {
            "order": order,
            "shares": shares,
            "count": np.int32(count),
            "mixture": np.bool_(curriculum.mode == "mixture"),
            "repeats": np.int32(curriculum.repeats),
            "threshold": np.int32(curriculum.threshold),
        }

    def _asks(self, task: int) -> bool:
        return TASK_SETS[task].family in self._families

    def validate(self, params: Params) -> None:
        """Raises ValueError unless `count` is within the cap, and `order` of the families."""
        super().validate(params)
        most = len(TASK_SETS) - 1
        check_values("order", params.order, params.order <= most, f"integers from 0 to {most}")
        for field in ("order", "shares"):
            given = getattr(params, field)
            accepted = f"[{self.max_tasks}]; a curriculum says it, too, in fewer words"
            check_array(np.shape(given)[-1:] == (self.max_tasks,), field, given, accepted)
        count = np.asarray(params.count)
        grid = np.shape(params.order)[:-1]
        check_array(count.shape == grid, "count", count, f"{[*grid]}, one for each order")
        check_values("count", count, count <= self.max_tasks, f"up to {self.max_tasks}")
        order = np.asarray(params.order)
        within = np.arange(self.max_tasks) < count[..., None]
        for task in np.unique(order[within]):
            family = FAMILIES[TASK_SETS[task].family]
            accepted = f"task sets of {self.families}; families={[*self.families, family]} has it"
            check(self._asks(task), "curriculum", ALL_NAMES[task], accepted)
        held = params.permutation is not None
        check(
            held == self.permuted, "permutation", params.permutation, f"{self!r}.make_params(...)"
        )
        if held:
            chances = np.asarray(params.permutation)
            fine = (
                chances.shape[-1:] == (len(PERMUTATIONS),)
                and ((chances >= 0) & (chances < np.inf)).all()
            )
            accepted = f"a number >= 0 for each of {PERMUTATIONS}, not all 0"
            check(fine and (chances.sum(-1) > 0).all(), "permutation", chances.tolist(), accepted)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a stream's seed, from which its permutation follows."""
        seed, shown, meant = jax.random.bits(key, (2,), jnp.uint32), None, None
        if params.permutation is not None:
            shown, meant = drawn(Seed(seed[0], seed[1]), params.permutation)
        return Task(
            seed=seed,
            shown=shown,
            meant=meant,
            order=params.order.astype(jnp.uint8),
            shares=params.shares.astype(jnp.uint16),
            count=jnp.asarray(params.count, jnp.int32),
            mixture=jnp.asarray(params.mixture, bool),
            repeats=jnp.asarray(params.repeats, jnp.int32),
            threshold=jnp.asarray(params.threshold, jnp.int32),
            horizon=jnp.asarray(params.horizon, jnp.int32),
        )

    # One stream ------------------------------------------------------------------------------

    def _rules(self, task: jax.Array) -> Rules:
        return conversation.unpacked(jnp.asarray(_packed(self.corrected))[task])

    def _place(self, task: Task, place: jax.Array, instance: jax.Array) -> jax.Array:
        """Where in the curriculum the task set of an instance is."""
        seed = Seed(task.seed[0], task.seed[1])
        draw = (word(seed, _PLACES + instance // task.repeats) >> 16).astype(jnp.int32)
        drawn = reached(task.shares, draw % _FULL)
        return jnp.where(task.mixture, jnp.minimum(drawn, task.count - 1), place)

    def _due(self, state: State, task: Task, heard: Any) -> Due:
        seed = Seed(task.seed[0], task.seed[1])
        return Due(
            seed=inner(seed, _INSTANCES + state.instance),
            series=inner(seed, _SERIES + jnp.maximum(state.shown - 1, 0) // 10),
            shown=jnp.maximum(state.shown - 1, 0),
            task=state.task,
            number=state.number,
            feedback=heard.feedback,
            correct=heard.correct,
            reliable=heard.talk.periods >= RELIABLE,
            late=heard.late,
            ask=heard.ask,
            keep=heard.keep,
        )

    def _arrived(self, state: State, task: Task, place: jax.Array) -> State:
        """The state at the beginning of an instance of the task set at a place."""
        place = self._place(task, place, state.instance)
        index = task.order[jnp.clip(place, 0, self.max_tasks - 1)].astype(jnp.int32)
        first = TASK_SETS.index(next(t for t in TASK_SETS if t.name == "mini0"))
        return dataclasses.replace(
            state,
            kept=kept(conversation.first_talk(self._rules(index).know)),
            task=index,
            place=place,
            number=jnp.zeros((), jnp.int32),
            shown=state.shown + (index == first),
        )

    def initial(self, key: jax.Array, task: Task) -> State:
        """The stream after its first byte; `key` has no say in it."""
        del key
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        state = State(kept(conversation.first_talk(zero)), blank(), *[zero] * 9)
        state = self._arrived(state, task, zero)
        due = self._due(state, task, Heard(state.talk, zero, no, no, no, ~no, no, no))
        question = first(self.corrected, self._families, due)
        # What was said last.
        byte = _pool()[question.tokens[0]].astype(jnp.int32)
        begun = dataclasses.replace(state.kept, clock=state.kept.clock + 1)
        return dataclasses.replace(state, kept=begun, question=question, byte=byte)

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """The learner's byte `action: int32[]` is heard, and the next byte said.

        Returns:
          The transition; `info` see the class.
        """
        del noise
        if task.meant is not None:
            action = task.meant[action].astype(jnp.int32)
        rules = self._rules(state.task)
        pool = _pool()
        heard = interpreter.hear(pool, rules, state.question, state.talk, action, self.corrected)
        ended = heard.switch
        solved = ended & (heard.talk.result == 1)
        row = jnp.where(ended, jnp.where(solved, state.solved + 1, 0), state.solved)
        threshold = task.threshold
        if self.corrected:
            threshold = jnp.where(rules.fatal == 1, MINI_FACTOR * threshold, threshold)
        passed = ended & (row >= threshold) & ~task.mixture
        cleared = state.cleared + passed
        complete = passed & (cleared == task.count)

        talk = kept(heard.talk)
        stays = dataclasses.replace(state, kept=talk, number=state.number + heard.ask)
        next_one = dataclasses.replace(state, kept=talk, instance=state.instance + 1)
        arrived = self._arrived(next_one, task, state.place + passed)
        after = jax.tree.map(lambda a, b: jnp.where(ended, a, b), arrived, stays)
        # What `initial` has left for now, see `refill.first`.
        rest = (state.time == 0) & (
            jnp.asarray(tasks.table(self.corrected)["family"])[state.task] != MAPPING
        )
        heard = heard._replace(
            feedback=heard.feedback & ~ended,
            ask=(heard.ask | ended | rest) & ~complete,
            keep=heard.keep & ~ended,
        )
        question = refilled(
            self.corrected,
            self._families,
            self.composition,
            self._due(after, task, heard),
            state.question,
        )
        byte, question, talk = interpreter.speak(pool, question, after.talk)
        time = state.time + 1
        return Transition(
            state=dataclasses.replace(
                after,
                kept=kept(talk),
                question=question,
                byte=byte,
                solved=jnp.where(passed, 0, row),
                cleared=cleared,
                time=time,
            ),
            reward=heard.reward.astype(jnp.result_type(float)),
            terminated=complete,
            truncated=(time >= task.horizon) & ~complete,
            info={
                "task": state.task,
                "instance": state.instance,
                "instance_ended": ended,
                "solved": solved,
                "instance_steps": state.talk.time,
                "cleared": cleared,
            },
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """The byte that was said last, `int32[]`."""
        return _shown(task, state.byte)

    # Spaces and views ------------------------------------------------------------------------

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """The bytes."""
        del task
        return spaces.Discrete(256)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """The bytes."""
        del task
        return spaces.Discrete(256)

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """What is to be said now, and why.

        Returns:
          answer: `int32[]`, the byte that an oracle says: of an accepted answer, or a space.
          answering: `bool[]`, whether what is said now belongs to an answer.
          task: `int32[]`, index of the task set in `TASK_SETS`.

          If the environment is `permuted`, these and what follows are in the stream's alphabet, and
          there are: `byte`, `int32[]`, what was said last, before it is permuted; `shown` and
          `meant`, see `Task`.

          And `with_text`: `text`, `uint8[192]`, what is being said, feedback and question, of which
          `said` bytes were; `target`, `uint8[64]`, an answer that is accepted. 0 beyond their ends.
          Before the first step they may lack all but the first byte.
        """
        question, talk = state.question, state.talk
        answering = (question.cursor >= question.end) & (talk.ended == 0)
        mini = self._rules(state.task).mini == 1
        said = jnp.where(mini, talk.matched, talk.said)
        byte = interpreter.expected(_pool(), question, talk, mini)
        told = {
            "answer": _shown(task, jnp.where(answering & (said < question.size), byte, SPACE)),
            "answering": answering,
            "task": state.task,
        }
        if task.shown is not None and task.meant is not None:
            told |= {"byte": state.byte, "shown": task.shown, "meant": task.meant}
        if not self.with_text:
            return told
        return told | {
            "text": _shown(task, rendered(_pool(), *question.text, 192)),
            "said": question.cursor,
            "target": _shown(task, rendered(_pool(), *question.answer, 64)),
        }

    def describe(self, state: State, task: Task) -> str:
        """One line: where the stream stands, what is said, what is to be answered."""
        question, talk = state.question, state.talk

        def text(row: tuple[jax.Array, jax.Array]) -> str:
            size = int(row[1][-1])
            return bytes(_shown(task, rendered(_pool(), *row, size)).tolist()).decode("latin-1")

        said, cursor = text(question.text), int(question.cursor)
        return (
            f"step {int(state.time)}, {ALL_NAMES[int(state.task)]}, instance {int(state.instance)} "
            f"({int(state.solved)} of {int(task.threshold)} solved), question "
            f"{int(state.number)}: said {said[:cursor]!r}, to come {said[cursor:]!r}, right is "
            f"{text(question.answer)!r}; "
            f"{int(talk.streak)} right in a row"
        )
