"""Questions of micro6 to micro20: sentences from templates over one pool of bytes.

A template is a row of tokens, some of which are slots (see `templates`); what is in them is drawn
from the question's number (see `slots`).
"""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np

from gpicljax.systems.gradual_learning.env import conversation, templates
from gpicljax.systems.gradual_learning.env.conversation import Due, Question, QuestionSource
from gpicljax.systems.gradual_learning.env.pool import JOINTS, SYNONYMS, row_of, shared_pool
from gpicljax.systems.gradual_learning.env.slots import command_slots, draw_sentence, fill_slots
from gpicljax.systems.gradual_learning.env.templates import (
    ANNOUNCED,
    COMMANDS,
    FEEDBACK,
    IN_REFERENCE_UNFINISHED,
    PAIRS,
    SEQUENCES,
    TEMPLATES,
    TRIPLES,
)


@functools.cache
def _parsed_templates() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns the names of slots, and templates of questions and answers as rows.

    A literal is its token, slot i is -1 - i.
    """
    slots: list[str] = []

    def row(template: str) -> list[int]:
        tokens = []
        for literal, slot in re.findall(r"([^{}]+)|\{(\w+)\}", template):
            if slot and slot not in slots:
                slots.append(slot)
            tokens.append(-1 - slots.index(slot) if slot else shared_pool().token(literal))
        return tokens

    def rows(texts: list[str]) -> np.ndarray:
        token_rows = [row(text) for text in texts]
        longest = max(map(len, token_rows))
        return np.array([tokens + [0] * (longest - len(tokens)) for tokens in token_rows], np.int32)

    questions = rows([template[0] for template in TEMPLATES.values()])
    # An answer's period is its last token.
    answers = rows([template[1].removesuffix(".") for template in TEMPLATES.values()])
    room = np.zeros((len(answers), conversation.ANSWER - 1 - answers.shape[1]), np.int32)
    periods = np.full((len(answers), 1), shared_pool().token("."), np.int32)
    answers = np.concatenate([answers, room, periods], -1)
    _feedback_tokens()
    return slots, questions, answers


def texts() -> list[str]:
    """Returns all texts that sentences are made of, beside words, letters and gaps."""
    _parsed_templates()
    synonyms = [name for command in COMMANDS for name in SYNONYMS[command]]
    links = [" and ", " or ", " is as ", " - ", " "]
    sequences = [word for sequence in SEQUENCES for word in sequence]
    literals = [
        literal
        for template in TEMPLATES.values()
        for text in template[:2]
        for literal in re.findall(r"[^{}]+(?![^{}]*\})", text)
    ]
    return [*synonyms, *links, *sequences, *JOINTS, *PAIRS, *TRIPLES, *literals, "true", "false"]


def ask(source: QuestionSource, corrected: bool, composition: str = "all") -> Question:
    """Returns a question of the tasks with sentences.

    Args:
      source: see there.
      corrected: without the reference's slips: spaces in front of micro13.1's questions, feedback
        without periods, and parts of answers that pass for the whole.
      composition: which operands go with operations, see `composition.second_operands`; or `"all"`.
    """
    sentence = draw_sentence(source, corrected, composition)
    names, questions, answers = _parsed_templates()
    slots, values, fields = fill_slots(sentence)
    # A literal is itself, a slot its place.
    table = np.concatenate([questions, answers], -1)
    places = np.array([slots.index(name) for name in names])[np.maximum(-1 - table, 0)]
    table = np.where(table < 0, -1 - places, table).astype(np.int32)
    row = jnp.asarray(table)[sentence.template]
    tokens = jnp.where(row < 0, values[jnp.maximum(-1 - row, 0)], row)
    acceptors = [row[3] for row in TEMPLATES.values()]
    if not corrected:
        acceptors[list(TEMPLATES).index("and")] = conversation.ONE_OF
    styles = [row[2] for row in TEMPLATES.values()]
    if not corrected:
        for name in IN_REFERENCE_UNFINISHED:
            styles[list(TEMPLATES).index(name)] = templates.GOOD_JOB_UNFINISHED
    row = jnp.asarray(np.array([acceptors, styles], np.int32))[:, sentence.template]
    width = questions.shape[1]
    return Question(
        text=tokens[:width],
        answer=tokens[width:],
        pattern=fields["pattern"].astype(jnp.uint8),
        acceptor=row[0],
        style=row[1],
        key=fields["key"],
        keys=fields["keys"],
        cursor=jnp.zeros((), jnp.int32),
    )


def first_token(source: QuestionSource, corrected: bool) -> jax.Array:
    """Returns the token that a question begins with.

    Only commands, and what is announced, are slots there.
    """
    sentence = draw_sentence(source, corrected)
    names, questions, _ = _parsed_templates()
    lead = 0 if corrected else shared_pool().token(" ")
    slots = {name: row[i] for group, row in command_slots(sentence) for i, name in enumerate(group)}
    slots["lead"] = jnp.int32(lead)
    rows = questions[:, : ANNOUNCED.count("{") + 1]
    # Only what is announced, and a lead, may be empty.
    empty = [names.index(name) for name in ("lead", "new", "is_as", "old", "dash")]
    is_never_empty = ~np.isin(-1 - rows, empty)
    rows = np.where(np.cumsum(is_never_empty, -1) - is_never_empty == 0, rows, 0)
    token = jnp.zeros((), jnp.int32)
    for place in range(rows.shape[1]):
        row = jnp.asarray(rows[:, place])[sentence.template]
        token_of_place = row
        for slot in {int(-1 - x) for x in rows[:, place] if x < 0}:
            token_of_place = jnp.where(row == -1 - slot, slots[names[slot]], token_of_place)
        token = jnp.where(token == 0, token_of_place, token)
    return token


@functools.cache
def _feedback_tokens() -> np.ndarray:
    return np.array(
        [[shared_pool().token(t) for t in FEEDBACK[s][:2]] for s in sorted(FEEDBACK)], np.int32
    )


def feedback(source: QuestionSource, style: jax.Array, due: Due) -> tuple[jax.Array, jax.Array]:
    """Returns feedback, see `refill.Family`: a verdict, and often the answer."""
    del source
    index = jnp.clip(style - templates.GOOD_JOB, 0, len(FEEDBACK) - 1)
    repeats_answer = jnp.asarray(np.array([FEEDBACK[s][2] for s in sorted(FEEDBACK)]))[index]
    verdict = jnp.asarray(_feedback_tokens())[index, (~due.is_correct).astype(jnp.int32)]
    answer_part = jnp.where(style == templates.GOOD_JOB_UNFINISHED, 1, 2)
    return row_of(verdict), jnp.where(repeats_answer | ~due.is_correct, answer_part, 0)
