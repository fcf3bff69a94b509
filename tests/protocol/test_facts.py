"""The fact keys: one list, whose shapes are all known and whose names the lab spells right."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import accel_lab
from accel_lab.core.untrusted.fact_shapes import FACTS
from accel_lab.protocol.facts import CHILD_KEYS, ChildFacts, Facts

PACKAGE = Path(accel_lab.__file__).parent
#: What holds the facts of a run, as the modules call it; ``build.facts`` and others are of another kind.
HOLDERS = ("outcome", "cold", "top", "got", "recorded")


def test_every_key_of_a_child_has_a_shape() -> None:
    assert set(FACTS) == CHILD_KEYS


def test_the_lab_reads_no_other_key() -> None:
    keys = CHILD_KEYS | set(Facts.__annotations__)
    read = [row for file in sorted(PACKAGE.rglob("*.py")) for row in _keys_read(file)]
    assert len(read) > 40
    assert [row for row in read if row[1] not in keys] == []


def test_the_child_writes_no_other_key() -> None:
    assert set(ChildFacts.__annotations__) == CHILD_KEYS
    text = (PACKAGE / "child" / "runner.py").read_text("utf-8")
    assert "facts: protocol_facts.ChildFacts" in text  # so the type checker holds it to the keys


def _keys_read(file: Path) -> Iterator[tuple[str, str]]:
    """(file, key) for ``outcome.facts.get("key")`` and ``outcome.facts["key"]``."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        owner, key = None, None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner, key = node.func.value, node.args[0] if node.args else None
        elif isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        if not isinstance(owner, ast.Attribute) or owner.attr != "facts" or not isinstance(key, ast.Constant):
            continue
        if ast.unparse(owner.value).rpartition(".")[2] in HOLDERS:
            yield file.name, str(key.value)
