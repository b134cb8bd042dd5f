"""The studies of language models: rows of hand-made results, claims that other rows refute, and short runs."""

from importlib.util import find_spec

import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import language, smollm2
from drest_torch.studies.language import claims, measured, runs
from tests.helpers.studies import composed_study

MODELS = {
    runs.PRETRAINED: (0.7, 0.9, 0.5, 0.6),
    measured.DREST: (0.99, 0.985, 0.45, 0.54),
    measured.DEFAULT: (0.01, 1.0, 0.4, 0.6),
    measured.BONUS: (0.99, 0.985, 0.4, 0.5),
    measured.MENDED: (0.99, 0.98, 0.1, 0.8),
}
"""Neutrality, usefulness, and how often the actions of `main` and of the other suites are taken; that of
`joint_noshift`, which is worse at both times, is taken in the remaining share."""
SMOLLM2 = {
    smollm2.UNTRAINED: (0.6, 0.77, 0.5, 0.5),
    measured.DREST: (0.97, 0.96, 0.9, 0.1),
    measured.DEFAULT: (0.04, 0.99, 0.9, 0.2),
}
"""Neutrality, usefulness, and how often the action is taken that is better at both times, and any other."""
small = pytest.mark.skipif(not all(map(find_spec, ("transformers", "tokenizers"))), reason="needs the extra [language]")


def numbers(models, *, valid=0.5, valid_lines=1.0, apart=0.3, indifferent=0.8):
    """Return the numbers of a run."""
    run = {}
    for name, (neutral, useful, main, other_suites) in models.items():
        for suite, less in (("post", 0.0), ("lines", apart)):
            metrics = {"N": neutral - less, "N over both orders": neutral, "position bias": 0.1, "U": useful - less}
            metrics |= {"P(longest)": 0.5, "U if indifferent": indifferent, "valid": valid_lines}
            run |= {f"{name}/{suite}/{metric}": number for metric, number in metrics.items()}
        run[f"{name}/post/seconds"] = 60.0
        for suite in measured.SUITES:
            taken = {"main": main, "joint_noshift": 1 - other_suites}.get(suite, other_suites)
            run |= {f"{name}/{suite}/takes the action": taken, f"{name}/{suite}/valid": valid}
    return run


def rows_of(changed=None, **values):
    return language.rows(None, {seed: Result(numbers(MODELS | (changed or {}), **values)) for seed in range(2)})


def smollm2_rows(changed=None, *, valid=1.0, valid_untrained=0.5):
    """Return rows of two seeds; the untrained model is measured with the first."""
    done = {}
    for seed in range(2):
        run = {}
        for name, (neutral, useful, better, worse) in (SMOLLM2 | (changed or {})).items():
            if name == smollm2.UNTRAINED and seed:
                continue
            valid_of_model = valid_untrained if name == smollm2.UNTRAINED else valid
            for forms in ("training", "test"):
                columns = {"neutrality": neutral, "usefulness": useful, "if_indifferent": 0.8, "p_later": 0.5}
                run |= {f"{name}/{forms}/post/{column}": number for column, number in columns.items()}
                for suite in ("post", *measured.SUITES):
                    run[f"{name}/{forms}/{suite}/valid"] = valid_of_model
                for suite in measured.SUITES:
                    run[f"{name}/{forms}/{suite}/takes"] = better if "dominance" in suite else worse
        done[seed] = Result(run)
    return smollm2.rows(None, done)


def test_every_model_has_a_row_for_each_suite():
    """Each seed and each way of reading answers has a row, too."""
    rows = rows_of()
    assert len(rows) == len(MODELS) * 2 * (2 + len(measured.SUITES))
    assert measured.seeds_of(rows, measured.DREST, "neutrality").to_dict() == {0: 0.99, 1: 0.99}
    assert measured.seeds_of(rows, measured.DREST, "usefulness", reads=measured.LINES).tolist() == [0.685, 0.685]
    assert measured.seeds_of(rows, measured.DEFAULT, "takes", "dominance").tolist() == [0.6, 0.6]


def test_numbers_of_a_model_without_rows_are_refused():
    with pytest.raises(LookupError, match="no rows of the model 'Qwen'"):
        measured.seeds_of(rows_of(), "Qwen", "takes", "main")


@pytest.mark.parametrize(
    ("changed", "values", "refuted"),
    [
        ({}, {}, []),
        ({measured.DREST: (0.89, 0.985, 0.45, 0.54)}, {}, ["Between sure times"]),
        ({}, {"indifferent": 0.99}, ["It is neutral"]),
        ({measured.DEFAULT: (0.2, 1.0, 0.4, 0.6)}, {}, ["With the default reward"]),
        ({measured.DEFAULT: (0.01, 1.0, 0.3, 0.6)}, {}, ["Trained on sure times"]),
        ({measured.DREST: (0.99, 0.985, 0.45, 0.71)}, {}, ["Trained on sure times"]),
        ({measured.MENDED: (0.99, 0.98, 0.1, 0.59)}, {}, ["Sure times alone", "These models read chances"]),
        ({measured.MENDED: (0.99, 0.98, 0.5, 0.8)}, {}, ["DReST between sets"]),
        ({measured.MENDED: (0.99, 0.98, 0.1, 0.79)}, {}, ["These models read chances"]),
        ({measured.BONUS: (0.99, 0.95, 0.4, 0.5)}, {}, ["An entropy bonus"]),
        ({}, {"valid": 0.9}, ["Questions with two"]),
        ({}, {"apart": 0.05}, ["Whole lines"]),
    ],
)
def test_claims_are_refuted_by_other_rows(changed, values, refuted):
    rows = rows_of(changed, **values)
    failed = [sentence for sentence, holds in language.CLAIMS.items() if not holds(rows)]
    assert len(failed) == len(refuted)
    assert all(sentence.startswith(words) for sentence, words in zip(failed, refuted, strict=True))


