"""Whether two names of a component mean the same: whole words of an operator's, pass's or function's name.

``aten.celu_.default`` is ``aten.celu``; ``add`` is not ``addmm``. An answer that names two components counts
if one of them is right; one that names more does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: An answer of more names than this is a list of suspects.
MOST_NAMES = 2

#: The namespaces of torch's own operators, which answers may leave out.
_NAMESPACES = ("aten", "prims", "inductor", "quantized")


@dataclass(frozen=True, kw_only=True)
class Name:
    """A dotted name: ``namespace`` is empty where the name does not say one of torch's."""

    namespace: str
    words: tuple[str, ...]


def same_component(wanted: str, answer: str) -> bool:
    """Whether the answer names the wanted component, alone or as one of two."""
    names = parts(answer)
    return len(names) <= MOST_NAMES and any(same_name(wanted, name) for name in names)


def parts(answer: str) -> list[str]:
    """The names of a list such as ``aten.mul.Tensor, aten.sin.default``; a call's arguments are no list."""
    found, depth = [""], 0
    for letter in answer:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    split = [
        re.split(r" and | ?\+ ?", " ".join(name.split())) if "(" not in name else [name] for name in found
    ]
    return list(dict.fromkeys(_bare(name) for names in split for name in names if name.strip()))


def same_name(wanted: str, answer: str) -> bool:
    """Whether two single names are the same; an overload that only one of them says is no difference."""
    want, got = parse(wanted), parse(answer)
    if want.namespace and got.namespace and want.namespace != got.namespace:
        return False
    if _fits(want.words, got.words):
        return True
    # A bare word may be the last of a qualified name (zlib.adler32), but not of another operator's library.
    return len(want.words) == 1 and not want.namespace and not got.namespace and want.words == got.words[-1:]


def parse(name: str) -> Name:
    """The words of a name, in lower case, without the marks that only say how an operator is called."""
    name = re.sub(r"^torch\.ops\.", "", _bare(name).lower().replace("::", "."))
    if "(" in name:
        return Name(namespace="", words=(name,))
    words = name.split(".")
    namespace = words.pop(0) if len(words) > 1 and words[0] in _NAMESPACES else ""
    return Name(namespace=namespace, words=tuple(map(_out_of_place, words)))


def _fits(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Equal, or one is the other with its overload (one word) after it."""
    short, long = sorted((one, two), key=len)
    return long[: len(short)] == short and len(long) - len(short) <= 1


def _out_of_place(word: str) -> str:
    """``celu_`` writes what ``celu`` returns; ``__rshift__`` is a name of its own."""
    return word[:-1] if word.endswith("_") and not word.endswith("__") and len(word) > 1 else word


def _bare(name: str) -> str:
    """Without the type that stands in brackets after a space: ``history (list)``."""
    return re.sub(r"\s+\([^()]*\)$", "", name.strip())
