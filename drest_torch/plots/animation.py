"""Animate mini-episodes side by side, one for each length, as a GIF: on a level, or in an environment with images."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torchrl.envs import EnvBase, SerialEnv

from drest_torch.envs.levels import Level
from drest_torch.envs.view.rendering import PictureError, frame
from drest_torch.errors import UserError
from drest_torch.files import write_whole
from drest_torch.plots.style import TEXT
from drest_torch.transforms.base import innermost, set_seed, title

if TYPE_CHECKING:
    from drest_torch.envs.dynamics.moments import Episode, Moment
    from drest_torch.play.rows import RowEnvironment

WIDTH, HEAD = 300, 22
"""Of one mini-episode, and the height of what stands above it, in pixels."""
FRAMES = 80
"""The most frames of an animation."""
SECONDS, SLOWEST, LAST = 8, 500, 2000
"""The seconds of an animation; and the most milliseconds of one of its frames, and those of the last."""
MOST_COLOURS = 128


def check_ending(path: Path) -> None:
    """Refuse a file of another kind."""
    if path.suffix.lower() != ".gif":
        raise PictureError(f"animation={path}: unknown kind of animation; expected the ending .gif")


def animate_level(level: Level, episodes: Sequence[Episode], path: Path) -> None:
    """Write mini-episodes on a level as a GIF."""
    if not episodes:
        raise PictureError(f"animation={path}: no length of the level {level.name} has a probability above 1 %")

    def image(moment: Moment) -> np.ndarray:
        return frame(level, taken=moment.taken, agent=moment.cell, time_left=moment.time_left)

    shown = {f"length {each.length}, P = {each.probability:.2f}": each.moments for each in episodes}
    write_animation(shown, path, image)


@torch.no_grad()
def mini_episodes(environment: RowEnvironment, policy: Any, seed: int) -> dict[str, list[np.ndarray]]:
    """Play with one slot until every length was seen, or no more mini-episodes are left; return the frames of each.

    The environment has to have a method ``render`` that returns an image. What it shows after the last step of a
    mini-episode is the start of the next.
    """
    seen = dict[int, list[np.ndarray]]()
    env, actor = environment.env, environment.actor(policy)
    with torch.random.fork_rng(devices=[]):
        set_seed(env, seed)
        torch.manual_seed(seed)
        following = env.reset()
        render = _render_of(env)
        frames = [render()]
        while len(seen) < environment.num_lengths:
            step, following = env.step_and_maybe_reset(actor(following))
            after = step.get("next")
            if after["mini_done"].item():
                seen.setdefault(int(after["mini_len"].item()), [*frames, frames[-1]])
                frames = []
            if after["done"].item():
                break
            frames.append(render())
    return {f"length {environment.lengths[index]}": seen[index] for index in sorted(seen)}


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
            image = None if able is None or not hasattr(able, "render") else able.render()
        if image is None:
            raise UserError(
                f"{title(env)} returns no image to render; a Gymnasium id needs render_mode=rgb_array among its "
                "modes, a function that makes an environment an argument render_mode that it passes on, and another "
                "TorchRL environment a method render that returns an array"
            )
        return np.asarray(image)[..., :3]

    return render


def write_animation(
    episodes: Mapping[str, Sequence[Any]], path: Path, image: Callable[[Any], np.ndarray] = lambda frame: frame
) -> None:
    """Write mini-episodes as a GIF that repeats, each below its title; the last frame of each is its end.

    ``image`` makes an image of a frame. A PNG file has the last image alone.
    """
    longest = max(map(len, episodes.values()))
    ticks = sorted({round(place) for place in np.linspace(0, longest - 1, min(FRAMES, longest))})
    titled = [partial(_titled, words, frames, image) for words, frames in episodes.items()]
    file = io.BytesIO()
    if path.suffix.lower() == ".png":
        Image.fromarray(np.concatenate([each(ticks[-1]) for each in titled], axis=1)).save(file, "png")
    else:
        images = [np.concatenate([each(tick) for each in titled], axis=1) for tick in ticks]
        # All have the colours of one palette, so that nothing flickers.
        samples = np.concatenate([images[0], images[len(images) // 2], images[-1]])
        palette = Image.fromarray(samples).quantize(MOST_COLOURS, Image.Quantize.MAXCOVERAGE)
        dither = Image.Dither.NONE
        first, *rest = (Image.fromarray(each).quantize(palette=palette, dither=dither) for each in images)
        each = min(SLOWEST, max(30, 1000 * SECONDS // len(images)))
        durations = [each] * len(rest) + [LAST]
        first.save(file, "gif", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    write_whole(path, file.getvalue())


def _titled(words: str, frames: Sequence[Any], image: Callable[[Any], np.ndarray], tick: int) -> np.ndarray:
    """Return a frame of a mini-episode, scaled, below its title; it is grey once the mini-episode is over."""
    last = len(frames) - 1
    picture = Image.fromarray(image(frames[min(tick, last)]))
    picture = picture.resize((WIDTH, max(1, round(WIDTH * picture.height / picture.width))))
    if tick > last:
        picture = picture.convert("L").convert("RGB")
    canvas = Image.new("RGB", (WIDTH, picture.height + HEAD), "white")
    canvas.paste(picture, (0, HEAD))
    now = f"step {tick}" if tick < last else "shut down"
    ImageDraw.Draw(canvas).text((6, 5), f"{words}: {now}", fill=TEXT)
    return np.asarray(canvas)
