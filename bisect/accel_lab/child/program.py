"""Runs the user's program as Python itself would, and returns how it ended."""

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
    """Waits for the program's threads as the interpreter does at exit.

    Only ``threading._shutdown`` runs the hooks that stop pools of ``concurrent.futures``; joining their
    threads one by one would never return.
    """
    shutdown = getattr(threading, "_shutdown", None)
    if shutdown is not None:
        shutdown()


def run_program(program: Any) -> Any:
    """Runs the program; returns ``(exit code, described exception or None, exception or None)``.

    Prints the traceback as Python does.
    """
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
        try:
            _report(error)
        except SystemExit as stop:  # the script's hook chooses the exit code
            return exit_code(stop), describe(stop), stop
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
    """Prints the traceback through the user's ``sys.excepthook``, without the lab's frames.

    Raises the ``SystemExit`` that the hook raises; Python ends with its code as well.
    """
    traceback = error.__traceback__
    while traceback is not None and "accel_lab_child" in traceback.tb_frame.f_code.co_filename:
        traceback = traceback.tb_next
    try:
        sys.excepthook(type(error), error, traceback)
        sys.stderr.flush()
    except Exception:
        return


def free_program() -> None:
    """Frees the program's objects, because ``MALLOC_CHECK_`` detects an overrun only when a block is freed.

    A forked child exits without freeing them. The result is already written, so an abort loses nothing.
    """
    main = sys.modules.get("__main__")
    if main is not None:
        main.__dict__.clear()
    gc.collect()
