"""The compiled tabular algorithm, against a slow one written anew, exact gradients and exact probabilities.

The rules of the worlds are those of the plain simulator. `reference_agent` is the whole algorithm once more: its random
numbers (splitmix64), its rewards from the paper's formulas, its gradients by autograd.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
import torch

from drest_torch.algos import tabular_kernel as table
from drest_torch.algos.tabular import TablePolicy, rules_for, schedule
from drest_torch.algos.tabular_kernel import Rules, State, Worlds, new_state, play
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import VectorObservation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.levels import CLOCKS, WORLDS, Level, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.evaluation import tabular as tables
from drest_torch.evaluation.exact import ExactEvaluator
from drest_torch.evaluation.tabular import Tables, tabulate
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator, enumerate_policy, outcomes, random_level, searched_optima
from tests.helpers.tabular_twin import (
    LONGEST,
    UINT64,
    Reached,
    Stream,
    Told,
    between,
    ready,
    reference_agent,
    row_of,
    threads,
)

SMALL = parse_level("shutdown: 3\nC1 A B2\nC2 . C3", name="small")
LUCKY = parse_level("shutdown: 3\nclock: moves\nC2 B1@0.5 .\n. A #\nB2@0.8 . C0.5", name="lucky")
BARREN = parse_level("shutdown: 2\nC2 . A B1", name="barren")
"""Behind its button there is nothing to collect: m(3) = 0."""


# ------------------------------------------------------------------------------------ the algorithm, slowly


def scattered(seed: int) -> int:
    """The finaliser of MurmurHash3."""
    z = seed & UINT64
    z = (z ^ z >> 33) * 0xFF51AFD7ED558CCD & UINT64
    z = (z ^ z >> 33) * 0xC4CEB9FE1A85EC53 & UINT64
    return z ^ z >> 33


# --------------------------------------------------------------------------------------- the kernel's inputs


def settings(told: Told) -> Any:
    return SimpleNamespace(
        lr=told.lr[0],
        lr_end=told.lr[1],
        epsilon=told.epsilon[0],
        epsilon_end=told.epsilon[1],
        decay_episodes=told.decay_episodes,
        random_episodes=told.random_episodes,
        gradient="behaviour" if told.behaviour else "softmax",
        discount_bumps=told.discount_bumps,
    )


def rules_of(told: Told, optima: Optima, index: int = 0, agents: int = 1) -> Rules:
    best = optima.best_return[index]
    # Where the divisor is learned, what stands there must not matter.
    divisor = {"best": best, "none": torch.ones_like(best), "seen": torch.full_like(best, 77.0)}[told.divide]
    rules = rules_for(
        agents,
        settings(told),
        Reward(told.lam, told.gamma, told.episodes_per_meta, clip=told.clip),
        num_lengths=int(optima.num_lengths[index]),
        divisor=divisor.tolist(),
        learns_divisor=told.divide == "seen",
    )
    return rules._replace(level=np.full(agents, index))


def beside(rules: Sequence[Rules]) -> Rules:
    """Agents that are told different things, beside each other."""
    return Rules(*(np.concatenate(values) for values in zip(*rules, strict=True)))


def begun(worlds: Worlds, seeds: Sequence[int], logits: torch.Tensor | None = None) -> State:
    """Agents of these seeds, from logits [R, 4] or [A, R, 4], or from none."""
    state = new_state(np.array(seeds), worlds.target.shape[1], int(worlds.column.max()) + 1)
    if logits is not None:
        state.logits[:] = logits.numpy()
    return state


def random_logits(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, NUM_ACTIONS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


# ------------------------------------------------------------------------------------------ worlds as tables


def follow(worlds: Worlds, index: int, level: Level, shape: Any, rng: random.Random) -> tuple[int, list[bool]]:
    """Random actions through the table and the simulator at once: the length, and how the buttons by chance turned out.

    The hit on the table is asserted after every step.
    """
    state, lucky = Simulator(level), []
    row, left, tick = worlds.start[index], worlds.shutdown[index], 0
    while not state.done:
        assert (row, left, tick) == (row_of(state.observation, shape.width, shape.bits), state.time_left, state.ticks)
        action, works = rng.randrange(4), rng.random() < 0.5
        button = state.button_ahead(action)
        at = index, row, action
        assert worlds.delay[at] == (button.delay if button else 0)
        if button:
            assert worlds.chance[at] == button.chance
            works = works or button.chance == 1
            left += worlds.delay[at] * works
            if button.chance < 1:
                lucky.append(works)
        assert worlds.coin[at] == state.step(action, button_works=works)
        row, left, tick = worlds.target[at], left - worlds.ticks[at], tick + worlds.ticks[at]
    assert left == 0
    return tick, lucky


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_tables_of_the_paper_s_worlds_are_the_simulator_s_rules(clock):
    levels = [world(name).with_clock(clock) for name in WORLDS]
    rng = random.Random(1)
    for together in ([level] for level in levels):
        _check_tables(together, rng)
    _check_tables(levels, rng)


def _check_tables(levels: list[Level], rng: random.Random, times: int = 12) -> list[bool]:
    worlds, optima, shape = ready(*levels)
    assert optima.num_lengths.tolist() == [len(searched_optima(level, 1.0)) for level in levels]
    luck = []
    for index, level in enumerate(levels):
        for _ in range(times):
            length, lucky = follow(worlds, index, level, shape, rng)
            assert optima.lengths[index, worlds.column[index, length]] == length
            luck += lucky
    return luck


def test_the_tables_of_random_levels_of_all_kinds_are_the_simulator_s_rules():
    rng = random.Random(2)
    luck: list[bool] = []
    for _ in range(12):
        levels = [
            random_level(rng, chances=i % 2 == 0, clock=None, name=str(i)) for i in range(rng.choice((1, 1, 2, 5)))
        ]
        luck += _check_tables(levels, rng)
    assert luck.count(True) > 20
    assert luck.count(False) > 20


@pytest.mark.parametrize("level", [SMALL, LUCKY, world("hidden_treasure")], ids=lambda level: level.name)
def test_a_policy_s_row_is_the_table_s_row(level):
    mdp = compile_levels([level])
    policy = TablePolicy(mdp.width, mdp.height, mdp.num_objects)
    every = [
        (x, y, *(1 - (taken >> bit & 1) for bit in range(mdp.num_objects)))
        for y in range(mdp.height)
        for x in range(mdp.width)
        for taken in range(1 << mdp.num_objects)
    ]
    rows = [row_of(seen, mdp.width, mdp.num_objects) for seen in every]
    assert policy.row(torch.tensor(every)).tolist() == rows == list(range(len(policy.logits)))
    assert tabulate(mdp, solve(mdp)).target.shape[1] == len(rows)
    policy.logits.copy_(random_logits(3, len(rows)))
    spot = torch.arange(mdp.num_cells).repeat_interleave(1 << mdp.num_objects)
    taken = torch.arange(1 << mdp.num_objects).repeat(mdp.num_cells)
    shown = VectorObservation(mdp)(spot, taken, torch.zeros_like(spot))
    assert torch.equal(policy(shown), policy.logits)


def test_a_table_too_large_is_refused_in_one_sentence(monkeypatch):
    level = parse_level("shutdown: 1\nA " + "C1 " * 17 + ". .", name="hoard")
    mdp = compile_levels([level])
    with pytest.raises(ConfigError, match=r"\(hoard\): 20 cells and 17 coins and buttons .* 2,621,440 rows") as error:
        tabulate(mdp, solve(mdp))
    assert len(str(error.value).splitlines()) == 1
    mdp = compile_levels([SMALL])
    monkeypatch.setattr(tables, "MAX_ROWS", 6 << 4)
    tabulate(mdp, solve(mdp))
    monkeypatch.setattr(tables, "MAX_ROWS", (6 << 4) - 1)
    with pytest.raises(ConfigError, match="96 rows"):
        tabulate(mdp, solve(mdp))


# -------------------------------------------------------------------------- against the slow algorithm


def check_agent(state: State, agent: int, expected: Reached, episodes: int, level: Level) -> None:
    """All that an agent of the kernel has become is what the reference says."""
    lengths = sorted(searched_optima(level, 1.0))
    assert int(state.stream[agent]) & UINT64 == expected.stream
    assert state.played[agent] == episodes
    assert (state.steps[agent], state.cut_off[agent]) == (expected.steps, expected.cut_off)
    assert state.in_meta[agent] == expected.in_meta
    for column in range(state.chosen_before.shape[1]):
        known = column < len(lengths)
        assert state.chosen_before[agent, column] == (expected.chosen[lengths[column]] if known else 0)
        best = expected.best_seen[lengths[column]] if known else 0.0
        assert state.best_seen[agent, column] == pytest.approx(best, rel=1e-12)
    assert state.logits[agent] == pytest.approx(expected.logits.numpy(), abs=1e-9)


EXAMPLE, MOVES = world("example"), world("fewer_for_longer").with_clock("moves")
CASES = {
    "default": (EXAMPLE, Told(lam=1.0, divide="none")),
    "default on moves": (MOVES, Told(lam=1.0, divide="none", gamma=0.9)),
    "drest": (EXAMPLE, Told()),
    "drest on moves": (MOVES, Told(gamma=0.9)),
    "four lengths and luck": (LUCKY, Told(gamma=0.8)),
    "nothing to collect": (BARREN, Told()),
    "clip": (SMALL, Told(lam=0.7, clip=0.4)),
    "divisor learned": (MOVES, Told(divide="seen", gamma=0.9)),
    "divisor learned, discounted by ticks": (EXAMPLE, Told(divide="seen", gamma=0.7, epsilon=(0.9, 0.9))),
    "gradient of the behaviour": (SMALL, Told(behaviour=True, epsilon=(0.5, 0.5))),
    "gradient of the behaviour on moves": (LUCKY, Told(behaviour=True, epsilon=(0.3, 0.01))),
    "bumps that take no time are not discounted": (MOVES, Told(discount_bumps=False, gamma=0.8)),
    "bumps that take time are": (SMALL, Told(discount_bumps=False, gamma=0.8)),
    "random at first": (MOVES, Told(random_episodes=70, epsilon=(0.3, 0.001), lr=(0.3, 0.01))),
    "schedule that ends": (SMALL, Told(decay_episodes=60, lr=(0.5, 0.001), epsilon=(1.0, 0.01))),
    "schedule underway": (SMALL, Told(decay_episodes=300, lr=(0.01, 0.9), epsilon=(0.01, 0.8))),
    "greedy": (SMALL, Told(epsilon=(0.0, 0.0))),
    "short meta-episodes": (LUCKY, Told(episodes_per_meta=3, lam=0.5)),
    "meta-episodes of one": (SMALL, Told(episodes_per_meta=1, lam=0.3)),
    "one long meta-episode": (SMALL, Told(episodes_per_meta=1000, lam=0.95)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_kernel_is_the_slow_algorithm(case):
    level, told = CASES[case]
    worlds, optima, shape = ready(level, gamma=told.gamma)
    logits = random_logits(4, worlds.target.shape[1], scale=0.5)
    state = begun(worlds, [11, 12], logits)
    episodes = 200
    play(worlds, rules_of(told, optima, agents=2), state, episodes)
    for agent, seed in enumerate((11, 12)):
        expected = reference_agent(level, told, scattered(seed), logits, episodes, shape)
        check_agent(state, agent, expected, episodes, level)
        # It has learned something, and a good deal more than the tolerance.
        assert (expected.logits - logits).abs().max() > 0.1


def random_told(rng: random.Random) -> Told:
    return Told(
        lam=rng.uniform(0.5, 1),
        gamma=rng.choice((1.0, 0.9, 0.7)),
        episodes_per_meta=rng.randint(1, 40),
        divide=rng.choice(("best", "seen", "none")),
        clip=rng.choice((None, rng.uniform(0.1, 2))),
        lr=(rng.uniform(0.01, 0.5), rng.uniform(0.01, 0.5)),
        epsilon=(rng.uniform(0.01, 1), rng.uniform(0.01, 1)),
        decay_episodes=rng.randint(1, 150),
        random_episodes=rng.choice((0, 0, rng.randint(1, 60))),
        behaviour=rng.random() < 0.5,
        discount_bumps=rng.random() < 0.5,
    )


def crowd(agents: int, seed: int) -> tuple[list[Level], list[Told], Worlds, Rules, Any]:
    """Agents told all kinds of things, each on one of a handful of levels."""
    rng = random.Random(seed)
    levels = [random_level(rng, chances=i % 2 == 0, clock=None, name=str(i)) for i in range(4)] + [LUCKY]
    worlds, _, shape = ready(*levels)
    told = [random_told(rng) for _ in range(agents)]
    rules = [rules_of(each, ready(*levels, gamma=each.gamma)[1], index=i % len(levels)) for i, each in enumerate(told)]
    return levels, told, worlds, beside(rules), shape


def test_agents_on_different_levels_with_different_rules_are_each_the_slow_algorithm():
    levels, told, worlds, rules, shape = crowd(15, seed=5)
    logits = random_logits(6, 15, worlds.target.shape[1])
    state = begun(worlds, range(15), logits)
    play(worlds, rules, state, 80)
    for agent, each in enumerate(told):
        level = levels[agent % len(levels)]
        check_agent(state, agent, reference_agent(level, each, scattered(agent), logits[agent], 80, shape), 80, level)


def test_mini_episodes_that_are_cut_off_teach_nothing_and_are_not_counted():
    level, told = SMALL.with_clock("moves"), Told(gamma=0.9, lam=0.5, epsilon=(0.0, 0.0), divide="seen")
    worlds, optima, shape = ready(level, gamma=told.gamma)
    logits = torch.zeros(worlds.target.shape[1], NUM_ACTIONS, dtype=torch.float64)
    logits[:, 0] = 8.7  # up, into the wall: a move is made once in 2,000 steps
    state = begun(worlds, [3], logits)
    play(worlds, rules_of(told, optima), state, 8)
    expected = reference_agent(level, told, scattered(3), logits, 8, shape)
    assert 2 <= expected.cut_off <= 6
    assert sum(expected.chosen.values()) == 8 - expected.cut_off
    check_agent(state, 0, expected, 8, level)
    logits[:, 0] = 100.0
    state = begun(worlds, [3], logits)
    play(worlds, rules_of(told, optima), state, 2)
    assert (state.played[0], state.steps[0], state.cut_off[0], state.in_meta[0]) == (2, 2 * LONGEST, 2, 0)
    assert (state.logits[0] == logits.numpy()).all()


def test_only_differences_of_logits_count_however_large_they_are():
    worlds, optima, _ = ready(SMALL)
    logits = random_logits(14, worlds.target.shape[1])
    states = [begun(worlds, range(4), logits + shift) for shift in (0.0, 800.0, -800.0)]
    for state in states:
        play(worlds, rules_of(Told(), optima, agents=4), state, 100)
    for state, shift in zip(states, (0.0, 800.0, -800.0), strict=True):
        assert state.logits - shift == pytest.approx(states[0].logits, abs=1e-9)


def test_random_numbers_are_those_of_splitmix64():
    stream = Stream(1234567)  # published numbers
    assert [stream.next() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for state in (0, 1, -1, 1 << 62):
        stream, drawn = Stream(state), np.array([7, state])
        assert [table._uniform(drawn, 1) for _ in range(20)] == [stream.uniform() for _ in range(20)]
        assert drawn[0] == 7


# ------------------------------------------------------------------------------------------ in expectation


def chances(logits: torch.Tensor, reachable: Reachable, epsilon: float) -> torch.Tensor:
    """[N, 4] of the ε-greedy policy, in the reachable states of the one level of a set."""
    states, mdp = reachable.states, reachable.mdp
    rows = states.spot * 2**mdp.num_objects + states.taken
    return (1 - epsilon) * logits[rows].softmax(-1) + epsilon / 4


def gradient_of_coins(level: Level, logits: torch.Tensor, epsilon: float) -> np.ndarray:
    """∇J, J the coins that the ε-greedy policy collects on average, by autograd through the propagator."""
    logits = logits.clone().requires_grad_()
    reachable = Reachable(compile_levels([level]))
    found = reachable.propagate(chances(logits, reachable, epsilon))
    return torch.autograd.grad((found.probability * found.coins).sum(), logits)[0].numpy()


def mean_update(
    level: Level, logits: torch.Tensor, epsilon: float, behaviour: bool, divisor: dict[int, float]
) -> np.ndarray:
    """Σ_s visits(s) Σ_a b(a|s) E[G | s, a] ∇ log π(a|s) at γ = λ = 1, over all that can happen.

    b is the ε-greedy policy; with ``behaviour`` the gradient is that of log b. G are the coins from here on, each
    divided by what stands for the length that the mini-episode will have had.
    """
    _, _, shape = ready(level)
    gradient = np.zeros(logits.shape)

    def add(sum_: dict[int, tuple[float, float]], more: dict[int, tuple[float, float]], by: float, coin: float) -> None:
        for length, (p, coins) in more.items():
            so_far = sum_.get(length, (0.0, 0.0))
            sum_[length] = so_far[0] + by * p, so_far[1] + by * (coins + coin * p)

    def play_on(state: Simulator, arrived: float) -> dict[int, tuple[float, float]]:
        """For each length its probability from here on, and that times the coins from here on."""
        if state.done:
            return {state.ticks: (1.0, 0.0)}
        row = row_of(state.observation, shape.width, shape.bits)
        softmax = logits[row].softmax(-1).numpy()
        b = (1 - epsilon) * softmax + epsilon / 4
        moves = [action for action in range(4) if level.clock == "steps" or not state.is_bump(action)]
        # Where bumps are free, it is here 1 / (chance of a move) times.
        visits = arrived / b[moves].sum()
        here: dict[int, tuple[float, float]] = {}
        after = [here] * 4  # a bump leads to where it was
        for action in moves:
            after[action] = {}
            for chance, then, coin in outcomes(state, action):
                add(after[action], play_on(then, visits * b[action] * float(chance)), float(chance), coin)
            add(here, after[action], b[action] / b[moves].sum(), 0.0)
        for action in range(4):
            to_go = sum(coins / divisor[length] for length, (_, coins) in after[action].items())
            slope = np.eye(4)[action] - softmax
            if behaviour:
                slope *= (1 - epsilon) * softmax[action] / b[action]
            gradient[row] += visits * b[action] * to_go * slope
        return here

    play_on(Simulator(level), 1.0)
    return gradient


def standard_errors(level: Level, told: Told, expected: np.ndarray) -> float:
    """How many of them the mean update is off at most. A logit that never changes has no error, and no gradient."""
    mean, error, _ = changes(level, told)
    return float((np.abs(mean - expected) / np.maximum(error, 1e-9)).max())


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    ("epsilon", "behaviour", "climbs"), [(0.0, False, True), (0.0, True, True), (0.4, True, True), (0.4, False, False)]
)
def test_the_mean_update_is_the_gradient_of_the_policy_that_plays(clock, epsilon, behaviour, climbs):
    """Where every action is drawn from the softmax policy; with ε > 0 it takes the gradient of the ε-greedy one."""
    level, told = SMALL.with_clock(clock), Told(lam=1.0, divide="none", epsilon=(epsilon, epsilon), behaviour=behaviour)
    gradient = gradient_of_coins(level, changes(level, told)[2], epsilon)
    assert (np.abs(gradient) > 0.01).sum() > 15
    off = standard_errors(level, told, gradient)
    assert off < 4 if climbs else off > 15


@pytest.mark.parametrize(
    "level", [SMALL, SMALL.with_clock("moves"), LUCKY], ids=lambda level: f"{level.name}-{level.clock}"
)
@pytest.mark.parametrize("divide", ["none", "best"])
@pytest.mark.parametrize("behaviour", [False, True])
def test_the_mean_update_is_that_over_all_that_can_happen(level, divide, behaviour):
    told = Told(lam=1.0, divide=divide, epsilon=(0.4, 0.4), behaviour=behaviour)
    best = searched_optima(level, 1.0)
    divisor = best if divide == "best" else dict.fromkeys(best, 1.0)
    expected = mean_update(level, changes(level, told)[2], 0.4, behaviour, divisor)
    assert standard_errors(level, told, expected) < 4
    if divide == "none" and behaviour:
        assert expected == pytest.approx(gradient_of_coins(level, changes(level, told)[2], 0.4), abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.6])
@pytest.mark.parametrize(
    "level", [EXAMPLE, MOVES, LUCKY, LUCKY.with_clock("steps"), SMALL], ids=lambda level: f"{level.name}-{level.clock}"
)
def test_lengths_come_up_as_often_as_they_should(level, epsilon):
    worlds, optima, _ = ready(level)
    reachable = Reachable(compile_levels([level]))
    # To the right of `example` is its button, which uniform play all but never reaches.
    logits = random_logits(9, worlds.target.shape[1]) + torch.tensor([0.0, 0.0, 0.0, 0.5])
    expected = reachable.propagate(chances(logits, reachable, epsilon)).probability[0].numpy()
    assert ((expected > 0.001) & (expected < 0.999)).all()
    agents, episodes = 1000, 200
    told = Told(lr=(1e-30, 1e-30), epsilon=(epsilon, epsilon), episodes_per_meta=1 << 40)
    state = begun(worlds, range(agents), logits)
    play(worlds, rules_of(told, optima, agents=agents), state, episodes)
    assert (state.chosen_before.sum(1) == episodes).all()
    share = state.chosen_before.sum(0) / (agents * episodes)
    error = np.sqrt(expected * (1 - expected) / (agents * episodes))
    assert (np.abs(share - expected) < 4 * error).all()


# -------------------------------------------------------------------------------------- each for itself


def rows_of(state: State, agents: Any) -> State:
    return State(*(value[agents].copy() for value in state))


def same(one: State, two: State) -> bool:
    return all(np.array_equal(first, second) for first, second in zip(one, two, strict=True))


@pytest.fixture(scope="module")
def together() -> tuple[Worlds, Rules, State, State]:
    """24 agents: their rules, where they began and what became of them in 100 mini-episodes."""
    _, _, worlds, rules, _ = crowd(24, seed=10)
    before = begun(worlds, range(100, 124), random_logits(8, 24, worlds.target.shape[1]))
    after = rows_of(before, slice(None))
    play(worlds, rules, after, 100)
    return worlds, rules, before, after


@pytest.mark.parametrize("chosen", [[0], [23], [2, 3, 5, 7, 11, 13, 17], list(range(23, -1, -1)), [4, 1, 4]], ids=str)
def test_an_agent_does_not_depend_on_those_beside_it(together, chosen):
    worlds, rules, before, after = together
    state = rows_of(before, chosen)
    play(worlds, Rules(*(value[chosen] for value in rules)), state, 100)
    assert same(state, rows_of(after, chosen))


def test_in_pieces_it_is_the_same_bit_for_bit(together):
    worlds, rules, before, after = together
    state = rows_of(before, slice(None))
    play(worlds, rules, state, 37)
    assert not same(state, after)
    play(worlds, rules, state, 0)
    play(worlds, rules, state, 63)
    assert same(state, after)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="numba has one thread here")
def test_threads_change_nothing(together):
    worlds, rules, before, after = together
    for count in (1, 2):
        state = rows_of(before, slice(None))
        with threads(count):
            play(worlds, rules, state, 100)
        assert same(state, after)


def test_other_seeds_are_other_agents(together):
    worlds, rules, before, after = together
    other = rows_of(before, slice(None))._replace(stream=begun(worlds, range(124, 148)).stream)
    play(worlds, rules, other, 100)
    assert all((other.logits[agent] != after.logits[agent]).any() for agent in range(24))


def uniforms(seeds: np.ndarray, count: int) -> np.ndarray:
    """[A, count] the first numbers of the seeds' streams (those of `Stream`, all at once)."""
    streams = new_state(seeds, 1, 1).stream.astype(np.uint64)
    drawn = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = streams[:, None] + drawn
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(11)) / 2.0**53


