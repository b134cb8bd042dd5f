"""Generated levels against their ranges and the simulator's search."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation import candidates as drafting
from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.stream import GeneratorConfig, draft_number, generate, stream
from drest_torch.envs.levels import LevelError, level_from_record, level_to_record
from drest_torch.envs.levels.symmetry import canonical_key
from tests.helpers.simulator import searched_optima

SMALL = GeneratorConfig(height=3, width=3, walls=(0, 3), coins=(1, 2), shutdown=(1, 4), delay=(1, 3))


def drafted(config, count, seed=0):
    return drafting.sample_drafts(config, seed, torch.arange(count))


def is_uniform(values, low, high, weights=None):
    """Return whether integers have the distribution of these weights: a chi-square within five standard deviations."""
    weights = torch.tensor([1.0] * (high - low + 1) if weights is None else weights)
    counts = torch.bincount(torch.as_tensor(values).long() - low, minlength=len(weights))
    assert len(counts) == len(weights)
    assert not counts[weights == 0].any()
    counts, weights = counts[weights > 0], weights[weights > 0]
    expected, freedom = counts.sum() * weights / weights.sum(), len(counts) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    return abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5 + 1e-6


VARIED = GeneratorConfig(
    height=(3, 6),
    width=(4, 5),
    wall_share=(0.0, 0.25),
    walls=(0, 0),
    wall_shape="mixed",
    buttons=(1, 3),
    chance=(0.5, 1.0),
    coins=(1, 3),
    shutdown=(2, 6),
    delay=(1, 4),
    lengths=(2, 5),
    distance=(1, 4),
    weights={"distance": (1, 2, 3, 1), "buttons": (1, 1, 1)},
)
LINES = GeneratorConfig(
    height=7,
    width=(6, 7),
    wall_shape="lines",
    doors=(1, 2),
    buttons=(1, 2),
    lengths=(2, 4),
    spare=(0, 3),
    weights={"spare": (4, 1, 2, 0), "coins": (1, 0, 2, 1)},
)
LOTTERIES = GeneratorConfig(
    walls=(0, 6),
    wall_shape="blocks",
    coins=(1, 2),
    lotteries=(1, 2),
    lottery_outcomes=(1, 3),
    lottery_delay=(-1, 2),
    lengths=(2, 9),
)


@pytest.mark.parametrize(
    ("config", "seed", "sha256"),
    [
        (GeneratorConfig(), 0, "abc6b31f2d443d35"),
        (GeneratorConfig(), 7, "176010a67ebf9f1f"),
        (SMALL, 0, "3b5097c41d5a62c0"),
        (GeneratorConfig(height=4, width=6, walls=(2, 9), coins=(2, 5), clock="moves"), 0, "1e89a595888e54b6"),
        (VARIED, 0, "e619f80b94788468"),
        (LINES, 0, "e0500b4cb0ee0050"),
        pytest.param(LOTTERIES, 0, "6237659c14905a65", marks=pytest.mark.slow),
    ],
)
def test_the_levels_agree_with_the_published_figures(config, seed, sha256):
    before = torch.get_rng_state()
    lines = [json.dumps(level_to_record(level)) + "\n" for level in generate(config, 200, seed=seed)]
    assert hashlib.sha256("".join(lines).encode()).hexdigest()[:16] == sha256
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture(scope="module")
def every():
    return generate(VARIED, 250, seed=5)


@settings(max_examples=8)
@given(st.integers(0, 400), st.integers(0, 80), st.sampled_from((50, 700)))
def test_a_stream_does_not_depend_on_its_batches(every, first, count, at_once):
    assert [draft_number(level) for level in every] == sorted({int(level.name[len("gen-5-") :]) for level in every})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator, "DRAFTS_AT_ONCE", at_once)
        levels = list(islice(stream(VARIED, 5, first=first), count))
    assert levels == [level for level in every if draft_number(level) >= first][:count]
    assert generate(VARIED, min(count, 20), seed=5) == every[: min(count, 20)]
    if levels:
        drafts = drafting.sample_drafts(VARIED, 5, torch.tensor([draft_number(levels[-1])]))
        assert drafting.to_levels(drafts, VARIED, 5) == levels[-1:]


def numbers(drafts):
    """Return the sampled numbers by the names of their ranges."""
    coin, delay, door = drafts.layers["coin"], drafts.layers["delay"], drafts.layers.get("door", torch.zeros(1, 1))
    outside = drafts.walls.shape[1] - drafts.height * drafts.width
    return {
        "height": drafts.height,
        "width": drafts.width,
        "shutdown": drafts.shutdown,
        "coins": (coin > 0).sum(-1),
        "coin_values": coin[coin > 0],
        "buttons": (delay > 0).sum(-1),
        "delay": delay[delay > 0],
        "chance": (100 * drafts.layers["chance"][delay > 0]).round(),
        "doors": (door > 0).sum(-1),
        "door": door[door > 0],
        "walls": drafts.walls.sum(-1) - outside,
    }


UNIFORM = GeneratorConfig(
    height=(4, 7), width=(5, 6), walls=(0, 5), buttons=(0, 3), chance=(0.5, 0.75), delay=(2, 6), coins=(2, 3)
)
WEIGHTED = GeneratorConfig(
    width=(5, 6),
    walls=(0, 3),
    coins=(1, 2),
    coin_values=(1, 3),
    shutdown=(2, 5),
    delay=(4, 5),
    doors=(1, 3),
    weights={"shutdown": (1, 0, 2, 1.5), "coins": (0, 3), "coin_values": (5, 1, 0), "delay": (1, 2), "width": (1, 3)},
)


@pytest.mark.parametrize("config", [UNIFORM, WEIGHTED], ids=["uniform", "weighted"])
def test_numbers_have_the_distribution_of_their_weights(config):
    ranges = vars(config) | {"door": (1, 4), "chance": [round(100 * chance) for chance in config.chance]}
    for name, values in numbers(drafted(config, 20_000, seed=1)).items():
        if name != "door" or len(values):
            assert is_uniform(values, *ranges[name], config.weights_of(name)), name
    shared = replace(config, height=(4, 10), width=10, walls=(0, 0), wall_share=(0.1, 0.4), weights=None)
    drafts = drafted(shared, 20_000)
    for height in (4, 10):
        of_size = drafts.where(drafts.height == height)
        assert is_uniform(numbers(of_size)["walls"], height, 4 * height - 1)


@pytest.mark.parametrize("config", [UNIFORM, replace(UNIFORM, doors=(1, 3))], ids=["without doors", "with doors"])
def test_objects_are_uniform_over_distinct_cells_of_a_map(config):
    drafts, cell = drafted(config, 20_000, seed=1), torch.arange(42)
    for height, width in ((4, 5), (7, 6), (6, 5)):
        inside = (cell // 6 < height) & (cell % 6 < width)
        of_size = drafts.where((drafts.height == height) & (drafts.width == width))
        assert of_size.walls[:, ~inside].all()
        start = torch.zeros_like(of_size.walls).scatter(1, of_size.start.unsqueeze(-1), True)
        things = [start, of_size.walls & inside, *(of_size.layers[name] != 0 for name in ("coin", "delay", "door"))]
        assert (sum(mask.long() for mask in things) <= 1).all()
        for mask in things[: 5 if config.doors[1] else 4]:
            assert not mask[:, ~inside].any()
            assert is_uniform(mask[:, inside].nonzero()[:, 1], 0, height * width - 1)


def test_walls_have_the_configured_shape():
    """The mean number of pairs of adjacent walls tells the shapes apart."""
    pairs = {}
    for shape in drafting.WALL_SHAPES:
        config = GeneratorConfig(height=8, width=8, walls=(12, 12), wall_shape=shape, wall_length=(3, 4), coins=(1, 1))
        walls = drafted(config, 3000).walls.reshape(-1, 8, 8)
        assert (walls.sum((1, 2)) == 12).all()
        beside = (walls[:, 1:] & walls[:, :-1]).sum() + (walls[:, :, 1:] & walls[:, :, :-1]).sum()
        pairs[shape] = beside.item() / 3000
    assert pairs["scattered"] == pytest.approx(112 * 12 * 11 / (64 * 63), rel=0.05)
    assert pairs["scattered"] + 3 < pairs["lines"] < pairs["blocks"] - 3
    assert pairs["mixed"] == pytest.approx((pairs["scattered"] + pairs["lines"] + pairs["blocks"]) / 3, rel=0.05)


@pytest.mark.parametrize(
    "config",
    [
        GeneratorConfig(),
        GeneratorConfig(clock="moves", buttons=(0, 3), chance=(0.5, 1.0), lengths=(1, 8)),
        GeneratorConfig(height=(2, 6), width=(3, 7), walls=(0, 0), coins=(1, 3), wall_share=(0.0, 0.15)),
        GeneratorConfig(coins=(1, 2), lotteries=(1, 2), lottery_outcomes=(1, 3), lottery_coins=(-2, 3), lengths=(2, 6)),
        GeneratorConfig(height=(3, 5), width=(4, 5), walls=(0, 4), wall_shape="mixed", coins=(1, 2), doors=(1, 3)),
    ],
)
def test_drafts_are_compiled_like_their_levels(config):
    """A draft is walled in if and only if its level would be refused."""
    drafts = drafted(config, 300)
    walled_in = drafting.walled_in(drafts, drafting.compiled(drafts, config))
    levels = drafting.to_levels(drafts, config, 0)
    for level, refused in zip(levels, walled_in.tolist(), strict=True):
        with pytest.raises(LevelError) if refused else nullcontext():
            compile_levels([level_from_record(level_to_record(level))])
    drafts = drafts.where(~walled_in)
    levels = drafting.to_levels(drafts, config, 0)
    fast, slow = drafting.compiled(drafts, config), compile_levels(levels, at_least=(config.height[1], config.width[1]))
    assert config.doors[1] or fast.features == slow.features
    names = Mdp.__dataclass_fields__.keys() - {"levels", "features"}
    from_drafts, from_levels = ({name: getattr(mdp, name) for name in names} for mdp in (fast, slow))
    torch.testing.assert_close(from_drafts, from_levels, rtol=0, atol=0)
    heights, widths = (range(low, high + 1) for low, high in (config.height, config.width))
    assert {(level.height, level.width) for level in levels} == {*product(heights, widths)}


LOOSE = GeneratorConfig(
    buttons=(0, 2), coins=(1, 3), delay=(1, 4), lengths=(1, 4), coin_in_every_length=False, walls=(0, 12)
)
"""A configuration that refuses only levels without a reachable coin."""
FILTERS = {
    "lengths": (3, 3),
    "coin_in_every_length": True,
    "ratio": (1.2, 2.0),
    "distance": (2, 3),
    "spare": (1, 2),
    "slack": (1, 2),
}


def passes(level):
    """Return whether the level passes each filter, by the simulator's search (except for the slack)."""
    mdp, optima = compile_levels([level]), searched_optima(level, 1.0)
    totals, distance = list(optima.values()), button_distance(mdp).item()
    numbers = {
        "lengths": [len(optima)],
        "coin_in_every_length": [min(totals) > 0],
        "ratio": [totals[-1] / totals[0] if totals[0] > 0 else 0],
        "distance": [distance],
        "spare": [level.shutdown - distance if distance > 0 else 0],
        "slack": properties(mdp).slack[0].tolist(),
    }
    ranges = FILTERS | {"coin_in_every_length": (True, True)}
    return {name: all(low <= number <= high for number in numbers[name]) for name, (low, high) in ranges.items()}


