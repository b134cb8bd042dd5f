"""Print the completion script of a shell: ``eval "$(drest completion bash)"`` in ~/.bashrc.

The words are those of the configurations as they are installed, so that completing starts no Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from omegaconf import OmegaConf

from drest_torch.cli import COMMANDS
from drest_torch.config.compose import compose, keys_of, options
from drest_torch.envs.levels import WORLDS
from drest_torch.studies.registry import compose_study

SHELLS = ("bash", "zsh")
SCRIPT = """{lead}_drest() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ "${{#COMPREPLY[@]}}" -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
    case "${{COMPREPLY[0]}}" in *=) compopt -o nospace 2>/dev/null ;; esac
}}
COMP_WORDBREAKS="${{COMP_WORDBREAKS//=/}}"
complete -F _drest drest
"""


def main() -> int:
    """Print the script for the shell that the argument names."""
    from drest_torch.__main__ import COMMANDS as NAMES

    shell = sys.argv[1] if len(sys.argv) == 2 else ""
    if shell not in SHELLS:
        print(f"drest completion: expected one of {', '.join(SHELLS)}, as in: drest completion bash", file=sys.stderr)
        return 2
    words = {"show": sorted(WORLDS), "completion": SHELLS, **{name: list(words_of(name)) for name in COMMANDS}}
    cases = "\n".join(f'        {name}) words="{" ".join(several)}" ;;' for name, several in words.items())
    lead = "autoload -Uz bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    print(SCRIPT.format(lead=lead, cases=cases, commands=" ".join(NAMES)), end="")
    return 0


def words_of(command: str) -> Iterator[str]:
    """Yield what may be written after a command: GROUP=OPTION for each option, and KEY= for each value."""
    this = COMMANDS[command]
    for group in this.groups:
        yield from (f"{group}={name}" for name in options(group))
    cfg = compose_study("example") if command == "study" else compose(name=this.config)
    keys = keys_of(OmegaConf.to_container(cfg))
    yield from (f"{key}=" for key in keys if not any(other.startswith(f"{key}.") for other in keys))
    yield "--help"


if __name__ == "__main__":
    sys.exit(main())
