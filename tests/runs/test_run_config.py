import dataclasses
import enum
import json
from pathlib import Path
from typing import Any, Literal

import pytest

from gpicljax.runs.config import validate
from gpicljax.runs.config_json import describe_difference, from_json, to_json
from gpicljax.runtime import ConfigError, RunConfig, check_config, parse


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Agent:
    """An agent."""

    learning_rate: float = 1e-3
    widths: tuple[int, ...] = (64, 64)

    def validate(self):
        check_config(self.learning_rate > 0, "learning_rate", self.learning_rate, "a number > 0")


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """Trains something.

    Attributes:
      updates: Number of updates.
    """

    updates: int = 10
    env: str = "MazeWorld-v0"
    agent: Agent = Agent()

    def default_name(self):
        return f"{self.preset}-{self.env}"


@dataclasses.dataclass(frozen=True)
class Everything:
    colour: Colour = Colour.RED
    path: Path | None = Path("a/b")
    mode: Literal["fresh", "bank"] = "bank"
    number: int | float | None = 2.0
    clip: float = float("inf")
    pair: tuple[int, str] = (1, "x")
    table: dict[int, list[float]] = dataclasses.field(default_factory=lambda: {3: [1.0]})
    agent: Agent | None = None
    anything: Any = "free"


PRESETS = {"quick": Config(), "paper-table-1": Config(updates=1000, seeds=3)}


def refusal_text(capsys, *argv):
    with pytest.raises(SystemExit) as caught:
        parse(PRESETS, argv)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_presets_and_overrides():
    assert parse(PRESETS, []) == Config(preset="quick")
    config = parse(
        PRESETS,
        ["--updates", "7", "--preset=paper-table-1", "--agent.learning-rate", "0.5", "--resume"]
        + ["--agent.widths", "8", "9", "10", "--runs-dir", "elsewhere", "--no-progress"],
    )
    assert config == Config(
        preset="paper-table-1", updates=7, seeds=3, agent=Agent(0.5, (8, 9, 10)), resume=True,
        runs_dir=Path("elsewhere"), progress=False,
    )  # fmt: skip
    assert config.run_name == "paper-table-1-MazeWorld-v0"
    assert parse(PRESETS, ["--name", "mine"]).run_name == "mine"
    assert parse({"only": Config(updates=3)}, []).updates == 3


def test_unknown_preset_suggests_the_nearest(capsys):
    message = refusal_text(capsys, "--preset", "paper-table-2")
    assert "--preset" in message and "'paper-table-2'" in message
    assert "did you mean 'paper-table-1'" in message and "quick, paper-table-1" in message


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--seeds", "0"], ["--seeds:", "got 0", "integer >= 1"]),
        (["--seed", "-1"], ["--seed:", "got -1"]),
        (["--name", "a/b"], ["--name:", "'a/b'"]),
        (["--resume", "--overwrite"], ["at most one"]),
        (["--agent.learning-rate", "0"], ["--agent.learning-rate:", "got 0.0", "> 0"]),
        (["--seeds", "many"], ["--seeds", "many"]),
        (["--sedes", "3"], ["--sedes", "--seeds"]),
    ],
)
def test_wrong_values_exit_with_2(capsys, argv, parts):
    message = refusal_text(capsys, *argv)
    for part in parts:
        assert part in message


def test_help_lists_presets_and_flags(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(PRESETS, ["--help"], prog="mazes.py")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for part in (
        "mazes.py",
        "quick",
        "paper-table-1",
        "--seeds",
        "--agent.NAME VALUE: learning-rate",
    ):
        assert part in text
    assert "--agent.learning-rate" not in text
    with pytest.raises(SystemExit):
        parse(PRESETS, ["--help-verbose"], prog="mazes.py")
    assert "--agent.learning-rate" in capsys.readouterr().out


def test_validate_descends():
    with pytest.raises(ConfigError, match=r"^agent\.learning_rate: got -1"):
        validate(Config(agent=Agent(learning_rate=-1)))
    with pytest.raises(ValueError, match="empty"):
        parse({}, [])


@pytest.mark.parametrize(
    "config",
    [
        Config(name="x", agent=Agent(0.1, ())),
        Everything(),
        Everything(colour=Colour.BLUE, path=None, number=2, agent=Agent(3.0), mode="fresh"),
        Everything(number=None, clip=float("-inf"), table={}),
    ],
)
def test_json_round_trip(config):
    data = json.loads(json.dumps(to_json(config), allow_nan=False))
    restored = from_json(type(config), data)
    assert restored == config
    assert type(getattr(restored, "number", None)) is type(getattr(config, "number", None))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"seeds": "6"}, r"config\.seeds: got '6'"),
        ({"seeds": True}, r"config\.seeds: got True"),
        ({"sedes": 6}, r"config: got 'sedes' .did you mean 'seeds'"),
        ({"agent": {"widths": [1, "2"]}}, r"config\.agent\.widths\[1\]: got '2'"),
        ({"agent": 3}, r"config\.agent: got 3"),
        ([], r"config: got \[\]"),
    ],
)
def test_from_json_names_the_field(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(Config, data)


def test_to_json_names_what_it_cannot_store():
    with pytest.raises(TypeError, match=r"config\.anything: .*function"):
        to_json(Everything(anything=lambda: None))


def test_differences_are_listed_by_dotted_name():
    a, b = Config(), Config(updates=11, agent=Agent(0.1), resume=True)
    lines = ["updates: 10 -> 11", "agent.learning_rate: 0.001 -> 0.1"]
    assert describe_difference(a, b, ignore=("resume",)) == lines
    assert describe_difference(a, a) == []
    old = to_json(a)
    del old["env"]
    assert describe_difference(old, a) == ["env: (absent) -> 'MazeWorld-v0'"]


def test_what_is_prepared_comes_before_the_check_of_values():
    """The check may be JAX's first computation, after which devices are what they are."""
    order = []

    @dataclasses.dataclass(frozen=True)
    class Watched(RunConfig):
        def validate(self):
            order.append("validate")

    parse({"quick": Watched()}, [], prepare=lambda config: order.append(config.preset))
    assert order[0] == "quick" and "validate" in order[1:]
