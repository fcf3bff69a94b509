"""Backends and contexts that the ladder gives to Dynamo, and ways to run a graph without a compiler."""

from __future__ import annotations

import functools
from typing import Any

from ..torch_internals.dynamo import module_shell


class Backend:
    """A backend that equals any other with the same requested backend and rung.

    torch's own backends compare this way (``torch/__init__.py: _TorchCompileInductorWrapper.__eq__``). Dynamo
    relies on it to reuse the compiled code of a code object for an equal backend.
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
    """The backend of a rung; ``build(gm, example_inputs)`` compiles a captured graph."""

    def __init__(self, requested: Any, rung: str, compiler_name: str, build: Any) -> None:
        super().__init__(requested, rung)
        self.__name__ = compiler_name
        self._build = build

    def __call__(self, gm: Any, example_inputs: Any, **_: Any) -> Any:
        return self._build(gm, example_inputs)


class Identity:
    """Replaces Dynamo's context and compiles nothing; a module is wrapped in a thin ``nn.Module``."""

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
    """The return value of the replaced ``optimize``; call it with the function or module to compile."""

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
    """Returns the graph's code under the boxed calling convention: one list, which the callee empties."""
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
    """Returns a boxed callable that interprets the graph; ``contiguous``: on contiguous copies of inputs."""
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
    """Returns an interpreter that gives operators contiguous copies of their tensors.

    Operators that return views or write to their arguments get the originals, as they act on that memory.
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
    """Returns the operator's result, or the tensors it wrote if it is an in-place foreach operator.

    Inductor's passes can make a foreach operator in-place while later nodes still index its result
    (#198033). The in-place form returns None, so the rung would fail for a reason unrelated to the script.
    """
    name = str(getattr(getattr(target, "_schema", None), "name", ""))
    if result is None and name.startswith("aten::_foreach_") and name.endswith("_") and args:
        return args[0]
    return result
