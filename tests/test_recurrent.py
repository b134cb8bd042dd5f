"""Recurrent policies: what they remember and until when, and that they learn what cannot be done without."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from drest_torch.agent import Agent
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.sampled import SamplingEvaluator
from drest_torch.reward import Reward
from drest_torch.studies.histories import Histories
from drest_torch.training.run import start
from drest_torch.transforms.base import played
from tests.helpers.collecting import TINY, make
from tests.helpers.runs import same_run

LEVELS = [TINY, world("royal_road")]
SMALL = ["policy.width=16", "logger=none", "progress=false", "pictures=1", "test.paper=false", "sampled=16"]
FEW = ["levels.train=20", "levels.selection=2", "levels.test=4", "algo.episodes=64", "reward.group=16"]
CARTPOLE = ["env=cartpole", "env.base=5", "env.delays=[5]", "algo.episodes=16", "reward.group=8"]
IN_TURN = ["reward.counting=sequential", "reward.episodes_per_meta=4"]


def agent(observe, *, private_bits=0, scale=None):
    """Return a policy whose memory changes what it does, and a critic."""
    size, scale = NetworkSize(16, 1, "silu", "recurrent"), observe.scale if scale is None else scale
    torch.manual_seed(1)
    policy = Policy(observe.shape, 4, size, scale=scale, private_bits=private_bits)
    for weight in policy.parameters():
        weight.data.mul_(3)
    policy.net.head.weight.data.mul_(100)
    return policy, Critic(observe.shape, size, scale=scale, private_bits=private_bits, context=2)


def collected(private_bits=0):
    """Return a batch in which slots play three mini-episodes each and wait for one another; its actor and value."""
    made = make(LEVELS, slots=12, rounds=3, group=1, counting="sequential", private_bits=private_bits)
    policy, critic = agent(make_observation("grid", made.worlds.base.mdp), private_bits=private_bits)
    actor = made.worlds.actor(policy)
    return made.worlds.collector(actor).collect(made.rng), actor, made.worlds.value(critic)


def in_order(batch, keys):
    """Return the steps that were played [N], slot by slot, as learning gets them."""
    slot, time = played(batch).nonzero(as_tuple=True)
    return TensorDict({key: batch[key][slot, time] for key in keys}, [len(slot)])


KEYS = ["state", "is_init", "action", "action_log_prob", "drest_log_discounts"]


@pytest.mark.parametrize("private_bits", [0, 2])
def test_step_by_step_and_over_a_whole_batch_the_outputs_are_the_same(private_bits):
    batch, actor, value = collected(private_bits)
    steps = in_order(batch, [*KEYS, *(["private_bits"] if private_bits else [])])
    found = actor.get_dist(steps).log_prob(steps["action"])
    assert torch.allclose(found, steps["action_log_prob"], atol=1e-5)
    assert value(steps)["state_value"].shape == (len(steps), 1)
    forgetful = actor.get_dist(steps.clone().set("is_init", torch.ones_like(steps["is_init"])))
    assert not torch.allclose(forgetful.log_prob(steps["action"]), steps["action_log_prob"], atol=0.1)


def test_memory_is_empty_at_the_start_of_a_meta_episode_and_nowhere_else():
    batch, actor, _ = collected()
    assert batch["next", "mini_done"].sum(1).eq(3).all()
    begins = batch["is_init"].squeeze(-1)
    assert begins[:, 0].all()
    assert not begins[:, 1:].any()
    steps = in_order(batch, KEYS)
    before = actor.get_dist(steps).outputs.detach()
    first = steps["is_init"].squeeze(-1).nonzero().flatten()[1]  # of the second slot
    changed = steps["state"].clone()
    changed[first] = changed[changed != changed[first]][0]
    after = actor.get_dist(steps.clone().set("state", changed)).outputs.detach()
    same = (before == after).all(-1)
    last = first + int(batch["next", "mini_done"][1].sum(1).cumsum(0).eq(3).nonzero()[0]) + 1
    assert same[:first].all()
    assert same[last:].all()
    assert not same[first:last].any()  # in all three mini-episodes


def test_what_a_slot_does_while_it_waits_changes_nothing(tmp_path):
    run = start(compose("policy=recurrent", *SMALL, *FEW, *IN_TURN, f"run_dir={tmp_path}/run"))
    batch = run.updater.collector.collect(run.rng)
    waits = ~played(batch)
    assert 0.1 < waits.float().mean() < 0.9
    other = batch.clone()
    for key in ("action", "state", "row", "action_log_prob"):
        other[key][waits] = 1
    one, two = run.learner.steps_of(batch), run.learner.steps_of(other)
    assert "memory" not in one.keys()  # noqa: SIM118 (learning begins with none)
    assert all(torch.equal(one[key], two[key]) for key in one.keys())  # noqa: SIM118


def test_evaluation_by_sampling_agrees_with_all_histories():
    level = parse_level("shutdown: 3\nC1 A B2\n.  C3 .")
    evaluator = SamplingEvaluator([level], "centred", mini_episodes=40_000, reward=Reward())
    histories = Histories([level], "centred")
    policy, _ = agent(evaluator.observe)
    raw, _ = agent(evaluator.observe, scale=torch.ones(()))  # histories are scaled already
    raw.load_state_dict(policy.state_dict())

    def network(seen, memory):
        logits, memory = raw.recall(raw(seen), torch.zeros(len(seen), 1, dtype=torch.bool), memory.unsqueeze(1))
        return logits, memory.squeeze(1)

    network.width = 16
    with torch.no_grad():
        wanted, _ = histories.play(network)
    found = evaluator.evaluate(policy)
    assert 0.05 < wanted.probability[0, 0] < 0.95
    assert found.found.probability[0].tolist() == pytest.approx(wanted.probability[0].tolist(), abs=0.01)
    assert found.found.coins[0].tolist() == pytest.approx(wanted.coins[0].tolist(), abs=0.05)
    with pytest.raises(ConfigError, match=r"^the policy remembers earlier steps, so that no table of states says"):
        evaluator.probabilities(policy)


# ------------------------------------------------------------------------------------------------ runs


@pytest.mark.parametrize(
    ("algo", "env", "counting"),
    [("ppo", FEW, []), ("reinforce", FEW, IN_TURN), ("a2c", CARTPOLE, IN_TURN), ("reinforce", CARTPOLE, [])],
)
def test_the_same_seed_gives_the_same_agent(algo, env, counting, tmp_path):
    if env is CARTPOLE:
        pytest.importorskip("gymnasium")
    for name in ("one", "two"):
        run = start(
            compose(
                *(f"algo={algo}", "policy=recurrent", *SMALL, *env, *counting),
                *("env_steps=500", "evaluations=1", f"run_dir={tmp_path}/{name}"),
            )
        )
        summary = run.train()
        run.task.close()
    same_run(tmp_path / "one", tmp_path / "two")
    assert all(split["sampled"] >= 16 for split in summary["splits"].values())


def test_an_agent_remembers_until_its_episode_begins_anew(tmp_path):
    start(
        compose("policy=recurrent", *SMALL, *FEW, "env_steps=500", "evaluations=1", f"run_dir={tmp_path}/run")
    ).train()
    agent = Agent.load(tmp_path / "run")
    agent.policy.net.head.weight.data.mul_(100)
    seen = torch.randn(8, *agent.shape)
    fresh = agent.action_probabilities(seen)
    assert torch.equal(fresh, agent.action_probabilities(seen))
    agent.act(seen)
    assert not torch.allclose(fresh, agent.action_probabilities(seen), atol=1e-3)
    agent.begin_episode()
    assert torch.equal(fresh, agent.action_probabilities(seen))
    assert 0 <= agent.evaluate("example").usefulness <= 1


@pytest.mark.parametrize(("chosen", "algo"), [("exact", "exact"), ("generalist", "exact"), ("tabular", "tabular")])
def test_algorithms_that_need_a_table_of_states_say_so(chosen, algo, tmp_path):
    with pytest.raises(ConfigError, match=rf"^policy.network=recurrent remembers earlier steps, and algo={algo} needs"):
        start(compose(f"algo={chosen}", "levels=example", "policy=recurrent", f"run_dir={tmp_path}/run"))


def test_exact_evaluation_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="so that it cannot be evaluated exactly; set sampled=256"):
        start(compose("levels=example", "policy.network=recurrent", f"run_dir={tmp_path}/run"))


# -------------------------------------------------------------------------------------------- learning


class Cue(EnvBase):
    """Shows one of two cues in the first step of a meta-episode, and pays for the same action at each end.

    A meta-episode has four mini-episodes of two steps. Who forgets the cue is right half of the time.
    """

    def __init__(self, slots=64):
        super().__init__(batch_size=torch.Size([slots]))
        self.set_seed(0)
        shape = (slots, 1)
        self.observation_spec = Composite(
            observation=Unbounded((slots, 2)),
            mini_done=Binary(shape=shape, dtype=torch.bool),
            mini_len=Categorical(1, shape=shape, dtype=torch.int64),
            mini_idx=Categorical(5, shape=shape, dtype=torch.int64),
            best_return=Unbounded(shape),
            shape=(slots,),
        )
        self.action_spec = Categorical(2, shape=(slots,), dtype=torch.int64)
        self.reward_spec = Unbounded(shape)
        self.full_done_spec = Composite(
            {name: Binary(shape=shape, dtype=torch.bool) for name in ("done", "terminated")}, shape=(slots,)
        )

    def _set_seed(self, seed):
        self.rng = torch.Generator().manual_seed(seed or 0)

    def _frame(self, **others):
        zero = torch.zeros(*self.batch_size, 1, dtype=torch.int64)
        entries = {
            "observation": torch.nn.functional.one_hot(self.cue, 2).float() * (self.tick == 0),
            "mini_done": zero + self.tick % 2 == 0 if self.tick else zero > 0,
            "mini_len": zero,
            "mini_idx": zero + self.tick // 2,
            "best_return": torch.ones(*self.batch_size, 1),
            "done": zero + self.tick == 8,
        }
        return TensorDict(entries | {"terminated": entries["done"].clone()} | others, self.batch_size)

    def _reset(self, tensordict=None, **kwargs):
        self.tick, self.cue = 0, torch.randint(2, self.batch_size, generator=self.rng)
        return self._frame()

    def _step(self, tensordict):
        self.tick += 1
        right = (tensordict["action"] == self.cue) & (self.tick % 2 == 0)
        return self._frame(reward=right.float().unsqueeze(-1))


def cue():
    return Cue()


def test_a_cue_of_the_first_mini_episode_is_remembered_in_all_others(tmp_path):
    """A policy that forgets at each step, or at the end of each mini-episode, is useful in 62 % at most."""
    run = start(
        compose(
            *("algo=ppo", "policy=recurrent", "env=torchrl", "env.factory=tests.test_recurrent:cue", "env.base=null"),
            *("env.copies=64", "algo.episodes=256", "algo.lr=0.01", "algo.minibatches=1", "algo.epochs=4"),
            *("env.standardise=false", *IN_TURN, "env_steps=12000", "evaluations=1", *SMALL, "sampled=512"),
            f"run_dir={tmp_path}/run",
        )
    )
    assert run.train()["splits"]["test"]["usefulness"] > 0.9
