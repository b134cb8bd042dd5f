"""The results of a search: a table of the best trials, and a file with all of them."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Sequence

from optuna.trial import FrozenTrial, TrialState
from rich import box
from rich.table import Table

from drest_torch.files import write_text
from drest_torch.searching.driver import Search
from drest_torch.tracking.console import console_for

TRIALS = "trials.csv"
"""The file in the folder of a search with a line for each trial."""
MOST_ROWS = 10
"""Trials in the table."""
PLACES = {"selection": "selection levels", "train": "training levels", "test": "mini-episodes during training"}
"""Names of the splits that compare trials."""
STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


def ranked(search: Search) -> list[FrozenTrial]:
    """Return the complete trials, the best first, each combination of values once."""
    complete = [trial for trial in search.trials if trial.state is TrialState.COMPLETE]
    trained = [trial for trial in complete if "repeats" not in trial.user_attrs]
    return sorted(trained, key=lambda trial: (-(trial.value or 0.0), trial.number))


def print_ranking(search: Search) -> None:
    """Print the number of trials by state, the reasons of failures, and the best trials."""
    trials = ranked(search)
    if trials:
        console_for(sys.stdout).print(_table(search, trials[:MOST_ROWS]))
    states = Counter(trial.state for trial in search.trials)
    numbers = [f"{states[state]} {name}" for state, name in STATES.items() if states[state]]
    again = sum("repeats" in trial.user_attrs for trial in search.trials)
    if again:
        numbers.append(f"{again} with the values of earlier ones, not trained again")
    print(f"{len(search.trials)} trials: {', '.join(numbers)}")
    reasons = Counter(trial.user_attrs.get("reason") for trial in search.trials if trial.state is TrialState.FAIL)
    for reason, count in reasons.most_common(3):
        print(f"  failed ({count}): {reason}")


def _table(search: Search, trials: Sequence[FrozenTrial]) -> Table:
    splits = {str(trial.user_attrs["split"]) for trial in trials}
    metric = search.plan.settings.metric
    caption = f"{metric}, usefulness and neutrality (bits) on {' and '.join(PLACES[split] for split in sorted(splits))}"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold", caption=caption, caption_justify="left")
    table.add_column("trial", justify="right", no_wrap=True)
    for name in (metric, "usefulness", "neutrality"):
        table.add_column(name, style="bold", no_wrap=True)
    for dimension in search.plan.space:
        table.add_column(dimension.key, overflow="fold")
    for trial in trials:
        numbers = [trial.value or 0.0, trial.user_attrs["usefulness"], trial.user_attrs["neutrality"]]
        values = [_short(trial.params[dimension.key]) for dimension in search.plan.space]
        table.add_row(f"{trial.number}", *(f"{number:.3f}" for number in numbers), *values)
    return table


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def write_trials(search: Search) -> None:
    """Write a line for each trial: its state, its value, its measures, and its values of the space."""
    keys = [dimension.key for dimension in search.plan.space]
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["trial", "state", search.plan.settings.metric, "usefulness", "neutrality_bits", "steps", *keys])
    for trial in search.trials:
        measures = [trial.user_attrs.get(name, "") for name in ("usefulness", "neutrality", "steps")]
        value = "" if trial.value is None else trial.value
        state = STATES.get(trial.state, "stopped")
        lines.writerow([trial.number, state, value, *measures, *(trial.params.get(key, "") for key in keys)])
    write_text(search.folder / TRIALS, file.getvalue())
