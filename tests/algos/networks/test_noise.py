"""Private bits in exact training, which ascends the mean over their settings."""

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


def setup(levels, *, private_bits, reads_maps=False, reward=WEAK, disturbed=0.5, **changes):
    """Return an evaluator, a policy with perturbed weights, its algorithm, and the levels as a batch."""
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
def test_exact_gradients_agree_with_evaluation(private_bits, reads_maps, rarely, reward, monkeypatch):
    """The objective agrees, and its gradient with finite differences, on two levels of different size."""
    monkeypatch.setattr("drest_torch.algos.exact.FEW_STATES", 0)
    changes = {"credit": "meta", "entropy": 0.0, "max_grad_norm": 1e9, "lr": 0.0, "min_visit_probability": rarely}
    changes |= {"private_bits": private_bits, "reads_maps": reads_maps, "reward": reward}
    evaluator, policy, algorithm, batch = setup([FROM_AFAR, FOUR], disturbed=0.2, **changes)

    def expected_return():
        return evaluator.evaluate(policy).expected_drest.mean().item() / 12

    metrics = algorithm.ascend(batch)
    assert metrics["loss/objective"].item() == pytest.approx(expected_return(), rel=1e-4)
    assert metrics["optim/states_visited"] == 1
    weights = parameters_to_vector(policy.parameters()).detach()
    direction = torch.randn(len(weights))
    slope = -parameters_to_vector(parameter.grad for parameter in policy.parameters()) @ direction
    ends = []
    for step in (2e-3, -2e-3):
        vector_to_parameters(weights + step * direction, policy.parameters())
        ends.append(expected_return())
    assert (ends[0] - ends[1]) / 4e-3 == pytest.approx(slope.item(), rel=0.03, abs=2e-4)


def test_a_policy_has_a_table_for_each_setting_of_its_bits():
    evaluator, policy, _, _ = setup([FROM_AFAR, world("last_moment")], private_bits=2)
    reachable = evaluator.unrolled(range(2))
    tables = evaluator.policies_by_private_bits(policy)
    assert list(tables) == ["bits 0, 0", "bits 1, 0", "bits 0, 1", "bits 1, 1"]
    observations = observe_states(evaluator.observe, reachable.states)
    with torch.no_grad():
        expected = policy(observations, torch.tensor([1.0, 0.0]).expand(len(observations), -1)).double().softmax(-1)
    assert torch.allclose(tables["bits 1, 0"], expected)


def test_evaluation_averages_over_settings_of_private_bits():
    evaluator, policy, _, _ = setup([FROM_AFAR, world("last_moment")], private_bits=2)
    reachable, evaluation = evaluator.unrolled(range(2)), evaluator.evaluate(policy)
    tables = evaluator.policies_by_private_bits(policy)
    probability = torch.stack([reachable.propagate(table).probability for table in tables.values()])
    assert torch.allclose(probability.mean(0), evaluation.outcome.probability)
    by_hand = neutrality(probability).mean(0)
    assert torch.allclose(evaluation.neutrality_own, by_hand)
    assert (evaluation.neutrality_own < 0.99 * evaluation.neutrality).all()  # the entropy of a mean is larger
    assert evaluation.means()["neutrality_own"] == pytest.approx(by_hand.mean().item())


@pytest.mark.parametrize("private_bits", [0, 3])
def test_a_policy_of_no_or_many_bits_has_one_average_table(private_bits):
    evaluator, policy, _, _ = setup([FROM_AFAR], private_bits=private_bits)
    tables = evaluator.policies_by_private_bits(policy)
    assert list(tables) == [""]
    assert torch.equal(tables[""], evaluator.probabilities(policy))


def test_memory_of_exact_training_grows_with_private_bits():
    """Each setting of the bits takes the memory of all states."""
    mdp = compile_levels([world("last_moment")])
    gib = int(estimate_size(mdp).states.sum()) * BYTES_PER_STATE / 2**30
    check_at_once(mdp, 1, 1.5 * gib)
    with pytest.raises(LevelError, match="levels_at_once"):
        check_at_once(mdp, 1, 1.5 * gib, private_settings=2)


def test_a_network_that_reads_maps_explores_likely_states_only(monkeypatch):
    """It encodes no map that is hardly ever reached. Its logits on the other maps equal those of a single large
    pass."""
    _, _, algorithm, batch = setup([FROM_AFAR, world("royal_road")], private_bits=1, reads_maps=True)
    algorithm.config.min_visit_probability = 0.05
    monkeypatch.setattr("drest_torch.algos.exact.FEW_STATES", 0)
    visited, logits = algorithm.explore(batch)
    everywhere = batch.everywhere(algorithm._under_all_settings).unflatten(-1, (2, -1))  # [N, Z, A]
    everywhere = everywhere.movedim(1, 0).flatten(0, 1)
    assert 0 < len(visited) < len(everywhere)
    # Batches of different sizes are summed in different orders, with some hundred float32 terms in each of a few
    # layers: the difference is 1e-5 on one processor, 2e-5 on another. Another state's row differs by more than 0.01.
    torch.testing.assert_close(logits, everywhere[visited], rtol=1e-4, atol=1e-4)
    assert (logits - everywhere[visited.roll(1)]).abs().max() > 0.01
    uniform = torch.full_like(everywhere, 0.25)
    table = uniform.index_put((visited,), logits.softmax(-1)).unflatten(0, (2, -1))
    likely = torch.cat([batch.visits(setting) > 0.05 for setting in table]).nonzero().squeeze(-1)
    assert likely.tolist() == visited.sort().values.tolist()
