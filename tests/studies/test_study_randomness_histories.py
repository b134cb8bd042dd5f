"""The study of randomness: exact evaluation of policies that remember their mini-episode, against simulation."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from drest_torch.choices import aliased
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Lengths
from drest_torch.envs.levels import parse_level
from drest_torch.metrics import neutrality
from drest_torch.studies.randomness import histories
from drest_torch.studies.randomness.histories import HISTORY, Histories, untrained

SPEC = {"seed": 0, "pairs": 0, "width": 32, "updates": 600, "lr": 0.005, "entropy": 0.2, "lam": 0.9, "episodes": 32}


def test_exact_evaluation_agrees_with_playing():
    level = parse_level("shutdown: 2\nC1 A B2\n.  C3 .")
    unrolled = Histories([level], "centred")
    policy = untrained(unrolled, {"sees": HISTORY, "width": 8, "seed": 2})
    begins = torch.zeros(1, 1, dtype=torch.bool)
    observe = make_observation("centred", mdp := compile_levels([level]))

    def play(spot, taken, time_left, memory, ticks):
        logits, memory = policy.recall(policy(observe(spot, taken, time_left)), begins, memory)
        shares = np.zeros(6)
        for action, chance in enumerate(logits.double().softmax(-1)[0].tolist()):
            arrival = mdp.advance(spot, taken, torch.tensor([action]))
            if after := mdp.time_after(time_left, arrival):
                shares += chance * play(arrival.spot, arrival.taken, after, memory, ticks + 1)
            else:
                shares[ticks + 1] += chance
        return shares

    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(3)
        policy.net.head.weight.mul_(100)
        shares = play(mdp.start, torch.zeros(1, dtype=torch.long), mdp.shutdown, torch.zeros(1, 1, 8), 0)
        lengths, _ = unrolled.play(policy)
    assert lengths.probability[0].tolist() == pytest.approx(shares[shares > 0], abs=1e-7)


@pytest.mark.slow
def test_only_state_only_policies_stay_below_the_bound():
    reached = {}
    for sees in ("state", "state and start", HISTORY):
        arrays = histories.train(SPEC | {"sees": sees}, None).arrays
        reached[sees] = (arrays["usefulness"] + arrays["neutrality"]).mean() / 2
    assert reached.pop("state") < max(bound for _, bound in aliased.pairs(0)) < 0.97 < min(reached.values())


def test_the_entropy_bonus_falls_in_training(monkeypatch):
    """The learning rate falls, too. The entropy is twice the first parameter, and steps change nothing."""
    rates, gradients = [], []

    class Watched(torch.optim.SGD):
        def step(self):
            rates.append(self.param_groups[0]["lr"])
            gradients.append(network.logits.grad.clone())

    network = torch.nn.Module()
    network.logits = torch.nn.Parameter(torch.tensor([0.3, -0.7], dtype=torch.float64))
    best = torch.tensor([[1.0, 2.0], [2.0, 4.0]]).double()
    coins = torch.tensor([[1.0, 1.0], [1.0, 4.0]]).double()

    def lengths():
        p = network.logits.sigmoid()
        return Lengths(torch.stack((1 - p, p), -1), coins)

    unrolled = SimpleNamespace(
        optima=SimpleNamespace(best_return=best, num_lengths=torch.tensor([2, 2])),
        play=lambda policy: (lengths(), 2 * policy.logits[0]),
    )
    monkeypatch.setattr(histories.torch.optim, "Adam", Watched)
    monkeypatch.setattr(histories.nn.utils, "clip_grad_norm_", lambda parameters, most: gradients.append(most))
    histories.fit(network, unrolled, {"lam": 0.8, "episodes": 4, "updates": 4, "lr": 0.1, "entropy": 0.5})
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
    limits, gradients = gradients[::2], gradients[1::2]
    assert limits == [1.0] * 4
    # With credit within the mini-episode the discounts count as constants.
    p = network.logits.detach().sigmoid()
    discount = [sum((1 - q * 0.2) ** i * 0.8 ** (-i / 2) for i in range(4)) / 4 for q in (1 - p, p)]
    share = coins / best
    slope = p * (1 - p) * (share[:, 1] * discount[1] - share[:, 0] * discount[0]) / 2
    for update, gradient in enumerate(gradients):
        entropy = torch.tensor([2 * 0.5 * (1 - update / 4), 0.0])
        assert gradient.tolist() == pytest.approx((-slope - entropy).tolist())


def test_training_measures_the_fitted_policy(monkeypatch):
    fitted = []
    monkeypatch.setattr(histories, "fit", lambda network, unrolled, spec: fitted.append((network, unrolled, spec)))
    spec = SPEC | {"sees": HISTORY}
    arrays = histories.train(spec, None).arrays
    ((network, unrolled, fit_spec),) = fitted
    assert fit_spec is spec
    pairs = aliased.pairs(0)
    assert arrays["bound"].tolist() == [bound for _, bound in pairs]
    outcome, _ = unrolled.play(network)
    assert arrays["neutrality"].tolist() == pytest.approx(neutrality(outcome.probability).tolist())
    share = (outcome.coins / unrolled.optima.best_return).nan_to_num()
    assert arrays["usefulness"].tolist() == pytest.approx((outcome.probability * share).sum(-1).tolist())
    assert len(arrays["usefulness"]) == 2 * len(pairs)
    second = histories.train(spec | {"seed": 1}, None).arrays
    assert second["neutrality"].tolist() != pytest.approx(arrays["neutrality"].tolist())
