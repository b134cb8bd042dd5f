"""The rows of a study as a csv file, below a record of how they were made.

The record is lines of ``# key: value`` above the table, so that neither is without the other, and a pull request shows
what has changed in both.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from drest_torch._version import __version__
from drest_torch.errors import FileError
from drest_torch.files import read_whole, write_whole
from drest_torch.jobs.job import canonical
from drest_torch.jobs.store import Store
from drest_torch.studies.engine import IS_PLACE, Done
from drest_torch.tracking.provenance import PACKAGES, git_state, read_provenance, version_of

SIGN = "# rows of the study: "
"""The beginning of every such file."""
PLACE = "FOLDER"
"""Stands in the command for a value that only says where files lie."""
DIGITS = "%.7g"
MOST_BYTES = 200_000
"""Of rows that are published in docs/results."""
MOST_NAMES = 10
"""Of runs that are missing."""


@dataclass(frozen=True)
class Record:
    """How the rows of a study were made."""

    study: str
    command: str
    quick: bool
    commit: str
    date: str
    machine: str
    versions: str
    runs: int
    """Runs that the rows are made of."""
    planned: int
    """Runs that the study has. If more than ``runs``, some failed, and the page draws no conclusions."""
    minutes: float
    """Processor time of all runs and their sessions."""
    seeds: str
    config: str
    """Digest of the study's values."""
    runs_of: str = ""
    """Commits that made the runs, which may be earlier than that of the rows; empty in files of earlier versions."""
    runs_on: str = ""
    """Versions of torch and processors of the runs, where they are known and not all the same."""
    missing: str = ""
    """Names of runs that are missing."""

    @property
    def is_complete(self) -> bool:
        """Whether no run is missing."""
        return self.runs == self.planned

    @property
    def has_changed_values(self) -> bool:
        """Whether the study was done with values that are not its own."""
        values = [word for word in shlex.split(self.command) if word.startswith("study.")]
        return any(not word.endswith(f"={PLACE}") for word in values)


def digest_of(cfg: Any) -> str:
    """Return the digest of a study's values, except those that only say where files lie."""
    values = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(values, dict)
    for key in ("quick", *places_of(cfg)):
        values.pop(key, None)
    return hashlib.sha256(canonical(values).encode()).hexdigest()[:12]


def places_of(cfg: Any) -> list[str]:
    """Return the names of the values that only say where files lie (`drest_torch.studies.engine.place`)."""
    kind = OmegaConf.get_type(cfg)
    return [value.name for value in fields(kind) if value.metadata.get(IS_PLACE)] if is_dataclass(kind) else []


def record_of(cfg: Any, rows: pd.DataFrame, *, done: Done, store: Store, command: str, quick: bool) -> Record:
    """Return the record of rows that this process makes."""
    jobs = [done.planned[key] for key in done]
    versions = {"drest_torch": __version__, **{name: version_of(name) for name in PACKAGES}}
    texts = [f"python {platform.python_version()}", *(f"{name} {number}" for name, number in versions.items())]
    return Record(
        study=cfg.name,
        command=command,
        quick=quick,
        commit=store.commit_of_code,
        date=datetime.now(timezone.utc).date().isoformat(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        versions=", ".join(texts),
        runs=len(done),
        planned=len(done.planned),
        minutes=round(sum(map(store.seconds, jobs)) / 60, 1),
        seeds=_seeds(cfg, rows),
        config=digest_of(cfg),
        runs_of=_counted(map(store.commit, jobs)),
        runs_on=_runs_on(store.folder_of(job) for job in jobs),
        missing=listed([job.name for job in done.missing]),
    )


def _counted(texts: Iterable[str]) -> str:
    return ", ".join(f"{text} × {runs}" for text, runs in Counter(texts).most_common())


def _runs_on(folders: Iterable[Path]) -> str:
    sessions = [read_provenance(folder)[-1:] for folder in folders]
    machines = [f"torch {last['packages']['torch']} on {last['processor']}" for (last,) in filter(None, sessions)]
    return _counted(machines) if len({*machines}) > 1 else ""


def listed(names: Sequence[str]) -> str:
    """Return names as a list, of which the end is a count if there are many."""
    text = ", ".join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        text += f" and {len(names) - MOST_NAMES} more"
    return text


def commit_of_code() -> str:
    """Return the commit of this checkout, and whether its files differ from it."""
    state = git_state(Path(__file__).resolve().parents[2])
    if state is None:
        return "unknown: not a checkout"
    return state["commit"][:12] + (" with changes" if state["dirty"] else "")


def _seeds(cfg: Any, rows: pd.DataFrame) -> str:
    numbers = [f"{cfg[key]} {key}" for key in ("seeds", "agents") if isinstance(cfg.get(key), int)]
    if numbers:
        return ", ".join(numbers)
    if "seed" in rows:
        return f"{rows['seed'].nunique()} seeds"
    return "none"


def write_rows(path: Path, record: Record, rows: pd.DataFrame) -> None:
    """Write rows and their record."""
    values = {**asdict(record), "quick": str(record.quick).lower()}
    values.pop("study")
    lines = [f"{SIGN}{record.study}", *(f"# {key}: {value}" for key, value in values.items() if value != "")]
    table = rows.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    write_whole(path, "\n".join([*lines, table]).encode())


def read_rows(path: Path) -> tuple[pd.DataFrame, Record]:
    """Return the rows of a file and their record."""
    lines = read_whole(path).decode("utf-8").splitlines(keepends=True)
    if not lines or not lines[0].startswith(SIGN):
        raise FileError(f"{path}: does not begin with '{SIGN.strip()}'; write it with drest study study=NAME")
    head = [line for line in lines if line.startswith("# ")]
    pairs = dict(line.removeprefix("# ").rstrip("\n").split(": ", 1) for line in head)
    pairs["study"] = pairs.pop("rows of the study")
    types: dict[str, Callable[[str], Any]] = {
        "bool": lambda text: text == "true",
        "int": int,
        "float": float,
        "str": str,
    }
    optional = {field.name: str(field.default) for field in fields(Record) if field.default is not MISSING}
    pairs = optional | pairs
    try:
        record = Record(**{field.name: types[str(field.type)](pairs[field.name]) for field in fields(Record)})
    except (KeyError, ValueError) as error:
        raise FileError(f"{path}: its record is damaged at {error}; write it anew with drest study") from None
    return pd.read_csv(io.StringIO("".join(lines[len(head) :]))), record
