"""The generated level sets of `configs/levels/`: they are what they say, and none leaks into another."""

from statistics import mean

import pytest
import torch

from drest_torch.config.compose import compose, options
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.generation.stream import GeneratorConfig, draft_number, generate
from drest_torch.envs.levels import LevelError
from drest_torch.play import level_sets as data
from tests.helpers.configs import preset
from tests.helpers.documents import ROOT, script

FILES = {name: path.read_text("utf-8") for name, path in options("levels").items() if path.is_file()}
PRESETS = [name for name, text in FILES.items() if "kind: worlds" not in text]
PAGE = (ROOT / "docs" / "reference" / "generated-levels.md").read_text("utf-8")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_generates_levels_that_can_be_solved_and_learned_from(name):
    config = preset(name)
    levels = generate(config, 50 if name == "huge" else 200, seed=9)
    found = properties(mdp := compile_levels(levels))
    assert torch.equal(found.lengths, Reachable(mdp).lengths)
    assert torch.equal(found.with_coin, found.num_lengths)
    assert draft_number(levels[-1]) < 10_000


def test_easy_levels_leave_time_and_hard_ones_do_not():
    easy, hard = (generate(preset(name), 500, seed=1) for name in ("easy", "hard"))
    slack = [properties(compile_levels(levels)).slack for levels in (easy, hard)]
    assert slack[0].min() == 2
    assert set(slack[1].reshape(-1).tolist()) == {0, 1}
    assert button_distance(compile_levels(easy)).max() == 3
    assert button_distance(compile_levels(hard)).min() == 3
    assert mean(len(level.coins) for level in hard) > mean(len(level.coins) for level in easy) + 2


def test_levels_like_the_peers_are_like_the_peers():
    """Against numbers of the follow-up's 46 designs, each counted once (docs/reference/generated-levels.md)."""
    levels = generate(preset("followup_like"), 2000, seed=1)
    found = properties(mdp := compile_levels(levels))
    shutdown = torch.tensor([level.shutdown for level in levels])
    distance = button_distance(mdp)
    assert {(level.height, level.width) for level in levels} == {(5, 5)}
    assert (found.num_lengths == 2).all()
    assert (found.ratio > 1).all()
    for values, theirs, within in (
        ([sum(map(sum, level.walls)) for level in levels], 3.0, 0.3),
        ([len(level.coins) for level in levels], 2.7, 0.2),
        ([coin.value for level in levels for coin in level.coins], 3.44, 0.5),
        ([level.buttons[0].delay for level in levels], 3.7, 0.5),
        (shutdown.tolist(), 3.65, 0.2),
        (distance.tolist(), 2.8, 0.2),
        ((shutdown - distance).tolist(), 0.85, 0.15),
        ([found.ratio.median().item()], 1.7, 0.15),
    ):
        assert mean(values) == pytest.approx(theirs, abs=within)


def test_a_range_without_its_weights_is_refused_and_weights_can_be_left_out():
    with pytest.raises(LevelError, match="for coins; expected as many numbers as there are from 1 to 5, 5"):
        preset("followup_like", "levels.generator.coins=[1,5]")
    config = preset("followup_like", "levels.generator.coins=[1,5]", "levels.generator.weights=null")
    assert (config.coins, config.weights) == ((1, 5), None)


def test_an_evaluation_is_on_the_test_levels_of_a_run():
    few = ("levels.train=6", "levels.selection=2", "levels.test=3")
    levels = data.load(compose("levels=three_lengths", "run_dir=x", *few))
    evaluated = compose("levels=three_lengths", "levels.test=3", name="evaluate").levels
    assert data.named(evaluated) == levels.reported["test"] == levels.split.test


def test_the_page_names_every_set_and_key():
    names = (*PRESETS, *GeneratorConfig.__dataclass_fields__.keys() - {"clock"})
    assert [name for name in names if f"`{name}`" not in PAGE] == []


@pytest.mark.slow
def test_the_table_is_what_its_command_prints(capsys):
    script("reference/scripts", "levels.py").main([])
    assert capsys.readouterr().out.strip() in PAGE
