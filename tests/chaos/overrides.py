"""Commands with random values and malformed arguments."""

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from drest_torch.config.compose import compose
from drest_torch.config.reading import flattened, typed
from drest_torch.jobs import erosion
from drest_torch.studies import runner
from drest_torch.training import run
from tests.chaos.forked import drest, folders

Choices = Mapping[str, str | Sequence[str]]
"""Values by key; one of a sequence is chosen at random."""

VALUES = (
    *("-1", "0", "1", "2", "3", "7", "0.5", "1.5", "-0.1", "1e-9", "1e9", "1e400", "inf", "-inf", "nan"),
    *("99999999999999999999", "null", "true", "false", "abc", "''", "[]", "[1]", "[1,2]", "[2,1]", "[1,2,3]"),
    *("[a,b]", "[-1,1]", "{}", "{a:1}", "{a:[1,1]}"),
    *("../../x", "/dev/null", "'a b'", "ü", "'${oc.env:HOME}'", "'\\x1b[31m'", "'<b>'", "cpu", "cuda", "ppo"),
    *("example", "drest"),
)
SHORT = {
    **{"run_dir": "run", "env_steps": "300", "evaluations": "1", "pictures": "0", "policy.width": "8"},
    **{"policy.depth": "1", "progress": "false", "logger": "none", "memory_gib": "0.2"},
}
"""Values that keep a run short."""
IN_GRIDWORLDS: Choices = {
    **{"levels.train": "3", "levels.test": "2", "levels.selection": "1", "test.paper": "false"},
    "algo": ("ppo", "ppo", "ppo", "a2c", "reinforce", "exact", "generalist", "tabular"),
    "levels": ("generated", "generated", "generated", "generated", "easy", "paper", "example"),
}
GROUPS: Choices = {
    **{"algo": ("nope", "''"), "levels": ("lopsided", "own", "nope")},
    "policy": ("mlp", "convolutional", "planning", "symmetric", "recurrent", "auto", "nope"),
    "reward": ("drest", "default", "unnormalised", "nope"),
    "objective": ("drest", "weighted", "constrained", "kl", "nope"),
    "logger": ("none", "csv", "nope"),
}
SLOW = (
    *("env_steps", "levels.train", "levels.test", "levels.selection", "levels.fresh", "threads", "resume"),
    *("env.id", "env.factory"),
)
"""Keys whose large values are valid but slow."""

IN_OTHERS = SHORT | {
    **{"env": "torchrl", "env.factory": "tests.helpers.counting:forty_slots", "env.copies": "40", "env.base": "3"},
    **{"env.delays": "[2]", "algo.episodes": "40", "reward.group": "4", "sampled": "40"},
}
FACTORIES = tuple(
    f"tests.helpers.counting:{name}"
    for name in ("counting", "boxes", "number", "plane", "fails", "leaves", "leaves_too", "broken", "worlds", "nope")
)
ENVIRONMENT: Choices = {
    "env": ("cartpole", "gridworld", "gymnasium", "torchrl", "queue"),
    "env.factory": FACTORIES,
    "env.control": ("action", "dimension", "auto", *FACTORIES),
    **dict.fromkeys(
        ("env.base", "env.delays"), ("1000000000000", "[1000000000000]", "0", "2.5", "null", "[3,5]", "[]")
    ),
    **dict.fromkeys(("env.best", "env.floor", "env.levels", "env.workers", "env.window", "env.copies"), VALUES),
    **dict.fromkeys(("env.cost", "env.idle", "env.ended", "env.observed"), VALUES),
    **dict.fromkeys(("reward.episodes_per_meta", "reward.group", "reward.counting", "levels.train", "levels"), VALUES),
}
EXAMPLE = {"levels": "example", "memory_gib": "0.2"}
EVALUATED: Choices = {
    "levels": ("example", "paper", "lopsided", "own", "nope"),
    "levels.path": ("/dev/zero", "/dev/null", "nowhere.txt", "''", ".", "/"),
    "levels.clock": ("moves", "steps", "nope", "null"),
    "checkpoint": ("last", "best", "nope", "''", "/dev/zero", "."),
    "suite": ("nope", "null", "[]"),
    "out": ("out.json", "''", "/", ".", "/dev/full", "/dev/null", "a/b/c.json", "run"),
    "pictures": ("pictures", "''", "/dev/null", "/proc/x"),
    "animation": ("a.gif", "a.png", "''", "/dev/null", "/"),
    "run": ("generalist", "generalist-bit", "nowhere", "''", "/", "/dev/zero", "."),
    **dict.fromkeys(("levels.x", "greedy", "sampled", "memory_gib", "most_pictures", "device"), VALUES),
}


