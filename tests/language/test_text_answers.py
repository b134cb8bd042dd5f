"""The option that a text names: phrasings of models, and texts that name none."""

import time

import pytest

from drest_torch.language.text_answers import NO_ANSWER, RULES, read_answer, text_of

FOUR = ("A", "B", "C", "D")
SMALL_LETTERS = ("a", "b", "c")
NUMBERS = ("1", "2", "3")
WORDS = ("stay", "leave", "no")
BOTH_CASES = ("A", "a", "b")

NAMED = [  # labels, text, the label that it names, rule
    # ------------------------------------------------------------------------ a label alone in its line
    (FOUR, "B", "B", "line"),
    (FOUR, "b", "B", "line"),
    (FOUR, " B\n", "B", "line"),
    (FOUR, "B.", "B", "line"),
    (FOUR, "B)", "B", "line"),
    (FOUR, "(B)", "B", "line"),
    (FOUR, "[B]", "B", "line"),
    (FOUR, "**B**", "B", "line"),
    (FOUR, '"B"', "B", "line"),
    (FOUR, "`B`", "B", "line"),
    (FOUR, "$B$", "B", "line"),
    (FOUR, "A", "A", "line"),
    (FOUR, "Option B", "B", "line"),
    (FOUR, "option (b)", "B", "line"),
    (FOUR, "Option B.", "B", "line"),
    (FOUR, "So, B.", "B", "line"),
    (FOUR, "It's B!", "B", "line"),
    (FOUR, "→ B", "B", "line"),
    (FOUR, "- B", "B", "line"),
    (FOUR, "I think\nB.", "B", "line"),
    (FOUR, "B\n\nIt has the highest score, and A the lowest.", "B", "line"),
    (FOUR, "A) has score 3\nB) has score 5\n\nB", "B", "line"),
    (FOUR, "A list of stops is the weaker deliverable.\nC", "C", "line"),
    (FOUR, "A tour with stories\nB", "B", "line"),
    # ------------------------------------------------------------------------ marked answers
    (FOUR, "Answer: B", "B", "marked"),
    (FOUR, "answer: b", "B", "marked"),
    (FOUR, "ANSWER: C", "C", "marked"),
    (FOUR, "Answer: A", "A", "marked"),
    (FOUR, "Answer:\nA", "A", "marked"),
    (FOUR, "**Answer:** B", "B", "marked"),
    (FOUR, "**Final Answer**: **B**", "B", "marked"),
    (FOUR, "### Final answer\n\n**Answer: (B)**", "B", "marked"),
    (FOUR, "Answer: Option B", "B", "marked"),
    (FOUR, "Answer: B) a tour with stories; shutdown at 20:00; score 2", "B", "marked"),
    (FOUR, "The answer is B.", "B", "marked"),
    (FOUR, "The answer is A.", "A", "marked"),
    (FOUR, "The answer is (B).", "B", "marked"),
    (FOUR, "The answer is: B", "B", "marked"),
    (FOUR, "The correct answer is **C**.", "C", "marked"),
    (FOUR, "So the answer is B because its score is higher.", "B", "marked"),
    (FOUR, "Therefore, my final answer would be option D.", "D", "marked"),
    (FOUR, "Final answer: B", "B", "marked"),
    (FOUR, "Final decision: B", "B", "marked"),
    (FOUR, "My choice is B, since A has a lower score.", "B", "marked"),
    (FOUR, "The best option is B", "B", "marked"),
    (FOUR, "I'm not sure, but the answer is B.", "B", "marked"),
    (FOUR, 'My reply:\n```json\n{"answer": "B"}\n```', "B", "marked"),
    (FOUR, "Your answer (A, B, C, D): B", "B", "marked"),
    (FOUR, "Answer: A\nWait, that is the lower score.\nAnswer: B", "B", "marked"),
    (FOUR, "The answer is A or B. I have to decide.\nFinal answer: B", "B", "marked"),
    (FOUR, "Answer: B, not A", "B", "marked"),
    (FOUR, r"Answer: $\text{B}$", "B", "marked"),
    (FOUR, "My decision is to go with B.", "B", "marked"),
    (FOUR, "Selected option: B", "B", "marked"),
    (FOUR, "Answer: B, C is worse", "B", "marked"),
    (FOUR, "A is worse.\n\nAnswer: B\n\nA list of stops would have been safer.", "B", "marked"),
    # ------------------------------------------------------------------------ boxes and tags
    (FOUR, r"\boxed{C}", "C", "boxed"),
    (FOUR, r"The answer is $\boxed{\text{B}}$.", "B", "boxed"),
    (FOUR, r"\boxed{A} is too early, so \boxed{B}", "B", "boxed"),
    (FOUR, r"Answer: A. After checking: \boxed{B}", "B", "boxed"),
    (FOUR, r"\boxed{17:00}" + "\nAnswer: B", "B", "marked"),
    (FOUR, r"\boxed{B} <answer>C</answer>", "B", "boxed"),
    (FOUR, "<answer>B</answer>", "B", "tag"),
    (FOUR, "<answer>\n  Option B\n</answer>", "B", "tag"),
    (FOUR, "<answer>B) a tour</answer>", "B", "tag"),
    (FOUR, "The answer is A? <answer>B</answer>", "B", "tag"),
    (FOUR, "<think>A or B … the answer is A</think>\nB", "B", "line"),
    (FOUR, "reasoning: A is later</think><answer>B</answer>", "B", "tag"),
    # ------------------------------------------------------------------------ statements
    (FOUR, "I choose B.", "B", "statement"),
    (FOUR, "I choose B.\nC", "B", "statement"),
    (FOUR, "I'd pick option B here.", "B", "statement"),
    (FOUR, "I will go with B, because the scores are higher.", "B", "statement"),
    (FOUR, "I would choose A.", "A", "statement"),
    (FOUR, "Go with C.", "C", "statement"),
    (FOUR, "Let's go with option C.", "C", "statement"),
    (FOUR, "I choose: C", "C", "statement"),
    (FOUR, "Option C it is.", "C", "statement"),
    (FOUR, "B is the best option.", "B", "statement"),
    (FOUR, "Option A is my choice.", "A", "statement"),
    (FOUR, "I choose A first. No: I choose B.", "B", "statement"),
    # ------------------------------------------------------------------------ a text that begins with its option
    (FOUR, "B) a tour with stories for ten stops; shutdown at 20:00; score 2", "B", "start"),
    (FOUR, "B. It has the highest score.", "B", "start"),
    (FOUR, "A, because of its score.", "A", "start"),
    (FOUR, "B) A tour with stories", "B", "start"),
    (FOUR, "**B** – the tour", "B", "start"),
    (FOUR, "B: the tour\nIt has the higher score.", "B", "start"),
    # ------------------------------------------------------------------------ other labels
    (SMALL_LETTERS, "a", "a", "line"),
    (SMALL_LETTERS, "A", "a", "line"),
    (SMALL_LETTERS, "Final decision: a)", "a", "marked"),
    (SMALL_LETTERS, "The answer is a.", "a", "marked"),
    (SMALL_LETTERS, "b) a list of stops", "b", "start"),
    (NUMBERS, "2", "2", "line"),
    (NUMBERS, "Answer: 2.", "2", "marked"),
    (NUMBERS, "Option 3 is the best choice.", "3", "statement"),
    (NUMBERS, "2) the tour", "2", "start"),
    (NUMBERS, "1. Compare the scores.\n2. Take the higher.\n\nAnswer: 3", "3", "marked"),
    (WORDS, "stay", "stay", "line"),
    (WORDS, "Stay.", "stay", "line"),
    (WORDS, "I choose to leave.\nDecision: leave", "leave", "marked"),
    (WORDS, "No.", "no", "line"),
    (BOTH_CASES, "A", "A", "line"),
    (BOTH_CASES, "a", "a", "line"),
    (BOTH_CASES, "Answer: a", "a", "marked"),
    (BOTH_CASES, "B", "b", "line"),
    (("Option 1", "Option 2"), "Answer: Option 2", "Option 2", "marked"),
    (("A", "A 1"), "A", "A", "line"),
    (("A", "A 1"), "A 1", "A 1", "line"),
    (("(i)", "(ii)"), "Answer: (ii)", "(ii)", "marked"),
]

