"""Files of strangers, outputs in the place of inputs, and values that nothing can be made of: one sentence each."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import save
from torch import nn

from drest_torch import own_code
from drest_torch.agent import Agent
from drest_torch.algos.networks import NETWORKS
from drest_torch.building.checkpoints import FORMAT, checksum, load_checkpoint, save_checkpoint, step_checkpoints
from drest_torch.cli import sentence_of
from drest_torch.comparison.records import read_run
from drest_torch.config.compose import compose
from drest_torch.config.stored import load_config
from drest_torch.envs.levels import LevelError, format_level, read_levels, world
from drest_torch.errors import CheckpointError, ConfigError, FileError, shown
from drest_torch.files import MOST_BYTES, read_whole, refuse_to_replace, remove_partial, write_text
from drest_torch.memory import COPIES, Bounded
from drest_torch.tracking.sinks import LoggerError, read_metrics
from drest_torch.training.folder import command_line, resume_command
from drest_torch.training.run import resume, start
from tests.helpers.runs import small


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    start(small(folder, "env_steps=500", "evaluations=1", "keep_last=1")).train()
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A finished run that a test may damage."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def changed(run: Path, **changes) -> Path:
    """Write other tensors or values to the checkpoint of a run, with the right checksum."""
    (path,) = step_checkpoints(run / "checkpoints")
    tensors, meta = load_checkpoint(path)
    values = meta | changes.pop("meta", {})
    tensors |= changes
    save_checkpoint(path, {name: tensor for name, tensor in tensors.items() if tensor is not None}, values)
    return path


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    with open(tmp_path / "large.jsonl", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    for name, reason in (("pipe", "no regular file"), ("zero", "no regular file"), ("large", "expected at most")):
        with pytest.raises(FileError, match=reason):
            read_whole(tmp_path / f"{name}.jsonl")
        with pytest.raises(FileError, match=reason):
            read_levels(tmp_path / f"{name}.jsonl")


def test_what_a_kill_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ours, others = ".0123456789abcdef.partial", (".mine.partial", "0123456789abcdef.partial", "kept")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ours).write_text("another's")
    folder = tmp_path / "run"
    (folder / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    for name in (ours, *others):
        (folder / "inner" / name).write_text("")
    remove_partial(folder)
    assert sorted(path.name for path in (folder / "inner").iterdir()) == sorted(others)
    assert (tmp_path / "elsewhere" / ours).read_text() == "another's"


def test_an_output_does_not_replace_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    inputs = [tmp_path / "config.yaml", tmp_path / "checkpoints"]
    refuse_to_replace(tmp_path / "out.json", inputs)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("config.yaml", "checkpoints/step.json", "checkpoints/../config.yaml", "link/config.yaml"):
        with pytest.raises(FileError, match="would replace what is read"):
            refuse_to_replace(tmp_path / name, inputs)


@pytest.mark.parametrize("path", [Path(), Path("/")])
def test_a_path_without_a_name_is_no_file(path: Path) -> None:
    with pytest.raises(FileError, match="the path of no file"):
        write_text(path, "mine")


def test_control_characters_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    assert shown("a\x1b[31mb\u202ec λ ü\nd") == "a\\x1b[31mb\\u202ec λ ü\nd"
    (tmp_path / "level.txt").write_text("title: \x1b]0;mine\x07x\n" + format_level(world("example")))
    with pytest.raises(LevelError, match="title"):
        read_levels(tmp_path / "level.txt")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 2]\nb: [*a, *a]\n",
        "[" * 100_000,
        "!!python/object/apply:os.system ['touch pwned']",
        "- 1\n",
        "7",
        "\x00",
        "a: ${oc.env:HOME",
    ],
    ids=["references", "nested", "tag", "list", "number", "nul", "half an interpolation"],
)
def test_a_configuration_that_no_run_wrote_is_refused(text: str, run: Path) -> None:
    (run / "config.yaml").write_text(text)
    for read in (load_config, read_run):
        with pytest.raises(CheckpointError) as error:
            read(run)
        assert len(str(error.value).splitlines()) == 1
    assert not Path("pwned").exists()


def test_an_interpolation_in_a_foreign_configuration_is_a_text(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("title: example", "title: ${oc.env:SECRET}"))
    assert load_config(run).env.title == "${oc.env:SECRET}"
    assert read_run(run).config["env.title"] == "\\${oc.env:SECRET}"
    resume(run).train()
    for written in run.rglob("*"):
        assert not written.is_file() or b"hunter2" not in written.read_bytes()


NAMES_CODE = [
    *({"algo": {"name": name}} for name in ("os", "stranger")),
    {"objective": {"name": "stranger"}},
    {"policy": {"network": "stranger"}},
    {"logger": {"sinks": {"stranger": None}}},
    *({"env": {"factory": factory}} for factory in ("os:abort", "stranger:make", "torch.hub:load", "drest_torch:main")),
    {"env": {"control": "stranger:control"}},
    {"env": {"id": "stranger:Odd-v0"}},
]


@pytest.mark.parametrize("values", NAMES_CODE, ids=str)
def test_code_that_a_stored_configuration_names_is_not_run(
    values: dict, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('executed')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = run / "config.yaml"
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), values), path)
    for read in (Agent.load, resume, load_config):
        with pytest.raises(CheckpointError, match=r"names [\w.]+, a module outside drest_torch.*imports="):
            read(run)


def test_code_that_the_user_has_imported_or_trained_with_is_used(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_the_user.py").write_text("from drest_torch.algos.networks.mlp import build\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = run / "config.yaml"
    OmegaConf.update(cfg := OmegaConf.load(path), "policy.network", "of_the_user")
    OmegaConf.save(cfg, path)
    with pytest.raises(CheckpointError, match=r"policy\.network names of_the_user"):
        load_config(run)
    importlib.import_module("of_the_user")
    assert load_config(run).policy.network == "of_the_user"
    monkeypatch.delitem(sys.modules, "of_the_user")
    monkeypatch.setattr(own_code, "_NAMED", set())
    start(small(tmp_path / "mine", "policy.network=of_the_user", "env_steps=300", "evaluations=1")).train()
    assert Agent.load(tmp_path / "mine").cfg.policy.network == "of_the_user"
    assert resume_command(tmp_path / "mine").endswith("mine imports=of_the_user")


def test_plugins_in_the_working_directory_are_not_found_while_a_run_is_loaded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('executed')")
    (folder := tmp_path / "stranger-1.dist-info").mkdir()
    (folder / "METADATA").write_text("Name: stranger\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[drest_torch.networks]\nhandy = stranger\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert NETWORKS.is_known("handy")
    OmegaConf.update(cfg := OmegaConf.load(run / "config.yaml"), "policy.network", "handy")
    OmegaConf.save(cfg, run / "config.yaml")
    with pytest.raises(CheckpointError, match=r"policy\.network names handy"):
        Agent.load(run)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("command", [["drest"], [sys.executable, "-m", "drest_torch"]], ids=["drest", "python -m"])
def test_a_command_uses_the_code_that_its_line_names(command: list[str], run: Path, tmp_path: Path) -> None:
    """Hydra would run what lies in a folder `hydra_plugins` of the working directory."""
    (tmp_path / "of_the_user.py").write_text("from drest_torch.algos.networks.mlp import build\n")
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "stranger.py").write_text("raise SystemExit('executed')")
    OmegaConf.update(cfg := OmegaConf.load(run / "config.yaml"), "policy.network", "of_the_user")
    OmegaConf.save(cfg, run / "config.yaml")
    script = Path(sys.executable).with_name("drest")
    words = [
        str(script) if command == ["drest"] else command[0],
        *command[1:],
        "evaluate",
        f"run={run}",
        "levels=example",
    ]
    if not Path(words[0]).exists():
        pytest.skip("the console script is not installed")
    refused, used = (
        subprocess.run([*words, *more], cwd=tmp_path, capture_output=True, text=True, check=False)
        for more in ((), ("imports=of_the_user",))
    )
    assert (refused.returncode, used.returncode) == (2, 0), used.stderr
    assert "add imports=of_the_user to the command" in refused.stderr


def test_other_levels_than_those_that_the_checkpoint_is_of_are_refused(tmp_path: Path) -> None:
    level = tmp_path / "level.txt"
    level.write_text(format_level(world("example")))
    start(small(tmp_path / "run", f"levels.path={level}")).save()
    resume(tmp_path / "run")
    level.write_text(format_level(world("example")).replace("C3", "C4"))
    with pytest.raises(CheckpointError, match=r"saved with another set of levels \(\w+, and this run's is \w+\)"):
        resume(tmp_path / "run")


MISFITS = {
    "none": ({"generator": None}, ""),
    "generator": ({"generator": torch.zeros(3, dtype=torch.uint8)}, ""),
    "shape": ({"optimizer.adam.0.exp_avg": torch.zeros(1, 1)}, ""),
    "type": ({"optimizer.adam.0.exp_avg": torch.zeros(1, dtype=torch.int64)}, ""),
    "index": ({"optimizer.adam.99.exp_avg": torch.zeros(1)}, ""),
    "name": ({"optimizer.adam.zero.exp_avg.more": torch.zeros(1)}, ""),
    "steps": ({"meta": {"steps": "many"}}, ""),
    "score": ({"meta": {"best_score": 10**400}}, ""),
    "value": ({"meta": {"unknown": 1}}, ""),
    "origin": ({"meta": {"of": 3}}, ""),
    "algorithm": ({"meta": {"of": {"algorithm": "a2c"}}}, ": was saved with another algorithm .a2c, and this"),
    "weights": ({"policy": torch.float64}, ": policy tensor '.*' is torch.float64"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_checkpoint_that_does_not_fit_is_refused(case: str, run: Path) -> None:
    changes, words = MISFITS[case]
    if case == "weights":
        tensors, _ = load_checkpoint(step_checkpoints(run / "checkpoints")[0])
        changes = {name: each.double() for name, each in tensors.items() if name.startswith("policy.") and each.ndim}
    path = changed(run, **changes)
    with pytest.raises(CheckpointError, match=f"{path}{words}"):
        resume(run)


def test_a_header_that_promises_gigabytes_is_refused(run: Path) -> None:
    (path,) = step_checkpoints(run / "checkpoints")
    path.write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="damaged"):
        resume(run)
    tensors = {"policy.x": torch.ones(1)}
    metadata = {"format": FORMAT, "meta": "[", "sha256": checksum(tensors, "[")}
    path.write_bytes(save(tensors, metadata=metadata))
    with pytest.raises(CheckpointError, match="cannot be read"):
        resume(run)


def test_what_a_kill_kept_too_many_is_pruned_and_what_it_prevented_is_written(run: Path, tmp_path: Path) -> None:
    (path,) = step_checkpoints(run / "checkpoints")
    shutil.copy(path, path.with_name("step-000000000001.safetensors"))
    resume(run)
    assert step_checkpoints(run / "checkpoints") == [path]
    few = ("levels=generated", "levels.train=2", "levels.test=1", "levels.selection=0")
    start(small(tmp_path / "generated", *few))
    split = tmp_path / "generated" / "split.json"
    written = split.read_bytes()
    split.unlink()
    resume(tmp_path / "generated")
    assert split.read_bytes() == written


def test_only_numbers_are_read_of_damaged_metrics(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    many = json.dumps({"step": 4} | {f"name{index}": 1 for index in range(20_000)})
    lines = (
        '{"step": 1, "a": "text", "b": [1], "c": {"d": 1}, "e": true, "f": null, "g": 0.5}',
        *("[1]", "[" * 100_000, '{"step": "2"}', '{"step": 3, "x": 1' + "0" * 500 + "}", many, '{"step": 5, "x'),
    )
    path.write_text("\n".join(lines))
    first, second = read_metrics(path)
    assert first.pop("f") != 0
    assert (first, second) == ({"step": 1, "g": 0.5}, {"step": 3})


@pytest.mark.parametrize("env", [("levels=example",), ("env=cartpole",)], ids=["gridworld", "environment"])
def test_networks_and_batches_that_do_not_fit_are_refused_before_they_are_made(
    env: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drest_torch.memory.free_memory", lambda: 2.0**20)
    asked = compose(*env, "algo=ppo", "policy.width=512", "policy.depth=3", f"run_dir={tmp_path / 'run'}")
    with pytest.raises(ConfigError, match=r"at least [\d.]+ GiB .* use a smaller (policy\.width|algo\.episodes)"):
        start(asked)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_checkpoint_for_which_memory_is_short_is_a_memory_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library that writes it would end the process."""
    asked = []

    def none(size: int) -> None:
        asked.append(size)
        raise MemoryError

    monkeypatch.setattr("drest_torch.building.checkpoints.bytearray", none, raising=False)
    with pytest.raises(MemoryError):
        save_checkpoint(tmp_path / "a.safetensors", {"a": torch.zeros(1000)}, {})
    assert asked[0] > 2 * 4000
    assert not list(tmp_path.iterdir())


