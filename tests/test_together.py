"""Several agents in one run: each is as it would be alone, and a run of its own."""

import json

import pytest
import torch

from drest_torch.agent import Agent
from drest_torch.building.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.files import read_metrics
from drest_torch.tracking.provenance import read_provenance
from drest_torch.training.run import resume, start
from tests.helpers.runs import FEW, configured, same_run, stop_after, weights

AGENTS = [*FEW, "agents=3", "seed=5", "algo.muon_lr=null", "algo.episodes=64", "reward.group=16", "env_steps=3000"]
AGENTS += ["evaluations=2"]


def alone(folder, seed, *further):
    overrides = [each for each in AGENTS if not each.startswith(("agents", "seed"))]
    return start(configured(folder, *overrides, f"seed={seed}", "lockstep=true", *further))


@pytest.mark.mostly_slow
@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_each_agent_of_a_run_is_as_it_would_be_alone(tmp_path, algo):
    """For some updates: one schedule, by the mean of the agents' steps, is for all of them."""
    run = start(configured(tmp_path / "run", *AGENTS, f"algo={algo}"))
    singles = [alone(tmp_path / str(seed), seed, f"algo={algo}") for seed in (5, 6, 7)]
    for _ in range(3):
        run.learner.set_progress(0.0)
        run.updater.take(run.learner, run.reward)
        for single in singles:
            single.learner.set_progress(0.0)
            single.updater.take(single.learner, single.reward)
    together = [torch.cat([p.flatten() for p in policy.parameters()]) for policy in run.policies()]
    for mine, single in zip(together, singles, strict=True):
        expected = torch.cat([p.flatten() for p in single.learner.policy.parameters()])
        assert torch.allclose(mine, expected, atol=1e-4)  # Adam enlarges the rounding of gradients near 0
    assert (together[0] - together[1]).abs().max() > 0.1


@pytest.mark.slow
def test_an_agents_folder_is_that_of_a_run(tmp_path):
    summary = start(configured(tmp_path / "run", *AGENTS)).train()
    useful = []
    for seed in (5, 6, 7):
        folder = tmp_path / "run" / "agents" / str(seed)
        own = json.loads((folder / "summary.json").read_text())
        assert own["seed"] == seed
        assert own["splits"] == summary["agents"][str(seed)]
        assert read_provenance(folder) == read_provenance(tmp_path / "run")
        useful.append(own["splits"]["test"]["usefulness"])
        agent = Agent(folder)
        found = agent.evaluate(agent.levels.reported["test"]).evaluation.means()
        assert found["usefulness"] == pytest.approx(useful[-1])
        rows = read_metrics(folder / "metrics.jsonl")
        assert len(rows) == 3
        assert rows[-1]["eval/train/usefulness"] == pytest.approx(own["splits"]["train"]["usefulness"])
    assert len(set(useful)) == 3
    assert summary["splits"]["test"]["usefulness"] == pytest.approx(sum(useful) / 3)
    assert summary["splits"]["test"]["levels"] == 10


@pytest.mark.slow
def test_a_run_with_several_agents_goes_on_bit_for_bit(tmp_path, monkeypatch):
    start(configured(tmp_path / "whole", *AGENTS)).train()
    run = start(configured(tmp_path / "cut", *AGENTS))
    stop_after(run, 4, monkeypatch)
    assert run.train() is None
    resume(tmp_path / "cut").train()
    same_run(tmp_path / "whole", tmp_path / "cut")
    for seed in (5, 6, 7):
        same_run(*(tmp_path / name / "agents" / str(seed) for name in ("whole", "cut")))


def test_an_agent_goes_on_alone(tmp_path):
    """From its first checkpoint it takes the step that it takes among the others."""
    run = start(configured(tmp_path / "run", *AGENTS))
    run.updater.take(_ready(run), run.reward)
    run.state.steps = 100
    for agent in run.agents:
        agent.begin(run.task, 0)
    run.save()
    single = resume(tmp_path / "run" / "agents" / "6")
    assert single.state.steps == 100
    for each in (run, single):
        each.updater.take(_ready(each), each.reward)
    for one, other in zip(run.policies()[1].parameters(), single.learner.policy.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def _ready(run):
    run.learner.set_progress(0.5)
    return run.learner


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["algo=exact", "agents=2"], "agents=2"),
        (["algo=tabular", "compile=true"], "compile=true"),
        (["lockstep=false", "agents=2"], "lockstep=true"),
        (["compile=true"], "lockstep=true"),
        (["cuda_graphs=true"], "compile=true"),
        (["agents=2", "levels.clock=moves"], "levels.clock=steps"),
        (["agents=2", *FEW, "algo.muon_lr=null", "levels.fresh=true"], "levels.fresh=false"),
        (["agents=2", *FEW, "algo.muon_lr=null", "levels.symmetries=true"], "levels.symmetries=false"),
        (["agents=2", "algo.muon_lr=0.1"], "algo.muon_lr=null"),
        (["agents=0"], "agents=0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(tmp_path, overrides, named):
    with pytest.raises(ConfigError, match=named):
        start(configured(tmp_path / "run", *overrides))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_compiled_run_learns_the_same(tmp_path):
    for compiled in ("true", "false"):
        overrides = [f"compile={compiled}", "lockstep=true", "env_steps=1500", "evaluations=1"]
        start(configured(tmp_path / compiled, *overrides)).train()
    one, other = (weights(tmp_path / name) for name in ("true", "false"))
    for name, value in one.items():
        assert torch.allclose(value.float(), other[name].float(), atol=1e-5), name


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "overrides", [[], ["agents=3"], ["compile=true"], ["compile=true", "cuda_graphs=true"], ["algo=exact"]]
)
def test_a_gpu_learns_what_a_processor_learns(tmp_path, overrides):
    """To the same usefulness and neutrality; the weights differ, as the random numbers do."""
    found = []
    for device in ("cuda", "cpu"):
        given = [each for each in overrides if device == "cuda" or each != "cuda_graphs=true"]
        cfg = configured(tmp_path / device, "algo.episodes=1024", "env_steps=400000", f"device={device}", *given)
        cfg.lockstep = None if "algo=exact" in overrides else True
        found.append(start(cfg).train()["splits"]["train"])
    for name in ("usefulness", "neutrality"):
        assert found[0][name] == pytest.approx(found[1][name], abs=0.1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpus_agent_is_evaluated_anywhere(tmp_path):
    start(
        configured(tmp_path / "run", *FEW, "device=cuda", "algo.episodes=64", "reward.group=16", "env_steps=2000")
    ).train()
    levels = [world("example"), world("spacious")]
    means = [Agent(tmp_path / "run", device=each).evaluate(levels).evaluation.means() for each in ("cpu", "cuda")]
    assert means[0] == pytest.approx(means[1], abs=1e-4)


@pytest.mark.slow
def test_checkpoints_of_agents_hold_no_others_weights(tmp_path):
    start(configured(tmp_path / "run", *AGENTS)).train()
    whole, _ = load_checkpoint(step_checkpoints(tmp_path / "run" / "checkpoints")[-1])
    own = weights(tmp_path / "run" / "agents" / "6")
    sizes = {name: value.numel() for name, value in own.items() if name.startswith(("policy", "critic"))}
    assert sum(value.numel() for name, value in whole.items() if name.startswith(("policy", "critic"))) == 3 * sum(
        sizes.values()
    )
