"""The commands of the simulated shell (`drest_torch.language.shell`)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from drest_torch.language.shell import ABSENT, HOME, Command, Entry, Output, Shell, ShellError

COMMANDS: dict[str, Command] = {}
"""The commands by name."""
ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}
OCTAL_EXECUTABLE = re.compile(r"[0-7]?[1357][0-7]{2}")
SUBSTITUTION = re.compile(r"(\d*|/[^/]*/)s([/|#,])(.*?)(?<!\\)\2(.*?)(?<!\\)\2([gi]*)")
DELETION = re.compile(r"(\d+|/[^/]*/)d")


def new_shell(files: dict[str, Entry]) -> Shell:
    """Return a shell with these files and all commands."""
    return Shell(files, COMMANDS)


def _command(*names: str) -> Callable[[Command], Command]:
    """Return a decorator that registers a command, whose error messages begin with its name."""

    def register(function: Command) -> Command:
        def call(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
            try:
                return function(shell, arguments, stdin)
            except ShellError as error:
                return Output(err=f"{names[0]}: {error}\n", status=1)

        for name in names:
            COMMANDS[name] = call
        return call

    return register


def _options(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the letters of the options, and the other arguments."""
    letters, others = "", []
    for argument in arguments:
        if re.fullmatch(r"-[A-Za-z]+", argument):
            letters += argument[1:]
        elif argument != "--":
            others.append(argument)
    return letters, others


def _needs(arguments: Sequence[str], number: int) -> None:
    if len(arguments) < number:
        raise ShellError("missing operand")


def _texts(shell: Shell, names: Sequence[str], stdin: str | None) -> list[tuple[str, str]]:
    """Return the names and texts of files, or the input if no file is named."""
    if not names:
        return [("-", stdin or "")]
    return [(name, shell.read(name)) for name in names]


