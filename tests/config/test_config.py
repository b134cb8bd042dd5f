"""Each key of a schema stands once with its value and its meaning, is read, and is held to its limits."""

import re
from dataclasses import fields
from itertools import pairwise
from types import SimpleNamespace
from typing import get_args, get_origin, get_type_hints

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
KNOWN_AS = {
    "algo": {"algo", "config"},
    "reward": {"reward", "self"},  # `Reward` reads its own fields
    "levels": {"levels", "chosen"},
    "policy": {"policy", "chosen"},
    "env": {"env", "chosen"},
    "logger": {"logger", "config"},
    "test": {"test"},
    "": {"cfg"},
}
"""What the part of the configuration is called where the source reads it: `reward` for `cfg.reward.lam`."""


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_an_option_composes_to_its_values_and_can_be_run(group, name):
    cfg = compose(f"{group}={name}", "run_dir=x")
    assert group not in ("reward", "levels") or cfg[group].name == name
    assert OmegaConf.missing_keys(cfg) == set()
    if group == "objective":
        cfg = compose(f"{group}={name}", "algo=generalist", "run_dir=x")
    if name != "own":
        check_run(cfg)


@pytest.mark.parametrize(
    ("command", "overrides"),
    [
        ("train", ()),
        *(("train", (f"algo={name}", "levels=paper")) for name in sorted({*ALGORITHMS} - {"ppo"})),
        *(("train", (f"objective={name}", "env=cartpole")) for name in OBJECTIVES),
        ("evaluate", ()),
        ("evaluate", ("levels=hard",)),
        ("study", ()),
    ],
    ids=str,
)
def test_the_help_says_of_every_key_its_value_its_type_and_what_it_means(command, overrides):
    found = {key.name: key for key in keys_of(command, *overrides)}
    assert [key.name for key in found.values() if not (key.meaning and key.type)] == []
    together = [(one.name, two.name) for one, two in pairwise(found.values()) if one.meaning == two.meaning]
    assert together == []  # each has a meaning of its own
    if command != "study":
        cfg = OmegaConf.to_container(compose(*overrides, name=COMMANDS[command].config))
        assert {key for key in flattened(cfg) if not key.startswith("logger.sinks.")} <= set(found)


def test_every_key_is_read_by_something():
    """As `reward.lam`, or by `getattr(reward, "lam")`; in a message a key has a value."""
    text = "\n".join(path.read_text("utf-8") for path in [*SOURCES, *FOLDER.rglob("*.yaml")])
    reads = {(part, key): rf'\b({"|".join(KNOWN_AS[part])})(\.|, "){key}\b(?![=`])' for part, key in keys()}
    assert [key for key, read in reads.items() if not re.search(read, text)] == []


SHARED = ("algo.entropy", "env_steps", "policy.observation", "policy.private_bits", "reward.counting")
"""Keys whose values depend on several groups; one more is ``reward.episodes_at_start``."""