def test_filters_agree_with_the_search_of_the_simulator():
    drafts = drafted(LOOSE, 2048)
    drafts = drafts.where(~drafting.walled_in(drafts, drafting.compiled(drafts, LOOSE)))
    drafts = drafts.where(generator.passes_filters(drafts, LOOSE))
    passed = {
        name: generator.passes_filters(drafts, replace(LOOSE, **{name: FILTERS[name]})).tolist() for name in FILTERS
    }
    assert all(50 < sum(results) < len(results) - 50 for results in passed.values())
    # Every thirtieth of thousands, as the search of the tests is slow.
    for number, level in list(enumerate(drafting.to_levels(drafts, LOOSE, 0)))[::30]:
        assert passes(level) == {name: results[number] for name, results in passed.items()}


def test_filters_with_weights_thin_out():
    base, weights = GeneratorConfig(walls=(0, 4), coins=(2, 3), distance=(1, 4)), (1, 4, 2, 0)
    every, few = generate(base, 3000, seed=1), generate(replace(base, weights={"distance": weights}), 1000, seed=1)
    names, last = {level.name for level in few}, draft_number(few[-1])
    assert few == [level for level in every if level.name in names]
    levels = [level for level in every if draft_number(level) <= last]
    counts = button_distance(compile_levels(levels)).bincount(minlength=5)
    thinned = button_distance(compile_levels(few)).bincount(minlength=5)
    for distance, weight in enumerate(weights, start=1):
        expected = counts[distance] * weight / 4
        assert abs(thinned[distance] - expected) <= 5 * (expected * (1 - weight / 4)) ** 0.5


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"walls": (3, 2)}, "walls from 3 to 2; .* from 0 to 25"),
        ({"coin_values": (0.5, 2)}, "coin_values .* from 1"),
        ({"shutdown": (1, 1000), "delay": (1, 24)}, "delay .* from 1 to 23"),
        ({"height": None}, "height from None"),
        ({"buttons": (1, 2), "lengths": 5}, "lengths .* from 1 to 4"),
        ({"clock": "hours"}, "clock 'hours'"),
        ({"walls": (0, 8), "height": (3, 5), "width": (4, 4)}, "8 walls take 14 cells; .* 3 by 4"),
        ({"buttons": (1, 2), "wall_share": (0.1, 0.9)}, "4 coins, 2 buttons, 22 walls take 29"),
        ({"chance": (0.125, 1.0)}, "chance .* hundredths"),
        ({"ratio": (1.0, float("inf"))}, "ratio .* finite"),
        ({"lotteries": (1, 2), "lottery_coins": (1, 1), "lottery_delay": (0, 0)}, "1 pairs of lottery_coins"),
        ({"lotteries": (1, 2), "lottery_delay": (0, 1023)}, "lottery_delay"),
        ({"lotteries": (1, 2), "slack": (0, 1)}, "slack with lotteries"),
        ({"weights": {"clock": (1,)}}, "weights for 'clock'; .* height, width"),
        ({"weights": {"spare": (1,)}}, "weights for spare, which is null"),
        ({"weights": {"coins": (1, 2)}}, "for coins; .* from 1 to 4, 4"),
        ({"weights": {"coins": (1, 2, 3, -1)}}, "for coins; .* at least 0"),
        ({"weights": {"coins": (0, 0, 0, 0)}}, "for coins; .* not all of them 0"),
    ],
)
def test_invalid_ranges_are_refused(ranges, message):
    with pytest.raises(LevelError, match=message):
        GeneratorConfig(**ranges)


