"""Recurrent policies: the extent of their memory, and their evaluation by sampling."""

from dataclasses import replace

import pytest
import torch
from tensordict import TensorDict

from drest_torch.agent import Agent
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.sampled import SamplingEvaluator
from drest_torch.reward import Reward
from drest_torch.studies.randomness.histories import Histories
from drest_torch.training.run import start
from drest_torch.transforms.mini_episodes import played
from tests.helpers.collecting import TINY, make

SMALL = [
    *("policy=recurrent", "policy.width=16", "logger=none", "progress=false", "pictures=1", "test.paper=false"),
    *("levels.train=20", "levels.selection=2", "levels.test=4", "algo.episodes=64", "reward.group=16", "sampled=16"),
]


def agent(observe, *, private_bits=0):
    """Return a policy whose memory changes its actions, and a critic."""
    size, scale = NetworkSize(16, 1, "silu", "recurrent"), observe.scale
    torch.manual_seed(1)
    policy = Policy(observe.shape, 4, size, scale=scale, private_bits=private_bits)
    for weight in policy.parameters():
        weight.data.mul_(3)
    policy.net.head.weight.data.mul_(100)
    return policy, Critic(observe.shape, size, scale=scale, private_bits=private_bits, context=2)


def collected(private_bits=0):
    """Return a batch in which slots play three mini-episodes each and then wait, with its steps, its actor and a
    critic."""
    options = {"slots": 12, "rounds": 3, "group": 1, "counting": "sequential", "private_bits": private_bits}
    setup = make([TINY, world("royal_road")], **options)
    policy, critic = agent(make_observation("grid", setup.worlds.base.mdp), private_bits=private_bits)
    actor = setup.worlds.actor(policy)
    batch = setup.worlds.collector(actor).collect(setup.rng)
    return batch, batch[played(batch)].exclude("memory"), actor, setup.worlds.value(critic)


@pytest.mark.parametrize("private_bits", [0, 2])
def test_outputs_over_a_batch_agree_with_single_steps(private_bits):
    _, steps, actor, value = collected(private_bits)
    log_prob = actor.get_dist(steps).log_prob(steps["action"])
    assert torch.allclose(log_prob, steps["action_log_prob"], atol=1e-5)
    assert value(steps)["state_value"].shape == (len(steps), 1)
    forgetful = actor.get_dist(steps.clone().set("is_init", torch.ones_like(steps["is_init"])))
    assert not torch.allclose(forgetful.log_prob(steps["action"]), steps["action_log_prob"], atol=0.1)


@pytest.mark.parametrize("begins", [False, True])
def test_a_single_step_equals_torchrls_bit_for_bit(begins):
    net = agent(make_observation("grid", compile_levels([TINY])))[0].net
    read, memory = torch.randn(2, 50, 16, generator=torch.Generator().manual_seed(0))
    is_init = torch.zeros(50, 1, dtype=torch.bool)
    is_init[::3] = begins
    steps = TensorDict({"read": read, "is_init": is_init, "memory": memory.unsqueeze(1)}, [50])
    with torch.no_grad():
        outputs, remembered = net.recall(read, is_init, memory.unsqueeze(1))
        expected = net.gru(steps)
        assert torch.equal(outputs, net.head(expected["hidden"]))
    assert torch.equal(remembered, expected["next", "memory"])


def test_memory_lasts_from_start_to_end_of_a_meta_episode():
    batch, steps, actor, _ = collected()
    assert batch["next", "mini_done"].sum(1).eq(3).all()
    begins = batch["is_init"].squeeze(-1)
    assert begins[:, 0].all()
    assert not begins[:, 1:].any()
    before = actor.get_dist(steps).outputs.detach()
    first = steps["is_init"].squeeze(-1).nonzero().flatten()[1]  # of the second slot
    changed = steps["state"].clone()
    changed[first] = changed[changed != changed[first]][0]
    after = actor.get_dist(steps.clone().set("state", changed)).outputs.detach()
    same = (before == after).all(-1)
    last = first + int(batch["next", "mini_done"][1].sum(1).cumsum(0).eq(3).nonzero()[0]) + 1
    assert same[:first].all()
    assert same[last:].all()
    assert not same[first:last].any()  # in all three mini-episodes


def test_evaluation_by_sampling_agrees_with_enumeration():
    level = parse_level("shutdown: 3\nC1 A B2\n.  C3 .")
    evaluator = SamplingEvaluator([level], "centred", mini_episodes=40_000, reward=Reward())
    histories = Histories([level], "centred")
    policy, _ = agent(evaluator.observe)
    with torch.no_grad():
        expected, _ = histories.play(policy)
    evaluation = evaluator.evaluate(policy)
    assert 0.05 < expected.probability[0, 0] < 0.95
    assert evaluation.outcome.probability[0].tolist() == pytest.approx(expected.probability[0].tolist(), abs=0.01)
    assert evaluation.outcome.coins[0].tolist() == pytest.approx(expected.coins[0].tolist(), abs=0.05)
    with pytest.raises(ConfigError, match=r"^a recurrent policy cannot be evaluated exactly; use sampled=256"):
        evaluator.probabilities(policy)


def test_an_agent_forgets_at_the_start_of_an_episode(tmp_path):
    start(compose(*SMALL, "env_steps=500", "evaluations=1", f"run_dir={tmp_path}/run")).train()
    agent = Agent.load(tmp_path / "run")
    agent.policy.net.head.weight.data.mul_(100)
    seen = torch.randn(8, *agent.shape)
    fresh = agent.action_probabilities(seen)
    assert torch.equal(fresh, agent.action_probabilities(seen))
    agent.act(seen)
    assert not torch.allclose(fresh, agent.action_probabilities(seen), atol=1e-3)
    agent.begin_episode()
    assert torch.equal(fresh, agent.action_probabilities(seen))
    agent.reward = replace(agent.reward, counting="sequential")  # memory then lasts for the meta-episode
    agent.act(seen)
    agent.begin_episode()
    assert not torch.allclose(fresh, agent.action_probabilities(seen), atol=1e-3)
    agent.seed(0)
    assert torch.equal(fresh, agent.action_probabilities(seen))
    assert 0 < agent.evaluate("example").usefulness < 1
