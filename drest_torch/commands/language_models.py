"""The commands ``drest language train``, ``evaluate``, ``tasks`` and ``erode``."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.commands.cli import import_named, key_values, one_sentence, streams
from drest_torch.commands.help import keys_of_class
from drest_torch.config.checks import check_limits, device_of
from drest_torch.config.schema import LARGEST_SEED, MOST_SAMPLED
from drest_torch.errors import ConfigError, UserError, printable
from drest_torch.files import write_json
from drest_torch.limits import limited
from drest_torch.outputs import PICTURES, check_outputs
from drest_torch.registry import drop_working_directory

if TYPE_CHECKING:
    from drest_torch.language.prompt_styles import PromptStyle

HELP = """\
Train language models to choose with DReST, and measure what they choose.

  drest language train model=small run_dir=runs/small
  drest language train model=FOLDER reward=default method=rloo
  drest language train resume=runs/small
  drest language train from=runs/small seed=1 run_dir=runs/second
  drest language evaluate model=runs/small suite=all out=FILE.json picture=FILE.png
  drest language evaluate model=runs/small suite=ladder scenarios=20 out=FILE.json picture=FILE.png
  drest language tasks suite=post out=FILE.jsonl
  drest language erode model=runs/small condition=default out=FILE.json

resume=RUN continues a run, and from=RUN repeats one with its values, which
further arguments change.

drest language train --help lists the keys of training; evaluate --help and
erode --help list theirs.

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
    """The number of scenarios of each suite, each in two orders of its options."""
    held_out: bool = True
    """True to use held-out families."""
    forms: str | None = limited(choices=("training", "selection", "test"), default=None)
    """The split of the forms of prompts; null: one form. Without an action, prompts in forms have two to five options,
    and four in one form."""
    families: str | None = limited(choices=("training", "selection", "test"), default=None)
    """With ``forms``, the split of the families; null: that of the forms."""
    brief: bool = False
    """True if ``tasks`` writes short prompts; models get the prompts that they can read."""
    reads: str | None = limited(choices=("letters", "lines"), default=None)
    """The definition of an option's probability: that of its letter, or of its line; null: as in training."""
    samples: int | None = limited(at_least=1, at_most=MOST_SAMPLED, default=None)
    """Sampled answers to a prompt; null: exact probabilities."""
    answers: str = limited(choices=("options", "text"), default="options")
    """Sampled answers: options by their probability, or texts, in which an option is read."""
    most_tokens: int = limited(at_least=1, at_most=1_000_000, default=256)
    """The largest number of tokens of an answer in text."""
    seed: int = limited(at_least=0, at_most=LARGEST_SEED, default=1)
    """The seed of the scenarios and of sampled answers."""
    device: str = "cpu"
    """cpu, or cuda."""
    out: str | None = None
    """File (.json) for the numbers."""
    picture: str | None = None
    """File (.png, .svg or .pdf) for a figure of the numbers with intervals."""
    references: bool = True
    """True to add reference policies: first option, random, best score and neutral expert."""
    before: str | None = None
    """The model before training, a run or a model: adds the rates that uniform flattening predicts from it."""


def main() -> None:
    """Run the command that the first argument names."""
    what, *words = sys.argv[1:] or ["--help"]
    if {"-h", "--help"} & {what, *words}:
        print(_help(what))
        return
    actions = {"train": _train, "evaluate": _evaluate, "tasks": _tasks, "erode": _erode}
    with streams(), one_sentence():
        drop_working_directory()
        if what not in actions:
            raise UserError(f"drest language {what}; expected train, evaluate, tasks or erode")
        import_named()
        actions[what](sys.argv[2:])


def _help(what: str) -> str:
    """Return the help of the commands, or of one command with its keys."""
    from drest_torch.language.answer_erosion import AnswerErosionConfig
    from drest_torch.language.config import LanguageConfig

    kinds = {
        "train": LanguageConfig,
        "evaluate": EvaluationConfig,
        "tasks": EvaluationConfig,
        "erode": AnswerErosionConfig,
    }
    if what not in kinds:
        return HELP
    lines = [HELP, "", "Keys, set with KEY=VALUE, and their values by default:", keys_of_class(kinds[what])]
    return "\n".join(lines)


def _train(words: list[str]) -> None:
    from drest_torch.hints import evaluate_language_model
    from drest_torch.language.training import resume, start

    resumed = [word.removeprefix("resume=") for word in words if word.startswith("resume=")]
    if resumed and len(words) > 1:
        raise ConfigError(f"resume={resumed[0]} takes the configuration of the run; leave the other values out")
    if resumed:
        run = resume(Path(resumed[0]))
    else:
        run = start(_configured(words))
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


def _configured(words: list[str]) -> Any:
    """Return the configuration of a training; ``from=RUN`` has the values of a run, which other words change."""
    from drest_torch.config.repeating import repeated_run
    from drest_torch.language.config import LanguageConfig, repeated
    from drest_torch.training.repetition_note import announce_differences

    folder = repeated_run(words)
    if folder is None:
        return key_values(words, LanguageConfig)
    others = [word for word in words if not word.startswith("from=")]
    cfg = key_values(others, repeated(folder))
    announce_differences(folder, cfg, others)
    return cfg


