"""The answers of the page's server: exact numbers, refusals, and files."""

import http.client
import json
import threading

import pytest

from drest_torch import Agent
from drest_torch.editor.answers import EvaluationLimits
from drest_torch.editor.desk import Desk
from drest_torch.editor.editor_page import render
from drest_torch.editor.server import MOST_BYTES, start
from drest_torch.envs.levels import format_level, parse_level, read_levels, world

AGENTS = ("generalist", "generalist-bit")
TEXT = "shutdown: 4\n\nA . C2\n# B4 .\nC1 . #\n"


@pytest.fixture(scope="module")
def agents():
    return {name: Agent.load(name) for name in AGENTS}


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "saved.txt"


@pytest.fixture
def desk(agents, saved):
    return Desk([world("example")], agents, EvaluationLimits(memory_gib=0.5), saved)


@pytest.fixture
def server(desk):
    server = start(render(desk.levels, desk.agents, {"save": str(desk.save)}), desk, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def ask(server):
    """Return a function that sends a request, and returns the status and the JSON of the answer."""

    def ask(path, content, **headers):
        host = f"127.0.0.1:{server.server_address[1]}"
        connection = http.client.HTTPConnection(host, timeout=30)
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        usual = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json"}
        connection.request("POST", path, body, {**usual, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    return ask


@pytest.fixture
def get(server):
    """Return a function that gets a path, and returns the answer and its content."""

    def get(path, host=None):
        address = f"127.0.0.1:{server.server_address[1]}"
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", path, headers={"Host": host or address})
        answer = connection.getresponse()
        return answer, answer.read().decode()

    return get


# ----------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", AGENTS)
def test_numbers_are_those_of_the_agent(ask, agents, name):
    level = parse_level(TEXT)
    status, answer = ask("/evaluate", {"text": TEXT, "agent": name})
    assert status == 200
    results, expected = answer["results"], agents[name].evaluate(level)
    assert {row["length"]: row["probability"] for row in results["lengths"]} == agents[name].probabilities(level)
    record = expected.record()["levels"][0]
    for measure, value in results["agent"].items():
        assert value == record[measure], measure
    assert [row["best"] for row in results["lengths"]] == [2.0, 3.0]
    assert results["exact"] is True


def test_a_record_is_answered_like_its_text(ask):
    _, of_text = ask("/evaluate", {"text": TEXT, "agent": "generalist"})
    _, of_record = ask("/evaluate", {"level": of_text["level"]["record"], "agent": "generalist"})
    assert of_record == of_text
    assert parse_level(of_text["level"]["text"]) == parse_level(TEXT)


def test_arrows_are_probabilities_in_free_cells(ask):
    _, answer = ask("/evaluate", {"text": TEXT, "agent": "generalist"})
    (policy,) = answer["results"]["policies"]
    assert [panel["title"] for panel in policy["panels"]] == ["before B4", "after B4"]
    arrows = policy["panels"][0]["arrows"]
    assert sum(arrows[0][0]) == pytest.approx(1, abs=1e-3)
    assert arrows[1][0] is None  # a wall


def test_private_bits_have_policies_of_their_own(ask):
    _, answer = ask("/evaluate", {"text": TEXT, "agent": "generalist-bit"})
    policies = answer["results"]["policies"]
    assert [policy["title"] for policy in policies] == ["bit 0", "bit 1"]
    means = [sum(chances) / 2 for chances in zip(*(policy["probabilities"] for policy in policies), strict=True)]
    assert means == pytest.approx([row["probability"] for row in answer["results"]["lengths"]])


def test_an_episode_follows_its_clock(ask):
    _, answer = ask("/evaluate", {"text": TEXT, "agent": "generalist", "seed": 3})
    episodes = {episode["length"]: episode["moments"] for episode in answer["results"]["episodes"]}
    assert episodes.keys() == {4, 8}
    for length, moments in episodes.items():
        assert len(moments) == length + 1
        assert moments[0][:4] == [0, 0, 0, 4]
        assert moments[-1][3] == 0


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"text": "shutdown: 4\nA >\nC1 #"}, "level, map row 1, column 2: the door '>' leads into a wall"),
        ({"text": "A C1"}, "level: no shutdown time; expected a line 'shutdown: 4' above the map"),
        ({"text": "shutdown: 4\nA A C1"}, "level: 2 agents on the map"),
        ({"text": 3}, "the level is 3; expected the text of a level file"),
        ({}, "level: None; expected a JSON object"),
        ({"level": {"name": "x", "shutdown": 0, "map": ["A C1"]}}, "level: shutdown 0; expected a whole number"),
        ({"text": "shutdown: 1\nA . C1"}, "no coin"),
        ({"text": TEXT, "agent": "/etc"}, "no agent '/etc' on this page; expected one of generalist"),
        ({"text": TEXT, "agent": "generalist", "seed": -1}, "seed -1; expected a whole number"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(ask, content, sentence):
    status, answer = ask("/evaluate", {"agent": "generalist", **content})
    assert status == 200
    assert sentence in answer["error"]
    assert "\n" not in answer["error"]
    assert "results" not in answer


def test_a_large_level_is_refused_before_its_states_are_made(ask, desk):
    desk.limits = EvaluationLimits(memory_gib=1e-6)
    _, answer = ask("/evaluate", {"text": TEXT, "agent": "generalist"})
    assert "memory_gib=1e-06; evaluate by sampling (sampled=4096" in answer["error"]
    assert answer["level"]["text"] == format_level(parse_level(TEXT))


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "example.com", "Origin": "http://example.com"}, 403),
        ({"Content-Type": "text/plain"}, 400),
        ({"Content-Length": str(MOST_BYTES + 1)}, 413),
        ({"Content-Length": "-1"}, 411),
    ],
)
def test_a_foreign_request_is_refused(ask, headers, status):
    answered, answer = ask("/evaluate", {"text": TEXT, "agent": "generalist"}, **headers)
    assert answered == status
    assert answer.keys() == {"error"}


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_request_without_an_object_is_refused(ask, content):
    assert ask("/evaluate", content)[0] == 400


