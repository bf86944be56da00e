"""Conversations on disk: gone on with after a cut, refused where damaged or of another run."""

import json
import zlib

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


def test_lines_that_were_removed_swapped_or_doubled_are_told(tmp_path):
    path = tmp_path / "trial.jsonl"
    write(path, 4)
    head, *turns = path.read_bytes().splitlines(keepends=True)
    other = tmp_path / "other.jsonl"
    with Transcript(other, ABOUT | {"trial": 4}) as transcript:
        transcript.append({"number": 0, "reply": "grüße 0\n"})
    foreign = other.read_bytes().splitlines(keepends=True)[1]
    for lines, number in (
        ([head, *turns[1:]], 2),  # removed
        ([head, turns[0], *turns[2:]], 3),
        (turns, 1),
        ([head, turns[1], turns[0], *turns[2:]], 2),  # swapped
        ([head, *turns[:2], turns[3], turns[2]], 4),
        ([head, turns[0], turns[0], *turns[1:]], 3),  # doubled
        ([head, *turns, turns[3]], 6),
        ([head, head, *turns], 2),
        ([head, foreign, *turns[1:]], 2),  # another conversation's
    ):
        damaged = b"".join(lines)
        path.write_bytes(damaged)
        words = rf"trial.jsonl, line {number}: it does not follow .* removed, swapped or doubled"
        for read in (read_transcript, lambda path: Transcript(path, ABOUT)):
            with pytest.raises(SavedError, match=words):
                read(path)
        assert path.read_bytes() == damaged


def test_files_of_earlier_versions_are_read_and_gone_on_with(tmp_path):
    def old(entry):
        text = json.dumps(entry, ensure_ascii=False)[:-1]
        return f'{text}, "crc": "{zlib.crc32(text.encode()):08x}"}}\n'.encode()

    path = tmp_path / "trial.jsonl"
    header, turn = old({"transcript": ABOUT}), old({"number": 0, "reply": "grüße"})
    path.write_bytes(header + turn)
    for number in (1, 2):
        with Transcript(path, ABOUT) as transcript:
            assert transcript.turns[0] == {"number": 0, "reply": "grüße"}
            transcript.append({"number": number})
    assert [each["number"] for each in read_transcript(path)[1]] == [0, 1, 2]
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (lines[:1] + lines[2:], [*lines, turn]):
        path.write_bytes(b"".join(damaged))
        with pytest.raises(SavedError, match="it does not follow the line before it"):
            read_transcript(path)


def test_text_that_cannot_be_encoded_and_deep_nesting(tmp_path):
    path = tmp_path / "trial.jsonl"
    with Transcript(path, ABOUT | {"told": "\udc80"}) as transcript:
        transcript.append({"reply": "a \ud83d"})
    assert read_transcript(path) == (ABOUT | {"told": "\udc80"}, [{"reply": "a \ud83d"}])
    text = b'{"transcript": ' + b"[" * 99_999
    path.write_bytes(text + b', "crc": "%08x"}\n' % zlib.crc32(text))
    with pytest.raises(SavedError, match="line 1: damaged, or no transcript"):
        read_transcript(path)
