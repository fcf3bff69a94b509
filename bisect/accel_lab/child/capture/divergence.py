"""Compares Inductor's buffers between kernels with the graph's nodes, run eagerly and in float64.

Inductor's Python wrapper is straight-line code. A modified copy of its ``call`` inspects the buffers that
each statement filled. Before the call, the graph is interpreted on copies of the inputs, eagerly and in
float64. Each node with a buffer of its own then has three values. With ``{"realize": true}`` lowering
realizes every node, so that each has a buffer.

Buffers that are mutated in place, nodes that depend on random numbers, and wrappers that are not Python are
left out, as their values are not comparable. Relies on ``torch/_inductor/graph.py:
GraphLowering.compile_to_module``.
"""

from __future__ import annotations

import ast
import re
import types
from typing import Any, Dict, List, Optional, Set, Tuple

from ..torch_internals.inductor import lowering_class
from . import divergence_values as values
from .source_lines import source_of

#: Limits: compared calls per graph, elements of a compared value, rows per call.
MAX_CALLS = 6
MAX_ELEMENTS = 4_000_000
MAX_ROWS = 400

_BUFFER = re.compile(r"^buf\d+$")
_HOOK = "_accel_lab_look"
_NO_FILL = ("assert_", "empty_strided", "alloc_from_pool", "reinterpret_tensor", "_empty_", "get_raw_stream")


class Divergence:
    """Compares the buffers of every compiled graph; ``settings`` may have ``realize``."""

    def __init__(self, settings: Any) -> None:
        self._realize = bool(isinstance(settings, dict) and settings.get("realize"))
        self._graphs: List[Any] = []
        self._problems: List[str] = []

    def install(self) -> bool:
        """Hooks into Inductor's lowering; False if this torch lacks the place."""
        lowering = lowering_class()
        if lowering is None:
            return False
        original = lowering.compile_to_module

        def compile_to_module(graph: Any, *args: Any, **kwargs: Any) -> Any:
            module = original(graph, *args, **kwargs)
            try:
                watched = _Watched(graph, module)
                self._graphs.append(watched)
            except Exception as error:
                self._problems.append("%s: %s" % (type(error).__name__, str(error)[:200]))
            return module

        lowering.compile_to_module = compile_to_module
        if self._realize:
            _keep_every_value(lowering)
        return True

    def to_json(self) -> Dict[str, Any]:
        """Returns the rows of each graph: of its first call with a difference, else of its first call."""
        return {
            "graphs": [graph.to_json() for graph in self._graphs],
            "problems": self._problems + [p for graph in self._graphs for p in graph.problems],
            "realize": self._realize,
        }


def _keep_every_value(graph_lowering: Any) -> None:
    run_node = graph_lowering.run_node

    def kept(self: Any, node: Any) -> Any:
        result = run_node(self, node)
        if node.op == "call_function":
            realize = getattr(result, "realize", None)
            if callable(realize):
                try:
                    realize()
                except Exception:
                    return result  # a value without memory
        return result

    graph_lowering.run_node = kept


