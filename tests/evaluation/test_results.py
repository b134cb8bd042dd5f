"""The results of an agent: numbers, records and pictures are those of the policy as it was evaluated."""

import json
from types import SimpleNamespace

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


def test_numbers_are_those_of_the_policy_as_it_was_evaluated(results):
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


def test_a_record_is_written_as_it_is(results, tmp_path):
    results.write(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written == json.loads(json.dumps(results.record()))
    assert [level["name"] for level in written["levels"]] == ["two", "three"]
    assert written["mean"]["usefulness"] == results.usefulness


def test_pictures_show_what_was_evaluated(results, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "drest_torch.plots.policy_maps.policy_pictures", lambda *values: asked.append(values) or ["files"]
    )
    assert results.plot(tmp_path, most=1) == ["files"]
    ((reachable, policies, indices, folder, captions, agent),) = asked
    shown = results.evaluator.policies_by_private_bits(results.policy, reachable, greedy=results.greedy)
    assert list(policies) == ["bit 0", "bit 1"]
    assert all(torch.equal(policies[name], shown[name]) for name in shown)
    assert (list(indices), folder, agent, len(reachable)) == ([0], tmp_path, "mine", len(policies["bit 0"]))
    assert reachable.num_levels == 1
    found = results.evaluation
    assert len(captions) == 1
    assert captions[0].startswith(f"usefulness {found.usefulness[0]:.2f}   neutrality {found.neutrality[0]:.2f} bits")
    assert "(sampled)" not in captions[0]


def test_mini_episodes_of_the_first_level_are_sampled_as_it_was_evaluated(results, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "drest_torch.evaluation.episodes.sample_episodes", lambda *values, **how: asked.append((values, how))
    )
    results.episodes(seed=5)
    (((evaluator, policy, chances), how),) = asked
    assert (evaluator, policy) == (results.evaluator, results.policy)
    assert chances == results.evaluation.length_probabilities(0)
    assert how == {"greedy": results.greedy, "seed": 5}


def test_an_animation_is_of_these_mini_episodes(results, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(Results, "episodes", lambda self, seed: [f"of seed {seed}"])
    monkeypatch.setattr("drest_torch.plots.animation.animate_level", lambda *values: asked.append(values))
    results.animate(tmp_path / "it.gif", seed=3)
    assert asked == [(LEVELS[0], ["of seed 3"], tmp_path / "it.gif")]


def test_nothing_is_plotted_of_levels_without_room(results, tmp_path):
    small = SimpleNamespace(fitting_levels=lambda most, policy: range(0))
    assert Results(small, results.policy, results.evaluation, False, "mine").plot(tmp_path) == []
