"""Finds the functions of Inductor that see a graph or loop IR between two compiler stages.

Relies on ``torch/_inductor/compile_fx.py`` and ``debug.py``.
"""

from __future__ import annotations

from typing import Any, List, Tuple

#: Names of the function that runs these passes in different releases, newest first.
_JOINT = ("_recursive_joint_graph_passes", "joint_graph_passes")
_POST_GRAD = ("_recursive_post_grad_passes", "post_grad_passes")


def graph_passes() -> List[Tuple[Any, str, str]]:
    """Lists ``(module, function name, "joint" or "post_grad")`` of the functions that transform a graph.

    A function that this torch lacks is left out.
    """
    from torch._inductor import compile_fx

    found: List[Tuple[Any, str, str]] = []
    for names, kind in ((_JOINT, "joint"), (_POST_GRAD, "post_grad")):
        name = next((name for name in names if callable(getattr(compile_fx, name, None))), None)
        if name is not None:
            found.append((compile_fx, name, kind))
    return found


def debug_context() -> Any:
    """Returns the class whose ``ir_pre_fusion`` and ``ir_post_fusion`` get the scheduler's nodes."""
    from torch._inductor.debug import DebugContext

    return DebugContext


def debug_method(context: Any, name: str) -> Any:
    """Returns a debug context's own method, which does nothing unless ``TORCH_COMPILE_DEBUG`` is set."""
    return type(context).__getattr__(context, name)


def loop_ir_text(nodes: Any) -> str:
    """Formats the scheduler's nodes as in torch's debug files."""
    return "\n\n\n".join(str(node.debug_str()) for node in nodes)
