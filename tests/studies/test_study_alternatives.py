"""The bench: its runs, methods of the user, closed forms, rows of hand-made answers, and claims that rows refute."""

from types import SimpleNamespace

import numpy as np
import pytest

from drest_torch.choices.ladder_levels import LADDERS
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.jobs.questions import PRESSURES
from drest_torch.studies import alternatives as study
from drest_torch.studies.alternatives import answer_tables, figures
from drest_torch.studies.alternatives.claims import AT_RANDOM, RIVALS
from drest_torch.studies.alternatives.measured import missed, time_to_usefulness
from drest_torch.studies.alternatives.predictions import predicted_neutrality, predicted_press
from drest_torch.studies.alternatives.runs import (
    AGENTS,
    BITS,
    FREE,
    PROMPTS,
    STRENGTHS,
    Key,
    compared_strength,
    label_of,
    methods_of,
    own_method,
)
from tests.helpers.language import transformers
from tests.helpers.studies import composed_study

CFG = composed_study("alternatives")
METHODS = methods_of(CFG)
BOUNDS = {
    "coins_neutrality": "coins_entropy",
    "neutrality_usefulness": "entropy_usefulness",
    "coins_shares": "coins_shares",
}


def jobs(*overrides):
    return study.jobs(composed_study("alternatives", *overrides))


# ---------------------------------------------------------------------------------------------- runs


def test_the_first_agent_of_every_method_comes_first():
    keys = [*jobs("study.methods=[default,drest]", "study.seeds=2", "study.parts=[agents]")]
    assert [(key.method, key.seed) for key in keys] == [("default", 0), ("drest", 0), ("default", 1), ("drest", 1)]


def test_all_agents_share_everything_but_the_method():
    planned = jobs("study.methods=[drest,uniform,default_over_m]", "study.seeds=1", "study.parts=[agents]")
    configs = [job.spec["config"] for job in planned.values()]
    for shared in ("levels", "policy", "env_steps", "device", "threads"):
        assert all(config[shared] == configs[0][shared] for config in configs), shared


def test_no_reported_seed_chooses_a_strength():
    planned = jobs("study.methods=[drest]")
    seeds = {part: {key.seed for key in planned if key.part == part} for part in (AGENTS, STRENGTHS)}
    assert seeds[AGENTS].isdisjoint(seeds[STRENGTHS])
    strengths = [key.strength for key in planned if key.part == STRENGTHS]
    assert sorted(strengths) == sorted(METHODS["drest"]["values"])
    assert {tuple(job.spec["questions"]) for key, job in planned.items() if key.part == STRENGTHS} == {("selection",)}


def test_a_method_inherits_arguments_that_it_can_override():
    assert METHODS["usefulness_neutrality"]["arguments"].split() == [
        *("objective=constrained", "objective.integral=0.5", "objective.problem=usefulness_entropy")
    ]


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        (
            "study.methods=[nobody_knows]",
            r"^study.methods with 'nobody_knows'; expected some of default; .* or the folder",
        ),
        ("study.parts=[lost]", r"^study.parts with 'lost'; expected some of agents;"),
        ("+study.all_methods.drest.colour=red", r"^study.all_methods: 'drest' has the key 'colour'; expected some of"),
    ],
    ids=["method", "part", "key"],
)
def test_an_invalid_value_is_refused(override, complaint):
    with pytest.raises(ConfigError, match=complaint):
        jobs(override)


@pytest.mark.parametrize(
    ("method", "label"),
    [("weighted", "U + 1.15 N"), ("drest", "DReST, E = 128"), ("product", "U × N"), ("myopia", "myopia, γ = 0.5")],
)
def test_a_label_has_the_strength_in_place_of_its_symbol(method, label):
    assert label_of(METHODS[method], compared_strength(METHODS[method])) == label


# -------------------------------------------------------------------------------- methods of the user

