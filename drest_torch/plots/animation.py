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
"""The width of a mini-episode and the height of its title, in pixels."""
FRAMES = 80
"""The largest number of frames of an animation."""
SECONDS, SLOWEST, LAST = 8, 500, 2000
"""The duration of an animation in seconds; the maximum duration of a frame, and the duration of the last one, in
milliseconds."""
MOST_COLOURS = 128


def check_ending(path: Path) -> None:
    """Refuse a file name that does not end in ``.gif``."""
    if path.suffix.lower() != ".gif":
        raise PictureError(f"animation={path}: unknown kind of animation; expected the ending .gif")


def animate_level(level: Level, episodes: Sequence[Episode], path: Path) -> None:
    """Write mini-episodes on a level as a GIF."""
    if not episodes:
        raise PictureError(f"animation={path}: no length of the level {level.name} has a probability above 1 %")

    def image(moment: Moment) -> np.ndarray:
        return frame(level, taken=moment.taken, agent=moment.cell, time_left=moment.time_left)

    titled = {f"length {episode.length}, P = {episode.probability:.2f}": episode.moments for episode in episodes}
    write_animation(titled, path, image)


@torch.no_grad()
def mini_episodes(environment: RowEnvironment, policy: Any, seed: int) -> dict[str, list[np.ndarray]]:
    """Play a meta-episode until every length has occurred; return the frames of one mini-episode for each length.

    The environment needs a method ``render`` that returns an image. After the last step of a mini-episode it renders
    the start of the next, so the last frame is repeated instead.
    """
    frames_by_length = dict[int, list[np.ndarray]]()
    env, actor = environment.env, environment.actor(policy)
    with torch.random.fork_rng(devices=[]):
        set_seed(env, seed)
        torch.manual_seed(seed)
        following = env.reset()
        render = _render_of(env)
        frames = [render()]
        while len(frames_by_length) < environment.num_lengths:
            step, following = env.step_and_maybe_reset(actor(following))
            after = step.get("next")
            if after["mini_done"].item():
                frames_by_length.setdefault(int(after["mini_len"].item()), [*frames, frames[-1]])
                frames = []
            if after["done"].item():
                break
            frames.append(render())
    return {f"length {environment.lengths[index]}": frames for index, frames in sorted(frames_by_length.items())}


def _render_of(env: EnvBase) -> Callable[[], np.ndarray]:
    """Return a function that renders an environment of one slot, or refuse an environment without images."""
    base = innermost(env)
    if isinstance(base, SerialEnv):
        base = innermost(base._envs[0])
    # A wrapper of TorchRL's has the environment of another library as `_env`.
    renderer: Any = base if hasattr(type(base), "render") else getattr(base, "_env", None)

    def render() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium warns without a render mode
            image = renderer.render() if hasattr(renderer, "render") else None
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
    """Write mini-episodes side by side as a GIF that repeats, each below its title.

    ``image`` converts a frame into an image. A PNG file has only the last image.
    """
    longest = max(map(len, episodes.values()))
    ticks = sorted({round(place) for place in np.linspace(0, longest - 1, min(FRAMES, longest))})
    columns = [partial(_titled, words, frames, image) for words, frames in episodes.items()]
    file = io.BytesIO()
    if path.suffix.lower() == ".png":
        Image.fromarray(_side_by_side(columns, ticks[-1])).save(file, "png")
    else:
        _save_gif([_side_by_side(columns, tick) for tick in ticks], file)
    write_whole(path, file.getvalue())


def _side_by_side(columns: Sequence[Callable[[int], np.ndarray]], tick: int) -> np.ndarray:
    """Return the frames of all mini-episodes at a tick."""
    return np.concatenate([column(tick) for column in columns], axis=1)


def _save_gif(images: Sequence[np.ndarray], file: io.BytesIO) -> None:
    """Save images as a GIF with a common palette, so that colours do not flicker."""
    samples = np.concatenate([images[0], images[len(images) // 2], images[-1]])
    palette = Image.fromarray(samples).quantize(MOST_COLOURS, Image.Quantize.MAXCOVERAGE)
    dither = Image.Dither.NONE
    first, *rest = (Image.fromarray(image).quantize(palette=palette, dither=dither) for image in images)
    duration = min(SLOWEST, max(30, 1000 * SECONDS // len(images)))
    durations = [duration] * len(rest) + [LAST]
    first.save(file, "gif", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)


def _titled(words: str, frames: Sequence[Any], image: Callable[[Any], np.ndarray], tick: int) -> np.ndarray:
    """Return a scaled frame of a mini-episode below its title; it is grey once the mini-episode is over."""
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
