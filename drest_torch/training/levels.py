"""Which levels a run trains on, chooses its best checkpoint by, and reports on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from omegaconf import MISSING, OmegaConf

from algos.networks import requirements
from drest_torch.config.schema import Config, GeneratorConfig, LevelsConfig, check_values, device_of, learns_from
from drest_torch.errors import ConfigError
from drest_torch.files import write_whole
from envs.generation import splits
from envs.generation import stream as generator
from envs.levels import PAPER_WORLDS, WORLDS, Level, features_of, find_levels, read_levels, world
from envs.objects import FEATURES


@dataclass(frozen=True)
class Levels:
    train: list[Level]
    selection: list[Level]
    """For choosing the best checkpoint; never reported."""
    reported: dict[str, list[Level]]
    """Level sets that the summary reports on, by the name of the split; the training levels are one."""
    split: splits.Split | None = None
    """Where the generated ones come from, if any are."""

    def every(self) -> list[Level]:
        """All of them; those that are reported on once more."""
        return [*self.train, *self.selection, *(level for each in self.reported.values() for level in each)]


def load(cfg: Config) -> Levels:
    """The levels of a run, whose values are checked first: to generate levels takes seconds.

    Sets that must not share levels are checked, up to symmetry.
    """
    check_values(cfg)
    if learns_from(cfg) == "mini-episodes":
        slots_and_group(cfg)
    if learns_from(cfg) == "world":
        _check_table(cfg)
    split = _split(cfg.levels, device_of(cfg.device))
    if cfg.levels.fresh and split is None:
        raise ConfigError("levels.fresh=true, but there is no generator for these levels; use levels=generated, say")
    train, selection, heldout = (
        (named(cfg.levels), [], []) if split is None else (split.train, split.selection, split.test)
    )
    if cfg.heldout.path is not None:
        heldout = _on_clock(read_levels(cfg.heldout.path), cfg.levels.clock)
    if cfg.heldout.selection_path is not None:
        selection = _on_clock(read_levels(cfg.heldout.selection_path), cfg.levels.clock)
    if cfg.heldout.path is not None or cfg.heldout.selection_path is not None:
        for other in (heldout, selection):
            splits.assert_disjoint(train, other)
        splits.assert_disjoint(selection, heldout)
    reported = {"train": train}
    if heldout:
        reported["heldout"] = heldout
    trains_on_paper = cfg.levels.path is None and cfg.levels.name in (*WORLDS, "paper")
    if cfg.heldout.paper and not trains_on_paper and cfg.policy.observation != "vector":
        reported["paper"] = [world(name) for name in PAPER_WORLDS]
    return Levels(train, selection, reported, split)


def _split(levels: LevelsConfig, device: torch.device) -> splits.Split | None:
    """The generated levels, where it is these that are asked for."""
    if levels.path is not None or levels.generator is None:
        return None
    if levels.train == 0:
        raise ConfigError("levels.train=0 generated levels to train on; expected at least 1")
    return splits.make_split(
        generator_config(levels.generator, levels.clock),
        train=levels.train,
        selection=levels.selection,
        test=levels.heldout,
        seed=levels.split_seed,
        device=device,
    )


def write_config(cfg: Config, folder: Path) -> None:
    """Leave in the folder of a run every value that it has."""
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(cfg), resolve=True).encode())


def write_split(levels: Levels, cfg: Config, folder: Path) -> None:
    """Leave in the folder of a run what its generated levels can be made again from, and known by."""
    if levels.split is not None:
        splits.write_split(folder / "split.json", levels.split, preset=cfg.levels.name)


def check_split(levels: Levels, folder: Path) -> None:
    """Refuse to go on with a run whose generated levels have come out otherwise than when it was started."""
    path = folder / "split.json"
    if levels.split is not None and path.is_file():
        splits.check_split(path, levels.split)


def named(chosen: LevelsConfig) -> list[Level]:
    """The levels of a file, the paper's by name, or those that a generated set holds out."""
    if chosen.path is not None:
        return _on_clock(read_levels(chosen.path, x=chosen.x), chosen.clock)
    if chosen.generator is None:
        return _on_clock(find_levels(chosen.name, x=chosen.x), chosen.clock)
    if chosen.heldout == 0:
        raise ConfigError("levels.heldout=0 generated levels to evaluate on; expected at least 1")
    config = generator_config(chosen.generator, chosen.clock)
    return splits.make_split(config, train=0, selection=0, test=chosen.heldout, seed=chosen.split_seed).test


