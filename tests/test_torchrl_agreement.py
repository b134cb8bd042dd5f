"""What is written by hand for speed says what TorchRL's parts say on the same data."""

import json
import math
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from drest_torch.algos.advantages import estimate
from drest_torch.algos.batch import Batch
from drest_torch.rollout import collector as fast
from drest_torch.rollout import play
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.envs import TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss
from torchrl.objectives.value import GAE

from drest_torch import DReSTReward
from drest_torch.algos.a2c import A2C
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.algos.ppo import PPO
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.reward import Reward
from drest_torch.theory import balance
from drest_torch.training.run import start
from tests.helpers.counting import ROAD

LEVELS = generate(GeneratorConfig(), 40, seed=0)
SLOTS, ROUNDS, LENGTH = 5, 3, 4
SHAPE = (7,)
CONFIG = SimpleNamespace(
    lr=1e-3,
    lr_end=0.0,
    muon_lr=None,
    adam_eps=1e-5,
    entropy=0.03,
    entropy_end=0.03,
    max_grad_norm=0.5,
    minibatches=1,
    normalise_advantage=False,
    credit="mini",
    epochs=1,
    clip=0.2,
    gae_lambda=0.95,
    critic_coeff=0.5,
)


@pytest.fixture
def networks():
    torch.manual_seed(0)
    scale = torch.ones(SHAPE)
    return (
        Policy(SHAPE, NUM_ACTIONS, NetworkSize(16, 2), scale=scale),
        Critic(SHAPE, NetworkSize(16, 2), scale=scale),
    )


@pytest.fixture
def batch():
    """Mini-episodes of four steps: ROUNDS of them in each of SLOTS slots, in the order they are played."""
    generator = torch.Generator().manual_seed(1)
    rounds, ticks, slots = ROUNDS, LENGTH, SLOTS
    steps = rounds * ticks * slots
    slot = torch.arange(slots).repeat(rounds * ticks)
    tick = torch.arange(ticks).repeat_interleave(slots).repeat(rounds)
    distinct = 30  # so that several steps share an observation
    return Batch(
        observation=torch.randn(distinct, *SHAPE, generator=generator),
        private_bits=None,
        seen=torch.randint(distinct, (steps,), generator=generator),
        action=torch.randint(NUM_ACTIONS, (steps,), generator=generator),
        log_prob=-torch.rand(steps, generator=generator) - 1.0,
        episode=torch.arange(rounds).repeat_interleave(ticks * slots) * slots + slot,
        ended=tick == ticks - 1,
        blocks=[slots] * (rounds * ticks),
        slots=slots,
        group_size=slots,
        reward=torch.randn(rounds * slots, generator=generator),
        context=torch.zeros(rounds * slots, 0),
    )


def as_torchrl(batch, value, *, ends):
    """[slots, time] of the same steps; ``ends`` says where a return ends."""

    def grid(each):
        return each.reshape(ROUNDS * LENGTH, SLOTS).T.unsqueeze(-1)

    values = grid(value)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    done = grid(ends)
    following = {"state_value": after, "reward": grid(batch.step_reward()), "done": done, "terminated": done}
    return TensorDict({"state_value": values, "next": following}, batch_size=[SLOTS, ROUNDS * LENGTH])


