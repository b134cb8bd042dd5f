"""Exact evaluation in finite tasks with a shutdown timer, against samples and against plain Python."""

import math

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import Binary, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, TransformedEnv

from drest_torch.agent import Agent
from drest_torch.config.compose import compose
from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.envs.tasks.finite import FiniteTask, gymnasium_task
from drest_torch.envs.tasks.queue import queue_task
from drest_torch.errors import UserError
from drest_torch.evaluation.finite import best_return, evaluate
from drest_torch.training.run import start
from drest_torch.transforms import ShutdownTimer
from tests.helpers.documents import ROOT, blocks

gymnasium = pytest.importorskip("gymnasium")
PAGE = ROOT / "docs" / "howto" / "environments.md"
STATES, ACTIONS, BRANCHES = 3, 2, 3


def random_task(seed=0):
    rng = torch.Generator().manual_seed(seed)
    shape = (STATES, ACTIONS, BRANCHES)
    chance = torch.rand(shape, generator=rng, dtype=torch.float64)
    chance[0, 0] = torch.tensor([1.0, 0.0, 0.0])
    return FiniteTask(
        torch.randint(STATES, shape, generator=rng),
        chance / chance.sum(-1, keepdim=True),
        torch.rand(shape, generator=rng, dtype=torch.float64) * 3 - 1,
        torch.rand(shape, generator=rng) < 0.2,
        torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64),
        torch.eye(STATES),
    )


class Table(EnvBase):
    """Plays a finite task."""

    batch_locked = True

    def __init__(self, task, slots):
        super().__init__(batch_size=torch.Size([slots]))
        self.task, self.rng = task, torch.Generator().manual_seed(0)
        self.state = torch.zeros(slots, dtype=torch.int64)
        shape = (slots, 1)
        self.observation_spec = Composite(observation=Unbounded((slots, task.states)), shape=(slots,))
        self.action_spec = Categorical(task.actions, shape=(slots,), dtype=torch.int64)
        self.reward_spec = Unbounded(shape)
        flags = {name: Binary(shape=shape, dtype=torch.bool) for name in ("done", "terminated")}
        self.full_done_spec = Composite(flags, shape=(slots,))

    def _set_seed(self, seed):
        self.rng.manual_seed(seed)

    def _said(self, **entries):
        return TensorDict({"observation": self.task.shown[self.state], **entries}, batch_size=self.batch_size)

    def _reset(self, tensordict=None, **kwargs):
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        fresh = self.task.start.multinomial(len(self.state), True, generator=self.rng)
        self.state = fresh if chosen is None else torch.where(chosen.reshape(-1), fresh, self.state)
        return self._said()

    def _step(self, tensordict):
        place = (self.state, tensordict["action"])
        branch = self.task.chance[place].multinomial(1, generator=self.rng)
        following, reward, ends = (
            table[place].gather(-1, branch) for table in (self.task.following, self.task.reward, self.task.ends)
        )
        self.state = following.squeeze(-1)
        return self._said(reward=reward.float(), done=ends, terminated=ends.clone())


def some_policy(states, actions, k, seed=3):
    """Depends on everything that it sees."""
    rng = torch.Generator().manual_seed(seed)
    of_state, of_timer = (torch.randn(n, actions + 1, generator=rng) for n in (states, k + 3))
    return lambda state, timer: (of_state[state] + timer @ of_timer).softmax(-1)


def sampled(env, timer, policy, *, gamma=1.0, floor=0.0, seed=1):
    """Play one mini-episode of each slot: its length and its return."""
    env = TransformedEnv(env, timer.clone())
    env.set_seed(seed)
    rng = torch.Generator().manual_seed(seed)
    td = env.reset()
    slots = env.batch_size[0]
    coins, length = torch.zeros(slots, dtype=torch.float64), torch.full((slots,), -1)
    for tick in range(timer.lengths[-1]):
        chances = policy(td["observation"].argmax(-1), td["timer"])
        td["action"] = chances.multinomial(1, generator=rng).squeeze(-1)
        step, td = env.step_and_maybe_reset(td)
        playing = length < 0
        coins += gamma**tick * (step["next", "reward"].squeeze(-1) - floor) * playing
        over = playing & step["next", "done"].squeeze(-1)
        length = torch.where(over, step["next", "mini_len"].squeeze(-1), length)
    assert (length >= 0).all()
    return length, coins


