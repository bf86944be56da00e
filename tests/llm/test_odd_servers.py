"""Servers with ways of their own: what is understood, what ends one trial, what it costs."""

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager

import jax
import pytest
from chat_server import Sent, serve

import gpicljax
from gpicljax.llm.asking import RetryPolicy
from gpicljax.llm.budget import Budget
from gpicljax.llm.chat import FakeModel, Message, ModelError, Usage, believed_usage, sound_text
from gpicljax.llm.conversations import Conversations
from gpicljax.rollout import HostBatch
from gpicljax.systems.in_context_rl.prompts.trials import play_trials
from gpicljax.wrappers.trial import Trial

pytest.importorskip("httpx")

from gpicljax.llm.client import OpenAICompatible

HASTE = RetryPolicy(attempts=2, first=0.0)
DEEP = "[" * 100_000 + "]" * 100_000
HELLO = [Message("system", "Be brief."), Message("user", "Which arm?")]


def completion(content="[SELECT: 1]", finish="stop", **more):
    message = {"role": "assistant", "content": content}
    return 200, {"choices": [{"message": message, "finish_reason": finish}], **more}


@contextmanager
def server(answer, listed=("m",)):
    """Answers a request's body with `answer(body) -> (status, content)`; yields address and log."""
    log, lock = [], threading.Lock()

    def respond(request):
        if request.body is None:
            return Sent(200, {"data": [{"id": name} for name in listed]})
        with lock:
            log.append(request.body)
            return Sent(*answer(request.body))

    with serve(respond) as address:
        yield f"{address}/v1", log


def client(endpoint, **options):
    return OpenAICompatible(endpoint, "m", **({"key_variable": None, "timeout": 5.0} | options))


@pytest.fixture(scope="module")
def bandits():
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 4)
    return HostBatch(gpicljax.VectorEnv(env, 2, resets="fresh"))


def play(bandits, model, folder, **options):
    options = {"patience": HASTE, "at_once": 1} | options
    return play_trials(jax.random.key(0), bandits, model, folder, **options)


def statuses(result):
    return [report.status for report in result.reports]


# Odd answers ------------------------------------------------------------------------------------


def test_halves_of_surrogate_pairs_are_replaced():
    assert sound_text("a \ud83d b \ude00 c \ud83d\ude00") == "a \ufffd b \ufffd c \U0001f600"
    assert str(ModelError("no \udc80", "refused")) == "no \ufffd"


@pytest.mark.parametrize(
    "answer",
    [
        completion("[SELECT: 1] \ud83d"),
        completion(finish="eos_\udc80"),
        completion(finish="context"),
        completion(finish="unanswered"),
        completion(finish={"why": [[]]}),
        completion([{"type": "thinking", "thinking": []}, {"type": "text", "text": "[SELECT: 1]"}]),
        completion(["[SELECT:", " 1]"]),
        completion(
            [{"text": "[SELECT: 1]"}, {"type": "reasoning", "text": "or [SELECT: 0]"}, None]
        ),
        completion(error=None, usage={"prompt_tokens": "many", "completion_tokens": None}),
        completion(usage=[1, 2]),
    ],
)
def test_answers_that_can_be_used_are(bandits, tmp_path, answer):
    with server(lambda body: answer) as (endpoint, log):
        result = play(bandits, client(endpoint), tmp_path)
        repeated = play(bandits, client(endpoint), tmp_path)
        assert len(log) == result.usage.requests == repeated.usage.requests == 8
    assert statuses(result) == statuses(repeated) == ["finished"] * 2
    assert result.trials.invalid.sum() == 0 and not result.reports[0].faults


@pytest.mark.parametrize(
    "content",
    [DEEP, '{"choices": ' + DEEP + "}", "[]", '"?"', '{"choices": [{"message": {"content": 7}}]}']
    + [json.dumps(completion([])[1])[:-9], '{"choices": [{"message": "[SELECT: 1]"}]}'],
)
def test_an_answer_that_cannot_be_read_ends_one_trial_and_a_resume_goes_on(
    bandits, tmp_path, content
):
    count = [0]

    def spoilt(body):
        count[0] += 1
        return (200, content) if count[0] in (2, 3) else completion()

    with server(spoilt) as (endpoint, log):
        result = play(bandits, client(endpoint), tmp_path)
        assert sorted(statuses(result)) == ["finished", "interrupted"]
        assert f"cut off or malformed: {content[:9]}" in result.in_words()
        # What was sent was read, so that it has a price, though nothing came of it.
        assert result.usage.requests == len(log)
        whole = play(bandits, client(endpoint), tmp_path)
    assert statuses(whole) == ["finished"] * 2 and whole.usage.requests == len(log) == 10


