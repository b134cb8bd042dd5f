"""Put the agent of a finished run where `python -m drest_torch.evaluate` finds it without being told a run.

    python -m drest_torch.train algo=generalist run_dir=runs/generalist ...
    python docs/agent.py runs/generalist

docs/reference/agent.md has the whole command of the agent that is there now, and what it reaches.
"""

from __future__ import annotations

import sys

from drest_torch.agent import SHIPPED, Agent
from drest_torch.building.saved import PRETRAINED


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("python docs/agent.py RUN")
    folder = Agent.load(sys.argv[1]).save(PRETRAINED / SHIPPED)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size:,} bytes")


if __name__ == "__main__":
    main()
