"""Records Inductor's FX passes, and can skip single ones.

Covers passes that run under ``GraphTransformObserver`` and passes that Inductor calls by name. Places that
a torch release lacks are skipped.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import types
from typing import Any, Set

from ..capture.graph_text import name_and_location
from ..torch_internals import passes
from .applications import Applications, module_or_none

FUNCTIONS = "pass_functions"

_NOT_PASSES = ("lazy_init", "is_same_dict", "is_gpu", "enter_freezing")
#: Names of the graph parameter in pass functions.
_GRAPH_PARAMETERS = ("gm", "graph", "g", "graph_module", "mod", "module")


class Passes:
    """Reports each pass over a graph to ``applied``, and skips it if ``applied`` says so."""

    def __init__(self, applied: Applications) -> None:
        self._applied = applied
        self._callers: Set[Any] = set()

    def install(self) -> None:
        """Wraps the drivers, the pass functions, the observer and dead code elimination."""
        self._wrap_drivers()
        self._wrap_functions()
        for wrap in (self._wrap_observer, self._wrap_dce):
            try:
                wrap()
            except (ImportError, AttributeError):
                continue

    def _wrap_drivers(self) -> None:
        """Wraps the functions that run a phase of passes, also where ``compile_fx`` imported them."""
        users = [passes.user()]
        for module_name, name, phase in passes.DRIVERS:
            module = module_or_none(module_name)
            original = getattr(module, name, None)
            if not callable(original):
                continue
            wrapped = self._phase(original, phase)
            for user in [module, *users]:
                if user is not None and getattr(user, name, None) is original:
                    setattr(user, name, wrapped)

    def _phase(self, driver: Any, phase: str) -> Any:
        @functools.wraps(driver)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._applied.at(phase=phase):
                return driver(*args, **kwargs)

        return run

    def _wrap_observer(self) -> None:
        from torch.fx.passes.graph_transform_observer import GraphTransformObserver as Observer

        for method_name in ("apply_gm_pass", "apply_graph_pass"):
            original = getattr(Observer, method_name, None)
            if original is not None:
                setattr(Observer, method_name, self._observed(original))

    def _observed(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(observer: Any, pass_fn: Any, *args: Any, **kwargs: Any) -> Any:
            function = name_and_location(pass_fn)[0]
            name = observer.passname
            if function not in (name, "apply", "<lambda>"):
                name = "%s (%s)" % (name, function)
            subsystem = getattr(observer, "subsystem", None) or "passes"
            record, off = self._applied.enter(subsystem, name, pass_fn, hook=observer.passname)
            if off:
                return None
            with self._applied.subsystems.answered(subsystem, off):
                return self._applied.run(
                    record,
                    _root(pass_fn),
                    lambda _: observer.gm.graph,
                    lambda: original(observer, pass_fn, *args, **kwargs),
                )

        return apply

    def _wrap_functions(self) -> None:
        """Wraps the pass functions that Inductor calls by name, without an observer.

        A skipped pass returns what it would if it had nothing to do: its graph argument, 0 if it counts, else
        None. If a pass cannot be skipped, the run fails with another signature and does not count as a fix.
        """
        wrapped: Set[Any] = set()
        for module_name, name, _ in passes.DRIVERS:
            module = module_or_none(module_name)
            driver = _plain(getattr(module, name, None))
            if isinstance(driver, types.FunctionType):
                self._wrap_called(module, driver, 2, wrapped)
        user = passes.user()
        for name in ("view_to_reshape",):
            function = getattr(user, name, None)
            if isinstance(function, types.FunctionType):
                setattr(user, name, self._counted(function, name, anywhere=True))

    def _wrap_called(self, module: Any, caller: Any, depth: int, wrapped: Set[Any]) -> None:
        self._callers.add(caller.__code__)
        for name in caller.__code__.co_names:
            function = module.__dict__.get(name)
            plain = _plain(function)
            if not isinstance(plain, types.FunctionType) or not isinstance(function, types.FunctionType):
                continue
            if name in _NOT_PASSES or not _is_pass(plain) or (module, name) in wrapped:
                continue
            wrapped.add((module, name))
            home = module_or_none(plain.__module__)
            setattr(module, name, self._counted(function, name))
            if depth > 1 and home is not None:
                self._wrap_called(home, plain, depth - 1, wrapped)

    def _counted(self, function: Any, name: str, anywhere: bool = False) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not anywhere and sys._getframe(1).f_code not in self._callers:
                # Either its observer has already reported it, or it traces a pattern, which is not a pass.
                return function(*args, **kwargs)
            record, off = self._applied.enter(FUNCTIONS, name, function)
            first = next((a for a in [*args, *kwargs.values()] if _graph(a) is not None), None)
            if off:
                return {"graph": first, "number": 0}.get(_returns(_plain(function)))
            return self._applied.run(
                record,
                _root(function),
                lambda result: _graph(result) or _graph(first),
                lambda: function(*args, **kwargs),
            )

        return run

    def _wrap_dce(self) -> None:
        """Wraps dead code elimination; only calls from a pass driver itself are recorded."""
        import torch

        original = torch.fx.Graph.eliminate_dead_code

        @functools.wraps(original)
        def eliminate_dead_code(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._applied.place().get("phase") or self._applied.stack():
                return original(graph, *args, **kwargs)
            record, off = self._applied.enter(FUNCTIONS, "eliminate_dead_code", original)
            if off:
                return False
            return self._applied.run(record, None, lambda _: graph, lambda: original(graph, *args, **kwargs))

        torch.fx.Graph.eliminate_dead_code = eliminate_dead_code


def _plain(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _root(function: Any) -> Any:
    """The function inside partials, bound methods and wrappers."""
    while True:
        inner = getattr(function, "func", None) if isinstance(function, functools.partial) else None
        inner = inner or getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            return function
        function = inner


def _is_pass(function: Any) -> bool:
    """Whether a function of ``fx_passes`` transforms a graph, judged by its parameters and return type."""
    home = function.__module__ or ""
    if "fx_passes" not in home and home.rsplit(".", 1)[-1] not in ("freezing", "constant_folding"):
        return function.__name__ == "stable_topological_sort"
    code = function.__code__
    first = code.co_varnames[: min(2, code.co_argcount)]
    takes = any(
        name in _GRAPH_PARAMETERS or "fx.Graph" in str(function.__annotations__.get(name, ""))
        for name in first
    )
    returns = function.__annotations__.get("return")
    return takes and (returns in (None, "None", "int", int) or "Graph" in str(returns))


@functools.lru_cache(maxsize=None)
def _returns(function: Any) -> str:
    """What a pass returns, by annotation or source: ``graph``, ``number`` or an empty string for None."""
    said = getattr(function, "__annotations__", {}).get("return", "")
    if said != "":
        word = getattr(said, "__name__", str(said))
        return "graph" if "Graph" in word else "number" if word in ("int", "bool") else ""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ""
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value]
    if any(isinstance(value, ast.Name) and value.id in parameters for value in returned):
        return "graph"
    counts = (ast.Constant, ast.Name, ast.BinOp, ast.Call)
    values = [value for value in returned if not (isinstance(value, ast.Constant) and value.value is None)]
    return "number" if values and all(isinstance(value, counts) for value in values) else ""


def _graph(value: Any) -> Any:
    import torch

    if isinstance(value, torch.fx.GraphModule):
        return value.graph
    return value if isinstance(value, torch.fx.Graph) else None
