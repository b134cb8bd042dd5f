"""Training runs of language models on prompts with a few options: start, resume, and load the trained model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from drest_torch import hints
from drest_torch.agents.checkpoints import (
    check_origin,
    explain_misfit,
    load_checkpoint,
    load_module,
    refuse_not_finite,
    step_checkpoints,
)
from drest_torch.config.logger import NO_SINK, LoggerConfig
from drest_torch.config.stored import NOT_STORED, trust_modules_of
from drest_torch.errors import ConfigError
from drest_torch.files import write_text
from drest_torch.language.algorithm import AnswerGradient
from drest_torch.language.config import LanguageConfig, check, stored
from drest_torch.language.model import SMALL, LanguageModel, load
from drest_torch.language.model_files import GEMMA3, SMOLLM2
from drest_torch.language.task import PromptTask, origin
from drest_torch.outputs import refuse_links
from drest_torch.training.folder import CHECKPOINTS, enter
from drest_torch.training.overwriting import may_overwrite, recover
from drest_torch.training.plan import RunPlan
from drest_torch.training.run import Run, generator


def plan_of(cfg: LanguageConfig) -> RunPlan:
    """Return the plan of a run that trains a language model."""
    sinks: dict[str, Any] = {} if cfg.logger == NO_SINK else {cfg.logger: None}
    return RunPlan(
        algo=cfg.method,
        reward=cfg.reward,
        network=cfg.model,
        seed=cfg.seed,
        steps=cfg.warm_up + cfg.updates,
        evaluations=cfg.evaluations,
        progress=cfg.progress,
        logger=LoggerConfig(sinks=sinks),
        values=asdict(cfg),
        resume_command=hints.resume_language_model,
    )


def run_of(cfg: LanguageConfig) -> Run:
    """Return the run of a configuration, untrained."""
    check(cfg)
    rng = generator(cfg.seed, "cpu", cfg.threads)  # samples prompts and answers, on whichever device the model is
    task = PromptTask(cfg)
    return Run(plan_of(cfg), task, AnswerGradient.on(task, cfg, rng), Path(cfg.run_dir))


def start(cfg: LanguageConfig) -> Run:
    """Create a run in a new folder; refuse the folder of a model, or of another run that it does not overwrite."""
    folder = Path(cfg.run_dir)
    reads = [value for value in (cfg.model, cfg.tasks) if value is not None and Path(value).exists()]
    # Before loading, which takes a while.
    overwrites = may_overwrite(
        cfg.run_dir, cfg.overwrite, hints.resume_language_model, reads=reads, writes=PromptTask.writes
    )
    cfg.overwrite = False
    run = run_of(cfg)
    # Absolute paths: the run may be resumed or evaluated from another working directory.
    for key in ("model", "tasks"):
        value = getattr(cfg, key)
        if value is not None and value not in (SMALL, SMOLLM2, GEMMA3) and Path(value).exists():
            setattr(cfg, key, str(Path(value).resolve()))
    values = {"language": {key: value for key, value in asdict(cfg).items() if key not in NOT_STORED}}
    trust_modules_of(values)
    run.begin(
        lambda: write_text(folder / "config.yaml", yaml.safe_dump(values, sort_keys=False)), overwrites=overwrites
    )
    return run


def resume(folder: Path) -> Run:
    """Load a run from its folder and restore its last checkpoint."""
    recover(folder)
    cfg = stored(folder)
    refuse_links(folder)
    check(cfg)
    enter(folder)
    run = run_of(cfg)
    run.restore()
    return run


def trained(folder: Path, reads: str | None = None) -> LanguageModel:
    """Return the model of a run, with the weights of its last checkpoint."""
    cfg = stored(folder)
    saved = step_checkpoints(folder / CHECKPOINTS)
    if not saved:
        raise ConfigError(f"{folder}: no checkpoint in it yet; resume the run: {hints.resume_language_model(folder)}")
    model: Any = load(cfg.model, reads or cfg.reads, seed=cfg.seed, lora=cfg.lora)
    path = saved[-1]
    tensors, meta = load_checkpoint(path)
    check_origin(meta.get("of", {}), origin(cfg, model), path)
    with explain_misfit(path):
        load_module("policy", model, tensors, path)
        refuse_not_finite(tensors, tensors, path)
    return model
