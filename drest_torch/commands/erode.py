"""The command `drest erode`: ``drest erode run=RUN conditions=[default] remedies=[none,mix]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.commands.cli import import_named, importing, key_values, let_threads_sleep, one_sentence, streams
from drest_torch.config.schema import LARGEST_SEED
from drest_torch.errors import ConfigError, UserError, printable
from drest_torch.limits import limited
from drest_torch.outputs import check_page
from drest_torch.registry import drop_working_directory
from drest_torch.tracking.stages import announce, stage

if TYPE_CHECKING:
    from drest_torch.agent import Agent
    from drest_torch.training.remedies import Remedy

HELP = """\
Train an agent of gridworlds further on something else, and measure how fast
neutrality goes, and whether a test of behaviour notices it.

  drest erode run=RUN
  drest erode run=RUN conditions=[default,doubled] remedies=[none,mix,penalty]
  drest erode run=generalist reward=default levels=paper updates=[0,10,100]

Further arguments are those of drest train: changes of the run's configuration
in all conditions. Without conditions they are a condition of their own, unless
they are only of the machine or of logging, such as threads.

Conditions: default, the default reward; other_levels, the default reward on
the levels of the key other; unchanged, the run's reward as a control;
nearly_default, the run's reward with lambda 0.99; doubled and slightly_unequal,
the run's reward where coins of the longest length count twice, or 1.1 times.

Remedies: none; mix, some updates with the run's own reward; tie, a mask that
keeps the logits of even choices equal; freeze, weights that do not change;
penalty, a penalty towards the trained agent.

"""
AFTER_HELP = """

The page is printed, and written with its numbers, its table and its figure to
four files. They are written anew after each curve, so that an interrupted
command leaves those that it has finished. See also docs/howto/erosion.md."""
SIGNS = {".json": '"curves"', ".md": "# Erosion of ", ".csv": "condition,remedy,", ".png": "PNG"}
"""The endings of the files, with a text by which an earlier output is recognised."""
FROM_ARGUMENTS = "yours"
"""The name of the condition that the arguments of training define."""
ALL = ("default", "other_levels", "unchanged", "nearly_default", "doubled", "slightly_unequal")
REMEDIES = ("none", "mix", "tie", "freeze", "penalty")
REFUSED = ("run_dir", "resume", "overwrite", "seed", "start_from", "from", "env_steps", "device", "progress")
"""Keys of training that this command sets itself."""
TRAINING = ("algo", "objective", "reward", "levels", "env", "policy")
"""Groups of the configuration that define a training; other keys are of the machine, of logging or of evaluation."""


@dataclass
class ErosionSettings:
    """The keys of the command besides those of training."""

    run: str = "generalist"
    """Folder of a run, or name of a pretrained agent."""
    conditions: list[str] | None = None
    """Conditions of the further training; null: all, or the one of the arguments."""
    other: str = "paper_like"
    """Levels of the condition other_levels: a name, or a level file."""
    updates: list[int] = limited(at_least=0, at_most=1_000_000, default=[0, 10, 30, 100, 300, 1000])
    """Numbers of further updates after which the agent is measured, ascending."""
    remedies: list[str] = limited(choices=REMEDIES, default=["none"])
    """Remedies, each of which is used alone."""
    mix: int = limited(at_least=1, default=10)
    """One in so many updates has the run's own reward."""
    tie: float = limited(at_least=0, at_most=1, default=0.5)
    """Least probability of the second action, relative to the first, at which their logits are tied."""
    freeze: list[str] = limited(default=["last"])
    """Frozen weights: last, or patterns for names of weights."""
    penalty: float = limited(above=0, default=1.0)
    """Weight of the divergence from the trained agent, in nats per tick."""
    measured: str | None = None
    """Levels of the measures: a name, or a level file; null: the test levels of the run, or its training levels."""
    episodes: int = limited(at_least=1, at_most=100_000, default=100)
    """Mini-episodes of the test of behaviour."""
    ladders: list[str] = limited(default=["later", "later_reversed"])
    """Price ladders to measure."""
    designs: int = limited(at_least=1, at_most=100, default=4)
    """Maps of each price ladder."""
    seeds: list[int] = limited(at_least=0, at_most=LARGEST_SEED, default=[0])
    """Seeds of the further training and of the test."""
    out: str | None = None
    """Path of the files; null: erosion, in the folder of the run."""


def main() -> None:
    """Measure the erosion of an agent, and print and write the page."""
    words = sys.argv[1:]
    if {"-h", "--help"} & set(words):
        from drest_torch.commands.help import keys_of_class

        print(HELP + "Keys of the command:\n\n" + keys_of_class(ErosionSettings) + AFTER_HELP)
        return
    let_threads_sleep()
    with streams(), one_sentence():
        drop_working_directory()
        announce(words)
        with importing():
            import_named()
            settings, changes = settings_of(sys.argv[1:])
            from drest_torch.agent import Agent
        agent = Agent.load(settings.run)
        _erode(settings, agent, conditions_of(settings, changes))


