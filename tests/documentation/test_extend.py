"""The examples of docs/howto/extend.md: their code is written to files, imported and run.

After five of the changes (a TorchRL loss with state, a world object, a counting rule, an environment and a network),
the shipped agent and an earlier run must have the same usefulness and neutrality as before. A run with the change that
is killed and resumed must equal a run that is not killed.
"""

import json
import os
import re
import shutil
import sys
from functools import partial

import pytest
import torch

from drest_torch.agent import Agent
from drest_torch.agents.checkpoints import load_checkpoint
from drest_torch.config.compose import compose
from drest_torch.config.schema import reward_of
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.training.run import resume, start
from tests.helpers.commands import python
from tests.helpers.documents import ROOT, blocks, follow
from tests.helpers.runs import configured, metrics, train, weights
from tests.helpers.standing import check_goes_on, scores

SMALL = ("policy.width=16", "policy.depth=2", "progress=false", "test.paper=false", "env_steps=6000", "evaluations=2")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Return a run from before the change, with the scores of the run and of the shipped agent."""
    run = train(tmp_path_factory.mktemp("before") / "run", "levels=example", "algo=exact")
    return run, scores(run)


def trained(heading, folder, monkeypatch, *, page="howto/extend", further=()):
    """Train as in a section for a few steps, in a folder with its modules; ``further`` arguments need no gridworld."""
    _, *words = follow(page, heading, folder)
    for path in folder.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    monkeypatch.syspath_prepend(folder)
    quiet = [] if any("logger" in word for word in words) else ["logger=none"]
    composed = partial(compose, f"run_dir={folder / 'run'}") if further else partial(configured, folder / "run")
    run = start(composed(*words, *quiet, *SMALL, *further))
    assert run.train() is not None
    return run


def check_unchanged(run, earlier):
    """Check that earlier scores are unchanged, and that the new run can be killed and resumed."""
    assert scores(earlier[0]) == earlier[1]
    check_goes_on(run.folder, lambda cut: resume(cut).train())


def test_a_custom_algorithm_trains_like_a_shipped_one(tmp_path, monkeypatch, earlier):
    """The coefficient of the penalty is adaptive: a buffer of the loss."""
    run = trained("An algorithm", tmp_path, monkeypatch)
    rows = metrics(run.folder)
    assert any(name.startswith("loss/kl") for name in rows[-1])
    assert "policy/clip_fraction" not in rows[-1]
    tensors, _ = load_checkpoint(min((run.folder / "checkpoints").glob("step-*")))
    assert tensors["algorithm.loss.beta"] != type(run.algorithm.loss)(run.algorithm.actor, run.algorithm.value).beta
    check_unchanged(run, earlier)


@pytest.mark.slow
def test_a_custom_environment_trains_like_a_shipped_one(tmp_path, monkeypatch, earlier):
    pytest.importorskip("gymnasium")
    few = (
        "env.copies=4",
        "algo.episodes=16",
        "reward.group=4",
        "sampled=8",
        "env_steps=600",
        "env.base=5",
        "env.delays=[5]",
        "pictures=0",
    )
    heading, page = "TorchRL, by a factory", "environments/torchrl"
    run = trained(heading, tmp_path, monkeypatch, page=page, further=few)
    assert Agent.load(run.folder).environment(copies=1) is not None
    check_unchanged(run, earlier)


def test_a_custom_objective_is_maximised(tmp_path, monkeypatch):
    run = trained("An objective", tmp_path, monkeypatch)
    assert metrics(run.folder)[-1]["loss/objective"] > 0
    assert type(resume(run.folder).task.objective).__module__ == "coins"


def test_a_custom_reward_changes_the_discount(tmp_path, monkeypatch):
    run = trained("A reward", tmp_path, monkeypatch)
    p = torch.tensor([0.1, 0.5], dtype=torch.float64)
    assert not torch.allclose(reward_of(run.cfg).expected_discount(p, 2), Reward().expected_discount(p, 2), rtol=0.01)


def test_tables_refuse_a_custom_reward(tmp_path, monkeypatch):
    follow("howto/extend", "A reward", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"reward\.rule=linear:discount, but a table"):
        start(configured(tmp_path / "table", "algo=tabular", "levels=example", "reward.rule=linear:discount"))


def test_a_custom_counting_rule_changes_the_discount(tmp_path, monkeypatch, earlier):
    run = trained("A rule of counting", tmp_path, monkeypatch)
    check_unchanged(run, earlier)
    p = torch.tensor([0.1, 0.5], dtype=torch.float64)
    assert not torch.allclose(reward_of(run.cfg).expected_discount(p, 2), Reward().expected_discount(p, 2), rtol=0.01)


def test_tables_refuse_a_custom_counting_rule(tmp_path, monkeypatch):
    follow("howto/extend", "A rule of counting", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"reward\.count=waning:count, but a table"):
        start(configured(tmp_path / "table", "algo=tabular", "levels=example", "reward.count=waning:count"))


def test_a_custom_network_is_trained(tmp_path, monkeypatch, earlier):
    run = trained("A network", tmp_path, monkeypatch)
    tensors = weights(run.folder)
    gains = [tensors[f"policy.net.body.{block}.layers.0.weight"] for block in (1, 2)]
    assert [len(gain) for gain in gains] == [16, 16]
    assert not any(torch.equal(gain, torch.ones(16)) for gain in gains)
    assert "policy.net.body.3.layers.0.weight" not in tensors
    check_unchanged(run, earlier)


@pytest.mark.slow
def test_a_custom_logger_receives_every_evaluation(tmp_path, monkeypatch, capsys):
    run = trained("A logger", tmp_path, monkeypatch)
    evaluated = [row for row in metrics(run.folder) if "eval/train/usefulness" in row]
    assert len(evaluated) == 3
    lines = [f"{row['step']} {row['eval/train/usefulness']:.3f}" for row in evaluated]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.fixture(scope="module")
def with_teleporters(tmp_path_factory):
    """Return a copy of the project with the two files of the page."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("drest_torch", "envs", "algos", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True)  # with compiled files
    section = blocks(ROOT / "docs" / "howto" / "extend.md", "A world object")
    (block,) = [block for block in section if block.file]
    assert len(block.text.splitlines()) <= 60
    block.write(copy)
    kinds = copy / "envs" / "objects" / "__init__.py"
    text = kinds.read_text("utf-8").replace("Door, Lottery)\nKIND_OF", "Door, Lottery, Teleporter)\nKIND_OF")
    before, line, after = text.partition("from drest_torch.envs.objects.lottery import Lottery\n")
    kinds.write_text(f"{before}{line}from drest_torch.envs.objects.teleporter import Teleporter\n{after}", "utf-8")
    return copy


