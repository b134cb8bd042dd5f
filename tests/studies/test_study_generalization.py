"""The study of generalization: its runs, rows of hand-made results, and claims that other rows refute."""

import pytest

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.studies import generalization as study
from drest_torch.studies.generalization.evaluation import EVALUATED_FILE, TRAIN_FILE
from drest_torch.studies.generalization.runs import Key
from drest_torch.studies.study_rows import digest_of
from tests.helpers.studies import composed_study


def composed_part(part, *overrides):
    return composed_study("generalization", f"study.parts=[{part}]", "study.seeds=2", *overrides)


@pytest.fixture
def files(tmp_path):
    """A folder with the follow-up's two files, and one level in each."""
    level = '{"name": "NAME", "shutdown": 3, "map": ["A C1 B2", ". . .", "C2 . ."]}\n'
    for name in (TRAIN_FILE, EVALUATED_FILE):
        (tmp_path / name).write_text(level.replace("NAME", name))
    return tmp_path


def test_a_run_for_each_number_of_levels_and_seed():
    runs = study.jobs(composed_part("curve", "study.numbers.ppo=[1,64]", "study.numbers.a2c=[64]"))
    of_two = [(key.agent, key.levels, key.seed) for key in runs if key.agent in ("ppo", "a2c")]
    assert of_two == [(agent, k, seed) for agent, k in (("ppo", 1), ("ppo", 64), ("a2c", 64)) for seed in range(2)]
    configs = {key: job.spec["config"] for key, job in runs.items()}
    assert all(config["levels"]["train"] == key.levels for key, config in configs.items())
    assert all(config["seed"] == key.seed for key, config in configs.items())
    assert len({config["levels"]["split_seed"] for config in configs.values()}) == 1


def test_parts_share_the_agents_of_the_curve():
    of_curve, of_networks = (study.jobs(composed_part(part)) for part in ("curve", "networks"))
    shared = of_curve.keys() & of_networks.keys()
    assert shared == {Key("short", "ppo", "symmetric", "followup_like", 4096, seed) for seed in range(2)}
    assert all(of_curve[key] == of_networks[key] for key in shared)


def test_the_follow_up_is_left_out_without_its_files():
    assert study.jobs(composed_part("follow_up")) == {}


def test_runs_are_known_by_the_content_of_files(files, tmp_path):
    def digests(folder):
        runs = study.jobs(composed_part("follow_up", f"study.follow_up_levels={folder}"))
        return [job.digest() for job in runs.values()]

    other = tmp_path / "other"
    other.mkdir()
    for name in (TRAIN_FILE, EVALUATED_FILE):
        (other / name).write_bytes((files / name).read_bytes())
    assert digests(files) == digests(other)
    (other / TRAIN_FILE).write_text((files / TRAIN_FILE).read_text() * 2)
    assert not set(digests(files)) & set(digests(other))


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=rf"{EVALUATED_FILE}: no such file; expected {TRAIN_FILE}"):
        study.jobs(composed_part("long", f"study.follow_up_levels={tmp_path}"))


def test_the_folder_of_files_is_no_value_of_the_study(files):
    with_files = composed_study("generalization", f"study.follow_up_levels={files}")
    assert digest_of(with_files) == digest_of(composed_study("generalization"))
    assert digest_of(with_files) != digest_of(composed_study("generalization", "study.seeds=3"))


def test_places_are_no_part_of_what_a_run_is():
    runs = [Job("a", "m:f", {"seed": 0}, {"train.jsonl": place}) for place in ("/here", "/there")]
    assert runs[0].digest() == runs[1].digest()
