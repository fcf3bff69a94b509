"""Records each use of the decomposition table, and can skip single ones."""

from __future__ import annotations

import functools
from typing import Any, Callable

from ..capture.graph_text import call_line, last_nodes, lines_of
from .applications import Applications, module_or_none

DECOMPOSITION = "decomposition"


def install_decompositions(applied: Applications) -> bool:
    """Hooks into ``torch/fx/experimental/proxy_tensor.py: maybe_handle_decomp``; False if torch lacks it."""
    proxy_tensor = module_or_none("torch.fx.experimental.proxy_tensor")
    original = getattr(proxy_tensor, "maybe_handle_decomp", None)
    if original is None:
        return False

    @functools.wraps(original)
    def handle(proxy_mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
        # Up to 2.9 the table is a global of the module, later the mode's own.
        table = getattr(proxy_mode, "decomposition_table", None)
        if table is None:
            table = getattr(proxy_tensor, "CURRENT_DECOMPOSITION_TABLE", None)
        if not table or op not in table:
            return original(proxy_mode, op, args, kwargs)
        record, off = applied.enter(DECOMPOSITION, str(op), table[op])
        if off:
            return NotImplemented
        graph = getattr(getattr(proxy_mode, "tracer", None), "graph", None)
        with applied.subsystems.answered(DECOMPOSITION, False):
            return _decompose(
                applied, record, graph, lambda: original(proxy_mode, op, args, kwargs), (op, args, kwargs)
            )

    proxy_tensor.maybe_handle_decomp = handle  # type: ignore[union-attr]
    return True


def _decompose(applied: Applications, record: Any, graph: Any, run: Callable[[], Any], call: Any) -> Any:
    """Runs one decomposition as an application; ``call`` is ``(op, args, kwargs)``."""
    stack = applied.stack()
    count = len(graph.nodes) if graph is not None else 0
    stack.append((record, None))
    try:
        result = run()
        record["changed"] = result is not NotImplemented
    except BaseException as error:
        record["raised"] = type(error).__name__
        raise
    finally:
        stack.pop()
        made = last_nodes(graph, (len(graph.nodes) if graph is not None else 0) - count)
        record["added"] = [str(node.target) for node in made if node.op == "call_function"][:12]
        if applied.show == "%s/%s" % (DECOMPOSITION, record["key"]):
            applied.shown = {
                "application": applied.show,
                "before": [call_line(*call)],
                "after": lines_of(made),
            }
    return result
