"""Composition of configurations within commands and in Python, and messages about invalid arguments."""

import sys

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from drest_torch.config.compose import compose, implied
from drest_torch.config.schema import config_folder
from drest_torch.errors import ConfigError


def plain(cfg):
    return OmegaConf.to_container(cfg, resolve=True)


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Return a function that calls another one within a command of Hydra, with the command's configuration."""
    monkeypatch.chdir(tmp_path)  # other commands of Hydra write files

    def call(name, arguments, function, folder=None):
        def command(cfg):
            running = GlobalHydra.instance().hydra
            function(cfg)
            assert GlobalHydra.instance().hydra is running

        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        hydra.main(version_base="1.3", config_path=str(folder or config_folder()), config_name=name)(command)()

    return call


def test_a_command_of_another_project_does_not_interfere(within, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "app.yaml").write_text("a: 1\n")
    arguments = ("algo=generalist", "levels=example", "reward.lam=0.5", "run_dir=x")
    outside = plain(compose(*arguments))
    inside = []
    within("app", [], lambda cfg: inside.extend([cfg, plain(compose(*arguments))]), tmp_path / "theirs")
    assert inside == [{"a": 1}, outside]


def test_within_a_command_its_search_path_applies(within, tmp_path):
    (tmp_path / "mine" / "reward").mkdir(parents=True)
    (tmp_path / "mine" / "reward" / "gentle.yaml").write_text("name: gentle\nlam: 0.99\n")
    values = []
    within("evaluate", ["--config-dir", "mine"], lambda cfg: values.append(compose("reward=gentle").reward.lam))
    assert values == [0.99]
    with pytest.raises(
        ConfigError, match=r"^reward=gentle; expected one of default, default_over_m, drest, indifference, unn"
    ):
        compose("reward=gentle")


NO_KEY = r"no such key \(did you mean"


