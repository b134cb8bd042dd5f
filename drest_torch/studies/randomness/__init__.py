"""Randomness: the sources of randomness in the choice of a length, and its entropy given the agent's knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from omegaconf import OmegaConf

from drest_torch import theory
from drest_torch.choices.memory import LENGTHS, alternating, best_with_memory
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, Dots, curve_figure, curves_of, dot_figure
from drest_torch.report.tables import mean_range, num, table_of
from drest_torch.studies import choosers
from drest_torch.studies.choosers import COSTS, LotteryAgents, jobs_of
from drest_torch.studies.engine import Done, StudyConfig, value
from drest_torch.studies.randomness.histories import OBSERVATIONS, Pairs, pair_jobs
from drest_torch.studies.randomness.memory import AVERAGED, COUNTS, COUNTS_AVERAGED, FORGETS, MemoryAgents, memory_jobs
from drest_torch.studies.shared import check_names

PARTS = ("bits", "pairs", "memory")
PROJECT_BIT = "generalist-bit"
NO_BIT, BIT, UNPAID = "no bit", "a bit", "a bit, pays nothing"
REMEDIES = ("sampled again", "shown first", "hidden at times")
"""Kinds of agents that do not always observe their bit."""
STATE = "state"
SETS = {"paper": "the paper's worlds", "test": "unseen levels"}
RANDOM = 0.98
"""The smallest entropy given its memory of an agent that counts as random."""
LARGE = 0.05
"""The share of choices above which an agent counts as paying, and the smallest price κ considered."""
PRICES = (0.01, LARGE, 0.2, 0.5)
"""Prices κ of the table."""
MOST_USEFULNESS, MOST_NEUTRALITY = 0.03, 0.07
"""The largest acceptable costs of remedies."""


@dataclass
class Config(StudyConfig):
    parts: list[str] = value([*PARTS])
    """The chosen parts of the study."""
    seeds: int = limited(at_least=1, default=5)
    """Agents of each kind that is trained."""
    existing: dict[str, list[str]] = value({name: [name] for name in ("generalist", PROJECT_BIT)})
    """Existing agents by name: pretrained agents of the project, or folders of runs."""
    remedies: dict[str, Any] = value({})
    """The training of agents with a private bit and with remedies (`randomness.yaml`)."""
    sees: list[str] = value([*OBSERVATIONS])
    """Observations of agents in pairs of levels that share a state."""
    pairs: Pairs = value(Pairs())
    """The pairs, and the training on them."""
    memory: MemoryAgents = value(MemoryAgents())
    """Agents with and without a memory of earlier mini-episodes."""


SMALL = ["env_steps=8000", "policy.width=8", "policy.depth=2"]
QUICK = {
    "seeds": 1,
    "existing": {"generalist": []},
    "remedies": {
        "chosen": [BIT, "sampled again", UNPAID],
        "levels": {"values": {"levels": {"train": 60, "selection": 5, "test": 10}}},
        "overrides": SMALL,
    },
    "pairs": {"pairs": 2, "updates": 40},
    "memory": {"episodes": 8, "common": {"updates": 50}},
}


class Key(NamedTuple):
    part: str
    agent: str
    seed: int


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs of the chosen parts, ordered by seed, so that an interrupted study has runs of every kind."""
    check_names("study.parts with", cfg.parts, PARTS)
    check_names("study.sees with", cfg.sees, OBSERVATIONS)
    planned: dict[str, Callable[[], dict[str, list[Job]]]] = {
        "bits": lambda: _existing(cfg) | jobs_of(_kinds(cfg), "remedies"),
        "pairs": lambda: pair_jobs(cfg.pairs, cfg.sees, cfg.seeds),
        "memory": lambda: memory_jobs(cfg.memory, cfg.seeds),
    }
    runs = {
        Key(part, agent, seed): replace(job, name=f"{part}, {agent}-{seed}")
        for part in cfg.parts
        for agent, jobs_by_seed in planned[part]().items()
        for seed, job in enumerate(jobs_by_seed)
    }
    return dict(sorted(runs.items(), key=lambda item: item[0].seed))


