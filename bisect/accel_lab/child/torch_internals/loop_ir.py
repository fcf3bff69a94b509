"""Inductor's loop IR, its scheduler, and the places where code is generated from them.

Relies on ``torch/_inductor/{virtualized,ir,loop_body,scheduler,utils}.py`` and
``codegen/{common,wrapper}.py``.
"""

from __future__ import annotations

import sys
from typing import Any


def being_imported() -> bool:
    """Whether a module of Inductor is in the middle of its import.

    A script can begin with one, which imports Dynamo, with which the instruments come: too early to hook in.
    """
    return any(
        name.startswith("torch._inductor")
        and getattr(getattr(module, "__spec__", None), "_initializing", False)
        for name, module in list(sys.modules.items())
    )


def virtualized() -> Any:
    """``V``: the graph, the handler of operations and the kernel that Inductor is at work on."""
    from torch._inductor.virtualized import V

    return V


def ops_value(value: Any) -> Any:
    """A value as ``V.ops`` hands it to the closures of the IR."""
    from torch._inductor.virtualized import OpsValue

    return OpsValue(value)


def ir() -> Any:
    """The classes of the IR."""
    from torch._inductor import ir

    return ir


def index_symbol(name: str) -> Any:
    """A variable of a loop, as the IR's index expressions have it."""
    from torch._inductor.utils import sympy_index_symbol

    return sympy_index_symbol(name)


def silent_kernel() -> Any:
    """A kernel that keeps account of its buffers and is counted by no metric."""
    from torch._inductor.codegen.common import Kernel

    return Kernel(increase_kernel_count=False)


def scheduler() -> Any:
    """The scheduler's module, or None where this torch has none."""
    try:
        from torch._inductor import scheduler
    except ImportError:
        return None
    return scheduler


def kernel_arguments() -> Any:
    """The class that decides which buffers a kernel writes in place, or None."""
    try:
        from torch._inductor.codegen import common
    except ImportError:
        return None
    return getattr(common, "KernelArgs", None)


def allocation_line() -> Any:
    """The class that decides which memory a buffer gets, or None."""
    try:
        from torch._inductor.codegen import wrapper
    except ImportError:
        return None
    return getattr(wrapper, "AllocateLine", None)


def written_lines() -> Any:
    """``(IR, tracer of loop bodies, buffer of generated lines)``; None where this torch lacks one of them."""
    try:
        from torch._inductor import ir, loop_body, utils
    except ImportError:
        return None
    if not (hasattr(ir.IRNode, "__post_init__") and hasattr(loop_body, "LightTracer")):
        return None
    return ir, loop_body.LightTracer, utils.IndentedBuffer
