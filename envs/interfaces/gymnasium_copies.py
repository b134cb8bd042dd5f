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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from drest_torch.envs.interfaces.gymnasium_spaces import ActionRule, Array, Entry
from drest_torch.errors import UserError

STEP, RESET, RENDER = b"step", b"reset", b"render "
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_END = 5.0


def make_registered(spec: Any, options: dict[str, Any], copy: int) -> gymnasium.Env[Any, Any]:
    """Make a copy of a registered environment.

    Gymnasium's check of what it returns takes a fifth of the time of CartPole, so only the first copy is checked.
    """
    return gymnasium.make(spec, disable_env_checker=copy > 0, **options)


def make_with(make: Callable[[], gymnasium.Env[Any, Any]], copy: int) -> gymnasium.Env[Any, Any]:
    """Make a copy with a function that does not ask which one it is."""
    return make()


@dataclass(frozen=True)
class Plan:
    """What is copied, and how often."""

    make: Callable[[int], gymnasium.Env[Any, Any]]
    """Make copy i."""
    name: str
    """The name of the environment, for messages."""
    action: ActionRule
    entries: tuple[Entry, ...]
    """The observations."""
    count: int

    @property
    def size(self) -> int:
        """Return the number of bytes that the records take."""
        return self.count * self._record().itemsize

    def records(self, memory: Any) -> Array:
        """Return the records [count] that lie in this memory.

        ``chosen`` are the copies that the next step or reset concerns, ``seed`` is that of the next reset, or -1 for
        none, and the observations are numbered.
        """
        return np.frombuffer(memory, self._record(), self.count)

    def _record(self) -> np.dtype[Any]:
        ends = [("terminated", "bool"), ("truncated", "bool")]
        fixed = [("action", self.action.dtype, self.action.row), ("chosen", "bool"), ("seed", "int64")]
        observations = [(str(i), entry.dtype, entry.shape) for i, entry in enumerate(self.entries)]
        return np.dtype([*fixed, ("reward", "float64"), *ends, *observations], align=True)


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
        self._paths = [(str(i), entry.path) for i, entry in enumerate(plan.entries)]
        self._ended = [False] * len(records)
        self._envs: list[gymnasium.Env[Any, Any]] = [] if made is None else [made]
        for i in range(len(self._envs), len(records)):
            try:
                self._envs.append(plan.make(first + i))
            except (Exception, SystemExit) as error:
                self.close()
                raise self._failure(i, error) from error

    def step(self) -> None:
        """Step the chosen copies; one whose episode has ended is left alone and is paid nothing."""
        records, ended = self.records, self._ended
        actions, chosen = self._plan.action.split(records["action"]), records["chosen"].tolist()
        rewards = [0.0] * len(actions)
        for i, env in enumerate(self._envs):
            if ended[i] or not chosen[i]:
                continue
            try:
                observation, reward, terminated, truncated, _ = env.step(actions[i])
                rewards[i] = float(reward)
                if terminated or truncated:
                    ended[i] = True
                    records["terminated"][i], records["truncated"][i] = terminated, truncated
                self._write(i, observation)
            except (Exception, SystemExit) as error:
                raise self._failure(i, error) from error
        records["reward"] = rewards

    def reset(self) -> None:
        """Reset the chosen copies."""
        records = self.records
        for i in np.flatnonzero(records["chosen"]).tolist():
            seed = int(records["seed"][i])
            try:
                observation, _ = self._envs[i].reset(seed=None if seed < 0 else seed)
                self._write(i, observation)
            except (Exception, SystemExit) as error:
                raise self._failure(i, error) from error
            self._ended[i] = records["terminated"][i] = records["truncated"][i] = False

    def render(self, copy: int) -> Array | None:
        """Return a picture of a copy, or None if the environment renders none."""
        if self._envs[copy].render_mode != "rgb_array":
            return None
        try:
            picture = self._envs[copy].render()
        except Exception as error:
            raise self._failure(copy, error) from error
        return np.asarray(picture)

    def close(self) -> None:
        """Close all copies."""
        for env in self._envs:
            with contextlib.suppress(Exception):
                env.close()

    def _write(self, i: int, observation: Any) -> None:
        for name, path in self._paths:
            part = observation
            for key in path:
                part = part[key]
            self.records[name][i] = part

    def _failure(self, i: int, error: BaseException) -> UserError:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}, line {frame.lineno}"
        text = " ".join(str(error).split())
        return UserError(
            f"{self._plan.name}: copy {self._first + i} failed with {type(error).__name__}: {text} ({place})"
        )


