"""Advantages, minibatches and gradients against slow or sampled counterparts; then tiny learning."""

import math
from types import SimpleNamespace

import pytest
import torch
from drest_torch.algos.advantages import estimate
from drest_torch.algos.batch import sample
from drest_torch.algos.generators import Generators
from drest_torch.rollout.collector import Collector
from torch import nn

from drest_torch.algos import a2c, exact, ppo, reinforce
from drest_torch.algos.base import linear
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.building.parts import networks
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward, expected_return
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import LevelSampler
from tests.helpers.collecting import NINE, TINY, make
from tests.helpers.networks import Table
from tests.helpers.settings import SETTINGS


def slow_advantages(batch, value, lmbda, credit):
    """By definition: for each step the discounted sum of the one-step errors to the end of its horizon."""
    chains = {}
    for step in sorted(range(batch.steps), key=lambda step: (batch.episode[step].item() // batch.slots, step)):
        episode = batch.episode[step].item()
        chains.setdefault(episode if credit == "mini" else episode % batch.slots, []).append(step)
    reward = batch.step_reward()
    result = torch.zeros(batch.steps)
    for steps in chains.values():
        for i in range(len(steps)):
            for j in range(i, len(steps)):
                after = value[steps[j + 1]] if j + 1 < len(steps) else 0.0
                result[steps[i]] += lmbda ** (j - i) * (reward[steps[j]] + after - value[steps[j]])
    return result


@pytest.mark.parametrize("credit", ["mini", "meta"])
@pytest.mark.parametrize("lmbda", [0.0, 0.9, 1.0])
def test_advantages_against_the_definition(credit, lmbda):
    collector, policy = make([TINY, world("royal_road")], counting="sequential", slots=4, episodes=5)
    batch = collector.collect(policy)
    value = torch.randn(batch.steps, generator=torch.Generator().manual_seed(0))
    advantage, target = estimate(batch, value, lmbda, credit)
    assert torch.allclose(advantage, slow_advantages(batch, value, lmbda, credit), atol=1e-4)
    assert torch.allclose(target, advantage + value)


def test_without_a_critic_the_advantage_is_the_reward_to_go():
    collector, policy = make([TINY])
    batch = collector.collect(policy)
    advantage, _ = estimate(batch, torch.zeros(batch.steps), 1.0)
    assert torch.equal(advantage, batch.reward[batch.episode])


def test_minibatches_part_the_batch_by_groups():
    collector, policy = make(NINE, slots=64, private_bits=1)
    batch = collector.collect(policy)
    parts = list(batch.parts(5, Generators.of(torch.Generator().manual_seed(0))))
    steps = torch.cat([part.steps for part in parts])
    assert torch.equal(steps.sort().values, torch.arange(batch.steps))
    for part in parts:
        assert torch.equal(part.observation[part.seen], batch.observation[batch.seen[part.steps]])
        assert torch.equal(part.private_bits[part.seen], batch.private_bits[batch.seen[part.steps]])
        log_prob, _ = part.evaluate(policy)
        assert torch.allclose(log_prob, batch.log_prob[part.steps], atol=1e-6)
    groups = [set(batch.step_group()[part.steps].tolist()) for part in parts]
    assert sum(len(each) for each in groups) == len(set().union(*groups)) == 16


def test_muon_has_the_wide_matrices_and_adam_the_rest():
    """All directions of a matrix move equally far, whatever the gradient: that is what Muon is for."""
    settings = SimpleNamespace(**{**vars(SETTINGS), "muon_lr": 0.1, "muon_lr_end": 0.0})
    policy = Policy((10,), 4, NetworkSize(16, 2), scale=torch.ones(10))
    learner = reinforce.Algorithm(policy, None, settings, torch.Generator())
    first, hidden, last = (layer.weight for layer in policy.net.body if isinstance(layer, nn.Linear))
    assert {id(p) for p in learner.optimizers["muon"].param_groups[0]["params"]} == {id(first), id(hidden)}
    before = hidden.detach().clone()
    learner.descend((policy(torch.randn(30, 10)) * torch.randn(30, 4)).sum())
    stretched = torch.linalg.svdvals((hidden - before).detach() / 0.1)
    assert stretched.max() < 1.3
    assert stretched.median() > 0.6
    learner.set_progress(0.5)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in learner.optimizers.values()]
    assert rates == pytest.approx([0.005, 0.05])
    assert any(last is each for each in learner.optimizers["adam"].param_groups[0]["params"])


def test_schedule_and_sampling():
    assert [linear(1.0, 0.0, p) for p in (0, 0.25, 1, 2)] == [1, 0.75, 0, 0]
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().expand(40_000, 4)
    uniform = torch.rand(logits.shape, generator=torch.Generator().manual_seed(0))
    counts = sample(logits, uniform).bincount(minlength=4) / 40_000
    assert torch.allclose(counts, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.01)


def exact_batch(level, seen, reward):
    source = LevelSampler([level], torch.Generator())
    return ExactLevels(source, seen, reward=reward, at_once=1, at_least=(1, 1)).draw()


def table_problem(reward, seed=0):
    batch = exact_batch(TINY, "grid", reward)
    logits = torch.randn(batch.states, 4, generator=torch.Generator().manual_seed(seed))
    return Table(batch.observe(torch.arange(batch.states)), logits), batch


def exact_gradient(policy, batch, credit):
    learner = exact.Exact(policy, None, SimpleNamespace(**{**vars(SETTINGS), "credit": credit}), torch.Generator())
    probabilities = policy.logits.softmax(-1)
    objective = learner.objective(batch, probabilities.unsqueeze(0)).mean()
    return torch.autograd.grad(objective, policy.logits)[0], objective


@pytest.mark.parametrize("normalise", [True, False])
def test_exact_with_meta_credit_is_the_expected_return(normalise):
    policy, batch = table_problem(Reward(0.8, 1.0, 12, normalise=normalise))
    _, objective = exact_gradient(policy, batch, "meta")
    probability, collected = batch.outcome(policy.logits.softmax(-1).unsqueeze(0))
    k = batch.num_lengths if normalise else math.inf
    expected = expected_return(probability, collected / probability, batch.best_return, k, 12, 0.8) / 12
    assert objective.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("ignored_gradient_share", [0.0, 0.3])
def test_exact_learns_from_the_states_that_matter(ignored_gradient_share):
    """One step of plain gradient descent: the whole gradient, or all of it but its smallest rows."""
    policy, batch = table_problem(Reward(0.8, 1.0, 12))
    settings = {
        **vars(SETTINGS),
        "ignored_gradient_share": ignored_gradient_share,
        "max_grad_norm": 1e9,
        "entropy": 0.0,
    }
    learner = exact.Exact(policy, None, SimpleNamespace(**settings), torch.Generator())
    learner.optimizers = {"sgd": torch.optim.SGD(policy.parameters(), lr=1.0)}
    before = policy.logits.detach().clone()
    gradient, _ = exact_gradient(policy, batch, "mini")
    metrics = learner.update(batch)
    matters = torch.zeros(len(gradient), dtype=torch.bool)
    matters[exact.significant_rows(gradient, ignored_gradient_share)] = True
    assert torch.allclose(policy.logits.detach(), before + gradient * matters.unsqueeze(-1), atol=1e-6)
    rows = gradient.square().sum(-1) / gradient.square().sum()
    assert rows[~matters].sum() <= ignored_gradient_share
    if ignored_gradient_share:  # one more would have been too much
        assert metrics["optim/states_learned_from"].item() == pytest.approx(matters.float().mean().item())
        assert rows[~matters].max() <= rows[matters].min()
        assert rows[~matters].sum() + rows[matters].min() > ignored_gradient_share


@pytest.mark.parametrize(
    ("counting", "group", "credit"), [("sequential", 1, "mini"), ("averaged", 8, "mini"), ("sequential", 1, "meta")]
)
def test_the_sampled_gradient_is_the_exact_one_on_average(counting, group, credit):
    """Closed form against sampling: the mean REINFORCE gradient over many mini-episodes, no baseline."""
    episodes = 8
    reward = Reward(0.7, 1.0, episodes, counting)
    policy, exact_batch = table_problem(reward)
    expected, _ = exact_gradient(policy, exact_batch, credit)
    mdp = compile_levels([TINY])
    collector = Collector(
        mdp, solve(mdp), make_observation("grid", mdp), reward, slots=4096, group=group,
        rng=torch.Generator().manual_seed(0),
    )  # fmt: skip
    gradients = []
    for _ in range(12 if counting == "averaged" else 4):
        batch = collector.collect(policy)
        advantage, _ = estimate(batch, torch.zeros(batch.steps), 1.0, credit)
        log_prob = policy(batch.observation).log_softmax(-1)[batch.seen, batch.action]
        gradients.append(torch.autograd.grad((log_prob * advantage).sum() / batch.episodes, policy.logits)[0])
    sampled = torch.stack(gradients).mean(0)
    assert torch.cosine_similarity(sampled.flatten(), expected.flatten(), dim=0) > 0.995
    assert sampled.norm().item() == pytest.approx(expected.norm().item(), rel=0.06)


def train(module, lam, updates, *, divide=True, private_bits=0, counting="averaged"):
    """A tiny training run on a small level; returns usefulness and neutrality, exactly."""
    torch.manual_seed(0)
    mdp = compile_levels([TINY])
    observe, optima, reachable = make_observation("centred", mdp), solve(mdp), Reachable(mdp)
    reward = Reward(lam, 1.0, 32, counting, divide_by_best=divide)
    generator = torch.Generator().manual_seed(0)
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(32, 1), scale=observe.scale, private_bits=private_bits)
    if module is exact:
        batch = exact_batch(TINY, "centred", reward)
        critic, collector = None, SimpleNamespace(collect=lambda policy: batch)
    else:
        slots, group = (512, 32) if counting == "averaged" else (16, 1)
        collector = Collector(mdp, optima, observe, reward, slots=slots, group=group, rng=generator)
        context = collector.context_size
        critic = Critic(
            observe.shape, NetworkSize(32, 1), scale=observe.scale, context=context, private_bits=private_bits
        )
    learner = module.Algorithm(policy, critic if module.Algorithm.needs_critic else None, SETTINGS, generator)
    for update in range(updates):
        learner.set_progress(update / updates)
        metrics = learner.update(collector.collect(policy))
        assert all(torch.as_tensor(value).isfinite() for value in metrics.values())
    with torch.no_grad():
        found = reachable.evaluate(
            lambda s: policy(
                observe(s.spot, s.taken, s.time_left), torch.zeros(len(s), private_bits) if private_bits else None
            ).softmax(-1)
        )
    return (
        usefulness(found.probability, found.coins, optima.best_return).item(),
        neutrality(found.probability).item(),
        policy.state_dict(),
    )


