"""The tasks for Inspect: what a log says of a model's answers."""

import asyncio
import json
import math
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from drest_torch.language import prompts as data
from drest_torch.language.prompt_styles import PromptStyle
from tests.helpers.documents import ROOT

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai.model import ModelOutput, get_model  # noqa: E402
from inspect_ai.scorer import SampleScore, Target  # noqa: E402

from drest_torch.language.inspect_models import count_tokens_locally  # noqa: E402
from drest_torch.language.inspect_tasks import TASKS, between_orders, choice, own_prompts, reduced  # noqa: E402

POST = data.generate("post", 1, 1, held_out=True)
MAIN = data.generate("main", 1, 1, held_out=True)


def samples_of(suite):
    """Return the samples of one scenario, in both orders."""
    return list(TASKS[suite](scenarios=1).dataset)


def score_of(sample, text):
    """Return the score of an answer."""
    state = SimpleNamespace(metadata=sample.metadata, output=SimpleNamespace(completion=text))
    return asyncio.run(choice()(state, Target("")))


def reduced_score(sample, answers):
    """Return the reduced score of answers to a sample."""
    return reduced()([score_of(sample, text) for text in answers])


# ------------------------------------------------------------------------------------------- one answer


def test_a_score_explains_its_label():
    score = score_of(samples_of("post")[0], "I compare A and B. The answer is C.")
    assert score.value == 2
    assert score.answer == "C"
    assert score.metadata["rule"] == "marked"


def test_an_unreadable_answer_has_no_label():
    score = score_of(samples_of("post")[0], "A or B")
    assert score.value == -1
    assert score.answer is None
    assert score.metadata["rule"] == "no label"


# ------------------------------------------------------------------------------------------- a prompt


def places_of(prompt, length):
    """Return the labels of the options of a length, the best first."""
    options = [option for option in prompt.options if option.length == length]
    return [option.label for option in sorted(options, key=lambda option: -option.score)]


def test_measures_are_of_readable_answers():
    sooner, later = (places_of(POST[0], length)[0] for length in POST[0].lengths)
    values = reduced_score(samples_of("post")[0], [sooner, later, "no idea", "what?"]).value
    corrected = 1 + 1 / (2 * 2 * math.log(2))  # two lengths from two answers, after Miller
    assert values["valid"] == 0.5
    assert values["N"] == pytest.approx(corrected)
    assert values["mixing"] == pytest.approx(2)
    assert values["U"] == pytest.approx(1)


def test_measures_of_unreadable_answers_are_not_numbers():
    values = reduced_score(samples_of("post")[0], ["no idea"] * 3).value
    assert values.pop("valid") == 0
    assert values
    assert all(math.isnan(value) for value in values.values())


@pytest.mark.parametrize(
    ("suite", "measured"),
    [("post", {"valid", "N", "mixing", "U", "P(longest)"}), ("main", {"valid", "takes the action"})],
)
def test_a_suite_has_its_own_measures_only(suite, measured):
    assert reduced_score(samples_of(suite)[0], ["A", "B"]).value.keys() == measured


def test_a_reduced_score_counts_options_with_reasons():
    score = reduced_score(samples_of("main")[0], ["A", "Answer: A", "B", "A or B"])
    assert score.metadata["counts"] == {"A": 2, "B": 1}
    assert score.metadata["unreadable"] == 1
    assert score.metadata["rules"] == {"line": 2, "marked": 1, "no label": 1}
    assert score.answer == "A: 2, B: 1"


def test_the_rate_of_the_action_is_of_readable_answers():
    action = next(option.label for option in MAIN[0].options if option.takes)
    score = reduced_score(samples_of("main")[0], [action, "no idea", "no idea"])
    assert score.value == pytest.approx({"valid": 1 / 3, "takes the action": 1})


# ------------------------------------------------------------------------------------------- prompts in forms


@pytest.mark.parametrize("suite", ["post", "dominance", "control_permitted"])
def test_a_task_in_forms_reads_the_labels_of_its_forms(suite):
    samples = list(TASKS[suite](scenarios=12, forms="test", families="training").dataset)
    labels = [[option["label"] for option in sample.metadata["prompt"]["options"]] for sample in samples]
    assert len({tuple(row) for row in labels}) >= 4
    for sample, row in zip(samples, labels, strict=True):
        assert [score_of(sample, label).as_float() for label in row] == list(range(len(row)))
        assert all(label in sample.input[-1].text for label in row)


