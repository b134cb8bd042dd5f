"""Share the folders of agents on the Hugging Face Hub. This module needs ``huggingface_hub`` (the extra ``hub``)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from drest_torch.errors import CheckpointError, ConfigError

try:
    from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
except ImportError:
    raise ConfigError(
        "agents are shared with the package huggingface_hub, which is not installed; "
        "install it with pip install 'drest_torch[hub]'"
    ) from None

FILES = ("config.yaml", "*.jsonl", "*.txt", "checkpoints/*.safetensors")
"""The files of an agent; nothing else is downloaded, and none of them holds code."""
CARD = """---
{{ card_data }}
---

# An agent {{ "for gridworlds with a shutdown button" if gridworld else "that can delay its shutdown" }}

`{{ description }}`

It was saved by [drest_torch](https://pypi.org/project/drest_torch), which loads it:

```python
from drest_torch import Agent

agent = Agent.from_pretrained("{{ repo_id | default('USER/NAME', true) }}")
{% if gridworld -%}
print(agent.probabilities("example"))  # how likely it is to choose each trajectory-length on a world of the paper
print(agent.evaluate("paper"))
{%- else -%}
print(agent.probabilities())  # how likely it is to choose each trajectory-length
print(agent.evaluate())
{%- endif %}
```

`config.yaml` is the configuration of its training; the weights are in `checkpoints/`, as safetensors.
"""


class AgentFolder(
    ModelHubMixin, library_name="drest_torch", tags=["reinforcement-learning", "ai-safety"], model_card_template=CARD
):
    """The folder of a saved agent as the client of the Hub handles it."""

    description = ""
    """What the agent is, for its page."""
    gridworld = True
    """Whether it acts in gridworlds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _save_pretrained(self, save_directory: Path) -> None:
        shutil.copytree(self.folder, save_directory, dirs_exist_ok=True)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """Return the page of the agent on the Hub."""
        return super().generate_model_card(*args, description=self.description, gridworld=self.gridworld, **kwargs)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> AgentFolder:
        names = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        download = {name: options[name] for name in names}
        return cls(Path(snapshot_download(repo_id=model_id, allow_patterns=list(FILES), **download)))


def download(repo_id: str | Path, **options: Any) -> Path:
    """Return a folder with the agent of a repository, or the folder itself if ``repo_id`` is the path of one.

    The ``options`` are those of `ModelHubMixin.from_pretrained`.
    """
    try:
        local = Path(repo_id).is_dir()
        folder = Path(repo_id) if local else AgentFolder.from_pretrained(repo_id, **options).folder
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{repo_id}: cannot be loaded from the Hub ({reason})") from None
    return folder
