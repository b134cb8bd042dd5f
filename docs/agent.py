"""Put the agent of a finished run where `python -m drest_torch.evaluate` finds it without being told a run.

    python -m drest_torch.train algo=generalist run_dir=runs/generalist ...
    python docs/agent.py runs/generalist
    python docs/agent.py runs/buttons generalist-buttons

docs/reference/agent.md has the whole commands of the agents that are there now, and what they reach.
"""

from __future__ import annotations

import sys

from drest_torch.agent import SHIPPED, Agent
from drest_torch.building.checkpoints import PRETRAINED


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("python docs/agent.py RUN [NAME]")
    run, name = (*sys.argv[1:], SHIPPED)[:2]
    folder = Agent.load(run).save(PRETRAINED / name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size:,} bytes")


if __name__ == "__main__":
    main()