@pytest.mark.parametrize(
    ("overrides", "values"),
    [
        ("", [0.03, 36_000_000, "centred_start", 0, "averaged"]),
        ("algo=ppo levels=example", [0.3, 6_000_000, "centred", 0, "averaged"]),
        ("levels=example algo=a2c", [0.3, 6_000_000, "centred", 0, "averaged"]),
        ("algo=reinforce levels=paper policy=symmetric", [0.3, 6_000_000, "centred", 0, "averaged"]),
        ("algo=a2c levels=hard policy=convolutional", [0.02, 24_000_000, "grid_start", 0, "averaged"]),
        ("algo=exact levels=lopsided", [0.6, 6_000_000, "centred", 0, "averaged"]),
        ("algo=exact levels=easy reward=default", [0.6, 7_000_000, "centred", 0, "averaged"]),
        ("algo=generalist levels=paper_like policy=convolutional", [0.1, 7_000_000, "grid_start", 0, "averaged"]),
        ("algo=generalist levels=royal_road", [0.1, 6_000_000, "centred_start", 0, "averaged"]),
        ("algo=tabular levels=example", [None, 6_000_000, "vector", 0, "sequential"]),
        ("algo=tabular levels=large reward=default_over_m", [None, 7_000_000, "vector", 0, "sequential"]),
        # A level of the user's own takes the recipe of worlds.
        ("levels.path=mine.txt", [0.3, 6_000_000, "centred", 0, "averaged"]),
        ("levels=generated levels.path=mine.txt", [0.03, 36_000_000, "centred_start", 0, "averaged"]),
        # What the user says comes last, and an option knows better than a recipe.
        ("algo=tabular policy=convolutional", [None, 7_000_000, "grid_start", 0, "sequential"]),
        ("policy.observation=grid reward.counting=averaged algo=tabular", [None, 7_000_000, "grid", 0, "averaged"]),
        ("algo.entropy=0.7 env_steps=5 levels=example", [0.7, 5, "centred", 0, "averaged"]),
        ("policy.private_bits=1 algo=generalist", [0.1, 7_000_000, "centred_start", 1, "averaged"]),
    ],
)
def test_an_algorithm_and_levels_bring_the_values_that_suit_them(overrides, values):
    cfg = compose(*overrides.split(), "run_dir=x")
    assert [OmegaConf.select(cfg, key) for key in SHARED] == values
    assert cfg.reward.episodes_at_start == (16 if "generalist" in overrides else None)


@pytest.mark.parametrize(("option", "told"), [("klpen", True), ("reinforce", False), ("exact", False)])
def test_an_algorithm_without_a_recipe_says_its_values(option, told, monkeypatch):
    choices = {"algo": option, "algo/kind": option}
    running = SimpleNamespace(runtime=SimpleNamespace(choices=choices))
    monkeypatch.setattr("drest_torch.config.compose.HydraConfig.get", lambda: running)
    lines = recipes(compose("algo=ppo", "levels=example", "algo.lr=0.125"))
    assert ["algo.lr=0.125" in line and "no recipe for algo=klpen" in line for line in lines] == [True] * told


def test_every_recipe_is_one_of_what_it_goes_by():
    """As they are optional, a misspelt one would not be missed."""
    algos, levels, envs, policies = (options(group) for group in ("algo", "levels", "env", "policy"))
    kinds = {"generated", "worlds"}
    expected = {
        "algo": algos,
        "levels": kinds,
        "both": {f"{algo}_on_{kind}" for algo in algos for kind in kinds},
        "policy": policies,
        "network": {f"{algo}_with_{network}" for algo in algos for network in policies},
        "set": levels,
        "evaluation": levels,
        "env": {"_environment", *(f"{algo}_in_gymnasium" for algo in algos)},
        "task": envs,
        "solving": {f"{algo}_in_{env}" for algo in algos for env in envs},
    }
    recipes = [name.split("/") for name in yaml.safe_load((FOLDER / "recipes.yaml").read_text("utf-8"))]
    assert recipes
    assert all(name in expected[group] for group, name in recipes)


def test_options_of_ones_own_go_by_what_they_begin_with(tmp_path, call):
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

    own, shipped = printed("algo=mine"), printed("algo=ppo")
    assert own == shipped
    assert own.env_steps == 36_000_000
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


def test_a_run_has_at_most_100_keys():
    """Each key is one more that a newcomer reads past: one that no study, recipe or page sets has to go."""
    keys = flattened(OmegaConf.to_container(compose("algo=ppo")))
    assert len(keys) <= 100


def test_the_keys_of_a_reward_are_those_of_its_formula():
    ours, formula = (get_type_hints(kind) for kind in (config.RewardConfig, Reward))
    assert formula.items() <= ours.items()
    changed = {field.name for field in fields(Reward) if field.default != getattr(config.RewardConfig(), field.name)}
    assert changed == {"counting"}


