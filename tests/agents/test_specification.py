"""Specifications of agents in checkpoints, from this version, earlier versions and untrusted sources."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from drest_torch import Agent
from drest_torch.agents.checkpoints import checkpoint_path, load_checkpoint, save_checkpoint
from drest_torch.agents.specification import AgentSpec, Origin, agent_config
from drest_torch.algos.distributions import box, kind_of, multi_categorical, one_of
from drest_torch.algos.networks.spec import MapView, PolicySpec, RowView
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError
from drest_torch.reward import Reward
from drest_torch.training.run import resume
from tests.helpers.runs import train

MAPS = MapView(
    observation="grid", planes=("wall", "coin"), rows=3, columns=4, time_steps=16, features=("chance", "door")
)
ROW = RowView(entries={"image": (2, 3), "timer": (1,)}, actions=one_of(3).record(), offset=(0.0, 0.5, -0.1))
POLICY = PolicySpec(
    network="mlp",
    width=8,
    depth=2,
    activation="silu",
    private_bits=1,
    shape=(2, 3, 4),
    scale=(1.0, 0.1),
    outputs=4,
    sees=MAPS,
)
AGENT = AgentSpec(
    POLICY,
    Reward(lam=0.7, gamma=0.9, episodes_per_meta=5, clip=3.0),
    Origin(algorithm="ppo", reward="drest", place="example", lengths=(3, 8), seed=2, sampled=None),
)


@pytest.mark.parametrize("view", [MAPS, ROW], ids=["maps", "row"])
def test_a_specification_is_read_as_it_was_written(view):
    fits = {} if view is MAPS else {"shape": (7,), "scale": (1.0,), "outputs": 3}
    spec = replace(AGENT, policy=replace(POLICY, sees=view, **fits))
    assert AgentSpec.of(json.loads(json.dumps(spec.record())), "a.safetensors") == spec


def test_keys_of_earlier_versions_are_ignored():
    record = AGENT.record()
    earlier = record | {"policy": record["policy"] | {"private_kind": "bits", "private_draws": 16}}
    assert AgentSpec.of(json.loads(json.dumps(earlier)), "a.safetensors") == AGENT


def test_policies_of_earlier_versions_have_earlier_values():
    record = json.loads(json.dumps(AGENT.record()))
    for key in ("norm", "head_width", "head_depth"):
        del record["policy"][key]
    assert AgentSpec.of(record, "a.safetensors") == AGENT


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("policy",), {}),
        (("policy", "norm"), "batch"),
        (("policy", "width"), 0),
        (("policy", "width"), 1 << 40),
        (("policy", "width"), "8"),
        (("policy", "depth"), True),
        (("policy", "depth"), None),
        (("policy", "activation"), ["silu"]),
        (("policy", "activation"), "softmax"),
        (("policy", "private_bits"), 40),
        (("policy", "private_kind"), "uniform"),
        (("policy", "shape"), []),
        (("policy", "shape"), [2, -3, -4]),
        (("policy", "shape"), [4096, 4096, 4096]),
        (("policy", "shape"), "234"),
        (("policy", "scale"), [float("nan"), 1.0]),
        (("policy", "scale"), [1.0, 1.0, 1.0]),
        (("policy", "sees"), {}),
        (("policy", "sees"), {"maps": MAPS.__dict__, "row": {}}),
        (("policy", "sees"), {"eval": {}}),
        (("policy", "sees", "maps"), 7),
        (("policy", "sees", "maps", "planes"), "wall"),
        (("policy", "sees", "maps", "planes"), [1, 2]),
        (("policy", "sees", "maps", "observation"), "pixels"),
        (("policy", "sees", "maps", "rows"), 0),
        (("policy", "extra"), 1),
        (("reward", "lam"), 0),
        (("reward", "lam"), float("nan")),
        (("reward", "counting"), "twice"),
        (("reward", "normalise"), "no"),
        (("reward", "extra"), 1),
        (("origin", "seed"), -1),
        (("origin", "lengths"), [0.5]),
        (("origin",), None),
    ],
    ids=str,
)
def test_an_invalid_specification_is_refused(place, value):
    record = json.loads(json.dumps(AGENT.record()))
    *path, last = place
    inner = record
    for name in path:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(CheckpointError, match=r"^a\.safetensors: the specification of its agent cannot be used: "):
        AgentSpec.of(record, "a.safetensors")


@pytest.mark.parametrize(
    "values",
    [
        {"actions": {}},
        {"actions": {"one_of": {}}},
        {"actions": {"one_of": {"count": 4}}},
        {"offset": (0.0,)},
        {"entries": {"image": (2, 3)}},
    ],
    ids=str,
)
def test_a_row_that_does_not_fit_its_policy_is_refused(values):
    policy = replace(POLICY, sees=replace(ROW, **values), shape=(7,), scale=(1.0,), outputs=3)
    record = json.loads(json.dumps(replace(AGENT, policy=policy).record()))
    with pytest.raises(CheckpointError, match=r"^a\.safetensors: the specification of its agent cannot be used: "):
        AgentSpec.of(record, "a.safetensors")


@pytest.mark.parametrize(
    "kind",
    [
        one_of(5),
        one_of(3, one_hot=True),
        multi_categorical([2, 4]),
        box(torch.tensor([-1.0, 0.1]), torch.tensor([2.0, 0.7])),
    ],
    ids=["one of n", "one hot", "several", "box"],
)
def test_a_kind_of_actions_is_read_as_it_was_written(kind):
    again = kind_of(json.loads(json.dumps(kind.record())))
    assert again.distribution == kind.distribution
    assert again.outputs == kind.outputs
    outputs = torch.arange(2.0 * kind.outputs).reshape(2, -1) / 7  # [2, outputs]
    action = kind.choose(outputs, torch.Generator().manual_seed(1))
    assert torch.equal(again.choose(outputs, torch.Generator().manual_seed(1)), action)
    assert torch.equal(kind.of(outputs).entropy(), again.of(outputs).entropy())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train(tmp_path_factory.mktemp("run") / "run", "levels=example", "env_steps=500", "policy.private_bits=1")


@pytest.fixture
def checkpoint_only(folder, tmp_path):
    """Load an agent whose folder has a checkpoint, and nothing else."""
    checkpoints = tmp_path / "alone" / "checkpoints"
    checkpoints.mkdir(parents=True)
    shutil.copy(checkpoint_path(folder, "last"), checkpoints)
    return Agent.load(tmp_path / "alone")


def test_a_checkpoint_is_enough_for_evaluation(folder, checkpoint_only):
    results = Agent.load(folder).evaluate("paper")
    assert checkpoint_only.evaluate("paper").record() == results.record()
    assert checkpoint_only.evaluate("paper").numbers() == results.numbers()


def test_the_levels_of_a_run_need_its_configuration(checkpoint_only):
    with pytest.raises(CheckpointError, match=r"no config\.yaml"):
        _ = checkpoint_only.levels


def test_resuming_an_older_run_adds_the_specification(folder, tmp_path):
    shutil.copytree(folder, run := tmp_path / "run")
    path = checkpoint_path(run, "last")
    tensors, meta = load_checkpoint(path)
    specification = meta.pop("agent")
    save_checkpoint(path, tensors, meta)
    with pytest.raises(CheckpointError, match=r"earlier version.* -m drest_torch.train resume="):
        Agent.load(run)
    resume(run)
    assert load_checkpoint(path)[1] == {**meta, "agent": specification}
    assert Agent.load(run).evaluate("paper").record() == Agent.load(folder).evaluate("paper").record()


def test_a_missing_key_of_an_older_run_has_its_default(folder, tmp_path):
    shutil.copytree(folder, run := tmp_path / "run")
    path = run / "config.yaml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "episodes_per_meta" not in line))
    assert agent_config(run).reward.episodes_per_meta == Reward().episodes_per_meta
    assert Agent.load(run).levels.reported.keys() == {"train"}
    with pytest.raises(CheckpointError, match=r"reward\.episodes_per_meta has no value"):
        resume(run)


@pytest.fixture
def older(folder, tmp_path):
    """Return a function that writes a run with a policy key of an earlier version."""

    def written(line):
        shutil.copytree(folder, run := tmp_path / "older")
        text = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(text.replace("\npolicy:\n", f"\npolicy:\n  {line}\n"))
        return run

    return written


@pytest.mark.parametrize("line", ["private_kind: bits", "private_kind: uniform", "former: {values: [1]}"])
def test_a_removed_key_does_not_prevent_evaluation(line, folder, older):
    run = older(line)
    assert agent_config(run) == agent_config(folder)
    assert Agent.load(run).levels.reported.keys() == {"train"}


def test_a_removed_key_without_effect_allows_resuming(folder, older):
    assert load_config(older("private_kind: bits")) == load_config(folder)


@pytest.mark.parametrize("line", ["private_kind: uniform", "former: {values: [1]}"])
def test_a_removed_key_with_an_effect_prevents_resuming(line, older):
    key = line.partition(":")[0]
    with pytest.raises(CheckpointError, match=rf"\(policy\.{key} is not a key of this version: .*; start a new one\)$"):
        resume(older(line))


def test_a_pretrained_agent_names_its_planes():
    agent = Agent.load("generalist")
    assert list(agent.spec.policy.sees.planes) == ["wall", "coin", "delay", "agent", "time", "start"]
    assert agent.spec.reward == agent.reward
    assert len(json.dumps(agent.spec.record())) < 1000
