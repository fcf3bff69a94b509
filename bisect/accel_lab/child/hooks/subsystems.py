"""Records every decomposition, FX pass and lowering that is applied, and switches chosen ones off.

Before each one torch calls ``CompilerBisector.disable_subsystem`` (``torch/_inductor/compiler_bisector.py``,
2.6 and later); this module replaces that method and does not use the bisector's files.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterator, List, Tuple

from ..torch_internals.bisector import replace_bisector

MAX_NAMES = 4000
#: Only the question of torch itself can leave these out; the hooks leave out all others on their own.
LOWERINGS = "lowerings"


class Subsystems:
    """Records applications; ``off`` maps a subsystem to the keys of those to skip, or to ``"all"``.

    A key is the name and its count so far (``aten.t.default#0``). A count over all names would not stay
    valid once an earlier application is skipped.
    """

    def __init__(self, off: Any) -> None:
        self.off = off or {}
        self.applied: Dict[str, List[str]] = {}
        self._turns: Dict[Tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._local = threading.local()

    def install(self) -> bool:
        """Replaces torch's own bisector; False if this torch has none."""

        def ask(subsystem: str, debug_info: Any) -> Any:
            return self._ask(subsystem, debug_info)  # looked up at each call, as the annotator replaces it

        return replace_bisector(ask)

    def _ask(self, subsystem: str, debug_info: Any) -> Any:
        known = getattr(self._local, "known", None)
        if known is not None and known[0] == subsystem:
            self._local.known = None
            return known[1]
        return self.ask(subsystem, _name(subsystem, debug_info))[1]

    @contextlib.contextmanager
    def answered(self, subsystem: str, off: bool) -> Iterator[None]:
        """Answers torch's next question about ``subsystem`` in this thread with ``off``, unrecorded."""
        self._local.known = (subsystem, off)
        try:
            yield
        finally:
            self._local.known = None

    def ask(self, subsystem: str, name: str) -> Tuple[str, bool]:
        """Records an application; returns its key and whether to skip it."""
        with self._lock:
            names = self.applied.setdefault(subsystem, [])
            turn = self._turns.get((subsystem, name), 0)
            self._turns[(subsystem, name)] = turn + 1
            key = "%s#%d" % (name, turn)
            if len(names) < MAX_NAMES:
                names.append(key)
            off = self.off.get(subsystem, ())
            return key, off == "all" or key in off


def _name(subsystem: str, debug_info: Any) -> Any:
    """The name of an application; for a lowering the node and its operator."""
    if debug_info is None:
        return subsystem
    for cell in getattr(debug_info, "__closure__", None) or ():
        node = cell.cell_contents
        if hasattr(node, "op") and hasattr(node, "target"):
            return "%s target=%s" % (node.name, node.target)
    try:
        text = str(debug_info())
    except Exception:
        return subsystem
    if "overload='" in text and "op='" in text:  # <OpOverload(op='aten.x', overload='default')>
        return (
            text.split("op='", 1)[1].split("'", 1)[0] + "." + text.split("overload='", 1)[1].split("'", 1)[0]
        )
    return text
