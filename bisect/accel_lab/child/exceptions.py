"""Describes an exception as JSON values, and detects errors caused by a missing part of torch."""

from __future__ import annotations

import os
import traceback
import types
from typing import Any

from .torch_internals.dispatch import OPERATOR_FILE

MAX_FRAMES = 120


class NotApplicable(RuntimeError):
    """Raised if a rung or switch does not apply to this script or this build of torch."""


def describe(error: Any) -> Any:
    """Returns ``{type, message, frames, text, links, operator}`` of an exception; never raises.

    ``frames`` has the innermost frame last and continues with the frames of causes. ``links`` are the types
    and messages of the causes (``raise ... from``). ``operator`` is the operator whose C++ code raised.
    """
    try:
        message = str(error)
    except Exception:
        message = "<unprintable>"
    links, seen, link = [], {id(error)}, _origin(error)
    frames, deepest = _frames(error), error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        try:
            links.append([type_name(link), str(link)[:2000]])
        except Exception:
            links.append([type_name(link), "<unprintable>"])
        frames, deepest = frames + _frames(link), link
        link = _origin(link)
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        text = ""
    return {
        "type": type_name(error),
        "message": message[:20000],
        "frames": frames[-MAX_FRAMES:],
        "text": text[-200000:],
        "links": links[:10],
        "operator": _operator(deepest),
    }


def missing_torch_part(error: Any) -> str:
    """Returns why the lab's code does not work with this torch; empty for any other exception.

    Covers names that this torch lacks, and attributes that this torch expects of the lab's replacement
    objects. Such an error is not a failure of the script.
    """
    if isinstance(error, ImportError):
        owner = error.name or ""
    else:
        asked = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
        if type(asked).__module__.split(".")[0] == "accel_lab_child":
            return "this torch uses an attribute that the lab's replacement object lacks: %s" % error
        owner = getattr(asked, "__name__", "") if isinstance(asked, types.ModuleType) else ""
    inner = list(traceback.walk_tb(error.__traceback__))[-1:]
    ours = any(short(frame.f_code.co_filename).startswith("accel_lab_child/") for frame, _ in inner)
    if not ours or owner.split(".")[0] != "torch":
        return ""
    return "this torch lacks a part that the rung needs: %s" % error


def type_name(error: Any) -> Any:
    """Returns the qualified name of an exception's type, without ``builtins`` and ``__main__``."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else kind.__module__ + "." + kind.__qualname__
    )


def _origin(error: Any) -> Any:
    return error.__cause__


def _operator(error: Any) -> str:
    """The operator whose C++ code raised; C++ has no frame, so the innermost frame is the operator's call."""
    try:
        innermost = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        if short(innermost.f_code.co_filename) != OPERATOR_FILE or innermost.f_code.co_name != "__call__":
            return ""
        return str(innermost.f_locals["self"])[:200]
    except Exception:
        return ""


def _frames(error: Any) -> Any:
    rows = []
    try:
        for frame, line in traceback.walk_tb(error.__traceback__):
            rows.append(
                {"file": short(frame.f_code.co_filename), "line": line, "function": frame.f_code.co_name}
            )
    except Exception:
        return rows
    return [row for row in rows if not row["file"].startswith("accel_lab_child/")]


def short(path: str) -> Any:
    """Shortens a path to ``torch/...`` or ``accel_lab_child/...`` for files of torch or the child."""
    normal = path.replace(os.sep, "/")
    for root in ("/torch/", "/accel_lab_child/", "/torchgen/", "/functorch/"):
        cut = normal.rfind("/site-packages" + root)
        if cut >= 0:
            return normal[cut + len("/site-packages/") :]
    cut = normal.rfind("/accel_lab_child/")
    return normal[cut + 1 :] if cut >= 0 else path


def code_key(code: Any) -> str:
    """Returns a name of a code object that is the same in every run: function, file and line."""
    return "%s %s:%d" % (code.co_name, short(code.co_filename), code.co_firstlineno)
