"""All measurements of speed, in one command.

    python -m benchmarks.run                            everything (a quarter of an hour on two cores)
    python -m benchmarks.run --only stepping updating   some parts; the others stay as they were
    python -m benchmarks.run --quick                    in a minute, to see that it works; the figures mean nothing
    python -m benchmarks.run --render docs/benchmarks.json

The results are written to a JSON file after each part, so that nothing is lost when it is stopped, and from that file
a page beside it (`.md`) and a plot (`.png`). Runs on a GPU (``--device cuda``) are kept beside those without one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import Bench, processor_seconds
from benchmarks.page import plot, render
from drest_torch.envs.levels import LevelError, read_levels
from drest_torch.errors import FileError, UserError
from drest_torch.files import write_whole

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
    "growing",
    "environments",
)
CPU_ONLY = ("tables", "starting", "environments")
PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba", "gymnasium", "stable-baselines3")
KEPT, KEPT_QUICK = Path("docs/benchmarks.json"), Path("runs/benchmarks_quick.json")


class BenchmarkError(UserError):
    """A user's mistake; the message says in one sentence what to change."""


def about(options: argparse.Namespace, part: str) -> dict[str, Any]:
    """How, where and with what a part was measured."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU was available"
    return {
        "command": command(options, part),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        "gpu": gpu,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"Python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "threads": torch.get_num_threads(),
        "clock": "processor" if options.processor_time else "wall",
        "quick": options.quick,
    }


def command(options: argparse.Namespace, part: str) -> str:
    words = ["python", "-m", "benchmarks.run", "--only", part]
    words += ["--device", options.device] if options.device != "cpu" else []
    words += ["--threads", str(options.threads)] if options.threads else []
    words += [
        flag for flag, given in (("--quick", options.quick), ("--processor-time", options.processor_time)) if given
    ]
    words += ["--followup", options.followup.name] if options.followup and part == "scoring" else []
    return shlex.join(words)


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def commit() -> str:
    """Of the repository that this file is in; what is changed since is said."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ":/", ":!/docs"], capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name.stdout.strip() + (" with changes" if changed.returncode else "")


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a part has to say."""
    module = importlib.import_module(f"benchmarks.{part}")
    clock = processor_seconds if options.processor_time else time.perf_counter
    bench = Bench(options.device, quick=options.quick, followup=options.followup, clock=clock)
    torch.manual_seed(0)
    began = time.perf_counter()
    module.run(bench)
    return {
        "title": module.TITLE,
        "text": (module.__doc__ or "").strip(),
        "about": about(options, part),
        "seconds": time.perf_counter() - began,
        **bench.results(),
    }


def load(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        render(results)
    except FileNotFoundError:
        raise BenchmarkError(f"{path}: no such file; measure first: python -m benchmarks.run --json {path}") from None
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
        raise BenchmarkError(
            f"{path}: not the results of this version's benchmarks; delete it or name another"
        ) from None
    return results


def store(path: Path, results: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(results, indent=1, ensure_ascii=False) + "\n").encode())


def write_page(path: Path, results: dict[str, Any]) -> None:
    """The page and the plot beside a file of results."""
    growing = results.get("cpu", {}).get("growing") or results.get("cuda", {}).get("growing")
    picture = path.with_suffix(".png")
    if growing:
        plot(growing["growths"], picture)
    page = path.with_suffix(".md")
    write_whole(page, render(results, picture.name if growing else None).encode())
    print(f"\nWritten to {page}")


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="tiny sizes and two repeats")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"results (default {KEPT}; with --quick {KEPT_QUICK})"
    )
    parser.add_argument(
        "--render", type=Path, metavar="FILE", help="write the page of these results; nothing is measured"
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of the parts that are tensors")
    parser.add_argument("--threads", type=int, help="of torch, for all contenders (default: torch's own choice)")
    parser.add_argument(
        "--followup", type=Path, metavar="FILE", help="levels on which the time to a score is taken as well"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="the processor's seconds, on a machine that others use; one thread",
    )
    return parser.parse_args(given)


def check(options: argparse.Namespace) -> None:
    if options.threads is not None and options.threads < 1:
        raise BenchmarkError(f"--threads {options.threads}; expected at least 1")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise BenchmarkError("--device cuda, but torch finds no CUDA device here; leave it out")
    if options.processor_time and options.device != "cpu":
        raise BenchmarkError("--processor-time does not see what a GPU does; leave it out with --device cuda")
    if options.followup is not None:
        read_levels(options.followup)  # or a mistake in it would be told after minutes


def main(given: list[str] | None = None) -> None:
    options = arguments(given)
    if options.render is not None:
        write_page(options.render, load(options.render))
        return
    check(options)
    if options.processor_time:
        options.threads = 1
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    path = options.json or (KEPT_QUICK if options.quick else KEPT)
    results = load(path) if path.is_file() else {}
    chosen = [part for part in PARTS if part in (options.only or PARTS)]
    try:
        for index, part in enumerate(chosen, 1):
            if options.device == "cuda" and part in CPU_ONLY:
                continue
            print(f"\n=== {part} ({index} of {len(chosen)})", flush=True)
            found = measure(part, options)
            run = results.get(options.device, {}) | {part: found}
            results[options.device] = {name: run[name] for name in PARTS if name in run}
            store(path, results)
            print(f"    {found['seconds']:.0f} s; kept in {path}", flush=True)
    except KeyboardInterrupt:
        print(f"\nStopped; the parts that were done are kept in {path}.", file=sys.stderr)
        sys.exit(130)
    finally:
        if results:
            write_page(path, results)


if __name__ == "__main__":
    try:
        main()
    except (BenchmarkError, FileError, LevelError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(2)
