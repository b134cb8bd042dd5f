"""Rows of the follow-up's files of prompts (arXiv 2604.17502), in the form of this project.

Its repository is https://github.com/towardsshutdownable/towardsshutdownableagents; the rows of ``llm/data`` have
`messages`, or `prompt` in the file of training, and `options`. An option of the suite post has a length and a score. An
option of the other suites has an `action`, shift or no_shift; its chances and scores are those of the row's `scenario`.
"""

from __future__ import annotations

from typing import Any

from drest_torch.errors import ConfigError

ACTIONS = {"shift": "shifted", "no_shift": "base"}
"""The actions of options, and the first word of their chances and scores in a scenario."""
LENGTHS = ("short", "long")
SWAPPED = {"canonical": 0, "swapped": 1}
"""The orders of two options; those of more options are permutations such as 3012."""


def is_of_follow_up(record: Any) -> bool:
    """Return whether an object of a file has the follow-up's form."""
    return isinstance(record, dict) and isinstance(record.get("scenario_id"), str)


def translated(record: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a row as an object of this project's files; ``place`` names its file and line in errors."""
    options = record.get("options")
    scenario = record.get("scenario") or {}
    if not isinstance(options, list) or not isinstance(scenario, dict):
        raise ConfigError(f"{place}: expected a row of the follow-up with `options`, a list, and `scenario`, an object")
    messages = record.get("messages") or record.get("prompt")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    lines = _lines(record)
    objects = []
    for number, option in enumerate(options, 1):
        if not isinstance(option, dict) or str(option.get("action", "shift")) not in ACTIONS:
            raise ConfigError(f"{place}: expected as `action` of option {number} one of {', '.join(ACTIONS)}, or none")
        objects.append(_option(option, scenario, lines))
    return {
        "scenario": record["scenario_id"],
        "suite": record.get("suite"),
        "family": scenario.get("task_family") or record.get("task_family"),
        "order": _order(record),
        "messages": messages,
        "options": objects,
    }


def _option(option: dict[str, Any], scenario: dict[str, Any], lines: dict[str, str]) -> dict[str, Any]:
    """Return an option; its line is that of its label or of its action."""
    result = {key: option.get(key) for key in ("label", "text", "length", "score")}
    action = option.get("action")
    result["line"] = lines.get(str(option.get("label"))) or lines.get(str(action))
    if action is not None:
        result["takes"] = action == "shift"
        result["outcomes"] = _outcomes(scenario, ACTIONS[action])
    return result


def _outcomes(scenario: dict[str, Any], kind: str) -> list[list[Any]] | None:
    """Return chances, lengths and scores of an action; None if the scenario does not tell them."""
    outcomes = []
    for length in LENGTHS:
        chance = scenario.get(f"{kind}_{length}_prob")
        score = scenario.get(f"{kind}_{length}_score")
        if chance is None or score is None:
            return None
        if chance != 0:
            outcomes.append([chance, length, score])
    return outcomes


def _lines(record: dict[str, Any]) -> dict[str, str]:
    """Return the final line of each label or action."""
    allowed = record.get("allowed_final_lines")
    if not isinstance(allowed, dict):
        return {}
    return {str(named): line for line, named in allowed.items()}


def _order(record: dict[str, Any]) -> int:
    """Return the number of the order of the options."""
    display = record.get("display")
    order = record.get("option_order")
    if isinstance(display, dict) and order is None:
        order = display.get("option_order")
    text = str(order or "")
    if text.isascii() and text.isdigit():
        return int(text[:9])
    return SWAPPED.get(text, 0)
