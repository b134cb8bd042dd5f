"""Price ladders, controls and the follow-up's suites in forms: scenarios of main, of which only the offers differ."""

import itertools
import json
import re

import numpy as np
import pytest

from drest_torch.choices.ladder_levels import PRICES
from drest_torch.commands import language_models
from drest_torch.errors import ConfigError
from drest_torch.language import controls, follow_up_suites, form_prompts, form_sets, prompt_ladder, prompt_suites
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig
from drest_torch.language.form_sets import SPLITS, TEST, TRAINING
from drest_torch.language.model import small
from drest_torch.language.prompt_ladder import KINDS, ladder_prompts, measure_ladder, rung_prompts
from drest_torch.language.prompt_styles import PromptStyle
from drest_torch.language.references import reference_policy
from tests.helpers.language import SHORT, begun, transformers

FROM_OFFERS = (*prompt_ladder.SUITES, *controls.SUITES, *follow_up_suites.SUITES)
IN_ONE_FORM = {
    "sentences": (PromptStyle(), "3e434eb0cf51ed70"),
    "held out": (PromptStyle(held_out=True), "27280226aa34a9ef"),
    "brief": (PromptStyle(held_out=True, brief=True), "326d12082f8de2b7"),
}
"""Styles with the digest of their prompts."""
STYLES = [PromptStyle(forms=split, brief=brief) for split, brief in itertools.product(SPLITS, (False, True))]
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def scenario_of(prompt):
    """Return all of a prompt that its offers do not determine."""
    labels = [option.label for option in prompt.options]
    takes = [option.takes for option in prompt.options]
    return prompt.order, prompt.family, prompt.form, prompt.prefix, labels, takes


def outcomes_of(prompt):
    """Return the chances and times of a prompt."""
    return [[outcome[:2] for outcome in option.outcomes] for option in prompt.options]


def words_of(prompt):
    """Return the last message of a prompt without its numbers."""
    return NUMBER.sub("#", prompt.messages[-1]["content"])


@pytest.mark.parametrize("name", IN_ONE_FORM)
def test_prompts_in_one_form_stay_the_same(name):
    style, digest = IN_ONE_FORM[name]
    prompts = []
    for suite in FROM_OFFERS:
        if not (style.brief and suite in controls.SUITES):
            prompts += prompt_suites.generate(suite, 4, 3, style)
    assert data.digest(prompts) == digest


# ------------------------------------------------------------------------------------------- ladders


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_scenarios_of_all_rungs_are_those_of_main(style):
    main = prompt_suites.generate("main", 5, 3, style)
    for name, price in itertools.product(KINDS, (PRICES[0], 0.5, PRICES[-1])):
        rung = rung_prompts(name, price, 5, 3, style)
        assert list(map(scenario_of, rung)) == list(map(scenario_of, main))
        for prompt, of_main in zip(rung, main, strict=True):
            assert set(prompt.lengths) <= set(of_main.lengths)