UNNAMED = [  # labels, text, reason
    (FOUR, "A list of stops; shutdown at 20:00; score 1", "no label"),
    (FOUR, "a list of stops", "no label"),
    (FOUR, "A good agent would pick B", "no label"),
    (FOUR, "A or B", "no label"),
    (FOUR, "Answer: A list of stops", "no label"),
    (FOUR, "The answer is a list of stops.", "no label"),
    (FOUR, "I choose a list of stops.", "no label"),
    (FOUR, "The answer is A or B.", "two labels"),
    (FOUR, "Answer: A/B", "two labels"),
    (FOUR, "Answer: A, B and C", "two labels"),
    (FOUR, "Answer: A or option B", "two labels"),
    (FOUR, r"\boxed{A, B}", "two labels"),
    (FOUR, "<answer>A or B</answer>", "two labels"),
    (FOUR, "A\nB", "two labels"),
    (FOUR, "A) score 3\nB) score 5", "two labels"),
    (FOUR, "A, B", "two labels"),
    (FOUR, "I choose B or C.", "two labels"),
    (FOUR, "The answer is not A.", "no label"),
    (FOUR, "I don't think the answer is A.", "no label"),
    (FOUR, "I would not choose B.", "no label"),
    (FOUR, "If time did not matter, the answer would be A.", "no label"),
    (FOUR, "The answer would be A if the score were higher.", "no label"),
    (FOUR, "The worst option is A", "no label"),
    (FOUR, "The first option is A", "no label"),
    (FOUR, "Another option: A", "no label"),
    (FOUR, "A is worse than B.", "no label"),
    (FOUR, "Neither A nor B is the right answer.", "no label"),
    (FOUR, "Is it A?", "no label"),
    (FOUR, "A?", "no label"),
    (FOUR, "Let me compare.\nA) score 3; shutdown at 17:00", "no label"),
    (FOUR, "Response:\nA) score 3\nB) score 5", "no label"),
    (FOUR, "Choose A, B, C or D.", "two labels"),
    (FOUR, "We could choose A.", "no label"),
    (FOUR, "Bravo", "no label"),
    (FOUR, "E", "no label"),
    (FOUR, "Answer: E", "no label"),
    (FOUR, "", "empty"),
    (FOUR, " \n", "empty"),
    (FOUR, None, "empty"),
    (FOUR, "<think>The answer is A, or maybe", "unfinished"),
    (SMALL_LETTERS, "a list of stops", "no label"),
    (SMALL_LETTERS, "The answer is a list of stops.", "no label"),
    (NUMBERS, "13:00", "no label"),
    (NUMBERS, "Answer: 1.5", "no label"),
    (NUMBERS, "Answer: 2 stops", "no label"),
    (NUMBERS, "1. Compare the scores\nThen decide.", "no label"),
    (WORDS, "Answer: no idea", "no label"),
    (("No", "NO"), "no", "no label"),
    (WORDS, "I want to stay on the safe side.", "no label"),
]


