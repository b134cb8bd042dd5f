"""Runners of jobs for tests. The file `calls` in a run's folder lists the processes that began it."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from drest_torch.jobs import local
from drest_torch.jobs.executor import Started, run_job, run_jobs
from drest_torch.jobs.job import Job, Result
from drest_torch.training.interruption import STOPS

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Seconds after which a test stops waiting."""


def job(name, runner="sum_of_squares", **spec):
    return Job(name, f"tests.helpers.job_runners:{runner}", {"name": name} | spec)


def squares(*sizes):
    return [job(f"squares/{n}", n=n) for n in sizes]


def sums(store, jobs):
    results = [store.get(job) for job in jobs]
    return [result and result.numbers.get("sum") for result in results]


def names(failures):
    return [failure.job.name for failure in failures]


def failed(store):
    """Return the stored reasons of failed runs by name."""
    records = [json.loads(path.read_text()) for path in store.folder.glob("*/failure.json")]
    return {record["name"]: record["reason"] for record in records}


class Here:
    """An executor that runs jobs in this process."""

    def run(self, tasks):
        for task, folder in tasks:
            yield Started(task)
            yield run_job(task, folder)


def calls(store, job):
    """Return the processes that began a run, in order."""
    path = store.folder_of(job) / "calls"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def is_alive(process):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def driver(folder, store, jobs, executor, patience=5.0):
    """Start a study in a new process and session, in this folder. Its exit status is the number of failures."""
    study = pickle.dumps((jobs, store, executor, patience)).hex()
    command = [sys.executable, "-m", "tests.helpers.job_runners", study]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **output)


def _begin(folder):
    with open(folder / "calls", "a") as file:
        file.write(f"{os.getpid()}\n")


def sum_of_squares(spec, folder):
    _begin(folder)
    n = spec.get("n", 3)
    spec.clear()  # a copy
    return Result({"n": n, "sum": sum(i * i for i in range(n))}, {"squares": np.arange(n) ** 2})


def fails(spec, folder):
    """Fail until the file ``until`` exists."""
    _begin(folder)
    if not Path(spec["until"]).exists():
        raise ValueError("it cannot be\ndone")
    return Result({"done": True})


def exits(spec, folder):
    _begin(folder)
    sys.exit("no more")


def stops(spec, folder):
    raise KeyboardInterrupt


def computes(spec, folder):
    """Compute for a tenth of a second, then sleep; the first session is stopped."""
    first = not (folder / "calls").exists()
    _begin(folder)
    began = time.process_time()
    while time.process_time() < began + 0.1:
        pass
    time.sleep(0.3)
    if first:
        raise KeyboardInterrupt
    return Result({"done": True})


def dies(spec, folder):
    _begin(folder)
    print("before the end", flush=True)
    if "status" in spec:
        os._exit(spec["status"])
    os.kill(os.getpid(), spec["how"])
    time.sleep(PATIENCE)
    raise AssertionError("still alive")


def returns(spec, folder):
    objects = {"objects": np.array([{}, []], dtype=object)}
    return {"nothing": None, "a dict": {"sum": 1}, "an object array": Result({}, objects)}[spec["what"]]


def waits(spec, folder):
    """Wait until the file ``until`` exists. ``on_stop``: how it reacts to a stop; a training run saves."""
    received = []
    handlers = {"is deaf": signal.SIG_IGN, "saves": lambda signum, frame: received.append(signum)}
    for stop in STOPS if "on_stop" in spec else ():
        signal.signal(stop, handlers[spec["on_stop"]])
    _begin(folder)
    wait_for(lambda: received or Path(spec["until"]).exists())
    if received:
        (folder / "saved").write_text(json.dumps(received))
        raise KeyboardInterrupt
    return Result({"saved": (folder / "saved").exists()})


def threads(spec, folder):
    import torch

    count = torch.get_num_threads()
    torch.set_num_threads(3)
    return Result({"threads": count, "environment": os.environ.get("OMP_NUM_THREADS")})


def plays(spec, folder):
    """Train tabular agents, practically for ever."""
    from drest_torch.algos.tabular_kernel import new_state, play
    from drest_torch.envs.levels import world
    from tests.helpers.tabular_twin import TabularRules, ready, rules_of

    tables, optima, _ = ready(world("example"))
    rules, state = rules_of(TabularRules(), optima), new_state(np.arange(1), len(tables.target), 2)
    play(tables, rules, state, 1)  # compiled
    _begin(folder)
    play(tables, rules, state, 10**15)
    raise AssertionError("it has ended")


if __name__ == "__main__":
    jobs, store, executor, local.SECONDS_TO_SAVE = pickle.loads(bytes.fromhex(sys.argv[1]))
    try:
        sys.exit(len(run_jobs(jobs, store, executor)))
    except KeyboardInterrupt:
        sys.exit(130)
