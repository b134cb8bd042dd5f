"""The sweep files give command lines of Hydra overrides, and their comments the same sweep without a server."""

import shlex
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.helpers.wandb_sweep import SWEEPS, first_parameters, sweep_command

FILES = sorted(SWEEPS.glob("*.yaml"))


def parse(overrides):
    return OverridesParser.create().parse_overrides(overrides)


def parameters(path):
    """The values of each parameter of a sweep."""
    sweep = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: each.get("values", [each.get("value")]) for name, each in sweep["parameters"].items()}


def multirun(path):
    """The words of the command with -m in a sweep file's comment."""
    comment = [line.removeprefix("#").strip() for line in path.read_text("utf-8").split("\n") if line.startswith("#")]
    joined = "\n".join(comment).replace("\\\n", " ")
    (line,) = (line for line in joined.split("\n") if " -m drest_torch.train -m " in line)
    return shlex.split(line)


def test_both_sweeps_are_there():
    assert [path.stem for path in FILES] == ["lambda_meta", "optimiser"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_command_is_a_line_of_overrides(path):
    chosen = first_parameters(path)
    env, interpreter, option, program, *arguments = sweep_command(path, chosen)
    assert env == "/usr/bin/env"
    assert Path(interpreter).name.startswith("python")
    assert (option, program) == ("-m", "drest_torch.train")
    overrides = parse(arguments)
    assert {each.key_or_group: each.value() for each in overrides} == chosen
    assert not any(each.is_sweep_override() or each.is_add() or each.is_delete() for each in overrides)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_comment_gives_the_same_sweep_for_multirun(path):
    words = multirun(path)
    assert words[:4] == ["python", "-m", "drest_torch.train", "-m"]
    offline = {}
    for each in parse(words[4:]):
        swept = each.is_sweep_override()
        offline[each.key_or_group] = list(each.sweep_iterator()) if swept else [each.value()]
    online = {name: values for name, values in parameters(path).items() if name != "logger.mode"}
    assert {name: list(map(str, values)) for name, values in offline.items()} == {
        name: list(map(str, values)) for name, values in online.items()
    }
