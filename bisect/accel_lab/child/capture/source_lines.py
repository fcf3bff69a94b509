"""Finds the line of the user's program that a graph node comes from."""

from __future__ import annotations

import re
from typing import Any, Tuple

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
#: Folders of libraries; frames in them are skipped if there is a frame of the user.
_LIBRARIES = ("site-packages", "dist-packages")
MOST_CODE = 200


def source_of(node: Any) -> Tuple[str, str]:
    """Returns ``(file:line, source)`` of the innermost frame outside of libraries; empty if not known.

    If all frames are in libraries, returns the innermost one.
    """
    lines = str(getattr(node, "meta", {}).get("stack_trace") or "").splitlines()
    found = ("", "")
    inside = True
    for place, line in enumerate(lines):
        match = _FRAME.search(line)
        if match is None:
            continue
        library = any(part in match.group(1) for part in _LIBRARIES)
        if library and not inside:
            continue
        inside = library
        code = lines[place + 1].strip() if place + 1 < len(lines) else ""
        found = ("%s:%s" % match.groups(), "" if _FRAME.search(code) else code[:MOST_CODE])
    return found
