"""Measure speed and write `docs/benchmarks.md`. A target that is missed makes the command fail.

    python -m benchmarks.run                            all parts (a quarter of an hour on two cores)
    python -m benchmarks.run --only stepping updating   some parts; the others stay unchanged
    python -m benchmarks.run --jax jax-venv/bin/python  with the JAX peer (see benchmarks/training.py)
    python -m benchmarks.run --quick                    a smoke test of a minute, whose figures mean nothing

The page is written after each part, so that stopping the command loses no measured part. It is made from a commit: with
uncommitted changes the command needs --uncommitted, and the page says so.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

from benchmarks.measuring import Bench
from benchmarks.page import missed_in, page_of, parts_of
from drest_torch.files import write_text

PARTS = (
    "machine",
    "stepping",
    "collecting",
    "updating",
    "training",
    "evaluating",
    "solving",
    "tables",
    "starting",
    "scoring",
    "environments",
    "answering",
    "growing",
    "gpu",
)
"""The modules of this package with a ``TITLE`` and a function ``run`` of a `Bench`, in the order of the page."""
PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba", "gymnasium", "stable-baselines3")
PAGE, QUICK_PAGE = Path("docs/benchmarks.md"), Path("runs/benchmarks_quick.md")
WRITTEN = ("benchmarks/growing.csv", "docs/images/growing-")
"""Beginnings of the names of files that a part writes besides its section."""
ROOT = Path(__file__).resolve().parents[1]


def machine() -> str:
    """Return the processor, the memory and the versions in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES if _is_installed(name))
    hardware = f"{processor()}, {cores} cores, {memory:.3g} GiB; {platform.system()} {platform.machine()}"
    return f"{hardware}; Python {platform.python_version()}, {versions}; threads of torch: {torch.get_num_threads()}"


def processor() -> str:
    """Return the name of the processor."""
    path = Path("/proc/cpuinfo")
    if path.is_file() and (name := re.search("model name\\s*: (.+)", path.read_text("utf-8"))):
        return name[1]
    return platform.processor()


def _is_installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def uncommitted(page: Path = PAGE) -> list[str]:
    """Return the tracked files that differ from the commit, except the outputs of benchmarks."""
    changed = _git("diff", "--name-only", "HEAD").splitlines()
    return [name for name in changed if (ROOT / name) != (ROOT / page).resolve() and not name.startswith(WRITTEN)]


def commit() -> str:
    """Return the commit of this repository, with a note if files differ from it."""
    name = _git("describe", "--always") or "unknown"
    return f"{name} **with uncommitted changes**" if uncommitted() else name


def measured(part: str, options: argparse.Namespace) -> str:
    """Measure a part; return its section of the page."""
    module = importlib.import_module(f"benchmarks.{part}")
    bench = Bench(quick=options.quick, jax=options.jax)
    torch.manual_seed(0)
    began = time.perf_counter()
    module.run(bench)
    words = ["python", "-m", "benchmarks.run", "--only", part]
    words += ["--quick"] if options.quick else []
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    how = f"`{shlex.join(words)}`: {time.perf_counter() - began:.0f} s, {day}, commit {commit()}. {machine()}."
    blocks = [f"## {module.TITLE}", (module.__doc__ or "").strip(), how]
    if options.quick:
        blocks.append("**A smoke test: these figures mean nothing.**")
    return "\n\n".join([*blocks, *bench.blocks])


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a smoke test: tiny sizes and two repeats")
    parser.add_argument("--uncommitted", action="store_true", help="measure in spite of uncommitted changes")
    parser.add_argument("--jax", metavar="PYTHON", default=os.environ.get("JAX_PYTHON"), help="a Python that has JAX")
    parser.add_argument("--page", type=Path, metavar="FILE", help=f"default {PAGE}; with --quick {QUICK_PAGE}")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Measure the selected parts; return 1 if a target was missed."""
    options = arguments(words)
    if not (options.quick or options.uncommitted) and (changed := uncommitted()):
        raise SystemExit(f"{changed[0]} has uncommitted changes; commit them, or measure with --uncommitted")
    path = options.page or (QUICK_PAGE if options.quick else PAGE)
    parts = parts_of(path.read_text(encoding="utf-8")) if path.is_file() else {}
    chosen = [part for part in PARTS if part in (options.only or PARTS)]
    missed: list[str] = []
    for index, part in enumerate(chosen, 1):
        print(f"\n=== {part} ({index} of {len(chosen)})", flush=True)
        parts[part] = measured(part, options)
        missed += [f"{part}, {line}" for line in missed_in(parts[part])]
        write_text(path, page_of({name: parts[name] for name in PARTS if name in parts}))
        print(f"    kept in {path}", flush=True)
    if options.quick:
        return 0
    print(f"\n{len(missed)} targets were missed", *missed, sep="\n  ")
    return int(bool(missed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped; the parts that were done are kept.", file=sys.stderr)
        sys.exit(130)
