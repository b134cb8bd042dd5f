"""Advantages, minibatches and gradients against slow or sampled counterparts."""

from itertools import combinations_with_replacement, product
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from drest_torch.agents.untrained import build_networks
from drest_torch.algos import a2c, exact, ppo, reinforce
from drest_torch.algos.actor import ObservationTable, Once, StateView
from drest_torch.algos.base import falling
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.algos.policy_gradient import normalised
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import world
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from drest_torch.tasks.gridworlds import spec_on_levels
from drest_torch.transforms.mini_episodes import played
from tests.helpers.collecting import NINE, TINY, make
from tests.helpers.networks import Table
from tests.helpers.settings import SETTINGS


class Values(nn.Module):
    """A critic with distinct values for states and private bits."""

    def forward(self, observation, private=None, context=None, seen=None):
        weights = torch.linspace(-1, 1, observation[0].numel())
        value = (observation.flatten(1) @ weights).sin()
        value = value if private is None else value + private.sum(-1)
        return value if seen is None else value[seen]


def algorithm_of(module, setup, critic=None, **settings):
    worlds, once = setup.worlds, {} if module is ppo else {"epochs": 1}
    settings, rng = SimpleNamespace(**{**vars(SETTINGS), **once, **settings}), torch.Generator().manual_seed(0)
    return module.Algorithm(setup.policy, critic, settings, rng, environment=worlds)


def batch_of(algorithm, setup):
    return algorithm.collector.collect(setup.rng)


def slow_advantages(batch, value, lmbda, credit):
    """Return, for each step, the discounted sum of the one-step errors up to the end of its horizon."""
    live, reward, result = played(batch), batch["next", "reward"].squeeze(-1), torch.zeros(batch.shape)
    ended = batch["next", "mini_done"].squeeze(-1).long()
    horizon = ended.cumsum(1) - ended if credit == "mini" else torch.zeros_like(ended)
    for slot, number in product(range(len(batch)), horizon.unique().tolist()):
        chain = (live[slot] & (horizon[slot] == number)).nonzero().flatten().tolist()
        for i, j in combinations_with_replacement(range(len(chain)), 2):
            after = value[slot, chain[j + 1]] if j + 1 < len(chain) else 0.0
            error = reward[slot, chain[j]] + after - value[slot, chain[j]]
            result[slot, chain[i]] += lmbda ** (j - i) * error
    return result[live]


@pytest.mark.parametrize("credit", ["mini", "meta"])
@pytest.mark.parametrize(
    ("lmbda", "long"),
    [(0.0, 256), (0.9, 256), (0.9, 1), (1.0, 256)],
)
def test_advantages_agree_with_the_definition(credit, lmbda, long, monkeypatch):
    """TorchRL has two implementations, one of them for long batches."""
    monkeypatch.setattr("drest_torch.algos.policy_gradient.LONG", long)
    setup = make([TINY, world("royal_road")], counting="sequential", slots=4, rounds=5, group=1, episodes=5)
    algorithm = algorithm_of(ppo, setup, Values(), credit=credit, gae_lambda=lmbda)
    batch = batch_of(algorithm, setup)
    steps = algorithm.with_advantages(batch)
    metrics = algorithm.metrics_of(batch, steps)
    value = torch.zeros(batch.shape)
    value[played(batch)] = Values()(algorithm.table.table.observation)[steps["row"]]
    expected = slow_advantages(batch, value, lmbda, credit)
    advantages = steps["advantage"].squeeze(-1)
    assert torch.allclose(advantages, expected, atol=1e-4)  # 32-bit sums of up to a hundred terms
    target = expected + value[played(batch)]
    assert torch.allclose(steps["value_target"].squeeze(-1), target, atol=1e-4)
    spread = 1 - expected.var() / target.var()
    assert metrics["critic/explained_variance"].item() == pytest.approx(spread.item(), abs=1e-3)


def test_normalised_advantages_are_standardised():
    advantages = normalised(torch.tensor([1.0, 2.0, 3.0, 10.0]))
    expected = torch.tensor([-3.0, -2.0, -1.0, 6.0]) / (50 / 3) ** 0.5
    assert torch.allclose(advantages, expected)