def test_every_place_has_keys_checks_and_a_task():
    assert ENV_CONFIGS.keys() == TASK_CHECKS.keys() == TASKS.classes.keys()
    assert tuple(ENV_CONFIGS) == config.ENVIRONMENTS


def test_the_keys_of_generated_levels_are_those_of_the_generator():
    names = {field.name for field in fields(config.GeneratorKeys)}
    assert names == {field.name for field in fields(Generator)} - {"clock"}
    assert generator_config(config.GeneratorKeys(), None) == Generator()


def test_every_number_has_limits():
    """But for three: a coin and a reward may have any value, and the timer itself checks the delays."""
    numbers = {key for key, (kind, limits) in EVERY_LIMIT.items() if {int, float} & {kind, *get_args(kind)}}
    unlimited = {key for key in numbers if EVERY_LIMIT[key][1] is None and ".generator." not in key}
    assert unlimited == {"levels.x", "env.floor", "env.delays"}  # and the generator checks its ranges itself
    assert all(get_origin(kind) is not list for kind, limits in EVERY_LIMIT.values() if limits)


@pytest.mark.parametrize(
    "wrong",
    [
        *("algo.epsilon=0", "algo.decay_episodes=0"),
        *(f"{key}=unheard_of" for key in ["algo.name", "policy.network", *CHOICES]),
        *("reward.lam=0", "reward.lam=1.5", "algo.lr=nan", "algo.lr=inf", "policy.private_bits=11", "seed=-1"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_by_its_key(wrong):
    key = wrong.partition("=")[0]
    algo = "tabular" if key in ("algo.epsilon", "algo.decay_episodes") else "ppo"
    env = "cartpole" if key.startswith("env.") else "gridworld"
    with pytest.raises(ConfigError, match=rf"^{key}=.*(expected|use {key}=10$)"):
        check_run(compose(f"algo={algo}", f"env={env}", wrong, "run_dir=x"))


def test_a_stored_configuration_comes_back_with_its_types(tmp_path):
    cfg = compose("algo=a2c", "levels=easy", "run_dir=x")
    write_config(cfg, tmp_path)
    again = load_config(tmp_path)
    assert again == cfg
    assert OmegaConf.get_type(again, "algo") is ALGORITHMS["a2c"].Config


@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        (
            "policy:\n",
            "policy:\n  heads: 8\n",
            "policy.heads is no key of this version: the run can be evaluated",
        ),
        ("  lam: 0.9\n", "  lam: 2\n", "reward.lam=2.0; expected a number above 0, at most 1"),
        ("\nseed: 0\n", "\nseed: first\n", "Value 'first' of type 'str' could not be converted to Integer"),
        (r"algo:\n( .*\n)+", "algo: null\n", "not the configuration of a run of this version"),
        ("  pays: actual\n", "", "of a run of this version (reward.pays has no value)"),
    ],
)
def test_a_stored_configuration_of_another_kind_gets_one_sentence(tmp_path, written, instead, reason):
    write_config(compose("run_dir=x"), tmp_path)
    text, times = re.subn(written, instead, (tmp_path / "config.yaml").read_text("utf-8"))
    assert times == 1
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    with pytest.raises(CheckpointError, match=r"config\.yaml: not the configuration of a run of this") as caught:
        load_config(tmp_path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_documentation_names_every_group_and_option():
    page = (ROOT / "docs" / "howto" / "running.md").read_text("utf-8")
    rows = {group: re.search(rf"^\| `{group}` \| (.*?) \|", page, re.M) for group in GROUPS}
    named = [(group, name) for group, name in OPTIONS if name not in (*WORLDS, "own")]
    assert [(group, name) for group, name in named if f"`{name}`" not in rows[group][1]] == []
    assert "levels=own" in page


@pytest.mark.parametrize(("found", "expected"), [(True, "cuda"), (False, "cpu")])
def test_device_auto_is_a_gpu_if_there_is_one(monkeypatch, found, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(found))
    assert device_of("auto").type == expected
