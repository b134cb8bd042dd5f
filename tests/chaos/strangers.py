"""Stored runs whose configuration names foreign code, for every such key and every command that reads a run."""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint
from drest_torch.config.compose import compose
from tests.chaos.forked import Outcome, drest, forked
from tests.chaos.kills import QUICK
from tests.chaos.mutations import copies

MARK = "executed"
"""The file that the foreign code writes."""
CODE = f"""open({MARK!r}, "w").close()
class Anything:
    def __getattr__(self, name): return self
    def __call__(self, *arguments, **values): return self
Algorithm = Config = Logger = Objective = build = make = rule = control = REQUIREMENTS = Anything()
"""
GROUPS = ("algorithms", "networks", "objectives", "loggers")
"""Groups of entry points, which the metadata of a package declares."""
OF_RUNS: tuple[dict[str, Any], ...] = (
    {"algo.name": "evil_code"},
    {"algo.name": "evil_plugin"},
    {"objective.name": "evil_code"},
    {"objective.name": "evil_plugin"},
    {"policy.network": "evil_code"},
    {"policy.network": "evil_plugin"},
    {"logger.sinks": {"evil_code": None}},
    {"logger.sinks": {"csv": None, "evil_plugin": {"project": "x"}}},
    {"reward.rule": "evil_code:rule"},
    {"reward.count": "evil_code:rule"},
    {"env": "torchrl", "env.factory": "evil_code:make"},
    {"env": "torchrl", "env.factory": "evil_package.evil_code:make"},
    {"env": "gymnasium", "env.id": "evil_code:Odd-v0"},
    {"env": "cartpole", "env.control": "evil_code:control"},
)
"""Every key of a training run that can name code, in each possible form; ``env`` is the environment of the run."""


OF_LANGUAGE: tuple[dict[str, Any], ...] = (
    {"language.logger": "evil_code"},
    {"language.logger": "evil_plugin"},
    {"language.logger": "evil_package.evil_code"},
    {"language.objective": {"name": "evil_code"}},
    {"language.objective": {"name": "evil_plugin"}},
)


def _loaded(checkpoint: str = "last") -> int:
    from drest_torch.agent import Agent

    Agent.load("run", checkpoint=checkpoint)
    return 0


def _trained() -> int:
    from drest_torch.agent import Agent

    Agent.train(resume="run", env_steps=100_000)
    return 0


def _downloaded() -> int:
    """Load an agent from the Hub; the download is replaced by the local folder."""
    from drest_torch import hub
    from drest_torch.agent import Agent

    hub.snapshot_download = lambda *arguments, **options: "run"  # type: ignore[assignment]
    Agent.from_pretrained("stranger/agent")
    return 0


def _language_study() -> int:
    from drest_torch.studies.language import trained

    trained(Path("run"), {})
    return 0


def _sentence(act: Callable[[], int]) -> int:
    """Call a function of the Python interface; an error becomes a sentence, as in a command."""
    from drest_torch.commands.cli import one_sentence

    with one_sentence():
        return act()


READERS: dict[str, Callable[[Path], Outcome]] = {
    **{
        " ".join(words): partial(lambda folder, words: drest(*words, folder=folder), words=words)
        for words in (
            ("train", "resume=run"),
            ("train", "resume=run", "env_steps=100000"),
            ("train", *QUICK, "levels=example", "start_from=run", "run_dir=other"),
            ("evaluate", "run=run", "levels=paper"),
            ("evaluate", "run=run", "suite=shutdownability"),
            ("evaluate", "run=run", "checkpoint=best", "animation=a.gif"),
            ("erode", "run=run", "conditions=[default]", "updates=[0,1]", "ladders=[]"),
            ("play", "agent=run", "changes=false", "out=page.html"),
            ("compare", "run", "out=curves.png"),
            ("show", "run/config.yaml"),
            ("show", "run"),
            ("language", "train", "resume=run"),
            ("language", "train", "model=run", "run_dir=other"),
            ("language", "evaluate", "model=run", "out=out.json"),
        )
    },
    **{
        name: partial(lambda folder, act: forked(partial(_sentence, act), folder=folder), act=act)
        for name, act in {
            "Agent.load": _loaded,
            "Agent.train": _trained,
            "Agent.from_pretrained": _downloaded,
            "study of language models": _language_study,
        }.items()
    },
}
"""All readers of stored runs, including commands for other kinds of runs."""
SPECIFIED = {
    "policy.network": ("policy", "network"),
    "reward.rule": ("reward", "rule"),
    "reward.count": ("reward", "count"),
}
"""Keys that are also in the specification of a checkpoint, with the places of their values."""
JUDGES = {"evaluate run=run levels=paper", "evaluate run=run checkpoint=best animation=a.gif", "Agent.load"}
JUDGES |= {"Agent.from_pretrained", "play agent=run changes=false out=page.html"}
JUDGES |= {next(reader for reader in READERS if "start_from=run" in reader)}
"""Readers of the checkpoints of a run that do not read its configuration."""