def agrees(exact, length, coins):
    """Compare P(l) and E[C | l] within 4.5 standard errors."""
    for index, chance in enumerate(exact.probability.tolist()):
        chosen = length == index
        share = chosen.double().mean().item()
        assert abs(share - chance) <= 4.5 * math.sqrt(chance * (1 - chance) / len(length)) + 1e-9
        if chosen.sum() > 50:
            error = coins[chosen].std().item() / math.sqrt(int(chosen.sum()))
            assert abs(coins[chosen].mean().item() - exact.returns[index].item()) <= 4.5 * error + 1e-5


TIMERS = {
    "absorb": {},
    "restart": {"ended": "restart"},
    "an action that idles": {"idle": 1},
    "window": {"window": 2},
    "cost": {"cost": 0.3, "window": 2, "ended": "restart"},
}


@pytest.mark.parametrize("delays", [[2], [2, 3]], ids=["two lengths", "three lengths"])
@pytest.mark.parametrize("values", TIMERS.values(), ids=TIMERS)
def test_exact_metrics_are_those_of_samples(values, delays):
    task, k = random_task(), len(delays) + 1
    policy, scale = some_policy(STATES, ACTIONS, k), {"gamma": 0.8, "floor": -1.5}
    timer = ShutdownTimer(3, delays, **values)
    exact = evaluate(task, timer, policy, **scale)
    assert exact.lengths == timer.lengths
    assert exact.probability.min() > 0.001
    assert exact.probability.sum().item() == pytest.approx(1)
    agrees(exact, *sampled(Table(task, 20_000), timer, policy, **scale))


def expectimax(task, timer, wanted, gamma, floor):
    """m of a length in plain Python, over all that is known of the past."""

    def value(state, waits, tick, delays, since, last):
        if tick == timer.lengths[delays]:
            return 0.0 if delays == wanted else -math.inf
        is_open = delays + 1 < len(timer.lengths) and (timer.window is None or since < timer.window)
        options = []
        for action in range(task.actions + 1):
            asks = action == task.actions
            granted = asks and is_open
            own = (last if timer.idle == "repeat" else timer.idle) if asks else action
            clock = (tick + 1, delays + granted, 0 if granted else since + 1, own)
            total = -timer.cost * granted - floor
            if waits:
                options.append(total + gamma * value(state, True, *clock))
                continue
            for branch in range(task.following.shape[-1]):
                place = (state, own, branch)
                chance, after = task.chance[place].item(), task.following[place].item()
                if chance == 0:
                    continue
                if task.ends[place] and timer.ended == "restart":
                    starts = enumerate(task.start.tolist())
                    then = sum(share * value(each, False, *clock) for each, share in starts if share)
                else:
                    then = value(after, bool(task.ends[place]), *clock)
                total += chance * (task.reward[place].item() + gamma * then)
            options.append(total)
        return max(options)

    starts = enumerate(task.start.tolist())
    return sum(share * value(state, False, 0, 0, 0, 0) for state, share in starts if share)


@pytest.mark.parametrize("values", TIMERS.values(), ids=TIMERS)
def test_m_is_the_best_of_what_can_be_done(values):
    task, timer = random_task(1), ShutdownTimer(2, [1, 1], **values)
    found = best_return(task, timer, gamma=0.8, floor=-1.5)
    assert found.tolist() == pytest.approx([expectimax(task, timer, length, 0.8, -1.5) for length in range(3)])
    assert found.unique().numel() == 3