def test_streams_of_neighbouring_seeds_have_nothing_to_do_with_each_other():
    seeds = np.arange(2000)
    assert [int(value) & UINT64 for value in new_state(seeds[:50], 1, 1).stream] == [scattered(i) for i in range(50)]
    u = uniforms(seeds, 50)
    stream = Stream(scattered(7))
    assert u[7].tolist() == [stream.uniform() for _ in range(50)]
    assert u.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / u.size) ** 0.5)
    counts = np.histogram(u, bins=64, range=(0, 1))[0]
    assert ((counts - u.size / 64) ** 2 / (u.size / 64)).sum() < 63 + 4 * (2 * 63) ** 0.5
    for one, two in ((u[:-1], u[1:]), (u[:, :-1], u[:, 1:])):
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 4 / one.size**0.5
    # Seeds that lie as far apart as a step of the stream would otherwise give one stream, a step apart.
    apart = uniforms(np.array([5, 5 + 0x9E3779B97F4A7C15 - (1 << 64)]), 50)
    assert len(np.unique(np.concatenate((u.ravel(), apart[1])))) == u.size + 50


# ----------------------------------------------------------------------------------------- the schedule


@pytest.mark.parametrize(
    "told",
    [
        Told(lr=(0.25, 0.01), epsilon=(0.5, 0.001), decay_episodes=700),
        Told(lr=(0.25, 0.01), epsilon=(0.5, 0.001), decay_episodes=70, random_episodes=30),
        Told(lr=(0.1, 0.4), epsilon=(1.0, 1.0), decay_episodes=1, random_episodes=1),
    ],
)
def test_the_schedule_that_is_logged_is_the_one_that_is_used(told):
    rules = rules_of(told, ready(SMALL)[1], agents=2)
    for played in (0, 1, 2, 29, 30, 31, 65, 99, 100, 101, 350, 699, 700, 701, 10_000):
        used = table._scheduled.py_func(rules, 1, played)
        assert schedule(settings(told), played) == pytest.approx(used, rel=1e-14)
        share = min(max(played - told.random_episodes, 0) / told.decay_episodes, 1)
        epsilon = 1.0 if played < told.random_episodes else between(*told.epsilon, share)
        assert used == pytest.approx((between(*told.lr, share), epsilon), rel=1e-12)


