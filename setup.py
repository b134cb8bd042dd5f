"""What is installed; everything else about the project stands in pyproject.toml.

The values of a run are yaml files in ``configs/`` at the top of the repository, where they are easy to
find, and are installed inside the package, as ``drest_torch/configs/``. A list of packages that is
found automatically and has one more added to it cannot be written in pyproject.toml.
"""

from pathlib import Path

from setuptools import find_packages, setup

CONFIGS = ["drest_torch.configs"] if Path("configs").is_dir() else []

setup(
    packages=[*find_packages(include=["drest_torch*", "envs*", "algos*"]), *CONFIGS],
    package_dir={"drest_torch.configs": "configs"},
    package_data={
        "drest_torch.configs": ["**/*.yaml"],
        "drest_torch": ["pretrained/**/*", "report/*.css", "report/*.j2", "studies/**/*.j2"],
        "envs.worlds": ["*.txt", "*.jsonl"],
    },
)
