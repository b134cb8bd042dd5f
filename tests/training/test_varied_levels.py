"""Training on variations of levels: every algorithm, held-out levels, and sizes of maps."""

import json
from dataclasses import replace

import pytest
import torch

from drest_torch.config.compose import compose
from drest_torch.envs.generation.variations import Variations
from drest_torch.envs.levels import level_to_record, parse_level, read_levels
from drest_torch.envs.levels.symmetry import canonical_key
from drest_torch.errors import ConfigError
from drest_torch.tasks.sampling import LevelSampler
from drest_torch.tasks.varied_levels import VariedLevels
from drest_torch.training.run import start
from tests.helpers.runs import FEW, QUIET, SMALLEST, WITHOUT_EPISODES, in_folder, small

DESIGNS = (
    {"name": "one", "shutdown": 3, "map": ["A C1 . B2 .", ". . C2 . ."]},
    {"name": "two", "shutdown": 3, "map": ["A B1 . B3 C4", ". C1 C2 . ."]},
)
"""Levels with two and with three lengths."""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in DESIGNS))
    return ("levels=file", f"levels.path={path}")


def run_on(mine, folder, *overrides):
    exact = {"algo=exact", "algo=generalist"} & {*overrides}
    smallest = WITHOUT_EPISODES if exact else SMALLEST
    return start(compose(*smallest, *QUIET, *mine, *overrides, values=in_folder(folder)))


def noted(run):
    """Return a list that receives the levels that a run compiles to play them."""
    played, compiled = [], run.task._training_levels

    def note(levels):
        played.extend(levels)
        return compiled(levels)

    run.task._training_levels = note
    return played


ALGORITHMS = {
    "ppo": ("policy=symmetric",),
    "a2c": ("reward.counting=sequential", "reward.episodes_per_meta=4"),
    "reinforce": ("objective=constrained",),
    "exact": ("algo.levels_at_once=6",),
    "generalist": ("policy=convolutional", "algo.levels_at_once=6", "policy.depth=1"),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_plays_variations(mine, tmp_path, name):
    run = run_on(mine, tmp_path / "run", f"algo={name}", *ALGORITHMS[name], "levels/vary=usual")
    played = noted(run)
    run.update()
    first = len(played)
    run.update()
    assert first > 1
    assert len({canonical_key(level) for level in played}) > first  # new ones in each update
    assert run.task.tensors()["variation"] == len(played)
    assert {len(level.buttons) for level in played} == {1, 2}


def test_evaluated_levels_do_not_vary(tmp_path):
    words = (*FEW, "algo=ppo")
    plain = start(small(tmp_path / "plain", *words))
    varied = start(small(tmp_path / "varied", *words, "levels/vary=usual"))
    varied.update()
    for run in (plain, varied):
        run.levels = [*run.task.reported.values(), run.task.selection.level_set]
    assert len(plain.levels) == 3
    for levels, others in zip(plain.levels, varied.levels, strict=True):
        assert list(map(level_to_record, levels.levels)) == list(map(level_to_record, others.levels))


def test_held_out_levels_are_refused(mine, tmp_path):
    """Redrawn values could turn the first design into a test level."""
    held_out = DESIGNS[0] | {"map": ["A C2 . B2 .", ". . C2 . ."]}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(held_out))
    words = ("algo=exact", "levels.vary.values=[1,2]", "algo.levels_at_once=64")
    keys = {}
    for name, others in {"without": (), "with": (f"test.path={path}",)}.items():
        run = run_on(mine, tmp_path / name, *words, *others)
        keys[name] = {canonical_key(level) for level in run.task.sampler.sample(256)}
    assert keys["without"] - keys["with"] == {canonical_key(read_levels(path)[0])}


def test_variations_follow_the_seed_of_the_run(mine, tmp_path):
    def played(name, seed):
        run = run_on(mine, tmp_path / name, "algo=exact", "levels/vary=usual", f"seed={seed}")
        return list(map(level_to_record, run.task.sampler.sample(8)))

    assert played("first", 3) == played("again", 3)
    assert played("first again", 3) != played("other", 4)


