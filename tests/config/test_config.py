"""Keys of configurations: their values, meanings, limits and recipes, and stored configurations."""

import re
from dataclasses import fields
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple, get_args, get_origin, get_type_hints

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from drest_torch import train
from drest_torch.algos import ALGORITHMS
from drest_torch.algos.objectives import OBJECTIVES
from drest_torch.commands.help import COMMANDS, keys_of
from drest_torch.config import schema as config
from drest_torch.config.checks import TASK_CHECKS, check_run, device_of
from drest_torch.config.compose import compose, options, recipes
from drest_torch.config.reading import flattened, settings
from drest_torch.config.schema import ENV_CONFIGS
from drest_torch.config.stored import load_config, write_config
from drest_torch.envs.generation.config import GeneratorConfig as Generator
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.limits import limits_of
from drest_torch.play.level_sets import generator_config
from drest_torch.reward import Reward
from drest_torch.tasks import TASKS
from tests.helpers.configs import FOLDER, GROUPS, OPTIONS, keys
from tests.helpers.documents import ROOT

SOURCES = [path for package in ("drest_torch", "algos") for path in (ROOT / package).rglob("*.py")]
VARIABLES = {
    "algo": {"algo", "config"},
    "reward": {"reward", "self"},  # `Reward` reads its own fields
    "levels": {"levels"},
    "policy": {"policy"},
    "env": {"env", "env_cfg"},
    "logger": {"logger", "config"},
    "test": {"test"},
    "": {"cfg"},
}
"""Variables of the source code that hold each part of a configuration: `reward` for `cfg.reward.lam`."""


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_an_option_has_all_values(group, name):
    cfg = compose(f"{group}={name}", "run_dir=x")
    assert group not in ("reward", "levels") or cfg[group].name == name
    assert OmegaConf.missing_keys(cfg) == set()


@pytest.mark.parametrize(("group", "name"), [option for option in OPTIONS if option[1] != "own"])
def test_an_option_is_valid_for_a_run(group, name):
    further = []
    if group == "objective":
        further = ["algo=generalist"]
    if name == "distil":
        further = ["algo.teachers=[generalist]"]
    check_run(compose(f"{group}={name}", *further, "run_dir=x"))


HELP = [
    ("train", ()),
    *(("train", (f"algo={name}", "levels=paper")) for name in sorted({*ALGORITHMS} - {"ppo"})),
    *(("train", (f"objective={name}", "env=cartpole")) for name in OBJECTIVES),
    ("evaluate", ()),
    ("evaluate", ("levels=hard",)),
    ("study", ()),
]
"""Commands and arguments before ``--help``."""


@pytest.mark.parametrize(("command", "overrides"), HELP, ids=str)
def test_the_help_explains_every_key(command, overrides):
    keys = keys_of(command, *overrides)
    assert [key.name for key in keys if not key.meaning] == []
    assert [key.name for key in keys if not key.type] == []
    repeated = [(key.name, following.name) for key, following in pairwise(keys) if key.meaning == following.meaning]
    assert repeated == []


@pytest.mark.parametrize(
    ("command", "overrides"), [(command, overrides) for command, overrides in HELP if command != "study"], ids=str
)
def test_the_help_has_every_key(command, overrides):
    cfg = OmegaConf.to_container(compose(*overrides, name=COMMANDS[command].config))
    keys = {key for key in flattened(cfg) if not key.startswith("logger.sinks.")}
    assert keys <= {key.name for key in keys_of(command, *overrides)}


def test_every_key_is_read_by_something():
    """The source code reads a key as `reward.lam` or `getattr(reward, "lam")`; in messages a key has a value."""
    text = "\n".join(path.read_text("utf-8") for path in [*SOURCES, *FOLDER.rglob("*.yaml")])
    reads = {(part, key): rf'\b({"|".join(VARIABLES[part])})(\.|, "){key}\b(?![=`])' for part, key in keys()}
    assert [key for key, read in reads.items() if not re.search(read, text)] == []


