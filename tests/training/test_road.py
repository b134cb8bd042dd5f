"""Training uses TorchRL's collectors and losses: these tests fail if it stops doing so."""

from unittest.mock import create_autospec

import pytest
import torch
from torch.nn.utils import parameters_to_vector
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
    if env == "cartpole":
        pytest.importorskip("gymnasium")
    arguments = WORLDS if env == "gridworld" else CARTPOLE
    run = start(compose(f"algo={algo}", f"run_dir={tmp_path}/run", *SMALL, *arguments, *counting))
    assert isinstance(run.algorithm.loss, LOSSES[algo])
    assert isinstance(run.algorithm.collector, Collector)
    road = {Collector: "rollout", LOSSES[algo]: "forward", DReSTReward: "forward"}
    for kind, method in road.items():
        original = getattr(kind, method)
        monkeypatch.setattr(kind, method, create_autospec(original, side_effect=original))
    before = parameters_to_vector(run.algorithm.policy.parameters())
    run.update()
    run.task.close()
    assert all(getattr(kind, method).called for kind, method in road.items())
    assert not torch.equal(before, parameters_to_vector(run.algorithm.policy.parameters()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("algo", [*LOSSES, "exact"])
def test_a_gpu_trains(algo, tmp_path):
    run = start(compose(f"algo={algo}", "device=cuda", f"run_dir={tmp_path}/run", *SMALL, *WORLDS))
    before = parameters_to_vector(run.algorithm.policy.parameters())
    assert run.update()["optim/grad_norm"] > 0
    assert not torch.equal(before, parameters_to_vector(run.algorithm.policy.parameters()))
