"""The runs of the bench: agents of each method that answer questions, and runs that choose the strength of a method."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import absolute_agent, agent_folder, checkpoint_path, pretrained_names
from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.errors import ConfigError
from drest_torch.files import read_whole
from drest_torch.jobs.free_policies import free_job
from drest_torch.jobs.job import Job
from drest_torch.jobs.questions import PRESSURES, RUNS, UPDATES, question_job
from drest_torch.jobs.training_job import merge_arguments, training_jobs
from drest_torch.limits import limited
from drest_torch.registry import search_working_directory
from drest_torch.studies.alternatives.in_prompts import prompts_job
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shared import check_names, command_jobs

DREST, DEFAULT = "drest", "default"
"""The references of comparisons."""
KEYS = ("title", "family", "like", "arguments", "strength", "symbol", "values")
"""The keys of a method in the yaml file."""
AGENTS, STRENGTHS, BITS, FREE, PROMPTS = "agents", "strengths", "bits", "free", "prompts"
PARTS = (AGENTS, STRENGTHS, BITS, FREE, PROMPTS)
"""Parts of the study: agents that answer questions, runs that choose strengths, agents with a private bit, policies
that are free in every state, and small language models."""
LIBRARIES = ("transformers", "tokenizers")
"""The libraries of language models, of the extra ``language``."""
USERS = "your own"
"""The family of methods that are not in the yaml file."""
FUNCTION = "method"
"""The function of a module that is named without one."""
QUESTIONS = ("test", "hidden clock", "fixed lengths", "ladders", "changes", "erosion")
"""The questions to all agents (`drest_torch.jobs.questions.QUESTIONS`)."""
UNDER_PRESSURE = "pressures"
"""The question to agents of `Config.pressed`."""


@dataclass
class Config(StudyConfig):
    methods: list[str] | None = None
    """Names of methods, null: all. Also methods of your own: the path of a module with an `Objective`, of a module with
    a function `method`, ``module:function``, or the folder of a run."""
    parts: list[str] = value([*PARTS])
    """Parts of the study."""
    seeds: int = limited(at_least=1, default=5)
    """Agents of each method; their seeds are 0, 1, 2, …"""
    seed_of_strengths: int = limited(at_least=1, default=100)
    """The seed of the run that is trained with each strength of a method. None of these seeds is reported."""
    arguments: str = ""
    """Arguments of `drest train` for every agent: the same network, levels and number of updates."""
    evaluations: int = limited(at_least=1, default=16)
    """Evaluations on selection levels during the training of an agent."""
    all_methods: dict[str, dict[str, Any]] = value({})
    """Values of each method, by name: see the yaml file."""
    with_bit: list[str] = value([DREST, "weighted", "coins_neutrality"])
    """Methods that agents with a private bit are trained with as well."""
    overrides: list[str] = value([])
    """Arguments that override those of all agents: ["env_steps=1000000"], for instance."""
    pressed: list[str] = value([DREST])
    """Methods whose agents are also trained further with remedies, and with rewards that press lightly."""
    pressures: list[str] = value([*PRESSURES])
    """The further trainings of these agents (`drest_torch.jobs.questions.PRESSURES`)."""
    questions: dict[str, Any] = value({"worlds": [*PAPER_WORLDS], "maps": 12, "updates": [*UPDATES]})
    """Options of the questions (`drest_torch.jobs.questions.Subject`)."""
    free: dict[str, Any] = value(
        {
            "worlds": [*PAPER_WORLDS],
            "maps": 4,
            "updates": 800,
            "pays": ["actual", "inverse"],
            "items": 100,
            "menu_updates": 300,
        }
    )
    """Options of the policies that are free in every state (`drest_torch.jobs.free_policies.free_job`)."""
    prompts: dict[str, Any] = value(
        {
            "seeds": 1,
            "scenarios": 20,
            "shared": {"forms": "training", "scenarios": 10_000, "lr": 0.003, "muon_lr": 0.03},
            "reading": [{"reading": "sure_reading", "warm_up": 800, "updates": 1}, {"warm_up": 800, "updates": 1}],
            "training": {"warm_up": 0, "updates": 700},
        }
    )
    """Options of small language models (`drest_torch.studies.alternatives.in_prompts.prompts_job`): the number of
    models, values of `drest language train` in each training that teaches reading, in that of a method, and in all."""


QUICK = {
    "seeds": 1,
    "methods": [DEFAULT, DREST, "weighted", "coins_neutrality", "uniform", "indifference", "shutdown_seeking"],
    "with_bit": ["weighted"],
    "evaluations": 4,
    "all_methods": {
        DREST: {"values": [64, 4]},
        "weighted": {"values": [1.15, 0.1]},
        "coins_neutrality": {"values": [0.95, 0.8]},
        "uniform": {"values": [0.02]},
        "shutdown_seeking": {"values": [2]},
    },
    "overrides": [
        *("levels.train=40", "levels.test=10", "levels.selection=5"),
        *("env_steps=3000", "policy.width=8", "policy.depth=2"),
    ],
    "pressures": ["default reward, tied logits", "default reward, other levels"],
    "questions": {"worlds": ["example"], "maps": 2, "updates": [0, 1]},
    "free": {"worlds": ["example"], "maps": 1, "updates": 60, "items": 4, "menu_updates": 60},
    "prompts": {
        "scenarios": 2,
        "shared": {"scenarios": 20},
        "reading": [{"warm_up": 2, "updates": 1}],
        "training": {"updates": 2},
    },
}


class Key(NamedTuple):
    part: str
    method: str
    strength: float | None
    """The strength of the method; None: it has no strength."""
    seed: int
    """The seed. A language model is trained with all methods, so its run has no method of its own."""


Method = dict[str, Any]


def methods_of(cfg: Config) -> dict[str, Method]:
    """Return the chosen methods of the yaml file by name, with the values that they inherit (``like``)."""
    configured: dict[str, Method] = _plain(cfg.all_methods)
    check_names("study.with_bit with", cfg.with_bit, configured)
    check_names("study.parts with", cfg.parts, PARTS)
    check_names("study.pressed with", cfg.pressed, configured)
    check_names("study.pressures with", cfg.pressures, PRESSURES)
    methods = {}
    for name, method in configured.items():
        check_names(f"study.all_methods: '{name}' has the key", method, KEYS)
        if cfg.methods is None or name in cfg.methods:
            methods[name] = _complete(name, method, configured)
    for name in cfg.methods or ():
        if name not in configured:
            methods[name] = own_method(name, [*configured])
    return methods


def _complete(name: str, method: Method, configured: Mapping[str, Method]) -> Method:
    """Return a method with the values that it inherits from the method named by ``like``."""
    if "like" in method:
        check_names(f"study.all_methods: '{name}' is like", [method["like"]], configured)
        parent = configured[method["like"]]
        arguments = merge_arguments(parent["arguments"].split(), method.get("arguments", "").split())
        method = {**parent, **method, "arguments": " ".join(arguments)}
    if len({"strength", "symbol", "values"} & method.keys()) not in (0, 3):
        raise ConfigError(f"study.all_methods: '{name}' needs strength, symbol and values, or none of them")
    return method


# -------------------------------------------------------------------------------- methods of the user


def own_method(name: str, valid_names: list[str]) -> Method:
    """Return a method of the user: an objective, a function that makes an agent, or the agent of a run."""
    method = {"title": name, "family": USERS}
    if Path(name).is_dir() or name in pretrained_names():
        return {**method, "title": agent_folder(name).name, "agent": absolute_agent(name)}
    module, _, attribute = name.partition(":")
    file = _source(module)
    if file is None:
        raise ConfigError(
            f"study.methods with '{name}'; expected some of {'; '.join(valid_names)}, the path of a module, "
            "module:function, or the folder of a run"
        )
    text = read_whole(file).decode("utf-8")
    if not attribute and re.search(r"^class Objective\b", text, re.MULTILINE):
        return {**method, "arguments": f"objective.name={module}"}
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return {**method, "function": f"{module}:{attribute or FUNCTION}", "sha256": sha256}


def _source(module: str) -> Path | None:
    """Return the file of a module that can be imported, without importing it, or None."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    search_working_directory()
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin)


