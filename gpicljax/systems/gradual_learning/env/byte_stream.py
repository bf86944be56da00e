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
from gpicljax.symbols import SymbolCode
from gpicljax.systems.gradual_learning.env import conversation, interpreter, tasks
from gpicljax.systems.gradual_learning.env.conversation import (
    SPACE,
    PackedQuestion,
    Progress,
    QuestionSource,
    TaskRules,
)
from gpicljax.systems.gradual_learning.env.curriculum import Curriculum, load_curriculum
from gpicljax.systems.gradual_learning.env.hashing import Seed, derived_seed, word
from gpicljax.systems.gradual_learning.env.permutation import PERMUTATIONS, sample_permutation
from gpicljax.systems.gradual_learning.env.pool import count_reached, shared_pool
from gpicljax.systems.gradual_learning.env.refill import (
    empty_question,
    first_question,
    prepare,
    refill_question,
)
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
_INSTANCE_DRAWS, _SERIES_DRAWS, _PLACE_DRAWS = 0, 2**28, 2**29
_FULL_SHARE = 2**16 - 1
MINI_FACTOR = 4
"""Multiple of other tasks' threshold that mini tasks have with corrected rules."""


def _pool() -> jax.Array:
    """Returns the bytes of all texts, complete once their generators are prepared."""
    prepare()
    return jnp.asarray(shared_pool().bytes())


def _encode_bytes(task: Task, byte: jax.Array) -> jax.Array:
    """Returns bytes as the learner sees them."""
    return byte if task.shown is None else jnp.asarray(task.shown)[byte].astype(byte.dtype)


def _resolve_curriculum(curriculum: Any) -> Curriculum:
    """Returns the curriculum itself, or that of a file."""
    if isinstance(curriculum, str | Path):
        try:
            return load_curriculum(curriculum)
        except OSError as error:
            expected = f"a curriculum's file ({error.strerror})"
            raise ValueError(refusal("curriculum", str(curriculum), expected)) from None
    fine = isinstance(curriculum, Curriculum)
    check(fine, "curriculum", curriculum, "a Curriculum, or the path of a curriculum's file")
    return curriculum


@functools.cache
def _packed_rules(corrected: bool) -> np.ndarray:
    """Returns the rules of all task sets, one number each."""
    table = tasks.table(corrected)
    return conversation.pack_rules(TaskRules(*(table[name] for name in TaskRules._fields)))


@struct.dataclass
class Params:
    """The distribution over streams.

    Attributes:
      order: `int32[max_tasks]`, indices of the task sets in `TASK_SETS`; 0 beyond the end.
      shares: `int32[max_tasks]`, the cumulative shares of a mixture's task sets, out of 65,535.
      count: `int32[]`, the number of task sets in the curriculum.
      mixture: `bool[]`, whether instances draw their task sets.
      repeats: `int32[]`, the number of instances in a row that share a draw of a mixture.
      threshold: `int32[]`, the instances solved in a row that pass a task set.
      horizon: `int32[]`, most steps of a stream.
      permutation: float `[4]`, relative frequencies of `PERMUTATIONS`; None in an environment that
        is not `permuted`.
    """

    order: Annotated[jax.Array, Range(0)]
    shares: Annotated[jax.Array, Range(0, _FULL_SHARE)]
    count: Count
    mixture: jax.Array
    repeats: Annotated[jax.Array, Range(1, 10**6)]
    threshold: Annotated[jax.Array, Range(1, 10**6)]
    horizon: Count
    permutation: jax.Array | None = None


