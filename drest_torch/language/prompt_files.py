"""Files of prompts: jsonl, one object a line. They are untrusted, so everything is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drest_torch.errors import ConfigError, printable
from drest_torch.files import read_whole, write_text
from drest_torch.language.follow_up_files import is_of_follow_up, translated
from drest_torch.language.prompts import LETTERS, Answer, Prompt, record_of

MOST_SCORE = 1_000_000
"""The largest score in a file; the project's own suites have scores of at most `LARGEST_SCORE`."""
CHANCES_DIFFER = 1e-6
"""The tolerance for the sum of an option's chances, which is 1."""


def write(prompts: Iterable[Prompt], path: Path) -> None:
    """Write prompts, one JSON object a line."""
    lines = [json.dumps(record_of(prompt), ensure_ascii=False) for prompt in prompts]
    write_text(path, "".join(f"{line}\n" for line in lines))


def read(path: Path) -> list[Prompt]:
    """Read prompts from jsonl; an error names the invalid line and the problem."""
    prompts = []
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            prompts.append(_prompt(line, f"{path}, line {number}"))
    if not prompts:
        raise ConfigError(f"{path}: no prompts in it; expected one JSON object a line")
    _check_orders(prompts, path)
    return prompts


def _lines(path: Path) -> list[str]:
    try:
        return read_whole(path).decode().split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None


def _prompt(line: str, place: str) -> Prompt:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # a number can have too many digits, and a list be too deep
        reason = getattr(error, "msg", "a value is too long, or nested too deeply")
        raise ConfigError(f"{place}: not JSON ({reason}); expected an object with messages and options") from None
    return as_prompt(record, place)


def _check_orders(prompts: Iterable[Prompt], path: Path) -> None:
    """Refuse a scenario whose prompts have different lengths, because their measures cannot be averaged."""
    lengths: dict[tuple[str, str], list[str]] = {}
    for prompt in prompts:
        scenario = (prompt.suite, prompt.scenario)
        if lengths.setdefault(scenario, prompt.lengths) != prompt.lengths:
            raise ConfigError(
                f"{path}: prompts of the scenario '{prompt.scenario}' have different lengths; give each one of its own"
            )


def as_prompt(record: Any, place: str) -> Prompt:
    """Return the prompt of an object; ``place`` names its file and line in errors."""
    if is_of_follow_up(record):
        record = translated(record, place)
    records = record.get("options") if isinstance(record, dict) else None
    if not isinstance(records, list) or not 2 <= len(records) <= len(LETTERS):
        raise ConfigError(f"{place}: expected an object with `options`, a list of 2 to {len(LETTERS)}")
    with_outcomes = any(_has_outcomes(option) for option in records)
    options = tuple(_option(option, index, place, with_outcomes) for index, option in enumerate(records))
    if not with_outcomes and not any(option.takes for option in options):
        raise ConfigError(
            f"{place}: its options have no length and score, so one of them needs `takes`, which marks the action"
        )
    labels = {option.label for option in options}
    if len(labels) < len(options):
        raise ConfigError(f"{place}: two options have the same label")
    _check_scores(options, place)
    messages = _messages(record, place)
    try:
        scenario = _name_of(_value(record, "scenario", printable(place)))
        suite = _name_of(_value(record, "suite", "post"))
        family = _name_of(_value(record, "family", ""))
        prefix = _name_of(_value(record, "prefix", ""))
        form = _name_of(_value(record, "form", ""))
        order = _value(record, "order", 0)
        if type(order) is not int or order < 0:
            raise TypeError(order)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{place}: expected a line of text as scenario, suite, family, prefix and form, and a whole number as order"
        ) from None
    length_order = _length_order(record, options, place)
    return Prompt(scenario, order, suite, family, messages, options, length_order, prefix, form)


def _length_order(record: Mapping[str, Any], options: Sequence[Answer], place: str) -> tuple[str, ...]:
    """Return the order of the lengths in a record, the shortest first; empty if it has none."""
    texts = _value(record, "lengths", [])
    lengths = {length for option in options for _, length, _ in option.outcomes}
    try:
        order = tuple(map(_name_of, texts))
    except (TypeError, ValueError):
        order = ()
    if texts and (set(order) != lengths or len(order) != len(lengths)):
        raise ConfigError(
            f"{place}: expected as `lengths` each length of its options once, the shortest first: "
            f"{', '.join(sorted(lengths))}"
        )
    return order


