"""What agents reach in gridworlds they have never seen, and the protocol of the paper's follow-up beside its table.

    python -m benchmarks.heldout --out FOLDER                        the rows of GOALS, five seeds each
    python -m benchmarks.heldout --out FOLDER --peer FOLDER          with train.jsonl and val.jsonl of the follow-up
    python -m benchmarks.heldout --out FOLDER --only short --seeds 1
    python -m benchmarks.heldout --out FOLDER --peer FOLDER --only protocol --minutes 60

The runs are those of ``python -m drest_torch.train`` with the arguments that a row names, side by side with one
thread each. They are kept in FOLDER: one that is there already is not repeated, and one that was stopped goes on.
Evaluation is exact, of the last step's policy. Neutrality is ÷ log2 k.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from drest_torch.agent import Agent, levels_to_evaluate
from drest_torch.config.schema import LevelsConfig
from envs.levels import PAPER_WORLDS, Level, read_levels, world

OWN, PEER, PAPER = "own test levels", "val.jsonl", "the paper's nine"
GENERALIST = ("algo=generalist", "levels.train=100000")
READER = (*GENERALIST, "policy=convolutional", "reward.episodes_per_meta=32")


@dataclass(frozen=True)
class Goal:
    """A row: what is trained, and what is wanted of it on each set, usefulness and neutrality at once."""

    part: str
    title: str
    arguments: tuple[str, ...]
    wanted: dict[str, tuple[float, float]]


GOALS = (
    Goal(
        "mlp",
        "MLP with a coin on `peer_like`",
        (*GENERALIST, "levels=peer_like", "levels.symmetries=true", "env_steps=20000000"),
        {OWN: (0.95, 0.95), PEER: (0.95, 0.95)},
    ),
    Goal(
        "coinless",
        "MLP without a coin on `peer_like`",
        (
            *GENERALIST,
            "levels=peer_like",
            "levels.symmetries=true",
            "policy.noise=0",
            "algo.muon_lr=0.05",
            "reward.episodes_per_meta=44",
            "env_steps=160000000",
        ),
        {OWN: (0.95, 0.95), PEER: (0.95, 0.95)},
    ),
    Goal(
        "paper",
        "convolutional with a coin on `paper_like`",
        (*READER, "levels=paper_like", "env_steps=10000000"),
        {OWN: (0.95, 0.95), PEER: (0.95, 0.95), PAPER: (0.97, 0.95)},
    ),
    Goal(
        "three",
        "convolutional with two coins on `three_lengths`",
        (*READER, "levels=three_lengths", "policy.noise=2", "env_steps=1500000"),
        {OWN: (0.85, 0.85)},
    ),
    Goal(
        "short",
        "MLP on `peer_like`, under three minutes",
        ("algo=generalist", "levels=peer_like", "levels.symmetries=true", "env_steps=4000000"),
        {OWN: (0.742, 0.769), PEER: (0.742, 0.769)},
    ),
)
PUBLISHED = {  # arXiv 2604.17502: training and test usefulness and neutrality after 100 million steps, mean of 5 runs
    ("ppo", "drest"): (0.886, 0.845, 0.742, 0.747),
    ("a2c", "drest"): (0.921, 0.839, 0.742, 0.769),
    ("ppo", "default"): (0.947, 0.0, 0.667, 0.0),
    ("a2c", "default"): (0.911, 0.0, 0.635, 0.0),
}
"""By algorithm and reward."""
TRIAL_STEPS = 200_000
"""Of training, to find out how many steps fit into the time."""


def train(run: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """The summary of a run, which is begun, taken up or found finished."""
    summary = run / "summary.json"
    if not summary.is_file():
        given = [f"resume={run}"] if (run / "config.yaml").is_file() else [*arguments, f"run_dir={run}"]
        quiet = ("logger=none", "pictures=0", "threads=1", "heldout.paper=false")
        command = [sys.executable, "-m", "drest_torch.train", *given, *(() if "resume" in given[0] else quiet)]
        subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
    return found


def measured(run: Path, sets: Sequence[str], peer: Path | None) -> dict[str, tuple[float, float]]:
    agent = Agent(run)
    found = {}
    for name in sets:
        means = agent.evaluate(_levels(agent, name, peer)).evaluation.means()
        found[name] = means["usefulness"], means["neutrality_normalised"]
    return found


def _levels(agent: Agent, name: str, peer: Path | None) -> list[Level]:
    if name == PAPER:
        return [world(each) for each in PAPER_WORLDS]
    if name == PEER:
        assert peer is not None
        return read_levels(peer / PEER)
    return levels_to_evaluate(agent, LevelsConfig(name="own", path=None))


def goals(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the table of goals."""
    yield "| trained | held out | wanted | U: median (range) | N | reached | slowest, s |"
    yield "|---|---|---|---|---|---|---|"
    for goal in GOALS:
        if options.only not in (None, goal.part):
            continue
        sets = [name for name in goal.wanted if name != PEER or options.peer is not None]

        def one(seed: int, goal: Goal = goal, sets: Sequence[str] = sets) -> tuple[float, dict[str, Any]]:
            run = options.out / f"{goal.part}-{seed}"
            seconds = train(run, [*goal.arguments, f"seed={seed}"])["wall_seconds"]
            return seconds, measured(run, sets, options.peer)

        with ThreadPoolExecutor(options.workers) as pool:
            runs = list(pool.map(one, range(options.seeds)))
        slowest = max(seconds for seconds, _ in runs)
        for name in sets:
            useful, neutral = (list(each) for each in zip(*(found[name] for _, found in runs), strict=True))
            wanted = goal.wanted[name]
            reached = sum(u >= wanted[0] and n >= wanted[1] for u, n in zip(useful, neutral, strict=True))
            yield (
                f"| {goal.title} | {name} | U ≥ {wanted[0]}, N ≥ {wanted[1]} | {_spread(useful)} | {_spread(neutral)} "
                f"| {reached} of {len(runs)} | {slowest:.0f} |"
            )


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def protocol(options: argparse.Namespace) -> Iterator[str]:
    """The lines of the follow-up's protocol: its training levels alone, 3×512 networks, as many steps as fit."""
    yield "| | training levels: U, N | validation: U, N | steps, million | published: training, test |"
    yield "|---|---|---|---|---|"

    def one(kind: tuple[str, str]) -> str:
        algo, reward = kind
        files = (f"levels.path={options.peer / 'train.jsonl'}", f"heldout.path={options.peer / PEER}")
        arguments = (f"algo={algo}", f"reward={reward}", "policy.width=512", *files)
        trial = train(options.out / f"trial-{algo}-{reward}", [*arguments, f"env_steps={TRIAL_STEPS}"])
        steps = int(60 * options.minutes * trial["env_steps"] / trial["wall_seconds"])
        found = train(options.out / f"protocol-{algo}-{reward}", [*arguments, f"env_steps={steps}"])
        splits = [found["splits"][name] for name in ("train", "heldout")]
        ours = [f"{each['usefulness']:.3f}, {each['neutrality']:.3f}" for each in splits]
        theirs = "{:.3f}, {:.3f}; {:.3f}, {:.3f}".format(*PUBLISHED[kind])
        return f"| {algo.upper()}, {reward} | {' | '.join(ours)} | {found['env_steps'] / 1e6:.1f} | {theirs} |"

    with ThreadPoolExecutor(options.workers) as pool:
        yield from pool.map(one, PUBLISHED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks-heldout"))
    parser.add_argument("--peer", type=Path, help="folder with train.jsonl and val.jsonl")
    parser.add_argument("--only", choices=(*(goal.part for goal in GOALS), "protocol"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, one thread each")
    parser.add_argument("--minutes", type=float, default=60, help="training of each agent of the protocol")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out = options.out.resolve()
    if options.only == "protocol" and options.peer is None:
        parser.error("--only protocol needs --peer FOLDER, with train.jsonl and val.jsonl in it")
    if options.only != "protocol":
        for line in goals(options):
            print(line, flush=True)
    if options.peer is not None and options.only in (None, "protocol"):
        for line in protocol(options):
            print(line, flush=True)


if __name__ == "__main__":
    main()
