"""The child and what it agrees on with the lab run on the Python of torch 2.0: every file of them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import accel_lab

PACKAGE = Path(accel_lab.__file__).parent
FILES = sorted(file for folder in ("child", "protocol") for file in (PACKAGE / folder).rglob("*.py"))
#: Names of typing that came after Python 3.8; in an annotation that is never evaluated they do no harm.
LATER = {"Annotated", "Concatenate", "NotRequired", "ParamSpec", "Required", "Self", "TypeAlias", "TypeGuard"}


def test_all_files_are_covered() -> None:
    names = {str(file.relative_to(PACKAGE)) for file in FILES}
    assert len(names) > 70
    assert {"child/loops/run.py", "child/torch_internals/aot.py", "protocol/rungs.py"} <= names


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_it_is_python_3_8(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"), str(file), feature_version=(3, 8))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections.abc")
        for alias in node.names
    }
    assert not imported & LATER
    if file.parent.name == "protocol":
        roots = {
            (node.module or "").partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not node.level
        } | {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert roots <= sys.stdlib_module_names
