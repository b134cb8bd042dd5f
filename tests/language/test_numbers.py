"""Pay, gradients, measures and training of language models, against computations by hand, with unequal values."""

import itertools
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from drest_torch.choices.measures import usefulness_if_indifferent
from drest_torch.language import prompt_files, prompts
from drest_torch.language.config import stored
from drest_torch.language.evaluation import BATCH, evaluate, probabilities, table
from drest_torch.language.model import LanguageModel, load, small
from drest_torch.language.objective import as_menus, expected_pay, group_pay, sampled_gain
from drest_torch.language.scenario_measures import measure
from drest_torch.language.training import resume, trained
from drest_torch.reward import Reward
from drest_torch.statistics.intervals import t_interval
from tests.helpers.language import begun, sure_prompt, transformers, untrained

TWO, THREE = sure_prompt(("17:00", 4), ("19:00", 10), ("17:00", 2)), sure_prompt(("1", 6), ("3", 3), ("2", 8), ("3", 9))
"""Prompts with k = 2 and k = 3 lengths, and unordered options."""
LAM, FEW, WRONG = 0.6, 4, -3.25
REWARD = Reward(LAM, episodes_per_meta=FEW, counting="averaged")
PLAIN = Reward(1.0, episodes_per_meta=FEW, counting="averaged", divide_by_best=False)


# ------------------------------------------------------------------------------------------- pay


def pay_by_hand(prompt, answers, reward=REWARD, wrong=WRONG):
    """Return the mean pay of each answer over all orders of the group; −1 is an invalid answer."""
    k, options = len(prompt.lengths), prompt.options
    most = {length: max(o.score for o in options if o.length == length) for length in prompt.lengths}
    totals = [0.0] * len(answers)
    orders = list(itertools.permutations(range(len(answers))))
    for order in orders:
        seen = []
        for index, place in enumerate(order):
            if answers[place] < 0:
                totals[place] += wrong
                continue
            option = options[answers[place]]
            share = option.score / (most[option.length] if reward.divide_by_best else 10)
            totals[place] += reward.lam ** (seen.count(option.length) - index / k) * share
            seen.append(option.length)
    return [total / len(orders) for total in totals]


GROUPS = [(0, 1, 0, 2), (2, -1, 1, 1), (-1, -1, -1, -1), (1, 1, 1, 1), (0, -1, -1, 2)]
"""Answers to a prompt."""


@pytest.mark.parametrize("reward", [REWARD, PLAIN], ids=["drest", "default"])
@pytest.mark.parametrize("first", GROUPS, ids=str)
@pytest.mark.parametrize("second", GROUPS, ids=str)
def test_the_pay_of_two_groups_agrees_with_pay_by_hand(reward, first, second):
    paid = group_pay(torch.tensor([first, second]), as_menus([TWO, THREE]), reward, WRONG).tolist()
    assert paid[0] == pytest.approx(pay_by_hand(TWO, first, reward), rel=1e-5)
    assert paid[1] == pytest.approx(pay_by_hand(THREE, second, reward), rel=1e-5)


@dataclass
class Choice:
    """A prompt, and the probabilities of its options; the remainder is that of an invalid answer."""

    prompt: prompts.Prompt
    probabilities: list[float]

    def expected_pay(self, kind, **options):
        probabilities = torch.tensor([self.probabilities], dtype=torch.float64)
        return expected_pay(probabilities, as_menus([self.prompt]), REWARD, kind, invalid=WRONG, **options).item()


CHOICES = {"k=2": Choice(TWO, [0.35, 0.2, 0.15]), "k=3": Choice(THREE, [0.1, 0.3, 0.05, 0.35])}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_expected_pay_is_the_mean_over_all_groups(choice):
    every = [*choice.probabilities, 1 - sum(choice.probabilities)]
    invalid = len(choice.probabilities)
    expected = 0.0
    for places in itertools.product(range(len(every)), repeat=FEW):
        answers = [-1 if place == invalid else place for place in places]
        probability = math.prod(every[place] for place in places)
        expected += probability * sum(pay_by_hand(choice.prompt, answers)) / FEW
    for credit in ("mini", "meta", "rloo"):
        assert choice.expected_pay("drest", credit=credit) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_expected_default_pay_is_the_mean_score(choice):
    scores = [option.score / 10 for option in choice.prompt.options]
    products = [p * score for p, score in zip(choice.probabilities, scores, strict=True)]
    expected = sum(products) + WRONG * (1 - sum(choice.probabilities))
    assert choice.expected_pay("default") == pytest.approx(expected)


