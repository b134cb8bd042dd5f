"""What no run can be made of is refused in one sentence that names the key and the remedy, and leaves no folder."""

from pathlib import Path

import pytest

from drest_torch.config.compose import compose
from drest_torch.envs.levels import Level, parse_level, world, write_levels
from drest_torch.envs.levels.symmetry import transform
from drest_torch.errors import UserError
from drest_torch.training.run import start

HELPERS = "tests.helpers.counting"
OWN = f"env.factory={HELPERS}"
QUIET = ("logger=none", "progress=false", "pictures=0", "policy.width=8", "policy.depth=1")
WORLD = (*QUIET, "levels=example", "test.paper=false", "env_steps=500", "algo.episodes=64", "reward.group=16")
TABLE = (*QUIET, "levels=example", "test.paper=false", "algo=tabular", "algo.random_episodes=0")
EXACT = (*QUIET, "levels=example", "test.paper=false")
ELSEWHERE = (*QUIET, "env.copies=16", "algo.episodes=32", "env_steps=1200", "sampled=40", "threads=1")
CARTPOLE = ("env=cartpole", "env.base=8", "env.delays=[8]", *ELSEWHERE)
TORCHRL = ("env=torchrl", *ELSEWHERE)
FILES: dict[str, list[Level]] = {
    "chance.jsonl": [parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .", name="chance")],
    "luck.jsonl": [parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La .\n. . B2", name="luck")],
    "doors.jsonl": [parse_level("shutdown: 4\nA > C2 .\n. B2 . .", name="doors")],
    "hoard.jsonl": [parse_level("shutdown: 1\nA " + "C1 " * 17 + ". .", name="hoard")],
    "one.jsonl": [world("royal_road")],
    "two.jsonl": [world("example"), world("spacious")],
    "mirrored.txt": [transform(world("spacious"), 4)],
}
"""Level files that the rows name."""


REFUSED = {
    WORLD: {
        "policy.observation=vector levels=paper": "vector shows one map, and the train levels are 9",
        "policy=convolutional policy.observation=centred": "policy.observation=grid",
        "policy=convolutional policy.observation=grid policy.width=20": "policy.width=20.*multiple of 8",
        "policy=symmetric policy.depth=0": "policy.depth=0.*at least 1",
        "policy=symmetric policy.observation=vector": "=vector, which policy.network=symmetric cannot read",
        "policy.network=recurrent": "so that it cannot be evaluated exactly; use sampled=256",
        "reward.counting=sequential reward.episodes_per_meta=7": "episodes_per_meta=7.*algo.episodes=64",
        "reward.counting=sequential reward.episodes_at_start=8": r"^reward\.episodes_at_start",
        "reward.count=tests.helpers.rules:none": r"^reward\.count=tests\.helpers\.rules:none cannot be imported",
        "reward.count=tests.helpers.rules:odd": r"^reward\.count=tests\.helpers\.rules:odd failed with TypeError",
        "reward.rule=tests.helpers.rules:waning": r"^reward\.rule=tests\.helpers\.rules:waning failed with TypeError",
        "reward.group=1": "whole groups of at least 2; use reward.group=2",
        "policy.observation=vector levels.fresh=true": "levels.fresh asks for more; use policy.observation=grid",
        "device=abacus": "device=abacus",
        "levels.name=atlantis": "atlantis.*royal_road",
        "levels.path=none.jsonl": "none.jsonl: no such file",
        "levels.clock=sundial": "unknown clock 'sundial'",
        "env.levels=3": r"^env\.levels: no key of env=gridworld; choose another environment, as env=gymnasium$",
        "env.factory=a:b": r"^env\.factory: no key of env=gridworld; .* as env=torchrl$",
        "levels.path=two.jsonl test.path=mirrored.txt": "mirrored.txt.*the same level",
        "levels.path=chance.jsonl test.paper=true": "test.paper=false",
        "test.path=chance.jsonl": r"show chances in every level \(levels.by_chance=true\)",
        "test.path=doors.jsonl": "one-way doors are in one of the training and the test levels and not in",
        "+foo=1": "^foo: no such key",
        "+logger.sinks.paper=null": r"^logger\.sinks=paper; expected one of .*, or the path of a module",
        "run_dir=": "run_dir=; expected a path",
        "algo.episodes=99999999999999999999": "algo.episodes=9+; expected a number at least 1, below 2",
        "test=${run_dir}": "test=.*; expected keys with values, not a text",
        "memory_gib=1e-6": "reachable states .*sampled=4096",
        "start_from=generalist": (
            "another kind; add policy.network=convolutional policy.observation=grid.* policy.depth="
        ),
        "objective=weighted objective.product=true": "needs the exact outcome of levels",
        "objective=supports": "needs the exact outcome of levels",
        "objective=weighted reward.counting=sequential": "use reward.counting=averaged",
    },
    EXACT: {
        "algo=exact memory_gib=1e-6 sampled=16": "exact gradients cannot be sampled.*algo.levels_at_once",
        "algo=exact policy=recurrent": "^policy.network=recurrent remembers earlier steps, and algo=exact needs",
    },
    TABLE: {
        "policy.observation=centred": "use policy.observation=vector",
        "reward.counting=averaged": "use reward.counting=sequential",
        "device=cuda": "use device=cpu",
        "start_from=generalist": "start_from=generalist, but algo=tabular trains a table",
        "policy.private_bits=1": "no private bits",
        "algo.lr=0": "algo.lr=0",
        "levels.path=hoard.jsonl": "2,621,440 rows; algo=tabular is for up to 1,048,576",
        "levels.path=luck.jsonl": "has lotteries, which algo=tabular does not play; use algo=ppo",
        "levels=last_moment test.path=one.jsonl": r"shows one map, and the \w+ levels are \d",
        "levels=last_moment test.selection_path=two.jsonl": r"shows one map, and the \w+ levels are \d",
    },
    CARTPOLE: {
        "env.best=largest": "env.best=largest; expected a list of numbers, one for each length, or null",
        "env=gymnasium env.id=null": "env=gymnasium without env.id",
        "env.observed=[pixels]": "env.observed with 'pixels', and CartPole-v1 shows observation",
        "algo=tabular": "algo=tabular knows the model",
        "policy=convolutional": "reads the maps of gridworlds; use policy.network=mlp",
        "algo.episodes=80 env.copies=32": "env.copies=32 does not divide algo.episodes=80",
        "env.workers=3": "env.workers=3 with env.copies=16, and each has a process of its own; use env.workers=16",
        "levels=paper": "levels=paper does nothing with env=gymnasium",
        "reward.episodes_per_meta=100000000": "reward.episodes_per_meta=100000000; expected .* to 10000",
        "env.copies=8": "reward.group=16 does not divide env.copies=8",
        "reward.counting=sequential": "use algo.episodes=512",
        "objective=weighted": "use objective=drest",
        "reward.pays=count": "no coins on a map; use reward.pays=actual",
        "device=cuda": "which env=gymnasium does not offer; use device=cpu",
    },
    TORCHRL: {
        "": "env=torchrl without env.factory",
        "env.factory=no_such_package:make": "cannot be imported: No module named",
        OWN: "expected package.module:function",
        f"{OWN}:absent": r"env\.factory=.*:absent cannot be imported: .*PYTHONPATH",
        f"{OWN}:number": "returns a int; expected a TorchRL EnvBase",
        f"{OWN}:worlds env.base=null env.copies=8 reward.group=8": "use reward.counting=sequential",
        f"{OWN}:eight_slots": "makes 8 slots, and 16 are wanted; set env.copies=8",
        f"{OWN}:plane": "makes 4 x 4 slots, and 16 are wanted",
        f"{OWN}:counting env.base=null": "env.base=null, and Counting does not say what length",
        f"{OWN}:counting env.levels=3": "takes no seed of a level",
        f"{OWN}:counting env.workers=2": "with env.copies=16, .* a process of its own; use env.workers=16",
        f"{OWN}:boxes env.workers=16": "unless env.factory=.* makes all in one; use env.workers=0",
        f"{OWN}:fails": r"env.factory=.*:fails failed with KeyError: 'no motor' \(counting.py, line \d+\)$",
        f"{OWN}:leaves": r"env.factory=.*:leaves failed with SystemExit: 0 \(counting.py, line",
        f"{OWN}:counting env.control={HELPERS}:leaves_too": "env.control=.*:leaves_too failed with SystemExit: 0",
    },
    ("env=queue",): {
        "start_from=generalist": "start_from=generalist, but only runs in gridworlds can begin with another agent"
    },
    (*CARTPOLE[:3], "algo=generalist"): {"reward.counting=sequential": "^algo=exact knows the model .*; use algo=ppo"},
}
ROWS = [((*base, *words.split()), message) for base, rows in REFUSED.items() for words, message in rows.items()]


@pytest.mark.parametrize(("words", "message"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_run_is_refused_in_a_sentence(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for name, levels in FILES.items():
        if any(word.endswith(f"={name}") for word in words):
            write_levels(Path(name), levels)
    with pytest.raises(UserError, match=f"(?s){message}") as caught:
        start(compose("run_dir=run", *words))
    assert "\n" not in str(caught.value)
    assert not Path("run").exists()
