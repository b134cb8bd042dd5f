"""Read what an offline run of W&B wrote: its ``.wandb`` file, blocks of records as in a LevelDB log.

A file begins with 7 bytes of its own. Blocks are 32 KiB; a record's pieces have a header of checksum (4
bytes), length (2) and kind (1: whole, 2: first, 3: middle, 4: last piece). What a kill cut off is left out.
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
    """The ``.wandb`` files of a run's folder, the oldest first, waited for until they have ended.

    wandb's own process writes the last records some milliseconds after ``finish`` has returned.
    """
    paths = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    wait_for(lambda: all(any(each.HasField("exit") for each in records(path)) for path in paths))
    return paths


def read_history(path):
    """One dictionary for each ``log``; wandb's own keys begin with an underscore, a picture's path is ``name.path``."""
    return [_values(each.history.item) for each in records(path) if each.HasField("history")]


def read_config(path):
    return _values(item for each in records(path) for item in (*each.run.config.update, *each.config.update))


def read_summary(path):
    return _values(item for each in records(path) for item in each.summary.update)


def read_id(path):
    return next(each.run.run_id for each in records(path) if each.HasField("run"))


def _values(items):
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
