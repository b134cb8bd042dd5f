"""Give commands random values of their keys."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from drest_torch.config.compose import compose
from drest_torch.config.reading import flattened, typed
from tests.chaos.forked import drest, folders

Choices = Mapping[str, str | Sequence[str]]
"""Values by their keys; of several, one at random."""

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
"""What keeps a run short."""
IN_GRIDWORLDS: Choices = {
    **{"levels.train": "3", "levels.test": "2", "levels.selection": "1", "test.paper": "false"},
    "algo": ("ppo", "ppo", "ppo", "a2c", "reinforce", "exact", "generalist", "tabular"),
    "levels": ("generated", "generated", "generated", "generated", "easy", "paper", "example"),
}
GROUPS: Choices = {
    **{"algo": ("nope", "''"), "levels": ("lopsided", "own", "nope")},
    "policy": ("mlp", "convolutional", "symmetric", "residual", "auto", "nope"),
    "reward": ("drest", "default", "unnormalised", "nope"),
    "objective": ("drest", "weighted", "constrained", "kl", "nope"),
    "logger": ("none", "csv", "nope"),
}
SLOW = (
    *("env_steps", "levels.train", "levels.test", "levels.selection", "levels.fresh", "threads", "resume"),
    *("env.id", "env.factory"),
)
"""Keys whose large values are asked for by whoever sets them, and take their time."""

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
    **dict.fromkeys(("env.quantile", "env.cost", "env.chance", "env.idle", "env.ended", "env.observed"), VALUES),
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
    known = flattened(OmegaConf.to_container(compose("levels=generated", "algo=ppo")))
    near = {key: _near(value) for key, value in known.items() if key not in SLOW and not key.startswith("env.")}
    return attack("train", SHORT | IN_GRIDWORLDS, {**GROUPS, **near}, rng, count)


def _near(value: Any) -> Sequence[str]:
    """Return values of which half are like this one: with any others a run is mostly refused."""
    if type(value) in (int, float):
        alike = [str(type(value)(value * factor)) for factor in (0, 0.5, 1, 2, 4)]
    else:
        alike = ["true", "false"] if isinstance(value, bool) else [typed(value)]
    return [*VALUES, *alike * (len(VALUES) // len(alike))]


def attack(command: str, base: Choices, drawn: Choices, rng: random.Random, count: int) -> Iterator[str]:
    """Give a command one to three random values: it ends well, or is refused in one sentence."""
    for folder in folders(count):
        keys = rng.sample(sorted(drawn), rng.choice((1, 1, 2, 3)))
        given = {**base, **{key: drawn[key] for key in keys}}
        chosen = {key: value if isinstance(value, str) else rng.choice(value) for key, value in given.items()}
        if chosen.get("algo") in ("exact", "generalist"):
            chosen["env_steps"] = "8192"
        words = [f"{key}={value}" for key, value in chosen.items()]
        yield drest(command, *words, folder=folder).verdict(" ".join(words))