ENVIRONMENTS = {
    "lake": ("FrozenLake-v1", {"is_slippery": False}, 0.0),
    "slippery lake": ("FrozenLake-v1", {"is_slippery": True}, 0.0),
    "taxi": ("Taxi-v4", {}, -10.0),
}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("ended", ["absorb", "restart"])
@pytest.mark.parametrize(("name", "options", "floor"), ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_environments_with_a_table_are_evaluated_exactly(name, options, floor, ended):
    task, timer = gymnasium_task(gymnasium.make(name, **options)), ShutdownTimer(10, [8], ended=ended)
    table = torch.randn(task.states, task.actions, generator=torch.Generator().manual_seed(0))
    table[:, 1:3] += 1.5  # down and right, where the goal of the lake is
    ask = torch.tensor([-0.5])

    def policy(state, timer):
        return torch.cat((table[state], (ask + 0.8 * timer[:, -1]).expand(len(state)).unsqueeze(-1)), -1).softmax(-1)

    exact, env = evaluate(task, timer, policy, floor=floor), GymnasiumBatch(name, 100, options=options)
    played = [sampled(env, timer, policy, floor=floor, seed=seed) for seed in range(12)]
    length, coins = (torch.cat(parts) for parts in zip(*played, strict=True))
    assert len(coins.unique()) > 1
    agrees(exact, length, coins)


def test_m_of_the_lake_is_known():
    """Six steps lead to the goal: asking for the delay costs none of them, as it repeats a step."""
    task = gymnasium_task(gymnasium.make("FrozenLake-v1", is_slippery=False))
    assert best_return(task, ShutdownTimer(5, [5])).tolist() == [0, 1]
    assert best_return(task, ShutdownTimer(6, [6])).tolist() == [1, 1]
    assert best_return(task, ShutdownTimer(6, [12], ended="restart")).tolist() == [1, 3]
    # Who asks stands at the wall on the left (action 0), so only one of the two goals of 12 steps is lost.
    assert best_return(task, ShutdownTimer(6, [6], ended="restart", idle=0)).tolist() == [1, 1]
    slippery = gymnasium_task(gymnasium.make("FrozenLake-v1", is_slippery=True))
    short, long = best_return(slippery, ShutdownTimer(20, [60])).tolist()
    assert 0 < short < long < 1


@pytest.mark.parametrize(
    ("values", "message"),
    [({"control": "dimension"}, "control=action"), ({"chance": 0.5}, "chance=0.5, with which no length is sure")],
    ids=["control", "chance"],
)
def test_timers_that_are_not_evaluated_exactly(values, message):
    with pytest.raises(UserError, match=message):
        best_return(random_task(), ShutdownTimer(2, [1], **values))


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(UserError, match="CartPoleEnv has no table of transitions"):
        gymnasium_task(gymnasium.make("CartPole-v1"))


@pytest.mark.slow
def test_a_run_is_evaluated_exactly(tmp_path, monkeypatch, capsys):
    """As the page on environments does it."""
    values = ["env=gymnasium", "env.id=FrozenLake-v1", "env.base=6", "env.delays=[4]", "env.copies=64"]
    values += ["algo.episodes=64", "env_steps=2000", "evaluations=1", "sampled=64", "policy.private_bits=1"]
    values += ["policy.width=8", "logger=none", "progress=false", "pictures=0", "threads=1"]
    folder = tmp_path / "runs" / "lake"
    start(compose(f"run_dir={folder}", *values)).train()
    monkeypatch.chdir(tmp_path)
    (example,) = [block.text for block in blocks(PAGE) if ".exact(" in block.text]
    names = {}
    exec(compile(example, "environments.md", "exec"), names)
    exact, agent = names["exact"], names["agent"]
    assert str(exact.lengths) in capsys.readouterr().out
    (record,) = agent.evaluate(sampled=2000).record()["levels"]
    chances, returns = (list(record[key].values()) for key in ("length_probabilities", "return_given_length"))
    assert exact.probability.tolist() == pytest.approx(chances, abs=0.05)
    assert exact.returns.tolist() == pytest.approx(returns, abs=0.04)
    assert exact.returns.max() > 0


def test_only_runs_of_the_task_are_evaluated_exactly(tmp_path):
    values = ["env=queue", "env.base=4", "env.delays=[2]", "env.copies=16", "algo.episodes=16", "env_steps=200"]
    values += ["evaluations=1", "sampled=16", "policy.width=8", "policy.private_kind=uniform", "policy.private_bits=1"]
    values += ["logger=none", "progress=false", "pictures=0", "threads=1"]
    start(compose(f"run_dir={tmp_path / 'run'}", *values)).train()
    agent = Agent.load(tmp_path / "run")
    with pytest.raises(UserError, match="is not of this task with a timer"):
        agent.exact(random_task())
    with pytest.raises(UserError, match="draws private numbers"):
        agent.exact(queue_task())
    with pytest.raises(UserError, match="is a run in gridworlds"):
        Agent.load().exact(queue_task())
