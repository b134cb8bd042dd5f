"""The JAX peer in a separate process, which makes updates on request."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from benchmarks import jax_ppo
from benchmarks.pipelines import Plan
from drest_torch.algos.base import ADAM_EPSILON

HOW_TO_INSTALL = "`python -m venv jax-venv && jax-venv/bin/pip install jax xminigrid`"


def settings_of(plan: Plan, *, inputs: int, cores: int) -> jax_ppo.Settings:
    """Return the settings of a peer with the values of a plan."""
    algo, size = plan.cfg.algo, plan.size
    shared = ("lr", "clip", "entropy", "critic_coeff", "gae_lambda", "max_grad_norm", "minibatches")
    return jax_ppo.Settings(
        **{name: getattr(algo, name) for name in shared},
        envs=plan.envs,
        steps=plan.steps,
        inputs=inputs,
        width=size.width,
        depth=size.depth,
        epochs=plan.epochs,
        adam_epsilon=ADAM_EPSILON,
        precision=plan.precision,
        cores=cores,
    )


class JaxPPO:
    """PPO in JAX in a process of this Python; a context manager that ends the process."""

    def __init__(self, python: str, settings: jax_ppo.Settings) -> None:
        command = [python, str(Path(jax_ppo.__file__).resolve()), json.dumps(asdict(settings))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self._answer()

    def __enter__(self) -> JaxPPO:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.process.stdin.close()
        self.process.wait()

    def update(self) -> float:
        """Make one update; return its environment steps."""
        print(file=self.process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        """Return the next line of the process; raise if it has ended."""
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended without an answer; it needs {HOW_TO_INSTALL}")
        return line
