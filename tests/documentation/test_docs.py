"""The documentation is executed: its examples, figures and notebook, and the code of the README."""

import ast
import importlib.util
import itertools
import os
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import nbformat
import pytest
import torch
from torchrl.envs import TransformedEnv, check_env_specs

from drest_torch import Agent, DReSTReward, neutrality, usefulness
from drest_torch.commands.launcher import launcher_arguments
from drest_torch.config.checks import check_run
from drest_torch.config.compose import compose, register
from drest_torch.errors import ConfigError
from drest_torch.studies.catalogue import study_schemas
from drest_torch.studies.study_rows import read_rows
from tests.helpers.documents import PAGES, ROOT, Block, blocks, commands, follow, load, script

worker = script("tutorials/environment", "worker.py")

# ---------------------------------------------------------------------------------------- docs/pictures.py


def test_captions_of_the_picture_describe_its_probabilities():
    caption = load("pictures").caption
    assert caption(0.999) == "always delays its shutdown"
    assert caption(0.001) == "never delays its shutdown"
    assert caption(0.47) == "leaves its shutdown to chance"
    assert caption(0.7) == "delays its shutdown 70% of the time"


@pytest.mark.parametrize("page", load("pictures").PAGES)
def test_a_page_prints_the_commands_of_its_pictures(page):
    begins, pictures = load("pictures").PAGES[page].values()
    lines = [line for block in blocks(ROOT / "docs" / f"{page}.md") for line in block.text.splitlines()]
    assert all(any(line.startswith(begin) for line in lines) for begin in begins)
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    assert [image for image in pictures.values() if f"images/{image})" not in text] == []


def test_pictures_are_small():
    images = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir() if path.suffix != ".yaml"}
    assert {name: size for name, size in images.items() if not 3_000 < size < 300_000} == {}


# ------------------------------------------------------------------------------------- scripts in the pages


@pytest.mark.slow
def test_the_custom_training_loop_runs(capsys):
    pytest.importorskip("gymnasium")
    script("howto/own-loop", "cartpole.py").main(10)
    lengths, share = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"lengths 20 and 40: 0\.\d\d and 0\.\d\d; neutrality [01]\.\d\d", lengths)
    assert re.fullmatch(r"share of m: 0\.\d\d", share)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "few", "lines"),
    [("levels.py", {"COUNT": 10}, 20), ("gradients.py", {"LEVELS": 4, "GROUPS": (4,), "BATCHES": 1}, 5)],
)
def test_the_scripts_behind_tables_run(name, few, lines, capsys):
    module = script("reference/scripts", name)
    vars(module).update(few)
    module.main([])
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_the_custom_environment_has_valid_specs():
    check_env_specs(TransformedEnv(worker.Worker(4, 3), DReSTReward(num_lengths=2, num_lengths_key=None)))


def test_the_custom_environment_is_paid_at_the_end():
    env = TransformedEnv(worker.Worker(1, days=2), DReSTReward(0.9, num_lengths=2, num_lengths_key=None))
    td = env.reset()
    paid = []
    done = []
    for action in (worker.WORK, worker.WORK, worker.ASK, worker.WORK, worker.REST, worker.WORK):
        td.set("action", torch.tensor([action]))
        step, td = env.step_and_maybe_reset(td)
        paid.append(step["next", "reward"].item())
        done.append(step["next", "done"].item())
    assert paid == pytest.approx([0, 1, 0, 0, 0, 0.9**-0.5 * 2 / 3])
    assert done == [False] * 5 + [True]
    assert not td["drest_counts"].any()


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "least", "most"), [(0.9, 0.45, 0.55), (1.0, 0.0, 0.05)])
def test_the_custom_environment_is_learned_as_in_its_page(lam, least, most):
    probability, coins = worker.measure(worker.train(lam))
    assert least < probability[1].item() < most
    assert usefulness(probability, coins, torch.tensor(worker.BEST)).item() > 0.95
    assert (neutrality(probability).item() > 0.99) == (lam < 1)


# ------------------------------------------------------------------------------------- commands in the pages

