"""Repeated runs: ``from=RUN`` gives the same weights, other values change it, and differences are named."""

import json
from pathlib import Path

import pytest
import yaml

from drest_torch import Agent, train
from drest_torch.config.compose import compose
from drest_torch.config.reading import quoted
from drest_torch.config.repeating import repeated_run
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.tracking.provenance import read_provenance
from drest_torch.training.repetition_note import announce_repetition
from drest_torch.training.run import start
from tests.helpers.runs import FEW, QUIET, SMALLEST, in_folder, same_run, small

ELSEWHERE = (
    *("env.copies=16", "algo.episodes=32", "env_steps=600", "evaluations=2", "sampled=20", "policy.width=8"),
    *("policy.depth=1", "pictures=0", "env.base=8", "env.delays=[8]"),
)
KINDS = {
    "ppo": (*FEW, "algo=ppo", *SMALLEST, "policy.private_bits=1", "levels.symmetries=true", "seed=3"),
    "table": ("levels=example", "algo=tabular", *SMALLEST[:-2], "algo.random_episodes=100", "algo.decay_episodes=300"),
    "exact": ("levels=paper", "algo=exact", *SMALLEST[:-2], "env_steps=10000", "reward.gamma=0.9"),
    "cartpole": ("env=cartpole", "algo=a2c", *ELSEWHERE, "reward.counting=sequential", "reward.episodes_per_meta=2"),
    "own environment": ("env=torchrl", "env.factory=tests.helpers.counting:two_actions", *ELSEWHERE),
}


def repeated(folder, new, *overrides):
    return start(compose(f"from={folder}", *overrides, values=in_folder(new)))


@pytest.mark.mostly_slow
@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_repeated_bit_for_bit(name, tmp_path):
    start(compose(*KINDS[name], *QUIET, values=in_folder(tmp_path / "run"))).train()
    repeated(tmp_path / "run", tmp_path / "again").train()
    same_run(tmp_path / "run", tmp_path / "again")
    first, second = load_config(tmp_path / "run"), load_config(tmp_path / "again")
    second.run_dir = first.run_dir
    assert first == second


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeating") / "run"
    start(small(folder, "algo=ppo", "algo.lr=0.004", "policy.private_bits=1", "threads=1")).train()
    return folder


def test_further_arguments_change_the_run(run):
    stored = load_config(run)
    cfg = compose(f"from={run}", "seed=5", "algo.clip=0.1", "reward=default")
    assert cfg.seed == 5
    assert cfg.algo.clip == 0.1
    assert cfg.algo.lr == stored.algo.lr == 0.004
    assert cfg.reward.name == "default"
    assert cfg.policy == stored.policy
    assert cfg.env_steps == stored.env_steps
    assert cfg.run_dir != stored.run_dir


def test_another_algorithm_brings_its_own_values(run):
    cfg, a2c = compose(f"from={run}", "algo=a2c"), compose("algo=a2c", "levels=example")
    assert cfg.algo == a2c.algo
    assert cfg.algo.entropy == 0.3  # of its recipe for such levels
    assert cfg.env_steps == load_config(run).env_steps


def test_the_title_follows_the_levels(run):
    assert compose(f"from={run}").env.title == "example"
    assert compose(f"from={run}", "levels=royal_road").env.title == "royal_road"


def test_an_agent_repeats_a_run_in_python(run, tmp_path, capsys):
    Agent.train(from_=run, run_dir=tmp_path / "again")
    assert f"drest_torch: repeats {run}: versions, machine and threads are the same\n" in capsys.readouterr().err
    same_run(run, tmp_path / "again")
    agent = Agent.train(from_=str(run), run_dir=tmp_path / "other", seed=1, algo="a2c", env_steps=300)
    assert agent.cfg.seed == 1
    assert agent.cfg.algo.name == "a2c"


def test_the_command_repeats_a_run(run, tmp_path, call):
    done = call(train.main, f"from={run}", f"run_dir={tmp_path / 'again'}", "progress=false")
    assert done.code == 0
    assert "drest_torch: repeats" in done.err
    same_run(run, tmp_path / "again")


