"""Copies of a Gymnasium environment that are stepped one after the other, here or in worker processes.

All numbers lie in one array with a record for each copy. With worker processes it is shared memory, and a pipe to each
worker says only what to do next: both ways run the same code on the same seeds.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import traceback
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np

from drest_torch.envs.interfaces.gymnasium_spaces import Array, Entry, action_row, actions_of
from drest_torch.errors import UserError

SECONDS_TO_END = 5.0


class Plan(NamedTuple):
    """What is copied."""

    make: Callable[[], gymnasium.Env[Any, Any]]
    name: str
    """The name of the environment, for messages."""
    action: gymnasium.Space[Any]
    entries: tuple[Entry, ...]
    """The observations."""

    def record(self) -> np.dtype[Any]:
        """Return the type of the record of a copy.

        ``_step`` says whether the next step or reset concerns the copy, ``level_seed`` is that of the next reset, or -1
        for none, and the observations have their names.
        """
        fixed = [("action", self.action.dtype, action_row(self.action)), ("_step", "bool"), ("level_seed", "int64")]
        results = [("reward", "float64"), ("terminated", "bool"), ("truncated", "bool")]
        observations = [(entry.name, entry.dtype, entry.shape) for entry in self.entries]
        return np.dtype([*fixed, *results, *observations], align=True)


class Copies:
    """Copies that are stepped in this process.

    Args:
        plan: what is copied.
        records: the records to read and write; a worker has its own part.
        first: the number of the first copy.
        made: the first copy, if it is made already.
    """

    def __init__(self, plan: Plan, records: Array, first: int = 0, made: gymnasium.Env[Any, Any] | None = None) -> None:
        self.records = records
        self._plan, self._first = plan, first
        self._envs: list[gymnasium.Env[Any, Any]] = [] if made is None else [made]
        for i in range(len(self._envs), len(records)):
            try:
                self._envs.append(plan.make())
            except (Exception, SystemExit) as error:
                self.close()
                raise self._failure(i, error) from error

    def step(self) -> None:
        """Step the chosen copies; one whose episode has ended is left alone and is paid nothing."""
        records, actions = self.records, actions_of(self._plan.action, self.records["action"])
        rewards = [0.0] * len(actions)
        plays = records["_step"] & ~(records["terminated"] | records["truncated"])
        for i in np.flatnonzero(plays).tolist():
            try:
                observation, reward, terminated, truncated, _ = self._envs[i].step(actions[i])
                rewards[i] = float(reward)
                if terminated or truncated:
                    records["terminated"][i], records["truncated"][i] = terminated, truncated
                self._write(i, observation)
            except (Exception, SystemExit) as error:
                raise self._failure(i, error) from error
        records["reward"] = rewards

    def reset(self) -> None:
        """Reset the chosen copies."""
        records = self.records
        for i in np.flatnonzero(records["_step"]).tolist():
            seed = int(records["level_seed"][i])
            try:
                observation, _ = self._envs[i].reset(seed=None if seed < 0 else seed)
                self._write(i, observation)
            except (Exception, SystemExit) as error:
                raise self._failure(i, error) from error
            records["terminated"][i] = records["truncated"][i] = False

    def render(self, i: int) -> Array | None:
        """Return a picture of a copy, or None if the environment renders none."""
        if self._envs[i].render_mode != "rgb_array":
            return None
        try:
            return np.asarray(self._envs[i].render())
        except Exception as error:
            raise self._failure(i, error) from error

    def close(self) -> None:
        """Close all copies."""
        for env in self._envs:
            with contextlib.suppress(Exception):
                env.close()

    def _write(self, i: int, observation: Any) -> None:
        for entry in self._plan.entries:
            self.records[entry.name][i] = entry.of(observation)

    def _failure(self, i: int, error: BaseException) -> UserError:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"
        text = " ".join(str(error).split())
        return UserError(
            f"{self._plan.name}: copy {self._first + i} failed with {type(error).__name__}: {text} ({place})"
        )


class Workers:
    """So many copies in worker processes, each with as many of them, which render no pictures.

    A worker that fails or dies ends all of them, and the reason is raised as one `UserError`.
    """

    def __init__(self, plan: Plan, copies: int, workers: int) -> None:
        self._name, share = plan.name, copies // workers
        context = multiprocessing.get_context("spawn")
        memory: Any = context.RawArray(ctypes.c_byte, copies * plan.record().itemsize)
        self.records = np.frombuffer(memory, plan.record())
        try:
            program = cloudpickle.dumps(plan)
        except Exception as error:
            raise UserError(f"{self._name} cannot be sent to a worker ({error}); use workers=0") from error
        self._workers: list[tuple[SpawnProcess, Connection]] = []
        self._finalizer = weakref.finalize(self, _end, self._workers)
        try:
            for first in range(0, copies, share):
                connection, worker_end = context.Pipe()
                arguments = (worker_end, program, memory, first, share)
                process = context.Process(target=_work, args=arguments, daemon=True)
                process.start()
                worker_end.close()
                self._workers.append((process, connection))
            self._wait()
        except BaseException:
            self.close()
            raise

    def step(self) -> None:
        """Step the chosen copies."""
        self._order("step")

    def reset(self) -> None:
        """Reset the chosen copies."""
        self._order("reset")

    def render(self, i: int) -> None:
        """Return no picture."""
        return

    def close(self) -> None:
        """End all processes, by force if they do not end by themselves."""
        self._finalizer()

    def _order(self, method: str) -> None:
        """Have all workers call a method of their copies, at the same time."""
        if not self._finalizer.alive:
            raise UserError(f"{self._name}: its workers have ended; make the environment again")
        try:
            for _, connection in self._workers:
                with contextlib.suppress(OSError):  # it is dead, which the reply will show
                    connection.send_bytes(method.encode())
            self._wait()
        except BaseException:  # also Ctrl-C: a reply that nobody reads would be taken for that of the next command
            self.close()
            raise

    def _wait(self) -> None:
        """Wait until all workers have replied; a reply is a failure, or nothing."""
        for number, (process, connection) in enumerate(self._workers):
            try:
                # If an environment leaves children behind, the pipe stays open after the death of its worker.
                if connection not in wait([connection, process.sentinel]):
                    raise EOFError
                failure = connection.recv_bytes().decode()
            except (EOFError, OSError):
                process.join(SECONDS_TO_END)
                reason = _cause(process.exitcode)
                raise UserError(f"{self._name}: worker {number} {reason}; its own messages tell more") from None
            if failure:
                raise UserError(f"{failure}, in worker {number}")


def _cause(exitcode: int | None) -> str:
    if exitcode is None:
        return "does not answer"
    return f"ended with exit status {exitcode}" if exitcode >= 0 else f"was killed by {signal.Signals(-exitcode).name}"


def _end(workers: list[tuple[SpawnProcess, Connection]]) -> None:
    for _, connection in workers:
        connection.close()  # the worker then ends by itself
    deadline = monotonic() + SECONDS_TO_END
    for process, _ in workers:
        process.join(max(0.0, deadline - monotonic()))
        process.kill()
        process.join()
    workers.clear()


def _work(connection: Connection, program: bytes, memory: Any, first: int, share: int) -> None:
    """Step the copies of a worker until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends the workers
    copies = None
    try:
        plan: Plan = cloudpickle.loads(program)
        copies = Copies(plan, np.frombuffer(memory, plan.record())[first : first + share], first)
        while True:
            connection.send_bytes(b"")
            getattr(copies, connection.recv_bytes().decode())()
    except UserError as error:
        with contextlib.suppress(OSError):
            connection.send_bytes(str(error).encode())
    except (EOFError, OSError):  # the driver has closed the pipe, or died
        pass
    finally:
        if copies:
            copies.close()