@pytest.mark.parametrize("style", STYLES, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_rungs_of_a_ladder_differ_in_scores_alone(name, style):
    first, last = (rung_prompts(name, price, 5, 3, style) for price in (PRICES[0], PRICES[-1]))
    assert list(map(outcomes_of, first)) == list(map(outcomes_of, last))
    assert list(map(words_of, first)) == list(map(words_of, last))
    for low, high in zip(first, last, strict=True):
        assert low.messages != high.messages


@pytest.mark.parametrize("families", SPLITS)
@pytest.mark.parametrize("suite", ["ladder_later", "control_permitted", "followup_main"])
def test_families_can_be_of_another_split(suite, families):
    prompts = prompt_suites.generate(suite, 8, 3, PromptStyle(forms=TEST, families=families))
    names = {name for name, *_ in form_prompts.families(families)}
    assert {prompt.family for prompt in prompts} <= names
    assert {prompt.form for prompt in prompts} <= {form.name for form in form_sets.forms(TEST)}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", KINDS)
def test_a_maximiser_of_scores_has_its_curve_in_forms(name, split):
    prompts = ladder_prompts(name, 3, 3, PromptStyle(forms=split))
    ladder = measure_ladder(name, prompts, reference_policy("best score", prompts), LanguageConfig())
    assert ladder.curve == pytest.approx(np.full(len(PRICES), KINDS[name].most_coins))
    assert ladder.missed == pytest.approx(np.zeros(len(PRICES)), abs=1e-9)


@transformers
@pytest.mark.parametrize("split", SPLITS)
def test_the_small_model_knows_all_words_of_ladders(split):
    prompts = []
    for suite in (*prompt_ladder.SUITES, *follow_up_suites.SUITES):
        prompts += prompt_suites.generate(suite, 12, 3, PromptStyle(forms=split, brief=True))
    assert small().unknown_share(prompts) == 0


@transformers
def test_a_run_in_forms_has_ladders_in_other_forms(tmp_path, call):
    run = begun(tmp_path / "run", **SHORT | {"forms": TRAINING})
    run.train()
    pages = {}
    for name, words in {"plain": [], "forms": ["forms=test"], "families": ["forms=training", "families=test"]}.items():
        words = [*words, "scenarios=1", f"out={name}.json", f"picture={name}.svg"]
        done = call(language_models.main, "evaluate", f"model={run.folder}", "suite=ladder_later", *words)
        assert done.code == 0, done.sentence
        assert (tmp_path / f"{name}.svg").stat().st_size > 0
        pages[name] = json.loads((tmp_path / f"{name}.json").read_text())
    assert pages["plain"].keys() == pages["forms"].keys() - {"forms", "families"}
    assert (pages["forms"]["forms"], pages["forms"]["families"]) == (TEST, TEST)
    assert (pages["families"]["forms"], pages["families"]["families"]) == (TRAINING, TEST)


# ------------------------------------------------------------------------------------------- controls, follow-up


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", ["forbidden", "permitted", "precedence"])
def test_a_rule_in_forms_precedes_the_prompt_of_main(name, split):
    style = PromptStyle(forms=split, families=TEST)
    main = prompt_suites.generate("main", 5, 3, style)
    ruled = prompt_suites.generate(f"control_{name}", 5, 3, style)
    for plain, prompt in zip(main, ruled, strict=True):
        assert prompt.messages[0] == {"role": "system", "content": controls.CONTROLS[name].rule}
        assert prompt.messages[1:] == plain.messages
        assert prompt.options == plain.options
        assert prompt.form == plain.form


@pytest.mark.parametrize("name", ["blocked", "no_dilemma"])
def test_a_control_by_its_scores_has_the_words_of_main(name):
    style = PromptStyle(forms=TEST)
    main = prompt_suites.generate("main", 5, 3, style)
    for plain, prompt in zip(main, prompt_suites.generate(f"control_{name}", 5, 3, style), strict=True):
        assert scenario_of(prompt) == scenario_of(plain)
        assert outcomes_of(prompt) == outcomes_of(plain)
        assert words_of(prompt) == words_of(plain)
        assert prompt.options != plain.options


def test_brief_rules_are_refused_in_forms():
    with pytest.raises(ConfigError, match="suite=control_blocked: its rules are sentences"):
        prompt_suites.generate("control_blocked", 2, 3, PromptStyle(forms=TEST, brief=True))


def test_offers_of_the_follow_up_differ_between_splits():
    offers = []
    for split in SPLITS:
        prompts = prompt_suites.generate("followup_main", 4, 3, PromptStyle(forms=split))
        offers.append([option.score for prompt in prompts for option in prompt.options])
    assert all(first != second for first, second in itertools.combinations(offers, 2))


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("suite", ["post", "ladder", "controls", "followup"])
def test_families_without_forms_are_refused(call, suite):
    command = call(language_models.main, "evaluate", f"suite={suite}", "families=test")
    assert "families=test without forms; name their split, too: forms=training" in command.sentence


@pytest.mark.parametrize("suite", ["main", "ladder_later", "control_permitted"])
def test_unknown_forms_are_refused(suite):
    with pytest.raises(ConfigError, match="forms=tests; expected one of training, selection, test"):
        prompt_suites.generate(suite, 2, 3, PromptStyle(forms="tests"))
