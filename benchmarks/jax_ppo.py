"""PPO in JAX on a gridworld of XLand-MiniGrid, compiled as a whole: the peer that `benchmarks.jax_peer` starts.

It runs in a separate Python with `jax` and `xminigrid` and without the packages of this project. Its argument is a JSON
object with the values of `Settings`. For each line of its standard input it makes an update, including collection, and
prints the number of environment steps. The first update includes the compilation.

As in PureJaxRL (Lu et al. 2022), environments, networks and optimiser are a single compiled function of the state.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

WORLD = "MiniGrid-EmptyRandom-5x5"


@dataclass(frozen=True)
class Settings:
    """The sizes and values of PPO."""

    envs: int
    steps: int
    """Steps of each environment in an update."""
    inputs: int
    """The size of observations; observations of the environment are padded with zeros."""
    width: int
    depth: int
    epochs: int
    minibatches: int
    lr: float
    adam_epsilon: float
    clip: float
    entropy: float
    critic_coeff: float
    gae_lambda: float
    max_grad_norm: float
    precision: str
    """The precision of matrix products: float32 or bfloat16. Weights, advantages and losses are float32."""
    cores: int


class Steps(NamedTuple):
    """Steps of all environments, with the time first: [T, N]."""

    observation: Any
    action: Any
    log_prob: Any
    value: Any
    reward: Any
    done: Any


class PPO:
    """An agent and its environments; `update` collects and learns."""

    def __init__(self, settings: Settings) -> None:
        import jax
        import optax
        import xminigrid
        from xminigrid.wrappers import GymAutoResetWrapper

        self.settings = settings
        env, self.params = xminigrid.make(WORLD)
        self.env = GymAutoResetWrapper(env)
        clip = optax.clip_by_global_norm(settings.max_grad_norm)
        self.optimizer = optax.chain(clip, optax.adam(settings.lr, eps=settings.adam_epsilon))
        begin_key, policy_key, critic_key, self.key = jax.random.split(jax.random.PRNGKey(0), 4)
        actions = self.env.num_actions(self.params)
        self.networks = {"policy": self.layers(policy_key, actions), "critic": self.layers(critic_key, 1)}
        self.moments = self.optimizer.init(self.networks)
        self.worlds = jax.vmap(self.env.reset, (None, 0))(self.params, jax.random.split(begin_key, settings.envs))
        self.compiled = jax.jit(self.updated)

    def update(self) -> int:
        """Make one update; return the number of environment steps."""
        import jax

        state = self.compiled(self.networks, self.moments, self.worlds, self.key)
        self.networks, self.moments, self.worlds, self.key = jax.block_until_ready(state)
        return self.settings.envs * self.settings.steps

    # ------------------------------------------------------------------------------------ networks

    def layers(self, key: Any, outputs: int) -> list[tuple[Any, Any]]:
        """Return the weights and biases of an untrained network."""
        import jax
        import jax.numpy as jnp

        sizes = [self.settings.inputs, *[self.settings.width] * self.settings.depth, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        weight = jax.nn.initializers.orthogonal()
        return [
            (weight(layer_key, (rows, columns)), jnp.zeros(columns))
            for layer_key, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]

    def forward(self, layers: list[tuple[Any, Any]], inputs: Any) -> Any:
        """Return the outputs of a network in float32."""
        import jax
        import jax.numpy as jnp

        dtype = jnp.dtype(self.settings.precision)
        hidden = inputs.astype(dtype)
        for index, (weight, bias) in enumerate(layers):
            hidden = hidden @ weight.astype(dtype) + bias.astype(dtype)
            if index < len(layers) - 1:
                hidden = jax.nn.silu(hidden)
        return hidden.astype(jnp.float32)

    def observe(self, worlds: Any) -> Any:
        """Return the observations [N, inputs], padded with zeros."""
        import jax.numpy as jnp

        seen = worlds.observation.reshape(self.settings.envs, -1).astype(jnp.float32)  # [N, 98]
        return jnp.pad(seen, ((0, 0), (0, self.settings.inputs - seen.shape[1])))

    # ------------------------------------------------------------------------------------ one update

    def updated(self, networks: Any, moments: Any, worlds: Any, key: Any) -> Any:
        """Return networks, optimiser state, environments and key after an update."""
        import jax

        key, play_key, order_key = jax.random.split(key, 3)
        worlds, steps = self.collected(networks, worlds, play_key)
        last_value = self.forward(networks["critic"], self.observe(worlds)).squeeze(-1)
        advantages = self.advantages(steps, last_value)
        batch = (steps, advantages, advantages + steps.value)
        number = self.settings.envs * self.settings.steps
        batch = jax.tree.map(lambda array: array.reshape(number, *array.shape[2:]), batch)  # [T · N, …]

        def epoch(state: Any, epoch_key: Any) -> Any:
            order = jax.random.permutation(epoch_key, number)
            return jax.lax.scan(lambda state, rows: self.stepped(state, batch, rows), state, self.split(order))

        epoch_keys = jax.random.split(order_key, self.settings.epochs)
        (networks, moments), _ = jax.lax.scan(epoch, (networks, moments), epoch_keys)
        return networks, moments, worlds, key

    def split(self, order: Any) -> Any:
        """Return the rows of each minibatch [minibatches, rows]."""
        return order.reshape(self.settings.minibatches, -1)

    def collected(self, networks: Any, worlds: Any, key: Any) -> Any:
        """Play; return the environments after it, and the steps [T, N]."""
        import jax

        def play(worlds: Any, key: Any) -> Any:
            observation = self.observe(worlds)
            log_probs = jax.nn.log_softmax(self.forward(networks["policy"], observation))
            action = jax.random.categorical(key, log_probs)
            value = self.forward(networks["critic"], observation).squeeze(-1)
            worlds = jax.vmap(self.env.step, (None, 0, 0))(self.params, worlds, action)
            log_prob = self.chosen(log_probs, action)
            return worlds, Steps(observation, action, log_prob, value, worlds.reward, worlds.last())

        return jax.lax.scan(play, worlds, jax.random.split(key, self.settings.steps))

    def advantages(self, steps: Steps, last_value: Any) -> Any:
        """Return generalised advantage estimates [T, N] without discounting."""
        import jax
        import jax.numpy as jnp

        def backwards(after: Any, step: Any) -> Any:
            advantage, next_value = after
            goes_on = 1.0 - step.done
            error = step.reward + goes_on * next_value - step.value
            advantage = error + goes_on * self.settings.gae_lambda * advantage
            return (advantage, step.value), advantage

        end = (jnp.zeros_like(last_value), last_value)
        return jax.lax.scan(backwards, end, steps, reverse=True)[1]

    def stepped(self, state: Any, batch: Any, rows: Any) -> Any:
        """Take one optimiser step on these rows of the batch."""
        import jax
        import optax

        networks, moments = state
        minibatch = jax.tree.map(lambda array: array[rows], batch)
        gradient = jax.grad(self.loss)(networks, *minibatch)
        change, moments = self.optimizer.update(gradient, moments)
        return (optax.apply_updates(networks, change), moments), None

    def loss(self, networks: Any, steps: Steps, advantages: Any, targets: Any) -> Any:
        """Return the clipped objective, the critic's error and the entropy bonus as one loss."""
        import jax
        import jax.numpy as jnp

        settings = self.settings
        log_probs = jax.nn.log_softmax(self.forward(networks["policy"], steps.observation))
        ratio = jnp.exp(self.chosen(log_probs, steps.action) - steps.log_prob)
        clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
        gain = jnp.minimum(ratio * advantages, clipped * advantages).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        values = self.forward(networks["critic"], steps.observation).squeeze(-1)
        error = jnp.square(values - targets).mean()
        return settings.critic_coeff / 2 * error - gain - settings.entropy * entropy

    @staticmethod
    def chosen(log_probs: Any, action: Any) -> Any:
        """Return the log-probabilities of the chosen actions."""
        import jax.numpy as jnp

        return jnp.take_along_axis(log_probs, action[:, None], -1).squeeze(-1)


def main() -> None:
    """Make an update for each line of the standard input."""
    settings = Settings(**json.loads(sys.argv[1]))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings.cores])
    agent = PPO(settings)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(agent.update(), flush=True)


if __name__ == "__main__":
    main()
