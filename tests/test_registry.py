"""Registries: names of modules of the project, of entry points, and of any importable module."""

import pytest

from drest_torch.errors import ConfigError
from drest_torch.registry import Registry

SHAPES = Registry("shape", "shapes.{}_shape", ("draw", "AREA"), "test.shapes")
FILES = {
    "shapes/__init__.py": "",
    "shapes/round_shape.py": "AREA = 3\ndef draw(): ...\n",
    "shapes/half_shape.py": "AREA = 1\n",
    "shapes/other.py": "AREA = 2\ndef draw(): ...\n",
    "elsewhere/__init__.py": "",
    "elsewhere/star.py": "AREA = 5\ndef draw(): ...\n",
    "elsewhere/broken.py": "import a_library_that_nobody_has\n",
    "elsewhere-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n",
    "elsewhere-1.dist-info/entry_points.txt": "[test.shapes]\nstar = elsewhere.star\nround = elsewhere.star\n",
}


@pytest.fixture(autouse=True)
def shapes(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_modules_of_the_project_precede_entry_points():
    assert list(SHAPES) == ["round", "star"]
    assert SHAPES["round"].__name__ == "shapes.round_shape"
    assert SHAPES["star"].__name__ == "elsewhere.star"
    assert SHAPES["shapes.other"].AREA == 2


@pytest.mark.parametrize(
    "name", ["square", "no_package.square", "elsewhere.star.tip", "", "elsewhere.", "../star", "1"]
)
def test_an_unknown_name_is_refused_with_the_choices(name):
    with pytest.raises(ConfigError) as raised:
        SHAPES[name]
    assert str(raised.value).startswith(f"shape={name}; expected one of round, star, or the path of a module")


@pytest.mark.parametrize("name", ["json", "shapes.half_shape"])
def test_a_module_without_a_required_name_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^shape={name}, but the module {name} has no draw"):
        SHAPES[name]


def test_an_error_inside_a_module_is_not_hidden():
    with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
        SHAPES["elsewhere.broken"]
