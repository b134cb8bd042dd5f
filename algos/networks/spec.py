"""The specification of a policy: its network and its observation. Specification and weights define the policy."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from drest_torch.algos.networks.base import ACTIVATIONS, HEAD_DEPTH, HEAD_WIDTH
from drest_torch.algos.networks.regularization import NORMS
from drest_torch.limits import limited, limits_of

TABLE = "table"
"""The network of `drest_torch.algos.tabular`, which no configuration can choose by name."""
MOST_INPUTS = 1 << 24
"""The largest size of an observation of a loaded policy."""
MAX_PRIVATE_BITS = 10
"""The maximum number of private bits: exact evaluation enumerates all 2^n settings of n bits."""
FORMER_KEYS = ("private_kind", "private_draws")
"""Keys of a policy that only earlier versions wrote."""
NEW_KEYS = {"norm": None, "head_width": HEAD_WIDTH, "head_depth": HEAD_DEPTH}
"""Keys of a policy that earlier versions did not write, each with its value in these policies."""
MOST_VALUES = 100_000
"""The largest length of a list or a mapping of a specification."""


@dataclass(frozen=True, kw_only=True)
class MapView:
    """The observation of a policy in gridworlds."""

    kind: ClassVar[str] = "maps"
    offset: ClassVar[tuple[float, ...]] = ()

    observation: str
    """A name in `drest_torch.envs.dynamics.observations.OBSERVATIONS`."""
    planes: tuple[str, ...]
    """The planes of an observation, by name and in this order; the vector observation has none."""
    rows: int = limited(at_least=1, at_most=1024)
    """The rows of the largest map in training; smaller maps are padded with wall."""
    columns: int = limited(at_least=1, at_most=1024)
    """The columns of the largest map in training."""
    time_steps: int = limited(at_least=1, at_most=65_536)
    """The number of values of the time left that the policy distinguishes."""
    features: tuple[str, ...]
    """The features of levels that observations show in every level, present or not."""


@dataclass(frozen=True, kw_only=True)
class RowView:
    """The observation of a policy in any other environment, a row of numbers, and its actions."""

    kind: ClassVar[str] = "environment"

    entries: Mapping[str, tuple[int, ...]]
    """The shape of each entry of an observation, in the order of their numbers in the row."""
    actions: Mapping[str, Any]
    """The kind of actions, as `drest_torch.algos.distributions.ActionKind.record` writes it."""
    offset: tuple[float, ...]
    """The offset of the network's outputs."""


VIEWS: dict[str, type[MapView | RowView]] = {view.kind: view for view in (MapView, RowView)}


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """The network of a policy and its observation."""

    network: str
    """A name in `drest_torch.algos.networks.NETWORKS`, a module of the user's own, or `TABLE`."""
    width: int = limited(at_least=1, at_most=65_536)
    depth: int = limited(at_least=0, at_most=256)
    activation: str = limited(choices=ACTIVATIONS)
    norm: str | None = limited(choices=NORMS, default=None)
    head_width: int = limited(at_least=1, at_most=65_536, default=HEAD_WIDTH)
    head_depth: int = limited(at_least=1, at_most=256, default=HEAD_DEPTH)
    private_bits: int = limited(at_least=0, at_most=MAX_PRIVATE_BITS)
    shape: tuple[int, ...]
    """The shape of one observation."""
    scale: tuple[float, ...]
    """The factors that scale an observation to about 1: one for all its numbers, or one for each plane."""
    outputs: int = limited(at_least=1, at_most=65_536)
    sees: MapView | RowView

    def record(self) -> dict[str, Any]:
        """Return the specification as a JSON value for `of`."""
        return asdict(self) | {"sees": {self.sees.kind: asdict(self.sees)}}

    @classmethod
    def of(cls, record: Any) -> PolicySpec:
        """Return the specification of a JSON value; raise a `ValueError` for an invalid one."""
        if isinstance(record, dict):
            record = NEW_KEYS | record
        values = checked_values(cls, record, former=FORMER_KEYS)
        if values["private_bits"] and record.get("private_kind", "bits") != "bits":
            raise ValueError(f"private_kind is {record['private_kind']!r:.40}, not private bits")
        kind, *others = values["sees"] if isinstance(values["sees"], dict) else [None]
        if kind not in VIEWS or others:
            raise ValueError(f"sees is {values['sees']!r:.40}; expected one of {', '.join(VIEWS)}")
        view = VIEWS[kind]
        spec = cls(**values | {"sees": view(**checked_values(view, values["sees"][kind]))})
        if not spec.shape or min(spec.shape) < 1 or math.prod(spec.shape) > MOST_INPUTS:
            raise ValueError(f"shape is {spec.shape!r:.40}")
        if not all(map(math.isfinite, spec.scale)) or len(spec.scale) not in (1, spec.shape[0]):
            raise ValueError(f"scale is {spec.scale!r:.40}")
        return spec


def checked_values(kind: Any, record: Any, *, former: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of a dataclass in a JSON object; raise for missing, unknown, mistyped and excessive values.

    ``former`` keys of earlier versions are ignored.
    """
    if not isinstance(record, dict):
        raise ValueError(f"{kind.__name__} is {record!r:.40}")
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    if differing := sorted(set(names) ^ (set(map(str, record)) - set(former))):
        problem = "missing" if differing[0] in names else "not known"
        raise ValueError(f"{differing[0]:.40} is {problem}")
    values = {}
    for field in fields(kind):
        value, limits = record[field.name], limits_of(field)
        outside = limits is not None and value is not None and not limits.allow(value)
        if outside or not _has_type(value, hints[field.name]):
            raise ValueError(f"{field.name} is {value!r:.40}")
        values[field.name] = _as_tuples(value, hints[field.name])
    return values


def _as_tuples(value: Any, hint: Any) -> Any:
    """Return a JSON value, with tuples in place of lists where its type has them."""
    if get_origin(hint) is Mapping:
        return {name: _as_tuples(inner, get_args(hint)[1]) for name, inner in value.items()}
    return tuple(value) if get_origin(hint) is tuple else value


def _has_type(value: Any, hint: Any) -> bool:
    """Return True if a JSON value has the type of a field; a list stands for a tuple."""
    container, arguments = get_origin(hint), get_args(hint)
    if container in (Union, UnionType):
        return any(_has_type(value, argument) for argument in arguments)
    if is_dataclass(hint):
        return isinstance(value, dict)
    if container is tuple:
        return isinstance(value, list) and _all_have(value, arguments[0])
    if container is Mapping:
        return isinstance(value, dict) and _all_have(list(value.values()), arguments[1])
    if hint in (int, str, bool, NoneType):
        return type(value) is hint
    return hint is Any or type(value) in (int, float)


def _all_have(values: list[Any], hint: Any) -> bool:
    return len(values) <= MOST_VALUES and all(_has_type(value, hint) for value in values)
