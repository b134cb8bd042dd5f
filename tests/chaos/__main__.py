"""Attack runs, files and commands, and print the outcomes: ``python -m tests.chaos --share 0.1``."""

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos import forked, kills, language, mutations, outputs, overrides, strangers, surroundings

GOOD = ("same", "done", "refused", "accepted", "refused when it is solved")


TRAINING = partial(overrides.attack, "train", overrides.IN_OTHERS, overrides.ENVIRONMENT)
EVALUATION = partial(overrides.attack, "evaluate", overrides.EXAMPLE, overrides.EVALUATED)
PARTS = {
    "runs of every algorithm, killed up to three times at random and resumed": (100, kills.at_random),
    "runs killed before each of their file operations, and resumed": (300, kills.crash_points),
    "mutated level files, read": (10_000, mutations.reader),
    "mutated level files, given to show, train and evaluate": (300, mutations.commands),
    "runs with a mutated file, resumed, evaluated and compared": (300, mutations.runs),
    "runs whose checkpoints have another specification of the agent, used": (200, mutations.specifications),
    "outputs whose names are those of inputs": (300, outputs.name_inputs),
    "runs with links that lead out of their folder, resumed": (60, outputs.links),
    "runs with changed test levels, evaluated with levels=own": (60, outputs.own_levels),
    "stored runs that name foreign code, read by every command": (260, strangers.attacks),
    "training with random values": (1000, overrides.training),
    "training in other environments with random values": (60, TRAINING),
    "evaluation with random values": (200, EVALUATION),
    "language models: random values": (300, language.values),
    "language models: mutated prompts": (300, language.prompts),
    "language models: runs with a mutated configuration": (200, language.configurations),
    "language models: runs with a mutated checkpoint": (150, language.checkpoints),
    "language models: damaged models": (200, language.models),
    "malformed arguments of every command": (600, overrides.malformed),
    "training on a full disk, then resumed with room": (30, surroundings.full_disk),
    "runs with a missing permission, as a user other than root": (60, surroundings.permissions),
    "training while the clock runs backwards": (10, surroundings.clock),
    "training with little memory and networks of any width": (60, surroundings.memory),
    "W&B online, with a wrong answer of the server": (10, surroundings.network),
    "shells without HOME, output, input or a locale": (30, surroundings.shells),
}
"""The parts of the campaign: the number of tries, and a function that yields the outcome of each try."""


def run(what: str, seed: int, share: float) -> dict[str, Any]:
    """Run a part of the campaign; return its number of tries and its outcomes."""
    began = time.monotonic()
    count, attack = PARTS[what]
    outcomes = Counter(attack(random.Random(f"{seed} {what}"), max(1, round(count * share))))
    return {
        "what": what,
        "tried": sum(outcomes.values()),
        "outcomes": {kind: outcomes[kind] for kind in GOOD if outcomes[kind]},
        "broken": sorted(kind for kind in outcomes if kind not in GOOD),
        "seconds": round(time.monotonic() - began),
    }


def main() -> int:
    """Run the parts in parallel processes; return 1 if anything broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the whole campaign (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts whose name contains this text")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file for the outcomes")
    args = parser.parse_args()
    forked.warm()
    rows = []
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        chosen = [what for what in PARTS if args.only in what]
        for row in pool.imap(partial(run, seed=args.seed, share=args.share), chosen):
            rows.append(row)
            line = f"{row['seconds']:5} s  {row['what']}: {row['tried']} {row['outcomes']}"
            print(line, *row["broken"], sep="\n    ", flush=True)
    if args.out is not None:
        record = {"seed": args.seed, "share": args.share, "rows": rows}
        args.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(any(row["broken"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