class RecipeValues(NamedTuple):
    """Values of the keys that depend on several groups."""

    entropy: float | None
    env_steps: int
    observation: str
    private_bits: int = 0
    counting: str = "averaged"
    episodes_at_start: int | None = None


def recipe_values(cfg):
    return RecipeValues(
        entropy=OmegaConf.select(cfg, "algo.entropy"),
        env_steps=cfg.env_steps,
        observation=cfg.policy.observation,
        private_bits=cfg.policy.private_bits,
        counting=cfg.reward.counting,
        episodes_at_start=cfg.reward.episodes_at_start,
    )


RECIPES = {
    "": RecipeValues(0.02, 30_000_000, "grid_start"),
    "policy=symmetric": RecipeValues(0.03, 36_000_000, "centred_start"),
    "env=cartpole": RecipeValues(0.01, 1_200_000, "centred_start"),
    "algo=ppo levels=example": RecipeValues(0.3, 6_000_000, "centred"),
    "levels=example algo=a2c": RecipeValues(0.3, 6_000_000, "centred"),
    "algo=reinforce levels=paper policy=symmetric": RecipeValues(0.3, 6_000_000, "centred"),
    "algo=a2c levels=hard policy=convolutional": RecipeValues(0.02, 24_000_000, "grid_start"),
    "algo=exact levels=lopsided": RecipeValues(0.6, 6_000_000, "centred"),
    "algo=exact levels=easy reward=default": RecipeValues(0.6, 7_000_000, "centred"),
    "algo=generalist levels=paper_like policy=convolutional": RecipeValues(
        0.1, 7_000_000, "grid_start", episodes_at_start=16
    ),
    "algo=generalist levels=royal_road": RecipeValues(0.1, 6_000_000, "centred_start", episodes_at_start=16),
    "algo=tabular levels=example": RecipeValues(None, 6_000_000, "vector", counting="sequential"),
    "algo=tabular levels=large reward=default_over_m": RecipeValues(None, 7_000_000, "vector", counting="sequential"),
}
"""Arguments, and the values that recipes add."""
LEVEL_FILES = {
    "levels.path=mine.txt": RecipeValues(0.3, 6_000_000, "centred"),
    "levels=generated levels.path=mine.txt": RecipeValues(0.02, 30_000_000, "grid_start"),
}
"""A level file has the recipe of worlds, unless the user names other levels."""
PRECEDENCE = {
    "algo=tabular policy=convolutional": RecipeValues(None, 7_000_000, "grid_start", counting="sequential"),
    "policy.observation=grid reward.counting=averaged algo=tabular": RecipeValues(None, 7_000_000, "grid"),
    "algo.entropy=0.7 env_steps=5 levels=example": RecipeValues(0.7, 5, "centred"),
    "policy.private_bits=1 algo=generalist": RecipeValues(
        0.1, 7_000_000, "centred_start", private_bits=1, episodes_at_start=16
    ),
}
"""Arguments override options, and options override recipes."""


@pytest.mark.parametrize("arguments", [*RECIPES, *LEVEL_FILES, *PRECEDENCE], ids=lambda text: text or "defaults")
def test_recipes_fit_the_algorithm_with_its_levels(arguments):
    expected = {**RECIPES, **LEVEL_FILES, **PRECEDENCE}[arguments]
    assert recipe_values(compose(*arguments.split(), "run_dir=x")) == expected


def printed_recipes(option, monkeypatch):
    """Return the lines on recipes that a command with this option of `algo` prints."""
    choices = {"algo": option, "algo/kind": option}
    running = SimpleNamespace(runtime=SimpleNamespace(choices=choices))
    monkeypatch.setattr("drest_torch.config.compose.HydraConfig.get", lambda: running)
    return recipes(compose("algo=ppo", "levels=example", "algo.lr=0.125"))


def test_the_values_of_an_algorithm_without_a_recipe_are_printed(monkeypatch):
    (line,) = printed_recipes("klpen", monkeypatch)
    assert "no recipe for algo=klpen" in line
    assert "algo.lr=0.125" in line


