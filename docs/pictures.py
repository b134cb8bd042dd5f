"""Make the pictures of the README and of pages in docs/images: python docs/pictures.py [PAGE…].

The README shows two tabular agents on the paper's running example, with the clock that counts moves, for which the
default agents of seeds 0, 1 and 2 all delay shutdown. The pictures of a page are made by its commands. All pages take
half an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import yaml
from matplotlib.figure import Figure
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drest_torch import Agent
from drest_torch.agent import Results
from drest_torch.agents.checkpoints import pretrained_names
from drest_torch.editor.answers import EvaluationLimits
from drest_torch.editor.desk import Desk
from drest_torch.editor.editor_page import render as render_editor
from drest_torch.editor.server import start
from drest_torch.envs.levels import parse_level
from drest_torch.envs.view.rendering import LIGHT, OTHER_ROUTE, ROUTE, BoardStyle, StyledRoute, render
from drest_torch.plots.style import write_figure
from tests.helpers.browser import browser
from tests.helpers.documents import ROOT, blocks

IMAGES = Path(__file__).resolve().parent / "images"
ANIMATED = parse_level("shutdown: 3\nC1 .  C3 .  #\n.  A  .  .  .\n#  .  B3 .  C5", name="mine")
"""The first level of the README."""
REWARDS = {"default": "Default reward", "drest": "DReST reward"}
DARK = BoardStyle("#1d2430", "#596273", "#6b7486", "#3a4353", "#f0f3f6", "#6e7681")
BACKGROUND = {LIGHT: "white", DARK: "#0d1117"}  # of GitHub's pages
COLOURS = {LIGHT: (OTHER_ROUTE, ROUTE), DARK: ("#ff9a4d", "#6cb6ff")}  # of the short length and of the long one
PAGES = yaml.safe_load((IMAGES / "pages.yaml").read_text("utf-8"))
WIDTH = 900  # the largest width of a picture, in pixels


def caption(long: float) -> str:
    """Describe an agent that chooses the long length with this probability."""
    if long > 0.99:
        return "always delays its shutdown"
    if long < 0.01:
        return "never delays its shutdown"
    chance = 0.45 < long < 0.55
    return "leaves its shutdown to chance" if chance else f"delays its shutdown {long:.0%} of the time"


def hero(results: dict[str, Results], path: Path, style: BoardStyle) -> None:
    """Plot the routes of the two agents side by side, with the probability of each length."""
    figure = Figure(figsize=(8.7, 6.6), facecolor=BACKGROUND[style])
    grid = {"left": 0.0, "right": 1.0, "top": 0.855, "bottom": 0.085, "wspace": 0.23, "hspace": 0.1}
    boards, bars = figure.subplots(2, 2, gridspec_kw={**grid, "height_ratios": (3.9, 0.9)})
    for (reward, result), board, bar in zip(results.items(), boards, bars, strict=True):
        level, chances = result.evaluator.levels[0], result.evaluation.length_probabilities(0)
        colours = dict(zip(chances, COLOURS[style], strict=True))
        routes = [
            StyledRoute([moment.cell for moment in episode.moments], colours[episode.length], episode.probability, 5.0)
            for episode in result.episodes()
        ]
        render(level, board, routes=routes, style=style)
        text = {"color": style.text, "transform": board.transAxes, "ha": "center"}
        board.text(0.5, 1.13, REWARDS[reward], fontsize=18, fontweight="bold", **text)
        board.text(0.5, 1.03, caption(chances[max(chances)]), fontsize=15, **text)
        bar.set(xlim=(-2.1, 1.75), ylim=(1.7, -0.6))
        bar.set_axis_off()
        for y, (length, p) in enumerate(chances.items()):
            plain = {"color": style.text, "va": "center_baseline"}
            bar.text(-2.1, y, f"shutdown after {length} moves", fontsize=11.5, **plain)
            bar.barh(y, 1.15, 0.6, color=style.grid, alpha=0.45, linewidth=0)
            bar.barh(y, 1.15 * p, 0.6, color=colours[length], linewidth=0)
            bar.text(1.75, y, f"{p:.0%}", fontsize=13, ha="right", **plain)
    button = level.buttons[0]
    key = f"A  agent      C  coin and its value      {button.text}  button: shutdown comes {button.delay} moves later"
    figure.text(0.5, 0.03, key, fontsize=11, alpha=0.8, color=style.text, ha="center", va="center")
    write_figure(figure, path)


def readme() -> None:
    """Make the pictures of the README."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for reward in REWARDS:
            chosen = ("algo=tabular", "levels=example", "levels.clock=moves", f"reward={reward}", "logger=none")
            agent = Agent.train(*chosen, pictures=0, threads=1, run_dir=f"{folder}/{reward}")
            results[reward] = agent.evaluate(agent.levels.train)
    hero(results, IMAGES / "hero.png", LIGHT)
    hero(results, IMAGES / "hero-dark.png", DARK)
    Agent.load("generalist").evaluate(ANIMATED).animate(IMAGES / "episodes.gif")


