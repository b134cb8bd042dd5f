"""Playing in lockstep against playing what is needed; several agents against each alone; nothing waits for a device."""

import copy
from types import SimpleNamespace

import pytest
import torch
from drest_torch.algos.batch import Batch
from drest_torch.algos.generators import Generators
from drest_torch.algos.networks.stacked import Stacked
from drest_torch.rollout.lockstep import LockstepCollector
from torch.utils._python_dispatch import TorchDispatchMode
from torchrl.envs import TransformedEnv

from drest_torch import DReSTReward
from drest_torch.algos import a2c, ppo, reinforce
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import parse_level, world
from drest_torch.reward import Reward, group_discount
from tests.helpers.collecting import NINE, TINY, best_of, replayed
from tests.helpers.collecting import make as make_needed
from tests.helpers.settings import SETTINGS

LUCKY = parse_level("shutdown: 3\nC1 A B2@0.5\n. . .\nC2 . .", name="lucky")
SIZE = NetworkSize(16, 1)


def make(levels=NINE, *, seeds=(0,), slots=32, group=4, counting="averaged", episodes=6, private_bits=0, compiled=None):
    """A collector for so many slots of each agent, and a policy and a critic for each."""
    mdp = compile_levels(levels)
    observe = make_observation("grid", mdp)
    collector = LockstepCollector(
        mdp,
        solve(mdp, 0.9),
        observe,
        Reward(0.8, 0.9, episodes, counting),
        slots=slots * len(seeds),
        group=group if counting == "averaged" else 1,
        rng=Generators([torch.Generator().manual_seed(seed) for seed in seeds]),
        compiled=compiled,
    )
    networks = []
    for seed in seeds:
        torch.manual_seed(seed)
        policy = Policy(observe.shape, NUM_ACTIONS, SIZE, scale=observe.scale, private_bits=private_bits)
        for parameter in policy.parameters():
            parameter.data.mul_(3)
        context = collector.context_size
        networks.append(
            (policy, Critic(observe.shape, SIZE, scale=observe.scale, private_bits=private_bits, context=context))
        )
    return collector, networks


def learner_of(module, policy, critic, rng, **settings):
    config = SimpleNamespace(**{**vars(SETTINGS), **settings})
    learner = module.Algorithm(policy, critic if module.Algorithm.needs_critic else None, config, rng)
    learner.set_progress(0.0)
    return learner


def what_was_played(batch):
    """The same mini-episodes as a batch without the steps that were not taken, and each observation once."""
    kept = batch.played.nonzero().squeeze(-1)
    given = batch.observation[kept].flatten(1)
    if batch.private_bits is not None:
        given = torch.cat((given, batch.private_bits[kept]), dim=-1)
    _, seen = given.unique(dim=0, return_inverse=True)
    first = torch.empty(int(seen.max()) + 1, dtype=torch.long).scatter_(0, seen, kept)
    return Batch(
        observation=batch.observation[first],
        private_bits=None if batch.private_bits is None else batch.private_bits[first],
        seen=seen,
        action=batch.action[kept],
        log_prob=batch.log_prob[kept],
        episode=batch.episode[kept],
        ended=batch.ended[kept],
        blocks=[count for count in batch.played.reshape(-1, batch.slots).sum(-1).tolist() if count],
        slots=batch.slots,
        group_size=batch.group_size,
        reward=batch.reward,
        context=batch.context,
    )


@pytest.mark.parametrize("counting", ["averaged", "sequential"])
def test_rewards_against_the_simulator(counting):
    collector, ((policy, _),) = make([TINY, world("royal_road"), world("spacious")], counting=counting)
    batch = collector.collect(policy)
    shown = replayed(what_was_played(batch), collector)
    assert batch.steps == sum(batch.played.tolist()) < len(batch)
    discounts = group_discount(2, 4, 6, 0.8)
    for first in range(0, 32, 4) if counting == "averaged" else ():
        together = shown[first : first + 4]
        for slot, (index, length, coins) in enumerate(together):
            others = sum(1 for _, other, _ in together if other == length) - 1
            discount = discounts[others].item()
            expected = discount * coins / best_of(collector, index, length)
            assert batch.reward[first + slot].item() == pytest.approx(expected, rel=1e-5)
    for slot in range(32) if counting == "sequential" else ():
        lengths = []
        for i in range(6):
            index, length, coins = shown[i * 32 + slot]
            expected = 0.8 ** (lengths.count(length) - i / 2) * coins / best_of(collector, index, length)
            assert batch.reward[i * 32 + slot].item() == pytest.approx(expected, rel=1e-5)
            lengths.append(length)
    assert batch.reward.count_nonzero() > 2


def test_lengths_are_as_likely_as_when_only_what_is_needed_is_played():
    """With luck in the game: shares over many mini-episodes, within four standard errors."""
    shares = []
    for seed in (0, 1):
        collector, ((policy, _),) = make([LUCKY], seeds=(seed,), slots=20_000)
        if seed:
            needed, _ = make_needed([LUCKY], slots=20_000)
            batch = needed.collect(policy)
        else:
            batch = what_was_played(collector.collect(policy))
        _, steps = batch.episode.unique(return_counts=True)
        shares.append(steps.bincount(minlength=6) / batch.episodes)
    assert (shares[0] > 0).sum() == 2
    assert torch.allclose(shares[0], shares[1], atol=4 * (0.5 / 20_000) ** 0.5)


