"""ByteStream: the conversation against scripts worked out by hand, the task sets against the facts.

One program plays the oracle on all task sets; its transcripts serve most assertions.
"""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gpicljax
from gpicljax.envs.byte_stream import (
    NAMES,
    TASKS,
    Curriculum,
    experts,
    find_circle,
    load_curriculum,
    predecessors,
    save_curriculum,
    words,
)
from gpicljax.envs.byte_stream.replay import Line, replay
from gpicljax.rollout import RolloutState, rollout

# Mean steps of an oracle's instance in the facts' table, of five instances each.
TABLE = dict(
    zip(
        NAMES,
        [
            *(10, 10, 10, 10, 20, 30, 40, 60, 60, 50, 74, 70, 66, 70, 65, 118, 90, 93, 98, 82, 116),
            *(222, 324, 200, 324, 528, 356, 250, 456, 558, 564, 426, 377, 307, 362, 320, 391, 417),
            *(437, 612, 42, 47, 52, 76, 90, 78),
        ],
        strict=True,
    )
)
STREAMS, STEPS = 8, 2_000


@pytest.fixture(scope="module")
def played():
    """Bytes, answers, rewards and info of the reference's rules, `[T, task sets, streams]`."""
    env = gpicljax.make("ByteStream-v0", rules="reference")

    def play(key, params):
        task = env.sample_task(key, params)
        _, state = env.reset(key, task)

        def body(state, _):
            answer = env.privileged(state, task)["answer"]
            moved = env.move(state, answer, (), task)
            return moved.state, (state.byte, answer, moved.reward, moved.info)

        return jax.lax.scan(body, state, None, STEPS)[1]

    params = [
        env.make_params(curriculum=Curriculum((name,), "mixture"), horizon=10**6) for name in NAMES
    ]
    params = jax.tree.map(lambda *x: jnp.stack(x), *params)
    over_streams = jax.vmap(play, (0, None), 1)
    run = jax.jit(jax.vmap(over_streams, (None, 0), 1))
    return jax.tree.map(np.asarray, run(jax.random.split(jax.random.key(5), STREAMS), params))


def test_an_oracle_solves_every_task_in_the_steps_of_the_table(played):
    _, _, rewards, info = played
    assert rewards.min() == 0  # no wrong answer, and no word out of turn
    for place, name in enumerate(NAMES):
        ended = info["instance_ended"][:, place]
        steps = info["instance_steps"][:, place][ended]
        assert info["solved"][:, place][ended].all(), name
        spread = steps.std() * np.sqrt(1 / len(steps) + 1 / 5)
        assert abs(steps.mean() - TABLE[name]) <= 3 * spread + 1, name


def test_questions_have_the_form_of_their_task(played):
    forms = {
        "micro5.4": rb"\d\. +\d\d;",
        "micro5.9": rb"\d{1,2}\. \d\.;",
        "micro5.14": rb"\d\. \d{3,5}\.;",
        "micro5.18": rb"\d{1,10}\. +\d{1,10}\.;",
        "micro6": rb"random_map: [a-z]+\. +good job! ;",
        "micro7.3": rb"say: [a-z]+ [a-z]+\. +correct! [a-z]+ [a-z]+\.;",
        "micro8": rb"say: +[a-z] *[a-z] *\. +correct! [a-z] ?[a-z] ?\.;",
        "micro9.3": rb"interleave: [a-z]+ by [-#,]\. +good job! [a-z]([-#,][a-z])*\.;",
        "micro13.1": rb" say: ([a-e] (and|or) [a-e]|[a-e] or [a-e] but not [a-e]|anything and not "
        rb"[a-e])\. +good job! ;",
        "micro13.2": rb"say: [a-z]{1,3}( (and|or) [a-z]{1,3}){1,3}\. +good job! ;",
        "micro15": rb"say next after: [a-z]+\. +good job! ;",
        "micro19": rb"[a-z]+:? [a-z: ]+\. +good job! ;",
        "micro20": rb"[a-z]+ is as (say|after|union|exclude) - [a-z: ]+\. +good job! ;",
        "mini4": rb"description: ((not )?[A-Z]{1,3}|anything)( and ((not )?[A-Z]{1,3}|anything))*; "
        rb"verify: [A-Z]+\. +[a-z ]+!",
    }
    said = played[0]
    for name, form in forms.items():
        text = bytes(said[1:, NAMES.index(name), 0].astype(np.uint8).tolist())
        found = list(re.finditer(form, text))
        assert len(found) >= 8, name
        # Nothing lies between them, the first of which is the first.
        assert found[0].start() == 0, (name, text[:80])
        gaps = {text[a.end() : b.start()] for a, b in zip(found, found[1:], strict=False)}
        assert gaps <= ({b" "} if name.startswith("mini") else {b""}), (name, gaps)
    # All digits occur as questions, and as first digits of longer ones.
    text = bytes(said[1:, NAMES.index("micro5.13"), 0].astype(np.uint8).tolist())
    assert len(set(re.findall(rb";(\d)", text))) >= 6


