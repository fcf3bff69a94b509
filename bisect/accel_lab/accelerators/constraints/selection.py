"""Creates constraints by name from a device's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from accel_lab.accelerators.limits import COMMON_DTYPES, SHORT_DTYPES, DeviceLimits
from accel_lab.accelerators.settings import CONSTRAINTS as NAMES
from accel_lab.accelerators.settings import SettingError, near

from .catalogue import SEVERITIES, Constraint
from .limits import ScratchpadConstraint, SpanConstraint, TensorMemoryConstraint
from .liveness import PeakMemoryConstraint
from .node_checks import AlignmentConstraint, DtypeConstraint, LayoutConstraint, OperatorConstraint
from .operators import parse_operator
from .values import words


@dataclass(frozen=True, kw_only=True)
class ConstraintLimits:
    """All parameters of the constraints. For ``supported`` and ``lacks`` see OperatorConstraint.

    ``errors`` names the constraints whose warnings are raised to errors.
    """

    device: DeviceLimits = field(default_factory=DeviceLimits)
    alignment: int = 1
    aligned_dimensions: str = "last"
    dtypes: frozenset[torch.dtype] = COMMON_DTYPES
    denied: frozenset[str] = frozenset()
    supported: frozenset[str] | None = None
    lacks: Callable[[torch._ops.OpOverload], str] | None = None
    errors: frozenset[str] = frozenset()


_MAKERS: dict[str, Callable[[ConstraintLimits], Any]] = {
    "dtype": lambda limits: DtypeConstraint(allowed=limits.dtypes),
    "layout": lambda limits: LayoutConstraint(stick_bytes=limits.device.stick_bytes),
    "alignment": lambda limits: AlignmentConstraint(
        multiple=limits.alignment, every_dimension=limits.aligned_dimensions == "all"
    ),
    "memory": lambda limits: TensorMemoryConstraint(
        limit=limits.device.memory_bytes, stick_bytes=limits.device.stick_bytes
    ),
    "peak_memory": lambda limits: PeakMemoryConstraint(
        limit=limits.device.memory_bytes, stick_bytes=limits.device.stick_bytes
    ),
    "unsupported": lambda limits: OperatorConstraint(
        denied=limits.denied, supported=limits.supported, lacks=limits.lacks
    ),
    "scratchpad": lambda limits: ScratchpadConstraint(
        bytes=limits.device.scratchpad_bytes, stick_bytes=limits.device.stick_bytes
    ),
    "span": lambda limits: SpanConstraint(
        bytes=limits.device.span_bytes, cores=limits.device.cores, stick_bytes=limits.device.stick_bytes
    ),
}


def constraint_of(setting: str, spec: object, limits: ConstraintLimits) -> Constraint:
    """Returns a constraint, given by name or as an instance. Raises SettingError."""
    if isinstance(spec, Constraint):
        if not spec.name or spec.severity not in SEVERITIES:
            raise SettingError(f"{setting}: {spec!r} needs a name, and a severity of error or warning")
        return spec
    if isinstance(spec, str) and spec.strip() in _MAKERS:
        made = _MAKERS[spec.strip()](limits)
        return replace(made, severity="error") if made.name in limits.errors else made  # type: ignore[no-any-return]
    hint = near(str(spec).strip(), NAMES)
    raise SettingError(f"{setting}: there is no constraint {spec!r}; there are {', '.join(NAMES)}{hint}")


def constraint_names(setting: str, specs: Iterable[object]) -> frozenset[str]:
    """Returns the names of the given constraints. Raises SettingError for an unknown one."""
    return frozenset(constraint_of(setting, spec, ConstraintLimits()).name for spec in specs)


def dtype_of(setting: str, spec: object) -> torch.dtype:
    """Returns a torch dtype, given as such or by name (``float16``, ``torch.float16``, ``half``, ``fp16``).

    Raises SettingError.
    """
    if isinstance(spec, torch.dtype):
        return spec
    if isinstance(spec, str):
        text = spec.strip().removeprefix("torch.")
        found = SHORT_DTYPES.get(text) or getattr(torch, text, None)
        if isinstance(found, torch.dtype):
            return found
    raise SettingError(
        f"{setting}: a dtype is a torch.dtype or its name ({dtype_words(COMMON_DTYPES)}), not {spec!r}"
    )


def dtype_words(dtypes: Iterable[torch.dtype]) -> str:
    """Returns the sorted names of dtypes, comma-separated."""
    return ", ".join(sorted(words(dtype) for dtype in dtypes))


def denied_operators(setting: str, specs: Iterable[object]) -> frozenset[str]:
    """Returns the canonical operator names of a deny-list. Raises SettingError."""
    found = set()
    for spec in specs:
        try:
            found.add(parse_operator(spec))
        except ValueError as error:
            raise SettingError(f"{setting}: {error}") from None
    return frozenset(found)


def listed(setting: str, value: object) -> Sequence[Any]:
    """Returns a setting's value as a list; a string is split at commas. Raises SettingError."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, torch.dtype):
        return [value]
    if isinstance(value, Iterable):
        return list(value)
    raise SettingError(f"{setting} is a list, not {value!r}")


__all__ = [
    "NAMES",
    "ConstraintLimits",
    "constraint_names",
    "constraint_of",
    "denied_operators",
    "dtype_of",
    "dtype_words",
    "listed",
]
