"""Variations of levels against the simulator: what changes, what stays, and what is refused."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.variations import Variations, vary_levels
from drest_torch.envs.levels import LevelError, largest_map, level_from_record, level_to_record, parse_level, world
from drest_torch.envs.levels.symmetry import canonical_key
from tests.helpers.simulator import random_level, searched_optima

ALL = Variations(values=[2, 7], scale=3, coins=2, delay=2, shutdown=2, size=5, walls=3, moves=2, start="cell")
EXAMPLE = world("example")
ROOM = parse_level("shutdown: 4\n. . # . .\nA . # C2 .\n. . C1 . .\n. B3 # . .\n. . . . .")


def designs(count, seed=0, **kind):
    rng = random.Random(seed)
    return [random_level(rng, name=f"design {number}", max_side=3, max_ticks=7, **kind) for number in range(count)]


def varied(levels, variations, **others):
    return list(vary_levels(levels, variations, **{"seed": 0, **others}))


def of_one(level, variations, count=200):
    """Return this many variations of a level."""
    return varied([level] * count, variations)


def without_names(levels):
    return [level_to_record(level) | {"name": ""} for level in levels]


def exact(levels):
    """Return k and m of every level by the solver, as dictionaries."""
    optima = solve(compile_levels(levels), allow_barren=True)
    numbers = zip(optima.num_lengths.tolist(), optima.lengths.tolist(), optima.best_return.tolist(), strict=True)
    return [dict(zip(lengths[:k], best[:k], strict=True)) for k, lengths, best in numbers]


KINDS = {
    "values": Variations(values=[1, 9]),
    "scale": Variations(scale=4),
    "coins": Variations(coins=3),
    "times": Variations(delay=2, shutdown=2),
    "size": Variations(size=5),
    "walls": Variations(walls=4),
    "moves": Variations(moves=3),
    "cell": Variations(start="cell"),
    "state": Variations(start="state"),
    "all": ALL,
}
LUCK = {"chances": {"chances": True}, "doors": {"doors": True}, "lotteries": {"lotteries": 1}, "plain": {}}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("luck", LUCK)
def test_variations_keep_the_choice_of_their_design(name, luck):
    """As many lengths as the design, and coins in as many of them, by brute force."""
    levels = designs(8, decimals=False, clock=None, **LUCK[luck])
    for design, variation in zip(levels, varied(levels, KINDS[name]), strict=True):
        before, after = searched_optima(design, 1.0), searched_optima(variation, 1.0)
        assert len(after) == len(before)
        assert sum(best > 0 for best in after.values()) >= sum(best > 0 for best in before.values())


@pytest.mark.parametrize("name", KINDS)
def test_best_returns_of_variations_equal_brute_force(name):
    variations = varied(designs(20, seed=1, doors=True, decimals=False), KINDS[name])
    for variation, best in zip(variations, exact(variations), strict=True):
        assert best == searched_optima(variation, 1.0)


@pytest.mark.parametrize("name", KINDS)
def test_variations_are_valid_levels(name):
    """Their records can be read from a file."""
    for level in varied(designs(20, seed=2, doors=True, chances=True), KINDS[name]):
        assert level_from_record(level_to_record(level)) == level


# ------------------------------------------------------------------------------------------- kinds


def test_scaled_coins_leave_all_shares_exactly_equal():
    """C / m and U of a random policy."""
    levels = [EXAMPLE, ROOM, *designs(20, lotteries=1)]
    scaled = varied(levels, Variations(scale=5))
    factors, shares = [], []
    for level in (levels, scaled):
        mdp = compile_levels(level, at_least=(5, 5))
        reachable = Reachable(mdp)
        table = torch.rand(len(reachable), 4, generator=torch.Generator().manual_seed(0)).double()
        arrivals = reachable.arrivals(table / table.sum(-1, keepdim=True), 1.0)
        best = solve(mdp, allow_barren=True).best_return
        factors.append(best.amax(-1))
        shares.append(torch.where(best != 0, arrivals.coins / best, 0))
    factor = factors[1] / factors[0]
    assert set(factor.round().tolist()) == {1, 2, 3, 4, 5}
    torch.testing.assert_close(shares[1], shares[0], rtol=1e-12, atol=0)


def test_whole_coins_have_exactly_equal_shares_when_scaled():
    scaled = of_one(ROOM, Variations(scale=7), 30)
    best = exact([ROOM])[0]
    for level in scaled:
        factor = level.coins[0].value / ROOM.coins[0].value
        assert exact([level])[0] == {length: factor * most for length, most in best.items()}
        for coin, original in zip(level.coins, ROOM.coins, strict=True):
            for most in best.values():
                assert coin.value / (factor * most) == original.value / most


def test_values_are_drawn_anew_uniformly():
    levels = of_one(ROOM, Variations(values=[3, 5]), 600)
    assert all(replace(level, objects=(), name="") == replace(ROOM, objects=(), name="") for level in levels)
    counts = torch.bincount(torch.tensor([coin.value for level in levels for coin in level.coins]).long())
    assert counts[:3].sum() == 0
    assert (counts[3:] - 400).abs().max() < 100


def test_values_leave_the_lengths():
    levels = designs(20, seed=3, decimals=False)
    for design, level in zip(levels, varied(levels, Variations(values=[1, 9])), strict=True):
        assert searched_optima(level, 1.0).keys() == searched_optima(design, 1.0).keys()


def test_times_are_later_by_at_most_their_limits():
    levels = of_one(ROOM, Variations(shutdown=2, delay=3))
    assert {level.shutdown for level in levels} == {4, 5, 6}
    assert {level.buttons[0].delay for level in levels} == {3, 4, 5, 6}
    assert {level.coins for level in levels} == {ROOM.coins}


def test_further_coins_are_on_free_cells_within_reach():
    closed = parse_level("shutdown: 4\nA C1 B2 # .\n. . . # .\n. . . # .")
    levels = of_one(closed, Variations(coins=2, values=[8, 9]))
    assert {len(level.coins) for level in levels} == {1, 2, 3}
    places = {(coin.row, coin.column) for level in levels for coin in level.coins}
    assert places == {(0, 1), *((row, column) for row in (1, 2) for column in range(3))}
    assert {coin.value for level in levels for coin in level.coins} == {8, 9}


def test_further_coins_have_values_of_others_by_default():
    values = {coin.value for level in of_one(ROOM, Variations(coins=2)) for coin in level.coins}
    assert values == {1, 2}


EVERYWHERE = set(product(range(4), range(4)))


def is_wall(level, cell):
    row, column = cell
    return level.walls[row][column]


def test_changed_walls_are_on_cells_without_objects():
    """At most three cells change; objects, the start and cells beside the door do not."""
    level = parse_level("shutdown: 4\n. . # .\nA C2 . .\n> . B3 .\n. . . .")
    changed = set()
    for variation in of_one(level, Variations(walls=3)):
        assert variation.objects == level.objects
        assert variation.start == level.start
        cells = {cell for cell in EVERYWHERE if is_wall(variation, cell) != is_wall(level, cell)}
        assert len(cells) <= 3
        changed |= cells
    beside_door = {(1, 0), (2, 0), (3, 0), (2, 1)}
    occupied = {(1, 1), (2, 2)}
    assert changed == EVERYWHERE - beside_door - occupied


def test_objects_move_to_free_cells_within_reach():
    """One object of the room moves, with its values; all cells on its side of the wall are reached."""
    places = set()
    for variation in of_one(ROOM, Variations(moves=1)):
        assert variation.walls == ROOM.walls
        moved = [thing for thing in variation.objects if thing not in ROOM.objects]
        assert len(moved) <= 1
        for thing in moved:
            before = [replace(old, row=thing.row, column=thing.column) for old in ROOM.objects]
            assert thing in before
            assert not ROOM.walls[thing.row][thing.column]
            places.add((thing.row, thing.column))
    assert (1, 0) not in places, "the start"
    assert len(places) > 8


def test_walls_stay_where_they_are():
    for level in of_one(ROOM, replace(ALL, size=None, walls=None, moves=None)):
        assert level.walls == ROOM.walls
        places = [(thing.row, thing.column) for thing in level.buttons]
        assert places == [(3, 1)]


def test_enlarged_maps_contain_the_design_at_every_place():
    small = parse_level("shutdown: 3\nA B2\nC1 #")
    levels = of_one(small, Variations(size=4), 600)
    assert {(level.height, level.width) for level in levels} == {(h, w) for h in (2, 3, 4) for w in (2, 3, 4)}
    corners = set()
    added = set()
    for level in levels:
        (top, left), rows = level.start, [row.split() for row in level.rows()]
        corners.add((top, left))
        assert [row[left : left + 2] for row in rows[top : top + 2]] == [["A", "B2"], ["C1", "#"]]
        added |= {cell for row in rows for cell in row} - {"A", "B2", "C1"}
    assert corners == {(row, column) for row in range(3) for column in range(3)}
    assert added == {"#", "."}


def test_a_frame_of_wall_leaves_the_optima_equal():
    """A shifted map is the same level, up to translation."""
    level = parse_level("shutdown: 4\nA # C4\nC1 B2 #")
    best = exact([level])[0]
    levels = of_one(level, Variations(size=5))
    framed = [moved for moved in levels if canonical_key(moved) == canonical_key(level)]
    assert len({moved.start for moved in framed}) > 3
    assert all(exact([moved])[0] == best for moved in framed)
    assert any(exact([moved])[0] != best for moved in levels)  # a way around, on added floor


def test_other_starts_are_free_cells_with_the_choice():
    levels = of_one(ROOM, Variations(start="cell"))
    starts = {level.start for level in levels}
    assert len(starts) > 5
    assert not starts & {(thing.row, thing.column) for thing in ROOM.objects}
    assert {(level.objects, level.walls, level.shutdown) for level in levels} == {(ROOM.objects, ROOM.walls, 4)}
    assert all(len(searched_optima(level, 1.0)) == 2 for level in levels)


def test_states_of_random_play_become_starts():
    """Time passed since the design's start covers the way, and taken coins are gone."""
    level = parse_level("shutdown: 5\n. A C1 . B4\n. . . C3 .")
    levels = of_one(level, Variations(start="state"), 600)
    assert {varied.shutdown for varied in levels} >= {2, 3, 4, 5}
    assert {len(varied.coins) for varied in levels} == {1, 2}
    for variation in levels:
        way = abs(variation.start[0] - level.start[0]) + abs(variation.start[1] - level.start[1])
        assert level.shutdown - variation.shutdown >= way
        assert set(variation.objects) <= set(level.objects)
        assert variation.buttons == level.buttons  # without it there is no choice