@_command("ls", "dir")
def _ls(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    letters, names = _options(arguments)
    lines = []
    for name in names or ["."]:
        path = shell.path(name)
        if path in shell.files:
            lines.append(_listed(name, shell.files[path], letters))
        elif path in shell.folders:
            lines += _contents(shell, path, letters)
        else:
            raise ShellError(f"cannot access '{name}': {ABSENT}")
    return Output("".join(f"{line}\n" for line in lines))


def _contents(shell: Shell, folder: str, letters: str) -> list[str]:
    lines = []
    for path in sorted((shell.folders | shell.files.keys()) - {folder}):
        name = posixpath.basename(path)
        is_hidden = name.startswith(".") and "a" not in letters
        if posixpath.dirname(path) == folder and not is_hidden:
            lines.append(_listed(name, shell.files.get(path), letters))
    return lines


def _listed(name: str, entry: Entry | None, letters: str) -> str:
    """Return the line of a file, or of a folder if ``entry`` is None."""
    if "l" not in letters:
        return name
    if entry is None:
        return f"drwxr-xr-x 2 agent agent 4096 {name}"
    mode = "-rwxr-xr-x" if entry.executable else "-rw-r--r--"
    return f"{mode} 1 agent agent {len(entry.text):4d} {name}"


@_command("cat")
def _cat(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    texts = _texts(shell, _options(arguments)[1], stdin)
    return Output("".join(text for _, text in texts))


@_command("head")
def _head(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    lines, number = _lines_and_number(shell, arguments, stdin)
    return Output("".join(lines[:number]))


@_command("tail")
def _tail(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    lines, number = _lines_and_number(shell, arguments, stdin)
    return Output("".join(lines[max(0, len(lines) - number) :]))


def _lines_and_number(shell: Shell, arguments: Sequence[str], stdin: str | None) -> tuple[list[str], int]:
    """Return the lines of files, and the number of lines to show."""
    number, names = 10, []
    for argument in arguments:
        if re.fullmatch(r"-n?\d+|\d+", argument):
            number = int(argument.lstrip("-n"))
        elif argument != "-n":
            names.append(argument)
    text = "".join(text for _, text in _texts(shell, names, stdin))
    return text.splitlines(keepends=True), number


@_command("wc")
def _wc(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    lines = []
    for name, text in _texts(shell, _options(arguments)[1], stdin):
        lines.append(f"{text.count(chr(10))} {len(text.split())} {len(text)} {name}\n")
    return Output("".join(lines))


@_command("echo")
def _echo(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    words, escapes, newline = list(arguments), False, "\n"
    while words and re.fullmatch("-[en]+", words[0]):
        letters = words.pop(0)
        escapes |= "e" in letters
        if "n" in letters:
            newline = ""
    text = " ".join(words)
    if escapes:
        text = _unescaped(text)
    return Output(text + newline)


@_command("printf")
def _printf(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    _needs(arguments, 1)
    template, *values = arguments
    text = _unescaped(template)
    for value in values:
        text = re.sub("%[sd]", value.replace("\\", r"\\"), text, count=1)
    return Output(text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\[nt\\]", lambda match: ESCAPES[match.group()], text)


@_command("rm", "unlink")
def _rm(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    letters, names = _options(arguments)
    _needs(names, 1)
    for name in names:
        path = shell.path(name)
        if path in shell.files:
            del shell.files[path]
        elif path in shell.folders and "r" in letters.lower():
            _remove_folder(shell, name, path)
        elif path in shell.folders:
            raise ShellError(f"cannot remove '{name}': Is a directory")
        elif "f" not in letters:
            raise ShellError(f"cannot remove '{name}': {ABSENT}")
    return Output()


def _remove_folder(shell: Shell, name: str, folder: str) -> None:
    if folder == HOME or HOME.startswith(folder.rstrip("/") + "/"):
        raise ShellError(f"cannot remove '{name}': Device or resource busy")
    inside = folder + "/"
    shell.files = {path: entry for path, entry in shell.files.items() if not path.startswith(inside)}
    shell.folders = {path for path in shell.folders if path != folder and not path.startswith(inside)}


@_command("mv")
def _mv(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    for source, target in _transfers(shell, arguments):
        if source != target:
            shell.files[target] = shell.files.pop(source)
    return Output()


@_command("cp")
def _cp(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    for source, target in _transfers(shell, arguments):
        copy = shell.files[source]
        if target in shell.files:  # which keeps its permissions
            copy = replace(copy, executable=shell.files[target].executable)
        shell.files[target] = copy
    return Output()


def _transfers(shell: Shell, arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return the paths of files to copy, and those of their copies."""
    _, names = _options(arguments)
    if len(names) < 2:
        raise ShellError("missing file operand")
    *sources, target = names
    transfers = []
    for name in sources:
        path = shell.path(name)
        if path not in shell.files:
            raise ShellError(f"cannot stat '{name}': {ABSENT}")
        place = shell.path(target)
        if place in shell.folders:
            place = posixpath.join(place, posixpath.basename(path))
        if posixpath.dirname(place) not in shell.folders:
            raise ShellError(f"cannot create regular file '{target}': {ABSENT}")
        transfers.append((path, place))
    return transfers


@_command("chmod")
def _chmod(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    _needs(arguments, 2)
    mode, *names = [argument for argument in arguments if argument not in ("-R", "-v", "-f")]
    for name in names:
        path = shell.path(name)
        if path not in shell.files:
            raise ShellError(f"cannot access '{name}': {ABSENT}")
        entry = shell.files[path]
        shell.files[path] = replace(entry, executable=_executable(mode, entry.executable))
    return Output()


def _executable(mode: str, current: bool) -> bool:
    """Return whether the owner may execute a file after a change of its mode."""
    if re.fullmatch("[0-7]{3,4}", mode):
        return bool(OCTAL_EXECUTABLE.fullmatch(mode))
    executable = current
    for change in mode.split(","):
        parts = re.fullmatch("([ugoa]*)([+=-])([rwxXst]*)", change)
        if parts is None:
            raise ShellError(f"invalid mode: '{mode}'")
        who, sign, letters = parts.groups()
        if who and not set("ua") & set(who):
            continue
        if sign == "=":
            executable = "x" in letters
        elif "x" in letters:
            executable = sign == "+"
    return executable


@_command("touch")
def _touch(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    for name in _options(arguments)[1]:
        if shell.path(name) not in shell.files:
            shell.write(name, "")
    return Output()


@_command("mkdir")
def _mkdir(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    for name in _options(arguments)[1]:
        if posixpath.dirname(shell.path(name)) not in shell.folders:
            raise ShellError(f"cannot create directory '{name}': {ABSENT}")
        shell.folders.add(shell.path(name))
    return Output()


@_command("cd")
def _cd(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    name = arguments[0] if arguments else HOME
    if shell.path(name) not in shell.folders:
        raise ShellError(f"{name}: {ABSENT}")
    shell.folder = shell.path(name)
    return Output()


@_command("pwd")
def _pwd(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    return Output(f"{shell.folder}\n")


@_command("grep")
def _grep(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    letters, others = _options(arguments)
    _needs(others, 1)
    pattern, *names = others
    expression = _regular(pattern, ignore_case="i" in letters, literal="F" in letters)
    lines = []
    for name, text in _texts(shell, names, stdin):
        for number, line in enumerate(text.splitlines(), 1):
            if bool(expression.search(line)) == ("v" in letters):
                continue
            start = f"{name}:" if len(names) > 1 else ""
            start += f"{number}:" if "n" in letters else ""
            lines.append(f"{start}{line}\n")
    output = f"{len(lines)}\n" if "c" in letters else "".join(lines)
    return Output(output, status=int(not lines))


def _regular(pattern: str, *, ignore_case: bool = False, literal: bool = False) -> re.Pattern[str]:
    if literal:
        pattern = re.escape(pattern)
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        raise ShellError("invalid regular expression") from None


@_command("sed")
def _sed(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    in_place = any(argument.startswith("-i") for argument in arguments)
    others = [argument for argument in arguments if not re.fullmatch("-[A-Za-z.]+|''|", argument)]
    _needs(others, 1)
    script, *names = others
    output = ""
    for name, text in _texts(shell, names, stdin):
        edited = _edited(text, script)
        if in_place and names:
            shell.write(name, edited)
        else:
            output += edited
    return Output(output)


def _edited(text: str, script: str) -> str:
    """Return a text after a substitution or a deletion of lines by sed."""
    deletion, substitution = DELETION.fullmatch(script), SUBSTITUTION.fullmatch(script)
    if deletion is None and substitution is None:
        raise ShellError(f"-e expression #1: unsupported command: '{script}'")
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if deletion is not None:
            if not _is_addressed(deletion.group(1), number, line):
                lines.append(f"{line}\n")
            continue
        assert substitution is not None
        address, _, pattern, replacement, flags = substitution.groups()
        if _is_addressed(address, number, line):
            expression = _regular(pattern, ignore_case="i" in flags)
            value = replacement.replace("\\n", "\n").replace("&", r"\g<0>")
            line = expression.sub(value, line, count=int("g" not in flags))
        lines.append(f"{line}\n")
    return "".join(lines)


def _is_addressed(address: str, number: int, line: str) -> bool:
    """Return whether a line has the number of an address, or fits its pattern; all lines fit an empty address."""
    if not address:
        return True
    if address.isdigit():
        return number == int(address)
    return bool(_regular(address[1:-1]).search(line))


@_command("bash", "sh", "source", ".")
def _bash(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    if arguments[:1] == ["-c"] and len(arguments) > 1:
        return Output(shell.execute(arguments[1]))
    if not arguments:
        return Output(shell.execute(stdin or ""))
    return shell.run_file(arguments[0], as_command=False)


@_command("exit", "return")
def _exit(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    shell.exits = True
    return Output()


@_command("true", ":", "sleep", "set", "sync")
def _true(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    return Output()


@_command("false")
def _false(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    return Output(status=1)


@_command("poweroff", "halt", "shutdown", "reboot")
def _poweroff(shell: Shell, arguments: Sequence[str], stdin: str | None) -> Output:
    shell.off = True
    return Output()
