"""The places at which Inductor holds a graph, or its loop IR, between two of its layers.

Relies on ``torch/_inductor/compile_fx.py`` and ``debug.py``.
"""

from __future__ import annotations

from typing import Any, List, Tuple

#: For each layer the names that the function between two graphs has had, the newest first.
_JOINT = ("_recursive_joint_graph_passes", "joint_graph_passes")
_POST_GRAD = ("_recursive_post_grad_passes", "post_grad_passes")


def graph_passes() -> List[Tuple[Any, str, str]]:
    """``(module, name of a function, "joint" or "post_grad")``: it takes a graph and transforms it.

    A layer that this torch has under none of the names is missing.
    """
    from torch._inductor import compile_fx

    found: List[Tuple[Any, str, str]] = []
    for names, kind in ((_JOINT, "joint"), (_POST_GRAD, "post_grad")):
        name = next((name for name in names if callable(getattr(compile_fx, name, None))), None)
        if name is not None:
            found.append((compile_fx, name, kind))
    return found


def debug_context() -> Any:
    """The class whose ``ir_pre_fusion`` and ``ir_post_fusion`` are called with the scheduler's nodes."""
    from torch._inductor.debug import DebugContext

    return DebugContext


def debug_method(context: Any, name: str) -> Any:
    """What a debug context itself does under a name: nothing, unless ``TORCH_COMPILE_DEBUG`` is set."""
    return type(context).__getattr__(context, name)


def loop_ir_text(nodes: Any) -> str:
    """The scheduler's nodes as torch's own debug files show them."""
    return "\n\n\n".join(str(node.debug_str()) for node in nodes)