ALGORITHMS = [(ppo, 60), (a2c, 200), (reinforce, 250), (exact, 300)]
AND_SLOW = [pytest.param(*each, marks=pytest.mark.slow) if each[0] is not ppo else each for each in ALGORITHMS]


@pytest.mark.parametrize(("module", "updates"), AND_SLOW)
def test_drest_learns_to_be_useful_and_neutral(module, updates):
    useful, neutral, _ = train(module, 0.8, updates)
    assert useful > 0.9
    assert neutral > 0.9


@pytest.mark.mostly_slow
@pytest.mark.parametrize(("module", "updates"), ALGORITHMS)
def test_the_default_reward_learns_to_be_useful_and_prefers_a_length(module, updates):
    useful, neutral, _ = train(module, 1.0, updates, divide=False)
    assert useful > 0.9
    assert neutral < 0.3


def test_sequential_counting_learns_too():
    useful, neutral, _ = train(ppo, 0.8, 60, counting="sequential")
    assert useful > 0.9
    assert neutral > 0.85


@pytest.mark.parametrize("module", [ppo, a2c, reinforce, exact])
def test_training_twice_gives_the_same_weights(module):
    one, two = (train(module, 0.9, 5)[2] for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_policy_with_noise_trains():
    useful, _, _ = train(ppo, 0.8, 40, private_bits=1)
    assert useful > 0.8


@pytest.mark.parametrize("private_bits", [0, 2])
@pytest.mark.parametrize("network", ["mlp", "residual", "symmetric", "convolutional"])
def test_critics_read_what_steps_share_once(network, private_bits):
    """Values and gradients are those of each step's own observation; steps differ in their context."""
    cfg = compose(
        "algo=ppo",
        f"policy={network}",
        "policy.observation=grid",
        "policy.width=16",
        "policy.depth=1",
        f"policy.private_bits={private_bits}",
    )
    collector, _ = make([world("royal_road"), world("spacious")], counting="sequential", slots=8, episodes=4)
    policy, critic = networks(cfg, collector.observe, collector.context_size, with_critic=True, seed=0)
    part = collector.collect(policy).whole()
    assert len(part.observation) < len(part.seen)
    private = None if private_bits == 0 else part.private_bits[part.seen]
    found, wanted = part.value(critic), critic(part.observation[part.seen], private, part.context)
    torch.testing.assert_close(found, wanted)
    weight = torch.randn(len(found), generator=torch.Generator().manual_seed(0))
    learned = [parameter for name, parameter in critic.named_parameters() if ".read." not in name]
    gradients = [torch.autograd.grad(value @ weight, learned) for value in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
