"""A run that begins with the weights of another agent."""

import shutil

import pytest
import torch

from drest_torch import Agent
from drest_torch.config.compose import compose
from drest_torch.training.run import resume, start
from tests.helpers.runs import QUIET, SMALLEST, metrics, train, weights

SMALL = (*SMALLEST, "levels=generated", "levels.train=4", "levels.selection=2", "levels.test=2")
CONVOLUTIONAL = ("policy=convolutional", *(word for word in SMALL if not word.startswith("policy.")))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return train(tmp_path_factory.mktemp("source") / "run", *SMALL)


def begun(folder, *overrides):
    return start(compose(*QUIET, f"run_dir={folder}", *overrides))


def policy_of(run):
    return {name: value.clone() for name, value in run.learner.policy.state_dict().items()}


def test_it_begins_with_these_weights_and_learns_other_ones(source, tmp_path):
    run = begun(tmp_path / "run", *SMALL, "algo=a2c", "seed=1", f"start_from={source}")
    first, own = policy_of(run), Agent(source).policy.state_dict()
    assert all(torch.equal(first[name], own[name]) for name in own)
    run.train()
    assert not all(torch.equal(value, own[name]) for name, value in policy_of(run).items())
    now, before = (row["eval/selection/usefulness"] for row in (metrics(tmp_path / "run")[0], metrics(source)[-1]))
    assert now == pytest.approx(before, abs=1e-6)  # the levels are the same


def test_an_agent_that_comes_with_the_project_is_named(tmp_path):
    run = begun(tmp_path / "run", *CONVOLUTIONAL, "start_from=generalist")
    first, own = policy_of(run), Agent.load("generalist").policy.state_dict()
    assert all(torch.equal(first[name], own[name]) for name in own)
    assert run.cfg.start_from == "generalist"  # no path of this machine


@pytest.mark.slow
def test_a_deeper_network_begins_as_the_same_policy_and_learns_with_all_layers(tmp_path):
    run = begun(tmp_path / "run", *CONVOLUTIONAL, "policy.depth=10", "start_from=generalist")
    first, probabilities = policy_of(run), Agent.load("generalist").probabilities("example")
    run.save()
    assert Agent(tmp_path / "run").probabilities("example") == pytest.approx(probabilities, abs=1e-6)
    run.train()
    grown = [name for name in first if ".layers.8." in name or ".layers.9." in name]
    assert len(grown) == 2 * 4
    assert not any(torch.equal(first[name], value) for name, value in policy_of(run).items() if name in grown)


@pytest.mark.slow
def test_a_run_that_is_resumed_does_not_need_the_agent_it_began_with(source, tmp_path):
    copied, whole, parted = tmp_path / "source", tmp_path / "whole", tmp_path / "parted"
    shutil.copytree(source, copied)
    begun(whole, *SMALL, f"start_from={source}").train()
    run = begun(parted, *SMALL, f"start_from={copied}")
    run.update()
    run.save()
    shutil.rmtree(copied)
    resume(parted).train()
    one, two = weights(whole), weights(parted)
    assert all(torch.equal(one[name], two[name]) for name in one)
