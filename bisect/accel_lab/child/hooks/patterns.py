"""Records pattern applications and the reinplacing pass's candidate nodes, and can skip single ones."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, List

from ..capture.graph_text import lines_of, name_and_location, short_name, trimmed
from ..torch_internals import passes
from .applications import Applications

#: Subsystems that torch's own bisector does not have.
PATTERNS = "patterns"
REINPLACING = "reinplacing"


class Patterns:
    """Reports each match and each reinplaceable node to ``applied``, and skips it if ``applied`` says so."""

    def __init__(self, applied: Applications) -> None:
        self._applied = applied

    def install(self) -> None:
        """Wraps the pattern matcher's entries and the reinplacing pass, if this torch has them."""
        for wrap in (self._wrap_patterns, self._wrap_reinplacing):
            try:
                wrap()
            except (ImportError, AttributeError):
                continue

    def _wrap_patterns(self) -> None:
        entry = passes.pattern_matcher().PatternEntry
        entry.extra_check = _Check(self)
        for kind in [entry, *_subclasses(entry)]:
            if "apply" in kind.__dict__:
                kind.apply = self._around(kind.__dict__["apply"])

    def check(self, entry: Any, match: Any, found: Any) -> Any:
        """Records a match and returns ``found``, or False if the match is to be skipped.

        Skipping in ``apply`` instead would still count the match, and loops that run until nothing matches
        would not end.
        """
        if not found:
            return found
        record, off = self._enter(entry)
        match._accel_lab = record
        return False if off else found

    def raised(self, entry: Any, error: Exception) -> Any:
        """Records a match whose check raised; returns whether to skip it (pytorch#183988: unused input)."""
        record, off = self._enter(entry)
        record["raised"] = type(error).__name__
        return off

    def _enter(self, entry: Any) -> Any:
        function, search = _functions_of(entry)
        return self._applied.enter(
            PATTERNS, short_name(function), function, search=search and name_and_location(search)[0]
        )

    def _around(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(entry: Any, match: Any, graph: Any, node: Any) -> Any:
            record = getattr(match, "_accel_lab", None)
            if record is None:
                return original(entry, match, graph, node)
            record["node"] = str(getattr(node, "name", ""))
            return self._applied.run(
                record, None, lambda _: graph, lambda: original(entry, match, graph, node)
            )

        return apply

    def _wrap_reinplacing(self) -> None:
        reinplace = passes.reinplacing()
        original = reinplace.reinplace_inplaceable_ops_core

        @functools.wraps(original)
        def core(graph: Any) -> Any:
            hidden, open_ = [], []
            before = lines_of(graph) if (self._applied.show or "").startswith(REINPLACING) else []
            for node in list(graph.nodes):
                name = _reinplaceable(reinplace, node)
                if name is None:
                    continue
                record, off = self._applied.enter(REINPLACING, name, original, node=node.name)
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
                    if self._applied.show == "%s/%s" % (REINPLACING, record["key"]):
                        old, new = trimmed(before, lines_of(graph))
                        self._applied.shown = {"application": self._applied.show, "before": old, "after": new}

        reinplace.reinplace_inplaceable_ops_core = core


class _Check:
    """A descriptor in place of an entry's ``extra_check`` that reports every match that passes it."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns

    def __get__(self, entry: Any, owner: Any = None) -> Any:
        if entry is None:
            return self
        try:
            check = entry.__dict__["extra_check"]
        except KeyError:
            raise AttributeError("extra_check") from None

        def checked(match: Any) -> Any:
            try:
                found = check(match)
            except Exception as error:
                if self._patterns.raised(entry, error):
                    return False
                raise
            return self._patterns.check(entry, match, found)

        return checked

    def __set__(self, entry: Any, check: Any) -> None:
        entry.__dict__["extra_check"] = check


def _functions_of(entry: Any) -> Any:
    """Returns ``(handler or replacement, search function or None)`` of a pattern entry."""
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
    """Temporary target of a node that must not be reinplaced; the real one is restored after the pass."""
    raise AssertionError("a node was run with a replacement for its operator")


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
