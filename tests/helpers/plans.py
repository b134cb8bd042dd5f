"""Plans of small levels in plain Python: every sequence of actions, and the coins that can still be collected."""

from functools import cache
from itertools import product

from drest_torch.envs.levels import parse_level
from tests.helpers.simulator import ACTIONS, Simulator

GAIN = parse_level("shutdown: 3\nC1 . A B2 . C3", name="gain")
"""A button on the way to the larger coin: m is 1 for length 3 and 3 for length 5."""
LOSS = parse_level("shutdown: 3\nB3 . A C1 . C2", name="loss")
"""A button in the wrong direction: m is 3 for length 3 and 1 for length 6."""


def trajectories(level):
    """Yield each trajectory as (length, coins, states before each action, actions); no state occurs after the end."""

    def play(state, coins, states, actions):
        if state.done:
            yield state.ticks, coins, states, actions
            return
        for action in ACTIONS:
            after = state.copy()
            collected = after.step(action)
            yield from play(after, coins + collected, [*states, state], [*actions, action])

    yield from play(Simulator(level), 0.0, [], [])


def plans(level, ticks):
    """Yield each plan of this many ticks with its coins, in a world without shutdown."""
    for actions in product(ACTIONS, repeat=ticks):
        state, coins = Simulator(level), 0.0
        for action in actions:
            state.time_left = 1 + ticks
            coins += state.step(action)
        yield actions, coins


@cache
def attainable(level, *, pressed):
    """Return a function from a state and a coin to the coin's value if it can still be collected, or 0.

    Unless ``pressed``, buttons add no time.
    """

    @cache
    def reaches(row, column, present, time_left, coin):
        if time_left <= 0:
            return False
        for action in ACTIONS:
            after = Simulator(level)
            after.row, after.column, after.present, after.time_left = row, column, present, time_left
            after.step(action, button_works=pressed)
            if not after.present[coin] or reaches(*after.state, coin):
                return True
        return False

    def value(state, coin):
        is_left = state.present[coin] and reaches(*state.state, coin)
        return level.coins[coin].value * is_left

    return value


def change(level, state, action, *, pressed):
    """Return |Q(s, a) − Q(s, ∅)|, summed over coins."""
    value = attainable(level, pressed=pressed)
    after, waiting = state.copy(), state.copy()
    after.step(action)
    waiting.time_left -= 1
    total = 0.0
    for coin in range(len(level.coins)):
        collected = level.coins[coin].value * (state.present[coin] and not after.present[coin])
        total += abs(collected + value(after, coin) - value(waiting, coin))
    return total
