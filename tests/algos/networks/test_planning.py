"""The planning network: iterations that grow with the map, and maps of several sizes in one batch."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call

from drest_torch.algos.networks.planning import numbers_running, sides_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level
from tests.algos.networks.test_networks import observations_of, perturbed_networks

SMALL = parse_level("shutdown: 3\nA . C1\n. B2 C2", name="small")
TALL = parse_level("shutdown: 3\nA C1\n# .\n. .\n. B1\n. C2", name="tall")
LONG = parse_level("shutdown: 3\nA . # . . .\n. C1 . B2 . C3", name="long")


def planner(level, depth=1, **values):
    """Return the observations of all states of a level, and a planning policy for them."""
    observe, observations = observations_of(level)
    return observations, perturbed_networks("planning", observe, depth=depth, **values)[0]


def test_the_side_of_a_map_ignores_walls_around_it():
    free = torch.zeros(3, 1, 5, 6)
    free[0] = 1
    free[1, 0, 1:4, 2] = 1
    free[2, 0, 3, 1], free[2, 0, 4, 5] = 1, 1
    assert sides_of(free).tolist() == [6, 3, 5]


@pytest.mark.parametrize(("counts", "running"), [([3, 3, 1], [3, 2, 2]), ([2], [1, 1]), ([0], []), ([], [])], ids=str)
def test_maps_with_fewer_iterations_stop_earlier(counts, running):
    assert numbers_running(torch.tensor(counts, dtype=torch.long)) == running


@pytest.mark.parametrize(
    ("level", "depth", "expected"),
    [(SMALL, 1, 3 + 6 % 4), (TALL, 1, 5 + 9 % 6), (LONG, 1, 6 + 11 % 7), (LONG, 2, 12 + 11)],
)
def test_iterations_grow_with_the_map(level, depth, expected):
    observations, policy = planner(level, depth)
    iterations = []
    policy.net.read.iterated.after.register_forward_hook(lambda *_: iterations.append(1))
    policy(observations)
    assert len(iterations) == expected


def test_iterations_are_at_most_twice_the_side():
    _, policy = planner(SMALL)
    free = (torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0)) < 0.7).float()
    sides, iterations = sides_of(free), policy.net.read.iterations(free)
    assert torch.equal(sides, torch.full((200,), 8))
    assert sorted(iterations.unique().tolist()) == list(range(8, 17))


def test_the_number_of_weights_is_the_same_for_any_depth():
    sizes = [sum(weight.numel() for weight in planner(SMALL, depth)[1].parameters()) for depth in (1, 4)]
    assert sizes[0] == sizes[1]


def test_information_crosses_a_map_of_any_length():
    """The coin at the far end of a corridor of 12 cells is out of sight for as many layers without iterations."""
    far, none = (parse_level(f"shutdown: 20\nA C1 {'. ' * 9}{last}", name="corridor") for last in ("C1", "."))
    observe, with_coin = observations_of(far)
    without = observations_of(none)[1]
    for network, depth, differ in (("planning", 1, True), ("convolutional", 3, False)):
        policy, _ = perturbed_networks(network, observe, depth=depth)
        assert torch.equal(policy(with_coin[:1]), policy(without[:1])) != differ


def test_walls_around_a_map_change_no_output():
    observations, policy = planner(LONG)
    walled = torch.nn.functional.pad(observations, (2, 1, 3, 1))
    walled[:, 0] = 1
    walled[:, 0, 3:-1, 2:-1] = observations[:, 0]
    walled[:, 4] = observations[:, 4, :1, :1]
    torch.testing.assert_close(policy(walled), policy(observations), atol=1e-5, rtol=1e-4)


def test_a_batch_of_several_sizes_equals_single_maps():
    mdp = compile_levels([SMALL, LONG, TALL])
    observe, states = make_observation("grid", mdp), Reachable(mdp).states
    together = observe(states.spot, states.taken, states.time_left)
    policy, _ = perturbed_networks("planning", observe)
    outputs = policy(together)
    for number, level in enumerate((SMALL, LONG, TALL)):
        alone = policy(observations_of(level)[1])
        torch.testing.assert_close(outputs[mdp.level_of(states.spot) == number], alone, atol=1e-5, rtol=1e-4)


def test_gradients_of_the_iterated_weights_are_exact():
    """The sum over all iterations agrees with finite differences in 64 bits, for maps of several sizes."""
    mdp = compile_levels([SMALL, TALL])
    observe, states = make_observation("grid", mdp), Reachable(mdp).states
    observations = observe(states.spot, states.taken, states.time_left)[::5].double()
    policy, _ = perturbed_networks("planning", observe, width=8, changed=0.1)
    policy.double()
    weights = {name: weight for name, weight in policy.named_parameters() if "iterated" in name}

    def outputs(*changed):
        return functional_call(policy, dict(zip(weights, changed, strict=True)), (observations,))

    assert len(weights) == 5
    assert gradcheck(outputs, tuple(weights.values()), fast_mode=True)
