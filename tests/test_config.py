"""The yaml files and the schemas say the same, every key is explained and read, every choice is offered."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from algos import ALGORITHMS
from algos.networks import NETWORKS
from algos.networks.base import ACTIVATIONS
from drest_torch.cli import help_text
from drest_torch.config import schema as config
from drest_torch.config.schema import CHOICES, LIMITS, check_values, config_folder, schemas
from drest_torch.errors import ConfigError
from envs.generation import stream as generator
from envs.levels import WORLDS
from tests.helpers.configs import FOLDER, GROUPS, OPTIONS, RECIPES, composed, keys, names, ours, schema_of, unexplained

SOURCES = [
    path
    for package in ("drest_torch", "algos")
    for path in (FOLDER.parent / package).rglob("*.py")
    if path.stem != "config"
]
FILES = [
    FOLDER / "config.yaml",
    FOLDER / "evaluate.yaml",
    *(FOLDER / group / f"{name}.yaml" for group, name in OPTIONS),
]

KNOWN_AS = {
    "algo": {"algo", "config"},
    "reward": {"reward"},
    "levels": {"levels", "chosen"},
    "policy": {"policy"},
    "logger": {"logger", "config"},
    "heldout": {"heldout"},
    "": {"cfg"},
}
"""What the part of the configuration is called where the source reads it: `reward` for `cfg.reward.lam`."""


# ---------------------------------------------------------------------------------- yaml and schema


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_an_option_has_all_keys_of_its_schema_and_no_other(group: str, name: str) -> None:
    schema = schema_of(group, name)
    values = ours(FOLDER / group / f"{name}.yaml")
    some_are_enough = (group, name) in RECIPES or group == "logger"  # whose keys are W&B's but for one
    assert set(values) == names(schema) or (set(values) < names(schema) and some_are_enough)
    OmegaConf.merge(OmegaConf.structured(schema), values)  # raises where a type does not fit
    if values.get("generator") is not None:
        assert set(values["generator"]) == names(config.GeneratorConfig)


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_an_option_composes_with_a_value_for_every_key(group: str, name: str) -> None:
    cfg = composed(f"{group}={name}", "run_dir=x")
    assert OmegaConf.missing_keys(cfg) == set()
    check_values(cfg)


def test_an_option_is_called_as_its_file() -> None:
    for group, name in OPTIONS:
        if "name" in names(schema_of(group, name)) and group != "logger" and (group, name) != ("algo", "generalist"):
            assert ours(FOLDER / group / f"{name}.yaml")["name"] == name


@pytest.mark.parametrize(("file", "schema"), [("config", config.Config), ("evaluate", config.EvaluateConfig)])
def test_a_command_has_all_keys_of_its_schema_and_no_other(file: str, schema: type) -> None:
    path = FOLDER / f"{file}.yaml"
    chosen = [
        next(iter(each)) for each in yaml.safe_load(path.read_text("utf-8"))["defaults"] if isinstance(each, dict)
    ]
    groups = {name for name in chosen if not name.startswith("override ")}
    assert set(ours(path)) | groups == names(schema)
    if file == "config":
        assert set(ours(path)["heldout"]) == names(config.HeldoutConfig)
    assert OmegaConf.missing_keys(composed(name=file)) == set()


def test_values_stand_in_the_yaml_files_alone() -> None:
    for schema in {*schemas().values(), config.GeneratorConfig, config.HeldoutConfig} - {config.LoggerConfig}:
        for each in fields(schema):
            assert each.default == "???" or is_dataclass(each.default_factory), f"{schema.__name__}.{each.name}"


@pytest.mark.parametrize(
    "wrong", ["algo.lrr=1", "reward.lamda=0.5", "algo.lr=abc", "env_steps=1e6", "policy.width=[1]"]
)
def test_a_wrong_key_or_type_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigCompositionException):
        composed(wrong)


def test_every_algorithm_world_and_policy_is_an_option() -> None:
    offered = {group: {name for each, name in OPTIONS if each == group} for group in GROUPS}
    assert offered["algo"] == set(ALGORITHMS) | {name for group, name in RECIPES if group == "algo"}
    assert offered["policy"] == set(NETWORKS)
    assert offered["levels"] == {
        *WORLDS,
        "paper",
        "generated",
        "easy",
        "peer_like",
        "paper_like",
        "hard",
        "three_lengths",
        "large",
    }


def test_the_generator_is_given_all_that_it_can_be() -> None:
    assert names(config.GeneratorConfig) | {"clock"} == names(generator.GeneratorConfig)


# ---------------------------------------------------------------------------------- explained


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_key_has_a_comment(path: Path) -> None:
    assert unexplained(path.read_text("utf-8")) == []


def test_a_key_without_a_comment_is_found() -> None:
    assert unexplained("# Both.\na: 1\nb: 2\n\nc: 3\n") == ["c"]


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_help_names_every_option(command: str) -> None:
    text = help_text(command)
    assert all(f"\n  {name} " in text for group, name in OPTIONS if f"\n{group}=\n" in text)
    assert "base_" not in text
    assert "sweeps" not in text


# ---------------------------------------------------------------------------------- read


def attributes(sources: list[str]) -> set[tuple[str, str]]:
    """``(reward, lam)`` for each `….reward.lam` and `reward.lam` in the source."""

    def walk() -> Iterator[tuple[str, str]]:
        for source in sources:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                    base = node.value
                    yield base.id if isinstance(base, ast.Name) else base.attr, node.attr

    return set(walk())


def interpolated() -> set[tuple[str, str]]:
    """Keys that another yaml file takes its value from, as ``${levels.entropy}``."""
    texts = [path.read_text("utf-8") for path in config_folder().rglob("*.yaml")]
    return {match for text in texts for match in re.findall(r"\$\{(\w+)\.(\w+)\}", text)}


def dead(sources: list[str]) -> set[str]:
    read = attributes(sources) | interpolated()
    return {f"{part}.{key}" for part, key in keys() if not any((name, key) in read for name in KNOWN_AS[part])}


def test_every_key_is_read_by_something() -> None:
    assert dead([path.read_text("utf-8") for path in SOURCES]) == set()


def test_a_key_that_nothing_reads_is_found() -> None:
    texts = [
        path.read_text("utf-8").replace("keep_last", "keep").replace("reward.group", "reward.g") for path in SOURCES
    ]
    assert dead(texts) == {".keep_last", "reward.group"}


# ---------------------------------------------------------------------------------- values


def test_every_number_has_limits_and_every_rule_a_key() -> None:
    ruled = {key for _, several in LIMITS.values() for key in several.split()}
    numbers, everything = set(), set()
    for name in ALGORITHMS:
        cfg = composed(
            f"algo={name}", "threads=1", "env_steps=1", "sampled=1", "levels.entropy=1", "policy.noise=0", "run_dir=x"
        )
        cfg.reward.clip, cfg.reward.episodes_at_start = 1, 1
        cfg.algo.episodes_at_start = 1
        if "muon_lr" in cfg.algo:
            cfg.algo.muon_lr = 1
        flat = flattened(OmegaConf.to_container(cfg))
        everything |= set(flat)
        numbers |= {key for key, value in flat.items() if type(value) in (int, float)}
    with_own_rule = {"reward.group", "levels.env_steps", "algo.episodes_at_start", "algo.noise"}
    assert {key for key in numbers if not key.startswith("levels.generator.")} - with_own_rule == ruled
    assert set(CHOICES) <= everything


def flattened(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {prefix[:-1]: values}
    return {key: value for name, each in values.items() for key, value in flattened(each, f"{prefix}{name}.").items()}


TABULAR = {"gradient", "epsilon", "epsilon_end", "decay_episodes", "random_episodes"}
"""Keys that of all algorithms only the tabular one has."""


@pytest.mark.parametrize(
    "wrong",
    [
        *("algo.epsilon=0", "algo.epsilon_end=1.1", "algo.decay_episodes=0", "algo.random_episodes=-1"),
        *(f"{key}=unheard_of" for key in ["algo.name", "policy.network", *CHOICES]),
        *("reward.lam=0", "reward.lam=1.5", "reward.gamma=0", "reward.clip=0", "reward.episodes_per_meta=0"),
        *("algo.lr=-1", "algo.lr=nan", "algo.lr=inf", "algo.epochs=0", "algo.minibatches=0", "algo.gae_lambda=1.1"),
        *("policy.width=0", "policy.depth=-1", "policy.noise=-1", "policy.noise=11", "policy.noise_draws=0"),
        *("env_steps=0", "evaluations=0", "keep_last=0", "threads=0", "evaluated_levels=0", "seed=-1", "pictures=-1"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_by_its_key(wrong: str) -> None:
    key = wrong.partition("=")[0]
    algo = "tabular" if key.removeprefix("algo.") in TABULAR else "ppo"
    with pytest.raises(ConfigError, match=rf"^{key}=.*(expected|use at most)"):
        check_values(composed(f"algo={algo}", wrong, "run_dir=x"))


def test_null_is_no_number_out_of_limits() -> None:
    check_values(composed("threads=null", "reward.clip=null", f"policy.activation={next(iter(ACTIVATIONS))}"))


# ---------------------------------------------------------------------------------- documented


def commands() -> list[list[str]]:
    """The words of the commands in the page on running, after ``python -m drest_torch.``."""
    page = (FOLDER.parent / "docs" / "running.md").read_text("utf-8")
    return [shlex.split(line)[2:] for line in page.split("\n") if line.startswith("python -m drest_torch.")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_documentation_composes(words: list[str]) -> None:
    module, *overrides = words
    values = [each.partition(",")[0] for each in overrides if each != "-m"]
    composed(*values, name={"drest_torch.train": "config", "drest_torch.evaluate": "evaluate"}[module])


def test_the_documentation_names_every_group() -> None:
    """Their options are listed by --help, which takes them from the folders."""
    page = (FOLDER.parent / "docs" / "running.md").read_text("utf-8")
    for group in GROUPS:
        assert f"| `{group}` | " in page