@pytest.mark.parametrize("answer", [(200, DEEP), (500, "malformed prompt")])
def test_what_is_never_answered_ends_the_trial_at_the_second_call(bandits, tmp_path, answer):
    with server(lambda body: answer) as (endpoint, _):
        assert statuses(play(bandits, client(endpoint), tmp_path)) == ["interrupted"] * 2
        over = play(bandits, client(endpoint), tmp_path)
        assert over.is_complete and statuses(over) == ["unanswered"] * 2
        assert "2 unanswered" in over.in_words() and "malformed" in over.in_words()


@pytest.mark.parametrize("key", ["sk-pass-ö", "sk-\u2013-1", "two\nlines", "\ud83d"])
def test_a_key_that_no_header_can_have_is_refused_and_not_told(bandits, tmp_path, monkeypatch, key):
    monkeypatch.setattr("os.environ", {"THE_KEY": key})
    with server(lambda body: completion()) as (endpoint, log):
        model = client(endpoint, key_variable="THE_KEY")
        with pytest.raises(ValueError, match="key_variable: got .*THE_KEY") as error:
            model.check()
        result = play(bandits, model, tmp_path, check_model=False)
        assert statuses(result) == ["interrupted"] * 2 and not log
    assert key not in str(error.value) + result.in_words()


# Conversations that are too long ----------------------------------------------------------------

