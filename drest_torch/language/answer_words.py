"""The words by which `drest_torch.language.text_answers` finds an answer, each a regular expression.

They are for texts without emphasis, quotation marks and repeated blanks.
"""

NOUNS = (
    "answer",
    "choice",
    "decision",
    "selection",
    "pick",
    "option",
    "response",
    "letter",
    "verdict",
    "action",
)
"""Words for an answer, as in "the answer is B"."""
KINDS = (
    "option",
    "choice",
    "answer",
    "letter",
    "plan",
    "number",
)
"""Words before a label, as in "option B"."""
VERBS = (
    "choose",
    "pick",
    "select",
    "take",
    "say",
    "go (?:with",
    "for)",
    "opt for",
    "settle on",
    "decide (?:on",
    "for)",
    "vote for",
    "answer(?: with)?",
)
"""Verbs of a choice, as in "I choose B"."""
PARTICIPLES = (
    "choosing",
    "picking",
    "selecting",
    "taking",
    "going (?:with",
    "for)",
    "opting for",
)
QUALITIES = (
    "final",
    "best",
    "correct",
    "right",
    "optimal",
    "preferred",
    "better",
    "chosen",
    "selected",
    "recommended",
    "most [a-z]+",
)
"""Adjectives that leave an answer the answer, as in "the best option is B"; "the worst option is" does not."""
DETERMINERS = (
    "my",
    "the",
    "your",
    "our",
    "a",
    "an",
    "so",
    "therefore",
    "thus",
    "hence",
    "is",
    "and",
    "but",
    "think",
    "that",
    "say",
    "conclude",
    "overall",
)
"""Other words that may precede "answer is"."""
COPULAS = (
    "is",
    "are",
    "was",
    "will be",
    "would be",
    "should be",
    "must be",
)
ADVERBS = (
    "therefore",
    "thus",
    "hence",
    "clearly",
    "definitely",
    "probably",
    "simply",
    "rather",
    "now",
    "then",
)
INTENTIONS = (
    "['’]ll",
    "['’]d",
    " will",
    " would",
    " shall",
    " should",
    " must",
    " am going to",
    " have to",
    " decide to",
)
"""Words between "I" and a verb of a choice."""
LEADS = (
    "so",
    "therefore",
    "thus",
    "hence",
    "ok",
    "okay",
    "then",
    "it['’]?s",
    "it is",
    "definitely",
    "clearly",
)
"""Words that may precede a label in its line."""
REASONS = (
    "because",
    "since",
    "as",
    "due",
    "which",
    "for",
    "given",
    "with",
    "so",
    "but",
    "and",
    "over",
    "instead",
    "rather",
    "here",
    "by",
)
"""Words that may follow a label within its sentence."""
DENIALS = (
    "not",
    "never",
    "neither",
    "cannot",
    "hardly",
    "no longer",
    r"\w+n['’]t",
)
"""Words with which a clause denies an answer."""
SUPPOSITIONS = (
    "if",
    "unless",
    "suppose",
    "supposing",
    "had",
)
"""Words with which a sentence only supposes an answer."""