def test_a_task_in_forms_has_the_prompts_of_an_evaluation():
    prompts = PromptStyle(forms="test").generate("post", 3, 1)
    samples = list(TASKS["post"](scenarios=3, forms="test").dataset)
    assert [[message.text for message in sample.input] for sample in samples] == [
        [message["content"] for message in prompt.messages] for prompt in prompts
    ]


# ------------------------------------------------------------------------------------------- both orders


def metrics_between(suite, answers_of_order):
    """Return the metrics between orders for the answers in each order."""
    scores = []
    for sample, answers in zip(samples_of(suite), answers_of_order, strict=False):
        scores.append(SampleScore(score=reduced_score(sample, answers), sample_id=sample.id))
    return between_orders()(scores)


def test_a_model_that_names_a_letter_has_position_bias():
    metrics = metrics_between("post", [["A"] * 4, ["A"] * 4])
    assert metrics["position bias"] == pytest.approx(1)
    assert metrics["N over both orders"] >= 1


def test_a_model_that_names_an_option_has_no_position_bias():
    label, same_option = places_of(POST[0], POST[0].lengths[0])[0], places_of(POST[1], POST[0].lengths[0])[0]
    metrics = metrics_between("post", [[label] * 4, [same_option] * 3 + ["no idea"]])
    assert metrics["position bias"] == pytest.approx(0)
    assert metrics["N over both orders"] == pytest.approx(0)


def test_a_single_order_has_no_position_bias():
    assert "position bias" not in metrics_between("post", [["A"] * 4])
    assert between_orders()([]) == {}


# ------------------------------------------------------------------------------------------- whole evaluations


def test_own_prompts_may_have_no_scores(tmp_path):
    options = [{"label": "yes", "takes": True}, {"label": "no"}]
    lines = [
        {"prompt": "?", "scenario": "s", "order": order, "options": options[::sign]}
        for order, sign in ((0, 1), (1, -1))
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    sample = next(iter(own_prompts(str(tmp_path / "own.jsonl")).dataset))
    assert reduced_score(sample, ["yes", "Answer: no"]).value == {"valid": 1, "takes the action": 0.5}


def test_a_mock_model_counts_tokens_without_a_download():
    model = get_model("mockllm/model")
    count_tokens_locally(model)
    assert asyncio.run(model.api.count_text_tokens("four letters")) == 3


@pytest.mark.slow
def test_a_log_has_the_means_of_a_model(tmp_path):
    """The answers of a scripted model: the best option of each length, then none."""
    prompts = {prompt.messages[0]["content"]: prompt for prompt in POST}
    calls = Counter()

    def best_of_each_length(messages, *others):
        text = messages[-1].text
        calls[text] += 1
        if calls[text] > 2:
            return ModelOutput.from_content("mockllm/model", "no idea")
        prompt = prompts[text]
        label = places_of(prompt, prompt.lengths[calls[text] - 1])[0]
        return ModelOutput.from_content("mockllm/model", f"Answer: {label}")

    model = get_model("mockllm/model", custom_outputs=best_of_each_length)
    settings = {"log_dir": str(tmp_path), "display": "none", "max_samples": 1, "max_tasks": 1}
    (log,) = inspect_ai.eval(TASKS["post"](scenarios=1, epochs=4), model=model, **settings)
    assert log.status == "success", log.error
    numbers = {score.name: score.metrics for score in log.results.scores}
    assert numbers["choice"]["position bias"].value == pytest.approx(0)
    assert numbers["valid"]["mean"].value == 0.5
    assert numbers["N"]["mean"].value == pytest.approx(1 + 1 / (2 * 2 * math.log(2)))
    assert "takes the action" not in numbers
    assert log.results.headline.score == "N"
    (first, _) = log.reductions[0].samples
    assert sum(first.metadata["counts"].values()) == 2


@pytest.mark.slow
def test_inspect_runs_a_mock_model_without_a_network(tmp_path):
    """Its answers name no option, so that nothing but their validity is scored."""
    command = [sys.executable, "-m", "inspect_ai", "eval", "drest_torch/main", "--model", "mockllm/model"]
    limits = ["-T", "scenarios=1", "-T", "epochs=2", "--display", "plain", "--log-dir", str(tmp_path)]
    done = subprocess.run([*command, *limits], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*.eval")
    log = inspect_ai.log.read_eval_log(str(path))
    assert log.status == "success"
    scores = {score.name: score for score in log.results.scores}
    assert scores["valid"].metrics["mean"].value == 0
    assert scores["takes the action"].scored_samples == 0
