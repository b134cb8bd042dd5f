"""The published tables say what the studies found, and the code still finds it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from drest_torch.jobs.tabular_job import last, train
from drest_torch.studies import example
from drest_torch.studies.example.claims import end_of
from drest_torch.studies.shared import AS_REPORTED
from drest_torch.studies.study_rows import read_rows
from tests.helpers.documents import load
from tests.helpers.studies import composed_study

tables = load("tables")


def kept():
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(tables.KEPT.glob("*.json"))}


SCORE = {
    "part": "learning",
    "title": "PPO on example",
    "arguments": "algo=ppo",
    "split": "train",
    "levels": 9,
    "wanted": {"usefulness": 0.95, "neutrality_at_most": 0.3},
    "usefulness": [0.9, 0.97, 0.96],
    "neutrality": [0.1, 0.2, 0.0],
    "seconds": 3.0,
    "training": "1.0 M steps",
    "reached": 2,
}


def test_the_rows_follow_from_the_results_of_studies(tmp_path, monkeypatch):
    folder, docs = tmp_path / "kept", tmp_path / "docs"
    folder.mkdir()
    docs.mkdir()
    monkeypatch.setattr(tables, "DOCS", docs)
    monkeypatch.setattr(tables, "KEPT", folder)
    for path, names in ((tmp_path / "README.md", ("headlines",)), (docs / "page.md", ("goals learning", "quotes"))):
        marks = [f"<!-- {name}: written by python docs/tables.py -->\nold\n<!-- end -->\n" for name in names]
        path.write_text(f"before\n{''.join(marks)}after\n", "utf-8")
    quote = {"what": "a|b", "reported": "", "measured": "U 0.9"}
    for study, summary in (("one", {"quotes": [quote], "more": 1}), ("goals", {"quotes": [quote], "goals": [SCORE]})):
        (tmp_path / "results" / study).mkdir(parents=True)
        (tmp_path / "results" / study / "summary.json").write_text(json.dumps(summary), "utf-8")
    tables.main(tmp_path / "results")
    readme, page = (path.read_text("utf-8") for path in (tmp_path / "README.md", docs / "page.md"))
    row = "| `algo=ppo` | its training levels (9) | 1.0 M steps | 0.960 | 0.100 | 3 |"
    assert readme.startswith("before\n<!-- headlines: written by python docs/tables.py -->\n| `drest train …` |")
    assert f"{row}\n<!-- end -->\nafter" in readme
    assert "U ≥ 0.95, N ≤ 0.3 | 0.960 (0.900 to 0.970) | 0.100 (0.000 to 0.200) | ◐ 2 of 3 |" in page
    assert "| `one` | a\\|b |  | U 0.9 |" in page
    assert kept() == {"one": {"quotes": [quote]}, "goals": {"quotes": [quote], "goals": [SCORE]}}


B, TEST, LONGER = {**SCORE, "title": "b"}, {**SCORE, "split": "test"}, {**SCORE, "seconds": 9.0}
X, Y = ({"header": ["a"], "rows": [[each]]} for each in "xy")
A1, B2, B3 = ({"what": what, "reported": "", "measured": m} for what, m in ("a1", "b2", "b3"))
SIZES = {"sizes": {"generalist": {}}, "cost": {"5": {}}}


@pytest.mark.parametrize(
    ("new", "earlier", "merged"),
    [
        # Tables that were not made this time, goals that were not pursued, figures and agents that were not measured.
        ({"tables": {"new": Y}}, {"tables": {"old": X, "new": X}}, {"tables": {"old": X, "new": Y}}),
        ({"goals": [LONGER]}, {"path": "v", "goals": [SCORE, TEST, B]}, {"path": "v", "goals": [LONGER, B]}),
        ({"goals": [LONGER]}, {}, {"goals": [LONGER]}),
        ({"quotes": [B3]}, {"quotes": [A1, B2]}, {"quotes": [A1, B3]}),
        ({"sizes": {}, "cost": {}}, SIZES, SIZES),
    ],
)
def test_a_study_that_is_run_in_part_keeps_the_rest(new, earlier, merged):
    assert tables.with_earlier(new, earlier) == merged


def test_a_study_with_other_values_than_the_published_ones_changes_nothing(tmp_path, capsys):
    (tmp_path / "gap").mkdir()
    for changed, collected in (("seeds", {}), ("parts", {"gap": {"quotes": [A1]}})):
        summary = {"quotes": [A1], "changed": [changed]}
        (tmp_path / "gap" / "summary.json").write_text(json.dumps(summary), "utf-8")
        assert tables.collect(tmp_path) == collected
    assert "gap: made with another study.seeds than the published one; that one stays" in capsys.readouterr().out


def test_the_speeds_of_the_readme_are_those_of_the_benchmarks():
    section = (tables.DOCS.parent / "README.md").read_text("utf-8").partition("## Speed")[2].partition("\n## ")[0]
    numbers = re.findall(r"\d+,\d{3}|\d\.\d{2,}", section.replace("standard error 0.01", ""))
    measured = (tables.DOCS / "benchmarks.md").read_text("utf-8")
    assert len(numbers) >= 6
    assert [number for number in numbers if f" {number} " not in measured] == []


def test_no_results_is_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="no summaries of studies"):
        tables.main(tmp_path)


@pytest.mark.slow
def test_the_code_still_finds_the_first_line_of_the_table():
    """The ten default and ten DReST agents of the paper's Figure 3, trained anew."""
    cfg = composed_study("example")
    rows, _ = read_rows(tables.KEPT / "example.csv")
    for reward in example.REWARDS:
        job = example.jobs(cfg)[example.Key("example", "moves", reward)]
        spec = job.spec | {"agents": cfg.agents_in_paper, "evaluated_on": ["steps"]}
        spec["training"] = spec["training"] | {"evaluate_every": cfg.training.meta_episodes}
        trained = train(spec, Path("."))
        published = end_of(rows, reward, AS_REPORTED, sample="first").loc["example"]
        for metric in ("neutrality", "usefulness"):
            values = last(trained, "steps", metric)
            assert np.isclose(values.mean(), published[metric], atol=6e-4)
            assert np.isclose(values.std(ddof=1), published[f"{metric}_sd"], atol=6e-4)


def test_every_claim_of_a_published_page_holds():
    """Sentences that results could contradict are claims; a study keeps which of them hold (docs/howto/studies.md)."""
    claims = {claim: holds for found in kept().values() for claim, holds in found.get("claims", {}).items()}
    assert len(claims) >= 4
    assert [claim for claim, holds in claims.items() if not holds] == []