def _messages(record: Mapping[str, Any], place: str) -> tuple[dict[str, str], ...]:
    """Return the messages of a prompt, or the single message ``prompt``."""
    try:
        messages = record.get("messages") or [{"role": "user", "content": record["prompt"]}]
        return tuple(
            {"role": _text_of(message["role"]), "content": _text_of(message["content"])} for message in messages
        )
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{place}: expected `messages`, each with a text for role and for content") from None


def _has_outcomes(record: Any) -> bool:
    """Return whether an option has outcomes, or a part of them."""
    if not isinstance(record, dict):
        return True  # an error, which `_outcomes` raises
    return bool(record.get("outcomes")) or any(record.get(key) is not None for key in ("length", "score"))


def _option(record: Any, index: int, place: str, with_outcomes: bool) -> Answer:
    """Return an option, which has outcomes, or a length and a score, if the prompt has any."""
    number = index + 1
    outcomes = _outcomes(record, number, place) if with_outcomes else ()
    try:
        label = _name_of(_value(record, "label", LETTERS[index]))
        text = _text_of(_value(record, "text", ""))
        line = _name_of(_value(record, "line", ""))
        if not label.strip():
            raise ValueError("empty")
    except (TypeError, ValueError):
        raise ConfigError(f"{place}: option {number} needs a text as label, of one line and not empty") from None
    takes = bool(_value(record, "takes", False))
    return Answer(label, text, outcomes, takes, line)


def _outcomes(record: Any, number: int, place: str) -> tuple[tuple[float, str, float], ...]:
    """Return the outcomes (chance, length, score) of an option."""
    try:
        rows = record.get("outcomes") or [[1.0, record["length"], record["score"]]]
        outcomes = tuple((_number_of(chance), _name_of(length), _number_of(score)) for chance, length, score in rows)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(
            f"{place}: option {number} has no length and score, and no outcomes [[chance, length, score]]"
        ) from None
    chances = [chance for chance, _, _ in outcomes]
    if abs(sum(chances) - 1) > CHANCES_DIFFER or min(chances) <= 0:
        raise ConfigError(f"{place}: the chances of option {number} are not above 0 with a sum of 1")
    if any(not 0 <= score <= MOST_SCORE for _, _, score in outcomes):
        raise ConfigError(
            f"{place}: a score of option {number} is not between 0 and {MOST_SCORE:,}; usefulness is a share of the "
            "best score of a length, and has no meaning below 0"
        )
    return outcomes


def _check_scores(options: Sequence[Answer], place: str) -> None:
    """Refuse a length without a positive score, because shares of its best score are not defined."""
    best: dict[str, float] = {}
    for option in options:
        for _, length, score in option.outcomes:
            best[length] = max(best.get(length, 0.0), score)
    for length, score in best.items():
        if score == 0:
            raise ConfigError(
                f"{place}: no score above 0 with the length '{length}'; usefulness is the share of the best score of a "
                "length, so give one of its options a score above 0"
            )


def _value(record: Mapping[str, Any], key: str, usual: Any) -> Any:
    """Return the value of a key, or its default if the value is missing or null, as in records of a table."""
    value = record.get(key)
    if value is None:
        return usual
    return value


def _number_of(value: Any) -> float:
    """Return a finite number, clamped to just outside the valid chances and scores; refuse texts."""
    if isinstance(value, bool | str):
        raise TypeError(value)
    try:
        number = float(value)
    except OverflowError:  # of a whole number with hundreds of digits
        number = math.inf
    if math.isnan(number):
        raise ValueError(value)
    return max(-1.0, min(number, MOST_SCORE + 1.0))


def _text_of(value: Any) -> str:
    """Return a text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()
    return value


def _name_of(value: Any) -> str:
    """Return a text, or a number as text, that is printable in one line."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    text = _text_of(value)
    if printable(text) != text or "\n" in text:
        raise ValueError(value)
    return text
