"""The generated level sets of `configs/levels/`: solvability, difficulty and documentation."""

from operator import attrgetter
from statistics import mean
from typing import NamedTuple

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
def test_every_length_of_a_generated_level_offers_a_coin(name):
    config = preset(name)
    count = 50 if name == "huge" else 200
    levels = generate(config, count, seed=9)
    mdp = compile_levels(levels)
    level_properties = properties(mdp)
    assert torch.equal(level_properties.lengths, Reachable(mdp).lengths)
    assert torch.equal(level_properties.with_coin, level_properties.num_lengths)
    assert draft_number(levels[-1]) < 10_000


def test_hard_levels_have_less_time_than_easy_levels():
    easy, hard = (generate(preset(name), 500, seed=1) for name in ("easy", "hard"))
    easy_mdp, hard_mdp = compile_levels(easy), compile_levels(hard)
    assert properties(easy_mdp).slack.min() == 2
    assert set(properties(hard_mdp).slack.reshape(-1).tolist()) == {0, 1}
    assert button_distance(easy_mdp).max() == 3
    assert button_distance(hard_mdp).min() == 3
    assert mean(len(level.coins) for level in hard) > mean(len(level.coins) for level in easy) + 2


@pytest.fixture(scope="module")
def followup_like():
    return generate(preset("followup_like"), 2000, seed=1)


def test_followup_like_levels_have_two_unequal_lengths(followup_like):
    level_properties = properties(compile_levels(followup_like))
    assert {(level.height, level.width) for level in followup_like} == {(5, 5)}
    assert (level_properties.num_lengths == 2).all()
    assert (level_properties.ratio > 1).all()


class Target(NamedTuple):
    """A mean in the follow-up's 46 designs, each counted once (docs/reference/generated-levels.md)."""

    name: str
    mean: float
    tolerance: float


TARGETS = [
    Target("walls", 3.0, 0.3),
    Target("coins", 2.7, 0.2),
    Target("values", 3.44, 0.5),
    Target("delays", 3.7, 0.5),
    Target("shutdown", 3.65, 0.2),
    Target("distance", 2.8, 0.2),
    Target("spare", 0.85, 0.15),
    Target("ratio", 1.7, 0.15),
]


@pytest.fixture(scope="module")
def statistics(followup_like):
    """Return the values of each statistic by its name in `TARGETS`; the ratio is summarised by its median."""
    mdp = compile_levels(followup_like)
    shutdown = torch.tensor([level.shutdown for level in followup_like])
    distance = button_distance(mdp)
    return {
        "walls": [sum(map(sum, level.walls)) for level in followup_like],
        "coins": [len(level.coins) for level in followup_like],
        "values": [coin.value for level in followup_like for coin in level.coins],
        "delays": [level.buttons[0].delay for level in followup_like],
        "shutdown": shutdown.tolist(),
        "distance": distance.tolist(),
        "spare": (shutdown - distance).tolist(),
        "ratio": [properties(mdp).ratio.median().item()],
    }


@pytest.mark.parametrize("target", TARGETS, ids=attrgetter("name"))
def test_followup_like_levels_agree_with_the_follow_up(statistics, target):
    assert mean(statistics[target.name]) == pytest.approx(target.mean, abs=target.tolerance)


def test_weights_must_fit_their_range():
    with pytest.raises(LevelError, match="for coins; expected as many numbers as there are from 1 to 5, 5"):
        preset("followup_like", "levels.generator.coins=[1,5]")


def test_weights_can_be_omitted():
    config = preset("followup_like", "levels.generator.coins=[1,5]", "levels.generator.weights=null")
    assert list(config.coins) == [1, 5]
    assert config.weights is None


def test_evaluation_uses_the_test_levels_of_a_run():
    few = ("levels.train=6", "levels.selection=2", "levels.test=3")
    levels = data.load(compose("levels=three_lengths", "run_dir=x", *few))
    evaluated = compose("levels=three_lengths", "levels.test=3", name="evaluate").levels
    assert data.named(evaluated) == levels.reported["test"] == levels.split.test


def test_the_page_names_every_preset_with_its_keys():
    names = (*PRESETS, *GeneratorConfig.__dataclass_fields__.keys() - {"clock"})
    assert [name for name in names if f"`{name}`" not in PAGE] == []


@pytest.mark.slow
def test_the_table_agrees_with_its_command(capsys):
    script("reference/scripts", "levels.py").main([])
    assert capsys.readouterr().out.strip() in PAGE
