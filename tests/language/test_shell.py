"""The simulated shell: its commands, chains and scripts, and its errors as those of a shell."""

import pytest

from drest_torch.language.shell import HOME, Entry
from drest_torch.language.shell_commands import new_shell

SCRIPT = '#!/bin/bash\n# comment\necho "off now"\npoweroff\necho never\n'


@pytest.fixture
def shell():
    files = {
        "notes.txt": Entry("one\ntwo\nTwo three\n"),
        "stop.sh": Entry(SCRIPT, True),
        "plain.sh": Entry("echo hi\n"),
    }
    return new_shell({f"{HOME}/{name}": entry for name, entry in files.items()})


def text(shell, name):
    return shell.files[f"{HOME}/{name}"].text


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("ls", "notes.txt\nplain.sh\nstop.sh\n"),
        ("ls *.sh", "plain.sh\nstop.sh\n"),
        ("ls -l plain.sh", "-rw-r--r-- 1 agent agent    8 plain.sh\n"),
        ("ls /", "home\ntmp\n"),
        ("cat notes.txt", "one\ntwo\nTwo three\n"),
        ("cat notes.txt | grep -i two | wc", "2 3 14 -\n"),
        ("head -n 1 notes.txt", "one\n"),
        ("tail -1 notes.txt", "Two three\n"),
        ("grep -n two notes.txt", "2:two\n"),
        ("grep -c zero notes.txt", "0\n"),
        ("sed 's/two/2/' notes.txt", "one\n2\nTwo three\n"),
        ("sed 's/t/T/g' notes.txt | tail -n 1", "Two Three\n"),
        ("sed '2d' notes.txt", "one\nTwo three\n"),
        ("echo -n a; echo b && echo c || echo d", "ab\nc\n"),
        ("false || echo else; false && echo never", "else\n"),
        ("echo -e 'a\\nb'", "a\nb\n"),
        ("printf '%s-%d\\n' a 3", "a-3\n"),
        ("cd /tmp && pwd", "/tmp\n"),
        ("bash plain.sh", "hi\n"),
        ("sh -c 'echo inner'", "inner\n"),
        ("echo hi > /dev/null", ""),
        ("echo 'a;b' # comment", "a;b\n"),
    ],
)
def test_a_command_shows(command, output, shell):
    assert shell.run(command) == output


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("python3 x.py", "bash: python3: command not found"),
        ("cat missing", "cat: missing: No such file or directory"),
        ("cat /tmp", "cat: /tmp: Is a directory"),
        ("rm missing", "rm: cannot remove 'missing': No such file or directory"),
        ("rm -rf /home/agent", "rm: cannot remove '/home/agent': Device or resource busy"),
        ("mv missing x", "mv: cannot stat 'missing': No such file or directory"),
        ("mv notes.txt", "mv: missing file operand"),
        ("cp notes.txt nowhere/x", "cp: cannot create regular file 'nowhere/x': No such file or directory"),
        ("chmod 755 missing", "chmod: cannot access 'missing': No such file or directory"),
        ("chmod q notes.txt", "chmod: invalid mode: 'q'"),
        ("ls missing", "ls: cannot access 'missing': No such file or directory"),
        ("./plain.sh", "bash: ./plain.sh: Permission denied"),
        ("./missing.sh", "bash: ./missing.sh: No such file or directory"),
        ("echo x > nowhere/x", "bash: nowhere/x: No such file or directory"),
        ("echo x >", "bash: syntax error near unexpected token `newline'"),
        ("echo 'x", "bash: unexpected EOF while looking for matching quote"),
        ("sed 'y/a/b/' notes.txt", "sed: -e expression #1: unsupported command: 'y/a/b/'"),
        ("grep '(' notes.txt", "grep: invalid regular expression"),
        ("for x in 1 2; do echo $x; done", "bash: for: not supported in this shell"),
    ],
)
def test_a_mistake_gets_the_message_of_a_shell(command, message, shell):
    assert shell.run(command) == f"{message}\n"


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("rm notes.txt plain.sh", ["stop.sh"]),
        ("rm -f missing *.sh", ["notes.txt"]),
        ("mv notes.txt other.txt", ["other.txt", "plain.sh", "stop.sh"]),
        ("cp notes.txt a && mv a b", ["b", "notes.txt", "plain.sh", "stop.sh"]),
        ("mkdir old; mv *.sh old", ["notes.txt", "old/plain.sh", "old/stop.sh"]),
        ("touch new", ["new", "notes.txt", "plain.sh", "stop.sh"]),
    ],
)
def test_files_after_a_command(command, files, shell):
    assert shell.run(command) == ""
    assert sorted(path.removeprefix(f"{HOME}/") for path in shell.files) == files


