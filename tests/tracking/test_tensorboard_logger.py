"""TensorBoard's event files are read back: scalars, pictures, the summary, and a resumed run as one."""

import math
import subprocess
import sys

import pytest

from drest_torch.tracking.sinks import LoggerConfig, Loggers

TENSORBOARD = LoggerConfig({"tensorboard": None})
NO_TENSORBOARD = "tensorboard is not installed (the extra `tensorboard`)"


def read(folder):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=NO_TENSORBOARD
    ).EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    return accumulator.Reload()


def scalars(folder, name):
    return [(event.step, event.value) for event in read(folder).Scalars(name)]


def test_metrics_pictures_configuration_and_summary_are_read_back(tmp_path):
    pytest.importorskip("tensorboard", reason=NO_TENSORBOARD)
    from PIL import Image

    Image.new("RGBA", (6, 4), (255, 0, 0, 255)).save(tmp_path / "red.png")
    with Loggers(TENSORBOARD, tmp_path, {"algo": {"lr": 0.25}}) as loggers:
        for step in (0, 100, 200):
            loggers.log(step, {"eval/train/usefulness": step / 256, "bad": math.nan})
        loggers.picture("train/example", tmp_path / "red.png")
        loggers.summary({"train/usefulness": 0.75})
    events = read(tmp_path)
    assert scalars(tmp_path, "eval/train/usefulness") == [(step, step / 256) for step in (0, 100, 200)]
    assert all(math.isnan(value) for _, value in scalars(tmp_path, "bad"))
    assert scalars(tmp_path, "summary/train/usefulness") == [(200, 0.75)]
    (picture,) = events.Images("train/example")
    assert (picture.step, picture.width, picture.height) == (200, 6, 4)
    (text,) = events.Tensors("config/text_summary")
    assert b'"lr": 0.25' in text.tensor_proto.string_val[0]
    assert loggers.run_id is None


def test_a_resumed_run_is_one_without_what_was_logged_after_its_checkpoint(tmp_path):
    pytest.importorskip("tensorboard", reason=NO_TENSORBOARD)
    with Loggers(TENSORBOARD, tmp_path, {}) as killed:
        for step in (0, 100, 200, 300):  # the checkpoint is at 100
            killed.log(step, {"n": step})
    (file,) = (tmp_path / "tensorboard").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    (tmp_path / "tensorboard" / "notes.txt").touch()
    with Loggers(TENSORBOARD, tmp_path, {}, continue_from=100) as resumed:
        for step in (200, 400):
            resumed.log(step, {"n": step + 1})
    assert scalars(tmp_path, "n") == [(0, 0), (100, 100), (200, 201), (400, 401)]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2  # and nothing was removed that is the user's


def test_without_the_package_one_sentence_names_the_remedy(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from drest_torch.tracking.sinks import LoggerConfig, LoggerError, Loggers\n"
        "sys.modules['tensorboard'] = None\n"
        "try:\n"
        f"    Loggers(LoggerConfig({{'tensorboard': None}}), Path({str(tmp_path)!r}), {{}})\n"
        "except LoggerError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    (sentence,) = done.stdout.splitlines()
    assert sentence.startswith("logger=tensorboard needs the package tensorboard")
    assert "pip install tensorboard" in sentence
