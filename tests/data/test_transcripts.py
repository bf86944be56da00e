"""Conversations on disk: gone on with after a cut, refused where damaged or of another run."""

import pytest

from gpicljax.data.transcripts import Transcript, read_transcript
from gpicljax.storage import SavedError

ABOUT = {"model": "fake", "trial": 3}


def write(path, turns):
    with Transcript(path, ABOUT) as transcript:
        for number in range(turns):
            transcript.append({"number": number, "reply": f"grüße {number}\n"})


def test_every_turn_is_there_before_the_next(tmp_path):
    path = tmp_path / "trial.jsonl"
    with Transcript(path, ABOUT) as transcript:
        for number in range(3):
            transcript.append({"number": number})
            assert len(read_transcript(path)[1]) == number + 1
    about, turns = read_transcript(path)
    assert about == ABOUT and [turn["number"] for turn in turns] == [0, 1, 2]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_was_cut_short_is_left_out(tmp_path, cut):
    path = tmp_path / "trial.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    path.write_bytes(whole[: len(whole) - min(cut, last - 1)])
    assert len(read_transcript(path)[1]) == 2
    with Transcript(path, ABOUT) as transcript:
        assert len(transcript.turns) == 2
        transcript.append({"number": 2, "reply": "grüße 2\n"})
    assert path.read_bytes() == whole


def test_a_header_that_was_cut_short_begins_anew(tmp_path):
    path = tmp_path / "trial.jsonl"
    write(path, 0)
    path.write_bytes(path.read_bytes()[:20])
    write(path, 1)
    assert len(read_transcript(path)[1]) == 1


def test_damage_and_other_runs_are_named(tmp_path):
    path = tmp_path / "trial.jsonl"
    write(path, 3)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"e 1", b"e 7"))
    with pytest.raises(SavedError, match=r"trial.jsonl, line 3: damaged"):
        read_transcript(path)
    path.write_bytes(b"no transcript\n")
    with pytest.raises(SavedError, match="line 1: damaged, or no transcript"):
        Transcript(path, ABOUT)
    path.write_bytes(whole)
    with pytest.raises(SavedError, match="model is 'fake', not 'other'"):
        Transcript(path, ABOUT | {"model": "other"})
    assert path.read_bytes() == whole
