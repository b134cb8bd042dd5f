"""The runs of the study of generalization, by its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import PRETRAINED, step_checkpoints
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import merge_arguments, run_config, training_jobs
from drest_torch.limits import limited
from drest_torch.play.level_sets import generator_config
from drest_torch.studies.engine import StudyConfig, place, value
from drest_torch.studies.generalization import evaluation
from drest_torch.studies.generalization.evaluation import EVALUATED_FILE, TRAIN_FILE, hash_file
from drest_torch.studies.shared import check_names

PARTS = ("curve", "networks", "kinds", "long", "follow_up", "sizes")
SHORT = "short"
"""The part of the keys of runs of the first three parts, which share agents."""
PPO, SYMMETRIC, FOLLOWUP_LIKE = "ppo", "symmetric", "followup_like"


@dataclass
class Sizes:
    """The maps of several sizes on which pretrained agents of the project are evaluated."""

    agents: list[str] = value(["generalist", "generalist-buttons"])
    sides: list[int] = value([5, 6, 7, 8, 9, 12, 16])
    """Rows and columns of the maps."""
    levels: int = limited(at_least=2, default=200)
    """Generated levels of each size."""
    seed: int = 11
    """The seed of the generated levels."""
    exact_to: int = 9
    """Maps of at most this side are evaluated exactly, larger ones by sampling."""
    sampled: int = limited(at_least=1, default=256)
    """Mini-episodes on each level that is evaluated by sampling."""


RATES = {"convolutional": 0.05}
"""The learning rate of Muon in published short runs, where the recipe of a network has changed since."""


@dataclass
class Config(StudyConfig):
    parts: list[str] = value([*PARTS])
    """The chosen parts of the study."""
    seeds: int = limited(at_least=1, default=5)
    """Agents of each kind; their seeds are 0, 1, 2, …"""
    run: dict[str, Any] = value(
        {
            "env_steps": 2_000_000,
            "evaluations": 10,
            "levels": {"test": 100, "selection": 50},
            "algo": {"muon_matrix": "block"},
        }
    )
    """Values of the runs of `curve`, `networks` and `kinds`."""
    numbers: dict[str, list[int]] = value(
        {
            PPO: [1, 4, 16, 64, 256, 1024, 4096, 16384],
            **{algo: [1, 16, 256, 4096, 16384] for algo in ("a2c", "reinforce", "generalist")},
        }
    )
    """Numbers of training levels in `curve`, by algorithm."""
    number: int = limited(at_least=1, default=4096)
    """Training levels of `networks` and `kinds`."""
    networks: list[str] = value(["mlp", SYMMETRIC, "convolutional"])
    kinds: list[str] = value([FOLLOWUP_LIKE, "paper_like", "hard", "three_lengths"])
    """Sets of generated levels."""
    long_seeds: int = limited(at_least=1, default=5)
    """Agents of each kind in `long`. Each takes up to 25 minutes."""
    long: dict[str, str] = value({})
    """Arguments of `drest train` in `long`, by title (`generalization.yaml`)."""
    follow_up: dict[str, str] = value({})
    """Arguments of `drest train` in `follow_up`, by title."""
    overrides: list[str] = value([])
    """Arguments that override those of all training runs; the values of ``run`` override these."""
    sizes: Sizes = value(Sizes())
    follow_up_levels: str | None = place()
    """A folder with the follow-up's train.jsonl and val.jsonl, which are not in the repository. null: the part
    `follow_up` is left out, and agents of `long` are not evaluated on val.jsonl."""


class Key(NamedTuple):
    """The key of a run; entries that its part does not use keep their defaults."""

    part: str
    agent: str
    """The algorithm of a short run, otherwise the title."""
    network: str = ""
    kind: str = ""
    """The set of levels."""
    levels: int = 0
    """Training levels."""
    seed: int = 0


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs of the chosen parts."""
    check_names("study.parts with", cfg.parts, PARTS)
    planned: dict[str, Callable[[Config], dict[Key, Job]]] = {
        "curve": lambda cfg: _short(
            cfg, [(algo, SYMMETRIC, FOLLOWUP_LIKE, k) for algo in cfg.numbers for k in cfg.numbers[algo]]
        ),
        "networks": lambda cfg: _short(cfg, [(PPO, network, FOLLOWUP_LIKE, cfg.number) for network in cfg.networks]),
        "kinds": lambda cfg: _short(cfg, [(PPO, SYMMETRIC, kind, cfg.number) for kind in cfg.kinds]),
        "long": lambda cfg: _evaluated(cfg, "long", cfg.long_seeds, cfg.long, _files(cfg, EVALUATED_FILE)),
        "follow_up": _follow_up,
        "sizes": _sizes,
    }
    runs: dict[Key, Job] = {}
    for part in cfg.parts:
        runs |= planned[part](cfg)
    return runs


