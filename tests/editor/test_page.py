"""The page in a real browser: what a user clicks and types, and what the page then shows."""

import json
import threading

import pytest

from drest_torch import Agent
from drest_torch.editor.answers import EvaluationLimits
from drest_torch.editor.desk import Desk
from drest_torch.editor.editor_page import render
from drest_torch.editor.export import export
from drest_torch.editor.server import start
from drest_torch.envs.levels import format_level, parse_level, read_levels, world
from tests.helpers.browser import browser
from tests.helpers.chromium import needs_chromium

pytestmark = [needs_chromium, pytest.mark.slow]

AGENTS = ("generalist", "generalist-bit")
LEVEL = parse_level("shutdown: 3\nA C1 B2\n. #  C2", name="small")
READY = "document.querySelector('#results').getAttribute('aria-busy') === 'false'"
USEFULNESS = "document.querySelector('[data-measure=usefulness]').textContent"
TEXT = "document.querySelector('#text').value"


@pytest.fixture(scope="module")
def agents():
    return {name: Agent.load(name) for name in AGENTS}


@pytest.fixture(scope="module")
def tab():
    """Return one browser for all tests."""
    with browser() as page:
        yield page


@pytest.fixture
def served(agents, tmp_path):
    """Return the address of a page, and the file that it saves to."""
    path = tmp_path / "saved.txt"
    desk = Desk([LEVEL, world("example")], agents, EvaluationLimits(memory_gib=0.5), path)
    server = start(render(desk.levels, agents, {"save": str(path)}), desk, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", path
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(tab, served):
    """Return the browser on the page, with the results of the first level."""
    tab.open(served[0])
    tab.wait(READY)
    yield tab
    assert tab.errors == []


def cell(row, column):
    return f"[data-row='{row}'][data-column='{column}']"


def tool(text):
    return f"[name=tool][value='{text}']"


def use(page, text):
    """Choose a tool."""
    page.evaluate(f"document.querySelector({json.dumps(tool(text))}).click()")


def shows(page, agent, level):
    """Wait until the page shows the numbers of an agent on a level."""
    results = agent.evaluate(level)
    page.wait(f"{READY} && {USEFULNESS} === '{results.usefulness:.3f}'")
    bits = page.evaluate("document.querySelector('[data-measure=\"neutrality, bits\"]').textContent")
    assert bits == f"{results.neutrality:.3f}"


def test_a_wall_is_drawn_with_the_mouse(page, agents):
    shows(page, agents["generalist"], LEVEL)
    page.click(cell(1, 0))
    page.wait(f"{TEXT}.includes('#  #  C2')")
    shows(page, agents["generalist"], parse_level("shutdown: 3\nA C1 B2\n# # C2"))
    page.click("#undo")
    page.wait(f"{TEXT} === {json.dumps(format_level(LEVEL))}")


def test_a_level_is_drawn_with_the_keyboard(page, agents):
    page.evaluate(f'document.querySelector("{cell(0, 0)}").focus()')
    for key in ("ArrowDown", "ArrowRight"):
        page.press(key)
    page.press("c", "c")  # a coin of value 3 in place of the wall
    page.press("+", "+")
    page.wait(f"{TEXT}.includes('C4')")
    shows(page, agents["generalist"], parse_level("shutdown: 3\nA C1 B2\n. C4 C2"))
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "row 2, column 2: coin C4"


def test_another_agent_is_evaluated(page, agents):
    page.evaluate("byId = id => document.getElementById(id); byId('agent').value = 'generalist-bit'")
    page.evaluate("document.querySelector('#agent').dispatchEvent(new Event('change'))")
    page.wait("document.querySelector('#arrows').innerText.includes('bit 1')")
    shows(page, agents["generalist-bit"], LEVEL)


def test_a_mistake_is_shown_at_its_cell(page):
    use(page, ">")
    page.click(cell(1, 0))
    page.wait("!document.querySelector('#error').hidden")
    sentence = page.evaluate("document.querySelector('#error').textContent")
    assert "map row 2, column 1: the door '>' leads into a wall" in sentence
    assert page.evaluate("document.querySelectorAll('svg .wrong').length") == 1
    page.click("#undo")
    page.wait("document.querySelector('#error').hidden")


def test_an_episode_plays_to_its_end(page):
    page.evaluate("document.querySelector('#lengths button').click()")
    page.wait("document.querySelector('#clock').textContent.includes('shut down')")
    assert page.evaluate("document.querySelectorAll('svg .trail').length") == 1
    assert page.evaluate("document.querySelector('#clock').textContent").endswith("step 3 of 3 · 1 coin")


def test_the_text_of_a_level_is_drawn(page, agents):
    text = "shutdown: 2\nA C1"
    page.evaluate("document.querySelector('#file').open = true")
    page.evaluate(f"document.querySelector('#text').value = {json.dumps(text)}")
    page.evaluate("document.querySelector('#text').dispatchEvent(new Event('input'))")
    page.wait("document.querySelectorAll('[role=gridcell]').length === 2")
    shows(page, agents["generalist"], parse_level(text))


def test_the_size_or_shutdown_is_changed(page, agents):
    for name, value in (("columns", 2), ("shutdown", 5)):
        page.evaluate(f"document.querySelector('#{name}').value = {value}")
        page.evaluate(f"document.querySelector('#{name}').dispatchEvent(new Event('input'))")
    page.wait(f"{TEXT}.startsWith('shutdown: 5')")
    shows(page, agents["generalist"], parse_level("shutdown: 5\nA C1\n. #"))


def test_a_lottery_gets_a_line_above_the_map(page):
    use(page, "L")
    page.click(cell(1, 0))
    page.wait(f"{TEXT}.includes('lottery a: 1/2 C2 +0 | 1/2 C0 +2')")


def test_the_level_is_saved_to_the_named_file(page, served):
    page.evaluate("document.querySelector('#file').open = true")
    page.click("#save")
    page.wait("document.querySelector('#saved').textContent.startsWith('Saved to')")
    (level,) = read_levels(served[1])
    assert format_level(level) == format_level(LEVEL)


def test_the_address_keeps_the_drawing(page, served):
    page.click(cell(1, 0))
    page.wait(f"{READY} && {TEXT}.includes('#  #') && location.hash.includes('%23')")
    address = page.evaluate("location.href")
    page.open(address)
    page.wait(f"{READY} && {TEXT}.includes('#  #')")


@pytest.mark.parametrize("width", [390, 800, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_into_its_window(tab, served, width, dark):
    tab.open(served[0], width=width, height=900, dark=dark)
    tab.wait(READY)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)")


def test_every_control_has_a_name(page):
    script = """[...document.querySelectorAll('button, input, select, textarea, [role=radiogroup], section')].filter(
        node => !node.ariaLabel && !node.labels?.length && !node.textContent.trim()).map(node => node.outerHTML)"""
    assert page.evaluate(script) == []


def test_a_page_in_a_file_shows_one_change_at_a_time(tab, agents, tmp_path):
    path = tmp_path / "page.html"
    export([LEVEL], {"generalist": agents["generalist"]}, EvaluationLimits(), path)
    tab.open(path.as_uri())
    tab.wait(READY)
    shows(tab, agents["generalist"], LEVEL)
    use(tab, "#")
    tab.click(cell(1, 0))
    shows(tab, agents["generalist"], parse_level("shutdown: 3\nA C1 B2\n# # C2"))
    use(tab, "C5")
    tab.click(cell(1, 1))
    shows(tab, agents["generalist"], parse_level("shutdown: 3\nA C1 B2\n. C5 C2"))
    assert tab.errors == []
