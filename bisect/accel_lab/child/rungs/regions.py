"""What stands between a compiled region and Dynamo: backends, contexts, and callables for graphs."""

from __future__ import annotations

import functools
from typing import Any

from ..torch_internals.dynamo import module_shell


class Backend:
    """A backend that is equal to another one of the same request on the same rung.

    So are torch's own (``torch/__init__.py: _TorchCompileInductorWrapper.__eq__``), and Dynamo takes a graph
    of one for the other where the code object is the same: it must go on doing so.
    """

    def __init__(self, requested: Any, rung: str) -> None:
        self._requested = requested
        self._rung = rung

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Backend) or self._rung != other._rung:
            return False
        try:
            return bool(self._requested == other._requested)
        except Exception:
            return self._requested is other._requested

    def __hash__(self) -> int:
        return hash(self._rung)


class RungBackend(Backend):
    """The part of the compiler that belongs to a rung."""

    def __init__(self, requested: Any, rung: str, compiler_name: str, build: Any) -> None:
        super().__init__(requested, rung)
        self.__name__ = compiler_name
        self._build = build

    def __call__(self, gm: Any, example_inputs: Any, **_: Any) -> Any:
        return self._build(gm, example_inputs)


class Identity:
    """Stands where Dynamo's context would: the function runs as it is, a module behind a thin shell."""

    def __call__(self, fn: Any) -> Any:
        import torch

        if isinstance(fn, torch.nn.Module):
            return module_shell(fn, identity)
        return fn

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None


def identity(fn: Any) -> Any:
    return fn


class Context:
    """What ``optimize`` returns: called with the function or module that is to be compiled."""

    def __init__(self, context: Any, ladder: Any, region: Any) -> None:
        self._context = context
        self._ladder = ladder
        self._region = region

    def __call__(self, fn: Any) -> Any:
        if self._region["rung"] == "uncompiled" and self._ladder.switches.get("identity"):
            return fn
        compiled = self._context(fn)
        if compiled is fn and self._region["rung"] == "uncompiled" and callable(fn):
            return self._ladder.wrap(_shell(fn), fn, self._region)
        return self._ladder.wrap(compiled, fn, self._region)

    def __enter__(self) -> Any:
        return self._context.__enter__()

    def __exit__(self, *exc: Any) -> Any:
        return self._context.__exit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _shell(fn: Any) -> Any:
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return run


def boxed(gm: Any) -> Any:
    """The graph's own code under the boxed calling convention: one list, which the callee empties."""
    import torch.fx.graph

    codegen = getattr(torch.fx.graph, "_BoxedCodeGen", None)
    if codegen is not None:
        gm.graph.set_codegen(codegen())
        gm.recompile()
    forward = gm.forward

    def run(args: Any) -> Any:
        if codegen is not None:
            return forward(args)
        values = list(args)
        args.clear()
        return forward(*values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def interpreted(gm: Any, contiguous: bool = False) -> Any:
    """The graph run operator by operator; ``contiguous``: each gets its tensors laid out row by row."""
    import torch

    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return _written(target, args, super().call_function(target, args, kwargs))

    interpreter = _contiguous(gm) if contiguous else Interpreter(gm)

    def run(args: Any) -> Any:
        values = list(args)
        args.clear()
        return interpreter.run(*values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _contiguous(gm: Any) -> Any:
    """An interpreter that copies what is not contiguous before an operator reads it.

    What makes a view or writes to its arguments gets them as they are: it is about that very memory.
    """
    import torch
    from torch.utils._pytree import tree_map_only

    def reads(target: Any) -> bool:
        schema = getattr(target, "_schema", None)
        if schema is None or schema.is_mutable:
            return False
        return all(value.alias_info is None for value in schema.returns)

    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if reads(target):
                args, kwargs = tree_map_only(torch.Tensor, torch.Tensor.contiguous, (args, kwargs))
            return _written(target, args, super().call_function(target, args, kwargs))

    return Interpreter(gm)


def _written(target: Any, args: Any, result: Any) -> Any:
    """What an operator returned; for a foreach operator in place, which returns nothing, what it wrote.

    Where Inductor's passes make one in place, the nodes after it still take tensors out of its result
    (#198033): without them the rung fails in a way that has nothing to do with the script.
    """
    name = str(getattr(getattr(target, "_schema", None), "name", ""))
    if result is None and name.startswith("aten::_foreach_") and name.endswith("_") and args:
        return args[0]
    return result
