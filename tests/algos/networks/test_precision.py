"""Networks in bfloat16: outputs and gradients near those of float32, padded rows, and cached weights."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from drest_torch.algos.actor import Once, StateView
from drest_torch.algos.networks import precision
from drest_torch.algos.networks.policy import weights_unchanged
from drest_torch.algos.networks.precision import chosen_precision, computing, padded_rows
from drest_torch.config.compose import compose
from drest_torch.config.stored import load_config
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.training import run as training
from drest_torch.training.run import resume, start
from tests.algos.networks.test_networks import bits_of, observations_of, perturbed_networks
from tests.helpers.runs import arguments, same_run, stop_after

CPU = torch.device("cpu")
NARROW = torch.bfloat16
BF16 = ("algo=ppo", "precision=bfloat16", "policy.width=16", "policy.depth=2", "threads=1", "env_steps=3000")


@pytest.fixture
def with_instructions(monkeypatch):
    """Make this processor appear to have instructions for bfloat16; without them it computes the same, more slowly."""
    for module in (precision, training):
        monkeypatch.setattr(module, "supports_bfloat16", lambda device: True)


@pytest.mark.parametrize(
    ("name", "width", "has_instructions", "chosen"),
    [
        ("auto", 256, True, "bfloat16"),
        ("auto", 256, False, "float32"),
        ("auto", 64, True, "float32"),
        ("float32", 256, True, "float32"),
        ("bfloat16", 64, True, "bfloat16"),
    ],
)
def test_auto_is_bfloat16_where_it_is_faster(name, width, has_instructions, chosen, monkeypatch):
    monkeypatch.setattr(precision, "supports_bfloat16", lambda device: has_instructions)
    assert chosen_precision(name, CPU, width) == chosen


def test_a_processor_without_instructions_refuses_bfloat16(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "supports_bfloat16", lambda device: False)
    with pytest.raises(ConfigError, match=r"^precision=bfloat16, but the cpu .*; use precision=float32, or auto$"):
        start(compose(*arguments(tmp_path / "run", *BF16)))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("network", "norm", "tolerance"),
    [
        ("mlp", None, 0.05),
        ("symmetric", None, 0.05),
        ("convolutional", None, 0.05),
        ("planning", None, 0.1),
        ("mlp", "layer", 0.05),
        ("mlp", "rms", 0.05),
    ],
)
def test_a_network_in_bfloat16_is_near_float32(network, norm, tolerance):
    """The outputs and the gradients of all weights agree up to the rounding of factors to 8 bits.

    Each layer adds to the rounding; the planning network has 12 of them on this map.
    """
    observe, observations = observations_of(world("spacious"))
    bits = bits_of(len(observations), 1)
    policy, _ = perturbed_networks(network, observe, private_bits=1, width=64, changed=0.1, norm=norm)
    view = StateView(lambda number: observations[number])
    view.are_rounded = policy.rounds_inputs
    gradients, outputs = [], []
    direction = torch.randn(len(observations), 4, generator=torch.Generator().manual_seed(0))
    for number_format in (torch.float32, NARROW):
        once = Once(policy, "state", view, has_bits=True, acts=True, precision=number_format)
        values = once.rows({"state": torch.arange(len(observations)), "private_bits": bits})
        assert values.dtype == torch.float32
        policy.zero_grad()
        (values * direction).sum().backward()
        outputs.append(values.detach())
        gradients.append([weight.grad.flatten() for weight in policy.parameters()])
        assert all(weight.grad.dtype == torch.float32 for weight in policy.parameters())
    wide, narrow = outputs
    assert not torch.equal(wide, narrow)
    assert (wide - narrow).abs().max() < tolerance * wide.std()
    for wide_gradient, narrow_gradient in zip(*gradients, strict=True):
        if wide_gradient.numel() == 1:  # a bias of all actions has no effect, and its gradient is rounding
            continue
        assert cosine_similarity(wide_gradient, narrow_gradient, dim=0) > 0.99


@pytest.mark.parametrize(("count", "rows"), [(0, 0), (1, 128), (128, 128), (129, 256), (2047, 2048), (4100, 4608)])
def test_rows_are_padded_to_round_counts(count, rows):
    number = torch.arange(count)
    filled = padded_rows(number, NARROW)
    assert len(filled) == rows
    assert torch.equal(filled[:count], number)
    assert (filled[count:] == count - 1).all()
    assert padded_rows(number, torch.float32) is number


@pytest.mark.parametrize("network", ["symmetric", "convolutional", "planning"])
def test_weights_are_built_once_while_they_are_unchanged(network, monkeypatch):
    observe, observations = observations_of(world("spacious"))
    policy, _ = perturbed_networks(network, observe)
    parts = [part for part in policy.modules() if hasattr(part, "built")]
    built = []
    for part in parts:
        monkeypatch.setattr(part, "build", lambda part=part, build=part.build: built.append(part) or build())
    expected = policy(observations).detach()
    assert len(built) == len(parts)
    with weights_unchanged(policy), torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(policy(observations[::2]), expected[::2])
    assert len(built) == 2 * len(parts)
    next(policy.parameters()).data += 1
    assert not torch.allclose(policy(observations), expected)


def test_evaluation_is_in_float32(tmp_path, with_instructions):
    run = start(compose(*arguments(tmp_path / "run", *BF16)))
    run.update()
    seen_types = []
    run.algorithm.policy.register_forward_hook(lambda module, inputs, output: seen_types.append(output.dtype))
    run.task.watch(run.algorithm.policy)
    assert set(seen_types) == {torch.float32}
    with computing(NARROW, CPU):
        run.task.watch(run.algorithm.policy)
    assert NARROW in seen_types


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("policy=convolutional",), ("algo=exact", "env_steps=40000")])
def test_a_run_in_bfloat16_resumes_bit_for_bit(words, tmp_path, monkeypatch, with_instructions):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    start(compose(*arguments(whole, *BF16, *words))).train()
    run = start(compose(*arguments(parts, *BF16, *words)))
    stop_after(run, 2, monkeypatch)
    assert run.train() is None
    resume(parts).train()
    same_run(whole, parts)


def test_a_run_stores_the_precision_that_auto_resolves_to(tmp_path, with_instructions):
    words = arguments(tmp_path / "run", "algo=ppo", "policy.width=128", "precision=auto")
    start(compose(*words))
    assert load_config(tmp_path / "run").precision == "bfloat16"


def test_a_run_of_an_earlier_version_resumes_in_float32(tmp_path, with_instructions):
    start(compose(*arguments(tmp_path / "run", "algo=ppo", "policy.width=128")))
    path = tmp_path / "run" / "config.yaml"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("precision:")), "utf-8")
    assert resume(tmp_path / "run").algorithm.precision == torch.float32


def test_resuming_bfloat16_on_a_slow_machine_prints_a_warning(tmp_path, monkeypatch, capsys, with_instructions):
    start(compose(*arguments(tmp_path / "run", *BF16)))
    monkeypatch.setattr("drest_torch.training.run.supports_bfloat16", lambda device: False)
    resume(tmp_path / "run")
    assert f"{tmp_path / 'run'} learns in bfloat16, which is slow on this machine" in capsys.readouterr().err
