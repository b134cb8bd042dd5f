"""Further training of a language model, and its measures after each number of updates."""

import json

import pytest

from drest_torch.commands import language_models as command
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
        erosion.AnswerErosionConfig(str(run_folder), condition, **{"updates": 2, "scenarios": 4} | values)
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
    words = ["erode", f"model={run_folder}", "condition=reading", "updates=1", "scenarios=4", f"out={out}"]
    monkeypatch.setattr("sys.argv", ["drest language", *words])
    command.main()
    assert "| updates" in capsys.readouterr().out
    assert [step["updates"] for step in json.loads(out.read_text())] == [0, 1]


def test_a_job_returns_the_steps(run_folder, tmp_path):
    job = erosion.erosion_job("label", run_folder, "hash", condition="words", updates=1, scenarios=4)
    result = erosion.train(job.spec | {"places": job.places}, tmp_path)
    assert [step["updates"] for step in result.numbers["steps"]] == [0, 1]