NEAREST_KEYS = {
    "env=CartPole-v1": r"env=CartPole-v1; the id of .* is given with env=gymnasium env.id=CartPole-v1",
    "lr=1": rf"lr: {NO_KEY} algo.lr\?\); --cfg job prints all keys",
    "levels.generator.wals=[1,2]": rf".*: {NO_KEY} levels.generator.walls\?\); .*",
    "loger=none": rf"loger: {NO_KEY} logger\?\); .*",
}
"""Misspelt keys: the nearest key by its last component."""
SYNONYMS = {
    "lambda=0.9": rf"lambda: {NO_KEY} reward.lam\?\); .*",
    "algo.lambda=0.9": rf"algo.lambda: {NO_KEY} algo.gae_lambda\?\); .*",
    "algo.leraning_rate=1": rf"algo.leraning_rate: {NO_KEY} algo.lr\?\); .*",
    "learning-rate=1": rf"learning-rate: {NO_KEY} algo.lr\?\); .*",
    "discount=1": rf"discount: {NO_KEY} reward.gamma\?\); .*",
    "total_timesteps=1": rf"total_timesteps: {NO_KEY} env_steps\?\); .*",
    "batch_size=64": rf"batch_size: {NO_KEY} algo.episodes or algo.minibatches\?\); .*",
    "policy.hiden_size=64": rf"policy.hiden_size: {NO_KEY} policy.width\?\); .*",
    "levels.sed=1": rf"levels.sed: {NO_KEY} .*seed\?\); .*",
    "optimiser=adam": "optimiser: no such key; --cfg job prints all keys",
}
"""Names of other libraries, and names without a similar key."""
OPTIONS = {
    "algo=dqn": "algo=dqn; expected one of a2c, distil, exact, generalist, ppo, reinforce, tabular",
    "algo=./x": "algo=./x; expected one of a2c, distil, exact, generalist, ppo, reinforce, tabular",
    "levels=mine/a.txt": "levels=mine/a.txt; a file of levels is levels.path=mine/a.txt",
    "policy=mpl": r"policy=mpl; expected one of auto, conv.*, symmetric \(did you mean mlp\?\)",
}
"""Unknown options: the message lists the options without bases and schemas."""
TYPES = {
    "algo.lr=fast": "algo.lr=fast; expected a number",
    "env_steps=1e6": "env_steps=1e6; expected a whole number, such as 1000000",
    "progress=perhaps": "progress=perhaps; expected true or false",
    "levels.generator.walls=3": r"levels.generator.walls=3; expected a list, such as \[1,2\]",
}
"""Values of a wrong type."""
SYNTAX = {
    "seed=1,2": r"seed=1,2; several values are a list, KEY=\[A,B\], or one run each with -m",
    "run_dir=a,b": """run_dir=a,b; several .* with -m, or a text in quotes: 'run_dir="a,b"'""",
    "seed": "seed: expected KEY=VALUE; --help prints the keys",
    "=1": "=1: expected KEY=VALUE.*",
    "a b=1": "a b=1: expected KEY=VALUE.*",
    "levels.path=a=b.txt": """levels.path=a=b.txt: cannot be read; a text .*: 'levels.path="a=b.txt"'""",
    "run_dir=it's": """run_dir=it's: cannot be read; .*: 'run_dir="it'"'"'s"'""",
    "env.delays=[1,": r"env.delays=\[1,: cannot be read; .*",
}
"""Arguments that are not KEY=VALUE."""
GROUPS = {
    "algo=1": "algo=1; expected the name of an option, as in algo=NAME; --help prints them",
    "levels=[paper]": r"levels=\[paper\]; expected the name of an option, .*",
    "algo=[ppo,a2c]": r"algo=\[ppo,a2c\]; expected the name of an option, .*",
    "study=nope": "study: no such group of values in this command; .*",
    "~study": "study: no such group of values in this command; .*",
    "hydra/launcher=nope": "hydra/launcher=nope; expected one of basic",
}
"""Values that cannot be the name of an option, and unknown groups."""
VALUES = [
    ({"algo": {"lrr": 1}}, rf"algo.lrr: {NO_KEY} algo.lr\?\); .*"),
    ({"env_steps": 1.5}, "env_steps: .* could not be converted to Integer"),
]
"""Values from Python."""
ARGUMENTS = {**NEAREST_KEYS, **SYNONYMS, **OPTIONS, **TYPES, **SYNTAX, **GROUPS}
"""Invalid arguments, each with a regular expression of the message."""


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_invalid_argument_is_refused_with_its_remedy(argument):
    with pytest.raises(ConfigError, match=f"^{ARGUMENTS[argument]}$"):
        compose(argument)


@pytest.mark.parametrize(("values", "message"), VALUES, ids=["unknown key", "wrong type"])
def test_an_invalid_value_from_python_is_refused(values, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        compose(values=values)


def test_equal_arguments_give_independent_configurations():
    """Configurations are cached, and a change of one must not appear in the next."""
    arguments = ("algo=a2c", "levels=hard", "seed=3", "run_dir=x")
    first = compose(*arguments)
    before = plain(first)
    first.seed, first.levels.train = 4, 1
    assert plain(compose(*arguments)) == before
    assert OmegaConf.is_struct(compose(*arguments))


@pytest.mark.parametrize("arguments", ["seed=3 seeed=3", "seed@x=1", "levels=example levels.generator.walls=[1]"])
def test_a_mistake_among_other_arguments_is_refused(arguments):
    with pytest.raises(ConfigError):
        compose(*arguments.split())


def test_a_level_file_implies_its_option():
    assert implied(["algo=ppo", "levels.path=mine.txt"]) == ["algo=ppo", "levels=file", "levels.path=mine.txt"]


def test_a_level_file_implies_nothing_beside_an_option():
    arguments = ["levels.path=mine.txt", "levels=three_lengths"]
    assert implied(arguments) == arguments


def test_a_file_of_a_level_set_implies_nothing():
    assert implied(["levels.path=set.jsonl"]) == ["levels.path=set.jsonl"]
