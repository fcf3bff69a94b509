"""Single changes to a program: cuts, removal of statements, replacement of values, other sizes and types.

Each function makes one new program or None where it would make no sense; whether the failure survives
is for the caller to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from .arguments import (
    Arg,
    Items,
    Meta,
    Name,
    Ref,
    ScalarMeta,
    TensorMeta,
    contiguous,
    elements,
    is_contiguous,
    is_dense,
    mapped,
    refs,
)
from .program import (
    Call,
    Function,
    Input,
    Made,
    Program,
    ScalarInput,
    Statement,
    Storage,
    Stored,
    TensorInput,
    is_closed,
    substituted,
    tidy,
    with_function,
)

# -- results ---------------------------------------------------------------------------------------


def with_result(program: Program, index: int, outputs: Sequence[Arg]) -> Program | None:
    """The function returning only these; gradients of outputs that stay are kept, else all are summed."""
    if not outputs and "outputs" in program.compare:
        return None
    function = program.functions[index]
    before = list(function.results)
    result: Arg = Items("tuple", tuple(outputs))
    if len(outputs) < 2:
        result = outputs[0] if outputs else None
    calls = []
    for call in program.calls:
        if call.function == index and isinstance(call.backward, tuple):
            known = {before[g.output]: g for g in call.backward if g.output < len(before)}
            kept = tuple(
                replace(known[output], output=position)
                for position, output in enumerate(outputs)
                if isinstance(output, Ref) and output in known
            )
            call = replace(call, backward=kept or "sum")
        calls.append(call)
    changed = replace(with_function(program, index, replace(function, result=result)), calls=tuple(calls))
    return checked(tidy(changed))


def cut_after(program: Program, index: int, end: int) -> Program | None:
    """Only the first ``end`` statements; what would have been needed after them is returned."""
    function = program.functions[index]
    body, rest = function.body[:end], function.body[end:]
    later = {name for statement in rest for name in statement.uses} | set(refs(function.result))
    outputs: list[Arg] = [
        Ref(statement.name)
        for statement in body
        if statement.name in later and statement.meta is not None and statement.op != "size"
    ]
    outputs += [
        output for output in function.results if isinstance(output, Ref) and output.name in function.params
    ]
    shorter = with_function(program, index, replace(function, body=body))
    if not body or not outputs:
        return None
    # The positions of the outputs refer to the old result, which with_result still needs to see.
    return with_result(
        with_function(shorter, index, replace(shorter.functions[index], result=function.result)),
        index,
        outputs,
    )


def checked(program: Program) -> Program | None:
    """None for a program that uses what nothing defines, or has nothing left to run."""
    if not all(is_closed(function) for function in program.functions):
        return None
    return program if any(function.body for function in program.functions) else None


# -- removing --------------------------------------------------------------------------------------


def without(
    program: Program, index: int, names: Collection[str], stand_ins: Mapping[str, Arg] | None = None
) -> Program | None:
    """The function without these statements: their values are ``stand_ins``, else captured inputs."""
    function = program.functions[index]
    removed = _with_items(function, names)
    function = replace(function, body=tuple(s for s in function.body if s.name not in removed))
    function = substituted(function, stand_ins or {})
    needed = [
        name
        for name in dict.fromkeys(
            [name for s in function.body for name in s.uses] + list(refs(function.result))
        )
        if name in removed
    ]
    metas = {s.name: s.meta for s in program.functions[index].body}
    program = with_function(program, index, function)
    for name in needed:
        made = _as_input(program, index, name, metas[name])
        if made is None:
            return None
        program = made
    return checked(tidy(program))


def _with_items(function: Function, names: Collection[str]) -> set[str]:
    """Also the statements that take a removed sequence apart: their items were captured one by one."""
    removed = set(names)
    for statement in function.body:
        if (
            statement.target == "operator.getitem"
            and isinstance(statement.args[0], Ref)
            and statement.args[0].name in removed
            and isinstance(function.meta_of(statement.args[0].name), tuple)
        ):
            removed.add(statement.name)
    return removed


def _as_input(program: Program, index: int, name: str, meta: Meta) -> Program | None:
    function = program.functions[index]
    if isinstance(meta, ScalarMeta):
        return with_function(program, index, substituted(function, {name: meta.value}))
    if not isinstance(meta, TensorMeta) or meta.device != "cpu":
        return None
    calls = []
    for call in program.calls:
        if call.function != index:
            calls.append(call)
            continue
        source = dict(call.values).get(name)
        if source is None:
            return None
        calls.append(_with_value(call, name, meta, source, _is_written(function, name)))
    grown = replace(function, params=(*function.params, name), metas=(*function.metas, (name, meta)))
    return replace(with_function(program, index, grown), calls=tuple(calls))


def _with_value(call: Call, name: str, meta: TensorMeta, source: Stored, written: bool) -> Call:
    stride = contiguous(meta.shape)
    if meta.stride is not None and is_dense(meta.shape, meta.stride):
        stride = meta.stride
    storage = Storage(name=name, dtype=meta.dtype, numel=elements(meta.shape), source=source)
    value = TensorInput(
        storage=name,
        dtype=meta.dtype,
        size=meta.shape,
        stride=stride,
        requires_grad=meta.requires_grad and call.backward is not None,
        leaf=not written,
    )
    return replace(call, storages=(*call.storages, storage), inputs=(*call.inputs, value))


def _is_written(function: Function, name: str) -> bool:
    return any(s.has_effect and s.uses and s.uses[0] == name for s in function.body)


def stand_ins(function: Function, statement: Statement, params: Mapping[str, Meta]) -> list[Arg]:
    """Values that could take the place of a statement's: operands first, then what came just before it."""
    if not isinstance(statement.meta, TensorMeta):
        return []
    alike = statement.meta.alike
    before: dict[str, Meta] = dict(params)
    for other in function.body:
        if other.name == statement.name:
            break
        before[other.name] = other.meta
    operands = list(statement.uses)
    others = [name for name in reversed(before) if name not in operands]
    found: list[Arg] = []
    for name in [*operands, *others[:20]]:
        meta = before.get(name)
        if isinstance(meta, TensorMeta) and meta.alike == alike:
            found.append(Ref(name))
    return found


