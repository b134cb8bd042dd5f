"""The sweep files of W&B: an agent can start their runs, and their comments give the same sweep for Hydra."""

import shlex
import sys

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from drest_torch.files import read_metrics
from tests.helpers.commands import python
from tests.helpers.documents import ROOT
from tests.helpers.runs import SMALLEST

each_sweep = pytest.mark.parametrize("name", ["lambda_meta", "optimiser"])


def sweep_of(name):
    """Return the text of a sweep's file, the sweep, and the values of each parameter."""
    text = (ROOT / "configs" / "sweeps" / f"{name}.yaml").read_text("utf-8")
    sweep = yaml.safe_load(text)
    values = {key: space.get("values", [space.get("value")]) for key, space in sweep["parameters"].items()}
    return text, sweep, values


@each_sweep
def test_the_comment_gives_the_same_sweep_for_multirun(name):
    text, _, online = sweep_of(name)
    comment = "\n".join(line.removeprefix("#").strip() for line in text.split("\n") if line.startswith("#"))
    (line,) = (line for line in comment.replace("\\\n", " ").split("\n") if " -m drest_torch.train " in line)
    words = shlex.split(line)
    assert words[:4] == ["python", "-m", "drest_torch.train", "-m"]
    offline = {}
    for override in OverridesParser.create().parse_overrides(words[4:]):
        swept = override.is_sweep_override()
        offline[override.key_or_group] = [*map(str, override.sweep_iterator() if swept else [override.value()])]
    assert offline == {key: [*map(str, values)] for key, values in online.items() if key != "logger.mode"}


@pytest.mark.slow
@each_sweep
def test_the_command_of_a_wandb_agent_starts_a_run(name, tmp_path):
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args  # takes two seconds

    _, sweep, values = sweep_of(name)
    chosen = {key: options[0] for key, options in values.items()} | {"logger.mode": "offline"}
    macros = create_sweep_command_args({"args": {key: {"value": value} for key, value in chosen.items()}})
    macros |= {"env": ["/usr/bin/env"], "interpreter": [sys.executable], "program": [sweep["program"]]}
    command = [
        word
        for part in create_sweep_command(sweep["command"])
        for word in (macros[part[2:-1]] if part.startswith("${") else [part])
    ]
    assert command[:2] == ["/usr/bin/env", sys.executable]
    few = ("levels=generated", "levels.train=5", "levels.selection=2", "levels.test=3") if name == "optimiser" else ()
    python(*command[2:], *SMALLEST, "progress=false", "test.paper=false", "run_dir=run", *few, cwd=tmp_path)
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    for key, value in chosen.items():
        group, _, inner = key.partition(".")
        assert (config[group][inner] if inner else config[group]["name"]) == value
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert any(sweep["metric"]["name"] in row for row in read_metrics(tmp_path / "run" / "metrics.jsonl"))