# ------------------------------------------------------------------------------------------- refusals


def test_a_design_without_other_variations_stays_as_it_is():
    """From the only other cell the coin is out of time, so every draft is refused."""
    level = parse_level("shutdown: 2\n. B1 A C1")
    assert without_names(of_one(level, Variations(start="cell"), 5)) == without_names([level] * 5)


def test_a_design_with_one_length_can_vary():
    level = parse_level("shutdown: 3\nA C1\n. .")
    levels = of_one(level, Variations(values=[1, 9], shutdown=2))
    assert {varied.shutdown for varied in levels} == {3, 4, 5}


def test_levels_with_too_much_time_are_refused():
    level = parse_level("shutdown: 1\nA C1 B1021")
    assert {varied.max_time for varied in of_one(level, Variations(delay=4), 20)} <= {1022, 1023}


def test_held_out_levels_are_never_returned():
    everything = of_one(ROOM, Variations(values=[1, 2]), 100)
    keys = {canonical_key(level) for level in everything}
    assert len(keys) == 4
    held_out = {canonical_key(everything[0])}
    others = varied([ROOM] * 100, Variations(values=[1, 2]), without=held_out)
    assert {canonical_key(level) for level in others} == keys - held_out


def test_values_need_their_order():
    with pytest.raises(LevelError, match=r"levels.vary.values=\[9, 1\]; expected the lowest and the highest"):
        vary_levels([ROOM], Variations(values=[9, 1]), seed=0)


