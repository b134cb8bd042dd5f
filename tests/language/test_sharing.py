"""Passes that compute equal beginnings once, against a pass for each option."""

import pytest
import torch

from drest_torch.language import form_prompts, sharing, token_trees
from drest_torch.language import prompts as data
from drest_torch.language.model import LanguageModel, load, small
from drest_torch.language.token_trees import pass_plan

transformers = pytest.importorskip("transformers")

COMMON = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "max_position_embeddings": 256,
}
GEMMA = {**COMMON, "head_dim": 4, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 4}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON)),
    "gemma3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**GEMMA, sliding_window=7)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=4, vocab_size=300, n_positions=256)
    ),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**COMMON, sliding_window=7)),
}
"""Tiny models of random weights; sliding windows are shorter than prompts."""


def model_of(kind, attention="sdpa", reads="letters"):
    """Return a tiny model of an architecture with random weights, whose tokenizer is that of ``small``."""
    torch.manual_seed(0)
    causal = MODELS[kind]().eval()
    causal.set_attn_implementation(attention)
    with torch.no_grad():
        for weight in causal.parameters():
            weight.mul_(3)  # so that log-probabilities differ visibly
    return LanguageModel(causal, small().tokenizer, reads)


def tokens_of(lengths):
    """Return random heads with common beginnings in pairs, and tails of these lengths for each head."""
    rng = torch.Generator().manual_seed(1)

    def random(length):
        return torch.randint(300, (length,), generator=rng).tolist()

    heads, tails, groups = [], [], []
    for scenario, of_options in enumerate(lengths):
        beginning = random(4 + 2 * scenario)
        for _ in range(2):
            heads.append([1, 2, 3, *beginning, *random(6 + scenario)])
            tails.append([random(length) for length in of_options])
            groups.append(scenario)
    return heads, tails, groups


LENGTHS = {"one token": [(1, 1), (1, 1, 1)], "some tokens": [(1, 3), (5, 2, 4)], "one scenario": [(2, 2)]}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_shared_passes_equal_separate_ones(kind, attention, lengths, monkeypatch):
    model = model_of(kind, attention)
    heads, tails, groups = tokens_of(LENGTHS[lengths])
    separate = model._by_whole_tails(heads, tails)
    monkeypatch.setattr(
        token_trees, "PASS", -1000 if lengths == "some tokens" else 1000
    )  # with a pass before, or without
    shared = sharing.log_probabilities(model.model, pass_plan(heads, tails, groups, hidden=16))
    for options, expected in zip(shared, separate, strict=True):
        torch.testing.assert_close(options, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_of_shared_passes_equal_separate_ones(kind):
    model = model_of(kind)
    heads, tails, groups = tokens_of(LENGTHS["some tokens"])
    gradients = []
    for rows in (
        model._by_whole_tails(heads, tails),
        sharing.log_probabilities(model.model, pass_plan(heads, tails, groups, hidden=16)),
    ):
        model.model.zero_grad()
        torch.cat(rows).exp().pow(0.1).sum().backward()
        gradients.append({name: weight.grad.clone() for name, weight in model.weights().items()})
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-3, atol=1e-5 * expected.abs().max().item())


def test_equal_beginnings_are_computed_once():
    heads = [[1, 2, 3, 4, 5], [1, 2, 3, 6, 7]]
    tails = [[[8, 9], [8, 10]], [[11], [12]]]
    (row,) = pass_plan(heads, tails, ["one", "one"], hidden=576).rows
    assert row.tokens == [1, 2, 3, 4, 5, 8, 6, 7]
    assert row.parents == [-1, 0, 1, 2, 3, 4, 2, 6]


def test_a_long_beginning_is_computed_before_the_rows():
    beginning = list(range(200))
    heads = [[*beginning, 200 + number, *range(300, 400)] for number in range(8)]
    plan = pass_plan(heads, [[[1], [2]]] * 8, range(8), hidden=576)
    assert plan.before == beginning


def test_a_prompt_that_begins_another_keeps_a_token_in_its_row(monkeypatch):
    """The token before an answer is in a row, where its log-probabilities are read."""
    monkeypatch.setattr(token_trees, "PASS", -1000)
    plan = pass_plan([[1, 2, 3], [1, 2, 3, 4]], [[[5]], [[6]]], ["a", "b"], hidden=16)
    assert plan.before == [1, 2]
    assert [plan.rows[reading.row].tokens[reading.node] for reading in plan.readings] == [3, 4]


def test_short_trees_share_a_row():
    heads = [[1, *range(50, 150)], [2, *range(40)], [3, *range(60)]]
    plan = pass_plan(heads, [[[2], [3]]] * 3, ["a", "b", "c"], hidden=576)
    assert [len(row.tokens) for row in plan.rows] == [101, 102]


def test_models_that_ignore_masks_are_passed_one_by_one(monkeypatch):
    model = model_of("llama")
    forward = model.model.forward

    def without_mask(*words, attention_mask=None, **others):
        return forward(*words, **others)

    monkeypatch.setattr(model.model, "forward", without_mask)
    assert not sharing.is_supported(model.model)


@pytest.mark.parametrize("kind", MODELS)
def test_these_architectures_are_supported(kind):
    assert sharing.is_supported(model_of(kind).model)


def test_a_recurrent_model_is_passed_one_by_one():
    config = transformers.MambaConfig(hidden_size=16, state_size=4, num_hidden_layers=1, vocab_size=300)
    assert not sharing.is_supported(transformers.MambaForCausalLM(config))


def test_whole_lines_are_shared_between_options():
    prompts = data.generate("post", 3, brief=True)
    model = small(reads="lines")
    shared = model.log_probabilities(prompts)
    model._by_whole_tails = None
    assert torch.equal(model.log_probabilities(prompts), shared)
    separate = small(reads="lines")
    separate._shares = False
    torch.testing.assert_close(shared, separate.log_probabilities(prompts), rtol=1e-5, atol=1e-5)


def test_questions_share_a_pass_in_brief_prompts(monkeypatch):
    """Prompts without several questions are read as before, bit for bit."""
    plans = []
    shared_pass = sharing.log_probabilities
    monkeypatch.setattr(
        sharing, "log_probabilities", lambda model, plan, **how: plans.append(plan) or shared_pass(model, plan, **how)
    )
    model, separate = small(), small()
    separate._shares = False
    assert model.shares
    plans.clear()
    questions = form_prompts.generate("reading", 6, brief=True)
    expected = separate.log_probabilities(questions)
    assert not plans
    torch.testing.assert_close(model.log_probabilities(questions), expected, rtol=1e-5, atol=1e-5)
    (plan,) = plans
    assert sum(len(row.tokens) for row in plan.rows) < 0.7 * sum(len(text(prompt).split()) for prompt in questions)
    model.log_probabilities(data.generate("reading", 6, brief=True) * 2)
    assert len(plans) == 1


def text(prompt):
    return prompt.messages[0]["content"]


def test_lora_trains_through_shared_passes():
    model = load("small", "lines", lora=2)
    prompts = data.generate("post", 2, brief=True)
    assert model.shares
    model.log_probabilities(prompts).exp().sum().backward()
    gradients = [weight.grad.abs().max() for name, weight in model.weights().items() if "lora_B" in name]
    assert min(gradients) > 0
