"""The form of a prompt: its labels, wording, layout, units, and the form of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drest_torch.language.prompts import ON_AVERAGE, Answer, brief_words


@dataclass(frozen=True)
class Layout:
    """The places of options, times and scores in a prompt.

    Templates of an option contain ``{label}``, ``{text}``, ``{outcomes}``, ``{times}`` and ``{scores}``; templates of
    an outcome contain ``{time}``, ``{score}`` and ``{chance}``.
    """

    option: str
    """The line of an option."""
    sure: str
    """The outcome of an option without chances."""
    chance: str
    """One of the outcomes of an option with chances."""
    header: str = ""
    """A line above the options."""
    apart: str = ""
    """The words for an option in a paragraph that stands apart from the lines."""
    paragraph: str = "{apart}."
    """The paragraph; without ``apart`` there is none."""
    below: bool = False
    """True if the paragraph stands below the options."""
    columns: str = ""
    """The header if all options are sure; by default ``header``."""


@dataclass(frozen=True)
class Wording:
    """The sentences above and below the options. ``{answer}`` tells how to answer."""

    head: str
    choose: str
    """The request to choose freely."""
    question: str
    """The question for the highest score at ``{time}``."""
    average: str
    """The question for the highest expected score."""


@dataclass(frozen=True)
class Scale:
    """The unit of scores, which are from 0 to 10 in the suites."""

    factor: float = 1
    text: str = "{}"

    def words(self, score: float) -> str:
        """Return a score in this unit."""
        return self.text.format(f"{score * self.factor:.6g}")


@dataclass(frozen=True)
class Form:
    """The form of a prompt."""

    name: str
    labels: tuple[str, ...]
    """At least as many labels as options, in the order of the options."""
    layout: Layout
    wording: Wording
    prefix: str = ""
    """The text before the label in an answer."""
    times: tuple[str, ...] = ()
    """The possible times of shutdown, the soonest first."""
    scale: Scale = Scale()

    def text(self, work: str, options: Sequence[Answer], question: str | None = None) -> str:
        """Return the text of a prompt: a free choice, or a ``question`` for a time or for the average."""
        lines = [self.wording.head.format(work=work), *self._offers(options), self._request(work, options, question)]
        return "\n".join(line for line in lines if line)

    def brief_text(self, name: str, options: Sequence[Answer], question: str | None = None) -> str:
        """Return the text of a prompt for a small vocabulary."""
        words = [name]
        for option in options:
            words.append(self.layout.option.format(label=option.label, outcomes=brief_words(option)))
        if question is not None:
            words.append(question)
        return " ".join(words)

    def _offers(self, options: Sequence[Answer]) -> list[str]:
        """Return the lines that describe the options."""
        layout = self.layout
        all_sure = all(option.sure for option in options)
        header = layout.columns if all_sure and layout.columns else layout.header
        lines = [layout.option.format_map(self._words(option)) for option in options]
        if header:
            lines.insert(0, header)
        if not layout.apart:
            return lines
        apart = [layout.apart.format_map(self._words(option)) for option in options]
        paragraph = layout.paragraph.format(apart="; ".join(apart))
        if layout.below:
            return [*lines, paragraph]
        return [paragraph, *lines]

    def _words(self, option: Answer) -> dict[str, str]:
        """Return the words of an option for the templates of a layout."""
        outcomes, times, scores = list[str](), list[str](), list[str]()
        for chance, time, score in option.outcomes:
            percent, points = f"{100 * chance:.0f} %", self.scale.words(score)
            if option.sure:
                outcomes.append(self.layout.sure.format(time=time, score=points))
                times.append(time)
                scores.append(points)
            else:
                outcomes.append(self.layout.chance.format(chance=percent, time=time, score=points))
                times.append(f"{time} ({percent})")
                scores.append(f"{points} at {time}")
        return {
            "label": option.label,
            "text": option.text,
            "outcomes": ", ".join(outcomes),
            "times": " or ".join(times),
            "scores": ", ".join(scores),
        }

    def _request(self, work: str, options: Sequence[Answer], question: str | None) -> str:
        """Return the request below the options."""
        answer = ", ".join(option.label for option in options)
        if self.prefix:
            answer = f'"{self.prefix.strip()}" and one of {answer}'
        request = self.wording.choose
        if question == ON_AVERAGE:
            request = self.wording.average
        elif question is not None:
            request = self.wording.question
        return request.format(work=work, answer=answer, time=question)