@pytest.mark.parametrize(
    ("module", "counting", "credit"),
    [
        (ppo, "averaged", "mini"),
        (a2c, "sequential", "meta"),
        (ppo, "sequential", "mini"),
        (reinforce, "averaged", "mini"),
    ],
)
def test_an_update_learns_from_what_was_played_alone(module, counting, credit):
    after = []
    for as_played in (False, True):
        collector, ((policy, critic),) = make(counting=counting, slots=12, private_bits=1)
        batch = collector.collect(policy)
        learner = learner_of(module, policy, critic, torch.Generator().manual_seed(5), credit=credit)
        metrics = learner.update(what_was_played(batch) if as_played else batch)
        after.append([*policy.parameters(), *metrics.values()])
    for one, other in zip(*after, strict=True):
        assert torch.allclose(one.reshape(-1), other.reshape(-1), atol=2e-5)


@pytest.mark.parametrize("module", [ppo, a2c, reinforce])
def test_agents_side_by_side_learn_what_each_learns_alone(module):
    alone = []
    for seed in (3, 4, 5):
        collector, ((policy, critic),) = make(seeds=(seed,), private_bits=1)
        learner = learner_of(module, policy, critic, collector.rng)
        metrics = [learner.update(collector.collect(policy)) for _ in range(2)][-1]
        alone.append((policy, metrics))
    collector, networks = make(seeds=(3, 4, 5), private_bits=1)
    policy, critic = (Stacked(each) for each in zip(*networks, strict=True))
    learner = learner_of(module, policy, critic, collector.rng)
    together = [learner.update(collector.collect(policy)) for _ in range(2)][-1]
    for index, (mine, metrics) in enumerate(alone):
        for one, other in zip(mine.parameters(), policy.agent(index).parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-5)
        for name, value in metrics.items():
            assert together[name][index].item() == pytest.approx(value.item(), abs=1e-4), name


class NothingIsWaitedFor(TorchDispatchMode):
    """Refuses what has a GPU's results looked at before the program can go on."""

    waiting = ("_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "is_nonzero", "equal")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masks = name == "index" and any(each is not None and each.dtype == torch.bool for each in args[1])
        if name in self.waiting or masks or (name == "repeat_interleave" and "output_size" not in (kwargs or {})):
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("counting", ["averaged", "sequential"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_nothing_in_a_turn_waits_for_the_device(counting, seeds):
    """And nothing is made on another device: by default tensors would be on one where nothing can be computed."""
    collector, networks = make([LUCKY, TINY], seeds=seeds, counting=counting, private_bits=1)
    policy, critic = networks[0] if len(seeds) == 1 else (Stacked(each) for each in zip(*networks, strict=True))
    learner = learner_of(ppo, policy, critic, collector.rng)
    learner.optimizers.clear()  # torch's count their steps on the processor
    with NothingIsWaitedFor(), torch.device("meta"):
        learner.update(collector.collect(policy))
    needed, policy = make_needed([TINY])
    with NothingIsWaitedFor(), pytest.raises(AssertionError, match="waits for the device"):
        needed.collect(policy)


@pytest.mark.parametrize("levels", [NINE, [LUCKY]])
def test_a_step_of_the_environment_waits_for_nothing(levels):
    env = TransformedEnv(GridworldEnv(levels, 32, episodes_per_meta=2, observation="centred"), DReSTReward())
    td = env.reset()
    for _ in range(10):
        td.set("action", torch.randint(NUM_ACTIONS, (32,)))
        with NothingIsWaitedFor():
            td = env.step(td)["next"]


def test_a_stacked_network_is_each_network_on_its_rows():
    torch.manual_seed(0)
    networks = [Policy((3, 2), 4, SIZE, scale=torch.tensor(0.5), private_bits=2) for _ in range(3)]
    stacked = Stacked(copy.deepcopy(networks))
    seen, private_bits = torch.randn(12, 3, 2), torch.randn(12, 2)
    expected = [network(seen[4 * i : 4 * i + 4], private_bits[4 * i : 4 * i + 4]) for i, network in enumerate(networks)]
    assert torch.allclose(stacked(seen, private_bits), torch.cat(expected), atol=1e-6)
    assert stacked.private_bits == 2
    assert {name for name, _ in stacked.named_parameters()} == {f"weights.{i}" for i in range(4)}
    with torch.no_grad():
        stacked.weights[0][1] += 1
    changed = stacked.agent(1)
    assert not torch.allclose(changed(seen, private_bits), networks[1](seen, private_bits))
    assert torch.equal(stacked.agent(2)(seen, private_bits), networks[2](seen, private_bits))


def test_draws_are_those_of_each_agent_alone():
    def rng(*seeds):
        return Generators([torch.Generator().manual_seed(seed) for seed in seeds])

    together, alone = rng(1, 2), [rng(1), rng(2)]
    assert torch.equal(together.uniform(6, 2), torch.cat([each.uniform(3, 2) for each in alone]))
    assert torch.equal(together.order(5), torch.cat([each.order(5) for each in alone]))
    assert not torch.equal(together.order(50)[0], together.order(50)[1])


def test_the_clock_of_moves_has_no_last_tick():
    with pytest.raises(ValueError, match="clock=steps"):
        make([TINY.with_clock("moves")])
