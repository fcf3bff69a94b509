"""Dynamo: its entry, the frames that it compiles, what it inlines, its guards, and the end of a trace."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Sequence

#: The module whose arrival means that the rung can be installed.
MODULE = "torch._dynamo"


def replace_optimize(replacement: Callable[..., Any]) -> Any:
    """Put ``replacement(backend, **keywords)`` where every form of torch.compile ends; returns the original.

    ``optimize`` of ``torch/_dynamo/eval_frame.py``, which ``torch._dynamo`` offers too.
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
    """What torch.compile puts around a module (``torch/_dynamo/eval_frame.py: OptimizedModule``)."""
    from torch._dynamo.eval_frame import OptimizedModule

    return OptimizedModule(module, run)


def is_tracing() -> Any:
    """Whether Dynamo is at work on the calling code."""
    import torch

    compiler = getattr(torch, "compiler", None)
    probe = getattr(compiler, "is_compiling", None) or torch._dynamo.is_compiling
    return probe()


def leave_uncompiled(codes: Sequence[Any]) -> None:
    """Let Dynamo run these code objects as they are, wherever they are called from.

    ``skip_code`` of ``torch/_dynamo/eval_frame.py``; in older releases a function of its C part.
    """
    try:
        from torch._dynamo.eval_frame import skip_code
    except ImportError:
        try:
            from torch._C._dynamo.eval_frame import skip_code
        except ImportError:
            return  # then Dynamo looks at them, finds no tensor, and leaves them alone
    for code in codes:
        skip_code(code)


def unsupported(message: str) -> Any:
    """What Dynamo raises where it cannot go on tracing (``torch/_dynamo/exc.py``)."""
    from torch._dynamo.exc import Unsupported

    try:
        return Unsupported(message)
    except TypeError:
        return Unsupported(message, gb_type="accel-lab")


def reset() -> None:
    """Forget every compiled frame, so that the next call compiles afresh."""
    import torch._dynamo

    torch._dynamo.reset()


def hook_frames(skip: Callable[[Any], bool], compiling: Callable[[Any], None]) -> bool:
    """Leave frames whose code ``skip`` names as they are; ``compiling`` gets all code that is compiled.

    Relies on ``torch/_dynamo/convert_frame.py: CatchErrorsWrapper, _compile``; False where it has neither.
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
    """What a frame's compiler returns for a frame that is to run as it is."""
    try:
        from torch._dynamo.types import ConvertFrameReturn
    except ImportError:
        return None
    return ConvertFrameReturn()


def hook_inlining(inlining: Callable[[Any, Any], str]) -> bool:
    """Ask ``inlining(code, caller's code)`` before a function is inlined: words keep it out of the graph.

    Relies on ``torch/_dynamo/symbolic_convert.py: InliningInstructionTranslator``; False where it is not
    there.
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
    """Tell ``made`` of the guards of each compilation (``torch/_dynamo/guards.py: CheckFunctionManager``)."""
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
    """Call ``at(trace)`` before each instruction of a frame's trace; False where there is no such place.

    Relies on ``torch/_dynamo/symbolic_convert.py: InstructionTranslator``: the translator of frames, not of
    what is inlined into them.
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
