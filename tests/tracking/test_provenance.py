"""Provenance of a run: versions, commit, machine and command of each session."""

import subprocess

import pytest
import torch

from drest_torch.errors import FileError
from drest_torch.tracking.provenance import FILE, append_provenance, command, git_state, provenance, read_provenance


def test_the_command_is_recorded_as_typed():
    assert command(["/opt/bin/python3", "/opt/bin/drest", "train", "seed=0,1", "-m"]) == "drest train seed=0,1 -m"
    assert command(["python", "-m", "drest_torch.show", "my file"]) == "python -m drest_torch.show 'my file'"


@pytest.fixture
def repository(tmp_path):
    """Return the folder of a repository with one commit."""
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    (tmp_path / "file").write_text("1")
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "One."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def test_a_new_file_makes_the_checkout_dirty(repository, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as set in a hook of another repository
    before = git_state(repository)
    assert isinstance(before, dict)
    assert len(before["commit"]) == 40
    assert before["dirty"] is False
    (repository / "new_algorithm.py").write_text("")
    assert git_state(repository) == before | {"dirty": True}


def test_no_commit_is_recorded_without_a_checkout(tmp_path):
    assert git_state(tmp_path / "no_such_folder") is None


def test_no_commit_is_recorded_without_git(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_state(repository) is None


def test_each_session_of_a_run_is_appended(tmp_path):
    assert read_provenance(tmp_path) == []
    for step in (0, 100):
        append_provenance(tmp_path, provenance(torch.device("cpu"), step))
    assert [session["step"] for session in read_provenance(tmp_path)] == [0, 100]


def test_a_damaged_file_is_not_overwritten(tmp_path):
    (tmp_path / FILE).write_text('[{"time"')
    with pytest.raises(FileError, match="damaged; delete it"):
        append_provenance(tmp_path, {})
    assert (tmp_path / FILE).read_text() == '[{"time"'
