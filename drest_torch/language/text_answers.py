r"""The option that an answer in text names, by staged rules.

The first stage with a match decides; within a stage the last match does. A match with two labels is no answer.

1. boxed: ``\boxed{C}``
2. tag: ``<answer>B</answer>``
3. marked: ``Answer: B``, ``The answer is B.``, ``My final decision would be option B``
4. statement: ``I choose B``, ``B is the best option``
5. line: a label alone in its line, as in ``**B**``, ``Option B`` or ``So, B.``
6. start: a text that begins with a label and a mark, as in ``B) a tour; score 3``, and has no other label

Reasoning may precede an answer; the text between ``<think>`` and ``</think>`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drest_torch.language import answer_words as words

RULES = ("boxed", "tag", "marked", "statement", "line", "start")
"""The rules that find an answer, in order."""
NO_ANSWER = ("empty", "unfinished", "two labels", "no label")
"""The reasons why an answer names no option."""
CONTEXT = 300
"""The characters around a label in which its sentence is searched."""


def _any(expressions: Iterable[str]) -> str:
    """Return the regular expression of any of these expressions."""
    return f"(?:{'|'.join(expressions)})"


_TEXTS = re.compile(r"\\text(?:bf|it)?\s?\{([^{}]*)\}")
_EMPHASIS = re.compile(r"[*`$\"“”]|(?<!\w)_+|_+(?!\w)")
_NEWLINES = re.compile(r"\s*\n\s*")
_BLANKS = re.compile(r"[^\S\n]+")
_BOXES = re.compile(r"\\boxed ?\{([^{}]*)\}")
_TAGS = re.compile(r"<(answer|final_answer|choice|decision|option)>([^<]*)</\1>", re.IGNORECASE)
_OPEN = r"[\s(\['‘{]{0,3}"
_CLOSE = r"[)\]'’}]{0,3}"
_NOUN = _any(words.NOUNS)
_VERB = _any(words.VERBS)
_QUALITY = _any(words.QUALITIES)
_IS = _any(words.COPULAS)
_ADVERB = _any(words.ADVERBS)
_BEFORE_LABEL = rf"(?P<before>{_OPEN}(?i:{_any(words.KINDS)} )?{_OPEN})"
_REMARK = r"(?: \([^()\n]{0,80}\))?"
_MARK = rf"{_NOUN}{_REMARK}(?: ?[:=]| {_IS}(?: {_ADVERB}| to {_VERB})?:?)"
_INTENTION = rf"\b(?:I|[Ww]e){_any(words.INTENTIONS)}?(?: {_ADVERB})? {_VERB}"
_PROGRESS = rf"\bI(?:['’]m| am) {_any(words.PARTICIPLES)}"
_PROPOSAL = rf"\b[Ll]et['’]s {_VERB}"
_IMPERATIVE = rf"(?:^|[.!;] )(?i:{_VERB})"
_CHOICE = _any((_INTENTION, _PROGRESS, _PROPOSAL, _IMPERATIVE))
_VERDICT = rf"(?i: it is\b| {_IS} (?:my|the) (?:{_QUALITY} ){{0,3}}{_NOUN}\b)"
_BEFORE_LINE = rf"[-–—>#•→ ]{{0,4}}(?i:{_any(words.LEADS)}\b[ ,:]{{0,2}})?"
_AND = r"[)\]}' ]{0,3}(?P<and>,? ?\b(?i:or|and|nor)\b|[,/&|])"
"""A word or mark that adds a label to another."""
_AFTER = re.compile(rf"\s{_any(words.REASONS)}\b|\s{_IS} (?:my|the)\b|\sit is\b|{_AND}", re.IGNORECASE)
_DENIED = re.compile(rf"\b{_any(words.DENIALS)}\b", re.IGNORECASE)
_SUPPOSED = re.compile(rf"\b{_any(words.SUPPOSITIONS)}\b", re.IGNORECASE)
_QUALIFIERS = re.compile(_any((*words.QUALITIES, *words.DETERMINERS)), re.IGNORECASE)

Match = re.Match[str]


@dataclass(frozen=True)
class TextAnswer:
    """The option that a text names, and the rule that decided."""

    option: int | None
    """The index of the option; None if the text names no option."""
    rule: str
    """One of `RULES`, or of `NO_ANSWER`."""


def read_answer(completion: Any, labels: Sequence[str]) -> TextAnswer:
    """Return the option that a completion names: a text, a list of messages, or None."""
    text = text_of(completion)
    if not text.strip():
        return TextAnswer(None, "empty")
    *_, text = re.split(r"</think(?:ing)?>", text)
    if re.search(r"<think(?:ing)?>", text):
        return TextAnswer(None, "unfinished")
    rules = _rules_of(tuple(labels))
    plain = _plain(text)
    for rule in RULES:
        options = rules.options(rule, plain)
        if len(options) > 1:
            return TextAnswer(None, "two labels")
        if options:
            return TextAnswer(options.pop(), rule)
    return TextAnswer(None, "no label")


def text_of(completion: Any) -> str:
    """Return the text of a completion: a text, a message, a list of messages or of parts, or None.

    Of messages it is the last by the assistant; of parts, all that are text.
    """
    if completion is None:
        return ""
    if isinstance(completion, Mapping):
        return text_of(completion.get("content", completion.get("text")))
    if isinstance(completion, str) or not isinstance(completion, Sequence):
        return str(completion)
    messages = [message for message in completion if isinstance(message, Mapping) and "role" in message]
    if messages:
        by_assistant = [message for message in messages if message["role"] == "assistant"]
        last = (by_assistant or messages)[-1]
        return text_of(last.get("content"))
    return "".join(map(_text_of_part, completion))


def _text_of_part(part: Any) -> str:
    """Return the text of a part of a message; reasoning, images and calls of tools have none."""
    if isinstance(part, Mapping) and part.get("type", "text") != "text":
        return ""
    return text_of(part)


def _plain(text: str) -> str:
    """Return a text without emphasis, quotation marks, repeated blanks and empty lines."""
    text = _EMPHASIS.sub("", _TEXTS.sub(r"\1", text))
    return _BLANKS.sub(" ", _NEWLINES.sub("\n", text)).strip()


@lru_cache(maxsize=256)
def _rules_of(labels: tuple[str, ...]) -> _Rules:
    return _Rules(labels)


class _Rules:
    """The rules for the labels of a prompt, as regular expressions.

    The case of a label is ignored, unless another label differs only in its case.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.index_of = {_plain(label) or label: index for index, label in enumerate(labels)}
        self.index_of_folded = {label.casefold(): index for label, index in self.index_of.items()}
        self.numbers = all(label.isdigit() for label in self.index_of)
        longest_first = sorted(self.index_of, key=len, reverse=True)
        choices = "|".join(map(self._pattern, longest_first))
        label = rf"(?<!\w)(?<!\d[.:,])(?:{choices})(?!\w)(?![.:,]\d)"
        named = rf"{_BEFORE_LABEL}(?P<label>{label})"
        qualifier = r"(?P<qualifier>\b[\w'’-]{1,20} )?"
        self.label = re.compile(label)
        self.another = re.compile(rf"{_AND}{named}")
        self.marked = re.compile(rf"(?i:{qualifier}\b{_MARK}){named}")
        self.choice = re.compile(rf"{_CHOICE}\b:? (?:the )?{named}", re.MULTILINE)
        self.verdict = re.compile(rf"{named}{_CLOSE}{_VERDICT}")
        self.line = re.compile(rf"{_BEFORE_LINE}{named}(?P<rest>[\s\W]*)")
        self.start = re.compile(rf"{named}(?:{_CLOSE} ?[).:,;\]]|{_CLOSE} ?[-–—] )")

    def _pattern(self, label: str) -> str:
        """Return the regular expression of a label."""
        alike = [other for other in self.index_of if other.casefold() == label.casefold()]
        case = "i" if len(alike) == 1 else "-i"
        return f"(?{case}:{re.escape(label)})"

    def options(self, rule: str, text: str) -> set[int]:
        """Return the options that a text names by a rule: none, the answer, or two that make it ambiguous."""
        if rule == "boxed":
            return self._of_contents(_BOXES.findall(text))
        if rule == "tag":
            return self._of_contents([content for _, content in _TAGS.findall(text)])
        if rule == "marked":
            matches = [match for match in self.marked.finditer(text) if _qualifies(match)]
            return self._of_last(text, matches)
        if rule == "statement":
            matches = [*self.choice.finditer(text), *self.verdict.finditer(text)]
            return self._of_last(text, sorted(matches, key=Match.start))
        if rule == "line":
            return self._of_lines(text.splitlines())
        return self._of_start(text)

    def _of_contents(self, contents: Iterable[str]) -> set[int]:
        """Return the options of the last box or tag that names any."""
        for content in reversed(list(contents)):
            match = self.line.match(content)
            if match is not None and _ends(content, match):
                return self._with_others(content, match)
        return set()

    def _of_last(self, text: str, matches: Sequence[Match]) -> set[int]:
        """Return the options of the last match that asserts its label."""
        for match in reversed(matches):
            if _asserts(text, match):
                return self._with_others(text, match)
        return set()

    def _of_lines(self, lines: Iterable[str]) -> set[int]:
        """Return the options that are alone in a line."""
        options = set()
        for line in lines:
            match = self.line.fullmatch(line)
            if match is not None and "?" not in match["rest"]:
                options.add(self._option(match["label"]))
        return options

    def _of_start(self, text: str) -> set[int]:
        """Return the option at the start of a text, and all others in it."""
        match = self.start.match(text)
        if match is None or (self.numbers and "\n" in text):  # a numbered list
            return set()
        options = {self._option(match["label"])}
        for other in self.label.finditer(text, match.end()):
            if not _is_article(text, other):
                options.add(self._option(other.group()))
        return options

    def _with_others(self, text: str, match: Match) -> set[int]:
        """Return the option of a match, and those that the text adds to it, as in ``A or B``."""
        options = {self._option(match["label"])}
        another = self.another.match(text, match.end("label"))
        while another is not None and _is_added(text, another):
            options.add(self._option(another["label"]))
            another = self.another.match(text, another.end("label"))
        return options

    def _option(self, label: str) -> int:
        if label in self.index_of:
            return self.index_of[label]
        return self.index_of_folded[label.casefold()]


