"""An exception as plain data: type, message, frames innermost last, and what it was raised from."""

from __future__ import annotations

import os
import traceback
import types
from typing import Any

from .torch_internals.dispatch import OPERATOR_FILE

MAX_FRAMES = 120


class NotApplicable(RuntimeError):
    """This rung or switch has nothing to say about this script on this build."""


def describe(error: Any) -> Any:
    """``{type, message, frames, text, links, operator}`` of an exception; never raises."""
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


def lacking(error: Any) -> str:
    """What our own code asked of torch that this release does not have; empty for any other exception.

    The other way round too: what this release asked of an object that stands in for one of torch's. Such an
    end says nothing of the script: it must not be taken for a failure that a rung brought.
    """
    if isinstance(error, ImportError):
        owner = error.name or ""
    else:
        asked = getattr(error, "obj", None) if isinstance(error, AttributeError) else None
        if type(asked).__module__.split(".")[0] == "accel_lab_child":
            return "this torch asks more of the rung's parts than they have: %s" % error
        owner = getattr(asked, "__name__", "") if isinstance(asked, types.ModuleType) else ""
    inner = list(traceback.walk_tb(error.__traceback__))[-1:]
    ours = any(short(frame.f_code.co_filename).startswith("accel_lab_child/") for frame, _ in inner)
    if not ours or owner.split(".")[0] != "torch":
        return ""
    return "this torch lacks a part that the rung needs: %s" % error


def type_name(error: Any) -> Any:
    """The qualified name of an exception's type, without ``builtins``."""
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else kind.__module__ + "." + kind.__qualname__
    )


def _origin(error: Any) -> Any:
    """What it was explicitly raised from (``raise ... from``)."""
    return error.__cause__


def _operator(error: Any) -> str:
    """The operator whose C++ code raised: that has no frame, so its call is innermost ."""
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
    """``torch/...`` for files of torch, ``accel_lab_child/...`` for ours, else the path itself."""
    normal = path.replace(os.sep, "/")
    for root in ("/torch/", "/accel_lab_child/", "/torchgen/", "/functorch/"):
        cut = normal.rfind("/site-packages" + root)
        if cut >= 0:
            return normal[cut + len("/site-packages/") :]
    cut = normal.rfind("/accel_lab_child/")
    return normal[cut + 1 :] if cut >= 0 else path


def code_key(code: Any) -> str:
    """A code object's name that stays the same from run to run."""
    return "%s %s:%d" % (code.co_name, short(code.co_filename), code.co_firstlineno)
