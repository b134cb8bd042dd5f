"""Untrusted files: no code that they name is run, and invalid ones are refused in one sentence."""

import importlib
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from drest_torch import hints, registry
from drest_torch.agent import Agent
from drest_torch.agents.checkpoints import checkpoint_path, load_checkpoint, save_checkpoint
from drest_torch.algos.networks import NETWORKS
from drest_torch.comparison.records import read_run
from drest_torch.config.command_lines import command_line
from drest_torch.config.compose import compose
from drest_torch.config.stored import load_config
from drest_torch.envs.levels import LevelError, format_level, read_levels, world
from drest_torch.errors import CheckpointError, printable
from drest_torch.language import config as language
from drest_torch.training.run import resume, start
from tests.helpers.commands import python
from tests.helpers.runs import small

DREST = Path(sys.executable).with_name("drest")


def rewrite(run, values):
    """Change values of a stored configuration."""
    path = run / "config.yaml"
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), values), path)


def rewrite_specification(run, group, values):
    """Change values of the agent's specification in the last checkpoint."""
    path = checkpoint_path(run, "last")
    tensors, meta = load_checkpoint(path)
    meta["agent"][group] |= values
    save_checkpoint(path, tensors, meta)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Enter a working directory with a module of the user, an untrusted module, and untrusted plugins."""
    (tmp_path / "of_the_user.py").write_text("from drest_torch.algos.networks.mlp import build\n")
    (tmp_path / "stranger.py").write_text("raise SystemExit('executed')")
    (tmp_path / "hydra_plugins").mkdir()  # Hydra would run the modules in it
    (tmp_path / "hydra_plugins" / "stranger.py").write_text("raise SystemExit('executed')")
    (folder := tmp_path / "stranger-1.dist-info").mkdir()
    (folder / "entry_points.txt").write_text("[drest_torch.networks]\nhandy = stranger\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_control_characters_are_escaped():
    assert printable("a\x1b[31mb\u202ec λ ü\nd") == "a\\x1b[31mb\\u202ec λ ü\nd"


def test_control_characters_in_level_files_are_refused(tmp_path):
    (tmp_path / "level.txt").write_text("title: \x1b]0;mine\x07x\n" + format_level(world("example")))
    with pytest.raises(LevelError, match="title"):
        read_levels(tmp_path / "level.txt")
    (tmp_path / "level.txt").write_text("shutdown: 5\nlottery a: 1/2 \x0b1\u2028 +0 | 1/2 C4 +2\n\n. La A B2\n")
    with pytest.raises(LevelError, match=r"\\x0b1") as caught:
        read_levels(tmp_path / "level.txt")
    assert len(str(caught.value).splitlines()) == 1


NO_CONFIGURATIONS = {
    "references": "a: &a [1, 2]\nb: [*a, *a]\n",
    "nested": "[" * 100_000,
    "tag": "!!python/object/apply:os.system ['touch pwned']",
    "list": "- 1\n",
    "number": "7",
    "nul": "\x00",
    "half an interpolation": "a: ${oc.env:HOME",
}


@pytest.mark.parametrize("case", NO_CONFIGURATIONS)
def test_an_invalid_stored_configuration_is_refused(case, run):
    (run / "config.yaml").write_text(NO_CONFIGURATIONS[case])
    for read in (load_config, read_run, language.stored):
        with pytest.raises(CheckpointError) as error:
            read(run)
        assert len(str(error.value).splitlines()) == 1
    assert not Path("pwned").exists()


def test_yaml_references_in_a_stored_configuration_are_refused(run):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: &zero 0").replace("threads: null", "threads: *zero"))
    with pytest.raises(CheckpointError, match=r"has references \(\*name\)"):
        load_config(run)


def test_interpolations_in_a_stored_configuration_are_text(run, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("reward:\n  name: drest", "reward:\n  name: ${oc.env:SECRET}"))
    assert load_config(run).reward.name == "${oc.env:SECRET}"
    assert read_run(run).config["reward.name"] == "\\${oc.env:SECRET}"
    resume(run).train()
    for written in run.rglob("*"):
        assert not written.is_file() or b"hunter2" not in written.read_bytes()


NAMES_CODE = [
    *({"algo": {"name": name}} for name in ("os", "stranger")),
    {"objective": {"name": "stranger"}},
    *({"policy": {"network": name}} for name in ("stranger", "handy")),
    {"logger": {"sinks": {"stranger": None}}},
    *({"env": {"factory": factory}} for factory in ("os:abort", "stranger:make", "torch.hub:load", "drest_torch:main")),
    {"env": {"control": "stranger:control"}},
    {"env": {"id": "stranger:Odd-v0"}},
    {"reward": {"rule": "stranger:pay"}},
    {"reward": {"count": "stranger:pay"}},
]


@pytest.mark.parametrize("values", NAMES_CODE, ids=str)
def test_code_named_by_a_stored_configuration_is_not_run(values, run, elsewhere, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", str(elsewhere), *sys.path])
    assert NETWORKS.is_registered("handy")  # a plugin in the working directory
    rewrite(run, values)
    for read in (resume, load_config):
        with pytest.raises(CheckpointError, match=r"names [\w.]+, a module outside drest_torch.*imports="):
            read(run)


def test_no_sink_of_a_stored_language_run_is_imported(elsewhere, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", str(elsewhere), *sys.path])
    values = {"language": asdict(language.LanguageConfig(logger="stranger"))}
    OmegaConf.save(OmegaConf.create(values), elsewhere / "config.yaml")
    with pytest.raises(CheckpointError, match=r"language\.logger names stranger, a module outside drest_torch"):
        language.stored(elsewhere)
    monkeypatch.setattr(registry, "_NAMED", {"stranger"})
    assert language.stored(elsewhere).logger == "stranger"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"updates": 0}, "language.updates=0; expected"),
        ({"updates": "many"}, "Value 'many'"),
        ({"colour": "red"}, "language.colour is not a key of this version"),
        ({"threads": 100_000}, "language.threads=100000; expected"),
        ({"model": ""}, "language.model=; expected a path"),
    ],
)
def test_values_of_a_stored_language_run_are_checked(values, reason, tmp_path):
    whole = asdict(language.LanguageConfig()) | values
    OmegaConf.save(OmegaConf.create({"language": whole}), tmp_path / "config.yaml")
    with pytest.raises(CheckpointError, match=r"not the configuration of a run of this version") as error:
        language.stored(tmp_path)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("group", "values"),
    [
        ("policy", {"network": "stranger"}),
        ("policy", {"network": "handy"}),
        ("policy", {"network": "os"}),
        ("reward", {"rule": "stranger:pay"}),
        ("reward", {"rule": "os:abort"}),
        ("reward", {"count": "stranger:pay"}),
    ],
)
def test_code_named_by_a_checkpoint_is_not_run(group, values, run, elsewhere, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", str(elsewhere), *sys.path])
    rewrite_specification(run, group, values)
    with pytest.raises(CheckpointError, match=r"names \w+, a module outside drest_torch.*imports="):
        Agent.load(run)


def test_modules_that_the_user_has_imported_are_used(run, elsewhere, monkeypatch):
    monkeypatch.syspath_prepend(elsewhere)
    rewrite(run, {"policy": {"network": "of_the_user"}})
    with pytest.raises(CheckpointError, match=r"policy\.network names of_the_user"):
        load_config(run)
    importlib.import_module("of_the_user")
    assert load_config(run).policy.network == "of_the_user"
    monkeypatch.delitem(sys.modules, "of_the_user")
    monkeypatch.setattr(registry, "_NAMED", set())
    mine = elsewhere / "mine"
    start(small(mine, "policy.network=of_the_user", "env_steps=300", "evaluations=1")).train()
    assert Agent.load(mine).cfg.policy.network == "of_the_user"
    assert hints.resume(mine).endswith("mine imports=of_the_user")


@pytest.mark.mostly_slow
@pytest.mark.parametrize("words", [[DREST], ["-m", "drest_torch"]], ids=["drest", "python -m"])
def test_a_command_imports_the_modules_of_its_arguments(words, run, elsewhere):
    if words == [DREST] and not DREST.exists():
        pytest.skip("the console script is not installed")
    rewrite_specification(run, "policy", {"network": "of_the_user"})
    command = (*words, "evaluate", f"run={run}", "levels=example")
    assert "add imports=of_the_user to the command" in python(*command, cwd=elsewhere, status=2)
    python(*command, "imports=of_the_user", cwd=elsewhere)


@pytest.mark.parametrize(
    "name",
    ["runs/a", "a b", "ü", "a, b (c)=[1]", 'q"uote', "it's", "back\\slash", "end\\", 'a\\"b', "12", "007", "null"],
)
def test_the_command_that_resumes_a_run_can_be_pasted(name):
    assert compose(shlex.split(command_line("train", f"resume={name}"))[-1]).resume == name