def _existing(cfg: Config) -> dict[str, list[Job]]:
    runner = f"{choosers.__name__}:shipped"
    return {name: [Job(name, runner, {"agent": agent}) for agent in agents] for name, agents in cfg.existing.items()}


def _kinds(cfg: Config) -> Any:
    return OmegaConf.merge(OmegaConf.structured(LotteryAgents), cfg.remedies, {"seeds": cfg.seeds})


# ---------------------------------------------------------------------------------------------- rows

MEASURES = {
    "bits": {
        "usefulness": "usefulness",
        "neutrality": "neutrality ÷ log2 k",
        "own": "given what it observes of the bit",
    },
    "pairs": {"usefulness": "usefulness", "neutrality": "neutrality (bits)", "score": "mean of both"},
    "memory": {
        "marginal": "entropy of the length (bits)",
        "conditional": "given its memory (bits)",
        "predictable": "predicted",
        "value": "return ÷ E",
    },
}
"""The measures of each part, and their labels."""
WAYS = ("later", "earlier")
COLUMNS = ["part", "agent", "seed", "set", *dict.fromkeys(name for names in MEASURES.values() for name in names)]
COLUMNS += ["tick", "choice", "way", "price", "paid", "bound", "pairs"]


def rows(cfg: Config, done: Done) -> pd.DataFrame:
    """Return several kinds of rows, by the column ``part``.

    - *bits*: means over a set of levels; ``own`` is the neutrality given everything that the agent observes of its bit.
    - *redrawn*: the bit is drawn again at a tick and differs; ``choice`` is the distance between the distributions of
      lengths with and without the change.
    - *paid*: how often the agent pays for a shift at a price, under the setting of the bit that pays more.
    - *pairs*: means over pairs of levels that share a state, and the bound for state-only policies.
    - *memory*: numbers of `drest_torch.choices.memory.MemoryMeasures`.
    - *optimum*: returns of a meta-episode in closed form, as ``value``.
    """
    measured = {"bits": _bits, "pairs": _pairs, "memory": lambda result: iter([{"part": "memory"} | result.numbers])}
    records = [
        {"agent": key.agent, "seed": key.seed} | row
        for key, result in done.items()
        for row in measured[key.part](result)
    ]
    if "memory" in cfg.parts:
        records += _optima(cfg.memory)
    return pd.DataFrame(records, columns=COLUMNS)


def _bits(result: Result) -> Iterator[dict[str, Any]]:
    arrays = result.arrays
    for title in SETS:
        if f"{title}/own" in arrays:
            means = {name: float(arrays[f"{title}/{name}"].mean()) for name in MEASURES["bits"]}
            yield {"part": "bits", "set": title, **means}
        for tick, choice in enumerate(arrays.get(f"{title}/reflip/choice", ())):
            useful = float(arrays[f"{title}/reflip/usefulness"][tick].mean())
            yield {"part": "redrawn", "set": title, "tick": tick, "choice": float(choice.mean()), "usefulness": useful}
    for way in WAYS:
        for price, paid in zip(COSTS, arrays[f"pays/{way}"].max(0), strict=True):
            yield {"part": "paid", "way": way, "price": price, "paid": float(paid)}


def _pairs(result: Result) -> Iterator[dict[str, Any]]:
    means = {name: float(result.arrays[name].mean()) for name in ("usefulness", "neutrality", "bound")}
    score = (means["usefulness"] + means["neutrality"]) / 2
    yield {"part": "pairs", "pairs": len(result.arrays["bound"]), "score": score, **means}


def _optima(kinds: MemoryAgents) -> list[dict[str, Any]]:
    best, most, least = best_with_memory(kinds.episodes, kinds.lam)
    returns = {
        f"one length {most} times, then the other {least} times": best,
        "neutral, without memory": theory.neutral_value(LENGTHS, kinds.episodes, kinds.lam),
        "lengths take turns": alternating(kinds.episodes, kinds.lam),
    }
    return [{"part": "optimum", "agent": name, "value": number} for name, number in returns.items()]


