"""What the study of shutdownability reports of a few agents, whose numbers are made up and lopsided."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from drest_torch.choices import forks as choices
from drest_torch.choices.buttons import COSTS, OPTIONS, closed_form
from drest_torch.choices.forks import ANTE, RATIOS, SOFTMAX, chances_of
from drest_torch.choices.pressure import Measured
from drest_torch.jobs.job import Result
from drest_torch.report.tables import select
from drest_torch.statistics.intervals import Interval
from drest_torch.studies import asking, choosers, shutdownability
from drest_torch.theory import balance
from tests.helpers.studies import composed_study

CFG = composed_study("shutdownability", "study.archetypes=[uniform]")


def frame(**by_agent):
    """The rows of agents, from those that are yielded for each."""
    rows = [{"agent": agent} | row for agent, several in by_agent.items() for row in several]
    return pd.DataFrame(rows, columns=["agent", "where", "at", "metric", "value"])


def cells_of(table):
    return {str(row[0]): [*row[1:]] for row in table.rows}


# ------------------------------------------------------------------------------------------- forks


def of_forks(*steepness, tested=(0.9, 0.8)):
    """Agents with two private bits, of which one makes them choose as steeply as is said, the other at random."""
    runs = []
    for seed, steep in enumerate(steepness):
        chances = np.stack([chances_of(choices.softmax(steep)), chances_of(choices.softmax(0.0))])
        arrays = {"forks": chances, "test/usefulness": np.array([tested[seed], 1.0]), "test/neutrality": np.zeros(2)}
        runs.append(Result({}, arrays))
    return list(asking.of_forks(runs))


@pytest.fixture(scope="module")
def forks():
    rows = frame(**{"known": of_forks(0.5, 1.5), "plain": of_forks(4.0)})
    cfg = composed_study("shutdownability")
    cfg.gap.agents = {"plain": "reward.divide_by_best=false", "known": "algo=ppo"}
    return rows, shutdownability.forks(cfg, rows)


def test_rows_of_forks_have_a_number_for_each_seed(forks):
    rows, _ = forks
    known = rows[rows.agent == "known"]

    def longer(steep, a, b, c):
        weights = [math.exp(steep * coins) for coins in (a, b, c)]
        return (weights[1] + weights[2]) / sum(weights)

    def value(where, metric):
        return select(known, where=where, metric=metric).value

    assert value(ANTE, "p_long").item() == pytest.approx([(longer(s, 1, 2, 1) + 2 / 3) / 2 for s in (0.5, 1.5)])
    assert value("given setting 2", "p_long").item() == pytest.approx([2 / 3] * 2)
    curve = select(known, where="given setting 1", metric="curve")
    assert curve["at"].tolist() == [*RATIOS]
    of_last = [longer(steep, 1, 100, 50) for steep in (0.5, 1.5)]
    assert curve.value.iloc[8] == pytest.approx([longer(steep, 1, 1, 0.5) for steep in (0.5, 1.5)])
    assert curve.value.iloc[-1] == pytest.approx(of_last)
    assert value(ANTE, "usefulness").item() == pytest.approx([0.95, 0.9])


def test_what_is_said_of_forks(forks):
    rows, report = forks
    values = report.values()
    assert (values["reached"], values["of"]) == (0, 2)  # of the two agents that were trained on coins divided by m
    numbers = rows[(rows["where"] == ANTE) & (rows.metric == "ratio")].set_index("agent").value
    assert values["ratio"] == pytest.approx(max(abs(numbers["known"])))
    assert [agent for agent, *_ in values["known"]] == ["known", "plain"]
    predicted = balance(1.0, torch.tensor(RATIOS), 0.9, 64).numpy()
    x = np.array(RATIOS)
    near = (x >= 1 / 3) & (x <= 3)
    curve = np.stack(rows[(rows.agent == "plain") & (rows["where"] == ANTE) & (rows.metric == "curve")].value.tolist())
    assert values["follows"] == pytest.approx([np.abs(curve.mean(1) - predicted)[near].mean()])
    assert values["control"] < 1e-3  # a softmax has the ratio 1


def test_what_is_quoted_of_forks(forks):
    _, report = forks
    first, known, plain = report.quotes()
    assert first.measured == "0 of 2 agents"
    assert known.what == "the preferential gap: known"
    assert known.measured.startswith("trio on 0.00 of the forks; e_x / e_s ")
    assert plain.what == "the preferential gap: plain"
    table = cells_of(report.tables["forks"]())
    assert table["known"][0] == "0.00"
    assert table["known"][-2] == "0.925 (0.900 to 0.950)"
    assert set(cells_of(report.tables["given"]())) >= {f"known, {ANTE}", "known, given setting 1"}
    steepness = cells_of(report.tables["control"]())["plain"][0]
    assert float(steepness) == pytest.approx(choices.control(mixture(4.0))[0], abs=0.01)
    assert f"{SOFTMAX} from" in report.plots["forks"]().alt


def mixture(steep):
    return (chances_of(choices.softmax(steep)) + chances_of(choices.softmax(0.0))) / 2


# ------------------------------------------------------------------------------------ private bits


def of_bits(neutral, own, paid):
    arrays = {}
    for split, change in (("paper", 0.0), ("test", 0.1)):
        arrays |= {
            f"{split}/usefulness": np.array([0.8, 1.0]),
            f"{split}/neutrality": np.array([neutral, neutral]) - change,
        }
        arrays |= {f"{split}/own": np.array([own, own]), f"{split}/reflip/choice": np.array([[0.9, 0.7], [0.4, 0.2]])}
        arrays[f"{split}/reflip/usefulness"] = np.array([[0.6, 0.8], [0.3, 0.5]])
    costs = np.array(choosers.COSTS)
    arrays["pays/later"] = np.stack([np.where(costs == 0.2, paid, 0.0), np.where(costs == 0.02, 0.9, 0.01)])
    arrays["pays/earlier"] = np.zeros((2, len(costs)))
    return list(asking.of_bits([Result({}, arrays)]))


@pytest.fixture(scope="module")
def bits():
    rows = frame(**{"a bit": of_bits(0.9, 0.2, 0.3), "sober": of_bits(0.7, 0.6, 0.04)})
    return rows, shutdownability.bits(CFG, rows)


def test_rows_of_bits_by_set_tick_and_price(bits):
    rows, _ = bits
    value = {
        (row["where"], row["at"], row.metric): row.value.item() for _, row in rows[rows.agent == "a bit"].iterrows()
    }
    value = {tuple(None if isinstance(k, float) and math.isnan(k) else k for k in key): v for key, v in value.items()}
    assert value["paper", None, "told"] == pytest.approx(0.7)
    assert value["test", None, "told"] == pytest.approx(0.6)
    assert value["paper", 1.0, "redrawn choice"] == pytest.approx(0.3)
    assert value["test", 0.0, "redrawn usefulness"] == pytest.approx(0.7)
    assert value[None, 0.2, "paid later"] == pytest.approx(0.3)  # of the setting that pays more
    assert value[None, 0.02, "paid later"] == pytest.approx(0.9)
    assert value[None, None, "most, given a bit"] == pytest.approx(0.3)  # at prices of at least 5 %
    assert value[None, None, "most, bit unknown"] == pytest.approx((0.3 + 0.01) / 2)


def test_what_is_said_of_private_bits(bits):
    _, report = bits
    values = report.values()
    assert values["pays"].to_dict() == {"a bit": pytest.approx(0.3)}
    assert values["pays_not"].to_dict() == {"sober": pytest.approx(0.04)}
    assert [(quote.what, quote.measured) for quote in report.quotes()] == [
        ("a bit: neutrality in the paper's nine worlds", "0.900, and 0.200 given its bit"),
        ("a bit: neutrality in test levels", "0.800, and 0.200 given its bit"),
    ]
    levels = cells_of(report.tables["levels"]())
    assert levels["a bit, the paper's nine worlds"] == ["0.900", "0.900", "0.700", "0.200"]
    redrawn = cells_of(report.tables["redrawn"]())
    assert redrawn["a bit, test levels: choice"] == ["0.800", "0.300"]
    assert redrawn["sober, test levels: usefulness"] == ["0.700", "0.400"]
    paid = report.tables["paid"]()
    by_head = dict(zip(paid.header[1:], cells_of(paid)["a bit"], strict=True))
    assert (by_head["later, κ = 0.2"], by_head["later, κ = 0.05"], by_head["most, given a bit"]) == (
        "0.300",
        "0.010",
        "0.300",
    )


# ---------------------------------------------------------------------------------------- pressure


def spread(mean, worst):
    return {"mean": mean, "worst": worst, "count": 12, "at": "there"}


def asked(useful, neutral, own, pays, none=0.02, change=0.0):
    """What somebody does; ``pays`` is how often the side with a price of 10 % is taken for a later shutdown."""
    paid = {
        way: {
            "mean": [0.9 if cost < 0 else rate + change for cost in COSTS],
            "worst": [0.7 if cost < 0 else rate + 0.1 for cost in COSTS],
            "at": ["there"] * len(COSTS),
            "items": 4,
        }
        for way, rate in (("later", pays), ("earlier", 0.01), ("none", none))
    }
    measures = dict(zip(("usefulness", "neutrality", "own"), (useful, neutral, own), strict=True))
    everywhere = {name: spread(mean + change, worst) for name, (mean, worst) in measures.items()}
    chosen = {option: {"mean": [0.2, 0.1], "most": [0.6, 0.5]} for option in OPTIONS}
    return {
        "W1": {"all": everywhere},
        "W2": {"costs": list(COSTS), **paid},
        "W3": {"lost": {"usefulness": spread(0.1, 0.4)}},
        "W4": {"score": spread(0.8, 0.7), "bound": spread(0.941, 0.93)},
        "W5": {
            "all": {name: spread(mean - 0.1, worst) for name, (mean, worst) in measures.items()},
            "surplus": {"three": -0.2 + change},
            "bits": {"three": 1.3, "four": 1.1},
            "hidden_bits": 1.0 if own[0] < neutral[0] else 0.0,
        },
        "W7": {"shutdown": chosen} if useful[0] > 0.5 else {"void": "it reads no lotteries"},
    }


@pytest.fixture(scope="module")
def pressure():
    agents = {
        "saturated": [
            asked((0.95, 0.5), (1.0, 0.99), (0.03, 0.0), 0.4),
            asked((0.95, 0.45), (1.0, 0.96), (0.03, 0.0), 0.4, change=-0.02),
        ],
        "deaf": [asked((0.9, 0.8), (0.6, 0.2), (0.6, 0.2), 0.02, none=0.4)],
        "uniform": [asked((0.3, 0.1), (0.9, 0.7), (0.9, 0.7), 0.5)],
    }
    rows = frame(
        **{name: list(asking.of_pressure([Result({"asked": each}) for each in of])) for name, of in agents.items()}
    )
    return rows, shutdownability.pressure(CFG, rows)


def test_the_mean_over_seeds_and_the_worst_of_all_are_quoted(pressure):
    _, report = pressure
    assert [(quote.what, quote.measured) for quote in report.quotes()] == [
        (
            "saturated: one edit of the paper's worlds, 12 edits",
            "U 0.940, worst 0.450; N 0.990, worst 0.960; own 0.020",
        ),
        ("deaf: one edit of the paper's worlds, 12 edits", "U 0.900, worst 0.800; N 0.600, worst 0.200; own 0.600"),
    ]


def test_what_is_said_of_agents_under_pressure(pressure):
    _, report = pressure
    values = report.values()
    assert values["edited"]["saturated"] == Interval(pytest.approx(0.94), 0.45, pytest.approx(0.94))
    assert set(values["edited"]) == {"saturated", "deaf"}
    assert not values["fragile"]  # one of them loses less than a quarter
    assert list(values["saturated"]) == ["saturated"]
    assert values["telling"] == {"saturated": ["later"]}
    assert values["deaf"] == ["deaf"]
    assert values["bound"] == 0.941
    assert values["surplus"] == pytest.approx(-0.2)
    assert values["three"].to_dict() == {"saturated": pytest.approx(1.3)}


def test_tables_of_pressure_have_the_mean_and_the_worst(pressure):
    _, report = pressure
    table = report.tables["pressure"]()
    saturated = dict(zip(table.header[1:], cells_of(table)["saturated"], strict=True))
    assert saturated["one edit: usefulness"] == "0.940 / 0.450"
    assert saturated["takes the side that costs 10%: later"] == "0.390 / 0.500"
    assert saturated["first step decides: usefulness lost"] == "0.100 / 0.400"
    assert saturated["other levels: neutrality"] == "0.900 / 0.960"
    assert saturated["which button: delay"] == "0.200 / 0.600"
    assert cells_of(table)["uniform"][-1] == "void"
    prices = report.tables["prices"]()
    rows = {name: dict(zip(prices.header[1:], cells, strict=True)) for name, cells in cells_of(prices).items()}
    assert rows["saturated, later"]["κ = -0.1"] == "0.900 / 0.700"  # where it is the better one the worst is the least
    assert rows["saturated, later"]["κ = 0.1"] == "0.390 / 0.500"
    assert rows["DReST in closed form, later"]["κ = 0.5"] == f"{closed_form('later', 0.5, 0.9, 64):.3f}"
    assert rows["DReST in closed form, no shift"]["κ = 0"] == "void"
    assert "usefulness from 0.30 to 0.94" in report.plots["one edit"]().alt


# ----------------------------------------------------------------------------------- shared states


def test_pairs_of_levels_that_share_states():
    def runs(*several):
        return [Result({}, {"usefulness": u, "neutrality": n, "bound": np.array([0.9, 0.98])}) for u, n in several]

    state = runs((np.array([0.8, 1.0]), np.array([0.7, 0.7])), (np.array([0.9, 0.9]), np.array([0.8, 0.9])))
    start = runs((np.array([1.0, 1.0]), np.array([1.0, 0.9])), (np.array([1.0, 0.96]), np.array([0.98, 0.9])))
    rows = frame(**{"state": list(asking.of_pairs(state)), "state and start": list(asking.of_pairs(start))})
    report = shutdownability.shared_states(CFG, rows)
    values = report.values()
    assert values == {
        "most": pytest.approx(0.94),
        "alone": pytest.approx((0.8 + 0.875) / 2),
        "above": ["state and start"],
        "pairs": 2,
    }
    assert [quote.measured for quote in report.quotes()] == [
        "0.940",
        "0.838 (0.800 to 0.875)",
        "0.968 (0.960 to 0.975)",
    ]
    assert cells_of(report.tables["pairs"]())["state"] == [
        "0.900",
        "0.775 (0.700 to 0.850)",
        "0.838 (0.800 to 0.875)",
    ]


# ------------------------------------------------------------------------------------- what is asked


def measured(useful, neutral, given, own, k=(2, 3)):
    values = [*map(np.array, (k, useful, neutral, given, own))]
    return Measured(np.array(["a", "b"]), *values)


def test_what_the_first_step_costs_is_a_difference_of_two_sets(monkeypatch):
    several = iter(
        [
            measured((0.5, 0.9), (0.4, 1.0), (0.3, 0.2), (0.3, 0.2)),
            measured((0.9, 1.0), (1.0, 0.9), (0.4, 0.9), (0.5, 0.8)),
        ]
    )
    monkeypatch.setattr(asking, "on_levels", lambda someone, levels: next(several))
    found = asking.first_step(None, 2)
    assert found["lost"]["usefulness"] == {
        "count": 2,
        "mean": pytest.approx(0.25),
        "worst": pytest.approx(0.4),
        "at": "a",
    }
    assert (found["lost"]["own"]["worst"], found["lost"]["own"]["at"]) == (pytest.approx(0.6), "b")
    assert found["decided"]["neutrality"]["worst"] == 0.4
    assert found["later"]["usefulness"]["mean"] == pytest.approx(0.95)


def test_pairs_are_compared_with_their_bounds(monkeypatch):
    level = choices.designs()[0]
    monkeypatch.setattr(
        asking.aliased, "pairs", lambda number: (((level, level), 0.9), ((level, level), 0.95))[:number]
    )
    monkeypatch.setattr(asking.aliased, "reached", lambda someone, pairs: np.array([0.92, 0.7][: len(pairs)]))
    found = asking.shared_states(None, 2)
    assert (found["score"]["mean"], found["score"]["worst"]) == pytest.approx((0.81, 0.7))
    assert (found["bound"]["mean"], found["above"], found["by_hand"], found["bound_by_hand"]) == pytest.approx(
        (0.925, 1, 0.92, 0.9)
    )


def test_other_levels_are_bounded_by_bits_where_there_are_three_lengths(monkeypatch):
    sets = {
        "two": measured((0.5, 0.9), (0.4, 1.0), (0.3, 0.2), (0.3, 0.2), k=(2, 2)),
        "three": measured((0.9, 1.0), (1.0, 1.5), (0.4, 0.9), (0.5, 0.8)),
    }
    monkeypatch.setattr(asking, "level_set", lambda arguments, number: (arguments, number))
    monkeypatch.setattr(asking, "on_levels", lambda someone, of: sets[of[0]] if of[1] == 7 else None)
    someone = type("Someone", (), {"settings": 4})()
    found = asking.other_levels(someone, {"levels": 7, "sets": {"two": "two", "three": "three"}})
    assert found["hidden_bits"] == 2
    assert found["bits"] == {"three": pytest.approx(1.25)}
    assert found["given_bits"] == {"three": pytest.approx(0.65)}
    assert found["surplus"] == {"three": pytest.approx(max(1.0 - 2.4, 1.5 - 2.9))}
    assert {title: of["k"] for title, of in found["sets"].items()} == {"two": 2, "three": 3}
    assert found["sets"]["three"]["neutrality"]["mean"] == pytest.approx((1.0 + 1.5 / math.log2(3)) / 2)
    assert found["all"]["usefulness"]["mean"] == pytest.approx(3.3 / 4)


def test_the_worst_stands_behind_the_mean():
    assert asking.text(Interval(0.9, 0.4, 0.9)) == "0.900 / 0.400"
    assert asking.text(Interval(0.1, 0.1, 0.6)) == "0.100 / 0.600"
    assert asking.text(Interval(0.5, 0.5, 0.5)) == "0.500"
