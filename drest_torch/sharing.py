"""The methods of an agent that save it and share it on the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint, step_checkpoints, step_path
from drest_torch.agents.specification import AgentSpec, agent_config
from drest_torch.algos.networks.spec import MapView
from drest_torch.config.stored import load_config
from drest_torch.errors import ConfigError
from drest_torch.files import LOCK, write_whole
from drest_torch.outputs import check_outputs, is_run, refuse_links
from drest_torch.play import level_sets as data
from drest_torch.reward import Reward

if TYPE_CHECKING:
    from typing_extensions import Self


def _refuse_another(folder: Path, copies: Iterable[str]) -> None:
    """Refuse to save an agent to a folder with anything that saving would replace, but for an agent that was saved."""
    check_outputs(folder)
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if is_run(folder):
        if names & {"metrics.jsonl", "summary.json", "provenance.json", LOCK}:
            raise ConfigError(f"{folder}: holds a run, which an agent would replace; save it to another folder")
        refuse_links(folder)
    elif taken := sorted(names & {"config.yaml", "checkpoints", *copies}):
        raise ConfigError(f"{folder} holds {taken[0]} already, which an agent would replace; save it to another folder")


class Shareable:
    """An agent that is saved to a folder, and shared as such on the Hub."""

    name: str
    folder: Path
    checkpoint: Path
    spec: AgentSpec
    reward: Reward
    _trained: Any

    def __init__(self, folder: Path, *, checkpoint: str = "last", device: str = "cpu") -> None:
        raise NotImplementedError

    @property
    def files(self) -> list[Path]:
        """The files that the agent is read from: its configuration, its checkpoint and its level files."""
        config = self.folder / "config.yaml"
        if not config.is_file():
            return [self.checkpoint]
        levels = [path for _, _, path in data.level_files(agent_config(self.folder))]
        return [config, self.checkpoint, *levels]

    def save(self, path: str | Path) -> Path:
        """Save the agent to a folder that `load` reads: its configuration, its policy and its level files.

        What only training needs, such as the state of the optimiser, is left out.

        Args:
            path: the folder; it is made if there is none, and an agent that was saved to it is replaced. The folder of
                a run is refused.

        Returns:
            the folder.

        Example:
            >>> Agent.load("runs/my-run").save("my-agent")  # doctest: +SKIP
        """
        folder = Path(path)
        copies = {
            (group, key): f"{group}-{key}{file.suffix}"
            for group, key, file in data.level_files(agent_config(self.folder))
        }
        _refuse_another(folder, copies.values())
        tensors, meta = load_checkpoint(self.checkpoint)
        cfg: Any = load_config(self.folder, whole=False)
        cfg.run_dir, cfg.threads = "runs/shipped", None
        for group, key, file in data.level_files(agent_config(self.folder)):
            copy = copies[group, key]
            write_whole(folder / copy, file.read_bytes())
            setattr(getattr(cfg, group), key, copy)
        write_whole(folder / "config.yaml", OmegaConf.to_yaml(cfg).encode())
        policy = {name: value for name, value in tensors.items() if name.startswith(self._trained.keeps)}
        checkpoint = step_path(folder / "checkpoints", meta["steps"])
        save_checkpoint(checkpoint, policy, meta)
        for other in step_checkpoints(checkpoint.parent):
            if other != checkpoint:
                other.unlink()
        return folder

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the agent to a repository of the Hugging Face Hub, where anybody can load it by name.

        This and the next method need ``pip install 'drest_torch[hub]'``.

        Args:
            repo_id: ``USER/NAME``; the repository is made if there is none.
            private: whether others cannot see a repository that is made.
            token: of the user; None: that of ``hf auth login``.

        Returns:
            the address of the commit.

        Example:
            >>> agent.push_to_hub("my-name/my-agent", private=True)  # doctest: +SKIP
        """
        from drest_torch import hub  # which the package huggingface_hub is needed for

        levels = '"paper"' if isinstance(self.spec.policy.sees, MapView) else ""
        card = {"description": f"{self!r}, trained with {self.reward}", "levels": levels}
        with TemporaryDirectory() as folder:
            return hub.upload(self.save(folder), repo_id, card, private=private, token=token)

    @classmethod
    def from_pretrained(cls, repo_id: str, *, checkpoint: str = "last", device: str = "cpu", **options: Any) -> Self:
        """Load an agent from the Hugging Face Hub.

        The weights are safetensors and the configuration is YAML: no code of the repository is executed.

        Args:
            repo_id: ``USER/NAME`` of a repository.
            checkpoint: as for `load`.
            device: as for `load`.
            options: those of ``huggingface_hub.snapshot_download``, such as ``revision`` or ``token``.

        Example:
            >>> agent = Agent.from_pretrained("my-name/my-agent")  # doctest: +SKIP
        """
        from drest_torch import hub  # which the package huggingface_hub is needed for

        agent = cls(hub.download(repo_id, **options), checkpoint=checkpoint, device=device)
        agent.name = repo_id
        return agent