def of_part(rows: pd.DataFrame, part: str, *agents: str, title: str = "") -> pd.DataFrame:
    """Return the rows of a part and of a set of levels; raise LookupError if one of ``agents`` has no rows."""
    chosen = rows[rows.part == part]
    if title:
        chosen = chosen[chosen.set == title]
    if not agents:
        return chosen
    absent = {*agents} - {*chosen.agent}
    if absent:
        raise LookupError(f"no rows of {', '.join(sorted(absent))}")
    return chosen[chosen.agent.isin(agents)]


def mean_of(rows: pd.DataFrame, part: str, agent: str, measure: str, title: str = "") -> float:
    """Return the mean of a measure over the seeds of a kind of agents."""
    return float(of_part(rows, part, agent, title=title)[measure].mean())


# ------------------------------------------------------------------------------------------ claims


def bit_decides(rows: pd.DataFrame) -> bool:
    """Return whether the pretrained agent with a bit is neutral, but not given the bit."""
    existing = of_part(rows, "bits", PROJECT_BIT)
    return bool(existing.neutrality.min() >= 0.95 and existing.own.max() <= 0.05)


def bit_is_not_always_used(rows: pd.DataFrame) -> bool:
    """Return whether only some agents that see their bit in training let it decide."""
    given_bit = of_part(rows, "bits", BIT, title="test").own
    return bool(given_bit.min() < 0.5 and given_bit.max() > 0.9)


def least_given_bit(rows: pd.DataFrame, agent: str) -> float:
    """Return the lowest neutrality on unseen levels given what an agent observes of its bit, over seeds."""
    return float(of_part(rows, "bits", agent, title="test").own.min())


def one_remedy_works(rows: pd.DataFrame) -> bool:
    """Return whether the bit shown first is the only remedy that works with every seed."""
    again, first, hidden = (least_given_bit(rows, agent) for agent in REMEDIES)
    return first >= 0.9 and max(again, hidden) < 0.5


def remedies_cost_little(rows: pd.DataFrame) -> bool:
    """Return whether remedies cost little usefulness and neutrality, relative to agents that always see their bit."""
    means = of_part(rows, "bits", BIT, *REMEDIES, title="test").groupby("agent")[["usefulness", "neutrality"]].mean()
    cost = means.loc[BIT] - means.loc[[*REMEDIES]].min()
    return bool(cost.usefulness <= MOST_USEFULNESS and cost.neutrality <= MOST_NEUTRALITY)


def most_paid(rows: pd.DataFrame) -> float:
    """Return the largest share of choices in which agents trained to pay nothing pay a large price."""
    paid = of_part(rows, "paid", UNPAID)
    return float(paid[paid.price >= LARGE].paid.max())


def more_than_the_state(rows: pd.DataFrame) -> bool:
    """Return whether every agent that observes more than the state exceeds the bound for state-only policies."""
    pairs = of_part(rows, "pairs", *OBSERVATIONS)
    more = pairs[pairs.agent != STATE]
    return bool((more.score > more.bound).all())


def compensates(rows: pd.DataFrame) -> bool:
    """Return whether an agent that observes its counts seems random, but is random only in every second
    mini-episode."""
    agents = of_part(rows, "memory", COUNTS)
    return bool(agents.marginal.min() >= RANDOM and agents.conditional.between(0.4, 0.6).all())


def random_again(rows: pd.DataFrame, *agents: str) -> bool:
    """Return whether all agents of these kinds are random given their memory."""
    return bool(of_part(rows, "memory", *agents).conditional.min() >= RANDOM)


