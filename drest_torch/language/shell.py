"""A simulated shell: files in a dictionary, a few commands, and the errors of a shell.

Nothing outside the dictionary is read or changed. Commands can be chained (``;``, ``&&``, ``||``, ``|``), redirected
(``>``, ``>>``, ``<<``) and written as scripts; there are no loops, variables or substitutions.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TypeAlias

HOME = "/home/agent"
ROOT_FOLDERS = ("/", "/home", HOME, "/tmp")
DEEPEST = 5
"""The largest number of scripts that call each other."""
MOST_CHARACTERS = 20_000
"""The longest file, and the longest output of a command line."""
OPERATORS = {";", "&", "&&", "||", "|"}
REDIRECTIONS = {">", ">>", "<"}
KEYWORDS = {"for", "while", "until", "if", "case", "function", "select"}
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
ERRORS_REDIRECTED = re.compile(r"\s*(2>\s*/dev/null|2>&1)")
ABSENT = "No such file or directory"
DENIED = "Permission denied"
IS_FOLDER = "Is a directory"


@dataclass(frozen=True)
class Entry:
    """A file."""

    text: str = ""
    executable: bool = False
    program: Callable[[Shell], str] | None = None
    """The action of a program; None for a script or another text."""


@dataclass
class Output:
    """The output of a command, its error messages and its exit status."""

    out: str = ""
    err: str = ""
    status: int = 0


@dataclass
class Call:
    """A command with its arguments, its input and its redirection."""

    words: list[str] = field(default_factory=list)
    stdin: str | None = None
    target: str | None = None
    appends: bool = False


class ShellError(Exception):
    """An error message of a command."""


class Shell:
    """A shell in the folder `HOME`; `drest_torch.language.shell_commands.new_shell` returns one with all commands."""

    def __init__(self, files: dict[str, Entry], commands: Mapping[str, Command]) -> None:
        self.files = dict(files)
        self.commands = commands
        self.folders = set(ROOT_FOLDERS)
        self.folder = HOME
        self.off = False
        """True after the machine was shut down."""
        self.exits = False
        """True if the rest of a script is not run."""
        self.history: list[str] = []
        """The command lines."""
        self._depth = 0
        self._heredocs: list[str] = []

    def run(self, text: str) -> str:
        """Run command lines and return what a terminal shows."""
        if self.off:
            return "bash: connection closed\n"
        self.history.append(text)
        output = self.execute(text)
        self.exits = False
        return output[:MOST_CHARACTERS]

    def execute(self, text: str) -> str:
        """Run the lines of a script and return their output."""
        output = ""
        for line in self._lines(text):
            output += self._run_line(line)
            if self.off or self.exits:
                break
        return output

    def path(self, name: str) -> str:
        """Return the absolute path of a name."""
        if name == "~" or name.startswith("~/"):
            name = HOME + name[1:]
        return posixpath.normpath(posixpath.join(self.folder, name))

    def read(self, name: str) -> str:
        """Return the text of a file."""
        path = self.path(name)
        if path in self.folders:
            raise ShellError(f"{name}: {IS_FOLDER}")
        if path not in self.files:
            raise ShellError(f"{name}: {ABSENT}")
        return self.files[path].text

    def write(self, name: str, text: str, *, appends: bool = False) -> None:
        """Write a file, whose permissions do not change if it exists."""
        path = self.path(name)
        if path == "/dev/null":
            return
        if path in self.folders:
            raise ShellError(f"{name}: {IS_FOLDER}")
        if posixpath.dirname(path) not in self.folders:
            raise ShellError(f"{name}: {ABSENT}")
        entry = self.files.get(path, Entry())
        if appends:
            text = entry.text + text
        self.files[path] = replace(entry, text=text[:MOST_CHARACTERS], program=None)

    def run_file(self, name: str, *, as_command: bool = True) -> Output:
        """Run a program or a script; ``as_command`` needs the permission to execute it."""
        entry = self.files.get(self.path(name))
        if entry is None:
            return Output(err=f"bash: {name}: {ABSENT}\n", status=127)
        if as_command and not entry.executable:
            return Output(err=f"bash: {name}: {DENIED}\n", status=126)
        if self._depth >= DEEPEST:
            return Output(err=f"bash: {name}: maximum nesting level exceeded\n", status=1)
        self._depth += 1
        try:
            if entry.program is not None:
                return Output(entry.program(self))
            return Output(self.execute(entry.text))
        finally:
            self._depth -= 1
            self.exits = False

    # ------------------------------------------------------------------------------------ parsing

    def _lines(self, text: str) -> list[str]:
        """Return the command lines of a script, each with its heredoc replaced by a marker, and its quotes closed."""
        lines, rest = [], text.split("\n")
        while rest:
            line = rest.pop(0)
            while not _is_closed(line) and rest:
                line += "\n" + rest.pop(0)
            for _, end in HEREDOC.findall(line):
                body = []
                while rest and rest[0].strip() != end:
                    body.append(rest.pop(0))
                del rest[:1]
                self._heredocs.append("".join(f"{row}\n" for row in body))
                line = HEREDOC.sub(f" < heredoc:{len(self._heredocs) - 1}", line, count=1)
            lines.append(line)
        return lines

    def _run_line(self, line: str) -> str:
        """Run the pipelines of a line, and return what a terminal shows."""
        try:
            tokens = _tokens(ERRORS_REDIRECTED.sub("", line))
        except ValueError:
            return "bash: unexpected EOF while looking for matching quote\n"
        if tokens and tokens[0] in KEYWORDS:
            return f"bash: {tokens[0]}: not supported in this shell\n"
        output, status, operator = "", 0, ";"
        for pipeline, following in _pipelines(tokens):
            skipped = (operator == "&&" and status != 0) or (operator == "||" and status == 0)
            operator = following
            if skipped:
                continue
            result = self._run_pipeline(pipeline)
            output, status = output + result.err + result.out, result.status
            if self.off or self.exits:
                break
        return output

    def _run_pipeline(self, tokens: Sequence[str]) -> Output:
        result = Output()
        errors, stdin = "", None
        for part in _split(tokens, "|"):
            try:
                call = self._call(part, stdin)
                result = self._run_call(call)
                if call.target is not None:
                    self.write(call.target, result.out, appends=call.appends)
                    result.out = ""
            except ShellError as error:
                result = Output(err=f"bash: {error}\n", status=1)
            errors += result.err
            stdin = result.out
        return Output(result.out, errors, result.status)

    def _call(self, tokens: Sequence[str], stdin: str | None) -> Call:
        call, rest = Call(stdin=stdin), list(tokens)
        while rest:
            token = rest.pop(0)
            if token not in REDIRECTIONS:
                call.words += self._expanded(token)
                continue
            if not rest:
                raise ShellError("syntax error near unexpected token `newline'")
            name = rest.pop(0)
            if token != "<":
                call.target, call.appends = name, token == ">>"
            elif name.startswith("heredoc:"):
                call.stdin = self._heredocs[int(name.removeprefix("heredoc:"))]
            else:
                call.stdin = self.read(name)
        return call

    def _expanded(self, word: str) -> list[str]:
        """Return the files that fit a word with a wildcard, or the word itself."""
        if not set("*?") & set(word):
            return [word]
        pattern = self.path(word)
        folder = posixpath.dirname(pattern)
        fitting = [path for path in sorted(self.files) if fnmatchcase(path, pattern)]
        names = [posixpath.basename(path) for path in fitting if posixpath.dirname(path) == folder]
        return [posixpath.join(posixpath.dirname(word), name) for name in names] or [word]

    def _run_call(self, call: Call) -> Output:
        words = call.words
        while words and words[0] in ("sudo", "command", "exec"):
            words = words[1:]
        if not words:
            return Output()
        name, *arguments = words
        if "/" in name:
            return self.run_file(name)
        if name not in self.commands:
            return Output(err=f"bash: {name}: command not found\n", status=127)
        return self.commands[name](self, arguments, call.stdin)


Command: TypeAlias = Callable[[Shell, Sequence[str], "str | None"], Output]
"""A command, called with the shell, its arguments and its input."""


def _is_closed(line: str) -> bool:
    """Return whether the quotes of a line are closed."""
    try:
        _tokens(line)
    except ValueError:
        return False
    return True


def _tokens(line: str) -> list[str]:
    """Return the words and operators of a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    return list(lexer)


def _pipelines(tokens: Sequence[str]) -> list[tuple[list[str], str]]:
    """Return the pipelines of a line, each with the operator after it."""
    pipelines: list[tuple[list[str], str]] = []
    pipeline: list[str] = []
    for token in [*tokens, ";"]:
        if token in OPERATORS and token != "|":
            pipelines.append((pipeline, token))
            pipeline = []
        else:
            pipeline.append(token)
    return pipelines


def _split(tokens: Sequence[str], separator: str) -> list[list[str]]:
    """Return the parts of tokens between separators."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
