"""One way to compose: the same values within a command and without, and one sentence where there are none."""

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
    """A function that calls another in one of Hydra's commands: with its configuration, and while Hydra runs."""
    monkeypatch.chdir(tmp_path)  # Hydra leaves files behind in commands that are not ours

    def call(name, arguments, function, folder=None):
        def command(cfg):
            running = GlobalHydra.instance().hydra
            function(cfg)
            assert GlobalHydra.instance().hydra is running

        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        hydra.main(version_base="1.3", config_path=str(folder or config_folder()), config_name=name)(command)()

    return call


def test_within_a_command_of_another_project_it_gives_the_same(within, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "app.yaml").write_text("a: 1\n")
    run, found = ("algo=generalist", "levels=example", "reward.lam=0.5", "run_dir=x"), []
    outside = plain(compose(*run))
    within("app", [], lambda cfg: found.extend([cfg, plain(compose(*run))]), tmp_path / "theirs")
    assert found == [{"a": 1}, outside]


def test_within_a_command_its_search_path_holds(within, tmp_path):
    (tmp_path / "mine" / "reward").mkdir(parents=True)
    (tmp_path / "mine" / "reward" / "gentle.yaml").write_text("name: gentle\nlam: 0.99\n")
    found = []
    within("evaluate", ["--config-dir", "mine"], lambda cfg: found.append(compose("reward=gentle").reward.lam))
    assert found == [0.99]
    with pytest.raises(ConfigError, match=r"^reward=gentle; expected one of default, default_over_m, drest, unnorm"):
        compose("reward=gentle")


NO_KEY = r"no such key \(did you mean"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        # The nearest key by its end, or none.
        ("env=CartPole-v1", r"env=CartPole-v1; the id of .* is given with env=gymnasium env.id=CartPole-v1"),
        ("lr=1", rf"lr: {NO_KEY} algo.lr\?\); --cfg job prints all keys"),
        ("levels.generator.wals=[1,2]", rf".*: {NO_KEY} levels.generator.walls\?\); .*"),
        ("loger=none", rf"loger: {NO_KEY} logger\?\); .*"),
        # The nearest by its meaning, spelled well or not.
        ("lambda=0.9", rf"lambda: {NO_KEY} reward.lam\?\); .*"),
        ("algo.lambda=0.9", rf"algo.lambda: {NO_KEY} algo.gae_lambda\?\); .*"),
        ("algo.leraning_rate=1", rf"algo.leraning_rate: {NO_KEY} algo.lr\?\); .*"),
        ("learning-rate=1", rf"learning-rate: {NO_KEY} algo.lr\?\); .*"),
        ("discount=1", rf"discount: {NO_KEY} reward.gamma\?\); .*"),
        ("total_timesteps=1", rf"total_timesteps: {NO_KEY} env_steps\?\); .*"),
        ("batch_size=64", rf"batch_size: {NO_KEY} algo.episodes or algo.minibatches\?\); .*"),
        ("policy.hiden_size=64", rf"policy.hiden_size: {NO_KEY} policy.width\?\); .*"),
        ("levels.sed=1", rf"levels.sed: {NO_KEY} .*seed\?\); .*"),
        ("optimiser=adam", "optimiser: no such key; --cfg job prints all keys"),
        # The options there are, without bases and schemas.
        ("algo=dqn", "algo=dqn; expected one of a2c, exact, generalist, ppo, reinforce, tabular"),
        ("algo=./x", "algo=./x; expected one of a2c, exact, generalist, ppo, reinforce, tabular"),
        ("levels=mine/a.txt", "levels=mine/a.txt; a file of levels is levels.path=mine/a.txt"),
        ("policy=mpl", r"policy=mpl; expected one of auto, conv.*, symmetric \(did you mean mlp\?\)"),
        # The type.
        ("algo.lr=fast", "algo.lr=fast; expected a number"),
        ("env_steps=1e6", "env_steps=1e6; expected a whole number, such as 1000000"),
        ("progress=perhaps", "progress=perhaps; expected true or false"),
        ("levels.generator.walls=3", r"levels.generator.walls=3; expected a list, such as \[1,2\]"),
        # The form.
        ("seed=1,2", r"seed=1,2; several values are a list, KEY=\[A,B\], or one run each with -m"),
        ("run_dir=a,b", """run_dir=a,b; several .* with -m, or a text in quotes: 'run_dir="a,b"'"""),
        ("seed", "seed: expected KEY=VALUE; --help prints the keys"),
        ("=1", "=1: expected KEY=VALUE.*"),
        ("a b=1", "a b=1: expected KEY=VALUE.*"),
        ("levels.path=a=b.txt", """levels.path=a=b.txt: cannot be read; a text .*: 'levels.path="a=b.txt"'"""),
        ("run_dir=it's", """run_dir=it's: cannot be read; .*: 'run_dir="it'"'"'s"'"""),
        ("env.delays=[1,", r"env.delays=\[1,: cannot be read; .*"),
        # What is no option of a group.
        ("algo=1", "algo=1; expected the name of an option, as in algo=NAME; --help prints them"),
        ("levels=[paper]", r"levels=\[paper\]; expected the name of an option, .*"),
        ("algo=[ppo,a2c]", r"algo=\[ppo,a2c\]; expected the name of an option, .*"),
        ("study=nope", "study: no such group of values in this command; .*"),
        ("~study", "study: no such group of values in this command; .*"),
        ("hydra/launcher=nope", "hydra/launcher=nope; expected one of basic"),
        # Values that are set last.
        ({"algo": {"lrr": 1}}, rf"algo.lrr: {NO_KEY} algo.lr\?\); .*"),
        ({"env_steps": 1.5}, "env_steps: .* could not be converted to Integer"),
    ],
    ids=str,
)
def test_a_mistake_gets_one_sentence_that_says_what_is_right(wrong, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}$"):
        compose(wrong) if isinstance(wrong, str) else compose(values=wrong)


def test_the_same_arguments_give_configurations_of_their_own():
    """What is composed is kept, so that a change of one must not be seen in the next."""
    given = ("algo=a2c", "levels=hard", "seed=3", "run_dir=x")
    first = compose(*given)
    before = plain(first)
    first.seed, first.levels.train = 4, 1
    assert plain(compose(*given)) == before
    assert OmegaConf.is_struct(compose(*given))


@pytest.mark.parametrize("wrong", ["seed=3 seeed=3", "seed@x=1", "levels=example levels.generator.walls=[1]"])
def test_a_mistake_among_other_arguments_is_refused(wrong):
    with pytest.raises(ConfigError):
        compose(*wrong.split())


def test_a_file_of_one_level_implies_no_generator_unless_levels_are_named():
    assert implied(["algo=ppo", "levels.path=mine.txt"]) == ["algo=ppo", "levels=file", "levels.path=mine.txt"]
    named = ["levels.path=mine.txt", "levels=three_lengths"]
    assert implied(named) == named
    assert implied(["levels.path=set.jsonl"]) == ["levels.path=set.jsonl"]
