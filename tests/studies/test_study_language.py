"""The study of language models: what its page claims, its table beside the follow-up's, and a run from end to end."""

from importlib.util import find_spec

import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import language
from tests.helpers.studies import composed_study, page_text, published

BONUS = "DReST, entropy bonus"
FOUND = {
    language.PRETRAINED: (0.7, 0.9, 0.5, -1),
    "DReST": (0.99, 0.99, 0.3, -1),
    "default": (0.01, 1.0, 0.2, -1),
    BONUS: (0.99, 0.99, 0.4, -1),
    language.MENDED: (0.99, 0.98, 0.1, -1),
}
"""Neutrality, usefulness, how often the action of `main` is taken, and whether the second seed is the more useful."""


def numbers(found, seed):
    change, made = 0.001 * seed, {}
    for name, (neutral, useful, main, better) in found.items():
        measured = {"P(longest)": 0.5, "valid": 1.0, "seconds": 60.0, "U if indifferent": 0.8}
        measured |= {"N": neutral - change, "N within an order": neutral, "U": useful + better * change}
        made |= {f"{name}/{suite}/{metric}": measured[metric] for suite in ("post", "lines") for metric in measured}
        made |= {f"{name}/{suite}/{language.TAKES}": main + change for suite in language.SUITES}
    return made


SMOLLM2 = {
    language.UNTRAINED: (0.87, 0.77, 0.4, -1),
    "DReST": (0.97, 0.96, 0.4, -1),
    "default": (0.1, 0.99, 0.4, -1),
}


def found_by(found):
    runs = {}
    for seed in range(2):
        runs[f"language-{seed}"] = numbers(found, seed)
        for name, measured in SMOLLM2.items():
            runs[f"language-smollm2-{name}-{seed}"] = numbers({f"{language.SMOLLM2}, {name}": measured}, seed)
    return published(language, composed_study("language", "study.seeds=2"), lambda job: Result(runs[job.name]))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"default": (0.12, 1.0, 0.2, -1)},
        {"default": (0.01, 1.0, 0.4, -1)},
        {"DReST": (0.99, 0.99, 0.6, -1)},
        {BONUS: (0.99, 0.95, 0.4, -1)},
        {language.MENDED: (0.99, 0.98, 0.6, -1)},
    ],
)
def test_what_the_page_says_is_a_claim(changed):
    claims = found_by(FOUND | changed).claims
    assert len(claims) == 4
    assert list(claims.values()).count(False) == len(changed)


def test_ours_stand_beside_the_follow_ups():
    found = found_by(FOUND)
    table = found.kept["tables"]["follow_up"]
    assert {len(row) for row in table["rows"]} == {len(table["header"])} == {3 + len(language.SUITES)}
    rows = {str(name): cells for name, *cells in table["rows"]}
    larger = [f"{language.SMOLLM2}, {name}" for name in SMOLLM2]
    assert [*rows] == [*(f"{name} (ours)" for name in [*FOUND, *larger]), *language.PUBLISHED]
    assert rows[f"{larger[1]} (ours)"][:2] == ["0.970 and 0.969", "0.960 and 0.959"]
    assert rows["DReST (ours)"][0] == "0.990 and 0.989"
    assert rows["gpt-oss-20b, DReST"][:3] == ["0.880", "0.993", "75.4"]
    assert "neutrality of 0.990" in page_text(found.blocks)


@pytest.mark.slow
@pytest.mark.skipif(not all(map(find_spec, ("transformers", "tokenizers"))), reason="needs the extra [language]")
def test_a_run_measures_every_model_and_goes_on_where_it_was(tmp_path):
    small = {"scenarios": 10, "selection": 2, "updates": 1}
    spec = {"seed": 0, "scenarios": 2, "pretraining": small | {"warm_up": 1}, "models": {}}
    spec["models"]["DReST"] = small | {"warm_up": 0}
    spec["models"][language.MENDED] = small | {"warm_up": 0, "suites": "post,lotteries", "reward": "supports"}
    found = language.train(spec, tmp_path).numbers
    again = language.train(spec, tmp_path).numbers
    suites = {"lines", "post", *language.SUITES}
    wanted = {f"{name}/{suite}" for name in (language.PRETRAINED, *spec["models"]) for suite in suites}
    assert {name.rsplit("/", 1)[0] for name in found} == wanted
    assert all(again[name] == value for name, value in found.items() if not name.endswith("seconds"))
    larger = {"model": "DReST", "values": small | {"model": "small", "warm_up": 1}, "scenarios": 2, "seed": 1}
    trained, untrained = (
        language.train_smollm2(larger | {"model": name}, tmp_path / name).numbers for name in ("DReST", "untrained")
    )
    assert {name.replace("DReST", "untrained") for name in trained} == set(untrained)
    assert trained["SmolLM2, DReST/post/N"] != untrained["SmolLM2, untrained/post/N"]
