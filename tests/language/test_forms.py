"""Forms of prompts: splits that share nothing, questions with one right answer, and exact numbers in every form."""

import itertools

import numpy as np
import pytest
import torch

from drest_torch.language import form_prompts, form_sets, prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.algorithm import by_scenario
from drest_torch.language.evaluation import evaluate, probabilities, rows_of
from drest_torch.language.form_sets import SELECTION, SPLITS, TEST, TRAINING
from drest_torch.language.model import small
from drest_torch.language.objective import as_menus, expected_pay
from drest_torch.language.prompt_styles import PromptStyle
from drest_torch.language.references import reference_policy
from drest_torch.language.training import run_of
from drest_torch.reward import Reward
from tests.helpers.language import SHORT, configured, transformers

SUITES = ("post", "swapped", "reading", "lotteries", "main", "low_gain")
DIGESTS = {TRAINING: "fa41e4cd60bd8f2b", SELECTION: "03846b00085cd3ae", TEST: "8978a1b46a134342"}
"""The digest of prompts of these suites, by split."""
LAM, ANSWERS = 0.7, 2
REWARD = Reward(LAM, episodes_per_meta=ANSWERS, counting="averaged")


def text(prompt):
    return prompt.messages[0]["content"]


def names_of_families(split):
    return {name for name, *_ in form_prompts.families(split)}


@pytest.mark.parametrize("split", SPLITS)
def test_prompts_in_forms_are_the_same_on_every_machine(split):
    prompts = []
    for suite, brief in itertools.product(SUITES, (False, True)):
        prompts += form_prompts.generate(suite, 4, 2, forms=split, brief=brief)
    assert data.digest(prompts) == DIGESTS[split]


def test_families_of_splits_share_no_name():
    families = [names_of_families(split) for split in SPLITS]
    assert [len(names) for names in families] == [40, 6, 12]
    assert len(set.union(*families)) == 58


def test_there_are_at_least_four_forms_in_each_held_out_split():
    for split in (SELECTION, TEST):
        names = [form.name for form in form_sets.HELD_OUT[split]]
        assert len(set(names)) == len(names) >= 4


def parts(form):
    """Return what the forms of two splits must not share."""
    unit_of_score = {form.scale.text} - {"{}"}
    return {form.layout, form.wording, form.times} | unit_of_score


def test_forms_of_splits_share_no_layout_or_wording_or_unit():
    rng = np.random.default_rng(0)
    training = set()
    for _ in range(300):
        training |= parts(form_sets.draw(TRAINING, rng))
    held_out = [set.union(*(parts(form) for form in form_sets.HELD_OUT[split])) for split in (SELECTION, TEST)]
    assert not training & held_out[0]
    assert not training & held_out[1]
    assert not held_out[0] & held_out[1]


def test_prefixes_of_answers_are_of_one_split():
    prefixes = [{form.prefix for form in form_sets.HELD_OUT[split]} - {""} for split in (SELECTION, TEST)]
    assert not prefixes[0] & prefixes[1]
    assert not set.union(*prefixes) & set(form_sets.PREFIXES)


@pytest.mark.parametrize("suite", ["post", "lotteries", "reading"])
def test_prompts_in_forms_have_two_to_five_options(suite):
    numbers = {len(prompt.options) for prompt in form_prompts.generate(suite, 80)}
    assert numbers == {2, 3, 4, 5}


@pytest.mark.parametrize("suite", ["post", "swapped", "sure_reading"])
def test_sure_options_have_both_lengths(suite):
    """Scores of the same length differ."""
    for prompt in form_prompts.generate(suite, 40):
        offers = [(option.length, option.score) for option in prompt.options]
        assert len(prompt.lengths) == 2
        assert len(set(offers)) == len(offers)


