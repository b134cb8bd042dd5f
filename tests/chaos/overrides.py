"""Give commands random values of their keys."""

import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from omegaconf import OmegaConf

from tests.chaos.folders import folders
from tests.chaos.forked import drest

VALUES = (
    *("-1", "0", "1", "2", "3", "7", "0.5", "1.5", "-0.1", "1e-9", "1e9", "1e400", "inf", "-inf", "nan"),
    *("99999999999999999999", "null", "true", "false", "abc", "''", "[]", "[1]", "[1,2]", "[2,1]", "[1,2,3]"),
    *("[a,b]", "[-1,1]", "{}", "{a:1}", "{a:[1,1]}"),
    *("../../x", "/dev/null", "'a b'", "ü", "'${oc.env:HOME}'", "'\\x1b[31m'", "'<b>'", "cpu", "cuda", "ppo"),
    *("example", "drest"),
)
OPTIONS = {
    "algo": ("ppo", "a2c", "reinforce", "exact", "generalist", "tabular", "nope"),
    "levels": ("example", "lopsided", "generated", "paper", "easy", "own", "nope"),
    "policy": ("mlp", "convolutional", "symmetric", "residual", "auto", "nope"),
    "reward": ("drest", "default", "unnormalised", "nope"),
    "objective": ("drest", "weighted", "constrained", "kl", "nope"),
    "logger": ("none", "csv", "nope"),
}
SMALL = {
    **{"env_steps": "300", "evaluations": "1", "pictures": "0", "policy.width": "8", "policy.depth": "1"},
    **{"levels.train": "3", "levels.test": "2", "levels.selection": "1", "test.paper": "false", "progress": "false"},
    **{"logger": "none", "memory_gib": "0.2"},
}
"""What keeps a run short, and is left out where the key itself is drawn."""
SLOW = (
    *("env_steps", "levels.train", "levels.test", "levels.selection", "levels.fresh", "threads", "resume"),
    *("env.id", "env.factory"),
)
"""Keys whose large values are asked for by whoever sets them, and take their time."""


ELSEWHERE = {
    **{"env": "torchrl", "env.factory": "tests.helpers.counting:forty_slots", "env.copies": "40"},
    "algo.episodes": "40",
    **{"env.base": "3", "env.delays": "[2]", "reward.group": "4", "sampled": "40"},
}
"""A short run in an environment that is no gridworld; `SMALL` without what only gridworlds read."""
FACTORIES = tuple(
    f"tests.helpers.counting:{name}"
    for name in ("counting", "boxes", "number", "plane", "fails", "leaves", "leaves_too", "broken", "worlds", "nope")
)
ENVIRONMENT = {
    "env": ("cartpole", "gridworld", "gymnasium", "torchrl", "queue"),
    "env.factory": FACTORIES,
    "env.control": ("action", "dimension", "auto", *FACTORIES),
    **dict.fromkeys(
        ("env.base", "env.delays"), ("1000000000000", "[1000000000000]", "0", "2.5", "null", "[3,5]", "[]")
    ),
    **dict.fromkeys(("env.best", "env.floor", "env.levels", "env.workers", "env.window", "env.copies")),
    **dict.fromkeys(("env.quantile", "env.cost", "env.chance", "env.idle", "env.ended", "env.observed")),
    **dict.fromkeys(("reward.episodes_per_meta", "reward.group", "reward.counting", "levels.train", "levels")),
}
"""What is drawn there; no values: any."""


@lru_cache(maxsize=1)
def keys() -> tuple[str, ...]:
    """Return every key of a run's configuration."""
    from drest_torch.config.compose import compose, keys_of

    known = keys_of(OmegaConf.to_container(compose("levels=generated", "algo=ppo")))
    return tuple(key for key in known if key not in SLOW and not key.startswith(("env.", "hydra")))


def drawn(rng: random.Random) -> list[str]:
    """Return the arguments of a run, one to three of them at random."""
    chosen = dict(SMALL)
    if rng.random() < 0.7:
        chosen["algo"] = rng.choice(OPTIONS["algo"])
    if rng.random() < 0.8:
        chosen["levels"] = rng.choice(OPTIONS["levels"])
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.2:
            group = rng.choice(sorted(OPTIONS))
            chosen[group] = rng.choice(OPTIONS[group])
        else:
            chosen[rng.choice(keys())] = rng.choice(VALUES)
    if chosen.get("algo") in ("exact", "generalist"):
        chosen["env_steps"] = "8192"
    return [f"{key}={value}" for key, value in ({"run_dir": "run"} | chosen).items()]


def drawn_elsewhere(rng: random.Random) -> list[str]:
    """Return the arguments of a run in an environment that is no gridworld, one or two of them at random."""
    chosen = {key: value for key, value in SMALL.items() if not key.startswith(("levels", "test"))} | ELSEWHERE
    for key in rng.sample(sorted(ENVIRONMENT), rng.choice((1, 1, 2))):
        chosen[key] = rng.choice(ENVIRONMENT[key] or VALUES)
    return ["run_dir=run", *(f"{key}={value}" for key, value in chosen.items())]


EVALUATED = {
    "levels": ("example", "paper", "lopsided", "own", "nope"),
    "levels.x": VALUES,
    "levels.path": ("/dev/zero", "/dev/null", "nowhere.txt", "''", ".", "/"),
    "levels.clock": ("moves", "steps", "nope", "null"),
    "checkpoint": ("last", "best", "nope", "''", "/dev/zero", "."),
    "greedy": VALUES,
    "sampled": VALUES,
    "memory_gib": VALUES,
    "suite": ("nope", "null", "[]"),
    "out": ("out.json", "''", "/", ".", "/dev/full", "/dev/null", "a/b/c.json", "run"),
    "pictures": ("pictures", "''", "/dev/null", "/proc/x"),
    "most_pictures": VALUES,
    "animation": ("a.gif", "a.png", "''", "/dev/null", "/"),
    "device": VALUES,
    "run": ("generalist", "generalist-bit", "nowhere", "''", "/", "/dev/zero", "."),
}


def drawn_evaluation(rng: random.Random) -> list[str]:
    """Return the arguments of an evaluation of an agent that ships, one to three of them at random."""
    names = rng.sample(sorted(EVALUATED), rng.choice((1, 2, 3)))
    words = {"levels": "example", "memory_gib": "0.2"} | {name: rng.choice(EVALUATED[name]) for name in names}
    return [f"{name}={value}" for name, value in words.items()]


def attack(command: str, draw: Callable[[random.Random], list[str]], rng: random.Random, count: int) -> Iterator[str]:
    """Give a command random values: it ends well, or is refused in one sentence."""
    for folder in folders(count):
        words = draw(rng)
        yield drest(command, *words, folder=folder).verdict(" ".join(words))


training = partial(attack, "train", drawn)
elsewhere = partial(attack, "train", drawn_elsewhere)
evaluating = partial(attack, "evaluate", drawn_evaluation)
