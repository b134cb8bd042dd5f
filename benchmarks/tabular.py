"""How fast tables are trained: Figure 3 of the paper, and all of its tabular experiments together.

    python -m benchmarks.tabular

Training and exact evaluation, as the studies do them, with as many threads as there are cores. The time to
compile is shown apart. The baseline is the same code without the compiler, timed on fewer mini-episodes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from numba import get_num_threads

from algos.table import new_state, play
from algos.tabular import Schedule, rules_for
from drest_torch.app import register
from drest_torch.config import config_folder
from drest_torch.studies.agents import train
from drest_torch.studies.base import all_studies, study_schemas
from drest_torch.tables import tabulate
from envs.levels import world
from envs.mdp import compile_levels
from envs.solver import solve

REPEATS = 5
WANTED_FIGURE_3, WANTED_ALL = 5.0, 120.0
FIGURE_3 = Schedule(lr=0.25, lr_end=0.01, epsilon=0.5, epsilon_end=0.001, decay_episodes=65536, random_episodes=0)
FIGURE_3.gradient, FIGURE_3.discount_bumps = "softmax", True
EXPERIMENTS: dict[str, tuple[list[str], Callable[[dict[str, Any]], bool]]] = {
    "example": (["study.agents=10"], lambda spec: spec["factors"] is None and spec["training"]["discount_bumps"]),
    "lopsided": ([], lambda spec: spec["training"]["lam"] in (0.9, 1.0) and spec["training"]["clip"] is None),
    "lambda_meta": ([], lambda spec: spec["training"]["clip"] is not None),
    "worlds": (["study.agents=10"], lambda spec: True),
}
"""The paper's tabular experiments: its own numbers of agents, and of the studies' runs those that it has."""


def main() -> None:
    compiled = _seconds(lambda: _train(20, 1))
    print(f"{get_num_threads()} threads; compiling or loading what was compiled: {compiled:.1f} s\n")
    times = sorted(_seconds(lambda: _train(20, 131_072)) for _ in range(REPEATS))
    episodes = 20 * 131_072
    print(f"Figure 3, 20 agents x 131,072 mini-episodes: slowest of {REPEATS} {times[-1]:.2f} s (wanted", end=" ")
    print(f"{WANTED_FIGURE_3:.0f}), median {times[REPEATS // 2]:.2f} s")
    print(f"  {episodes / times[REPEATS // 2] / 1e6:.2f} million mini-episodes a second")
    print(f"  the same code not compiled: {_not_compiled() / 1e3:.1f} thousand a second, one agent\n")
    print("agents   seconds   mini-episodes/s")
    for agents in (1, 2, 4, 16, 64, 256):
        seconds = _seconds(lambda agents=agents: _train(agents, 131_072))
        print(f"{agents:6}   {seconds:7.2f}   {agents * 131_072 / seconds / 1e6:7.2f} million")
    print("\nThe paper's tabular experiments with their exact evaluations, one after the other")
    total = 0.0
    for name, (overrides, in_paper) in EXPERIMENTS.items():
        seconds = _study(name, overrides, in_paper)
        total += seconds
        print(f"  {name:12} {seconds:6.1f} s")
    print(f"  {'together':12} {total:6.1f} s (wanted {WANTED_ALL:.0f})")


def _train(agents: int, episodes: int) -> None:
    """Half of the agents with the default reward, half with DReST, in one call."""
    mdp = compile_levels([world("example").with_clock("moves")])
    optima = solve(mdp, 0.95)
    worlds = tabulate(mdp, optima)
    divisor = optima.best_return[0].tolist()
    rules = rules_for(agents, FIGURE_3, divisor, lam=0.9, gamma=0.95, episodes_per_meta=64)
    rules.lam[: agents // 2] = 1.0
    rules.divisor[: agents // 2] = 1.0
    play(worlds, rules, new_state(np.arange(agents), worlds.target.shape[1], len(divisor)), episodes)


def _study(name: str, overrides: list[str], in_paper: Callable[[dict[str, Any]], bool]) -> float:
    """Seconds for those of a study's runs that the paper has, one after the other, without storing or drawing."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        cfg = compose("study", [f"study={name}", *overrides]).study
    specs = [job.spec for job in all_studies()[name].jobs(cfg) if job.spec["clock"] == "moves" and in_paper(job.spec)]
    return _seconds(lambda: [train(spec, Path()) for spec in specs])


def _not_compiled() -> float:
    """Mini-episodes a second of one agent without numba's compiler."""
    program = (
        "import time\nfrom benchmarks.tabular import _train\n_train(1, 10)\nbegan = time.perf_counter()\n"
        "_train(1, 2000)\nprint(2000 / (time.perf_counter() - began))"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    register(study_schemas())
    main()
