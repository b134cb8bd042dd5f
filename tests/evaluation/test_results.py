"""Results of evaluating an agent: numbers, records and pictures."""

import json
import sys
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
from drest_torch.errors import UserError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.evaluation.sampled import SamplingEvaluator
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
    sample = Mock(return_value=[["of the first level"]])
    monkeypatch.setattr("drest_torch.evaluation.episodes.sample_episodes", sample)
    assert results.episodes(seed=5) == ["of the first level"]
    chances = results.evaluation.length_probabilities(0)
    sample.assert_called_once_with(results.evaluator, results.policy, [chances], greedy=results.greedy, seed=5)


def test_an_animation_shows_the_sampled_mini_episodes(results, monkeypatch, tmp_path):
    animate = Mock()
    monkeypatch.setattr(Results, "episodes", lambda self, seed: [f"of seed {seed}"])
    monkeypatch.setattr("drest_torch.plots.animation.animate_level", animate)
    results.animate(tmp_path / "a.gif", seed=3)
    animate.assert_called_once_with(LEVELS[0], ["of seed 3"], tmp_path / "a.gif")


def test_levels_that_exceed_the_memory_are_not_plotted(results, tmp_path):
    small = SimpleNamespace(fitting_levels=lambda most, policy: range(0))
    assert Results(small, results.policy, results.evaluation, False, "mine").plot(tmp_path) == []


def test_a_frame_has_one_value_a_row(results):
    table = results.frame()
    records = results.record()["levels"]
    assert set(table.agent) == {"mine"}
    for record in records:
        rows = table[table.level == record["name"]]
        values = rows[rows.length_ticks.isna()].set_index("measure").value
        assert values["usefulness"] == record["usefulness"]
        assert values["neutrality_bits"] == record["neutrality"]
        lengths = rows[rows.measure == "length_probability"]
        by_length = {str(length): chance for length, chance in zip(lengths.length_ticks, lengths.value, strict=True)}
        assert by_length == record["length_probabilities"]
    assert table.low.isna().all()  # exact values have no interval


def test_a_frame_by_level_has_a_row_for_each_level(results):
    table = results.by_level()
    assert table.level.tolist() == ["two", "three"]
    assert table.usefulness.tolist() == results.evaluation.usefulness.tolist()
    assert table.neutrality_bits.tolist() == results.evaluation.neutrality.tolist()


def test_sampled_values_have_intervals_in_a_frame(results):
    sampling = SamplingEvaluator(LEVELS, "grid", mini_episodes=64, reward=results.evaluator.reward)
    sampled = Results(sampling, results.policy, sampling.evaluate(results.policy), False, "mine")
    table = sampled.frame().set_index(["level", "measure"])
    low, high = sampled.record()["levels"][0]["usefulness_range"]
    assert table.loc[("two", "usefulness"), "low"] == low
    assert table.loc[("two", "usefulness"), "high"] == high
    assert sampled.by_level().usefulness_low[0] == low


def test_a_frame_without_pandas_names_the_extra(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"a frame needs pandas; pip install 'drest_torch\[train\]'"):
        results.frame()
