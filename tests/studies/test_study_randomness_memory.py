"""The study of agents that remember: what training makes of a memory, and what an agent is paid by."""

import pytest
import torch

from drest_torch.studies.randomness import memory
from tests.choices.test_choices_memory import LAM, returns

SPEC = {"episodes": 24, "lam": LAM, "window": 3, "group": 8, "lr": 6.0, "updates": 700}


def test_an_agent_that_sees_its_counts_is_random_in_every_second_mini_episode():
    found = memory.table(SPEC | {"sees": "counts", "paid_by": "own counts"}, torch.Generator().manual_seed(0))
    assert found.marginal >= 0.98
    assert found.conditional == pytest.approx(0.5, abs=0.06)
    assert found.predictable == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("change", [{"sees": "nothing", "paid_by": "own counts"}, {"paid_by": "the group"}], ids=str)
def test_remedies_make_it_random_again(change):
    found = memory.table({**SPEC, "sees": "counts", "updates": 150} | change, torch.Generator().manual_seed(0))
    assert found.conditional >= 0.98


def test_averaged_counting_is_the_mean_over_what_the_others_of_a_group_choose():
    group, share = 4, torch.tensor([0.3, 0.9], dtype=torch.float64)
    found = memory.grouped(share, group, 16, LAM)
    rng = torch.Generator().manual_seed(0)
    for place, p in enumerate(share.tolist()):
        others = torch.rand(200_000, group - 1, generator=rng) < p
        for length in (0, 1):
            mine = torch.full((len(others), 1), bool(length))
            longer = torch.cat((mine, others), 1).reshape(1, -1)
            paid = memory.paid(longer, {"lam": LAM, "paid_by": "the group", "episodes": 16, "group": group})
            assert paid.reshape(-1, group)[:, 0].mean().item() == pytest.approx(found[length, place].item(), rel=4e-3)


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
    first, known = policy.recall(policy(torch.zeros(8, 2)), fresh, torch.zeros(8, 1, 4))
    assert torch.equal(logits[0], first.squeeze(-1))
    told = torch.stack((~longer[0], longer[0]), -1).float()
    second, _ = policy.recall(policy(told), ~fresh, known)
    assert torch.equal(logits[1], second.squeeze(-1)) != resets


def test_weights_come_from_the_seed_and_leave_other_random_numbers_alone():
    before = torch.get_rng_state()
    one, same, other = (memory.untrained(4, seed).net.head.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_a_recurrent_agent_does_is_estimated_from_its_own_counts(monkeypatch):
    """Three mini-episodes of four copies; the second and the fourth copy chose the longer length once too often."""
    longer = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]).bool()
    begins = torch.tensor([[2.0, 0.5, -1.0, -2.0], [0.0, 1.0, 3.0, 0.2], [-0.3, 0.1, 0.7, 4.0]])

    def untrained(width, seed):
        asked.append((width, seed))
        return torch.nn.ParameterList([torch.nn.Parameter(begins.clone())])

    def play(policy, copies, spec, rng):
        asked.append((copies, spec["episodes"]))
        return policy[0], longer

    asked = []
    monkeypatch.setattr(memory, "untrained", untrained)
    monkeypatch.setattr(memory, "play", play)
    monkeypatch.setattr(memory, "EVALUATED", 9)
    spec = {"episodes": 3, "lam": LAM, "group": 2, "width": 5, "lr": 0.3, "copies": 4, "seed": 7}
    spec |= {"sees": "history", "paid_by": "own counts, meta credit"}
    found = memory.recurrent(spec | {"updates": 0}, torch.Generator())
    p = begins.double().sigmoid()

    def bits(p):
        return -(p * p.log2() + (1 - p) * (1 - p).log2())

    assert found.marginal == pytest.approx(bits(p.mean(1)).mean().item())
    assert found.conditional == pytest.approx(bits(p).mean().item())
    assert found.predictable == pytest.approx(torch.maximum(p, 1 - p).mean().item())
    columns = [tuple(column) for column in longer.long().T.tolist()]
    assert found.value == pytest.approx(sum(returns(column, LAM) for column in columns) / 12)
    assert asked == [(5, 7), (9, 3)]

    # A step of Adam is of the same size everywhere: up for what was chosen and paid more than by the other copies.
    paid = memory.paid(longer, spec)
    up = ((paid > paid.mean(1, keepdim=True)) == longer).double() * 2 - 1
    moved = torch.where((paid - paid.mean(1, keepdim=True)).abs() < 1e-6, 0, 0.3 * up)
    after = memory.recurrent(spec | {"updates": 1}, torch.Generator())
    p = (begins + moved).double().sigmoid()
    assert after.conditional == pytest.approx(bits(p).mean().item(), abs=1e-4)
    assert after.predictable == pytest.approx(torch.maximum(p, 1 - p).mean().item(), abs=1e-4)
    assert after.conditional != pytest.approx(found.conditional, abs=1e-3)
