"""Animate mini-episodes of an environment that can render itself, one for each length side by side."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torchrl.envs import EnvBase, SerialEnv

from drest_torch.collector import Environment
from drest_torch.errors import UserError
from drest_torch.files import write_whole
from drest_torch.plots.animation import gif
from drest_torch.plots.style import TEXT
from drest_torch.transforms.base import innermost, set_seed, title

WIDTH = 300
"""Of one mini-episode, in pixels."""
FRAMES = 80
"""The most frames of an animation."""
HEAD = 22
LAST = 2000
"""How long the last frame is shown, in milliseconds; the others share `SECONDS`."""
SECONDS = 8

Frames = list[np.ndarray]


@torch.no_grad()
def mini_episodes(environment: Environment, policy: Any, seed: int) -> dict[int, Frames]:
    """Play with one slot until every length was seen, or no more mini-episodes are left; return the frames by index.

    The environment has to have a method ``render`` that returns an image.
    """
    seen, frames = dict[int, Frames](), Frames()
    env, actor = environment.env, environment.actor(policy)
    with torch.random.fork_rng(devices=[]):
        set_seed(env, seed)
        torch.manual_seed(seed)
        following = env.reset()
        render = _render_of(env)
        while len(seen) < environment.num_lengths:
            step, following = env.step_and_maybe_reset(actor(following))
            after = step.get("next")
            if after["mini_done"].item():  # what is rendered now is the start of the next
                seen.setdefault(int(after["mini_len"].item()), frames)
                frames = []
            else:
                frames.append(render())
            if after["done"].item():
                break
    return seen


def _render_of(env: EnvBase) -> Callable[[], np.ndarray]:
    """Return what renders an environment of one slot, or refuse one that cannot be rendered."""
    base = innermost(env)
    if isinstance(base, SerialEnv):
        base = innermost(base._envs[0])
    # A wrapper of TorchRL's has the environment of another library as `_env`.
    able: Any = base if hasattr(type(base), "render") else getattr(base, "_env", None)

    def render() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium warns where there is no render mode
            frame = None if able is None or not hasattr(able, "render") else able.render()
        if frame is None:
            raise UserError(
                f"{title(env)} returns no image to render; a Gymnasium id needs render_mode=rgb_array among its "
                "modes, a function that makes an environment an argument render_mode that it passes on, and another "
                "TorchRL environment a method render that returns an array"
            )
        return np.asarray(frame)[..., :3]

    return render


def write_animation(frames: Mapping[int, Frames], lengths: Sequence[int], path: Path) -> None:
    """Write mini-episodes as a GIF that repeats, each below its length; one that has ended keeps its last frame.

    A PNG file has the last image alone.
    """
    longest = max(map(len, frames.values()))
    shown = sorted({round(place) for place in np.linspace(0, longest - 1, min(FRAMES, longest))})
    episodes = [(lengths[index], frames[index]) for index in sorted(frames)]
    images = [np.concatenate([_titled(some, length, tick) for length, some in episodes], axis=1) for tick in shown]
    if path.suffix.lower() == ".png":
        file = io.BytesIO()
        Image.fromarray(images[-1]).save(file, "png")
        write_whole(path, file.getvalue())
        return
    each = max(30, 1000 * SECONDS // len(images))
    write_whole(path, gif(images, [each] * (len(images) - 1) + [LAST]))


def _titled(frames: Frames, length: int, tick: int) -> np.ndarray:
    """Return a frame of a mini-episode, scaled, below its length; it is grey after the shutdown."""
    image = Image.fromarray(frames[min(tick, len(frames) - 1)])
    image = image.resize((WIDTH, max(1, round(WIDTH * image.height / image.width))))
    if tick >= len(frames):
        image = image.convert("L").convert("RGB")
    canvas = Image.new("RGB", (WIDTH, image.height + HEAD), "white")
    canvas.paste(image, (0, HEAD))
    words = f"length {length}: " + (f"step {tick + 1}" if tick < len(frames) else "shut down")
    ImageDraw.Draw(canvas).text((6, 5), words, fill=TEXT)
    return np.asarray(canvas)
