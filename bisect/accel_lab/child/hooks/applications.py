"""What was applied while a graph was compiled, in order: passes, patterns, decompositions.

Where ``subsystems`` only hears of what torch asks its own bisector about, the modules that wrap what does
the work (``passes``, ``patterns``, ``decompositions``) tell it here, and leave out what it says. Of each
application it is known which graph it changed, within which other one it ran, and what the graph was before
and after.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

from ..capture.graph_text import about, lines_of, state_of, trimmed

MAX_RECORDS = 3000


class Applications:
    """What was applied, in order; ``show`` (``subsystem/key``) is the one whose graphs are kept."""

    def __init__(self, subsystems: Any, show: Optional[str] = None) -> None:
        self.subsystems = subsystems
        self.records: List[Dict[str, Any]] = []
        self.shown: Optional[Dict[str, Any]] = None
        self.show = show
        self._local = threading.local()
        self._lock = threading.Lock()

    # -- where we are --------------------------------------------------------------------------

    def stack(self) -> List[Any]:
        """The applications that run in this thread, outermost first: ``(record, function)``."""
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
        stack = self.stack()
        graph = graph_of(None)
        before = state_of(graph)
        wanted = self.show == "%s/%s" % (record["subsystem"], record["key"])
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
                old = {id(n[0]) for n in before}
                record["added"] = [n[1] for n in after if id(n[0]) not in old][:12]
            if text is not None:
                old_text, new_text = trimmed(text, lines_of(graph))
                self.shown = {"application": self.show, "before": old_text, "after": new_text}
        except Exception as error:  # a graph half-way through a pass that raised may not be readable
            record["unreadable"] = repr(error)[:200]


def module_or_none(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
