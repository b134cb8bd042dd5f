"""Train a language model on prompts with a few options, by the exact gradient of its pay or from sampled answers."""

from __future__ import annotations

import copy
import io
import math
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from torch import Tensor

from drest_torch.agents import checkpoints
from drest_torch.config.checks import device_of
from drest_torch.config.logger import NO_SINK, LoggerConfig
from drest_torch.config.stored import trust_modules_of
from drest_torch.errors import CheckpointError, ConfigError, blaming
from drest_torch.files import disown, own, remove_partial, write_json, write_text, write_whole
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import LanguageConfig, check, stored
from drest_torch.language.evaluation import evaluate
from drest_torch.language.model import SMALL, SMOLLM2, LanguageModel, digest, load
from drest_torch.language.objective import as_menus, expected_pay, sampled_gain
from drest_torch.outputs import MODEL, refuse_links, refuse_taken
from drest_torch.reward import Reward
from drest_torch.tracking.progress import Progress
from drest_torch.tracking.sinks import Loggers, RunInfo
from drest_torch.training.folder import CHECKPOINTS, imports_of
from drest_torch.training.interruption import interruptible

SELECTION_SEED = 987654
MOST_SECONDS = 1e10
"""No training has taken three centuries."""
PARTIAL = ".partial-model"
STATES = {"adam": {"step", "exp_avg", "exp_avg_sq"}, "muon": {"momentum_buffer"}}
"""What each optimiser remembers of a weight."""


def check_new(cfg: LanguageConfig) -> None:
    """Refuse the folder of another run, or one in which something lies that a run would overwrite."""
    refuse_taken(cfg.run_dir, command(Path(cfg.run_dir), "train", "resume"), writes=[MODEL])


def command(folder: Path, name: str, key: str) -> str:
    """Return a command of ``drest language`` that goes on with the folder of a run."""
    return shlex.join(["drest", "language", name, f"{key}={folder}", *imports_of(folder)])


