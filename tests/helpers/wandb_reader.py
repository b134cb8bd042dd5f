"""A reader of the ``.wandb`` file of an offline run of W&B: blocks of records as in a LevelDB log.

A file begins with a header of 7 bytes. Blocks have 32 KiB. A record's pieces have a header of checksum (4 bytes),
length (2) and kind (1: whole, 2: first, 3: middle, 4: last piece). A record that a kill cut off is left out.
"""

import json

from wandb.proto.wandb_internal_pb2 import Record

from tests.helpers.job_runners import wait_for

BLOCK, FILE_HEADER, PIECE_HEADER = 32768, 7, 7


def records(path):
    data, at, record = path.read_bytes(), FILE_HEADER, b""
    while at + PIECE_HEADER <= len(data):
        if BLOCK - at % BLOCK < PIECE_HEADER:  # too little room for a header: the block is filled up
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        at += PIECE_HEADER
        if kind == 0 or at + length > len(data):
            return
        record = data[at : at + length] if kind in (1, 2) else record + data[at : at + length]
        at += length
        if kind in (1, 4):
            yield Record.FromString(record)


def finished_files(folder):
    """Return the ``.wandb`` files of a run's folder, the oldest first, after waiting until they are complete.

    A process of wandb writes the last records some milliseconds after ``finish`` has returned.
    """
    paths = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    wait_for(lambda: all(any(record.HasField("exit") for record in records(path)) for path in paths))
    return paths


def read_history(path):
    """Return a dictionary for each ``log``. Keys of wandb begin with an underscore; pictures have ``name.path``."""
    return [_values(record.history.item) for record in records(path) if record.HasField("history")]


def read_config(path):
    return _values(item for record in records(path) for item in (*record.run.config.update, *record.config.update))


def read_summary(path):
    return _values(item for record in records(path) for item in record.summary.update)


def read_id(path):
    return next(record.run.run_id for record in records(path) if record.HasField("run"))


def _values(items):
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
