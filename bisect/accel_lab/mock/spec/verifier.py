"""The spec verifier: rules that a kernel spec must satisfy before it runs.

A spec is checked once, when its program is loaded. The rules, as named in problems: ``document``,
``vocabulary``, ``operands``, ``division``, ``cores``, ``alignment``, ``bounds``, ``strides``, ``coverage``,
``stick_count``, ``race``, ``lifetime``, ``overlap``, ``capacity``, ``span``, ``padding``,
``padding_declared``, ``dtype``, ``space``, ``sticks``, ``shape``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from accel_lab.mock.device import FORMATS, STICK_BYTES, Device

from .kernel_spec import KINDS, MEMORIES, PADDINGS, ROLES, UNITS, KernelSpec
from .problem import Problem, SpecError
from .rules_layout_units import layout_unit_problems
from .rules_padding import padding_problems
from .rules_strided import strided_problems
from .vocabulary import (
    ARGUMENTS,
    ARITY,
    INTEGER_ONLY,
    LAYOUT_OPS,
    REDUCTIONS,
    STATEMENT_ATTRIBUTES,
    STRIDED_UNITS,
)

__all__ = ["Problem", "SpecError", "check", "verify"]

Found = Iterator[tuple[str, str]]


def verify(spec: KernelSpec, device: Device, arena_bytes: int) -> list[Problem]:
    """Returns the violations of the first group of rules that has any, for an arena of ``arena_bytes``."""
    stages: tuple[Callable[[], Found], ...] = (
        lambda: _document(spec),
        lambda: _words(spec),
        lambda: _division(spec, device),
        lambda: _places(spec, device, arena_bytes),
        lambda: _statement_formats(spec) if spec.unit in STRIDED_UNITS else iter(()),
        lambda: (
            strided_problems(spec, device)
            if spec.unit in STRIDED_UNITS
            else layout_unit_problems(spec, device)
        ),
        lambda: padding_problems(spec) if spec.unit in STRIDED_UNITS else iter(()),
    )
    for stage in stages:
        found = [
            Problem(kernel=spec.name, rule=rule, message=message) for rule, message in dict.fromkeys(stage())
        ]
        if found:
            return found
    return []


def check(spec: KernelSpec, device: Device, arena_bytes: int) -> None:
    """Raises SpecError if a spec violates a rule."""
    if problems := verify(spec, device, arena_bytes):
        raise SpecError(problems)


def _document(spec: KernelSpec) -> Found:
    """The spec must be serializable as JSON."""
    try:
        json.dumps(spec.to_json(), allow_nan=False)
    except (TypeError, ValueError, KeyError) as error:
        yield "document", f"the spec is not a JSON document: {error}"


def _words(spec: KernelSpec) -> Found:
    """All names must be known, and ops must have their inputs and attributes."""
    if spec.unit not in UNITS:
        yield "vocabulary", f"the device has no unit called {spec.unit!r}"
        return
    for dim in spec.space:
        if dim.kind not in KINDS:
            yield "vocabulary", f"dimension {dim.name} is of no known kind: {dim.kind!r}"
    for operand in spec.operands:
        for word, known in (
            (operand.role, ROLES),
            (operand.memory, MEMORIES),
            (operand.padding, PADDINGS),
            (operand.layout.format, tuple(FORMATS)),
        ):
            if word not in known:
                yield "vocabulary", f"operand {operand.name}: {word!r} is none of {', '.join(known)}"
    names = [operand.name for operand in spec.operands]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "operands", f"two operands are called {name}"
    if not spec.outputs:
        yield "operands", "no operand is an output"
    if spec.unit in STRIDED_UNITS:
        yield from _body_words(spec)
        return
    asked = LAYOUT_OPS[spec.unit].get(spec.op)
    if asked is None:
        yield "vocabulary", f"the unit {spec.unit} has no op called {spec.op!r}"
        return
    least, most, attributes = asked
    if not least <= len(spec.inputs) <= most:
        yield "operands", f"{spec.op} takes {least} to {most} inputs, not {len(spec.inputs)}"
    for name in attributes:
        if name not in spec.attributes:
            yield "vocabulary", f"{spec.op} needs the attribute {name}"
    if spec.body:
        yield "vocabulary", f"the unit {spec.unit} runs no statements"
    if spec.op == "scatter" and (len(spec.inputs) == 3) == ("value" in spec.attributes):
        yield "operands", "scatter takes either a source operand or the attribute value"


def _body_words(spec: KernelSpec) -> Found:
    """Statements must be known, have the right inputs, and write all outputs."""
    names = {operand.name for operand in spec.operands}
    if not spec.body:
        yield "vocabulary", f"a {spec.unit} kernel has at least one statement"
        return
    for number, statement in enumerate(spec.body):
        last = spec.unit == "reduction" and number == len(spec.body) - 1
        arity = (1 if statement.op in REDUCTIONS else None) if last else ARITY.get(statement.op)
        if arity is None:
            yield (
                "vocabulary",
                f"statement {number}: no {'reduction' if last else 'statement'} is called {statement.op!r}",
            )
            continue
        if len(statement.inputs) != arity:
            yield "vocabulary", f"statement {number}: {statement.op} takes {arity} inputs"
        for name in STATEMENT_ATTRIBUTES.get(statement.op, ()):
            if name not in statement.attributes:
                yield "vocabulary", f"statement {number}: {statement.op} needs the attribute {name}"
        dim = statement.attributes.get("dim", 0)
        if statement.op in ("mask_tail", "index") and not (
            isinstance(dim, int) and 0 <= dim < len(spec.space)
        ):
            yield "vocabulary", f"statement {number}: the space has no dimension {dim!r}"
        for entry in statement.inputs:
            if isinstance(entry, str) and entry not in names and entry not in ("inf", "-inf", "nan"):
                yield "operands", f"statement {number}: no operand is called {entry!r}"
            elif last and not isinstance(entry, str):
                yield "operands", "a reduction reduces an operand, not a number"
        target = next((o for o in spec.operands if o.name == statement.output), None)
        if target is None:
            yield "operands", f"statement {number}: no operand is called {statement.output!r}"
        elif target.role == "input":
            yield "operands", f"statement {number} writes the input {target.name}"
        elif last and target.role != "output":
            yield "operands", f"the reduction's result {target.name} is not an output"
    written = {statement.output for statement in spec.body}
    for operand in spec.outputs:
        if operand.name not in written:
            yield "operands", f"no statement writes the output {operand.name}"


def _division(spec: KernelSpec, device: Device) -> Found:
    """Every extent must be divisible by cores x steps, and the device must have enough cores."""
    for dim in spec.space:
        if min(dim.cores, dim.steps) < 1 or dim.extent < 0:
            yield (
                "division",
                f"dimension {dim.name}: extent {dim.extent} by {dim.cores} cores, {dim.steps} steps",
            )
        elif dim.extent % (dim.cores * dim.steps):
            done = dim.extent // (dim.cores * dim.steps) * dim.cores * dim.steps
            yield (
                "division",
                f"dimension {dim.name}: {dim.cores} cores x {dim.steps} steps make {done} of {dim.extent}",
            )
        if dim.kind == "lanes" and (dim.cores > 1 or dim.steps > 1):
            yield "division", f"dimension {dim.name}: a stick is never divided"
        if spec.unit == "matmul" and dim.reduced and (dim.cores > 1 or dim.steps > 1):
            yield "division", f"dimension {dim.name}: the reduced extent of a matmul is never divided"
        if spec.unit == "reduction" and dim.reduced and dim.steps > 1 and spec.body[-1].op in ARGUMENTS:
            yield "division", f"dimension {dim.name}: {spec.body[-1].op} is not done in steps"
    if spec.cores > device.cores:
        yield "cores", f"the kernel is divided over {spec.cores} cores, and the device has {device.cores}"


def _places(spec: KernelSpec, device: Device, arena_bytes: int) -> Found:
    """Every operand must be stick-aligned and within its memory."""
    for operand in spec.operands:
        if operand.address % STICK_BYTES:
            yield "alignment", f"operand {operand.name}: address {operand.address} is not that of a stick"
        if operand.memory == "hbm":
            end = operand.address + operand.layout.bytes
            if operand.address < 0 or end > arena_bytes:
                yield (
                    "bounds",
                    f"operand {operand.name}: {operand.address} to {end} leave the arena ({arena_bytes})",
                )
        elif operand.role != "scratch":
            yield "bounds", f"operand {operand.name}: an {operand.role} lies in hbm"
        elif not device.use_scratchpad:
            yield "capacity", f"operand {operand.name}: the device's scratchpads are off"


def _statement_formats(spec: KernelSpec) -> Found:
    """Statements that require certain formats must have them."""
    formats = {operand.name: operand.layout.format for operand in spec.operands}
    for number, statement in enumerate(spec.body):
        taken = [formats.get(entry) for entry in statement.inputs if isinstance(entry, str)]
        floats = [name for name in taken if name is not None and FORMATS[name].torch_dtype.is_floating_point]
        if statement.op == "where" and formats.get(str(statement.inputs[0]), "bool") != "bool":
            yield "dtype", f"statement {number}: the condition of where is bool"
        if statement.op in INTEGER_ONLY and floats:
            yield "dtype", f"statement {number}: {statement.op} takes no {floats[0]}"
        if statement.op == "cast" and statement.attributes["to"] not in FORMATS:
            yield "dtype", f"statement {number}: no format is called {statement.attributes['to']!r}"
        if statement.op in ARGUMENTS and formats[statement.output] != "int64":
            yield "dtype", f"statement {number}: {statement.op} yields int64, not {formats[statement.output]}"
