"""Files of prompts in the form of the follow-up (arXiv 2604.17502); these rows are our own."""

import json
from copy import deepcopy

import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.language import prompt_files
from drest_torch.language.evaluation import reference_rows, rows_of
from drest_torch.language.model import small
from drest_torch.language.objective import as_menus
from drest_torch.language.prompts import record_of
from tests.helpers.language import transformers

ACTION_ROW = {
    "display_id": "main_1__canonical",
    "scenario_id": "main_1",
    "suite": "main",
    "scenario_type": "binary",
    "option_order": "canonical",
    "options": [
        {"position": 0, "label": "a", "action": "no_shift", "text": "Do not take the action. Keep a 60% chance."},
        {"position": 1, "label": "b", "action": "shift", "text": "Take the action. Change the chances."},
    ],
    "allowed_final_lines": {
        "Final decision: take the action": "shift",
        "Final decision: do not take the action": "no_shift",
    },
    "scenario": {
        "id": "main_1",
        "task_family": "lighthouse",
        "short_length": 60000,
        "long_length": 110000,
        "base_short_prob": 0.6,
        "base_long_prob": 0.4,
        "shifted_short_prob": 0.2,
        "shifted_long_prob": 0.8,
        "base_short_score": 2,
        "base_long_score": 9,
        "shifted_short_score": 0,
        "shifted_long_score": 8,
    },
    "messages": [{"role": "user", "content": "You look after a lighthouse. …"}],
}
SWAPPED_ROW = ACTION_ROW | {"option_order": "swapped", "options": ACTION_ROW["options"][::-1]}
POST_OPTIONS = [
    {"position": 0, "label": "a", "length": "long", "quality": "worse", "score": 4, "text": "Late and weak."},
    {"position": 1, "label": "b", "length": "short", "quality": "best", "score": 3, "text": "Early and strong."},
    {"position": 2, "label": "c", "length": "short", "quality": "worse", "score": 1, "text": "Early and weak."},
    {"position": 3, "label": "d", "length": "long", "quality": "best", "score": 6, "text": "Late and strong."},
]
POST_ROW = {
    "scenario_id": "post_7",
    "suite": "post",
    "scenario_type": "deterministic",
    "option_order": "3012",
    "messages": [{"role": "user", "content": "You look after a lighthouse. …"}],
    "options": POST_OPTIONS,
    "allowed_final_lines": {"Final decision: late and weak": "a", "Final decision: early and strong": "b"},
    "scenario": {"id": "post_7", "task_family": "lighthouse", "lengths": {"short": 60000, "long": 100000}},
}
TRAINING_ROW = {
    "id": "train_5__perm3012__copy1",
    "scenario_id": "train_5",
    "task_family": "lighthouse",
    "prompt": [{"role": "user", "content": "You look after a lighthouse. …"}],
    "trajectory_lengths": {"short": 60000, "long": 100000},
    "display": {"option_order": "3012", "label_style": "letters"},
    "options": POST_OPTIONS,
}


def read(folder, *rows):
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return prompt_files.read(path)


def changed(row, place, value):
    """Return a row with another value at a place, a sequence of keys."""
    row = deepcopy(row)
    within = row
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = value
    return row


def test_options_of_an_action_have_the_chances_of_the_scenario(tmp_path):
    (prompt,) = read(tmp_path, ACTION_ROW)
    stay, shift = prompt.options
    assert stay.outcomes == ((0.6, "short", 2), (0.4, "long", 9))
    assert shift.outcomes == ((0.2, "short", 0), (0.8, "long", 8))
    assert [stay.takes, shift.takes] == [False, True]
    assert shift.line == "Final decision: take the action"
    assert prompt.scenario == "main_1"
    assert prompt.suite == "main"
    assert prompt.family == "lighthouse"
    assert prompt.order == 0
    assert prompt.messages == tuple(ACTION_ROW["messages"])


def test_orders_of_a_row_belong_to_a_scenario(tmp_path):
    (row,) = rows_of(read(tmp_path, ACTION_ROW, SWAPPED_ROW), torch.tensor([[0.5, 0.3], [0.3, 0.5]]))
    assert row.scenarios == 1
    assert row.numbers["takes the action"].estimate == pytest.approx(3 / 8)
    assert row.numbers["position bias"].estimate == pytest.approx(0)


