"""The search: its space, its samples, and a search from the command to the run that it recommends."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from drest_torch.__main__ import main
from drest_torch.commands.search import plan_of
from drest_torch.commands.search_space import space_of
from drest_torch.comparison.records import find_runs
from drest_torch.errors import ConfigError
from drest_torch.jobs.executor import Finished, Started
from drest_torch.jobs.job import Failure, Result
from drest_torch.searching.search_plan import score_of
from drest_torch.searching.space import Choice, Numbers, WholeNumbers
from tests.helpers.commands import python
from tests.helpers.documents import ROOT
from tests.helpers.job_runners import wait_for
from tests.helpers.runs import SMALLEST, same_run

optuna = pytest.importorskip("optuna", reason="optuna is not installed (the extra `search`)")
from drest_torch.searching import driver  # noqa: E402
from drest_torch.searching.driver import Search  # noqa: E402
from drest_torch.searching.journal import JOURNAL, open_study, pruner, repair, sampler  # noqa: E402
from drest_torch.searching.ranking import ranked, write_trials  # noqa: E402

LAM = "reward.lam=interval(0.5,0.99)"
LR = "algo.lr=tag(log,interval(1e-4,1e-1))"
SHORT = (*SMALLEST[:-1], "reward.group=16", "levels=example", "test.paper=false", "env_steps=600", "evaluations=2")


# ------------------------------------------------------------------------------------ the space


@pytest.mark.parametrize(
    ("word", "dimension"),
    [
        ("k=a,b", Choice(key="k", written="a,b", values=("a", "b"))),
        ("k=1,2.5,null,true", Choice(key="k", written="1,2.5,null,true", values=(1, 2.5, None, True))),
        ("k=choice(a,b)", Choice(key="k", written="choice(a,b)", values=("a", "b"))),
        ("k=[1,2],[3]", Choice(key="k", written="[1,2],[3]", values=("[1,2]", "[3]"))),
        ("k=interval(0.5,1)", Numbers(key="k", written="interval(0.5,1)", low=0.5, high=1.0)),
        ("k=interval(1,9)", Numbers(key="k", written="interval(1,9)", low=1.0, high=9.0)),
        ("k=int(interval(1,9))", WholeNumbers(key="k", written="int(interval(1,9))", low=1, high=9)),
        (
            "k=tag(log,interval(1e-4,1e-2))",
            Numbers(key="k", written="tag(log,interval(1e-4,1e-2))", low=1e-4, high=1e-2, log=True),
        ),
        ("k=range(1,4)", WholeNumbers(key="k", written="range(1,4)", low=1, high=3)),
        ("k=range(4,16,4)", WholeNumbers(key="k", written="range(4,16,4)", low=4, high=12, step=4)),
        ("k=range(0.5,1,0.25)", Numbers(key="k", written="range(0.5,1,0.25)", low=0.5, high=0.75, step=0.25)),
    ],
)
def test_values_are_read_in_the_grammar_of_hydra(word, dimension):
    space, others = space_of([word, "seed=3"])
    assert space == [dimension]
    assert others == ["seed=3"]


def test_a_level_file_implies_its_option():
    _, others = space_of([LAM, "levels.path=mine.txt"])
    assert others == ["levels=file", "levels.path=mine.txt"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "nothing to search: give a key several values"),
        ((LAM, "reward.lam=0.9"), "reward.lam: given twice"),
        (("algo.lr=tag(log,interval(0,1))",), "a logarithm needs numbers above 0"),
        (("algo.lr=interval(1,0)",), "with the lower number first"),
        (("algo.lr=tag(linear,interval(0,1))",), "tag linear; expected log"),
        (("algo.lr=range(3,1)",), "expected range(FIRST,END,STEP)"),
        (("algo=glob(*)",), "expected the options by name"),
        (("algo.lr=interval(0,",), "algo.lr=interval(0,"),
        (("sampled=choice(1,null)",), "NoneType is incompatible"),
        (("reward.lam=interval(0.5,2)",), "reward.lam=2.0; expected a number above 0, at most 1"),
        (("algo.lrr=interval(0,1)",), "algo.lrr: no such key (did you mean algo.lr?)"),
        (("algo=dqn,ppo",), "algo=dqn; expected one of"),
        (("algo.epochs=interval(1.5,2)",), "algo.epochs=int(interval(LOW,HIGH)) samples whole numbers"),
        ((LAM, "run_dir=mine"), "run_dir=mine: the runs of a search are in its folder"),
        ((LAM, "trials=0"), "trials=0; expected a number from 1"),
        ((LAM, "trials=many"), "many"),
        ((LAM, "sampler=grid"), "sampler=grid; expected"),
        ((LAM, "-m"), "-m: no such option"),
    ],
)
def test_a_mistake_in_a_search_gets_one_sentence(words, sentence, call):
    assert sentence in call(main, "search", "levels=example", *words).sentence


def test_without_optuna_the_command_names_the_extra():
    program = "from drest_torch.__main__ import main\nsys.argv = ['drest', 'search']\nsys.exit(main())\n"
    message = python("-c", f"import sys\nsys.modules['optuna'] = None\n{program}", status=2)
    assert message == "drest_torch: drest search needs Optuna; pip install 'drest_torch[search]'\n"


# ------------------------------------------------------------------------------------ samples and results


class Fake:
    """An executor in this process: the value of a trial is a function of its configuration."""

    def __init__(self, value, most=1000):
        self.value, self.most, self.executed = value, most, []

    def run(self, tasks):
        for job, _ in tasks:
            if len(self.executed) == self.most:
                raise KeyboardInterrupt
            yield Started(job)
            config = job.spec["config"]
            self.executed.append(config)
            try:
                numbers = {"value": self.value(config), "pruned": False, "steps": 600, "split": "train"}
                result = Result(numbers | {"usefulness": 0.5, "neutrality": 1.0})
                yield Finished(job, result, None, 0.0)
            except ZeroDivisionError as error:
                yield Finished(job, None, Failure(job, str(error), ""), 0.0)


def distance(config):
    return -((config["reward"]["lam"] - 0.8) ** 2)


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """Return a function that executes a search with a fake executor, and returns both."""

    def run(*words, value=distance, most=1000, out="out"):
        fake = Fake(value, most)
        monkeypatch.setattr(driver, "Local", lambda workers: fake)
        plan = plan_of(["levels=example", "progress=false", f"out={tmp_path / out}", *words])
        search = Search(plan)
        try:
            search.run()
        except KeyboardInterrupt:
            pass
        finally:
            search.close()
        return search, fake

    return run


def params(search):
    return [trial.params for trial in search.trials]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trials(searched):
    first, _ = searched(LAM, LR, "trials=15", out="a")
    second, _ = searched(LAM, LR, "trials=15", out="b")
    other, _ = searched(LAM, LR, "trials=15", "sampler_seed=1", out="c")
    assert params(first) == params(second)
    assert params(first)[0] != params(other)[0]


@pytest.mark.slow
def test_tpe_comes_closer_than_random_samples(searched):
    late = {}
    for name in ("tpe", "random"):
        search, _ = searched(LAM, "trials=40", f"sampler={name}", out=name)
        late[name] = sorted(trial.value for trial in search.trials[20:])
    assert late["tpe"][10] > late["random"][10] / 2


def test_a_stopped_search_goes_on_as_if_uninterrupted(searched):
    whole, _ = searched(LAM, LR, "trials=14", out="a")
    stopped, fake = searched(LAM, LR, "trials=14", most=12, out="b")
    assert len(fake.executed) == 12
    assert stopped.trials[-1].state is optuna.trial.TrialState.RUNNING
    again, fake = searched(LAM, LR, "trials=14", out="b")
    assert len(fake.executed) == 2
    assert params(again) == params(whole)


def test_a_finished_search_continues_with_more_trials(searched):
    searched(LAM, "trials=3")
    search, fake = searched(LAM, "trials=5")
    assert len(fake.executed) == 2
    assert len(search.trials) == 5
    _, fake = searched(LAM, "trials=5")
    assert fake.executed == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((LR,), "space: reward.lam=interval(0.5,0.99) before, algo.lr=tag(log,interval(1e-4,1e-1)) now"),
        ((LAM, "seed=3"), "arguments: nothing before, seed=3 now"),
        ((LAM, "metric=usefulness"), "metric: score before, usefulness now"),
    ],
)
def test_another_search_in_the_folder_is_refused(words, sentence, searched):
    searched(LAM, "trials=1")
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        searched(*words, "trials=1")
    searched(LAM, "trials=1", "workers=2")  # does not change what is searched


def test_a_folder_with_other_files_is_refused(searched, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    with pytest.raises(ConfigError, match="holds other files, and no search"):
        searched(LAM)


def test_failed_trials_are_recorded(searched, tmp_path):
    numbers = count()
    search, fake = searched(LAM, "trials=4", value=lambda config: 1 / (next(numbers) % 2))
    assert [trial.state.name for trial in search.trials] == ["FAIL", "COMPLETE"] * 2
    assert search.trials[0].user_attrs["reason"] == "division by zero"
    write_trials(search)
    with open(tmp_path / "out" / "trials.csv") as file:
        rows = [*csv.DictReader(file)]
    assert [row["state"] for row in rows] == ["failed", "complete"] * 2
    assert float(rows[1]["reward.lam"]) == search.trials[1].params["reward.lam"]
    assert len(fake.executed) == 4


def test_an_invalid_combination_fails_without_a_run(searched):
    search, fake = searched("reward.group=16,10", "trials=8", value=lambda config: 1.0)
    reasons = {trial.user_attrs.get("reason", "")[:60] for trial in search.trials if trial.state.name == "FAIL"}
    assert len(reasons) == 1
    assert reasons.pop().startswith("reward.group=10 does not divide algo.episodes")
    assert {config["reward"]["group"] for config in fake.executed} == {16}


def test_a_combination_is_trained_once(searched):
    search, fake = searched("reward.group=16,64", "trials=8", value=lambda config: config["reward"]["group"] / 64)
    assert len(search.trials) == 8
    assert len(fake.executed) == 2
    assert [trial.params["reward.group"] for trial in ranked(search)] == [64, 16]


def test_an_unknown_metric_ends_the_search(tmp_path):
    class Refusing(Fake):
        def run(self, tasks):
            job, _ = next(iter(tasks))
            yield Finished(job, None, Failure(job, "ConfigError: metric=joy; expected score", ""), 0.0)

    plan = plan_of(["levels=example", "progress=false", LAM, "metric=joy", f"out={tmp_path}/out"])
    assert plan.settings.metric == "joy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "Local", lambda workers: Refusing(distance))
        search = Search(plan)
        with pytest.raises(ConfigError, match="metric=joy; expected score"):
            search.run()
        search.close()


def test_threads_are_shared_by_workers(searched, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    _, fake = searched(LAM, "trials=1", "workers=3")
    assert fake.executed[0]["threads"] == 2
    _, fake = searched(LAM, "trials=1", "threads=5", out="b")
    assert fake.executed[0]["threads"] == 5


def test_a_cut_off_journal_is_repaired(tmp_path):
    journal = tmp_path / JOURNAL
    study = open_study(journal, 4)
    study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    complete = journal.read_bytes()
    journal.write_bytes(complete + b'{"op_code":5,"trial')
    Path(f"{journal}.lock").touch()
    repair(journal)
    assert journal.read_bytes() == complete
    assert len(open_study(journal, 4).trials) == 1


def test_random_numbers_depend_on_the_trial():
    distribution = optuna.distributions.FloatDistribution(0, 1)
    values = []
    for number in (0, 1, 0):
        study = optuna.create_study(sampler=sampler("random", 3, number))
        values.append(study.ask({"x": distribution}).params["x"])
    assert values[0] == values[2]
    assert values[0] != values[1]


def test_bad_trials_are_pruned_by_the_median():
    study = optuna.create_study(direction="maximize", pruner=pruner(8))
    for value in (0.1, 0.2, 0.3, 0.4, 0.5):
        trial = study.ask()
        for number in range(1, 9):
            trial.report(value, number)
        study.tell(trial, value)
    pruned = {}
    for value in (0.25, 0.35):
        trial = study.ask()
        trial.report(value, 1)
        assert not trial.should_prune()  # too early
        trial.report(value, 3)
        pruned[value] = trial.should_prune()
    assert pruned == {0.25: True, 0.35: False}


EVALUATION = {"eval/train/usefulness": 0.9, "eval/train/neutrality_normalised": 0.9, "train/return": 3.0}
SELECTED = {"eval/selection/usefulness": 0.5, "eval/selection/neutrality_normalised": 0.4}


def test_the_score_is_that_of_selection_levels():
    assert score_of("score", EVALUATION | SELECTED) == pytest.approx(0.2)
    assert score_of("usefulness", EVALUATION | SELECTED) == 0.5
    assert score_of("eval/train/usefulness", EVALUATION | SELECTED) == 0.9
    assert score_of("score", EVALUATION) == pytest.approx(0.81)
    with pytest.raises(ConfigError, match="metric=joy; expected score, usefulness, neutrality_normalised"):
        score_of("joy", EVALUATION)


# ------------------------------------------------------------------------------------ real trials


def best_command(output):
    """Return the arguments of the command that trains the best trial again."""
    (line,) = re.findall(r"^  .* (train (?!-m).*)$", output, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.slow
@pytest.mark.every_turn
def test_the_printed_command_trains_the_best_run(tmp_path):
    words = ("search", *SHORT, LAM, "algo=ppo,a2c", "trials=2", "workers=2", "out=found", "progress=false")
    printed = python("-m", "drest_torch", *words, cwd=tmp_path)
    runs, refused = find_runs([tmp_path / "found"])
    assert [run.folder.name for run in runs] == ["trial-000", "trial-001"]
    assert refused == []
    (best,) = re.findall(r"The best trial is (\S+)\. Train", printed)
    python("-m", "drest_torch", *best_command(printed), "run_dir=again", "logger=none", cwd=tmp_path)
    same_run(tmp_path / best, tmp_path / "again")
    assert python("-m", "drest_torch", *words, cwd=tmp_path) == printed
    assert len(open_study(tmp_path / "found" / JOURNAL, 2).trials) == 2


@pytest.mark.slow
def test_a_search_that_was_stopped_resumes_its_runs(tmp_path):
    words = ("search", *SHORT, LAM, "trials=2", "out=found", "evaluations=20", "env_steps=4000")
    command = [sys.executable, "-m", "drest_torch", *words]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for(lambda: {*tmp_path.glob("found/*/checkpoints/step-*")})
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert " -m drest_torch search " in errors
    assert "Traceback" not in errors
    python("-m", "drest_torch", *words, cwd=tmp_path)
    sessions = json.loads((tmp_path / "found" / "trial-000" / "provenance.json").read_text())
    assert len(sessions) == 2
    python("-m", "drest_torch", *words[:-4], "trials=1", "out=whole", *words[-2:], cwd=tmp_path)
    same_run(tmp_path / "found" / "trial-000", tmp_path / "whole" / "trial-000")