@pytest.mark.parametrize("baseline", [False, True])
def test_reinforce_subtracts_the_mean_of_other_groups(baseline):
    setup = make(NINE, slots=12, group=4)
    algorithm = algorithm_of(reinforce, setup, baseline=baseline)
    batch = batch_of(algorithm, setup)
    steps = algorithm.with_advantages(batch)
    paid = batch["next", "reward"].sum(1).expand(-1, batch.shape[1])
    live = played(batch)
    group = torch.arange(12).unsqueeze(-1).expand(live.shape) // 4
    expected = paid[live]
    if baseline:
        others = [paid[live & (group != other)].mean() for other in range(3)]
        expected = expected - torch.stack(others)[group[live]]
    assert torch.allclose(steps["advantage"].squeeze(-1), expected, atol=1e-5)


def test_minibatches_of_an_epoch_are_a_random_partition(monkeypatch):
    setup = make(NINE, slots=64, group=4, private_bits=1)
    algorithm = algorithm_of(ppo, setup, Values(), minibatches=5, epochs=4)
    batch = batch_of(algorithm, setup)
    steps = algorithm.with_advantages(batch)
    slot = played(batch).nonzero()[:, 0]
    steps["number"] = torch.arange(len(steps))
    parts = []

    def descend(part):
        log_prob = algorithm.actor.get_dist(part).log_prob(part["action"])
        assert torch.allclose(log_prob, part["action_log_prob"], atol=1e-5)
        parts.append(part)
        return {"loss": torch.zeros(())}

    monkeypatch.setattr(algorithm, "step", descend)
    algorithm.learn(steps)
    assert len(parts) == 20
    numbers = [torch.cat([part["number"] for part in parts[first : first + 5]]) for first in range(0, 20, 5)]
    assert all(torch.equal(epoch.sort().values, steps["number"]) for epoch in numbers)
    assert not torch.equal(numbers[0], numbers[1])
    groups = [set((slot[part["number"]] // 4).tolist()) for part in parts[:5]]
    assert sum(len(members) for members in groups) == 16
    assert len(set().union(*groups)) == 16


def test_minibatches_do_not_outnumber_groups():
    setup = make(NINE, slots=8, group=4)
    algorithm = algorithm_of(ppo, setup, Values(), minibatches=5, epochs=4)
    assert algorithm.learn(algorithm.with_advantages(batch_of(algorithm, setup)))["optim/steps"] == 2 * 4


def test_an_update_ends_beyond_the_largest_divergence():
    """With a large learning rate the first step moves the policy far, so the second is not taken."""
    steps = {}
    for max_kl in (None, 1e6, 0.2):
        setup = make(NINE, slots=32, group=4)
        algorithm = algorithm_of(ppo, setup, Values(), minibatches=3, epochs=4, max_kl=max_kl, lr=1.0)
        steps[max_kl] = algorithm.learn(algorithm.with_advantages(batch_of(algorithm, setup)))["optim/steps"]
    assert steps[None] == 12
    assert steps[1e6] == 12
    assert steps[0.2] == 1


def test_no_step_follows_one_that_was_not_taken(monkeypatch):
    """Later minibatches do not count, even if they are near enough; metrics are the means of the steps taken."""
    setup = make(NINE, slots=32, group=4)
    algorithm = algorithm_of(ppo, setup, Values(), minibatches=2, epochs=3, max_kl=0.2)
    steps = algorithm.with_advantages(batch_of(algorithm, setup))
    values = [1.0, 2.0, 6.0, None, 40.0, 50.0]
    divergences = []

    def descend(part):
        divergences.append(values[len(divergences)])
        return None if divergences[-1] is None else {"loss": torch.tensor(divergences[-1])}

    monkeypatch.setattr(algorithm, "step", descend)
    metrics = algorithm.learn(steps)
    assert divergences == values[:4]
    assert {name: float(value) for name, value in metrics.items()} == {"loss": 3, "optim/steps": 3}


@pytest.mark.parametrize(("divergence", "max_kl", "goes"), [(0.3, 0.2, False), (0.1, 0.2, True), (9.0, None, True)])
def test_a_step_is_taken_up_to_the_largest_divergence(divergence, max_kl, goes, monkeypatch):
    setup = make([TINY])
    algorithm = algorithm_of(ppo, setup, Values(), max_kl=max_kl)
    weight = next(setup.policy.parameters())
    names = {"loss_objective": 3 * weight.sum(), "loss_entropy": weight.sum(), "kl_approx": torch.tensor(divergence)}
    names |= {"entropy": torch.tensor(0.5), "max_ratio": torch.tensor(8.0), "loss_critic": torch.tensor(0.25)}
    monkeypatch.setattr(algorithm, "loss", lambda part: names)
    before = weight.detach().clone()
    metrics = algorithm.step(None)
    assert (metrics is not None) == goes
    assert torch.equal(before, weight) != goes
    if goes:
        norm = metrics.pop("optim/grad_norm").item()
        assert norm == pytest.approx(4 * weight.numel() ** 0.5)  # of the sum of the losses
        numbers = {name: value.item() for name, value in metrics.items()}
        expected = {"loss/objective": -3 * before.sum().item(), "loss/critic": 0.25, "policy/entropy": 0.5}
        assert numbers == pytest.approx(expected | {"policy/kl": divergence})


def test_a_gradient_is_clipped_after_its_norm_is_reported():
    algorithm, _ = table_problem(Reward(), max_grad_norm=2.0)
    algorithm.optimizers = {"sgd": torch.optim.SGD(algorithm.policy.parameters(), lr=1.0)}
    before = algorithm.policy.logits.detach().clone()
    slope = torch.randn(before.shape, generator=torch.Generator().manual_seed(3))
    for scale in (50.0, 0.01):
        moved = algorithm.policy.logits.detach().clone()
        norm = algorithm.descend((scale * slope * algorithm.policy.logits).sum())
        assert norm.item() == pytest.approx(scale * slope.norm().item(), rel=1e-4)
        step = moved - algorithm.policy.logits.detach()
        expected = scale * slope * min(1, 2 / norm.item())
        assert torch.allclose(step, expected, atol=1e-5)


def test_losses_agree_with_their_formulas():
    setup = make([TINY], slots=16, group=4)
    for module in (ppo, a2c, reinforce):
        algorithm = algorithm_of(module, setup, None if module is reinforce else Values(), entropy=0.3, baseline=False)
        steps = algorithm.with_advantages(batch_of(algorithm, setup))
        for parameter in setup.policy.parameters():  # far enough that some ratios are clipped
            parameter.data += 0.15 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
        losses = algorithm.loss(steps)
        log_probs = algorithm.actor.get_dist(steps).log_probs
        advantage = steps["advantage"].squeeze(-1)
        log_prob = log_probs.gather(-1, steps["action"].unsqueeze(-1)).squeeze(-1)
        ratio = (log_prob - steps["action_log_prob"]).exp()
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        clip = algorithm.config.clip
        clipped = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
        objective = clipped if module is ppo else (log_prob * advantage).mean()
        expected = -objective - 0.3 * entropy
        if module is not reinforce:
            value = algorithm.value(steps)["state_value"]
            expected = expected + 0.5 * algorithm.config.critic_coeff * (value - steps["value_target"]).square().mean()
        total = sum(value for name, value in losses.items() if name.startswith("loss_"))
        assert total.item() == pytest.approx(expected.item(), rel=1e-4)
        learned = list(setup.policy.parameters())
        gradients = [torch.autograd.grad(loss, learned, retain_graph=True) for loss in (total, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)  # 32-bit sums over a hundred steps
        if module is ppo:
            outside = ((ratio < 1 - clip) | (ratio > 1 + clip)).float().mean()
            assert 0 < outside < 1
            assert losses["clip_fraction"].item() == pytest.approx(outside.item())
            assert losses["kl_approx"].item() == pytest.approx(-ratio.log().mean().item(), abs=1e-6)


def test_a_schedule_falls_linearly_within_the_run():
    assert [falling(2.0, p) for p in (-1, 0, 0.25, 1, 2)] == [2, 2, 1.5, 0, 0]


def test_schedules_change_entropy_coefficients_with_rates():
    setup = make([TINY])
    for module in (ppo, a2c, reinforce):
        values = {"entropy": 0.4, "lr": 0.03}
        algorithm = algorithm_of(module, setup, None if module is reinforce else Values(), **values)
        (adam,) = algorithm.optimizers["adam"].param_groups
        assert adam["lr"] == 0.03
        assert adam["eps"] == 1e-5
        assert adam["weight_decay"] == 0
        assert algorithm.loss.entropy_coeff.item() == pytest.approx(0.4)
        for progress, entropy, rate in ((0.75, 0.1, 0.0075), (1.0, 0.0, 0.0)):
            algorithm.set_progress(progress)
            assert algorithm.loss.entropy_coeff.item() == pytest.approx(entropy)
            assert adam["lr"] == pytest.approx(rate)
            assert algorithm.scheduled() == pytest.approx({"optim/lr": rate, "optim/entropy_coeff": entropy})


@pytest.mark.parametrize("network", ["mlp", "symmetric", "convolutional", "planning"])
@pytest.mark.parametrize("private_bits", [0, 2])
def test_once_equals_the_network_at_every_step(network, private_bits):
    """Outputs and gradients agree in 64 bits, even for a minibatch with rows of an observation table."""
    size = ("policy.observation=grid", "policy.width=16", "policy.depth=1", f"policy.private_bits={private_bits}")
    options = {"slots": 32, "counting": "sequential", "private_bits": private_bits}
    setup = make([world("royal_road"), world("spacious")], **options)
    observe = make_observation("grid", setup.worlds.base.mdp)
    cfg = compose("algo=ppo", f"policy={network}", *size)
    spec = spec_on_levels(cfg, observe, (5, 5), frozenset())
    policy, critic = build_networks(spec, cfg.seed, critic_width=cfg.algo.critic_width, context=2)
    policy, critic = policy.double(), critic.double()
    batch = setup.collect()
    steps = batch[played(batch)]
    numbers = [key for key in ("drest_log_discounts", "private_bits") if key in steps]
    steps.update({key: steps[key].double() for key in numbers})
    view = StateView(lambda number: setup.worlds.view.observe(number).double())
    observed = view.observe(steps["state"]), steps.get("private_bits", None)

    def compare(outputs, expected, module):
        torch.testing.assert_close(outputs, expected)
        weight = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        parameters = dict(module.named_parameters())
        learned = [parameters[name] for name in parameters if module is policy or ".read." not in name]
        ours, theirs = (torch.autograd.grad((value * weight).sum(), learned) for value in (outputs, expected))
        torch.testing.assert_close(ours, theirs)

    how = {"has_bits": private_bits > 0}
    value = Once(critic, "state", view, **how, counts=True)
    compare(value(steps)["state_value"].squeeze(-1), critic(*observed, steps["drest_log_discounts"]), critic)
    acts = Once(policy, "state", view, **how, acts=True)
    view.record()
    compare(acts(steps)["outputs"], policy(*observed).log_softmax(-1), policy)
    table, one_step = ObservationTable(), steps.unsqueeze(-1)
    table.fill(view, one_step)
    steps["row"] = one_step["row"].squeeze(-1)
    learns = Once(policy, "state", table, **how, acts=True)
    compare(learns(steps)["outputs"], policy(*observed).log_softmax(-1), policy)


def test_muon_trains_wide_matrices_in_all_directions():
    """Muon moves a matrix equally far in all directions, whatever the gradient; Adam trains the other weights."""
    settings = SimpleNamespace(**{**vars(SETTINGS), "muon_lr": 0.1, "lr": 0.01})
    policy = Policy((10,), 4, NetworkSize(16, 2), scale=torch.ones(10))
    algorithm = exact.Algorithm(policy, None, settings, torch.Generator())
    first, hidden, last = (layer.weight for layer in policy.net.body if isinstance(layer, nn.Linear))
    assert {id(p) for p in algorithm.optimizers["muon"].param_groups[0]["params"]} == {id(first), id(hidden)}
    before = hidden.detach().clone()
    algorithm.descend((policy(torch.randn(30, 10)) * torch.randn(30, 4)).sum())
    stretched = torch.linalg.svdvals((hidden - before).detach() / 0.1)
    assert stretched.max() < 1.3
    assert stretched.median() > 0.6
    algorithm.set_progress(0.5)
    rates = {name: optimizer.param_groups[0]["lr"] for name, optimizer in algorithm.optimizers.items()}
    assert rates == pytest.approx({"adam": 0.005, "muon": 0.05})
    assert algorithm.optimizers["muon"].param_groups[0]["weight_decay"] == 0
    assert any(last is matrix for matrix in algorithm.optimizers["adam"].param_groups[0]["params"])


def table_problem(reward, **changes):
    """Return an exact algorithm on a table of logits, and a batch with one level."""
    batch = ExactBatch(LevelSet(compile_levels([TINY])), "grid", reward)
    logits = torch.randn(batch.states, 4, generator=torch.Generator().manual_seed(0))
    settings = SimpleNamespace(**{**vars(SETTINGS), **changes})
    policy = Table(batch.observe(torch.arange(batch.states)), logits)
    return exact.Exact(policy, None, settings, torch.Generator()), batch


def exact_gradient(algorithm, batch, entropy=0.0):
    """Return the gradient of the objective plus an entropy bonus, weighted by visits."""
    log_probs = algorithm.policy.logits.log_softmax(-1)
    visits = batch.visits(log_probs.exp().detach())
    bonus = -(visits.unsqueeze(-1) * log_probs.exp() * log_probs).sum() / visits.sum()
    objective = algorithm.objective(batch, log_probs.exp().unsqueeze(0)).mean()
    return torch.autograd.grad(objective + entropy * bonus, algorithm.policy.logits)[0]


@pytest.mark.parametrize(("ignored_gradient_share", "entropy"), [(0.0, 0.0), (0.0, 0.4), (0.3, 0.0)])
def test_exact_ignores_states_with_small_gradients(ignored_gradient_share, entropy):
    """A step of plain gradient descent uses the whole gradient, or all of it except the smallest rows."""
    changes = {"ignored_gradient_share": ignored_gradient_share, "max_grad_norm": 1e9, "entropy": entropy}
    algorithm, batch = table_problem(Reward(0.8, 1.0, 12), **changes)
    algorithm.optimizers = {"sgd": torch.optim.SGD(algorithm.policy.parameters(), lr=1.0)}
    before = algorithm.policy.logits.detach().clone()
    gradient = exact_gradient(algorithm, batch, entropy)
    metrics = algorithm.ascend(batch)
    matters = torch.zeros(len(gradient), dtype=torch.bool)
    matters[exact.significant_rows(gradient, ignored_gradient_share)] = True
    assert torch.allclose(algorithm.policy.logits.detach(), before + gradient * matters.unsqueeze(-1), atol=1e-6)
    rows = gradient.square().sum(-1) / gradient.square().sum()
    assert rows[~matters].sum() <= ignored_gradient_share
    if ignored_gradient_share:  # one more row would exceed the share
        assert metrics["optim/states_learned_from"].item() == pytest.approx(matters.float().mean().item())
        assert rows[~matters].max() <= rows[matters].min()
        assert rows[~matters].sum() + rows[matters].min() > ignored_gradient_share


@pytest.mark.parametrize(
    ("counting", "rounds", "credit"),
    [("sequential", 1, "mini"), ("sequential", 8, "mini"), ("averaged", 1, "mini"), ("sequential", 8, "meta")],
)
def test_the_sampled_gradient_agrees_with_the_exact_one(counting, rounds, credit):
    exactly, levels = table_problem(Reward(0.7, 1.0, 8, counting), credit=credit)
    policy, expected = exactly.policy, exact_gradient(exactly, levels)
    options = {
        "slots": 32768 // rounds,
        "rounds": rounds,
        "group": 8 // rounds,
        "episodes": 8,
        "lam": 0.7,
        "gamma": 1.0,
    }
    setup = make([TINY], counting=counting, **options)._replace(policy=policy)
    algorithm = algorithm_of(reinforce, setup, baseline=False, entropy=0.0, credit=credit, normalise_advantage=False)
    gradients = []
    for _ in range(2 if counting == "averaged" else 1):
        steps = algorithm.with_advantages(batch_of(algorithm, setup))
        loss = algorithm.loss(steps)["loss_actor"] * len(steps) / 32768
        gradients.append(-torch.autograd.grad(loss, policy.logits)[0])
    sampled = torch.stack(gradients).mean(0)
    assert torch.cosine_similarity(sampled.flatten(), expected.flatten(), dim=0) > 0.995
    assert sampled.norm().item() == pytest.approx(expected.norm().item(), rel=0.06)
