"""The price ladder and the controls of language models: closed forms against gradient ascent, and scripted models."""

import json

import numpy as np
import pytest
import torch

from drest_torch.choices.ladder_levels import LADDERS, PRICES
from drest_torch.errors import ConfigError
from drest_torch.language import controls, prompt_suites
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig, reward_of
from drest_torch.language.model import small
from drest_torch.language.objective import as_menus, expected_pay
from drest_torch.language.prompt_ladder import (
    HELD_OUT,
    KINDS,
    ladder_page,
    ladder_prompts,
    measure_ladder,
    predicted_rate,
    price_of,
    rung_prompts,
    to_markdown,
)
from drest_torch.language.prompt_styles import PromptStyle
from tests.helpers.language import transformers

BETWEEN = [name for name, kind in KINDS.items() if not kind.within]
"""The ladders between lengths."""
FEW = {"episodes_per_meta": 4, "lam": 0.8}


def scores_of(prompt):
    """Return the expected scores of leaving the time alone, and of asking for another one."""
    by_action = {option.takes: option.score for option in prompt.options}
    return by_action[False], by_action[True]


def chosen(prompts, choose):
    """Return the probabilities [B, O] of a policy that chooses an option by the function ``choose``."""
    rows = torch.zeros(len(prompts), 2, dtype=torch.float64)
    for row, prompt in enumerate(prompts):
        option = choose(prompt.options)
        rows[row, prompt.options.index(option)] = 1
    return rows


def best(options):
    return max(options, key=lambda option: option.score)


# ------------------------------------------------------------------------------------------- rungs


@pytest.mark.parametrize("name", KINDS)
def test_each_rung_costs_its_price_in_expected_scores(name):
    for price in PRICES:
        stay, ask = scores_of(rung_prompts(name, price, 1)[0])
        cheap, dear = (ask, stay) if KINDS[name].price_of == "pressing" else (stay, ask)
        assert cheap == pytest.approx((1 - price) * dear)


@pytest.mark.parametrize("name", KINDS)
def test_scores_of_rungs_have_a_word_in_brief_prompts(name):
    for prompt in ladder_prompts(name, 1):
        for option in prompt.options:
            assert all(round(score, 1) == score <= 10 for _, _, score in option.outcomes)


def test_rungs_have_the_scenarios_of_one_another():
    first, last = (rung_prompts("later", price, 5, 3) for price in (PRICES[0], PRICES[-1]))
    for low, high in zip(first, last, strict=True):
        assert low.family == high.family
        assert low.order == high.order
        assert low.lengths == high.lengths
        assert [option.takes for option in low.options] == [option.takes for option in high.options]


@pytest.mark.parametrize(("name", "later"), [("later", True), ("earlier", False), ("later_by_chance", True)])
def test_asking_leads_to_the_time_of_its_ladder(name, later):
    for prompt in rung_prompts(name, 0.5, 5):
        (stay,) = (option for option in prompt.options if not option.takes)
        (ask,) = (option for option in prompt.options if option.takes)
        for _, length, score in ask.outcomes:
            if score > 0:
                assert (length > stay.length) == later


def test_ladders_without_luck_are_those_of_gridworlds():
    for name in ("later", "later_reversed", "earlier", "earlier_reversed", "same_length"):
        assert KINDS[name].values(0.2) == LADDERS[name].values(0.2)


# ------------------------------------------------------------------------------------------- curves


def ascended(prompt, cfg):
    """Return the probability of asking after gradient ascent on the expected pay, with free logits."""
    menus, logits = as_menus([prompt]), torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.1)
    for _ in range(250):
        pay = expected_pay(logits.softmax(-1), menus, reward_of(cfg), cfg.reward)
        optimizer.zero_grad()
        (-pay.sum()).backward()
        optimizer.step()
    asks = [option.takes for option in prompt.options]
    return logits.softmax(-1)[0, asks].item()


@pytest.mark.parametrize("reward", ["drest", "default", "supports"])
@pytest.mark.parametrize("name", BETWEEN)
def test_gradient_ascent_agrees_with_the_predicted_rate(name, reward):
    cfg = LanguageConfig(reward=reward, **FEW)
    price = 0.4
    prompt = rung_prompts(name, price, 1)[0]
    assert predicted_rate(KINDS[name], price, cfg) == pytest.approx(ascended(prompt, cfg), abs=0.01)


@pytest.mark.parametrize("name", KINDS)
def test_a_maximiser_of_scores_misses_none(name):
    prompts = ladder_prompts(name, 2)
    ladder = measure_ladder(name, prompts, chosen(prompts, best), LanguageConfig())
    assert ladder.curve == pytest.approx(np.full(len(PRICES), KINDS[name].most_coins))
    assert ladder.missed == pytest.approx(np.zeros(len(PRICES)), abs=1e-9)
    assert ladder.paid == pytest.approx(np.zeros(len(PRICES)), abs=1e-9)


def test_the_threshold_is_the_price_up_to_which_a_model_asks():
    prompts = ladder_prompts("later", 2)

    def asks_up_to_30_percent(options):
        asks = sorted(options, key=lambda option: option.takes)
        return asks[1] if asks[1].score > 6.5 else asks[0]

    ladder = measure_ladder("later", prompts, chosen(prompts, asks_up_to_30_percent), LanguageConfig())
    assert ladder.threshold == pytest.approx(0.35)
    assert ladder.numbers()["verdict"] == "crosses"


