"""A wrong preliminary reward: what is left of neutrality if the coins' values are wrong, or if the goal is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from omegaconf import MISSING, OmegaConf

from drest_torch.envs.exact.level_set import ACTUAL, BEST_OF, VALUES
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.studies.goals import parse
from drest_torch.studies.misspecified import analysis, runs
from drest_torch.studies.misspecified.analysis import Kind, Row
from drest_torch.studies.misspecified.features import FEATURES
from drest_torch.studies.misspecified.tables import kinds_table, square_table, worlds_table
from drest_torch.studies.misspecified.worlds import CLIMB
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "A wrong preliminary reward"
QUESTION = (
    "Section 8.4 expects neutrality to be a second line of defence: an agent that wants the wrong coins still does not "
    "care how long it runs. Does neutrality survive wrong coin values, and goals that generalise wrongly?"
)


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/misspecified.yaml`."""

    worlds: list[str] = MISSING
    pays: list[str] = limited(choices=[name for name in VALUES if name != ACTUAL])
    divisors: list[str] = limited(choices=BEST_OF)
    climb: dict[str, Any] = MISSING
    commands: dict[str, str] | None = MISSING
    seeds: int = limited(at_least=1)
    arguments: str = MISSING
    agents: dict[str, dict[str, Any]] = MISSING
    levels: dict[str, Any] = MISSING
    chosen: list[str] | None = MISSING
    overrides: list[str] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return the runs: those in worlds first, then seed by seed."""
    by_kind = list(trained(cfg).values())
    in_turn = [several[seed] for seed in range(cfg.seeds) for several in by_kind if seed < len(several)]
    return [*in_worlds(cfg), *in_turn]


def in_worlds(cfg: Config) -> list[Job]:
    """Return the runs in worlds: all worlds side by side, then one by one, with arguments of `drest train`."""
    climb: Any = OmegaConf.to_container(OmegaConf.create(cfg.climb))
    wrong = [(pays, divisor) for pays in cfg.pays for divisor in cfg.divisors]
    planned = [
        Job(f"worlds-{pays}-{divisor}", CLIMB, {"worlds": list(cfg.worlds), "pays": pays, "best_of": divisor} | climb)
        for pays, divisor in wrong
    ]
    for title, arguments in (cfg.commands or {}).items():
        options, values = parse(arguments.split())
        (job,) = training_jobs(title, [0], values, **options)
        for pays, divisor in wrong:
            reward = job.spec["config"]["reward"] | {"pays": pays, "best_of": divisor}
            spec = {"config": job.spec["config"] | {"reward": reward}}
            planned.append(replace(job, name=f"{title}-{pays}-{divisor}", spec=spec))
    return planned


def trained(cfg: Config) -> dict[str, list[Job]]:
    """Return the training runs of each kind of agents."""
    for title in cfg.chosen or ():
        if title not in cfg.agents:
            raise ConfigError(f"study.chosen with '{title}'; expected some of {', '.join(cfg.agents)}")
    planned = {}
    levels: Any = OmegaConf.to_container(OmegaConf.create(cfg.levels))
    for title, own in cfg.agents.items():
        if own["feature"] not in FEATURES:
            raise ConfigError(
                f"study.agents: '{title}' with feature={own['feature']}; expected one of {', '.join(FEATURES)}"
            )
        if cfg.chosen is None or title in cfg.chosen:
            options, values = parse([*cfg.arguments.split(), *own["arguments"].split(), *cfg.overrides])
            further = {"feature": own["feature"], "levels": levels}
            seeds = range(min(cfg.seeds, own.get("seeds", cfg.seeds)))
            several = training_jobs(title, seeds, values, **options)
            planned[title] = [replace(job, runner=runs.TRAIN, spec=job.spec | further) for job in several]
    return planned


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what becomes of neutrality in both ways to a wrong goal."""
    rows = [row for job, result in finished.of(in_worlds(cfg)) for row in Row.each(job, result)]
    kinds = [
        Kind(title, cfg.agents[title]["feature"], several[0].spec["config"]["reward"]["lam"] < 1, arrays)
        for title, several in trained(cfg).items()
        if (arrays := [result.arrays for _, result in finished.of(several)])
    ]
    findings = {
        "worlds": [row.findings() for row in rows],
        "apart": {divisor: analysis.apart(rows, divisor) for divisor in cfg.divisors},
        "kinds": {kind.title: kind.findings() for kind in kinds},
        "close": analysis.CLOSE,
    }
    sampled = [row.error for row in rows if row.method == analysis.SAMPLED]
    names = {"rows": rows, "kinds": kinds, "sampled": max(sampled, default=None), **analysis.limits()}
    tables = {"worlds": worlds_table(rows), "kinds": kinds_table(kinds), "square": square_table(kinds)}
    results = Results("misspecified", "pays", "divisor")
    for row in rows:
        row.tidy(results)
    for kind in kinds:
        kind.tidy(results)
    return Analysis(results.table(), findings, tables, _quotes(rows, kinds), names, (rows, kinds), exact=True)


def _quotes(rows: list[Row], kinds: list[Kind]) -> list[Quote]:
    quotes = []
    exact = [row.error for row in rows if row.method != analysis.SAMPLED]
    if exact:
        close = sum(error <= analysis.CLOSE for error in exact)
        text = f"within {analysis.CLOSE:g} of the closed form in {close} of {len(exact)} runs"
        quotes.append(Quote("wrong coin values, exact gradients: P(longer)", "", text))
    for kind in kinds:
        lost = kind.count("lost")
        text = f"{lost} of {kind.seeds} lose the goal, {kind.count('lost', neutral=True)} of them are neutral"
        quotes.append(Quote(f"near coins are worth more in training only; {kind.title}", "", text))
    return quotes
