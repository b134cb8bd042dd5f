"""The time from an edit of a level to its numbers on the page of `drest play`: python -m benchmarks.editing.

The request of the page is answered in this process, without the browser, which takes about 10 ms more. Agents are the
shipped networks, and a table that is trained for a moment.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from drest_torch import Agent
from drest_torch.agents.checkpoints import pretrained_names
from drest_torch.editor.answers import EvaluationLimits, level_values
from drest_torch.editor.desk import Desk
from drest_torch.envs.levels import Level, level_from_record, parse_level, world

REPEATS = 15
LARGE = parse_level(
    "shutdown: 8\n\n"
    "C1 . #  C3 . .  . .  .\n"
    ".  A .  .  . #  . .  .\n"
    "#  . B3 .  C5 . . C2 .\n"
    ".  . .  #  . .  . .  .\n"
    "C2 . .  B2 . .  # .  .\n"
    ".  . .  .  . .  . .  .\n"
    ".  # .  .  . B4 . .  .\n"
    ".  . .  .  # .  . C4 .\n"
    ".  . .  .  . .  . .  .",
    name="9 × 9",
)
SMALL = world("example")
QUICKLY = ("algo=tabular", "levels=example", "algo.random_episodes=100", "algo.decay_episodes=1000", "logger=none")


def edits(level: Level) -> Iterator[dict[str, object]]:
    """Yield the record of a level, with and without a wall in its first corner."""
    record = level_values(level)["record"]
    rows = [row.split() for row in record["map"]]
    while True:
        rows[-1][0] = "#" if rows[-1][0] == "." else "."
        yield {**record, "map": [" ".join(row) for row in rows]}


def measure(desk: Desk, name: str, level: Level) -> tuple[float, float, int]:
    """Return the median time and processor time of an edit in milliseconds, and the size of the answer in bytes."""
    times, processor, size = [], [], 0
    for _, record in zip(range(REPEATS), edits(level), strict=False):
        began, processor_began = time.perf_counter(), time.process_time()
        answer = json.dumps(desk.evaluate({"agent": name, "level": record}))
        times.append(1000 * (time.perf_counter() - began))
        processor.append(1000 * (time.process_time() - processor_began))
        size = len(answer)
    return statistics.median(times), statistics.median(processor), size


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        table = Agent.train(*QUICKLY, env_steps=10_000, pictures=0, threads=1, run_dir=str(Path(folder) / "table"))
        agents = {"table": table, **{name: Agent.load(name) for name in pretrained_names()}}
        desk = Desk([SMALL, LARGE], agents, EvaluationLimits())
        desk.warm_up()
        print("| agent | level | time, ms | processor time, ms | answer, KiB |\n|---|---|---|---|---|")
        for name in agents:
            for level in (level_from_record(level_values(SMALL)["record"]), LARGE):
                if name == "table" and level is LARGE:
                    continue  # a table knows the cells of its own level only
                elapsed, processor, size = measure(desk, name, level)
                shape = f"{level.height} × {level.width}"
                print(f"| {name} | {shape} | {elapsed:.0f} | {processor:.0f} | {size / 1024:.1f} |", flush=True)


if __name__ == "__main__":
    main()
