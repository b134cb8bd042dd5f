"""One contract for the batched environments of this project: specs, seeds, and resets of some slots."""

from functools import partial

import pytest
import torch
from torchrl.envs import TransformedEnv, check_env_specs

from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.envs.tasks.queue import QueueEnv
from drest_torch.transforms import ShutdownTimer
from tests.helpers.counter import Counter
from tests.helpers.rollouts import played, rollout

WORLDS = [*map(world, PAPER_WORLDS), parse_level("shutdown: 3\n. C2 B2@0.5\n. A B3@0.3\nC1 . .", name="luck")]
STOCHASTIC = {
    "grid": partial(GridworldEnv, WORLDS, episodes_per_meta=1),
    "start": partial(GridworldEnv, WORLDS, episodes_per_meta=2, observation="centred_start"),
    "queue": QueueEnv,
    "timer": lambda copies: TransformedEnv(QueueEnv(copies), ShutdownTimer(4, [3], idle=0)),
    "spaces": partial(GymnasiumBatch, Counter),
    "CartPole-v1": partial(GymnasiumBatch, "CartPole-v1"),
    "Pendulum-v1": partial(GymnasiumBatch, "Pendulum-v1"),
}
ENVIRONMENTS = STOCHASTIC | {
    "vector": partial(GridworldEnv, WORLDS[:1], episodes_per_meta=2, observation="vector"),
    "Blackjack-v1": partial(GymnasiumBatch, "Blackjack-v1"),
    "one queue": lambda copies: QueueEnv(),
    "two by two": lambda copies: QueueEnv((2, 2)),
}


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_specs_are_kept(make):
    check_env_specs(make(3))


@pytest.mark.parametrize("make", STOCHASTIC.values(), ids=STOCHASTIC)
def test_a_seed_decides_everything_and_each_slot_has_a_stream_of_its_own(make):
    def seeded(env, seed):
        env.set_seed(seed)
        return rollout(env, 30)

    env, before = make(4), torch.get_rng_state()
    one, again, other = (seeded(env, seed) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one == seeded(make(4), 1)).all()
    assert not (one == other).all()
    env.set_seed(1)
    alike = played(env, [action[:1].expand_as(action).clone() for action in one["action"].unbind(1)])
    assert not (alike[0] == alike[1]).all()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_some_slots_begin_again_without_the_others(make):
    env = make(4)
    env.set_seed(0)
    first, *others = (env.reset() for _ in range(20))  # as many as tell luck that is rare, such as an ace
    envs = [make(4), make(4)]
    for env in envs:
        env.set_seed(1)
    seen = [env.reset() for env in envs]
    for step in range(5):
        if step == 4:  # in the first of the two, some slots begin again
            asked = torch.zeros_like(seen[0]["done"])
            asked.view(-1)[::2] = True
            seen[0] = envs[0].reset(seen[0].set("_reset", asked))
            begun = asked.squeeze(-1)
            for name, _ in env.observation_spec.items():
                if all(torch.equal(first[name], each[name]) for each in others):  # a start without luck
                    assert torch.equal(seen[0][name][begun], first[name][begun])
        action = env.rand_action()["action"]
        seen = [env.step_and_maybe_reset(td.set("action", action))[1] for env, td in zip(envs, seen, strict=True)]
    assert (seen[0][~begun] == seen[1][~begun]).all()
