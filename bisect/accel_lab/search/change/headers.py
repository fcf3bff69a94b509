"""Headers that generated C++ kernels include: text of a release that can be exchanged like its Python files.

A header is exchanged as a whole at first, then by its differing lines. The compiler finds the mixed file
before the release's own one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: Where the headers lie that generated kernels include, as paths of an installed torch.
AREAS = ("torch/include/ATen/cpu/", "torch/include/c10/", "torch/include/torch/csrc/inductor/")
#: What every generated C++ kernel includes (``torch/_inductor/codegen/cpp.py``).
_START = "torch/include/torch/csrc/inductor/cpp_prefix.h"
_ROOT = "torch/include/"
_INCLUDE = re.compile(r"^[ ]*#[ ]*include[ ]*[<\"]([^>\"\n]{1,200})[>\"]", re.MULTILINE)
_NO_FUNCTION = frozenset({"if", "for", "while", "switch", "catch"})


def included(text_of: Callable[[str], str | None]) -> frozenset[str]:
    """Returns the headers that a generated kernel includes, on any machine; ``text_of`` reads one of them."""
    found: set[str] = set()
    waiting = [_START]
    while waiting:
        path = waiting.pop()
        text = None if path in found else text_of(path)
        if text is None:
            continue
        found.add(path)
        waiting += [_ROOT + name for name in _INCLUDE.findall(text)]
    return frozenset(found)


def function_at(source: str, line: int) -> str:
    """Returns the name of the function whose body a line (from 1) is in, by the nearest head above it.

    Empty if there is none: the line stands at the level of a namespace or a class.
    """
    for text in reversed(source.split("\n")[:line]):
        head, opened, _ = text.partition("(")
        words = re.findall(r"\w+", head) if opened and text.rstrip().endswith("{") else []
        if words and words[-1] not in _NO_FUNCTION:
            return str(words[-1])
        if text == "}":
            break
    return ""
