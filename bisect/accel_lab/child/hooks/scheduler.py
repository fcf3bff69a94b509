"""Records the scheduler's fusions and buffer reuses, and can switch off single ones.

They are recorded as applications of the subsystems ``fusions`` and ``reuses``. Without a fusion two
operations stay in separate kernels; without a reuse a buffer gets memory of its own. Hooks whose place this
torch lacks are skipped.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, List, Set

from ..torch_internals import inductor, loop_ir

FUSIONS = "fusions"
REUSES = "reuses"

#: Only this many nodes of each side of a fusion are recorded, as their pairs could be thousands.
MAX_GROUP = 12
MAX_NOTED = 1500


def install_choices(subsystems: Any) -> None:
    """Hooks into the scheduler to record fusions and buffer reuses and to refuse those switched off."""
    scheduler = loop_ir.scheduler()
    if scheduler is None:
        return
    choices = _Choices(subsystems)
    for owner, name, wrapper in (
        (scheduler.Scheduler, "can_fuse", choices.can_fuse),
        (getattr(scheduler, "SchedulerNode", None), "can_inplace", choices.can_inplace),
    ):
        wrap(owner, name, wrapper)
    wrap(loop_ir.kernel_arguments(), "make_inplace", choices.make_inplace)
    wrap(loop_ir.allocation_line(), "plan", choices.plan)


def wrap(owner: Any, name: str, wrapper: Any) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(owner, name, call)


class _Choices:
    """Records and refuses fusions and reuses.

    A fusion's key is ``OP + OP#GRAPH:BUFFER+BUFFER``; it has the graph because buffer numbers restart there.
    """

    def __init__(self, subsystems: Any) -> None:
        self._subsystems = subsystems
        self._off = {name: subsystems.off.get(name, ()) for name in (FUSIONS, REUSES)}
        self._noted: Set[Any] = set()
        self._graphs: List[Any] = []  # schedulers, in the order of their graphs

    def can_fuse(self, original: Any, scheduler: Any, one: Any, two: Any, *rest: Any, **kwargs: Any) -> Any:
        result = original(scheduler, one, two, *rest, **kwargs)
        if result is not True:
            return result
        pairs = quietly(lambda: self._pairs(scheduler, one, two)) or ()
        if any(self._is_off(FUSIONS, key) for key in pairs):
            return False
        for key in pairs:
            self._note(FUSIONS, key)
        return result

    def can_inplace(self, original: Any, node: Any, read: Any, *rest: Any) -> Any:
        result = original(node, read, *rest)
        if result and self._off[REUSES]:
            for buffer in quietly(node.get_outputs) or ():
                key = self._inplace_key(node.scheduler, read.name, buffer.get_name())
                if self._is_off(REUSES, key):
                    return False
        return result

    def make_inplace(self, original: Any, args: Any, source: str, target: str) -> Any:
        key = quietly(lambda: self._inplace_key(loop_ir.virtualized().graph.scheduler, source, target))
        if key:
            self._note(REUSES, key)
        return original(args, source, target)

    def plan(self, original: Any, line: Any, state: Any) -> Any:
        key = quietly(lambda: self._allocation_key(loop_ir.virtualized().graph.scheduler, line.node))
        if key and self._is_off(REUSES, key):
            with inductor.without_buffer_reuse():
                return original(line, state)
        result = original(line, state)
        if key and type(result).__name__ == "ReuseLine":
            self._note(REUSES, key)
        return result

    # -- keys ----------------------------------------------------------------------------------

    def _pairs(self, scheduler: Any, one: Any, two: Any) -> Any:
        graph = self._graph(scheduler)
        keys = []
        for a in list(one.get_nodes())[:MAX_GROUP]:
            for b in list(two.get_nodes())[:MAX_GROUP]:
                # Sorted, because the order of the two depends on earlier fusions.
                first, second = sorted((a, b), key=lambda node: _number(node.get_name()))
                names = "%s + %s" % (_operators(first), _operators(second))
                keys.append("%s#%d:%s+%s" % (names, graph, first.get_name(), second.get_name()))
        return keys

    def _inplace_key(self, scheduler: Any, source: str, target: str) -> str:
        writer = _buffer_operators(scheduler, target)
        return "%s written over %s#%d:%s" % (writer, source, self._graph(scheduler), target)

    def _allocation_key(self, scheduler: Any, buffer: Any) -> str:
        name = buffer.get_name()
        return "memory used again for %s#%d:%s" % (
            _buffer_operators(scheduler, name),
            self._graph(scheduler),
            name,
        )

    def _graph(self, scheduler: Any) -> int:
        for index, known in enumerate(self._graphs):
            if known is scheduler:
                return index
        self._graphs.append(scheduler)
        return len(self._graphs) - 1

    def _is_off(self, subsystem: str, key: str) -> bool:
        off = self._off[subsystem]
        return off == "all" or key in off

    def _note(self, subsystem: str, key: str) -> None:
        if (subsystem, key) not in self._noted and len(self._noted) < MAX_NOTED:
            self._noted.add((subsystem, key))
            self._subsystems.applied.setdefault(subsystem, []).append(key)


def _operators(node: Any) -> str:
    return _origins(getattr(node, "node", None)) or str(node.get_name())


def _buffer_operators(scheduler: Any, name: str) -> str:
    buffer = (getattr(scheduler, "name_to_buf", None) or {}).get(name)
    return _origins(getattr(buffer, "node", None)) or name


def _origins(ir_node: Any) -> str:
    """The operators that a buffer was lowered from, comma-separated; only those that no other one uses."""
    origin = getattr(ir_node, "origin_node", None)
    origins = [origin] if origin is not None else list(getattr(ir_node, "origins", None) or ())
    calls = [o for o in origins if getattr(o, "op", "") == "call_function"]
    last = [o for o in calls if not any(user in calls for user in o.users)]
    return ", ".join(sorted({str(o.target) for o in last or calls})[:4])


def _number(name: str) -> Any:
    digits = re.findall(r"\d+", name)
    return (int(digits[-1]) if digits else -1, name)


def quietly(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception:
        return None