class Training:
    """A run: a model, its prompts, and a folder."""

    def __init__(self, cfg: LanguageConfig) -> None:
        check(cfg)
        if cfg.threads is not None:
            torch.set_num_threads(cfg.threads)
        self.cfg, self.folder, self.total = cfg, Path(cfg.run_dir), cfg.warm_up + cfg.updates
        device = device_of(cfg.device)
        self.model = load(cfg.model, cfg.reads, seed=cfg.seed, lora=cfg.lora)
        self.origin = origin(cfg, self.model)
        """Hashes of what the run begins with and does not make itself; it goes on with the same alone."""
        self.model.model.to(device)
        if cfg.bfloat16:
            self.model.pass_in_bfloat16()
        made, suites = partial(data.generate, brief=self.model.brief), cfg.suites.split(",")
        several = [] if cfg.tasks else [made(suite, -(-cfg.scenarios // len(suites)), cfg.seed) for suite in suites]
        self.prompts = (
            prompt_files.read(Path(cfg.tasks)) if cfg.tasks else [prompt for each in several for prompt in each]
        )
        if cfg.tasks:
            self.origin["tasks"] = data.digest(self.prompts)
        if cfg.method == "rloo" and not all(option.sure for prompt in self.prompts for option in prompt.options):
            raise ConfigError("method=rloo with options of several lengths; expected method=exact")
        self.reading = made(cfg.reading, cfg.scenarios, cfg.seed) if cfg.warm_up else []
        self.selection = made("post", cfg.selection, SELECTION_SEED)
        drest = cfg.reward != "default"
        self.reward = Reward(cfg.lam if drest else 1.0, 1.0, cfg.episodes_per_meta, "averaged", divide_by_best=drest)
        self.rng = torch.Generator().manual_seed(cfg.seed)
        self.weights = trained_weights(self.model)
        matrices = {n: v for n, v in self.weights.items() if cfg.muon_lr and v.ndim == 2 and "embed" not in n}
        others = [value for name, value in self.weights.items() if name not in matrices]
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        if others:  # LoRA has matrices alone
            self.optimizers["adam"] = torch.optim.Adam(others, lr=cfg.lr)
        if cfg.muon_lr and matrices:
            self.optimizers["muon"] = torch.optim.Muon([*matrices.values()], lr=cfg.muon_lr, weight_decay=0.0)
        self.done, self.seconds = 0, 0.0

    def train(self) -> dict[str, Any] | None:
        """Train to the end; return the summary, or None if the run was interrupted (and saved)."""
        self._own()
        try:
            return self._train()
        finally:
            disown(self.folder)

    def _train(self) -> dict[str, Any] | None:
        cfg, began = self.cfg, time.process_time() - self.seconds
        sinks = {} if cfg.logger == NO_SINK else {cfg.logger: None}
        shown = None if cfg.progress else io.StringIO()
        with (
            Loggers(RunInfo(self.folder, LoggerConfig(sinks=sinks), asdict(cfg)), self.done) as loggers,
            Progress(self.total, done=self.done, title=self.folder.name, stream=shown) as progress,
            interruptible() as interrupted,
        ):
            while self.done < self.total:
                metrics = self.update()
                self.seconds = time.process_time() - began
                due = self.done * cfg.evaluations // self.total > (self.done - 1) * cfg.evaluations // self.total
                if due:
                    metrics |= self.scores()
                loggers.log(self.done, metrics)
                progress.update(self.done, metrics)
                if due or interrupted():
                    self.save()
                if interrupted() and self.done < self.total:
                    progress.end(f"Stopped and saved. Resume with: {command(self.folder, 'train', 'resume')}")
                    return None
            summary = {"updates": self.done, "seconds": round(self.seconds, 1), **self.scores()}
            loggers.summary(summary)
        self._keep_model()
        write_json(self.folder / "summary.json", summary)
        return summary

    def scores(self) -> dict[str, float]:
        """Return what the model does in scenarios that it is not trained on."""
        (row,) = evaluate(self.model, self.selection)
        names = {"U": "usefulness", "N": "neutrality", "valid": "valid"}
        return {f"eval/selection/{words}": row.numbers[name].estimate for name, words in names.items()}

    def update(self) -> dict[str, float]:
        """Make one update; return its metrics."""
        cfg, reads = self.cfg, self.done < self.cfg.warm_up
        rising = min(1.0, (self.done + 1) / max(1, min(50, self.total // 10)))
        scale = rising * (1 - self.done / self.total)
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = scale * optimizer.defaults["lr"]
        source = self.reading if reads else self.prompts
        chosen = torch.randint(len(source), (cfg.prompts,), generator=self.rng).tolist()
        self.model.model.zero_grad()
        found = torch.zeros((), dtype=torch.float64)
        for first in range(0, len(chosen), cfg.at_once):
            part = [source[index] for index in chosen[first : first + cfg.at_once]]
            gain, paid = self._reading(part) if reads else self._gain(part)
            (-gain / len(chosen)).backward()
            found += paid.detach().double() / len(chosen)
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.done += 1
        if not (math.isfinite(float(found)) and math.isfinite(float(norm))):
            raise ConfigError(f"training came to numbers that are not finite in update {self.done}; use a smaller lr")
        return {"train/return": float(found), "optim/grad_norm": float(norm), "optim/lr": cfg.lr * scale}

    def _reading(self, prompts: list[data.Prompt]) -> tuple[Tensor, Tensor]:
        """Return the log-probability of naming the right option, summed over prompts, twice."""
        best = torch.tensor([[option.takes for option in each.options].index(True) for each in prompts])
        gain = self.model.log_probabilities(prompts).gather(1, best.unsqueeze(-1)).sum()
        return gain, gain

    def _gain(self, prompts: list[data.Prompt]) -> tuple[Tensor, Tensor]:
        """Return what is climbed, and the expected pay, each summed over prompts."""
        cfg, menus, found = self.cfg, as_menus(prompts), self.model.log_probabilities(prompts)
        probability = found.exp()
        pay = expected_pay(probability, menus, self.reward, cfg.reward, credit=cfg.credit, invalid=cfg.invalid).sum()
        gain = pay if cfg.method == "exact" else sampled_gain(found, menus, self.reward, self.rng, cfg.invalid)
        return gain - cfg.entropy * torch.special.xlogy(probability, probability).sum(), pay

    def begin(self) -> None:
        """Write the configuration of a new run; the folder of another one, or of a model, is refused."""
        check_new(self.cfg)
        self._own()
        check_new(self.cfg)  # another process may have been faster
        # Absolute paths: the run may be resumed or evaluated from another working directory.
        for key in ("model", "tasks"):
            value = getattr(self.cfg, key)
            if value is not None and value not in (SMALL, SMOLLM2) and Path(value).exists():
                setattr(self.cfg, key, str(Path(value).resolve()))
        values = {"language": asdict(self.cfg)}
        trust_modules_of(values)
        write_text(self.folder / "config.yaml", yaml.safe_dump(values, sort_keys=False))

    def _own(self) -> None:
        own(self.folder, lambda: ConfigError(f"{self.folder}: another process trains in it; choose another run_dir"))
        remove_partial(self.folder)
        for path in self.folder.glob(f".*{PARTIAL}"):
            shutil.rmtree(path, ignore_errors=True)  # of a model whose last file was not written

    def _keep_model(self) -> None:
        """Write the model as a folder that transformers loads by itself, each file whole; LoRA's weights are added."""
        with TemporaryDirectory(prefix=".", suffix=PARTIAL, dir=self.folder) as made:
            with blaming(f"to save model={self.cfg.model}"):
                whole = self.model.model
                if self.cfg.lora is not None:
                    whole = copy.deepcopy(whole).merge_and_unload()
                for part in (whole, self.model.tokenizer):
                    part.save_pretrained(made)
            for path in sorted(Path(made).iterdir()):
                write_whole(self.folder / MODEL / path.name, path.read_bytes())

    def save(self) -> None:
        """Save a checkpoint."""
        tensors = {f"weights.{name}": value for name, value in self.weights.items()} | {"rng": self.rng.get_state()}
        for name, optimizer in self.optimizers.items():
            tensors |= checkpoints.optimizer_tensors(f"optimizer.{name}", optimizer)
        meta = {"updates": self.done, "seconds": self.seconds, "of": self.origin}
        checkpoints.save_checkpoint(checkpoints.step_path(self.folder / CHECKPOINTS, self.done), tensors, meta)
        checkpoints.prune(self.folder / CHECKPOINTS, 1)

    def restore(self) -> None:
        """Go on from the last checkpoint; a run that was killed before its first one starts from the beginning."""
        refuse_links(self.folder)
        self._own()
        if not (saved := checkpoints.step_checkpoints(self.folder / CHECKPOINTS)):
            if (self.folder / "summary.json").exists():
                raise CheckpointError(
                    f"{self.folder / CHECKPOINTS}: no checkpoint in it, though the run has trained; put its "
                    "checkpoints back, or train anew with another run_dir"
                )
            return
        path = saved[-1]
        tensors, meta = checkpoints.load_checkpoint(path)
        with of_this_run(path):
            put_weights(self.model, tensors, meta, self.origin, path)
            for name, optimizer in self.optimizers.items():
                _put_state(f"optimizer.{name}", optimizer, tensors)
            self.rng.set_state(tensors["rng"].clone())
            done, seconds = meta["updates"], meta["seconds"]
            if type(done) is not int or not 0 <= done <= self.total:
                raise ValueError(f"updates is {done!r:.40}, of {self.total}")
            if type(seconds) not in (int, float) or not 0 <= seconds <= MOST_SECONDS:
                raise ValueError(f"seconds is {seconds!r:.40}")
            self.done, self.seconds = done, float(seconds)


@contextmanager
def of_this_run(path: Path) -> Iterator[None]:
    """Say in one sentence that a checkpoint does not fit its run."""
    try:
        yield
    except CheckpointError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: no checkpoint of this run ({reason}); use another one of the run") from None


def origin(cfg: LanguageConfig, model: LanguageModel) -> dict[str, str]:
    """Return a hash of the model that training begins with, unless it is made from the seed."""
    return {} if cfg.model == SMALL else {"model": digest(model)}


def trained_weights(model: LanguageModel) -> dict[str, Tensor]:
    """Return what is trained of a model: all weights, or those of LoRA."""
    return {name: value for name, value in model.model.named_parameters() if value.requires_grad}


def put_weights(
    model: LanguageModel, tensors: dict[str, Tensor], meta: dict[str, Any], expected: dict[str, str], path: Path
) -> None:
    """Give a model the weights of a checkpoint, all of them; it was made from the same model and prompts."""
    for name, value in expected.items():
        if (other := meta.get("of", {}).get(name)) != value:
            raise CheckpointError(
                f"{path}: was saved with another {name} ({other}, and this one is {value}); put back what was changed, "
                "or train anew with another run_dir"
            )
    weights, by = checkpoints.named("weights", trained_weights(model)), "a run of another model"
    if extra := [name for name in tensors if name.startswith("weights.") and name not in weights]:
        raise CheckpointError(f"{path}: {len(extra)} weights too many, such as {extra[0]}; it was saved by {by}")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise CheckpointError(f"{path}: the tensor '{name}' has values that are not finite; use another checkpoint")
    with torch.no_grad():
        checkpoints.fill(weights, tensors, path, by)


def _put_state(prefix: str, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load the state of an optimiser; no weight may lack a part of it, or all would fail in the next update."""
    checkpoints.load_optimizer(prefix, optimizer, tensors)
    wanted = STATES[prefix.rpartition(".")[2]]
    for state in optimizer.state.values():
        if state.keys() != wanted:
            raise ValueError(f"{prefix} has {', '.join(sorted(state))}, and not {', '.join(sorted(wanted))}")


def trained(folder: Path, reads: str | None = None) -> LanguageModel:
    """Return the model of a run, with the weights of its last checkpoint."""
    cfg = stored(folder)
    if not (saved := checkpoints.step_checkpoints(folder / CHECKPOINTS)):
        raise ConfigError(f"{folder}: no checkpoint in it yet; resume={folder} goes on with it")
    model = load(cfg.model, reads or cfg.reads, seed=cfg.seed, lora=cfg.lora)
    tensors, meta = checkpoints.load_checkpoint(saved[-1])
    with of_this_run(saved[-1]):
        put_weights(model, tensors, meta, origin(cfg, model), saved[-1])
    return model
