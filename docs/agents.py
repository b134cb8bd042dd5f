"""Write the levels on which the agents that ship are trained: python docs/agents.py FOLDER.

The folder gets a file of training levels and one of selection levels for each agent: mixtures of generated sets, from
other seeds than the sets themselves. docs/reference/agent.md has the commands that train on them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drest_torch.config.compose import compose
from drest_torch.envs.generation.splits import Split, make_split
from drest_torch.envs.levels import LevelError, find_levels, write_levels
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.play.level_sets import generator_config

OTHER_SEEDS = 7000
"""The distance of the seeds from those of the sets."""
SELECTED = 1000
"""One selection level for this many training levels."""
LARGER = (
    "levels=large levels.generator.height=[6,10] levels.generator.width=[6,10] levels.generator.coins=[2,4] "
    "levels.generator.buttons=[1,3] levels.generator.lengths=[2,8] levels.generator.shutdown=[3,12] "
    "levels.generator.delay=[1,9] levels.split_seed=9"
)
MIXTURES = {
    "small": {
        "levels=followup_like": 60_000,
        "levels=paper_like": 60_000,
        "levels=generated": 30_000,
        "levels=hard": 30_000,
        "levels=three_lengths": 30_000,
        "levels=easy": 10_000,
    },
    "large": {LARGER: 40_000, "levels=large": 20_000, "levels=three_lengths": 10_000, "levels=followup_like": 10_000},
}
"""The arguments of each set of a mixture, with the number of its training levels."""


def split_of(arguments: str, number: int) -> Split:
    """Return this many training levels of a set, and selection levels."""
    levels = compose(*arguments.split()).levels
    config, seed = generator_config(levels.generator, levels.clock), levels.split_seed + OTHER_SEEDS
    return make_split(config, train=number, selection=number // SELECTED, test=0, seed=seed)


def main(folder: Path) -> None:
    """Write all files to this folder, unless a level is one of the paper's worlds."""
    folder.mkdir(parents=True, exist_ok=True)
    worlds = set(keys_of(find_levels("paper")))
    for name, sets in MIXTURES.items():
        splits = [split_of(arguments, number) for arguments, number in sets.items()]
        train = [level for split in splits for level in split.train]
        if worlds.intersection(keys_of(train)):
            raise LevelError(f"{name}: one of the paper's worlds is among the training levels; use another seed")
        write_levels(folder / f"{name}.jsonl", train)
        write_levels(folder / f"{name}_selection.jsonl", [level for split in splits for level in split.selection])
        print(f"{folder / name}.jsonl: {len(train):,} levels")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
