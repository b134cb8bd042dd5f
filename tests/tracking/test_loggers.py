"""Loggers: local files survive kills, and files of TensorBoard and W&B are read back."""

import math
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from PIL import Image

from drest_torch.errors import UserError
from drest_torch.tracking.sinks import LoggerConfig, Loggers, RunInfo, Sink, read_metrics
from drest_torch.tracking.wandb_sink import WandbSink
from tests.helpers.commands import python
from tests.helpers.documents import ROOT
from tests.helpers.wandb_reader import finished_files, read_config, read_history, read_id, read_summary, records

RUN_CONFIG = {"seed": 3, "algo": {"name": "ppo", "lr": 1e-3}}
METRICS = {"eval/train/usefulness": 0.5, "optim/lr": 0.001, "time/wall_seconds": 2.0}


def logging(sink, folder, continue_from=0, run_id=None):
    return Loggers(RunInfo(folder, LoggerConfig({sink: None}), RUN_CONFIG, run_id), continue_from)


def test_local_files_have_a_line_for_each_row(tmp_path):
    with logging("csv", tmp_path) as loggers:
        loggers.log(0, {"a/b": 1.5, "bad": math.nan, "worse": math.inf})
        loggers.log(10, {"a/b": 2, "new": 1e-30})
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,name,value\n0,a/b,1.5\n0,bad,\n0,worse,\n10,a/b,2.0\n10,new,1e-30\n"
    text = (tmp_path / "metrics.jsonl").read_text()
    assert text == '{"step": 0, "a/b": 1.5, "bad": null, "worse": null}\n{"step": 10, "a/b": 2.0, "new": 1e-30}\n'
    first, second = read_metrics(tmp_path / "metrics.jsonl")
    assert first == pytest.approx({"step": 0, "a/b": 1.5, "bad": math.nan, "worse": math.nan}, nan_ok=True)
    assert second == {"step": 10, "a/b": 2.0, "new": 1e-30}


CSV_TORN = [b"", b"50,a/b,0.", b'50,"late, an', b"\0\0\0", b"50"]
JSON_TORN = [b'{"st', b'{"step": 50, "a": 0.', b"[]", b'{"a": 1}', '{"step": 50, "é'.encode()[:-1]]


@pytest.mark.parametrize("torn", CSV_TORN + JSON_TORN, ids=repr)
def test_a_resumed_run_continues_after_its_checkpoint(tmp_path, torn):
    """The files equal those of an uninterrupted run, whatever a kill has left at their ends."""

    def log(folder, steps, **options):
        with logging("csv", folder, **options) as loggers:
            for step in steps:
                late = {"late, and quoted": step / 7} if step > 20 else {}
                loggers.log(step, {"a/b": step / 3, **late})

    names = ["metrics.csv", "metrics.jsonl"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    log(straight, range(0, 60, 10))
    log(killed, range(0, 50, 10))  # the checkpoint is at 20
    for name in names:
        (killed / name).write_bytes((killed / name).read_bytes() + torn)
    log(killed, range(30, 60, 10), continue_from=20)
    for name in names:
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), name
    assert sorted(path.name for path in killed.iterdir()) == names


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    path = tmp_path_factory.mktemp("picture") / "learning.png"
    Image.new("RGBA", (6, 4), (255, 0, 0, 255)).save(path)
    return path


def read_events(folder):
    """Return the data that TensorBoard reads from the run in a folder."""
    from tensorboard.backend.event_processing import event_accumulator as reader

    return reader.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()


def scalars(events, name):
    return [(event.step, event.value) for event in events.Scalars(name)]


