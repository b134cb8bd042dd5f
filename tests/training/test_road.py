"""Training goes the road that the project is named for: these tests fail if it stops doing so."""

import importlib.util

import pytest
import torch
from torchrl.collectors import Collector
from torchrl.objectives import A2CLoss, ClipPPOLoss, ReinforceLoss

from drest_torch.config.compose import compose
from drest_torch.training.run import start
from drest_torch.transforms import DReSTReward

LOSSES = {"ppo": ClipPPOLoss, "a2c": A2CLoss, "reinforce": ReinforceLoss}
SMALL = ["policy.width=8", "policy.depth=1", "pictures=0", "test.paper=false", "logger=none", "progress=false"]
WORLDS = ["levels.train=20", "levels.selection=0", "levels.test=4", "algo.episodes=128", "reward.group=16"]
CARTPOLE = ["env=cartpole", "env.base=5", "env.delays=[5]", "sampled=8", "algo.episodes=16", "reward.group=8"]
IN_TURN = ["reward.counting=sequential", "reward.episodes_per_meta=8", "algo.credit=meta"]


@pytest.mark.parametrize("counting", [[], IN_TURN], ids=["averaged", "sequential"])
@pytest.mark.parametrize("env", ["gridworld", "cartpole"])
@pytest.mark.parametrize("algo", LOSSES)
def test_an_update_goes_through_torchrl(algo, env, counting, tmp_path, monkeypatch):
    if env == "cartpole" and importlib.util.find_spec("gymnasium") is None:
        pytest.skip("needs gymnasium")
    entered = {}

    def count(kind, method, name):
        original = getattr(kind, method)

        def counted(self, *args, **kwargs):
            entered[name] = entered.get(name, 0) + 1
            return original(self, *args, **kwargs)

        monkeypatch.setattr(kind, method, counted)

    arguments = WORLDS if env == "gridworld" else CARTPOLE
    run = start(compose(f"algo={algo}", f"run_dir={tmp_path}/run", *SMALL, *arguments, *counting))
    assert isinstance(run.learner.loss, LOSSES[algo])
    assert isinstance(run.updater.collector, Collector)
    count(Collector, "rollout", "collector")
    count(LOSSES[algo], "forward", "loss")
    count(DReSTReward, "_step" if counting else "forward", "reward")
    before = torch.cat([weight.detach().flatten().clone() for weight in run.learner.policy.parameters()])
    run.update()
    run.task.close()
    assert entered.keys() == {"collector", "loss", "reward"}
    after = torch.cat([weight.detach().flatten() for weight in run.learner.policy.parameters()])
    assert not torch.equal(before, after)
