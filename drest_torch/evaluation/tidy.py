"""Tidy rows of results: a row for each value, with units in the names of measures and columns.

Frames need pandas, of the extra ``drest_torch[train]``; nothing else here does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drest_torch.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MEASURES = {
    "usefulness": "usefulness",
    "usefulness_committed": "usefulness_committed",
    "neutrality": "neutrality_bits",
    "neutrality_normalised": "neutrality_normalised",
    "neutrality_own": "neutrality_own_bits",
    "expected_drest": "expected_drest",
}
"""Names of the measures of a level in a frame, by their names in records."""
BY_LENGTH = {
    "length_probabilities": "length_probability",
    "return_given_length": "return_given_length",
    "best_return": "best_return",
}
"""Names of the measures of a length."""
LEVEL_COLUMNS = ("level", "measure", "length_ticks", "value", "low", "high")


def level_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each value in the records of levels, with the 95 % interval of sampled values.

    ``length_ticks`` is the length of a measure that has a value for each length.
    """
    for record in records:
        for measure, name in MEASURES.items():
            if measure in record:
                value = float(record[measure])
                low, high = record.get(f"{measure}_range", (None, None))
                yield {"level": record["name"], "measure": name, "value": value, "low": low, "high": high}
        for measure, name in BY_LENGTH.items():
            for length, value in record.get(measure, {}).items():
                yield {"level": record["name"], "measure": name, "length_ticks": int(length), "value": float(value)}


def wide_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each level, with a column for each measure that has one value for a level."""
    for record in records:
        row = {"level": record["name"]}
        for measure, name in MEASURES.items():
            if measure in record:
                row[name] = record[measure]
                if f"{measure}_range" in record:
                    row[f"{name}_low"], row[f"{name}_high"] = record[f"{measure}_range"]
        yield row


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return rows as a frame of pandas with these columns; whole numbers stay whole where some are missing."""
    try:
        import pandas as pd
    except ImportError:
        raise UserError("a frame needs pandas; pip install 'drest_torch[train]'") from None
    frame = pd.DataFrame(list(rows), columns=columns)
    for column in {"length_ticks", "env_steps", "env_steps_least", "env_steps_most"} & {*frame.columns}:
        frame[column] = frame[column].astype("Int64")
    for column in {"value", "low", "high"} & {*frame.columns}:
        frame[column] = frame[column].astype(float)
    return frame