def _short(cfg: Config, settings: Iterable[tuple[str, str, str, int]]) -> dict[Key, Job]:
    """Return the runs of these algorithms, networks, sets of levels and numbers of levels."""
    runs: dict[Key, Job] = {}
    for algo, network, kind, number in settings:
        values = {**cfg.run, "levels": {**cfg.run["levels"], "train": number}}
        if network in RATES:
            values["algo"] = {**values.get("algo", {}), "muon_lr": RATES[network]}
        options = {"algo": algo, "levels": kind, "policy": network}
        label = f"{algo}, {network}, {kind}, {number}"
        by_seed = training_jobs(label, range(cfg.seeds), values, cfg.overrides, **options)
        runs |= {Key(SHORT, algo, network, kind, number, seed): job for seed, job in enumerate(by_seed)}
    return runs


def _files(cfg: Config, *names: str) -> dict[str, str]:
    """Return the paths of the follow-up's files; none without their folder."""
    if cfg.follow_up_levels is None:
        return {}
    return {name: str(Path(cfg.follow_up_levels, name).resolve()) for name in names}


def _follow_up(cfg: Config) -> dict[Key, Job]:
    files = _files(cfg, TRAIN_FILE, EVALUATED_FILE)
    return _evaluated(cfg, "follow_up", cfg.seeds, cfg.follow_up, files) if files else {}


def _evaluated(cfg: Config, part: str, seeds: int, titles: Mapping[str, str], files: dict[str, str]) -> dict[Key, Job]:
    """Return training runs that end with an evaluation on several sets of levels and on these files."""
    further = {"sha256": {name: hash_file(Path(path)) for name, path in files.items()}}
    runs: dict[Key, Job] = {}
    for title, arguments in titles.items():
        merged = merge_arguments(["device=auto"], arguments.split(), cfg.overrides)
        for seed, job in enumerate(training_jobs(title, range(seeds), arguments=merged)):
            runner = f"{evaluation.__name__}:train"
            runs[Key(part, title, seed=seed)] = Job(f"{part}, {job.name}", runner, job.spec | further, files)
    return runs


def at_side(side: int) -> dict[str, Any]:
    """Return the values that replace those of `levels=large` for maps with this side. Times grow with the side."""
    return {"height": side, "width": side, "shutdown": [side // 2, 3 * side // 2], "delay": [2, side + 2]}


def _sizes(cfg: Config) -> dict[Key, Job]:
    """Return the evaluations of pretrained agents of the project."""
    large: Any = run_config(levels="large").levels
    merged: dict[str, Any] = {str(side): OmegaConf.merge(large.generator, at_side(side)) for side in cfg.sizes.sides}
    spec = cast("dict[str, Any]", OmegaConf.to_container(cast(Any, cfg.sizes)))
    for key in ("agents", "sides"):
        spec.pop(key)
    spec["generators"] = {side: generator_config(values, large.clock).to_record() for side, values in merged.items()}
    runs = {}
    for name in cfg.sizes.agents:
        agent = {"agent": name, "sha256": hash_file(step_checkpoints(PRETRAINED / name / "checkpoints")[-1])}
        runs[Key("sizes", name)] = Job(f"sizes, {name}", f"{evaluation.__name__}:by_size", spec | agent)
    return runs