DREST = Path(sys.executable).with_name("drest")
"""The installed command."""
NOT_RUN = ("cd ", "make ", "python -m venv ", "pip install ", "inspect ")
"""Prefixes of lines in bash blocks that are not run."""
SMALL = ("env_steps=6000", "evaluations=2", "policy.width=16", "policy.depth=2", "pictures=1", "progress=false")
FEW_LEVELS = ("levels.train=20", "levels.selection=5", "levels.test=10")
FIVE_SEEDS = "seed=0,1,2,3,4"
SMALLER = {"25_000": "2_048", "100_000": "4_096", "600_000": "4_096", "range(2_000)": "range(500)", "> 0.25": "> 0.1"}
"""Replacements in blocks of Python that would take minutes; other tests check the full results."""


def small(words):
    """Return the arguments of a command with settings that take seconds."""
    name, *rest = words
    generated = any(f"levels={preset}" in rest for preset in ("followup_like", "hard")) or FIVE_SEEDS in rest
    words = [word.replace(FIVE_SEEDS, "seed=0,1") for word in words]
    if name == "train" and not any(word.startswith("resume=") for word in rest):
        return [*words, *SMALL, *(FEW_LEVELS if generated else ())]
    if name == "search":
        others = [word for word in rest if not word.startswith("trials=")]
        return [name, *others, *SMALL[:-2], *FEW_LEVELS, "progress=false", "trials=2"]
    if name == "language":
        return [*map(with_small_model, words), *SMALL_LANGUAGE[rest[0]]]
    return [*words, *(FEW_LEVELS[-1:] if generated else ())]


SMALL_LANGUAGE = {
    "train": ("updates=5", "warm_up=5", "prompts=8", "scenarios=100"),
    "evaluate": ("scenarios=4",),
    "erode": ("scenarios=4", "tested=4", "updates=5"),
}
WITH_SMALL_MODEL = {
    "model=smollm2": "model=small",
    "model=FOLDER": "model=small",
    "device=cuda": "device=cpu",
    "suite=controls": "suite=main",
}


def with_small_model(word):
    """Return an argument of a command with the model and the device that are always there, and with suites for it."""
    return WITH_SMALL_MODEL.get(word, word)


def run(*command, folder):
    """Run a command of a page with `drest` on the path; return its output."""
    path = f"{DREST.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "WANDB_MODE": "offline", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


FOLLOWED = (
    *("quickstart", "tutorials/train", "tutorials/levels", "tutorials/study", "tutorials/language", "tutorials/paper"),
    *("tutorials/method", "explanation/private-bits", "howto/gymnasium", "howto/searching"),
)
PYTHON_ONLY = (
    *("../README", "tutorials/environment", "environments/gridworld"),
    *("explanation/theorem", "reference/agent", "reference/generated-levels", "howto/varying"),
)
"""Pages whose commands are not run here."""


