"""The README's table of what is reproduced says what the studies found, and they still find it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from drest_torch.jobs.tabular_job import last, train
from drest_torch.studies.example import study as example
from tests.helpers.documents import load
from tests.helpers.studies import composed_study

reproduction = load("reproduction")


def kept():
    return json.loads(reproduction.KEPT.read_text("utf-8"))


def test_the_readme_says_what_the_studies_found():
    written = reproduction.between_marks(reproduction.README.read_text("utf-8"))
    assert written == reproduction.table(kept())


def test_a_number_that_drifts_is_noticed():
    written = reproduction.between_marks(reproduction.README.read_text("utf-8"))
    changed = re.sub(r"U 0\.(\d)", lambda match: f"U 0.{(int(match[1]) + 1) % 10}", written, count=1)
    assert changed != reproduction.table(kept())


def test_the_table_is_written_between_the_marks(tmp_path, monkeypatch):
    readme, lines = tmp_path / "README.md", tmp_path / "kept.json"
    readme.write_text(f"before\n{reproduction.BEGIN}\nold\n{reproduction.END}\nafter\n", "utf-8")
    monkeypatch.setattr(reproduction, "README", readme)
    monkeypatch.setattr(reproduction, "KEPT", lines)
    quote = {"what": "a|b", "reported": "", "measured": "U 0.9"}
    (tmp_path / "results" / "one").mkdir(parents=True)
    (tmp_path / "results" / "one" / "summary.json").write_text(json.dumps({"quotes": [quote]}), "utf-8")
    reproduction.main(tmp_path / "results")
    assert readme.read_text("utf-8").startswith("before\n" + reproduction.BEGIN + "\n| study |")
    assert "| `one` | a\\|b |  | U 0.9 |\n" + reproduction.END + "\nafter" in readme.read_text("utf-8")
    assert json.loads(lines.read_text("utf-8")) == {"one": [quote]}


def test_no_results_is_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="no summaries of studies"):
        reproduction.main(tmp_path)


@pytest.mark.slow
def test_the_code_still_finds_the_first_line_of_the_table():
    """The ten default and ten DReST agents of the paper's Figure 3, trained anew."""
    cfg = composed_study("example")
    lines = {quote["what"]: quote["measured"] for quote in kept()["example"]}
    for reward, words in example.REWARDS.items():
        job = next(job for job in example.jobs(cfg) if job.name == f"as-in-paper-moves-{reward}")
        spec = job.spec | {"agents": cfg.agents_in_paper, "evaluated_on": ["steps"]}
        spec["training"] = spec["training"] | {"evaluate_every": cfg.training.meta_episodes}
        result = train(spec, Path("."))
        beginning = f"example, {words}, trained on moves, evaluated on timesteps"
        line = next(measured for what, measured in lines.items() if what.startswith(beginning))
        for measure in ("neutrality", "usefulness"):
            mean, sd = (float(each) for each in re.search(rf"{measure[0].upper()} (\S+) ± ([\d.]+)", line).groups())
            values = last(result, "steps", measure)
            assert np.isclose(values.mean(), mean, atol=6e-4)
            assert np.isclose(values.std(ddof=1), sd, atol=6e-4)