@struct.dataclass
class Task:
    """One stream: its curriculum and its seed.

    Attributes:
      seed: `uint32[2]`.
      order: `uint8[max_tasks]`, see `Params`; so are the other fields.
      shares: `uint16[max_tasks]`.
      count: `int32[]`.
      mixture: `bool[]`.
      repeats: `int32[]`.
      threshold: `int32[]`.
      horizon: `int32[]`.
      shown: `uint8[256]`, the byte that the learner sees for each byte; None in an environment
        that is not `permuted`.
      meant: `uint8[256]`, the byte that each byte of the learner means; None likewise.
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
    """A stream in progress, `int32[]` unless stated.

    Attributes:
      progress: the progress of the instance.
      question: the question in progress.
      byte: the byte that was said last, before it is permuted.
      task: index of the task set in `TASK_SETS`.
      place: its place in the curriculum.
      instance: number of the instance in the stream.
      number: number of the question in the instance.
      solved: instances solved in a row.
      cleared: task sets passed.
      mini0_count: instances of mini0 so far.
      time: steps taken.
    """

    progress: Progress
    question: PackedQuestion
    byte: jax.Array
    task: jax.Array
    place: jax.Array
    instance: jax.Array
    number: jax.Array
    solved: jax.Array
    cleared: jax.Array
    mini0_count: jax.Array
    time: jax.Array


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
    `micro9.4.7`, `micro11.chained`, `micro13.2.mixed` and `micro16.mixed`; operations one by one
    and in pairs, of which some are held out (`micro11.single`, `micro11.pairs`, `micro11.unseen`),
    and on all letters (`micro12.letters`); and, in an environment
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
    def _family_numbers(self) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(FAMILIES) if name in self.families)

    @property
    def is_corrected(self) -> bool:
        """Returns whether the reference's slips are corrected."""
        return self.rules == "corrected"

    # The distribution over streams -----------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """Returns the curricula of the families, up to the cap, for at most 100,000 steps."""
        added_names = [task.name for task in TASK_SETS if task.family == LINES]
        curricula = (*NAMES, *ARITHMETIC_NAMES, *BLOCKS_NAMES, *added_names)
        names = [name for name in curricula if self._has_task(ALL_NAMES.index(name))]
        fields = self._fields(Curriculum(tuple(names[: self.max_tasks])))
        return Params(
            **{k: jnp.asarray(v) for k, v in fields.items()},
            horizon=jnp.int32(100_000),
            permutation=jnp.array([0.0, 0.0, 1.0, 0.0]) if self.permuted else None,
        )

    def suited_to(self, **params: Any) -> ByteStream:
        """Returns the environment with the families and the cap that the curriculum needs."""
        if params.get("curriculum") is None:
            return self
        curriculum = _resolve_curriculum(params["curriculum"])
        size = max(self.max_tasks, len(curriculum.tasks))
        return dataclasses.replace(self, families=curriculum.families, max_tasks=size)

    def make_params(
        self, curriculum: Curriculum | str | Path | None = None, **overrides: Any
    ) -> Params:
        """Returns `default_params` with some fields replaced.

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
        permutation = overrides.get("permutation")
        expected = "none, but with make(..., permuted=True)"
        check(self.permuted or permutation is None, "permutation", permutation, expected)
        if not self.permuted:
            overrides.pop("permutation", None)
        if curriculum is not None:
            overrides = self._fields(_resolve_curriculum(curriculum)) | overrides
        return super().make_params(**overrides)

    def _fields(self, curriculum: Curriculum) -> dict[str, Any]:
        count = len(curriculum.tasks)
        expected = f"up to {self.max_tasks} task sets; make(..., max_tasks=...) raises the cap"
        check(count <= self.max_tasks, "curriculum", f"{count} task sets", expected)
        order, shares = np.zeros((2, self.max_tasks), np.int32)
        order[:count] = [ALL_NAMES.index(name) for name in curriculum.tasks]
        weights = np.array(curriculum.weights or [1.0] * count)
        shares[:] = _FULL_SHARE
        shares[:count] = np.round(np.cumsum(weights) / weights.sum() * _FULL_SHARE)
        return {
            "order": order,
            "shares": shares,
            "count": np.int32(count),
            "mixture": np.bool_(curriculum.mode == "mixture"),
            "repeats": np.int32(curriculum.repeats),
            "threshold": np.int32(curriculum.threshold),
        }

    def _has_task(self, task: int) -> bool:
        return TASK_SETS[task].family in self._family_numbers

    def validate(self, params: Params) -> None:
        """Raises ValueError unless `count` is within the cap, and `order` of the families."""
        super().validate(params)
        most = len(TASK_SETS) - 1
        check_values("order", params.order, params.order <= most, f"integers from 0 to {most}")
        for field in ("order", "shares"):
            value = getattr(params, field)
            expected = f"[{self.max_tasks}]; a curriculum says it, too, in fewer words"
            check_array(np.shape(value)[-1:] == (self.max_tasks,), field, value, expected)
        count = np.asarray(params.count)
        grid = np.shape(params.order)[:-1]
        check_array(count.shape == grid, "count", count, f"{[*grid]}, one for each order")
        check_values("count", count, count <= self.max_tasks, f"up to {self.max_tasks}")
        order = np.asarray(params.order)
        within = np.arange(self.max_tasks) < count[..., None]
        for task in np.unique(order[within]):
            family = FAMILIES[TASK_SETS[task].family]
            expected = f"task sets of {self.families}; families={[*self.families, family]} has it"
            check(self._has_task(task), "curriculum", ALL_NAMES[task], expected)
        has_permutation = params.permutation is not None
        check(
            has_permutation == self.permuted,
            "permutation",
            params.permutation,
            f"{self!r}.make_params(...)",
        )
        if has_permutation:
            chances = np.asarray(params.permutation)
            fine = (
                chances.shape[-1:] == (len(PERMUTATIONS),)
                and ((chances >= 0) & (chances < np.inf)).all()
            )
            expected = f"a number >= 0 for each of {PERMUTATIONS}, not all 0"
            check(fine and (chances.sum(-1) > 0).all(), "permutation", chances.tolist(), expected)

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a stream's seed, from which its permutation follows."""
        seed, shown, meant = jax.random.bits(key, (2,), jnp.uint32), None, None
        if params.permutation is not None:
            shown, meant = sample_permutation(Seed(seed[0], seed[1]), params.permutation)
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

    def _rules_of(self, task: jax.Array) -> TaskRules:
        return conversation.unpack_rules(jnp.asarray(_packed_rules(self.is_corrected))[task])

    def _place_of(self, task: Task, place: jax.Array, instance: jax.Array) -> jax.Array:
        """Returns the place in the curriculum of an instance's task set."""
        seed = Seed(task.seed[0], task.seed[1])
        draw = (word(seed, _PLACE_DRAWS + instance // task.repeats) >> 16).astype(jnp.int32)
        sampled = count_reached(task.shares, draw % _FULL_SHARE)
        return jnp.where(task.mixture, jnp.minimum(sampled, task.count - 1), place)

    def _source_of(self, state: State, task: Task) -> QuestionSource:
        seed = Seed(task.seed[0], task.seed[1])
        mini0_count = jnp.maximum(state.mini0_count - 1, 0)
        return QuestionSource(
            seed=derived_seed(seed, _INSTANCE_DRAWS + state.instance),
            series=derived_seed(seed, _SERIES_DRAWS + mini0_count // 10),
            mini0_count=mini0_count,
            task=state.task,
            number=state.number,
        )

    def _start_instance(self, state: State, task: Task, place: jax.Array) -> State:
        """Returns the state at the beginning of an instance of the task set at a place."""
        place = self._place_of(task, place, state.instance)
        index = task.order[jnp.clip(place, 0, self.max_tasks - 1)].astype(jnp.int32)
        mini0 = TASK_SETS.index(next(t for t in TASK_SETS if t.name == "mini0"))
        return dataclasses.replace(
            state,
            progress=conversation.first_progress(self._rules_of(index).know),
            task=index,
            place=place,
            number=jnp.zeros((), jnp.int32),
            mini0_count=state.mini0_count + (index == mini0),
        )

    def initial(self, key: jax.Array, task: Task) -> State:
        """Returns the stream after its first byte; it does not depend on `key`."""
        del key
        zero = jnp.zeros((), jnp.int32)
        state = State(conversation.first_progress(zero), empty_question(), *[zero] * 9)
        state = self._start_instance(state, task, zero)
        source = self._source_of(state, task)
        question = first_question(self.is_corrected, self._family_numbers, source)
        byte = question.text.byte_at(_pool(), zero)
        progress = dataclasses.replace(state.progress, time=state.progress.time + 1)
        return dataclasses.replace(state, progress=progress, question=question, byte=byte)

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Processes the learner's byte `action: int32[]` and says the next byte.

        Returns:
          The transition; `info` see the class.
        """
        del noise
        if task.meant is not None:
            action = task.meant[action].astype(jnp.int32)
        rules = self._rules_of(state.task)
        pool = _pool()
        outcome = interpreter.process_reply(
            pool, rules, state.question, state.progress, action, self.is_corrected
        )
        ended = outcome.starts_next
        solved = ended & (outcome.progress.result == 1)
        streak = jnp.where(ended, jnp.where(solved, state.solved + 1, 0), state.solved)
        threshold = task.threshold
        if self.is_corrected:
            threshold = jnp.where(rules.fatal == 1, MINI_FACTOR * threshold, threshold)
        passed = ended & (streak >= threshold) & ~task.mixture
        cleared = state.cleared + passed
        complete = passed & (cleared == task.count)

        due = outcome.due
        same_instance = dataclasses.replace(
            state, progress=outcome.progress, number=state.number + due.question
        )
        next_instance = dataclasses.replace(state, instance=state.instance + 1)
        started = self._start_instance(next_instance, task, state.place + passed)
        after = jax.tree.map(lambda a, b: jnp.where(ended, a, b), started, same_instance)
        # `initial` leaves the rest of the first question, see `refill.first_question`.
        needs_rest = (state.time == 0) & (
            jnp.asarray(tasks.table(self.is_corrected)["family"])[state.task] != MAPPING
        )
        due = due._replace(
            feedback=due.feedback & ~ended,
            question=(due.question | ended | needs_rest) & ~complete,
            rest=due.rest & ~ended,
        )
        question = refill_question(
            self.is_corrected,
            self._family_numbers,
            self.composition,
            self._source_of(after, task),
            due,
            state.question,
        )
        byte, question, progress = interpreter.say_byte(pool, question, after.progress)
        time = state.time + 1
        return Transition(
            state=dataclasses.replace(
                after,
                progress=progress,
                question=question,
                byte=byte,
                solved=jnp.where(passed, 0, streak),
                cleared=cleared,
                time=time,
            ),
            reward=outcome.reward.astype(jnp.result_type(float)),
            terminated=complete,
            truncated=(time >= task.horizon) & ~complete,
            info={
                "task": state.task,
                "instance": state.instance,
                "instance_ended": ended,
                "solved": solved,
                "instance_steps": state.progress.time,
                "cleared": cleared,
            },
        )

    def observe(self, state: State, task: Task) -> jax.Array:
        """Returns the byte that was said last, `int32[]`."""
        return _encode_bytes(task, state.byte)

    # Spaces and views ------------------------------------------------------------------------

    def symbols(self) -> SymbolCode:
        """Returns the code: bytes, replies that are not silent, and rewards that are not 0."""
        return SymbolCode(rewards=(-1.0, 0.0, 1.0), silence=SPACE)

    def action_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the space of bytes."""
        del task
        return spaces.Discrete(256)

    def observation_space(self, task: Task | None = None) -> spaces.Discrete:
        """Returns the space of bytes."""
        del task
        return spaces.Discrete(256)

    def privileged(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the byte of an accepted answer and the reasons for it.

        Returns:
          answer: `int32[]`, the next byte of an accepted answer, or a space.
          answering: `bool[]`, whether the learner's next byte belongs to its answer.
          knowable: `bool[]`, whether a learner can know the answer by now.
          task: `int32[]`, index of the task set in `TASK_SETS`.

          If the environment is `permuted`, these and what follows are in the stream's alphabet, and
          there are: `byte`, `int32[]`, the byte that was said last, before it is permuted; `shown`
          and `meant`, see `Task`.

          With `with_text` also `text`, `uint8[192]`, the feedback and the question; `said`,
          `int32[]`, how many of its bytes were said; `target`, `uint8[64]`, an accepted answer.
          Before the first step they may lack all but the first byte.
        """
        question, progress = state.question, state.progress
        cursor = question.unpack().cursor
        answering = (cursor >= question.text.size) & (progress.end_stage == 0)
        mini = self._rules_of(state.task).mini == 1
        answer_bytes = jnp.where(mini, progress.matched, progress.answer_bytes)
        byte = interpreter.expected_byte(_pool(), question, progress, mini)
        views = {
            "answer": _encode_bytes(
                task, jnp.where(answering & (answer_bytes < question.answer.size), byte, SPACE)
            ),
            "answering": answering,
            "knowable": progress.is_knowable == 1,
            "task": state.task,
        }
        if task.shown is not None and task.meant is not None:
            views |= {"byte": state.byte, "shown": task.shown, "meant": task.meant}
        if not self.with_text:
            return views
        return views | {
            "text": _encode_bytes(task, question.text.render(_pool(), 192)),
            "said": cursor,
            "target": _encode_bytes(task, question.answer.render(_pool(), 64)),
        }

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.gradual_learning.figures.stream_page:match"

    def describe(self, state: State, task: Task) -> str:
        """Returns the step and the byte that was said last.

        No more than that byte: where a question begins is not observed.
        """
        byte = chr(int(self.observe(state, task)))
        return f"step {int(state.time)} of {int(task.horizon)}: said {byte!r}"
