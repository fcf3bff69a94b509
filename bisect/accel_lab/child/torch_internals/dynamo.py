"""Hooks into Dynamo: ``optimize``, frames, inlining, guards, and single steps of a trace."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Sequence

#: The rung can be installed once this module is imported.
MODULE = "torch._dynamo"


def replace_optimize(replacement: Callable[..., Any]) -> Any:
    """Replaces Dynamo's ``optimize`` by ``replacement(backend, **keywords)``; returns the original.

    Every form of torch.compile calls ``torch/_dynamo/eval_frame.py: optimize``, or its alias in
    ``torch._dynamo``; both are replaced.
    """
    from torch._dynamo import eval_frame

    original = eval_frame.optimize

    @functools.wraps(original)
    def optimize(backend: Any = "inductor", **kwargs: Any) -> Any:
        return replacement(backend, **kwargs)

    sys.modules[MODULE].optimize = optimize  # type: ignore[attr-defined]
    eval_frame.optimize = optimize
    return original


def module_shell(module: Any, run: Callable[[Any], Any]) -> Any:
    """Wraps a module as torch.compile does (``torch/_dynamo/eval_frame.py: OptimizedModule``)."""
    from torch._dynamo.eval_frame import OptimizedModule

    return OptimizedModule(module, run)


def is_tracing() -> Any:
    """Whether the calling code is being compiled (``torch.compiler.is_compiling``)."""
    import torch

    compiler = getattr(torch, "compiler", None)
    probe = getattr(compiler, "is_compiling", None) or torch._dynamo.is_compiling
    return probe()


def leave_uncompiled(codes: Sequence[Any]) -> None:
    """Makes Dynamo skip these code objects.

    Relies on ``torch/_dynamo/eval_frame.py: skip_code``, in older releases a C function. No effect if this
    torch has neither.
    """
    try:
        from torch._dynamo.eval_frame import skip_code
    except ImportError:
        try:
            from torch._C._dynamo.eval_frame import skip_code
        except ImportError:
            return  # Dynamo then traces them, finds no tensor operation, and runs them eagerly
    for code in codes:
        skip_code(code)


def unsupported(message: str) -> Any:
    """Creates the exception that Dynamo raises for a graph break (``torch/_dynamo/exc.py: Unsupported``)."""
    from torch._dynamo.exc import Unsupported

    try:
        return Unsupported(message)
    except TypeError:
        return Unsupported(message, gb_type="accel-lab")


def reset() -> None:
    """Drops all compiled code, so that the next call recompiles."""
    import torch._dynamo

    torch._dynamo.reset()


def hook_frames(skip: Callable[[Any], bool], compiling: Callable[[Any], None]) -> bool:
    """Skips frames for whose code ``skip`` is true; calls ``compiling(code)`` for each compiled frame.

    Relies on ``torch/_dynamo/convert_frame.py: CatchErrorsWrapper, _compile``; False if either is missing.
    """
    from torch._dynamo import convert_frame

    wrapper = getattr(convert_frame, "CatchErrorsWrapper", None)
    compiler = getattr(convert_frame, "_compile", None)
    if wrapper is None or compiler is None:
        return False
    ask = wrapper.__call__

    def asked(wrapper_self: Any, frame: Any, *rest: Any, **more: Any) -> Any:
        if skip(frame.f_code):
            return _left_alone()
        return ask(wrapper_self, frame, *rest, **more)

    def compiled(code: Any, *rest: Any, **more: Any) -> Any:
        compiling(code)
        return compiler(code, *rest, **more)

    wrapper.__call__ = asked
    convert_frame._compile = functools.wraps(compiler)(compiled)
    return True


def _left_alone() -> Any:
    """The return value of Dynamo's frame callback for a frame that runs eagerly."""
    try:
        from torch._dynamo.types import ConvertFrameReturn
    except ImportError:
        return None
    return ConvertFrameReturn()


def hook_inlining(inlining: Callable[[Any, Any], str]) -> bool:
    """Calls ``inlining(code, caller's code)`` before a function is inlined; a non-empty result prevents it.

    The result is the message of the graph break. Relies on ``torch/_dynamo/symbolic_convert.py:
    InliningInstructionTranslator``; False if this torch lacks it.
    """
    from torch._dynamo import symbolic_convert

    translator: Any = getattr(symbolic_convert, "InliningInstructionTranslator", None)
    inline = getattr(translator, "__dict__", {}).get("inline_call")
    if inline is None:
        return False
    original = inline.__func__

    def inline_call(cls: Any, parent: Any, func: Any, *rest: Any, **more: Any) -> Any:
        try:
            refused = inlining(func.get_code(), parent.f_code)
        except Exception:
            refused = ""
        if refused:
            raise unsupported(refused)
        return original(cls, parent, func, *rest, **more)

    translator.inline_call = classmethod(inline_call)
    return True


def hook_guards(made: Callable[[Any], None]) -> None:
    """Calls ``made(guards)`` after each compilation (``torch/_dynamo/guards.py: CheckFunctionManager``).

    No effect if this torch lacks the class.
    """
    try:
        from torch._dynamo.guards import CheckFunctionManager as Manager
    except ImportError:
        return
    original = Manager.__init__

    def init(manager: Any, *args: Any, **kwargs: Any) -> None:
        original(manager, *args, **kwargs)
        checks = getattr(manager, "guard_manager", None) or getattr(manager, "check_fn", None)
        parts = list(getattr(checks, "code_parts", None) or [])
        with contextlib.suppress(Exception):
            parts.append(str(checks))
        made(parts)

    Manager.__init__ = functools.wraps(original)(init)


def hook_steps(at: Callable[[Any], None]) -> bool:
    """Calls ``at(trace)`` before each instruction of a frame's trace, not of inlined functions.

    Relies on ``torch/_dynamo/symbolic_convert.py: InstructionTranslator``; False if this torch lacks it.
    """
    from torch._dynamo import symbolic_convert

    translator: Any = getattr(symbolic_convert, "InstructionTranslator", None)
    step = getattr(translator, "step", None)
    if step is None or not hasattr(translator, "dispatch_table"):
        return False

    def stepped(trace: Any) -> Any:
        at(trace)
        return step(trace)

    translator.step = stepped
    return True