@pytest.mark.parametrize("option", ["reinforce", "exact"])
def test_an_algorithm_with_a_recipe_prints_no_warning(option, monkeypatch):
    assert printed_recipes(option, monkeypatch) == []


def test_every_recipe_belongs_to_options():
    """Recipes are optional, so nothing else would detect a misspelt one."""
    algos, levels, envs, policies = (options(group) for group in ("algo", "levels", "env", "policy"))
    kinds = {"generated", "worlds"}
    expected = {
        "algo": algos,
        "levels": kinds,
        "both": {f"{algo}_on_{kind}" for algo in algos for kind in kinds},
        "policy": policies,
        "network": {f"{algo}_with_{network}" for algo in algos for network in policies},
        "whole": {
            f"{algo}_on_{kind}_in_gridworld_with_{network}" for algo in algos for kind in kinds for network in policies
        },
        "set": levels,
        "evaluation": levels,
        "env": {"_environment", *(f"{algo}_in_gymnasium" for algo in algos)},
        "task": envs,
        "solving": {f"{algo}_in_{env}" for algo in algos for env in envs},
    }
    names = [name.split("/") for name in yaml.safe_load((FOLDER / "recipes.yaml").read_text("utf-8"))]
    assert names
    assert [(group, name) for group, name in names if name not in expected[group]] == []


def test_options_of_users_inherit_recipes(tmp_path, call):
    files = {
        "algo/mine": "defaults:\n  - ppo\n",
        "algo/other": "defaults:\n  - base_ppo\nname: ppo\nepochs: 2\n",
        "env/mine": "defaults:\n  - gymnasium\nid: Acrobot-v1\n",
        "policy/mine": "defaults:\n  - mlp\nwidth: 64\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")

    def printed(*overrides):
        done = call(train.main, f"--config-dir={tmp_path}", *overrides, "--cfg", "job")
        return OmegaConf.create(re.sub("run_dir:.*", "", done.out))

    based_on_ppo = printed("algo=mine")
    assert based_on_ppo == printed("algo=ppo")
    assert based_on_ppo.env_steps == 30_000_000
    assert printed("algo=other").env_steps == 7_000_000
    assert printed("algo=mine", "env=mine").env_steps == printed("env=gymnasium").env_steps == 1_500_000
    assert printed("policy=mine").algo == printed("policy=mlp").algo


EVERY_LIMIT = {
    key: (hint, limits_of(field))
    for schema, prefix in (
        (config.Config, ""),
        (config.EnvConfig, "env."),
        *((ALGORITHMS[name].Config, "algo.") for name in ALGORITHMS),
    )
    for key, field, hint, _ in settings(OmegaConf.structured(schema), prefix)
}
CHOICES = [key for key, (_, limits) in EVERY_LIMIT.items() if limits and limits.choices]


def test_a_run_has_at_most_123_keys():
    """Keys that no study, recipe or page sets should be removed, because newcomers have to read them."""
    keys = flattened(OmegaConf.to_container(compose("algo=ppo")))
    assert len(keys) <= 123


def test_the_keys_of_a_reward_agree_with_its_formula():
    ours, formula = (get_type_hints(kind) for kind in (config.RewardConfig, Reward))
    assert formula.items() <= ours.items()
    changed = {field.name for field in fields(Reward) if field.default != getattr(config.RewardConfig(), field.name)}
    assert changed == {"counting"}


def test_every_environment_is_complete():
    """Each kind has keys, checks and a task."""
    assert ENV_CONFIGS.keys() == TASK_CHECKS.keys() == TASKS.classes.keys()
    assert tuple(ENV_CONFIGS) == config.ENVIRONMENTS


def test_the_keys_of_generated_levels_agree_with_the_generator():
    names = {field.name for field in fields(config.GeneratorKeys)}
    assert names == {field.name for field in fields(Generator)} - {"clock"}
    assert generator_config(config.GeneratorKeys(), None) == Generator()


