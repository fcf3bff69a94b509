"""Runs the user's program as Python itself would, and says how it ended."""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import types
from typing import Any

from .exceptions import describe


def join_threads() -> None:
    """Wait for the program's threads as the interpreter does at its end.

    Pools of ``concurrent.futures`` are stopped by hooks that only ``threading._shutdown`` runs;
    joining their threads one by one would wait for ever.
    """
    shutdown = getattr(threading, "_shutdown", None)
    if shutdown is not None:
        shutdown()


def run_program(program: Any) -> Any:
    """``(exit code, described exception or None, that exception)``; prints the traceback as Python does."""
    sys.argv = [program["path"] or program["module"], *program["args"]]
    try:
        if program["path"] is not None:
            _run_script(program["path"])
        else:
            sys.path[0] = os.getcwd()
            import runpy

            runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = exit_code(error)
        return code, describe(error) if code else None, error
    except BaseException as error:
        described = describe(error)
        _report(error)
        return (130 if isinstance(error, KeyboardInterrupt) else 1), described, error
    return 0, None, None


def _run_script(path: str) -> None:
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    with io.open_code(path) as stream:
        code = compile(stream.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def exit_code(error: Any) -> Any:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(str(error.code) + "\n")
    return 1


def _report(error: Any) -> None:
    """Print the traceback through the user's ``sys.excepthook``, without our own frames."""
    traceback = error.__traceback__
    while traceback is not None and "accel_lab_child" in traceback.tb_frame.f_code.co_filename:
        traceback = traceback.tb_next
    try:
        sys.excepthook(type(error), error, traceback)
        sys.stderr.flush()
    except Exception:
        return


def free_program() -> None:
    """Free what the program holds: the allocator looks behind a block when it is freed, and not before.

    A forked child ends without doing so. What it did is written down by now, so an abort loses nothing.
    """
    main = sys.modules.get("__main__")
    if main is not None:
        main.__dict__.clear()
    gc.collect()
