"""Which files of ours a reader passes who follows the data: python -m tests.house.walk train|evaluate

train: from `algo=ppo` to the first gradient step. evaluate: from a level file to usefulness and neutrality. A file
counts if a function of it is called; what runs while modules are imported does not.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FUNCTION = 1
"""The flag of code that is a function's, and no body of a class or module."""
LEVEL = "shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5\n"


class _Arrived(BaseException):
    pass


def passed(walk: str, folder: Path) -> list[str]:
    """Return the files, by their paths in the repository."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    found: set[str] = set()

    def entered(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & FUNCTION and code.co_filename.startswith(f"{ROOT}/drest_torch/"):
            outer: FrameType | None = frame
            while outer and outer.f_code.co_filename != "<frozen importlib._bootstrap>":
                outer = outer.f_back
            if outer is None:
                found.add(str(Path(code.co_filename).relative_to(ROOT)))

    def arrived(*args: Any) -> None:
        raise _Arrived

    hook = register_optimizer_step_pre_hook(arrived)
    earlier = sys.argv
    sys.argv = ["train", "algo=ppo", "env_steps=40000", "logger=none", "progress=false", f"run_dir={folder / 'run'}"]
    (folder / "level.txt").write_text(LEVEL, "utf-8")
    from drest_torch import Agent

    sys.setprofile(entered)
    try:
        if walk == "train":
            runpy.run_module("drest_torch.train", run_name="__main__")
        else:
            results = Agent.load("generalist").evaluate(str(folder / "level.txt"))
            assert results.usefulness + results.neutrality > 0
    except _Arrived:
        pass
    finally:
        sys.setprofile(None)
        sys.argv = earlier
        hook.remove()
    return sorted(found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        files = passed(sys.argv[1], Path(name))
    print(*files, f"{len(files)} files", sep="\n")
