"""The commands ``drest language train``, ``drest language evaluate`` and ``drest language tasks``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drest_torch.commands.cli import import_named, key_values, one_sentence, streams
from drest_torch.config.checks import check_limits, device_of
from drest_torch.config.schema import LARGEST_SEED, MOST_SAMPLED
from drest_torch.errors import ConfigError, UserError, printable
from drest_torch.files import write_json
from drest_torch.limits import limited
from drest_torch.outputs import PICTURES, check_outputs
from drest_torch.registry import drop_working_directory

HELP = """\
Train language models to choose with DReST, and measure what they choose.

  drest language train model=small run_dir=runs/small
  drest language train model=FOLDER reward=default method=rloo
  drest language train resume=runs/small
  drest language evaluate model=runs/small suite=all out=FILE.json picture=FILE.png
  drest language evaluate model=runs/small suite=ladder scenarios=20 out=FILE.json picture=FILE.png
  drest language tasks suite=post out=FILE.jsonl

imports=MODULE,… names modules of your own that a stored run uses.
See docs/tutorials/language.md."""


@dataclass
class EvaluationConfig:
    """The values of an evaluation of a language model."""

    model: str = "small"
    """Folder of a run, or a model as in training."""
    suite: str = "post"
    """Suites separated by commas; all, ladder or controls for several."""
    tasks: str | None = None
    """File of prompts (.jsonl), instead of suites."""
    scenarios: int = limited(at_least=1, at_most=1_000_000, default=200)
    held_out: bool = True
    """True to use held-out families."""
    brief: bool = False
    """True if ``tasks`` writes short prompts; models get the prompts that they can read."""
    reads: str | None = limited(choices=("letters", "lines"), default=None)
    samples: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Sampled answers per prompt; null: exact probabilities."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=1)
    device: str = "cpu"
    out: str | None = None
    """File (.json) for the numbers."""
    picture: str | None = None
    """File (.png, .svg or .pdf) for a figure of the numbers with intervals."""


def main() -> None:
    """Run the command that the first argument names."""
    what, *words = sys.argv[1:] or ["--help"]
    if {"-h", "--help"} & {what, *words}:
        print(HELP)
        return
    actions = {"train": _train, "evaluate": _evaluate, "tasks": _tasks}
    with streams(), one_sentence():
        drop_working_directory()
        if what not in actions:
            raise UserError(f"drest language {what}; expected train, evaluate or tasks")
        import_named()
        actions[what](sys.argv[2:])


def _train(words: list[str]) -> None:
    from drest_torch.hints import evaluate_language_model
    from drest_torch.language.config import LanguageConfig
    from drest_torch.language.training import resume, start

    resumed = [word.removeprefix("resume=") for word in words if word.startswith("resume=")]
    if resumed and len(words) > 1:
        raise ConfigError(f"resume={resumed[0]} takes the configuration of the run; leave the other values out")
    if resumed:
        run = resume(Path(resumed[0]))
    else:
        run = start(key_values(words, LanguageConfig))
    summary = run.train()
    if summary is None:
        sys.exit(130)
    scores = [f"{name} {value:.3f}" for name, value in summary["splits"]["selection"].items()]
    print(f"Other scenarios of the families of training: {', '.join(scores)}")
    print(
        printable(
            f"{summary['updates']:,} updates, {summary['processor_seconds']:.0f} s of processor time; everything is in "
            f"{run.folder}\nEvaluate it on unseen families:\n  {evaluate_language_model(run.folder)}"
        )
    )


def _prompts(cfg: EvaluationConfig, *, brief: bool) -> list[Any]:
    from drest_torch.language import prompt_files, prompt_suites

    if cfg.tasks is not None:
        return prompt_files.read(Path(cfg.tasks))
    prompts = []
    for suite in prompt_suites.suites_of(cfg.suite):
        prompts += prompt_suites.generate(suite, cfg.scenarios, cfg.seed, held_out=cfg.held_out, brief=brief)
    return prompts


def _evaluate(words: list[str]) -> None:
    from drest_torch.language.config import LanguageConfig, stored
    from drest_torch.language.evaluation import evaluate, table
    from drest_torch.language.model import SMALL, SMOLLM2, load
    from drest_torch.language.prompt_suites import are_ladders
    from drest_torch.language.training import trained

    cfg = key_values(words, EvaluationConfig)
    check_limits(cfg)
    device = device_of(cfg.device)
    _check_picture(cfg.picture)
    as_curves = cfg.tasks is None and are_ladders(cfg.suite)
    folder = Path(cfg.model)
    is_run = (folder / "config.yaml").is_file()
    base = stored(folder).model if is_run else cfg.model
    reads = [cfg.tasks]
    if base not in (SMALL, SMOLLM2):
        reads.append(base)
    if cfg.out is not None:
        check_outputs(Path(cfg.out), reads=reads, ending=".json")
    if cfg.picture is not None:
        check_outputs(Path(cfg.picture), reads=reads)
    model = trained(folder, cfg.reads) if is_run else load(cfg.model, cfg.reads or "letters")
    model.model.to(device)
    if as_curves:
        training = stored(folder) if is_run else LanguageConfig()
        _evaluate_ladders(model, training, cfg)
        return
    prompts = _prompts(cfg, brief=model.brief)
    rows = evaluate(model, prompts, samples=cfg.samples, seed=cfg.seed)
    print(printable(table(rows)))
    if cfg.out is not None:
        write_json(Path(cfg.out), [asdict(row) for row in rows])
        print(printable(f"The numbers are in {cfg.out}"))
    if cfg.picture is not None:
        _plot(rows, folder.name, Path(cfg.picture))
        print(printable(f"Their picture is {cfg.picture}"))


def _evaluate_ladders(model: Any, training: Any, cfg: EvaluationConfig) -> None:
    """Print the price ladders of a model, and write their numbers and their figure."""
    from drest_torch.choices.ladder_page import plot
    from drest_torch.language.prompt_ladder import ladder_page, to_markdown
    from drest_torch.language.prompt_suites import suites_of

    page = ladder_page(
        model,
        Path(cfg.model).name,
        training,
        suites_of(cfg.suite),
        scenarios=cfg.scenarios,
        seed=cfg.seed,
        held_out=cfg.held_out,
        samples=cfg.samples,
    )
    print(printable(to_markdown(page)))
    if cfg.out is not None:
        write_json(Path(cfg.out), page)
        print(printable(f"The numbers are in {cfg.out}"))
    if cfg.picture is not None:
        plot(page, Path(cfg.picture), choice="ask", unit="score", items="scenarios")
        print(printable(f"Their picture is {cfg.picture}"))


def _check_picture(picture: str | None) -> None:
    """Raise if the name of a figure has an unsupported ending."""
    if picture is None:
        return
    if Path(picture).suffix.lower() not in PICTURES:
        raise ConfigError(f"picture={picture}; expected a name that ends in {', '.join(PICTURES)}")


def _plot(rows: list[Any], title: str, path: Path) -> None:
    """Plot the numbers of each suite with intervals, except the frequency of valid answers."""
    from drest_torch.report.figures import CONFIDENCE, Dots, dot_figure
    from drest_torch.report.plots import write_plot

    intervals = {}
    for row in rows:
        for name, interval in row.numbers.items():
            if name != "valid":
                intervals[f"{row.suite}: {name}"] = interval
    series = [Dots("each number of a suite", intervals, CONFIDENCE, "drest")]
    write_plot(dot_figure(series, title=title, xlabel="mean over scenarios", ylabel=""), path)


def _tasks(words: list[str]) -> None:
    from drest_torch.language import prompt_files
    from drest_torch.language import prompts as data

    cfg = key_values(words, EvaluationConfig)
    check_limits(cfg)
    if cfg.out is None:
        raise ConfigError("out=FILE.jsonl says where the prompts are written")
    check_outputs(Path(cfg.out), reads=[cfg.tasks], ending=".jsonl")
    prompts = _prompts(cfg, brief=cfg.brief)
    prompt_files.write(prompts, Path(cfg.out))
    print(printable(f"{len(prompts)} prompts with the hash {data.digest(prompts)} are in {cfg.out}"))


if __name__ == "__main__":
    main()