@pytest.fixture(scope="module")
def tensorboard():
    """Skip a test if TensorBoard is missing."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed (the extra `tensorboard`)")


@pytest.fixture(scope="module")
def events(tensorboard, tmp_path_factory, picture):
    """Return the events of a run with three rows, a picture and a summary."""
    folder = tmp_path_factory.mktemp("tensorboard")
    with logging("tensorboard", folder) as loggers:
        for step in (0, 100, 200):
            loggers.log(step, {"eval/train/usefulness": step / 256, "bad": math.nan})
        loggers.picture("train/example", picture)
        loggers.summary({"train/usefulness": 0.75})
    assert loggers.run_id is None
    return read_events(folder)


def test_tensorboard_has_the_metrics(events):
    assert scalars(events, "eval/train/usefulness") == [(step, step / 256) for step in (0, 100, 200)]
    assert all(math.isnan(value) for _, value in scalars(events, "bad"))


def test_tensorboard_has_the_summary(events):
    assert scalars(events, "summary/train/usefulness") == [(200, 0.75)]


def test_tensorboard_has_the_picture(events):
    (image,) = events.Images("train/example")
    assert image.step == 200
    assert image.width == 6
    assert image.height == 4


def test_tensorboard_has_the_configuration(events):
    (text,) = events.Tensors("config/text_summary")
    assert b'"lr": 0.001' in text.tensor_proto.string_val[0]


def test_a_resumed_run_drops_later_rows_in_tensorboard(tensorboard, tmp_path):
    with logging("tensorboard", tmp_path) as killed:
        for step in (0, 100, 200, 300):  # the checkpoint is at 100
            killed.log(step, {"n": step})
    (file,) = (tmp_path / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    (tmp_path / "tensorboard" / "notes.txt").touch()
    with logging("tensorboard", tmp_path, continue_from=100) as resumed:
        for step in (200, 400):
            resumed.log(step, {"n": step + 1})
    assert scalars(read_events(tmp_path), "n") == [(0, 0), (100, 100), (200, 201), (400, 401)]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2  # the new file, and the user's notes


class OfflineRun(NamedTuple):
    """An offline run of W&B."""

    folder: Path
    path: Path
    """Its file of records."""
    run_id: str
    records: list[Any]


@pytest.fixture(scope="module")
def offline(tmp_path_factory, picture):
    """Return a run with three rows, a picture and a summary; logging leaves the environment as it was."""
    folder = tmp_path_factory.mktemp("wandb") / "the_run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("WANDB_ENTITY", "a-team")
        monkeypatch.setenv("WANDB_TAGS", "s,t")
        before = dict(os.environ)
        with Loggers(RunInfo(folder, LoggerConfig({"wandb": None}, group="g"), RUN_CONFIG)) as loggers:
            for step in (0, 100, 200):
                loggers.log(step, METRICS | {"step_squared": step**2, "bad": math.nan})
            loggers.picture("train/example", picture)
            loggers.summary({"train/usefulness": 0.75})
            assert dict(os.environ) == before
        assert dict(os.environ) == before
    (path,) = finished_files(folder)
    return OfflineRun(folder, path, loggers.run_id, list(records(path)))


def test_an_offline_run_has_its_names(offline):
    run = next(record.run for record in offline.records if record.HasField("run"))
    assert run.project == "drest_torch"
    assert run.display_name == "the_run"
    assert run.run_group == "g"
    assert run.entity == "a-team"
    assert list(run.tags) == ["s", "t"]
    assert read_id(offline.path) == offline.run_id


def test_an_offline_run_has_its_configuration(offline):
    assert read_config(offline.path).items() >= RUN_CONFIG.items()


def test_an_offline_run_has_its_summary(offline):
    assert read_summary(offline.path)["train/usefulness"] == 0.75


def test_an_offline_run_has_every_metric(offline):
    *rows, _ = read_history(offline.path)
    assert [row["step"] for row in rows] == [0, 100, 200]
    for row, local in zip(rows, read_metrics(offline.folder / "metrics.jsonl"), strict=True):
        assert {name: value for name, value in row.items() if name[0] != "_"} == pytest.approx(local, nan_ok=True)


def test_the_step_is_the_axis_of_every_metric(offline):
    metrics = [record.metric for record in offline.records if record.HasField("metric")]
    (metric,) = (metric for metric in metrics if metric.glob_name)
    assert metric.glob_name == "*"
    assert metric.step_metric == "step"


def test_an_offline_run_has_its_picture(offline):
    *_, row = read_history(offline.path)
    assert row["step"] == 200
    assert (offline.path.parent / "files" / row["train/example.path"]).is_file()


def test_an_offline_run_records_nothing_else(offline):
    files = offline.path.parent / "files"
    assert {path.relative_to(files).parts[0] for path in files.rglob("*") if path.is_file()} == {"media"}
    assert not any(record.HasField("stats") for record in offline.records)
    assert not any(record.HasField("output_raw") for record in offline.records)


def test_the_newest_file_of_a_resumed_run_is_complete(tmp_path):
    first = logging("wandb", tmp_path)
    for step in (0, 100, 200, 300):
        first.log(step, METRICS | {"n": step})
    with pytest.raises(ZeroDivisionError), first:
        raise ZeroDivisionError
    with logging("wandb", tmp_path, 200, first.run_id) as second:
        for step in (300, 400):
            second.log(step, METRICS | {"n": step})
    assert first.run_id == second.run_id
    failed, newest = finished_files(tmp_path)
    assert [record.exit.exit_code for record in records(failed) if record.HasField("exit")] == [1]
    assert read_id(newest) == first.run_id
    assert [(row["step"], row["n"]) for row in read_history(newest)] == [(n, n) for n in (0, 100, 200, 300, 400)]


@pytest.mark.parametrize(("mode", "resume"), [("online", "allow"), ("offline", None)], ids=["online", "offline"])
def test_a_resumed_run_keeps_its_id(mode, resume, tmp_path, monkeypatch):
    """Online, the server continues the run; offline, its earlier rows are logged again."""
    monkeypatch.setattr("wandb.init", init := Mock())
    monkeypatch.setenv("WANDB_NAME", "mine")
    config, earlier = LoggerConfig(mode=mode, project="p"), [{"step": 5, "a": 1.0}]
    sink = WandbSink(RunInfo(tmp_path, config, RUN_CONFIG, "known", earlier), {})
    arguments = init.call_args.kwargs
    expected = {"id": "known", "resume": resume, "mode": mode, "project": "p", "name": "mine", "config": RUN_CONFIG}
    assert {name: arguments.get(name) for name in expected} == expected
    assert sink._run.log.call_count == (0 if mode == "online" else 1)
    sink.close(failed=True)
    sink._run.finish.assert_called_once_with(exit_code=1)


def test_an_invalid_value_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"^logger\.mode=offline: W&B could not be started \(.*project.*\); correct"):
        WandbSink(RunInfo(tmp_path, LoggerConfig(project="a/b")), {})


BEGIN = "import sys\nfrom pathlib import Path\nfrom drest_torch.tracking.sinks import *\n"


@pytest.mark.parametrize(
    "config", ["LoggerConfig()", "LoggerConfig({'wandb': None}, mode='disabled')"], ids=["none", "disabled"]
)
def test_an_unused_sink_imports_nothing_heavy(tmp_path, config):
    program = (
        f"{BEGIN}with Loggers(RunInfo(Path('run'), {config})) as loggers:\n"
        "    loggers.log(1, {'a': 1.0})\n"
        "    loggers.picture('p', Path('p.png'))\n"
        "    loggers.summary({'a': 1.0})\n"
        "print(loggers.run_id, {'wandb', 'torch', 'matplotlib', 'tensorboard', 'PIL'} & set(sys.modules))\n"
    )
    assert python("-c", program, cwd=tmp_path).split() == ["None", "set()"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{'wandb': None}, mode='online'", ["logger.mode=online: ", "wandb login", "logger.mode=offline"]),
        ("{'tensorboard': None}", ["logger=tensorboard needs the package tensorboard", "pip install tensorboard"]),
    ],
    ids=["wandb", "tensorboard"],
)
def test_a_sink_that_cannot_start_is_refused_in_one_sentence(tmp_path, config, words):
    """At a terminal without a key or a server, wandb would by default ask for the key and wait."""
    program = (
        f"{BEGIN}sys.modules['tensorboard'] = None\n"
        "try:\n"
        f"    Loggers(RunInfo(Path('.'), LoggerConfig({config})))\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "NETRC"))}
    env |= {"HOME": str(tmp_path), "WANDB_BASE_URL": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
    ours, terminal = pty.openpty()
    command, streams = [sys.executable, "-c", program], {"stdin": terminal, "stderr": terminal}
    # By default, wandb tries for 90 s.
    printed = subprocess.check_output(command, text=True, env=env, cwd=tmp_path, timeout=60, **streams)
    os.close(ours)
    os.close(terminal)
    (sentence,) = printed.splitlines()
    assert sentence.startswith(words[0])
    for text in words:
        assert text in sentence


class Logger(Sink):
    """A third-party sink that records its calls in a list."""

    def __init__(self, run, options):
        self.calls = options["calls"]
        self.calls.extend(run.earlier)

    def log(self, *arguments):
        self.calls.append(arguments)

    picture = summary = log

    def close(self, *, failed):
        self.calls.append("failed" if failed else "closed")


def test_a_third_party_sink_gets_everything_after_the_checkpoint(tmp_path):
    with Loggers(RunInfo(tmp_path, LoggerConfig())) as loggers:
        for step in (10, 20, 30):
            loggers.log(step, {"a": step})
    calls = []
    with Loggers(RunInfo(tmp_path, LoggerConfig({__name__: {"calls": calls}})), continue_from=20) as loggers:
        loggers.log(30, {"a": 31})
        loggers.picture("p", Path("folder") / "p.png")
        loggers.summary({"u": 1.0})
    earlier = [{"step": 10, "a": 10.0}, {"step": 20, "a": 20.0}]
    assert calls == [*earlier, (30, {"a": 31}), (30, "p", Path("folder") / "p.png"), (30, {"u": 1.0}), "closed"]
    assert read_metrics(tmp_path / "metrics.jsonl") == [*earlier, {"step": 30, "a": 31}]