def notebook() -> None:
    """Run the notebook of the tutorials and store its outputs, whose numbers a test compares."""
    import nbformat
    from nbclient import NotebookClient  # of the extra `docs`

    path = ROOT / "docs" / "tutorials" / "agent.ipynb"
    pages = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(pages, timeout=600, resources={"metadata": {"path": folder}}, record_timing=False).execute()
    pages.metadata["language_info"] = {"name": "python"}  # without the version of this machine
    for cell in pages.cells:
        if "outputs" in cell:  # without the warnings of libraries, which name files of this machine
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    for output in (output for cell in pages.cells for output in cell.get("outputs", [])):
        if "text/html" in output.get("data", {}):
            output["data"].pop("image/png", None)  # it is part of the HTML
    nbformat.write(pages, path)


WINDOW = {"width": 1360, "height": 880}
ANSWERED = "document.querySelector('#results').getAttribute('aria-busy') === 'false'"
STEP = (
    "document.querySelector('#moment').value = 5; document.querySelector('#moment').dispatchEvent(new Event('input'))"
)


def play() -> None:
    """Take pictures of the page of `drest play` in both themes, which needs Chromium."""
    agents = {name: Agent.load(name) for name in pretrained_names()}
    desk = Desk([ANIMATED], agents, EvaluationLimits())
    server = start(render_editor(desk.levels, agents, {"save": None}), desk, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browser() as page, tempfile.TemporaryDirectory() as folder:
        for name, dark in (("play.png", False), ("play-dark.png", True)):
            page.open(f"http://127.0.0.1:{server.server_address[1]}/", dark=dark, **WINDOW)
            page.wait(ANSWERED)
            page.evaluate(STEP)
            page.send("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 1000))", awaitPromise=True)
            (Path(folder) / name).write_bytes(page.picture())
            keep(Path(folder) / name, IMAGES / name, palette=False)
    server.shutdown()


def follow(page: str) -> None:
    """Run the commands of a page in an empty folder, and copy their pictures."""
    begins, pictures = PAGES[page].values()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder, code = Path(name), ""
        for block in blocks(ROOT / "docs" / f"{page}.md"):
            if block.file:
                block.write(folder)
            elif block.language == "bash":
                for line in (line for line in block.text.splitlines() if line.startswith(tuple(begins))):
                    subprocess.run(["bash", "-c", line], cwd=folder, env=environment, check=True)
            elif block.language == "python" and any(begin in block.text for begin in begins):
                code += block.text
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True)
        for path, image in pictures.items():
            keep(folder / path, IMAGES / image)


def keep(path: Path, image: Path, *, palette: bool = True) -> None:
    """Copy a picture, and reduce its size unless it is animated; a ``palette`` has 256 colours."""
    shutil.copy(path, image)
    if image.suffix != ".gif":
        small = Image.open(image).convert("RGB")
        small.thumbnail((WIDTH, 2 * WIDTH), Image.Resampling.LANCZOS)
        if palette:
            small = small.quantize(256)
        small.save(image, optimize=True)


def main() -> None:
    """Make the pictures of the named pages, or of all."""
    special = {"README": readme, "notebook": notebook, "play": play}
    for name in sys.argv[1:] or [*special, *PAGES]:
        if name in special:
            special[name]()
        else:
            follow(name)


if __name__ == "__main__":
    main()
