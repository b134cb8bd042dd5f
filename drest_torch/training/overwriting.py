"""Overwriting a run: the files of the earlier run are set aside, and deleted once the new run has begun.

They are moved to the folder `ASIDE` within the folder of the run, its configuration first. Until the new configuration
is written, the earlier run can be put back as it was: after an error at once, and after a killed process when the
folder is entered again (`recover`). From then on the earlier files are only deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from drest_torch.errors import ConfigError
from drest_torch.files import LOCK, lock_folder, unlock_folder
from drest_torch.outputs import MODEL, check_run_dir, is_job, is_run, lies_in, refuse_links, refuse_taken

ASIDE = ".overwritten"
"""The folder for the files of an earlier run until they are deleted."""
CONFIG = "config.yaml"
SIGNS = ("metrics.jsonl", "summary.json", "provenance.json", LOCK)
"""Files of which every run has at least one, and a saved agent none."""
SPLITS = ("train", "selection", "test", "paper")
FILES = (
    *(CONFIG, "metrics.jsonl", "metrics.csv", "summary.json", "provenance.json", "split.json"),
    *(f"levels_{split}.json" for split in SPLITS),
)
"""The files of a run outside folders, except its lock."""
PICTURES = ("*.png", "*.svg", "*.pdf", "*.gif")
FOLDERS: dict[str, Collection[str]] = {
    "checkpoints": ("step-*.safetensors", "best.safetensors"),
    "pictures": PICTURES,
    "references": PICTURES,
    "tensorboard": ("events.out.tfevents.*",),
    MODEL: ("*",),
    "wandb": ("*",),
}
"""The folders of a run, each with patterns for the names of the files in it."""


OTHER = "choose another run_dir"


def may_overwrite(
    run_dir: str,
    overwrite: bool,
    resume: Callable[[Path], str],
    *,
    reads: Iterable[str | Path] = (),
    writes: Iterable[str] = (),
) -> bool:
    """Return True if a new run replaces an earlier one in its folder; refuse the folder if it cannot begin there.

    Args:
        run_dir: the folder.
        overwrite: True if it may replace a run.
        resume: a function from the folder of an existing run to the command that resumes it.
        reads: the inputs of the new run, which must not lie among the files that are deleted.
        writes: further names of files that this kind of run writes.
    """
    folder = check_run_dir(run_dir)
    recover(folder)
    if overwrite and _has_run(folder, reads):
        return True
    refuse_taken(run_dir, resume, writes=writes)
    return False


def _has_run(folder: Path, reads: Iterable[str | Path]) -> bool:
    """Return True if there is a run in a folder that can be replaced; refuse folders with files of another kind."""
    if not is_run(folder):
        return False
    if is_job(folder):
        raise ConfigError(f"{folder}: holds a run of a study, which overwrite=true does not replace; {OTHER}")
    if not any((folder / name).exists() for name in SIGNS):
        raise ConfigError(f"{folder}: holds a saved agent and no run, which overwrite=true does not replace; {OTHER}")
    refuse_links(folder, (*FILES, *FOLDERS))
    for path in _files_in_folders(folder):
        patterns = (*FOLDERS[path.relative_to(folder).parts[0]], ".*.partial")
        if not any(fnmatchcase(path.name, pattern) for pattern in patterns):
            raise ConfigError(f"{path}: is no file of a run, and overwrite=true would delete it; move it elsewhere")
    deleted = [folder / name for name in (*FILES, *FOLDERS)]
    for source in reads:
        place = Path(source).resolve()
        if place == folder.resolve() or any(lies_in(place, path) for path in deleted):
            raise ConfigError(f"overwrite=true would delete what the run reads ({source}); {OTHER}")
    return True


def _files_in_folders(folder: Path) -> Iterator[Path]:
    """Yield the files in the folders of a run."""
    for name in FOLDERS:
        for parent, _, names in os.walk(folder / name):  # links are not followed
            yield from (Path(parent) / inner for inner in names)


@contextmanager
def set_aside(folder: Path, *, enabled: bool) -> Iterator[None]:
    """Move the files of a run aside if ``enabled``, and put them back if an error occurs within the context.

    This process must have locked the folder.
    """
    if not enabled:
        yield
        return
    _move_aside(folder)
    try:
        yield
    except BaseException:
        undo(folder)
        raise


def _move_aside(folder: Path) -> None:
    aside = folder / ASIDE
    try:
        aside.mkdir()
        for name in (*FILES, *FOLDERS):  # the configuration is the first
            if os.path.lexists(folder / name):
                os.rename(folder / name, aside / name)
    except OSError as error:
        put_back(folder)
        raise ConfigError(f"{folder}: the run in it cannot be replaced ({error.strerror}); {OTHER}") from None


def undo(folder: Path) -> None:
    """Delete the files of a new run that could not begin, and put the earlier run back, if one was set aside."""
    if (folder / ASIDE).is_dir():
        for name in (*FILES, *FOLDERS):
            _delete(folder / name)
        put_back(folder)


def put_back(folder: Path) -> None:
    """Put the run back that was set aside, as far as that has not been done before."""
    aside = folder / ASIDE
    for name in (*FOLDERS, *reversed(FILES)):  # the configuration is the last
        if os.path.lexists(aside / name):
            _delete(folder / name)
            os.rename(aside / name, folder / name)
    shutil.rmtree(aside)


def discard(folder: Path) -> None:
    """Delete the run that was set aside, because the new run has begun."""
    if (folder / ASIDE).is_dir():
        shutil.rmtree(folder / ASIDE, ignore_errors=True)  # what is left is deleted by `recover`


def recover(folder: Path) -> None:
    """Finish what a killed process has left: put the earlier run back unless the new one has its configuration."""
    if not (folder / ASIDE).is_dir():
        return
    refusal = ConfigError(f"{folder}: another process begins a run in it; wait for it, or choose another run_dir")
    is_new = lock_folder(folder, lambda: refusal)
    try:
        if (folder / CONFIG).exists():
            discard(folder)
        else:
            put_back(folder)
    finally:
        if is_new:
            unlock_folder(folder)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
