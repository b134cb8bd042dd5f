"""The study of Optuna in the folder of a search: a journal of JSON lines, which needs no server and no pickles."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from drest_torch.errors import FileError

JOURNAL = "optuna.log"
"""The journal in the folder of a search; `optuna-dashboard` reads it."""
STUDY = "search"
"""The name of the study in the journal."""
FIRST_TRIALS = 5
"""Trials that are never pruned, because there is no median before."""
WARM_UP = 4
"""The ratio of the evaluations of a run and those before which it is not pruned."""


def open_study(journal: Path, evaluations: int) -> optuna.Study:
    """Return the study in a journal, which begins empty; trials are pruned by their number of evaluations."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    lock = JournalFileOpenLock(str(journal))
    try:
        storage = JournalStorage(JournalFileBackend(str(journal), lock))
        return optuna.create_study(
            study_name=STUDY,
            storage=storage,
            sampler=RandomSampler(0),
            pruner=pruner(evaluations),
            direction="maximize",
            load_if_exists=True,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(
            f"{journal}: not the journal of a search ({error}); choose another folder, out=FOLDER"
        ) from None


def repair(journal: Path) -> None:
    """Remove what a killed process has left: a lock, and a line that was cut off."""
    Path(f"{journal}.lock").unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        text = journal.read_bytes()
        complete = text[: text.rfind(b"\n") + 1]
        if complete != text:
            with open(journal, "r+b") as file:
                file.truncate(len(complete))


def pruner(evaluations: int) -> BasePruner:
    """Return the rule that ends trials worse than the median of earlier trials at the same evaluation."""
    return MedianPruner(n_startup_trials=FIRST_TRIALS, n_warmup_steps=evaluations // WARM_UP)


def sampler(kind: str, seed: int, number: int) -> BaseSampler:
    """Return the sampler of a trial, whose random numbers depend on the seed and the number of the trial.

    A search that was stopped therefore samples the values of an uninterrupted one.
    """
    state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    if kind == "random":
        return RandomSampler(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # before Optuna 5
        return TPESampler(seed=state, constant_liar=True)


def repeated(study: optuna.Study, params: dict[str, Any], number: int) -> Any:
    """Return an earlier trial with the same values that has a value, or None."""
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    for earlier in study.get_trials(deepcopy=False, states=states):
        if earlier.number < number and earlier.params == params:
            return earlier
    return None
