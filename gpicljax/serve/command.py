"""Serving an environment of bytes to learners that run elsewhere.

    gpicljax serve ByteStream-v0
    gpicljax serve ByteStream-v0 --learners 4 --steps 5000000 --hours 24
    gpicljax serve ByteStream-v0 --set rules=reference --results results.json
    gpicljax serve ByteStream-v0 --curriculum mine.json
    gpicljax serve --agent byte_stream_quick
    gpicljax serve --agent runs/gradual_learning/quick-continuations/agents/seed_0

The last two are learners: a shipped or a saved agent connects to a server of this kind, or to the
challenge's own, and answers it.

Learners connect to port 5556 and the ports behind it (see `gpicljax.serve.remote`). Results are
written at the start, every ten seconds and at the end, also where SIGTERM or Ctrl-C brings it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gpicljax.checks import check, check_at_least, refusal
from gpicljax.interface import TimeStep
from gpicljax.rollout import GIVE_UP, ActionRequest, host_play
from gpicljax.rollout.traced import Keep
from gpicljax.runs.arguments import user_path, whole_number
from gpicljax.runtime.environment_arguments import add_environment_arguments, make_environment
from gpicljax.runtime.mesh import enable_compilation_cache
from gpicljax.runtime.signals import catch_stop, exit_code
from gpicljax.serve.agent import answer_as_agent
from gpicljax.serve.ahead import AheadBatch
from gpicljax.serve.remote import PORT, RemoteLearners, check_bytes
from gpicljax.storage import write_atomically
from gpicljax.storage.atomic import to_json_text
from gpicljax.vector import VectorEnv

_EVERY = 10.0
# A space: what learners say most of the time, while the environment talks.
SILENCE = np.int32(ord(" "))
RUNNING, THROUGH, OVERTIME = "still running", "through", "out of time"
TERMINATED, TRUNCATED = "the stream is complete", "the stream has reached its horizon"


class Account:
    """The account of the learners, counted as they act.

    Where the environment says how many tasks of a sequence are `cleared`, steps are counted by
    task, as gradual learning's `completion_times` takes them.

    Args:
      count: learners.
    """

    def __init__(self, count: int) -> None:
        """Starts at zero; see the class."""
        self.start()
        self._steps = [0] * count
        self._reward = [0.0] * count
        self._by_task: list[list[int]] = [[] for _ in range(count)]
        self.ended, self.why = [RUNNING] * count, [""] * count

    def start(self) -> None:
        """Time counts from now on."""
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def end(self, i: int, ended: str, why: str = "") -> None:
        """Notes how a learner's stream ended, if it has not ended before."""
        if self.ended[i] == RUNNING:
            self.ended[i], self.why[i] = ended, why

    def note(self, i: int, reward: Any, info: Mapping[str, Any]) -> None:
        """Takes in what an action led to, or, before the first, what is seen at the start."""
        acted = self._steps[i] > 0
        if acted:
            self._reward[i] += float(np.asarray(reward))
        if "cleared" in info:
            cleared = int(np.asarray(info["cleared"]))
            if acted:
                self._by_task[i][-1] += 1
            self._by_task[i] += [0] * (cleared + 1 - len(self._by_task[i]))

    def act(self, i: int) -> None:
        """Counts an action."""
        self._steps[i] += 1

    def summary(self) -> dict[str, Any]:
        """All that is known, for a file."""
        seconds = self.seconds
        return {
            "seconds": round(seconds, 1),
            "steps_per_second": round(sum(self._steps) / max(seconds, 1e-9), 1),
            "learners": [
                {
                    "ended": ended,
                    **({"why": why} if why else {}),
                    "steps": steps,
                    "reward": reward,
                    "reward_per_step": reward / max(steps, 1),
                    **({"cleared": len(by_task) - 1, "steps_by_task": by_task} if by_task else {}),
                }
                for ended, why, steps, reward, by_task in zip(
                    self.ended, self.why, self._steps, self._reward, self._by_task, strict=True
                )
            ],
        }


