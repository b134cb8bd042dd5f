"""W&B online: runs, sweeps, agents and `wandb sync` against a server of the tests that speaks its protocol."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import wandb
import yaml
from PIL import Image

from drest_torch.commands.sweep import place_in_sweep
from drest_torch.config.compose import compose
from drest_torch.tracking.sinks import LoggerConfig, RunInfo
from drest_torch.tracking.wandb_sink import WandbSink
from tests.helpers.documents import ROOT
from tests.helpers.job_runners import wait_for
from tests.helpers.wandb_server import ENTITY, ServerRun, WandbServer, wandb_server

WANDB = """
from wandb import wandb_agent
from wandb.cli.cli import cli

wandb_agent.Agent.POLL_INTERVAL = 0.1  # seconds
cli()
"""
"""The command `wandb`, with an agent that asks for work without long pauses."""
ARGUMENTS = {"algo": "tabular", "levels": "example", "evaluations": 4, "pictures": 0}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WandbServer]:
    """Yield a server to which W&B in this process and in child processes is directed."""
    wandb.teardown()  # a process of W&B keeps its first server
    with wandb_server() as state:
        environment = {
            "HOME": str(tmp_path),
            "WANDB_API_KEY": "a" * 40,
            "WANDB_BASE_URL": state.url,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "WANDB_INIT_TIMEOUT": "60",  # on a busy machine
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        yield state
        wandb.teardown()


def run_python(*arguments: str) -> str:
    """Run Python in the working directory, and return its standard output."""
    result = subprocess.run([sys.executable, *arguments], text=True, capture_output=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def create_sweep(server: WandbServer, name: str, changes: dict[str, Any]) -> str:
    """Create a sweep of `configs/sweeps` by the command `wandb sweep`; return its address.

    Each parameter has its first value, or those in ``changes``.
    """
    config = yaml.safe_load((ROOT / f"configs/sweeps/{name}.yaml").read_text())
    first = {key: {"value": spec.get("values", [spec.get("value")])[0]} for key, spec in config["parameters"].items()}
    config["parameters"] = first | changes
    Path("sweep.yaml").write_text(yaml.safe_dump(config))
    run_python("-c", WANDB, "sweep", "sweep.yaml")
    (sweep,) = server.sweeps
    return f"{ENTITY}/{config['project']}/{sweep}"


def steps(run: ServerRun) -> list[int]:
    return [row["step"] for row in run.history]


# ------------------------------------------------------------------------------------- runs online


def online(folder: Path, run_id: str | None = None) -> WandbSink:
    """Return the logger of an online run."""
    return WandbSink(RunInfo(folder, LoggerConfig(mode="online", group="g"), {"seed": 3}, run_id), {})


def test_the_server_has_everything_that_a_run_logs(server, tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "p.png")
    sink = online(tmp_path / "mine")
    for step in (0, 100):
        sink.log(step, {"usefulness": step / 200})
    sink.picture(100, "curves", tmp_path / "p.png")
    sink.summary(100, {"best": 0.75})
    sink.close(failed=False)
    (run,) = server.runs.values()
    assert run.name == sink.run_id
    assert run.display_name == "mine"
    assert run.group == "g"
    assert run.config["seed"] == 3
    assert [row.get("usefulness") for row in run.history] == [0.0, 0.5, None]
    assert steps(run) == [0, 100, 100]
    assert run.summary["best"] == 0.75
    assert any(name.startswith("media/images/curves") for name in run.files)
    assert run.state == "finished"


def test_a_resumed_run_continues_on_the_server(server, tmp_path):
    first = online(tmp_path)
    first.log(0, {"n": 1})
    first.interrupt()
    first.close(failed=False)
    (run,) = server.runs.values()
    assert run.exit_code == 130
    assert run.state == "failed"  # outside sweeps, the user resumes it
    second = online(tmp_path, first.run_id)
    second.log(100, {"n": 2})
    second.close(failed=False)
    assert steps(run) == [0, 100]
    assert run.state == "finished"


# ------------------------------------------------------------------------------- folders of sweeps


class Placement(NamedTuple):
    """The folder of a run of a sweep, and the run to resume."""

    run_dir: str
    resume: str | None
    overwrite: bool = False


def placement(*keys: str) -> Placement:
    """Return where a run goes whose user set these keys."""
    cfg = compose("run_dir=default")
    place_in_sweep(cfg, keys)
    return Placement(cfg.run_dir, cfg.resume, cfg.overwrite)


@pytest.fixture
def in_sweep(monkeypatch, tmp_path):
    """Enter a folder, and the environment that an agent gives to the run r of the sweep s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    monkeypatch.setenv("WANDB_RUN_ID", "r")


