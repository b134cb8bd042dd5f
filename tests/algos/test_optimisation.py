"""Weight decay and averaged weights against their formulas."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from drest_torch import Agent
from drest_torch.agents.checkpoints import load_checkpoint
from drest_torch.algos import exact
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.training.run import start
from tests.helpers.runs import FEW, metrics, small, train, weights
from tests.helpers.settings import SETTINGS


def untrained(**settings):
    """Return an algorithm with an untrained MLP, which has matrices, biases and gains."""
    torch.manual_seed(0)
    policy = Policy((10,), 4, NetworkSize(16, 2, norm="layer"), scale=torch.ones(10))
    settings = SimpleNamespace(**{**vars(SETTINGS), "lr": 0.01, **settings})
    return exact.Algorithm(policy, None, settings, torch.Generator())


def descend(algorithm, steps):
    """Take steps along random directions; return the weights after each."""
    rng, path = torch.Generator().manual_seed(1), []
    for _ in range(steps):
        policy = algorithm.policy
        algorithm.descend(sum((torch.randn(w.shape, generator=rng) * w).sum() for w in policy.parameters()))
        path.append(parameters_to_vector(policy.parameters()).detach().clone())
    return path


@pytest.mark.parametrize("muon_lr", [None, 0.1])
def test_a_step_decays_matrices_alone(muon_lr):
    without, with_decay = untrained(muon_lr=muon_lr), untrained(muon_lr=muon_lr, weight_decay=0.25)
    before = {name: weight.detach().clone() for name, weight in with_decay.policy.named_parameters()}
    for algorithm in (without, with_decay):
        descend(algorithm, 1)
    others = dict(without.policy.named_parameters())
    matrices = [name for name, weight in before.items() if weight.ndim > 1]
    assert len(matrices) == 3
    for name, weight in with_decay.policy.named_parameters():
        rate = 0.1 if muon_lr is not None and min(weight.shape) >= 8 and name in matrices else 0.01
        expected = others[name] - rate * 0.25 * before[name] * (name in matrices)
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-6)
        assert torch.equal(weight, others[name]) == (name not in matrices)


def test_the_first_step_of_adam_equals_its_formula():
    algorithm = untrained(weight_decay=0.25)
    before = [weight.detach().clone() for weight in algorithm.policy.parameters()]
    descend(algorithm, 1)
    for old, weight in zip(before, algorithm.policy.parameters(), strict=True):
        shrunk = old * (1 - 0.01 * 0.25 * (old.ndim > 1))
        expected = shrunk - 0.01 * weight.grad / (weight.grad.abs() + 1e-5)
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=1e-6)


def test_without_decay_every_step_is_that_of_adam():
    algorithm, plain = untrained(), untrained()
    plain.optimizers = {"adam": torch.optim.Adam(plain.weights, lr=0.01, eps=1e-5, fused=True)}
    ours, theirs = descend(algorithm, 5), descend(plain, 5)
    assert all(torch.equal(first, second) for first, second in zip(ours, theirs, strict=True))


def test_the_rates_of_all_groups_follow_the_schedule():
    algorithm = untrained(weight_decay=0.25)
    algorithm.set_progress(0.5)
    groups = algorithm.optimizers["adam"].param_groups
    assert [group["lr"] for group in groups] == [0.005, 0.005]
    assert [group["weight_decay"] for group in groups] == [0.25, 0.0]


@pytest.mark.parametrize("decay", [0.8, 0.999, 1.0])
def test_averaged_weights_equal_their_sum(decay):
    algorithm, plain = untrained(average=decay), untrained()
    path = descend(algorithm, 6)
    assert torch.equal(path[-1], descend(plain, 6)[-1])  # training is the same
    shares = torch.tensor([decay ** (6 - step) for step in range(1, 7)], dtype=torch.float64)
    expected = (torch.stack(path).T.double() @ (shares / shares.sum())).float()
    averaged = parameters_to_vector(algorithm.evaluated_policy.parameters()).detach()
    torch.testing.assert_close(averaged, expected, rtol=0, atol=1e-6)
    assert not torch.allclose(averaged, path[-1], atol=1e-3)


def test_before_the_first_step_the_policy_itself_is_evaluated():
    algorithm = untrained(average=0.9)
    assert algorithm.evaluated_policy is algorithm.policy
    descend(algorithm, 1)
    assert algorithm.evaluated_policy is not algorithm.policy


def test_a_run_evaluates_its_averaged_policy(tmp_path):
    plain = train(tmp_path / "plain", *FEW)
    run = start(small(tmp_path / "run", *FEW, "algo.average=0.9"))
    run.train()
    saved, saved_plain = weights(tmp_path / "run"), weights(plain)
    last = {name.replace("trained.", "policy."): value for name, value in saved.items() if name.startswith("trained.")}
    assert last
    for name, value in last.items():
        assert torch.equal(value, saved_plain[name]), name
        assert not torch.equal(value, saved[name]), name
    for row, row_plain in zip(metrics(tmp_path / "run"), metrics(plain), strict=True):
        differing = {name for name in row if row[name] != row_plain[name]}
        assert all(name.startswith("eval/") for name in differing)
    agent = Agent.load(tmp_path / "run")
    averaged = run.algorithm.average.module.state_dict()
    assert all(torch.equal(value, averaged[name]) for name, value in agent.policy.state_dict().items())
    usefulness = run.task.watch(agent.policy)["eval/selection/usefulness"]
    assert metrics(tmp_path / "run")[-1]["eval/selection/usefulness"] == pytest.approx(usefulness, abs=1e-6)


def test_an_agent_is_shared_with_its_averaged_weights(tmp_path):
    train(tmp_path / "run", *FEW, "algo.average=0.9")
    agent = Agent.load(tmp_path / "run", checkpoint="best")
    agent.save(tmp_path / "shared")
    (path,) = (tmp_path / "shared" / "checkpoints").iterdir()
    tensors, _ = load_checkpoint(path)
    assert {name.partition(".")[0] for name in tensors} == {"policy"}
    for name, value in agent.policy.state_dict().items():
        assert torch.equal(tensors[f"policy.{name}"], value)
