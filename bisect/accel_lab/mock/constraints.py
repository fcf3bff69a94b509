"""Selects the mock's constraints: from arguments, else the environment, else the table, else all.

``constraints`` (MOCK_CONSTRAINTS) names them. ``dtypes`` (MOCK_DTYPES) narrows what ``dtype`` allows.
``denied`` (MOCK_DENIED) is the deny-list of ``unsupported``. ``errors`` (MOCK_ERRORS) names those whose
warnings become errors. Variables are comma-separated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from accel_lab.accelerators.constraints.catalogue import Constraint
from accel_lab.accelerators.constraints.repro import ReproTarget
from accel_lab.accelerators.constraints.selection import (
    NAMES,
    ConstraintLimits,
    constraint_names,
    constraint_of,
    denied_operators,
    dtype_of,
    dtype_words,
    listed,
)
from accel_lab.accelerators.constraints.values import words
from accel_lab.accelerators.limits import DeviceLimits
from accel_lab.accelerators.settings import SettingError

from .device import FORMATS, STICK_BYTES
from .settings import CONSTRAINT_VARIABLES, TABLE, Settings

#: Set to "0", this variable keeps a strict violation from writing a script.
REPRO_VARIABLE = "MOCK_REPRO"
DEVICE_DTYPES = frozenset(entry.torch_dtype for entry in FORMATS.values())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen constraints, and the environment variables that reproduce them.

    ``environment`` is None if a constraint was given as an object.
    """

    constraints: tuple[Constraint, ...]
    environment: Mapping[str, str] | None


def choose(
    settings: Settings,
    *,
    given: Mapping[str, Any] | None = None,
    table: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Choice:
    """Selects the constraints. Raises SettingError with the allowed values."""
    given, table = given or {}, table or {}
    environment = os.environ if environment is None else environment
    found: dict[str, tuple[str, Sequence[Any]] | None] = {}
    for key, variable in CONSTRAINT_VARIABLES.items():
        found[key] = None
        if given.get(key) is not None:
            found[key] = key, listed(key, given[key])
        elif environment.get(variable, "").strip():
            found[key] = variable, listed(variable, environment[variable])
        elif key in table:
            found[key] = f"{TABLE} {key}", listed(f"{TABLE} {key}", table[key])
    dtypes, denied, errors = found["dtypes"], found["denied"], found["errors"]
    limits = ConstraintLimits(
        device=limits_of(settings),
        alignment=settings.alignment,
        aligned_dimensions=settings.aligned_dimensions,
        dtypes=allowed_dtypes(*dtypes) if dtypes else DEVICE_DTYPES,
        denied=denied_operators(*denied) if denied else frozenset(),
        lacks=lacks_operator,
        errors=constraint_names(*errors) if errors else frozenset(),
    )
    setting, specs = found["constraints"] or ("constraints", NAMES)
    constraints = tuple(constraint_of(setting, spec, limits) for spec in specs)
    return Choice(constraints=constraints, environment=_environment(constraints, specs, limits))


def limits_of(settings: Settings) -> DeviceLimits:
    """Returns the device's sizes as the constraints' limits."""
    device = settings.device
    return DeviceLimits(
        memory_bytes=device.memory_bytes,
        stick_bytes=STICK_BYTES,
        cores=device.cores,
        scratchpad_bytes=device.scratchpad_bytes,
        span_bytes=device.span_bytes,
    )


def allowed_dtypes(setting: str, specs: Iterable[object]) -> frozenset[torch.dtype]:
    """Returns the device's dtypes that a choice allows. Raises SettingError.

    All dtypes of a kind (floating, integer) stay allowed if none of that kind is named: ``float16`` does not
    restrict index tensors.
    """
    chosen = {dtype_of(setting, spec) for spec in specs}
    lacking = sorted(words(dtype) for dtype in chosen - DEVICE_DTYPES)
    if lacking or not chosen:
        what = f"has no {lacking[0]}" if lacking else "needs at least one dtype"
        raise SettingError(f"{setting}: the device {what}; it has {dtype_words(DEVICE_DTYPES)}")
    kinds = {dtype.is_floating_point for dtype in chosen}
    return frozenset(
        chosen | {d for d in DEVICE_DTYPES if d.is_floating_point not in kinds or d is torch.bool}
    )


def lacks_operator(target: torch._ops.OpOverload) -> str:
    """Returns why the device cannot run an overload; empty if the main front end has a lowering."""
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "random numbers are drawn on the host"
    from .lowering import graph  # noqa: F401 - the import registers the lowerings
    from .lowering.builder import handler_of

    return "" if handler_of(target) is not None else "the device has no such operator"


def repro_target(settings: Settings, choice: Choice) -> ReproTarget | None:
    """Returns how a standalone script sets up the mock with these settings; None for unnamed constraints."""
    if choice.environment is None:
        return None
    return ReproTarget(
        accelerator="the mock accelerator",
        backend_import="from accel_lab.mock.backend import aot_mock_backend",
        backend="aot_mock_backend(strict=True)",
        environment={
            **settings.environment(),
            **choice.environment,
            "ACCEL_LAB_MOCK_ARTIFACTS": "",
            "MOCK_STRICT": "1",
            REPRO_VARIABLE: "0",
        },
        constraint_variable=CONSTRAINT_VARIABLES["constraints"],
        wanted=os.environ.get(REPRO_VARIABLE) != "0",
    )


def _environment(
    constraints: Sequence[Constraint], specs: Sequence[Any], limits: ConstraintLimits
) -> Mapping[str, str] | None:
    if any(isinstance(spec, Constraint) for spec in specs):
        return None
    return {
        "MOCK_CONSTRAINTS": ",".join(constraint.name for constraint in constraints),
        "MOCK_DTYPES": ",".join(sorted(words(dtype) for dtype in limits.dtypes)),
        **({"MOCK_DENIED": ",".join(sorted(limits.denied))} if limits.denied else {}),
        **({"MOCK_ERRORS": ",".join(sorted(limits.errors))} if limits.errors else {}),
    }
