"""A run that begins with the weights of another agent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from drest_torch import Agent
from drest_torch.building.checkpoints import step_checkpoints
from drest_torch.config.compose import compose
from drest_torch.errors import UserError
from drest_torch.training.run import Run, resume, start
from tests.helpers.runs import QUIET, SMALLEST, metrics, train

SMALL = (*SMALLEST, "levels=generated", "levels.train=4", "levels.selection=2", "levels.test=2")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("source") / "run", *SMALL)


def begun(folder: Path, *overrides: str) -> Run:
    return start(compose(*QUIET, f"run_dir={folder}", *overrides))


def policy_of(run: Run) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in run.learner.policy.state_dict().items()}


def test_it_begins_with_these_weights_and_learns_other_ones(source: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", *SMALL, "algo=a2c", "seed=1", f"start_from={source}")
    first, own = policy_of(run), Agent(source).policy.state_dict()
    assert all(torch.equal(first[name], own[name]) for name in own)
    run.train()
    assert not all(torch.equal(value, own[name]) for name, value in policy_of(run).items())
    assert metrics(tmp_path / "run")[0]["eval/selection/usefulness"] == pytest.approx(
        metrics(source)[-1]["eval/selection/usefulness"], abs=1e-6
    )  # the levels are the same


def test_an_agent_that_comes_with_the_project_is_named(tmp_path: Path) -> None:
    few = [word for word in SMALL if not word.startswith("policy.")]
    run = begun(tmp_path / "run", *few, "policy=convolutional", "start_from=generalist")
    first, own = policy_of(run), Agent.load("generalist").policy.state_dict()
    assert all(torch.equal(first[name], own[name]) for name in own)
    assert run.cfg.start_from == "generalist"  # no path of this machine


@pytest.mark.slow
def test_a_deeper_network_begins_as_the_same_policy_and_learns_with_all_layers(tmp_path: Path) -> None:
    few = [word for word in SMALL if not word.startswith("policy.")]
    deeper = (*few, "policy=convolutional", "policy.depth=10", "start_from=generalist")
    run = begun(tmp_path / "run", *deeper)
    first, probabilities = policy_of(run), Agent.load("generalist").probabilities("example")
    run.save()
    assert Agent(tmp_path / "run").probabilities("example") == pytest.approx(probabilities, abs=1e-6)
    run.train()
    grown = [name for name in first if ".layers.8." in name or ".layers.9." in name]
    assert len(grown) == 2 * 4
    assert not any(torch.equal(first[name], value) for name, value in policy_of(run).items() if name in grown)


@pytest.mark.slow
def test_a_run_that_is_resumed_does_not_need_the_agent_it_began_with(source: Path, tmp_path: Path) -> None:
    copied, whole, parted = tmp_path / "source", tmp_path / "whole", tmp_path / "parted"
    shutil.copytree(source, copied)
    begun(whole, *SMALL, f"start_from={source}").train()
    run = begun(parted, *SMALL, f"start_from={copied}")
    run.update()
    run.save()
    shutil.rmtree(copied)
    resume(parted).train()
    ends = [step_checkpoints(folder / "checkpoints")[-1].name for folder in (whole, parted)]
    assert ends[0] == ends[1]
    one, two = (Agent(folder).policy.state_dict() for folder in (whole, parted))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("policy.width=16", "policy.depth=2"), "another kind; add policy.width=8 policy.depth=1"),
        (("policy=convolutional",), "add policy.network=symmetric policy.observation=centred_start"),
        (("algo=tabular", "levels=example"), "start_from with algo=tabular, which trains a table"),
        (("env=queue",), "; only runs in gridworlds can begin with another agent"),
        (("start_from=nowhere",), "start_from=nowhere: no such folder of a run, and no agent of that name"),
        (("levels=large", "policy.time_steps=16"), "map size"),
    ],
)
def test_weights_of_something_else_are_refused_before_there_is_a_folder(
    source: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UserError) as refusal:
        begun(tmp_path / "run", f"start_from={source}", *SMALL, *arguments)
    assert words in str(refusal.value)
    assert not (tmp_path / "run").exists()
