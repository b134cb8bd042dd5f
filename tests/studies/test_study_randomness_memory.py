"""The study of agents that remember earlier mini-episodes: their training and their rewards."""

import pytest
import torch

from drest_torch.studies.randomness import memory
from tests.choices.test_choices_memory import LAM, returns

SPEC = {"episodes": 24, "lam": LAM, "window": 3, "group": 8, "lr": 6.0, "updates": 700}


def test_an_agent_that_sees_its_counts_compensates():
    """It is random only in every second mini-episode."""
    measures = memory.table(SPEC | {"sees": "counts", "paid_by": "own counts"}, torch.Generator().manual_seed(0))
    assert measures.marginal >= 0.98
    assert measures.conditional == pytest.approx(0.5, abs=0.06)
    assert measures.predictable == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("change", [{"sees": "nothing", "paid_by": "own counts"}, {"paid_by": "the group"}], ids=str)
def test_remedies_make_it_random_again(change):
    measures = memory.table({**SPEC, "sees": "counts", "updates": 150} | change, torch.Generator().manual_seed(0))
    assert measures.conditional >= 0.98


def test_averaged_counting_is_the_mean_over_the_group():
    group, share = 4, torch.tensor([0.3, 0.9], dtype=torch.float64)
    discounts = memory.grouped(share, group, 16, LAM)
    rng = torch.Generator().manual_seed(0)
    for place, p in enumerate(share.tolist()):
        other_choices = torch.rand(200_000, group - 1, generator=rng) < p
        for length in (0, 1):
            mine = torch.full((len(other_choices), 1), bool(length))
            longer = torch.cat((mine, other_choices), 1).reshape(1, -1)
            paid = memory.paid(longer, {"lam": LAM, "paid_by": "the group", "episodes": 16, "group": group})
            assert paid.reshape(-1, group)[:, 0].mean().item() == pytest.approx(
                discounts[length, place].item(), rel=4e-3
            )


def test_a_recurrent_agent_is_paid_by_its_own_counts():
    longer = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 1]]).bool()
    paid = memory.paid(longer, {"lam": LAM, "paid_by": "own counts"})
    columns = [tuple(column) for column in longer.long().T.tolist()]
    assert paid.sum(0).tolist() == pytest.approx([returns(column, LAM) for column in columns])
    whole = memory.paid(longer, {"lam": LAM, "paid_by": "own counts, meta credit"})
    assert whole[0].tolist() == pytest.approx(paid.sum(0).tolist())
    assert torch.equal(whole[-1], paid[-1])


@pytest.mark.parametrize("resets", [False, True])
def test_a_recurrent_agent_that_forgets_cannot_take_turns(resets):
    policy = memory.untrained(4, seed=0)
    spec = {"episodes": 5, "resets": resets}
    logits, longer = memory.play(policy, 8, spec, torch.Generator().manual_seed(1))
    assert (logits[1:].std() > 0) != resets
    fresh = torch.ones(8, 1, dtype=torch.bool)
    first, state = policy.recall(policy(torch.zeros(8, 2)), fresh, torch.zeros(8, 1, 4))
    assert torch.equal(logits[0], first.squeeze(-1))
    last_choice = torch.stack((~longer[0], longer[0]), -1).float()
    second, _ = policy.recall(policy(last_choice), ~fresh, state)
    assert torch.equal(logits[1], second.squeeze(-1)) != resets


def test_weights_depend_on_the_seed():
    first, again, second = (memory.untrained(4, seed).net.head.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_making_weights_does_not_change_the_global_generator():
    before = torch.get_rng_state()
    memory.untrained(4, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_recurrent_agent_is_measured_by_its_counts(monkeypatch):
    """Four copies play three mini-episodes. The second and the fourth chose the longer length once more than the
    shorter."""
    longer = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]).bool()
    begins = torch.tensor([[2.0, 0.5, -1.0, -2.0], [0.0, 1.0, 3.0, 0.2], [-0.3, 0.1, 0.7, 4.0]])

    def untrained(width, seed):
        calls.append((width, seed))
        return torch.nn.ParameterList([torch.nn.Parameter(begins.clone())])

    def play(policy, copies, spec, rng):
        calls.append((copies, spec["episodes"]))
        return policy[0], longer

    calls = []
    monkeypatch.setattr(memory, "untrained", untrained)
    monkeypatch.setattr(memory, "play", play)
    monkeypatch.setattr(memory, "EVALUATED", 9)
    spec = {"episodes": 3, "lam": LAM, "group": 2, "width": 5, "lr": 0.3, "copies": 4, "seed": 7}
    spec |= {"sees": "history", "paid_by": "own counts, meta credit"}
    measures = memory.recurrent(spec | {"updates": 0}, torch.Generator())
    p = begins.double().sigmoid()

    def bits(p):
        return -(p * p.log2() + (1 - p) * (1 - p).log2())

    assert measures.marginal == pytest.approx(bits(p.mean(1)).mean().item())
    assert measures.conditional == pytest.approx(bits(p).mean().item())
    assert measures.predictable == pytest.approx(torch.maximum(p, 1 - p).mean().item())
    columns = [tuple(column) for column in longer.long().T.tolist()]
    assert measures.value == pytest.approx(sum(returns(column, LAM) for column in columns) / 12)
    assert calls == [(5, 7), (9, 3)]

    # A step of Adam is of the same size everywhere: up for what was chosen and paid more than by the other copies.
    paid = memory.paid(longer, spec)
    up = ((paid > paid.mean(1, keepdim=True)) == longer).double() * 2 - 1
    moved = torch.where((paid - paid.mean(1, keepdim=True)).abs() < 1e-6, 0, 0.3 * up)
    after = memory.recurrent(spec | {"updates": 1}, torch.Generator())
    p = (begins + moved).double().sigmoid()
    assert after.conditional == pytest.approx(bits(p).mean().item(), abs=1e-4)
    assert after.predictable == pytest.approx(torch.maximum(p, 1 - p).mean().item(), abs=1e-4)
    assert after.conditional != pytest.approx(measures.conditional, abs=1e-3)
