"""The commands as a user meets them: what they do, and one clear sentence for each mistake.

Most tests call the entry points in this process, with ``sys.argv`` set; a subprocess takes seconds to import torch.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from drest_torch import evaluate, study, train
from drest_torch.comparison.records import find_runs
from drest_torch.help import help_text
from tests.helpers.commands import Terminal
from tests.helpers.runs import QUIET, SMALLEST

SAMPLED = (*SMALLEST, *QUIET, "levels=example", "env_steps=500", "evaluations=1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run, made once."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["command", *SAMPLED, f"run_dir={folder / 'run'}"])
        train.main()
    return folder / "run"


def test_training_prints_a_table_and_what_goes_on_from_it_and_leaves_its_folder_and_nothing_else(call, tmp_path):
    done = call(train.main, *SAMPLED, "seed=3")
    assert (done.code, done.err) == (0, "")
    assert {"usefulness", "neutrality"} <= set(done.out.split())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.endswith("_ppo_drest_example_seed3")
    assert json.loads((run / "summary.json").read_text())["seed"] == 3
    evaluated, compared = [line.split() for line in done.out.splitlines() if line.startswith("  python -m ")]
    assert compared[2:4] == ["drest_torch.compare", f"runs/{run.name}"]
    assert evaluated[:3] == ["python", "-m", "drest_torch.evaluate"]
    done = call(evaluate.main, *evaluated[3:], "levels=example", "pictures=null")
    assert f"Agent: runs/{run.name} (ppo with the reward drest on example levels, seed 3; step-" in done.out
    assert re.search(r"^ *example +1 +0\.\d{3}", done.out, re.MULTILINE)


@pytest.mark.slow
def test_a_sweep_ends_with_the_table_of_its_runs(call, tmp_path):
    done = call(train.main, "-m", *SAMPLED, "algo.lr=0.001,0.002")
    assert done.code == 0, done.err
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert re.search(r"algo\.lr +0\.001 +1 *\n +0\.002 +2 *\n", done.out)
    runs = sorted(path.relative_to(tmp_path) for path in (tmp_path / "runs").glob("*_ppo_*"))
    assert re.findall(r"^run \d: (.*)", done.out, re.MULTILINE) == [str(run) for run in runs]
    (folder,) = re.findall(r"^  python -m drest_torch.compare (\S+) out=\S+$", done.out, re.MULTILINE)
    assert [run.folder for run in find_runs([Path(folder)])[0]] == runs
    assert "OTHER_RUN" not in done.out  # which is said after a single run


def test_a_sweep_that_is_stopped_says_how_to_compare_what_it_did(call, monkeypatch):
    monkeypatch.setattr("drest_torch.training.run.Run.train", lambda run: None)
    done = call(train.main, "-m", *SAMPLED, "seed=0,1")
    assert done.code == 130
    assert done.err.count("Its runs so far: python -m drest_torch.compare runs/multirun/") == 1


def test_what_a_run_says_in_a_terminal(call, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    call(train.main, *SAMPLED, "progress=true", "run_dir=run")
    said = terminal.plain()
    wanted = (
        *("loading …", "loading the levels of example …", "algorithm: ppo, reward drest, 500 steps, seed 0"),
        *("trained on: 1 level (example)", "evaluated on: 1 training level, exactly", "policy: mlp network, "),
        *("device: cpu", "folder: run", "evaluating before training …", "training …", "evaluating on all levels"),
    )
    places = [said.index(words) for words in wanted]
    assert places == sorted(places)


def test_the_help_is_ours(call):
    done = call(train.main, "--help", "algo=a2c")
    assert (done.code, done.out) == (0, help_text("train", "algo=a2c") + "\n")
    assert done.out.startswith("Train an agent")
    assert re.search(r"\n  reinforce +REINFORCE\.", done.out)
    assert call(evaluate.main, "-h").out.startswith("Evaluate a saved run")
    assert "expected one of a2c" in call(train.main, "algo=dqn", "--help").sentence


@pytest.mark.parametrize(
    ("main", "words", "sentence"),
    [
        (train.main, ["-m", *SAMPLED, "seeed=1,2"], "seeed: no such key (did you mean seed?)"),
        (train.main, ["seed=1", *SAMPLED, "levels=own"], "levels=own"),
        (train.main, ["--levels", "example"], "--levels: values are written levels=example"),
        (train.main, ["levels=other.txt"], "levels.path=other.txt"),
        (train.main, ["resume=nowhere"], "nowhere: no run in it"),
        (train.main, [*SAMPLED, "levels.path=mine.txt"], "mine.txt, map row 2: 2 cells"),
        (train.main, [*SAMPLED, "run_dir=mine.txt/run"], "mine.txt"),
        (study.main, ["quick=true"], "which study? study=paper, or study=NAME"),
        (evaluate.main, ["run=nowhere"], "nowhere: no such folder of a run"),
        (evaluate.main, ["run=TRAINED", "checkpoint=best"], "only a run with selection levels"),
        (evaluate.main, ["run=TRAINED", "checkpoint=none.safetensors"], "none.safetensors: no such checkpoint"),
        (evaluate.main, ["run=TRAINED"], "has no test levels"),
        (evaluate.main, ["run=TRAINED", "levels=own"], "choose levels=paper or levels.path=FILE"),
        (evaluate.main, ["levels=example", "sampled=0"], "sampled=0; expected a number from 1 to 1e+07"),
        (evaluate.main, ["levels=example", "out=/dev/null/out.json"], "/dev/null/out.json: cannot be written"),
        (evaluate.main, ["levels=example", "pictures=/dev/null/pictures"], "/dev/null/pictures"),
        (evaluate.main, ["levels=hard", "levels.test=0"], "levels.test=0 generated levels to evaluate on"),
        (evaluate.main, ["suite=pressure"], "suite=pressure; expected"),
        (evaluate.main, ["suite=shutdownability", "sampled=10"], "sampled is not part of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_gets_one_sentence(call, main, words, sentence, tmp_path, trained):
    (tmp_path / "mine.txt").write_text("shutdown: 4\n\nA . C1\n. B2\n")
    assert sentence in call(main, *(word.replace("TRAINED", str(trained)) for word in words)).sentence
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_a_mistake_of_ours_gets_its_traceback(call, monkeypatch):
    def broken(cfg):
        raise AssertionError("one of ours")

    monkeypatch.setattr("drest_torch.training.run.start", broken)
    with pytest.raises(AssertionError, match="one of ours"):
        call(train.main, *SAMPLED)