FILES = {
    "my_objective.py": "from drest_torch.algos.objectives import base\n\n"
    "Config = base.ObjectiveConfig\n\n\n"
    "class Objective(base.Objective):\n    def value(self, outcome):\n        return outcome.coins.sum(-1)\n",
    "my_agents.py": "def method(arguments, seed, folder):\n    return folder\n",
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_module_with_an_objective_is_trained(modules):
    (job,) = jobs("study.methods=[my_objective]", "study.seeds=1", "study.parts=[agents]").values()
    assert job.spec["config"]["objective"]["name"] == "my_objective"


@pytest.mark.parametrize(
    ("name", "function"), [("my_agents", "my_agents:method"), ("my_agents:other", "my_agents:other")]
)
def test_a_function_is_called_with_each_seed(modules, name, function):
    planned = jobs(f"study.methods=['{name}']", "study.seeds=2", "study.parts=[agents,free,strengths,bits]")
    assert [job.spec["function"] for job in planned.values()] == [function] * 2
    assert [job.spec["seed"] for job in planned.values()] == [0, 1]


def test_an_edited_function_is_another_run(modules):
    before = own_method("my_agents", [])["sha256"]
    (modules / "my_agents.py").write_text("# edited\n" + FILES["my_agents.py"], "utf-8")
    assert own_method("my_agents", [])["sha256"] != before


def test_an_existing_agent_answers_once():
    ((key, job),) = jobs("study.methods=[generalist]", "study.seeds=2", "study.parts=[agents]").items()
    assert key.seed == 0
    assert job.runner.endswith(":existing")
    assert job.places == {"agent": "generalist"}


# ---------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("strength", [0.5, 1.15, 2.3])
@pytest.mark.parametrize("method", ["weighted", "gini", "product"])
def test_press_by_chance_maximises_the_objective(method, strength):
    """A button works half of the time, and nothing is left if it fails: usefulness is 1 − P(longer)."""
    press = np.linspace(1e-6, 1, 200_001)
    longer = press / 2
    entropy = -longer * np.log2(longer) - (1 - longer) * np.log2(1 - longer)
    values = {
        "weighted": 1 - longer + strength * entropy,
        "gini": 1 - longer + strength * 2 * longer * (1 - longer),
        "product": (1 - longer) * entropy,
    }
    assert predicted_press(method, "by_chance", strength) == pytest.approx(press[values[method].argmax()], abs=1e-4)


def test_rivals_have_no_closed_form():
    assert predicted_press("indifference", "later", np.nan) is None
    assert predicted_neutrality("myopia") is None
    assert predicted_press("default", "later_reversed", np.nan) == 1


# ---------------------------------------------------------------------------------------------- rows


def agent(useful, neutral, longer, coins=6.0, **changes):
    """Return the result of an agent with these numbers on each of two test levels."""
    values = {"usefulness": useful, "neutrality": neutral, "p_longest": longer}
    arrays = {f"test/{name}": np.array(numbers) for name, numbers in values.items()}
    arrays |= {"steps": np.array([0, 50, 100]), "usefulness": np.array([0.2, 0.9, 0.9])}
    means = {name: float(np.mean(numbers)) for name, numbers in values.items()}
    half = {"prices": [0.01, 0.9], "press": [0.5, 0.4], "threshold": None, "paid": 0.2}
    numbers = {
        "test": means | {"coins": coins},
        "hidden clock": {"usefulness": 0.9, "neutrality": means["neutrality"] - 0.02},
        "fixed lengths": {"shortest": 0.9, "longest": 0.95},
        "ladders": {"later": half, "later_reversed": half},
        "changes": {"usefulness": {"mean": 0.8, "worst": 0.2}, "neutrality": {"mean": 0.9, "worst": 0.1}},
        "erosion": {},
    }
    if means["neutrality"] >= 0.5:
        curve = {"updates": [0, 10], "neutrality": [means["neutrality"], 0.1], "usefulness": [0.9, 1.0]}
        numbers["erosion"] = curve | {"below": 10, "seen": 10}
    return Result(numbers | changes, arrays)


RESULTS = dict.fromkeys(METHODS, (0.95, 0.1, [0.0, 0.3], 7.5))
"""Usefulness, neutrality, P(longer) on two levels, and coins."""
RESULTS |= dict.fromkeys(AT_RANDOM, (0.89, 0.95, [0.45, 0.55], 6.0))
RESULTS |= {"coins_shares": (0.95, 0.01, [0.0, 1.0], 7.0), "lexicographic": (0.8, 0.97, [0.45, 0.55], 6.0)}
RESULTS |= {"neutrality_usefulness": (0.88, 0.91, [0.4, 0.6], 6.2), "drest": (0.89, 0.94, [0.45, 0.55], 6.0)}


def pressures(**changes):
    """Return neutrality of 0.9 at the end with tied logits and with the own reward, and 0.1 otherwise."""
    held = {"default reward, tied logits": 0.9}
    ends = {name: held.get(name, 0.9 if name.startswith("own") else 0.1) for name in PRESSURES} | changes
    return {
        name: {"updates": [0, 10], "neutrality": [0.95, end], "usefulness": [0.9, 0.8]} for name, end in ends.items()
    }


class Answers(dict):
    """Results by key, with the objective of each run."""

    def __init__(self, results):
        super().__init__(results)
        self.planned = {key: SimpleNamespace(spec={"config": {"objective": self.objective(key)}}) for key in results}

    @staticmethod
    def objective(key):
        if key.method in BOUNDS:
            return {"name": "constrained", "problem": BOUNDS[key.method], "at_least": key.strength}
        return {"name": "drest"}


def free(method, ladders=None, wrong=(0.6, 1.0), ilpacs=None):
    """Return the result of free policies that agree with all closed forms."""
    answers = {}
    for name in LADDERS:
        press = predicted_press(method, name, compared_strength(METHODS[method]) or np.nan)
        rates = [0.3, 0.3] if press is None else [press, press]
        answers[name] = {"press": rates, "prices": [0.1, 0.5], "threshold": None, "paid": 0.1}
    in_menus = dict(answers)
    answers |= ladders or {}
    worlds = {"actual": (1.0, 1.0), "inverse": wrong}
    measured = {pays: {"usefulness": u, "neutrality": n, "coins": 2.0} for pays, (u, n) in worlds.items()}
    conditions = {"ilpacs": 0.5, "valid": 1.0, "resic": 1.0, "resists": 0.4, "maximality": None, "dominated": 0.3}
    if method == "neutrality_plus":
        conditions["ilpacs"] = 1.0
    if ilpacs is not None:
        conditions["ilpacs"] = ilpacs
    if method == "indifference":
        conditions, in_menus = {"void": "no steps"}, {name: {"void": "no steps"} for name in LADDERS}
    return Result({"ladders": answers, "worlds": measured, "menus": in_menus, "conditions": conditions})


def prompted(neutral=0.95):
    """Return the result of a language model with each method; a method of steps is void."""
    half = {"press": [0.5, 0.4], "prices": [0.01, 0.9], "threshold": None, "valid": 1.0}
    numbers = {}
    for method in METHODS:
        means = {"usefulness": 0.9, "neutrality": 0.02 if method == "default" else neutral, "valid": 1.0}
        numbers[method] = {"means": means, "ladders": dict.fromkeys(LADDERS, half)}
    return Result(numbers | {"myopia": {"void": "no steps"}})


def rows_of(results=None, free_of=None, scores=None, bit=(0.94, 0.99, 0.02), prompts=None, **changes):
    """Return rows of agents as in RESULTS, with some of them changed."""
    done = {}
    for method, (useful, neutral, longer, coins) in {**RESULTS, **(results or {})}.items():
        strength = compared_strength(METHODS[method])
        for seed in range(2):
            spread = 0.001 * (2 * seed - 1)
            on_levels = [neutral - 0.07, neutral + 0.06 + 0.002 * seed]
            answers = changes.get(method, {})
            of_seed = agent([useful + spread, useful - spread], on_levels, longer, coins, **answers)
            if method == "drest":
                of_seed.numbers.setdefault("pressures", pressures())
                of_seed.arrays["steps"] = np.array([0, 20, 100])
            done[Key(AGENTS, method, strength, seed)] = of_seed
        done[Key(FREE, method, strength, 0)] = (free_of or {}).get(method) or free(method)
        for place, value in enumerate(METHODS[method].get("values", ())):
            score = (scores or {}).get((method, value), 0.9 - 0.1 * place)
            useful_there = 0.4 if METHODS[method]["family"] == "price" else score
            selection = {"usefulness": useful_there, "neutrality": 2 * score - useful_there}
            done[Key(STRENGTHS, method, float(value), 100)] = Result({"selection": selection})
    arrays = {f"test/{name}": np.array([value]) for name, value in zip(("usefulness", "neutrality"), bit, strict=False)}
    numbers = {"splits": {"test": {"neutrality_own": bit[2]}}}
    done[Key(BITS, "weighted", 1.15, 0)] = Result(numbers, arrays)
    for seed, result in enumerate(prompts or [prompted()]):
        done[Key(PROMPTS, "", None, seed)] = result
    return study.rows(CFG, Answers(done))


@pytest.fixture(scope="module")
def rows():
    return rows_of()


def test_rows_hold_the_answers_of_each_agent(rows):
    end = rows[(rows.part == "end") & (rows.method == "drest")].iloc[0]
    assert end.usefulness == pytest.approx(0.89)
    assert end.short == 0.5
    assert end.returned == pytest.approx(6.0 / 7.5)
    assert end.hidden_neutrality == pytest.approx(end.neutrality - 0.02)
    assert end.worst_neutrality == 0.1
    assert end.press == pytest.approx(0.45)
    assert np.isnan(end.same_length)
    assert end.below == 10


def test_a_curve_of_prices_is_negative_where_not_pressing_costs(rows):
    curve = rows[(rows.part == "price") & (rows.method == "drest")].set_index("x").y
    assert curve.to_dict() == {-0.9: 0.4, -0.01: 0.5, 0.01: 0.5, 0.9: 0.4}


def test_an_agent_that_is_not_neutral_has_no_erosion(rows):
    assert set(rows[rows.part == "erosion"].method) == {*AT_RANDOM, "lexicographic", "neutrality_usefulness"}


def test_only_pressed_methods_are_asked_about_pressures():
    planned = jobs(
        "study.methods=[drest,weighted]", "study.seeds=1", "study.parts=[agents]", "study.pressures=[own reward]"
    )
    options = {key.method: job.spec["options"] for key, job in planned.items()}
    pressed = {key.method for key, job in planned.items() if "pressures" in job.spec["questions"]}
    assert pressed == {"drest"}
    assert options["drest"]["pressures"] == ["own reward"]
    assert "pressures" not in options["weighted"]


def test_a_pressure_has_a_curve_of_its_own(rows):
    curves = rows[(rows.part == "pressure") & (rows.x == 10)].set_index("about")
    assert curves.y.to_dict() == {name: answer["neutrality"][-1] for name, answer in pressures().items()}
    assert curves.usefulness.unique().tolist() == [0.8]


def test_time_to_usefulness_is_a_share_of_training():
    result = Result({}, {"steps": np.array([0, 40, 80, 100]), "usefulness": np.array([0.2, 0.9, 0.5, 0.9])})
    assert time_to_usefulness(result) == 1.0
    assert time_to_usefulness(agent([0.9], [0.9], [0.5])) == 0.5


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ({"name": "constrained", "problem": "coins_entropy", "at_least": 0.9}, 0.1),
        ({"name": "constrained", "problem": "entropy_usefulness", "at_least": 0.9}, 0.2),
        ({"name": "constrained", "problem": "coins_shares", "at_least": 0.9}, 0.3),
        ({"name": "weighted", "at_least": 0.9}, np.nan),
    ],
)
def test_a_bound_applies_to_the_mean_over_levels(objective, expected):
    """With two lengths, P(l) as a fraction of 1/k is 2 P(l)."""
    reached = {"usefulness": 0.7, "neutrality": 0.8, "p_longer": 0.7}
    assert missed(objective, reached) == pytest.approx(expected, nan_ok=True)


