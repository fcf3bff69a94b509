"""Decides whether two names denote the same component, by whole words of the name.

``aten.celu_.default`` is ``aten.celu``; ``add`` is not ``addmm``. An answer of two names is right if either
one is right. An answer of more names is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: An answer of more names than this is no answer.
MOST_NAMES = 2

#: The namespaces of torch's operators; an answer may omit them.
_NAMESPACES = ("aten", "prims", "inductor", "quantized")


@dataclass(frozen=True, kw_only=True)
class Name:
    """A dotted name, split; ``namespace`` is empty unless the name starts with one of torch's."""

    namespace: str
    words: tuple[str, ...]


def same_component(wanted: str, answer: str) -> bool:
    """Whether the answer names the wanted component, alone or as one of two names."""
    names = parts(answer)
    return len(names) <= MOST_NAMES and any(same_name(wanted, name) for name in names)


def parts(answer: str) -> list[str]:
    """Splits a list such as ``aten.mul.Tensor, aten.sin.default``, but not at commas of call arguments."""
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
    """Whether two single names match; an overload that only one of them has is ignored."""
    want, got = parse(wanted), parse(answer)
    if want.namespace and got.namespace and want.namespace != got.namespace:
        return False
    if _fits(want.words, got.words):
        return True
    # A bare word matches the last word of a qualified name (zlib.adler32), but not an operator of another
    # library.
    return len(want.words) == 1 and not want.namespace and not got.namespace and want.words == got.words[-1:]


def parse(name: str) -> Name:
    """Splits a name into lower-case words, without ``torch.ops.`` and in-place underscores."""
    name = re.sub(r"^torch\.ops\.", "", _bare(name).lower().replace("::", "."))
    if "(" in name:
        return Name(namespace="", words=(name,))
    words = name.split(".")
    namespace = words.pop(0) if len(words) > 1 and words[0] in _NAMESPACES else ""
    return Name(namespace=namespace, words=tuple(map(_out_of_place, words)))


def _fits(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether the names are equal, or differ by one trailing word (the overload)."""
    short, long = sorted((one, two), key=len)
    return long[: len(short)] == short and len(long) - len(short) <= 1


def _out_of_place(word: str) -> str:
    """``celu`` for the in-place ``celu_``; ``__rshift__`` stays."""
    return word[:-1] if word.endswith("_") and not word.endswith("__") and len(word) > 1 else word


def _bare(name: str) -> str:
    """Strips a type in parentheses: ``history (list)``."""
    return re.sub(r"\s+\([^()]*\)$", "", name.strip())