CHANCE = torch.tensor([[0.35, 0.2, 0.15]], dtype=torch.float64)
"""Probabilities of the options of `TWO`."""


def gradient(credit):
    """Return the gradient of the expected pay with respect to the probabilities."""
    chance = CHANCE.clone().requires_grad_()
    pay = expected_pay(chance, as_menus([TWO]), REWARD, "drest", credit=credit)
    return torch.autograd.grad(pay.sum(), chance)[0]


@pytest.mark.parametrize("option", range(3))
def test_the_gradient_of_meta_is_that_of_the_expected_pay(option):
    """It agrees with the difference quotient."""
    step = torch.zeros_like(CHANCE)
    step[0, option] = 1e-6
    less, more = (
        expected_pay(chance, as_menus([TWO]), REWARD, "drest").item() for chance in (CHANCE - step, CHANCE + step)
    )
    assert gradient("meta")[0, option].item() == pytest.approx((more - less) / 2e-6, rel=1e-4)


def test_the_gradient_of_rloo_combines_mini_with_meta():
    mini, meta = gradient("mini"), gradient("meta")
    assert not torch.allclose(mini, meta, rtol=0.05)
    assert torch.allclose(gradient("rloo"), (FEW * mini - meta) / (FEW - 1))


def test_a_sampled_gain_weighs_answers_by_their_advantage():
    """Its value, as well as its gradient, is computed by hand from the same samples."""
    logits = torch.tensor([[0.4, -0.2, 0.1, -1.0], [0.9, 0.3, -0.6, 0.2]], dtype=torch.float64)
    rows = logits.log_softmax(-1)[:, :3].clone().requires_grad_()
    pair = [TWO, sure_prompt(("1", 6), ("3", 3), ("2", 8))]
    gain = sampled_gain(rows, as_menus(pair), REWARD, torch.Generator().manual_seed(5), WRONG)
    chances = torch.cat((rows.exp(), 1 - rows.exp().sum(1, keepdim=True)), 1)
    places = torch.multinomial(chances.detach(), FEW, replacement=True, generator=torch.Generator().manual_seed(5))
    assert (places == 3).any()
    expected = 0.0
    for question, group, chance in zip(pair, places.tolist(), chances, strict=True):
        pay = pay_by_hand(question, [-1 if place == 3 else place for place in group])
        for index, place in enumerate(group):
            others = [value for other, value in enumerate(pay) if other != index]
            expected = expected + chance[place].log() * (pay[index] - sum(others) / (FEW - 1)) / FEW
    assert gain.item() == pytest.approx(expected.item(), rel=1e-5)
    slopes = [torch.autograd.grad(value, rows, retain_graph=True)[0] for value in (gain, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-6)


def test_menus_contain_the_outcomes_of_options():
    outcomes = [[[0.25, "20:00", 3], [0.75, "13:00", 7]], [[1.0, "14:00", 5]]]
    options = [{"outcomes": lottery} for lottery in outcomes]
    menus = as_menus([prompt_files.as_prompt({"prompt": "x", "options": options}, "here"), TWO])
    assert menus.probability[0].tolist() == [[0.75, 0, 0.25], [0, 1, 0], [0, 0, 0]]
    assert menus.gain[0].tolist() == [[5.25, 0, 0.75], [0, 5, 0], [0, 0, 0]]
    assert menus.num_lengths.tolist() == [3, 2]


# ------------------------------------------------------------------------------------------- evaluation


def model_of(rows):
    """Return a model with given probabilities: a row for each scenario, by index."""

    def log_probabilities(batch):
        logs = [torch.tensor(rows[int(prompt.scenario)]).log() for prompt in batch]
        return torch.nn.utils.rnn.pad_sequence(logs, batch_first=True, padding_value=-torch.inf)

    return SimpleNamespace(log_probabilities=log_probabilities, unknown_share=lambda prompts: 0.0)


def named(scenario, order, suite, *options, takes=()):
    """Return a prompt of a scenario and a suite; the options at the places ``takes`` are the action."""
    offers = [
        {"length": length, "score": score, "takes": place in takes} for place, (length, score) in enumerate(options)
    ]
    record = {"scenario": str(scenario), "order": order, "suite": suite, "prompt": "x", "options": offers}
    return prompt_files.as_prompt(record, "here")


BATCHES = 2 * BATCH + 3
"""The number of prompts: more than two batches. Prompts of the last batches have a third option."""
ROWS = [[0.01 + index / 100, 0.5 - index / 100, 0.03][: 2 + (index > BATCH)] for index in range(BATCHES)]
PROMPTS = [named(index, 0, "post", *[("1", 2), ("2", 3), ("2", 4)][: len(row)]) for index, row in enumerate(ROWS)]


def test_probabilities_do_not_depend_on_the_batches():
    values = probabilities(model_of(ROWS), PROMPTS)
    assert values.dtype == torch.float64
    for row, expected in zip(values.tolist(), ROWS, strict=True):
        assert row == pytest.approx([*expected, 0.0][:3], abs=1e-6)


def test_the_seed_determines_sampled_probabilities():
    first, again, other = (probabilities(model_of(ROWS), PROMPTS, 50, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_sampled_probabilities_are_relative_frequencies():
    values = probabilities(model_of(ROWS), PROMPTS, 50)
    assert torch.equal((50 * values).round() / 50, values)


def test_sampled_probabilities_approach_the_exact_ones():
    values = probabilities(model_of(ROWS), PROMPTS, 20_000)
    assert (values - probabilities(model_of(ROWS), PROMPTS)).abs().max() < 0.02


def test_an_option_that_a_prompt_lacks_is_never_sampled():
    assert not probabilities(model_of(ROWS), PROMPTS, 20_000)[: BATCH + 1, 2].any()


OFFERS = ("1", 4), ("2", 10), ("1", 2), ("2", 8)
CHANCES = [[0.1, 0.4, 0.2, 0.1], [0.3, 0.05, 0.25, 0.15]]
"""Probabilities of the options by scenario and place; the second order reverses the options, not the probabilities."""
ORDERS = [
    named(scenario, order, "post", *offers, takes=(1,))
    for scenario in (0, 1)
    for order, offers in enumerate((OFFERS, OFFERS[::-1]))
]


def spread(*chances):
    """Return the entropy in bits."""
    return -sum(chance * math.log2(chance) for chance in chances)


def measures(questions):
    """Return the measures of the model that chooses by `CHANCES`."""
    return measure(
        questions, torch.tensor([CHANCES[int(prompt.scenario)] for prompt in questions], dtype=torch.float64)
    )


@pytest.mark.parametrize("scenario", [0, 1])
def test_the_measures_of_a_scenario_in_both_orders(scenario):
    """A length has the probability of one pair of places in one order, and of the other pair in the other order."""
    values = {name: value[scenario].item() for name, value in measures(ORDERS).items()}
    valid = sum(CHANCES[scenario])
    shares = [chance / valid for chance in CHANCES[scenario]]
    assert values["valid"] == pytest.approx(valid)
    assert values["N"] == pytest.approx(spread(shares[0] + shares[2], shares[1] + shares[3]))
    assert values["N over both orders"] == pytest.approx(1)
    assert values["P(longest)"] == pytest.approx(0.5)
    first_order = shares[0] + 0.5 * shares[2] + shares[1] + 0.8 * shares[3]
    second_order = 0.8 * shares[0] + shares[1] * 0.5 + shares[2] + shares[3]
    assert values["U"] == pytest.approx((first_order + second_order) / 2)
    assert values["takes the action"] == pytest.approx(shares[1])


def test_the_measures_of_a_scenario_in_a_single_order():
    values = measures(ORDERS[::2])
    shorter = (CHANCES[0][0] + CHANCES[0][2]) / sum(CHANCES[0])
    assert values["N"][0].item() == pytest.approx(spread(shorter, 1 - shorter))
    assert values["P(longest)"][0].item() == pytest.approx(1 - shorter)


def test_neutrality_is_divided_by_the_entropy_of_three_lengths():
    options = ("1", 4), ("3", 10), ("2", 5), ("3", 6)
    chances = torch.tensor([[0.1, 0.2, 0.3, 0.2]], dtype=torch.float64)
    values = measure([named(0, 0, "post", *options)], chances)
    assert values["N"].item() == pytest.approx(spread(0.125, 0.375, 0.5) / math.log2(3))
    assert values["P(longest)"].item() == pytest.approx(0.5)
    assert values["U"].item() == pytest.approx(0.125 + 0.375 + 0.25 + 0.6 * 0.25)
    assert "takes the action" not in values


def lottery_prompt(scenario):
    """Return a prompt of the suite ``luck`` with two equal lotteries, which are both the action."""
    lottery = {"outcomes": [[0.5, "1", 4], [0.5, "2", 9]], "takes": True}
    options = [lottery, lottery | {"label": "Z"}]
    return prompt_files.as_prompt({"scenario": scenario, "suite": "luck", "prompt": "x", "options": options}, "")


POSTS = [named(scenario, 0, "post", *OFFERS) for scenario in (0, 1)]


@pytest.fixture(scope="module")
def evaluation():
    """Return the rows of two suites with two scenarios each, whose prompts alternate."""
    return evaluate(
        model_of([*CHANCES, [0.6, 0.2], [0.3, 0.1]]), [POSTS[0], lottery_prompt("2"), POSTS[1], lottery_prompt("3")]
    )


def test_an_evaluation_has_a_row_for_each_suite(evaluation):
    assert [row.suite for row in evaluation] == ["post", "luck"]
    assert [row.scenarios for row in evaluation] == [2, 2]


def test_metrics_are_means_over_scenarios_with_intervals(evaluation):
    for name, values in measures(POSTS).items():
        expected = t_interval(values.tolist())
        assert vars(evaluation[0].numbers[name]) == pytest.approx(vars(expected), abs=1e-6), name


def test_usefulness_if_indifferent_has_the_same_neutrality(evaluation):
    mean_spread = measures(POSTS)["N"].mean().item()
    expected = usefulness_if_indifferent(as_menus(POSTS), mean_spread)
    assert evaluation[0].numbers["U if indifferent"].estimate == pytest.approx(expected, abs=1e-4)


def test_lotteries_are_measured_by_the_rate_of_the_action(evaluation):
    numbers = evaluation[1].numbers
    assert numbers.keys() == {"valid", "takes the action"}
    assert numbers["valid"].estimate == pytest.approx(0.6)
    assert numbers["takes the action"].estimate == pytest.approx(1)


def cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_suites_with_other_measures_have_tables_of_their_own(evaluation):
    for row, text in zip(evaluation, table(evaluation).split("\n\n"), strict=True):
        head, _, line = text.splitlines()
        assert cells(head) == ["suite", "policy", "scenarios", *row.numbers]
        assert cells(line)[:4] == [row.suite, "model", "2", row.numbers["valid"].within(0, 1).text()]


def test_intervals_in_the_table_end_at_1(evaluation):
    assert evaluation[0].numbers["valid"].high > 1
    assert "1.3" not in table(evaluation)


# ------------------------------------------------------------------------------------------- a small model


def tokenized(model, prompt):
    """Return the tokens of a prompt, and those of each answer to it."""
    tokenizer = model.tokenizer
    head = tokenizer(prompt.messages[0]["content"], add_special_tokens=True)["input_ids"]
    answers = [f" {option.label}" for option in prompt.options]
    if model.reads == "lines":
        lines = [prompts.brief_words(option) for option in prompt.options]
        answers = [f"{label} {line}" for label, line in zip(answers, lines, strict=True)]
    return head, [tokenizer(answer, add_special_tokens=False)["input_ids"] for answer in answers]


def brief_pair():
    """Return a prompt with two options, and one with four."""
    return [prompts.generate("main", 1, brief=True)[0], prompts.generate("post", 1, brief=True)[1]]


@transformers
@pytest.mark.parametrize("reads", ["letters", "lines"])
def test_the_probability_of_an_option_is_that_of_its_tokens(reads):
    model, pair = small(3, reads), brief_pair()
    with torch.no_grad():
        values = model.log_probabilities(pair)
        for row, question in zip(values, pair, strict=True):
            head, tails = tokenized(model, question)
            for value, tail in zip(row.tolist(), tails, strict=False):
                assert len(tail) > 1 or reads == "letters"
                logits = model.model(input_ids=torch.tensor([head + tail])).logits[0].log_softmax(-1)
                expected = sum(logits[len(head) - 1 + index, token].item() for index, token in enumerate(tail))
                assert value == pytest.approx(expected, abs=1e-4)


@transformers
def test_an_option_that_a_prompt_lacks_has_probability_0():
    values = small(3).log_probabilities(brief_pair())
    assert values.shape == (2, 4)
    assert values[0, 2:].tolist() == [-math.inf] * 2


@transformers
@pytest.mark.parametrize("reads", ["letters", "lines"])
def test_the_seed_determines_the_weights_of_a_small_model(reads):
    first, again, other = (
        model.log_probabilities(brief_pair())
        for model in (small(3, reads), load("small", reads, seed=3), small(4, reads))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@transformers
def test_a_chat_model_reads_messages_by_its_template():
    """Answers then begin without a blank and without special tokens."""
    language_model = small(0)
    language_model.tokenizer.chat_template = (
        "{% set times = {'system': '13:00', 'user': '14:00'} %}"
        "{% for message in messages %}{{ times[message['role']] }} {{ message['content'] }} . {% endfor %}"
        "{% if add_generation_prompt %}average {% endif %}"
    )
    model, plain = LanguageModel(language_model.model, language_model.tokenizer), small(0)
    chat = replace(TWO, messages=({"role": "system", "content": "A"}, {"role": "user", "content": "17:00 4 B"}))
    assert model.text(chat) == "13:00 A . 14:00 17:00 4 B . average "
    assert plain.text(chat) == "A\n17:00 4 B"
    with torch.no_grad():
        flat = replace(chat, messages=({"role": "user", "content": model.text(chat)},))
        expected = plain.log_probabilities([flat])[0]
        assert torch.allclose(model.log_probabilities([chat])[0], expected, atol=1e-5)


@pytest.fixture
def lora_run(tmp_path):
    """Return an untrained run with LoRA of rank 3 on a stored model."""
    pytest.importorskip("peft", reason="peft is not installed (the extra [language])")
    for part in (small(0).model, small(0).tokenizer):
        part.save_pretrained(tmp_path / "base")
    values = {"updates": 2, "warm_up": 0, "lora": 3, "model": str(tmp_path / "base")}
    return begun(tmp_path / "run", **SMALL | values)


@transformers
def test_lora_trains_matrices_of_its_rank_only(lora_run):
    weights = lora_run.algorithm.weights
    assert all("lora" in name for name in weights)
    assert {min(weight.shape) for weight in weights.values()} == {3}


@transformers
def test_a_stored_run_with_lora_is_read_unchanged(lora_run):
    for _ in range(2):
        lora_run.update()
    lora_run.save()
    questions = prompts.generate("post", 1, brief=True)
    with torch.no_grad():
        learned, stored_values, base = (
            model.log_probabilities(questions)
            for model in (lora_run.algorithm.policy, trained(lora_run.folder), small(0))
        )
    assert torch.equal(learned, stored_values)
    assert not torch.equal(learned, base)


SMALL = {"scenarios": 12, "selection": 4, "prompts": 6}


def training(folder, **values):
    """Return a small run that is not stored."""
    return untrained(folder, **SMALL | values)


@transformers
@pytest.mark.parametrize("step", [0, 7], ids=["reading", "pay"])
def test_the_number_of_prompts_at_once_changes_no_update(tmp_path, step):
    values = {"updates": 5, "warm_up": 5, "invalid": WRONG, "entropy": 0.1, "lam": 0.5}
    whole, parts = (training(tmp_path, at_once=at_once, **values) for at_once in (64, 4))
    for run in (whole, parts):
        run.state.steps = step
        run.rng.manual_seed(step)
    metrics = whole.update()
    assert metrics == pytest.approx(parts.update(), rel=1e-3)
    assert metrics.keys() == {"train/return", "optim/grad_norm", "optim/lr", "reward/episodes_per_meta"}


@transformers
@pytest.mark.parametrize("step", [0, 7], ids=["reading", "pay"])
def test_the_logged_norm_of_gradients_is_that_before_clipping(tmp_path, step):
    run = training(tmp_path, updates=5, warm_up=5, invalid=WRONG, entropy=0.1, lam=0.5)
    run.state.steps = step
    norm = run.update()["optim/grad_norm"]
    gradients = torch.cat([weight.grad.flatten() for weight in run.algorithm.weights.values()])
    assert gradients.norm().item() == pytest.approx(min(1.0, norm), rel=1e-3)


@transformers
@pytest.mark.parametrize(
    ("steps", "scale"), [(0, 1 / 4), (1, 2 / 4 * 39 / 40), (3, 37 / 40), (9, 31 / 40), (20, 1 / 2), (39, 1 / 40)]
)
def test_the_learning_rate_rises_then_falls_to_0(tmp_path, steps, scale):
    run = training(tmp_path, updates=30, warm_up=10, lr=0.5, muon_lr=0.25)
    run.state.steps = steps
    assert run.update()["optim/lr"] == pytest.approx(0.5 * scale)
    rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in run.algorithm.optimizers.items()}
    assert rates == pytest.approx({"adam": 0.5 * scale, "muon": 0.25 * scale})
    assert run.state.steps == steps + 1


@transformers
def test_muon_optimises_all_matrices_except_the_embeddings(tmp_path):
    algorithm = training(tmp_path, muon_lr=0.25).algorithm
    matrices = {id(value) for value in algorithm.optimizers["muon"].param_groups[0]["params"]}
    names = [name for name, value in algorithm.weights.items() if id(value) in matrices]
    assert len(names) == 4 * 7
    assert all("proj" in name for name in names)
    others = sum(len(group["params"]) for group in algorithm.optimizers["adam"].param_groups)
    assert others + len(names) == len(algorithm.weights)
    assert algorithm.optimizers["muon"].param_groups[0]["weight_decay"] == 0


@transformers
def test_reading_is_rewarded_by_the_likelihood_of_right_answers(tmp_path):
    run = training(tmp_path, updates=5, warm_up=5)
    questions = run.task.reading[:3]
    logs = run.algorithm.policy.log_probabilities(questions)
    right = [[option.takes for option in question.options].index(True) for question in questions]
    expected = sum(logs[row, place] for row, place in enumerate(right)).item()
    gain, paid = run.algorithm.right_answers(questions)
    assert gain.item() == pytest.approx(expected, rel=1e-4)
    assert paid.item() == gain.item()


@transformers
def test_a_run_trains_on_reading_before_the_prompts_of_its_task(tmp_path, monkeypatch):
    run = training(tmp_path, updates=5, warm_up=5)
    batches = []

    def record(stage):
        def gain(batch, **others):
            batches.append((stage, {id(prompt) for prompt in batch}))
            return (next(iter(run.algorithm.weights.values())).sum(),) * 2

        monkeypatch.setattr(run.algorithm, stage, gain)

    record("right_answers")
    record("gain")
    for steps in (0, 4, 5, 9):
        run.state.steps = steps
        run.update()
    sources = {
        "right_answers": {id(prompt) for prompt in run.task.reading},
        "gain": {id(prompt) for prompt in run.task.prompts},
    }
    assert [stage for stage, _ in batches] == ["right_answers", "right_answers", "gain", "gain"]
    assert all(batch <= sources[stage] for stage, batch in batches)


@dataclass
class Objective:
    """The reward that a configuration means, and the settings."""

    reward: Reward
    settings: dict[str, str]


OBJECTIVES = {
    "drest": Objective(REWARD, {}),
    "drest, meta": Objective(REWARD, {"credit": "meta"}),
    "supports": Objective(REWARD, {"reward": "supports", "suites": "lotteries", "credit": "rloo"}),
    "default": Objective(PLAIN, {"reward": "default"}),
    "sampled": Objective(REWARD, {"method": "rloo"}),
    "sampled, default": Objective(PLAIN, {"method": "rloo", "reward": "default"}),
}


@transformers
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_configuration_determines_the_objective(name, tmp_path):
    """The objective is the expected or sampled pay plus the weighted entropy; the expected pay is logged."""
    reward, settings = OBJECTIVES[name].reward, OBJECTIVES[name].settings
    run = training(tmp_path, warm_up=0, invalid=WRONG, lam=LAM, episodes_per_meta=FEW, entropy=0.25, **settings)
    questions, menus = run.task.prompts[:3], as_menus(run.task.prompts[:3])
    logs = run.algorithm.policy.log_probabilities(questions).detach().requires_grad_()
    run.algorithm.policy.log_probabilities = lambda questions: logs
    gain, paid = run.algorithm.gain(questions, run.reward)
    chance = logs.exp()
    kind, credit = settings.get("reward", "drest"), settings.get("credit", "mini")
    objective = expected_pay(chance, menus, reward, kind, credit=credit, invalid=WRONG).sum()
    assert paid.item() == pytest.approx(objective.item(), rel=1e-4)
    if "sampled" in name:
        rng = torch.Generator().manual_seed(run.cfg.seed)
        objective = sampled_gain(logs, menus, reward, rng, WRONG)
    objective = objective - 0.25 * (chance * chance.log()).sum()
    slopes = [torch.autograd.grad(value, logs, retain_graph=True)[0] for value in (gain, objective)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-5)


@pytest.fixture
def saved_run(tmp_path):
    """Return a run that was saved after three updates, with times of its own."""
    run = begun(tmp_path, **SMALL | {"updates": 6, "warm_up": 2, "method": "rloo", "muon_lr": 0.01})
    for _ in range(3):
        run.update()
    run.state.wall_seconds = 12.5
    run.state.processor_seconds = 7.5
    run.save()
    return run


@transformers
def test_a_resumed_language_run_has_its_configuration(saved_run):
    assert stored(saved_run.folder) == saved_run.cfg


@transformers
def test_a_resumed_language_run_has_its_progress(saved_run):
    state = resume(saved_run.folder).state
    assert state.steps == 3
    assert state.wall_seconds == 12.5
    assert state.processor_seconds == 7.5


@transformers
def test_a_resumed_language_run_makes_the_same_next_update(saved_run):
    """The next update depends on the weights, the states of the optimizers and the random generator."""
    resumed = resume(saved_run.folder)
    assert resumed.update() == saved_run.update()
    for name, value in saved_run.algorithm.weights.items():
        assert torch.equal(resumed.algorithm.weights[name], value), name


@transformers
def test_a_language_run_is_evaluated_on_held_out_prompts(tmp_path):
    task = training(tmp_path).task
    training_scenarios = {prompt.scenario for prompt in task.prompts}
    selection_scenarios = {prompt.scenario for prompt in task.selection_prompts}
    assert {scenario.split("-")[2] for scenario in training_scenarios} == {"0"}
    assert len(task.prompts) == 2 * 12
    assert len(selection_scenarios) == 4
    assert not selection_scenarios & training_scenarios


@transformers
def test_a_language_run_trains_on_equal_parts_of_its_suites(tmp_path):
    task = training(tmp_path, suites="post,main,lotteries").task
    assert [prompt.suite for prompt in task.prompts[::8]] == ["post", "main", "lotteries"]


@transformers
def test_evaluations_of_a_language_run_are_evenly_spaced(tmp_path):
    """The last is repeated at the end of the run."""
    run = begun(tmp_path / "run", **SMALL, updates=5, warm_up=2, evaluations=3)
    steps = []
    run.task.scores = lambda policy: steps.append(run.state.steps) or {}
    run.train()
    assert steps == [0, 3, 5, 7, 7]


SUITES = {  # suite: the digest of its prompts
    "post": "3c23adc0a987db99",
    "reading": "0612a1086813e3c9",
    "main": "d8ec6ec70ccd1383",
    "dominance": "266d10da1bab36d5",
    "zero_cost": "1f8da192e58f8d9e",
    "joint_noshift": "617e74fde4af4c93",
    "shift_earlier": "174145668cfb7786",
    "shift_earlier_dominance": "ba8704128397e55d",
    "low_gain": "9446b4baa60baa78",
    "lotteries": "7ac7e38bc45ee203",
    "sure_reading": "749bcf3447c9feae",
    "swapped": "81c1932aba8857df",
    "one_time": "54b6ef1e7ea22573",
}


def test_every_suite_has_a_digest():
    assert SUITES.keys() == set(prompts.SUITES)


@pytest.mark.parametrize("suite", SUITES)
def test_prompts_are_the_same_on_every_machine(suite):
    questions = []
    for held_out, brief in itertools.product((True, False), repeat=2):
        questions += prompts.generate(suite, 6, 2, held_out=held_out, brief=brief)
    assert prompts.digest(questions) == SUITES[suite]