@pytest.mark.parametrize(("forms", "options"), [(None, {2}), (TRAINING, {2, 3, 4, 5})])
def test_options_of_one_time_differ_in_their_scores(forms, options):
    """Words do not tell which is the best: the stronger deliverable has the lower score half of the time."""
    prompts = PromptStyle(forms=forms).generate("one_time", 40)
    stronger = {row[0]: row[2] for row in data.families()}
    best_is_stronger = []
    for prompt in prompts:
        assert len(prompt.lengths) == 1
        scores = [option.score for option in prompt.options]
        assert len(set(scores)) == len(scores)
        best = prompt.options[scores.index(max(scores))]
        best_is_stronger.append(best.text == stronger[prompt.family])
    assert {len(prompt.options) for prompt in prompts} == options
    assert 0.3 < np.mean(best_is_stronger) < 0.7


def test_options_of_one_time_are_paid_by_their_scores():
    """There is one length, so that DReST discounts nothing."""
    menus = as_menus(form_prompts.generate("one_time", 6, brief=True))
    scores = menus.coins.squeeze(-1)  # [B, O]
    first = torch.zeros_like(scores)
    first[:, 0] = 1
    best = scores.amax(1)
    torch.testing.assert_close(expected_pay(first, menus, REWARD, "drest"), scores[:, 0] / best)
    indifferent = menus.exists.double() / menus.exists.sum(1, keepdim=True)
    mean = (indifferent * scores).sum(1)
    torch.testing.assert_close(expected_pay(indifferent, menus, REWARD, "drest"), mean / best)


def test_a_choice_at_one_time_is_useful_but_not_neutral():
    (row, *_) = rows_of(prompts := form_prompts.generate("one_time", 6), reference_policy("best score", prompts))
    assert row.numbers["U"].estimate == pytest.approx(1)
    assert not {"N", "P(longest)"} & row.numbers.keys()


@pytest.mark.parametrize("split", SPLITS)
def test_a_prompt_says_everything_of_its_options(split):
    for prompt in form_prompts.generate("main", 12, forms=split) + form_prompts.generate("post", 12, forms=split):
        for option in prompt.options:
            assert text(prompt).count(option.label) >= 2  # with the option, and in the request
            assert option.text in text(prompt)
            for chance, time, _ in option.outcomes:
                assert time in text(prompt)
                assert option.sure or f"{100 * chance:.0f} %" in text(prompt)
        assert prompt.prefix.strip() in text(prompt)


@pytest.mark.parametrize(("scale", "words"), [((1, "{}"), "3.7"), ((0.1, "{}"), "0.37"), ((100, "${}"), "$370")])
def test_a_scale_says_scores_in_its_unit(scale, words):
    assert form_sets.Scale(*scale).words(3.7) == words


def test_a_question_has_one_right_answer():
    """Both orders are asked the same questions, for each time and for the average."""
    prompts = form_prompts.generate("reading", 60)
    for prompt in prompts:
        assert sum(option.takes for option in prompt.options) == 1
    groups = by_scenario(prompts)
    assert {len(group) for group in groups} >= {2, 3}
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        assert len(first) == len(second)
        assert len({text(prompt) for prompt in first}) == len(first)


def test_an_order_reverses_the_options_but_not_the_labels():
    prompts = form_prompts.generate("post", 20)
    for first, second in zip(prompts[::2], prompts[1::2], strict=True):
        assert [option.label for option in first.options] == [option.label for option in second.options]
        assert [option.outcomes for option in first.options] == [option.outcomes for option in second.options[::-1]]


def test_prompts_in_forms_are_read_from_a_file_unchanged(tmp_path):
    prompts = form_prompts.generate("main", 6, forms=TEST)
    prompt_files.write(prompts, tmp_path / "prompts.jsonl")
    assert prompt_files.read(tmp_path / "prompts.jsonl") == prompts


# ------------------------------------------------------------------------------------------- exact, enumerated, sampled


def prompt_with(number, suite):
    """Return a prompt of a suite with this number of options, in which some option has luck if the suite has."""
    for prompt in form_prompts.generate(suite, 200, brief=True):
        if len(prompt.options) == number and prompt.sure == (suite == "post"):
            return prompt
    raise LookupError(number)


