"""Write the levels of the agents that ship, or the agents themselves. docs/reference/agent.md has the commands.

``python docs/agents.py levels FOLDER [MIXTURE…]`` writes a file of training levels and one of selection levels for
each mixture of generated sets, which have other seeds than usual. ``python docs/agents.py ship RUN NAME`` replaces the
pretrained agent of this name with the agent of a run on such a file. The levels of its configuration, on which
`drest evaluate levels=own` evaluates it, are `levels=generated`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import OmegaConf

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drest_torch import Agent
from drest_torch.agents.checkpoints import PRETRAINED, load_checkpoint, save_checkpoint, step_checkpoints
from drest_torch.config.compose import compose
from drest_torch.config.stored import config_of
from drest_torch.envs.generation.splits import Split, make_split
from drest_torch.envs.levels import LevelError, find_levels, write_levels
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.play.level_sets import generator_config

OTHER_SEEDS = 7000
"""The distance of the seeds from those of the sets."""
SELECTED = 1000
"""One selection level for this many training levels."""
TIGHT = "levels=paper_like levels.generator.coins=[2,3] levels.generator.slack=[0,0] levels.split_seed=10"
"""Levels like the paper's worlds, in which every length needs all of its time for its best return."""
MIXTURES = {
    "small": {
        "levels=followup_like": 60_000,
        "levels=paper_like": 60_000,
        "levels=generated": 30_000,
        "levels=hard": 30_000,
        "levels=three_lengths": 30_000,
        "levels=easy": 10_000,
    },
    "tight": {
        TIGHT: 60_000,
        "levels=followup_like": 20_000,
        "levels=generated": 20_000,
        "levels=hard": 20_000,
        "levels=three_lengths": 20_000,
    },
}
"""The arguments of each set of a mixture, with the number of its training levels."""
METADATA = ("steps", "updates", "wall_seconds", "processor_seconds", "agent")
"""The metadata of a checkpoint that ships."""
NAMED = ("algo", "objective", "env")
"""The groups whose option decides what the keys of a configuration mean."""


def split_of(arguments: str, number: int) -> Split:
    """Return this many training levels of a set, and selection levels."""
    levels = compose(*arguments.split()).levels
    config, seed = generator_config(levels.generator, levels.clock), levels.split_seed + OTHER_SEEDS
    return make_split(config, train=number, selection=number // SELECTED, test=0, seed=seed)


def write(folder: Path, names: Sequence[str]) -> None:
    """Write the files of these mixtures, or of all, to this folder, unless a level is one of the paper's worlds."""
    folder.mkdir(parents=True, exist_ok=True)
    worlds = set(keys_of(find_levels("paper")))
    for name in names or MIXTURES:
        splits = [split_of(arguments, number) for arguments, number in MIXTURES[name].items()]
        train = [level for split in splits for level in split.train]
        if worlds.intersection(keys_of(train)):
            raise LevelError(f"{name}: one of the paper's worlds is among the training levels; use another seed")
        write_levels(folder / f"{name}.jsonl", train)
        write_levels(folder / f"{name}_selection.jsonl", [level for split in splits for level in split.selection])
        print(f"{folder / name}.jsonl: {len(train):,} levels")


def changed(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the usual ones, with the names of options."""
    different = {}
    for key, value in values.items():
        before = usual.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := changed(value, before):
                different[key] = inner
        elif value != before or key == "name":
            different[key] = value
    return different


def ship(run: str, name: str) -> None:
    """Replace the pretrained agent of this name with the agent of a run, without the files of its levels."""
    target = PRETRAINED / name
    with TemporaryDirectory() as folder:
        saved = Agent.load(run).save(folder)
        cfg = OmegaConf.load(saved / "config.yaml")
        (path,) = step_checkpoints(saved / "checkpoints")
        tensors, state = load_checkpoint(path)
    mixture = Path(OmegaConf.load(Path(run) / "config.yaml").levels.path).stem
    cfg.levels = compose("levels=generated").levels
    cfg.test.selection_path = None
    cfg.env.title = state["agent"]["origin"]["place"] = mixture
    usual = config_of({name: {"name": cfg[name].name} for name in NAMED} | {"run_dir": "runs/shipped"})
    values = changed(OmegaConf.to_container(cfg), OmegaConf.to_container(OmegaConf.structured(usual)))
    (target / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(values)), encoding="utf-8")
    shipped = target / "checkpoints" / path.name
    save_checkpoint(shipped, tensors, {key: state[key] for key in METADATA})
    for other in step_checkpoints(shipped.parent):
        if other != shipped:
            other.unlink()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["levels", folder, *names]:
            write(Path(folder), names)
        case ["ship", run, name]:
            ship(run, name)
        case _:
            sys.exit(__doc__)
