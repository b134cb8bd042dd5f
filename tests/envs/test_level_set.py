"""A level set is compiled and solved once, and the set of its first levels is as if they were compiled alone."""

from dataclasses import fields

import pytest
import torch

from drest_torch.envs.dynamics import mdp as rules
from drest_torch.envs.exact import level_set
from drest_torch.envs.exact.level_set import LevelSet
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.training import gridworlds
from drest_torch.training.run import start
from tests.helpers.runs import FEW, configured

LUCK = parse_level(
    "shutdown: 4\nlottery a: 1/2 C1 +0 | 1/2 C4 +2\n\nA C2 B2@0.5 .\n. La . C3", name="luck", source="luck.txt"
)


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple) and one and isinstance(one[0], torch.Tensor):
        return all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("count", [1, 3])
def test_the_first_levels_are_as_if_they_were_compiled_and_solved_alone(count, gamma):
    levels = [LUCK, *map(world, PAPER_WORLDS)]
    whole = LevelSet(rules.compile_levels(levels))
    first = whole.first(count)
    size = (whole.mdp.height, whole.mdp.width)
    alone = LevelSet(rules.compile_levels(levels[:count], at_least=size, features=whole.mdp.features))
    for name in (field.name for field in fields(first.mdp)):
        assert same(getattr(first.mdp, name), getattr(alone.mdp, name)), name
    for committed in (False, True):
        one, other = (each.optima(gamma, committed=committed) for each in (first, alone))
        assert torch.equal(one.lengths, other.lengths)
        assert torch.equal(one.num_lengths, other.num_lengths)
        assert torch.allclose(one.best_return, other.best_return, rtol=1e-12)
    assert first.sizes.states.tolist() == alone.sizes.states.tolist()


@pytest.mark.parametrize("algo", ["ppo", "exact"])
def test_a_run_compiles_and_solves_the_levels_of_each_split_once(tmp_path, monkeypatch, algo):
    calls = {"compile_levels": 0, "solve": 0}

    def counted(module, name):
        function = getattr(module, name)

        def count(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, count)

    counted(gridworlds, "compile_levels")
    counted(level_set, "solve")
    options = ("evaluated_levels=2", "levels.symmetries=false", "env_steps=500")
    run = start(configured(tmp_path / "run", f"algo={algo}", *FEW, *options))
    run.train()
    splits = len(run.gridworlds.levels.reported) + bool(run.gridworlds.levels.selection)
    assert calls == {"compile_levels": splits, "solve": splits}
