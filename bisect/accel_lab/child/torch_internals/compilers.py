"""Finds Inductor's C++ compiler, changes its flags, and stops a run before a native compiler starts."""

from __future__ import annotations

import contextlib
import functools
import shlex
import sys
from typing import Any, Callable


def cpp_compiler() -> str:
    """Returns Inductor's C++ compiler (``torch/_inductor/cpp_builder.py``, older: ``codecache.py``)."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:
        from torch._inductor.codecache import cpp_compiler as get_cpp_compiler
    return str(get_cpp_compiler())


def _edit_commands(edit: Callable[[str], str]) -> bool:
    """Puts every C++ command line through ``edit``; False if this torch lacks the place.

    Relies on ``torch/_inductor/cpp_builder.py: CppBuilder.get_command_line`` (since 2.5). torch runs that
    command line and hashes it into the kernel's name.
    """
    try:
        from torch._inductor.cpp_builder import CppBuilder
    except ImportError:
        return False
    original = getattr(CppBuilder, "get_command_line", None)
    if original is None or sys.platform == "win32":
        return False

    @functools.wraps(original)
    def edited(builder: Any) -> str:
        return edit(str(original(builder)))

    CppBuilder.get_command_line = edited
    return True


#: Appended last, so that they override all other flags, including the script's own.
_STRICT = "-fno-fast-math -fno-finite-math-only -fno-unsafe-math-optimizations -ffp-contract=off"


def strict_math() -> bool:
    """Makes C++ kernels compile without relaxed floating-point rules; False if this torch lacks the place."""
    return _edit_commands(lambda command: "%s %s" % (command.rstrip(), _STRICT))


def include_first(folder: str) -> bool:
    """Makes C++ kernels find headers in a folder before torch's own; False if this torch lacks the place.

    Headers are not precompiled then: the key of a precompiled one (``torch/_inductor/cpp_builder.py:
    _precompile_header``, since 2.8) does not depend on what lies in the folder.
    """
    option = "-I" + shlex.quote(folder)

    def with_folder(command: str) -> str:
        compiler, _, rest = command.partition(" ")
        return "%s %s %s" % (compiler, option, rest)

    if not _edit_commands(with_folder):
        return False
    from torch._inductor import config

    with contextlib.suppress(AttributeError):
        config.cpp_cache_precompile_headers = False
    return True


def sanitize_kernels() -> bool:
    """Makes C++ kernels compile with AddressSanitizer and debug info; False if this torch lacks the place.

    Relies on ``torch/_inductor/cpp_builder.py: _get_ffast_math_flags`` (since 2.5). The test program for
    vector instruction sets (``torch/_inductor/cpu_vec_isa.py``) is built without the sanitizer: the process
    that loads it does not have the sanitizer, so the test would fail and kernels would not be vectorized.
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
    """Calls ``stop`` instead of the native compiler (``torch/_inductor/async_compile.py``).

    Returns False if this torch lacks the place.
    """
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