class Workers:
    """The same copies in worker processes, each with as many of them.

    A worker that fails or dies ends all of them, and the reason is raised as one `UserError`.
    """

    def __init__(self, plan: Plan, workers: int) -> None:
        self._name, self._share = plan.name, plan.count // workers
        context = multiprocessing.get_context("spawn")
        memory = context.RawArray(ctypes.c_byte, plan.size)
        self.records = plan.records(memory)
        try:
            program = cloudpickle.dumps(plan)
        except Exception as error:
            raise UserError(f"{self._name} cannot be sent to a worker ({error}); use workers=0") from error
        self._workers: list[tuple[SpawnProcess, Connection]] = []
        self._finalizer = weakref.finalize(self, _end, self._workers)
        try:
            for worker in range(workers):
                connection, worker_end = context.Pipe()
                part = (worker * self._share, (worker + 1) * self._share)
                process = context.Process(target=_work, args=(worker_end, program, memory, part), daemon=True)
                process.start()
                worker_end.close()
                self._workers.append((process, connection))
            for worker in range(workers):
                self._reply(worker)
        except BaseException:
            self.close()
            raise

    def step(self) -> None:
        """Step the chosen copies."""
        self._ask(range(len(self._workers)), STEP)

    def reset(self) -> None:
        """Reset the chosen copies."""
        self._ask(range(len(self._workers)), RESET)

    def render(self, copy: int) -> Array | None:
        """Return a picture of a copy, or None if the environment renders none."""
        worker, copy = divmod(copy, self._share)
        return self._ask([worker], RENDER + b"%d" % copy)[0]

    def close(self) -> None:
        """End all processes, by force if they do not end by themselves."""
        self._finalizer()

    def _ask(self, workers: Sequence[int], command: bytes) -> list[Array | None]:
        """Have workers obey a command, all at the same time; return their replies."""
        if not self._finalizer.alive:
            raise UserError(f"{self._name}: its workers have ended; make the environment again")
        try:
            for worker in workers:
                with contextlib.suppress(OSError):  # it is dead, which the reply will show
                    self._workers[worker][1].send_bytes(command)
            return [self._reply(worker) for worker in workers]
        except BaseException:  # also Ctrl-C: a reply that nobody reads would be taken for that of the next command
            self.close()
            raise

    def _reply(self, worker: int) -> Array | None:
        process, connection = self._workers[worker]
        try:
            # If an environment leaves children behind, the pipe stays open after the death of its worker.
            while not connection.poll(SECONDS_BETWEEN_LOOKS):
                if not process.is_alive() and not connection.poll():
                    raise EOFError
            failure, picture = connection.recv()
        except (EOFError, OSError):
            process.join(SECONDS_TO_END)
            reason = _cause(process.exitcode)
            raise UserError(f"{self._name}: worker {worker} {reason}; its own messages tell more") from None
        if failure:
            raise UserError(f"{failure}, in worker {worker}")
        result: Array | None = picture
        return result


def _cause(exitcode: int | None) -> str:
    if exitcode is None:
        return "does not answer"
    if exitcode >= 0:
        return f"ended with exit status {exitcode}"
    try:
        return f"was killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was killed by signal {-exitcode}"


def _end(workers: list[tuple[SpawnProcess, Connection]]) -> None:
    for _, connection in workers:
        connection.close()  # the worker then ends by itself
    deadline = monotonic() + SECONDS_TO_END
    for process, _ in workers:
        process.join(max(0.0, deadline - monotonic()))
        process.kill()
        process.join()
    workers.clear()


def _work(connection: Connection, program: bytes, memory: Any, part: tuple[int, int]) -> None:
    """Step the copies of a worker until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which ends the workers
    copies = None
    try:
        plan: Plan = cloudpickle.loads(program)
        copies = Copies(plan, plan.records(memory)[slice(*part)], part[0])
        connection.send((None, None))
        while True:
            command, picture = connection.recv_bytes(), None
            if command == STEP:
                copies.step()
            elif command == RESET:
                copies.reset()
            else:
                picture = copies.render(int(command.removeprefix(RENDER)))
            connection.send((None, picture))
    except UserError as error:
        with contextlib.suppress(OSError):
            connection.send((str(error), None))
    except (EOFError, OSError):  # the driver has closed the pipe, or died
        pass
    finally:
        if copies:
            copies.close()