def attacks(rng: random.Random, count: int) -> Iterator[str]:
    """Try each key with each reader in random order: no foreign code may run, and the run may not be used."""
    of_all = [(values, reader) for values in (*OF_RUNS, *OF_LANGUAGE) for reader in READERS]
    for here, (values, reader) in zip(copies(min(count, len(of_all))), rng.sample(of_all, len(of_all)), strict=False):
        rewrite(here / "run", values)
        plant(here)
        outcome = READERS[reader](here)
        is_unread = reader in JUDGES and not values.keys() & SPECIFIED.keys()
        what = f"{reader}, {values}"
        if (here / MARK).exists():
            yield f"{what}: foreign code was run"
        elif outcome.kind == "done" and not reader.startswith("compare") and not is_unread:
            yield f"{what}: the run was used"
        else:
            yield outcome.verdict(what)


def rewrite(run: Path, values: dict[str, Any]) -> None:
    """Change values of a stored configuration by key, also in the checkpoints that contain them.

    If the keys belong to another kind of run, the run is replaced by one of that kind.
    """
    path, others = run / "config.yaml", dict(values)
    cfg = OmegaConf.load(path)
    if any(key.startswith("language.") for key in values):
        from drest_torch.language.config import LanguageConfig

        cfg = OmegaConf.create({"language": asdict(LanguageConfig(model="nowhere", progress=False))})
    elif played := others.pop("env", None):
        named = [f"{key}={value}" for key, value in others.items()]
        config = compose(f"env={played}", *named, "logger=none", "progress=false", "pictures=0", f"run_dir={run}")
        cfg = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
        shutil.rmtree(run / "checkpoints")
    for key, value in others.items():
        OmegaConf.update(cfg, key, value, merge=False)
    OmegaConf.save(cfg, path)
    for path in (run / "checkpoints").glob("*.safetensors"):
        tensors, meta = load_checkpoint(path)
        for group, name in (place for key, place in SPECIFIED.items() if key in values):
            meta["agent"][group][name] = values[f"{group}.{name}"]
        save_checkpoint(path, tensors, meta)


def plant(folder: Path) -> None:
    """Write foreign code where Python may find it: modules, a package, and metadata with entry points."""
    for name in ("evil_code", "evil_plugin", "evil_package/__init__", "evil_package/evil_code", "hydra_plugins/evil"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(CODE)
    (metadata := folder / "evil-1.dist-info").mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    points = "".join(f"[drest_torch.{group}]\nevil_plugin = evil_plugin\n" for group in GROUPS)
    (metadata / "entry_points.txt").write_text(points)


def is_run_unchecked(here: Path, values: dict[str, Any]) -> bool:
    """Return whether the foreign code runs if its origin is not checked; otherwise the attack would test nothing."""
    from drest_torch.config import stored

    rewrite(here / "run", values)
    plant(here)
    words = ["language"] if any(key.startswith("language.") for key in values) else []
    # Only in the child process.
    drest(*words, "train", "resume=run", folder=here, before=lambda: setattr(stored, "own_modules", lambda _: ()))
    return (here / MARK).exists()
