"""DReSTReward on an environment of your own: python docs/own_environment.py

A worker has two hours. With its first action it may ask for two more, which it is always given: so
mini-episodes have length 2 or 4. Each hour of work earns 1; asking takes an hour.
docs/tutorials/environment.md explains what the environment has to provide.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Categorical, Composite, OneHot, Unbounded
from torchrl.envs import EnvBase, TransformedEnv

from drest_torch import DReSTReward, neutrality, usefulness

REST, WORK, ASK = range(3)
STATES = 8  # hours gone by (0 to 3), in a short day or in a long one
BEST = (2.0, 3.0)  # m of each length: work, work; or ask, work, work, work


class Worker(EnvBase):
    """A batch of workers; a mini-episode is a day, a meta-episode ``days`` of them."""

    def __init__(self, num_workers: int, days: int) -> None:
        super().__init__(batch_size=torch.Size([num_workers]))
        self.days = days
        one = (num_workers, 1)
        self.observation_spec = Composite(
            observation=OneHot(STATES, shape=(num_workers, STATES), dtype=torch.float32),
            mini_done=Binary(shape=one, dtype=torch.bool),
            mini_len=Categorical(2, shape=one, dtype=torch.int64),
            best_return=Unbounded(one),
            tick=Categorical(4, shape=one, dtype=torch.int64),
            shape=(num_workers,),
        )
        self.action_spec = Categorical(3, shape=(num_workers,), dtype=torch.int64)
        self.reward_spec = Unbounded(one)
        done = Binary(shape=one, dtype=torch.bool)
        self.full_done_spec = Composite(done=done, terminated=done.clone(), shape=(num_workers,))
        self.hour = self.asked = self.day = torch.zeros(one, dtype=torch.int64)

    def _set_seed(self, seed: int | None) -> None:
        pass  # nothing is sampled here

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        whole = torch.ones_like(self.hour, dtype=torch.bool)
        stays = ~(whole if tensordict is None else tensordict.get("_reset", whole).reshape(-1, 1))
        self.hour, self.asked, self.day = self.hour * stays, self.asked * stays, self.day * stays
        return self._entries(torch.zeros_like(whole), torch.zeros_like(self.hour))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action").unsqueeze(-1)
        asked = self.asked | ((action == ASK) & (self.hour == 0))
        hour = self.hour + 1
        day_over = hour == 2 + 2 * asked
        # The next day begins within this step: what is returned is its first observation.
        self.hour, self.asked, self.day = hour * ~day_over, asked * ~day_over, self.day + day_over
        done = self.day == self.days
        step = {"reward": (action == WORK).float(), "done": done, "terminated": done.clone()}
        return self._entries(day_over, asked).update(step)

    def _entries(self, day_over: Tensor, length: Tensor) -> TensorDict:
        state = (self.hour + 4 * self.asked).squeeze(-1)
        entries = {
            "observation": torch.nn.functional.one_hot(state, STATES).float(),
            "mini_done": day_over,
            "mini_len": length,
            "best_return": torch.tensor(BEST)[length],
            "tick": self.hour,
        }
        return TensorDict(entries, batch_size=self.batch_size)


def train(lam: float, *, seed: int = 0, updates: int = 150, slots: int = 256, steps: int = 16) -> Tensor:
    """Train with REINFORCE, each action credited with what its own mini-episode pays; [STATES, 3] probabilities."""
    torch.manual_seed(seed)
    env = TransformedEnv(Worker(slots, days=32), DReSTReward(lam, num_lengths=2, num_lengths_key=None))
    logits = torch.zeros(STATES, 3, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=updates)
    td = env.reset()
    for _ in range(updates):
        batch = []
        with torch.no_grad():
            for _ in range(steps):
                td.set("action", torch.distributions.Categorical(logits=td["observation"] @ logits).sample())
                step, td = env.step_and_maybe_reset(td)
                batch.append(step)
        data: Any = torch.stack(batch, dim=1)
        reward, mini_done = (data["next", key].squeeze(-1) for key in ("reward", "mini_done"))
        credit = torch.zeros_like(reward)
        known = torch.zeros_like(mini_done)  # whether the mini-episode ends within the batch
        after, ends = torch.zeros(slots), torch.zeros(slots, dtype=torch.bool)
        for t in reversed(range(steps)):
            after = reward[:, t] + after * ~mini_done[:, t]
            ends = ends | mini_done[:, t]
            credit[:, t], known[:, t] = after, ends
        log_prob = torch.distributions.Categorical(logits=data["observation"] @ logits).log_prob(data["action"])
        loss = -(log_prob * (credit - credit[known].mean()))[known].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return logits.detach().softmax(-1)


def measure(policy: Tensor) -> tuple[Tensor, Tensor]:
    """P(L = l) and E[C | L = l] for the lengths 2 and 4, of a policy [STATES, 3]."""
    long = policy[0, ASK]
    short_coins = policy[0, WORK] / (1 - long) + policy[1, WORK]
    return torch.stack((1 - long, long)), torch.stack((short_coins, policy[5:, WORK].sum()))


def main() -> None:
    for lam in (0.9, 1.0):
        probability, coins = measure(train(lam))
        print(
            f"λ {lam}: P(length 4) {probability[1]:.3f}, neutrality {neutrality(probability):.3f}, "
            f"usefulness {usefulness(probability, coins, torch.tensor(BEST)):.3f}"
        )


if __name__ == "__main__":
    main()