def test_a_run_of_a_sweep_has_a_folder_of_its_own(in_sweep):
    assert placement("algo") == Placement("runs/sweeps/s/r", None, overwrite=True)


def test_a_run_dir_of_the_user_applies_in_sweeps(in_sweep):
    assert placement("run_dir") == Placement("default", None)


def test_a_run_outside_sweeps_keeps_its_folder(monkeypatch):
    monkeypatch.delenv("WANDB_SWEEP_ID", raising=False)
    assert placement("algo") == Placement("default", None)


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_no_sweep(in_sweep, monkeypatch, name):
    monkeypatch.setenv("WANDB_RUN_ID", name)
    assert placement("algo") == Placement("default", None)


def test_a_preempted_run_is_resumed_from_its_checkpoint(in_sweep):
    checkpoints = Path("runs/sweeps/s/r/checkpoints")
    checkpoints.mkdir(parents=True)
    (checkpoints.parent / "config.yaml").touch()
    (checkpoints / "step-000000000100.safetensors").touch()
    assert placement("algo").resume == "runs/sweeps/s/r"


def test_a_run_without_a_checkpoint_begins_anew(in_sweep):
    Path("runs/sweeps/s/r").mkdir(parents=True)
    Path("runs/sweeps/s/r/config.yaml").touch()
    assert placement("algo") == Placement("runs/sweeps/s/r", None, overwrite=True)


# ----------------------------------------------------------------------------- commands as printed


SMALL = {"env_steps": 2000, "pictures": 0, "algo.episodes": 128}
FEW_LEVELS = {"levels.train": 4, "levels.selection": 2, "levels.test": 2}
SWEEPS = {"lambda_meta": SMALL, "optimiser": SMALL | FEW_LEVELS}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_an_agent_trains_every_run_of_a_sweep(server, name):
    """`wandb sweep` and `wandb agent` with the project's files, reduced to two short runs."""
    changes = {key: {"value": value} for key, value in SWEEPS[name].items()} | {"seed": {"values": [1, 2]}}
    address = create_sweep(server, name, changes)
    run_python("-c", WANDB, "agent", address)
    runs = [*server.runs.values()]
    assert {run.sweep for run in runs} == {*server.sweeps}
    assert [run.state for run in runs] == ["finished", "finished"]
    assert sorted(run.config["seed"] for run in runs) == [1, 2]
    (sweep,) = server.sweeps.values()
    for run in runs:
        assert sweep.config["metric"]["name"] in {metric for row in run.history for metric in row}


@pytest.mark.slow
def test_a_preempted_run_of_a_sweep_is_resumed(server):
    """The result is that of a run which nobody has stopped, in its files and on the server."""
    arguments = ARGUMENTS | {"env_steps": 800_000, "reward.lam": 0.9, "reward.episodes_per_meta": 8}
    address = create_sweep(server, "lambda_meta", {key: {"value": value} for key, value in arguments.items()})
    command = [sys.executable, "-c", WANDB, "agent", "--forward-signals", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        wait_for(lambda: [True for path in Path().glob("runs/*/*/*/metrics.jsonl") if path.read_text().count("\n") > 3])
        agent.send_signal(signal.SIGTERM)
        agent.wait(60)
    (run,) = server.runs.values()
    assert run.state == "preempted"
    assert run.exit_code == 130
    run_python("-c", WANDB, "agent", address)
    assert run.state == "finished"
    words = [f"{key}={value}" for key, value in arguments.items()]
    run_python("-m", "drest_torch.train", *words, "reward=drest", "logger=none", "run_dir=straight")
    straight = metrics(Path("straight"))
    assert metrics(Path("runs/sweeps", run.sweep, run.name)) == straight
    assert steps(run) == [row["step"] for row in straight]


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the logged rows of a run without its times."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


@pytest.mark.slow
def test_an_offline_run_is_uploaded_by_its_printed_command(server):
    words = [f"{key}={value}" for key, value in ARGUMENTS.items()]
    run_python("-m", "drest_torch.train", *words, "env_steps=2000", "run_dir=mine")
    run_python("-c", WANDB, "sync", *map(str, Path().glob("mine/wandb/offline-run-*")))
    (run,) = server.runs.values()
    assert run.display_name == "mine"
    assert steps(run) == [row["step"] for row in metrics(Path("mine"))]
    summary = json.loads(Path("mine/summary.json").read_text())
    assert run.summary["train/usefulness"] == pytest.approx(summary["splits"]["train"]["usefulness"])
