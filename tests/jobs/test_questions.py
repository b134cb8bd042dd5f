"""Questions to agents: measures of scripted policies, hidden clocks, fixed lengths, and agents of the user."""

import textwrap

import numpy as np
import pytest
import torch

from drest_torch.choices.adversarial import scripted_policy
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.errors import ConfigError, UserError
from drest_torch.jobs import questions
from drest_torch.jobs.questions import Subject, answers, measures, policy_of, with_fixed_length
from drest_torch.jobs.training_job import training_jobs
from tests.helpers.plans import GAIN, LOSS

LEVELS = [GAIN, LOSS]
RANDOM = scripted_policy("uniform")


def test_the_policy_with_most_coins_has_exact_measures():
    measured = measures(scripted_policy("most coins"), LEVELS)
    assert measured["usefulness"] == pytest.approx([1, 1])
    assert measured["neutrality"] == pytest.approx([0, 0])
    assert measured["p_longest"] == pytest.approx([1, 0])
    assert measured["coins"] == pytest.approx([3, 3])
    assert measured["share"] == pytest.approx([1, 1])


def test_a_hidden_clock_shows_the_same_at_all_times():
    mdp = compile_levels(LEVELS)
    hidden = questions.HiddenClock(make_observation("grid", mdp))
    spot, taken = mdp.start.long(), torch.zeros(2, dtype=torch.long)
    early, late = (hidden(spot, taken, torch.full((2,), time)) for time in (3, 1))
    assert torch.equal(early, late)
    assert hidden.shape == make_observation("grid", mdp).shape


@pytest.mark.parametrize("longest", [False, True])
def test_a_fixed_length_is_one_of_the_level(longest):
    actual, fixed = (solve(compile_levels(levels)) for levels in (LEVELS, with_fixed_length(LEVELS, longest)))
    assert fixed.num_lengths.tolist() == [1, 1]
    assert fixed.lengths[:, 0].tolist() == actual.lengths[:, int(longest)].tolist()
    assert (fixed.best_return[:, 0] >= actual.best_return[:, int(longest)]).all()


def test_a_function_of_observations_is_a_policy():
    policy, folder = policy_of(lambda observations: torch.zeros(len(observations), 4), "mine:method")
    assert folder is None
    expected = measures(RANDOM, LEVELS)
    for name, values in measures(policy, LEVELS).items():
        assert values == pytest.approx(expected[name])


def test_other_results_of_a_function_are_refused():
    with pytest.raises(ConfigError, match="mine:method returned a int; expected the folder of a run, an Agent or a"):
        policy_of(3, "mine:method")


def subject(policy=RANDOM):
    return Subject(policy, None, LEVELS[:1], LEVELS, {"worlds": ["example"], "maps": 1, "updates": [0, 1]})


def test_answers_have_a_value_for_each_test_level():
    result = answers(subject(), ["test", "selection"])
    assert result.arrays["test/usefulness"].shape == (2,)
    assert result.numbers["test"]["usefulness"] == pytest.approx(result.arrays["test/usefulness"].mean())
    assert result.numbers["selection"]["usefulness"] == pytest.approx(result.arrays["test/usefulness"][0])


def test_a_question_that_does_not_fit_is_void(monkeypatch):
    def refused(subject):
        raise UserError("no clock")

    monkeypatch.setitem(questions.QUESTIONS, "hidden clock", refused)
    assert answers(subject(), ["hidden clock"]).numbers == {"hidden clock": {"void": "no clock"}}


def test_the_random_policy_answers_questions():
    numbers = answers(subject(), ["ladders", "changes", "fixed lengths"]).numbers
    assert numbers["ladders"].keys() == set(questions.LADDERS)
    assert np.ptp(numbers["ladders"]["later"]["press"]) == pytest.approx(0, abs=1e-12)
    assert numbers["changes"]["usefulness"]["worst"] < numbers["changes"]["usefulness"]["mean"]
    assert 0 < numbers["fixed lengths"]["shortest"] < 1


def test_an_agent_that_is_not_neutral_is_not_eroded():
    assert answers(subject(scripted_policy("most coins")), ["erosion"]).numbers == {"erosion": {}}


def test_a_function_of_the_user_is_called(tmp_path, monkeypatch):
    code = """
        import torch

        def method(arguments, seed, folder):
            assert "levels=followup_like" in arguments and seed == 3
            return lambda observations: torch.zeros(len(observations), 4)
    """
    (tmp_path / "my_random.py").write_text(textwrap.dedent(code), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["levels=followup_like", "levels.train=5", "levels.test=3", "levels.selection=2"]
    (levels,) = training_jobs("levels", [3], None, arguments)
    function = {"function": "my_random:method", "arguments": arguments, "seed": 3}
    spec = {**levels.spec, **function, "questions": ["test"], "options": {}}
    result = questions.of_function(spec, tmp_path)
    assert result.arrays["test/usefulness"].shape == (3,)
    assert ((result.arrays["test/usefulness"] > 0) & (result.arrays["test/usefulness"] < 1)).all()
