"""What a run logs: the local file survives kills, and an offline run of W&B is read back from its file."""

import math
import os
import pty
import subprocess
import sys
from pathlib import Path
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


def test_a_line_for_each_step_or_each_of_its_metrics(tmp_path):
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


@pytest.mark.parametrize("torn", CSV_TORN + JSON_TORN)
def test_a_resumed_run_continues_after_its_checkpoint(tmp_path, torn):
    """After a kill, whatever it has left at the ends of files, the same bytes as if there had been none."""

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
    assert sorted(each.name for each in killed.iterdir()) == names


@pytest.fixture
def events(tmp_path):
    """A function that reads what TensorBoard knows of the run in the test's folder."""
    module = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(module, reason="tensorboard is not installed (the extra `tensorboard`)")
    return lambda: reader.EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"scalars": 0}).Reload()


def scalars(found, name):
    return [(event.step, event.value) for event in found.Scalars(name)]


def test_metrics_pictures_configuration_and_summary_are_read_back_from_tensorboard(tmp_path, picture, events):
    with logging("tensorboard", tmp_path) as loggers:
        for step in (0, 100, 200):
            loggers.log(step, {"eval/train/usefulness": step / 256, "bad": math.nan})
        loggers.picture("train/example", picture)
        loggers.summary({"train/usefulness": 0.75})
    found = events()
    assert scalars(found, "eval/train/usefulness") == [(step, step / 256) for step in (0, 100, 200)]
    assert all(math.isnan(value) for _, value in scalars(found, "bad"))
    assert scalars(found, "summary/train/usefulness") == [(200, 0.75)]
    (image,) = found.Images("train/example")
    assert (image.step, image.width, image.height) == (200, 6, 4)
    (text,) = found.Tensors("config/text_summary")
    assert b'"lr": 0.001' in text.tensor_proto.string_val[0]
    assert loggers.run_id is None


def test_a_resumed_run_is_one_in_tensorboard_without_what_was_logged_after_its_checkpoint(tmp_path, events):
    with logging("tensorboard", tmp_path) as killed:
        for step in (0, 100, 200, 300):  # the checkpoint is at 100
            killed.log(step, {"n": step})
    (file,) = (tmp_path / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    (tmp_path / "tensorboard" / "notes.txt").touch()
    with logging("tensorboard", tmp_path, continue_from=100) as resumed:
        for step in (200, 400):
            resumed.log(step, {"n": step + 1})
    assert scalars(events(), "n") == [(0, 0), (100, 100), (200, 201), (400, 401)]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2  # and nothing was removed that is the user's


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "learning.png"
    Image.new("RGBA", (6, 4), (255, 0, 0, 255)).save(path)
    return path


def test_an_offline_run_is_read_back_with_every_metric_and_nothing_else(tmp_path, picture, monkeypatch):
    monkeypatch.setenv("WANDB_ENTITY", "a-team")
    monkeypatch.setenv("WANDB_TAGS", "s,t")
    folder, before = tmp_path / "the_run", dict(os.environ)
    run = RunInfo(folder, LoggerConfig({"wandb": None}, group="g"), RUN_CONFIG)
    with Loggers(run) as loggers:
        for step in (0, 100, 200):
            loggers.log(step, METRICS | {"step_squared": step**2, "bad": math.nan})
        loggers.picture("train/example", picture)
        loggers.summary({"train/usefulness": 0.75})
        assert dict(os.environ) == before
    assert dict(os.environ) == before
    (path,) = finished_files(folder)
    found = list(records(path))
    assert read_id(path) == loggers.run_id
    run = next(each.run for each in found if each.HasField("run"))
    assert (run.project, run.display_name, run.run_group) == ("drest_torch", "the_run", "g")
    assert (run.entity, list(run.tags)) == ("a-team", ["s", "t"])
    assert read_config(path).items() >= RUN_CONFIG.items()
    assert read_summary(path)["train/usefulness"] == 0.75
    *rows, with_picture = read_history(path)
    assert [row["step"] for row in rows] == [0, 100, 200]
    for row, local in zip(rows, read_metrics(folder / "metrics.jsonl"), strict=True):
        assert {name: value for name, value in row.items() if name[0] != "_"} == pytest.approx(local, nan_ok=True)
    assert with_picture["step"] == 200
    files = path.parent / "files"
    assert (files / with_picture["train/example.path"]).is_file()
    assert {each.relative_to(files).parts[0] for each in files.rglob("*") if each.is_file()} == {"media"}
    (metric,) = (each.metric for each in found if each.HasField("metric") and each.metric.glob_name)
    assert (metric.glob_name, metric.step_metric) == ("*", "step")  # the axis
    assert not any(each.HasField("stats") or each.HasField("output_raw") for each in found)


def test_a_run_that_is_resumed_after_an_error_keeps_its_id_and_its_newest_file_is_the_whole_run(tmp_path):
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
    assert [each.exit.exit_code for each in records(failed) if each.HasField("exit")] == [1]
    assert read_id(newest) == first.run_id
    assert [(row["step"], row["n"]) for row in read_history(newest)] == [(n, n) for n in (0, 100, 200, 300, 400)]


@pytest.mark.parametrize(("mode", "resume"), [("online", "allow"), ("offline", None)])
def test_a_resumed_run_is_begun_under_its_id(mode, resume, tmp_path, monkeypatch):
    """Online the server goes on with it; offline the rows so far are logged again."""
    monkeypatch.setattr("wandb.init", init := Mock())
    monkeypatch.setenv("WANDB_NAME", "mine")
    config, earlier = LoggerConfig(mode=mode, project="p"), [{"step": 5, "a": 1.0}]
    sink = WandbSink(RunInfo(tmp_path, config, RUN_CONFIG, "known", earlier), {})
    told = init.call_args.kwargs
    expected = {"id": "known", "resume": resume, "mode": mode, "project": "p", "name": "mine", "config": RUN_CONFIG}
    assert {name: told.get(name) for name in expected} == expected
    assert sink._run.log.call_count == (0 if mode == "online" else 1)
    sink.close(failed=True)
    sink._run.finish.assert_called_once_with(exit_code=1)


def test_a_wrong_value_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"^logger\.mode=offline: W&B could not be started \(.*project.*\); correct"):
        WandbSink(RunInfo(tmp_path, LoggerConfig(project="a/b")), {})


