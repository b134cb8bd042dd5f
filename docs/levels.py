"""The tables of docs/reference/generated-levels.md: python docs/levels.py [FILE.jsonl ...]

A file of levels gets a column beside those of the generated sets. `--speed` measures how fast each set is made.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from drest_torch import neutrality, usefulness
from drest_torch.building import levels as data
from drest_torch.config.compose import compose, options
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.exact.propagator import Lengths, Reachable, uniform_policy
from drest_torch.envs.generation.stream import GeneratorConfig, draft_number, generate, stream
from drest_torch.envs.levels import Level, read_levels

COUNT = 2000
SEED = 0
AT_ONCE = 50
ORDER = ("generated", "easy", "followup_like", "paper_like", "hard", "three_lengths", "large", "huge")


def presets() -> dict[str, GeneratorConfig]:
    """The generated sets of `configs/levels/` by their name."""
    found = {name: compose(f"levels={name}").levels.generator for name in options("levels")}
    named = {name: data.generator_config(each, None) for name, each in found.items() if each is not None}
    return {name: named[name] for name in sorted(named, key=lambda name: (*ORDER, name).index(name))}


def describe(levels: Sequence[Level]) -> dict[str, Tensor]:
    """What there is to say about each level; coins' values and buttons' delays one by one."""
    mdp = compile_levels(levels)
    found, distance = properties(mdp), button_distance(mdp)
    last = (found.num_lengths - 1).unsqueeze(-1)
    chance = by_chance(mdp, found.best_return.shape[1])
    values = {
        "rows": [level.height for level in levels],
        "columns": [level.width for level in levels],
        "walls": [sum(map(sum, level.walls)) for level in levels],
        "coins": [len(level.coins) for level in levels],
        "value of a coin": [coin.value for level in levels for coin in level.coins],
        "buttons": [len(level.buttons) for level in levels],
        "delay of a button": [button.delay for level in levels for button in level.buttons],
        "shutdown": mdp.shutdown,
        "moves to the nearest button": distance,
        "time then left": mdp.shutdown - distance,
        "k": found.num_lengths,
        "m(longest) / m(shortest)": found.ratio,
        "slack, shortest": found.slack[:, 0],
        "slack, longest": found.slack.gather(-1, last).squeeze(-1),
        "uniform policy: P(longest)": chance.probability.gather(-1, last).squeeze(-1),
        "uniform policy: usefulness": usefulness(chance.probability, chance.coins, found.best_return),
        "uniform policy: neutrality, bits": neutrality(chance.probability),
    }
    return {name: torch.as_tensor(each, dtype=torch.float64) for name, each in values.items()}


def by_chance(mdp: Mdp, columns: int) -> Lengths:
    """The lengths and coins of the uniform policy, for a few levels at a time: large ones take much memory."""
    firsts = range(0, mdp.num_levels, AT_ONCE)
    parts = [range(first, min(first + AT_ONCE, mdp.num_levels)) for first in firsts]
    found = [Reachable(mdp, levels).evaluate(uniform_policy) for levels in parts]
    tables = ([part.probability for part in found], [part.coins for part in found])
    padded = [torch.cat([pad(each, (0, columns - each.shape[1])) for each in table]) for table in tables]
    return Lengths(*padded)


def cell(values: Tensor) -> str:
    """The mean, and where the middle 80 % lie; one number where all are the same."""
    low, high = torch.quantile(values, torch.tensor([0.1, 0.9], dtype=values.dtype)).tolist()
    if values.min() == values.max():
        return f"{low:g}"
    whole = bool((values == values.round()).all())
    return (
        f"{values.mean():.2f} ({low:.0f} to {high:.0f})" if whole else f"{values.mean():.2f} ({low:.2f} to {high:.2f})"
    )


def table(sets: dict[str, Sequence[Level]]) -> Iterator[str]:
    """Lines of markdown, a column for each set."""
    yield "| | " + " | ".join(f"`{name}`" for name in sets) + " |"
    yield "|---" * (len(sets) + 1) + "|"
    columns = [{name: cell(values) for name, values in describe(levels).items()} for levels in sets.values()]
    for name in columns[0]:
        yield f"| {name} | " + " | ".join(column[name] for column in columns) + " |"


def accepted(levels: Sequence[Level]) -> str:
    return f"{len(levels) / (draft_number(levels[-1]) + 1):.1%}"


def speed(config: GeneratorConfig, count: int = 10_000) -> float:
    """Levels a second, on one core."""
    torch.set_num_threads(1)
    levels = stream(config, SEED)
    next(levels)
    began = time.perf_counter()
    for _ in islice(levels, count):
        pass
    return count / (time.perf_counter() - began)


def main(arguments: Sequence[str]) -> None:
    if arguments == ["--speed"]:
        for name, config in presets().items():
            print(f"{name}: {speed(config):,.0f} levels a second")
        return
    sets = {name: generate(config, COUNT, seed=SEED) for name, config in presets().items()}
    lines = list(table({**sets, **{Path(path).stem: read_levels(path) for path in arguments}}))
    row = "| drafts accepted | " + " | ".join(accepted(levels) for levels in sets.values()) + " |"
    print("\n".join([*lines, row + " |" * len(arguments)]))


if __name__ == "__main__":
    main(sys.argv[1:])