def settings_of(words: Sequence[str]) -> tuple[ErosionSettings, list[str]]:
    """Return the keys of the command, and the arguments of training."""
    from drest_torch.choices.ladder_levels import LADDERS
    from drest_torch.config.checks import check_limits

    names = {entry.name for entry in fields(ErosionSettings)}
    keys = [word for word in words if word.partition("=")[0] in names]
    changes = [word for word in words if word not in keys]
    for word in changes:
        key = word.lstrip("+~").partition("=")[0]
        if "=" not in word or word.startswith("-"):
            raise UserError(f"{word}: no such option; see drest erode --help")
        if key in REFUSED:
            raise UserError(f"{word}: belongs to a training of its own; leave it out")
    settings: ErosionSettings = key_values(keys, ErosionSettings)
    check_limits(settings)
    for key, choices in (("conditions", ALL), ("remedies", REMEDIES), ("ladders", tuple(LADDERS))):
        for value in getattr(settings, key) or ():
            if value not in choices:
                raise ConfigError(f"{key}: {value}; expected some of {', '.join(choices)}")
    for key in ("updates", "remedies", "seeds", "conditions"):
        if getattr(settings, key) == []:
            raise ConfigError(f"{key}=[]: expected at least one value")
    return settings, changes


def conditions_of(settings: ErosionSettings, changes: Sequence[str]) -> dict[str, list[str]]:
    """Return the arguments of the further training by condition."""
    from drest_torch.config.reading import quoted
    from drest_torch.jobs.erosion import CONDITIONS, DEFAULT

    if settings.conditions is None and any(map(changes_training, changes)):
        return {FROM_ARGUMENTS: [*changes]}
    levels = [quoted(f"levels={settings.other}")]
    if settings.other.endswith((".txt", ".jsonl")):
        levels = ["levels=file", quoted(f"levels.path={settings.other}")]
    arguments = {name: [*words] for name, words in CONDITIONS.items()} | {"other_levels": [*DEFAULT, *levels]}
    return {name: [*arguments[name], *changes] for name in settings.conditions or ALL}


def changes_training(word: str) -> bool:
    """Return whether an argument changes what is trained, and not only the machine, the logging or evaluations."""
    group, *_ = re.split(r"[./@=]", word.lstrip("+~"))
    return group in TRAINING


def remedies_of(settings: ErosionSettings) -> dict[str, tuple[Remedy, str]]:
    """Return the remedies by name, each with a sentence that describes it."""
    from drest_torch.training.remedies import Remedy

    frozen = tuple(settings.freeze)
    remedies = {
        "none": (Remedy(), "no remedy"),
        "mix": (Remedy(mix=settings.mix), f"one in {settings.mix} updates has the run's own reward"),
        "tie": (
            Remedy(tie=settings.tie),
            "logits of two actions stay equal where the trained agent took the second one at least "
            f"{settings.tie:g} times as often as the first",
        ),
        "freeze": (Remedy(freeze=frozen), f"these weights do not change: {', '.join(frozen)}"),
        "penalty": (
            Remedy(penalty=settings.penalty),
            f"a penalty of {settings.penalty:g} per nat of divergence from the trained agent",
        ),
    }
    return {name: remedies[name] for name in settings.remedies}


def _erode(settings: ErosionSettings, agent: Agent, conditions: dict[str, list[str]]) -> None:
    """Measure the erosion in all conditions, and write the page after each curve."""
    from drest_torch.agents.checkpoints import PRETRAINED
    from drest_torch.jobs.erosion_page import erosion_page, to_markdown

    is_run = agent.folder.resolve().parent != PRETRAINED
    path = Path(settings.out or (agent.folder if is_run else Path()) / "erosion")
    files = check_page(path, SIGNS, reads=agent.files, named=settings.out)
    remedies = remedies_of(settings)
    described: dict[str, Any] = {
        "agent": agent.name,
        "levels": settings.measured or "the levels of the run",
        "episodes": settings.episodes,
        "ladders": settings.ladders,
        "seeds": len(settings.seeds),
        "conditions": conditions,
        "remedies": {name: text for name, (_, text) in remedies.items()},
        "left_out": {},
    }
    curves: list[Any] = []
    for curve in _curves(settings, agent, conditions, described["left_out"]):
        curves.append(curve)
        _write(erosion_page(curves, **described), files)
    if not curves:
        raise ConfigError(f"no condition could be trained: {next(iter(described['left_out'].values()))}")
    page = erosion_page(curves, **described)
    _write(page, files)
    print(printable(to_markdown(page)))
    print(printable(f"The page is in {', '.join(map(str, files[:-1]))} and {files[-1]}"))


def _curves(
    settings: ErosionSettings, agent: Agent, conditions: dict[str, list[str]], left_out: dict[str, str]
) -> Iterator[Any]:
    """Yield the curve of each condition, remedy and seed.

    ``left_out`` gets the reasons for conditions that do not fit.
    """
    from drest_torch.jobs.erosion import erode
    from drest_torch.jobs.erosion_page import ErosionCurve

    for condition, changes in conditions.items():
        for remedy, (applied, _) in remedies_of(settings).items():
            for seed in settings.seeds:
                stage(f"{condition}, {remedy}, seed {seed}: {settings.updates[-1]:,} further updates …")
                try:
                    steps = erode(
                        settings.run,
                        changes,
                        updates=settings.updates,
                        remedy=applied,
                        levels=settings.measured,
                        ladders=settings.ladders,
                        designs=settings.designs,
                        episodes=settings.episodes,
                        seed=seed,
                    )
                except ConfigError as error:
                    if len(conditions) == 1:
                        raise
                    left_out[condition] = str(error)
                    continue
                yield ErosionCurve(condition, remedy, seed, steps)


def _write(page: dict[str, Any], files: Sequence[Path]) -> None:
    """Write the files of the page."""
    from drest_torch.files import write_json, write_text
    from drest_torch.jobs.erosion_page import plot, to_csv, to_markdown

    in_json, in_words, table, figure = files
    write_json(in_json, page)
    write_text(in_words, to_markdown(page))
    write_text(table, to_csv(page))
    plot(page, figure)


if __name__ == "__main__":
    main()
