"""Configurations of tests, and what is written about them."""

from dataclasses import fields

from drest_torch.algos import ALGORITHMS
from drest_torch.building import levels as data
from drest_torch.config import schema as config
from drest_torch.config.compose import compose, options
from drest_torch.config.schema import config_folder

FOLDER = config_folder()
GROUPS = ("algo", "objective", "reward", "levels", "env", "policy", "logger")
OPTIONS = [(group, name) for group in GROUPS for name in options(group)]


def names(schema):
    return {each.name for each in fields(schema)}


def preset(name, *overrides):
    levels = compose(f"levels={name}", "run_dir=x", *overrides).levels
    return data.generator_config(levels.generator, levels.clock)


SCHEMAS = {
    "reward": config.RewardConfig,
    "levels": config.LevelsConfig,
    "policy": config.PolicyConfig,
    "env": config.EnvConfig,
    "logger": config.LoggerConfig,
}


def keys():
    """Every ``(part of the configuration, key)``, but those of the generator, which reads all of its own."""
    parts = {("test", name) for name in names(config.TestConfig)}
    parts |= {("", name) for name in names(config.Config) | names(config.EvaluateConfig)}
    parts |= {("algo", name) for algo in ALGORITHMS for name in names(ALGORITHMS[algo].Config)}
    return parts | {(group, name) for group, schema in SCHEMAS.items() for name in names(schema)}
