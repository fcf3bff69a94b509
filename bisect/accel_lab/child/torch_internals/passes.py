"""Names Inductor's FX passes: their drivers, the pattern matcher, the reinplacing pass."""

from __future__ import annotations

import importlib
from typing import Any

#: ``(module, driver function, phase)``; the functions that a driver calls by name are passes.
DRIVERS = (
    ("torch._inductor.fx_passes.pre_grad", "pre_grad_passes", "pre-grad"),
    ("torch._inductor.fx_passes.joint_graph", "joint_graph_passes", "joint"),
    ("torch._inductor.fx_passes.post_grad", "post_grad_passes", "post-grad"),
    ("torch._inductor.freezing", "_freeze", "frozen"),
)


def user() -> Any:
    """Returns ``torch._inductor.compile_fx``, which imports the drivers by name, or None."""
    try:
        return importlib.import_module("torch._inductor.compile_fx")
    except ImportError:
        return None


def pattern_matcher() -> Any:
    """Returns the module of the pattern matcher."""
    from torch._inductor import pattern_matcher

    return pattern_matcher


def reinplacing() -> Any:
    """Returns the module of the pass that makes operators in-place."""
    from torch._inductor.fx_passes import reinplace

    return reinplace