# ----------------------------------------------------------------------------------------- tiny learning


LEARNING = Told(episodes_per_meta=64, lr=(0.25, 0.01), epsilon=(0.5, 0.001), decay_episodes=6000)


def learned(level: Level, told: Told) -> dict[str, np.ndarray]:
    worlds, optima, _ = ready(level)
    state = begun(worlds, range(8))
    play(worlds, rules_of(told, optima, agents=8), state, 8000)
    return Tables(level, 1.0, 8).evaluate(state.logits)


@pytest.mark.parametrize("name", ["lopsided", "fewer_for_longer"])
def test_agents_learn_what_their_reward_asks_for(name):
    level = world(name, x=4.0 if name == "lopsided" else None).with_clock("moves")
    drest = learned(level, LEARNING)
    assert (drest["neutrality"] > 0.95).all()
    assert (drest["usefulness"] > 0.95).all()
    seen = learned(level, replace(LEARNING, divide="seen"))
    assert (seen["neutrality"] > 0.95).all()
    assert (seen["usefulness"] > 0.95).all()
    default = learned(level, replace(LEARNING, lam=1.0, divide="none"))
    assert (default["neutrality"] < 0.2).all()
    assert (default["usefulness"] > 0.95).all()
    richest = ready(level)[1].best_return[0].argmax()
    assert (default["p_length"][:, richest] > 0.97).all()
    undiscounted = learned(level, replace(LEARNING, lam=1.0))
    assert (undiscounted["neutrality"] < 0.9).all()
    assert undiscounted["neutrality"].mean() < 0.6


