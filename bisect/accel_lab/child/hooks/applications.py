"""Records each application of a pass, pattern or decomposition, in order, and can skip single ones.

``subsystems`` sees only the applications that torch reports to its own bisector. ``passes``, ``patterns``
and ``decompositions`` wrap the functions that do the work and report each call here. A record names the
graph, the enclosing application, whether the graph changed, and the nodes that were added.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..capture.graph_text import lines_of, name_and_location, state_of, trimmed

MAX_RECORDS = 3000


class Applications:
    """The applications of a run, in order; ``show`` (``subsystem/key``) keeps one's graphs as text."""

    def __init__(self, subsystems: Any, show: Optional[str] = None) -> None:
        self.subsystems = subsystems
        self.records: List[Dict[str, Any]] = []
        self.shown: Optional[Dict[str, Any]] = None
        self.show = show
        self._local = threading.local()
        self._lock = threading.Lock()

    # -- current graph and application ---------------------------------------------------------

    def stack(self) -> List[Any]:
        """Returns the applications running in this thread, outermost first, as ``(record, function)``."""
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack  # type: ignore[no-any-return]

    def place(self) -> Dict[str, Any]:
        """Returns the region, graph, direction and phase that this thread compiles; any may be missing."""
        return dict(getattr(self._local, "place", None) or {})

    @contextlib.contextmanager
    def at(self, **place: Any) -> Iterator[None]:
        """Attributes the applications inside to this region, graph, direction or phase."""
        before = self.place()
        self._local.place = dict(before, **place)
        try:
            yield
        finally:
            self._local.place = before

    # -- one application -----------------------------------------------------------------------

    def enter(self, subsystem: str, name: str, function: Any = None, **more: Any) -> Any:
        """Records an application before it runs; returns ``(record, off)``, where ``off`` means skip it."""
        key, off = self.subsystems.ask(subsystem, name)
        stack = self.stack()
        record: Dict[str, Any] = {"subsystem": subsystem, "key": key, "changed": None}
        if stack:
            record["parent"] = "%s/%s" % (stack[-1][0]["subsystem"], stack[-1][0]["key"])
        if off:
            record["off"] = True
        place = self.place()
        if place:
            record["graph"] = place
        if function is not None:
            record["function"], record["at"] = name_and_location(function)
        record.update((k, v) for k, v in more.items() if v)
        with self._lock:
            if len(self.records) < MAX_RECORDS:
                self.records.append(record)
        return record, off

    def run(self, record: Any, function: Any, graph_of: Callable[[Any], Any], call: Any) -> Any:
        """Runs ``call`` as the application ``record`` and compares the graph before and after it.

        ``graph_of(result)`` returns the graph; ``result`` is None before the call and if the call raised.
        """
        stack = self.stack()
        graph = graph_of(None)
        before = state_of(graph)
        wanted = self.show == "%s/%s" % (record["subsystem"], record["key"])
        text = lines_of(graph) if wanted else []
        stack.append((record, function))
        result = None
        try:
            result = call()
            record["changed"] = True  # provisional: ``_compare`` decides
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
                old = {id(n[0]) for n in before}
                record["added"] = [n[1] for n in after if id(n[0]) not in old][:12]
            if text is not None:
                old_text, new_text = trimmed(text, lines_of(graph))
                self.shown = {"application": self.show, "before": old_text, "after": new_text}
        except Exception as error:  # a pass that raised may leave an inconsistent graph
            record["unreadable"] = repr(error)[:200]


def module_or_none(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
