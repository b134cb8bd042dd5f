"""Whether training really works: every algorithm on the paper's worlds, and the default command, five seeds each.

    python -m benchmarks.learning                       everything (about half an hour on two cores)
    python -m benchmarks.learning --only example        or paper, or default
    python -m benchmarks.learning --workers 2 --json FILE

The runs are those of ``python -m drest_torch.train`` with the arguments that the table names. Those of one
level or nine run side by side with one thread each; the default command has the machine to itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a row of the table wants of each seed."""

    part: str
    arguments: tuple[str, ...]
    split: str
    usefulness: float
    neutrality: float
    most: bool = False
    """Whether the neutrality is the most that is wanted, instead of the least."""
    alone: bool = False

    def reached(self, usefulness: float, neutrality: float) -> bool:
        neutral = neutrality <= self.neutrality if self.most else neutrality >= self.neutrality
        return usefulness >= self.usefulness and neutral

    @property
    def wanted(self) -> str:
        return f"U ≥ {self.usefulness}, N {'≤' if self.most else '≥'} {self.neutrality}"


ALGORITHMS = ("reinforce", "a2c", "ppo", "exact")
GOALS = (
    *(Goal("example", (f"algo={name}", "levels=example"), "train", 0.95, 0.95) for name in ALGORITHMS),
    *(
        Goal("example", (f"algo={name}", "levels=example", "reward=default"), "train", 0.95, 0.3, most=True)
        for name in ALGORITHMS
    ),
    *(Goal("paper", (f"algo={name}", "levels=paper"), "train", 0.95, 0.90) for name in ("ppo", "a2c")),
    Goal("default", ("algo=ppo",), "heldout", 0.85, 0.80, alone=True),
)


def run(goal: Goal, seed: int, folder: Path) -> dict[str, Any]:
    """One training run in a process of its own; its summary."""
    run_dir = folder / f"{'_'.join(goal.arguments).replace('=', '-')}_{seed}"
    threads = [] if goal.alone else ["threads=1"]
    command = [sys.executable, "-m", "drest_torch.train", *goal.arguments, f"seed={seed}", f"run_dir={run_dir}"]
    subprocess.run([*command, "logger=none", "pictures=0", *threads], check=True, capture_output=True)
    return json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))


def row(goal: Goal, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    useful = [summary["splits"][goal.split]["usefulness"] for summary in summaries]
    neutral = [summary["splits"][goal.split]["neutrality"] for summary in summaries]
    seconds = [summary["wall_seconds"] for summary in summaries]
    reached = sum(goal.reached(u, n) for u, n in zip(useful, neutral, strict=True))
    values = {"usefulness": useful, "neutrality": neutral, "seconds": seconds}
    paper = [summary["splits"]["paper"] for summary in summaries if "paper" in summary["splits"]]
    return asdict(goal) | values | {"reached": reached, "paper": paper}


def line(goal: Goal, numbers: dict[str, Any]) -> str:
    def spread(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"

    cells = (
        f"`{' '.join(goal.arguments)}`",
        goal.split,
        goal.wanted,
        spread(numbers["usefulness"]),
        spread(numbers["neutrality"]),
        f"{numbers['reached']} of {len(numbers['usefulness'])}",
        f"{max(numbers['seconds']):.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("example", "paper", "default"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    goals = [goal for goal in GOALS if options.only in (None, goal.part)]
    print("| arguments | levels | wanted | usefulness: median (range) | neutrality | reached | slowest, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as name:
        for goal in goals:
            with ThreadPoolExecutor(1 if goal.alone else options.workers) as pool:
                summaries = list(pool.map(lambda seed, goal=goal: run(goal, seed, Path(name)), range(options.seeds)))
            results.append(row(goal, summaries))
            print(line(goal, results[-1]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
