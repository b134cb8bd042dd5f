"""A language model as a policy over the options of a prompt."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.agents.checkpoints import checksum
from drest_torch.errors import ConfigError, blaming
from drest_torch.language import sharing
from drest_torch.language.model_files import pretrained
from drest_torch.language.prompts import LETTERS, ON_AVERAGE, TIMES, Answer, Prompt, brief_words, families
from drest_torch.language.token_trees import PassPlan, cost, pass_plan

READS = ("letters", "lines")
SMALL = "small"
WORTH_SHARING = 0.9
"""Equal beginnings of texts are shared if at most this share of the cost is left."""


class LanguageModel:
    """A causal model of transformers with its tokenizer.

    An option's probability is that of its label as the answer (``reads=letters``), or of its whole line (lines).
    """

    def __init__(self, model: Any, tokenizer: Any, reads: str = "letters") -> None:
        if reads not in READS:
            raise ConfigError(f"reads={reads}; expected one of {', '.join(READS)}")
        self.model = model
        self.tokenizer = tokenizer
        self.reads = reads
        self.bfloat16 = False
        self._shares: bool | None = None
        self.vocabulary = int(model.get_input_embeddings().num_embeddings)
        """The number of tokens with weights."""
        self.most_tokens = getattr(model.config, "max_position_embeddings", None) or math.inf
        """The length of the context, in tokens."""
        self.brief = len(tokenizer) < 1000
        """True if the vocabulary covers brief prompts only."""
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        """True if the tokenizer has a chat template."""
        self.unknown = getattr(tokenizer, "unk_token_id", None)
        """The token of unknown words, or None."""

    def pass_in_bfloat16(self) -> None:
        """Run forward passes in bfloat16, with weights in float32."""
        self.bfloat16 = True
        self.model.set_attn_implementation("eager")  # whose products use AMX, for short texts on a CPU

    def weights(self) -> dict[str, Tensor]:
        """Return the trained weights: all, or those of LoRA."""
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the trained weights for checkpoints; writing to these tensors restores the model."""
        return {name: value.detach() for name, value in self.weights().items()}

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Return the trained weights by name."""
        return self.weights().items()

    def text(self, prompt: Prompt) -> str:
        """Return the text before the model's answer."""
        if not self.chats:
            return "\n".join(message["content"] for message in prompt.messages)
        messages = list(prompt.messages)
        with blaming("the chat template of the model"):
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return str(text)

    def unknown_share(self, prompts: Sequence[Prompt]) -> float:
        """Return the share of the tokens of prompts that stand for unknown words."""
        if self.unknown is None:
            return 0.0
        heads = self._encode([self.text(prompt) for prompt in prompts], head=True)
        unknown = sum(head.count(self.unknown) for head in heads)
        return unknown / max(1, sum(map(len, heads)))

    def log_probabilities(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return the log-probabilities [B, O] of the options, padded with −inf."""
        texts = [self.text(prompt) for prompt in prompts]
        heads = self._encode(texts, head=True)
        tails = self._tails(prompts)
        for prompt, text, head, options in zip(prompts, texts, heads, tails, strict=True):
            self._check(prompt, text, head, options)
        plan = self._plan(prompts, heads, tails)
        if plan is not None:
            with blaming("the model"):
                rows = sharing.log_probabilities(self.model, plan, bfloat16=self.bfloat16)
        elif _have_one_token(tails):
            rows = self._by_one_token(heads, tails)
        else:
            rows = self._by_whole_tails(heads, tails)
        return pad_sequence(rows, batch_first=True, padding_value=-torch.inf).cpu()

    def log_probabilities_of_texts(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return the mean log-probability of a token [B] in the text of each prompt, after its first token."""
        heads = self._encode([self.text(prompt) for prompt in prompts], head=True)
        beginnings = [head[:1] for head in heads]
        rests = [head[1:] for head in heads]
        log_probability = self._answers(beginnings, rests)  # [B, T, V]
        means = []
        for row, rest in enumerate(rests):
            of_tokens = log_probability[row, range(len(rest)), rest]
            means.append(of_tokens.mean())
        return torch.stack(means).cpu()

    def _plan(self, prompts: Sequence[Prompt], heads: list[list[int]], tails: list[list[list[int]]]) -> PassPlan | None:
        """Return the plan of a pass that computes equal beginnings of texts once; None if it is not worth it."""
        if self.brief and _have_one_token(tails) and not _have_questions(prompts, heads):
            return None
        hidden = self.model.config.hidden_size
        lengths = [len(head) for head in heads]
        if not _have_one_token(tails):
            lengths = []
            for head, options in zip(heads, tails, strict=True):
                lengths += [len(head) + len(tail) - 1 for tail in options]
        longest = max(lengths)
        separate = cost(len(lengths), longest, longest, hidden)
        groups = [prompt.scenario for prompt in prompts]
        plan = pass_plan(heads, tails, groups, hidden)
        if plan.cost > WORTH_SHARING * separate or not self.shares:
            return None
        return plan

    @property
    def shares(self) -> bool:
        """True if the model gives the same log-probabilities where equal beginnings of texts are computed once."""
        if self._shares is None:
            self._shares = sharing.is_supported(self.model)
        return self._shares

    def _tails(self, prompts: Sequence[Prompt]) -> list[list[list[int]]]:
        """Return the tokens of each option of each prompt; equal texts are encoded once."""
        texts: dict[str, None] = {}
        for prompt in prompts:
            texts.update(dict.fromkeys(self._tail_texts(prompt)))
        tokens = dict(zip(texts, self._encode(list(texts)), strict=True))
        tails = []
        for prompt in prompts:
            tails.append([tokens[text] for text in self._tail_texts(prompt)])
        return tails

    def _tail_texts(self, prompt: Prompt) -> list[str]:
        """Return the texts of the answers that name the options."""
        texts = [f"{prompt.prefix}{self._says(option)}" for option in prompt.options]
        if self.chats:
            return texts
        return [f" {text}" for text in texts]

    def _by_one_token(self, heads: list[list[int]], tails: list[list[list[int]]]) -> list[Tensor]:
        """Return the log-probabilities of the options of each prompt [O], from one pass per prompt."""
        log_probability = self._answers(heads, [[0]] * len(heads))  # [B, 1, V]
        rows = []
        for row, options in enumerate(tails):
            first_tokens = [tail[0] for tail in options]
            rows.append(log_probability[row, 0, first_tokens])
        return rows

    def _by_whole_tails(self, heads: list[list[int]], tails: list[list[list[int]]]) -> list[Tensor]:
        """Return the log-probabilities of the options of each prompt [O], from one pass per option."""
        heads_of_tails: list[list[int]] = []
        all_tails: list[list[int]] = []
        for head, options in zip(heads, tails, strict=True):
            heads_of_tails += [head] * len(options)
            all_tails += options
        log_probability = self._answers(heads_of_tails, all_tails)  # [options of all prompts, T, V]
        sums = []
        for row, tail in enumerate(all_tails):
            of_tokens = log_probability[row, range(len(tail)), tail]
            sums.append(of_tokens.sum())
        options_of_prompts = [len(options) for options in tails]
        return list(torch.stack(sums).split(options_of_prompts))

    def _answers(self, heads: list[list[int]], tails: list[list[int]]) -> Tensor:
        """Return the log-probabilities [B, T, V] of all tokens at the places of the tails' tokens."""
        texts = []
        for head, tail in zip(heads, tails, strict=True):
            texts.append(torch.tensor(head + tail[:-1]))
        attended = [torch.ones_like(text) for text in texts]
        device = self.model.device
        ids = pad_sequence(texts, batch_first=True).to(device)
        mask = pad_sequence(attended, batch_first=True).to(device)
        last_of_head = torch.tensor([len(head) - 1 for head in heads])
        longest_tail = max(map(len, tails))
        places = last_of_head.unsqueeze(-1) + torch.arange(longest_tail)  # [B, T]
        places = places.clamp_max(ids.shape[1] - 1)
        distinct_places, place = places.unique(return_inverse=True)
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16)
        with blaming("the model"), autocast:
            output = self.model(
                input_ids=ids,
                attention_mask=mask,
                logits_to_keep=distinct_places.to(device),
            )
        row = torch.arange(len(ids)).unsqueeze(-1)
        logits: Tensor = output.logits[row, place]
        return logits.float().log_softmax(-1)

    def _check(self, prompt: Prompt, text: str, head: list[int], tails: list[list[int]]) -> None:
        """Refuse a prompt that the model cannot read, or with options that it cannot tell apart."""
        for option, tail in zip(prompt.options, tails, strict=True):
            self._check_option(prompt, option, tail, tails)
        if self.brief and self.unknown in head:
            words = self.tokenizer.get_vocab().keys()
            unknown = [word for word in text.split() if word not in words]
            raise ConfigError(
                f"{prompt.scenario}: the model does not know the words {', '.join(unknown[:3])}; a model with a small "
                "vocabulary reads only brief prompts (drest language tasks brief=true), so choose another model or "
                "other prompts"
            )
        length = len(head) + max(map(len, tails)) - 1
        if not head or length > self.most_tokens:
            raise ConfigError(
                f"{prompt.scenario}: has {length} tokens, but the model reads from 1 to {self.most_tokens}; use other "
                "prompts, or another model"
            )
        largest_token = max(map(max, (head, *tails)))
        if largest_token >= self.vocabulary:
            raise ConfigError(
                f"{prompt.scenario}: the tokenizer has tokens that the model has no weights for; they are of different "
                "models"
            )

    def _check_option(self, prompt: Prompt, option: Answer, tail: list[int], tails: list[list[int]]) -> None:
        """Refuse an option with unknown tokens, or with tokens that begin another option."""
        if not tail or self.unknown in tail:
            problem = "is unknown"
        elif sum(other[: len(tail)] == tail for other in tails) > 1:
            problem = "begins as another option"
        else:
            return
        raise ConfigError(
            f"{prompt.scenario}: the answer '{self._says(option)}' {problem} to the model; give options labels "
            "from its vocabulary, such as A, B, C"
        )

    def _says(self, option: Answer) -> str:
        if self.reads == "letters":
            return option.label
        if option.line:
            return option.line
        if self.brief:
            return f"{option.label} {brief_words(option)}"
        return f"{option.label}) {option.text}"

    def _encode(self, texts: list[str], *, head: bool = False) -> list[list[int]]:
        special = head and not self.chats
        with blaming("the tokenizer of the model"):
            tokens: list[list[int]] = self.tokenizer(texts, add_special_tokens=special)["input_ids"]
            return tokens


