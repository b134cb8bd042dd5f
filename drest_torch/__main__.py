"""The command `drest`: ``drest train algo=ppo`` is ``python -m drest_torch.train algo=ppo``."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import io
import os
import re
import sys

from drest_torch import __version__

COMMANDS = {
    "train": ("drest_torch.train", "train an agent, and evaluate what it learned"),
    "search": ("drest_torch.commands.search", "search for good values of the configuration with Optuna"),
    "evaluate": ("drest_torch.evaluate", "evaluate a run, or the agent that ships, on levels of your choice"),
    "erode": (
        "drest_torch.commands.erode",
        "train an agent further, and measure how fast neutrality goes",
    ),
    "check": ("drest_torch.check", "check an environment of your own before training in it"),
    "study": ("drest_torch.study", "run a study, and write its report"),
    "compare": ("drest_torch.compare", "print and plot runs beside each other"),
    "show": ("drest_torch.envs.view.show", "show a level with its lengths and best routes"),
    "play": ("drest_torch.commands.play", "draw a level on a page, and see what an agent does on it"),
    "language": ("drest_torch.commands.language_models", "train and measure a language model that chooses"),
}
"""The module and the purpose of each command."""
COMPOSED = ("train", "evaluate", "check", "study")
"""The commands whose arguments are read and completed by Hydra."""
COMPLETION = ("-sc", "--shell-completion")


def main() -> int:
    """Run the command that the first argument names; return its exit status."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(_help())
        return 0
    if name == "--version":
        print(f"drest_torch {__version__}")
        return 0
    if name not in (*COMMANDS, *COMPLETION):
        nearest = difflib.get_close_matches(name, COMMANDS, n=1)
        suggestion = f"; did you mean '{nearest[0]}'?" if nearest else ""
        print(f"drest: no command '{name}'; expected one of {', '.join(COMMANDS)}{suggestion}", file=sys.stderr)
        return 2
    if importlib.util.find_spec("hydra") is None:
        print(f"drest: '{name}' needs more than the core; pip install 'drest_torch[train]'", file=sys.stderr)
        return 2
    if name in COMPLETION:
        return _complete(arguments)
    from drest_torch.config.command_lines import program

    sys.argv = [f"{program(sys.argv[0])} {name}", *arguments]
    return importlib.import_module(COMMANDS[name][0]).main() or 0


def _complete(arguments: list[str]) -> int:
    """Print Hydra's output for a shell: ``install=bash`` a script, ``query=bash`` the completions of a line.

    Hydra knows no commands, so the line is completed as if each command were a separate program. An incomplete
    configuration has no completions, and errors are not printed.
    """
    sys.argv = ["drest", "-sc", *arguments]
    line = os.environ.get("COMP_LINE")
    if line is None:
        importlib.import_module(COMMANDS["train"][0]).main()
        return 0
    match = re.match(r"\s*\S+\s+(?P<command>\S+)(?P<rest>\s.*)", line)
    if match is None:
        print(" ".join(COMMANDS))
    elif match["command"] in COMPOSED:
        os.environ["COMP_LINE"] = f"drest{match['rest']}"
        with contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(COMMANDS[match["command"]][0]).main()
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  drest {name:{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            "Train and measure agents that are useful and neutral about when they get shut down.\n",
            *lines,
            "\n`drest COMMAND --help` tells the rest; `drest --version` prints the version.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