TOO_LONG = {
    "OpenAI": (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
    "vLLM": (400, {"error": {"message": "'max_tokens' is too large: 512. This model's maximum "
        "context length is 8192 tokens and your request has 8000 input tokens", "code": 400}}),
    "Gemini": (400, [{"error": {"code": 400, "message": "The input token count (1048577) exceeds "
        "the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}]),
    "Groq": (413, {"error": {"message": "Please reduce your message.", "code": "too_large"}}),
    "TGI": (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 "
        "`inputs` tokens and 512 `max_new_tokens`", "error_type": "validation"}),
    "llama.cpp": (500, {"error": {"code": 500, "type": "exceed_context_size_error"}}),
    "SGLang": (400, {"object": "error", "message": "9001 tokens are longer than 8192."}),
    "Mistral": (400, {"message": "40,000 tokens, too large for a model with 32,768"}),
    "FastAPI": (422, {"detail": [{"loc": ["body"], "msg": "at most 4096 tokens"}]}),
    "proxy": (413, "<html>Payload Too Large</html>"),
    "in a 200": (200, {"error": {"message": "?", "type": "ContextWindowExceededError"}}),
    "no number": (400, {"error": {"message": "Prompt exceeds what the engine holds."}}),
    "another language": (400, "Die Anfrage passt nicht hinein"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_conversation_that_is_too_long_ends_its_trial_in_whatever_words(bandits, tmp_path, name):
    def answer(body):
        return TOO_LONG[name] if len(body["messages"]) > 4 else completion()

    with server(answer) as (endpoint, log):
        result = play(bandits, client(endpoint), tmp_path)
        count = len(log)
        assert result.is_complete and statuses(result) == ["context full"] * 2
        assert (result.trials.length == 2).all() and result.reports[0].faults
        assert result.usage.requests == count
        repeated = play(bandits, client(endpoint), tmp_path)
        assert statuses(repeated) == statuses(result) and len(log) == count


def test_the_first_question_is_too_long_by_the_length_that_is_stated():
    message = [Message("user", "word " * 4000)]
    words = "This model's maximum context length is 4096 tokens."
    with server(lambda body: (400, {"error": {"message": words, "code": 400}})) as (endpoint, _):
        with pytest.raises(ModelError, match="4096") as error:
            client(endpoint)(message, max_tokens=64, seed=0)
        assert error.value.fault == "context"
        # The same words about a short question, or with too long a reply, say something else.
        for messages, limit in ((HELLO, 64), (message, 9000)):
            with pytest.raises(ModelError) as error:
                client(endpoint)(messages, max_tokens=limit, seed=0)
            assert error.value.fault == "unknown"


@pytest.mark.parametrize(
    "status, words",
    [
        (400, "too many tokens per minute"),
        (400, "Limit 30000 tokens/min, requested 31000"),
        (413, "Request too large for gpt on tokens per min (TPM): Limit 6000, Requested 8000"),
        (422, "rate limit of 4096 tokens"),
        (429, "Request too large: 9000 tokens"),
    ],
)
def test_a_limit_to_the_rate_is_no_full_context(bandits, tmp_path, status, words):
    def answer(body):
        return (
            (status, {"error": {"message": words}}) if len(body["messages"]) > 4 else completion()
        )

    with server(answer) as (endpoint, _):
        result = play(bandits, client(endpoint), tmp_path)
    assert statuses(result) == ["interrupted"] * 2 and words in result.in_words()


def test_a_refusal_for_an_unknown_reason_ends_one_conversation_and_is_shown(bandits, tmp_path):
    """The server answers longer questions, so that it is not the length."""

    def answer(body):
        short = len(body["messages"][-1]["content"]) < 50
        return (400, "Not this one.") if short else completion()

    long, short = ([Message("user", "word " * n)] for n in (99, 5))
    with server(answer) as (endpoint, log):
        for resumed in range(2):
            with Conversations(client(endpoint), tmp_path, patience=HASTE) as run:
                one_game, other_game = (run.open(name, {}, 0) for name in ("one", "other"))
                assert one_game.ask(long).text == "[SELECT: 1]"
                with pytest.raises(ModelError) as error:
                    other_game.ask(short)
                assert error.value.fault == "refused" and other_game.recalled == resumed
                assert (
                    other_game.faults[-1]
                    == "turn 0, attempt 2: the server answers 400: Not this one."
                )
                assert run.usage.requests == len(log) == 3
    # Where nothing was ever answered, it may be the request's form: the run can be gone on with.
    with server(lambda body: (400, "No.")) as (endpoint, log):
        first = play(bandits, client(endpoint), tmp_path / "none")
        assert statuses(first) == ["interrupted"] * 2 and "answers 400: No." in first.in_words()
        second = play(bandits, client(endpoint), tmp_path / "none")
        assert second.is_complete and statuses(second) == ["unanswered"] * 2
        assert "2 unanswered" in second.in_words() and second.usage.requests == len(log)


# Other forms of requests ------------------------------------------------------------------------

REFUSED = {
    "system role": (400, {"message": "System role not supported", "code": 400}),
    "template": (500, {"error": {"message": "Jinja: conversation roles must alternate"}}),
    "Gemma": (400, {"error": {"message": "Developer instruction is not enabled"}}),
    "FastAPI": (422, {"detail": [{"loc": ["messages", 0, "role"], "msg": "not permitted"}]}),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_servers_without_a_system_role_or_with_another_limit(bandits, tmp_path, name, limit):
    def answer(body):
        if limit not in body or len({"max_tokens", "max_completion_tokens"} & body.keys()) > 1:
            return 400, {"error": {"message": "Unsupported parameter", "param": "max_tokens"}}
        roles = [message["role"] for message in body["messages"]]
        return REFUSED[name] if "system" in roles else completion()

    with server(answer) as (endpoint, log):
        result = play(bandits, client(endpoint), tmp_path)
        # Its form is found out once; all attempts are counted.
        assert statuses(result) == ["finished"] * 2 and not result.reports[0].faults
        assert len(log) == result.usage.requests <= 8 + 2
    first = log[-1]["messages"][0]
    assert first["role"] == "user" and "unknown game" in first["content"]
    assert "The game begins." in first["content"]


def test_many_first_requests_at_once_find_out_the_form(tmp_path):
    env = Trial(gpicljax.make("BanditTwoArmedHighLowFixed-v0"), 2)
    batch = gpicljax.VectorEnv(env, 16, resets="fresh")

    def answer(body):
        wrong = body["messages"][0]["role"] == "system" or "max_tokens" in body
        return (400, "No.") if wrong else completion()

    with server(answer) as (endpoint, log):
        once = RetryPolicy(attempts=1)
        result = play(batch, client(endpoint), tmp_path, at_once=16, patience=once)
        assert statuses(result) == ["finished"] * 16, result.in_words()
        assert result.usage.requests == len(log)


def test_an_error_in_an_answer_of_status_200_is_shown_in_its_own_words(bandits, tmp_path):
    for error, status in (
        ({"error": {"message": "insufficient credits", "code": 402}}, "interrupted"),
        ({"choices": [{"error": {"code": 502, "message": "upstream"}}]}, "interrupted"),
        ({"error": {"message": "?", "code": "context_length_exceeded"}}, "context full"),
    ):
        with server(lambda body, error=error: (200, error)) as (endpoint, _):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            result = play(bandits, client(endpoint), folder)
        assert statuses(result) == [status] * 2
        assert json.dumps(error) in result.in_words()


@pytest.mark.parametrize("own_options", [{"messages": []}, {"model": "gpt"}, {"stream": True}])
def test_options_leave_the_question_alone(own_options):
    with pytest.raises(ValueError, match="options: got .*entries other than model, messages"):
        client("http://127.0.0.1:1/v1", options=json.dumps(own_options))
    with pytest.raises(ValueError, match="options: got"):
        client("http://127.0.0.1:1/v1", options=DEEP)


def test_options_may_set_the_limit():
    with server(lambda body: completion()) as (endpoint, log):
        options = json.dumps({"max_tokens": None, "max_completion_tokens": 7, "top_p": 0.5})
        client(endpoint, options=options)(HELLO, max_tokens=64, seed=0)
    assert "max_tokens" not in log[0] and log[0]["max_completion_tokens"] == 7


# What it costs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -5, None, True, 2.5, "9", 10**12, 10**400])
def test_counts_that_cannot_be_right_are_measured(count):
    measured = Usage(200, 30)
    assert believed_usage((count, count), measured, 64) == measured
    assert believed_usage((150, 40), measured, 64) == Usage(150, 40)


def test_retries_and_uncounted_tokens_spend_the_budget(bandits, tmp_path):
    none = {"prompt_tokens": 0, "completion_tokens": 0}
    with server(lambda body: completion(usage=none)) as (endpoint, log):
        poor = play(bandits, client(endpoint), tmp_path / "tokens", budget=Budget(tokens=2000))
        assert not poor.is_complete and len(log) < 8
        assert poor.usage.prompt > 100 * poor.usage.requests
    with server(lambda body: (503, "busy")) as (endpoint, log):
        patience = RetryPolicy(attempts=50, first=0.0)
        budget = Budget(requests=5)
        result = play(
            bandits, client(endpoint), tmp_path / "requests", budget=budget, patience=patience
        )
        assert len(log) == result.usage.requests == 5
        # They are spent for good: also when the run is started again.
        repeated = play(bandits, client(endpoint), tmp_path / "requests", budget=budget)
        assert len(log) == repeated.usage.requests == 5
        assert statuses(repeated) == ["budget spent"] * 2


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
def test_an_answer_in_drips_is_given_up_in_time(head):
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip():
        connection, _ = listening.accept()
        with connection:
            connection.sendall(head or b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    begun = time.monotonic()
    with pytest.raises(ModelError, match="not whole after 0.3 seconds") as error:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        client(endpoint, timeout=0.3)(HELLO, max_tokens=8, seed=0)
    over.set()
    thread.join()
    listening.close()
    assert time.monotonic() - begun < 60 and error.value.fault == "transient"
    assert error.value.usage.prompt > 0


def test_ctrl_c_does_not_wait_for_a_model(tmp_path):
    """Replies that are there are on disk; those under way are given up."""
    release, was_asked = threading.Event(), threading.Event()

    def answer(messages, seed):
        if messages[-1].content == "slow":
            was_asked.set()
            release.wait(300)
        return "Yes."

    with pytest.raises(KeyboardInterrupt), Conversations(FakeModel(answer), tmp_path) as run:
        first, second = (run.open(name, {}, 0) for name in ("one", "other"))
        run.submit(first.ask, [Message("user", "quick")]).result()
        slow = run.submit(second.ask, [Message("user", "slow")])
        was_asked.wait(60)
        begun = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 100 and not slow.done()
    release.set()
    with pytest.raises(ValueError, match="closed"):  # a late reply changes nothing
        slow.result(10)
    with Conversations(FakeModel("No."), tmp_path) as run:
        asking = run.open("one", {}, 0)
        assert asking.ask([Message("user", "quick")]).text == "Yes."
        assert asking.recalled == 1 and not run.open("other", {}, 0).transcript.turns


# Names of models --------------------------------------------------------------------------------


def test_names_that_the_server_accepts_are_accepted():
    served = ("llama3", "llama3:latest", "qwen/qwen3-32b:free")

    def answer(body):
        is_served = body["model"] in served
        return completion() if is_served else (404, {"error": {"message": "model not found"}})

    with server(answer, ("llama3:latest", "qwen/qwen3-32b")) as (endpoint, log):
        for name in served:
            OpenAICompatible(endpoint, name, key_variable=None).check()
        assert [body["model"] for body in log] == ["llama3", "qwen/qwen3-32b:free"]
        for name in ("llama4", "llama3:8b", "nonsense \ud83d"):
            with pytest.raises(ValueError, match="model: got .*llama3:latest.*model not found"):
                OpenAICompatible(endpoint, name, key_variable=None).check()
    busy = pytest.warns(UserWarning, match="'m' is not in the server's list.*503: loading")
    with server(lambda body: (503, "loading"), ("other",)) as (endpoint, _), busy:
        client(endpoint).check()


def test_a_server_on_this_machine_is_reached_past_a_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with server(lambda body: completion()) as (endpoint, _):
        client(endpoint).check()
    with pytest.raises(ValueError, match="ConnectError, through a proxy of the environment"):
        client("http://gpicljax.invalid/v1").check()


def test_models_can_be_asked_from_a_running_loop():
    async def ask(endpoint):
        return client(endpoint)(HELLO, max_tokens=8, seed=0).text

    with server(lambda body: completion()) as (endpoint, _):
        assert asyncio.run(ask(endpoint)) == "[SELECT: 1]"
