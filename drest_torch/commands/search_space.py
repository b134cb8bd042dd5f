"""The space of a search in the grammar of Hydra's sweeps, as its plugin for Optuna reads it.

``hydra-optuna-sweeper`` itself requires ``optuna<3``, does not prune, and ends with the first failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep, Transformer
from hydra.errors import HydraException, OverrideParseException

from drest_torch.config.compose import implied
from drest_torch.config.mistakes import explain
from drest_torch.errors import UserError
from drest_torch.searching.space import Choice, Dimension, Numbers, WholeNumbers

EXAMPLE = "'algo.lr=tag(log,interval(1e-4,1e-2))'"


def space_of(words: Sequence[str]) -> tuple[list[Dimension], list[str]]:
    """Return the sampled keys, and the other arguments as they are."""
    try:
        overrides = OverridesParser.create().parse_overrides(list(words))
    except OverrideParseException as error:
        if "(" not in error.override:
            raise UserError(explain(error, words)) from None
        lines = [line for line in str(error).splitlines() if not line.startswith(("See ", "Error parsing"))]
        raise UserError(f"{error.override}: {' '.join(lines)}; expected values as in {EXAMPLE}") from None
    sampled = [override for override in overrides if override.is_sweep_override()]
    others = [str(override.input_line) for override in overrides if not override.is_sweep_override()]
    if not sampled:
        raise UserError(f"nothing to search: give a key several values, as in {EXAMPLE}; drest train trains once")
    space = [_dimension(override) for override in sampled]
    keys = [override.get_key_element() for override in overrides]
    for dimension in space:
        if keys.count(dimension.key) > 1:
            raise UserError(f"{dimension.key}: given twice; a search has one space for each key")
    return space, implied(others)


def _dimension(override: Override) -> Dimension:
    """Return the values of a key that is sampled."""
    key, written = override.get_key_element(), override.get_value_string()
    sweep: Any = override.value()
    if tags := sorted(getattr(sweep, "tags", set()) - {"log"}):
        raise UserError(f"{key}={written}: tag {tags[0]}; expected log, or none")
    if isinstance(sweep, IntervalSweep):
        return _interval(key, written, sweep)
    if isinstance(sweep, RangeSweep) and not sweep.shuffle:
        return _range(key, written, sweep)
    try:
        values = tuple(map(_value, override.sweep_iterator()))
    except HydraException:
        raise UserError(f"{key}={written}; expected the options by name, as in {key}=choice(A,B)") from None
    distinct = {(type(value), value): value for value in values}  # True equals 1
    return Choice(key=key, written=written, values=tuple(distinct.values()))


def _value(value: Any) -> Any:
    """Return a value that Optuna can store: texts are as typed."""
    if isinstance(value, bool | int | float) or value is None:
        return value
    return Transformer.str(value)


def _interval(key: str, written: str, sweep: IntervalSweep) -> Dimension:
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    assert low is not None
    assert high is not None
    if low >= high:
        raise UserError(f"{key}={written}; expected interval(LOW,HIGH) with the lower number first")
    if log and low <= 0:
        raise UserError(f"{key}={written}; a logarithm needs numbers above 0")
    if isinstance(low, int) and isinstance(high, int):
        return WholeNumbers(key=key, written=written, low=low, high=high, log=log)
    return Numbers(key=key, written=written, low=float(low), high=float(high), log=log)


def _range(key: str, written: str, sweep: RangeSweep) -> Dimension:
    """Return the values of Hydra's range, which does not include its end."""
    values: list[Any] = list(sweep.range())
    if not values or sweep.step <= 0:
        raise UserError(f"{key}={written}; expected range(FIRST,END,STEP) with END above FIRST and STEP above 0")
    limits = {"key": key, "written": written, "low": values[0], "high": values[-1]}
    if len(values) == 1:
        return Choice(key=key, written=written, values=tuple(values))
    if all(isinstance(value, int) for value in values):
        return WholeNumbers(**limits, step=int(sweep.step))
    return Numbers(**limits, step=float(sweep.step))
