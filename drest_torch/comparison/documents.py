"""Tables of runs for documents, in LaTeX or Markdown: a row for each configuration, run or pair of configurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drest_torch.comparison.aggregation import MEAN_OVER_SEEDS, Aggregated, Aggregation, aggregated, improvements
from drest_torch.comparison.configurations import (
    configurations,
    has_score,
    labels,
    score_of,
    splits_of,
    title_of_places,
)
from drest_torch.comparison.records import MEASURES, RunRecord, title_of_split
from drest_torch.errors import UserError, printable

MISSING = "–"
_SPACE = r"\;["
_TITLES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "×": r"$\times$",
    "λ": r"$\lambda$",
    "γ": r"$\gamma$",
    "ε": r"$\varepsilon$",
    "β": r"$\beta$",
    "α": r"$\alpha$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "→": r"$\to$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
"""LaTeX for characters that it would read otherwise, or not at all."""
Score = Aggregated | float | None
"""A cell: an aggregate with its interval, a number, or nothing."""


@dataclass(frozen=True)
class Document:
    """A table with a group of columns for each split."""

    names: Sequence[str]
    """Titles of the first columns, which hold text."""
    splits: Sequence[str]
    """Titles of the groups, each with a column for each of `MEASURES`."""
    texts: Sequence[Sequence[str]]
    """The text cells of each row."""
    scores: Sequence[Sequence[Score]]
    """The scores of each row, by split and measure."""
    notes: Sequence[str]


def document(
    runs: Sequence[RunRecord], table: str, choice: Aggregation = MEAN_OVER_SEEDS, across: str | None = None
) -> Document:
    """Return a table of runs for a document."""
    if table == "levels":
        raise UserError("table=levels has a row for each value of a level; expected out=FILE with .csv or .json")
    if table == "runs":
        return _of_runs(runs)
    if table == "improvement":
        return _of_improvement(runs, choice, across)
    return _of_configurations(runs, choice, across)


def _of_configurations(runs: Sequence[RunRecord], choice: Aggregation, across: str | None) -> Document:
    compared = configurations(runs, across)
    splits = splits_of(runs)
    texts = []
    scores: list[list[Score]] = []
    for label, configuration in zip(labels(compared), compared, strict=True):
        steps = [run.steps for run in configuration.runs if not run.training]
        texts.append([label, _range(steps)])
        scores.append([aggregated(configuration, split, measure, choice) for split, measure in _columns(splits)])
    note = choice.words(is_pooled=across is not None)
    return Document(["configuration", "environment steps"], _split_titles(splits, runs), texts, scores, [note])


def _of_runs(runs: Sequence[RunRecord]) -> Document:
    splits = splits_of(runs)
    names = ["run", "algorithm", title_of_places(runs), "seed", "environment steps"]
    texts = []
    scores: list[list[Score]] = []
    for run in runs:
        steps = [] if run.training else [run.steps]
        texts.append([run.folder.name, run.value("algo.name"), run.place, run.value("seed"), _range(steps)])
        scores.append([_number(run, split, measure) for split, measure in _columns(splits)])
    notes = [] if all(run.summary for run in runs) else ["runs that are not finished have their latest evaluation"]
    return Document(names, _split_titles(splits, runs), texts, scores, notes)


def _of_improvement(runs: Sequence[RunRecord], choice: Aggregation, across: str | None) -> Document:
    splits = splits_of(runs)
    pairs: dict[tuple[str, str], dict[tuple[str, str], Aggregated]] = {}
    for (first, second, split, measure), score in improvements(configurations(runs, across), choice):
        pairs.setdefault((first, second), {})[split, measure] = score
    scores = [[by_column.get(column) for column in _columns(splits)] for by_column in pairs.values()]
    over = "seeds" if choice.over == "seeds" else "seeds and levels"
    note = (
        "probability that a seed of the first has a higher score than a seed of the second, as a mean over levels "
        f"(95 % bootstrap interval over {over})"
    )
    return Document(["configuration", "compared with"], _split_titles(splits, runs), list(pairs), scores, [note])


def _columns(splits: Sequence[str]) -> list[tuple[str, str]]:
    return [(split, measure) for split in splits for measure in MEASURES]


def _split_titles(splits: Sequence[str], runs: Sequence[RunRecord]) -> list[str]:
    return [title_of_split(split, runs) for split in splits]


def _number(run: RunRecord, split: str, measure: str) -> float | None:
    return score_of(run, split, measure) if has_score(run, split, measure) else None


def _range(numbers: Sequence[int]) -> str:
    """Return ``401,000`` or ``409,000–412,000``."""
    if not numbers:
        return MISSING
    ends = dict.fromkeys((min(numbers), max(numbers)))
    return "–".join(f"{end:,}" for end in ends)


def _cell(score: Score) -> str:
    """Return ``0.874 [0.851, 0.897]``, or the number alone where there is no interval."""
    if score is None:
        return MISSING
    if not isinstance(score, Aggregated):
        return _digits(score)
    if not score.has_interval:
        return _digits(score.estimate)
    return f"{_digits(score.estimate)} [{_digits(score.low)}, {_digits(score.high)}]"


def _digits(number: float) -> str:
    return f"{round(number, 3) + 0.0:.3f}"  # + 0.0: no minus before a zero


# ---------------------------------------------------------------------------------------------- formats


def to_latex(table: Document) -> str:
    """Return a table as a ``tabular`` of the package booktabs, with notes as comments."""
    width = len(MEASURES)
    names = len(table.names)
    lines = [r"% needs \usepackage{booktabs}", *(f"% {_line(note)}" for note in table.notes)]
    lines.append(rf"\begin{{tabular}}{{{'l' * names}{'r' * (width * len(table.splits))}}}")
    lines.append(r"\toprule")
    groups = [rf"\multicolumn{{{width}}}{{c}}{{{latex_text(split)}}}" for split in table.splits]
    lines.append(_latex_row([*[""] * names, *groups]))
    starts = [names + 1 + width * index for index in range(len(table.splits))]
    lines.append(" ".join(rf"\cmidrule(lr){{{start}-{start + width - 1}}}" for start in starts))
    heads = [_TITLES[measure] for measure in MEASURES] * len(table.splits)
    lines.append(_latex_row([latex_text(head) for head in (*table.names, *heads)]))
    lines.append(r"\midrule")
    for texts, scores in zip(table.texts, table.scores, strict=True):
        cells = [_latex_number(_cell(score)) for score in scores]
        lines.append(_latex_row([*map(latex_text, texts), *cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def to_markdown(table: Document) -> str:
    """Return a table in Markdown, with notes below it."""
    from drest_torch.report.markdown import literal  # with a parser of Markdown, which takes time

    heads = [f"{_TITLES[measure]}, {literal(split)}" for split in table.splits for measure in MEASURES]
    rules = ["---"] * len(table.names) + ["---:"] * len(heads)
    rows = [[*table.names, *heads], rules]
    for texts, scores in zip(table.texts, table.scores, strict=True):
        rows.append([*(literal(_line(text)) for text in texts), *map(_cell, scores)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    for note in table.notes:
        lines += ["", _line(note)]
    return "\n".join([*lines, ""])


FORMATS: dict[str, Callable[[Document], str]] = {".tex": to_latex, ".md": to_markdown}


def latex_text(text: str) -> str:
    """Return a text for LaTeX, with all characters escaped that it would read as commands."""
    return "".join(_LATEX.get(character, character) for character in _line(text))


def _line(text: str) -> str:
    """Return a text in one line without control characters."""
    return printable(" ".join(text.split()))


def _latex_number(cell: str) -> str:
    """Return a number with its interval in LaTeX's mathematics, where a minus is not a hyphen."""
    if cell == MISSING:
        return "--"
    return f"${cell.replace(' [', _SPACE)}$"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
