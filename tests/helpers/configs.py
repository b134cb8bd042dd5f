"""Configurations for tests, and the keys of all of them."""

from dataclasses import fields

from drest_torch.algos import ALGORITHMS
from drest_torch.config import schema as config
from drest_torch.config.compose import compose, options
from drest_torch.config.schema import config_folder
from drest_torch.play import level_sets as data

FOLDER = config_folder()
GROUPS = ("algo", "objective", "reward", "levels", "env", "policy", "logger")
OPTIONS = [(group, name) for group in GROUPS for name in options(group)]


def preset(name, *overrides):
    levels = compose(f"levels={name}", "run_dir=x", *overrides).levels
    return data.generator_config(levels.generator, levels.clock)


def keys():
    """Return every ``(part of the configuration, key)`` except the keys of the generator, which reads all of them."""
    schemas = {
        "": [config.Config, config.EvaluateConfig, config.CheckConfig],
        "algo": [ALGORITHMS[name].Config for name in ALGORITHMS],
        "reward": [config.RewardConfig],
        "levels": [config.LevelsConfig],
        "policy": [config.PolicyConfig],
        "env": [config.BaseEnvConfig, config.EnvConfig],
        "logger": [config.LoggerConfig],
        "test": [config.TestConfig],
    }
    names = set()
    for part, classes in schemas.items():
        for schema in classes:
            names |= {(part, key.name) for key in fields(schema)}
    return names
