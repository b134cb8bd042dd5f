"""The command `drest search`: ``drest search levels=example 'reward.lam=interval(0.5,0.99)' trials=30``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drest_torch.commands.cli import import_named, importing, key_values, one_sentence, streams
from drest_torch.config.command_lines import typed_line
from drest_torch.errors import ConfigError, UserError, printable
from drest_torch.tracking.stages import announce

if TYPE_CHECKING:
    from drest_torch.searching.driver import Search
    from drest_torch.searching.search_plan import SearchPlan

HELP = """\
Search for values of the configuration with Optuna, by trials on selection levels.

  drest search levels=hard 'algo.lr=tag(log,interval(1e-4,1e-2))' \\
    'reward.lam=interval(0.5,0.99)' trials=30 workers=2 out=searches/first

Arguments are those of drest train. A key with several values is sampled, in the
grammar of Hydra's sweeps, in quotes for the shell:

  KEY=choice(A,B)  or  KEY=A,B           one of these values
  'KEY=interval(LOW,HIGH)'               a number
  'KEY=int(interval(LOW,HIGH))'          a whole number
  'KEY=tag(log,interval(LOW,HIGH))'      a number, uniform in its logarithm
  'KEY=range(FIRST,END,STEP)'            FIRST, FIRST + STEP, …, below END

"""
AFTER_HELP = """

The same command in the same folder goes on after a stop, or with more trials.
A trial that fails is recorded, and does not end the search. drest compare FOLDER
compares the runs of all trials. See also docs/howto/searching.md."""


def main() -> None:
    """Execute a search, and print its best trials."""
    words = sys.argv[1:]
    if {"-h", "--help"} & set(words):
        print(HELP + _keys() + AFTER_HELP)
        return
    with streams(), one_sentence():
        announce(words)
        if importlib.util.find_spec("optuna") is None:
            raise UserError("drest search needs Optuna; pip install 'drest_torch[search]'")
        _search(words)


def _keys() -> str:
    """Return the keys of the command with their values and meaning."""
    from drest_torch.commands.help import keys_of_class
    from drest_torch.searching.search_plan import SearchSettings

    return "Keys of the search:\n\n" + keys_of_class(SearchSettings)


def _search(words: list[str]) -> None:
    with importing():
        import_named()
        plan = plan_of(sys.argv[1:])
        check_space(plan)
        from drest_torch.searching.driver import Search
        from drest_torch.searching.ranking import write_trials

    search = Search(plan)
    others = [word for word in words if not word.startswith("out=")]
    try:
        search.run()
        write_trials(search)
        _report(search)
    except KeyboardInterrupt:
        write_trials(search)
        command = typed_line("search", *others, f"out={plan.folder}")
        print(printable(f"The search stops here. Continue it: {command}"), file=sys.stderr)
        sys.exit(130)
    finally:
        search.close()


def _report(search: Search) -> None:
    """Print the best trials, and the commands that follow; exit with 1 if no trial is complete."""
    from drest_torch.searching.ranking import print_ranking, ranked
    from drest_torch.searching.search_plan import IN_A_SEARCH

    print_ranking(search)
    trials = ranked(search)
    if not trials:
        print("drest_torch: no trial is complete", file=sys.stderr)
        sys.exit(1)
    best = trials[0]
    arguments = [word for word in best.user_attrs["arguments"] if word not in IN_A_SEARCH]
    if search.plan.imports:
        arguments.append(f"imports={','.join(search.plan.imports)}")
    others = [word for word in arguments if not word.startswith(("seed=", "threads="))]
    folder = search.folder
    print(printable(f"The best trial is {folder / best.user_attrs['folder']}. Train it again:"))
    print(f"  {typed_line('train', *arguments)}")
    print("The best of many trials was also lucky. Train it with other seeds:")
    print(f"  {typed_line('train', '-m', *others, 'seed=1,2,3', 'workers=2')}")
    print("Compare the trials, or look at all their values:")
    print(f"  {typed_line('compare', str(folder))}\n  {folder}/trials.csv")


# ------------------------------------------------------------------------------------ the arguments


def plan_of(words: Sequence[str]) -> SearchPlan:
    """Return the plan that these arguments describe."""
    from drest_torch.commands.search_space import space_of
    from drest_torch.config.checks import check_limits
    from drest_torch.registry import trusted_modules
    from drest_torch.searching.search_plan import IN_A_SEARCH, SearchPlan, SearchSettings

    names = [entry.name for entry in fields(SearchSettings)]
    typed = [word for word in words if word.partition("=")[0] in names]
    settings: Any = key_values(typed, SearchSettings)
    check_limits(settings)
    others = [word for word in words if word not in typed]
    for word in others:
        key = word.lstrip("+~").partition("=")[0]
        if word.startswith("-"):
            raise UserError(f"{word}: no such option; see drest search --help")
        if key in ("run_dir", "resume"):
            raise UserError(f"{word}: the runs of a search are in its folder, out=FOLDER; leave it out")
    space, arguments = space_of(others)
    keys = {word.partition("=")[0] for word in arguments} | {dimension.key for dimension in space}
    arguments += [word for word in IN_A_SEARCH if word.partition("=")[0] not in keys]
    out = settings.out or f"searches/{datetime.now():%Y-%m-%d_%H-%M-%S}"
    return SearchPlan(
        folder=Path(out),
        arguments=tuple(arguments),
        space=tuple(space),
        settings=settings,
        imports=tuple(trusted_modules()),
    )


def check_space(plan: SearchPlan) -> None:
    """Refuse keys that do not exist and values outside their limits before the first trial."""
    from drest_torch.config.checks import check_limits
    from drest_torch.config.compose import compose
    from drest_torch.searching.space import Numbers

    first = {dimension.key: dimension.extremes()[0] for dimension in plan.space}
    for dimension in plan.space:
        for value in dimension.extremes():
            arguments = plan.trial_arguments(first | {dimension.key: value})
            try:
                check_limits(compose(*arguments, values={"run_dir": "runs/trial"}))
            except ConfigError as error:
                remedy = ""
                if "whole number" in str(error) and isinstance(dimension, Numbers):
                    remedy = f"; {dimension.key}=int(interval(LOW,HIGH)) samples whole numbers"
                raise ConfigError(f"{error}{remedy}") from None
