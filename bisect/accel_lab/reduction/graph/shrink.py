"""Passes that simplify a shortened program: values, sizes, dtypes, arguments, layouts, settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .arguments import Arg, Meta, Ref, ScalarMeta, TensorMeta, elements, refs
from .edits import with_result
from .input_edits import each_input, made_contiguous, reshaped, resized, retyped, with_input
from .passes import without_grad
from .program import (
    Call,
    CompileArgs,
    Made,
    Program,
    ScalarInput,
    Settings,
    Statement,
    Stored,
    TensorInput,
    substituted,
    tidy,
    with_function,
)
from .state import State
from .values import read_literal


def simplify_settings(state: State) -> None:
    """Removes arguments of torch.compile, thread modes, comparisons, and gradients that are not needed."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        functions = program.functions
        plain = [CompileArgs(backend=f.compile.backend) for f in functions]
        yield replace(
            program, functions=tuple(replace(f, compile=c) for f, c in zip(functions, plain, strict=True))
        )
        for index, function in enumerate(functions):
            given = function.compile
            variants = [replace(given, fullgraph=False), replace(given, dynamic=None)]
            variants += [
                replace(given, options=tuple(o for o in given.options if o != option))
                for option in given.options
            ]
            for variant in variants:
                yield with_function(program, index, replace(function, compile=variant))
        yield _with_settings(program, Settings())
        yield replace(program, default_dtype="float32")
        yield without_grad(program)
        for kept in (["outputs"], ["grads"], ["inputs"]):
            yield replace(program, compare=frozenset(kept))
        if program.compare == {"inputs"}:
            for index in range(len(functions)):
                yield with_result(program, index, [])
        for dropped in sorted(program.compare):
            if len(program.compare) > 1:
                yield replace(program, compare=program.compare - {dropped})

    state.repeat(proposals, "fewer settings")
    state.repeat(
        lambda: (made for _, made in each_input(state.program, _no_grad)), "a gradient less is required"
    )


def _with_settings(program: Program, settings: Settings) -> Program:
    return replace(program, calls=tuple(replace(call, settings=settings) for call in program.calls))


def _no_grad(call: Call, position: int) -> Call | None:
    value = call.inputs[position]
    if isinstance(value, TensorInput) and value.requires_grad:
        return with_input(call, position, replace(value, requires_grad=False))
    return None


def simplify_layout(state: State) -> None:
    """Makes inputs contiguous in their own storages, and merges equal inputs."""
    state.repeat(lambda: (made for _, made in each_input(state.program, made_contiguous)), "contiguous")

    def merged() -> Iterator[Program | None]:
        for index, function in enumerate(state.program.functions):
            call = next(c for c in state.program.calls if c.function == index)
            for i, first in enumerate(function.params):
                for j in range(i + 1, len(function.params)):
                    if _alike(call.inputs[i], call.inputs[j]):
                        changed = substituted(function, {function.params[j]: Ref(first)})
                        yield tidy(with_function(state.program, index, changed))

    state.repeat(merged, "one input for two")


def _alike(one: object, two: object) -> bool:
    if isinstance(one, TensorInput) and isinstance(two, TensorInput):
        return one.meta.alike == two.meta.alike and one.requires_grad == two.requires_grad
    return isinstance(one, ScalarInput) and one == two


# -- values ----------------------------------------------------------------------------------------

_SHORT = (
    Made(kind="ones"),
    Made(kind="zeros"),
    Made(kind="arange"),
    Made(kind="randn"),
    Made(kind="linspace", value="-1, 1"),
)
LITERAL = 24


