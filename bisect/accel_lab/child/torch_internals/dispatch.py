"""Wraps torch's dispatcher: operators, dispatch keys, kernels, dispatch modes and fake tensors."""

from __future__ import annotations

import contextlib
import re
from typing import Any

#: The namespace of C++ functions that ``torch.nn.functional`` exports directly.
NN_FUNCTIONS = "torch._C._nn"
#: The file whose ``__call__`` methods enter an operator's C++ code.
OPERATOR_FILE = "torch/_ops.py"


def is_operator(target: Any) -> bool:
    """Whether ``target`` is an ``OpOverload`` (``torch/_ops.py``)."""
    import torch

    return isinstance(target, torch._ops.OpOverload)


def is_overload_packet(target: Any) -> bool:
    """Whether ``target`` is an ``OpOverloadPacket`` (``torch/_ops.py``)."""
    import torch

    return isinstance(target, torch._ops.OpOverloadPacket)


def higher_order_operators() -> Any:
    """Returns the higher-order operators; empty if this torch keeps no list of them."""
    import torch

    return list(getattr(torch._ops, "_higher_order_ops", {}).values())


def takes_operators_apart(kind: Any) -> bool:
    """Whether a tensor class defines ``__torch_dispatch__``."""
    import torch

    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def is_wrapped(tensor: Any) -> bool:
    """Whether a tensor is a wrapper of functorch or of functionalization."""
    import torch

    functorch = getattr(torch._C, "_functorch", None)
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return bool(hasattr(torch, "_is_functional_tensor") and torch._is_functional_tensor(tensor))


def negated_view(tensor: Any) -> Any:
    """Returns a lazily negated view of a tensor (the negative bit is set)."""
    import torch

    return torch._neg_view(tensor)


def disable_functions() -> Any:
    """Returns a context that disables ``__torch_function__``."""
    import torch

    return torch._C.DisableTorchFunction()


def disable_modes() -> Any:
    """Returns a context that disables dispatch modes (``torch/utils/_python_dispatch.py``).

    Does nothing if no mode is on the stack.
    """
    import torch

    try:
        stack = torch._C._len_torch_dispatch_stack()
    except AttributeError:
        stack = 1
    if stack == 0:
        return contextlib.nullcontext()
    from torch.utils import _python_dispatch

    disable = getattr(_python_dispatch, "_disable_current_modes", None)
    if disable is not None:
        return disable()
    from torch.utils._mode_utils import no_dispatch  # torch 2.0

    return no_dispatch()


def without_modes() -> Any:
    """Returns a context that disables dispatch modes unconditionally.

    Also covers modes that torch itself enters while it dispatches.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def has_kernel(operator: str, key: str) -> bool:
    """Whether an operator has a kernel for a dispatch key."""
    import torch

    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))


def dispatch_key(name: str) -> Any:
    """Returns the dispatch key called ``name``, or None."""
    import torch

    return getattr(torch._C.DispatchKey, name, None)


def fake_tensors() -> Any:
    """Returns the classes ``(FakeTensor, FakeTensorMode)`` (``torch/_subclasses/fake_tensor.py``)."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    return FakeTensor, FakeTensorMode


def python_kernels() -> Any:
    """Lists ``(operator, {dispatch key: Python kernel})`` (``torch/_ops.py: py_kernels``).

    Only kernels for autograd and composite keys, which replace a native kernel.
    """
    import torch

    found = []
    for namespace in list(vars(torch.ops).values()):
        if type(namespace).__name__ != "_OpNamespace":
            continue
        for packet in list(vars(namespace).values()):
            if not isinstance(packet, torch._ops.OpOverloadPacket):
                continue
            for op in list(vars(packet).values()):
                kernels = getattr(op, "py_kernels", None) if isinstance(op, torch._ops.OpOverload) else None
                chosen = {k: v for k, v in (kernels or {}).items() if _DECOMPOSING.search(str(k))}
                if chosen:
                    found.append((op, chosen))
    return found


_DECOMPOSING = re.compile(r"Autograd|Composite")


def python_dispatcher(on: bool) -> Any:
    """Returns a context that turns torch's Python dispatcher on or off (``torch/_dispatch/python.py``)."""
    import torch

    return torch._C._EnablePythonDispatcher() if on else torch._C._DisablePythonDispatcher()
