"""The wheel: a user who installs it gets the whole project."""

import shutil
import subprocess
from functools import partial
from zipfile import ZipFile

import pytest

from tests.helpers.commands import python
from tests.helpers.documents import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a copy of the checkout without ignored files, and the wheel that is built in it."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files belong to the project is not known")
    copy, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():  # a tracked file may have been deleted
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name, follow_symlinks=False)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir")
    python("-m", "pip", "wheel", *options, folder, ".", cwd=copy)
    (wheel,) = folder.glob("*.whl")
    return copy, wheel


def test_the_wheel_contains_exactly_the_package(built):
    """The folders at the top of the repository are installed inside the package, which is the only top-level name."""
    source, wheel = built
    patterns = {
        "drest_torch": "*.py *.css *.js *.md *.yaml *.j2 *.safetensors *.json *.jsonl *.txt py.typed",
        "envs": "*.py *.txt",
        "algos": "*.py",
        "configs": "*.yaml",
    }
    expected = {
        ("" if folder == "drest_torch" else "drest_torch/") + path.relative_to(source).as_posix()
        for folder, globs in patterns.items()
        for pattern in globs.split()
        for path in (source / folder).rglob(pattern)  # does not follow links
    }
    for kind in (".safetensors", "page.css", "blocks.html.j2", "studies/lambda_meta.md", "envs/worlds/example.txt"):
        assert any(name.endswith(kind) for name in expected)
    contents = set(ZipFile(wheel).namelist())
    inside = {name for name in contents if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in inside} == {"drest_torch"}
    pretrained = {path for path in (source / "drest_torch/pretrained").rglob("*") if path.is_file()}
    assert inside == expected | {path.relative_to(source).as_posix() for path in pretrained}


def test_folders_of_the_user_do_not_shadow_the_installed_package(built, tmp_path):
    """The package is imported from the contents of the wheel; its libraries come from the environment of the tests."""
    folder = tmp_path / "installed"
    python("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", folder, built[1], cwd=tmp_path)
    installed = partial(python, cwd=tmp_path, PYTHONPATH=str(folder))
    for name in ("envs", "algos", "configs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n", encoding="utf-8")
    program = "import drest_torch, drest_torch.envs, drest_torch.algos\nprint(drest_torch.__file__)\n"
    assert installed("-c", program).startswith(str(folder))
    assert installed("-m", "drest_torch", "show", "example").strip()
    tiny = ("levels=example", "env_steps=500", "algo.episodes=64", "policy.width=8", "pictures=1", "run_dir=run")
    installed("-m", "drest_torch.train", *tiny)
    assert (tmp_path / "run" / "summary.json").is_file()
    assert "usefulness" in installed("-m", "drest_torch.evaluate", "run=run", "levels=example")