def in_copy(copy):
    """Return a function that runs Python with the copy of the project and these tests."""
    return partial(python, cwd=copy, PYTHONPATH=f"{copy}{os.pathsep}{ROOT}")


@pytest.mark.slow
def test_teleporters_leave_earlier_scores_unchanged(with_teleporters, earlier):
    """Rotated or reflected maps with teleporters are the same task."""
    lines = [
        "import json, pathlib",
        "from tests.helpers import kinds, standing",
        "kinds.check_symmetries(kinds.KINDS[-1])",
        f"print(kinds.KINDS[-1].noun, json.dumps(standing.scores(pathlib.Path({str(earlier[0])!r}))))",
    ]
    noun, _, printed = in_copy(with_teleporters)("-c", "\n".join(lines)).partition(" ")
    assert noun == "teleporter"
    assert json.loads(printed) == earlier[1]


@pytest.mark.slow
def test_a_level_with_teleporters_is_learned(with_teleporters):
    """The coin of 5 behind the wall is one step beyond the other teleporter."""
    copy = with_teleporters
    (copy / "mine.txt").write_text("shutdown: 4\n\nA T1 # C5\n. . # T1\nB3 . # .\n")
    (copy / "three.txt").write_text("shutdown: 4\n\nA T1 # C5\n. T1 # T1\n")

    drest = partial(in_copy(copy), "-m", "drest_torch")
    assert drest("evaluate", "levels=paper") == python("-m", "drest_torch", "evaluate", "levels=paper")
    assert "'T1' leads nowhere; expected two of them" in drest("show", "three.txt", status=2)
    printed = drest("show", "mine.txt", "--picture", "mine.png")
    assert "2 teleporters" in printed
    assert re.search(r"\b4\b.*\b5\b", printed)
    assert (copy / "mine.png").is_file()
    few = ["env_steps=800_000", "evaluations=2", "pictures=0", "logger=none", "test.paper=false", "run_dir=run"]
    drest("train", "algo=exact", "levels.path=mine.txt", *few)
    summary = json.loads((copy / "run" / "summary.json").read_text())
    assert min(summary["splits"]["train"][name] for name in ("usefulness", "neutrality")) > 0.9
    check_goes_on(copy / "run", lambda cut: drest("train", f"resume={cut}"))
