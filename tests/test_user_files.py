"""Files that a user names: pipes, devices, folders and other encodings are refused at once."""

import os
from pathlib import Path

import pytest

from gpicljax import spaces
from gpicljax.data.transcripts import Transcript, read_transcript
from gpicljax.storage import SavedError
from gpicljax.storage.lock import LockedError, exclusive
from gpicljax.systems.gradual_learning.env import ByteStream, load_curriculum
from gpicljax.systems.mental_modelling.data.stored import read_npz
from gpicljax.systems.mental_modelling.measures.results import load_rows
from gpicljax.systems.mental_modelling.measures.reviews import load_review
from gpicljax.systems.meta_language.measures.curves import CURVES, read_curves

REFUSALS = (OSError, ValueError, SavedError)
WALK = {"environment": "Walk", "action_space": spaces.Discrete(2), "agent": "walker"}
READERS = {
    "curriculum": load_curriculum,
    "curriculum of an environment": lambda path: ByteStream().make_params(curriculum=path),
    "transcript": read_transcript,
    "transcript to go on with": lambda path: Transcript(path, {}),
    "review": load_review,
    "results": load_rows,
    "episode": lambda path: read_npz(path, **WALK),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_text_file_is_refused_at_once(name, tmp_path):
    """A pipe would be waited for, a device fill the memory."""
    pipe, latin = tmp_path / "pipe.json", tmp_path / "latin.json"
    os.mkfifo(pipe)
    latin.write_bytes("{'caf\xe9': 1}\n".encode("latin-1"))
    for path in (pipe, Path("/dev/zero"), tmp_path, latin):
        with pytest.raises(REFUSALS, match=path.name):
            READERS[name](path)


def test_curves_of_a_run_are_read_from_regular_files_only(tmp_path):
    os.mkfifo(tmp_path / CURVES)
    with pytest.raises(OSError, match="not a regular file"):
        read_curves(tmp_path)
    (tmp_path / CURVES).unlink()
    for text in ("[1]", '{"a": {"b": {"mean": [1]}}}', '{"a": {"b": 1}}'):
        (tmp_path / CURVES).write_text(text)
        with pytest.raises(ValueError, match=f"{CURVES} is damaged"):
            read_curves(tmp_path)


def test_a_pipe_in_place_of_a_lock_s_holder_is_not_waited_for(tmp_path):
    held = exclusive(tmp_path)
    (tmp_path / ".lock-holder").unlink()
    os.mkfifo(tmp_path / ".lock-holder")
    with pytest.raises(LockedError, match="number unknown"):
        exclusive(tmp_path)
    held.close()