def test_rotated_fresh_levels_vary(tmp_path):
    words = (*FEW, "levels.fresh=true", "levels.symmetries=true", "levels.vary.scale=3")
    run = start(small(tmp_path / "run", *words, "algo=reinforce"))
    levels = run.task.sampler.sample(100)
    scaled = [replace(level, objects=tuple(replace(thing, value=1) for thing in level.coins)) for level in levels]
    assert len({canonical_key(level) for level in scaled}) > 90
    assert run.task.tensors().keys() == {"first", "variation"}


@pytest.mark.parametrize("key", ["levels.symmetries=true", "levels/vary=usual"])
def test_levels_can_have_more_lengths_than_the_first(mine, tmp_path, key):
    run = run_on(mine, tmp_path / "run", "algo=ppo", key)
    assert run.update()["train/return"] > 0
    assert run.task._played.num_lengths == 3


def test_the_network_reads_the_enlarged_maps(mine, tmp_path):
    run = run_on(mine, tmp_path / "run", "algo=exact", "levels.vary.size=7", "algo.levels_at_once=4")
    assert run.task.map_size == (7, 7)
    assert max(level.height for level in run.task.sampler.sample(50)) == 7
    run.update()


def test_estimated_memory_is_that_of_variations(mine, tmp_path):
    words = ("algo=exact", "algo.levels_at_once=64")
    plain = run_on(mine, tmp_path / "plain", *words).memory
    varied = run_on(mine, tmp_path / "varied", *words, "levels.vary.coins=4", "levels.vary.shutdown=4").memory
    sizes = [{part.name: part.bytes for part in memory.parts}["a batch"] for memory in (plain, varied)]
    assert sizes[1] > 64 * sizes[0]


ALIKE = {
    "convolutional": ("policy=convolutional", "policy.depth=1"),
    "centred": ("policy=symmetric", "policy.observation=centred_start"),
}


@pytest.mark.parametrize("name", [*ALIKE, "grid"])
def test_networks_of_shares_see_scaled_coins_alike(mine, tmp_path, name):
    """Only an MLP on grid observations sees their values."""
    run = run_on(mine, tmp_path / "run", "algo=exact", *ALIKE.get(name, ("policy=mlp", "policy.observation=grid")))
    levels = run.task.trained.levels
    scaled = [
        replace(level, objects=tuple(replace(thing, value=3 * thing.value) for thing in level.coins) + level.buttons)
        for level in levels
    ]
    logits = [run.task._unroll(level_set).everywhere(run.algorithm.policy) for level_set in (levels, scaled)]
    differ = (logits[0] - logits[1]).abs().max() > 1e-5
    assert differ == (name == "grid")


def test_a_sampler_of_variations_resumes_from_its_tensors():
    levels = [parse_level("shutdown: 3\nA C1 B2 .\n. C2 . .", name=name) for name in "abc"]

    def sampler():
        rng = torch.Generator().manual_seed(7)
        return VariedLevels(LevelSampler(levels, rng), Variations(values=[1, 9], coins=2))

    first, again = sampler(), sampler()
    first.sample(10)
    again.rng.set_state(first.rng.get_state())
    again.tensors()["variation"].copy_(first.tensors()["variation"])
    assert list(again.sample(5)) == list(first.sample(5))


def test_values_change_an_option_of_variations():
    vary = compose(
        "levels=file", "levels.path=x.jsonl", "levels/vary=usual", "levels.vary.coins=5", "run_dir=x"
    ).levels.vary
    assert vary == {
        **dict.fromkeys(("scale", "size", "walls", "moves", "start")),
        **{"values": [1, 9], "coins": 5, "delay": 3, "shutdown": 3},
    }


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("levels/vary=wrong", r"^levels/vary=wrong; expected one of custom, usual"),
        ("levels.vary=usual", r"^levels.vary=usual; expected levels/vary=NAME for an option"),
        ("levels.vary.start=here", r"^levels.vary.start=here; expected one of cell, state"),
        ("levels.vary.values=[9,1]", r"^levels.vary.values=\[9, 1\]; expected the lowest and the highest value"),
    ],
)
def test_wrong_variations_have_a_remedy(tmp_path, argument, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        start(compose("levels=example", argument, values=in_folder(tmp_path / "run")))
