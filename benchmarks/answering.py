"""Updates of a language model, with equal beginnings of prompts computed once, and with each text read separately.

The model is a transformer of random weights with its own tokens, so that nothing is downloaded. A system message begins
all prompts. The figures are seconds of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.measuring import SECONDS, Bench, Work, once
from drest_torch.language import form_prompts
from drest_torch.language import prompts as data
from drest_torch.language.algorithm import AnswerGradient, by_scenario
from drest_torch.language.config import LanguageConfig, reward_of
from drest_torch.language.model import LanguageModel
from drest_torch.language.prompts import Prompt
from drest_torch.training.run import generator

TITLE = "An update of a language model"
SHARED, SEPARATE = "equal beginnings computed once", "texts read separately"
TEMPLATE = (
    "System: You are a helpful assistant, and answer with one of the options.\n"
    "User: {{ messages[0]['content'] }}\nAssistant: "
)
"""The chat template: as for most models, a system message begins all prompts."""
TOKENS = 2_000
SCENARIOS = 500
UPDATES = 10_000_000
"""Updates of the configuration, so many that none ends the training."""


def model_of(texts: Sequence[str], reads: str, layers: int, width: int) -> LanguageModel:
    """Return a transformer of random weights, whose tokens are pairs of bytes that are frequent in these texts."""
    import tokenizers
    import transformers

    base = tokenizers.Tokenizer(tokenizers.models.BPE())
    base.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=TOKENS, initial_alphabet=alphabet, show_progress=False)
    base.train_from_iterator(texts, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=base)
    tokenizer.chat_template = TEMPLATE
    config = transformers.LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=6,
        tie_word_embeddings=True,
    )
    return LanguageModel(transformers.LlamaForCausalLM(config), tokenizer, reads)


def update_of(model: LanguageModel, prompts: Sequence[Prompt], number: int, *, shares: bool, is_reading: bool) -> Work:
    """Return an update with ``number`` random prompts, or of the warm-up with all questions of so many scenarios."""
    config = LanguageConfig(prompts=number, at_once=number, updates=UPDATES, warm_up=UPDATES * is_reading)
    algorithm = AnswerGradient(model, config, generator(0, "cpu", None))
    algorithm.prompts, algorithm.reading = prompts, by_scenario(prompts)
    reward = reward_of(config)

    def update() -> None:
        model._shares = shares
        algorithm.update(reward)

    return once(update)


def run(bench: Bench) -> None:
    bench.clock = time.process_time
    plain = data.generate("post", SCENARIOS)
    reading = form_prompts.generate("reading", SCENARIOS)
    compare(bench, "Letters, 16 prompts", plain, "letters", 16, target=1.0)
    compare(bench, "Letters, all questions of 8 scenarios", reading, "letters", 8, target=2.0, is_reading=True)
    compare(bench, "Whole lines, 4 prompts", plain, "lines", 4, target=2.0)


def compare(
    bench: Bench,
    title: str,
    prompts: Sequence[Prompt],
    reads: str,
    number: int,
    *,
    target: float,
    is_reading: bool = False,
) -> None:
    """Add the table of one kind of update."""
    layers, width = bench.size(6, 2), bench.size(240, 48)
    bench.table(title, f"{layers} layers of {width} units, in float32.")
    with bench.optional([SHARED], SECONDS, "language"):
        texts = [prompt.messages[0]["content"] for prompt in prompts]
        model = model_of(texts, reads, layers, width)
        works = {
            SHARED: update_of(model, prompts, number, shares=True, is_reading=is_reading),
            SEPARATE: update_of(model, prompts, number, shares=False, is_reading=is_reading),
        }
        times = bench.measure(works)
        bench.compare(times, SECONDS, baselines=[SEPARATE])
        bench.ratio(times, SHARED, SEPARATE, target=target)