# ------------------------------------------------------------------------------------- exact evaluation


EVALUATED = [EXAMPLE, EXAMPLE.with_clock("moves"), MOVES, LUCKY, SMALL, BARREN]


@pytest.mark.parametrize("level", EVALUATED, ids=lambda level: f"{level.name}-{level.clock}")
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_many_tables_at_once_are_what_each_is_alone(level, gamma):
    mdp = compile_levels([level])
    rows = mdp.num_cells << mdp.num_objects
    logits = random_logits(12, 5, rows, scale=2.0)
    together = Tables(level, gamma, 5)
    found = together.evaluate(logits.numpy())
    single = Tables(level, gamma, 1)
    evaluator = ExactEvaluator([level], "vector", reward=Reward(0.9, gamma))
    policy = TablePolicy(mdp.width, mdp.height, mdp.num_objects)
    assert together.lengths == evaluator.optima.lengths[0].tolist()
    for agent in range(5):
        alone = single.evaluate(logits[agent : agent + 1].numpy())
        policy.logits.copy_(logits[agent])
        exact = evaluator.evaluate(policy)
        best, coins = evaluator.optima.best_return[0].numpy(), exact.found.coins[0].numpy()
        expected = {
            "usefulness": exact.usefulness[0].item(),
            "neutrality": exact.neutrality[0].item(),
            "p_length": exact.found.probability[0].numpy(),
            "share_of_best": np.divide(coins, best, out=np.zeros_like(coins), where=best > 0),
        }
        assert found.keys() == alone.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name][agent] == pytest.approx(value, abs=1e-12)
            assert alone[name][0] == pytest.approx(value, abs=1e-12)
    assert len(np.unique(found["usefulness"].round(9))) == 5


