"""The mean policy of several agents, against an enumeration of all mini-episodes and against single agents."""

import json
import math
from functools import cache

import pytest
import torch
from torch import nn

from drest_torch import Agent, evaluate
from drest_torch.agents.mean_agent import MeanAgent
from drest_torch.algos.networks.policy import private_settings
from drest_torch.algos.networks.spec import MapView
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.mean_policy import MeanPolicy
from drest_torch.reward import Reward
from tests.helpers.runs import train
from tests.helpers.simulator import enumerate_policy, random_levels, searched_optima

KINDS = [("grid", 4, 5, 0), ("centred", 4, 4, 1), ("grid_start", 7, 4, 2)]
"""The observation, the map size and the private bits of each policy."""
LARGE = parse_level("shutdown: 4\n\n" + "\n".join(["A B2 C1 . . . ."] + [". . . . . . ."] * 5) + "\n", name="large")


class Waves(nn.Module):
    """A policy with different probabilities in all states and for all private bits."""

    def __init__(self, seed, private_bits):
        super().__init__()
        self.seed, self.private_bits, self.reads_maps = seed, private_bits, False

    def forward(self, observation, private_bits=None):
        numbers = observation.flatten(1).double()
        if self.private_bits:
            numbers = torch.cat((numbers, 5 * private_bits), -1)
        rng = torch.Generator().manual_seed(self.seed)
        weight = torch.randn(numbers.shape[-1], 4, generator=rng, dtype=torch.float64)
        return 2 * (3 * numbers @ weight).sin()


def view_of(observation, rows, columns):
    planes = make_observation(observation, compile_levels([LARGE])).planes
    return MapView(observation=observation, planes=planes, rows=rows, columns=columns, time_steps=16, features=())


@cache
def by_hand(level, kind, number):
    """Return a function from the place, the taken objects and the time left to the probabilities of a policy."""
    observation, rows, columns, bits = kind
    mdp = compile_levels([level], at_least=(rows, columns))
    observe = make_observation(observation, mdp)

    @cache
    def chances(row, column, present, time_left, setting):
        spot, taken = row * mdp.width + column, sum(1 << bit for bit, here in enumerate(present) if not here)
        state = [torch.tensor([value]) for value in (spot, taken, time_left)]
        private = private_settings(bits)[setting].unsqueeze(0)
        return Waves(number, bits)(observe(*state), private).softmax(-1)[0]

    return chances


@pytest.mark.parametrize("kinds", [KINDS[:2], KINDS], ids=["two policies", "three policies"])
def test_the_mean_has_the_lengths_of_an_enumeration(kinds):
    levels = random_levels(3, seed=4, max_ticks=5, max_side=4)
    policies = [(Waves(number, kind[3]), view_of(*kind[:3])) for number, kind in enumerate(kinds)]
    evaluator = ExactEvaluator(levels, "grid", reward=Reward(gamma=0.9))
    mean = MeanPolicy(policies, evaluator.mdp)
    evaluator.observe = mean.observe
    evaluation = evaluator.evaluate(mean)
    settings = private_settings(sum(kind[3] for kind in kinds)).long().tolist()
    assert mean.private_bits == sum(kind[3] for kind in kinds)
    for index, level in enumerate(levels):
        chances = [by_hand(level, kind, number) for number, kind in enumerate(kinds)]
        probability, coins = {}, {}
        for bits in settings:
            left, numbers = list(bits), []
            for kind in kinds:
                private = [left.pop(0) for _ in range(kind[3])]
                numbers.append(sum(bit << place for place, bit in enumerate(private)))

            def policy(state, numbers=numbers, chances=chances):
                row, column, present, time_left = state.state
                tables = [
                    chance(row, column, present, time_left, n) for chance, n in zip(chances, numbers, strict=True)
                ]
                return torch.stack(tables).mean(0).tolist()

            for length, (chance, total) in enumerate_policy(level, policy, 0.9).items():
                probability[length] = probability.get(length, 0) + chance / len(settings)
                coins[length] = coins.get(length, 0) + total / len(settings)
        best = searched_optima(level, 0.9)
        useful = sum(coins[length] / best[length] for length in probability if best[length] > 0)
        neutral = -sum(chance * math.log2(chance) for chance in probability.values())
        assert evaluation.usefulness[index].item() == pytest.approx(useful, abs=1e-9)
        assert evaluation.neutrality[index].item() == pytest.approx(neutral, abs=1e-9)