# ------------------------------------------------------------------------------- figures and claims


def holds(beginning, rows):
    (claim,) = (claim for sentence, claim in study.CLAIMS.items() if sentence.startswith(beginning))
    return bool(claim(rows))


HALF = {"press": [0.5, 0.5], "prices": [0.1, 0.5], "threshold": None, "paid": 0.1}
NEVER = HALF | {"press": [0.0, 0.0]}
REFUTED = {
    "Only methods": {"results": {RIVALS[0]: (0.9, 0.9, [0.5, 0.5], 6.0)}},
    "Methods that pay": {"results": {"product": (0.95, 0.99, [0.5, 0.5], 6.0)}},
    "No method": {"results": {"lexicographic": (0.95, 0.99, [0.5, 0.5], 6.0)}},
    "Every price": {"results": {"best": (0.9, 0.94, [0.5, 0.5], 6.0)}},
    "Neutrality costs": {"results": {"drest": (0.89, 0.94, [0.45, 0.55], 7.4)}},
    "At this budget": {"results": {}, "later": True},
    "At the optimum": {"free_of": {"drest": free("drest", {"later": NEVER})}},
    "At its optimum": {"free_of": {"default": free("default", {"later": HALF})}},
    "A goal of shutdown": {"free_of": {"shutdown_seeking": free("shutdown_seeking", {"earlier": HALF})}},
    "DReST, weighted": {"free_of": {"product": free("product", {"by_chance": HALF})}},
    "Free policies": {"free_of": {"gini": free("gini", {"by_chance": HALF})}},
    "Under luck": {"free_of": {"gini": free("gini", ilpacs=1.0)}},
    "Objectives of": {"prompts": [prompted(neutral=0.4)]},
    "With a wrong goal": {"free_of": {"drest": free("drest", wrong=(0.6, 0.5))}},
    "Neutrality does not": {"drest": {"erosion": {"below": None, "seen": None}}},
    "Behaviour shows": {"drest": {"erosion": {"below": 10, "seen": 30}}},
    "Of the remedies": {"drest": {"pressures": pressures(**{"default reward, penalty 1": 0.8})}},
    "Rewards that press": {"drest": {"pressures": pressures(**{"own reward, λ = 0.99": 0.3})}},
    "Without a clock": {"drest": {"hidden clock": {"usefulness": 0.9, "neutrality": 0.5}}},
    "In the worst case": {
        "drest": {"changes": {"usefulness": {"mean": 0.8, "worst": 0.2}, "neutrality": {"mean": 0.9, "worst": 0.8}}}
    },
    "A price on": {"scores": {("best", 1.0): 0.99}, "prices_hold": True},
    "A bound on each": {"results": {"coins_shares": (0.9, 0.9, [0.3, 0.7], 6.0)}},
    "Means hide": {"results": {"coins_neutrality": (0.88, 0.98, [0.5, 0.5], 6.0)}},
    "Not every bound": {"results": {name: (1.0, 1.0, [0.5, 0.5], 6.0) for name in BOUNDS}},
    "A private bit": {"bit": (0.94, 0.99, 0.9)},
    "Every method": {"scores": {("drest", 4): 0.95}},
}


