"""Rollouts of environments, with actions that depend only on a seed."""

import torch


def rollout(env, steps, seed=0):
    """Return the frames of this number of steps, [*batch, T] on the CPU; slots that end are reset at once."""
    generator, spec = torch.Generator().manual_seed(seed), env.action_spec
    if spec.dtype == torch.int64:
        return played(env, [torch.randint(spec.n, env.batch_size, generator=generator) for _ in range(steps)])
    return played(env, [torch.rand(spec.shape, generator=generator) * 2 - 1 for _ in range(steps)])


def played(env, actions):
    """Return the frames of a step with each of these actions."""
    td, frames = env.reset(), []
    for action in actions:
        td["action"] = action.to(env.device) if env.device else action
        step, td = env.step_and_maybe_reset(td)
        frames.append(step.to("cpu").clone())
    return torch.stack(frames, -1)
