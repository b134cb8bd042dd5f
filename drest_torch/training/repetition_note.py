"""The note of a run that repeats another one: what differs between the two machines and programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from drest_torch.config.checks import device_of
from drest_torch.config.repeating import repeated_run, stored_run
from drest_torch.errors import printable
from drest_torch.tracking.provenance import provenance, read_provenance


def announce_repetition(arguments: Sequence[str]) -> None:
    """Print what differs from the run in ``from=RUN``, if there is one: versions, machine and threads."""
    folder = repeated_run(arguments)
    if folder is not None:
        announce_differences(folder, stored_run(folder), arguments)


def announce_differences(folder: Path, cfg: Any, arguments: Sequence[str]) -> None:
    """Print what differs from a run with this configuration that further arguments change."""
    threads = value_of("threads", arguments, cfg.threads) or torch.get_num_threads()
    here = provenance(device_of(str(value_of("device", arguments, cfg.device)))) | {"threads": int(threads)}
    sessions = read_provenance(folder)
    if not sessions:
        text = "it has no provenance.json, so its versions and its machine are unknown"
    elif differing := differences(sessions, here):
        text = f"the result can differ from it, because {'; '.join(differing)}"
    else:
        text = "versions, machine and threads are the same"
    print(printable(f"drest_torch: repeats {folder}: {text}"), file=sys.stderr)


def value_of(key: str, arguments: Iterable[str], default: Any) -> Any:
    """Return the value of the last ``KEY=VALUE`` as text, or the default."""
    values = [word.partition("=")[2] for word in arguments if word.startswith(f"{key}=")]
    if not values or values[-1] in ("", "null"):
        return default
    return values[-1]


def differences(sessions: Iterable[Mapping[str, Any]], here: Mapping[str, Any]) -> list[str]:
    """Return what differs between the sessions of a run and this one, such as ``torch is 2.6.0, not 2.5.1``."""
    facts_here = facts(here)
    differing = []
    for name, value in facts_here.items():
        earlier = dict.fromkeys(facts(session).get(name, "unknown") for session in sessions)
        if list(earlier) != [value]:
            differing.append(f"{name} is {value}, not {' and '.join(earlier)}")
    return differing


def facts(session: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a session on which the last bits of results depend, by name."""
    packages = session.get("packages") or {}
    git = session.get("git") or {}
    commit = str(git.get("commit", "unknown"))[:12]
    if git.get("dirty"):
        commit += " with changes"
    versions = {"drest_torch": session.get("drest_torch"), "its commit": commit, "Python": session.get("python")}
    versions |= {name: packages[name] for name in sorted(packages)}
    names = {"the system": "platform", "the processor": "processor", "threads": "threads", "the GPU": "gpu"}
    machine = {name: session.get(key) for name, key in names.items()}
    return {name: str(value) for name, value in (versions | machine).items()}