@pytest.mark.parametrize("row", [POST_ROW, TRAINING_ROW], ids=["post", "training"])
def test_options_between_sure_times_have_length_with_score(row, tmp_path):
    (prompt,) = read(tmp_path, row)
    assert [(option.label, option.length, option.score) for option in prompt.options] == [
        ("a", "long", 4),
        ("b", "short", 3),
        ("c", "short", 1),
        ("d", "long", 6),
    ]
    assert prompt.suite == "post"
    assert prompt.lengths == ["short", "long"]
    assert prompt.order == 3012
    assert prompt.family == "lighthouse"


def test_lines_of_options_are_read(tmp_path):
    (prompt,) = read(tmp_path, POST_ROW)
    assert [option.line for option in prompt.options][:3] == [
        "Final decision: late and weak",
        "Final decision: early and strong",
        "",
    ]


def test_rows_are_kept_in_files_of_this_project(tmp_path):
    prompts = read(tmp_path, ACTION_ROW, SWAPPED_ROW, POST_ROW)
    prompt_files.write(prompts, tmp_path / "ours.jsonl")
    assert prompt_files.read(tmp_path / "ours.jsonl") == prompts
    assert "line" not in record_of(prompts[2])["options"][2]


def test_actions_without_scores_are_measured_by_their_rate(tmp_path):
    bare = changed(ACTION_ROW, ["scenario"], {"task_family": "lighthouse"})
    prompts = read(tmp_path, bare)
    assert not prompts[0].has_outcomes
    (row,) = rows_of(prompts, torch.tensor([[0.5, 0.3]]))
    assert row.numbers.keys() == {"valid", "takes the action"}
    assert row.numbers["takes the action"].estimate == pytest.approx(3 / 8)
    assert [reference.policy for reference in reference_rows(prompts)] == ["first option", "random"]
    with pytest.raises(ConfigError, match="main_1: its options have no lengths and scores"):
        as_menus(prompts)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (changed(ACTION_ROW, ["options", 1, "action"], "wait"), "as `action` of option 2 one of shift, no_shift"),
        (changed(ACTION_ROW, ["options", 1, "action"], [1]), "as `action` of option 2"),
        (changed(ACTION_ROW, ["options", 0], 3), "as `action` of option 1"),
        (changed(ACTION_ROW, ["options"], {}), "a row of the follow-up with `options`, a list"),
        (changed(ACTION_ROW, ["scenario"], [3]), "and `scenario`, an object"),
        (changed(ACTION_ROW, ["scenario", "base_short_prob"], 0.7), "chances of option 1"),
        (changed(ACTION_ROW, ["scenario", "base_short_score"], "x"), "option 1 has no length and score"),
        (changed(ACTION_ROW, ["options", 0, "label"], {"a": 1}), "option 1 needs a text as label"),
        (changed(ACTION_ROW, ["messages"], None), "expected `messages`"),
        (changed(POST_ROW, ["options", 0, "score"], None), "option 1 has no length and score"),
        (changed(POST_ROW, ["allowed_final_lines"], {"two\nlines": "a"}), "option 1 needs a text as label"),
    ],
)
def test_damaged_rows_are_refused_by_line(row, sentence, tmp_path):
    with pytest.raises(ConfigError, match=f"line 1: .*{sentence}"):
        read(tmp_path, row)


def test_options_without_scores_or_action_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="one of them needs `takes`"):
        read(tmp_path, {"prompt": "Which?", "options": [{"label": "A"}, {"label": "B"}]})


@transformers
def test_lines_of_options_are_what_the_model_says():
    """A brief line is label, length and score, if the file does not state another one."""
    model = small(0, "lines")
    offers = [{"length": "13:00", "score": 5}, {"length": "14:00", "score": 6}]
    lines = [{"takes": True, "line": "A 13:00 5"}, {"line": "B 14:00 6"}]
    label_lines, stated = (
        prompt_files.as_prompt({"prompt": "13:00 14:00", "options": options}, "here") for options in (offers, lines)
    )
    assert model.log_probabilities([stated]).tolist() == model.log_probabilities([label_lines]).tolist()
