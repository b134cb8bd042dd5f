"""The sweep files: an agent of W&B starts runs by them, and their comments give the same sweep without a server."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from drest_torch.files import read_metrics
from tests.helpers.documents import ROOT
from tests.helpers.runs import SMALLEST

SWEEPS = [ROOT / "configs" / "sweeps" / f"{name}.yaml" for name in ("lambda_meta", "optimiser")]
each_sweep = pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)


def parse(overrides):
    return OverridesParser.create().parse_overrides(overrides)


def parameters(path):
    """The values of each parameter of a sweep."""
    sweep = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: each.get("values", [each.get("value")]) for name, each in sweep["parameters"].items()}


def first(path):
    return {name: values[0] for name, values in parameters(path).items()}


def sweep_command(path, chosen):
    """The command line of one run as an agent of W&B makes it, with our interpreter for the ``python`` of the PATH."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args  # takes two seconds

    sweep = yaml.safe_load(path.read_text(encoding="utf-8"))
    macros = create_sweep_command_args({"args": {name: {"value": value} for name, value in chosen.items()}})
    macros |= {"env": ["/usr/bin/env"], "interpreter": [sys.executable], "program": [sweep["program"]]}
    command = []
    for part in create_sweep_command(sweep["command"]):
        macro = part.startswith("${") and part.endswith("}")
        command += macros[part[2:-1]] if macro else [part]
    return command


@each_sweep
def test_a_command_is_a_line_of_overrides(path):
    env, interpreter, option, program, *arguments = sweep_command(path, first(path))
    assert (env, option, program) == ("/usr/bin/env", "-m", "drest_torch.train")
    assert Path(interpreter).name.startswith("python")
    overrides = parse(arguments)
    assert {each.key_or_group: each.value() for each in overrides} == first(path)
    assert not any(each.is_sweep_override() or each.is_add() or each.is_delete() for each in overrides)


@each_sweep
def test_the_comment_gives_the_same_sweep_for_multirun(path):
    comment = [line.removeprefix("#").strip() for line in path.read_text("utf-8").split("\n") if line.startswith("#")]
    lines = "\n".join(comment).replace("\\\n", " ").split("\n")
    (words,) = (shlex.split(line) for line in lines if " -m drest_torch.train -m " in line)
    assert words[:4] == ["python", "-m", "drest_torch.train", "-m"]
    offline = {}
    for each in parse(words[4:]):
        swept = each.is_sweep_override()
        offline[each.key_or_group] = [*map(str, each.sweep_iterator() if swept else [each.value()])]
    online = {name: [*map(str, values)] for name, values in parameters(path).items() if name != "logger.mode"}
    assert offline == online


@pytest.mark.slow
@each_sweep
def test_a_run_of_a_sweep_as_an_agent_of_wandb_starts_it(path, tmp_path):
    few = ("levels=generated", "levels.train=5", "levels.selection=2", "levels.test=3")
    small = [*SMALLEST, "progress=false", "test.paper=false", "run_dir=run", *(few if path.stem == "optimiser" else ())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [*sweep_command(path, first(path) | {"logger.mode": "offline"}), *small]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    for name, value in first(path).items():
        group, _, key = name.partition(".")
        assert (config[group][key] if key else config[group]["name"]) == ("offline" if key == "mode" else value)
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    metric = yaml.safe_load(path.read_text())["metric"]["name"]
    assert any(metric in row for row in read_metrics(tmp_path / "run" / "metrics.jsonl"))
