"""What a check finds of an environment, and how it prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from drest_torch.errors import UserError, blaming

MOST_CHARACTERS = 300
"""The most characters of an error that are printed."""


class LengthPlayed(NamedTuple):
    """What was seen of a length."""

    length: int
    """Its steps with a timer, or its index."""
    played: int
    """Mini-episodes of this length."""
    best: float
    """m as it is known now: what the environment says, or the largest return above the floor."""
    mean: float
    """The mean return above the floor."""


@dataclass
class Checked:
    """What was found of an environment."""

    title: str
    lengths: list[LengthPlayed] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """A sentence for each thing that is wrong."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def wrong(self, sentence: str) -> None:
        """Note a thing that is wrong, once."""
        sentence = " ".join(sentence.split())
        if sentence not in self.problems:
            self.problems.append(sentence)

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Note what the environment ``name``, or TorchRL with it, fails with."""
        try:
            with blaming(name, wholly=False):
                yield
        except UserError as error:
            self.wrong(str(error))
        except (AssertionError, RuntimeError, LookupError, TypeError, ValueError) as error:  # TorchRL's own
            text = " ".join(str(error).split())
            if len(text) > MOST_CHARACTERS:
                text = f"{text[:MOST_CHARACTERS]} …"
            self.wrong(f"TorchRL says: {text}")

    def __str__(self) -> str:
        facts = [f"{name:12} {text}" for name, text in self.facts.items()]
        lines = [self.title, *self._table(), "", *facts, ""]
        count = len(self.problems)
        if count == 0:
            lines.append("Nothing is wrong.")
        elif count == 1:
            lines.append("1 thing is wrong:")
        else:
            lines.append(f"{count} things are wrong:")
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
