"""What a run was made with: versions, commit, machine and command, once for each session."""

import subprocess

import pytest
import torch

from drest_torch.errors import FileError
from drest_torch.tracking.provenance import FILE, append_provenance, command, git_state, provenance, read_provenance


def test_the_command_as_it_was_typed():
    assert command(["/opt/bin/python3", "/opt/bin/drest", "train", "seed=0,1", "-m"]) == "drest train seed=0,1 -m"
    assert command(["python", "-m", "drest_torch.show", "my file"]) == "python -m drest_torch.show 'my file'"


def test_the_commit_and_whether_files_differ_from_it(tmp_path, monkeypatch):
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    (tmp_path / "file").write_text("1")
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "One."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert git_state(tmp_path / "no_such_folder") is None
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as a hook of another repository would set it
    before = git_state(tmp_path)
    assert isinstance(before, dict)
    assert len(before["commit"]) == 40
    assert before["dirty"] is False
    (tmp_path / "new_algorithm.py").write_text("")
    assert git_state(tmp_path) == before | {"dirty": True}
    monkeypatch.setenv("PATH", "")
    assert git_state(tmp_path) is None


def test_a_session_is_appended_and_a_damaged_file_not_written_over(tmp_path):
    assert read_provenance(tmp_path) == []
    for step in (0, 100):
        append_provenance(tmp_path, provenance(torch.device("cpu"), step))
    assert [session["step"] for session in read_provenance(tmp_path)] == [0, 100]
    (tmp_path / FILE).write_text('[{"time"')
    with pytest.raises(FileError, match="damaged; delete it"):
        append_provenance(tmp_path, {})
    assert (tmp_path / FILE).read_text() == '[{"time"'
