"""What the runs of the tests do. A run's folder tells afterwards how often it was begun."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from drest_torch.jobs.job import Job, Result

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Seconds after which something that does not come is given up."""


def job(name, runner="sum_of_squares", **spec):
    return Job(name, f"tests.helpers.job_runners:{runner}", {"name": name} | spec)


def squares(*sizes):
    return [job(f"squares/{n}", n=n) for n in sizes]


def sums(store, jobs):
    results = [store.get(job) for job in jobs]
    return [result and result.numbers.get("sum") for result in results]


def names(failures):
    return [failure.job.name for failure in failures]


def calls(store, job):
    """The processes that began a run, in their order."""
    try:
        return [int(line) for line in (store.folder_of(job) / "calls").read_text().split()]
    except FileNotFoundError:
        return []


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def is_alive(process):
    """Also false for one that nobody has asked about yet (a zombie)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def quick_path(folder):
    """Where another process finds this project, but its package without what stands in its ``__init__``.

    That imports torchrl, which takes seconds and is no matter of the runs here.
    """
    stand_in = folder / "stand-in"
    (stand_in / "drest_torch").mkdir(parents=True, exist_ok=True)
    (stand_in / "drest_torch" / "__init__.py").write_text(f"__path__ = {[str(ROOT / 'drest_torch')]!r}\n")
    return [str(stand_in), str(ROOT)]


def _begin(folder):
    with open(folder / "calls", "a") as file:
        file.write(f"{os.getpid()}\n")


def sum_of_squares(spec, folder):
    _begin(folder)
    n = spec.get("n", 3)
    spec.clear()  # its own copy
    return Result({"n": n, "sum": sum(i * i for i in range(n))}, {"squares": np.arange(n) ** 2})


def fails(spec, folder):
    """Until there is a file of this name."""
    _begin(folder)
    if not Path(spec["until"]).exists():
        raise ValueError("it cannot be\ndone")
    return Result({"done": True})


def exits(spec, folder):
    _begin(folder)
    sys.exit("no more")


def stops(spec, folder):
    raise KeyboardInterrupt


def dies(spec, folder):
    _begin(folder)
    print("before the end", flush=True)
    if "status" in spec:
        os._exit(spec["status"])
    os.kill(os.getpid(), spec["how"])
    time.sleep(PATIENCE)
    raise AssertionError("still alive")


def returns(spec, folder):
    return {
        "nothing": None,
        "a dict": {"sum": 1},
        "a function": Result({"function": sum_of_squares}),
        "an object array": Result({}, {"objects": np.array([{}, []], dtype=object)}),
        "a list as array": Result({}, {"list": [1, 2]}),
    }[spec["what"]]


def waits(spec, folder):
    _begin(folder)
    wait_for(Path(spec["until"]).exists)
    return Result({"waited": True})


def is_deaf(spec, folder):
    """Waits too, and cannot be asked to stop."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    return waits(spec, folder)


def saves(spec, folder):
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


def threads(spec, folder):
    import torch

    found = torch.get_num_threads()
    torch.set_num_threads(3)
    return Result({"threads": found, "environment": os.environ.get("OMP_NUM_THREADS")})


def plays(spec, folder):
    """Tabular agents, as good as for ever."""
    from drest_torch.algos.tabular import Schedule, rules_for
    from drest_torch.algos.tabular_kernel import new_state, play
    from drest_torch.envs.dynamics.mdp import compile_levels
    from drest_torch.envs.exact.solver import solve
    from drest_torch.envs.levels import world
    from drest_torch.evaluation.tabular import tabulate
    from drest_torch.reward import Reward

    mdp = compile_levels([world("example")])
    worlds = tabulate(mdp, solve(mdp, 0.95))
    schedule = Schedule(
        lr=0.25,
        lr_end=0.25,
        epsilon=0.5,
        epsilon_end=0.5,
        decay_episodes=1,
        random_episodes=0,
        gradient="softmax",
        discount_bumps=True,
    )
    rules = rules_for(1, schedule, Reward(0.9, 0.95, 64), num_lengths=2, divisor=[1.0, 1.0])
    state = new_state(np.arange(1), worlds.target.shape[1], 2)
    play(worlds, rules, state, 1)  # compiled
    _begin(folder)
    play(worlds, rules, state, 10**15)
    raise AssertionError("it has ended")


def trains(spec, folder):
    """A training run. The first time it waits, so many updates after its beginning and at least one after its
    last checkpoint, until there is a file of this name.
    """
    from drest_torch.building.checkpoints import step_path
    from drest_torch.jobs import training_job as runs
    from drest_torch.training.run import Run

    first = not (folder / "calls").exists()
    _begin(folder)
    update, count = Run.update, 0

    def counted(run):
        nonlocal count
        if count == 0:
            with open(folder / "begun_at", "a") as file:
                file.write(f"{run.state.steps}\n")
        if first and count >= spec["updates"] and not step_path(run.checkpoints, run.state.steps).exists():
            (folder / "waits").touch()
            wait_for(Path(spec["until"]).exists)
        count += 1
        return update(run)

    Run.update = counted
    try:
        return runs.train(spec, folder)
    finally:
        Run.update = update