def memory_pays(rows: pd.DataFrame) -> bool:
    """Return whether the best meta-episode pays more than a neutral one, and taking turns pays less."""
    best, neutral, turns = of_part(rows, "optimum").value
    return bool(best > neutral > turns)


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Given its private bit, the agent that ships with one is deterministic: its neutrality on unseen levels is {bit}, "
    "and {bit_own} given the bit.": bit_decides,
    "Not every agent lets its bit decide: among the {seeds} agents trained here that always see it, neutrality given "
    "the bit lies between {own_least} and {own_most}.": bit_is_not_always_used,
    "Of three remedies one works with every seed, a bit that is shown at the first tick only: neutrality given the "
    "observed bit is at least {first_least}. A bit that is sampled again or hidden at times still decides for some "
    "agents, with as little as {again_least} and {hidden_least}.": one_remedy_works,
    "The remedies cost at most 0.03 of usefulness and 0.07 of neutrality.": remedies_cost_little,
    "Agents that are trained to pay nothing given their bit pay for no shift of the length in either direction.": (
        lambda rows: most_paid(rows) <= LARGE
    ),
    "On levels that share a state, state-only policies stay below their bound, {bound}.": lambda rows: (
        of_part(rows, "pairs", STATE).score.max() <= of_part(rows, "pairs", STATE).bound.min() + 1e-6
    ),
    "Everything that tells the two levels apart lets agents exceed that bound, with every seed: the start, the elapsed "
    "time, or a memory of the mini-episode.": more_than_the_state,
    "An agent that sees how often it chose each length compensates: the entropy of its lengths is {marginal} bits, and "
    "{conditional} bits given what it sees.": compensates,
    "A recurrent agent that forgets when a mini-episode ends is random.": partial(
        lambda rows: random_again(rows, FORGETS)
    ),
    "With averaged counting, agents that remember earlier mini-episodes are random.": lambda rows: random_again(
        rows, COUNTS_AVERAGED, AVERAGED
    ),
    "The best meta-episode of an agent with memory is {best}; taking turns pays less than a fair coin.": memory_pays,
}

NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "seeds": lambda rows: of_part(rows, "bits", BIT, title="test").seed.nunique(),
    "bit": lambda rows: num(mean_of(rows, "bits", PROJECT_BIT, "neutrality", "test")),
    "bit_own": lambda rows: num(mean_of(rows, "bits", PROJECT_BIT, "own", "test")),
    "own_least": lambda rows: num(least_given_bit(rows, BIT), 2),
    "again_least": lambda rows: num(least_given_bit(rows, REMEDIES[0]), 2),
    "first_least": lambda rows: num(least_given_bit(rows, REMEDIES[1]), 2),
    "hidden_least": lambda rows: num(least_given_bit(rows, REMEDIES[2]), 2),
    "own_most": lambda rows: num(of_part(rows, "bits", BIT, title="test").own.max(), 2),
    "bound": lambda rows: num(mean_of(rows, "pairs", STATE, "bound")),
    "pairs": lambda rows: int(of_part(rows, "pairs", STATE).pairs.iloc[0]),
    "marginal": lambda rows: num(mean_of(rows, "memory", COUNTS, "marginal"), 2),
    "conditional": lambda rows: num(mean_of(rows, "memory", COUNTS, "conditional"), 2),
    "best": lambda rows: of_part(rows, "optimum").agent.iloc[0],
    "random": lambda rows: f"{RANDOM:g}",
}


# ------------------------------------------------------------------------------ figures and tables


def measure_dots(rows: pd.DataFrame, labels: dict[str, str]) -> list[Dots]:
    """Return a series of dots for each measure, with a dot for each kind of agents."""
    series = []
    for measure, label in labels.items():
        groups = rows.groupby("agent", sort=False)[measure]
        values = {agent: RANGE.compute(numbers.to_numpy(float)) for agent, numbers in groups}
        series.append(Dots(label, values, RANGE))
    return series


def bits_plot(rows: pd.DataFrame) -> Plot:
    """Plot neutrality with an unknown bit, and given the observed bit."""
    labels = {"neutrality": "bit unknown", "own": "given what the agent observes of its bit"}
    dots = measure_dots(of_part(rows, "bits", title="test"), labels)
    return dot_figure(dots, title="Unseen levels", xlabel="neutrality ÷ log2 k", ylabel="agents")


