"""Planted secrets: whatever their sort, wherever they stand, no piece of them leaves in a bundle."""

from __future__ import annotations

import ast
import functools
import json
import random
import re
import zlib

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accel_lab.core.private import SECRET_KINDS, mask, spans
from accel_lab.core.private.rule import Rule
from accel_lab.core.private.shapes import SHAPES
from accel_lab.core.signature import legible, normalise
from accel_lab.reporting.redact.redactor import Redactor

from .secret_sorts import SHAPED, SORTS, Planted, windows_of

#: Places in a Python source; ``{}`` takes the text, ready for a literal between double quotes.
IN_PYTHON = {
    "exception message": 'raise RuntimeError("step 3 failed with {} at size 4")\n',
    "string literal": 'x = "{}"\nprint(x)\n',
    "raw literal": 'x = r"{}"\n',
    "bytes": 'x = b"{}"\n',
    "comment": "x = 1  # see {} there\n",
    "comment of its own": "# first\n# {}\n# last\nx = 1\n",
    "dict literal": 'conf = {"rate": 3, "value": "{}", "b": [1]}\n',
    "environment": 'import os\nos.environ["SOME_VALUE"] = "{}"\n',
    "shell command": 'import os\nos.system("run -v {} >/dev/null")\n',
    "f-string": 'n = 3\nx = f"{n} and {} or {n!r:>10}"\n',
    "lines": 'x = """first\n{}\nlast"""\n',
    "argument": 'f = print\nf(1, "{}", flag=True)\n',
}
#: Places in other texts.
IN_TEXT = {
    "log line": "2026-01-02 03:04:05 INFO worker 7: {} (12 ms)\n",
    "trace": 'Traceback (most recent call last):\n  File "/x/y.py", line 3, in f\nRuntimeError: {}\n',
    "shell script": "#!/bin/sh\nset -e\necho {}\n",
    "environment file": "A=1\nB={}\n",
    "yaml": "a:\n  - b\n  - {}\n",
}


def planted(sort: str) -> Planted:
    return SORTS[sort](random.Random(zlib.crc32(sort.encode())))


def leaks(shown: str, found: Planted) -> list[str]:
    return [piece for piece in windows_of(found.parts) if piece in shown]


@functools.cache
def survey() -> dict[tuple[str, str], str]:
    """What every sort leaves of itself in every place; nothing, where all is well."""
    left: dict[tuple[str, str], str] = {}
    for sort in SORTS:
        found = planted(sort)
        for place, form in IN_PYTHON.items():
            source = form.replace("{}", found.text)
            made = Redactor()
            made.learn(source, "a.py")
            shown = made.python(source, "a.py")
            left[sort, place] = f"{shown!r} does not compile" if not parses(shown) else ""
            left[sort, place] = left[sort, place] or (shown if leaks(shown, found) else "")
            if place == "exception message":
                raised = str(ast.parse(source).body[0].exc.args[0].value)  # type: ignore[attr-defined]
                for said in (made.message(raised), normalise(raised), legible(raised)):
                    left[sort, place] = left[sort, place] or (said if leaks(said, found) else "")
        for place, form in IN_TEXT.items():
            shown = Redactor().text(form.replace("{}", found.text), "log.txt")
            left[sort, place] = shown if leaks(shown, found) else ""
        value = {"a": [1, {"b": found.text}], "c": f"x {found.text} y"}
        shown = json.dumps(Redactor().value(value, "x.json"))
        left[sort, "JSON"] = shown if leaks(shown, found) else ""
        shown = Redactor().text(json.dumps(value, indent=1), "x.json")
        left[sort, "JSON text"] = shown if leaks(shown, found) else ""
        if sort in SHAPED and not set(found.text) & set("/+=~"):
            shown = Redactor().text(f"GET https://x.org/a/{found.text}?b={found.text}&c=d", "log.txt")
            left[sort, "URL"] = shown if leaks(shown, found) else ""
    return left


def parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("sort", SORTS)
def test_no_piece_of_a_planted_secret_is_left(sort: str) -> None:
    left = {place: shown for (name, place), shown in survey().items() if name == sort and shown}
    assert left == {}


def test_the_score() -> None:
    """Printed with -s, and by CI's report of this file."""
    all_of = survey()
    lost = [key for key, shown in all_of.items() if shown]
    print(
        f"\nsecrets: {len(all_of) - len(lost)} of {len(all_of)} planted, {len(lost)} leaked "
        f"({len(SORTS)} sorts)"
    )
    assert len(all_of) >= 200
    assert len(SORTS) >= 60
    assert lost == []


@pytest.mark.parametrize("sort", SHAPED)
def test_a_token_alone_is_known(sort: str) -> None:
    """Nothing else stands in the text: a rule's quick test must not ask for more than its own shape."""
    found = planted(sort)
    assert leaks(Redactor().text(found.text, "x"), found) == []


def alone(rule: Rule) -> str:
    """The rule's expression without what it asks of its neighbours; what it stands after is put before."""
    regex = re.sub(r"\(\?<=([^)]*)\)", r"\1", rule.regex)
    return re.sub(r"\(\?<?![^)]*\)", "", regex)


@pytest.mark.parametrize("rule", SHAPES, ids=lambda rule: rule.name)
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_rule_is_reached_by_its_own_shape(rule: Rule, data: st.DataObject) -> None:
    """Each alternative of each rule, made from its own expression, in a text that holds nothing else."""
    text = data.draw(st.from_regex(alone(rule), fullmatch=True, alphabet=st.characters(codec="ascii")))
    if rule.name in NEEDS:
        text = NEEDS[rule.name] + text
    match = rule.pattern.search(text)
    assume(match is not None and (rule.accept is None or rule.accept(match, "")))
    assert match is not None
    found = [span for span in spans(text) if span.kind in SECRET_KINDS]
    assert any(span.start <= match.start("s") and match.end("s") <= span.end for span in found)
    assert match.group("s") not in mask(text)


#: What must stand near for a shape that many innocent words have.
NEEDS = {"wandb key": "wandb ", "mailgun": "mailgun ", "azure bare key": "azure "}
