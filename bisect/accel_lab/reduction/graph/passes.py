"""Passes that shorten a program, largest cuts first; the program stays interesting after each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .arguments import Arg, Meta, Ref, TensorMeta, refs
from .edits import checked, cut_after, splat, stand_ins, with_result, without
from .program import Function, Program, Statement, TensorInput, live, tidy, with_function
from .state import State


def drop_calls(state: State) -> None:
    """Drops calls; functions without a call are removed with them."""

    def build(chunk: Sequence[int]) -> Iterable[Program | None]:
        program = state.program
        yield _with_calls(program, [i for i in range(len(program.calls)) if i not in chunk])

    if len(state.program.calls) > 1:
        state.drop(lambda: range(len(state.program.calls)), build, "fewer calls")


def _with_calls(program: Program, kept: Sequence[int]) -> Program | None:
    calls = [program.calls[i] for i in kept]
    used = sorted({call.function for call in calls})
    if not calls:
        return None
    number = {old: new for new, old in enumerate(used)}
    return tidy(
        replace(
            program,
            functions=tuple(program.functions[i] for i in used),
            calls=tuple(replace(call, function=number[call.function]) for call in calls),
        )
    )


def simplify_backward(state: State) -> None:
    """Simplifies the backward to none, a sum, or gradients of ones, because later cuts need a simple one."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        for kind in (None, "sum", "ones"):
            calls = tuple(replace(c, backward=kind) if c.backward is not None else c for c in program.calls)
            if kind is None:
                yield without_grad(replace(program, calls=calls))
            yield replace(program, calls=calls)
            if all(call.backward == kind for call in program.calls):
                break

    if any(call.backward is not None for call in state.program.calls):
        state.first(proposals(), "a simpler backward")
    else:
        state.first([without_grad(state.program)], "without gradients")


def without_grad(program: Program) -> Program:
    """Returns the program with no input that requires a gradient."""
    calls = tuple(
        replace(
            call,
            inputs=tuple(
                replace(value, requires_grad=False) if isinstance(value, TensorInput) else value
                for value in call.inputs
            ),
        )
        for call in program.calls
    )
    return tidy(replace(program, calls=calls))


def fewer_results(state: State) -> None:
    """Makes each function return one value if that suffices, else as few as possible."""
    for index in range(len(state.program.functions)):

        def single(index: int = index) -> Iterator[Program | None]:
            results = state.program.functions[index].results
            if len(results) > 1:
                for output in reversed(results):
                    yield with_result(state.program, index, [output])

        if len(state.program.functions[index].results) <= 12 and state.first(single(), "one result"):
            continue

        def results_of(index: int = index) -> Sequence[Arg]:
            return state.program.functions[index].results

        def fewer(chunk: Sequence[Arg], index: int = index) -> Iterable[Program | None]:
            kept = [r for r in state.program.functions[index].results if r not in chunk]
            yield with_result(state.program, index, kept)

        if len(state.program.functions[index].results) > 1:
            state.drop(results_of, fewer, "fewer results")


