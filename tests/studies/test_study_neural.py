"""The study of networks: what is measured of agents over training, and of a policy that moves at random."""

import math
from unittest.mock import patch

import numpy as np
import pytest

from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job, Result
from drest_torch.statistics.intervals import runs_interval
from drest_torch.studies import neural
from drest_torch.studies.catalogue import all_studies
from tests.helpers.simulator import enumerate_policy, uniform_policy
from tests.helpers.studies import composed, composed_study, reported


@pytest.mark.parametrize(
    ("useful", "neutral", "both"),
    [([0, 1, 1, 1], [0, 0, 1, 1], 20), ([0, 1, 0.5, 1], [1, 1, 1, 1], 30), ([1, 1, 1, 1], [1, 1, 1, 0.9], math.inf)],
)
def test_what_counts_is_when_both_are_good_for_good(useful, neutral, both):
    arrays = {"steps": np.arange(4) * 10, "train/lengths": np.array([4, 8])}
    arrays |= {"train/p_length": np.array([0.8, 0.2]), "train/share_of_best": np.array([0.5, 0.7])}
    curves = {"usefulness": useful, "neutrality": neutral, "p_length/8": [0, 0.2, 0, 0.2]}
    arrays |= {f"eval/train/{name}": np.array(curve, float) for name, curve in curves.items()}
    key = neural.Key("example", "ppo", "drest", seed=2)
    agent = neural.measure(composed("neural"), {key: Result({"wall_seconds": 2.5}, arrays)}).iloc[0]
    assert agent.steps_until_both == both
    assert (agent.seed, agent.seconds, agent.both) == (2, 2.5, math.isfinite(both))
    assert (agent.p_longer, agent.share_shorter, agent.share_longer) == (0.2, 0.5, 0.7)


def test_the_steps_of_a_table_are_those_it_took():
    episodes = np.array([0, 500, 1000, 2000])
    result = Result({"steps": 3 * 12_000}, {"episodes": episodes, "steps/usefulness": np.zeros((4, 3))})
    assert neural.table_steps(result, 3.5, 1000) == pytest.approx([0, 1750, 3500, 12_000])


def test_the_length_at_random_is_that_of_all_trajectories():
    found = enumerate_policy(world("spacious").with_clock("steps"), uniform_policy, 1.0)
    mean = sum(length * float(probability) for length, (probability, _) in found.items())
    assert neural.length_at_random("spacious") == pytest.approx(mean)


@pytest.mark.slow
def test_the_tables_are_those_of_the_study_of_the_table():
    """So that they are trained once when all studies are run."""
    digests = {job.digest() for job in all_studies()["example"].jobs(composed_study("example")).values()}
    planned = neural.jobs(composed_study("neural")).items()
    tables = {job.digest() for key, job in planned if key.algorithm == neural.TABLE}
    assert (len(tables), tables <= digests) == (18, True)


FEW = composed_study("neural", "study.worlds=[example,spacious]", "study.seeds=2", "study.agents=3")
FEW.algorithms = {"ppo": {"env_steps": 30}, "a2c": {"env_steps": 60}}
FEW.variants, FEW.variants_of = {"half the steps": {"env_steps": 15}}, ["a2c"]
ENDS = {  # usefulness and neutrality of each seed of the networks
    ("example", "ppo"): ((0.99, 0.97), (0.96, 0.98)),
    ("spacious", "ppo"): ((0.90, 0.99), (1.0, 0.96)),
    ("example", "a2c"): ((0.94, 0.99), (0.97, 0.96)),
    ("spacious", "a2c"): ((0.99, 0.5), (0.98, 0.6)),
    ("example", "half the steps"): ((0.7, 0.99), (0.8, 0.9)),
}
DEFAULT = {"ppo": ((1.0, 0.1),), "a2c": ((0.9, 0.2),)}
TABLES = {"drest": ((1.0, 0.98, 0.5), (0.99, 0.96, 1.0)), "default": ((1.0, 1.0, 1.0), (0.0, 0.2, 0.1))}
ARGUMENTS = []


def light(label, seeds, values, **options):
    """The runs of a configuration, which is not composed."""
    ARGUMENTS.append((label, [*seeds], values, options))
    config = {"env_steps": values["env_steps"], "gamma": values["reward"]["gamma"]}
    return [Job(f"{label}-{seed}", "none:none", {"config": config | {"label": label, "seed": seed}}) for seed in seeds]


def result(key):
    if key.algorithm == neural.TABLE:
        useful, neutral = (np.array([[0.0] * 3, each, each]) for each in TABLES[key.reward])
        chances = np.stack([np.full((3, 3), 0.6), np.full((3, 3), 0.4)], -1)
        arrays = {"episodes": np.array([0, 524288, 600_000]), "steps/usefulness": useful, "steps/neutrality": neutral}
        arrays |= {"steps/p_length": chances, "steps/share_of_best": 0 * chances + [0.9, 0.8]}
        return Result({"steps": 3 * 4_000_000}, arrays)
    of = ENDS[key.level, key.change or key.algorithm] if key.reward == "drest" else DEFAULT[key.algorithm]
    useful, neutral = of[key.seed]
    reached = np.array([0.2, 0.9 if key.seed else 1.0, 1.0]) * [[useful], [neutral]]
    arrays = {"steps": np.array([0, 1e6, 2e6]) * (1 + (key.algorithm == "a2c")), "train/lengths": np.array([4, 8])}
    arrays |= {"train/p_length": np.array([0.7, 0.3]), "train/share_of_best": np.array([0.5, useful])}
    curves = dict(zip(("usefulness", "neutrality"), reached, strict=True)) | {"p_length/8": np.array([0.5, 0.4, 0.3])}
    arrays |= {f"eval/train/{name}": curve for name, curve in curves.items()}
    return Result({"wall_seconds": 10.0 + key.seed}, arrays)