def test_mini_labels_are_those_of_a_plain_reading(played):
    def member(positive, negative, anything, every, string):
        if any(n in string for n in negative):
            return False
        if every and not all(p in string for p in positive):
            return False
        covered = -1
        for i in range(len(string)):
            for p in positive:
                if string[: i + 1].endswith(p) and i - len(p) + 1 <= covered + 1:
                    covered = i
        return anything or covered + 1 == len(string)

    said, answers = played[0], played[1]
    labels = []
    for place in range(NAMES.index("mini0"), NAMES.index("mini5")):
        for stream in range(STREAMS):
            text = bytes(said[1:, place, stream].astype(np.uint8).tolist()).decode()
            reply = bytes(answers[1:, place, stream].astype(np.uint8).tolist()).decode()
            for found in re.finditer(r"description: ([^;]*); verify: ([A-Z]+)\.", text):
                every = place != NAMES.index("mini2")
                parts = found[1].split(" and " if every else " or ")
                positive = [p for p in parts if p != "anything" and not p.startswith("not ")]
                negative = [p[4:] for p in parts if p.startswith("not ")]
                wanted = member(positive, negative, "anything" in parts, every, found[2])
                answer = re.match(r"(true|false)\.", reply[found.end() - 1 :])
                if answer:
                    assert (answer[1] == "true") == wanted, found[0]
                    labels.append(wanted)
    assert len(labels) > 500 and abs(np.mean(labels) - 0.5) < 3 * 0.5 / np.sqrt(len(labels))


def test_a_batch_says_what_its_streams_say_alone():
    env = gpicljax.make("ByteStream-v0", max_tasks=46)
    params = env.make_params(curriculum=Curriculum(mode="mixture"), horizon=10**6)

    def play(key):
        task = env.sample_task(key, params)

        def body(state, number):
            answer = env.privileged(state, task)["answer"]
            # A word out of turn now and then.
            moved = env.move(state, jnp.where(number % 41 == 0, 120, answer), (), task)
            return moved.state, (moved.state.byte, moved.reward)

        return jax.lax.scan(body, env.initial(key, task), jnp.arange(600))[1]

    keys = jax.random.split(jax.random.key(1), 24)
    together, alone = jax.jit(jax.vmap(play))(keys), jax.jit(play)
    for i in (0, 7, 23):
        one = alone(keys[i])
        assert (one[0] == together[0][i]).all() and (one[1] == together[1][i]).all()
    assert len({row.tobytes() for row in np.asarray(together[0])}) == 24


def test_scripts_worked_out_by_hand():
    # Two bytes: decided at the second one; feedback begins with the reward; talk is punished, and
    # begins the row anew.
    line = Line("1.", "42", "42;", "42;", keys=1)
    said, rewards, solved = replay([("micro5.4", [line] * 4)], b" 42   x42   ")
    assert said == b"1. 42;1. 42;1" and solved == []
    assert rewards == [0, 0, 0, 1, 0, 0, 0, -1, 0, 1, 0, 0, 0]
    # Ten in a row solve an instance without feedback; the last reward comes with the next one's
    # first byte.
    copy = [Line(x, x) for x in "abcdefghij"]
    said, rewards, solved = replay([("micro4", copy), ("micro4", copy)], b"abcdefghija")
    assert said == b"abcdefghijab" and rewards == [0] + [1] * 11 and solved == [True]
    # After the last feedback comes the switch, at which the reference hears nothing.
    ten = [Line("1", "7", "7;", "7;")] * 10
    talk = b"7  " * 9 + b"7 x"
    said, rewards, solved = replay([("micro5.2", ten), ("micro5.2", ten)], talk)
    assert said == b"17;" * 10 + b"1" and rewards[-1] == 0 and solved == [True]
    assert replay([("micro5.2", ten)] * 2, talk, "mended").rewards[-1] == -1
    # Periods: a space in front is part of the answer, unless mended.
    word = [Line("say: a.", "a.", "correct! a.;", "false! a.;")] * 2
    reply = b" " * 6 + b" a." + b" " * 3
    assert replay([("micro7.1", word)], reply).rewards[9] == -1
    assert replay([("micro7.1", word)], reply, "mended").rewards[9] == 1
    # What else is accepted.
    either = Line("?.", "a.", "+;", "-;", "one of", ("a.", "ba."))
    assert replay([("micro13.1", [either] * 9)], b" a.  ").rewards[3] == 1
    both = replay([("micro13.1", [either] * 9)], b" ba.   ab.   ba.")
    assert [r for r in both.rewards if r] == [1, -1, 1]
    without = Line("?.", "a.", "+;", "-;", "lacking", ("x",))
    got = replay([("micro13.1", [without] * 9)], b" q.   .   ax.   abc.")
    assert [r for r in got.rewards if r] == [1, -1, -1, 1]
    having = Line("?.", "a.", "+;", "-;", "containing", ("abc", "q"))
    got = replay([("micro13.2", [having] * 9)], b" ababc.   ab.   wq.   acb.")
    assert [r for r in got.rewards if r] == [1, -1, 1, -1]


