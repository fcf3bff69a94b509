"""torch's dispatcher: operators, their keys and kernels, the modes that see them, fake tensors."""

from __future__ import annotations

import contextlib
import re
from typing import Any

#: The namespace of functions that ``torch.nn.functional`` has from C++ as they are.
NN_FUNCTIONS = "torch._C._nn"
#: The file whose ``__call__`` enters an operator's C++ code.
OPERATOR_FILE = "torch/_ops.py"


def is_operator(target: Any) -> bool:
    """Whether it is one overload of an operator (``torch/_ops.py``)."""
    import torch

    return isinstance(target, torch._ops.OpOverload)


def is_overload_packet(target: Any) -> bool:
    """Whether it is an operator with all its overloads."""
    import torch

    return isinstance(target, torch._ops.OpOverloadPacket)


def higher_order_operators() -> Any:
    """The operators that take graphs, as far as this release keeps a list of them."""
    import torch

    return list(getattr(torch._ops, "_higher_order_ops", {}).values())


def takes_operators_apart(kind: Any) -> bool:
    """Whether a tensor's class has a ``__torch_dispatch__`` of its own."""
    import torch

    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


def is_wrapped(tensor: Any) -> bool:
    """Whether a tensor is functorch's or functionalization's wrapper around another one."""
    import torch

    functorch = getattr(torch._C, "_functorch", None)
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return bool(hasattr(torch, "_is_functional_tensor") and torch._is_functional_tensor(tensor))


def negated_view(tensor: Any) -> Any:
    """A view whose elements are the negatives, which no memory holds."""
    import torch

    return torch._neg_view(tensor)


def disable_functions() -> Any:
    """A context in which no ``__torch_function__`` sees a call."""
    import torch

    return torch._C.DisableTorchFunction()


def disable_modes() -> Any:
    """A context in which no dispatch mode sees an operator (``torch/utils/_python_dispatch.py``)."""
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
    """The same, also for modes that torch itself has put on while it dispatches."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def has_kernel(operator: str, key: str) -> bool:
    """Whether an operator has a kernel for a dispatch key."""
    import torch

    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))


def dispatch_key(name: str) -> Any:
    """A dispatch key by its name, or None."""
    import torch

    return getattr(torch._C.DispatchKey, name, None)


def fake_tensors() -> Any:
    """The classes ``(FakeTensor, FakeTensorMode)`` (``torch/_subclasses/fake_tensor.py``)."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    return FakeTensor, FakeTensorMode


def python_kernels() -> Any:
    """Each operator with its kernels written in Python, by dispatch key (``torch/_ops.py: py_kernels``).

    Only those that stand in for a native kernel: of autograd's keys and of composite ones.
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
    """A context in which torch's Python dispatcher is on or off (``torch/_dispatch/python.py``)."""
    import torch

    return torch._C._EnablePythonDispatcher() if on else torch._C._DisablePythonDispatcher()