def serve(
    key: jax.Array,
    vec: VectorEnv,
    learners: RemoteLearners,
    *,
    steps: int,
    seconds: float | None = None,
    results: Path | None = None,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Lets remote learners act until their episodes or the budgets are over, or one leaves.

    Args:
      key: a typed key, for the environments.
      vec: as many instances as there are learners, of an environment of bytes.
      learners: the connected learners.
      steps: of each learner at most.
      seconds: of the whole at most, compilation left out; any number if None.
      results: file to be kept up to date; none if None. Where it cannot be written, a warning is
        printed and the learners play on.
      begin: is called once all is compiled, and may let learners connect; then time counts.

    `learners.stop` ends the run: learners are given up at their next step. Each learner is told
    when and why its stream ends, see `RemoteLearners.end`.

    Returns:
      What the file says: how it ended, and steps, reward and tasks of every learner.

    Example:
      >>> def both(key, vec, learners):
      ...     budgets = {"steps": 1_000_000, "seconds": 86_400}
      ...     return serve(key, vec, learners, begin=learners.greet, **budgets)
    """
    session = _Session(vec, learners, steps, seconds, results, begin)
    session.write()
    try:
        host_play(key, vec, session, max_steps=steps, keep=lambda _: (), batch_of=session.batch_of)
        session.tell(range(vec.num_envs))
    finally:
        session.write()
    return session.account.summary()


class _Session:
    """Remote learners as one `HostAgent`, with what is noted and told of their streams.

    Args:
      vec: see `serve`, as for the rest.
      learners: likewise.
      steps: likewise.
      seconds: likewise.
      results: likewise.
      begin: likewise.
    """

    def __init__(
        self,
        vec: VectorEnv,
        learners: RemoteLearners,
        steps: int,
        seconds: float | None,
        results: Path | None,
        begin: Callable[[], None],
    ) -> None:
        """Nothing is compiled yet."""
        self.account = Account(vec.num_envs)
        self._learners, self._steps, self._seconds = learners, steps, seconds
        self._results, self._begin = results, begin
        self._written = time.monotonic()
        self._noted, self._told = [False] * vec.num_envs, [False] * vec.num_envs
        self._batch: AheadBatch | None = None

    def write(self) -> None:
        """Brings the file up to date."""
        self._written = time.monotonic()
        if self._results is not None:
            try:
                write_atomically(self._results, to_json_text(self.account.summary()))
            except OSError as error:
                print(f"warning: {self._results} was not written: {error}", file=sys.stderr)

    def batch_of(self, vec: VectorEnv, keep: Keep) -> AheadBatch:
        """The batch that is played; once it is compiled, learners may connect."""

        def ready() -> None:
            self._begin()
            self.account.start()

        self._batch = AheadBatch(vec, keep, SILENCE, ready)
        return self._batch

    def _note(self, i: int, timestep: TimeStep) -> None:
        if not self._noted[i]:
            self.account.note(i, timestep.reward, timestep.info)
            self._noted[i] = True

    def tell(self, indices: Iterable[int]) -> None:
        """Tells those of some learners that were not told yet that their streams have ended."""
        assert self._batch is not None
        for i in (i for i in indices if not self._told[i]):
            timestep, self._told[i] = self._batch.instances[i].request.timestep, True
            self._note(i, timestep)
            self.account.end(i, THROUGH, TERMINATED if timestep.terminated else TRUNCATED)
            why = self.account.why[i] or self.account.ended[i]
            self._learners.end(i, timestep.reward, why)

    def _over(self) -> str | None:
        """Why the whole run ends now, if it does."""
        if self._learners.stop.signal:
            return f"stopped by {self._learners.stop.signal.name}"
        overtime = self._seconds is not None and self.account.seconds > self._seconds
        return OVERTIME if overtime else None

    def __call__(self, requests: Mapping[int, ActionRequest]) -> dict[int, Any]:
        """See `rollout.HostAgent`."""
        self.tell(set(range(len(self._told))) - set(requests))
        for i, request in requests.items():
            self._note(i, request.timestep)
        if (over := self._over()) is not None:
            for i in requests:
                self.account.end(i, over)
            return dict.fromkeys(requests, GIVE_UP)
        if spent := [i for i in requests if self._learners.steps[i] >= self._steps]:
            for i in spent:
                self.account.end(i, THROUGH, f"{self._steps:,} steps are done")
            return dict.fromkeys(spent, GIVE_UP)
        if time.monotonic() - self._written > _EVERY:
            self.write()
        answers = self._learners(requests)
        for i, action in answers.items():
            if action == GIVE_UP:
                self.account.end(i, self._learners.left[i])
            else:
                self.account.act(i)
                self._noted[i] = False
        return answers


def check_results(path: Path) -> None:
    """Refuses a file that cannot be written, before anything is played.

    Raises:
      ValueError: where it is a folder, or no file can be made beside it.
    """
    accepted_values = "a file in a folder that exists and can be written"
    check(not path.is_dir(), "--results", str(path), accepted_values)
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(refusal("--results", str(path), f"{accepted_values} ({error})")) from None


def one_thread() -> None:
    """Tells XLA, before its first use, that programs are small and run one after the other.

    Handing them, or their parts, to other threads costs more than the parts themselves do.
    """
    os.environ.setdefault("NPROC", "1")
    # Loops are compiled as one function, whatever their size, and not as parts to be scheduled.
    loops = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000"
    os.environ["XLA_FLAGS"] = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), loops)))
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpicljax serve",
        description="Serve an environment of bytes to learners at the other end of a socket.",
    )
    add_environment_arguments(parser, "ByteStream-v0", needed=False)
    parser.add_argument("--learners", type=whole_number, default=1, help="how many")
    parser.add_argument("--port", type=whole_number, default=PORT, help="of the first learner")
    parser.add_argument("--address", default="127.0.0.1", help="interface to bind or connect to")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for a message")
    text = "of a learner at most, and of a stream where --params names no horizon"
    parser.add_argument("--steps", type=whole_number, default=1_000_000, help=text)
    text = "of the whole at most, after the learners have come"
    parser.add_argument("--hours", type=float, help=text)
    parser.add_argument("--results", type=user_path, default=Path("results.json"), help="file")
    text = "folder of a saved agent, or a shipped one's name; it connects to a server as a learner"
    parser.add_argument("--agent", type=user_path, metavar="FOLDER", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.env_id is None) == (options.agent is None):
        parser.error("accepted: the ID of an environment to serve, or --agent FOLDER")
    enable_compilation_cache()
    try:
        check_at_least(1, **{"--steps": options.steps})
        hours = options.hours
        check(hours is None or hours > 0, "--hours", hours, "a number of hours above 0")
        if options.agent is not None:
            return answer_as_agent(options)
        check_results(options.results)
        env, params = make_environment(options, horizon=options.steps)
        check_bytes(env)
        vec = VectorEnv(env, options.learners, resets="fresh", params=params)
        learners = RemoteLearners(options.learners, options.port, options.address, options.patience)
    except (ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with learners, catch_stop() as learners.stop:

        def begin() -> None:
            print("waiting for learners at ports", *learners.ports, "(Ctrl-C ends)", flush=True)
            learners.greet()
            print("playing ...", flush=True)

        print("compiling ...", flush=True)
        try:
            summary = serve(
                jax.random.key(options.seed),
                vec,
                learners,
                steps=options.steps,
                seconds=hours and 3600 * hours,
                results=options.results,
                begin=begin,
            )
        except ConnectionError as error:
            print(f"error: {error}", file=sys.stderr)
            return exit_code(learners.stop.signal) if learners.stop.signal else 1
    for i, learner in enumerate(summary["learners"]):
        print(f"learner {i}: " + ", ".join(f"{name} {value}" for name, value in learner.items()))
    print(f"results in {options.results}")
    if learners.stop.signal:
        return exit_code(learners.stop.signal)
    return 0 if all(learner["ended"] == THROUGH for learner in summary["learners"]) else 1
