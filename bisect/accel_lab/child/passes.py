"""Follows every FX pass, every application of a pattern and every decomposition, and can leave one out.

Where ``subsystems`` only hears of what torch asks its own bisector about, this module wraps what does
the work: the observer that runs a pass, the pattern matcher's entries, functions that Inductor calls
without asking, the reinplacing of single nodes, the entries of the decomposition table. Of each it is
known which graph it changed, within which other one it ran, and what the graph was before and after.
Private parts of torch are used where they are there (``hasattr``) and left alone where they are not.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from .graph_text import about, lines_of, short_name, state_of, trimmed

#: Subsystems of single applications that torch does not ask about.
PATTERNS = "patterns"
REINPLACING = "reinplacing"
FUNCTIONS = "pass_functions"
DECOMPOSITION = "decomposition"
PASS_SUBSYSTEMS = (
    "pre_grad_passes",
    "joint_graph_passes",
    "post_grad_passes",
    "passes",
    FUNCTIONS,
    PATTERNS,
    REINPLACING,
)
MAX_RECORDS = 3000

#: The functions that run Inductor's passes, the word for their graph; what they call by name is a pass.
_DRIVERS = (
    ("torch._inductor.fx_passes.pre_grad", "pre_grad_passes", "pre-grad"),
    ("torch._inductor.fx_passes.joint_graph", "joint_graph_passes", "joint"),
    ("torch._inductor.fx_passes.post_grad", "post_grad_passes", "post-grad"),
    ("torch._inductor.freezing", "_freeze", "frozen"),
)
_NOT_PASSES = ("lazy_init", "is_same_dict", "is_gpu", "enter_freezing")
#: What a function's first parameter is called when it takes a graph to work on.
_GRAPH_PARAMETERS = ("gm", "graph", "g", "graph_module", "mod", "module")


class Applications:
    """What was applied, in order; ``show`` (``subsystem/key``) is the one whose graphs are kept."""

    def __init__(self, subsystems: Any, show: Optional[str] = None) -> None:
        self.subsystems = subsystems
        self.records: List[Dict[str, Any]] = []
        self.shown: Optional[Dict[str, Any]] = None
        self._show = show
        self._callers: Set[Any] = set()
        self._local = threading.local()
        self._lock = threading.Lock()

    # -- where we are --------------------------------------------------------------------------

    def _stack(self) -> List[Any]:
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack  # type: ignore[no-any-return]

    def place(self) -> Dict[str, Any]:
        """The region, graph and direction that are being compiled in this thread."""
        return dict(getattr(self._local, "place", None) or {})

    @contextlib.contextmanager
    def at(self, **place: Any) -> Iterator[None]:
        """Work done inside belongs to this region, graph, direction or phase."""
        before = self.place()
        self._local.place = dict(before, **place)
        try:
            yield
        finally:
            self._local.place = before

    # -- one application -----------------------------------------------------------------------

    def enter(self, subsystem: str, name: str, function: Any = None, **more: Any) -> Any:
        """``(record, off)`` of an application that is about to happen."""
        key, off = self.subsystems.ask(subsystem, name)
        stack = self._stack()
        record: Dict[str, Any] = {"subsystem": subsystem, "key": key, "changed": None}
        if stack:
            record["parent"] = "%s/%s" % (stack[-1][0]["subsystem"], stack[-1][0]["key"])
        if off:
            record["off"] = True
        place = self.place()
        if place:
            record["graph"] = place
        if function is not None:
            record["function"], record["at"] = about(function)
        record.update((k, v) for k, v in more.items() if v)
        with self._lock:
            if len(self.records) < MAX_RECORDS:
                self.records.append(record)
        return record, off

    def run(self, record: Any, function: Any, graph_of: Callable[[Any], Any], call: Any) -> Any:
        """Run ``call`` as the application ``record``, looking at the graph before and after it.

        ``graph_of`` gives the graph for the call's result (None before the call and when it raised).
        """
        stack = self._stack()
        graph = graph_of(None)
        before = state_of(graph)
        wanted = self._show == "%s/%s" % (record["subsystem"], record["key"])
        text = lines_of(graph) if wanted else []
        stack.append((record, function))
        result = None
        try:
            result = call()
            record["changed"] = True  # until the two states were compared
        except BaseException as error:
            record["raised"] = type(error).__name__
            raise
        finally:
            stack.pop()
            self._compare(record, before, graph_of(result), text if wanted else None)
        return result

    def _compare(self, record: Any, before: Any, graph: Any, text: Any) -> None:
        try:
            after = state_of(graph)
            if record["changed"]:
                record["changed"] = before != after
            if record["changed"] or record.get("raised"):
                record["nodes"] = [len(before), len(after)]
                old, new = {id(n[0]) for n in before}, {id(n[0]) for n in after}
                record["gone"] = [n[1] for n in before if id(n[0]) not in new][:12]
                record["added"] = [n[1] for n in after if id(n[0]) not in old][:12]
            if text is not None:
                old_text, new_text = trimmed(text, lines_of(graph))
                self.shown = {"application": self._show, "before": old_text, "after": new_text}
        except Exception as error:  # a graph half-way through a pass that raised may not be readable
            record["unreadable"] = repr(error)[:200]

    # -- passes --------------------------------------------------------------------------------

    def install_passes(self) -> None:
        """Follow passes, patterns, pass functions and reinplacing; what a release lacks is left out."""
        self._wrap_drivers()
        self._wrap_functions()
        for wrap in (self._wrap_observer, self._wrap_patterns, self._wrap_reinplacing, self._wrap_dce):
            try:
                wrap()
            except (ImportError, AttributeError):
                continue

    def _wrap_drivers(self) -> None:
        """Know which phase of the passes is running; the names were imported into ``compile_fx``."""
        users = [_module("torch._inductor.compile_fx")]
        for module_name, name, phase in _DRIVERS:
            module = _module(module_name)
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
            with self.at(phase=phase):
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
            function = about(pass_fn)[0]
            name = observer.passname
            if function not in (name, "apply", "<lambda>"):
                name = "%s (%s)" % (name, function)
            subsystem = getattr(observer, "subsystem", None) or "passes"
            record, off = self.enter(subsystem, name, pass_fn, hook=observer.passname)
            if off:
                return None
            with self.subsystems.answered(subsystem, off):
                return self.run(
                    record,
                    _root(pass_fn),
                    lambda _: observer.gm.graph,
                    lambda: original(observer, pass_fn, *args, **kwargs),
                )

        return apply

    def _wrap_functions(self) -> None:
        """The pass functions that Inductor calls by name, without an observer around them.

        One that is left out does nothing and returns None, or the module it was given where it returns
        one; one that cannot be left out makes the run fail in another way, which is then no cure.
        """
        wrapped: Set[Any] = set()
        for module_name, name, _ in _DRIVERS:
            module = _module(module_name)
            driver = _plain(getattr(module, name, None))
            if isinstance(driver, types.FunctionType):
                self._wrap_called(module, driver, 2, wrapped)
        user = _module("torch._inductor.compile_fx")
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
            home = _module(plain.__module__)
            setattr(module, name, self._counted(function, name))
            if depth > 1 and home is not None:
                self._wrap_called(home, plain, depth - 1, wrapped)

    def _counted(self, function: Any, name: str, anywhere: bool = False) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not anywhere and sys._getframe(1).f_code not in self._callers:
                # Its observer was asked already, or a pattern is being traced, which is no pass over a graph.
                return function(*args, **kwargs)
            record, off = self.enter(FUNCTIONS, name, function)
            first = next((a for a in [*args, *kwargs.values()] if _graph(a) is not None), None)
            if off:
                return first if "GraphModule" in str(function.__annotations__.get("return", "")) else None
            return self.run(
                record,
                _root(function),
                lambda result: _graph(result) or _graph(first),
                lambda: function(*args, **kwargs),
            )

        return run

    def _wrap_dce(self) -> None:
        """Dead code is removed all over torch; here only what the passes themselves remove counts."""
        import torch

        original = torch.fx.Graph.eliminate_dead_code

        @functools.wraps(original)
        def eliminate_dead_code(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.place().get("phase") or self._stack():
                return original(graph, *args, **kwargs)
            record, off = self.enter(FUNCTIONS, "eliminate_dead_code", original)
            if off:
                return False
            return self.run(record, None, lambda _: graph, lambda: original(graph, *args, **kwargs))

        torch.fx.Graph.eliminate_dead_code = eliminate_dead_code

    # -- patterns ------------------------------------------------------------------------------

    def _wrap_patterns(self) -> None:
        from torch._inductor import pattern_matcher

        entry = pattern_matcher.PatternEntry
        entry.extra_check = _Check(self)
        for kind in [entry, *_subclasses(entry)]:
            if "apply" in kind.__dict__:
                kind.apply = self._applied(kind.__dict__["apply"])

    def check(self, entry: Any, match: Any, found: Any) -> Any:
        """A pattern has matched and may be applied, unless it is to be left out: then it is no match.

        Saying so here and not in ``apply`` keeps the matcher from counting it, so that loops which run
        until nothing matches come to their end.
        """
        if not found:
            return found
        function, search = _functions_of(entry)
        record, off = self.enter(PATTERNS, short_name(function), function, search=search and about(search)[0])
        match._accel_lab = record
        return False if off else found

    def _applied(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(entry: Any, match: Any, graph: Any, node: Any) -> Any:
            record = getattr(match, "_accel_lab", None)
            if record is None:
                return original(entry, match, graph, node)
            record["node"] = str(getattr(node, "name", ""))
            return self.run(record, None, lambda _: graph, lambda: original(entry, match, graph, node))

        return apply

    # -- reinplacing ---------------------------------------------------------------------------

    def _wrap_reinplacing(self) -> None:
        from torch._inductor.fx_passes import reinplace

        original = reinplace.reinplace_inplaceable_ops_core

        @functools.wraps(original)
        def core(graph: Any) -> Any:
            hidden, open_ = [], []
            before = lines_of(graph) if (self._show or "").startswith(REINPLACING) else []
            for node in list(graph.nodes):
                name = _reinplaceable(reinplace, node)
                if name is None:
                    continue
                record, off = self.enter(REINPLACING, name, original, node=node.name)
                if off:
                    hidden.append((node, node.target))
                    node.target = _left_alone
                else:
                    open_.append((node, record, _place_of(node)))
            try:
                return original(graph)
            finally:
                for node, target in hidden:
                    node.target = target
                for node, record, was in open_:
                    record["changed"] = _place_of(node) != was
                    if self._show == "%s/%s" % (REINPLACING, record["key"]):
                        old, new = trimmed(before, lines_of(graph))
                        self.shown = {"application": self._show, "before": old, "after": new}

        reinplace.reinplace_inplaceable_ops_core = core

    # -- decompositions ------------------------------------------------------------------------

    def install_decompositions(self) -> bool:
        """Follow the entries of the decomposition table; False where this torch has no such place."""
        proxy_tensor = _module("torch.fx.experimental.proxy_tensor")
        original = getattr(proxy_tensor, "maybe_handle_decomp", None)
        if original is None:
            return False

        @functools.wraps(original)
        def handle(proxy_mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
            table = getattr(proxy_mode, "decomposition_table", None)
            if not table or op not in table:
                return original(proxy_mode, op, args, kwargs)
            record, off = self.enter(DECOMPOSITION, str(op), table[op])
            graph = getattr(getattr(proxy_mode, "tracer", None), "graph", None)
            with self.subsystems.answered(DECOMPOSITION, off):
                if off:
                    return original(proxy_mode, op, args, kwargs)
                return self._decompose(record, op, args, kwargs, graph, original, proxy_mode)

        proxy_tensor.maybe_handle_decomp = handle  # type: ignore[union-attr]
        return True

    def _decompose(
        self, record: Any, op: Any, args: Any, kwargs: Any, graph: Any, original: Any, mode: Any
    ) -> Any:
        from .graph_text import call_line, last_nodes

        stack = self._stack()
        count = len(graph.nodes) if graph is not None else 0
        stack.append((record, None))
        try:
            result = original(mode, op, args, kwargs)
            record["changed"] = result is not NotImplemented
        except BaseException as error:
            record["raised"] = type(error).__name__
            raise
        finally:
            stack.pop()
            made = last_nodes(graph, (len(graph.nodes) if graph is not None else 0) - count)
            record["added"] = [str(node.target) for node in made if node.op == "call_function"][:12]
            if self._show == "%s/%s" % (DECOMPOSITION, record["key"]):
                self.shown = {
                    "application": self._show,
                    "before": [call_line(op, args, kwargs)],
                    "after": lines_of(made),
                }
        return result


class _Check:
    """Stands where an entry's ``extra_check`` is stored, and hears of every match that passes it."""

    def __init__(self, applications: Applications) -> None:
        self._applications = applications

    def __get__(self, entry: Any, owner: Any = None) -> Any:
        if entry is None:
            return self
        try:
            check = entry.__dict__["extra_check"]
        except KeyError:
            raise AttributeError("extra_check") from None
        return lambda match: self._applications.check(entry, match, check(match))

    def __set__(self, entry: Any, check: Any) -> None:
        entry.__dict__["extra_check"] = check


