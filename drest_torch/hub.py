"""Upload and download of agents on the Hugging Face Hub, with ``huggingface_hub`` (the extra ``hub``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drest_torch.errors import CheckpointError, ConfigError

try:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
except ImportError:
    raise ConfigError(
        "agents are shared with the package huggingface_hub, which is not installed; "
        "install it with pip install 'drest_torch[hub]'"
    ) from None

FILES = ("config.yaml", "*.jsonl", "*.txt", "checkpoints/*.safetensors")
"""The files of an agent, none of which contains code; nothing else is downloaded."""
CARD = """---
library_name: drest_torch
tags: [reinforcement-learning, ai-safety]
---

# An agent that can delay its shutdown

`{description}`

It was saved by [drest_torch](https://pypi.org/project/drest_torch), which loads it:

```python
from drest_torch import Agent

agent = Agent.from_pretrained("{repo_id}")
print(agent.evaluate({levels}))
```

`config.yaml` is the configuration of its training; the weights are in `checkpoints/`, as safetensors.
"""


def upload(folder: Path, repo_id: str, card: dict[str, str], *, private: bool | None, token: str | None) -> str:
    """Upload the folder of an agent with a model card; return the address of the commit."""
    (folder / "README.md").write_text(CARD.format(repo_id=repo_id, **card), encoding="utf-8")
    api = HfApi(token=token)
    repository = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    return str(api.upload_folder(repo_id=repository, folder_path=folder))


def download(repo_id: str, **options: Any) -> Path:
    """Download the agent of a repository and return its folder; ``options`` are passed to `snapshot_download`."""
    try:
        return Path(snapshot_download(repo_id, allow_patterns=list(FILES), **options))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{repo_id}: cannot be loaded from the Hub ({reason})") from None
