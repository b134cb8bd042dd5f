"""The compiled tabular algorithm against a slow reference implementation and exact evaluation.

The worlds' rules are those of the plain simulator. `reference_agent` implements the whole algorithm a second time: its
random numbers (splitmix64), its rewards from the paper's formulas, its gradients by autograd.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from drest_torch.algos.networks.table import TablePolicy
from drest_torch.algos.tabular_kernel import TableState, World, new_state, play
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.levels import Level, parse_level, world
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.reward import Reward
from tests.helpers.simulator import random_level
from tests.helpers.tabular_twin import LONGEST, UINT64, Reached, TabularRules, ready, reference_agent, rules_of, threads

SMALL = parse_level("shutdown: 3\nC1 A B2\nC2 . C3", name="small")
LUCKY = parse_level("shutdown: 3\nclock: moves\nC2 B1@0.5 .\n. A #\nB2@0.8 . C0.5", name="lucky")
BARREN = parse_level("shutdown: 2\nC2 . A B1", name="barren")
"""A level with no coin behind its button: m(3) = 0."""


def scattered(seed: int) -> int:
    """Return a seed after the finaliser of MurmurHash3."""
    z = seed & UINT64
    z = (z ^ z >> 33) * 0xFF51AFD7ED558CCD & UINT64
    z = (z ^ z >> 33) * 0xC4CEB9FE1A85EC53 & UINT64
    return z ^ z >> 33


def begun(tables: World, seeds: Sequence[int], logits: torch.Tensor | None = None) -> TableState:
    """Return agents with these seeds, with logits [R, 4] or [A, R, 4], or untrained."""
    state = new_state(np.array(seeds), len(tables.target), int(tables.column.max()) + 1)
    if logits is not None:
        state.logits[:] = logits.numpy()
    return state


def random_logits(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, NUM_ACTIONS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def checked(level: Level, settings: TabularRules, seed: int, logits: torch.Tensor, episodes: int) -> Reached:
    """Check that an agent of the kernel equals the reference agent, and return the latter."""
    tables, optima, shape = ready(level, settings.gamma)
    state = begun(tables, [seed], logits)
    play(tables, rules_of(settings, optima), state, episodes)
    expected = reference_agent(level, settings, scattered(seed), logits, episodes, shape)
    assert int(state.stream[0]) & UINT64 == expected.stream
    assert state.played[0] == episodes
    assert state.steps[0] == expected.steps
    assert state.cut_off[0] == expected.cut_off
    assert state.in_meta[0] == expected.in_meta
    assert state.chosen_before[0].tolist() == [expected.chosen[length] for length in expected.best_seen]
    assert state.best_seen[0].tolist() == pytest.approx([*expected.best_seen.values()], rel=1e-12)
    assert state.logits[0] == pytest.approx(expected.logits.numpy(), abs=1e-9)
    return expected


MOVES = world("fewer_for_longer").with_clock("moves")


def random_told(rng: random.Random) -> TabularRules:
    return TabularRules(
        lam=rng.uniform(0.5, 1),
        gamma=rng.choice((1.0, 0.9, 0.7)),
        episodes_per_meta=rng.randint(1, 40),
        divide=rng.choice(("best", "seen", "none")),
        clip=rng.choice((None, rng.uniform(0.1, 2))),
        lr=(rng.uniform(0.01, 0.5), rng.uniform(0.01, 0.5)),
        epsilon=(rng.uniform(0.01, 1), rng.uniform(0.01, 1)),
        decay_episodes=rng.randint(1, 150),
        random_episodes=rng.choice((0, 0, rng.randint(1, 60))),
        discount_bumps=rng.random() < 0.5,
        normalise=rng.random() < 0.7,
    )


SPECIAL = [
    TabularRules(epsilon=(0.0, 0.0)),
    TabularRules(lam=0.7, clip=0.4),
    TabularRules(episodes_per_meta=1, lam=0.3),
    TabularRules(divide="seen", gamma=0.7, epsilon=(0.9, 0.9)),
    TabularRules(discount_bumps=False, gamma=0.8),
    TabularRules(decay_episodes=300, lr=(0.01, 0.9), epsilon=(0.01, 0.8)),
]


def test_agents_equal_the_reference_on_random_settings():
    agents, episodes, rng, learned = 28, 40, random.Random(5), 0
    levels = [random_level(rng, chances=i % 2 == 0, clock=None, name=str(i)) for i in range(4)]
    levels += [LUCKY, BARREN, MOVES]
    for agent, settings in enumerate([*SPECIAL, *(random_told(rng) for _ in range(agents - len(SPECIAL)))]):
        level = levels[agent % len(levels)]
        logits = random_logits(agent, len(ready(level)[0].target))
        expected = checked(level, settings, agent, logits, episodes)
        learned += (expected.logits - logits).abs().max() > 0.1
    assert learned > agents / 2


def test_mini_episodes_that_are_cut_off_do_not_count():
    level, settings = SMALL.with_clock("moves"), TabularRules(gamma=0.9, lam=0.5, epsilon=(0.0, 0.0), divide="seen")
    tables, _, _ = ready(level, settings.gamma)
    logits = torch.zeros(len(tables.target), NUM_ACTIONS, dtype=torch.float64)
    logits[:, 0] = 8.7  # up, into the wall: the agent moves once in 2,000 steps
    expected = checked(level, settings, 3, logits, 8)
    assert 2 <= expected.cut_off <= 6
    assert sum(expected.chosen.values()) == 8 - expected.cut_off


def test_mini_episodes_that_are_cut_off_change_no_logits():
    level, settings = SMALL.with_clock("moves"), TabularRules(gamma=0.9, lam=0.5, epsilon=(0.0, 0.0), divide="seen")
    tables, optima, _ = ready(level, settings.gamma)
    logits = torch.zeros(len(tables.target), NUM_ACTIONS, dtype=torch.float64)
    logits[:, 0] = 100.0
    state = begun(tables, [3], logits)
    play(tables, rules_of(settings, optima), state, 2)
    assert state.played[0] == 2
    assert state.steps[0] == 2 * LONGEST
    assert state.cut_off[0] == 2
    assert state.in_meta[0] == 0
    assert (state.logits[0] == logits.numpy()).all()


def test_a_constant_added_to_all_logits_has_no_effect():
    tables, optima, _ = ready(SMALL)
    logits = random_logits(14, len(tables.target))
    states = {shift: begun(tables, range(4), logits + shift) for shift in (0.0, 800.0, -800.0)}
    for shift, state in states.items():
        play(tables, rules_of(TabularRules(), optima), state, 100)
        assert state.logits - shift == pytest.approx(states[0.0].logits, abs=1e-9)


def rows_of(state: TableState, agents: Any) -> TableState:
    return TableState(*(value[agents].copy() for value in state))


def test_an_agent_depends_on_nothing_but_its_seed():
    """The other agents, the division of training into calls, and the number of threads have no effect."""
    tables, optima, _ = ready(LUCKY)
    rules = rules_of(TabularRules(), optima)
    before = begun(tables, range(100, 124), random_logits(8, 24, len(tables.target)))

    def later(chosen: Any = slice(None), pieces: Sequence[int] = (100,), **changes: Any) -> TableState:
        state = rows_of(before._replace(**changes), chosen)
        for episodes in pieces:
            play(tables, rules, state, episodes)
        return state

    after = later()
    for chosen in ([0], [23], [2, 3, 5, 7], list(range(23, -1, -1)), [4, 1, 4]):
        np.testing.assert_equal(later(chosen), rows_of(after, chosen))
    np.testing.assert_equal(later(pieces=(37, 0, 63)), after)
    assert (later(pieces=(37,)).stream != after.stream).all()
    for count in (1, 2):
        with threads(count):
            np.testing.assert_equal(later(), after)
    other = later(stream=begun(tables, range(124, 148)).stream)
    assert all((other.logits[agent] != after.logits[agent]).any() for agent in range(24))


EVALUATED = [world("example"), world("example").with_clock("moves"), MOVES, LUCKY, SMALL, BARREN]


@pytest.mark.parametrize("level", EVALUATED, ids=lambda level: f"{level.name}-{level.clock}")
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_evaluating_many_tables_agrees_with_one_at_a_time(level, gamma):
    mdp = compile_levels([level])
    logits = random_logits(12, 5, mdp.num_cells << mdp.num_objects, scale=2.0)
    together = Tables(level, gamma, 5)
    results = together.evaluate(logits.numpy())
    evaluator = ExactEvaluator([level], "vector", reward=Reward(0.9, gamma))
    policy = TablePolicy(mdp.height, mdp.width, mdp.num_objects)
    assert together.lengths == evaluator.optima.lengths[0].tolist()
    for agent, table in enumerate(logits):
        policy.logits.copy_(table)
        exact = evaluator.evaluate(policy)
        best, coins = evaluator.optima.best_return[0].numpy(), exact.outcome.coins[0].numpy()
        expected = {
            "usefulness": exact.usefulness[0].item(),
            "neutrality": exact.neutrality[0].item(),
            "p_length": exact.outcome.probability[0].numpy(),
            "share_of_best": np.divide(coins, best, out=np.zeros_like(coins), where=best > 0),
        }
        assert results.keys() == expected.keys()
        for name, value in expected.items():
            assert results[name][agent] == pytest.approx(value, abs=1e-12)
    assert len(np.unique(results["usefulness"].round(9))) == 5
