"""The numbers of language models, with a lopsided one in each place, by hand, one by one, or by another road."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from drest_torch.choices.measures import usefulness_if_indifferent
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import stored
from drest_torch.language.evaluation import BATCH, evaluate, measure, probabilities, table
from drest_torch.language.model import LanguageModel, load, small
from drest_torch.language.objective import DReSTGroupReward, as_menus, expected_pay, group_pay, sampled_gain
from drest_torch.language.training import resume, trained
from drest_torch.reward import Reward
from drest_torch.statistics.intervals import t_interval
from tests.helpers.language import begun, untrained
from tests.language.test_language import prompt, transformers

TWO, THREE = prompt(("17:00", 4), ("19:00", 10), ("17:00", 2)), prompt(("1", 6), ("3", 3), ("2", 8), ("3", 9))
"""Prompts of k = 2 and k = 3, whose options come in no order."""
LAM, FEW, WRONG = 0.6, 4, -3.25
REWARD = Reward(LAM, episodes_per_meta=FEW, counting="averaged")
PLAIN = Reward(1.0, episodes_per_meta=FEW, counting="averaged", divide_by_best=False)


# ------------------------------------------------------------------------------------------- pay


def by_hand(asked, chosen, reward=REWARD, wrong=WRONG):
    """Return the mean pay of these answers over all orders in which they can come; −1 is invalid."""
    k, options = len(asked.lengths), asked.options
    most = {length: max(o.score for o in options if o.length == length) for length in asked.lengths}
    totals = [0.0] * len(chosen)
    orders = list(itertools.permutations(range(len(chosen))))
    for order in orders:
        seen = []
        for index, place in enumerate(order):
            if chosen[place] < 0:
                totals[place] += wrong
                continue
            option = options[chosen[place]]
            share = option.score / (most[option.length] if reward.divide_by_best else 10)
            totals[place] += reward.lam ** (seen.count(option.length) - index / k) * share
            seen.append(option.length)
    return [total / len(orders) for total in totals]


ANSWERS = [(0, 1, 0, 2), (2, -1, 1, 1), (-1, -1, -1, -1), (1, 1, 1, 1), (0, -1, -1, 2)]


@pytest.mark.parametrize("reward", [REWARD, PLAIN])
def test_groups_of_two_prompts_are_paid_by_hand(reward):
    for first, second in itertools.product(ANSWERS, repeat=2):
        paid = group_pay(torch.tensor([first, second]), as_menus([TWO, THREE]), reward, WRONG)
        for asked, chosen, found in zip((TWO, THREE), (first, second), paid.tolist(), strict=True):
            assert found == pytest.approx(by_hand(asked, chosen, reward), rel=1e-5)


@pytest.mark.parametrize(("asked", "chances"), [(TWO, [0.35, 0.2, 0.15]), (THREE, [0.1, 0.3, 0.05, 0.35])])
def test_the_expected_pay_is_that_of_all_answers(asked, chances):
    every = [*chances, 1 - sum(chances)]
    expected = 0.0
    for chosen in itertools.product(range(len(every)), repeat=FEW):
        answers = [-1 if place == len(chances) else place for place in chosen]
        expected += math.prod(every[place] for place in chosen) * sum(by_hand(asked, answers)) / FEW
    menus, chance = as_menus([asked]), torch.tensor([chances], dtype=torch.float64)
    for credit in ("mini", "meta", "rloo"):
        pay = expected_pay(chance, menus, REWARD, "drest", credit=credit, invalid=WRONG)
        assert pay.item() == pytest.approx(expected, rel=1e-6)
    scores = [option.score / 10 for option in asked.options]
    plain = sum(chance * score for chance, score in zip(chances, scores, strict=True)) + WRONG * every[-1]
    assert expected_pay(chance, menus, REWARD, "default", invalid=WRONG).item() == pytest.approx(plain)


def test_the_credit_says_what_of_the_pay_has_a_gradient():
    menus, chance = as_menus([TWO]), torch.tensor([[0.35, 0.2, 0.15]], dtype=torch.float64, requires_grad=True)

    def gradient(credit):
        (found,) = torch.autograd.grad(expected_pay(chance, menus, REWARD, "drest", credit=credit).sum(), chance)
        return found

    mini, meta, step = gradient("mini"), gradient("meta"), 1e-6
    for option in range(3):
        moved = [chance.detach().clone() for _ in range(2)]
        moved[0][0, option] -= step
        moved[1][0, option] += step
        less, more = (expected_pay(each, menus, REWARD, "drest").item() for each in moved)
        assert meta[0, option].item() == pytest.approx((more - less) / (2 * step), rel=1e-4)
    assert not torch.allclose(mini, meta, rtol=0.05)
    assert torch.allclose(gradient("rloo"), (FEW * mini - meta) / (FEW - 1))


def test_a_sampled_gain_is_that_of_its_answers():
    logits = torch.tensor([[0.4, -0.2, 0.1, -1.0], [0.9, 0.3, -0.6, 0.2]], dtype=torch.float64)
    rows = logits.log_softmax(-1)[:, :3].clone().requires_grad_()
    asked = [TWO, prompt(("1", 6), ("3", 3), ("2", 8))]
    found = sampled_gain(rows, as_menus(asked), REWARD, torch.Generator().manual_seed(5), WRONG)
    chances = torch.cat((rows.exp(), 1 - rows.exp().sum(1, keepdim=True)), 1)
    places = torch.multinomial(chances.detach(), FEW, replacement=True, generator=torch.Generator().manual_seed(5))
    assert (places == 3).any()
    expected = 0.0
    for each, chosen, chance in zip(asked, places.tolist(), chances, strict=True):
        pay = by_hand(each, [-1 if place == 3 else place for place in chosen])
        for index, place in enumerate(chosen):
            others = [value for other, value in enumerate(pay) if other != index]
            expected = expected + chance[place].log() * (pay[index] - sum(others) / (FEW - 1)) / FEW
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    slopes = [torch.autograd.grad(value, rows, retain_graph=True)[0] for value in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-6)


def test_a_trainer_is_paid_by_its_own_values_for_each_of_its_prompts():
    one = [{"label": "A", "length": "17:00", "score": 4}, {"label": "B", "length": "19:00", "score": 8}]
    other = [{"label": "C", "length": "1", "score": 5}, {"label": "A", "length": "2", "score": 10}, one[1]]
    reward = DReSTGroupReward(2, 0.3, invalid=WRONG)
    completions = ["C", "B", [{"role": "user", "content": "B"}, {"role": "assistant", "content": "A"}], "what?"]
    paid = reward(["p", "p", "q", "q"], completions, options=[one, one, other, other], more=1)
    alone = [(1 + 0.3 ** (0 - 1 / k)) / 2 for k in (2, 3)]
    assert paid == pytest.approx([WRONG, alone[0], alone[1], WRONG])
    assert all(type(each) is float for each in paid)
    assert DReSTGroupReward(4).reward == Reward(0.9, episodes_per_meta=4, counting="averaged")


def test_menus_have_the_chances_lengths_and_scores_of_their_options():
    outcomes = [[[0.25, "20:00", 3], [0.75, "13:00", 7]], [[1.0, "14:00", 5]]]
    asked = prompt_files.as_prompt({"prompt": "x", "options": [{"outcomes": each} for each in outcomes]}, "here")
    menus = as_menus([asked, TWO])
    assert menus.probability[0].tolist() == [[0.75, 0, 0.25], [0, 1, 0], [0, 0, 0]]
    assert menus.gain[0].tolist() == [[5.25, 0, 0.75], [0, 5, 0], [0, 0, 0]]
    assert menus.num_lengths.tolist() == [3, 2]


# ------------------------------------------------------------------------------------------- evaluation


def model_of(rows):
    """Return a model that answers a prompt with the chances of the row that its scenario names."""

    def log_probabilities(prompts):
        chances = [torch.tensor(rows[int(each.scenario)]) for each in prompts]
        return torch.nn.utils.rnn.pad_sequence(
            [each.log() for each in chances], batch_first=True, padding_value=-torch.inf
        )

    return SimpleNamespace(log_probabilities=log_probabilities)


def named(scenario, order, suite, *options, takes=()):
    offers = [
        {"length": length, "score": score, "takes": place in takes} for place, (length, score) in enumerate(options)
    ]
    record = {"scenario": str(scenario), "order": order, "suite": suite, "prompt": "x", "options": offers}
    return prompt_files.as_prompt(record, "here")


def test_probabilities_are_those_of_each_prompt_however_many_go_at_once():
    many = 2 * BATCH + 3
    rows = [[0.01 + index / 100, 0.5 - index / 100, 0.03][: 2 + (index > BATCH)] for index in range(many)]
    prompts = [named(index, 0, "post", *[("1", 2), ("2", 3), ("2", 4)][: len(rows[index])]) for index in range(many)]
    found = probabilities(model_of(rows), prompts)
    assert found.dtype == torch.float64
    for row, chances in zip(found.tolist(), rows, strict=True):
        assert row == pytest.approx([*chances, 0.0][:3], abs=1e-6)
    sampled = [probabilities(model_of(rows), prompts, 50, seed) for seed in (0, 0, 1)]
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])
    assert torch.equal((50 * sampled[0]).round() / 50, sampled[0])
    more = probabilities(model_of(rows), prompts, 20_000)
    assert (more - found).abs().max() < 0.02
    assert not more[: BATCH + 1, 2].any()  # an option that a prompt does not have


OFFERS = ("1", 4), ("2", 10), ("1", 2), ("2", 8)
CHANCES = [[0.1, 0.4, 0.2, 0.1], [0.3, 0.05, 0.25, 0.15]]
"""Of the options in their first order; in the other, which is reversed, they are the same of each place."""


def spread(*chances):
    return -sum(chance * math.log2(chance) for chance in chances)


def test_the_numbers_of_two_scenarios_by_hand():
    prompts = [
        named(scenario, order, "post", *(OFFERS if order == 0 else OFFERS[::-1]), takes=(1,))
        for scenario in (0, 1)
        for order in (0, 1)
    ]
    found = torch.tensor([CHANCES[int(each.scenario)] for each in prompts], dtype=torch.float64)
    values = measure(prompts, found)
    for scenario, chances in enumerate(CHANCES):
        valid = sum(chances)
        given = [chance / valid for chance in chances]
        first, second = given[0] + given[2], given[1] + given[3]  # by place, and so turned round in the other order
        assert values["valid"][scenario].item() == pytest.approx(valid)
        assert values["N within an order"][scenario].item() == pytest.approx(spread(first, second))
        assert values["N"][scenario].item() == pytest.approx(1)
        assert values["P(longest)"][scenario].item() == pytest.approx(0.5)
        useful = [given[0] + 0.5 * given[2] + given[1] + 0.8 * given[3]]
        useful += [0.8 * given[0] + given[1] * 0.5 + given[2] + given[3]]
        assert values["U"][scenario].item() == pytest.approx(sum(useful) / 2)
        assert values["takes the action"][scenario].item() == pytest.approx(given[1])
    alone = measure(prompts[::2], found[::2])  # one order of each scenario
    first = (CHANCES[0][0] + CHANCES[0][2]) / sum(CHANCES[0])
    assert alone["N"][0].item() == pytest.approx(spread(first, 1 - first))
    assert alone["P(longest)"][0].item() == pytest.approx(1 - first)


def test_three_lengths_are_measured_against_their_number():
    options = ("1", 4), ("3", 10), ("2", 5), ("3", 6)
    found = torch.tensor([[0.1, 0.2, 0.3, 0.2]], dtype=torch.float64)
    values = measure([named(0, 0, "post", *options)], found)
    given = [0.125, 0.375, 0.5]
    assert values["N"].item() == pytest.approx(spread(*given) / math.log2(3))
    assert values["P(longest)"].item() == pytest.approx(0.5)
    assert values["U"].item() == pytest.approx(0.125 + 0.375 + 0.25 + 0.6 * 0.25)
    assert "takes the action" not in values


def test_each_suite_has_a_row_with_intervals_over_its_scenarios():
    lottery = {"outcomes": [[0.5, "1", 4], [0.5, "2", 9]], "takes": True}
    lotteries = [
        prompt_files.as_prompt(
            {"scenario": str(row), "suite": "luck", "prompt": "x", "options": [lottery, lottery | {"label": "Z"}]}, ""
        )
        for row in (2, 3)
    ]
    rows = [[0.1, 0.4, 0.2, 0.1], [0.3, 0.05, 0.25, 0.15], [0.6, 0.2], [0.3, 0.1]]
    prompts = [named(0, 0, "post", *OFFERS), lotteries[0], named(1, 0, "post", *OFFERS), lotteries[1]]
    post, luck = evaluate(model_of(rows), prompts)
    assert (post.suite, post.scenarios, luck.suite, luck.scenarios) == ("post", 2, "luck", 2)
    several = [prompts[0], prompts[2]]
    values = measure(several, torch.tensor(rows[:2], dtype=torch.float64))
    for name, value in values.items():
        expected = t_interval(value.tolist())
        assert vars(post.numbers[name]) == pytest.approx(vars(expected), abs=1e-6), name
    within = values["N within an order"].mean().item()
    indifferent = usefulness_if_indifferent(as_menus(several), within)
    assert post.numbers["U if indifferent"].estimate == pytest.approx(indifferent, abs=1e-4)
    assert luck.numbers.keys() == {"valid", "takes the action"}
    assert luck.numbers["valid"].estimate == pytest.approx(0.6)
    assert luck.numbers["takes the action"].estimate == pytest.approx(1)
    head, _, *lines = table([post, luck]).splitlines()
    names = list(dict.fromkeys([*post.numbers, *luck.numbers]))
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["suite", "scenarios", *names]
    assert [cell.strip() for cell in lines[1].split("|")[1:4]] == [
        "luck",
        "2",
        luck.numbers["valid"].within(0, 1).text(),
    ]
    assert [line.split("|")[1].strip() for line in lines] == ["post", "luck"]
    assert "1.3" not in lines[0]  # an interval that reaches beyond 1 is shown up to there


# ------------------------------------------------------------------------------------------- a small model


def pieces(model, asked):
    """Return what the model reads of a prompt, and the pieces that each answer adds, in its tokens."""
    tokens = model.tokenizer
    head = tokens(asked.messages[0]["content"], add_special_tokens=True)["input_ids"]
    says = [f" {option.label}" for option in asked.options]
    if model.reads == "lines":
        says = [f"{each} {data.brief_words(option)}" for each, option in zip(says, asked.options, strict=True)]
    return head, [tokens(each, add_special_tokens=False)["input_ids"] for each in says]


@transformers
@pytest.mark.parametrize("reads", ["letters", "lines"])
def test_an_option_has_the_chance_of_its_tokens_one_after_the_other(reads):
    model = small(3, reads)
    prompts = [data.generate("main", 1, brief=True)[0], data.generate("post", 1, brief=True)[1]]
    with torch.no_grad():
        found = model.log_probabilities(prompts)
        for row, asked in zip(found, prompts, strict=True):
            head, tails = pieces(model, asked)
            for value, tail in zip(row.tolist(), tails, strict=False):
                assert len(tail) > 1 or reads == "letters"
                logits = model.model(input_ids=torch.tensor([head + tail])).logits[0].log_softmax(-1)
                expected = sum(logits[len(head) - 1 + index, token].item() for index, token in enumerate(tail))
                assert value == pytest.approx(expected, abs=1e-4)
    assert found.shape == (2, 4)
    assert found[0, 2:].tolist() == [-math.inf] * 2
    assert not torch.equal(found, small(4, reads).log_probabilities(prompts))
    assert torch.equal(found, load("small", reads, seed=3).log_probabilities(prompts))


@transformers
def test_a_model_that_chats_reads_messages_in_its_own_form():
    """Answers then begin without a blank and without special tokens."""
    made = small(0)
    made.tokenizer.chat_template = (
        "{% set times = {'system': '13:00', 'user': '14:00'} %}"
        "{% for message in messages %}{{ times[message['role']] }} {{ message['content'] }} . {% endfor %}"
        "{% if add_generation_prompt %}average {% endif %}"
    )
    model, plain = LanguageModel(made.model, made.tokenizer), small(0)
    asked = replace(TWO, messages=({"role": "system", "content": "A"}, {"role": "user", "content": "17:00 4 B"}))
    assert model.text(asked) == "13:00 A . 14:00 17:00 4 B . average "
    assert plain.text(asked) == "A\n17:00 4 B"
    with torch.no_grad():
        found = model.log_probabilities([asked])[0]
        same = replace(asked, messages=({"role": "user", "content": model.text(asked)},))
        assert torch.allclose(found, plain.log_probabilities([same])[0], atol=1e-5)


@transformers
def test_a_few_matrices_are_trained_and_read_again_with_their_rank(tmp_path):
    pytest.importorskip("peft", reason="peft is not installed (the extra [language])")
    for part in (small(0).model, small(0).tokenizer):
        part.save_pretrained(tmp_path / "base")
    values = {"updates": 2, "warm_up": 0, "lora": 3, "model": str(tmp_path / "base")}
    made = begun(tmp_path / "run", **SMALL | values)
    weights = made.algorithm.weights
    assert all("lora" in name for name in weights)
    assert {min(weight.shape) for weight in weights.values()} == {3}
    for _ in range(2):
        made.update()
    made.save()
    prompts = data.generate("post", 1, brief=True)
    with torch.no_grad():
        found, again, base = (
            each.log_probabilities(prompts) for each in (made.algorithm.policy, trained(tmp_path / "run"), small(0))
        )
    assert torch.equal(found, again)
    assert not torch.equal(found, base)


SMALL = {"scenarios": 12, "selection": 4, "prompts": 6}


def training(folder, **values):
    return untrained(folder, **SMALL | values)


@transformers
def test_an_update_is_the_same_however_many_prompts_go_at_once(tmp_path):
    """Neither its return nor its gradient depends on it, in either stage. The norm is that before it is cut to 1."""
    values = {"updates": 5, "warm_up": 5, "invalid": WRONG, "entropy": 0.1, "lam": 0.5}
    whole, parts = (training(tmp_path, at_once=at_once, **values) for at_once in (64, 4))
    for stage in (0, 7):
        for each in (whole, parts):
            each.state.steps = stage
            each.rng.manual_seed(stage)
        metrics = whole.update()
        assert metrics == pytest.approx(parts.update(), rel=1e-3)
        assert metrics.keys() == {"train/return", "optim/grad_norm", "optim/lr", "reward/episodes_per_meta"}
        gradients = torch.cat([weight.grad.flatten() for weight in whole.algorithm.weights.values()])
        assert gradients.norm().item() == pytest.approx(min(1.0, metrics["optim/grad_norm"]), rel=1e-3)


@transformers
def test_the_rate_rises_then_falls_to_nothing(tmp_path):
    made = training(tmp_path, updates=30, warm_up=10, lr=0.5, muon_lr=0.25)
    for done, scale in ((0, 1 / 4), (1, 2 / 4 * 39 / 40), (3, 37 / 40), (9, 31 / 40), (20, 1 / 2), (39, 1 / 40)):
        made.state.steps = done
        assert made.update()["optim/lr"] == pytest.approx(0.5 * scale)
        rates = {name: each.param_groups[0]["lr"] for name, each in made.algorithm.optimizers.items()}
        assert rates == pytest.approx({"adam": 0.5 * scale, "muon": 0.25 * scale})
        assert made.state.steps == done + 1


@transformers
def test_muon_has_the_matrices_but_the_embeddings(tmp_path):
    made = training(tmp_path, muon_lr=0.25).algorithm
    trained = {id(value) for value in made.optimizers["muon"].param_groups[0]["params"]}
    names = [name for name, value in made.weights.items() if id(value) in trained]
    assert len(names) == 4 * 7
    assert all("proj" in name for name in names)
    others = sum(len(group["params"]) for group in made.optimizers["adam"].param_groups)
    assert others + len(names) == len(made.weights)
    assert made.optimizers["muon"].param_groups[0]["weight_decay"] == 0


@transformers
def test_a_run_first_learns_to_read_and_then_for_its_pay(tmp_path, monkeypatch):
    made = training(tmp_path, updates=5, warm_up=5)
    algorithm, reading = made.algorithm, made.task.reading
    chance = algorithm.policy.log_probabilities(reading[:3]).exp()
    right = [[option.takes for option in each.options].index(True) for each in reading[:3]]
    gain, paid = algorithm.right_answers(reading[:3])
    expected = sum(chance[row, place].log() for row, place in enumerate(right)).item()
    assert gain.item() == paid.item() == pytest.approx(expected, rel=1e-4)
    seen = []
    for stage, name in (("right_answers", "reading"), ("gain", "prompts")):
        kept = {id(each) for each in getattr(made.task, name)}

        def look(prompts, *others, kept=kept):
            seen.append(all(id(each) in kept for each in prompts))
            return (next(iter(algorithm.weights.values())).sum(),) * 2

        monkeypatch.setattr(algorithm, stage, look)
    for done in (0, 4, 5, 9):
        made.state.steps = done
        made.update()
    assert seen == [True] * 4


LEARNS = {
    "drest": (REWARD, {}),
    "drest, meta": (REWARD, {"credit": "meta"}),
    "supports": (REWARD, {"reward": "supports", "suites": "lotteries", "credit": "rloo"}),
    "default": (PLAIN, {"reward": "default"}),
    "sampled": (REWARD, {"method": "rloo"}),
    "sampled, default": (PLAIN, {"method": "rloo", "reward": "default"}),
}


@transformers
@pytest.mark.parametrize("name", LEARNS)
def test_a_run_learns_from_what_its_configuration_says(name, tmp_path):
    """The gain is the pay, or that of samples, and the entropy with its weight; what is logged is the expected pay."""
    reward, values = LEARNS[name]
    made = training(tmp_path, warm_up=0, invalid=WRONG, lam=LAM, episodes_per_meta=FEW, entropy=0.25, **values)
    prompts, kind, credit = made.task.prompts[:3], values.get("reward", "drest"), values.get("credit", "mini")
    model = made.algorithm.policy
    found = model.log_probabilities(prompts).detach().requires_grad_()
    model.log_probabilities = lambda prompts: found
    gain, paid = made.algorithm.gain(prompts, made.reward)
    menus, chance = as_menus(prompts), found.exp()
    expected = pay = expected_pay(chance, menus, reward, kind, credit=credit, invalid=WRONG).sum()
    assert paid.item() == pytest.approx(pay.item(), rel=1e-4)
    if "sampled" in name:
        rng = torch.Generator().manual_seed(made.cfg.seed)
        expected = sampled_gain(found, menus, reward, rng, WRONG)
    expected = expected - 0.25 * (chance * chance.log()).sum()
    slopes = [torch.autograd.grad(value, found, retain_graph=True)[0] for value in (gain, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-5)


@transformers
def test_a_checkpoint_of_a_language_run_holds_all_that_goes_on(tmp_path):
    values = {"updates": 6, "warm_up": 2, "method": "rloo", "muon_lr": 0.01}
    made = begun(tmp_path, **SMALL | values)
    for _ in range(3):
        made.update()
    made.state.wall_seconds, made.state.processor_seconds = 12.5, 7.5
    made.save()
    assert stored(tmp_path) == made.cfg
    again = resume(tmp_path)
    assert (again.state.steps, again.state.wall_seconds, again.state.processor_seconds) == (3, 12.5, 7.5)
    assert again.update() == made.update()
    for name, value in made.algorithm.weights.items():
        assert torch.equal(again.algorithm.weights[name], value), name


@transformers
def test_a_language_run_is_evaluated_on_prompts_of_its_own(tmp_path):
    made = begun(tmp_path / "run", **SMALL, updates=5, warm_up=2, evaluations=3)
    prompts, others = made.task.prompts, made.task.selection_prompts
    seeds = {each.scenario.split("-")[2] for each in prompts}
    assert seeds == {"0"}
    assert len({each.scenario for each in others}) == 4
    assert not {each.scenario for each in others} & {each.scenario for each in prompts}
    assert len(prompts) == 2 * 12
    several = training(tmp_path, suites="post,main,lotteries")
    assert [each.suite for each in several.task.prompts[::8]] == ["post", "main", "lotteries"]
    evaluated = []
    made.task.scores = lambda policy: evaluated.append(made.state.steps) or {}
    made.train()
    assert evaluated == [0, 3, 5, 7, 7]


SUITES = {
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
}


def test_prompts_of_every_suite_are_the_same_everywhere():
    found = {}
    for suite in data.SUITES:
        made = [
            data.generate(suite, 6, 2, held_out=held_out, brief=brief)
            for held_out in (True, False)
            for brief in (True, False)
        ]
        found[suite] = data.digest([each for several in made for each in several])
    assert found == SUITES
