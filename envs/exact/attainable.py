"""Attainable values: the coins that can still be collected from a state, one by one, and how actions change this.

A coin can be collected from a state if the time left is at least its *need*, the least time from which some sequence of
moves reaches it. The need depends on the cell and on the pressed buttons, so a small table holds the values of all
states, also of those that no action leads to.
"""

from __future__ import annotations

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.errors import ConfigError

NEVER = 1 << 20
"""The need of a coin that cannot be reached."""


def changes(reachable: Reachable, goals: str) -> Tensor:
    """Return |Q(s, a) − Q(s, ∅)| [N, 4], summed over auxiliary goals, in ``reachable.states``.

    Each coin is a goal: Q is its value if it is collected by the action or can be collected afterwards, and else 0. ∅
    is a tick in which nothing happens. With ``goals="pressed"`` buttons may be pressed on the way to the coin; with
    ``"unpressed"`` the time left after the action has to be enough.
    """
    values = AttainableCoins(reachable.mdp, pressed=goals == "pressed")
    mdp, states = reachable.mdp, reachable.states
    spot, taken, time_left = (column.unsqueeze(-1) for column in (states.spot, states.taken, states.time_left))
    action = torch.arange(NUM_ACTIONS, device=mdp.device).expand(len(spot), -1)
    arrival = mdp.advance(spot.expand_as(action), taken.expand_as(action), action)
    later = mdp.time_after(time_left, arrival)
    collected = values.on(arrival.spot) * mdp.is_fresh(arrival.spot, taken).unsqueeze(-1)
    after = collected + values.attainable(arrival.spot, arrival.taken, later)
    waiting = values.attainable(spot, taken, time_left - 1)
    return (after - waiting).abs().sum(-1)


class AttainableCoins:
    """The values of the C coins of each level as goals of their own.

    With ``pressed`` a coin may be reached by pressing buttons; otherwise the time left must be enough.
    """

    def __init__(self, mdp: Mdp, *, pressed: bool) -> None:
        if mdp.any_luck:
            raise ConfigError(
                "objective=attainable_utility on levels with luck, where what is attainable is a chance; "
                "use levels without lotteries and with buttons that always work"
            )
        self.mdp = mdp
        coins = mdp.coin > 0
        self._coins_of_level = coins.reshape(mdp.num_levels, -1).sum(-1)
        count = int(self._coins_of_level.max())
        number = mdp.object_bit.log2().where(coins, -1).long()  # coins have the first bits
        self._is_coin = number.unsqueeze(-1) == torch.arange(count, device=mdp.device)  # [S, C]
        self._value = self._is_coin * mdp.coin.unsqueeze(-1)
        self._of_level = self._value.reshape(mdp.num_levels, -1, count).sum(1)  # [B, C]
        self._need = self._needs(pressed)

    def on(self, spot: Tensor) -> Tensor:
        """Return the values [..., C] of the coins on these spots."""
        return self._value[spot]

    def attainable(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        """Return the value [..., C] of each coin that can be collected from these states, and 0 for the others."""
        coins = torch.arange(self._value.shape[-1], device=spot.device)
        is_left = (taken.unsqueeze(-1) >> coins) & 1 == 0
        pressed = taken >> self._coins_of_level[self.mdp.level_of(spot)]
        in_time = time_left.unsqueeze(-1) >= self._need[spot, pressed]
        return self._of_level[self.mdp.level_of(spot)] * (is_left & in_time)

    def _needs(self, pressed: bool) -> Tensor:
        """Return the need of each coin [S, P, C] from each spot, for each of the P sets of pressed buttons."""
        mdp = self.mdp
        spots = len(mdp.object_bit)
        goto = mdp.goto.reshape(spots, NUM_ACTIONS)
        button = mdp.object_bit >> self._coins_of_level[mdp.level_of(torch.arange(spots, device=mdp.device))]
        sets = torch.arange(1 << int(button.max()).bit_length(), device=mdp.device)
        target = goto.unsqueeze(1).expand(-1, len(sets), -1)  # [S, P, 4]
        before = sets.unsqueeze(-1)
        after = before | button[target]
        granted = mdp.outcomes.delay[target] * (after != before) * pressed
        need = torch.full((spots, len(sets), self._value.shape[-1]), NEVER, device=mdp.device)
        while True:
            onward = 1 + need[target, after] - granted.unsqueeze(-1)
            onward = onward.clamp(1, NEVER).masked_fill(self._is_coin[target], 1)
            lower = onward.amin(2)
            if lower.equal(need):
                return need
            need = lower