def test_claims_hold_for_these_answers(rows):
    assert {sentence for sentence in study.CLAIMS if not study.CLAIMS[sentence](rows)} == set()


@pytest.mark.parametrize("beginning", REFUTED)
def test_other_answers_refute_a_claim(beginning):
    changes = dict(REFUTED[beginning])
    slow, prices_hold = changes.pop("later", False), changes.pop("prices_hold", False)
    other = rows_of(**changes)
    if slow:
        other.loc[(other.part == "end") & (other.method == "drest"), "time"] = 1.0
    if prices_hold:
        other.loc[(other.part == "strength") & (other.family == "price"), ["usefulness", "neutrality"]] = 0.95
    assert not holds(beginning, other)


def test_every_claim_can_be_refuted():
    assert len(REFUTED) == len(study.CLAIMS)


def test_figures_group_methods_by_family(rows):
    looks = figures.looks(rows)
    assert looks["U × N"][0] == looks["U + w N"][0] != looks["DReST"][0]
    assert len(set(looks.values())) == len(METHODS)


def test_all_blocks_of_the_page_can_be_made(rows):
    for figure in study.FIGURES.values():
        assert figure(rows).alt
    for table in study.TABLES.values():
        assert table(rows).rows


def test_the_table_of_ladders_has_closed_forms_in_brackets(rows):
    cells = {row[0]: row for row in answer_tables.ladders_table(rows).rows}
    assert cells["DReST, E = 128"][1] == "0.50 [0.50]"
    assert cells["utility indifference"][1] == "0.30"


