"""Attacks on `drest language`: damaged prompts, runs and models, and random values."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file, save_file

from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint, step_checkpoints
from drest_torch.config.reading import typed
from drest_torch.language.config import LanguageConfig
from tests.chaos.forked import Outcome, drest, folders
from tests.chaos.mutations import mutated
from tests.chaos.overrides import VALUES

IMPORTED = ("transformers", "transformers.models.llama", "peft", "drest_torch.language.training")
SHORT = {
    **{"warm_up": "1", "updates": "1", "scenarios": "4", "selection": "2", "prompts": "2", "muon_lr": "0.01"},
    **{"episodes_per_meta": "2", "evaluations": "1", "progress": "false", "run_dir": "new"},
}
FEW = ("scenarios=2", "suite=post,main")
RUN, MODEL, PROMPTS = "run", "made", "prompts.jsonl"
"""A finished run, a model of transformers, and prompts that both can read."""
SLOW = {"updates", "warm_up", "scenarios", "selection", "threads", "prompts", "at_once", "episodes_per_meta", "samples"}
"""Keys whose large values are slow."""
LARGE = ("99999999999999999999", "1e9", "99999")


def language(*words: str, folder: Path) -> Outcome:
    return drest("language", *words, folder=folder, seconds=60)


def arguments(**values: str) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]


def places(count: int) -> Iterator[Path]:
    """Yield folders one after the other, each with a run, a model and prompts."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false"}  # its threads do not survive a fork
    for name in IMPORTED:
        import_module(name)
    for base in folders(1):
        outcome = language("train", *arguments(**SHORT | {"run_dir": RUN}), folder=base)
        assert outcome.status == 0, outcome.err
        shutil.copytree(base / RUN / "model", base / MODEL)
        assert language("tasks", "brief=true", f"out={PROMPTS}", *FEW, folder=base).status == 0
        for here in folders(count):
            shutil.copytree(base, here, dirs_exist_ok=True)
            yield here


def verdict(outcome: Outcome, here: Path, what: str, before: dict[str, str]) -> str:
    """Return the verdict on a command, which must not change its inputs or leave partial files."""
    after = hashes(here)
    lost = [name for name, value in before.items() if after.get(name) != value]
    half = [name for name in after if ".partial" in name]
    if lost or half:
        return f"{what}: {lost[:2]} changed, {half[:2]} left"
    return outcome.verdict(what)