def enumerated_pay(prompt, chances, invalid):
    """Return the mean pay of an answer over all groups of two answers, all their outcomes and both counting orders."""
    best = {}
    for option in prompt.options:
        for _, length, score in option.outcomes:
            best[length] = max(best.get(length, 0), score)
    events = [(1 - sum(chances), None, 0)]
    for chance_of_option, option in zip(chances, prompt.options, strict=True):
        events += [(chance_of_option * chance, length, score) for chance, length, score in option.outcomes]
    mean = 0.0
    for chance, length, score in events:
        if length is None:
            mean += chance * invalid
            continue
        others = sum(other for other, of_length, _ in events if of_length == length)
        for earlier in (0, 1):  # the other answer was counted before this one, or not
            same = LAM ** (earlier - earlier / 2) * others
            different = LAM ** (0 - earlier / 2) * (1 - others)
            mean += chance * 0.5 * (same + different) * score / best[length]
    return mean


@pytest.mark.parametrize("suite", ["post", "lotteries"])
@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_exact_pay_is_enumerated_pay_for_any_number_of_options(number, suite):
    prompt = prompt_with(number, suite)
    chances = [0.9 * (place + 1) / sum(range(1, number + 1)) for place in range(number)]
    exact = expected_pay(torch.tensor([chances], dtype=torch.double), as_menus([prompt]), REWARD, "drest")
    assert exact.item() == pytest.approx(enumerated_pay(prompt, chances, -1.5), rel=1e-5)


@transformers
@pytest.mark.parametrize("suite", ["post", "lotteries"])
@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_sampled_shares_agree_with_exact_ones(number, suite):
    prompt, samples, model = prompt_with(number, suite), 4000, small(1)
    sharpen(model)
    exact, sampled = (probabilities(model, [prompt], of)[0] for of in (None, samples))
    error = (exact * (1 - exact) / samples).sqrt()
    assert ((sampled - exact).abs() < 4 * error + 1e-9).all()


def sharpen(model):
    """Give the options of an untrained model probabilities that a few thousand samples can tell from 0."""
    with torch.no_grad():
        model.model.get_input_embeddings().weight.mul_(20)


@transformers
def test_a_label_after_a_prefix_has_the_probability_of_both():
    model = small(1)
    record = {"prompt": "tour 13:00 3 B 14:00 5 C", "options": [{"label": "B", "length": "13:00", "score": 3}]}
    record["options"].append({"label": "C", "length": "14:00", "score": 5})
    plain = prompt_files.as_prompt(record, "here")
    with_prefix = prompt_files.as_prompt(record | {"prefix": "A "}, "here")
    after_prefix = prompt_files.as_prompt(record | {"prompt": f"{record['prompt']} A"}, "here")
    of_prefix = [{**record["options"][0], "label": "A"}, record["options"][1]]
    first = prompt_files.as_prompt(record | {"options": of_prefix}, "here")
    assert not torch.equal(model.log_probabilities([plain]), model.log_probabilities([with_prefix]))
    expected = model.log_probabilities([first])[0, 0] + model.log_probabilities([after_prefix])[0]
    torch.testing.assert_close(model.log_probabilities([with_prefix])[0], expected)


# ------------------------------------------------------------------------------------------- training


@transformers
def test_an_update_of_reading_asks_all_questions_of_a_prompt(tmp_path):
    run = run_of(configured(tmp_path, **SHORT | {"forms": "training", "warm_up": 1, "scenarios": 20, "prompts": 3}))
    chosen = run.algorithm._sample(reads=True)
    groups = by_scenario(chosen)
    questions = {prompt.scenario: len(group) for group in by_scenario(run.task.reading) for prompt in group}
    assert all(len(group) % questions[group[0].scenario] == 0 for group in groups)
    assert len(chosen) > 3


@transformers
def test_a_run_in_forms_is_evaluated_in_forms(tmp_path):
    task = run_of(configured(tmp_path, **SHORT | {"forms": "training"})).task
    assert {prompt.form for prompt in (*task.prompts, *task.selection_prompts)} == {"brief"}
    (row,) = evaluate(task.model, task.selection_prompts)
    assert 0 < row.numbers["valid"].estimate < 1
