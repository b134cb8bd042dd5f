"""Networks, evaluators and map sizes that follow from a configuration."""

import pytest
import torch
from torch import nn

from drest_torch.agents.specification import AgentSpec, evaluator, origin_of
from drest_torch.agents.untrained import build_networks
from drest_torch.config.checks import batch_shape
from drest_torch.config.compose import compose
from drest_torch.config.schema import reward_of, shown_features
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level, world, write_levels
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.sampled import SamplingEvaluator
from drest_torch.play import level_sets as data
from drest_torch.tasks.gridworlds import map_size, spec_on_levels

CPU = torch.device("cpu")
TALL, WIDE = parse_level("shutdown: 3\nA\n.\nB2\nC1", name="tall"), parse_level("shutdown: 3\nC1 A B2 . .", name="wide")


def configured(*overrides):
    return compose(
        "algo=ppo", "levels=example", "policy=mlp", "policy.width=16", "policy.depth=1", "run_dir=x", *overrides
    )


def built(*overrides, context=0):
    cfg = configured("policy.observation=grid", *overrides)
    spec = spec_on_levels(cfg, make_observation("grid", compile_levels([world("example")])), (5, 5), frozenset())
    return build_networks(spec, cfg.seed, critic_width=cfg.algo.critic_width, context=context)


def layers(network):
    return [(layer.in_features, layer.out_features) for layer in network.modules() if isinstance(layer, nn.Linear)]


def test_networks_have_the_sizes_of_the_configuration():
    policy, critic = built("policy.depth=2", "policy.private_bits=3", "algo.critic_width=24", context=5)
    inputs = policy.net.scale.numel() + 3
    assert layers(policy) == [(inputs, 16), (16, 16), (16, 4)]
    assert layers(critic) == [(inputs + 5, 24), (24, 24), (24, 1)]
    assert layers(built("algo.critic_width=null")[1])[-1] == (16, 1)
    assert isinstance(policy.net.body[1], nn.SiLU)
    assert isinstance(built("policy.activation=tanh")[0].net.body[1], nn.Tanh)


def test_weights_depend_only_on_the_seed():
    first, _ = built("seed=3")
    state = torch.get_rng_state()
    torch.rand(7)
    same, other = built("seed=3")[0], built("seed=4")[0]
    torch.set_rng_state(state)
    weights = nn.utils.parameters_to_vector(first.parameters())
    assert torch.equal(weights, nn.utils.parameters_to_vector(same.parameters()))
    assert not torch.equal(weights, nn.utils.parameters_to_vector(other.parameters()))


@pytest.mark.parametrize(
    ("overrides", "size"),
    [
        ((), (4, 5)),
        (("levels.symmetries=true",), (5, 5)),
        (("policy=symmetric", "policy.width=16"), (5, 5)),
        (("policy=convolutional", "policy.observation=grid"), (4, 5)),
    ],
    ids=["default", "random symmetries", "symmetric network", "convolutional network"],
)
def test_the_map_size_fits_all_levels_in_all_orientations(overrides, size, tmp_path):
    write_levels(tmp_path / "two.jsonl", [TALL, WIDE])
    cfg = configured(f"levels.path={tmp_path / 'two.jsonl'}", "test.paper=false", *overrides)
    assert map_size(cfg, data.load(cfg)) == size


def test_the_vector_observation_has_the_map_size_of_its_level():
    cfg = configured("policy.observation=vector", "levels=royal_road")
    level = world("royal_road")
    height, width = map_size(cfg, data.load(cfg))
    assert height == level.height
    assert width == level.width


SEQUENTIAL = ("reward.counting=sequential", "reward.episodes_per_meta=8")


@pytest.mark.parametrize(
    ("overrides", "shape"),
    [
        (("reward.group=16",), (64, 1, 16)),
        (SEQUENTIAL, (64, 1, 8)),
        ((*SEQUENTIAL, "algo.credit=meta"), (8, 8, 1)),
        ((*SEQUENTIAL, "policy=recurrent"), (8, 8, 1)),
        (("reward.group=4", "policy=recurrent"), (64, 1, 4)),
    ],
    ids=["averaged", "sequential", "credit of meta-episodes", "recurrent", "recurrent, averaged"],
)
def test_slots_share_the_mini_episodes_of_a_batch(overrides, shape):
    assert batch_shape(configured("algo.episodes=64", *overrides)) == shape


def build_evaluator(*overrides, sampled=None):
    cfg = configured("policy.observation=grid", "policy.time_steps=7", "reward.gamma=0.8", *overrides)
    mdp = compile_levels([TALL, WIDE], at_least=(6, 6), features=shown_features(cfg))
    policy = spec_on_levels(
        cfg, make_observation(cfg.policy.observation, mdp, cfg.policy.time_steps), (6, 6), mdp.features
    )
    spec = AgentSpec(policy, reward_of(cfg), origin_of(cfg, "two levels"))
    return evaluator(spec, [TALL, WIDE], CPU, sampled=sampled, memory_gib=3.0)


def test_an_evaluator_has_the_values_of_its_configuration():
    exact = build_evaluator("levels.by_chance=true")
    assert type(exact) is ExactEvaluator
    assert exact.reward.gamma == 0.8
    assert exact.mdp.features == {"chance"}
    assert exact.observe.shape[-2:] == (6, 6)
    few, more = (build_evaluator("policy.observation=centred", f"policy.time_steps={steps}") for steps in (7, 9))
    assert more.observe.shape[0] == few.observe.shape[0] + 2


META_EPISODES = ("reward.counting=sequential", "reward.episodes_per_meta=4")


@pytest.mark.parametrize(
    ("overrides", "sampled", "mini_episodes", "rounds"),
    [
        (("sampled=9",), 5, 5, 1),
        (("policy=recurrent", "sampled=9"), None, 9, 1),
        (("policy=recurrent", "sampled=9", *META_EPISODES), 6, 8, 4),
        (("sampled=9", *META_EPISODES), 6, 6, 1),
    ],
    ids=["on request", "recurrent", "recurrent, sequential", "sequential"],
)
def test_a_sampling_evaluator_plays_enough_mini_episodes(overrides, sampled, mini_episodes, rounds):
    """Recurrent policies are always sampled, in whole meta-episodes if they were trained in sequence."""
    sampling = build_evaluator("seed=3", *overrides, sampled=sampled)
    assert isinstance(sampling, SamplingEvaluator)
    assert sampling.mini_episodes == mini_episodes
    assert sampling.rounds == rounds
    assert sampling.seed == 3