def cut_suffix(state: State) -> None:
    """Bisects for the shortest failing prefix, which returns what the rest would have used."""
    for index in range(len(state.program.functions)):
        whole = state.program
        low, high = 0, len(whole.functions[index].body)
        while high - low > 1:
            third = max(1, (high - low) // 3)
            points = dict.fromkeys((low + third, high - third))
            made = {point: cut_after(whole, index, point) for point in points}
            state.first(made.values(), "a shorter end")
            taken = [point for point, program in made.items() if program is state.program]
            if taken:
                high = taken[0]
                low = max([low, *(point for point in points if point < high)])
            else:
                low = max(points)


def cut_prefix(state: State) -> None:
    """Keeps only the last statements, with captured inputs: 1, 2, 4, ... of them, then bisects."""
    for index in range(len(state.program.functions)):
        whole = state.program
        body = whole.functions[index].body
        sizes = []
        size = 1
        while size < len(body):
            sizes.append(size)
            size *= 2
        if not sizes or not state.first((_last(whole, index, size) for size in sizes), "a later beginning"):
            continue
        high = len(state.program.functions[index].body)
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            if state.first([_last(whole, index, middle)], "a later beginning"):
                high = middle
            else:
                low = middle


def _last(program: Program, index: int, size: int) -> Program | None:
    body = program.functions[index].body
    return without(program, index, {statement.name for statement in body[: len(body) - size]})


def drop_interior(state: State) -> None:
    """Drops chunks of statements; an operand of the same kind or the captured value replaces each."""
    for index in range(len(state.program.functions)):

        def names(index: int = index) -> Sequence[str]:
            return [statement.name for statement in state.program.functions[index].body]

        def build(chunk: Sequence[str], index: int = index) -> Iterator[Program | None]:
            program = state.program
            yield without(program, index, chunk, _operands(program, index, chunk))
            yield without(program, index, chunk)

        state.drop(names, build, "fewer nodes")


def _operands(program: Program, index: int, chunk: Sequence[str]) -> dict[str, Arg]:
    """Maps each removed statement to its first operand of the same shape, dtype and device, if any."""
    function = program.functions[index]
    found: dict[str, Arg] = {}
    for statement in function.body:
        if statement.name in chunk:
            choice = next(iter(stand_ins(function, statement, param_metas(program, index))), None)
            if isinstance(choice, Ref) and choice.name in statement.uses:
                found[statement.name] = choice
    return found


def param_metas(program: Program, index: int) -> dict[str, Meta]:
    """Returns the metadata of the parameters, from the first call."""
    call = next((c for c in program.calls if c.function == index), None)
    if call is None:
        return {}
    pairs = zip(program.functions[index].params, call.inputs, strict=True)
    return {name: value.meta for name, value in pairs if isinstance(value, TensorInput)}


def one_by_one(state: State) -> None:
    """Tries to remove each single statement until none can go: by operands, captured values or ones."""

    def proposals() -> Iterator[Program | None]:
        program = state.program
        for index, function in enumerate(program.functions):
            metas = param_metas(program, index)
            for statement in reversed(function.body):
                yield from _ways_without(program, index, function, statement, metas)

    state.repeat(proposals, "one node less")


def _ways_without(
    program: Program, index: int, function: Function, statement: Statement, metas: dict[str, Meta]
) -> Iterator[Program | None]:
    name = statement.name
    if not any(name in s.uses for s in function.body) and name not in refs(function.result):
        shorter = replace(function, body=tuple(s for s in function.body if s.name != name))
        yield checked(tidy(with_function(program, index, shorter)))
        return
    if name in refs(function.result):
        results = [r for r in function.results if r != Ref(name)]
        replacement = [Ref(used) for used in statement.uses if used not in function.params]
        if function.results == (Ref(name),):
            yield from (with_result(program, index, [used]) for used in reversed(replacement))
        yield with_result(program, index, results)
        yield with_result(program, index, [*results, *(r for r in replacement if r not in results)])
    places = [{name: stand_in} for stand_in in stand_ins(function, statement, metas)[:2]]
    for stand_in in (*places, None):
        yield without(program, index, [name], stand_in)
    wider = _with_operands_returned(program, index, statement)
    if wider is not None:
        for stand_in in (*places, None):
            yield without(wider, index, [name], stand_in)
    if statement.uses:
        yield splat(program, index, name, "ones")


def _with_operands_returned(program: Program, index: int, statement: Statement) -> Program | None:
    """Returns a statement's operands as further results, so that they survive without the statement."""
    function = program.functions[index]
    operands = [s.name for s in function.body if s.name in statement.uses and isinstance(s.meta, TensorMeta)]
    further = [Ref(name) for name in operands if Ref(name) not in function.results]
    return with_result(program, index, [*function.results, *further]) if further else None


__all__ = [
    "cut_prefix",
    "cut_suffix",
    "drop_calls",
    "drop_interior",
    "fewer_results",
    "live",
    "one_by_one",
    "simplify_backward",
    "without_grad",
]