def test_the_memory_of_networks_is_that_of_their_weights_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = COPIES * 4 * (8 * 16 + 16)
    for free, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr("drest_torch.memory.free_memory", lambda free=free: float(free))
        with nullcontext() if fits else pytest.raises(ConfigError), Bounded():
            nn.Linear(8, 16)


def test_short_memory_is_a_sentence_and_other_errors_stay_errors() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60)
    assert "more memory was needed than there is: 4,294,967,296.0 GiB at once; use a smaller" in sentence_of(
        error.value
    )
    with pytest.raises(RuntimeError, match="shapes"):
        sentence_of(RuntimeError("shapes do not match"))


@pytest.mark.parametrize(
    "name",
    ["runs/a", "a b", "ü", "a, b (c)=[1]", 'q"uote', "it's", "back\\slash", "end\\", 'a\\"b', "12", "007", "null"],
)
def test_the_command_that_resumes_a_run_can_be_pasted(name: str) -> None:
    assert compose(shlex.split(command_line("train", f"resume={name}"))[-1]).resume == name


def test_a_run_whose_logger_cannot_start_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LoggerError("no logger")

    monkeypatch.setattr("drest_torch.tracking.csv_sink.Logger", fails)
    folder = tmp_path / "run"
    run = start(small(folder, "logger=csv"))
    with pytest.raises(LoggerError):
        run.train()
    assert not folder.exists()