def test_the_first_option_is_asking_in_one_of_two_orders():
    prompts = ladder_prompts("later", 3)
    ladder = measure_ladder("later", prompts, chosen(prompts, lambda options: options[0]), LanguageConfig())
    assert ladder.curve == pytest.approx(np.full(len(PRICES), 0.5))


def test_rates_are_conditional_on_naming_an_option():
    prompts = ladder_prompts("later", 1)
    ladder = measure_ladder("later", prompts, chosen(prompts, best) / 4, LanguageConfig())
    assert ladder.curve == pytest.approx(np.zeros(len(PRICES)))


def test_a_rung_without_valid_answers_is_void():
    prompts = ladder_prompts("later", 2)
    probability = chosen(prompts, best)
    probability[:2] = 0
    rung = measure_ladder("later", prompts, probability, LanguageConfig()).rows()[0]
    assert rung["void"] == 1
    assert rung["press"] == 0


def test_the_name_of_a_rung_contains_its_price():
    prompts = ladder_prompts("earlier", 1)
    assert sorted({price_of(prompt.suite) for prompt in prompts}) == list(PRICES)


# ------------------------------------------------------------------------------------------- controls


@pytest.mark.parametrize("name", controls.CONTROLS)
def test_a_control_has_the_scenarios_of_main(name):
    main, control = data.generate("main", 3, 2, held_out=True), controls.control_prompts(name, 3, 2, HELD_OUT)
    for plain, ruled in zip(main, control, strict=True):
        assert plain.family == ruled.family
        assert plain.order == ruled.order
        assert plain.lengths == ruled.lengths
        assert ruled.messages[0] == {"role": "system", "content": controls.CONTROLS[name].rule}


@pytest.mark.parametrize("name", ["forbidden", "permitted", "precedence"])
def test_a_control_by_its_rule_has_the_offers_of_main(name):
    for plain, ruled in zip(data.generate("main", 3), controls.control_prompts(name, 3), strict=True):
        assert ruled.options == plain.options
        assert ruled.messages[1:] == plain.messages


def test_only_the_action_scores_where_the_other_way_is_blocked():
    for prompt in controls.control_prompts("blocked", 3):
        stay, ask = scores_of(prompt)
        assert stay == 0 < ask


def test_without_a_dilemma_the_action_changes_no_score():
    for prompt in controls.control_prompts("no_dilemma", 3):
        stay, ask = scores_of(prompt)
        assert stay == pytest.approx(ask)


def test_a_model_of_few_words_cannot_read_rules():
    with pytest.raises(ConfigError, match="suite=control_permitted: its rules are sentences"):
        prompt_suites.generate("control_permitted", 2, style=PromptStyle(brief=True))


@pytest.mark.parametrize(("names", "number"), [("ladder", 7), ("controls", 5), ("post,ladder_later", 2)])
def test_a_group_of_suites_has_a_name(names, number):
    assert len(prompt_suites.suites_of(names)) == number


def test_an_unknown_suite_is_refused():
    with pytest.raises(ConfigError, match="suite=ladders; expected one of post, reading, main"):
        prompt_suites.suites_of("post,ladders")


# ------------------------------------------------------------------------------------------- a model


class Halting:
    """A model that asks with a probability of 1/2 minus p/2, leaves the time alone with 1/4, or names no option."""

    brief = True

    def log_probabilities(self, prompts):
        rows = []
        for prompt in prompts:
            ask = 0.5 * (1 - price_of(prompt.suite))
            rows.append([ask if option.takes else 0.25 for option in prompt.options])
        return torch.tensor(rows).log()


def test_the_page_of_a_model_has_exact_rates():
    page = ladder_page(Halting(), "halting", LanguageConfig(), ["ladder_later"], scenarios=2)
    for rung in page["ladders"]["later"]["rungs"]:
        ask = 0.5 * (1 - rung["price"])
        assert rung["press"] == pytest.approx(ask / (ask + 0.25))
    assert page["ladders"]["later"]["threshold"] == pytest.approx(0.5)


def test_samples_estimate_the_exact_curve():
    samples, scenarios = 2000, 4
    page = ladder_page(Halting(), "halting", LanguageConfig(), ["ladder_later"], scenarios=scenarios, samples=samples)
    for rung in page["ladders"]["later"]["rungs"]:
        ask = 0.5 * (1 - rung["price"])
        rate = ask / (ask + 0.25)
        valid_answers = 2 * scenarios * samples * (ask + 0.25)
        error = (rate * (1 - rate) / valid_answers) ** 0.5
        assert abs(rung["press"] - rate) < 4 * error


@transformers
def test_the_page_has_a_row_for_each_price():
    page = ladder_page(small(), "small", LanguageConfig(), ["ladder_later"], scenarios=1)
    assert json.loads(json.dumps(page)) == page
    lines = to_markdown(page).splitlines()
    assert lines[2].startswith("| asking delays shutdown, and costs p |")
    assert len(lines) == 3 + 1 + 2 + len(PRICES)
