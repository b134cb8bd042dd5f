"""What the runs of the tests do. A run's folder tells afterwards how often it was begun."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.studies.jobs import Job, Result, Store

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120.0
"""Seconds after which something that does not come is given up."""


def job(name: str, runner: str = "squares", **spec: Any) -> Job:
    return Job(name, f"tests.job_runners:{runner}", {"name": name} | spec)


def calls(store: Store, job: Job) -> list[int]:
    """The processes that began a run, in their order."""
    try:
        return [int(line) for line in (store.folder_of(job) / "calls").read_text().split()]
    except FileNotFoundError:
        return []


def wait_for(condition: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """Also false for one that nobody has asked about yet (a zombie)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def quick_path(folder: Path) -> list[str]:
    """Where another process finds this project, but its package without what stands in its ``__init__``.

    That imports torchrl, which takes seconds and is no matter of the runs here.
    """
    stand_in = folder / "stand-in"
    (stand_in / "drest_torch").mkdir(parents=True, exist_ok=True)
    (stand_in / "drest_torch" / "__init__.py").write_text(f"__path__ = {[str(ROOT / 'drest_torch')]!r}\n")
    return [str(stand_in), str(ROOT)]


def _begin(folder: Path) -> None:
    with open(folder / "calls", "a") as file:
        file.write(f"{os.getpid()}\n")


# ----------------------------------------------------------------------------------------- runners


def squares(spec: dict[str, Any], folder: Path) -> Result:
    _begin(folder)
    n = spec.get("n", 3)
    spec.clear()  # its own copy
    return Result({"n": n, "sum": sum(i * i for i in range(n))}, {"squares": np.arange(n) ** 2})


def fails(spec: dict[str, Any], folder: Path) -> Result:
    """Until there is a file of this name."""
    _begin(folder)
    if not Path(spec["until"]).exists():
        raise ValueError("it cannot be\ndone")
    return Result({"done": True})


def exits(spec: dict[str, Any], folder: Path) -> Result:
    _begin(folder)
    sys.exit("no more")


def stops(spec: dict[str, Any], folder: Path) -> Result:
    raise KeyboardInterrupt


def dies(spec: dict[str, Any], folder: Path) -> Result:
    _begin(folder)
    print("before the end", flush=True)
    if spec["how"] == "exit":
        os._exit(7)
    os.kill(os.getpid(), spec["how"])
    time.sleep(PATIENCE)
    raise AssertionError("still alive")


def returns(spec: dict[str, Any], folder: Path) -> Any:
    return {
        "nothing": None,
        "a dict": {"sum": 1},
        "a function": Result({"function": squares}),
        "an object array": Result({}, {"objects": np.array([{}, []], dtype=object)}),
        "a list as array": Result({}, {"list": [1, 2]}),  # type: ignore[dict-item]
    }[spec["what"]]


def waits(spec: dict[str, Any], folder: Path) -> Result:
    _begin(folder)
    wait_for(Path(spec["until"]).exists)
    return Result({"waited": True})


def saves(spec: dict[str, Any], folder: Path) -> Result:
    """Waits too, and saves when it is asked to stop, as a training run does."""
    asked = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda signum, frame: asked.append(signum))
    _begin(folder)
    wait_for(lambda: asked or Path(spec["until"]).exists())
    if asked:
        (folder / "saved").write_text(json.dumps(asked))
        raise KeyboardInterrupt
    return Result({"saved": (folder / "saved").exists()})


def threads(spec: dict[str, Any], folder: Path) -> Result:
    import torch

    found = torch.get_num_threads()
    torch.set_num_threads(3)
    return Result({"threads": found, "environment": os.environ.get("OMP_NUM_THREADS")})


def dies_once(spec: dict[str, Any], folder: Path) -> Result:
    _begin(folder)
    if len((folder / "calls").read_text().split()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Result({"done": True})