BEGIN = "import sys\nfrom pathlib import Path\nfrom drest_torch.tracking.sinks import *\n"


@pytest.mark.parametrize("config", ["LoggerConfig()", "LoggerConfig({'wandb': None}, mode='disabled')"])
def test_nothing_heavy_is_imported_for_a_sink_that_is_not_used(tmp_path, config):
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
)
def test_a_sink_that_cannot_start_says_so_in_one_sentence_and_asks_nothing(tmp_path, config, words):
    """Also on a terminal, where wandb would ask for the key and wait; it has no key, and no server in reach."""
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
    # By itself, wandb tries for 90 s.
    printed = subprocess.check_output(command, text=True, env=env, cwd=tmp_path, timeout=60, **streams)
    os.close(ours)
    os.close(terminal)
    (sentence,) = printed.splitlines()
    assert sentence.startswith(words[0])
    assert all(each in sentence for each in words)


class Logger(Sink):
    """A sink that keeps all that it is told."""

    def __init__(self, run, options):
        self.told = options["into"]
        self.told.extend(run.earlier)

    def log(self, *what):
        self.told.append(what)

    picture = summary = log

    def close(self, *, failed):
        self.told.append("failed" if failed else "closed")


def test_a_sink_from_outside_is_told_everything_after_what_it_is_to_hold(tmp_path):
    with Loggers(RunInfo(tmp_path, LoggerConfig())) as loggers:
        for step in (10, 20, 30):
            loggers.log(step, {"a": step})
    told = []
    with Loggers(RunInfo(tmp_path, LoggerConfig({__name__: {"into": told}})), continue_from=20) as loggers:
        loggers.log(30, {"a": 31})
        loggers.picture("p", Path("folder") / "p.png")
        loggers.summary({"u": 1.0})
    earlier = [{"step": 10, "a": 10.0}, {"step": 20, "a": 20.0}]
    assert told == [*earlier, (30, {"a": 31}), (30, "p", Path("folder") / "p.png"), (30, {"u": 1.0}), "closed"]
    assert read_metrics(tmp_path / "metrics.jsonl") == [*earlier, {"step": 30, "a": 31}]
