"""Generated levels against the ranges they are drawn from and the simulator's search."""

from collections import Counter
from itertools import islice

import pytest
import torch

from envs import generator
from envs.generator import GeneratorConfig, generate, stream
from envs.levels import LevelError, read_levels, write_levels
from tests.simulator import searched_optima

SMALL = GeneratorConfig(height=3, width=3, walls=(0, 3), coins=(1, 2), shutdown=(1, 4), delay=(1, 3))


def drafted(config, count, seed=0):
    return generator._draft(config, seed, torch.arange(count))


def test_the_same_seed_gives_the_same_levels_and_another_seed_others():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    once = generate(GeneratorConfig(), 50, seed=3)
    torch.manual_seed(1)
    assert generate(GeneratorConfig(), 50, seed=3) == once
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), before)
    others = generate(GeneratorConfig(), 50, seed=4)
    assert not {tuple(level.rows()) for level in once} & {tuple(level.rows()) for level in others}


def test_the_global_random_numbers_are_left_alone():
    before = torch.get_rng_state()
    generate(SMALL, 10, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_fewer_levels_are_the_first_of_more_whatever_the_batch_size(monkeypatch):
    levels = generate(SMALL, 700, seed=5)
    assert [generate(SMALL, count, seed=5) for count in (0, 1, 699)] == [[], levels[:1], levels[:699]]
    for at_once in (1, 100, 5000):
        monkeypatch.setattr(generator, "DRAFTS_AT_ONCE", at_once)
        count = 20 if at_once == 1 else 700
        assert generate(SMALL, count, seed=5) == levels[:count]


def test_levels_keep_to_the_ranges_and_reach_both_ends_of_each():
    config = GeneratorConfig(
        height=4, width=6, walls=(2, 9), coins=(2, 5), coin_values=(3, 8), shutdown=(3, 6), delay=(2, 4)
    )
    levels = generate(config, 2000, seed=0)
    assert {(level.height, level.width, level.clock) for level in levels} == {(4, 6, "steps")}
    assert {sum(map(sum, level.walls)) for level in levels} == set(range(2, 10))
    assert {len(level.coins) for level in levels} == set(range(2, 6))
    assert {coin.value for level in levels for coin in level.coins} == set(range(3, 9))
    assert {level.shutdown for level in levels} == set(range(3, 7))
    assert {button.delay for level in levels for button in level.buttons} == set(range(2, 5))
    assert {(len(level.buttons), level.buttons[0].chance) for level in levels} == {(1, 1.0)}
    for level in levels:
        places = [level.start, *((thing.row, thing.column) for thing in (*level.coins, *level.buttons))]
        assert len(set(places)) == len(places)
        assert not any(level.walls[row][column] for row, column in places)


def test_drafts_are_uniform():
    # Before any is refused: each range and each cell evenly, within five standard deviations.
    count = 20_000
    drafts = drafted(GeneratorConfig(), count)
    num_coins, num_walls = (drafts.coins > 0).sum(-1), drafts.walls.sum(-1)
    for values, (low, high) in {
        drafts.shutdown: (1, 7),
        drafts.delay: (1, 8),
        num_coins: (1, 4),
        num_walls: (0, 10),
        drafts.start: (0, 24),
        drafts.button: (0, 24),
        drafts.coins[drafts.coins > 0]: (1, 7),
    }.items():
        kinds = high - low + 1
        found = torch.bincount(values - low, minlength=kinds)
        assert len(found) == kinds
        assert (found - len(values) / kinds).abs().max() < 5 * (len(values) / kinds) ** 0.5
    assert ((drafts.coins > 0).double().mean(0) - 2.5 / 25).abs().max() < 5 * (0.09 / count) ** 0.5
    assert (drafts.walls.double().mean(0) - 5 / 25).abs().max() < 5 * (0.16 / count) ** 0.5


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_every_length_has_a_coin_by_the_simulators_search(clock):
    config = GeneratorConfig(walls=(0, 14), coins=(1, 2), shutdown=(1, 4), delay=(1, 4), clock=clock)
    for level in generate(config, 100, seed=1):
        optima = searched_optima(level, 1.0)
        assert len(optima) == 2
        assert min(optima.values()) > 0


def test_what_is_accepted_is_what_the_search_would_accept():
    drafts = drafted(SMALL, 300)
    drafts = drafts.where(~generator._walled_in(drafts, SMALL))
    levels = generator._levels(drafts, SMALL, 0)
    accepted = set(generator._accepted(levels, SMALL).tolist())
    for index, level in enumerate(levels):
        optima = searched_optima(level, 1.0)
        assert (index in accepted) == (len(optima) == 2 and min(optima.values()) > 0)
    assert 30 < len(accepted) < len(levels) - 30


def test_walled_in_agents_are_drafted_again():
    config = GeneratorConfig(height=3, width=3, walls=(4, 5), coins=(1, 2), lengths=1)
    drafts = drafted(config, 500)
    walled_in = generator._walled_in(drafts, config)
    for walls, start, found in zip(drafts.walls.tolist(), drafts.start.tolist(), walled_in.tolist(), strict=True):
        row, column = divmod(start, 3)
        beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        free = [r in range(3) and c in range(3) and not walls[3 * r + c] for r, c in beside]
        assert found == (not any(free))
    assert 20 < walled_in.sum() < 480
    names = {level.name for level in generate(config, 50, seed=0)}
    assert not names & {f"gen-0-{number:06}" for number in drafts.number[walled_in].tolist()}


def test_levels_of_one_length_can_be_asked_for():
    for level in generate(GeneratorConfig(lengths=1, shutdown=(1, 4)), 50, seed=0):
        (coins,) = searched_optima(level, 1.0).values()
        assert coins > 0


def test_names_tell_the_draft_and_levels_can_be_written(tmp_path):
    levels = generate(GeneratorConfig(), 100, seed=12)
    assert Counter(level.name for level in levels).most_common(1)[0][1] == 1
    prefix, seed, number = levels[-1].name.split("-")
    assert (prefix, seed, len(number)) == ("gen", "12", 6)
    drafts = generator._draft(GeneratorConfig(), 12, torch.tensor([int(number)]))
    assert generator._levels(drafts, GeneratorConfig(), 12) == levels[-1:]
    write_levels(tmp_path / "generated.jsonl", levels)
    assert read_levels(tmp_path / "generated.jsonl") == levels


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"walls": (3, 2)}, "walls from 3 to 2; expected whole numbers from 0 to 25, the lowest first"),
        ({"coins": (0, 2)}, "coins from 0 to 2; expected whole numbers from 1 to 31"),
        ({"coin_values": (0.5, 2)}, "coin_values from 0.5 to 2; expected whole numbers from 1"),
        ({"shutdown": (4,)}, "shutdown from 4; expected whole numbers"),
        ({"shutdown": (1, 1000), "delay": (1, 24)}, "delay from 1 to 24; expected whole numbers from 1 to 23"),
        ({"height": 0}, "height from 0 to 0; expected whole numbers from 1 to 64"),
        ({"lengths": 3}, "lengths from 3 to 3; expected whole numbers from 1 to 2"),
        ({"clock": "hours"}, "unknown clock 'hours'; expected 'steps' or 'moves'"),
        ({"walls": (0, 20)}, "4 coins and 20 walls take 26 cells; expected at most 25"),
    ],
)
def test_ranges_that_cannot_be_are_refused(ranges, message):
    with pytest.raises(LevelError, match=message):
        GeneratorConfig(**ranges)


def test_a_seed_out_of_range_is_refused():
    with pytest.raises(LevelError, match="seed -1; expected a whole number"):
        generate(SMALL, 1, seed=-1)


def test_ranges_that_no_level_fits_are_given_up(monkeypatch):
    monkeypatch.setattr(generator, "MAX_REFUSED", 2000)
    # On a strip of three cells with one step to go, pressing the button leaves one more: too few for the coin.
    config = GeneratorConfig(height=1, width=3, walls=(0, 0), coins=(1, 1), shutdown=(1, 1), delay=(1, 1))
    with pytest.raises(LevelError, match="none of the last 2,000 drafts has 2 lengths with a coin each"):
        generate(config, 1, seed=0)
    # A distribution that is merely hard goes on: refused drafts count from the last level.
    monkeypatch.setattr(generator, "DRAFTS_AT_ONCE", 64)
    levels = list(islice(stream(SMALL, 0), 1500))
    assert levels[-1].name > "gen-0-002000"
