"""Time and memory as one number grows and all others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.measuring import Bench, Point, Work, once
from benchmarks.pipelines import Ours, setting_of
from benchmarks.solving import compile_and_solve
from benchmarks.stepping import tensor_steps, torchrl_steps
from benchmarks.tables import train_tables
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Level, world

TITLE = "Cost as it grows"
LEVELS = 200
BASE = GeneratorConfig(coins=(3, 3))
SEED = 2


def on_levels(bench: Bench, at: int, levels: Sequence[Level]) -> Point:
    """What is done once with a level set, and what is done with each policy."""
    mdp = compile_levels(levels, bench.device)
    reachable = Reachable(mdp)
    works = {
        "compile and solve": once(partial(compile_and_solve, levels, bench.device)),
        "unroll the states": once(partial(Reachable, mdp)),
        "evaluate": once(partial(reachable.evaluate, uniform_policy)),
    }
    return Point(at, works, len(reachable))


def on_configs(bench: Bench, configs: Mapping[int, GeneratorConfig]) -> list[Point]:
    count = bench.size(LEVELS, 5)
    return [on_levels(bench, at, generate(config, count, seed=SEED)) for at, config in configs.items()]


def collected(bench: Bench, episodes_per_meta: int) -> Work:
    """Meta-episodes in 64 slots, one mini-episode after the other, with the default network."""
    setting = setting_of("ppo")
    reward = replace(setting.reward, counting="sequential", episodes_per_meta=episodes_per_meta)
    mdp = compile_levels(generate(BASE, bench.size(LEVELS, 5), seed=SEED), bench.device)
    ours = Ours(mdp, replace(setting, envs=64, group=1, reward=reward))
    return once(lambda: ours.collect())


def run(bench: Bench) -> None:
    few = 2 if bench.quick else None
    count = bench.size(LEVELS, 5)
    example = compile_levels([world("example")], bench.device)
    random = compile_levels(generate(BASE, count, seed=SEED), bench.device)
    bench.growth(
        "slots",
        "Seconds of a step of all slots: with the `vector` observation on `example`, with `grid` on random levels.",
        [
            Point(
                slots,
                {
                    "tensor function, vector": once(tensor_steps(example, slots, "vector")),
                    "TorchRL + DReST, vector": once(torchrl_steps(example, slots, "vector")),
                    "TorchRL + DReST, grid": once(torchrl_steps(random, slots, "grid")),
                },
            )
            for slots in (256, 1_024, 4_096, 16_384, 65_536)[:few]
        ],
    )
    counts = (10, 100, 1_000, 10_000)[:few]
    levels = generate(BASE, max(counts), seed=SEED)
    bench.growth(
        "levels",
        "Random 5 × 5 levels of 3 coins and a button. A uniform policy is evaluated.",
        [on_levels(bench, count, levels[:count]) for count in counts],
    )
    bench.growth(
        "rows and columns of the map",
        f"{count} levels of 3 coins and a button.",
        on_configs(bench, {side: replace(BASE, height=side, width=side) for side in (4, 6, 8, 12, 16)[:few]}),
    )
    bench.growth(
        "coins",
        f"{count} levels of 5 × 5 with a button.",
        on_configs(bench, {coins: replace(BASE, coins=(coins, coins)) for coins in (1, 2, 4, 8, 10)[:few]}),
    )
    bench.growth(
        "buttons",
        f"{count} levels of 5 × 5 with 3 coins.",
        on_configs(
            bench,
            {number: replace(BASE, buttons=(number, number), lengths=(2, 2**number)) for number in (1, 2, 3)[:few]},
        ),
    )
    bench.growth(
        "E",
        "Seconds of collecting one meta-episode in each of 64 slots, one mini-episode after the other.",
        [Point(episodes, {"collect a batch": collected(bench, episodes)}) for episodes in (1, 4, 16, 64)[:few]],
    )
    if bench.on_cpu:
        episodes = bench.size(4_096, 16)
        bench.growth(
            "seeds, of tables",
            f"Agents with tables, {episodes:,} mini-episodes each on `example`, in one call.",
            [
                Point(agents, {"train tables": once(partial(train_tables, agents, episodes))})
                for agents in (1, 4, 16, 64, 256)[:few]
            ],
        )