def redrawn_plot(rows: pd.DataFrame) -> Plot:
    """Plot the change of an agent's choice if its bit is redrawn at a tick."""
    curves = curves_of(of_part(rows, "redrawn", title="test"), x="tick", y="choice", by="agent", spread=RANGE)
    return curve_figure(
        curves,
        title="Unseen levels: the bit is drawn again, and differs",
        xlabel="tick at which it is drawn again",
        ylabel="change of the choice of a length",
        caption="At 1 the agent obeys the new bit; at 0 it does not look at it any more.",
    )


def pairs_plot(rows: pd.DataFrame) -> Plot:
    """Plot the mean of usefulness and neutrality by observation, with the bound for state-only policies."""
    chosen = of_part(rows, "pairs")
    return dot_figure(
        measure_dots(chosen, {"score": "trained agents"}),
        title="Pairs of levels that share a state",
        xlabel="mean of usefulness and neutrality",
        ylabel="the policy sees",
        lines={float(chosen.bound.mean()): "bound for state-only policies"},
        limits=(0.8, 1.0),
    )


def memory_plot(rows: pd.DataFrame) -> Plot:
    """Plot the entropy of the length, and the entropy given the agent's memory."""
    labels = {"marginal": "to an observer", "conditional": "given its memory"}
    return dot_figure(
        measure_dots(of_part(rows, "memory"), labels),
        title="A choice between two lengths",
        xlabel="entropy of the length (bits)",
        ylabel="agents",
        lines={RANDOM: "random from here"},
    )


def agent_table(rows: pd.DataFrame, part: str, caption: str, note: str = "") -> Table:
    """Return the table of the measures of a part for each kind of agents."""
    chosen = of_part(rows, part)
    names = chosen.agent + ", " + chosen.set.map(SETS) if part == "bits" else chosen.agent
    cells = chosen.groupby(names, sort=False)[[*MEASURES[part]]].agg(mean_range).rename(columns=MEASURES[part])
    note = f"The mean, the lowest and the highest seed. {note}".strip()
    return table_of(cells, caption, first="the policy sees" if part == "pairs" else "agents", note=note)


def paid_table(rows: pd.DataFrame) -> Table:
    """Return the table of how often agents pay for a shift, under the setting of the bit that pays more."""
    chosen = of_part(rows, "paid")
    chosen = chosen[chosen.price.isin(PRICES)]
    names = chosen.agent + ": " + chosen.way.map("for {} shutdown".format)
    cells = chosen.assign(name=names, head=chosen.price.map("κ = {:g}".format))
    texts = cells.groupby(["name", "head"], sort=False).paid.agg(mean_range).unstack(sort=False)
    note = (
        "A dash: the agent does not see lotteries, or enters none. Of the two values of the bit, the one under which "
        "it pays more."
    )
    return table_of(texts, "How often a shift of the length is paid for", first="agents", note=note)


def optimum_table(rows: pd.DataFrame) -> Table:
    """Return the table of the returns of meta-episodes."""
    chosen = of_part(rows, "optimum").set_index("agent")
    cells = pd.DataFrame({"return of a meta-episode": chosen.value.map(num)})
    return table_of(cells, "What meta-episodes pay", first="choices", note="By a dynamic programme over the counts.")


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "bits": bits_plot,
    "redrawn": redrawn_plot,
    "pairs": pairs_plot,
    "memory": memory_plot,
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "bits": partial(agent_table, part="bits", caption="Neutrality, and what is left of it given the bit"),
    "paid": paid_table,
    "pairs": partial(agent_table, part="pairs", caption="Pairs of levels that share a state"),
    "memory": partial(
        agent_table,
        part="memory",
        caption="Agents that remember",
        note="Predicted: how often the likelier length, given the memory, is the one chosen.",
    ),
    "optimum": optimum_table,
}
