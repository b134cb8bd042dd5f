"""The examples of docs/howto/extend.md: what each page says of code of one's own is written, found and run."""

import json
import re
import shutil
import sys
from functools import partial

import pytest
import torch

from drest_torch.agents.checkpoints import load_checkpoint
from drest_torch.agents.untrained import reward_of
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.training.run import resume, start
from tests.helpers.commands import python
from tests.helpers.documents import ROOT, blocks, follow
from tests.helpers.runs import configured, metrics, same_run, weights

SMALL = ("policy.width=16", "policy.depth=2", "progress=false", "test.paper=false", "env_steps=6000", "evaluations=2")


def trained(heading, folder, monkeypatch):
    """Do what a section says for a few steps, in a folder with its modules."""
    _, *words = follow("howto/extend", heading, folder)
    for path in folder.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    monkeypatch.syspath_prepend(folder)
    quiet = [] if any("logger" in word for word in words) else ["logger=none"]
    run = start(configured(folder / "run", *words, *quiet, *SMALL))
    assert run.train() is not None
    return run


@pytest.mark.slow
def test_an_algorithm_of_ones_own_is_trained_and_resumed(tmp_path, monkeypatch):
    """The penalty's coefficient adapts, and is a buffer of the loss alone."""
    run = trained("An algorithm", tmp_path, monkeypatch)
    rows = metrics(run.folder)
    assert any(name.startswith("loss/kl") for name in rows[-1])
    assert "policy/clip_fraction" not in rows[-1]
    first = min((run.folder / "checkpoints").glob("step-*"))
    tensors, _ = load_checkpoint(first)
    assert tensors["algorithm.loss.beta"] != type(run.algorithm.loss)(run.algorithm.actor, run.algorithm.value).beta
    shutil.copytree(run.folder, cut := tmp_path / "cut")
    for path in (cut / "checkpoints").glob("step-*"):
        if path.name != first.name:
            path.unlink()
    (cut / "summary.json").unlink()
    assert resume(cut).train() is not None
    same_run(run.folder, cut)


def test_an_objective_of_ones_own_is_climbed_and_resumed(tmp_path, monkeypatch):
    run = trained("An objective", tmp_path, monkeypatch)
    assert metrics(run.folder)[-1]["loss/objective"] > 0
    assert type(resume(run.folder).task.objective).__module__ == "coins"


def test_a_reward_of_ones_own_is_learnt_from_and_refused_by_tables(tmp_path, monkeypatch):
    run = trained("A reward", tmp_path, monkeypatch)
    p = torch.tensor([0.1, 0.5], dtype=torch.float64)
    assert not torch.allclose(reward_of(run.cfg).expected_discount(p, 2), Reward().expected_discount(p, 2), rtol=0.01)
    with pytest.raises(ConfigError, match=r"reward\.rule=linear:discount, and a table"):
        start(configured(tmp_path / "table", "algo=tabular", "levels=example", "reward.rule=linear:discount"))


def test_a_rule_of_counting_of_ones_own_is_learnt_from_and_refused_by_tables(tmp_path, monkeypatch):
    run = trained("A rule of counting", tmp_path, monkeypatch)
    p = torch.tensor([0.1, 0.5], dtype=torch.float64)
    assert not torch.allclose(reward_of(run.cfg).expected_discount(p, 2), Reward().expected_discount(p, 2), rtol=0.01)
    with pytest.raises(ConfigError, match=r"reward\.count=waning:count, and a table"):
        start(configured(tmp_path / "table", "algo=tabular", "levels=example", "reward.count=waning:count"))


def test_a_network_of_ones_own_is_trained(tmp_path, monkeypatch):
    tensors = weights(trained("A network", tmp_path, monkeypatch).folder)
    gains = [tensors[f"policy.net.body.{block}.layers.0.weight"] for block in (1, 2)]
    assert [len(gain) for gain in gains] == [16, 16]
    assert not any(torch.equal(gain, torch.ones(16)) for gain in gains)
    assert "policy.net.body.3.layers.0.weight" not in tensors


@pytest.mark.slow
def test_a_logger_of_ones_own_is_told_of_every_evaluation(tmp_path, monkeypatch, capsys):
    run = trained("A logger", tmp_path, monkeypatch)
    evaluated = [row for row in metrics(run.folder) if "eval/train/usefulness" in row]
    assert len(evaluated) == 3
    lines = [f"{row['step']} {row['eval/train/usefulness']:.3f}" for row in evaluated]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.slow
def test_a_teleporter_in_two_files_is_solved_shown_and_learnt(tmp_path):
    """In a copy of the project: the coin of 5 behind the wall is one step beyond the other teleporter."""
    for folder in ("drest_torch", "envs", "algos", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (block,) = [each for each in blocks(ROOT / "docs" / "howto" / "extend.md", "A world object") if each.file]
    assert len(block.text.splitlines()) <= 60
    block.write(tmp_path)
    kinds = tmp_path / "envs" / "objects" / "__init__.py"
    text = kinds.read_text("utf-8").replace("Door, Lottery)\nKIND_OF", "Door, Lottery, Teleporter)\nKIND_OF")
    before, line, after = text.partition("from drest_torch.envs.objects.lottery import Lottery\n")
    kinds.write_text(f"{before}{line}from drest_torch.envs.objects.teleporter import Teleporter\n{after}", "utf-8")
    (tmp_path / "mine.txt").write_text("shutdown: 4\n\nA T # C5\n. . # T\nB3 . # .\n")

    drest = partial(python, "-m", "drest_torch", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert drest("evaluate", "levels=paper") == python("-m", "drest_torch", "evaluate", "levels=paper")
    shown = drest("show", "mine.txt", "--picture", "mine.png")
    assert "2 teleporters" in shown
    assert re.search(r"\b4\b.*\b5\b", shown)
    assert (tmp_path / "mine.png").is_file()
    few = ["evaluations=1", "pictures=0", "logger=none", "test.paper=false", "run_dir=run"]
    drest("train", "algo=exact", "levels.path=mine.txt", *few)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert min(summary["splits"]["train"][name] for name in ("usefulness", "neutrality")) > 0.9