@pytest.fixture(scope="module")
def found():
    ARGUMENTS.clear()
    with patch.object(neural, "training_jobs", light), patch.object(neural, "length_at_random", lambda name: 3.0):
        yield reported(neural, FEW, result)


def test_networks_are_trained_with_the_discount_of_their_world(found):
    by_label = {label: (seeds, values, options) for label, seeds, values, options in ARGUMENTS}
    assert by_label["spacious-a2c-drest"][0] == [0, 1]
    assert by_label["spacious-a2c-default"][0] == [0]
    assert by_label["spacious-a2c-drest"][1]["reward"]["gamma"] == 0.9
    assert by_label["example-a2c-drest"][1]["reward"]["gamma"] == 0.95
    assert by_label["example-a2c-drest"][2] == {"levels": "example", "algo": "a2c", "reward": "drest"}
    changed = by_label["example-a2c-drest-variant-0"][1]
    assert (changed["env_steps"], changed["evaluations"]) == (15, 24)
    assert len(by_label) == 2 * 2 * 2 + 1


def test_what_is_quoted_of_each_algorithm(found):
    ppo, a2c, default = found.quotes()
    useful, neutral = (runs_interval([[0.99, 0.9], [0.96, 1.0]]), runs_interval([[0.97, 0.99], [0.98, 0.96]]))
    assert ppo.measured == f"U {useful.within(0, 1)}, N {neutral.within(0, 1)}; both ≥ 0.95 in 3 of 4"
    assert ppo.reported == "no large difficulties anticipated"
    assert a2c.what == "2 worlds, DReST, a network trained with A2C, 2 seeds"
    assert a2c.measured.endswith("both ≥ 0.95 in 1 of 4")
    assert default.measured.endswith("PPO 0.100, A2C 0.200")
    assert default.measured.startswith("table 0.100 (0.0")


def test_totals_have_the_median_of_steps_until_both(found):
    rows = {str(row[0]): [*row[1:]] for row in found.tables["totals"]().rows}
    # Two agents of PPO are there at the second evaluation or at the third, one never.
    assert rows["DReST, PPO"][0] == "3 of 4"
    assert rows["DReST, PPO"][3:] == ["2.00 M", "10 s"]
    assert rows["DReST, A2C"][3] == "never"
    assert rows["DReST, table"][0] == "4 of 6"
    assert rows["DReST, table"][4] == "–"
    assert rows["default, PPO"][0] == rows["default, PPO"][3] == "–"
    assert rows["default, PPO"][1] == "1.000"


def test_variants_are_compared_with_what_is_usual(found):
    values = found.values()
    assert values["worse"] == ["A2C, half the steps"]
    assert values["by_algorithm"].to_dict() == {"PPO": "3 of 4", "A2C": "1 of 4"}
    assert (values["both"].sum(), len(values["both"])) == (4, 8)
    assert values["shown"] == "Running example"
    assert values["config"]["label"] == "example-ppo-drest"
    rows = {str(row[0]): [*row[1:]] for row in found.tables["changed"]().rows}
    assert rows["A2C, as above"] == [
        "1 of 2",
        "0.955 (0.940 to 0.970)",
        "0.975 (0.960 to 0.990)",
        "0.500",
        "0.955 (0.940 to 0.970)",
    ]
    assert rows["A2C, half the steps"][:2] == ["0 of 2", "0.750 (0.700 to 0.800)"]


def test_rows_have_a_number_for_each_agent(found):
    def of(metric, algorithm):
        rows = found.rows[(found.rows.metric == metric) & (found.rows.algorithm == algorithm)]
        rows = rows[(rows.level == "spacious") & (rows.reward == "drest")]
        return dict(zip(rows.seed, rows.value, strict=True))

    assert of("neutrality", neural.TABLE) == {0: 0.99, 1: 0.96, 2: 1.0}
    assert of("p_longer", "ppo") == {0: 0.3, 1: 0.3}
    assert of("share_shorter", "ppo") == {0: 0.5, 1: 0.5}
    assert of("share_longer", "ppo") == {0: 0.9, 1: 1.0}
    assert of("seconds", "a2c") == {0: 10.0, 1: 11.0}
    # At random for 524,288 mini-episodes of three steps each, and then evenly to 4 million.
    assert of("steps_until_both", neural.TABLE)[0] == pytest.approx(524_288 * 3)
    assert of("steps_until_both", "ppo") == {0: np.inf, 1: 2e6}


def test_plots_are_of_agents_trained_with_drest(found):
    alt = found.plots["all neutrality"]().alt
    assert "PPO from 0.97 to 0.97" in alt  # medians over seeds: (0.97 + 0.98) / 2 and (0.99 + 0.96) / 2
    assert "A2C from 0.55 to 0.97" in alt
    assert "default reward from 0.10 to 0.20" not in alt
    curves = found.plots["p_longer"]()
    assert curves.alt.startswith("P(longer), against millions of environment steps: table from 0.4 to")
    assert "A2C from 0.5 to 0.3" in curves.alt
    assert "PPO from 0.5 to nan" in curves.alt  # it is trained for half as many steps
