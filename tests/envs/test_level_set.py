"""A level set is compiled and solved once, and the set of its first levels is the beginning of the whole."""

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact import solver
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.training import gridworlds
from drest_torch.training.run import start
from tests.helpers.runs import FEW, configured

LUCK = parse_level(
    "shutdown: 4\nlottery a: 1/2 C1 +0 | 1/2 C4 +2\n\nA C2 B2@0.5 .\n. La . C3", name="luck", source="luck.txt"
)


def test_the_first_levels_are_the_beginning_of_the_whole():
    whole = LevelSet(compile_levels([*map(world, PAPER_WORLDS), LUCK]))
    first = whole.first(3)
    mdp = first.mdp
    assert (mdp.height, mdp.width, mdp.features) == (whole.mdp.height, whole.mdp.width, whole.mdp.features)
    for name in ("goto", "found", "wall"):
        assert torch.equal(getattr(mdp, name), getattr(whole.mdp, name)[: len(getattr(mdp, name))])
    assert mdp.layers.keys() == whole.mdp.layers.keys()
    optima, of_all = (levels.optima(0.9, committed=True) for levels in (first, whole))
    assert torch.equal(optima.lengths, of_all.lengths[:3, : optima.lengths.shape[1]])
    assert torch.allclose(optima.best_return, of_all.best_return[:3, : optima.lengths.shape[1]], rtol=1e-12)
    assert first.sizes.states.tolist() == whole.sizes.states[:3].tolist()
    assert whole.first(10) is whole


@pytest.mark.parametrize("algo", ["ppo", "exact"])
def test_a_run_compiles_and_solves_the_levels_of_each_split_once(tmp_path, monkeypatch, algo):
    sizes = {"compile_levels": [], "solve": []}

    def counted(module, name, size):
        function = getattr(module, name)

        def count(levels, *args, **kwargs):
            sizes[name].append(size(levels))
            return function(levels, *args, **kwargs)

        monkeypatch.setattr(module, name, count)

    counted(gridworlds, "compile_levels", len)
    counted(solver, "solve", lambda mdp: mdp.num_levels)
    options = ("evaluated_levels=2", "levels.symmetries=false", "env_steps=500")
    run = start(configured(tmp_path / "run", f"algo={algo}", *FEW, *options))
    run.train()
    splits = len(run.gridworlds.levels.reported) + bool(run.gridworlds.levels.selection)
    assert len(sizes["compile_levels"]) == splits
    assert sum(size > 2 for size in sizes["solve"]) == splits
