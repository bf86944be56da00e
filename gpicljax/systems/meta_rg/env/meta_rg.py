"""`MetaRG`: the Meta-Referential Game of the Symbolic Behaviour Benchmark.

An episode is a series of referential games about one newly drawn semantic structure, spoken about
through one newly drawn channel: first the support games, then the query games about new
combinations of the same values. A game takes N + 2 steps: rounds 0 .. N - 1 in which messages
travel, round N in which the listener decides whether (and where) it sees the speaker's meaning,
and a feedback step that shows the speaker's stimulus to the listener. Reward: +1 for a right
decision, for a wrong one 0 in the support phase and -2 in the query phase.

Source: sections 2-3, appendices A, C.2 and D of the Meta-Referential Games paper.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax import random, spaces
from gpicljax.checks import Range, Share, Size, check
from gpicljax.environment import Environment, Transition
from gpicljax.envs._checks import check_values
from gpicljax.symbols import Entry, SymbolCode, levels
from gpicljax.systems.meta_rg.env import messaging, structure
from gpicljax.systems.meta_rg.env.game import Game, Stimulus, draw_game
from gpicljax.systems.meta_rg.env.rules import SECTIONS, SHORTCUT_FREE, GameRules
from gpicljax.systems.meta_rg.env.targets import INDEX, Skeleton, sample_skeleton
from gpicljax.systems.meta_rg.env.types import (
    CHANNELS,
    LISTENER,
    SPEAKER,
    Params,
    PlayersActions,
    State,
    Task,
)


@dataclasses.dataclass(frozen=True)
class MetaRG(Environment[Params, Task, State]):
    """Tell by a message whether two stimuli mean the same; words are new in every episode.

    Args:
      view: `"listener"`: one agent, a rule-based speaker; `"players"`: both agents learn, with a
        leading agent axis (speaker, listener).
      max_values: cap of V_max.
      max_shots: cap of S; sets the lengths of the target lists.
      max_samples: cap of O.
      num_dims: N_dim.
      vocab_size: V tokens besides the end of sentence 0.
      message_length: L.
      num_rounds: N communication rounds.
      num_distractors: K.
      descriptive: whether the target may be absent.
      descriptive_ratio: how often the target is present where it may be absent; if None, in
        1 / (K + 2) of the games.
      feedback: whether the listener sees the speaker's stimulus after deciding.
      stimulus: `"scs"` (continuous), `"mhe"` (multi-hot over N_dim x max_values), or names in place
        of numbers, O for each value, drawn for every task: `"categorical"` (a category for each
        dimension, in 1 .. max_values * max_samples) or `"pseudoword"` (a made-up word for each, as
        four letters in 1 .. 26). 0 stands for what is not shown.
      speaker: rule of the speaker in the listener's view.
      actions: the listener view's actions: `"compact"` (one per decision, and no-operation) or
        `"reference"` (every pair of decision and sentence, and no-operation: 519 by default).
      listener_speaks: whether the listener's messages reach the speaker.
      announces: whether players also tell each other what they would have done if they did not
        explore (Hu & Foerster, 2020): their actions name all choices twice, first as made, then as
        announced, and messages are also heard as they were announced, through the same channel.
      rules: those of the reference code, which are the default, or others; also as a mapping.
      ablations: whether params may ablate the channel, at the price of drawing at every step.

    Raises:
      ValueError: for options that contradict each other.

    Example:
      >>> import gpicljax, jax
      >>> env = gpicljax.make("MetaRG-v0")
      >>> task = env.sample_task(jax.random.key(0), env.default_params)
      >>> observation, state = env.reset(jax.random.key(1), task)
      >>> sorted(observation)[:3]
      ['action_mask', 'message', 'phase']
    """

    view: Literal["listener", "players"] = "listener"
    max_values: Annotated[int, Range(2)] = 5
    max_shots: Size = 1
    max_samples: Size = 1
    num_dims: Size = 3
    vocab_size: Size = 6
    message_length: Size = 3
    num_rounds: Size = 1
    num_distractors: Annotated[int, Range(0, 8)] = 0
    descriptive: bool = True
    descriptive_ratio: Share | None = None
    feedback: bool = True
    stimulus: Stimulus = "scs"
    speaker: Literal["posdis", "digitising"] = "posdis"
    actions: Literal["compact", "reference"] = "compact"
    listener_speaks: bool = False
    announces: bool = False
    rules: GameRules = GameRules()
    ablations: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.rules, Mapping):  # options of a saved agent
            object.__setattr__(self, "rules", GameRules(**self.rules))
        super().__post_init__()
        most, tuples = int(jnp.iinfo(INDEX).max), self.max_values**self.num_dims
        accepted_values = f"at most {most} combinations of num_dims = {self.num_dims} values"
        check(tuples <= most, "max_values", self.max_values, accepted_values)
        fewest = 0 if self.descriptive else 1
        check(
            fewest <= self.num_distractors <= 8,
            "num_distractors",
            self.num_distractors,
            f"{fewest} .. 8: something to decide, and no more stimuli than there are meanings",
        )
        sayable = self.message_length + self.num_rounds - 1
        check(
            self.view == "players" or self.num_dims <= sayable,
            "message_length",
            self.message_length,
            f"enough for {self.num_dims} dimensions told in {self.num_rounds} round(s)",
        )
        fits = self.rules.positions == "fixed" or (
            self.message_length == self.num_dims and self.num_rounds == 1
        )
        accepted_values = '"fixed"; "episode" with one round of messages of num_dims tokens'
        check(fits, "rules.positions", self.rules.positions, accepted_values)
        fits = self.view == "players" or not self.announces
        check(fits, "announces", self.announces, 'False; True with view="players"')
        fits = self.stimulus == "scs" and self.num_dims <= self.message_length
        accepted_values = 'posdis; digitising with stimulus="scs" and num_dims <= message_length'
        check(fits or self.speaker == "posdis", "speaker", self.speaker, accepted_values)

    # Sizes -----------------------------------------------------------------------------------

    @property
    def num_agents(self) -> int | None:
        """2 in the players' view, else None."""
        return 2 if self.view == "players" else None

    @property
    def decisions(self) -> list[str]:
        """The listener's decisions in words, and what it does when there is nothing to decide."""
        if self.descriptive and not self.num_distractors:
            return ["same", "different", "wait"]
        places = [f"place {i + 1}" for i in range(self.num_distractors + 1)]
        return [*places, *["absent"] * self.descriptive, "wait"]

    @property
    def controls(self) -> tuple[tuple[str, str], ...]:
        """See `Environment.controls`."""
        if self.view != "listener" or self.actions != "compact":
            return ()
        keys = {"same": "s", "different": "d", "absent": "a", "go on": " "}
        names = [*self.decisions[:-1], "go on"]
        return tuple((name, keys.get(name, name.split()[-1])) for name in names)

    @property
    def match(self) -> str:
        """See `Environment.match`."""
        return "gpicljax.systems.meta_rg.figures.replay:match"

    def tells_results(self, query: Any) -> Any:
        """Returns whether the listener is told results in a phase, `bool` or `bool[...]`."""
        return self.rules.query_feedback or query == 0

    @property
    def num_decisions(self) -> int:
        """D: a place for each of the K + 1 stimuli, and one more for "absent" if descriptive."""
        return self.num_distractors + 1 + self.descriptive

    @property
    def has_names(self) -> bool:
        """Whether stimuli name values, by integers without an order, in place of measuring them."""
        return self.stimulus in ("categorical", "pseudoword")

    @property
    def stimulus_size(self) -> int:
        """F: entries of one stimulus, the same number for each dimension."""
        entries = {"mhe": self.max_values, "pseudoword": structure.WORD_LETTERS}
        return self.num_dims * entries.get(self.stimulus, 1)

    @property
    def max_support(self) -> int:
        """Cap of the support list; longer ones occur in less than 0.1 % of the episodes."""
        return 32 * max(2, -(-self.max_values // 5)) + 32 * (self.max_shots - 1)

    @property
    def max_query(self) -> int:
        """Cap of the query list."""
        if self.rules.query_targets == "tss":
            return self.max_support
        tuples = structure.combinations(self.num_dims, self.max_values)
        size = int(((tuples % 2 == 1).sum(-1) >= 2).sum())
        if self.rules.withheld:
            size = len(tuples) - (self.max_values - 1) ** self.num_dims
        return size * (self.max_samples if self.rules.query_targets == "all" else 1)

    @property
    def max_games(self) -> int:
        """Cap of the games of an episode."""
        return self.max_support + self.max_query

    def horizon(self, params: Params | None = None) -> Any:
        """Cap of the steps of an episode, whatever the params; see `max_games`."""
        del params
        steps = self.max_games * (self.num_rounds + 1 + self.feedback) - self.feedback
        return np.asarray(steps, np.int32)

    @property
    def _sentences(self) -> int:
        return messaging.num_sentences(self.vocab_size, self.message_length)

    @property
    def _num_actions(self) -> int:
        """Actions of the listener's view; the last one is the no-operation."""
        sentences = self._sentences if self.actions == "reference" else 1
        return self.num_decisions * sentences + 1

    # Tasks -----------------------------------------------------------------------------------

    @property
    def default_params(self) -> Params:
        """V in 2 .. min(5, cap), one shot, one sample: the first cell of the paper's Table 3.

        With values withheld V in 3 .. min(5, cap), and shots and samples up to their caps.
        """
        fields = {"min_values": 2, "max_values": min(5, self.max_values), "shots": 1, "samples": 1}
        if self.rules.withheld:
            fields |= {"min_values": 3, "shots": self.max_shots, "samples": self.max_samples}
        fields["channel"] = CHANNELS.index("episode")
        return Params(**{name: jnp.asarray(x, jnp.int32) for name, x in fields.items()})

    def validate(self, params: Params) -> None:
        """Raises ValueError where params contradict each other, the caps or the speaker."""
        super().validate(params)
        low, high = np.asarray(params.min_values), np.asarray(params.max_values)
        check_values("min_values, max_values", (low, high), low <= high, "min <= max")
        fits = (low > 2) | (not self.rules.withheld)
        check_values("min_values", low, fits, "3 or more: one is withheld, and two tell an order")
        for field in ("max_values", "shots", "samples"):
            name = field if field == "max_values" else f"max_{field}"
            value, cap = np.asarray(getattr(params, field)), getattr(self, name)
            accepted_values = f"up to {cap}; make(..., {name}=...) raises the cap"
            check_values(field, value, value <= cap, accepted_values)
        accepted_values = "0; make(..., ablations=True) admits others"
        channel = np.asarray(params.channel)
        check_values("channel", channel, self.ablations | (channel == 0), accepted_values)
        if self.view == "listener" and self.speaker == "posdis":
            accepted_values = (
                f"up to vocab_size, {self.vocab_size}: posdis needs a token for each value"
            )
            check_values("max_values", high, high <= self.vocab_size, accepted_values)

    def _task(
        self, table_key: jax.Array, channel_key: jax.Array, num_values: jax.Array, params: Params
    ) -> Task:
        shape = self.num_dims, self.max_values, self.max_samples
        if self.has_names:
            pseudowords = self.stimulus == "pseudoword"
            sample = structure.sample_words if pseudowords else structure.sample_categories
            table = sample(table_key, *shape)
            means = sigmas = jnp.zeros(shape[:2], jnp.result_type(float))
        else:
            uniform = self.rules.samples == "uniform"
            drawn = structure.sample_scs(table_key, num_values, *shape[1:], uniform=uniform)
            table, means, sigmas = drawn
        return Task(
            num_values=num_values,
            table=table,
            means=means,
            sigmas=sigmas,
            heard=self._permutation(channel_key),
            positions=self._positions(channel_key),
            shots=jnp.asarray(params.shots, jnp.int32),
            samples=jnp.asarray(params.samples, jnp.int32),
            channel=jnp.asarray(params.channel, jnp.int32),
        )

    def _permutation(self, key: jax.Array) -> jax.Array:
        return messaging.sample_permutation(
            key, self.vocab_size, self.message_length, self.rules.permutation
        )

    def _positions(self, key: jax.Array) -> jax.Array:
        order = jnp.arange(self.message_length, dtype=jnp.int32)
        if self.rules.positions == "fixed":
            return order
        draws = random.bits(jax.random.fold_in(key, 0), order.shape)
        return jnp.argsort(draws).astype(jnp.int32)

    def _num_values(self, key: jax.Array, params: Params) -> jax.Array:
        return structure.sample_num_values(
            key,
            self.num_dims,
            jnp.asarray(params.min_values, jnp.int32),
            jnp.asarray(params.max_values, jnp.int32),
        )

    def sample_task(self, key: jax.Array, params: Params) -> Task:
        """Draws a semantic structure with its stimuli and a channel."""
        structure_key, table_key, channel_key = jax.random.split(key, 3)
        num_values = self._num_values(structure_key, params)
        return self._task(table_key, channel_key, num_values, params)

    def _skeleton(
        self, key: jax.Array, num_values: jax.Array, shots: jax.Array, samples: jax.Array
    ) -> Skeleton:
        return sample_skeleton(
            key,
            num_values,
            shots,
            samples,
            max_values=self.max_values,
            max_support=self.max_support,
            max_query=self.max_query,
            query_targets=self.rules.query_targets,
            nonmatch=self.rules.nonmatch,
            withheld=self.rules.withheld,
            minimal_pairs=self.rules.minimal_pairs,
        )

    def sample_blueprint(self, key: jax.Array, params: Params) -> Skeleton:
        """A structure d(i) and the targets of an episode about it, without any value or token."""
        structure_key, targets_key = jax.random.split(key)
        return self._skeleton(
            targets_key,
            self._num_values(structure_key, params),
            jnp.asarray(params.shots, jnp.int32),
            jnp.asarray(params.samples, jnp.int32),
        )

    def start(self, key: jax.Array, blueprint: Skeleton, params: Params) -> tuple[Task, State]:
        """Fills a skeleton with fresh Gaussians, samples, channel and draws."""
        table_key, channel_key, episode_key = jax.random.split(key, 3)
        task = self._task(table_key, channel_key, blueprint.num_values, params)
        return task, self._round_zero(episode_key, blueprint, jnp.zeros((), jnp.int32), task)

    # Episodes --------------------------------------------------------------------------------

    def initial(self, key: jax.Array, task: Task) -> State:
        """Draws the targets of an episode and the first game."""
        targets_key, episode_key = jax.random.split(key)
        skeleton = self._skeleton(targets_key, task.num_values, task.shots, task.samples)
        return self._round_zero(episode_key, skeleton, jnp.zeros((), jnp.int32), task)

    def _round_zero(
        self, key: jax.Array, skeleton: Skeleton, index: jax.Array, task: Task
    ) -> State:
        """Before anything is said in a game, and as if nothing had been decided yet."""
        zero = jnp.zeros((), jnp.int32)
        silence = jnp.zeros((2, self.message_length), jnp.int32)
        return State(
            key=key,
            skeleton=skeleton,
            index=index,
            round=zero,
            game=self._game(key, index, skeleton, task),
            channel=silence,
            announced=silence,
            last_reward=jnp.zeros((), jnp.result_type(float)),
            last_result=zero,
        )

    def _game(self, key: jax.Array, index: jax.Array, skeleton: Skeleton, task: Task) -> Game:
        return draw_game(
            key,
            index,
            skeleton,
            task.table,
            task.samples,
            num_distractors=self.num_distractors,
            descriptive=self.descriptive,
            same_view=self.rules.same_view,
            stimulus=self.stimulus,
            descriptive_ratio=self.descriptive_ratio,
        )

    def at_game(self, state: State, index: jax.Array, task: Task) -> State:
        """The episode at the start of a game, without playing those before it.

        Args:
          state: any state of the episode.
          index: `int32[]`, which game.
          task: the task.

        Returns:
          The state in round 0, as if nothing had been decided yet.

        Example:
          >>> import gpicljax
          >>> env = gpicljax.make("MetaRG-v1")
          >>> task = env.sample_task(jax.random.key(0), env.default_params)
          >>> state = env.at_game(env.initial(jax.random.key(1), task), jnp.int32(3), task)
          >>> int(state.index), int(state.round)
          (3, 0)
        """
        index = jnp.asarray(index, jnp.int32)
        return self._round_zero(state.key, state.skeleton, index, task)

    def payment(self, correct: jax.Array, query: jax.Array) -> jax.Array:
        """Returns the rewards of decisions: `bool[...]`, right or wrong, and `bool[...]`, the phase
        -> float.

        Example:
          >>> import gpicljax
          >>> right, query = jnp.array([True, False, False]), jnp.array([True, True, False])
          >>> gpicljax.make("MetaRG-v1").payment(right, query).tolist()
          [1.0, -2.0, 0.0]
        """
        earned = jnp.where(correct, 1.0, jnp.where(query, self.rules.query_penalty, 0.0))
        return earned.astype(jnp.result_type(float))

    def move(self, state: State, action: jax.Array, noise: tuple[()], task: Task) -> Transition:
        """Runs one step of a game.

        Args:
          state: the state.
          action: the listener's `int32[]`, or both players' `int32[2, 1 + L]` (decision, tokens),
            twice as many where they announce. What a player may not do at this step has no effect.
          noise: nothing; the draws of an episode come from its state.
          task: the task.

        Returns:
          The transition; reward float `[]` (`[2]` for players). `info`: `decided`, `correct`,
          `query` (phase), all `bool[]`; `game` `int32[]`, the game played; `overflow` `bool[]`, the
          episode's target lists were cut at a cap.
        """
        del noise
        decision, messages, announced = self._decode(state, action)
        speaking = state.round < self.num_rounds
        deciding = state.round == self.num_rounds
        query = state.index >= state.skeleton.num_support
        correct = deciding & (decision == state.game.answer)
        reward = jnp.where(deciding, self.payment(correct, query), 0)
        terminated = deciding & (state.index == state.skeleton.num_games - 1)
        played = state.index

        over = state.round == self.num_rounds + (self.feedback & self.tells_results(query))
        index = jnp.where(over, jnp.minimum(state.index + 1, state.skeleton.num_games), state.index)
        following = self._game(state.key, index, state.skeleton, task)
        state = dataclasses.replace(
            state,
            index=index,
            round=jnp.where(over, 0, state.round + 1),
            game=jax.tree.map(lambda new, old: jnp.where(over, new, old), following, state.game),
            channel=jnp.where(over, 0, jnp.where(speaking, messages, state.channel)),
            announced=jnp.where(over, 0, jnp.where(speaking, announced, state.announced)),
            last_reward=jnp.where(deciding, reward, state.last_reward),
            last_result=jnp.where(deciding, 1 + correct.astype(jnp.int32), state.last_result),
        )
        info = {
            "decided": deciding,
            "correct": correct,
            "query": query,
            "game": played,
            "overflow": state.skeleton.overflow,
        }
        if self.num_agents:
            reward = jnp.broadcast_to(reward, (2,))
        return Transition(state, reward, terminated, jnp.zeros((), bool), info)

    def _decode(self, state: State, action: jax.Array) -> tuple[jax.Array, ...]:
        """Returns the decision `int32[]`; both messages `int32[2, L]`, as sent and as announced."""
        if self.view == "players":
            choices = 1 + self.message_length
            sent = self._admissible(action[:, 1:choices])
            announced = self._admissible(action[:, choices + 1 :]) if self.announces else sent
            return action[LISTENER, 0], sent, announced
        listener_message = jnp.zeros(self.message_length, jnp.int32)
        decision = action
        if self.actions == "reference":
            decision, sentence = action // self._sentences, action % self._sentences
            if self.listener_speaks:
                listener_message = messaging.sentence_tokens(
                    sentence, self.vocab_size, self.message_length
                )
                listener_message = jnp.where(action == self._num_actions - 1, 0, listener_message)
        sent = jnp.stack([self.speak(state), listener_message])
        return decision, sent, sent

    def _admissible(self, messages: jax.Array) -> jax.Array:
        """Returns the part of both players' tokens `int32[2, L]` that enters the channel."""
        if self.rules.fixed_length:  # a message with an end of sentence is not sent
            messages = jnp.where((messages > 0).all(-1, keepdims=True), messages, 0)
        messages = messaging.regularise(jnp.clip(messages, 0, self.vocab_size))
        return messages if self.listener_speaks else messages.at[LISTENER].set(0)

    def speak(self, state: State) -> jax.Array:
        """Returns the message of the rule-based speaker of the listener's view, `int32[L]`
        tokens.
        """
        if self.speaker == "digitising":
            return messaging.digitise(state.game.speaker[0], self.vocab_size, self.message_length)
        return messaging.posdis_message(
            state.game.speaker_latents[0],
            self.message_length,
            offset=jnp.minimum(state.round, self.num_rounds - 1),
            fixed_length=self.rules.fixed_length,
        )

    # Observations ----------------------------------------------------------------------------

    def _bijection(self, state: State, task: Task) -> jax.Array:
        """Returns the token that arrives for each token sent in this game, `int32[L, V + 1]`."""
        if not self.ablations:
            return task.heard
        new = self._permutation(self._ablation_key(state))
        return jnp.where(task.channel == CHANNELS.index("game"), new, task.heard)

    def _ablation_key(self, state: State) -> jax.Array:
        return jax.random.fold_in(state.key, -1 - state.index)

    def channel(self, state: State, task: Task) -> jax.Array:
        """Returns the token that the listener hears in this game for each token sent, `int32[L, V +
        1]`.
        """
        heard = self._bijection(state, task)
        if not self.ablations:
            return heard
        shape, key = (self.message_length, 1), self._ablation_key(state)
        noise = jax.random.randint(key, shape, 1, self.vocab_size + 1, jnp.int32)
        noisy = (task.channel == CHANNELS.index("random")) & (heard > 0)
        silent = task.channel == CHANNELS.index("silence")
        return jnp.where(silent, 0, jnp.where(noisy, noise, heard))

    def _hear(self, state: State, task: Task, sent: jax.Array) -> jax.Array:
        """Returns the messages that the speaker and the listener hear, `int32[2, L]`."""
        received = self.channel(state, task)[jnp.arange(self.message_length), sent[SPEAKER]]
        echo, said = sent
        if self.rules.positions == "episode":
            received, said = received[task.positions], said[jnp.argsort(task.positions)]
        # The speaker hears through the inverse: the token whose permutation was sent.
        if self.listener_speaks:
            matches = self._bijection(state, task) == said[:, None]
            echo = jnp.argmax(matches, axis=-1).astype(jnp.int32)
        return jnp.stack([echo, received])

    def observe(self, state: State, task: Task) -> dict[str, jax.Array]:
        """Returns the listener's observation, or both players' with a leading agent axis.

        Returns:
          stimulus: `[(K + 1) * F]`, the slots in order; float, `int32` where it names values.
          message: `int32[L]`, the partner's message as heard (a speaker without a partner's
            message sees its own); 0 is the end of sentence.
          announced: `int32[L]`, the same of what was announced; only where players do.
          round: `int32[]`, 0 .. N, and N + 1 in the feedback step.
          role: `int32[]`, 0 speaker, 1 listener.
          phase: `int32[]`, 0 support, 1 query.
          previous_result: `int32[]`, of the last game: 0 none yet, 1 failure, 2 success.
          previous_reward: float `[]`, of the last game.
          action_mask: `bool`, the legal actions: `[A]`, for players `[2, 1 + L, max(D, V) + 1]`,
            twice as many rows where they announce.
        """
        feedback = state.round == self.num_rounds + 1
        listener = jnp.where(feedback, state.game.speaker, state.game.listener)
        heard = self._hear(state, task, state.channel)
        query = state.index >= state.skeleton.num_support
        is_told = self.tells_results(query)
        common = {
            "round": state.round,
            "phase": query.astype(jnp.int32),
            "previous_result": jnp.where(is_told, state.last_result, 0),
            "previous_reward": jnp.where(is_told, state.last_reward, 0),
        }
        if self.view == "listener":
            return {
                "stimulus": listener.reshape(-1),
                "message": heard[LISTENER],
                "role": jnp.ones((), jnp.int32),
                **common,
                "action_mask": self._listener_mask(state),
            }
        speaker = state.game.speaker
        if self.rules.observability == "partial":
            speaker = speaker.at[1:].set(0)
        announced = {}
        if self.announces:
            announced = {"announced": self._hear(state, task, state.announced)}
        return {
            "stimulus": jnp.stack([speaker.reshape(-1), listener.reshape(-1)]),
            "message": heard,
            **announced,
            "role": jnp.arange(2, dtype=jnp.int32),
            **{name: jnp.stack([value, value]) for name, value in common.items()},
            "action_mask": self._player_masks(state),
        }

    def _listener_mask(self, state: State) -> jax.Array:
        actions = np.arange(self._num_actions)
        no_operation = actions == self._num_actions - 1
        decisions = ~no_operation
        if self.actions == "reference" and self.rules.masks == "paper":
            decisions = decisions & (actions % self._sentences == 0)
        talking = no_operation
        if self.actions == "reference" and self.listener_speaks:
            talking = (actions < self._sentences) & (actions > 0)
        return jnp.where(
            state.round == self.num_rounds,
            jnp.asarray(decisions),
            jnp.where(state.round < self.num_rounds, jnp.asarray(talking), no_operation),
        )

    def _player_masks(self, state: State) -> jax.Array:
        width = max(self.num_decisions, self.vocab_size) + 1
        choice = np.arange(width)
        silent, token = choice == 0, choice <= self.vocab_size
        if self.rules.fixed_length:
            token &= ~silent
        wait, decide = choice == self.num_decisions, choice < self.num_decisions
        quiet = np.stack([wait, *[silent] * self.message_length])
        talk = np.stack([wait, *[token] * self.message_length])
        choose = np.stack([decide, *[silent] * self.message_length])
        by_round = np.stack(
            [
                np.stack([talk, talk if self.listener_speaks else quiet]),
                np.stack([quiet, choose]),
                np.stack([quiet, quiet]),
            ]
        )
        stage = jnp.clip(state.round - self.num_rounds + 1, 0, 2)
        return jnp.asarray(np.tile(by_round, (1, 1, 1 + self.announces, 1)))[stage]

    def symbols(self) -> SymbolCode:
        """Returns the listener's code: a message and a stimulus, a decision, its result, feedback.

        Numbers of a stimulus are written in 64 bins.
        """
        is_heard = lambda observation: observation["round"] == self.num_rounds  # noqa: E731
        is_seen = lambda observation: observation["round"] >= self.num_rounds  # noqa: E731
        bins = levels(-1.25, 1.25, 64) if self.stimulus == "scs" else ()
        message = Entry(lambda observation: observation["message"], is_shown=is_heard)
        stimulus = Entry(lambda observation: observation["stimulus"], bins, is_seen)
        rewards = tuple(sorted({self.rules.query_penalty, 0.0, 1.0}))
        return SymbolCode(rewards, (message, stimulus), silence=self._num_actions - 1)

    def action_space(self, task: Task | None = None) -> spaces.Space:
        """`Discrete(A)`, or two players' `[decision, L tokens]`; decision D is no-operation.

        Where players announce, both as done and as announced.
        """
        del task
        if self.view == "listener":
            return spaces.Discrete(self._num_actions)
        nvec = (self.num_decisions + 1, *[self.vocab_size + 1] * self.message_length)
        return PlayersActions(nvec * (1 + self.announces))

    def observation_space(self, task: Task | None = None) -> spaces.Space:
        """Returns a `Dict` with the entries of `observe`."""
        del task
        listener = self.view == "listener"
        width = max(self.num_decisions, self.vocab_size) + 1
        rows = (1 + self.announces) * (1 + self.message_length)
        mask = (self._num_actions,) if listener else (rows, width)
        entries = (self.num_distractors + 1) * self.stimulus_size
        if self.has_names:
            categories = self.max_values * self.max_samples
            most = categories if self.stimulus == "categorical" else structure.NUM_LETTERS
            stimulus = spaces.MultiDiscrete((most + 1,) * entries)
        else:
            reach = float("inf") if self.stimulus == "scs" else 1.0
            stimulus = spaces.Box(-reach, reach, (entries,))
        heard = spaces.MultiDiscrete((self.vocab_size + 1,) * self.message_length)
        announced = {"announced": heard} if self.announces else {}
        player_space = spaces.Dict.of(
            {"stimulus": stimulus, "message": heard, **announced},
            role=spaces.Discrete(2),
            round=spaces.Discrete(self.num_rounds + 1 + self.feedback),
            phase=spaces.Discrete(2),
            previous_result=spaces.Discrete(3),
            previous_reward=spaces.Box(min(self.rules.query_penalty, 0.0), 1.0),
            action_mask=spaces.Box(0, 1, mask, bool),
        )
        return player_space if listener else spaces.repeat(player_space, 2)

    def privileged(self, state: State, task: Task) -> dict[str, Any]:
        """Latents, answer, structure, the length of the episode, and what kind of game it is.

        `new_target: bool[]`: no earlier game of the phase had this target. `minimal_pair: int32[]`:
        the number of values of the dimension in which a stimulus of the listener's is one value
        away from the target, and equal to it in all others; 0 if there is no such stimulus.
        """
        skeleton, game, index = state.skeleton, state.game, state.index
        place = jnp.arange(skeleton.targets.shape[0])
        began = jnp.where(index >= skeleton.num_support, skeleton.num_support, 0)
        earlier = (place >= began) & (place < index)
        apart = jnp.abs(game.listener_latents - game.speaker_latents[0])
        near = (apart.sum(-1, keepdims=True) == 1) & (apart == 1)
        return {
            "speaker_latents": game.speaker_latents,
            "listener_latents": game.listener_latents,
            "speaker_stimulus": game.speaker,
            "answer": game.answer,
            "num_values": task.num_values,
            "num_support": skeleton.num_support,
            "num_games": skeleton.num_games,
            "new_target": ~(earlier & (skeleton.targets == skeleton.targets[index])).any(),
            "minimal_pair": jnp.where(near, task.num_values, 0).max(),
        }

    def describe(self, state: State, task: Task) -> str:
        """Returns phase, game and stage, and what the listener sees and hears, in one line."""
        observation = self.observe(state, task)
        if self.num_agents:
            observation = jax.tree.map(lambda x: x[LISTENER], observation)
        query, step = bool(observation["phase"]), int(observation["round"])
        game = int(state.index) - int(state.skeleton.num_support) * query + 1
        stages = {self.num_rounds: "decision", self.num_rounds + 1: "feedback"}
        entries = self.stimulus_size // self.num_dims
        stimuli = np.asarray(observation["stimulus"]).reshape(-1, self.num_dims, entries)
        seen = ", ".join(f"({', '.join(map(self._value_text, x))})" for x in stimuli)
        whose = "the speaker's " if step > self.num_rounds else ""
        return (
            f"{'query' if query else 'support'} game {game}, "
            f"{stages.get(step, f'round {step}')}: the listener sees {whose}{seen} "
            f"and hears {observation['message'].tolist()}"
        )

    def _value_text(self, entries: np.ndarray) -> str:
        """Returns one dimension of a stimulus as it is observed."""
        if self.stimulus == "scs":
            return f"{entries[0]:.2f}"
        if not entries.any():
            return "-"
        if self.stimulus == "mhe":
            return f"{entries.argmax()}"
        return structure.word_text(entries) if len(entries) > 1 else f"{entries[0]}"


shortcut_free = functools.partial(MetaRG, rules=SHORTCUT_FREE)
"""`MetaRG-v1`: the game without its shortcuts."""

sections = functools.partial(MetaRG, rules=SECTIONS, max_shots=2, max_samples=16)
"""`MetaRG-v2`: the game that takes the structure of the values, not their neighbours alone."""
