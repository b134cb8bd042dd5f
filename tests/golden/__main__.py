"""Check that short runs still give the results in ``golden.json``.

``python -m tests.golden`` compares; ``--record`` records the results again; ``--only NAME…`` selects runs. The first
updates of training are recorded as numbers, which hold for every processor (`tests.golden.numbers`). Whole runs are
recorded as digests, which are compared only with the recorded version of torch on the recorded kind of processor. They
do not depend on the names of tensors and arrays, or on their order in files.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.run import processor
from drest_torch.agent import Agent
from drest_torch.agents.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.config.compose import compose, register
from drest_torch.evaluate import levels_to_evaluate
from drest_torch.studies.catalogue import study_schemas
from drest_torch.studies.runner import folder_of, run_studies
from drest_torch.training.run import start
from tests.golden.numbers import beginning, differences, means

GOLDEN = Path(__file__).with_name("golden.json")
FEW = "levels.train=40 levels.selection=10 levels.test=10"
TRAIN = (
    "train logger=none progress=false policy.width=16 policy.depth=1 env_steps=6000 evaluations=3 pictures=0 "
    "test.paper=false last_batch=whole"
)
PLAY = f"{TRAIN} algo.episodes=128"
EXACT = f"{TRAIN} env_steps=40000"
ELSEWHERE = f"{TRAIN} env_steps=2000 sampled=16 env.copies=16 env.base=8 env.delays=[8] algo.episodes=32"
"""A run in an environment that is not a gridworld."""
STUDY = "study quick=true workers=1 progress=false"

SEES_NO_START = "policy=mlp policy.observation=centred"
ADAM = "algo.entropy=0.1 algo.critic_width=null algo.muon_lr=null reward.group=16"
"""Smaller networks and batches than the recipe of generated levels asks for, and none of its Muon."""
PPO = f"algo=ppo algo.minibatches=8 algo.epochs=3 {SEES_NO_START} {ADAM}"
A2C = f"algo=a2c {SEES_NO_START} {ADAM} algo.lr=0.001"
SMALL_HEAD = "policy.head_width=128 policy.head_depth=2"
WITH_A_BIT = "policy.private_bits=1 algo.muon_lr=0.025"

RUNS = {
    "reinforce": f"{PLAY} algo=reinforce {FEW} {SEES_NO_START} policy.private_bits=2",
    "a2c": f"{PLAY} {A2C} {FEW} policy.private_bits=1 reward.episodes_at_start=8",
    "a2c_sequential": f"{PLAY} {A2C} {FEW} reward.counting=sequential algo.credit=meta sampled=50",
    "ppo": f"{PLAY} {PPO} {FEW} policy.private_bits=1 levels.symmetries=true test.paper=true",
    "ppo_moves": f"{PLAY} algo=ppo levels=paper levels.clock=moves reward.counting=sequential",
    "ppo_sequential": f"{PLAY} {PPO} {FEW} reward.counting=sequential",
    "ppo_discounted": f"{PLAY} {PPO} {FEW} levels.clock=moves reward.gamma=0.9",
    "exact_discounted": f"{EXACT} algo=exact {FEW} reward.gamma=0.9 reward.lam=0.7 algo.credit=meta",
    "ppo_three_lengths": f"{PLAY} {PPO} levels=three_lengths {FEW} policy.private_bits=2",
    "ppo_convolutional": (
        f"{PLAY} algo=ppo algo.minibatches=8 algo.epochs=3 algo.lr=0.003 {ADAM} {FEW} "
        "policy=convolutional policy.depth=2 policy.private_bits=1 policy.observation=grid"
    ),
    "default": f"{PLAY} algo=reinforce reward=default {FEW} {SEES_NO_START} policy.private_bits=1",
    "symmetric_muon": (
        f"{PLAY} algo=reinforce {FEW} levels.fresh=true policy=symmetric policy.observation=centred algo.muon_lr=0.02 "
        "algo.muon_matrix=block policy.width=64"
    ),
    "exact": f"{EXACT} algo=exact levels=paper policy.observation=grid algo.levels_at_once=4",
    "exact_chance": f"{EXACT} algo=exact {FEW} levels.generator.chance=[0.5,1.0] algo.levels_at_once=8",
    "exact_three_lengths": f"{EXACT} algo=exact levels=three_lengths {FEW} policy.private_bits=2",
    "generalist": (
        f"{EXACT} algo=generalist {FEW} levels.fresh=true levels.symmetries=true "
        f"policy.observation=centred {WITH_A_BIT}"
    ),
    "generalist_convolutional": (
        f"{EXACT} algo=generalist levels=paper_like {FEW} policy=convolutional {SMALL_HEAD} policy.observation=grid "
        f"{WITH_A_BIT} algo.muon_matrix=block"
    ),
    "layer_muon": f"{PLAY} algo=a2c {FEW} policy=convolutional {SMALL_HEAD} {ADAM} algo.muon_lr=0.02",
    "tabular": f"{PLAY} algo=tabular levels=example algo.random_episodes=500 algo.decay_episodes=800",
    "cartpole": f"{ELSEWHERE} algo=ppo env=cartpole",
    "cartpole_sequential": (
        f"{ELSEWHERE} algo=ppo env=cartpole reward.counting=sequential reward.episodes_per_meta=2 algo.credit=meta"
    ),
    "torchrl_factory": (
        f"{ELSEWHERE} algo=a2c env=torchrl env.factory=drest_torch.envs.tasks.queue:make policy.private_bits=1"
    ),
    "study_lambda_meta": f"{STUDY} study=lambda_meta",
    "shipped_on_paper": "evaluate levels=paper",
    "shipped_on_its_own": "evaluate levels=own",
}
"""The command and the overrides of each run."""

LEFT_OUT = {"time", "wall_seconds", "file", "quotes", "sha256"}
"""Parts of names whose values are left out of digests: clocks, paths, sentences and hashes of files."""


def digest(value: Any) -> str:
    """Hash the representation of a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def digest_arrays(arrays: Iterable[Any]) -> str:
    """Hash the types, shapes and values of arrays or tensors, independently of their order."""
    return digest(sorted(digest((array.dtype.str, array.shape, array.tobytes())) for array in map(np.asarray, arrays)))