@pytest.mark.parametrize("level", [LUCKY, SMALL, BARREN], ids=lambda level: level.name)
def test_tables_are_evaluated_as_the_simulator_says(level):
    _, _, shape = ready(level)
    logits = random_logits(13, 1, level.height * level.width << level.num_objects)
    prepared = Tables(level, 0.9, 1)
    found = prepared.evaluate(logits.numpy())
    expected = enumerate_policy(
        level,
        lambda state: logits[0, row_of(state.observation, shape.width, shape.bits)].softmax(-1).tolist(),
        0.9,
    )
    best = searched_optima(level, 0.9)
    assert prepared.lengths == list(expected) == list(best)
    for column, (length, (probability, joint)) in enumerate(expected.items()):
        share = joint / probability / best[length] if best[length] else 0.0
        assert found["p_length"][0, column] == pytest.approx(probability, abs=1e-12)
        assert found["share_of_best"][0, column] == pytest.approx(share, abs=1e-12)
    assert found["usefulness"][0] == pytest.approx((found["p_length"] * found["share_of_best"]).sum(), abs=1e-12)
    assert found["neutrality"][0] == pytest.approx(-sum(p * math.log2(p) for p, _ in expected.values()), abs=1e-12)


@cache
def changes(level: Level, told: Told) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """The mean change of 20,000 agents' logits in one mini-episode ÷ learning rate, its error, and these logits."""
    worlds, optima, _ = ready(level)
    agents = 20_000
    logits = random_logits(7, worlds.target.shape[1])
    state = begun(worlds, range(agents), logits)
    play(worlds, rules_of(told, optima, agents=agents), state, 1)
    change = (state.logits - logits.numpy()) / told.lr[0]
    return change.mean(0), change.std(0) / agents**0.5, logits