def _qualifies(match: Match) -> bool:
    """Return whether the word before "answer is" leaves it an answer; "the worst option is" does not."""
    qualifier = match["qualifier"]
    return qualifier is None or _QUALIFIERS.fullmatch(qualifier.strip()) is not None


def _asserts(text: str, match: Match) -> bool:
    """Return whether the sentence of a match asserts its label: neither denies, nor supposes, nor asks."""
    start, end = match.span("label")
    before = re.split(r"[.!?\n]\s", text[max(0, start - CONTEXT) : start])[-1]
    after = re.split(r"[.!?\n]\s", text[end : end + CONTEXT])[0]
    clause = re.split(r"[,;]|\bbut\b", before)[-1]
    if _DENIED.search(clause) or _SUPPOSED.search(before) or re.search(r"\b(?:if|unless)\b", after):
        return False
    return _ends(text, match)


def _ends(text: str, match: Match) -> bool:
    """Return whether a label stands for itself after a match, and does not begin a phrase: "the answer is a list"."""
    end = match.end("label")
    rest = re.sub(rf"^{_CLOSE}", "", text[end : end + CONTEXT])
    if rest.startswith("?"):
        return False
    if "\n" in match["before"]:  # on a line below its mark, it has to be alone
        return re.match(r"[^\w\n]*(?:\n|$)", rest) is not None
    label = match["label"]
    is_letter = len(label) == 1 and label.isupper() and label not in "AI"
    continues = re.match(r" \w", rest) is not None
    return is_letter or not continues or _AFTER.match(rest) is not None


def _is_added(text: str, match: Match) -> bool:
    """Return whether a label is added to another, and is not the start of a clause: "B, C is worse"."""
    rest = text[match.end("label") :][:CONTEXT]
    begins_clause = match["and"] == "," and re.match(r" (?!and\b|or\b)\w", rest) is not None
    return not begins_clause and not _is_article(text, match)


def _is_article(text: str, match: Match) -> bool:
    """Return whether a label is the article of the following word, or the pronoun I."""
    label = match.group().split()[-1]
    return label in ("A", "a", "I") and re.match(r"\s\w", text[match.end() :][:2]) is not None