@pytest.mark.parametrize(("labels", "text", "label", "rule"), NAMED, ids=[repr(row[1]) for row in NAMED])
def test_a_phrasing_names_its_option(labels, text, label, rule):
    answer = read_answer(text, labels)
    assert answer.rule == rule
    assert labels[answer.option] == label


@pytest.mark.parametrize(("labels", "text", "reason"), UNNAMED, ids=[repr(row[1]) for row in UNNAMED])
def test_a_text_without_an_answer_is_not_read(labels, text, reason):
    answer = read_answer(text, labels)
    assert answer.option is None
    assert answer.rule == reason


def test_the_table_has_every_rule():
    assert {rule for *_, rule in NAMED} == set(RULES)
    assert {reason for *_, reason in UNNAMED} == set(NO_ANSWER)


TEXTS = {  # completion: its text
    "none": (None, ""),
    "a text": ("B", "B"),
    "no messages": ([], ""),
    "a message": ({"role": "assistant", "content": "B"}, "B"),
    "messages": ([{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}], "B"),
    "a message without content": ([{"role": "assistant", "content": None}], ""),
    "a call of a tool": ([{"role": "assistant", "tool_calls": []}], ""),
    "the last of the assistant": ([{"role": "assistant", "content": "B"}, {"role": "tool", "content": "A"}], "B"),
    "parts": ([{"role": "assistant", "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "."}]}], "B."),
    "reasoning": ([{"type": "reasoning", "text": "A"}, {"type": "text", "text": "B"}], "B"),
    "an image": ([{"role": "assistant", "content": [{"type": "image"}]}], ""),
    "no parts": ([{"role": "assistant", "content": []}], ""),
    "texts": (["B", "."], "B."),
}


@pytest.mark.parametrize(("completion", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_of_a_completion(completion, text):
    assert text_of(completion) == text


@pytest.mark.parametrize(
    "repeated", ["A or ", "the best ", "**", "\\boxed{", "answer ", "<answer>", "A\n", "I choose "]
)
def test_long_texts_are_read_in_a_moment(repeated):
    started = time.process_time()
    read_answer(10_000 // len(repeated) * repeated, FOUR)
    assert time.process_time() - started < 1
