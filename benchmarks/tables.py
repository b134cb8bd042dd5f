"""Tables trained with the paper's REINFORCE: its Figure 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numba
import numpy as np
import torch

from benchmarks.measuring import SECONDS, Bench, Times, rate
from drest_torch.algos.tabular import Schedule, rules_for
from drest_torch.algos.tabular_kernel import new_state, play
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.play.world_table import tabulate
from drest_torch.reward import Reward

TITLE = "Training tables"
TARGET = 100.0
"""The smallest speed relative to code without the compiler."""
OURS, PLAIN = "compiled, all agents at once", "the same code without the compiler"
AGENTS, EPISODES = 20, 131_072
FIGURE_3 = Schedule(lr=0.25, lr_end=0.01, epsilon=0.5, epsilon_end=0.001, decay_episodes=65536, random_episodes=0)
FIGURE_3.gradient, FIGURE_3.discount_bumps = "softmax", True
THOUSAND_EPISODES = rate("thousand mini-episodes/s", 1e3)


def train_tables(agents: int, episodes: int) -> float:
    """Train half of the agents with the default reward and half with DReST; return the mini-episodes of all."""
    mdp = compile_levels([world("example").with_clock("moves")])
    optima = solve(mdp, 0.95)
    tables = tabulate(mdp, optima)
    best = optima.best_return[0].tolist()
    for count, lam, divisor in ((agents // 2, 1.0, [1.0] * len(best)), (agents - agents // 2, 0.9, best)):
        rules = rules_for(FIGURE_3, Reward(lam, 0.95, 64), divisor)
        play(tables, rules, new_state(np.arange(count), len(tables.target), len(best)), episodes)
    return agents * episodes


def not_compiled(repeats: int, episodes: int) -> Times:
    """Train an agent without numba's compiler in a new process; return its times."""
    program = (
        "import json, time\nfrom benchmarks.tables import train_tables\ntrain_tables(1, 10)\nseconds = []\n"
        f"for _ in range({repeats}):\n    began = time.perf_counter()\n    train_tables(1, {episodes})\n"
        "    seconds.append(time.perf_counter() - began)\nprint(json.dumps(seconds))"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return Times([float(episodes)] * repeats, json.loads(done.stdout), 0.0)


def run(bench: Bench) -> None:
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    episodes = bench.size(EPISODES, 64)
    bench.table(
        f"The paper's Figure 3: {AGENTS} agents × {episodes:,} mini-episodes",
        "The first call compiles, or loads a compiled version from its cache. Without the compiler a single agent "
        "plays fewer mini-episodes.",
    )
    times = bench.measure({OURS: lambda: train_tables(AGENTS, episodes)})
    times[PLAIN] = not_compiled(bench.repeats, bench.size(1_000, 10))
    bench.compare(times, THOUSAND_EPISODES, baselines=[PLAIN])
    bench.figure("the figure", SECONDS, times[OURS].times(1 / (AGENTS * episodes)))
    bench.ratio(times, OURS, PLAIN, target=TARGET)