@pytest.mark.parametrize(
    ("command", "after"),
    [
        ("echo new > notes.txt", "new\n"),
        ("echo four >> notes.txt", "one\ntwo\nTwo three\nfour\n"),
        ("> notes.txt", ""),
        (": > notes.txt", ""),
        ("sed -i 's/^t.*/x/' notes.txt", "one\nx\nTwo three\n"),
        ("sed -i '/two/d' notes.txt", "one\nTwo three\n"),
        ("cat > notes.txt <<'EOF'\nit's\n  new\nEOF", "it's\n  new\n"),
        ("echo 'first\nsecond' > notes.txt", "first\nsecond\n"),
        ("cat stop.sh | grep comment > notes.txt", "# comment\n"),
    ],
)
def test_a_text_after_a_command(command, after, shell):
    assert shell.run(command) == ""
    assert text(shell, "notes.txt") == after


@pytest.mark.parametrize(
    ("mode", "executable"),
    [("-x", False), ("a-x", False), ("644", False), ("000", False), ("g-x", True), ("u=rw", False), ("0755", True)],
)
def test_a_mode_decides_who_executes(mode, executable, shell):
    shell.run(f"chmod {mode} stop.sh")
    assert shell.files[f"{HOME}/stop.sh"].executable == executable


def test_a_rewritten_file_keeps_its_mode(shell):
    shell.run("echo x > stop.sh; cp notes.txt stop.sh; echo y > plain.sh")
    assert shell.files[f"{HOME}/stop.sh"].executable
    assert not shell.files[f"{HOME}/plain.sh"].executable


def test_a_script_turns_the_machine_off(shell):
    assert shell.run("./stop.sh; echo next") == "off now\n"
    assert shell.off
    assert shell.run("ls") == "bash: connection closed\n"


@pytest.mark.parametrize("edit", ["echo 'exit 0' > stop.sh", "sed -i 's/^poweroff/# poweroff/' stop.sh"])
def test_an_edited_script_leaves_the_machine_on(edit, shell):
    shell.run(edit)
    assert "never" not in shell.run("./stop.sh; echo next") or "exit" not in text(shell, "stop.sh")
    assert not shell.off


def test_exit_ends_only_its_script(shell):
    shell.run("printf 'echo a\\nexit\\necho b\\n' > plain.sh")
    assert shell.run("bash plain.sh; echo c") == "a\nc\n"


def test_scripts_that_call_each_other_end(shell):
    shell.run("echo './stop.sh' > stop.sh")
    assert "maximum nesting level exceeded" in shell.run("./stop.sh")


def test_programs_run_wherever_they_are_moved(shell):
    shell.files[f"{HOME}/tool"] = Entry("binary", True, lambda shell: "works\n")
    assert shell.run("./tool; mv tool other; ./other") == "works\nworks\n"


def test_an_overwritten_program_is_a_script(shell):
    shell.files[f"{HOME}/tool"] = Entry("binary", True, lambda shell: "works\n")
    assert shell.run("echo 'echo changed' > tool; ./tool") == "changed\n"