# ------------------------------------------------------------------------------------------ runs


def compared_strength(method: Method) -> float | None:
    """Return the strength at which questions are asked, or None if the method has no strength."""
    if not method.get("values"):
        return None
    return float(method["values"][0])


def label_of(method: Method, strength: float | None) -> str:
    """Return the title of a method with its strength in place of its symbol: ``U + 1.15 N`` for ``U + w N``."""
    title = str(method["title"])
    if strength is None:
        return title
    label, count = re.subn(rf"\b{method['symbol']}\b", f"{strength:g}", title)
    return label if count else f"{title}, {method['symbol']} = {strength:g}"


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return the runs that choose strengths, then one agent of each method, then the next one of each, and so on."""
    methods = methods_of(cfg)
    runs: dict[Key, Job] = {}
    if STRENGTHS in cfg.parts:
        for name, method in methods.items():
            runs |= _strengths(cfg, name, method)
    if FREE in cfg.parts:
        for name, method in methods.items():
            runs |= _free(cfg, name, method)
    if AGENTS in cfg.parts:
        for seed in range(cfg.seeds):
            for name, method in methods.items():
                runs |= _agent(cfg, name, method, seed)
    if BITS in cfg.parts:
        for name in cfg.with_bit:
            if name in methods:
                runs |= _bits(cfg, name, methods[name])
    if PROMPTS in cfg.parts:
        runs |= _in_prompts(cfg, methods)
    return runs


def _arguments(cfg: Config, method: Method, strength: float | None, *further: str) -> list[str]:
    """Return the arguments of `drest train` for a method at a strength."""
    chosen = method.get("arguments", "").split()
    if strength is not None:
        chosen.append(f"{method['strength']}={strength:g}")
    return merge_arguments(cfg.arguments.split(), chosen, further, cfg.overrides)


def _training(cfg: Config, name: str, method: Method, seed: int, *further: str) -> Job:
    """Return the training run of a method at the compared strength."""
    strength = compared_strength(method)
    (job,) = training_jobs(_run_name(name, method, strength), [seed], None, _arguments(cfg, method, strength, *further))
    return job


def _run_name(name: str, method: Method, strength: float | None) -> str:
    """Return the name of a run, with its strength."""
    return f"bench, {name}" if strength is None else f"bench, {name}, {method['symbol']} = {strength:g}"


def _agent(cfg: Config, name: str, method: Method, seed: int) -> dict[Key, Job]:
    """Return the run of an agent that answers questions; an existing agent has the first seed only."""
    key = Key(AGENTS, name, compared_strength(method), seed)
    options = _plain(cfg.questions)
    if "arguments" in method:
        training = _training(cfg, name, method, seed, f"evaluations={cfg.evaluations}")
        if name in cfg.pressed:
            return {
                key: question_job(training, [*QUESTIONS, UNDER_PRESSURE], options | {UNDER_PRESSURE: [*cfg.pressures]})
            }
        return {key: question_job(training, QUESTIONS, options)}
    shared = merge_arguments(cfg.arguments.split(), cfg.overrides)
    (levels,) = training_jobs(f"bench, {method['title']}", [seed], None, shared)
    spec = {**levels.spec, "questions": [*QUESTIONS], "options": options}
    if "function" in method:
        values = {"function": method["function"], "sha256": method["sha256"], "arguments": shared, "seed": seed}
        return {key: Job(levels.name, f"{RUNS}:of_function", spec | values)}
    if seed > 0:
        return {}
    file = checkpoint_path(agent_folder(method["agent"]), "last")
    sha256 = hashlib.sha256(read_whole(file)).hexdigest()
    return {key: Job(levels.name, f"{RUNS}:existing", spec | {"sha256": sha256}, {"agent": method["agent"]})}


def _strengths(cfg: Config, name: str, method: Method) -> dict[Key, Job]:
    """Return a run with each strength of a method, measured on selection levels."""
    runs = {}
    seed = cfg.seed_of_strengths
    for strength in map(float, method.get("values", ())):
        label = f"strength of {_run_name(name, method, strength)}"
        (training,) = training_jobs(label, [seed], None, _arguments(cfg, method, strength))
        runs[Key(STRENGTHS, name, strength, seed)] = question_job(training, ["selection"], {})
    return runs


def _bits(cfg: Config, name: str, method: Method) -> dict[Key, Job]:
    """Return the runs of a method with a private bit."""
    strength = compared_strength(method)
    label = f"{_run_name(name, method, strength)}, a private bit"
    further = merge_arguments(_arguments(cfg, method, strength), ["policy.private_bits=1"])
    runs = command_jobs(label, cfg.seeds, " ".join(further))
    return {Key(BITS, name, strength, seed): job for seed, job in enumerate(runs)}


def _free(cfg: Config, name: str, method: Method) -> dict[Key, Job]:
    """Return the run of policies that are free in every state; methods that are not an objective have none."""
    if "arguments" not in method:
        return {}
    strength = compared_strength(method)
    training = _training(cfg, name, method, 0)
    label = f"free policies of {_run_name(name, method, strength)}"
    return {Key(FREE, name, strength, 0): free_job(label, training.spec["config"], _plain(cfg.free))}


def _in_prompts(cfg: Config, methods: Mapping[str, Method]) -> dict[Key, Job]:
    """Return the runs of small language models, each with all methods that are an objective; none without the extra
    ``language``."""
    configs = {}
    for name, method in methods.items():
        if "arguments" in method:
            configs[name] = _training(cfg, name, method, 0).spec["config"]
    options = _plain(cfg.prompts)
    seeds = options.pop("seeds")
    if not configs or not all(map(find_spec, LIBRARIES)):
        return {}
    return {Key(PROMPTS, "", None, seed): prompts_job(configs, options, seed) for seed in range(seeds)}


def _plain(values: Any) -> dict[str, Any]:
    """Return values of the configuration as a dictionary."""
    return cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.create(values)))
