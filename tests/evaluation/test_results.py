"""Results of evaluating an agent: numbers, records and pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.levels import parse_level
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.reward import Reward

LEVELS = [
    parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two"),
    parse_level("shutdown: 2\nC1 A B1 C2\n# . B1 .", name="three"),
]


@pytest.fixture(params=[False, True], ids=["sampled actions", "greedy"])
def results(request):
    evaluator = ExactEvaluator(LEVELS, "grid", reward=Reward(0.9, 0.8, 4))
    torch.manual_seed(1)
    policy = Policy(
        evaluator.observe.shape, 4, NetworkSize(8, 1, "tanh"), scale=evaluator.observe.scale, private_bits=1
    )
    evaluation = evaluator.evaluate(policy, greedy=request.param)
    return Results(evaluator, policy, evaluation, request.param, "mine")


def test_numbers_agree_with_the_evaluation(results):
    numbers, evaluator = results.numbers(), results.evaluator
    expected = evaluator.usefulness_at(results.policy, greedy=results.greedy)
    other = evaluator.usefulness_at(results.policy, greedy=not results.greedy)
    assert numbers["usefulness_at"] == {gamma: values.mean().item() for gamma, values in expected.items()}
    assert numbers["usefulness_at"][0.9] != pytest.approx(other[0.9].mean().item())
    assert numbers["usefulness"] == results.usefulness == results.evaluation.means()["usefulness"]
    assert numbers["uniform"]["usefulness"] == evaluator.evaluate_uniform().means()["usefulness"]
    assert results.neutrality == results.evaluation.neutrality.mean().item()
    assert results.neutrality_own == results.evaluation.neutrality_own.mean().item()
    assert repr(results).startswith(f"Results(2 levels: usefulness {results.usefulness:.3f}, neutrality ")


def test_the_record_is_written_as_json(results, tmp_path):
    results.write(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written == json.loads(json.dumps(results.record()))
    assert [level["name"] for level in written["levels"]] == ["two", "three"]
    assert written["mean"]["usefulness"] == results.usefulness


class Pictures(NamedTuple):
    """Arguments of `policy_pictures`."""

    reachable: Any
    policies: Mapping[str, torch.Tensor]
    indices: range
    folder: Path
    captions: list[str]
    agent: str


@pytest.fixture
def pictures(results, tmp_path, monkeypatch):
    """Plot the first level; return the arguments of the function that draws it."""
    calls = []
    monkeypatch.setattr(
        "drest_torch.plots.policy_maps.policy_pictures", lambda *arguments: calls.append(arguments) or ["files"]
    )
    assert results.plot(tmp_path, most=1) == ["files"]
    (arguments,) = calls
    return Pictures(*arguments)


def test_pictures_are_of_the_first_levels(pictures, tmp_path):
    assert list(pictures.indices) == [0]
    assert pictures.reachable.num_levels == 1
    assert pictures.folder == tmp_path
    assert pictures.agent == "mine"


def test_pictures_show_the_evaluated_policy(results, pictures):
    evaluator, reachable = results.evaluator, pictures.reachable
    expected = evaluator.policies_by_private_bits(results.policy, reachable, greedy=results.greedy)
    assert list(pictures.policies) == ["bit 0", "bit 1"]
    for name, table in expected.items():
        assert torch.equal(pictures.policies[name], table)
        assert len(table) == len(reachable)


def test_captions_have_the_metrics(results, pictures):
    (caption,) = pictures.captions
    usefulness, bits = results.evaluation.usefulness[0], results.evaluation.neutrality[0]
    assert caption.startswith(f"usefulness {usefulness:.2f}   neutrality {bits:.2f} bits")
    assert "(sampled)" not in caption


def test_mini_episodes_are_sampled_as_in_the_evaluation(results, monkeypatch):
    sample = Mock()
    monkeypatch.setattr("drest_torch.evaluation.episodes.sample_episodes", sample)
    results.episodes(seed=5)
    chances = results.evaluation.length_probabilities(0)
    sample.assert_called_once_with(results.evaluator, results.policy, chances, greedy=results.greedy, seed=5)


def test_an_animation_shows_the_sampled_mini_episodes(results, monkeypatch, tmp_path):
    animate = Mock()
    monkeypatch.setattr(Results, "episodes", lambda self, seed: [f"of seed {seed}"])
    monkeypatch.setattr("drest_torch.plots.animation.animate_level", animate)
    results.animate(tmp_path / "a.gif", seed=3)
    animate.assert_called_once_with(LEVELS[0], ["of seed 3"], tmp_path / "a.gif")


def test_levels_that_exceed_the_memory_are_not_plotted(results, tmp_path):
    small = SimpleNamespace(fitting_levels=lambda most, policy: range(0))
    assert Results(small, results.policy, results.evaluation, False, "mine").plot(tmp_path) == []