def _functions_of(entry: Any) -> Any:
    """``(handler or replacement, search function or None)`` of an entry of the pattern matcher."""
    handler = getattr(entry, "handler", None)
    if handler is not None:
        return handler, None
    check = entry.__dict__.get("extra_check")
    code, cells = getattr(check, "__code__", None), getattr(check, "__closure__", None) or ()
    found = {}
    for name, cell in zip(code.co_freevars if code is not None else (), cells):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    normalize = getattr(entry, "normalize_args", None)
    return found.get("replace_fn") or normalize or check, found.get("search_fn")


def _subclasses(kind: Any) -> List[Any]:
    found = []
    for sub in kind.__subclasses__():
        found += [sub, *_subclasses(sub)]
    return found


def _left_alone(*args: Any, **kwargs: Any) -> Any:
    """Stands in for the target of a node that is not to be reinplaced; restored before anything runs."""
    raise AssertionError("a node was run under a stand-in for its operator")


def _reinplaceable(reinplace: Any, node: Any) -> Any:
    """The operator's name if the pass may reinplace this node, else None."""
    if node.op != "call_function":
        return None
    for table in ("inplaceable_ops", "inplaceable_foreach_ops", "inplaceable_triton_ops"):
        if node.target in getattr(reinplace, table, ()):
            views = node.args[-1] if node.args and isinstance(node.args[-1], (list, tuple)) else ()
            inner = [str(view.target) for view in views if hasattr(view, "target")]
            return " ".join([getattr(node.target, "__name__", str(node.target)), *inner])
    if "auto_functionalized" in str(node.target) and node.args:
        return str(node.args[0])
    return None


def _place_of(node: Any) -> Any:
    clones = node.meta.get("only_clone_these_tensors")
    wanted = node.kwargs.get("tensors_to_clone")
    return str(node.target), None if clones is None else list(clones), str(wanted)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _plain(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def _root(function: Any) -> Any:
    """The function below partials, bound methods and wrappers."""
    while True:
        inner = getattr(function, "func", None) if isinstance(function, functools.partial) else None
        inner = inner or getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            return function
        function = inner


def _is_pass(function: Any) -> bool:
    """A function of Inductor's passes that works on a graph, and does not just tell something of it."""
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


def _graph(value: Any) -> Any:
    import torch

    if isinstance(value, torch.fx.GraphModule):
        return value.graph
    return value if isinstance(value, torch.fx.Graph) else None
