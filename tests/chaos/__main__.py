"""Run the campaign, print what came of it, and write it as JSON: ``python -m tests.chaos --share 0.1``."""

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos import forked, kills, mutations, overrides, surroundings

GOOD = ("same", "done", "refused", "accepted", "refused when it is solved")


@dataclass(frozen=True)
class Part:
    """A part of the campaign."""

    what: str
    count: int
    """How often it is tried in the whole campaign."""
    attack: Callable[[random.Random, int], Iterator[str]]
    """What yields what came of each try."""


PARTS = (
    Part("runs of every algorithm, killed up to three times at random and resumed", 100, kills.at_random),
    Part("runs killed before a file operation, each in turn, and resumed", 300, kills.crash_points),
    Part("mutated level files, read", 10_000, mutations.reader),
    Part("mutated level files, given to show, train and evaluate", 300, mutations.commands),
    Part("runs with a mutated file, resumed, evaluated and compared", 300, mutations.runs),
    Part("training with random values", 1000, overrides.training),
    Part("training in other environments with random values", 60, overrides.elsewhere),
    Part("evaluation with random values", 200, overrides.evaluating),
    Part("training on a full disk, then resumed with room", 30, surroundings.full_disk),
    Part("runs with a permission taken away, as a user who is not root", 60, surroundings.permissions),
    Part("training while the clock goes backwards", 10, surroundings.clock),
    Part("training with little memory and networks of any width", 60, surroundings.memory),
    Part("W&B online, where something else answers for its server", 10, surroundings.network),
    Part("shells without HOME, output, input or a locale", 30, surroundings.shells),
)


def run(part: Part, seed: int, share: float) -> dict[str, Any]:
    """Run a part of the campaign; return what was tried, how often, and what came of it."""
    began = time.monotonic()
    found = Counter(part.attack(random.Random(f"{seed} {part.what}"), max(1, round(part.count * share))))
    return {
        "what": part.what,
        "tried": sum(found.values()),
        "found": {kind: found[kind] for kind in GOOD if found[kind]},
        "broken": sorted(kind for kind in found if kind not in GOOD),
        "seconds": round(time.monotonic() - began),
    }


def main() -> int:
    """Run the parts in as many processes as are asked for; return 1 if anything broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the whole campaign (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts whose name has these words in it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file for what came of it")
    args = parser.parse_args()
    forked.warm()
    rows = []
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        chosen = [part for part in PARTS if args.only in part.what]
        for row in pool.imap(partial(run, seed=args.seed, share=args.share), chosen):
            rows.append(row)
            said = f"{row['seconds']:5} s  {row['what']}: {row['tried']} {row['found']}"
            print(said, *row["broken"], sep="\n    ", flush=True)
    if args.out is not None:
        record = {"seed": args.seed, "share": args.share, "rows": rows}
        args.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(any(row["broken"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