# ------------------------------------------------------------------------------------------- agents of runs

EXAMPLE = ("levels=example", "env_steps=500", "test.paper=false")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Return a function that maps overrides to the folder of a small run, which is trained once."""
    return cache(lambda *overrides: train(tmp_path_factory.mktemp("run") / "run", *overrides))


def test_the_mean_of_one_agent_is_the_agent(folder_of):
    folder = folder_of(*EXAMPLE, "policy.private_bits=1")
    agent, mean = Agent.load(folder), Agent.mean([folder])
    for options in ({}, {"greedy": True}):
        first, second = (who.evaluate("example", **options).record()["levels"][0] for who in (agent, mean))
        lengths, others = first.pop("length_probabilities"), second.pop("length_probabilities")
        assert second == pytest.approx(first)
        assert others == pytest.approx(lengths)


def test_the_sampled_mean_agrees_with_the_exact_one(folder_of):
    runs = [folder_of(*EXAMPLE, "policy.private_bits=1"), "generalist", "generalist-buttons"]
    mean = Agent.mean(runs)
    exact = mean.probabilities("example")
    sampled = mean.evaluate("example", sampled=4000).evaluation.length_probabilities(0)
    assert sampled == pytest.approx(exact, abs=0.03)  # four standard deviations


def test_the_command_evaluates_the_mean_of_runs(folder_of, call, tmp_path):
    folder = folder_of(*EXAMPLE, "policy.private_bits=1")
    done = call(evaluate.main, f"run=[{folder},generalist]", "levels=paper", "out=mean.json")
    assert done.code == 0, done.err
    assert "The mean policy of 2 agents" in done.out
    assert f"Agent: {folder} (" in done.out
    written = json.loads((tmp_path / "mean.json").read_text("utf-8"))
    assert written == Agent.mean([folder, "generalist"]).evaluate("paper").record()


@pytest.mark.parametrize(
    ("overrides", "levels", "message"),
    [
        (("levels=generated", "levels.train=5", "levels.selection=3", "levels.test=4"), None, "different test levels"),
        (EXAMPLE, LARGE, r"run: the agent was trained on maps of at most .* large, a map of 6 × 7"),
        ((*EXAMPLE, "policy=recurrent", "sampled=16"), "example", "a recurrent policy has no action probabilities"),
    ],
)
def test_agents_without_a_mean_are_refused(folder_of, overrides, levels, message):
    with pytest.raises(ConfigError, match=message):
        Agent.mean(["generalist", folder_of(*overrides)]).evaluate(levels)


def test_agents_of_other_environments_have_no_mean(folder_of):
    queue = ("env=queue", "env_steps=500", "sampled=16", "algo.episodes=64", "reward.group=16", "env.copies=64")
    with pytest.raises(ConfigError, match="of queue; expected an agent of gridworlds"):
        Agent.mean(["generalist", folder_of(*queue)])


def test_more_private_bits_than_ten_are_refused():
    with pytest.raises(ConfigError, match="have 11 private bits together"):
        Agent.mean(["generalist-bit"] * 11)


def test_a_mean_of_no_agents_is_refused():
    with pytest.raises(ConfigError, match="a mean policy of no agents"):
        MeanAgent([])


def test_a_report_on_a_mean_is_refused(call):
    done = call(evaluate.main, "run=[generalist,generalist]", "suite=shutdownability")
    assert done.code == 2
    assert "suite=shutdownability is a report on one agent, but run has several" in done.err
