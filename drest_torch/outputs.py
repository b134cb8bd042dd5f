"""Where outputs may be written: none replaces what a command reads, or what belongs to a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from drest_torch.errors import ConfigError, FileError
from drest_torch.files import LOCK, read_whole

OVERWRITTEN = (
    *("config.yaml", "metrics.jsonl", "metrics.csv", "summary.json", "provenance.json", "split.json", "levels_*.json"),
    *("checkpoints", "pictures", "references", "tensorboard"),
)
"""Patterns for the names of what a run overwrites in its folder, files and folders."""
_OF_ANY_RUN = {"config.yaml", "metrics.jsonl", "summary.json", "checkpoints"}
MODEL = "model"
"""The folder that a run of a language model writes besides."""
OF_A_RUN = (*OVERWRITTEN, MODEL, "wandb", LOCK)
"""Patterns for the names of all that may belong to a run."""
OF_A_JOB = ("result.json", "result.npz", "failure.json", "output.txt")
"""The names of what a study writes to the folder of one of its runs."""
FOLLOWED = (MODEL, "tensorboard", "wandb", "output.txt", "runs.txt")
"""What libraries write in the folder of a run, or what grows: there a link to a file is followed, not replaced."""
MOST_CONFIG_BYTES = 1 << 20


def check_outputs(*paths: Path, reads: Iterable[Path | str | None] = (), ending: str | None = None) -> None:
    """Refuse outputs that would replace what a command reads, or what belongs to a run.

    Call it before anything is computed. Any other file that is there is replaced by a new output.

    Args:
        paths: the files, with the names that they will have, or folders for files.
        reads: the files and folders that are read; None stands for nothing. Of a run that is read leave out the folder,
            as other files may be written there.
        ending: what the names of the files have to end in.
    """
    sources = [Path(source) for source in reads if source is not None]
    for path in paths:
        if ending is not None and path.suffix.lower() != ending:
            raise FileError(f"{path}: expected a name that ends in {ending}")
        for place in _places(path):
            for source in sources:
                if _lies_in(place, source):
                    raise FileError(f"{path}: would replace what is read ({source}); expected another path")
            if (folder := _run_around(place)) is not None:
                raise FileError(f"{path}: would replace what belongs to the run in {folder}; expected another path")


def refuse_taken(run_dir: str | Path, resume: str, *, writes: Iterable[str] = ()) -> None:
    """Refuse a folder for a new run that holds something which the run would overwrite.

    Args:
        run_dir: the folder, which need not exist.
        resume: the command that goes on with the run that may be there.
        writes: names of what this kind of run writes besides `OVERWRITTEN`.
    """
    if not str(run_dir).strip() or "\0" in str(run_dir):
        raise ConfigError(f"run_dir={run_dir}; expected a path, or leave it out")
    folder = Path(run_dir)
    check_outputs(folder)
    names = [name for name in _listed(folder) if _is_among(name, (*OVERWRITTEN, *writes))]
    if not _OF_ANY_RUN.isdisjoint(names):
        raise ConfigError(f"{folder} holds a run already; choose another run_dir, or resume it: {resume}")
    if names:
        raise ConfigError(f"{folder} holds {names[0]} already, which a run would overwrite; choose another run_dir")


def refuse_another(path: Path, sign: str, remedy: str) -> None:
    """Refuse to replace a file that no user has named, unless it has the sign of an earlier output of this kind."""
    if path.is_file() and sign.encode() not in read_whole(path):
        raise FileError(f"{path}: is no earlier output of this command, which would replace it; {remedy}")


def refuse_links(folder: Path, names: Iterable[str] = OF_A_RUN) -> None:
    """Refuse to go on in a folder if a link leads what is written there, and deleted, out of it.

    Files that are written whole replace a link, and leave what it leads to as it is. ``names`` are patterns for the
    files and folders that are written.
    """
    root = _real(folder)
    for name in _listed(folder):
        if _is_among(name, names):
            for path in (folder / name, *_below(folder / name)):
                if not path.is_symlink() or _is_of_a_session(path.relative_to(folder)):
                    continue
                is_replaced = path.is_file() and not any(map(_is_followed, path.relative_to(folder).parts))
                if not is_replaced and not _lies_in(_real(path), root):
                    raise FileError(
                        f"{path}: is a link that leads out of {folder}, to {_real(path)}, where files would be "
                        "overwritten and deleted; put the folder itself in place of the link, or move all of "
                        f"{folder} to where the link leads and go on there"
                    )


def _is_of_a_session(path: Path) -> bool:
    """Return whether a path in a run lies in the folder of a session of W&B, into which no later session writes.

    W&B itself puts links to its logs there.
    """
    return path.parts[0] == "wandb" and len(path.parts) > 2


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run, or of an agent that was saved."""
    config = folder / "config.yaml"
    if not config.is_file():
        return False
    if (folder / "checkpoints").is_dir() and (folder / "metrics.jsonl").is_file():
        return True
    with suppress(OSError, FileError):
        text = read_whole(config, MOST_CONFIG_BYTES).decode(errors="replace")
        keys = {*re.findall(r"^(\w+):", text, re.MULTILINE)}
        return {"algo", "reward", "seed"} <= keys or keys == {"language"}
    return False


def _is_job(folder: Path) -> bool:
    """Return whether a folder is that of a run of a study (`drest_torch.jobs.store`)."""
    is_named = re.search("-[0-9a-f]{12,}$", folder.name) is not None
    return is_named and any((folder / name).is_file() for name in OF_A_JOB)


def _run_around(place: Path) -> Path | None:
    """Return the folder of the run that a path belongs to, if there is one."""
    for folder in place.parents:
        name = place.relative_to(folder).parts[0]
        if _is_among(name, OF_A_RUN) and is_run(folder):
            return folder
        if _is_among(name, OF_A_JOB) and _is_job(folder):
            return folder
    return None


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name fits a pattern, in whichever case: some file systems do not tell them apart."""
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


def _is_followed(name: str) -> bool:
    return _is_among(name, FOLLOWED)


def _places(path: Path) -> set[Path]:
    """Return where a file is written, and where it leads if it is a link, as absolute paths without links."""
    return {_real(path.parent) / path.name, _real(path)}


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _lies_in(place: Path, source: Path) -> bool:
    """Return whether a path is that of a file or folder, or lies in the folder."""
    real = _real(source)
    return any(above == real or _is_same(above, real) for above in (place, *place.parents))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _listed(folder: Path) -> list[str]:
    """Return the names in a folder, those of links that lead nowhere too."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _below(folder: Path) -> Iterator[Path]:
    """Yield all that lies in a folder; no link is followed."""
    if folder.is_symlink():
        return
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent) / name for name in (*folders, *names))