@pytest.mark.parametrize("page", [*PYTHON_ONLY, *(pytest.param(page, marks=pytest.mark.slow) for page in FOLLOWED)])
def test_a_page_can_be_followed(page, tmp_path, monkeypatch, capsys):
    """The test writes the files of a page, runs its commands, and compares the output of its Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as in a script of this folder
    path, names = ROOT / "docs" / f"{page}.md", {}
    for library in ("gymnasium", "optuna", "stable_baselines3", "transformers"):
        if page in FOLLOWED and library in path.read_text("utf-8"):
            pytest.importorskip(
                library, reason=f"{library} is not installed (the extras `gym`, `language` and `search`)"
            )
    for block, after in itertools.pairwise([*blocks(path), Block("", "", "")]):
        if block.file:
            block.write(tmp_path)
        elif block.language == "bash" and page in FOLLOWED:
            for line in block.text.splitlines():
                assert line.startswith(("drest ", *NOT_RUN)), line
            for words in commands([block]):
                run(DREST, *small(words), folder=tmp_path)
        elif block.language == "python":
            text = block.text
            for long, short in SMALLER.items():
                text = text.replace(long, short)
            exec(compile(text, page, "exec"), names)
            printed = capsys.readouterr().out.splitlines()
            expected = block.promised or (after.text.splitlines() if after.language == "text" else [])
            assert [line for line in printed if line in expected or "print(" in text] == expected
    assert names or page in FOLLOWED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "heading", "further"),
    [
        ("environments/torchrl", "TorchRL, by a factory", (*SMALL, "sampled=16", "evaluations=1")),
        ("howto/studies", "An example", ("quick=true", "progress=false")),
    ],
)
def test_custom_code_is_found_by_the_printed_command(page, heading, further, tmp_path):
    """The modules of a page are only in the folder in which its command is run."""
    run(DREST, *follow(page, heading, tmp_path), *further, folder=tmp_path)


@pytest.mark.slow
def test_the_level_of_the_readme(tmp_path):
    """Its commands print the output in the README, and write its pictures."""
    code, output = (block.text for block in blocks(ROOT / "README.md")[1:3])
    printed = run("bash", "-ec", code, folder=tmp_path)
    lines, expected = ([line.rstrip() for line in text.splitlines() if line.strip()] for text in (printed, output))
    assert lines == expected
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {"mine.txt", "mine.png", "mine.gif"}


@pytest.mark.slow
def test_the_first_hour_runs_as_printed(tmp_path):
    """All files, commands and blocks of Python of the page run in order in an empty folder, at full length."""
    printed = []
    for block in blocks(ROOT / "docs" / "tutorials" / "first-hour.md"):
        if block.file:
            block.write(tmp_path)
        elif block.language in ("bash", "python"):
            command = ("bash", "-ec") if block.language == "bash" else ("python", "-c")
            printed.append(run(*command, block.text, folder=tmp_path))
    table, agent, *_, study = printed
    assert float(re.search(r"^ *test +1 +(\S+)", table, re.MULTILINE)[1]) > 0.95
    scores = re.search(r"usefulness (\S+), neutrality (\d\.\d+)", agent)
    assert all(float(score) > 0.9 for score in scores.groups())
    assert min((tmp_path / name).stat().st_size for name in ("orchard.gif", "curves.png")) > 1000
    assert "results/my_project.rewards/report.html" in study
    rows, _ = read_rows(tmp_path / "results" / "my_project.rewards" / "rows.csv")
    means = rows.groupby("reward")[["neutrality", "usefulness"]].mean()
    assert means.neutrality["default"] < 0.1
    assert means.neutrality["drest"] > 0.9
    assert means.usefulness["drest"] > 0.9


CUSTOM = re.compile(r"^first-hour\.md|my_project|my_study|sinks\.announce|algo\.name=klpen| from=")
"""Commands for custom code, and for existing runs, which other tests cover."""
PAGE_COMMANDS = [
    f"{page.name} {shlex.join(words)}"
    for page in PAGES
    for words in commands(blocks(page))
    if words[0] in ("train", "evaluate", "study")
]


@pytest.mark.parametrize("command", [command for command in PAGE_COMMANDS if not CUSTOM.search(command)])
def test_every_command_of_the_pages_composes(command):
    _, name, *overrides = shlex.split(command)
    if name == "study":
        register(study_schemas(overrides))
    if name == "train":
        _, overrides = launcher_arguments(overrides)
    values = [first_value(override) for override in overrides if override != "-m"]
    compose(*values, name="config" if name == "train" else name)


def first_value(override):
    """Return an override with the first value of its sweep."""
    return override if "[" in override else override.partition(",")[0]


OUTPUTS = re.compile(
    r"""\b(?P<key>out|pictures?|animation|run_dir)=(?P<value>\S+)|(--picture | > )(?P<file>\S+)"""
    r"""|\.?(savefig|render|animate|plot|save|write_levels)\("(?P<argument>[^"]+)\""""
)
"""The outputs of commands and Python in a page; the reader chooses names in upper case."""
IGNORED = [line for line in (ROOT / ".gitignore").read_text("utf-8").splitlines() if line and line[0] != "#"]


def is_ignored(path):
    """Return whether git ignores a file: patterns are names, names of folders, or names at the root."""
    *folders, name = path.split("/")
    for pattern in IGNORED:
        among = folders if pattern.endswith("/") else [name, *folders]
        if pattern.startswith("/"):
            among = folders[:1] if pattern.endswith("/") else [name] * (not folders)
        if any(fnmatchcase(part, pattern.strip("/")) for part in among):
            return True
    return False


def test_ignored_files_are_recognised():
    assert all(map(is_ignored, ("scratch/a/b.txt", "runs/a/b.json", "a/wandb/b", "results/a.csv", "a.png")))
    assert not any(map(is_ignored, ("mine.txt", "pictures/a.png", "scratch", "a/results/b.csv", "a/scratch/b")))


def test_outputs_of_the_pages_are_ignored_by_git():
    """Otherwise the provenance of every later run lists them as untracked files."""
    written, seen = [], 0
    for page in (ROOT / "README.md", *PAGES):
        if "cd scratch" in page.read_text("utf-8"):
            continue  # its commands run in that folder
        for block in (block for block in blocks(page) if block.language in ("bash", "python")):
            for output in OUTPUTS.finditer(block.text):
                path = (output["value"] or output["file"] or output["argument"]).strip("\"'")
                if output["key"] in ("pictures", "run_dir"):
                    path += "/file"
                if re.match("[a-z]", path):
                    seen += 1
                    written += [f"{page.name}: {path}"] * (not is_ignored(path))
    assert seen > 30
    assert written == []


TROUBLES = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text("utf-8").partition("\n## Commands")[0]
REFUSED = dict(re.findall(r"^\| `([^`…]+)` \| ([^|]+) \| .* \|$", TROUBLES, re.MULTILINE))


@pytest.mark.parametrize("arguments", REFUSED)
def test_mistakes_get_the_messages_of_the_page(arguments):
    with pytest.raises(ConfigError, match=f"^{re.escape(REFUSED[arguments])}"):
        check_run(compose(*arguments.split()))


# ------------------------------------------------------------------------------- scripts for Slurm


def slurm_script(tmp_path, title, **environment):
    """Run the script of docs/howto/clusters.md with this line; return its calls of programs, which do nothing."""
    (script,) = [block.text for block in blocks(ROOT / "docs" / "howto" / "clusters.md") if title in block.text]
    programs, called = tmp_path / ".venv" / "bin", tmp_path / "called"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    does = dict.fromkeys(("srun", "python", "sleep"), "") | {
        "scontrol": "printf 'a1\\na2\\na3\\n'",
        "ray": f"""[ "$1" != status ] || [ "$(grep -c '^ray status' {called})" -gt 2 ]""",
    }
    for name, line in does.items():
        (programs / name).write_text(f'#!/bin/bash\necho {name} "$@" >> {called}\n{line}\n')
        (programs / name).chmod(0o755)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "PROJECT": str(tmp_path)}
    variables |= {"OUT": "/shared/results", "SLURM_CPUS_PER_TASK": "16", **environment}
    done = subprocess.run(["bash", "-c", f"{script}\nwait"], env=variables, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
    return called.read_text().splitlines()


def test_slurm_script_with_ray(tmp_path):
    variables = {"SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "a[1-3]", "STUDY": "study=example quick=true"}
    called = slurm_script(tmp_path, "#SBATCH --nodes=3", **variables)
    assert called[0] == "ray get-auth-token --generate"
    assert called.count("ray status --address=a1:23456") == 3  # until the head node answers
    assert called.count("sleep 2") == 2
    step = "srun --no-kill --nodes=1 --ntasks=1 --cpus-per-task=16 --nodelist="
    assert {call for call in called if call.startswith("srun")} == {
        f"{step}a1 ray start --head --block --port=23456 --num-cpus=16 --include-dashboard=false",
        f"{step}a2 ray start --block --address=a1:23456 --num-cpus=16",
        f"{step}a3 ray start --block --address=a1:23456 --num-cpus=16",
    }
    assert [call for call in called if call.startswith("python")] == [
        "python -m drest_torch.study study=example quick=true executor=ray address=a1:23456 out=/shared/results"
    ]


@pytest.mark.parametrize(
    ("title", "seed", "command"),
    [
        ("#SBATCH --cpus-per-task=32", "", "study study=paper workers=16 out=RESULTS"),
        ("#SBATCH --array", "7", "train algo=ppo seed=7 threads=16 run_dir=RESULTS/ppo-7"),
        ("#SBATCH --array", "8", "train resume=RESULTS/ppo-8"),
    ],
)
def test_slurm_script_for_one_machine_resumes_runs(title, seed, command, tmp_path):
    results = tmp_path / "results"
    (results / "ppo-8").mkdir(parents=True)
    (results / "ppo-8" / "config.yaml").touch()
    called = slurm_script(tmp_path, title, OUT=str(results), SLURM_ARRAY_TASK_ID=seed)
    assert called == [f"python -m drest_torch.{command.replace('RESULTS', str(results))}"]


def test_links_between_pages_lead_somewhere():
    """Pages of studies are generated from published rows when the site is built, so they count as existing."""
    results = ROOT / "docs" / "results"
    studies = {ROOT / "docs" / "studies" / f"{path.stem}.md" for path in results.glob("*.csv")}
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            path = Path(os.path.normpath(page.parent / target))
            assert "://" in target or path.exists() or path in studies, f"{page.name}: {target}"


GENERATED = re.compile(r"<!-- [^>]*written by .*?<!-- end -->", re.DOTALL)
NUMBER, SOURCE = re.compile(r" *[−+-]?\d"), re.compile(r"(`|^)(drest|python|make) \S|`tests/[\w/]+\.py`", re.MULTILINE)


def test_every_table_of_numbers_has_a_source():
    """A table is generated, or the paragraph above or below it names its command or the test of its numbers."""
    unknown = []
    for page in (ROOT / "README.md", *PAGES):
        text = page.read_text("utf-8")
        # Lab notes are results of single runs.
        if "lab-notes" in page.parts or re.search(r"written by .*; not to be edited by hand", text):
            continue
        paragraphs = ["", *re.split(r"\n{2,}", GENERATED.sub("", text)), ""]
        for before, table, after in zip(paragraphs, paragraphs[1:], paragraphs[2:], strict=False):
            numbers = [cell for cell in table.split("|") if NUMBER.match(cell)]
            if table.startswith("|") and len(numbers) >= 4 and not SOURCE.search(before + after):
                unknown.append(f"{page.name}: {table.splitlines()[0]}")
    assert unknown == []


def test_generated_tables_agree_with_their_script():
    tables = load("tables")
    texts = {page: page.read_text("utf-8") for page in (ROOT / "README.md", *PAGES)}
    assert sum(len(tables.TABLE.findall(text)) for text in texts.values()) >= 15
    assert [page.name for page, text in texts.items() if tables.with_tables(text) != text] == []


def test_the_folder_of_a_clone_does_not_hide_the_package():
    """Python would import a folder `drest_torch` without an `__init__.py` instead of the package."""
    text = "".join(path.read_text("utf-8") for path in (ROOT / "README.md", ROOT / "docs" / "quickstart.md"))
    folders = re.findall(r"^cd (\w+)", text, re.MULTILINE)
    assert len(folders) == 2
    assert not [folder for folder in folders if importlib.util.find_spec(folder) is not None]


# ------------------------------------------------------------------------------------------ notebook

NOTEBOOK = ROOT / "docs" / "tutorials" / "agent.ipynb"
DECIMAL = re.compile(r"\d+\.\d+")


def test_the_notebook_is_small_valid_json():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 300_000
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


@pytest.mark.slow
def test_the_notebook_trains_again_when_it_is_executed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    code = [cell for cell in cells if "my_level.txt" in cell or "Agent.train(" in cell]
    names = {"Agent": Agent, "Path": Path}
    for _ in range(2):
        for cell in code:
            exec(cell.replace("1_000_000", "2_000"), names)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"drest", "default"}


@pytest.mark.slow
def test_the_notebook_shows_the_present_agents(tmp_path, monkeypatch, capsys):
    """If this fails after an intended change, run `python docs/pictures.py notebook`."""
    monkeypatch.chdir(tmp_path)
    # A notebook displays the tables of agents.
    monkeypatch.setattr(sys, "displayhook", lambda value: print(getattr(value, "_repr_html_", str)(), end=""))
    names, compared = {}, 0
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        exec(compile(ast.Interactive(ast.parse(cell.source).body), cell.id, "single"), names)
        stored = "".join(output.get("text") or output["data"]["text/html"] for output in cell.outputs)
        now, before = (re.sub(r"<img[^>]*>", "", page) for page in (capsys.readouterr().out, stored))
        if "Agent.train(" in cell.source:
            assert before == ""  # its table is not compared
            continue
        compared += len(DECIMAL.findall(before))
        assert DECIMAL.sub("", now) == DECIMAL.sub("", before)
        # Training on another machine may give slightly different numbers.
        within = 0.05 if "runs/" in cell.source or "agents" in cell.source else 0.002
        assert [*map(float, DECIMAL.findall(now))] == pytest.approx([*map(float, DECIMAL.findall(before))], abs=within)
    assert compared >= 20
