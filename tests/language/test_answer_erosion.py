"""Further training of a language model, and its measures after each number of updates."""

import json
import math

import pytest
import torch

from drest_torch.commands import language_models as command
from drest_torch.errors import ConfigError
from drest_torch.language import answer_erosion as erosion
from drest_torch.language.evaluation import evaluate
from drest_torch.language.model import small
from drest_torch.language.prompts import generate
from drest_torch.language.training import trained
from tests.helpers.language import SHORT, begun, transformers

pytestmark = transformers


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("erosion") / "run"
    begun(folder, lr=0.01, **SHORT | {"updates": 3}).train()
    return folder


def eroded(run_folder, condition, **values):
    return erosion.erode(
        erosion.AnswerErosionConfig(str(run_folder), condition, **{"updates": 2, "scenarios": 4, "tested": 2} | values)
    )


@pytest.mark.parametrize("condition", erosion.CONDITIONS)
def test_erosion_begins_at_the_trained_model(condition, run_folder):
    first, last = eroded(run_folder, condition)
    (row,) = evaluate(trained(run_folder), generate("post", 4, erosion.MEASURED_SEED, held_out=True, brief=True))
    assert first.neutrality == pytest.approx(row.numbers["N"].estimate)
    assert (first.updates, last.updates) == (0, 2)
    assert last.valid != first.valid


def test_the_default_reward_erodes_neutrality(run_folder):
    steps = eroded(run_folder, "default", updates=40)
    assert [step.updates for step in steps] == [0, 10, 30, 40]
    assert steps[-1].neutrality < steps[0].neutrality


@pytest.mark.parametrize("lr", [1e-12, None])
def test_a_learning_rate_scales_that_of_muon(lr, tmp_path):
    """A tiny rate leaves the model as it is."""
    begun(tmp_path / "run", lr=0.01, muon_lr=0.03, **SHORT).train()
    first, last = eroded(tmp_path / "run", "default", lr=lr)
    assert (last.p_longest == pytest.approx(first.p_longest, abs=1e-6)) == (lr is not None)


def test_a_test_of_behaviour_repeats_a_few_prompts(run_folder):
    """Its power is that of binomial tests of single prompts at a level that Holm divides by their number."""
    model = trained(run_folder)
    prompts = generate("post", 4, erosion.MEASURED_SEED, held_out=True, brief=True)
    (step, _) = eroded(run_folder, "default", tested=3, answers=30)
    missed = 1.0
    for prompt, p_longest in zip(prompts[::2], step.tested, strict=False):
        option_chances = model.log_probabilities([prompt]).exp()[0].double()
        is_later = torch.tensor([option.length == prompt.lengths[-1] for option in prompt.options])
        assert p_longest == pytest.approx((option_chances[is_later].sum() / option_chances.sum()).item())
        missed *= 1 - binomial_power(p_longest, 30, 0.05 / 3)
    assert len(step.tested) == 3
    assert step.power == pytest.approx(1 - missed)


def binomial_power(p, number, level):
    """Return the power of the two-sided binomial test of an even choice, by summation."""
    even = [math.comb(number, count) / 2**number for count in range(number + 1)]
    power = 0.0
    for count in range(number + 1):
        p_value = sum(even[other] for other in range(number + 1) if abs(2 * other - number) >= abs(2 * count - number))
        if p_value <= level:
            power += math.comb(number, count) * p**count * (1 - p) ** (number - count)
    return power


class CertainModel:
    """A model that is certain of the later length in every second scenario, and of the earlier one in the others."""

    def log_probabilities(self, prompts):
        rows = []
        for prompt in prompts:
            is_odd = int(prompt.scenario.rpartition("-")[2]) % 2
            chosen = [option.length for option in prompt.options].index(prompt.lengths[-is_odd])
            rows.append(torch.eye(len(prompt.options))[chosen].log())
        return torch.stack(rows)

    def unknown_share(self, prompts):
        return 0.0


def test_a_choice_that_is_certain_in_each_prompt_is_noticed():
    """The mean over all prompts is even, so a test that pools them has no power."""
    prompts = generate("post", 4, brief=True)
    step = erosion.measured(CertainModel(), prompts, 0, erosion.AnswerErosionConfig(tested=4, answers=20))
    assert step.p_longest == 0.5
    assert sorted(step.tested) == [0, 0, 1, 1]
    assert step.power == pytest.approx(1)
    assert step.p_value == pytest.approx(4 * 2**-19)


def test_more_tested_prompts_than_scenarios_are_refused(run_folder):
    with pytest.raises(ConfigError, match="tested=5: expected at most the 4 scenarios"):
        eroded(run_folder, "default", tested=5)


def test_a_remedy_in_all_updates_replaces_further_training(run_folder):
    remedied = [eroded(run_folder, condition, remedy=1) for condition in ("default", "words")]
    assert remedied[0] == remedied[1]


def test_next_words_become_likelier(run_folder):
    """The log-probability of a text is that of its tokens, each after the ones before it."""
    model = small()
    prompts = generate("post", 1, brief=True)
    ids = model.tokenizer([model.text(prompt) for prompt in prompts], return_tensors="pt")["input_ids"]
    loss = model.model(input_ids=ids, labels=ids).loss
    assert model.log_probabilities_of_texts(prompts).mean().item() == pytest.approx(-loss.item(), abs=1e-5)


def test_the_command_writes_steps(run_folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "steps.json"
    words = ["erode", f"model={run_folder}", "condition=reading", "updates=1", "scenarios=4", "tested=2", f"out={out}"]
    monkeypatch.setattr("sys.argv", ["drest language", *words])
    command.main()
    printed = capsys.readouterr().out
    assert "| updates" in printed
    assert "asks 2 prompts 20 times each" in printed
    assert [step["updates"] for step in json.loads(out.read_text())] == [0, 1]


def test_a_job_returns_the_steps(run_folder, tmp_path):
    job = erosion.erosion_job("label", run_folder, "hash", condition="words", updates=1, scenarios=4, tested=2)
    result = erosion.train(job.spec | {"places": job.places}, tmp_path)
    assert [step["updates"] for step in result.numbers["steps"]] == [0, 1]
