"""Answers that a language model writes as text, sampled token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.errors import blaming
from drest_torch.language.model import LanguageModel
from drest_torch.language.prompts import Prompt
from drest_torch.language.text_answers import TextAnswer, read_answer


@torch.no_grad()
def text_shares(
    model: LanguageModel, prompts: Sequence[Prompt], samples: int, *, most_tokens: int, seed: int = 0
) -> tuple[Tensor, Counter[str]]:
    """Return the share [B, O] of answers that name each option, and how often each rule read an answer.

    Texts are sampled at temperature 1 from the whole distribution, until they end or have ``most_tokens`` tokens.
    """
    rules: Counter[str] = Counter()
    rows = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for prompt in prompts:
            labels = [option.label for option in prompt.options]
            answers = [read_answer(text, labels) for text in _texts(model, prompt, samples, most_tokens)]
            rules.update(answer.rule for answer in answers)
            rows.append(_shares(answers, len(labels)))
    return pad_sequence(rows, batch_first=True), rules


def _shares(answers: Sequence[TextAnswer], options: int) -> Tensor:
    """Return the share of answers that name each option."""
    counts = Counter(answer.option for answer in answers)
    shares = [counts[place] / len(answers) for place in range(options)]
    return torch.tensor(shares, dtype=torch.float64)


def _texts(model: LanguageModel, prompt: Prompt, samples: int, most_tokens: int) -> list[str]:
    """Return sampled answers to a prompt."""
    tokenizer = model.tokenizer
    encoded = tokenizer([model.text(prompt)], add_special_tokens=not model.chats, return_tensors="pt")
    head = encoded["input_ids"].to(model.model.device)
    with blaming("the model"):
        ids = model.model.generate(
            input_ids=head,
            attention_mask=torch.ones_like(head),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=most_tokens,
            num_return_sequences=samples,
            pad_token_id=tokenizer.pad_token_id,
        )
    texts: list[str] = tokenizer.batch_decode(ids[:, head.shape[1] :], skip_special_tokens=True)
    return texts


def summary_of(rules: Counter[str]) -> str:
    """Return a sentence on the rules that read the answers."""
    total = rules.total()
    parts = [f"{rule} {count / total:.1%}" for rule, count in rules.most_common()]
    return f"Answers were read by these rules: {', '.join(parts)}."
