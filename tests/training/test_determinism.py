"""The same command and seed give the same agent, bit for bit, with any number of threads."""

from contextlib import contextmanager
from itertools import product

import pytest
import torch

from tests.helpers.determinism import OneWriter, trained

FEW = ("levels=generated", "levels.train=16", "levels.selection=0", "levels.test=1")

# Wide enough for torch to use two threads even for the indexing of weights, which takes 32,768 numbers.
NETWORKS = {
    "mlp": ("policy=auto", "policy.network=mlp", "policy.observation=centred", "policy.width=128"),
    "symmetric": ("policy=symmetric", "policy.observation=centred", "policy.width=256"),
    "convolutional": ("policy=convolutional", "policy.width=128", "policy.depth=1"),
    "planning": ("policy=planning", "policy.width=128"),
    "recurrent": ("policy=recurrent", "policy.width=64", "sampled=16", "levels.selection=0"),
}
SAMPLED, EXACT = ("ppo", "a2c", "reinforce"), ("exact", "generalist")
WITHOUT_EPISODES = (*EXACT, "distil")
OBJECTIVES = {
    "exact": (
        *("supports", "kl", "neutrality_plus", "rarity", "constrained", "weighted"),
        *("shutdown_seeking", "lexicographic", "attainable_utility", "unequal"),
    ),
    "ppo": ("kl", "rarity", "constrained", "weighted", "shutdown_seeking", "lexicographic", "unequal"),
}
CARTPOLE = ("env=cartpole", "env.copies=64", "algo.episodes=128", "sampled=16")
MINIGRID = (
    "env=minigrid",
    "policy.network=entries",
    "env.copies=16",
    "algo.episodes=16",
    "reward.group=16",
    "sampled=8",
)
REGULARIZED = ("policy.norm=layer", "policy.dropout=0.3", "algo.weight_decay=0.1", "algo.average=0.9")
IN_TURN = ("reward.counting=sequential", "algo.credit=meta")

RUNS = {
    **{
        f"{algo}, {network}": (f"algo={algo}", *FEW, *NETWORKS[network])
        for algo, network in product(SAMPLED + EXACT, NETWORKS)
        if network != "recurrent" or algo in SAMPLED
    },
    **{
        f"{algo}, {objective}": (f"algo={algo}", *FEW, f"objective={objective}")
        for algo, objectives in OBJECTIVES.items()
        for objective in objectives
    },
    "ppo, in turn": ("algo=ppo", *FEW, *IN_TURN),
    "exact, chance": ("algo=exact", *FEW, "levels.generator.chance=[0.5,1.0]"),
    "ppo, regularised": ("algo=ppo", *FEW, *NETWORKS["symmetric"], *REGULARIZED),
    "exact, regularised": ("algo=exact", *FEW, *NETWORKS["convolutional"], *REGULARIZED),
    "distil, mlp": ("algo=distil", *FEW, "algo.teachers=[generalist]"),
    "ppo, by regret": ("algo=ppo", *FEW, "levels.sampler=regret"),
    "tabular": ("algo=tabular", "levels=example"),
    "ppo, cartpole": ("algo=ppo", *CARTPOLE),
    "a2c, cartpole, recurrent": ("algo=a2c", *CARTPOLE, "policy=recurrent"),
    "a2c, minigrid, images": ("algo=a2c", *MINIGRID),
}
FAST = (*(f"ppo, {name}" for name in NETWORKS), "exact, mlp")


def words(name, episodes):
    """Return the arguments of a run; algorithms that sample on levels have this many mini-episodes in a batch."""
    in_batches = not name.startswith(WITHOUT_EPISODES) and not any(
        word.startswith("algo.episodes=") for word in RUNS[name]
    )
    return (*RUNS[name], f"algo.episodes={episodes}") if in_batches else RUNS[name]


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def importable(name):
    for task, module in (("cartpole", "gymnasium"), ("minigrid", "minigrid")):
        if task in name:
            pytest.importorskip(module, reason=f"{module} is not installed (the extra `envs`)")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_threads_give_the_same_agent_each_time(tmp_path, name):
    importable(name)
    with threads(2):
        first, *others = (trained(tmp_path / str(i), *words(name, 2048)) for i in range(5))
    for other in others:
        assert [key for key, value in first.items() if value != other[key]] == []


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_no_result_depends_on_the_order_of_threads(tmp_path, name):
    """Torch refuses nondeterministic operations; `OneWriter` reports those that its mode puts in order."""
    importable(name)
    with threads(2):
        plain = trained(tmp_path / "plain", *words(name, 256), updates=1)
        with deterministic(), OneWriter():
            strict = trained(tmp_path / "strict", *words(name, 256), updates=1)
    assert [key for key, value in plain.items() if value != strict[key]] == []


@pytest.mark.parametrize(
    "write",
    [
        lambda weight, index: weight[index].sum().backward(),
        lambda weight, index: weight.detach().put_(index, torch.ones(3)),
        lambda weight, index: weight.detach().index_copy_(0, index, torch.ones(3)),
    ],
    ids=["brackets", "put", "index_copy"],
)
def test_two_writes_to_one_place_are_reported(write):
    weight = torch.zeros(4, requires_grad=True)
    write(weight, torch.tensor([0, 1, 2]))
    with OneWriter(), pytest.raises(AssertionError, match=r"1 places of a tensor \[4\]"):
        write(weight, torch.tensor([0, 1, 1]))
