"""No regular expression of the lab's takes more than linear time, whatever a stranger's text is made of.

Every constant pattern is read out of the sources. For each, texts of 40,000 characters are made of what the
pattern repeats and of what stands before that: where two repeats, or a repeat and the search for its start,
can share the same characters, one of these texts makes the pattern quadratic.
"""

from __future__ import annotations

import ast
import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

ROOT = Path(__file__).resolve().parents[2] / "bisect" / "accel_lab"
#: Patterns that another part of the project owns, with tests of their own.
ELSEWHERE = ("redact",)
CHARACTERS = 40_000
#: A linear pattern needs some milliseconds of processor time for a text, a quadratic one a minute and more.
LIMIT_S = 2
#: So many texts are made for one pattern.
MOST = 60
METHODS = frozenset({"search", "sub", "subn", "findall", "finditer", "split", "match", "fullmatch"})
FLAGS = {"I": re.I, "IGNORECASE": re.I, "M": re.M, "MULTILINE": re.M, "S": re.S, "DOTALL": re.S, "X": re.X}
Found = tuple[str, int, str, int]  # file, line, pattern, flags


def patterns_of(file: Path) -> Iterator[tuple[Found, str]]:
    """The constant patterns of a module, each with how it is used: ``search`` for all that is unanchored."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    name = str(file.relative_to(ROOT))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != "re" or not call.args:
            continue
        try:
            pattern = ast.literal_eval(call.args[0])
        except ValueError:
            continue  # put together when it runs, of escaped words
        flags = 0
        for part in ast.walk(
            ast.Module(body=[ast.Expr(value=arg) for arg in call.args[1:]], type_ignores=[])
        ):
            if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "re":
                flags |= FLAGS[part.attr]
        for keyword in call.keywords:
            flags |= FLAGS[keyword.value.attr] if isinstance(keyword.value, ast.Attribute) else 0
        method = call.func.attr
        if method == "compile":
            method = used_as(tree, call)
        if method in METHODS:
            anchored = method in ("match", "fullmatch")
            yield (name, call.lineno, pattern, int(flags)), method if anchored else "search"


def used_as(tree: ast.Module, call: ast.Call) -> str:
    """How a compiled pattern is used by its name; ``search`` where that cannot be told."""
    targets = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    used = {method for target in targets for method in uses().get(target, ())}
    return used.pop() if len(used) == 1 else "search"


@functools.cache
def uses() -> dict[str, set[str]]:
    """For each name of a module level the methods of patterns that are called on it anywhere."""
    found: dict[str, set[str]] = {}
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                owner = ast.unparse(node.value).rpartition(".")[2]
                found.setdefault(owner, set()).add(node.attr)
    return found


def rules_of_signatures() -> Iterator[tuple[Found, str]]:
    """The rules that are compiled out of a table."""
    from accel_lab.core import signature

    for pattern, _ in signature._RULES:
        yield ("core/signature.py", 0, pattern.pattern, int(pattern.flags) & (re.I | re.M | re.S)), "search"


def all_patterns() -> list[tuple[Found, str]]:
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        if not file.name.startswith(ELSEWHERE):
            found.update(dict(patterns_of(file)))
    found.update(dict(rules_of_signatures()))
    return list(found.items())


# -- texts that make a pattern slow, if any do -----------------------------------------------------------

_OF_CATEGORY = {
    constants.CATEGORY_DIGIT: "7",
    constants.CATEGORY_SPACE: " ",
    constants.CATEGORY_WORD: "a",
    constants.CATEGORY_NOT_DIGIT: "a",
    constants.CATEGORY_NOT_SPACE: "a",
    constants.CATEGORY_NOT_WORD: " ",
}


def sample(items: Any, pick: int = 0) -> str:
    """A short text that the parsed pattern (nearly) matches; ``pick`` chooses among alternatives."""
    return "".join(_sample_one(kind, value, pick) for kind, value in items)


def _sample_one(kind: Any, value: Any, pick: int) -> str:
    if kind is constants.LITERAL:
        return chr(value)
    if kind is constants.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is constants.ANY:
        return "a"
    if kind is constants.IN:
        return of_class(value, pick)
    if kind is constants.SUBPATTERN:
        return sample(value[-1], pick)
    if kind is constants.BRANCH:
        return sample(value[1][pick % len(value[1])], pick)
    if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        return sample(value[2], pick) * max(value[0], 1)
    if str(kind) in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
        return sample(value if str(kind) == "ATOMIC_GROUP" else value[2], pick)
    return ""


def of_class(parts: Any, pick: int) -> str:
    if parts and parts[0][0] is constants.NEGATE:
        text = "".join(c for c in "a 7/.:_-\n\"'(=" if not any(_in_part(c, *part) for part in parts[1:]))
        return text[pick % len(text)] if text else "a"
    chosen, value = parts[pick % len(parts)]
    if chosen is constants.RANGE:
        return chr(value[0])
    return chr(value) if chosen is constants.LITERAL else _OF_CATEGORY.get(value, "a")


def _in_part(character: str, kind: Any, value: Any) -> bool:
    if kind is constants.LITERAL:
        return ord(character) == value
    if kind is constants.RANGE:
        return value[0] <= ord(character) <= value[1]
    tests = {
        constants.CATEGORY_DIGIT: str.isdigit,
        constants.CATEGORY_SPACE: str.isspace,
        constants.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    }
    return value in tests and bool(tests[value](character))


def pieces(items: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """For each repeat in a pattern what stands before it, and one turn of it, in several forms."""
    for kind, value in items:
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            for pick in range(12):
                yield before, sample(value[2], pick)
            yield from pieces(value[2], before)
        elif kind is constants.SUBPATTERN:
            yield from pieces(value[-1], before)
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from pieces(branch, before)
        before += _sample_one(kind, value, 0)


def literals(items: Any) -> Iterator[str]:
    """The single characters that a pattern names."""
    for kind, value in items:
        if kind is constants.LITERAL:
            yield chr(value)
        elif kind in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            yield from literals(value[2])
        elif kind is constants.SUBPATTERN:
            yield from literals(value[-1])
        elif kind is constants.BRANCH:
            for branch in value[1]:
                yield from literals(branch[:1])


def texts(pattern: str, flags: int) -> list[str]:
    """Repeats of what the pattern repeats: alone, behind its beginning, in pairs, with an end that fails."""
    parsed = parser.parse(pattern, flags)
    found = [(before, unit) for before, unit in dict.fromkeys(pieces(parsed)) if unit]
    prefix = next((before for before, _ in found if before), "")
    found += [(prefix, letter) for letter in dict.fromkeys(literals(parsed))]
    found = list(dict.fromkeys(found))[:40]
    units = list(dict.fromkeys(unit for _, unit in found))
    made = [" ", "\n", "a", "7", "/", "a.", " \n", "a ", "/ ", "_", "(", "-", sample(parsed), *units[:12]]
    made += [before + unit for before, unit in found[:16]]
    pairs = list(itertools.permutations(units[:4], 2))
    made += [one + two for one, two in pairs]
    texts = [unit * CHARACTERS for unit in made if unit]
    texts += [before + unit * CHARACTERS for before, unit in found[:16]]
    half = CHARACTERS // 2
    texts += [(one * half)[:half] + (two * half)[:half] for one, two in pairs]
    return list(dict.fromkeys(text[:CHARACTERS] + "\x01" for text in texts))[:MOST]


WORKER = r"""
import json, re, signal, sys
paths, rows, limit_s = json.loads(sys.stdin.read())
sys.path[:0] = paths
import test_patterns as here