def simplify_values(state: State, literals: bool = False) -> None:
    """Makes inputs with short constructors; ``literals`` writes out the small remaining ones."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        if sum(isinstance(s.source, Stored) for c in program.calls for s in c.storages) > 1:
            for made in _SHORT:
                yield _all_made(program, made)
        for number, call in enumerate(program.calls):
            for storage in call.storages:
                if isinstance(storage.source, Stored) and storage.numel:
                    for made in _choices(program, storage.dtype):
                        yield _made(program, number, storage.name, made)
                    if literals and storage.numel <= LITERAL and storage.dtype != "uint8":
                        text = read_literal(
                            program.files[storage.source.file], storage.source.key, storage.dtype
                        )
                        yield _made(program, number, storage.name, Made(kind="literal", value=text))

    state.repeat(proposals, "values from constructors")


def _choices(program: Program, dtype: str) -> tuple[Made, ...]:
    if dtype.startswith(("int", "uint")):
        return (*_SHORT[:3], Made(kind="randn", value="2"), Made(kind="randn"))
    if dtype == "bool":
        return _SHORT[:4]
    return (*_SHORT, Made(kind="linspace", value="0, 1"), Made(kind="full", value="2.0"))


def _made(program: Program, number: int, name: str, made: Made) -> Program | None:
    call = program.calls[number]
    storages = tuple(replace(s, source=made) if s.name == name else s for s in call.storages)
    call = replace(call, storages=storages)
    owners = [i for i, v in enumerate(call.inputs) if isinstance(v, TensorInput) and v.storage == name]
    if len(owners) == 1:
        call = _direct(call, owners[0], made)
    calls = list(program.calls)
    calls[number] = call
    return replace(program, calls=tuple(calls))


def _direct(call: Call, position: int, made: Made) -> Call:
    """Makes the input directly: no slice of a larger tensor, no conversion."""
    value = call.inputs[position]
    assert isinstance(value, TensorInput)
    storage = call.storage(value.storage)
    if made.kind == "literal" or value.dtype != storage.dtype:
        return call
    dtype = value.cast or value.dtype
    numel = storage.numel
    if value.origin is not None:
        value = replace(value, origin=None, offset=0)
        numel = elements(value.size)
    storages = tuple(
        replace(s, dtype=dtype, numel=numel) if s.name == storage.name else s for s in call.storages
    )
    return with_input(replace(call, storages=storages), position, replace(value, dtype=dtype, cast=""))


def _all_made(program: Program, made: Made) -> Program | None:
    changed = program
    for number, call in enumerate(program.calls):
        for storage in call.storages:
            if isinstance(storage.source, Stored) and storage.numel and storage.dtype != "bool":
                result = _made(changed, number, storage.name, made)
                assert result is not None
                changed = result
    return changed


# -- sizes and types -------------------------------------------------------------------------------


def shrink_sizes(state: State) -> None:
    """Shrinks each size everywhere at once, largest first, then single dimensions of inputs."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        sizes = _sizes(program)
        for size in sorted(sizes, reverse=True):
            for small in _smaller(size):
                multiples = {n: n // size * small for n in sizes if n % size == 0 and size > 1}
                yield resized(program, {size: small})
                if len(multiples) > 1:
                    yield resized(program, multiples)

    state.repeat(proposals, "smaller sizes")

    def single() -> Iterator[Program | None]:
        program = state.program
        for number, call in enumerate(program.calls):
            for position, value in enumerate(call.inputs):
                if not isinstance(value, TensorInput):
                    continue
                for d, size in enumerate(value.size):
                    for small in _smaller(size):
                        shape = (*value.size[:d], small, *value.size[d + 1 :])
                        made = reshaped(call, position, shape)
                        if made is not None:
                            calls = list(program.calls)
                            calls[number] = made
                            yield replace(program, calls=tuple(calls))

    if sum(len(c.inputs) for c in state.program.calls) <= 8:
        state.repeat(single, "a smaller input")


def _sizes(program: Program) -> set[int]:
    found: set[int] = set()

    def look(meta: Meta) -> None:
        if isinstance(meta, tuple):
            for item in meta:
                look(item)
        elif isinstance(meta, TensorMeta):
            found.update(meta.shape)
        elif isinstance(meta, ScalarMeta) and type(meta.value) is int:
            found.add(meta.value)

    for function in program.functions:
        for statement in function.body:
            look(statement.meta)
    for call in program.calls:
        for value in call.inputs:
            if isinstance(value, TensorInput):
                found.update(value.size)
    return {n for n in found if n > 1}


def _smaller(size: int) -> list[int]:
    return [n for n in dict.fromkeys((1, 2, 3, 4, 8, 16, size // 2)) if 0 < n < size]


_SIMPLER = (
    ("bfloat16", "float32"),
    ("float16", "float32"),
    ("float64", "float32"),
    ("complex128", "complex64"),
    ("int32", "int64"),
    ("int16", "int64"),
    ("int8", "int64"),
    ("uint8", "int64"),
)


def simplify_types(state: State) -> None:
    """Uses float32 and int64 where the failure does not need another dtype."""

    def proposals() -> Iterator[Program | None]:
        for before, after in _SIMPLER:
            yield retyped(state.program, before, after)

    state.repeat(proposals, "plainer types")


# -- arguments -------------------------------------------------------------------------------------


def simplify_arguments(state: State) -> None:
    """Drops keyword and trailing arguments, simplifies numbers, and inlines parameters that are numbers."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        yield from _inlined_numbers(program)
        for index, function in enumerate(program.functions):
            for number, statement in enumerate(function.body):
                for variant in _simpler_statements(statement):
                    body = (*function.body[:number], variant, *function.body[number + 1 :])
                    yield tidy(with_function(program, index, replace(function, body=body)))

    state.repeat(proposals, "simpler arguments")


def _inlined_numbers(program: Program) -> Iterator[Program | None]:
    if len(program.calls) > len(program.functions):
        return  # another call may pass another number
    for call in program.calls:
        function = program.functions[call.function]
        for name, value in zip(function.params, call.inputs, strict=True):
            if isinstance(value, ScalarInput):
                changed = substituted(function, {name: value.value})
                yield tidy(with_function(program, call.function, changed))


def _simpler_statements(statement: Statement) -> Iterator[Statement]:
    for key, _ in statement.kwargs:
        yield replace(statement, kwargs=tuple(pair for pair in statement.kwargs if pair[0] != key))
    fixed = 1 if statement.op == "method" else 0
    if statement.target.startswith("operator.") or statement.op == "size":
        fixed = len(statement.args)
    if len(statement.args) > fixed and not statement.kwargs and not list(refs(statement.args[-1])):
        yield replace(statement, args=statement.args[:-1])
    numbers = _numbers(statement)
    for position, (before, options) in enumerate(numbers):
        for after in options:
            if after != before:
                yield _with_number(statement, position, after)


def _numbers(statement: Statement) -> list[tuple[Any, tuple[Any, ...]]]:
    found: list[tuple[Any, tuple[Any, ...]]] = []
    sizes = statement.meta.shape if isinstance(statement.meta, TensorMeta) else ()

    def look(arg: Arg) -> Arg:
        if type(arg) is float:
            found.append((arg, _plainer_floats(arg)))
        elif type(arg) is int:
            low = 1 if arg in sizes else 0  # a size of zero would be a different case
            found.append((arg, tuple(n for n in (0, 1, 2) if low <= n < abs(arg))))
        return arg

    statement.with_args(look)
    return found


def _plainer_floats(value: float) -> tuple[float, ...]:
    if value in (0.0, 1.0):
        return ()
    whole = float(round(value)) if abs(value) < 1e15 else value
    return tuple(x for x in dict.fromkeys((1.0, 0.0, 2.0, whole)) if x != value and (value != 2.0 or x < 2.0))


def _with_number(statement: Statement, position: int, after: int | float) -> Statement:
    count = -1

    def change(arg: Arg) -> Arg:
        nonlocal count
        if type(arg) in (int, float):
            count += 1
            if count == position:
                return after
        return arg

    return statement.with_args(change)
