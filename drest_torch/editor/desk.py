"""The part of the page that the server holds: agents, levels, and the file to save to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from drest_torch.agent import Agent
from drest_torch.editor.answers import EvaluationLimits, answers, level_in, level_values
from drest_torch.envs.levels import Level, format_level, level_to_record, write_levels
from drest_torch.errors import ConfigError, UserError
from drest_torch.files import read_whole

LARGEST_SEED = 2**31 - 1


class Desk:
    """The agents and levels of a page, and what it may write.

    One request at a time is answered, because the answers share networks and processor.
    """

    def __init__(
        self, levels: Sequence[Level], agents: Mapping[str, Agent], limits: EvaluationLimits, save: Path | None = None
    ) -> None:
        self.levels, self.agents, self.limits, self.save = levels, agents, limits, save
        self._saved: str | None = None
        """The text that this page has saved last."""
        self._lock = Lock()

    def warm_up(self) -> None:
        """Answer a request, because the first answer imports libraries and takes seconds."""
        self.evaluate({"level": level_to_record(self.levels[0]), "agent": next(iter(self.agents))})

    def evaluate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the level of a request, and either the ``results`` of its agent or the ``error``."""
        with self._lock:
            try:
                level = level_in(request)
            except UserError as error:
                return {"error": str(error)}
            values = {"level": level_values(level)}
            try:
                (results,) = answers(self._agent(request), [level], self.limits, seed=_seed(request))
            except UserError as error:
                return {**values, "error": str(error)}
            return {**values, "results": results}

    def _agent(self, request: Mapping[str, Any]) -> Agent:
        """Return the agent of a request; no other than those of the command line can be named."""
        name = request.get("agent")
        if not isinstance(name, str) or name not in self.agents:
            raise ConfigError(f"no agent {name!r:.80} on this page; expected one of {', '.join(self.agents)}")
        return self.agents[name]

    def store(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Save the level of a request, and return the path, or the ``error``.

        A file that this page has not written is replaced only if the request says ``overwrite``.
        """
        with self._lock:
            try:
                return self._store(level_in(request), overwrite=request.get("overwrite") is True)
            except UserError as error:
                return {"error": str(error)}

    def _store(self, level: Level, *, overwrite: bool) -> dict[str, Any]:
        if self.save is None:
            raise ConfigError("this page saves to no file; start it with save=FILE.txt, or download the level")
        if not overwrite and self._holds_another_text(self.save):
            return {"exists": str(self.save)}
        write_levels(self.save, [level])
        self._saved = format_level(level)
        return {"saved": str(self.save)}

    def _holds_another_text(self, path: Path) -> bool:
        """Return whether a file exists that is not as this page has left it."""
        if not path.exists():
            return False
        return self._saved is None or read_whole(path) != self._saved.encode()


def _seed(request: Mapping[str, Any]) -> int:
    """Return the seed of the mini-episodes of a request; 0 by default."""
    seed = request.get("seed", 0)
    if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed {seed!r:.40}; expected a whole number from 0 to {LARGEST_SEED}")
    return seed
