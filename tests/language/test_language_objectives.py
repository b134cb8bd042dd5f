"""Language models trained with objectives of gridworlds: values, state in checkpoints, and mistakes."""

import pytest
import torch

from drest_torch.commands import language_models as command
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.language.config import LanguageConfig, check, objective_of, stored
from drest_torch.language.prompt_ladder import KINDS, predicted_rate
from drest_torch.language.training import resume, trained
from tests.helpers.language import SHORT, begun, scores, transformers
from tests.helpers.runs import same_run, stop_after

FORMS = SHORT | {"forms": "training", "scenarios": 20, "updates": 3, "seed": 3}


@transformers
@pytest.mark.parametrize("reward", ["drest", "supports", "default"])
def test_the_objective_of_a_reward_trains_the_same_model(tmp_path, reward):
    """Float32 sums in another order differ in the last digits, and Adam divides small gradients by their size."""
    begun(tmp_path / "pay", reward=reward, **FORMS).train()
    name = reward if reward == "supports" else "drest"
    base = "default" if reward == "default" else "drest"
    begun(tmp_path / "objective", reward=base, objective={"name": name}, **FORMS).train()
    of_pay, of_objective = (trained(tmp_path / folder).state_dict() for folder in ("pay", "objective"))
    for weight, value in of_pay.items():
        torch.testing.assert_close(of_objective[weight], value, atol=1e-3, rtol=1e-3, msg=weight)


@transformers
def test_a_resumed_run_keeps_the_state_of_its_objective(tmp_path, monkeypatch):
    values = FORMS | {"updates": 4, "objective": {"name": "constrained", "integral": 5.0, "at_least": 0.99}}
    whole, part = (begun(tmp_path / name, **values) for name in ("whole", "part"))
    summary = whole.train()
    stop_after(part, 2, monkeypatch)
    assert part.train() is None
    again = resume(tmp_path / "part")
    assert again.task.objective.sum[0] > 0
    assert scores(again.train()) == scores(summary)
    same_run(tmp_path / "whole", tmp_path / "part")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"objective": {"name": "nobody"}}, "^objective.name=nobody; expected one of"),
        ({"objective": {"weight": 1}}, "^objective.weight without objective.name"),
        ({"objective": {"name": "weighted", "weight": -1}}, "^objective.weight=-1.0; expected a number at least 0"),
        ({"objective": {"name": "weighted", "colour": "red"}}, "^objective.colour: no such key; expected some of"),
        ({"objective": {"name": "weighted", "weight": "much"}}, "^objective.weight=much; expected a number"),
        ({"objective": {"name": "drest"}, "method": "rloo"}, "^method=rloo with objective.name; expected exact"),
        ({"objective": {"name": "drest"}, "credit": "rloo"}, "^credit=rloo with objective.name; expected mini or meta"),
        ({"objective": {"name": "drest"}, "reward": "supports"}, "^reward=supports with objective.name"),
    ],
)
def test_an_objective_that_does_not_fit_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        check(LanguageConfig(**values))


@transformers
def test_a_command_sets_the_values_of_an_objective(call, tmp_path):
    words = [f"{key}={value}" for key, value in (FORMS | {"run_dir": "run"}).items()]
    done = call(command.main, "train", *words, "objective.name=weighted", "objective.weight=0.5")
    assert not done.code
    config = stored(tmp_path / "run")
    assert config.objective == {"name": "weighted", "weight": 0.5}
    assert objective_of(config).config.weight == 0.5
    mistake = call(command.main, "train", "objective.name=drest", "objective.colour=red")
    assert mistake.sentence.startswith("drest_torch: objective.colour: no such key")


@transformers
def test_an_objective_of_a_stranger_is_refused(tmp_path):
    run = begun(tmp_path / "run", objective={"name": "drest"}, **FORMS)
    path = run.folder / "config.yaml"
    path.write_text(path.read_text("utf-8").replace("name: drest", "name: evil_code"), "utf-8")
    with pytest.raises(CheckpointError, match=r"objective.name names evil_code, a module outside drest_torch"):
        stored(run.folder)


def test_a_price_ladder_has_no_prediction_for_an_objective():
    cfg = LanguageConfig(objective={"name": "weighted"})
    assert predicted_rate(KINDS["later"], 0.5, cfg) != predicted_rate(KINDS["later"], 0.5, cfg)
    assert predicted_rate(KINDS["same_length"], 0.5, cfg) == 0
