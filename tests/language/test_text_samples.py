"""Answers as text: sampled token by token, and read by rules."""

from collections import Counter

import pytest
import torch

from drest_torch.commands import language_models as command
from drest_torch.language import prompts as data
from drest_torch.language.model import small
from drest_torch.language.text_samples import summary_of, text_shares
from tests.helpers.language import transformers

SAMPLES = 400
PROMPTS = data.generate("main", 1, brief=True)


@transformers
def test_single_tokens_of_text_have_the_probabilities_of_options():
    """The untrained model names an option with its letter; other words name none."""
    model = small(1)
    with torch.no_grad():
        exact = model.log_probabilities(PROMPTS).exp().double()
    shares, rules = text_shares(model, PROMPTS, SAMPLES, most_tokens=1, seed=2)
    error = (exact * (1 - exact) / SAMPLES).sqrt()
    assert ((shares - exact).abs() < 4 * error + 1 / SAMPLES).all()
    assert rules.total() == SAMPLES * len(PROMPTS)
    assert rules["line"] == round(shares.sum().item() * SAMPLES)


@transformers
def test_the_seed_determines_texts():
    first, again, other = (text_shares(small(1), PROMPTS, 50, most_tokens=1, seed=seed)[1] for seed in (0, 0, 3))
    assert first == again
    assert first != other


def test_a_summary_has_the_share_of_each_rule():
    assert summary_of(Counter({"line": 3, "no label": 1})) == (
        "Answers were read by these rules: line 75.0%, no label 25.0%."
    )


@transformers
def test_the_command_evaluates_answers_in_text(call):
    words = ["model=small", "suite=main", "scenarios=2", "samples=8", "answers=text", "most_tokens=2"]
    result = call(command.main, "evaluate", *words)
    assert "Answers were read by these rules" in result.out


@pytest.mark.parametrize("words", [["answers=text"], ["answers=text", "samples=4", "suite=ladder"]])
def test_answers_in_text_need_samples_of_suites(words, call):
    assert "answers=text" in call(command.main, "evaluate", *words).sentence