def hashes(folder: Path) -> dict[str, str]:
    """Return a hash of each file in a folder, also of partial files."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def read_only(here: Path) -> dict[str, str]:
    """Return the hashes of files that no command may change; a resumed run may change its folder."""
    return {name: value for name, value in hashes(here).items() if not name.startswith(f"{RUN}/")}


# --------------------------------------------------------------------------------------- values


def values(rng: random.Random, count: int) -> Iterator[str]:
    """Run a command with one to three random values."""
    usual = asdict(LanguageConfig())
    paths = (RUN, f"{RUN}/config.yaml", f"{RUN}/model", MODEL, PROMPTS, f"{MODEL}/config.json", ".", "a.json", "a.svg")
    evaluated = (
        "model",
        "suite",
        "tasks",
        "scenarios",
        "brief",
        "reads",
        "samples",
        "seed",
        "device",
        "out",
        "picture",
    )
    for here in places(count):
        name = rng.choice(("train", "train", "evaluate", "evaluate", "tasks"))
        base = SHORT if name == "train" else {"scenarios": "2", "suite": "post"}
        base |= {"out": "new.jsonl"} if name == "tasks" else {}
        keys = [key for key in usual if key not in ("device",)] if name == "train" else evaluated
        chosen = dict(base)
        for key in rng.sample(sorted(keys), rng.choice((1, 1, 2, 3))):
            near = [typed(usual[key])] if key in usual and key not in SLOW else []
            drawn = rng.choice([*VALUES, *near * 10, *paths])
            chosen[key] = "3" if key in SLOW and drawn in LARGE else drawn
        before = read_only(here) | {name: value for name, value in hashes(here).items() if name.startswith(f"{RUN}/")}
        yield verdict(
            language(name, *arguments(**chosen), folder=here),
            here,
            f"{name} {set(chosen.items()) - set(base.items())}",
            before,
        )


# --------------------------------------------------------------------------------------- prompts

STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 0.5, 1e308, 10**400, float("nan"), float("inf"), "", " ", "x", "A", "AB", "é", "\x1b[31m"),
    *("a\nb", "a|b", "$x^$", "\ud800", [], [1], {}, {"a": 1}, [[0.5, "13:00", 1], [0.5, "14:00", 2]]),
    *([[float("nan"), "13:00", 1]], [[1, "13:00", 0]], [[1, ["x"], 1]], [{"role": "user"}], "13:00", "x" * 100_000),
)


def prompts(rng: random.Random, count: int) -> Iterator[str]:
    """Read prompts with mutated bytes or values."""
    for here in places(count):
        path = here / PROMPTS
        path.write_bytes(rng.choice((_other_bytes, _other_values))(path.read_bytes(), rng))
        model = rng.choice(("small", RUN, MODEL))
        words = rng.choice(
            (
                ["evaluate", f"model={model}", f"tasks={PROMPTS}", "out=a.json", "picture=a.svg"],
                ["evaluate", f"model={model}", f"tasks={PROMPTS}", "reads=lines", "samples=3"],
                [
                    "train",
                    *arguments(**SHORT),
                    f"tasks={PROMPTS}",
                    f"reward={rng.choice(('drest', 'default', 'supports'))}",
                ],
                ["train", *arguments(**SHORT), f"tasks={PROMPTS}", "method=rloo", "warm_up=0"],
                ["tasks", f"tasks={PROMPTS}", "out=new.jsonl"],
            )
        )
        before = read_only(here)
        yield verdict(language(*words, folder=here), here, f"{words[0]} {words[-2:]}", before)


def _other_bytes(data: bytes, rng: random.Random) -> bytes:
    return mutated(data, rng)


def _other_values(data: bytes, rng: random.Random) -> bytes:
    records = [json.loads(line) for line in data.decode().splitlines()]
    for record in rng.sample(records, rng.choice((1, 1, len(records)))):
        option = rng.choice(record["options"])
        inner = rng.choice((record, option, rng.choice(option["outcomes"]), record["messages"][0], option))
        key = rng.randrange(len(inner)) if isinstance(inner, list) else rng.choice([*inner, "length", "score", "label"])
        if rng.random() < 0.2 and isinstance(inner, dict):
            inner.pop(key, None)
        else:
            inner[key] = rng.choice(STRANGE)
    return "\n".join(json.dumps(record) for record in records).encode()


# --------------------------------------------------------------------------------------- runs and models

ON_RUNS = (
    ["train", f"resume={RUN}"],
    ["evaluate", f"model={RUN}", *FEW],
    ["evaluate", f"model={RUN}", "reads=lines", "out=a.json", *FEW],
)


def configurations(rng: random.Random, count: int) -> Iterator[str]:
    """Resume or evaluate a run with mutated bytes or values in its configuration."""
    for here in places(count):
        path = here / RUN / "config.yaml"
        if rng.random() < 0.5:
            path.write_bytes(mutated(path.read_bytes(), rng))
        else:
            loaded = yaml.safe_load(path.read_text())
            key = rng.choice(sorted(loaded["language"]))
            drawn = rng.choice([*VALUES, "99999", None, [], {}, -1, 0, 1e300, float("nan"), "small", MODEL, "a/b"])
            loaded["language"][key] = 3 if key in SLOW and drawn in LARGE else drawn
            path.write_text(yaml.safe_dump(loaded))
        words, before = rng.choice(ON_RUNS), read_only(here)
        yield verdict(language(*words, folder=here), here, f"{words}, another config.yaml", before)


def _name(tensors: dict[str, torch.Tensor], rng: random.Random) -> str:
    return rng.choice([name for name in sorted(tensors) if not name.endswith(".step")])


def _dropped(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    # Muon has one state per weight and starts again without it, as for a weight that had no gradient.
    del tensors[rng.choice([name for name in sorted(tensors) if "muon" not in name])]


def _added(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    tensors["policy.more"] = torch.zeros(2)


def _reshaped(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    name = _name(tensors, rng)
    tensors[name] = rng.choice((tensors[name].reshape(1, -1), tensors[name].flatten()[:1], tensors[name].long()))


def _not_finite(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice([name for name, tensor in sorted(tensors.items()) if tensor.is_floating_point()])
    tensors[name] = torch.full_like(tensors[name], rng.choice((float("nan"), float("inf"))))


def _no_weights(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    for name in [name for name in tensors if name.startswith("policy.")]:
        del tensors[name]


def _meta(tensors: dict[str, torch.Tensor], meta: dict[str, Any], rng: random.Random) -> None:
    key = rng.choice(("steps", "updates", "evaluated", "wall_seconds", "processor_seconds"))
    meta[key] = rng.choice((None, "x", -1, 10**30, [], {}, float("nan"), True))


DAMAGE: dict[str, Callable[[dict[str, torch.Tensor], dict[str, Any], random.Random], None]] = {
    "a tensor dropped": _dropped,
    "a weight added": _added,
    "another shape": _reshaped,
    "not finite": _not_finite,
    "no weights": _no_weights,
    "another progress": _meta,
}


def damage(run: Path, kind: str, rng: random.Random) -> None:
    """Damage the checkpoint of a run, with a valid checksum."""
    (path,) = step_checkpoints(run / "checkpoints")
    tensors, meta = load_checkpoint(path)
    DAMAGE[kind](tensors, meta, rng)
    save_checkpoint(path, tensors, meta)


def checkpoints(rng: random.Random, count: int) -> Iterator[str]:
    """Resume or evaluate a run with a damaged checkpoint, which must be refused if it is read."""
    for here in places(count):
        kind, words = rng.choice([*DAMAGE, "bytes"]), rng.choice(ON_RUNS)
        (path,) = step_checkpoints(here / RUN / "checkpoints")
        was = path.read_bytes()
        if kind == "bytes":
            path.write_bytes(mutated(was, rng))
        else:
            damage(here / RUN, kind, rng)
        is_same, before = path.read_bytes() == was, read_only(here)
        outcome = language(*words, folder=here)
        reads_it = kind in ("bytes", "a weight added", "not finite", "no weights") or words[0] == "train"
        what = f"{kind}, {words}"
        is_used = outcome.kind == "done" and reads_it and not is_same
        yield f"{what}: was used" if is_used else verdict(outcome, here, what, before)


def _cut_weights(model: Path, rng: random.Random) -> None:
    tensors = load_file(model / "model.safetensors")
    for name in rng.sample(sorted(tensors), rng.choice((1, len(tensors) // 2, len(tensors) - 1))):
        del tensors[name]
    save_file(tensors, model / "model.safetensors", {"format": "pt"})


def _strange_weights(model: Path, rng: random.Random) -> None:
    tensors = load_file(model / "model.safetensors")
    name = rng.choice(sorted(tensors))
    tensors[name] = rng.choice((tensors[name].flatten()[:3].clone(), torch.full_like(tensors[name], float("nan"))))
    save_file(tensors, model / "model.safetensors", {"format": "pt"})


TEMPLATES = (
    "{{ raise_exception('no') }}",
    "{{ messages[7].content }}",
    "{{ 1 / 0 }}",
    "{% for",
    "",
    "{{ messages }}",
    "{{ messages[0].content }}",
    "{{ ().__class__.__base__.__subclasses__() }}",
)


def _template(model: Path, rng: random.Random) -> None:
    (model / "chat_template.jinja").write_text(rng.choice(TEMPLATES))


def _json(name: str, model: Path, rng: random.Random) -> None:
    loaded = json.loads((model / name).read_text())
    inner = rng.choice([loaded, *(value for value in loaded.values() if isinstance(value, dict) and value)])
    key = rng.choice(sorted(inner))
    inner[key] = rng.choice((None, -1, 0, 3, 1.5, "x", "", [], {}, True, 10**9, "evil/model", inner[key]))
    (model / name).write_text(json.dumps(loaded))


def _bytes(model: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(path for path in model.iterdir() if path.is_file()))
    path.write_bytes(mutated(path.read_bytes(), rng))


def _missing(model: Path, rng: random.Random) -> None:
    rng.choice(sorted(model.iterdir())).unlink()


OF_MODELS: dict[str, Callable[[Path, random.Random], None]] = {
    "weights cut": _cut_weights,
    "strange weights": _strange_weights,
    "a template": _template,
    "another config.json": partial(_json, "config.json"),
    "another tokenizer.json": partial(_json, "tokenizer.json"),
    "another tokenizer_config.json": partial(_json, "tokenizer_config.json"),
    "bytes": _bytes,
    "a file missing": _missing,
}
REFUSED = ("weights cut", "strange weights")


def models(rng: random.Random, count: int) -> Iterator[str]:
    """Evaluate or train a damaged model."""
    for here in places(count):
        kind = rng.choice(sorted(OF_MODELS))
        OF_MODELS[kind](here / MODEL, rng)
        words = rng.choice(
            (
                ["evaluate", f"model={MODEL}", *FEW],
                ["train", *arguments(**SHORT), f"model={MODEL}", *rng.choice(([], ["lora=2"]))],
            )
        )
        before = read_only(here)
        outcome = language(*words, folder=here)
        what = f"{kind}, {words}"
        is_used = outcome.kind == "done" and kind in REFUSED
        yield f"{what}: was used" if is_used else verdict(outcome, here, what, before)
