"""The result of checking an environment, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from drest_torch.errors import UserError, blaming

MOST_CHARACTERS = 300
"""Maximum length of a quoted error message."""


class LengthPlayed(NamedTuple):
    """Statistics of one length in random play."""

    length: int
    """Steps until shutdown with a timer, or the index of the length."""
    played: int
    """Mini-episodes of this length."""
    best: float
    """The current m(l): the environment's own, or the largest return above the floor."""
    mean: float
    """Mean return above the floor."""


@dataclass
class EnvironmentCheck:
    """The result of checking an environment: lengths, facts and problems."""

    title: str
    lengths: list[LengthPlayed] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """One sentence for each problem."""

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def add_problem(self, sentence: str) -> None:
        """Add a problem, unless it is in the list already."""
        sentence = " ".join(sentence.split())
        if sentence not in self.problems:
            self.problems.append(sentence)

    @contextmanager
    def collect_errors(self, name: str) -> Iterator[None]:
        """Catch errors of the environment ``name`` or of TorchRL, and add them as problems."""
        try:
            with blaming(name, wholly=False):
                yield
        except UserError as error:
            self.add_problem(str(error))
        except (AssertionError, RuntimeError, LookupError, TypeError, ValueError) as error:  # TorchRL's own
            text = " ".join(str(error).split())
            if len(text) > MOST_CHARACTERS:
                text = f"{text[:MOST_CHARACTERS]} …"
            self.add_problem(f"TorchRL says: {text}")

    def __str__(self) -> str:
        facts = [f"{name:12} {text}" for name, text in self.facts.items()]
        lines = [self.title, *self._table(), "", *facts, ""]
        count = len(self.problems)
        if count == 0:
            lines.append("No problems found.")
        elif count == 1:
            lines.append("1 problem found:")
        else:
            lines.append(f"{count} problems found:")
        lines += [f"- {problem}" for problem in self.problems]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        if not self.lengths:
            return []
        total = sum(row.played for row in self.lengths) or 1
        lines = ["", f"{'length':>8} {'share':>7} {'m':>10} {'mean return':>12}"]
        for row in self.lengths:
            best, mean = "–", "–"
            if row.played:
                best, mean = f"{row.best:.4g}", f"{row.mean:.4g}"
            share = row.played / total
            lines.append(f"{row.length:8} {share:7.3f} {best:>10} {mean:>12}")
        return lines
