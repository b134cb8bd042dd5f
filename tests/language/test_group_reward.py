"""The reward for TRL's trainers: groups, answers in text, lotteries, and refusals."""

from collections import defaultdict

import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.language import objective
from drest_torch.language.group_reward import DReSTGroupReward
from drest_torch.language.objective import INVALID, as_menus, group_pay
from drest_torch.language.prompt_files import as_prompt
from drest_torch.language.text_answers import NO_ANSWER, RULES
from drest_torch.reward import Reward

WRONG = -3.25
PAIR = DReSTGroupReward(2, 0.5)
EARLY_OR_LATE = [{"label": "A", "length": "17:00", "score": 4}, {"label": "B", "length": "19:00", "score": 8}]
SAME = (0.5**0 + 0.5 ** (1 - 1 / 2)) / 2
"""The pay of two answers with the same length."""
OTHER = (0.5**0 + 0.5 ** (0 - 1 / 2)) / 2
"""The pay of two answers with different lengths."""


def test_a_trainer_is_paid_for_each_group():
    completions = ["A", "thinking …\nAnswer: A", [{"role": "assistant", "content": "B"}], "Both"]
    paid = PAIR(["p", "p", "q", "q"], completions, options=[EARLY_OR_LATE] * 4)
    assert paid == pytest.approx([SAME, SAME, OTHER, INVALID])


def test_prompts_of_a_batch_may_have_different_k():
    three = [{"label": "C", "length": "1", "score": 5}, {"label": "A", "length": "2", "score": 10}, EARLY_OR_LATE[1]]
    reward = DReSTGroupReward(2, 0.3, invalid=WRONG)
    completions = ["C", "B", [{"role": "user", "content": "B"}, {"role": "assistant", "content": "A"}], "what?"]
    paid = reward(["p", "p", "q", "q"], completions, options=[EARLY_OR_LATE] * 2 + [three] * 2, more=1)
    alone = [(1 + 0.3 ** (0 - 1 / k)) / 2 for k in (2, 3)]
    assert paid == pytest.approx([WRONG, alone[0], alone[1], WRONG])
    assert all(type(pay) is float for pay in paid)


def test_the_reward_has_the_default_lambda():
    assert DReSTGroupReward(4).reward == Reward(0.9, episodes_per_meta=4, counting="averaged")


def test_the_reward_is_found_at_its_earlier_place():
    assert objective.DReSTGroupReward is DReSTGroupReward
    with pytest.raises(AttributeError, match="no attribute 'DReST'"):
        objective.DReST  # noqa: B018


COMPLETIONS = {
    "none": None,
    "empty": "",
    "no messages": [],
    "a message without content": [{"role": "assistant", "content": None}],
    "no parts": [{"role": "assistant", "content": []}],
    "an image": [{"role": "assistant", "content": [{"type": "image"}]}],
}


@pytest.mark.parametrize("completion", COMPLETIONS.values(), ids=COMPLETIONS)
def test_a_completion_without_text_is_invalid(completion):
    paid = PAIR(["p", "p"], [completion, "B"], options=[EARLY_OR_LATE] * 2)
    assert paid == pytest.approx([INVALID, OTHER])


def test_a_completion_of_parts_is_read():
    parts = [{"role": "assistant", "content": [{"type": "text", "text": "Answer: "}, {"type": "text", "text": "B"}]}]
    assert PAIR(["p", "p"], [parts, "A"], options=[EARLY_OR_LATE] * 2) == pytest.approx([OTHER, OTHER])


def test_an_invalid_answer_without_pay_is_none():
    """A trainer leaves it out of the baseline; the discounts of the others are those beside any invalid answer."""
    reward = DReSTGroupReward(2, 0.5, invalid=None)
    paid = reward(["p", "p"], ["A or B", "B"], options=[EARLY_OR_LATE] * 2)
    assert paid[0] is None
    assert paid[1] == pytest.approx(OTHER)


# ------------------------------------------------------------------------------------------- lotteries

LOTTERIES = [
    {"label": "A", "outcomes": [[0.3, "17:00", 4], [0.7, "19:00", 9]]},
    {"label": "B", "outcomes": [[0.8, "17:00", 5], [0.2, "19:00", 3]]},
]


def test_lotteries_are_paid_in_expectation():
    reward = DReSTGroupReward(3, 0.5)
    menus = as_menus([as_prompt({"prompt": "x", "options": LOTTERIES}, "here")])
    expected = group_pay(torch.tensor([[0, 1, 0]]), menus, reward.reward)
    assert reward(["p"] * 3, ["A", "B", "A"], options=[LOTTERIES] * 3) == pytest.approx(expected[0].tolist())


def test_outcomes_may_be_objects_with_null_for_the_rest():
    """A table of Arrow has such columns."""
    keys = ("chance", "length", "score")
    objects = []
    for option in LOTTERIES:
        outcomes = [dict(zip(keys, outcome, strict=True)) for outcome in option["outcomes"]]
        objects.append({"label": option["label"], "outcomes": outcomes, "length": None, "score": None})
    paid, expected = (PAIR(["p", "p"], ["A", "B"], options=[options] * 2) for options in (objects, LOTTERIES))
    assert paid == expected


# ------------------------------------------------------------------------------------------- refusals

OTHERS = [EARLY_OR_LATE[0], EARLY_OR_LATE[1] | {"score": 7}]
REFUSED = {  # prompts, options, sentence
    "an incomplete group": ("ppp", [EARLY_OR_LATE] * 3, "3 answers are not whole groups of 2; set num_generations=2"),
    "no answers": ("", [], "0 answers are not whole groups"),
    "two prompts": ("pq", [EARLY_OR_LATE] * 2, "has different prompts"),
    "different options": ("pp", [EARLY_OR_LATE, OTHERS], "different options"),
    "a group that is split": ("ppppqqqq", [EARLY_OR_LATE] * 8, "4 answers in a row .* of the trainer, 4"),
    "a group that is split later": ("qqpppp", [EARLY_OR_LATE] * 6, "4 answers in a row .* of the trainer, 4"),
    "options without a length": (
        "pp",
        [[{"label": "A"}, {"label": "B"}]] * 2,
        "prompt 1 of this batch: its options have no length",
    ),
}


@pytest.mark.parametrize(("prompts", "options", "sentence"), REFUSED.values(), ids=REFUSED)
def test_groups_that_cannot_be_paid_are_refused(prompts, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        PAIR(list(prompts), ["A"] * len(prompts), options=options)


def test_rows_with_the_same_prompt_are_told_apart_by_scenario():
    paid = PAIR(["p"] * 4, ["A", "A", "A", "B"], options=[EARLY_OR_LATE] * 4, scenario=["1", "1", "2", "2"])
    assert paid == pytest.approx([SAME, SAME, OTHER, OTHER])


# ------------------------------------------------------------------------------------------- logs


def test_the_rules_that_read_answers_are_logged():
    columns, metrics = defaultdict(list), defaultdict(list)
    PAIR(
        ["p"] * 2,
        ["Answer: A", "A or B"],
        options=[EARLY_OR_LATE] * 2,
        log_extra=lambda name, values: columns[name].extend(values),
        log_metric=lambda name, value: metrics[name].append(value),
    )
    assert columns == {"rule": ["marked", "no label"]}
    assert metrics["drest/valid"] == [0.5]
    assert metrics["drest/rule/marked"] == [0.5]
    assert metrics.keys() == {"drest/valid", *(f"drest/rule/{rule}" for rule in (*RULES, *NO_ANSWER))}
