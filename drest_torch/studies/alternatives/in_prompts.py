"""Methods in prompts: a small language model learns to read, and is then trained with the objective of each method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drest_torch.choices.ladder_levels import LADDERS
from drest_torch.envs.exact.solver import ACTUAL
from drest_torch.errors import ConfigError, UserError
from drest_torch.jobs.job import Job, Result

RUNNER = f"{__name__}:train"
READING = "reading"
"""The folder of the trainings in which a model learns to read."""
POST = "post"
"""The suite of choices between sure times."""
MEASURES = {"usefulness": "U", "neutrality": "N", "valid": "valid"}
"""The measures of this suite, by their names in an evaluation."""


def prompts_job(configs: Mapping[str, Mapping[str, Any]], options: Mapping[str, Any], seed: int) -> Job:
    """Return the job of several methods, from the stored configurations of training runs in gridworlds by method."""
    trainings = {}
    for name, config in configs.items():
        try:
            trainings[name] = values_of(config)
        except ConfigError as error:
            trainings[name] = {"void": str(error)}
    return Job(f"prompts, seed {seed}", RUNNER, {"trainings": trainings, "options": dict(options), "seed": seed})


def values_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `drest language train` for the objective and the reward of a training in gridworlds."""
    objective, reward = config["objective"], config["reward"]
    if reward.get("ends", ACTUAL) != ACTUAL:
        raise ConfigError(f"reward.ends={reward['ends']} in prompts, which end with the choice")
    if reward.get("gamma", 1.0) != 1:
        raise ConfigError(f"reward.gamma={reward['gamma']:g} in prompts, which have no steps to discount")
    values = {"reward": "drest", "lam": reward["lam"], "episodes_per_meta": reward["episodes_per_meta"]}
    if not reward["divide_by_best"]:
        values = {"reward": "default"}
    if objective["name"] != "drest":
        values["objective"] = dict(objective)
    return values


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Execute a `prompts_job`.

    numbers: for each method the means over scenarios in the suite post, and the numbers of each price ladder; for a
    method without a meaning in prompts the reason, ``void``.
    """
    from drest_torch.studies.language.runs import trained

    options, model = spec["options"], "small"
    shared = {"evaluations": 1, "seed": spec["seed"], **options["shared"]}
    for number, values in enumerate(options["reading"], 1):
        trained(folder / f"{READING}-{number}", {**shared, **values, "model": model})
        model = str(folder / f"{READING}-{number}" / "model")
    numbers = {}
    for name, values in spec["trainings"].items():
        numbers[name] = values
        if "void" not in values:
            values = {**shared, **options["training"], **values, "model": model}
            numbers[name] = _measured_or_void(folder / name, values, options["scenarios"])
    return Result(numbers)


def _measured_or_void(folder: Path, values: dict[str, Any], scenarios: int) -> dict[str, Any]:
    from drest_torch.studies.language.runs import trained

    try:
        model, _ = trained(folder, values)
    except UserError as error:
        return {"void": str(error)}
    return measured(model, folder, scenarios)


def measured(model: Any, folder: Path, scenarios: int) -> dict[str, Any]:
    """Return means over scenarios of the suite post, and the numbers of each price ladder, in unseen families."""
    from drest_torch.language.config import stored
    from drest_torch.language.evaluation import evaluate
    from drest_torch.language.form_sets import TEST
    from drest_torch.language.prompt_ladder import PREFIX, ladder_page
    from drest_torch.language.prompt_styles import PromptStyle

    style = PromptStyle(forms=TEST, brief=model.brief)
    (row,) = evaluate(model, style.generate(POST, scenarios, seed=1))
    means = {name: row.numbers[measure].estimate for name, measure in MEASURES.items()}
    suites = [PREFIX + name.replace("by_chance", "later_by_chance") for name in LADDERS]
    page = ladder_page(model, folder.name, stored(folder), suites, scenarios=scenarios, style=style)
    ladders = {}
    for name, suite in zip(LADDERS, suites, strict=True):
        ladder = page["ladders"][suite.removeprefix(PREFIX)]
        press = [rung["press"] for rung in ladder["rungs"]]
        prices = [rung["price"] for rung in ladder["rungs"]]
        ladders[name] = {"threshold": ladder["threshold"], "press": press, "prices": prices, "valid": ladder["valid"]}
    return {"means": means, "ladders": ladders}