def test_a_run_of_an_earlier_version_has_whole_batches(run, tmp_path):
    (tmp_path / "config.yaml").write_text(
        (run / "config.yaml").read_text("utf-8").replace("last_batch: cut\n", ""), encoding="utf-8"
    )
    assert compose(f"from={run}").last_batch == "cut"
    assert compose(f"from={tmp_path}").last_batch == "whole"


def test_a_run_of_an_earlier_version_is_not_regularised(run, tmp_path):
    values = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    for key in ("algo.weight_decay", "algo.average", "policy.norm", "policy.dropout", "policy.head_width", "patience"):
        *group, name = key.split(".")
        del (values[group[0]] if group else values)[name]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    assert load_config(tmp_path) == load_config(run)


def test_differences_from_the_run_are_named(run, tmp_path, capsys):
    (tmp_path / "config.yaml").write_bytes((run / "config.yaml").read_bytes())
    (session,) = read_provenance(run)
    session["packages"]["torch"], session["processor"] = "1.0", "an abacus"
    (tmp_path / "provenance.json").write_text(json.dumps([session]), encoding="utf-8")
    announce_repetition([f"from={tmp_path}", "threads=2"])
    note = capsys.readouterr().err
    assert note.startswith(f"drest_torch: repeats {tmp_path}: the result can differ from it, because torch is ")
    assert ", not 1.0; " in note
    assert ", not an abacus; threads is 2, not 1\n" in note
    (tmp_path / "provenance.json").unlink()
    announce_repetition([f"from={tmp_path}"])
    assert "no provenance.json" in capsys.readouterr().err


def edited(run, folder, before, after):
    folder.mkdir()
    text = (run / "config.yaml").read_text("utf-8")
    assert before in text
    (folder / "config.yaml").write_text(text.replace(before, after, 1), encoding="utf-8")
    (folder / "metrics.jsonl").touch()  # a saved agent has none, and may lack keys
    return folder


def test_a_folder_that_cannot_be_repeated_is_refused(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    gone = edited(run, tmp_path / "gone", "\nseed: 0\n", "\nseed: 0\ncolour: red\n")
    lacks = edited(run, tmp_path / "lacks", "\nseed: 0\n", "\n")
    strange = edited(run, tmp_path / "strange", "network: mlp", "network: my_network")
    mistakes = {
        (f"from={tmp_path / 'missing'}",): "missing: no such folder; expected the folder of a run",
        (f"from={empty}",): r"empty: no run in it \(no config.yaml\); expected the folder of a run",
        (f"from={gone}",): "colour is not a key of this version: .* not resumed or repeated; start a new one",
        (f"from={lacks}",): "not the configuration of a run of this version .seed has no value",
        (f"from={strange}",): "policy.network names my_network, .* add imports=my_network",
        (f"from={run}", f"resume={run}"): "a run is resumed in its folder or repeated in a new one",
        (f"from={run}", f"from={run}"): "given twice",
        ("from=a,b",): "a,b: no such folder",
        ("from=",): "from=: expected the folder of a run",
    }
    for overrides, sentence in mistakes.items():
        with pytest.raises((CheckpointError, ConfigError), match=sentence):
            compose(*overrides)


@pytest.mark.parametrize("name", [[], ["--config-name", "config"], ["-cn", "config"]])
def test_the_folder_of_a_run_is_no_folder_of_options(name, run, call):
    done = call(train.main, "--config-dir", str(run), *name, "--cfg", "job")
    assert f"{Path(run) / 'config.yaml'}: is not read, " in done.sentence
    assert f"drest train from={run} repeats a run" in done.sentence


@pytest.mark.parametrize("option", ["--config-path=FOLDER", "--config-name=evaluate"])
def test_another_configuration_is_refused(option, run, call):
    assert option.partition("=")[0] in call(train.main, option.replace("FOLDER", str(run))).sentence


@pytest.mark.parametrize("folder", ["runs/one", "a=b", 'a "quoted" name', "it's, here", "back\\", '\\"', "true", " "])
def test_a_quoted_folder_is_read_as_it_is(folder):
    assert repeated_run([quoted(f"from={folder}")]) == Path(folder)