def test_the_page_is_only_for_this_machine(get):
    answer, html = get("/")
    assert answer.status == 200
    assert html.startswith("<!DOCTYPE html>")
    assert get("/", host="example.com")[0].status == 403
    assert get("/../pyproject.toml")[0].status == 404


def test_the_page_loads_nothing_else(get):
    _, html = get("/")
    assert "default-src 'none'" in html
    assert "connect-src 'self'" in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


# ----------------------------------------------------------------------------------------- files


def test_a_level_is_saved(ask, saved):
    status, answer = ask("/save", {"text": TEXT})
    assert status == 200
    assert answer == {"saved": str(saved)}
    (level,) = read_levels(saved)
    assert format_level(level) == format_level(parse_level(TEXT))


def test_a_file_is_replaced_only_on_request(ask, saved):
    saved.write_text("something else")
    assert ask("/save", {"text": TEXT})[1] == {"exists": str(saved)}
    assert saved.read_text() == "something else"
    assert ask("/save", {"text": TEXT, "overwrite": True})[1] == {"saved": str(saved)}
    assert ask("/save", {"text": TEXT.replace("C2", "C3")})[1] == {"saved": str(saved)}  # its own file
    saved.write_text("changed by another program")
    assert ask("/save", {"text": TEXT})[1] == {"exists": str(saved)}


def test_nothing_is_saved_without_a_file(ask, desk, tmp_path):
    desk.save = None
    assert "start it with save=FILE.txt" in ask("/save", {"text": TEXT, "save": "x.txt"})[1]["error"]
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_level_is_not_saved(ask, saved):
    assert "no shutdown time" in ask("/save", {"text": "A C1"})[1]["error"]
    assert not saved.exists()
