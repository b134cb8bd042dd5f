"""Make the README's pictures in docs/images: python docs/pictures.py

Two agents are trained as in the paper, by REINFORCE on a table, on its running example and on the clock that counts
moves: one with the default reward and one with DReST. That takes half a minute on a CPU. With this clock the default
agents of seeds 0, 1 and 2 all delay shutdown. On the clock that counts every step most of them settle for the shorter
length, whose coin is found first. The animation shows the agent that comes with the project.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from drest_torch import Agent
from drest_torch.agent import Results
from drest_torch.envs.levels import parse_level
from drest_torch.envs.view.rendering import LIGHT, OTHER_ROUTE, ROUTE, BoardStyle, Way, render
from drest_torch.plots.style import write_figure

IMAGES = Path(__file__).resolve().parent / "images"
LEVEL = "example"
ANIMATED = parse_level("shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5", name="mine")
"""The level that the README begins with."""
REWARDS = {"default": "Default reward", "drest": "DReST reward"}
DARK = BoardStyle("#1d2430", "#596273", "#6b7486", "#3a4353", "#f0f3f6", "#6e7681")
BACKGROUND = {LIGHT: "white", DARK: "#0d1117"}
"""The colours of GitHub's pages."""
COLOURS = {LIGHT: (OTHER_ROUTE, ROUTE), DARK: ("#ff9a4d", "#6cb6ff")}
"""Of the short length and of the long one."""


def train(reward: str, folder: Path) -> subprocess.Popen[bytes]:
    """Begin to train an agent on the level by the public command."""
    values = ("algo=tabular", f"levels={LEVEL}", "levels.clock=moves", f"reward={reward}", "seed=0", "threads=1")
    quiet = ("pictures=0", "progress=false", "logger=none", f"run_dir={folder / reward}")
    command = [sys.executable, "-m", "drest_torch.train", *values, *quiet]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def caption(long: float) -> str:
    """Return in words what an agent does that chooses the long length with this probability."""
    if long > 0.99:
        return "always delays its shutdown"
    if long < 0.01:
        return "never delays its shutdown"
    if 0.45 < long < 0.55:
        return "leaves its shutdown to chance"
    return f"delays its shutdown {long:.0%} of the time"


def hero(results: dict[str, Results], path: Path, style: BoardStyle) -> None:
    """Plot the routes of the two agents side by side, with the probability of each length."""
    board, gap, head, foot = 3.9, 0.9, 0.95, 1.75  # inches
    width, height = 2 * board + gap, head + board + foot
    figure = Figure(figsize=(width, height), facecolor=BACKGROUND[style])
    for index, (reward, result) in enumerate(results.items()):
        left = index * (board + gap)
        level = result.evaluator.levels[0]
        probabilities = result.evaluation.length_probabilities(0)
        colours = dict(zip(probabilities, COLOURS[style], strict=True))
        ax = figure.add_axes((left / width, foot / height, board / width, board / height))
        ways = [
            Way([moment.cell for moment in episode.moments], colours[episode.length], episode.probability, 5.0)
            for episode in result.episodes()
        ]
        render(level, ax, ways=ways, style=style)
        centre = (left + board / 2) / width
        text = {"color": style.text, "ha": "center", "va": "center"}
        figure.text(centre, (foot + board + 0.68) / height, REWARDS[reward], fontsize=18, fontweight="bold", **text)
        words = caption(probabilities[max(probabilities)])
        figure.text(centre, (foot + board + 0.28) / height, words, fontsize=15, **text)
        bars = figure.add_axes((left / width, 0.62 / height, board / width, 0.9 / height))
        bars.set(xlim=(0, board), ylim=(0.9, 0))
        bars.set_axis_off()
        for line, (length, p) in enumerate(probabilities.items()):
            y = 0.22 + 0.46 * line
            words = f"shutdown after {length} moves"
            bars.text(0, y, words, fontsize=11.5, color=style.text, va="center_baseline")
            bars.add_patch(Rectangle((2.12, y - 0.13), 1.15, 0.26, facecolor=style.grid, alpha=0.45, linewidth=0))
            bars.add_patch(Rectangle((2.12, y - 0.13), 1.15 * p, 0.26, facecolor=colours[length], linewidth=0))
            bars.text(board, y, f"{p:.0%}", fontsize=13, color=style.text, ha="right", va="center_baseline")
    button = level.buttons[0]
    key = f"A  agent      C  coin and its value      {button.text}  button: shutdown comes {button.delay} moves later"
    figure.text(0.5, 0.18 / height, key, fontsize=11, color=style.text, alpha=0.8, ha="center", va="center")
    write_figure(figure, path)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trainings = [train(reward, Path(folder)) for reward in REWARDS]
        for training in trainings:
            if training.wait():
                sys.exit("an agent was not trained")
        agents = {reward: Agent.load(Path(folder) / reward) for reward in REWARDS}
        results = {reward: agent.evaluate(agent.levels.train) for reward, agent in agents.items()}
    hero(results, IMAGES / "hero.png", LIGHT)
    hero(results, IMAGES / "hero-dark.png", DARK)
    Agent.load("generalist").evaluate(ANIMATED).animate(IMAGES / "episodes.gif")
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.stat().st_size / 1000:6.0f} kB  {path}")


if __name__ == "__main__":
    main()
