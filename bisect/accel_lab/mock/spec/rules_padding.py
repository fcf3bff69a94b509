"""Verifier rules for padding, by tracking the padding lanes' content through the statements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from accel_lab.mock.device import FORMATS
from accel_lab.mock.reference.statements import as_number, evaluate, reduce
from accel_lab.mock.runtime.memory import padding_value

from .kernel_spec import KernelSpec, Operand, Statement
from .vocabulary import REDUCTIONS

Found = Iterator[tuple[str, str]]
#: The content of an operand's padding lanes: one number, or None if unknown.
State = float | int | bool | None


def padding_problems(spec: KernelSpec) -> Found:
    """Yields violations: reductions over non-neutral padding, and outputs whose declared padding is wrong."""
    lanes = [dim for dim in spec.space if dim.kind == "lanes"]
    width = math.prod(dim.extent for dim in spec.space if dim.kind in ("sticks", "lanes"))
    if not lanes or not any(_padded(spec, operand, width) for operand in spec.operands):
        return
    states = {operand.name: _given(spec, operand, width) for operand in spec.inputs}
    for statement in spec.body[: len(spec.body) - (spec.unit == "reduction")]:
        states[statement.output] = _after(spec, statement, states)
    row = any(dim.kind == "lanes" and dim.reduced for dim in spec.space)
    if spec.unit == "reduction":
        last = spec.body[-1]
        held = states.get(str(last.inputs[0]))
        source = spec.operand(str(last.inputs[0]))
        if row and not _neutral(last.op, held, source):
            what = "nothing is known of it" if held is None else f"it is {held}"
            yield (
                "padding",
                f"{last.op} of {source.name} reads padding that must be {REDUCTIONS[last.op]}; {what}",
            )
            return
        states[last.output] = None if held is None else _reduced(last.op, held, source)
    for operand in spec.outputs:
        if operand.padding == "undefined" or not operand.layout.padding or row:
            continue
        wanted = padding_value(operand.padding, operand.layout.number.torch_dtype, False)
        if not _equal(states.get(operand.name), wanted):
            yield (
                "padding_declared",
                f"output {operand.name}: its padding is declared {operand.padding} and it is "
                f"{'not known' if states.get(operand.name) is None else states[operand.name]}",
            )


def _padded(spec: KernelSpec, operand: Operand, width: int) -> bool:
    """Whether a kernel accesses padding lanes of an operand."""
    along = any(
        dim.kind == "lanes" and stride == 1 for dim, stride in zip(spec.space, operand.strides, strict=True)
    )
    return operand.memory == "hbm" and along and operand.layout.valid < width


def _given(spec: KernelSpec, operand: Operand, width: int) -> State:
    if operand.padding == "undefined" or not _padded(spec, operand, width):
        return None
    return padding_value(operand.padding, operand.layout.number.torch_dtype, False)


def _after(spec: KernelSpec, statement: Statement, states: dict[str, State]) -> State:
    """The padding state of a statement's output, computed by running the statement on the padding."""
    dtype = spec.operand(statement.output).layout.number.torch_dtype
    if statement.op == "mask_tail":
        return _cast(as_number(statement.attributes["value"]), dtype)
    if statement.op == "index":
        return None
    values: list[Any] = []
    for entry in statement.inputs:
        if isinstance(entry, str) and entry in states:
            held = states[entry]
            source = spec.operand(entry).layout.number.torch_dtype
            values.append(None if held is None else torch.tensor([held], dtype=source, device="cpu"))
        else:
            values.append(as_number(entry))
    if statement.op == "where" and values[0] is not None:
        chosen = values[1] if bool(values[0]) else values[2]
        return None if chosen is None else _cast(chosen, dtype)
    if any(value is None for value in values):
        return None
    value = evaluate(statement.op, values, statement.attributes)
    if statement.op == "cast":
        value = torch.as_tensor(value).to(FORMATS[statement.attributes["to"]].torch_dtype)
    return _cast(value, dtype)


def _cast(value: Any, dtype: torch.dtype) -> State:
    held: State = torch.as_tensor(value, device="cpu").to(dtype).reshape(-1)[0].item()
    return held


def _reduced(op: str, held: State, source: Operand) -> State:
    """The padding state after a reduction over other dimensions; None unless it stays the same number."""
    row = torch.tensor([held, held], dtype=source.layout.number.torch_dtype, device="cpu")
    again: State = reduce(op, row).item()
    return again if _equal(again, held) else None


def _equal(one: State, other: State) -> bool:
    return one is not None and other is not None and one == other


def _neutral(op: str, held: State, source: Operand) -> bool:
    """Whether a number in the padding is neutral for a reduction."""
    if held is None:
        return False
    if op == "all":
        return bool(held)
    return _equal(held, padding_value(REDUCTIONS[op], source.layout.number.torch_dtype, False))
