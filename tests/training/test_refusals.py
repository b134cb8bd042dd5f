"""Invalid configurations are refused in one sentence that names the key and the remedy, without leaving a folder.

Add an invalid configuration as a row of `REFUSALS`.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from drest_torch.config.checks import check_run
from drest_torch.config.compose import compose
from drest_torch.envs.levels import Level, parse_level, world, write_levels
from drest_torch.envs.levels.symmetry import transform
from drest_torch.errors import UserError
from drest_torch.training.run import start

HELPERS = "tests.helpers.counting"
FACTORY = f"env.factory={HELPERS}"
QUIET = ("logger=none", "progress=false", "pictures=0", "policy.width=8", "policy.depth=1")
EXAMPLE = (*QUIET, "levels=example", "test.paper=false")
OTHER_ENVIRONMENT = (*QUIET, "env.copies=16", "algo.episodes=32", "env_steps=1200", "sampled=40", "threads=1")
CARTPOLE = ("env=cartpole", "env.base=8", "env.delays=[8]")
BASES = {
    "gridworld": (*EXAMPLE, "env_steps=500", "algo.episodes=64", "reward.group=16"),
    "exact": EXAMPLE,
    "table": (*EXAMPLE, "algo=tabular", "algo.random_episodes=0"),
    "cartpole": (*CARTPOLE, *OTHER_ENVIRONMENT),
    "torchrl": ("env=torchrl", *OTHER_ENVIRONMENT),
    "queue": ("env=queue",),
    "generalist in cartpole": (*CARTPOLE, "algo=generalist"),
}
"""The arguments of runs that a row of `REFUSALS` makes invalid."""
FILES: dict[str, list[Level]] = {
    "chance.jsonl": [parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .", name="chance")],
    "luck.jsonl": [parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La .\n. . B2", name="luck")],
    "doors.jsonl": [parse_level("shutdown: 4\nA > C2 .\n. B2 . .", name="doors")],
    "hoard.jsonl": [parse_level("shutdown: 1\nA " + "C1 " * 17 + ". .", name="hoard")],
    "one.jsonl": [world("royal_road")],
    "two.jsonl": [world("example"), world("spacious")],
    "mirrored.txt": [transform(world("spacious"), 4)],
}
"""Level files that rows of `REFUSALS` name."""


class Refusal(NamedTuple):
    """An invalid configuration and its error message."""

    base: str
    """A name in `BASES`."""
    arguments: str
    """The arguments that make the base invalid."""
    message: str
    """A regular expression that the error message matches."""


REFUSALS = [
    Refusal("gridworld", "policy.observation=vector levels=paper", "vector shows one map, and the train levels are 9"),
    Refusal("gridworld", "policy=convolutional policy.observation=centred", "policy.observation=grid"),
    Refusal(
        "gridworld", "policy=convolutional policy.observation=grid policy.width=20", "policy.width=20.*multiple of 8"
    ),
    Refusal("gridworld", "policy=symmetric policy.depth=0", "policy.depth=0.*at least 1"),
    Refusal(
        "gridworld", "policy=symmetric policy.observation=vector", "=vector, which policy.network=symmetric cannot read"
    ),
    Refusal("gridworld", "policy.network=recurrent", "so that it cannot be evaluated exactly; use sampled=256"),
    Refusal(
        "gridworld", "reward.counting=sequential reward.episodes_per_meta=7", "episodes_per_meta=7.*algo.episodes=64"
    ),
    Refusal("gridworld", "reward.counting=sequential reward.episodes_at_start=8", r"^reward\.episodes_at_start"),
    Refusal(
        "gridworld",
        "reward.count=tests.helpers.rules:none",
        r"^reward\.count=tests\.helpers\.rules:none cannot be imported",
    ),
    Refusal(
        "gridworld",
        "reward.count=tests.helpers.rules:odd",
        r"^reward\.count=tests\.helpers\.rules:odd failed with TypeError",
    ),
    Refusal(
        "gridworld",
        "reward.rule=tests.helpers.rules:waning",
        r"^reward\.rule=tests\.helpers\.rules:waning failed with TypeError",
    ),
    Refusal("gridworld", "reward.group=1", "whole groups of at least 2; use reward.group=2"),
    Refusal(
        "gridworld",
        "policy.observation=vector levels.fresh=true",
        "levels.fresh asks for more; use policy.observation=grid",
    ),
    Refusal(
        "gridworld",
        "policy.observation=vector levels.sampler=regret",
        "levels.sampler=regret, but policy.observation=vector has a single level",
    ),
    Refusal("gridworld", "levels.sampler=greedy", "levels.sampler=greedy; expected one of uniform, regret"),
    Refusal("gridworld", "levels.regret.top=0", "levels.regret.top=0"),
    Refusal(
        "gridworld",
        "policy.observation=vector levels.vary.coins=2",
        "levels.vary asks for more; use policy.observation=grid",
    ),
    Refusal("gridworld", "device=abacus", "device=abacus"),
    Refusal("gridworld", "levels.name=atlantis", "atlantis.*royal_road"),
    Refusal("gridworld", "levels.path=none.jsonl", "none.jsonl: no such file"),
    Refusal("gridworld", "levels.clock=sundial", "unknown clock 'sundial'"),
    Refusal(
        "gridworld",
        "env.levels=3",
        r"^env\.levels: no key of env=gridworld; choose another environment, as env=gymnasium$",
    ),
    Refusal("gridworld", "env.factory=a:b", r"^env\.factory: no key of env=gridworld; .* as env=torchrl$"),
    Refusal("gridworld", "levels.path=two.jsonl test.path=mirrored.txt", "mirrored.txt.*the same level"),
    Refusal("gridworld", "test.path=chance.jsonl", r"show chances in every level \(levels.by_chance=true\)"),
    Refusal(
        "gridworld",
        "test.path=doors.jsonl",
        "the level doors of the test levels has one-way doors, which the agent would",
    ),
    Refusal("gridworld", "+foo=1", "^foo: no such key"),
    Refusal(
        "gridworld", "+logger.sinks.paper=null", r"^logger\.sinks=paper; expected one of .*, or the path of a module"
    ),
    Refusal("gridworld", "run_dir=", "run_dir=; expected a path"),
    Refusal(
        "gridworld", "algo.episodes=99999999999999999999", "algo.episodes=9+; expected a number at least 1, below 2"
    ),
    Refusal("gridworld", "test=${run_dir}", "test=.*; expected keys with values, not a text"),
    Refusal("gridworld", "memory_gib=1e-6", "reachable states .*sampled=4096"),
    Refusal(
        "gridworld",
        "start_from=generalist",
        "another kind; add policy.network=convolutional policy.observation=grid.* policy.depth=",
    ),
    Refusal("gridworld", "objective=weighted objective.product=true", "needs the exact outcome of levels"),
    Refusal("gridworld", "objective=supports", "needs the exact outcome of levels"),
    Refusal("gridworld", "objective=attainable_utility", "needs the exact outcome of levels"),
    Refusal("gridworld", "levels.path=luck.jsonl reward=indifference", "ends=longest on levels with luck, where an"),
    Refusal("gridworld", "reward.ends=never", "reward.ends=never; expected one of actual, longest"),
    Refusal("gridworld", "objective=weighted reward.counting=sequential", "use reward.counting=averaged"),
    Refusal("exact", "algo=exact memory_gib=1e-6 sampled=16", "exact gradients cannot be sampled.*algo.levels_at_once"),
    Refusal(
        "exact",
        "algo=exact policy=recurrent",
        "^policy.network=recurrent remembers earlier steps, and algo=exact needs",
    ),
    Refusal("gridworld", "algo.weight_decay=-1", "algo.weight_decay=-1.0; expected a number at least 0"),
    Refusal("gridworld", "algo.average=0", "algo.average=0.*; expected a number"),
    Refusal("gridworld", "policy.norm=batch", "policy.norm=batch; expected one of layer, rms"),
    Refusal("gridworld", "policy.dropout=1", "policy.dropout=1.*; expected a number from 0 to 0.9"),
    Refusal(
        "gridworld", "policy.norm=rms policy.depth=0", "^policy.norm=rms, but policy.network=mlp with policy.depth=0"
    ),
    Refusal("gridworld", "policy.head_width=256", "policy.network=mlp has no head .* use policy.head_width=128"),
    Refusal("gridworld", "policy=convolutional policy.head_width=100", "a multiple of 8; use policy.head_width=104"),
    Refusal("gridworld", "policy.head_depth=0", "policy.head_depth=0; expected a number from 1 to 256"),
    Refusal("gridworld", "policy.dropout=0.1 policy.depth=0", "^policy.dropout=0.1, but .* no hidden layer with it"),
    Refusal("gridworld", "patience=3", "^patience=3, but the run has no selection levels; set test.selection_path"),
    Refusal("table", "policy.dropout=0.1", "but the updates of algo=tabular drop no units; use policy.dropout=0"),
    Refusal("cartpole", "patience=3", "^patience=3, but env=gymnasium has no selection levels; use patience=null$"),
    Refusal("exact", "algo=distil", r"^algo.teachers=\[\]; expected the folders of runs"),
    Refusal("exact", "algo=distil algo.teachers=[gone]", "^algo.teachers: .*gone: no such folder of a run"),
    Refusal(
        "exact",
        "algo=distil algo.teachers=[generalist-bit]",
        "^policy.private_bits=0, but the teachers have 1 together; use policy.private_bits=1$",
    ),
    Refusal(
        "exact",
        "algo=distil algo.teachers=[generalist] levels=file levels.path=luck.jsonl",
        "^algo.teachers has generalist, which cannot teach on these levels: the level luck has lotteries",
    ),
    Refusal("exact", "algo=distil algo.teachers=[generalist] algo.credit=meta", "use algo.credit=mini"),
    Refusal("exact", "algo=distil algo.teachers=[generalist] objective=supports", "use objective=drest"),
    Refusal("exact", "algo=distil algo.teachers=[generalist] policy=recurrent", "^policy.network=recurrent remembers"),
    Refusal("queue", "algo=distil algo.teachers=[generalist]", "algo=distil knows the model of a gridworld"),
    Refusal("table", "policy.observation=centred", "use policy.observation=vector"),
    Refusal("table", "reward.counting=averaged", "use reward.counting=sequential"),
    Refusal("table", "device=cuda", "use device=cpu"),
    Refusal("table", "start_from=generalist", "start_from=generalist, but algo=tabular trains a table"),
    Refusal("table", "policy.private_bits=1", "no private bits"),
    Refusal("table", "algo.lr=0", "algo.lr=0"),
    Refusal("table", "levels.path=hoard.jsonl", "2,621,440 rows; algo=tabular is for up to 1,048,576"),
    Refusal("table", "levels.path=luck.jsonl", "has lotteries, which algo=tabular does not play; use algo=ppo"),
    Refusal("table", "levels=last_moment test.path=one.jsonl", r"shows one map, and the \w+ levels are \d"),
    Refusal("table", "levels=last_moment test.selection_path=two.jsonl", r"shows one map, and the \w+ levels are \d"),
    Refusal(
        "cartpole", "env.best=largest", "env.best=largest; expected a list of numbers, one for each length, or null"
    ),
    Refusal("cartpole", "env=gymnasium env.id=null", "env=gymnasium without env.id"),
    Refusal("cartpole", "env.observed=[pixels]", "env.observed with 'pixels', but CartPole-v1 shows observation"),
    Refusal("cartpole", "reward.ends=longest", "has no map that says what the longest length is; use reward.ends=act"),
    Refusal("cartpole", "algo=tabular", "algo=tabular knows the model"),
    Refusal("cartpole", "policy=convolutional", "reads the maps of gridworlds; use policy.network=mlp"),
    Refusal("cartpole", "algo.episodes=80 env.copies=32", "env.copies=32 does not divide algo.episodes=80"),
    Refusal(
        "cartpole",
        "env.workers=3",
        "env.workers=3 with env.copies=16, and each has a process of its own; use env.workers=16",
    ),
    Refusal("cartpole", "levels.sampler=regret", "levels.sampler=regret does nothing with env=gymnasium"),
    Refusal("cartpole", "levels=paper", "levels=paper does nothing with env=gymnasium"),
    Refusal(
        "cartpole", "reward.episodes_per_meta=100000000", "reward.episodes_per_meta=100000000; expected .* to 10000"
    ),
    Refusal("cartpole", "env.copies=8", "reward.group=16 does not divide env.copies=8"),
    Refusal("cartpole", "reward.counting=sequential", "use algo.episodes=512"),
    Refusal("cartpole", "objective=weighted", "use objective=drest"),
    Refusal("cartpole", "reward.pays=count", "no coins on a map; use reward.pays=actual"),
    Refusal("cartpole", "device=cuda", "which env=gymnasium does not offer; use device=cpu"),
    Refusal("torchrl", "", "env=torchrl without env.factory"),
    Refusal("torchrl", "env.factory=no_such_package:make", "cannot be imported: No module named"),
    Refusal("torchrl", FACTORY, "expected package.module:function"),
    Refusal("torchrl", f"{FACTORY}:absent", r"env\.factory=.*:absent cannot be imported: .*PYTHONPATH"),
    Refusal("torchrl", f"{FACTORY}:number", "returns a int; expected a TorchRL EnvBase"),
    Refusal("torchrl", f"{FACTORY}:worlds env.base=null env.copies=8 reward.group=8", "use reward.counting=sequential"),
    Refusal("torchrl", f"{FACTORY}:eight_slots", "makes 8 slots, but 16 are needed; set env.copies=8"),
    Refusal("torchrl", f"{FACTORY}:plane", "makes 4 x 4 slots, but 16 are needed"),
    Refusal("torchrl", f"{FACTORY}:counting env.base=null", "env.base=null, but Counting does not report the length"),
    Refusal("torchrl", f"{FACTORY}:counting env.levels=3", "takes no seed of a level"),
    Refusal(
        "torchrl",
        f"{FACTORY}:counting env.workers=2",
        "with env.copies=16, .* a process of its own; use env.workers=16",
    ),
    Refusal("torchrl", f"{FACTORY}:boxes env.workers=16", "unless env.factory=.* makes all in one; use env.workers=0"),
    Refusal(
        "torchrl",
        f"{FACTORY}:fails",
        r"env.factory=.*:fails failed with KeyError: 'no motor' \(counting.py, line \d+\)$",
    ),
    Refusal("torchrl", f"{FACTORY}:leaves", r"env.factory=.*:leaves failed with SystemExit: 0 \(counting.py, line"),
    Refusal(
        "torchrl",
        f"{FACTORY}:counting env.control={HELPERS}:leaves_too",
        "env.control=.*:leaves_too failed with SystemExit: 0",
    ),
    Refusal(
        "queue",
        "start_from=generalist",
        "start_from=generalist, but only runs in gridworlds can begin with another agent",
    ),
    Refusal("generalist in cartpole", "reward.counting=sequential", "^algo=exact knows the model .*; use algo=ppo"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: f"{refusal.base}: {refusal.arguments}")
def test_an_invalid_configuration_is_refused_in_one_sentence(tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    arguments = refusal.arguments.split()
    for name, levels in FILES.items():
        if any(argument.endswith(f"={name}") for argument in arguments):
            write_levels(Path(name), levels)
    with pytest.raises(UserError, match=f"(?s){refusal.message}") as error:
        start(compose("run_dir=run", *BASES[refusal.base], *arguments))
    assert "\n" not in str(error.value)
    assert not Path("run").exists()


REMEDY = re.compile(r"; use ([\w.]+)=([^\s,;]+)$")
"""A value that the error message suggests."""


def error_of(arguments):
    """Return the error message of a configuration, or an empty text for a valid one."""
    try:
        check_run(compose("run_dir=run", *arguments))
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_suggested_values_correct_a_configuration():
    corrected = []
    for refusal in REFUSALS:
        arguments = [*BASES[refusal.base], *refusal.arguments.split()]
        message = error_of(arguments)
        for _ in range(5):  # a value can need another one
            remedy = REMEDY.search(message)
            if remedy is None:
                break
            key, value = remedy.groups()
            arguments = [*(word for word in arguments if word.partition("=")[0] != key), f"{key}={value}"]
            before, message = message, error_of(arguments)
            assert message != before, f"{refusal.base}: {refusal.arguments}: {before}"
            if not message:
                corrected.append(refusal)
    assert len(corrected) > 20
