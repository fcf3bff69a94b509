"""The native compilers that Inductor calls: which, with which flags, and where they would start."""

from __future__ import annotations

import functools
import sys
from typing import Any


def cpp_compiler() -> str:
    """The C++ compiler that Inductor calls (``torch/_inductor/cpp_builder.py``; before it ``codecache``)."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:
        from torch._inductor.codecache import cpp_compiler as get_cpp_compiler
    return str(get_cpp_compiler())


#: Behind all other flags, so that they hold whoever asked for others: the script may have its own.
_STRICT = "-fno-fast-math -fno-finite-math-only -fno-unsafe-math-optimizations -ffp-contract=off"


def strict_math() -> bool:
    """Compile kernels without the flags that relax floating-point rules; False where they are not known.

    Relies on ``torch/_inductor/cpp_builder.py: CppBuilder.get_command_line`` (2.5 on), whose line is what is
    run and what a kernel's name is the hash of.
    """
    try:
        from torch._inductor.cpp_builder import CppBuilder
    except ImportError:
        return False
    original = getattr(CppBuilder, "get_command_line", None)
    if original is None or sys.platform == "win32":
        return False

    @functools.wraps(original)
    def strict(builder: Any) -> str:
        return "%s %s" % (original(builder).rstrip(), _STRICT)

    CppBuilder.get_command_line = strict
    return True


def sanitize_kernels() -> bool:
    """Compile kernels with the address sanitizer and line numbers; False where the flags are not known.

    Relies on ``torch/_inductor/cpp_builder.py: _get_ffast_math_flags`` (from 2.5 on). The test program for
    the vector units (``torch/_inductor/cpu_vec_isa.py``) is built without it: the process that loads that
    one has not the sanitizer, and a kernel without vectors would be another kernel.
    """
    try:
        from torch._inductor import cpp_builder
    except ImportError:
        return False
    flags = getattr(cpp_builder, "_get_ffast_math_flags", None)
    if flags is None:
        return False

    def sanitized() -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.endswith("cpu_vec_isa.py"):
                return flags()
            frame = frame.f_back  # type: ignore[assignment]
        return [*flags(), "fsanitize=address", "g", "fno-omit-frame-pointer"]

    cpp_builder._get_ffast_math_flags = sanitized
    return True


def stop_before_compiler(stop: Any) -> bool:
    """Call ``stop`` where the native compiler would start (``torch/_inductor/async_compile.py``)."""
    found = False
    for module_name in ("torch._inductor.async_compile", "torch._inductor.codecache"):
        try:
            module = __import__(module_name, fromlist=["AsyncCompile"])
        except ImportError:
            continue
        owner = getattr(module, "AsyncCompile", None)
        for name in ("cpp", "cpp_pybinding", "triton"):
            if hasattr(owner, name):
                setattr(owner, name, lambda *args, **kwargs: stop())
                found = True
    return found
