"""Inductor's FX passes: the functions that run them, the pattern matcher, the reinplacing pass."""

from __future__ import annotations

import importlib
from typing import Any

#: The functions that run Inductor's passes, the word for their graph; what they call by name is a pass.
DRIVERS = (
    ("torch._inductor.fx_passes.pre_grad", "pre_grad_passes", "pre-grad"),
    ("torch._inductor.fx_passes.joint_graph", "joint_graph_passes", "joint"),
    ("torch._inductor.fx_passes.post_grad", "post_grad_passes", "post-grad"),
    ("torch._inductor.freezing", "_freeze", "frozen"),
)


def user() -> Any:
    """The module that imports the drivers by name, or None (``torch/_inductor/compile_fx.py``)."""
    try:
        return importlib.import_module("torch._inductor.compile_fx")
    except ImportError:
        return None


def pattern_matcher() -> Any:
    """The module of the pattern matcher."""
    from torch._inductor import pattern_matcher

    return pattern_matcher


def reinplacing() -> Any:
    """The module of the pass that makes operators write into their arguments."""
    from torch._inductor.fx_passes import reinplace

    return reinplace
