"""Checks of output paths: no output replaces the inputs of a command or the files of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from drest_torch.errors import ConfigError, FileError
from drest_torch.files import LOCK, read_whole

OVERWRITTEN = (
    *("config.yaml", "metrics.jsonl", "metrics.csv", "summary.json", "provenance.json", "split.json", "levels_*.json"),
    *("checkpoints", "pictures", "references", "tensorboard"),
)
"""Patterns for the names of files and folders that a run overwrites in its folder."""
_OF_ANY_RUN = {"config.yaml", "metrics.jsonl", "summary.json", "checkpoints"}
PICTURES = (".png", ".svg", ".pdf")
"""Endings of the files of pictures."""
MODEL = "model"
"""The extra folder of a language model's run."""
RUN_OUTPUTS = (*OVERWRITTEN, MODEL, "wandb", LOCK)
"""Patterns for the names of all files and folders of a run."""
JOB_OUTPUTS = ("result.json", "result.npz", "failure.json", "output.txt")
"""The names of the files of a study's run."""
FOLLOWED = (MODEL, "tensorboard", "wandb", "output.txt", "runs.txt")
"""The outputs of libraries and growing files, where a link to a file is followed, not replaced."""
MOST_CONFIG_BYTES = 1 << 20


def check_outputs(*paths: Path, reads: Iterable[Path | str | None] = (), ending: str | None = None) -> None:
    """Refuse outputs that would replace inputs of a command or files of a run.

    Call it before any computation. Outputs may replace all other existing files.

    Args:
        paths: the final paths of the files, or folders for files.
        reads: the input files and folders; None entries are ignored. Leave out the folder of an input run, where other
            files may be written.
        ending: the required ending of the file names.
    """
    sources = [Path(source) for source in reads if source is not None]
    for path in paths:
        if ending is not None and path.suffix.lower() != ending:
            raise FileError(f"{path}: expected a name that ends in {ending}")
        for place in _places(path):
            for source in sources:
                if lies_in(place, source):
                    raise FileError(f"{path}: would replace what is read ({source}); expected another path")
            if (folder := _run_around(place)) is not None:
                raise FileError(f"{path}: would replace what belongs to the run in {folder}; expected another path")


def check_run_dir(run_dir: str | Path) -> Path:
    """Return the folder for a new run; refuse an empty path, and a place among the files of another run."""
    if not str(run_dir).strip() or "\0" in str(run_dir):
        raise ConfigError(f"run_dir={run_dir}; expected a path, or leave it out")
    check_outputs(Path(run_dir))
    return Path(run_dir)


def refuse_taken(run_dir: str | Path, resume: Callable[[Path], str], *, writes: Iterable[str] = ()) -> None:
    """Refuse a folder for a new run that contains files which the run would overwrite.

    Args:
        run_dir: the folder, which need not exist.
        resume: a function from the folder of an existing run to the command that resumes it.
        writes: further names besides `OVERWRITTEN` that this kind of run writes.
    """
    folder = check_run_dir(run_dir)
    names = [name for name in _listed(folder) if _is_among(name, (*OVERWRITTEN, *writes))]
    if not _OF_ANY_RUN.isdisjoint(names):
        replace = ""
        if is_run(folder):
            replace = ", replace the run with overwrite=true"
        raise ConfigError(
            f"{folder} holds a run already; choose another run_dir{replace}, or resume it: {resume(folder)}"
        )
    if names:
        raise ConfigError(f"{folder} holds {names[0]} already, which a run would overwrite; choose another run_dir")


def refuse_another(path: Path, sign: str, remedy: str) -> None:
    """Refuse to replace a file without the sign of an earlier output, if the user has not named it."""
    if path.is_file() and sign.encode() not in read_whole(path):
        raise FileError(f"{path}: is not an earlier output of this command, which would replace it; {remedy}")


def files_of_page(path: Path, endings: Iterable[str]) -> list[Path]:
    """Return the files of a page, from a path with or without one of its endings."""
    endings = [*endings]
    if not path.name:
        raise ConfigError(f"out={path}: is not the path of a file; expected one that ends in a name")
    stem = path
    if path.suffix.lower() in endings:
        stem = path.with_suffix("")
    return [stem.with_name(f"{stem.name}{ending}") for ending in endings]


def check_page(path: Path, signs: Mapping[str, str], *, reads: Iterable[Path], named: str | None) -> list[Path]:
    """Return the files of a page, which may neither replace another file nor belong to a run.

    Args:
        path: the path of the page.
        signs: the endings of its files, each with a text by which an earlier output is recognised.
        reads: the files that the command reads.
        named: the file that the user has named, which may be replaced.
    """
    files = files_of_page(path, signs)
    for file, sign in zip(files, signs.values(), strict=True):
        if file != Path(named or ""):
            refuse_another(file, sign, "choose another out")
    check_outputs(*files, reads=reads)
    return files


def refuse_links(folder: Path, names: Iterable[str] = RUN_OUTPUTS) -> None:
    """Refuse a folder with links through which files outside it would be overwritten or deleted.

    Atomic writes replace a link and leave its target unchanged. ``names`` are patterns for the files and folders that
    are written.
    """
    root = _real(folder)
    for name in _listed(folder):
        if _is_among(name, names):
            for path in (folder / name, *_below(folder / name)):
                if not path.is_symlink() or _belongs_to_session(path.relative_to(folder)):
                    continue
                is_replaced = path.is_file() and not any(map(_is_followed, path.relative_to(folder).parts))
                if not is_replaced and not lies_in(_real(path), root):
                    raise FileError(
                        f"{path}: is a link that leads out of {folder}, to {_real(path)}, where files would be "
                        "overwritten and deleted; replace the link by the folder itself, or move all of "
                        f"{folder} to the target of the link and continue there"
                    )


def _belongs_to_session(path: Path) -> bool:
    """Return whether a path in a run belongs to a session of W&B, whose folder no later session writes to.

    W&B puts links to its logs there.
    """
    return path.parts[0] == "wandb" and len(path.parts) > 2


def is_run(folder: Path) -> bool:
    """Return whether a folder contains a run or a saved agent."""
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


def is_job(folder: Path) -> bool:
    """Return whether a folder contains the run of a study (`drest_torch.jobs.store`)."""
    is_named = re.search("-[0-9a-f]{12,}$", folder.name) is not None
    return is_named and any((folder / name).is_file() for name in JOB_OUTPUTS)


def _run_around(place: Path) -> Path | None:
    """Return the folder of the run that contains a path, or None."""
    for folder in place.parents:
        name = place.relative_to(folder).parts[0]
        if _is_among(name, RUN_OUTPUTS) and is_run(folder):
            return folder
        if _is_among(name, JOB_OUTPUTS) and is_job(folder):
            return folder
    return None


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches a pattern, ignoring case as some file systems do."""
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


def _is_followed(name: str) -> bool:
    return _is_among(name, FOLLOWED)


def _places(path: Path) -> set[Path]:
    """Return the absolute paths of a file and of its target if it is a link, with links in folders resolved."""
    return {_real(path.parent) / path.name, _real(path)}


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def lies_in(place: Path, source: Path) -> bool:
    """Return whether a path equals ``source`` or lies in this folder."""
    real = _real(source)
    return any(above == real or _is_same(above, real) for above in (place, *place.parents))


def _is_same(first: Path, second: Path) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _listed(folder: Path) -> list[str]:
    """Return the names in a folder, including broken links."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _below(folder: Path) -> Iterator[Path]:
    """Yield all paths below a folder, without following links."""
    if folder.is_symlink():
        return
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent) / name for name in (*folders, *names))
