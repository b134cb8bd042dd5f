"""The command ``drest play``: its page in a file, its server until Ctrl-C, and a sentence for each mistake."""

import base64
import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from drest_torch import Agent
from drest_torch.commands import play
from drest_torch.editor.answers import EvaluationLimits
from drest_torch.editor.export import changed_records, export
from drest_torch.envs.levels import level_from_record, parse_level, world
from tests.helpers.documents import ROOT

TINY = "shutdown: 2\n\nA C1 B2\n"


@pytest.fixture
def port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.txt"], "nowhere.txt: no such file"),
        (["nowhere"], "no levels 'nowhere'; expected paper, a file"),
        (["example", "spacious"], "spacious: a second level; expected one file or name"),
        (["--port"], "--port: no such option; see drest play --help"),
        (["agent=nowhere"], "nowhere: no such folder of a run, and no agent of that name (generalist, "),
        (["agent=''"], "agent= names no agent"),
        (["agents=generalist"], "agents=generalist; expected KEY=VALUE with one of agent, save, port"),
        (["port=70000"], "port=70000; expected a number from 0 to 65535"),
        (["save=mine.json"], "mine.json: expected a name that ends in .txt"),
        (["out=page.txt"], "page.txt: expected a name that ends in .html"),
        (["memory_gib=0"], "memory_gib=0"),
    ],
)
def test_a_mistake_gets_one_sentence(call, words, sentence):
    assert sentence in call(play.main, *words).sentence


def test_a_port_in_use_gets_one_sentence(call, port_in_use):
    words = f"port={port_in_use}: cannot be used (Address already in use); choose another"
    assert words in call(play.main, f"port={port_in_use}").sentence


@pytest.mark.slow
def test_the_page_is_served_until_ctrl_c(tmp_path):
    command = [sys.executable, "-m", "drest_torch", "play", "example"]
    begin = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **begin)
    try:
        (address,) = re.findall(r"^(http://127\.0\.0\.1:\d+/) shows the page", process.stdout.readline())
        with urllib.request.urlopen(address) as page:
            assert b"Draw a level" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()


# ------------------------------------------------------------------------------ a page without a server


def results_in(html):
    """Return the results in a page, by agent, level and change."""
    start = json.loads(re.search(r'<script type="application/json" id="start">(.*?)</script>', html)[1])
    return json.loads(gzip.decompress(base64.b64decode(start["answers"])))


def test_a_page_has_the_results_of_each_change(tmp_path):
    agent = Agent.load("generalist")
    level = parse_level(TINY, name="tiny")
    export([level], {"generalist": agent}, EvaluationLimits(), tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    assert "connect-src 'none'" in html
    (results,) = results_in(html)["generalist"]
    assert results.keys() == {"", *(change for change, _ in changed_records(level))}
    records = dict(changed_records(level))
    for change in ("0 1 C3", "0 2 B4"):
        expected = agent.evaluate(level_from_record(records[change]))
        assert results[change]["agent"]["usefulness"] == round(expected.usefulness, 3)
        assert len(results[change]["episodes"]) > 0
    assert "the map has no coin" in results["0 1 ."]["error"]


def test_every_change_is_of_one_cell():
    level = world("example")
    records = dict(changed_records(level))
    rows = [row.split() for row in level.rows()]
    cells = [cell for row in records["0 0 C3"]["map"] for cell in row.split()]
    before = [cell for row in rows for cell in row]
    assert [(old, new) for old, new in zip(before, cells, strict=True) if old != new] == [("#", "C3")]
    moved = [cell for row in records["0 0 A"]["map"] for cell in row.split()]
    assert moved.count("A") == 1


def test_the_command_writes_a_page(call, tmp_path):
    done = call(play.main, "example", "out=page.html", "changes=false")
    assert done.out == "The page is in page.html\n"
    assert (tmp_path / "page.html").stat().st_size < 100_000
