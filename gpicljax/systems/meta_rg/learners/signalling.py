"""Signalling games learnt from whole episodes: a listener, and a speaker that may learn as well.

The listener is told the right decisions (cross-entropy), and learns to expect what the feedback
will show. The speaker follows a rule or learns: by the score function (`"reinforce"`; Williams,
1992), or through its messages as if they were not discrete (`"straight-through"`; Bengio et al.,
2013; Jang et al., 2017). Its control keeps the code that it was born with.

A speaker must mean the same by the same message throughout an episode, or nothing can be bound.
Its exploration therefore draws its noise once per episode: tokens are those of highest logit plus
Gumbel noise, which is the same for all games of an episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct

from gpicljax.agents import sequence
from gpicljax.agents.acting import AgentCarry, q_agent
from gpicljax.checks import Positive, Range, Rate, Share, Size, check_at_least, check_fields
from gpicljax.interface import Agent, TimeStep, Trainer
from gpicljax.networks.contract import AgentInput, Network
from gpicljax.networks.event_store import EventStore
from gpicljax.networks.q_network import QOutput, RecurrentQSettings
from gpicljax.systems.meta_rg.env.types import LISTENER
from gpicljax.systems.meta_rg.experts.speakers import two_players
from gpicljax.systems.meta_rg.learners.speakers import (
    GameInputs,
    GameTargets,
    SignallingGame,
    Speaker,
)
from gpicljax.typing import ArrayTree, Variables

SpeakerKind = Literal["rule", "quantiser", "reinforce", "straight-through"]
LEARNING: tuple[SpeakerKind, ...] = ("reinforce", "straight-through")
"""Speakers that are networks."""


@dataclasses.dataclass(frozen=True)
class SignallingConfig:
    """Sizes and switches of the players' training; all are static.

    Attributes:
      speaker: `"rule"` (the game's own), `"quantiser"` (the digitising one: a control),
        `"reinforce"` or `"straight-through"`.
      games: G, length of a sequence.
      episodes: episodes of a sequence; see `games.game_sequences`.
      batch_size: sequences of different games per update.
      copies: sequences with the same games and other noise, each of which is a baseline to the
        others; at least 2 for `"reinforce"`.
      noise: whether exploration is the same for an `"episode"` or drawn anew every `"game"`.
      feedback_weight: weight of the expectation of feedback in the listener's loss.
      speaker_sizes: hidden sizes of the speaker.
      speaker_slots: games of an episode that the speaker remembers; 0 for none.
      speaker_heads: of that memory.
      temperature: temperature of the softmax whose gradient replaces that of straight-through
        messages.
      horizon: weight of the rewards of an episode's later games in the reward of a message.
      entropy: weight of the entropy of a speaker's tokens.

    Example:
      >>> SignallingConfig(speaker="reinforce", copies=4).noise
      'episode'
      >>> SignallingConfig(speaker="reinforce")
      Traceback (most recent call last):
      ValueError: copies: got 1; accepted: an integer >= 2
    """

    speaker: SpeakerKind = "rule"
    games: Size = 64
    episodes: Size = 4
    batch_size: Size = 32
    copies: Size = 1
    noise: Literal["episode", "game"] = "episode"
    feedback_weight: Rate = 10.0
    speaker_sizes: tuple[Size, ...] = (128, 128)
    speaker_slots: Annotated[int, Range(0)] = 0
    speaker_heads: Size = 12
    temperature: Positive = 1.0
    horizon: Share = 0.0
    entropy: Rate = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_at_least(2 if self.speaker == "reinforce" else 1, copies=self.copies)


class PlayersInputs(NamedTuple):
    """The inputs of two players in a sequence of games; leaves `[G, B, ...]`.

    Attributes:
      games: the games.
      learns: float `[G, B]`, 1 where a speaker explores and learns, 0 where it does neither.
    """

    games: GameInputs
    learns: jax.Array


@struct.dataclass
class SignallingData:
    """The data of a run; traced.

    Attributes:
      games: the distribution over tasks, as `draw` is given it.
      learns: float `[]`, 1 for a speaker that learns, 0 for one that keeps its first code.

    Example:
      >>> import gpicljax
      >>> control = SignallingData(gpicljax.make("MetaRG-v1").default_params, learns=0.0)
      >>> control.learns
      0.0
    """

    games: Any
    learns: jax.Array | float = 1.0


class SignalOutput(NamedTuple):
    """The outputs of two players in a sequence of games; leaves `[G, B, ...]`.

    Attributes:
      logits: float `[G, B, D]`, of the listener's decisions.
      expected: float `[G, B, F]`, what it expects the feedback to show.
      log_prob: float `[G, B]`, of the message; None unless the speaker is a network.
      entropy: float `[G, B]`, of its tokens, likewise.
      message: `int32[G, B, L]`, as sent.
    """

    logits: jax.Array
    expected: jax.Array
    log_prob: jax.Array | None
    entropy: jax.Array | None
    message: jax.Array


def players_network(
    config: SignallingConfig, game: SignallingGame, listener: RecurrentQSettings
) -> Network:
    """Returns speaker, channel and listener as one network over whole games; see `PlayersInputs`.

    Its parameters are a dictionary with those of `listener` and, where it has some, `speaker`.
    """
    players = _Players(config, game, listener)
    return Network(jax.jit(players.init), players.initial_carry, players.step, players.unroll)


class _Players:
    """Speaker, channel and listener; see `players_network`."""

    def __init__(
        self, config: SignallingConfig, game: SignallingGame, listener: RecurrentQSettings
    ) -> None:
        self.config, self.game = config, game
        self.listener = _expecting(listener).network(game.observations, game.actions)
        self.speaker = _speaker(config, game)
        self.tokens = game.vocab_size + 1

    def initial_carry(self, batch: int) -> tuple[Any, Any]:
        """Returns the memories of listener and speaker."""
        return self.listener.initial_carry(batch), self.speaker.initial_carry(batch)

    def say(
        self, params: Variables, memory: Any, inputs: GameInputs, learns: jax.Array
    ) -> tuple[tuple[Any, ...], Any]:
        """Returns what is said, and the speaker's memory.

        What is said: one-hots of the message as sent, float `[G, B, L, V + 1]`; its log-probability
        and its entropy, None of a speaker that does not learn.
        """
        if self.config.speaker == "quantiser":
            sent = self.game.quantised(inputs.speaker)
            return (jax.nn.one_hot(sent, self.tokens), None, None), memory
        noise = learns[..., None, None] * inputs.noise

        def speak(memory: Any, seen: tuple[jax.Array, ...]) -> tuple[Any, Any]:
            stimulus, start, noise = seen
            always = jnp.ones_like(start)
            spoken: Any = self.speaker.apply(
                params["speaker"], memory, stimulus, start, always, noise
            )
            return spoken[1], spoken[0]

        seen = inputs.speaker, inputs.starts, noise
        by_game = self.config.speaker_slots > 0
        memory, said = jax.lax.scan(speak, memory, seen) if by_game else speak(memory, seen)
        logits, tokens_said = said
        constant_logits = jax.lax.stop_gradient(logits)
        logits = constant_logits + learns[..., None, None] * (logits - constant_logits)
        going_on = jnp.cumprod(tokens_said != 0, axis=-1)
        sent = tokens_said * going_on
        hard = jax.nn.one_hot(sent, self.tokens)
        # What would come behind the end of a sentence is not said: it has no part in anything.
        is_sent = jnp.pad(going_on[..., :-1], ((0, 0), (0, 0), (1, 0)), constant_values=1)[
            ..., None
        ]
        log_probs = jax.nn.log_softmax(logits)
        entropy = -(is_sent * jnp.exp(log_probs) * log_probs).sum((-1, -2))
        if self.config.speaker == "straight-through":
            soft = is_sent * jax.nn.softmax((logits + noise) / self.config.temperature)
            hard = hard + soft - jax.lax.stop_gradient(soft)
        log_prob = (is_sent * log_probs * jax.nn.one_hot(tokens_said, self.tokens)).sum((-1, -2))
        return (hard, log_prob, entropy), memory

    def hear(self, inputs: GameInputs, sent: jax.Array) -> jax.Array:
        """Returns the message in every step of every game, float `[G, B, R, L (V + 1)]`."""
        through = jax.nn.one_hot(inputs.channel, self.tokens)
        arrives = jnp.einsum("gblv,gblvw->gblw", sent, through)
        steps = inputs.listener.last_reward.shape[2]
        silence = jax.nn.one_hot(
            jnp.zeros((*sent.shape[:2], 1, sent.shape[2]), jnp.int32), self.tokens
        )
        every = jnp.broadcast_to(arrives[:, :, None], (*sent.shape[:2], steps - 1, *sent.shape[2:]))
        return jnp.concatenate([silence, every], axis=2).reshape(*sent.shape[:2], steps, -1)

    def init(self, key: jax.Array, inputs: PlayersInputs) -> Any:
        """Returns parameters, from inputs of one game, `[B, ...]`."""
        games = inputs.games
        speaker_key, listener_key = jax.random.split(key)
        step = jax.tree.map(lambda x: x[:, 0], games.listener)
        batch = step.last_reward.shape[0]
        shown = {
            **step.observation,
            "message": jnp.zeros((batch, self.game.message_length * self.tokens)),
        }
        params = {"listener": self.listener.init(listener_key, step._replace(observation=shown))}
        if self.config.speaker in LEARNING:
            memory, start = self.speaker.initial_carry(batch), games.starts
            seen = games.speaker, start, start, games.noise
            params["speaker"] = self.speaker.init(speaker_key, memory, *seen)
        return params

    def unroll(
        self,
        params: Variables,
        carry: Any,
        inputs: PlayersInputs,
        starts: jax.Array | None,
        key: jax.Array | None = None,
    ) -> tuple[SignalOutput, Any]:
        del starts
        shown, learns = inputs
        games, batch, steps = shown.listener.last_reward.shape
        listener_memory, memory = self.initial_carry(batch) if carry is None else carry
        if self.config.speaker == "rule":
            message = shown.listener.observation["message"]
            messages = jax.nn.one_hot(message, self.tokens).reshape(games, batch, steps, -1)
            sent, log_prob, entropy = message[:, :, -1], None, None
        else:
            (hot, log_prob, entropy), memory = self.say(params, memory, shown, learns)
            messages, sent = self.hear(shown, hot), hot.argmax(-1)
        observation = {**shown.listener.observation, "message": messages}
        read = jax.tree.map(_by_step, shown.listener._replace(observation=observation))
        first = jnp.zeros((games, steps, batch), bool).at[:, 0].set(shown.starts)
        outputs, listener_memory = self.listener.unroll(
            params["listener"], listener_memory, read, first.reshape(-1, batch), key
        )
        decide: QOutput = jax.tree.map(
            lambda x: x.reshape(games, steps, *x.shape[1:])[:, self.game.decides], outputs
        )
        expected = decide.predictions["feedback"]
        logits = decide.q_values[..., : self.game.num_decisions]
        memories = listener_memory, memory
        return SignalOutput(logits, expected, log_prob, entropy, sent), memories

    def step(
        self, params: Variables, carry: ArrayTree, inputs: PlayersInputs, start: jax.Array
    ) -> tuple[Any, Any]:
        single_step = jax.tree.map(lambda x: x[None], inputs)
        outputs, carry = self.unroll(params, carry, single_step, start[None])
        return jax.tree.map(lambda x: x[0], outputs), carry


def _by_step(x: jax.Array) -> jax.Array:
    """`[G, B, R, ...] -> [G R, B, ...]`."""
    x = jnp.moveaxis(x, 2, 1)
    return x.reshape(-1, *x.shape[2:])


def _expecting(listener: RecurrentQSettings) -> RecurrentQSettings:
    return dataclasses.replace(listener, predictions=("feedback",))


def _speaker(config: SignallingConfig, game: SignallingGame) -> Speaker:
    said, memory = (game.vocab_size + 1,) * game.message_length, None
    if config.speaker_slots:
        sizes = game.seen, sum(said), config.speaker_slots, config.speaker_heads
        memory = EventStore(*sizes, metric="distance", value_parts=said)
    sizes = game.vocab_size, game.message_length, config.speaker_sizes
    return Speaker(*sizes, game.fixed_length, memory)


def objective(config: SignallingConfig) -> list[sequence.Loss]:
    """Returns the losses of the players.

    The score function's reward of a message is what it did for the listener: the log-probability
    of the right decision less the weighted error of its expectation, compared with the same game
    under the noise of other copies.
    """

    def nats(out: SignalOutput, sequences: sequence.Sequences) -> jax.Array:
        labels = jnp.maximum(sequences.targets.answer, 0)
        return optax.softmax_cross_entropy_with_integer_labels(out.logits, labels)

    def error(out: SignalOutput, sequences: sequence.Sequences) -> jax.Array:
        return jnp.square(out.expected - sequences.targets.feedback).mean(-1)

    def is_played(sequences: sequence.Sequences) -> jax.Array:
        return sequences.targets.answer >= 0

    def score(out: SignalOutput, sequences: sequence.Sequences) -> jax.Array:
        assert out.log_prob is not None
        reward = -nats(out, sequences) - config.feedback_weight * error(out, sequences)
        reward = jax.lax.stop_gradient(jnp.where(is_played(sequences), reward, 0))
        if config.horizon:
            reward = reward + config.horizon * _following(reward, sequences.inputs.games.starts)
        groups = reward.reshape(reward.shape[0], -1, config.copies)
        baseline = (groups.sum(-1, keepdims=True) - groups) / (config.copies - 1)
        return -(groups - baseline).reshape(reward.shape) * out.log_prob

    losses = [
        sequence.Loss("decision", nats, 1.0, is_played),
        sequence.Loss("feedback", error, config.feedback_weight, is_played),
    ]
    if config.speaker == "reinforce":
        losses.append(sequence.Loss("score", score, 1.0, is_played))
    if config.speaker in LEARNING:
        entropy = sequence.Loss("entropy", lambda out, _: out.entropy, -config.entropy, is_played)
        losses.append(entropy)
    return losses


def _following(reward: jax.Array, starts: jax.Array) -> jax.Array:
    """Returns the sum of the rewards of an episode's later games, `[G, B]`."""

    def back(
        later_reward: jax.Array, game_inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        reward, start = game_inputs
        return jnp.where(start, 0, later_reward + reward), later_reward

    return jax.lax.scan(back, jnp.zeros_like(reward[0]), (reward, starts), reverse=True)[1]


def signalling_trainer(
    config: SignallingConfig,
    game: SignallingGame,
    listener: RecurrentQSettings,
    draw: Callable[[jax.Array, Any], tuple[GameInputs, GameTargets]],
) -> Trainer:
    """Builds the trainer.

    Args:
      config: sizes and switches.
      game: what is played.
      listener: its network; `predictions` are the trainer's.
      draw: `(keys, games) -> (inputs, targets)` of `games` games each, `copies` sequences a key,
        such as `games.game_sequences`.

    Returns:
      A sequence trainer (its hyper-parameters are `sequence.SequenceHParams`) whose `init` is given
      a `SignallingData`. Its agent plays both parts of the players' view; with the game's own
      speaker, the listener's.

    Example:
      >>> import gpicljax
      >>> from gpicljax.systems.meta_rg.learners import signalling_games as games
      >>> env = gpicljax.make("MetaRG-v1")
      >>> config, listener = SignallingConfig(games=32), RecurrentQSettings(encoded="stimulus")
      >>> draw = games.game_sequences(env, config.games, config.episodes)
      >>> signalling_trainer(config, games.signalling_game(env), listener, draw).observations
      3072
    """

    def sample(keys: jax.Array, lesson: SignallingData) -> sequence.Sequences:
        games, targets = draw(keys, lesson.games)
        learns = jnp.full(games.starts.shape, lesson.learns, jnp.result_type(float))
        return sequence.Sequences(PlayersInputs(games, learns), games.starts, targets)

    return sequence.make(
        sequence.SequenceConfig(batch_size=config.batch_size, schedule="cosine"),
        players_network(config, game, listener),
        sample,
        objective(config),
        length=config.copies * config.games * game.steps,
        agent=lambda greedy=False: players_agent(config, game, listener, 0.0 if greedy else 1.0),
    )


def players_agent(
    config: SignallingConfig,
    game: SignallingGame,
    listener: RecurrentQSettings,
    explore: jax.Array | float = 0.0,
) -> Agent:
    """Returns both players in the players' view of the game, over the trainer's parameters.

    With the game's own speaker there is one player only, in the listener's view.

    Args:
      config: sizes and switches.
      game: the game to play.
      listener: settings of the listener's network.
      explore: scale of the noise in the speaker's choice of tokens: 0 for the most probable tokens,
        1 for the noise of training.

    Example:
      >>> import gpicljax
      >>> from gpicljax.systems.meta_rg.learners import signalling_games as games
      >>> game = games.signalling_game(gpicljax.make("MetaRG-v1"))
      >>> config = SignallingConfig("straight-through")
      >>> listener = RecurrentQSettings(encoded="stimulus")
      >>> agent = players_agent(config, game, listener, explore=1.0)
      >>> _, (memory, noise) = agent.initial_carry(4)  # the listener's, the speaker's
      >>> noise.shape[:2]  # instances, tokens of a message
      (4, 3)
    """
    listener_network = _expecting(listener).network(game.observations, game.actions)
    decides = q_agent(listener_network, game.actions)

    def listen(
        keys: jax.Array, params: Variables, carry: AgentCarry, timestep: TimeStep
    ) -> tuple[jax.Array, Any, AgentCarry]:
        return decides.act(keys, params["listener"], carry, timestep)

    listens = Agent(decides.initial_carry, listen)
    if config.speaker == "rule":
        return listens
    speaker, shape = _speaker(config, game), (game.message_length, game.vocab_size + 1)

    def initial_carry(batch: int) -> tuple[Any, jax.Array]:
        return speaker.initial_carry(batch), jnp.zeros((batch, *shape))

    def speak(
        keys: jax.Array, params: Variables, carry: tuple[Any, jax.Array], timestep: TimeStep
    ) -> tuple[jax.Array, Any, tuple[Any, jax.Array]]:
        (memory, noise), stimulus = carry, timestep.observation["stimulus"]
        if config.speaker not in LEARNING:
            return game.quantised(stimulus), {}, carry
        begins = timestep.observation["round"] == 0
        fresh = jax.vmap(lambda key: jax.random.gumbel(key, shape))(keys)
        anew = timestep.trial_start if config.noise == "episode" else begins
        noise = jnp.where(anew[:, None, None], fresh, noise)
        seen = stimulus, timestep.trial_start, begins, explore * noise
        said: Any = speaker.apply(params["speaker"], memory, *seen)
        (_, tokens), memory = said
        return tokens.astype(jnp.int32), {}, (memory, noise)

    speaks = Agent(initial_carry, speak)
    return two_players(listens, speaks, game.num_decisions, game.message_length)


def listeners_attention(
    game: SignallingGame, listener: RecurrentQSettings
) -> Callable[[Any, AgentInput, jax.Array], jax.Array] | None:
    """The listener's `Network.attention`, over the trainer's parameters; None where it has none.

    Returns:
      A function of parameters, inputs and starts. Where two players play, the inputs are those of
      both; the listener's own are taken from them, its decision alone from its last action.
    """
    listener_network = _expecting(listener).network(game.observations, game.actions)
    if listener_network.attention is None:
        return None
    attend = listener_network.attention

    def attention(params: Variables, inputs: AgentInput, starts: jax.Array) -> jax.Array:
        if inputs.last_action.ndim > 2:
            listener_view = jax.tree.map(lambda x: x[:, :, LISTENER], inputs.observation)
            listener_view["action_mask"] = listener_view["action_mask"][
                :, :, 0, : game.num_decisions + 1
            ]
            reward = inputs.last_reward[:, :, LISTENER]
            inputs = AgentInput(listener_view, inputs.last_action[:, :, LISTENER, 0], reward)
        return attend(params["listener"], inputs, starts)

    return attention
