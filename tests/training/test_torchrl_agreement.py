"""The same world as a gridworld and as somebody's TorchRL environment: training comes to the same choice."""

import json

import pytest

from drest_torch.config.compose import compose
from drest_torch.theory import balance
from drest_torch.training.run import start
from tests.helpers.counting import ROAD


@pytest.mark.slow
def test_both_environments_lead_to_the_same_choice(tmp_path):
    """Coins that are not divided by m: agents come to rest at the balance of both lengths, which is no even choice."""
    path = tmp_path / "road.txt"
    path.write_text(ROAD)
    environments = {
        "gridworld": ["levels=generated", f"levels.path={path}", "policy.observation=vector"],
        "torchrl": ["env=torchrl", "env.factory=tests.helpers.counting:road", "env.base=null", "env.copies=32"],
    }
    training = ["algo=ppo", "algo.episodes=512", "algo.minibatches=4", "algo.epochs=4", "algo.lr=0.003"]
    training += ["algo.muon_lr=null", "algo.entropy=0.02", "algo.gae_lambda=0.95", "algo.critic_width=null"]
    training += ["algo.normalise_advantage=true", "policy.network=mlp", "policy.width=32", "policy.depth=2"]
    training += ["policy.activation=tanh", "reward.counting=sequential", "reward.episodes_per_meta=16"]
    training += ["reward.divide_by_best=false", "env_steps=60000", "evaluations=1", "threads=1"]
    training += ["logger=none", "progress=false", "pictures=0"]
    expected = balance(4.0, 5.0, 0.9, 16).item()
    assert 0.6 < expected < 0.7
    for name, own in environments.items():
        longer = []
        for seed in range(3):
            folder = tmp_path / f"{name}-{seed}"
            sampled = ["env.standardise=false", "sampled=4096"] if name == "torchrl" else []
            summary = start(compose(*own, *training, *sampled, f"seed={seed}", f"run_dir={folder}")).train()
            (split,) = summary["splits"].values()
            (record,) = json.loads((folder / split["file"]).read_text())
            longer.append(list(record["length_probabilities"].values())[-1])
        assert sum(longer) / len(longer) == pytest.approx(expected, abs=0.05), name
        assert max(longer) - min(longer) < 0.15, name
