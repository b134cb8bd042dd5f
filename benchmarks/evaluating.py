"""Exact evaluation of a policy on a level set, beside the passes of its network alone and beside sampling."""

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
OURS, ALONE, SAMPLED = "exact evaluation", "the network's passes alone", "sampling"
WANTED, WANTED_UNIFORM = 2.0, 0.05
AT_ONCE = 8_192
"""Inputs of a pass: so many fit into a processor's caches."""
PRECISION, GROUP = 0.01, 16
REWARD = Reward(lam=0.9, gamma=0.95, episodes_per_meta=64, counting="averaged")


def sampling(evaluator: ExactEvaluator, policy: Policy) -> tuple[Work, int]:
    """As much of the sampling as one batch is: what amounts to 1 finds P(L = l) = 1/2 to within ``PRECISION``."""
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
    reachable, see = evaluator.unrolled(range(len(levels))), evaluator.observe
    bench.table(
        f"{len(levels)} random levels, {len(reachable):,} reachable states, uniform policy",
        "Beside it the states are unrolled from the levels anew, which an evaluator does once.",
    )
    works = {
        "states known": once(lambda: reachable.evaluate(uniform_policy, 0.95)),
        "states unrolled anew": once(lambda: Reachable(evaluator.mdp).evaluate(uniform_policy, 0.95)),
    }
    bench.compare(bench.measure(works), SECONDS, wanted=dict.fromkeys(works, WANTED_UNIFORM))
    size = NetworkSize(bench.size(256, 16), activation="silu")
    policy = Policy(see.shape, NUM_ACTIONS, size, scale=see.scale)
    inputs = observe_states(see, reachable.distinct(see_time=see.see_time)[0]).split(AT_ONCE)
    sample, needed = sampling(evaluator, policy)
    bench.table(
        f"The same, a {size.depth} × {size.width} MLP",
        f"The passes are on observations that are there already, {AT_ONCE:,} at a time. Sampling is reckoned from one "
        f"batch: {needed:,} mini-episodes a level tell a probability of 1/2 with a standard error of {PRECISION}.",
    )
    works = {OURS: once(lambda: evaluator.evaluate(policy)), ALONE: once(lambda: passes(policy, inputs))}
    times = bench.measure(works | {SAMPLED: sample})
    bench.compare(times, SECONDS, baselines=[ALONE, SAMPLED])
    bench.figure("evaluation ÷ passes alone", TIMES, times[OURS].over(times[ALONE]), wanted=WANTED)