@pytest.mark.parametrize("lmbda", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("credit", ["mini", "meta"])
def test_advantages_equal_torchrls(batch, credit, lmbda):
    value = torch.randn(batch.steps, generator=torch.Generator().manual_seed(2))
    last_round = torch.arange(batch.steps) >= batch.steps - SLOTS
    data = as_torchrl(batch, value, ends=batch.ended if credit == "mini" else last_round)
    theirs = GAE(gamma=1.0, lmbda=lmbda, value_network=None)(data)
    advantage, target = estimate(batch, value, lmbda, credit)
    for ours, key in ((advantage, "advantage"), (target, "value_target")):
        torch.testing.assert_close(ours.reshape(-1, SLOTS).T, theirs[key].squeeze(-1))


@pytest.mark.parametrize(("ours", "theirs"), [(PPO, ClipPPOLoss), (A2C, A2CLoss)])
def test_loss_and_gradient_equal_torchrls(batch, networks, ours, theirs):
    policy, critic = networks
    learner = ours(policy, critic, CONFIG, torch.Generator())
    losses = []
    learner.descend = lambda loss: (losses.append(loss), torch.zeros(()))[1]
    learner.set_progress(0.0)
    learner.update(batch)
    (mine,) = losses

    advantage, target = learner.advantages(batch, batch.whole())
    data = TensorDict(
        {
            "observation": batch.observation[batch.seen],
            "action": batch.action,
            "action_log_prob": batch.log_prob,
            "advantage": advantage.unsqueeze(-1),
            "value_target": target.unsqueeze(-1),
        },
        batch_size=batch.steps,
    )
    found = torchrl_loss(theirs, policy, critic)(data)
    other = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
    torch.testing.assert_close(mine, other)
    parameters = list(learner.networks.parameters())
    for one, two in zip(torch.autograd.grad(mine, parameters), torch.autograd.grad(other, parameters), strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-4)
    if ours is PPO:
        assert 0.1 < found["clip_fraction"] < 0.9  # both branches of the minimum were met


def torchrl_loss(kind, policy, critic):
    actor = ProbabilisticActor(
        TensorDictModule(policy, ["observation"], ["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    return kind(
        actor,
        ValueOperator(critic.net),
        entropy_coeff=CONFIG.entropy,
        critic_coeff=CONFIG.critic_coeff / 2,  # its squared error has no 1/2
        loss_critic_type="l2",
        functional=False,
        **({"clip_epsilon": CONFIG.clip} if kind is ClipPPOLoss else {}),
    )


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("divide_by_best", [True, False])
def test_every_transition_of_the_fast_collector_is_that_of_the_environment(gamma, divide_by_best, monkeypatch):
    """The same actions: observations, coins, ends, lengths and discounts of each step, and what is paid."""
    episodes, seen = 8, []

    def recorded(*args, **kwargs):
        for tick in play.ticks(*args, **kwargs):
            seen.append(tick)
            yield tick

    monkeypatch.setattr(fast, "ticks", recorded)
    mdp = compile_levels(LEVELS)
    observe = make_observation("grid", mdp)
    reward = Reward(0.9, gamma, episodes, counting="sequential", divide_by_best=divide_by_best)
    generator, optima = torch.Generator().manual_seed(0), solve(mdp, gamma)
    collector = fast.Collector(mdp, optima, observe, reward, slots=len(LEVELS), group=1, rng=generator)
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(16, 1), scale=observe.scale)
    batch = collector.collect(policy)  # as many slots as levels: the draw is spread evenly, slot i plays level i
    slots = batch.slots
    steps = [[] for _ in range(slots * episodes)]
    for tick in seen:
        found = zip(
            tick.slot.tolist(),
            tick.observation[tick.seen],
            tick.before.ticks.tolist(),
            tick.action.tolist(),
            tick.step.coin.tolist(),
            tick.step.mini_done.tolist(),
            tick.step.length.tolist(),
            strict=True,
        )
        for episode, *step in found:
            steps[episode].append(step)
    assert sum(map(len, steps)) == len(batch)

    env = GridworldEnv(mdp, slots, episodes_per_meta=episodes, gamma=gamma)
    paying = TransformedEnv(env, DReSTReward(0.9, gamma=gamma, divide_by_best=divide_by_best))
    td = paying.reset(level=torch.arange(slots))
    plans = [list(chain(*steps[slot::slots])) for slot in range(slots)]
    compared = 0
    for number in range(max(map(len, plans))):
        action = [plan[number][2] if number < len(plan) else 0 for plan in plans]
        stepped, following = paying.step_and_maybe_reset(td.set("action", torch.tensor(action)))
        after = stepped["next"]
        k, counts = td["num_lengths"], td["drest_counts"]
        log_discount = reward.exponent(counts, counts.sum(-1, keepdim=True), k) * math.log(reward.lam)
        for slot, plan in enumerate(plans):
            if number >= len(plan):
                continue
            observation, ticks, _, coin, done, length = plan[number]
            assert torch.equal(td["observation"][slot], observation)
            assert td["tick"][slot].item() == ticks
            assert after["reward_raw"][slot].item() == coin
            assert after["mini_done"][slot].item() == done
            episode, columns = td["mini_idx"][slot].item() * slots + slot, int(k[slot])
            torch.testing.assert_close(batch.context[episode, :columns], log_discount[slot, :columns])
            expected = 0.0
            if done:
                assert optima.lengths[slot, after["mini_len"][slot].item()] == length
                expected = batch.reward[episode].item()
            assert after["reward"][slot].item() == pytest.approx(expected, abs=1e-6)
            compared += 1
        td = following
    assert compared == len(batch)
    assert len(batch.reward.unique()) > 40


@pytest.mark.slow
def test_both_roads_learn_the_same_choice(tmp_path):
    """Coins that are not divided by m: agents come to rest at the balance of both lengths, which is no even choice."""
    path = tmp_path / "road.txt"
    path.write_text(ROAD)
    roads = {
        "fast": ["levels=generated", f"levels.path={path}", "policy.observation=vector"],
        "torchrl": ["env=torchrl", "env.factory=tests.helpers.counting:road", "env.base=null", "env.copies=32"],
    }
    training = ["algo=ppo", "algo.episodes=512", "algo.minibatches=4", "algo.epochs=4", "algo.lr=0.003"]
    training += ["algo.muon_lr=null", "algo.entropy=0.02", "algo.gae_lambda=0.95", "algo.critic_width=null"]
    training += ["algo.normalise_advantage=true", "policy.network=mlp", "policy.width=32", "policy.depth=2"]
    training += ["policy.activation=tanh", "reward.counting=sequential", "reward.episodes_per_meta=16"]
    training += ["reward.divide_by_best=false", "env_steps=60000", "evaluations=1", "threads=1"]
    training += ["logger=none", "progress=false", "pictures=0"]
    expected = balance(4.0, 5.0, 0.9, 16).item()
    assert 0.6 < expected < 0.7
    for name, own in roads.items():
        longer = []
        for seed in range(3):
            folder = tmp_path / f"{name}-{seed}"
            sampled = ["env.standardise=false", "sampled=4096"] if name == "torchrl" else []
            summary = start(compose(*own, *training, *sampled, f"seed={seed}", f"run_dir={folder}")).train()
            (split,) = summary["splits"].values()
            (record,) = json.loads((folder / split["file"]).read_text())
            longer.append(list(record["length_probabilities"].values())[-1])
        assert sum(longer) / len(longer) == pytest.approx(expected, abs=0.05), name
        assert max(longer) - min(longer) < 0.15, name
