"""Edits of a program's inputs: sizes, dtypes and layouts, and everything that depends on them.

Each function returns a new program or call, or None if the edit is not possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .arguments import (
    Arg,
    Meta,
    Name,
    ScalarMeta,
    TensorMeta,
    contiguous,
    elements,
    is_contiguous,
    is_dense,
    mapped,
)
from .program import Call, Input, Made, Program, ScalarInput, Storage, TensorInput


def resized(program: Program, sizes: Mapping[int, int]) -> Program | None:
    """Replaces every size that is a key of ``sizes``: in inputs, arguments and metadata."""

    def change(arg: Arg) -> Arg:
        if type(arg) is int and arg in sizes:
            return sizes[arg]
        return arg

    def shape(size: Sequence[int]) -> tuple[int, ...]:
        return tuple(sizes.get(n, n) for n in size)

    def meta(known: Meta) -> Meta:
        if isinstance(known, tuple):
            return tuple(meta(item) for item in known)
        if isinstance(known, ScalarMeta):
            return ScalarMeta(change(known.value))
        if isinstance(known, TensorMeta):
            new = shape(known.shape)
            return known if new == known.shape else replace(known, shape=new, stride=None)
        return known

    functions = tuple(
        replace(
            function,
            body=tuple(replace(s.with_args(change), meta=meta(s.meta)) for s in function.body),
            result=mapped(function.result, change),
            metas=tuple((name, meta(known)) for name, known in function.metas),
        )
        for function in program.functions
    )
    calls = []
    for call in program.calls:
        for position, value in enumerate(call.inputs):
            if isinstance(value, TensorInput):
                made = reshaped(call, position, shape(value.size))
                if made is None:
                    return None
                call = made
            else:
                inputs = list(call.inputs)
                inputs[position] = ScalarInput(value=change(value.value))
                call = replace(call, inputs=tuple(inputs))
        backward = call.backward
        if isinstance(backward, tuple) and any(shape(g.size) != g.size for g in backward):
            backward = "sum"
        calls.append(replace(call, backward=backward, values=()))
    return replace(program, functions=functions, calls=tuple(calls))


def reshaped(call: Call, position: int, size: tuple[int, ...]) -> Call | None:
    """Changes the size of an input, by slicing or by a constructor; None if that is not possible."""
    value = call.inputs[position]
    assert isinstance(value, TensorInput)
    if size == value.size:
        return call
    storage = call.storage(value.storage)
    if call.sharers(storage.name) > 1:
        return None
    if isinstance(storage.source, Made):
        if storage.source.kind == "literal" or value.origin is not None:
            return None
        return _remade(call, position, value, storage, size)
    if any(n > old for n, old in zip(size, value.size, strict=True)):
        return None
    origin = value.origin or (value.size, value.stride, value.offset)
    stride = contiguous(size)
    return with_input(call, position, replace(value, size=size, stride=stride, offset=0, origin=origin))


def _remade(
    call: Call, position: int, value: TensorInput, storage: Storage, size: tuple[int, ...]
) -> Call | None:
    if value.offset or value.dtype != storage.dtype or not is_dense(value.size, value.stride):
        return None
    order = sorted(range(len(size)), key=lambda d: (-value.stride[d], d))
    stride = [0] * len(size)
    step = 1
    for d in reversed(order):
        stride[d] = step
        step *= size[d]
    if is_contiguous(value.size, value.stride):
        stride = list(contiguous(size))
    storages = tuple(
        replace(storage, numel=elements(size)) if s.name == storage.name else s for s in call.storages
    )
    changed = replace(value, size=size, stride=tuple(stride))
    return with_input(replace(call, storages=storages), position, changed)


def made_contiguous(call: Call, position: int) -> Call | None:
    """Makes an input contiguous in its own storage with the same values; None if it already is."""
    value = call.inputs[position]
    if not isinstance(value, TensorInput):
        return None
    storage = call.storage(value.storage)
    shared = call.sharers(storage.name) > 1
    if not shared and not value.offset and is_contiguous(value.size, value.stride):
        return None
    origin = value.origin or (value.size, value.stride, value.offset)
    own = f"{storage.name}_{position}" if shared else storage.name
    changed = replace(
        value, storage=own, size=value.size, stride=contiguous(value.size), offset=0, origin=origin
    )
    if isinstance(storage.source, Made):
        if value.dtype != storage.dtype:
            return None
        storage = replace(storage, numel=elements(value.size))
        changed = replace(changed, origin=None)
    others = tuple(s for s in call.storages if shared or s.name != storage.name)
    call = replace(call, storages=(*others, replace(storage, name=own)))
    return with_input(call, position, changed)


def with_input(call: Call, position: int, value: Input) -> Call:
    inputs = list(call.inputs)
    inputs[position] = value
    return replace(call, inputs=tuple(inputs))


def with_call(program: Program, index: int, call: Call) -> Program:
    calls = list(program.calls)
    calls[index] = call
    return replace(program, calls=tuple(calls))


def retyped(program: Program, before: str, after: str) -> Program:
    """Changes a dtype everywhere: in tensors, arguments and metadata."""

    def change(arg: Arg) -> Arg:
        return Name(f"torch.{after}") if arg == Name(f"torch.{before}") else arg

    def meta(known: Meta) -> Meta:
        if isinstance(known, tuple):
            return tuple(meta(item) for item in known)
        if isinstance(known, TensorMeta) and known.dtype == before:
            return replace(known, dtype=after)
        return known

    functions = tuple(
        replace(function, body=tuple(replace(s.with_args(change), meta=meta(s.meta)) for s in function.body))
        for function in program.functions
    )
    calls = []
    for call in program.calls:
        for position, value in enumerate(call.inputs):
            if isinstance(value, TensorInput) and (value.cast or value.dtype) == before:
                call = _retyped_input(call, position, value, after)
        backward = call.backward
        if isinstance(backward, tuple) and any(g.dtype == before for g in backward):
            backward = "sum"
        calls.append(replace(call, backward=backward, values=()))
    default = after if program.default_dtype == before else program.default_dtype
    return replace(program, functions=functions, calls=tuple(calls), default_dtype=default)


def _retyped_input(call: Call, position: int, value: TensorInput, after: str) -> Call:
    storage = call.storage(value.storage)
    alone = call.sharers(storage.name) == 1 and storage.dtype == value.dtype
    if isinstance(storage.source, Made) and storage.source.kind != "literal" and alone:
        storages = tuple(replace(s, dtype=after) if s.name == storage.name else s for s in call.storages)
        return with_input(replace(call, storages=storages), position, replace(value, dtype=after))
    return with_input(call, position, replace(value, cast="" if after == value.dtype else after))


def each_input(program: Program, change: Callable[[Call, int], Call | None]) -> list[tuple[str, Program]]:
    """Returns a program for each input that ``change`` changes, with the input's name."""
    found = []
    for number, call in enumerate(program.calls):
        for position, name in enumerate(program.functions[call.function].params):
            made = change(call, position)
            if made is not None and made != call:
                found.append((name, with_call(program, number, made)))
    return found
