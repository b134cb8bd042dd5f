"""The expected return of a mini-episode with the run's reward, averaged over its meta-episode."""

from __future__ import annotations

from torch import Tensor

from drest_torch.algos.objectives import base

Config = base.ObjectiveConfig


class Objective(base.Objective):
    """The expected return of the DReST reward, or of another one, in closed form."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        """Return the expected return [B]; with mini-episode credit its gradient takes the discounts as constants."""
        reward = outcome.reward
        coins = self.coins(outcome)
        preliminary = reward.preliminary(coins, outcome.best_return.to(coins.dtype))
        expected = reward.expected_return(outcome.probability, preliminary, outcome.num_lengths, credit=outcome.credit)
        return expected / reward.episodes_per_meta

    def coins(self, outcome: base.PolicyOutcome) -> Tensor:
        """Return P(L = l) · E[C | L = l] [B, K], as they are paid."""
        return outcome.coins