def test_ranges_without_levels_end_with_an_error(monkeypatch):
    monkeypatch.setattr(generator, "MAX_REFUSED", 2000)
    # On a strip of three cells with one step to go, pressing the button leaves one more: too few for the coin.
    strip = GeneratorConfig(height=1, width=3, walls=(0, 0), coins=(1, 1), shutdown=(1, 1), delay=(1, 1))
    longer = replace(strip, width=4, coin_values=(1, 1), shutdown=(4, 4))
    without = {canonical_key(level) for level in generate(longer, 500, seed=0)}
    for config, left_out in ((strip, set()), (longer, without)):
        with pytest.raises(LevelError, match="none of the last 2,000 drafts has the required lengths"):
            next(stream(config, 0, without=left_out))
    with pytest.raises(LevelError, match="draft -1"):
        next(stream(SMALL, 0, first=-1))
    with pytest.raises(LevelError, match="seed -1"):
        generate(SMALL, 1, seed=-1)
    # A distribution that is merely hard goes on: refused drafts count from the last level.
    monkeypatch.setattr(generator, "DRAFTS_AT_ONCE", 64)
    levels = list(islice(stream(SMALL, 0), 1500))
    assert levels[-1].name > "gen-0-002000"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_generates_the_same_levels():
    config = GeneratorConfig(coins=(1, 4), buttons=(1, 2), lengths=(2, 4), wall_shape="mixed")
    levels = generate(config, 300, seed=3)
    assert generate(config, 300, seed=3, device="cuda") == levels
    cpu, cuda = (solve(compile_levels(levels, device), 0.9) for device in ("cpu", "cuda"))
    assert torch.equal(cpu.lengths, cuda.lengths.cpu())
    assert torch.allclose(cpu.best_return, cuda.best_return.cpu())


def test_without_a_button_no_time_is_spare():
    config = GeneratorConfig(buttons=0, lengths=1)
    drafts = drafting.sample_drafts(config, 0, torch.arange(64))
    assert generator.passes_filters(drafts, config).any()
    assert not generator.passes_filters(drafts, replace(config, spare=(0, 7))).any()