def test_clocks():
    """Known at once: solved within 51 questions or not at all; failed at the 105th."""
    copy = [Line("a", "a")] * 200
    late = replay([("micro4", copy)] * 2, b"x" * 42 + b"a" * 10)
    assert late.solved == [False]  # ten in a row, but after 52 questions
    assert replay([("micro4", copy)] * 2, b"x" * 41 + b"a" * 10).solved == [True]
    never = replay([("micro4", copy)] * 2, b"x" * 105)
    assert never.solved == [False]
    assert replay([("micro4", copy)] * 2, b"x" * 104).solved == []


def test_mini_talk_of_the_reference():
    line = Line("ok? yes.", "true.", "fine!", "Wrong.")
    script = [("mini1", [line])] * 3
    quiet = b" " * 7
    # Right at the end of whatever is said; a space, and the reward with the next question.
    said, rewards, solved = replay(script, quiet + b"so true." + b" " * 5 + b"  ")
    assert said.startswith(b"ok? yes.       fine! ok") and solved == [True]
    assert sum(rewards) == 1 and rewards[len(b"ok? yes.       fine! ")] == 1
    # A period while the question is said fails it; one in the congratulation spoils it.
    assert replay(script, b"." + b" " * 15).solved == [False]
    spoilt = replay(script, quiet + b"true." + b"." + b" " * 12)
    assert spoilt.solved == [False] and b"fine!Wrong." in spoilt.said


@pytest.mark.slow
def test_experts():
    """Table, echo and silence on task sets that they can, and cannot, do."""
    env = gpicljax.make("ByteStream-v0", rules="reference")
    names = ("micro4", "micro5.2", "micro5.13", "micro6", "micro7.1", "micro1")
    params = [env.make_params(curriculum=Curriculum((n,), "mixture")) for n in names]
    params = jax.tree.map(lambda *x: jnp.stack(x), *params)
    task = jax.vmap(env.sample_task)(jax.random.split(jax.random.key(2), len(names)), params)
    vec = gpicljax.VectorEnv(env, len(names), resets="fresh", privileged=True)

    def solved(agent):
        def go():
            vstate, timestep = vec.init(jax.random.key(0), task=task)
            start = RolloutState(vstate, timestep, agent.initial_carry(len(names)))
            return rollout(
                vec, agent, (), start, 1_500, lambda record: record.next_timestep.info["solved"]
            )[1].sum(0)

        return dict(zip(names, np.asarray(jax.jit(go)()).tolist(), strict=True))

    assert solved(experts.echo())["micro4"] >= 140
    done = solved(experts.solver())
    assert min(done.values()) >= 1 and done["micro5.2"] >= 15 and done["micro5.13"] >= 4


def test_curricula(tmp_path):
    path = tmp_path / "mine.json"
    mine = Curriculum(("micro1", "mini0"), "mixture", 7, (1.0, 3.0), (("mini0", ("micro1",)),), "x")
    save_curriculum(mine, path)
    assert load_curriculum(path) == mine
    for content, words_of in {
        "{": "no JSON",
        "[]": "an object",
        '{"tasks": ["micro55"]}': "did you mean 'micro5.5'",
        '{"tasks": []}': "at least one",
        '{"task": []}': "did you mean 'tasks'",
        '{"tasks": ["micro1"], "threshold": 0}': "threshold: got 0",
        '{"tasks": ["micro1"], "mode": "mixed"}': "did you mean 'mixture'",
        '{"tasks": [{"name": "micro1", "requires": ["micro1"]}]}': "micro1 -> micro1",
        '{"tasks": [{"name": "micro1", "weight": 2}]}': "weights: got",
    }.items():
        path.write_text(content)
        with pytest.raises(ValueError, match=words_of) as refused:
            load_curriculum(path)
        assert "mine.json" in str(refused.value), json.dumps(content)
    assert find_circle({task.name: task.requires for task in TASKS}) == []
    for task in TASKS:
        assert set(predecessors(task.name)) <= set(NAMES[: NAMES.index(task.name)])
    env = gpicljax.make("ByteStream-v0", max_tasks=3)
    with pytest.raises(ValueError, match=r"4 task sets.*max_tasks"):
        env.make_params(curriculum=Curriculum(NAMES[:4]))


def test_words():
    assert len(words()) == len(set(words())) >= 2_000
    assert all(word.isascii() and word.islower() and len(word) <= 15 for word in words())