def splat(program: Program, index: int, name: str, kind: str) -> Program | None:
    """The statement made into a constructor of ones or zeros of the same shape."""
    function = program.functions[index]
    statement = next(s for s in function.body if s.name == name)
    meta = statement.meta
    if not isinstance(meta, TensorMeta) or statement.target == f"torch.{kind}":
        return None
    kwargs: list[tuple[str, Arg]] = []
    if meta.dtype != program.default_dtype:
        kwargs.append(("dtype", Name(f"torch.{meta.dtype}")))
    if meta.device != "cpu":
        kwargs.append(("device", meta.device))
    made = replace(
        statement,
        op="function",
        target=f"torch.{kind}",
        args=meta.shape or (Items("tuple", ()),),
        kwargs=tuple(kwargs),
    )
    body = tuple(made if s.name == name else s for s in function.body)
    return checked(tidy(with_function(program, index, replace(function, body=body))))


# -- sizes and types -------------------------------------------------------------------------------


def resized(program: Program, sizes: Mapping[int, int]) -> Program | None:
    """Every size that is a key becomes its value: in inputs, in arguments, in what is known of values."""

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
    """The call with an input of another size: a smaller part of its values, or a constructor's."""
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
    """The call with an input that has the same values, contiguous and in a storage of its own."""
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
    """Every tensor and argument of one type becomes another type."""

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
    """A program for each input that ``change`` can change, with the input's name."""
    found = []
    for number, call in enumerate(program.calls):
        for position, name in enumerate(program.functions[call.function].params):
            made = change(call, position)
            if made is not None and made != call:
                found.append((name, with_call(program, number, made)))
    return found
