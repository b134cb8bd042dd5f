"""Private noise in exact learning: what is climbed is the mean over its settings."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from drest_torch.algos.exact import Exact
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.earliest import estimate_size
from drest_torch.envs.levels import LevelError, parse_level, world
from drest_torch.evaluation.exact_evaluator import ExactEvaluator, observe_states
from drest_torch.evaluation.memory_guard import BYTES_PER_STATE, check_at_once
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from tests.helpers.networks import group
from tests.helpers.settings import SETTINGS

FROM_AFAR = parse_level("shutdown: 2\n# # # C1 #\nC9 . A . B5", name="from afar")
FOUR = parse_level("shutdown: 2\n# . A B1 .\n. . B2 C1 .\n. C2 . . C3", name="four lengths")

WEAK = Reward(0.8, 1.0, 12)


def made(levels, *, private_bits, reads_maps=False, reward=WEAK, disturbed=0.5, **changes):
    """An evaluator, a policy with weights disturbed at random, what trains it, and the levels as that gets them."""
    evaluator = ExactEvaluator(levels, "grid", reward=reward)
    size, see = NetworkSize(32, 2, "silu", "convolutional" if reads_maps else "mlp"), evaluator.observe
    symmetries = group(see.planes) if reads_maps else None
    torch.manual_seed(0)
    policy = Policy(see.shape, NUM_ACTIONS, size, scale=see.scale, private_bits=private_bits, symmetries=symmetries)
    torch.manual_seed(1)
    for parameter in policy.parameters():
        parameter.data += disturbed * torch.randn_like(parameter)
    algorithm = Exact(policy, None, SimpleNamespace(**{**vars(SETTINGS), **changes}), torch.Generator())
    return evaluator, policy, algorithm, ExactBatch(evaluator.level_set, "grid", reward)


@pytest.mark.parametrize(
    ("reads_maps", "rarely", "reward"),
    [(False, 0.0, WEAK), (False, 0.0, Reward(0.8, 1.0, 12, normalise=False)), (True, 0.0, WEAK), (True, 1e-12, WEAK)],
)
@pytest.mark.parametrize("private_bits", [0, 2])
def test_what_is_climbed_is_what_evaluation_finds(private_bits, reads_maps, rarely, reward, monkeypatch):
    """The objective, and its gradient by finite differences of the evaluation, on two levels of different size."""
    monkeypatch.setattr("drest_torch.algos.exact.FEW_STATES", 0)
    changes = {"credit": "meta", "entropy": 0.0, "max_grad_norm": 1e9, "lr": 0.0, "min_visit_probability": rarely}
    changes |= {"private_bits": private_bits, "reads_maps": reads_maps, "reward": reward}
    evaluator, policy, algorithm, batch = made([FROM_AFAR, FOUR], disturbed=0.2, **changes)

    def climbed():
        return evaluator.evaluate(policy).expected_drest.mean().item() / 12

    metrics = algorithm.ascend(batch)
    assert metrics["loss/objective"].item() == pytest.approx(climbed(), rel=1e-4)
    assert metrics["optim/states_visited"] == 1
    here = parameters_to_vector(policy.parameters()).detach()
    direction = torch.randn(len(here))
    slope = -parameters_to_vector(each.grad for each in policy.parameters()) @ direction
    ends = []
    for step in (2e-3, -2e-3):
        vector_to_parameters(here + step * direction, policy.parameters())
        ends.append(climbed())
    assert (ends[0] - ends[1]) / 4e-3 == pytest.approx(slope.item(), rel=0.03, abs=2e-4)


def test_a_policy_is_evaluated_and_shown_under_each_setting_of_its_noise():
    evaluator, policy, _, _ = made([FROM_AFAR, world("last_moment")], private_bits=2)
    reachable, evaluation = evaluator.unrolled(range(2)), evaluator.evaluate(policy)
    shown = evaluator.policies_by_private_bits(policy)
    assert list(shown) == ["bits 0, 0", "bits 1, 0", "bits 0, 1", "bits 1, 1"]
    seen = observe_states(evaluator.observe, reachable.states)
    with torch.no_grad():
        expected = policy(seen, torch.tensor([1.0, 0.0]).expand(len(seen), -1)).double().softmax(-1)
    assert torch.allclose(shown["bits 1, 0"], expected)
    probability = torch.stack([reachable.propagate(each).probability for each in shown.values()])
    assert torch.allclose(probability.mean(0), evaluation.outcome.probability)
    by_hand = neutrality(probability).mean(0)
    assert torch.allclose(evaluation.neutrality_own, by_hand)
    assert (evaluation.neutrality_own < 0.99 * evaluation.neutrality).all()  # the entropy of a mean is larger
    assert evaluation.means()["neutrality_own"] == pytest.approx(by_hand.mean().item())
    for private_bits in (0, 3):  # of none, and of many, the average
        evaluator, policy, _, _ = made([FROM_AFAR], private_bits=private_bits)
        shown = evaluator.policies_by_private_bits(policy)
        assert list(shown) == [""]
        assert torch.equal(shown[""], evaluator.probabilities(policy))


def test_noise_counts_in_what_fits():
    """Each setting of the bits takes the memory of all states."""
    mdp = compile_levels([world("last_moment")])
    gib = int(estimate_size(mdp).states.sum()) * BYTES_PER_STATE / 2**30
    check_at_once(mdp, 1, 1.5 * gib)
    with pytest.raises(LevelError, match="levels_at_once"):
        check_at_once(mdp, 1, 1.5 * gib, private_settings=2)


def test_a_network_that_reads_maps_explores_as_one_that_does_not(monkeypatch):
    """It encodes no map that is hardly ever reached, and what it says of the others is what it says of all at once."""
    _, _, algorithm, batch = made([FROM_AFAR, world("royal_road")], private_bits=1, reads_maps=True)
    algorithm.config.min_visit_probability = 0.05
    monkeypatch.setattr("drest_torch.algos.exact.FEW_STATES", 0)
    visited, logits = algorithm._explore(batch)
    everywhere = batch.everywhere(algorithm._under_all_settings).unflatten(-1, (2, -1)).movedim(1, 0).flatten(0, 1)
    assert 0 < len(visited) < len(everywhere)
    # Batches of two sizes are summed in two orders, of some hundred float32 terms in each of a few layers: 1e-5 apart
    # on one processor, 2e-5 on another. A row that is not its own would differ by more than 0.01.
    torch.testing.assert_close(logits, everywhere[visited], rtol=1e-4, atol=1e-4)
    assert (logits - everywhere[visited.roll(1)]).abs().max() > 0.01
    uniform = torch.full_like(everywhere, 0.25)
    table = uniform.index_put((visited,), logits.softmax(-1)).unflatten(0, (2, -1))
    likely = torch.cat([batch.visits(setting) > 0.05 for setting in table]).nonzero().squeeze(-1)
    assert likely.tolist() == visited.sort().values.tolist()