def digest_names(value: Any) -> str:
    """Hash nested values with their paths, independently of their order."""
    return digest(sorted((name, repr(leaf)) for name, leaf in flattened(value)))


def flattened(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf of nested values with its path."""
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flattened(entry, f"{path}/{key}")
    elif not LEFT_OUT & set(path.split("/")):
        yield path, value


def train(folder: Path, overrides: list[str]) -> dict[str, str]:
    """Train an agent, and return digests of its weights, metrics and summary."""
    start(compose(f"run_dir={folder}", *overrides)).train()
    tensors, _ = load_checkpoint(step_checkpoints(folder / "checkpoints")[-1])
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    return {
        "weights": digest_arrays(tensors.values()),
        "metrics": digest([digest_names(json.loads(line)) for line in lines]),
        "summary": digest_names(json.loads((folder / "summary.json").read_text("utf-8"))),
    }


def study(folder: Path, overrides: list[str]) -> dict[str, str]:
    """Run a study, and return digests of its arrays (as weights) and of its numbers (as metrics)."""
    register(study_schemas())
    cfg = compose(f"out={folder}", *overrides, name="study")
    assert not run_studies([cfg.study], cfg), "runs of the study have failed"
    records = [json.loads(path.read_text("utf-8")) for path in folder_of(cfg).glob("runs/*/result.json")]
    stored = [np.load(path) for path in folder_of(cfg).glob("runs/*/result.npz")]
    arrays = [file[name] for file in stored for name in file.files if not LEFT_OUT & set(name.split("/"))]
    return {
        "weights": digest_arrays(arrays),
        "metrics": digest_names({record["name"]: record["numbers"] for record in records}),
    }


def evaluate(folder: Path, overrides: list[str]) -> dict[str, str]:
    """Evaluate the shipped agent with a private bit, and return digests of its weights and results."""
    cfg = compose(*overrides, name="evaluate")
    agent = Agent.load("generalist-bit", device=cfg.device)
    results = agent.evaluate(levels_to_evaluate(agent, cfg.levels), memory_gib=cfg.memory_gib)
    return {"weights": digest_arrays(agent.policy.state_dict().values()), "summary": digest_names(results.record())}


def this_machine() -> dict[str, str]:
    """Return the version of torch and the kind of processor, on which the last bits of results depend."""
    return {"torch": torch.__version__, "processor": f"{processor()}, {torch.backends.cpu.get_cpu_capability()}"}


def main() -> None:
    """Run the selected runs, and exit with 1 if any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help=f"write the results to {GOLDEN.name}")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), metavar="NAME", help="do these runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sys.exit(check(arguments.only, records=arguments.record))


def check(names: Iterable[str], *, records: bool) -> bool:
    """Run these runs, print or record their differences, and return whether anything differs."""
    machine = this_machine()
    golden: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {"runs": {}}
    same_machine = records or machine == {what: golden[what] for what in machine}
    if not same_machine:
        print(f"digests hold for {golden['processor']}, torch {golden['torch']} alone; here numbers are compared")
    if records:
        golden = machine | {"runs": {name: golden["runs"].get(name, {}) for name in RUNS}}
    differ = False
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            command, *overrides = RUNS[name].split()
            results: dict[str, Any] = {}
            if command in BEGINNINGS:
                results["numbers"] = BEGINNINGS[command](Path(folder, f"{name}_begun"), overrides)
            if same_machine:
                results |= WHOLE[command](Path(folder, name), overrides)
            if records:
                golden["runs"][name] = results
            recorded = golden["runs"].get(name, {})
            differing = [what for what in results if what != "numbers" and results[what] != recorded.get(what)]
            if "numbers" in results:
                differing += differences(results["numbers"], recorded.get("numbers", []))
            print(f"{name:26} {', '.join(differing)} DIFFER" if differing else f"{name:26} same", flush=True)
            differ |= bool(differing)
    if records:
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
    return differ


WHOLE = {"train": train, "study": study, "evaluate": evaluate}
BEGINNINGS = {"train": beginning, "evaluate": means}


if __name__ == "__main__":
    main()
