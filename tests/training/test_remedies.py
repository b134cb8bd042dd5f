"""Tests of remedies: each changes what it says, in exact training and from samples."""

import pytest
import torch

from drest_torch.algos.base import divergence
from drest_torch.config.compose import compose
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.training.remedies import Remedy, fixed_copy, matching, share_networks, tie
from drest_torch.training.run import run_of
from tests.helpers.runs import QUIET, SMALLEST, WITHOUT_EPISODES, in_folder

LEARNING = ("algo.lr=0.05", "algo.entropy=0", "reward=default")
ALGORITHMS = {
    "exact": ("algo=exact", *WITHOUT_EPISODES, *LEARNING),
    "ppo": ("algo=ppo", *SMALLEST, *LEARNING),
    "tabular": ("algo=tabular", *WITHOUT_EPISODES[2:]),
}
PAID = Reward(lam=1.0, divide_by_best=False, counting="averaged", episodes_per_meta=16)


@pytest.fixture(params=["exact", "ppo"])
def algorithm(request, tmp_path):
    return untrained(tmp_path, request.param)


def untrained(folder, name="exact", *overrides):
    """Return the algorithm of an untrained run on the level of the paper's example."""
    cfg = compose("levels=example", *ALGORITHMS[name], *QUIET, *overrides, values=in_folder(folder))
    return run_of(cfg, folder).algorithm


def observations(policy):
    return torch.rand(64, *policy.net.scale.shape, generator=torch.Generator().manual_seed(0))


def trained(algorithm, updates=3):
    for _ in range(updates):
        algorithm.update(PAID)


def test_frozen_weights_stay_while_others_change(algorithm):
    Remedy(freeze=("last",)).apply(algorithm)
    before = {name: weight.detach().clone() for name, weight in algorithm.policy.named_parameters()}
    trained(algorithm)
    changed = {name for name, weight in algorithm.policy.named_parameters() if not torch.equal(weight, before[name])}
    assert set(before) - changed == {"net.body.2.weight", "net.body.2.bias"}


def test_a_penalty_keeps_actions_near_those_of_before(algorithm, tmp_path, request):
    held = untrained(tmp_path / "held", request.node.callspec.params["algorithm"])
    Remedy(penalty=100.0).apply(held)
    inputs = observations(algorithm.policy)
    before = algorithm.policy(inputs).detach()
    for other in (algorithm, held):
        trained(other, 10)
    near, far = (divergence(other.policy(inputs), before).mean().item() for other in (held, algorithm))
    assert near < far / 4


def test_a_penalty_has_no_gradient_at_the_trained_agent(tmp_path):
    free, held = untrained(tmp_path / "free"), untrained(tmp_path / "held")
    Remedy(penalty=5.0).apply(held)
    for algorithm in (free, held):
        trained(algorithm, 1)
    for weight, other in zip(free.policy.parameters(), held.policy.parameters(), strict=True):
        torch.testing.assert_close(weight, other)


@pytest.mark.parametrize(("share", "ties"), [(0.5, (True, False)), (0.0, (True, True))])
def test_tied_logits_are_those_of_even_choices(share, ties):
    logits = torch.tensor([[1.0, 0.9, -3.0, -4.0], [5.0, 1.0, 0.0, 0.0]])
    policy, trained_policy = torch.nn.Identity(), torch.nn.Identity()
    tie(policy, trained_policy, share)
    tied = policy(logits)
    assert (tied[:, 0] == tied[:, 1]).tolist() == list(ties)
    assert torch.equal(tied[:, 2:], logits[:, 2:])
    assert tied[0, 0].item() == pytest.approx(0.95)


def test_a_tie_holds_while_the_logits_move(algorithm):
    even = fixed_copy(algorithm.policy)
    Remedy(tie=0.0).apply(algorithm)
    trained(algorithm)
    inputs = observations(algorithm.policy)
    actions = even(inputs).topk(2).indices
    pair = algorithm.policy(inputs).gather(-1, actions)
    assert torch.equal(pair[:, 0], pair[:, 1])
    assert not torch.equal(algorithm.policy(inputs), even(inputs))


def test_shared_networks_are_trained_by_both_algorithms(tmp_path):
    first, second = untrained(tmp_path / "a", "ppo"), untrained(tmp_path / "b", "ppo", "seed=5")
    share_networks(second, first)
    before = [weight.detach().clone() for weight in first.networks.parameters()]
    trained(second, 1)
    assert any(not torch.equal(*pair) for pair in zip(before, first.networks.parameters(), strict=True))
    for weight, other in zip(first.networks.parameters(), second.networks.parameters(), strict=True):
        assert weight is other


def test_a_mixture_counts_updates_from_one():
    assert [update for update in range(1, 31) if Remedy(mix=10).has_own_reward(update)] == [10, 20, 30]
    assert not Remedy().has_own_reward(10)


NAMES = ["net.read.first", "net.ask.last", "net.ask.last_bias", "net.ask.hidden.0"]


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        ("last", NAMES, NAMES[1:3]),
        (
            "last",
            ["net.body.0.weight", "net.body.2.weight", "net.body.2.bias"],
            ["net.body.2.weight", "net.body.2.bias"],
        ),
        ("net.read", NAMES, NAMES[:1]),
        ("*.hidden.*", NAMES, NAMES[3:]),
    ],
)
def test_patterns_match_names_of_weights(pattern, names, expected):
    assert matching(pattern, names) == expected


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"freeze": ("first",)}, r"freeze=first: matches no weights; expected last, or some of net\.body\.0\.weight"),
        ({"freeze": ("net",)}, "freeze=net: leaves no weights to train"),
        ({"penalty": 0}, "penalty=0; expected a number above 0"),
        ({"tie": 2}, "tie=2; expected a number from 0 to 1"),
    ],
)
def test_invalid_remedies_get_one_sentence(values, sentence, tmp_path):
    with pytest.raises(ConfigError, match=sentence):
        Remedy(**values).apply(untrained(tmp_path))


def test_a_table_has_no_remedies(tmp_path):
    algorithm = untrained(tmp_path, "tabular")
    with pytest.raises(ConfigError, match="for networks, and this agent is a table"):
        Remedy(penalty=1.0).apply(algorithm)
    with pytest.raises(ConfigError, match="for networks, and this agent is a table"):
        share_networks(algorithm, algorithm)
