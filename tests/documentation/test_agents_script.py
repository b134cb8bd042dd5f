"""The script that writes the levels of the agents that ship, and the agents."""

from importlib.util import module_from_spec, spec_from_file_location

import pytest

from drest_torch.agents.checkpoints import agent_folder, checkpoint_path, load_checkpoint
from drest_torch.config.stored import load_config
from drest_torch.envs.levels import read_levels
from tests.helpers.documents import ROOT

_SPEC = spec_from_file_location("agents_script", ROOT / "docs" / "agents.py")
script = module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)
SETS = list(dict.fromkeys(arguments for sets in script.MIXTURES.values() for arguments in sets))


@pytest.mark.parametrize("arguments", SETS)
def test_levels_of_a_mixture_have_another_seed_than_their_set(arguments):
    split, again = script.split_of(arguments, 3), script.split_of(arguments, 3)
    assert list(split.train) == list(again.train)
    assert split.seed >= script.OTHER_SEEDS


def test_files_have_the_levels_of_all_sets(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "MIXTURES", {"two": {"levels=easy": 3, "levels=three_lengths": 2}})
    monkeypatch.setattr(script, "SELECTED", 1)
    script.write(tmp_path, [])
    names = [level.name.rsplit("-", 1)[0] for level in read_levels(tmp_path / "two.jsonl")]
    assert names == ["gen-7001"] * 3 + ["gen-7004"] * 2
    assert capsys.readouterr().out == f"{tmp_path / 'two'}.jsonl: 5 levels\n"


def test_a_configuration_that_ships_has_its_changed_values():
    usual = {"algo": {"name": "exact", "lr": 0.1}, "env": {"name": "gridworld"}, "test": {"path": None}, "seed": 0}
    values = {**usual, "algo": {"name": "exact", "lr": 0.2}, "seed": 0}
    assert script.changed(values, usual) == {"algo": {"name": "exact", "lr": 0.2}, "env": {"name": "gridworld"}}


def test_an_agent_that_ships_names_no_file():
    _, state = load_checkpoint(checkpoint_path(agent_folder("generalist"), "last"))
    assert state["agent"]["origin"]["place"] in script.MIXTURES
    assert load_config(agent_folder("generalist"), whole=False).levels.path is None
