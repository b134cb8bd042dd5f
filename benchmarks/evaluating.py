"""Exact evaluation of a policy on a level set, beside the forward passes of its network and beside sampling."""

from __future__ import annotations

import torch

from benchmarks.collecting import passes
from benchmarks.measuring import SECONDS, TIMES, Bench, Work, once
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.evaluation.exact_evaluator import ExactEvaluator, observe_states
from drest_torch.play.gridworld_slots import Gridworlds
from drest_torch.reward import Reward

TITLE = "Exact evaluation"
OURS, ALONE, SAMPLED = "exact evaluation", "forward passes alone", "sampling"
TARGET = 2.0
"""The largest ratio to the forward passes."""
AT_ONCE = 8_192
"""Inputs of a forward pass, which fit into the caches of a processor."""
PRECISION, GROUP = 0.01, 16
REWARD = Reward(lam=0.9, gamma=0.95, episodes_per_meta=64, counting="averaged")


def sampling(evaluator: ExactEvaluator, policy: Policy) -> tuple[Work, int]:
    """Return work that samples a batch, and the mini-episodes a level for a standard error of ``PRECISION``.

    The work is counted as its share of these mini-episodes, at P(L = l) = 1/2.
    """
    needed = round(0.25 / PRECISION**2)
    slots, rng = GROUP * len(evaluator.levels), torch.Generator().manual_seed(0)
    worlds = Gridworlds.on(evaluator.mdp, evaluator.optima, evaluator.observe, slots=slots, group=GROUP)
    worlds.pay(REWARD)
    collector = worlds.collector(worlds.actor(policy))

    def work() -> float:
        collector.collect(rng)
        return GROUP / needed

    return work, needed


def run(bench: Bench) -> None:
    levels = generate(GeneratorConfig(coins=(2, 4)), bench.size(200, 8), seed=0)
    evaluator = ExactEvaluator(levels, "centred", reward=REWARD)
    reachable, observe = evaluator.unrolled(range(len(levels))), evaluator.observe
    bench.table(
        f"{len(levels)} random levels, {len(reachable):,} reachable states, uniform policy",
        "An evaluator unrolls the states of its levels once.",
    )
    works = {
        "states unrolled before": once(lambda: reachable.evaluate(uniform_policy, 0.95)),
        "with unrolling": once(lambda: Reachable(evaluator.mdp).evaluate(uniform_policy, 0.95)),
    }
    bench.compare(bench.measure(works), SECONDS)
    size = NetworkSize(bench.size(256, 16), activation="silu")
    policy = Policy(observe.shape, NUM_ACTIONS, size, scale=observe.scale)
    states, *_ = reachable.distinct(see_time=observe.see_time)
    inputs = observe_states(observe, states).split(AT_ONCE)
    sample, needed = sampling(evaluator, policy)
    bench.table(
        f"The same, a {size.depth} × {size.width} MLP",
        f"The forward passes are on observations in memory, {AT_ONCE:,} at a time. Sampling needs {needed:,} "
        f"mini-episodes a level for a standard error of {PRECISION} of a probability of 1/2; its time is extrapolated "
        "from one batch.",
    )
    works = {OURS: once(lambda: evaluator.evaluate(policy)), ALONE: once(lambda: passes(policy, inputs))}
    times = bench.measure(works | {SAMPLED: sample})
    bench.compare(times, SECONDS, baselines=[ALONE, SAMPLED])
    bench.figure(f"{OURS} ÷ {ALONE}", TIMES, times[OURS].over(times[ALONE]), target=TARGET)
    bench.ratio(times, OURS, SAMPLED)
