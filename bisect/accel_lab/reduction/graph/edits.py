"""Single edits of a program: shorten it, remove statements, replace values.

Each function returns a new program, or None if the edit is not possible; the caller tests whether the failure
survives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    is_dense,
    refs,
)
from .program import (
    Call,
    Function,
    Program,
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
    """Makes a function return only ``outputs``; keeps the gradients of those that remain, else sums all."""
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
    """Keeps only the first ``end`` statements; values that later statements used are returned."""
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
    # with_result needs the old result, to which the positions of the gradients refer.
    return with_result(
        with_function(shorter, index, replace(shorter.functions[index], result=function.result)),
        index,
        outputs,
    )


def checked(program: Program) -> Program | None:
    """Returns None for a program with an undefined reference or without statements."""
    if not all(is_closed(function) for function in program.functions):
        return None
    return program if any(function.body for function in program.functions) else None


# -- removing --------------------------------------------------------------------------------------


def without(
    program: Program, index: int, names: Collection[str], stand_ins: Mapping[str, Arg] | None = None
) -> Program | None:
    """Removes statements from a function; ``stand_ins`` or new inputs with captured values replace them."""
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
    """Returns the names and those of getitem statements on removed sequences, whose items were captured."""
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
    """Returns values of the same shape, dtype and device to replace a statement: operands first."""
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
    """Replaces a statement by ``torch.ones`` or ``torch.zeros`` (``kind``) of the same shape."""
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
