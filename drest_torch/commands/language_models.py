"""The commands ``drest language train``, ``drest language evaluate`` and ``drest language tasks``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from drest_torch.commands.cli import import_named, key_values, one_sentence, streams
from drest_torch.config.checks import check_limits, device_of
from drest_torch.config.schema import LARGEST_SEED, MOST_SAMPLED
from drest_torch.errors import ConfigError, UserError, shown
from drest_torch.files import write_json
from drest_torch.limits import limited
from drest_torch.outputs import check_outputs
from drest_torch.registry import leave_here

HELP = """\
Train language models to choose with DReST, and measure what they choose.

  drest language train model=small run_dir=runs/small
  drest language train model=FOLDER reward=default method=rloo
  drest language train resume=runs/small
  drest language evaluate model=runs/small suite=all out=FILE.json picture=FILE.png
  drest language tasks suite=post out=FILE.jsonl

imports=MODULE,… names modules of your own that a stored run uses.
See docs/tutorials/language.md."""


@dataclass
class EvaluationConfig:
    """The values of an evaluation."""

    model: str = "small"
    """The folder of a run, or what ``model`` is in training."""
    suite: str = "post"
    """Suites, with commas between them; all: every one."""
    tasks: str | None = None
    """A jsonl file of prompts, in place of the suites."""
    scenarios: int = limited(at_least=1, at_most=1_000_000, default=200)
    held_out: bool = True
    """Whether the families are those that are not trained on."""
    brief: bool = False
    """Whether the prompts that ``tasks`` writes have few words; a model gets those that it can read."""
    reads: str | None = limited(choices=("letters", "lines"), default=None)
    samples: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Answers that are sampled of each prompt; null: probabilities are taken as they are."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=1)
    device: str = "cpu"
    out: str | None = None
    """A .json file of the numbers."""
    picture: str | None = None
    """A picture of them, with their intervals: a .png, .svg or .pdf file."""


def main() -> None:
    """Do what the first argument says."""
    what, *words = sys.argv[1:] or ["--help"]
    if {"-h", "--help"} & {what, *words}:
        print(HELP)
        return
    actions = {"train": _train, "evaluate": _evaluate, "tasks": _tasks}
    with streams(), one_sentence():
        leave_here()
        if what not in actions:
            raise UserError(f"drest language {what}; expected train, evaluate or tasks")
        import_named()
        actions[what](sys.argv[2:])


def _train(words: list[str]) -> None:
    from drest_torch.language.config import LanguageConfig
    from drest_torch.language.training import command, resume, start

    resumed = [word.partition("=")[2] for word in words if word.startswith("resume=")]
    if resumed and len(words) > 1:
        raise ConfigError(f"resume={resumed[0]} takes the configuration of the run; leave the other values out")
    run = resume(Path(resumed[0])) if resumed else start(key_values(words, LanguageConfig))
    if (summary := run.train()) is None:
        sys.exit(130)
    scores = ", ".join(f"{name} {value:.3f}" for name, value in summary["splits"]["selection"].items())
    print(f"Other scenarios of the families of training: {scores}")
    print(
        shown(
            f"{summary['updates']:,} updates, {summary['processor_seconds']:.0f} s of processor time; everything is in "
            f"{run.folder}\nEvaluate it on unseen families: {command(run.folder, 'evaluate', 'model')} suite=all"
        )
    )


def _prompts(given: EvaluationConfig, *, brief: bool) -> list[Any]:
    from drest_torch.language import prompt_files
    from drest_torch.language import prompts as data

    if given.tasks is not None:
        return prompt_files.read(Path(given.tasks))
    names = data.MEASURED if given.suite == "all" else given.suite.split(",")
    made = partial(data.generate, number=given.scenarios, seed=given.seed, held_out=given.held_out, brief=brief)
    return [prompt for name in names for prompt in made(name)]


def _evaluate(words: list[str]) -> None:
    from drest_torch.language.config import stored
    from drest_torch.language.evaluation import evaluate, table
    from drest_torch.language.model import SMALL, SMOLLM2, load
    from drest_torch.language.training import trained

    given = key_values(words, EvaluationConfig)
    check_limits(given)
    device = device_of(given.device)
    if given.picture is not None:
        from drest_torch.plots.curves import FORMATS  # matplotlib takes a while to import

        if Path(given.picture).suffix.lower() not in FORMATS:
            raise ConfigError(f"picture={given.picture}; expected a name that ends in {', '.join(FORMATS)}")
    is_run = (Path(given.model) / "config.yaml").is_file()
    base = stored(Path(given.model)).model if is_run else given.model
    reads = [given.tasks, None if base in (SMALL, SMOLLM2) else base]
    if given.out is not None:
        check_outputs(Path(given.out), reads=reads, ending=".json")
    if given.picture is not None:
        check_outputs(Path(given.picture), reads=reads)
    model = trained(Path(given.model), given.reads) if is_run else load(given.model, given.reads or "letters")
    model.model.to(device)
    rows = evaluate(model, _prompts(given, brief=model.brief), samples=given.samples, seed=given.seed)
    print(shown(table(rows)))
    if given.out is not None:
        write_json(Path(given.out), [asdict(row) for row in rows])
        print(shown(f"The numbers are in {given.out}"))
    if given.picture is not None:
        _draw(rows, Path(given.model).name, Path(given.picture))
        print(shown(f"Their picture is {given.picture}"))


def _draw(rows: list[Any], title: str, path: Path) -> None:
    """Draw the numbers of each suite with their intervals; how often an option is named is in the table alone."""
    from drest_torch.report.plots import dots, write_plot

    found = {f"{row.suite}: {name}": each for row in rows for name, each in row.numbers.items() if name != "valid"}
    series = {"mean over scenarios, 95 % interval": found}
    write_plot(dots(series, title=title, lines={}, limits=(0, 1), colours=("drest",)), path)


def _tasks(words: list[str]) -> None:
    from drest_torch.language import prompt_files
    from drest_torch.language import prompts as data

    given = key_values(words, EvaluationConfig)
    check_limits(given)
    if given.out is None:
        raise ConfigError("out=FILE.jsonl says where the prompts are written")
    check_outputs(Path(given.out), reads=[given.tasks], ending=".jsonl")
    found = _prompts(given, brief=given.brief)
    prompt_files.write(found, Path(given.out))
    print(shown(f"{len(found)} prompts with the hash {data.digest(found)} are in {given.out}"))


if __name__ == "__main__":
    main()