class _Watched:
    """One compiled graph, whose module's ``call`` is replaced by one that inspects the buffers."""

    def __init__(self, graph: Any, module: Any) -> None:
        self.problems: List[str] = []
        self._gm = getattr(graph, "orig_gm", None) or graph.module
        self._nodes = {node.name: (i, node) for i, node in enumerate(self._gm.graph.nodes)}
        self._random = _random_nodes(self._gm)
        self._mutated = _mutated_buffers(graph)
        self._origins = _origins(graph, self._nodes)
        inputs = [node.name for node in self._gm.graph.nodes if node.op == "placeholder"]
        names = [str(name) for name in getattr(graph, "graph_input_names", ())]
        changed = {str(name) for name in getattr(graph, "mutated_inputs", ())}
        self._inputs = {a: b for a, b in zip(names, inputs) if a in changed}
        self._calls = 0
        self._found: Optional[List[Dict[str, Any]]] = None
        self._found_call = 0
        self._differs = False
        self._rows: List[Dict[str, Any]] = []
        self._values: Dict[str, Any] = {}
        self._replace(module)

    def _replace(self, module: Any) -> None:
        with open(module.__file__, encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
        function = _call_function(tree)
        if function is None:
            raise ValueError("the wrapper has no call function that is known")
        skipped = self._mutated
        _Looking(function, skipped, set(self._inputs)).rewrite()
        alone = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
        space: Dict[str, Any] = {}
        module.__dict__[_HOOK] = self._look
        exec(compile(alone, module.__file__, "exec"), module.__dict__, space)
        inner = space["call"]
        if function.args.args[0].arg == "self":
            inner = types.MethodType(inner, module.runner)

        def call(args: Any) -> Any:
            self._begin(args)
            try:
                return inner(args)
            finally:
                self._end()

        module.call = call

    # -- one call ------------------------------------------------------------------------------

    def _begin(self, args: Any) -> None:
        self._calls += 1
        self._rows, self._values = [], {}
        if self._calls > MAX_CALLS or self._differs:
            return
        try:
            wanted = set(self._origins.values()) | set(self._inputs.values())
            self._values = values.of_nodes(self._gm, list(args), wanted - self._random, self._inputs.values())
        except Exception as error:
            self.problems.append("the graph could not be run: %s: %s" % (type(error).__name__, error))

    def _look(self, **buffers: Any) -> None:
        if not self._values or len(self._rows) >= MAX_ROWS:
            return
        for name, tensor in buffers.items():
            node = self._inputs.get(name) or self._origins.get(name)
            known = self._values.get(node) if node else None
            if known is None:
                continue
            try:
                row = values.compare(tensor, known[0], known[1], most=MAX_ELEMENTS)
            except Exception as error:
                self.problems.append("%s: %s: %s" % (node, type(error).__name__, str(error)[:120]))
                continue
            if row is not None:
                self._rows.append(self._row(str(node), name, row))

    def _end(self) -> None:
        differs = any(row["differs"] for row in self._rows)
        if self._rows and (self._found is None or (differs and not self._differs)):
            self._found, self._found_call, self._differs = self._rows, self._calls - 1, differs
            compared = {row["node"] for row in self._rows}
            for row in self._found:
                between, sources = _above(self._nodes[row["node"]][1], compared)
                row.update(between=between, inputs=sources)
        self._values = {}

    def _row(self, name: str, buffer: str, row: Dict[str, Any]) -> Dict[str, Any]:
        index, node = self._nodes[name]
        if buffer in self._inputs:
            index = len(self._nodes)
        place, code = source_of(node)
        return dict(
            row,
            node=name,
            op=str(node.target),
            index=index,
            buffer=buffer,
            module=_module_of(node),
            source=("%s %s" % (place, code)).strip(),
        )

    def to_json(self) -> Dict[str, Any]:
        rows = sorted(self._found or [], key=lambda row: row["index"])
        return {"call": self._found_call, "rows": rows, "in_place": sorted(self._mutated)}


def _module_of(node: Any) -> str:
    """The path and class of the innermost module whose forward created a node; empty if not known."""
    for name in ("nn_module_stack", "fwd_nn_module_stack"):
        stack = node.meta.get(name)
        if isinstance(stack, dict) and stack:
            path, kind = list(stack.values())[-1][:2]
            path = re.sub(r"^L\['\w+'\]\.?", "", str(path)).replace("._modules", "")
            return "%s (%s)" % (path or "self", getattr(kind, "__name__", str(kind).rsplit(".", 1)[-1]))
    return ""


def _origins(graph: Any, nodes: Any) -> Dict[str, str]:
    """Maps each buffer to the node whose value it holds."""
    found = {}
    for name, buffer in dict(graph.name_to_buffer).items():
        origin = getattr(buffer, "origin_node", None)
        if origin is not None and origin.name in nodes:
            found[str(name)] = str(origin.name)
    return found


def _mutated_buffers(graph: Any) -> Set[str]:
    scheduler = getattr(graph, "scheduler", None)
    renamed = getattr(scheduler, "mutation_real_name", None) or {}
    return {str(name) for pair in renamed.items() for name in pair}


def _random_nodes(gm: Any) -> Set[str]:
    """Names of nodes that draw random numbers or depend on one that does."""
    import torch

    tag = getattr(torch.Tag, "nondeterministic_seeded", None)
    lost: Set[str] = set()
    for node in gm.graph.nodes:
        draws = tag is not None and tag in (getattr(node.target, "tags", None) or ())
        draws = draws or bool(node.op == "call_function" and re.search(r"rand|seed", str(node.target)))
        if draws or any(source.name in lost for source in node.all_input_nodes):
            lost.add(node.name)
    return lost


def _above(node: Any, compared: Set[str]) -> Tuple[List[str], List[str]]:
    """``(between, sources)``: nodes without a compared buffer on the way to a value, and where it starts."""
    between: List[str] = []
    sources: List[str] = []
    queue, seen = list(node.all_input_nodes), set()
    while queue:
        source = queue.pop(0)
        if source in seen:
            continue
        seen.add(source)
        if source.name in compared or source.op != "call_function":
            sources.append(str(source.name))
        else:
            between.append("%s (%s)" % (source.name, source.target))
            queue += source.all_input_nodes
    return between[:40], sources[:40]


def _call_function(tree: Any) -> Optional[ast.FunctionDef]:
    bodies = [tree.body]
    bodies += [part.body for part in tree.body if isinstance(part, ast.ClassDef) and part.name == "Runner"]
    for body in bodies:
        for part in body:
            if isinstance(part, ast.FunctionDef) and part.name == "call" and part.args.args:
                return part
    return None


class _Looking:
    """Inserts an inspection of the filled buffers after each statement of the wrapper's ``call``."""

    def __init__(self, function: ast.FunctionDef, skipped: Set[str], inputs: Set[str]) -> None:
        self._function = function
        self._inputs = inputs
        self._looked = set(skipped)
        self._memory: Dict[str, str] = {}

    def rewrite(self) -> None:
        self._function.body = self._block(self._function.body)

    def _block(self, body: List[ast.stmt]) -> List[ast.stmt]:
        new: List[ast.stmt] = []
        for part in body:
            if isinstance(part, ast.With):
                part.body = self._block(part.body)
                new.append(part)
                continue
            if isinstance(part, (ast.Delete, ast.Return)):
                gone = sorted(self._inputs & _names(part)) if isinstance(part, ast.Delete) else []
                gone = sorted(self._inputs) if isinstance(part, ast.Return) else gone
                self._inputs -= set(gone)
                new += [_look_at(gone)] if gone else []
            new.append(part)
            filled = self._filled(part)
            if filled:
                new.append(_look_at(filled))
        return new

    def _filled(self, part: ast.stmt) -> List[str]:
        """The buffers that this statement fills for the first time."""
        if isinstance(part, ast.Assign) and not _fills(part.value):
            target, source = part.targets[0], sorted(n for n in _names(part.value) if _BUFFER.match(n))
            if isinstance(target, ast.Name) and len(source) == 1:
                self._memory[target.id] = self._memory.get(source[0], source[0])
            return []
        if not isinstance(part, (ast.Assign, ast.Expr)) or not _fills(part.value):
            return []
        names = sorted((n for n in _names(part) if _BUFFER.match(n)), key=lambda name: int(name[3:]))
        last = {self._memory.get(name, name): name for name in names}
        fresh = [name for name in last.values() if name not in self._looked]
        self._looked.update(names)
        return fresh


def _fills(value: ast.expr) -> bool:
    """Whether an expression computes a value; false for an alias, a view or an allocation."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Subscript)
    called = ast.dump(value.func)
    return not any(word in called for word in _NO_FILL)


def _names(part: ast.AST) -> Set[str]:
    return {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}


def _look_at(names: List[str]) -> ast.stmt:
    call = ast.Call(
        func=ast.Name(id=_HOOK, ctx=ast.Load()),
        args=[],
        keywords=[ast.keyword(arg=name, value=ast.Name(id=name, ctx=ast.Load())) for name in names],
    )
    return ast.Expr(value=call)