def _have_questions(prompts: Sequence[Prompt], heads: list[list[int]]) -> bool:
    """Return whether some prompts differ only in their question, so that they have the same scenario and order."""
    orders = {(prompt.scenario, prompt.order) for prompt in prompts}
    return len({tuple(head) for head in heads}) > len(orders)


def _have_one_token(tails: list[list[list[int]]]) -> bool:
    """Return whether all options of all prompts have a single token."""
    return all(len(tail) == 1 for options in tails for tail in options)


def load(name: str, reads: str = "letters", *, seed: int = 0, lora: int | None = None) -> LanguageModel:
    """Load a model: ``small``, with random weights; ``smollm2`` or ``gemma3``, from their packages; a folder; a GGUF
    file; or the name of a downloaded model of the Hub.

    No untrusted code is executed: weights are safetensors or GGUF, and remote code is not trusted. Nothing is
    downloaded, so a missing path is never taken for a name on the Hub.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError("language models need more than the core; pip install 'drest_torch[language]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if name == SMALL:
        model = small(seed, reads)
    else:
        causal_model, tokenizer = pretrained(name)
        with blaming(f"model={name}"):
            model = LanguageModel(causal_model, tokenizer, reads)
    if lora is not None:
        with blaming(f"lora={lora} of model={name}"):
            model.model = _with_lora(model.model, lora, seed)
    return model


def _with_lora(model: Any, rank: int, seed: int) -> Any:
    """Add LoRA's matrices to a model and train only them."""
    try:
        import peft
    except ImportError:
        raise ConfigError("lora needs peft; pip install 'drest_torch[language]'") from None
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, config)


def digest(model: LanguageModel) -> str:
    """Return a hash of a model's weights without LoRA, its tokens and its chat template."""
    vocabulary = sorted(model.tokenizer.get_vocab().items())
    template = getattr(model.tokenizer, "chat_template", None)
    weights = {}
    for name, value in model.model.named_parameters():
        if "lora_" not in name:
            weights[name] = value.detach().cpu()
    return checksum(weights, json.dumps([vocabulary, template]))[:16]


def small(seed: int = 0, reads: str = "letters") -> LanguageModel:
    """Return a transformer of 0.6 million random weights, which reads the words of brief prompts one by one."""
    import tokenizers
    import transformers

    words = ["?", ".", ON_AVERAGE, *LETTERS, *TIMES]
    words += [name for name, *_ in families()]
    words += [f"{percent}%" for percent in range(101)]
    words += [f"{tenths / 10:g}" for tenths in range(101)]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys(words))}
    base = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="?"))
    base.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=base, unk_token="?", pad_token="?", eos_token=".")
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.LlamaForCausalLM(config)
    return LanguageModel(model, tokenizer, reads)
