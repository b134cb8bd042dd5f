"""The study of the ratio x: its closed form, its runs, and claims that other rows refute."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from drest_torch.jobs.job import Result
from drest_torch.metrics import neutrality
from drest_torch.report.themes import LIGHT
from drest_torch.studies import ratio
from drest_torch.studies.engine import Done
from drest_torch.studies.ratio import parts, runs, wrong_values
from drest_torch.studies.ratio.runs import ANY_REWARD, ASCENT, SMALLER, Coins, Divisor, Values
from drest_torch.theory import balance
from tests.helpers.studies import composed_study, table_ends

CFG = composed_study("ratio")
FEW = composed_study(
    "ratio",
    *("study.worlds=[example,spacious]", "study.agents=2", "study.x_count=5", "study.lams=[0.9,0.5]"),
    *("study.every=2", "study.factors=[0.5,10]", "study.pays=[inverse]", "study.seeds=1"),
)


# ----------------------------------------------------------------------------- the closed form


@pytest.mark.parametrize(("lam", "clip"), [(0.9, ANY_REWARD), (0.5, 5.0)])
def test_prediction_is_the_balance_of_both_lengths(lam, clip):
    prediction = runs.predict(CFG, [0.1, 10.0], lam, clip)
    most = None if clip == ANY_REWARD else clip
    p = torch.tensor([balance(1.0, x, lam, 64, most).item() for x in (0.1, 10.0)], dtype=torch.float64)
    assert prediction.p_longer.tolist() == p.tolist()
    assert prediction.neutrality.tolist() == pytest.approx(neutrality(torch.stack((p, 1 - p), -1)).tolist())


@pytest.mark.parametrize("lam", [0.3, 0.5, 0.9])
def test_predicted_range_ends_at_half_a_bit(lam):
    low, high = runs.predicted_range(CFG, lam, ANY_REWARD)
    assert low < 0.1
    assert low * high == pytest.approx(1)
    first, *between, last = runs.predict(CFG, np.geomspace(low, high, 51), lam).neutrality
    assert first == pytest.approx(0.5, abs=1e-5)
    assert last == pytest.approx(0.5, abs=1e-5)
    assert min(between) > 0.5


def test_smaller_probability_has_half_a_bit():
    assert -(SMALLER * np.log2(SMALLER) + (1 - SMALLER) * np.log2(1 - SMALLER)) == pytest.approx(0.5, abs=1e-5)


def test_x_without_a_divisor_has_the_discount_of_the_world():
    assert runs.undivided(CFG, "example") == pytest.approx(3 * 0.95**7 / (2 * 0.95**3))
    assert runs.undivided(CFG, "spacious") == pytest.approx(3 * 0.9**4 / (2 * 0.9**2))


@pytest.mark.parametrize(("pays", "ratios"), [("inverse", [6, 0.5]), ("count", [3, 0.5])])
def test_ascent_on_wrong_values_ends_at_the_closed_form(pays, ratios, tmp_path):
    worlds = ["fewer_for_longer", "around_the_corner"]
    cfg = composed_study("ratio", f"study.worlds=[{','.join(worlds)}]")
    reward = {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": 64}
    spec = {"worlds": worlds, "pays": pays, "best_of": "actual", "reward": reward, "lr": 0.1, "updates": 250}
    result = wrong_values.train(spec, tmp_path)
    rows = pd.DataFrame(runs.value_rows(cfg, Values(ASCENT, pays, "actual"), result))
    assert rows.x.tolist() == pytest.approx(ratios)
    assert rows.p_longer.tolist() == pytest.approx(rows.p_longer_predicted.tolist(), abs=0.002)
    assert rows.apart.max() <= 0.002


@pytest.mark.parametrize(
    ("values", "expected", "text"),
    [
        ([0, 0, 1, 0, 0], (10**-0.5, 10**0.5), "0.316 to 3.16"),
        ([0, 0.4, 0.8, 0.8, 0], (10**-0.75, 10 ** (1 + 0.375)), "0.178 to 23.7"),
        ([1, 1, 1, 1, 1], (0.01, 100), "all, 0.01 to 100"),
        ([1, 0, 1, 1, 0], (10**-0.5, 10**1.5), "0.316 to 31.6"),
        ([0.5, 0.5, 0.5, 0.5, 0.5], None, "none"),
        ([0, 0, 0, 0, 1], (10**1.5, 100), "31.6 to 100"),
    ],
)
def test_the_range_above_half_a_bit(values, expected, text):
    x = np.geomspace(0.01, 100, 5)
    ends = parts.range_above(x, np.array(values, float), 0.5)
    if expected is not None:
        expected = pytest.approx(expected)
    assert ends == expected
    assert parts.range_text(pd.DataFrame({"x": x, "neutrality": np.array(values, float)})) == text


# ------------------------------------------------------------------------------------- the runs


def test_lower_lambdas_without_a_clip_have_few_values_of_x():
    planned = runs.coin_jobs(FEW)
    tried = {}
    for key in planned:
        tried.setdefault((key.clock, key.lam, key.clip), []).append(key.x)
    xs = [0.01, 0.1, 1.0, 10.0, 100.0]
    assert tried["moves", 0.9, ANY_REWARD] == tried["steps", 1.0, ANY_REWARD] == tried["moves", 0.5, 5.0] == xs
    assert tried["moves", 0.5, ANY_REWARD] == [0.01, 1.0, 100.0]
    unplanned = ("steps", 0.5, 5.0)
    assert unplanned not in tried


def test_rewards_of_figure_6_are_not_divided():
    planned = runs.coin_jobs(FEW)
    assert {job.spec["divisor"] for job in planned.values()} == {"none"}
    spec = planned[Coins("moves", 0.5, 5.0, 100.0)].spec
    assert spec["x"] == 100
    assert spec["training"]["lam"] == 0.5
    assert spec["training"]["clip"] == 5
    assert spec["training"]["gamma"] == 1
    assert planned[Coins("moves", 0.9, ANY_REWARD, 1.0)].spec["training"]["clip"] is None
    assert planned[Coins("moves", 1.0, ANY_REWARD, 1.0)].spec["training"]["lam"] == 1


def test_runs_without_m_have_the_divisor_of_their_key():
    specs = {key: job.spec for key, job in runs.divisor_jobs(CFG).items()}
    assert len(specs) == len(CFG.worlds) * (4 + len(CFG.factors))
    assert specs[Divisor("example", "m")]["divisor"] == "best"
    assert specs[Divisor("example", "seen")]["divisor"] == "seen"
    assert specs[Divisor("example", "none")]["divisor"] == "none"
    assert specs[Divisor("spacious", "longer", 0.5)]["divisor"] == "best"
    assert specs[Divisor("spacious", "longer", 0.5)]["factors"] == [1.0, 0.5]
    assert specs[Divisor("example", "m")]["training"]["gamma"] == 0.95
    assert specs[Divisor("spacious", "m")]["training"]["gamma"] == 0.9


@pytest.mark.parametrize("length", ["meta_episodes", "decay_episodes"])
def test_patient_runs_are_four_times_as_long(length):
    planned = runs.divisor_jobs(CFG)
    for world in ("example", "spacious"):
        usual, patient = (planned[Divisor(world, "longer", 10.0, times)].spec["training"] for times in (1, 4))
        assert patient[length] == 4 * usual[length]


def test_commands_have_the_wrong_values_of_their_key():
    planned = runs.value_jobs(FEW)
    config = planned[Values("table", "inverse", "actual", 0)].spec["config"]
    assert config["reward"]["pays"] == "inverse"
    assert config["reward"]["best_of"] == "actual"
    assert config["levels"]["name"] == "fewer_for_longer"
    assert planned[Values(ASCENT, "inverse", "paid")].spec["best_of"] == "paid"


# ------------------------------------------------------------------------------------- the rows


def agents_at(p, clocks=("moves", "steps")):
    """Return the result of two agents around this probability of the longer length."""
    longer = (p * 0.98, min(p * 1.02, 1.0))
    chances = torch.tensor(longer, dtype=torch.float64)
    bits = neutrality(torch.stack((1 - chances, chances), -1)).tolist()
    return table_ends(dict.fromkeys(clocks, (bits, (0.99, 1.0), longer)))


def as_predicted(key):
    """Return the result of agents that behave as predicted, except that they collapse with a lower λ and no clip."""
    if isinstance(key, Coins):
        collapses = key.lam == 0.5 and key.clip == ANY_REWARD
        p = 0.001 if collapses else runs.predict(FEW, [key.x], key.lam, key.clip).p_longer[0]
        return agents_at(p, ("moves", "steps") if key.clock == "moves" else ("steps",))
    if isinstance(key, Divisor):
        x = runs.undivided(FEW, key.world) if key.divisor == "none" else 1 / key.factor
        p = runs.predict(FEW, [x], 0.9).p_longer[0]
        return agents_at(p * (0.8 if key.factor == 10 and key.patience == 1 else 1), ("moves",))
    worlds = FEW.worlds if key.by == ASCENT else [FEW.command_world]
    coins = wrong_values.PaidCoins(key.pays, key.best_of)
    xs = [wrong_values.ratio(world, coins, 1.0) for world in worlds]
    predicted = runs.predict(FEW, xs, 0.9)
    p, bits = predicted.p_longer.to_numpy(), predicted.neutrality.to_numpy()
    useful = np.full(len(worlds), 0.5)
    if key.by == ASCENT:
        lengths = np.stack((1 - p, p), -1)
        return Result({}, {"p_length": lengths, "neutrality": bits, "usefulness": useful, "proxy": useful})
    return Result({}, {"train/p_longest": p, "train/neutrality": bits, "train/usefulness": useful})


@pytest.fixture(scope="module")
def rows():
    planned = runs.jobs(FEW)
    results = {job.digest(): as_predicted(key) for key, job in planned.items()}
    return ratio.rows(FEW, Done(planned, SimpleNamespace(get=lambda job: results[job.digest()])))


def claim(beginning):
    (holds,) = [holds for sentence, holds in ratio.CLAIMS.items() if sentence.startswith(beginning)]
    return holds


def test_a_row_summarises_agents(rows):
    """A row holds the mean, and the 10th and the 90th percentile."""
    row = parts.by_coins(rows).query("x == 1.0").iloc[0]
    assert row.p_longer == pytest.approx(0.5)
    assert row.p_longer_low == pytest.approx(0.49 + 0.1 * 0.02)
    assert row.p_longer_high == pytest.approx(0.51 - 0.1 * 0.02)
    assert row.usefulness == pytest.approx(0.995)
    assert row.p_longer_predicted == pytest.approx(0.5)
    assert row.neutrality_predicted == pytest.approx(1)


def test_runs_on_moves_are_evaluated_on_both_clocks(rows):
    clocks = parts.of_part(rows, "coins").clocks.value_counts()
    assert {*clocks.index} == {"moves / moves", "moves / steps", "steps / steps"}


def test_x_of_a_wrong_m_is_one_over_the_factor(rows):
    wrong = parts.by_divisor(rows, "longer")
    assert (wrong.x * wrong.factor).tolist() == pytest.approx([1] * len(wrong))
    assert parts.by_divisor(rows, "m", "seen").x.tolist() == [1] * 4


def test_collapsed_agents_are_counted(rows):
    kinds = parts.kinds(rows).set_index(["lam", "clip_at"])
    assert kinds.collapsed[0.5, ANY_REWARD] == 1
    assert kinds.expected[0.5, ANY_REWARD] < 1
    assert kinds.unstable.to_dict() == {
        (0.9, ANY_REWARD): False,
        (0.5, ANY_REWARD): True,
        (0.9, 5.0): False,
        (0.5, 5.0): False,
    }


def test_all_claims_hold_for_agents_as_predicted(rows):
    assert [sentence for sentence, holds in ratio.CLAIMS.items() if not holds(rows)] == []


@pytest.mark.parametrize(
    ("beginning", "part", "column", "value"),
    [
        ("One curve", "values", "p_longer", 0.9),
        ("P(longer) rises", "coins", "p_longer", 0.5),
        ("As the paper says", "coins", "neutrality", 0.4),
        ("It does not for every x", "coins", "neutrality", 0.6),
        ("Default agents", "coins", "neutrality", 0.2),
        ("m need not be known", "divisor", "usefulness", 0.98),
        ("Wrong values cost", "values", "p_longer", 0.502),
        ("If m is that", "values", "apart", 0.002),
        ("A lower λ widens", "range", "x_high", 10.0),
        ("Without a clip", "coins", "collapsed", 0.0),
        ("With rewards clipped", "coins", "p_longer", 0.9),
        ("Longer training", "divisor", "p_longer", 0.4),
    ],
)
def test_other_rows_refute_a_claim(rows, beginning, part, column, value):
    assert claim(beginning)(rows)
    changed = rows.copy()
    changed.loc[changed.part == part, column] = value
    assert not claim(beginning)(changed)


@pytest.mark.parametrize("name", ratio.FIGURES)
def test_a_figure_can_be_plotted(rows, name):
    figure = Figure()
    ratio.FIGURES[name](rows).draw(figure, LIGHT)
    assert figure.axes[0].get_ylabel()


def test_the_table_has_the_papers_statements(rows):
    table = ratio.TABLES["paper"](rows)
    assert table.header[1:] == ["measured", "the paper", "predicted"]
    cells = {row[0]: row[1:] for row in table.rows}
    assert cells["usefulness, mean over x, moves / moves"][0] == "0.995"
    lowest = parts.reported(rows).min()
    assert cells["lowest neutrality (bits), x from 0.1 to 10, moves / moves"][:2] == [f"{lowest:.3f}", "> 0.5"]


def test_the_figure_has_a_mark_for_each_source(rows):
    assert [*parts.sources(rows)] == ["x by coins", "x by a wrong m", "x without m", "x by wrong values"]
    sizes = [len(points) for points in parts.sources(rows).values()]
    assert sizes == [5, 4, 2, 2 * 2 + 2 * 2]
