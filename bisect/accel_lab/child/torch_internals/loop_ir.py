"""Wraps Inductor's loop IR, its scheduler, and the places where code is generated from them.

Relies on ``torch/_inductor/{virtualized,ir,loop_body,scheduler,utils}.py`` and
``codegen/{common,wrapper}.py``.
"""

from __future__ import annotations

import sys
from typing import Any


def being_imported() -> bool:
    """Whether a module of Inductor is half imported.

    A script may start with ``import torch._inductor...``. That imports Dynamo, which installs the lab's
    instruments too early to hook into Inductor.
    """
    return any(
        name.startswith("torch._inductor")
        and getattr(getattr(module, "__spec__", None), "_initializing", False)
        for name, module in list(sys.modules.items())
    )


def virtualized() -> Any:
    """Returns ``V``, which holds Inductor's current graph, ops handler and kernel."""
    from torch._inductor.virtualized import V

    return V


def ops_value(value: Any) -> Any:
    """Wraps a value as ``V.ops`` gives it to the closures of the IR."""
    from torch._inductor.virtualized import OpsValue

    return OpsValue(value)


def ir() -> Any:
    """Returns the module with the classes of the IR."""
    from torch._inductor import ir

    return ir


def index_symbol(name: str) -> Any:
    """Creates a loop variable for the IR's index expressions."""
    from torch._inductor.utils import sympy_index_symbol

    return sympy_index_symbol(name)


def silent_kernel() -> Any:
    """Creates a kernel object that torch's metrics do not count."""
    from torch._inductor.codegen.common import Kernel

    return Kernel(increase_kernel_count=False)


def scheduler() -> Any:
    """Returns the scheduler's module, or None if this torch has none."""
    try:
        from torch._inductor import scheduler
    except ImportError:
        return None
    return scheduler


def kernel_arguments() -> Any:
    """Returns ``KernelArgs``, which makes a kernel's buffers in-place, or None."""
    try:
        from torch._inductor.codegen import common
    except ImportError:
        return None
    return getattr(common, "KernelArgs", None)


def allocation_line() -> Any:
    """Returns ``AllocateLine``, which plans a buffer's memory, or None."""
    try:
        from torch._inductor.codegen import wrapper
    except ImportError:
        return None
    return getattr(wrapper, "AllocateLine", None)


def written_lines() -> Any:
    """Returns ``(ir module, LightTracer, IndentedBuffer)``; None if this torch lacks one of them."""
    try:
        from torch._inductor import ir, loop_body, utils
    except ImportError:
        return None
    if not (hasattr(ir.IRNode, "__post_init__") and hasattr(loop_body, "LightTracer")):
        return None
    return ir, loop_body.LightTracer, utils.IndentedBuffer