class Slow(Exception):
    pass

def ended(number, frame):
    raise Slow

signal.signal(signal.SIGVTALRM, ended)
for (file, line, pattern, flags), method in rows:
    call = getattr(re.compile(pattern, flags), method)
    try:
        for text in here.texts(pattern, flags):
            signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
            if method == "search":  # all matches, as sub and findall look for them
                for match in re.finditer(pattern, text, flags):
                    pass
            else:
                call(text)
    except Slow:
        print(json.dumps([file, line, pattern, method, text[:40]]), flush=True)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
"""


def slow_ones(rows: list[tuple[Found, str]], limit_s: float) -> list[list[Any]]:
    """The patterns that ran into the limit, each with the beginning of the text that they did it on."""
    ended = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=json.dumps([[str(Path(__file__).parent), str(ROOT.parent)], rows, limit_s]),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_pattern_is_linear() -> None:
    rows = all_patterns()
    assert len(rows) > 100
    assert slow_ones(rows, LIMIT_S) == []


def test_the_texts_find_quadratic_patterns() -> None:
    """The means of the test above, tried on patterns that are known to be quadratic."""
    known = [r"\s+$", r"\s*(?:Set|For) more", r"(\S+?)==(\S+) has", r"(?:/[\w ]+)+/(\w+)"]
    rows = [(("", 0, pattern, 0), "search") for pattern in known]
    assert [row[2] for row in slow_ones(rows, 0.2)] == known