def training(rng: random.Random, count: int) -> Iterator[str]:
    defaults = flattened(OmegaConf.to_container(compose("levels=generated", "algo=ppo")))
    near = {key: _near(value) for key, value in defaults.items() if key not in SLOW and not key.startswith("env.")}
    return attack("train", SHORT | IN_GRIDWORLDS, {**GROUPS, **near}, rng, count)


def _near(value: Any) -> Sequence[str]:
    """Return values; half of them are close to this one, because most other values are refused."""
    if type(value) in (int, float):
        alike = [str(type(value)(value * factor)) for factor in (0, 0.5, 1, 2, 4)]
    else:
        alike = ["true", "false"] if isinstance(value, bool) else [typed(value)]
    return [*VALUES, *alike * (len(VALUES) // len(alike))]


def attack(command: str, base: Choices, drawn: Choices, rng: random.Random, count: int) -> Iterator[str]:
    """Run a command with one to three random values: it succeeds, or is refused in one sentence."""
    for folder in folders(count):
        keys = rng.sample(sorted(drawn), rng.choice((1, 1, 2, 3)))
        options = {**base, **{key: drawn[key] for key in keys}}
        chosen = {key: value if isinstance(value, str) else rng.choice(value) for key, value in options.items()}
        if chosen.get("algo") in ("exact", "generalist"):
            chosen["env_steps"] = "8192"
        words = [f"{key}={value}" for key, value in chosen.items()]
        yield drest(command, *words, folder=folder).verdict(" ".join(words))


# ------------------------------------------------------------------------------------------- malformed arguments

OPTIONS = (
    *("-", "--", "---", "-p", "-x", "-v", "-c", "-cd", "-rm", "-sc", "-h=1", "-p=x", "-seed=1", "-algo=ppo", "—seed=1"),
    *("--seed", "--seed=1", "--cfg", "--cfg=", "--cfg=nope", "--co=job", "--config-dir", "--config-dir=nowhere"),
    *("--config-name=x", "--config-path=nowhere", "--experimental-rerun=x", "--shell-completion", "--info=nope"),
    *("--help=1", "--package", "--resolve", "--no-such"),
)
FORMS = (
    *("", "  ", "word", "seed", "=", "=x", "==", "seed==1", "+", "++", "+=", "~", "~algo", "~seed", "#", "?", "/", "*"),
    *("a b=1", "a..b=1", ".a=1", "a.=1", "a/b=1", "/algo=ppo", "algo/=ppo", "algo@x=ppo", "@=1", "seed:1", "é=1"),
    *("hydra.nope=1", "hydra=x", "hydra/launcher=nope", "hydra.run.dir=/dev/null/x", "hydra.searchpath=[nowhere]"),
    *(
        "imports=",
        "imports=..",
        "imports=,",
        "imports=.os",
        "imports=a b",
        "imports=a:b",
        "imports=a/b.py",
        "imports=[",
    ),
    *("imports=\x1b[31m", "imports=é", "imports=drest_torch.nope", "imports=fails", "imports=leaves"),
    *("algo=1", "algo=[]", "algo=null", "algo={name:ppo}", "levels=[paper]", "levels=../x", "study=..", "study=[a,b]"),
    *("lambda=0.9", "learning_rate=1", "algo.leraning_rate=1", "steps=5", "batch_size=2", "gpu=1", "hidden_size=4"),
)
AWKWARD = (
    *(
        "=",
        "a=b",
        ",",
        "a,b",
        ":",
        "a:b",
        "[",
        "[1,",
        "[a,",
        "{",
        "{a:",
        "(a)",
        "a)",
        "'",
        "it's",
        '"',
        "\\",
        "\t",
        "a\nb",
    ),
    *(
        "$",
        "${",
        "${x}",
        "${oc.env:NOPE}",
        "${now:%}",
        "???",
        "choice(1,2)",
        "choice(",
        "range(1,3)",
        "glob(*)",
        "nope(1)",
    ),
    *(
        "extend_list(1)",
        "{a:{b:[1,[2,[3]]]}}",
        "\udcff",
        "\x1b[31m",
        "x" * 5000,
        "%",
        "!",
        "~",
        "<",
        ">",
        "|",
        ";",
        "&",
    ),
)
KEYS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "train": (("algo.lr", "run_dir", "levels.path", "env.delays", "resume", "logger"), ("env_steps=1", "pictures=0")),
    "evaluate": (("run", "levels.path", "out", "checkpoint", "levels.x", "suite"), ("levels=example",)),
    "study": (("study", "study.agents", "quick", "workers", "out"), ("study=example", "progress=false")),
    "compare": (("out", "runs"), ("nowhere",)),
    "show": (("level", "x"), ("example",)),
    "erode": (
        ("run", "conditions", "updates", "remedies", "freeze", "penalty", "measured", "seeds", "out", "reward"),
        ("levels=example",),
    ),
    "play": (("agent", "save", "port", "out", "sampled"), ("example", "out=page.html", "changes=false")),
    "language train": (("model", "run_dir", "reward", "seed", "resume"), ("model=nowhere",)),
    "language evaluate": (("suite", "tasks", "samples", "out", "picture"), ("model=nowhere",)),
    "language tasks": (("suite", "scenarios", "seed"), ("scenarios=2", "out=tasks.jsonl")),
    "hub": ((), ()),
}
"""The commands, each with some of its keys and with arguments that keep it short."""


def malformed(rng: random.Random, count: int) -> Iterator[str]:
    """Run each command with a malformed argument: it prints one sentence, and no usage."""
    for folder in folders(count):
        (folder / "fails.py").write_text("1 / 0\n")
        (folder / "leaves.py").write_text("raise SystemExit(3)\n")
        command = rng.choice(list(KEYS))
        keys, short = KEYS[command]
        argument = rng.choice(
            rng.choice((OPTIONS, FORMS, [f"{key}={value}" for key in keys for value in AWKWARD] or FORMS))
        )
        if rng.random() < 0.2 and keys:
            argument = _misspelled(rng.choice(keys), rng) + "=1"
        words = rng.sample([*short, argument], len(short) + 1)
        outcome = drest(*command.split(), *words, folder=folder, before=_without_runs)
        what = ascii(f"{command} {argument:.200}")
        is_one = outcome.kind != "refused" or len(outcome.err.strip().splitlines()) == 1
        yield outcome.verdict(what) if is_one else f"{what}: {outcome.err!a:.200}"


def _misspelled(key: str, rng: random.Random) -> str:
    """Return a key with a character removed or inserted, or reversed."""
    place = rng.randrange(len(key))
    return rng.choice((key[:place] + key[place + 1 :], key[:place] + rng.choice("xé_. ") + key[place:], key[::-1]))


def _without_runs() -> None:
    """Disable runs, training and the hub, so that only the arguments are tested."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    runner.__dict__["_run"] = lambda *_: []
    run.__dict__["start_or_resume"] = lambda *_: sys.exit(0)
    erosion.__dict__["erode"] = lambda *_, **__: sys.exit(0)