def test_every_number_has_limits():
    """The exceptions are coins and rewards, which may have any value, and values that the timer or the generator
    checks."""
    numbers = {key for key, (kind, limits) in EVERY_LIMIT.items() if {int, float} & {kind, *get_args(kind)}}
    unlimited = {key for key in numbers if EVERY_LIMIT[key][1] is None and ".generator." not in key}
    assert unlimited == {"levels.x", "env.floor", "env.delays"}
    assert all(get_origin(kind) is not list for kind, limits in EVERY_LIMIT.values() if limits)


ALGORITHM_WITH = {"algo.epsilon": "tabular", "algo.decay_episodes": "tabular", "algo.checkpoint": "distil"}
"""Algorithms with keys that PPO does not have."""


@pytest.mark.parametrize(
    "argument",
    [
        *("algo.epsilon=0", "algo.decay_episodes=0"),
        *(f"{key}=unheard_of" for key in ["algo.name", "policy.network", *CHOICES]),
        *("reward.lam=0", "reward.lam=1.5", "algo.lr=nan", "algo.lr=inf", "policy.private_bits=11", "seed=-1"),
    ],
)
def test_an_invalid_value_is_refused_with_its_key(argument):
    key = argument.partition("=")[0]
    algo = ALGORITHM_WITH.get(key, "ppo")
    env = "cartpole" if key.startswith("env.") else "gridworld"
    with pytest.raises(ConfigError, match=rf"^{key}=.*(expected|use {key}=10$)"):
        check_run(compose(f"algo={algo}", f"env={env}", argument, "run_dir=x"))


def test_a_stored_configuration_comes_back_with_its_types(tmp_path):
    cfg = compose("algo=a2c", "levels=easy", "run_dir=x")
    write_config(cfg, tmp_path)
    again = load_config(tmp_path)
    assert again == cfg
    assert OmegaConf.get_type(again, "algo") is ALGORITHMS["a2c"].Config


class Edit(NamedTuple):
    """A change of a stored configuration, and the reason in the error message."""

    pattern: str
    replacement: str
    reason: str


@pytest.mark.parametrize(
    "edit",
    [
        Edit("policy:\n", "policy:\n  heads: 8\n", "policy.heads is not a key of this version: the run can be"),
        Edit("  lam: 0.9\n", "  lam: 2\n", "reward.lam=2.0; expected a number above 0, at most 1"),
        Edit("\nseed: 0\n", "\nseed: first\n", "Value 'first' of type 'str' could not be converted to Integer"),
        Edit(r"algo:\n( .*\n)+", "algo: null\n", "not the configuration of a run of this version"),
        Edit("  pays: actual\n", "", "of a run of this version (reward.pays has no value)"),
    ],
    ids=["unknown key", "outside limits", "wrong type", "no algorithm", "missing key"],
)
def test_an_invalid_stored_configuration_is_refused(tmp_path, edit):
    write_config(compose("run_dir=x"), tmp_path)
    path = tmp_path / "config.yaml"
    text, times = re.subn(edit.pattern, edit.replacement, path.read_text("utf-8"))
    assert times == 1
    path.write_text(text, "utf-8")
    with pytest.raises(CheckpointError, match=r"config\.yaml: not the configuration of a run of this") as caught:
        load_config(tmp_path)
    assert edit.reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_documentation_names_every_option():
    page = (ROOT / "docs" / "howto" / "running.md").read_text("utf-8")
    rows = {group: re.search(rf"^\| `{group}` \| (.*?) \|", page, re.M) for group in GROUPS}
    listed = [(group, name) for group, name in OPTIONS if name not in (*WORLDS, "own")]
    assert [(group, name) for group, name in listed if f"`{name}`" not in rows[group][1]] == []
    assert "levels=own" in page


@pytest.mark.parametrize(("has_gpu", "expected"), [(True, "cuda"), (False, "cpu")], ids=["GPU", "no GPU"])
def test_device_auto_is_a_gpu_if_available(monkeypatch, has_gpu, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(has_gpu))
    assert device_of("auto").type == expected
