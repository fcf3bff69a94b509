"""Runs every expression of the lab's that reads a stranger's text over texts made to take long.

In a process of its own: an expression whose work grows with the square of the text would not end in time.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator

from accel_lab.core import signature
from accel_lab.core.private import Known, assigned, engine, keys, machines, people, rule, shapes
from accel_lab.reporting import run_files
from accel_lab.reporting.redact import review
from accel_lab.reporting.redact.redactor import Redactor

SIZE = 200_000
KNOWN = Known(homes=("/home/ab",), users=("marlene", "tomek"), hosts=("gpu7.corp",), learned=frozenset({"x"}))


#: What reads values of bounded length only, not whole texts.
SHORT = 4_000
Tried = tuple[str, re.Pattern[str], tuple[str, ...], int]


def expressions() -> Iterator[Tried]:
    """Name, expression, what a text must hold for it to be asked at all, and how long its texts are."""
    for found in (*shapes.SHAPES, *assigned.ASSIGNED, *people.EMAILS, *people.HOMES, *machines.MACHINES):
        yield found.name, found.pattern, found.hints, SIZE
    for found in people.own_rules(KNOWN, frozenset()):
        yield f"known {found.kind}", found.pattern, found.hints, SIZE
    for name in ("_BEGIN", "_END", "_PUTTY"):
        yield name, getattr(keys, name), (), SIZE
    yield from ((f"review {kind}", pattern, (), 2_200) for kind, pattern in review._PATTERNS)
    for module in (assigned, machines, people, rule, shapes, review, run_files):
        size = SIZE if module is run_files else SHORT
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{module.__name__}.{name}", value, (), size


def pieces_of(pattern: str) -> set[str]:
    """Literal pieces of an expression: what drives it deep before it fails."""
    plain = re.sub(r"\\[swdbSWDBZA]|\(\?[:!=<P][^)]{0,20}|\{\d*,?\d*\}", "\0", pattern)
    plain = re.sub(r"\[[^\]]*\]", "\0", plain).replace("\\", "")
    return {piece for piece in re.split(r"[\0()|?*+^$]+", plain) if 2 <= len(piece) <= 30}


CLASSES = ("aA1", " ", "/a", "a.", "-", "@a.", "\\")


#: One shape is a short text: these go through all that it is made of.
FEW = ("aA1", "-", "a.")


def texts(
    pattern: str, hints: tuple[str, ...], size: int, classes: tuple[str, ...] = CLASSES
) -> Iterator[str]:
    """Long texts of one piece over and over, alone or after a hint, with an end that spoils a match."""
    pieces = sorted({*pieces_of(pattern), *hints}, key=lambda piece: (-len(piece), piece))[:4]
    units = [*classes, *pieces, *(a + b for a, b in itertools.product(pieces[:2], (" ", "a1")))]
    for number, unit in enumerate(units):
        hint = hints[number % len(hints)] if hints else ""
        yield hint + (unit * (size // len(unit) + 1))[:size] + "!\0'"[number % 3]


def main() -> None:
    seen: set[str] = set()
    shaped = {found.name for found in shapes.SHAPES}
    count = 0
    for name, pattern, hints, size in expressions():
        if pattern.pattern in seen:
            continue
        seen.add(pattern.pattern)
        sys.stderr.write(f"{name}\n")
        for text in texts(pattern.pattern, hints, size, FEW if name in shaped else CLASSES):
            count += 1
            for _ in pattern.finditer(text):
                pass
    sys.stderr.write("all of them together\n")
    for text in texts("password=|://|-----BEGIN RSA PRIVATE " + "KEY-----|eyJ", (), SIZE):
        count += 1
        engine.spans(text, before="x = ")
        signature.normalise(text)
        signature.legible(text)
        review.left_in({"a": text[:50_000]})
        Redactor().python(f"x = '''{text[:20_000]}'''", "a.py")
    sys.stdout.write(f"{len(seen)} expressions, {count} texts of {SIZE} characters\n")


if __name__ == "__main__":
    main()
