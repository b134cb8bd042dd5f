"""Progress of runs and studies, and the final table: live lines in a terminal, plain text elsewhere."""

import io
from types import SimpleNamespace

import pytest

from drest_torch.jobs.executor import Again, Finished, Started
from drest_torch.jobs.job import Failure, Job, Result
from drest_torch.jobs.job_progress import JobProgress
from drest_torch.tracking.console import print_table
from drest_torch.tracking.progress import Progress
from tests.helpers.commands import Terminal

METRICS = {
    "eval/train/usefulness": 0.91,
    "eval/train/neutrality": 0.82,
    "eval/test/usefulness": 0.73,
    "train/return": 1.25,
    "policy/entropy": 0.5,
    "loss/critic": 0.001,
}


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("drest_torch.tracking.progress.monotonic", lambda: clock.now)
    return clock


def train_for(stream, clock, *, updates, seconds, done=0):
    with Progress(1000, done=done, title="a run", stream=stream) as progress:
        for i in range(updates):
            clock.now += seconds
            progress.update(done + (i + 1) * 100, METRICS)
    return progress


def test_outside_a_terminal_a_line_is_written_each_minute(clock, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream, note = io.StringIO(), "[bold]the folder[/bold] is " + "runs/" * 40
    train_for(stream, clock, updates=6, seconds=25).note(note)
    first, second, last = stream.getvalue().splitlines()
    assert "300 / 1,000 steps   4 steps/s   0:02:55 left" in first
    assert "600 / 1,000 steps" in second
    assert "usefulness train 0.910, test 0.730   neutrality train 0.820   training return 1.250" in second
    assert last == note


def test_steps_before_a_resume_do_not_count_for_the_rate(clock):
    stream = Terminal()
    assert train_for(stream, clock, updates=2, seconds=5, done=600).rate == 20
    assert "800 / 1,000 steps   20 steps/s   0:00:10 left" in stream.plain()


JOBS = [Job(f"run/{i}", "a.module:runner", {}) for i in range(40)]


def study(stream, clock):
    """Run 40 jobs. Ten exist already; the others run in pairs for a minute each. run/12 fails, and the last pair does
    not end."""
    with JobProgress(40, title="a running study", stream=stream) as progress:
        for job in JOBS[:10]:
            progress(Finished(job, Result({}), None, 0.0, existed=True))
        for i in range(10, 40, 2):
            pair = JOBS[i : i + 2]
            for job in pair:
                progress(Started(job))
            if i == 38:
                return stream
            clock.now += 60
            for job in pair:
                result, failure = Result({}), None
                if job.name == "run/12":
                    result, failure = None, Failure(job, "a [reason]", "")
                progress(Finished(job, result, failure, 60.0))


def test_the_live_lines_of_a_study(clock):
    stream = study(Terminal(), clock)
    text = stream.plain()
    head, state, running = text[text.rindex("a running study") :].splitlines()  # as they were written last
    assert head.endswith("95%")
    assert state == "38 / 40 runs   10 from before   1 failed   2 runs/min   0:01:00 left"
    assert running == "running run/38, run/39"
    assert stream.getvalue().count("a running study: run/12 failed: a [reason]") == 1


def test_outside_a_terminal_a_study_writes_its_failures(clock):
    lines = study(io.StringIO(), clock).getvalue().splitlines()
    assert lines[:3] == [
        "a running study: 11 / 40 runs   10 from before   1 runs/min   0:29:00 left",
        "a running study: run/12 failed: a [reason]",
        "a running study: 13 / 40 runs   10 from before   1 failed   1.5 runs/min   0:18:00 left",
    ]
    assert [int(line.split()[3]) for line in lines[2:]] == [*range(13, 38, 2)]  # two runs end each minute


def test_a_restarted_run_is_mentioned(clock):
    stream = io.StringIO()
    with JobProgress(1, title="a running study", stream=stream) as progress:
        progress(Started(JOBS[0]))
        progress(Again(JOBS[0], "its node died"))
        assert progress.running == {}
        progress(Started(JOBS[0]))
        assert list(progress.running) == ["run/0"]
    assert stream.getvalue() == "a running study: run/0 begins again: its node died\n"


def numbers(levels, *policies, **further):
    """Return the numbers of a split from usefulness and neutrality of the agent, the random policy and the optimum."""
    agent, uniform, optimum = ({"usefulness": u, "neutrality": n} for u, n in policies)
    return {**agent, "levels": levels, "uniform": uniform, "optimum": optimum, **further}


def printed(splits):
    stream = io.StringIO()
    print_table(splits, 1.0, stream)
    return stream.getvalue()


def test_the_table_is_plain_text_outside_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    splits = {
        "train": numbers(2048, (0.951, 0.912), (0.123, 0.234), (1.0, 1.0)),
        "test": numbers(200, (0.873, 0.854), (0.115, 0.226), (1.0, 1.0)),
        "paper": numbers(9, (0.5, 0.75), (0.1, 0.2), (1.0, 4 / 3)),
        "a file of levels with a long name/" * 5: numbers(10**6, *[(0.5, 0.5)] * 3),
    }
    text = printed(splits)
    lines = [line.split() for line in text.splitlines()]
    assert ["usefulness", "neutrality"] in lines
    assert ["levels", "number", *["agent", "uniform", "optimum"] * 2] in lines
    assert ["training", "2,048", "0.951", "0.123", "1.000", "0.912", "0.234", "1.000"] in lines
    assert ["test", "200", "0.873", "0.115", "1.000", "0.854", "0.226", "1.000"] in lines
    assert ["paper", "9", "0.500", "0.100", "1.000", "0.750", "0.200", "1.333"] in lines
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    assert "1,000,000" in text


@pytest.mark.parametrize(
    ("further", "is_printed"),
    [({}, False), ({"neutrality_own": 0.999}, False), ({"neutrality_own": 0.123}, True)],
    ids=["not known", "equal", "lower"],
)
def test_neutrality_given_the_bits_is_printed_where_it_differs(further, is_printed):
    text = printed({"paper": numbers(9, (1.0, 0.999), (1.0, 1.0), (1.0, 1.0), **further)})
    assert ("own" in text) == is_printed
    assert ("private bits" in text) == is_printed
    assert ("0.123" in text) == is_printed


@pytest.mark.parametrize("splits", [("train", "test"), ("test", "train")], ids=["second", "first"])
def test_a_difference_in_one_split_adds_the_column(splits):
    same, lower = (numbers(9, (1.0, 0.999), (1.0, 1.0), (1.0, 1.0), neutrality_own=bits) for bits in (0.999, 0.123))
    text = printed(dict(zip(splits, (same, lower), strict=True)))
    assert "private bits" in text
    assert "0.123" in text
