"""The task of a language model: prompts with a few options, for training and for evaluation."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from drest_torch.agents.checkpoints import State
from drest_torch.agents.specification import KEY
from drest_torch.config.checks import device_of
from drest_torch.errors import blaming
from drest_torch.files import write_whole
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig, objective_of, reward_of
from drest_torch.language.evaluation import evaluate
from drest_torch.language.model import SMALL, LanguageModel, digest, load
from drest_torch.language.prompt_styles import PromptStyle
from drest_torch.outputs import MODEL
from drest_torch.reward import Reward
from drest_torch.tasks.base import Task, count

SPLIT = "selection"
SELECTION_SEED = 987654
PARTIAL = ".partial-model"
NAMES = {"U": "usefulness", "N": "neutrality", "valid": "valid"}
"""The names of metrics, by those of evaluations."""


class PromptTask(Task):
    """The prompts of a training, and the model that answers them."""

    cfg: LanguageConfig
    writes = (MODEL,)

    def __init__(self, cfg: LanguageConfig) -> None:
        self.cfg, self.device = cfg, device_of(cfg.device)
        self.objective = objective_of(cfg)
        """The objective in place of the expected pay of the reward, or None."""
        self.model = load(cfg.model, cfg.reads, seed=cfg.seed, lora=cfg.lora)
        self._origin = origin(cfg, self.model)
        self.model.model.to(self.device)
        if cfg.bfloat16:
            self.model.pass_in_bfloat16()
        self._generate = PromptStyle(brief=self.model.brief, forms=cfg.forms).generate
        self.prompts = self._training_prompts()
        """The training prompts."""
        self.reading = self._generate(cfg.reading, cfg.scenarios, cfg.seed) if cfg.warm_up else []
        """The prompts of the warm-up, in which the model learns to read."""
        self.selection_prompts = self._generate("post", cfg.selection, SELECTION_SEED)
        """The held-out scenarios, on which the model is evaluated."""

    def _training_prompts(self) -> list[data.Prompt]:
        cfg, prompts = self.cfg, list[data.Prompt]()
        if cfg.tasks is not None:
            prompts = prompt_files.read(Path(cfg.tasks))
            self._origin["tasks"] = data.digest(prompts)
        else:
            suites = cfg.suites.split(",")
            number = -(-cfg.scenarios // len(suites))
            for suite in suites:
                prompts += self._generate(suite, number, cfg.seed)
        return prompts

    @property
    def reward(self) -> Reward:
        """The reward of the run."""
        return reward_of(self.cfg)

    # ------------------------------------------------------------------------------------ evaluation

    def watch(self, policy: LanguageModel) -> dict[str, float]:
        """Return the metrics on held-out scenarios."""
        return {f"eval/{SPLIT}/{name}": value for name, value in self.scores(policy).items()}

    def judge(self, policy: LanguageModel, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
        """Evaluate the trained model, and write it as a folder of transformers."""
        scores = self.scores(policy)
        self._keep_model(folder)
        return {SPLIT: scores}, {}

    def scores(self, policy: LanguageModel) -> dict[str, Any]:
        (row,) = evaluate(policy, self.selection_prompts)
        return {words: row.numbers[name].estimate for name, words in NAMES.items() if name in row.numbers}

    def _keep_model(self, folder: Path) -> None:
        """Write the model, with LoRA's weights merged, as a folder of transformers; each file is written atomically."""
        with TemporaryDirectory(prefix=".", suffix=PARTIAL, dir=folder) as temporary:
            with blaming(f"to save model={self.cfg.model}"):
                whole = self.model.model
                if self.cfg.lora is not None:
                    whole = copy.deepcopy(whole).merge_and_unload()
                for part in (whole, self.model.tokenizer):
                    part.save_pretrained(temporary)
            for path in sorted(Path(temporary).iterdir()):
                write_whole(folder / MODEL / path.name, path.read_bytes())

    # ------------------------------------------------------------------------------------ the folder of its run

    def lines(self) -> list[str]:
        cfg = self.cfg
        lines = []
        if cfg.warm_up:
            lines.append(f"reads first: {count(len(self.reading), 'prompt')} ({cfg.reading}), {cfg.warm_up:,} updates")
        lines.append(f"trained on: {count(len(self.prompts), 'prompt')} ({cfg.tasks or cfg.suites})")
        lines.append(f"evaluated on: {count(len(self.selection_prompts), 'other prompt')} of the same families")
        return lines

    def keep(self, folder: Path, *, anew: bool) -> None:
        """Delete incomplete models."""
        for path in folder.glob(f".*{PARTIAL}"):
            shutil.rmtree(path, ignore_errors=True)

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of the objective."""
        if self.objective is None:
            return {}
        return {f"objective.{name}": value for name, value in self.objective.tensors().items()}

    def origin(self) -> dict[str, str]:
        """Return hashes of the run's inputs: its initial model and its prompts."""
        return self._origin

    def described(self) -> dict[str, Any]:
        return {KEY: "language model"}

    def counts(self, state: State) -> dict[str, Any]:
        return {"updates": state.updates, "processor_seconds": round(state.processor_seconds, 1)}


def origin(cfg: LanguageConfig, model: LanguageModel) -> dict[str, str]:
    """Return a hash of the initial model, unless it is initialised from the seed."""
    if cfg.model == SMALL:
        return {}
    return {"model": digest(model)}
