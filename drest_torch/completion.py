"""Print the completion script of a shell: ``eval "$(drest completion bash)"`` in ~/.bashrc.

The words are those of the configurations as they are installed, so that completing starts no Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from drest_torch.commands.help import COMMANDS, keys_of
from drest_torch.config.checks import PATHS
from drest_torch.config.compose import options
from drest_torch.envs.levels import WORLDS

SHELLS = ("bash", "zsh")
FILES = {*PATHS, "resume", "start_from", "run_dir"}
"""The keys whose values are files or folders."""
SCRIPT = """{lead}_drest() {{
    local line="${{COMP_LINE:0:$COMP_POINT}}" words="" keys="" files="" IFS=$' \\t\\n'
    local word="${{line##*[[:space:]]}}"
    local key="${{word%%=*}}="
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
    case "$word" in *=*) ;; *) words="$words $keys $files" ;; esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case " $files $word" in *" $key"*" $key"*)
        IFS=$'\\n' COMPREPLY=($(compgen -f -P "$key" -- "${{word#*=}}"))
        compopt -o filenames 2>/dev/null ;;
    esac
    case "$word" in *=*) ;; *)
        [ "${{#COMPREPLY[@]}}" -gt 0 ] || IFS=$'\\n' COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
    case "${{COMPREPLY[0]}}" in *=) compopt -o nospace 2>/dev/null ;; esac
    # Where the shell breaks words at =, it completes what comes after it.
    case "$word" in *=*) case "$COMP_WORDBREAKS" in *=*) COMPREPLY=("${{COMPREPLY[@]#"$key"}}") ;; esac ;; esac
}}
complete -F _drest drest
"""


def main() -> int:
    """Print the script for the shell that the argument names."""
    from drest_torch.__main__ import COMMANDS as NAMES

    shell = sys.argv[1] if len(sys.argv) == 2 else ""
    if shell not in SHELLS:
        print(f"drest completion: expected one of {', '.join(SHELLS)}, as in: drest completion bash", file=sys.stderr)
        return 2
    cases = [_case("show", sorted(WORLDS)), _case("completion", SHELLS), _case("compare", (), (), ["out="])]
    cases.append(_case("language", ("train", "evaluate", "tasks")))
    cases += [_case(name, *words_of(name)) for name in COMMANDS]
    lead = "autoload -Uz bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    print(SCRIPT.format(lead=lead, cases="\n".join(cases), commands=" ".join(NAMES)), end="")
    return 0


def _case(name: str, words: Iterable[str], keys: Iterable[str] = (), files: Iterable[str] = ()) -> str:
    """Return what may be written after a command: whole words, the beginnings of others, and those of files."""
    return f'        {name}) words="{" ".join(words)}" keys="{" ".join(keys)}" files="{" ".join(files)}" ;;'


def words_of(command: str) -> tuple[list[str], list[str], list[str]]:
    """Return GROUP=OPTION and KEY=VALUE of a command, where values can be listed; other keys; keys of files."""
    words = ["--help", *(f"{group}={name}" for group in COMMANDS[command].groups for name in options(group))]
    keys: list[str] = []
    files: list[str] = []
    for key in keys_of(command, *(["study=example"] if command == "study" else [])):
        if key.choices:
            words += [f"{key.name}={value}" for value in key.choices]
        else:
            is_file = key.name.rpartition(".")[2] in FILES and key.type.startswith(("path", "text"))
            (files if is_file else keys).append(f"{key.name}=")
    return words, keys, files


if __name__ == "__main__":
    sys.exit(main())
