"""A W&B sweep file expanded into command lines, as an agent of W&B does it."""

import sys
from pathlib import Path

import yaml

SWEEPS = Path(__file__).resolve().parents[2] / "configs" / "sweeps"


def sweep_command(path, parameters):
    """The command line of one run of a sweep; the interpreter is ours instead of the ``python`` of the PATH."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args  # takes two seconds

    sweep = yaml.safe_load(path.read_text(encoding="utf-8"))
    macros = create_sweep_command_args({"args": {name: {"value": value} for name, value in parameters.items()}})
    macros |= {"env": ["/usr/bin/env"], "interpreter": [sys.executable], "program": [sweep["program"]]}
    command = []
    for part in create_sweep_command(sweep["command"]):
        macro = part.startswith("${") and part.endswith("}")
        command += macros[part[2:-1]] if macro else [part]
    return command


def first_parameters(path):
    """One choice of a sweep's parameters: the first value of each."""
    sweep = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: each["value"] if "value" in each else each["values"][0] for name, each in sweep["parameters"].items()}