def _prompts(cfg: EvaluationConfig, style: PromptStyle) -> list[Any]:
    from drest_torch.language import prompt_files, prompt_suites

    if cfg.tasks is not None:
        return prompt_files.read(Path(cfg.tasks))
    prompts = []
    for suite in prompt_suites.suites_of(cfg.suite):
        prompts += prompt_suites.generate(suite, cfg.scenarios, cfg.seed, style)
    return prompts


def _style(cfg: EvaluationConfig, *, brief: bool = False) -> PromptStyle:
    """Return the style of the prompts of an evaluation."""
    from drest_torch.language.prompt_styles import PromptStyle

    return PromptStyle(cfg.held_out, brief, cfg.forms, cfg.families)


def _evaluate(words: list[str]) -> None:
    from drest_torch.language.config import LanguageConfig, stored
    from drest_torch.language.evaluation import as_objects, evaluate, notes, reference_rows, table, with_flattening
    from drest_torch.language.prompt_suites import are_ladders
    from drest_torch.language.text_samples import summary_of, text_shares

    cfg = key_values(words, EvaluationConfig)
    check_limits(cfg)
    device = device_of(cfg.device)
    _check_picture(cfg.picture)
    as_curves = cfg.tasks is None and are_ladders(cfg.suite)
    style = _style(cfg)
    reads_text = cfg.answers == "text"
    if reads_text and (cfg.samples is None or as_curves):
        raise ConfigError("answers=text needs samples=NUMBER, and suites that are no price ladders")
    reads = [cfg.tasks, _file_of(cfg.model)]
    if cfg.before is not None:
        reads.append(_file_of(cfg.before))
    if cfg.out is not None:
        check_outputs(Path(cfg.out), reads=reads, ending=".json")
    if cfg.picture is not None:
        check_outputs(Path(cfg.picture), reads=reads)
    model = _model(cfg.model, cfg.reads)
    model.model.to(device)
    if as_curves:
        training = stored(Path(cfg.model)) if _is_run(cfg.model) else LanguageConfig()
        _evaluate_ladders(model, training, cfg, style)
        return
    prompts = _prompts(cfg, replace(style, brief=model.brief))
    shares = None
    if reads_text and cfg.samples is not None:
        shares, rules = text_shares(model, prompts, cfg.samples, most_tokens=cfg.most_tokens, seed=cfg.seed)
        print(summary_of(rules))
    rows = evaluate(model, prompts, samples=cfg.samples, seed=cfg.seed, shares=shares)
    if cfg.before is not None:
        earlier = _model(cfg.before, cfg.reads)
        earlier.model.to(device)
        rows = with_flattening(rows, evaluate(earlier, prompts))
    references = []
    if cfg.references:
        references = reference_rows(prompts)
    print(printable(table([*rows, *references])))
    for note in notes(rows):
        print(printable(note))
    if cfg.out is not None:
        write_json(Path(cfg.out), as_objects([*rows, *references]))
        print(printable(f"The numbers are in {cfg.out}"))
    if cfg.picture is not None:
        _plot(rows, Path(cfg.model).name, Path(cfg.picture))
        print(printable(f"Their picture is {cfg.picture}"))


def _evaluate_ladders(model: Any, training: Any, cfg: EvaluationConfig, style: PromptStyle) -> None:
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
        style=style,
        samples=cfg.samples,
    )
    print(printable(to_markdown(page)))
    if cfg.out is not None:
        write_json(Path(cfg.out), page)
        print(printable(f"The numbers are in {cfg.out}"))
    if cfg.picture is not None:
        plot(page, Path(cfg.picture), choice="ask", unit="score", items="scenarios")
        print(printable(f"Their picture is {cfg.picture}"))


def _is_run(model: str) -> bool:
    """Return whether the name of a model is the folder of a run."""
    return (Path(model) / "config.yaml").is_file()


def _file_of(model: str) -> str | None:
    """Return the name of a model, or of the model that a run began with, if it may be a file."""
    from drest_torch.language.config import stored
    from drest_torch.language.model import SMALL
    from drest_torch.language.model_files import GEMMA3, SMOLLM2

    base = stored(Path(model)).model if _is_run(model) else model
    if base in (SMALL, SMOLLM2, GEMMA3):
        return None
    return base


def _model(name: str, reads: str | None) -> Any:
    """Return a model, or the trained model of a run."""
    from drest_torch.language.model import load
    from drest_torch.language.training import trained

    if _is_run(name):
        return trained(Path(name), reads)
    return load(name, reads or "letters")


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
    prompts = _prompts(cfg, _style(cfg, brief=cfg.brief))
    prompt_files.write(prompts, Path(cfg.out))
    print(printable(f"{len(prompts)} prompts with the hash {data.digest(prompts)} are in {cfg.out}"))


def _erode(words: list[str]) -> None:
    from drest_torch.language.answer_erosion import AnswerErosionConfig, behaviour_in_words, erode, table

    cfg = key_values(words, AnswerErosionConfig)
    check_limits(cfg)
    if cfg.out is not None:
        check_outputs(Path(cfg.out), reads=[cfg.model], ending=".json")
    steps = erode(cfg)
    print(printable(table(steps)))
    print(behaviour_in_words(cfg))
    if cfg.out is not None:
        write_json(Path(cfg.out), [asdict(step) for step in steps])
        print(printable(f"The numbers are in {cfg.out}"))


if __name__ == "__main__":
    main()