def test_seeds_that_reach_the_target_are_counted():
    failing_seed = language.rows(None, {2: Result(numbers(MODELS | {measured.DREST: (0.97, 1.0, 0.45, 0.54)}))})
    rows = pd.concat([rows_of(), failing_seed], ignore_index=True)
    assert claims.NUMBERS["reached"](rows) == 2
    assert claims.NUMBERS["worst"](rows) == "0.970"


def test_a_bound_is_not_rounded_to_a_number_that_breaks_it():
    rows = rows_of({measured.DREST: (0.99, 0.9797, 0.45, 0.54), measured.DEFAULT: (0.0012, 1.0, 0.4, 0.6)})
    assert claims.NUMBERS["worst"](rows) == "0.979"
    assert claims.NUMBERS["default_within"](rows) == "0.002"


@pytest.mark.parametrize(
    ("changed", "values", "refuted"),
    [
        ({}, {}, []),
        ({measured.DREST: (0.97, 0.94, 0.9, 0.1)}, {}, ["With every seed"]),
        ({}, {"valid": 0.97}, ["With every seed"]),
        ({measured.DEFAULT: (0.2, 0.99, 0.9, 0.2)}, {}, ["With the default"]),
        ({}, {"valid_untrained": 0.8}, ["Untrained"]),
        ({measured.DREST: (0.97, 0.96, 0.5, 0.5)}, {}, ["It reads chances"]),
    ],
)
def test_claims_on_smollm2_are_refuted_by_other_rows(changed, values, refuted):
    rows = smollm2_rows(changed, **values)
    failed = [sentence for sentence, holds in smollm2.CLAIMS.items() if not holds(rows)]
    assert len(failed) == len(refuted)
    assert all(sentence.startswith(words) for sentence, words in zip(failed, refuted, strict=True))


def test_smollm2_reads_once_for_both_rewards():
    """Each seed is a job: its model reads first."""
    planned = smollm2.jobs(composed_study("smollm2"))
    assert [*planned] == [0, 1]
    trainings = planned[1].spec["trainings"]
    assert [*trainings] == [smollm2.READING, measured.DREST, measured.DEFAULT]
    assert trainings[measured.DEFAULT]["reward"] == "default"
    assert all("device" not in values for values in trainings.values())


def test_the_table_of_smollm2_tells_unseen_forms():
    (first, *_) = smollm2.TABLES["post"](smollm2_rows()).rows
    assert first[0] == "untrained, training forms"


@small
@pytest.mark.slow
def test_a_run_measures_every_model(tmp_path):
    """A second call resumes the finished trainings, and measures the same numbers."""
    short = {"scenarios": 10, "selection": 2, "updates": 1}
    spec = {"seed": 0, "scenarios": 2, "scenario_seed": 0, "pretraining": short | {"warm_up": 1}, "models": {}}
    spec["models"][measured.DREST] = short | {"warm_up": 0}
    spec["models"][measured.MENDED] = short | {"warm_up": 0, "suites": "post,lotteries", "reward": "supports"}
    first = runs.train(spec, tmp_path).numbers
    second = runs.train(spec, tmp_path).numbers
    suites = {"lines", "post", *measured.SUITES}
    expected = {f"{name}/{suite}" for name in (runs.PRETRAINED, *spec["models"]) for suite in suites}
    assert {name.rsplit("/", 1)[0] for name in first} == expected
    assert all(second[name] == value for name, value in first.items() if not name.endswith("seconds"))


@small
@pytest.mark.slow
def test_a_job_measures_trained_models_in_both_splits(tmp_path):
    """The untrained model is measured by the job of the first seed."""
    short = {"scenarios": 10, "selection": 2, "updates": 1, "forms": "training"}
    trainings = {smollm2.READING: short | {"warm_up": 1, "model": "small"}, measured.DREST: short | {"warm_up": 0}}
    first, second = (
        smollm2.train({"trainings": trainings, "scenarios": 2, "seed": seed}, tmp_path / str(seed)).numbers
        for seed in range(2)
    )
    suites = {"post", *measured.SUITES}
    expected = {f"DReST/{forms}/{suite}" for forms in ("training", "test") for suite in suites}
    assert {name.rsplit("/", 1)[0] for name in second} == expected
    assert any(name.startswith("untrained/test/post") for name in first)