# ------------------------------------------------------------------------------------------- the stream


def test_a_variation_is_a_function_of_its_number():
    """The other levels of the batch do not matter, even if they are larger."""
    levels = [EXAMPLE, ROOM, *designs(10, seed=4)]
    for variations in (ALL, Variations(values=[1, 9], coins=2, start="state"), Variations(coins=2, delay=3)):
        together = without_names(varied(levels, variations, seed=5, first=100))
        alone = [varied([level], variations, seed=5, first=100 + index)[0] for index, level in enumerate(levels)]
        assert without_names(alone) == together


def test_variations_are_the_same_with_more_threads():
    levels = [EXAMPLE, ROOM, *designs(10, seed=4)]
    together = without_names(varied(levels, ALL, seed=5, first=100))
    torch.set_num_threads(2)
    assert without_names(varied(levels, ALL, seed=5, first=100)) == together
    torch.set_num_threads(1)
    assert without_names(varied(levels, ALL, seed=6, first=100)) != together
    assert without_names(varied(levels, ALL, seed=5, first=101)) != together


def test_names_are_numbers_of_the_stream():
    levels = vary_levels([ROOM, EXAMPLE], ALL, seed=0, first=41)
    assert [level.name for level in levels] == ["varied-000041", "varied-000042"]
    assert largest_map(levels) <= (5, 5)


def test_no_variations_return_the_designs():
    assert Variations().extents() == {}
    levels = [EXAMPLE, ROOM]
    assert without_names(varied(levels, Variations())) == without_names(replace(level, study={}) for level in levels)