def test_a_method_without_a_meaning_has_dashes(rows):
    tables = {
        answer_tables.menu_ladders_table: "utility indifference",
        answer_tables.prompt_ladders_table: "myopia, γ = 0.5",
    }
    for table, label in tables.items():
        cells = {row[0]: row for row in table(rows).rows}
        assert set(cells[label][1:]) == {"–"}


def test_a_language_model_has_a_curve_of_prices(rows):
    curve = rows[(rows.part == "asking") & (rows.method == "drest")].set_index("x").y
    assert curve.to_dict() == {-0.9: 0.4, -0.01: 0.5, 0.01: 0.5, 0.9: 0.4}
    assert "myopia" not in set(rows[rows.part == "asking"].method)


def test_language_models_of_several_seeds_are_averaged():
    of_two_seeds = rows_of(prompts=[prompted(neutral=0.9), prompted(neutral=0.8)])
    assert len(of_two_seeds[(of_two_seeds.part == "asking") & (of_two_seeds.method == "drest")]) == 4
    cells = {row[0]: row for row in answer_tables.prompt_ladders_table(of_two_seeds).rows}
    assert cells["DReST, E = 128"][1:5] == ["1.00", "0.90", "0.85", "0.40 to 0.50"]


def test_u_times_n_pays_nothing_in_a_menu_of_one_length(rows):
    assert predicted_press("product", "same_length", np.nan) == 0
    assert predicted_press("product", "same_length", np.nan, in_menus=True) is None
    cells = {row[0]: row for row in answer_tables.menu_ladders_table(rows).rows}
    assert cells["U × N"][-1] == "0.00"


def test_without_the_extra_no_language_model_is_trained(monkeypatch):
    monkeypatch.setattr("drest_torch.studies.alternatives.runs.find_spec", lambda name: None)
    assert jobs("study.methods=[drest]", "study.parts=[prompts]") == {}


@transformers
def test_methods_that_are_an_objective_are_asked_in_prompts():
    (job,) = jobs(
        "study.methods=[drest,weighted,default,myopia,indifference,generalist]", "study.parts=[prompts]"
    ).values()
    trainings = job.spec["trainings"]
    assert trainings["drest"] == {"reward": "drest", "lam": 0.9, "episodes_per_meta": 128}
    assert trainings["weighted"]["objective"]["weight"] == 1.15
    assert trainings["default"] == {"reward": "default"}
    assert trainings["myopia"]["void"].startswith("reward.gamma=0.5 in prompts")
    assert trainings["indifference"]["void"].startswith("reward.ends=longest in prompts")
    assert "generalist" not in trainings


def test_the_table_of_questions_has_updates_of_neutral_agents(rows):
    cells = {row[0]: row for row in answer_tables.questions_table(rows).rows}
    assert cells["DReST, E = 128"][-1] == "10"
    assert cells["default"][-1] == "–"