def generator_config(cfg: GeneratorConfig, clock: str | None) -> generator.GeneratorConfig:
    """As the generator has it. What an older run does not say is as it was then, which are the defaults there."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg))
    stated = {name: value for name, value in values.items() if value != MISSING}
    return generator.GeneratorConfig(**stated, clock=clock or "steps")


def _on_clock(levels: list[Level], clock: str | None) -> list[Level]:
    return levels if clock is None else [level.with_clock(clock) for level in levels]


def check(cfg: Config, levels: Levels) -> None:
    """Refuse combinations that cannot work, with the numbers that do not fit."""
    if cfg.policy.observation == "vector" and len(levels.train) > 1:
        raise ConfigError(
            f"policy.observation=vector shows 1 level and there are {len(levels.train)} to train on; "
            "use policy.observation=centred or grid"
        )
    if cfg.policy.observation == "vector":
        _check_vector(levels)
        for key in ("levels.symmetries", "levels.fresh"):
            if OmegaConf.select(cast(Any, cfg), key):
                raise ConfigError(
                    f"{key}=true, but the vector observation shows one level, and no map; "
                    "use policy.observation=centred"
                )
    _check_policy(cfg)
    _check_lockstep(cfg, levels)
    for name, others in {**levels.reported, "selection": levels.selection}.items():
        for feature in features_of(levels.train) ^ features_of(others) if others else ():
            raise ConfigError(
                f"{FEATURES[feature]} are in one of the training and the {name} levels and not in the other; the "
                "policy is shown them or is not, so have them in both, or leave these levels out "
                "(heldout.paper=false for the paper's)"
            )


def _check_policy(cfg: Config) -> None:
    policy, required = cfg.policy, requirements(cfg.policy.network)
    if required.observations and policy.observation not in required.observations:
        raise ConfigError(
            f"policy.network={policy.network} with policy.observation={policy.observation}, {required.because}; "
            f"use policy.observation={required.observations[0]}"
        )
    if policy.width % required.width_multiple:
        raise ConfigError(
            f"policy.network={policy.network} with policy.width={policy.width}; "
            f"use a multiple of {required.width_multiple}"
        )
    if policy.depth < required.min_depth:
        raise ConfigError(
            f"policy.network={policy.network} with policy.depth={policy.depth}; use at least {required.min_depth}"
        )
    if policy.noise and learns_from(cfg) == "world":
        raise ConfigError(
            f"algo={cfg.algo.name} has no noise to draw and policy.noise is {policy.noise}; set policy.noise=0"
        )
    if policy.noise and learns_from(cfg) == "levels" and policy.noise_kind != "bits":
        raise ConfigError(
            f"policy.noise_kind={policy.noise_kind} cannot be averaged over exactly, as algo={cfg.algo.name} does; "
            "use policy.noise_kind=bits"
        )


def in_lockstep(cfg: Config) -> bool:
    """Whether all slots are played in every tick."""
    return cfg.device != "cpu" or cfg.agents > 1 if cfg.lockstep is None else cfg.lockstep


def _check_lockstep(cfg: Config, levels: Levels) -> None:
    """Shapes that never change: where there are none, and what needs them."""
    asked = {
        f"agents={cfg.agents}": cfg.agents > 1,
        "compile=true": cfg.compile,
        "lockstep=true": bool(cfg.lockstep),
    }
    needs = next((words for words, is_asked in asked.items() if is_asked), None)
    if needs and learns_from(cfg) != "mini-episodes":
        raise ConfigError(
            f"{needs} is for algorithms that learn from batches of mini-episodes; algo={cfg.algo.name} does not"
        )
    if needs and not in_lockstep(cfg):
        raise ConfigError(f"{needs} needs shapes that never change; set lockstep=true")
    if cfg.graphs and not (cfg.compile and cfg.device != "cpu"):
        raise ConfigError("graphs=true is for compile=true with device=cuda; set graphs=false")
    moves = next((level for level in levels.train if level.clock == "moves"), None)
    if moves is not None and learns_from(cfg) == "mini-episodes" and in_lockstep(cfg):
        raise ConfigError(
            f"{moves.place} is on the clock of moves, where a mini-episode has no last tick, and all slots are to be "
            "played in lockstep; use lockstep=false with agents=1, or levels.clock=steps"
        )
    if cfg.agents == 1:
        return
    if getattr(cfg.algo, "muon_lr", None) is not None:
        raise ConfigError(f"agents={cfg.agents} with algo.muon_lr, which is for one agent; set algo.muon_lr=null")
    for key in ("levels.fresh", "levels.symmetries"):
        if OmegaConf.select(cast(Any, cfg), key):
            raise ConfigError(f"agents={cfg.agents} train on one set of levels; set {key}=false")


def _check_vector(levels: Levels) -> None:
    """The vector observation is of one map with its own coins and buttons."""
    trained = levels.train[0]
    for name, others in {**levels.reported, "selection": levels.selection}.items():
        for level in others:
            sizes = [(each.height, each.width, each.num_objects) for each in (trained, level)]
            if len(others) > 1 or sizes[0] != sizes[1]:
                raise ConfigError(
                    f"policy.observation=vector shows one map, and the {name} levels are {len(others)}, {level.place} "
                    f"among them; give a single level with the size and as many coins and buttons as {trained.place}"
                )


def _check_table(cfg: Any) -> None:
    """A table has rows for what the vector observation shows, and learns after each mini-episode."""
    for key, needed in {"policy.observation": "vector", "reward.counting": "sequential", "device": "cpu"}.items():
        if (value := OmegaConf.select(cfg, key)) != needed:
            raise ConfigError(f"{key}={value}, but algo={cfg.algo.name} needs {key}={needed}")
    if cfg.reward.episodes_at_start is not None:
        raise ConfigError(f"reward.episodes_at_start, which algo={cfg.algo.name} does not have; set it to null")
    for key in ("lr", "lr_end"):
        if getattr(cfg.algo, key) == 0:
            raise ConfigError(f"algo.{key}=0, which an exponential schedule cannot reach; use a small number")


def slots_and_group(cfg: Config) -> tuple[int, int]:
    """How many slots play a batch, and how many of them share a level."""
    episodes, reward = cfg.algo.episodes, cfg.reward
    if reward.counting == "sequential" and reward.episodes_at_start is not None:
        raise ConfigError(
            "reward.episodes_at_start with reward.counting=sequential, where a meta-episode is as long as it is; "
            "use reward.counting=averaged or reward.episodes_at_start=null"
        )
    if reward.counting == "sequential":
        if episodes % reward.episodes_per_meta:
            raise ConfigError(
                f"algo.episodes={episodes} is no multiple of reward.episodes_per_meta={reward.episodes_per_meta}; "
                "with sequential counting a batch is whole meta-episodes"
            )
        return episodes // reward.episodes_per_meta, 1
    if cfg.algo.credit == "meta":
        raise ConfigError(
            "algo.credit=meta goes from one mini-episode to the next, and with reward.counting=averaged they are "
            "played side by side; use reward.counting=sequential or algo.credit=mini"
        )
    if reward.group < 2 or episodes % reward.group:
        raise ConfigError(
            f"reward.group={reward.group} does not divide algo.episodes={episodes}; "
            "with averaged counting a batch is whole groups of at least 2"
        )
    return episodes, reward.group
