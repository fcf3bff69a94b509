"""Watches calls to compilers that no rung covers: torch.export, AOTInductor, TorchScript, ONNX.

Notes each call that the script makes, and whether the exception that ended the run passed through it. If a
call ends the process, ``entries.json`` shows it as still running.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from typing import Any, Callable, Dict, List, Tuple

from ..artifacts import write_json
from ..exceptions import type_name
from ..torch_internals.entries import ENTRIES, RETURN_A_FUNCTION

MAX_WRITES = 50
#: Returns ``(nesting depth in torch.compile regions, exceptions raised by regions, calls of regions)``.
State = Callable[[], Tuple[int, int, int]]


class Entries:
    """Wraps compiler entry points and notes who called them and how each call ended."""

    def __init__(self, folder: str, notes: List[str], state: State) -> None:
        self._folder = folder
        self._notes = notes
        self._state = state
        self._rows: Dict[str, Dict[str, Any]] = {}
        self._raised: List[Tuple[Any, Dict[str, Any], int]] = []
        self._writes = 0

    def watch(self, module_name: str) -> None:
        """Wraps the entry points of a module that is already imported."""
        module = sys.modules.get(module_name)
        for attribute in ENTRIES[module_name]:
            original = getattr(module, attribute, None)
            if isinstance(original, types.FunctionType):
                setattr(module, attribute, self._wrapped(original, module_name + "." + attribute))

    def facts(self, error: Any) -> List[Dict[str, Any]]:
        """Returns a row for each entry point that was called; ``error`` is the exception that ended the run.

        ``ended`` is true if that exception passed through the entry point, and not through a torch.compile
        region inside of it. ``error`` is None if no exception ended the run.
        """
        mine, calls = _chain(error), self._state()[2]
        for raised, row, calls_then in reversed(self._raised):
            direct = mine.get(id(raised))
            # If regions ran after the exception, it need not be why the program exited.
            if direct or (direct is not None and calls_then == calls):
                row["ended"] = True
                break
        return list(self._rows.values())

    def _wrapped(self, original: Any, name: str) -> Any:
        shifts = "_frames_up" in inspect.signature(original).parameters

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if shifts:  # torch.jit.script looks up names in its caller's frame; this wrapper adds one frame
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            file = sys._getframe(1).f_code.co_filename.replace(os.sep, "/")
            depth, caught, _ = self._state()
            if "/site-packages/torch/" in file or depth:
                return original(*args, **kwargs)
            by_user = "/site-packages/" not in file
            row = self._row(name, by_user)
            try:
                result = self._run(row, caught, original, args, kwargs)
            finally:
                row["running"] -= 1
            if name in RETURN_A_FUNCTION and isinstance(result, types.FunctionType):
                return self._later(row, result)
            return result

        # Dynamo inlines the original, as with the recorder of a region.
        call._torchdynamo_inline = original  # type: ignore[attr-defined]
        return call

    def _later(self, row: Dict[str, Any], work: Any) -> Any:
        @functools.wraps(work)
        def run(*args: Any, **kwargs: Any) -> Any:
            return self._run(row, self._state()[1], work, args, kwargs)

        return run

    def _run(self, row: Dict[str, Any], caught: int, work: Any, args: Any, kwargs: Any) -> Any:
        try:
            return work(*args, **kwargs)
        except BaseException as error:
            _, caught_now, calls = self._state()
            if caught_now == caught and len(self._raised) < MAX_WRITES:
                row["raised"] = [type_name(error), str(error)[:2000]]
                self._raised.append((error, row, calls))
            raise

    def _row(self, name: str, by_user: bool) -> Dict[str, Any]:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = {
                "name": name,
                "calls": 0,
                "by_user": False,
                "running": 0,
                "raised": None,
                "ended": False,
            }
        row["calls"] += 1
        row["running"] += 1
        if by_user and not row["by_user"]:
            row["by_user"] = True
            self._notes.append("%s was called; accel-lab only covers torch.compile regions" % name)
        if self._writes < MAX_WRITES:
            self._writes += 1
            write_json(os.path.join(self._folder, "entries.json"), list(self._rows.values()))
        return row


def _chain(error: Any) -> Dict[int, bool]:
    """Ids of ``error`` and its causes; False for exceptions being handled when ``SystemExit`` was raised."""
    found: Dict[int, bool] = {}
    direct = True
    while error is not None and id(error) not in found:
        found[id(error)] = direct
        if isinstance(error, SystemExit) and error.__cause__ is None:
            error, direct = error.__context__, False
        else:
            error = error.__cause__
    return found
