"""The rows of a study as a csv file, below a record of their provenance.

The record consists of lines ``# key: value`` above the table. The two are therefore never separated, and a pull request
shows changes of both.
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
"""A placeholder in the command for the path of files (`drest_torch.studies.engine.place`)."""
DIGITS = "%.7g"
MOST_BYTES = 300_000
"""The largest size of a published file in docs/results."""
MOST_NAMES = 10
"""The largest number of missing runs that a list names."""


@dataclass(frozen=True)
class Record:
    """The provenance of the rows of a study."""

    study: str
    command: str
    quick: bool
    commit: str
    date: str
    machine: str
    versions: str
    runs: int
    """The number of finished runs."""
    planned: int
    """The number of runs of the study. If it exceeds ``runs``, some failed, and the page draws no conclusions."""
    minutes: float
    """Processor time of all runs and their sessions."""
    seeds: str
    config: str
    """Digest of the study's values."""
    runs_of: str = ""
    """Commits of the code that executed the runs, which can be older than ``commit``; empty in older files."""
    runs_on: str = ""
    """Versions of torch and processors of the runs, if they differ between runs."""
    missing: str = ""
    """Names of the missing runs."""

    @property
    def is_complete(self) -> bool:
        """True if no run is missing."""
        return self.runs == self.planned

    @property
    def has_changed_values(self) -> bool:
        """True if the command overrides values of the study."""
        values = [word for word in shlex.split(self.command) if word.startswith("study.")]
        return any(not word.endswith(f"={PLACE}") for word in values)


def digest_of(cfg: Any) -> str:
    """Return the digest of a study's values, without paths of files."""
    values = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(values, dict)
    for key in ("quick", *places_of(cfg)):
        values.pop(key, None)
    return hashlib.sha256(canonical(values).encode()).hexdigest()[:12]


def places_of(cfg: Any) -> list[str]:
    """Return the names of the values that are paths of files (`drest_torch.studies.engine.place`)."""
    kind = OmegaConf.get_type(cfg)
    if not is_dataclass(kind):
        return []
    return [value.name for value in fields(kind) if value.metadata.get(IS_PLACE)]


def record_of(cfg: Any, rows: pd.DataFrame, *, done: Done, store: Store, command: str, quick: bool) -> Record:
    """Return the record of new rows."""
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
    """Return a list of names as text; a long list is truncated and ends with the number of other names."""
    text = ", ".join(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        text += f" and {len(names) - MOST_NAMES} more"
    return text


def commit_of_code() -> str:
    """Return the commit of this checkout, marked if files differ from it."""
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
