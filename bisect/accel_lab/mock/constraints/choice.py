"""Which constraints hold: those given, else the environment's, else the table's, else all that the mock has.

``constraints`` (MOCK_CONSTRAINTS) names them, ``dtypes`` (MOCK_DTYPES) narrows what ``dtype`` allows,
``denied`` (MOCK_DENIED) is the deny-list of ``unsupported``; variables separate words by commas.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from accel_lab.mock.device import FORMATS
from accel_lab.mock.settings import SettingError, Settings

from .catalogue import Constraint
from .limits import ScratchpadConstraint, SpanConstraint, TensorMemoryConstraint
from .liveness import PeakMemoryConstraint
from .node_checks import AlignmentConstraint, DtypeConstraint, LayoutConstraint, OperatorConstraint
from .operators import named
from .values import words

#: Keys of the table and of ``aot_mock_backend``, with their variables.
VARIABLES = {"constraints": "MOCK_CONSTRAINTS", "dtypes": "MOCK_DTYPES", "denied": "MOCK_DENIED"}
#: Where a strict violation writes its script ("0" for nowhere).
REPRO_VARIABLE = "MOCK_REPRO"
DEVICE_DTYPES = frozenset(entry.torch_dtype for entry in FORMATS.values())
_SHORT = {name: entry.torch_dtype for name, entry in FORMATS.items()}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the constraints are made of."""

    settings: Settings
    dtypes: frozenset[torch.dtype] = DEVICE_DTYPES
    denied: frozenset[str] = frozenset()
    supported: frozenset[str] | None = None
    of_mock: bool = True


_MAKERS: dict[str, Callable[[Limits], Constraint]] = {
    "dtype": lambda limits: DtypeConstraint(allowed=limits.dtypes),
    "layout": lambda limits: LayoutConstraint(),
    "alignment": lambda limits: AlignmentConstraint(multiple=limits.settings.alignment),
    "memory": lambda limits: TensorMemoryConstraint(limit=limits.settings.device.memory_bytes),
    "peak_memory": lambda limits: PeakMemoryConstraint(limit=limits.settings.device.memory_bytes),
    "unsupported": lambda limits: OperatorConstraint(
        denied=limits.denied, supported=limits.supported, of_mock=limits.of_mock
    ),
    "scratchpad": lambda limits: ScratchpadConstraint(bytes=limits.settings.device.scratchpad_bytes),
    "span": lambda limits: SpanConstraint(
        bytes=limits.settings.device.span_bytes, cores=limits.settings.device.cores
    ),
}
NAMES = tuple(_MAKERS)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The constraints, and the words that give another process the same ones (None where one has no name)."""

    constraints: tuple[Constraint, ...]
    environment: Mapping[str, str] | None


def dtype_of(setting: str, spec: object) -> torch.dtype:
    """A torch dtype, or its name (``float16``, ``torch.float16``, ``half``, the device's ``fp16``)."""
    if isinstance(spec, torch.dtype):
        return spec
    if isinstance(spec, str):
        text = spec.strip().removeprefix("torch.")
        found = _SHORT.get(text) or getattr(torch, text, None)
        if isinstance(found, torch.dtype):
            return found
    known = ", ".join(sorted(words(dtype) for dtype in DEVICE_DTYPES))
    raise SettingError(f"{setting}: a dtype is a torch.dtype or its name ({known}), not {spec!r}")


def allowed_dtypes(setting: str, specs: Iterable[object]) -> frozenset[torch.dtype]:
    """What a choice of dtypes leaves of the device's.

    A kind (floating, integer) of which none is named stays: ``float16`` says nothing of index tensors.
    """
    chosen = {dtype_of(setting, spec) for spec in specs}
    lacking = sorted(words(dtype) for dtype in chosen - DEVICE_DTYPES)
    if lacking or not chosen:
        known = ", ".join(sorted(words(dtype) for dtype in DEVICE_DTYPES))
        what = f"has no {lacking[0]}" if lacking else "needs at least one dtype"
        raise SettingError(f"{setting}: the device {what}; it has {known}")
    kinds = {dtype.is_floating_point for dtype in chosen}
    return frozenset(
        chosen | {d for d in DEVICE_DTYPES if d.is_floating_point not in kinds or d is torch.bool}
    )


def denied_operators(setting: str, specs: Iterable[object]) -> frozenset[str]:
    """The entries of a deny-list."""
    found = set()
    for spec in specs:
        try:
            found.add(named(spec))
        except ValueError as error:
            raise SettingError(f"{setting}: {error}") from None
    return frozenset(found)


def choose(
    settings: Settings,
    *,
    given: Mapping[str, Any] | None = None,
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    supported: frozenset[str] | None = None,
    of_mock: bool = True,
) -> Choice:
    """The constraints that hold. Raises SettingError, with what is allowed.

    ``supported`` and ``of_mock`` are for other accelerators (see OperatorConstraint).
    """
    given, table = given or {}, table or {}
    environment = os.environ if environment is None else environment
    found: dict[str, tuple[str, Sequence[Any]] | None] = {}
    for key, variable in VARIABLES.items():
        found[key] = None
        if given.get(key) is not None:
            found[key] = key, _listed(key, given[key])
        elif environment.get(variable, "").strip():
            found[key] = variable, _listed(variable, environment[variable])
        elif key in table:
            found[key] = f"[tool.accel-lab.mock] {key}", _listed(f"[tool.accel-lab.mock] {key}", table[key])
    limits = Limits(
        settings=settings,
        dtypes=allowed_dtypes(*found["dtypes"]) if found["dtypes"] else DEVICE_DTYPES,
        denied=denied_operators(*found["denied"]) if found["denied"] else frozenset(),
        supported=supported,
        of_mock=of_mock,
    )
    setting, specs = found["constraints"] or ("constraints", NAMES)
    constraints = tuple(made(setting, spec, limits) for spec in specs)
    return Choice(constraints=constraints, environment=_words(constraints, specs, limits))


def made(setting: str, spec: object, limits: Limits) -> Constraint:
    """One constraint, by name or as it is."""
    if isinstance(spec, Constraint):
        if not spec.name or spec.severity not in ("error", "warning"):
            raise SettingError(f"{setting}: {spec!r} needs a name, and a severity of error or warning")
        return spec
    if isinstance(spec, str) and spec.strip() in _MAKERS:
        return _MAKERS[spec.strip()](limits)
    raise SettingError(f"{setting}: there is no constraint {spec!r}; there are {', '.join(NAMES)}")


def _listed(setting: str, value: object) -> Sequence[Any]:
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, torch.dtype):
        return [value]
    if isinstance(value, Iterable):
        return list(value)
    raise SettingError(f"{setting} is a list, not {value!r}")


def _words(
    constraints: Sequence[Constraint], specs: Sequence[Any], limits: Limits
) -> Mapping[str, str] | None:
    if not limits.of_mock or any(isinstance(spec, Constraint) for spec in specs):
        return None
    return {
        "MOCK_CONSTRAINTS": ",".join(constraint.name for constraint in constraints),
        "MOCK_DTYPES": ",".join(sorted(words(dtype) for dtype in limits.dtypes)),
        **({"MOCK_DENIED": ",".join(sorted(limits.denied))} if limits.denied else {}),
    }
