"""The names that `import accel_lab` promises: each is there and has a type; the README's example runs."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import accel_lab
from accel_lab import Findings
from accel_lab.session import Session
from fakes_run import FakeRun

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(accel_lab.__file__)


def examples(word: str) -> list[str]:
    """The Python examples of the user's documentation in which a word stands."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)]
    return [textwrap.dedent(block) for block in blocks if word in block]


def typed_names() -> dict[str, str]:
    """The names that a type checker sees, and the modules that it takes them from."""
    (guarded,) = (
        node for node in ast.parse(SOURCE.read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )  # fmt: skip
    found = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}


def test_a_type_checker_sees_what_is_loaded() -> None:
    assert typed_names() == accel_lab._PUBLIC
    assert set(accel_lab.__all__) == {*accel_lab._PUBLIC, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'bisect'"):
        accel_lab.bisect  # type: ignore[attr-defined]  # noqa: B018


def test_the_example_of_a_bisection_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a session that answers at once; that it finds what it should is for the tests of the session."""
    run = FakeRun(tmp_path, "rich")
    asked: list[Any] = []

    def answer(session: Session) -> Findings:
        asked.append(session.request)
        return run.findings

    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Session, "run", answer)
    monkeypatch.chdir(tmp_path)
    found = examples("bisect_script(")
    assert found
    for example in found:
        exec(compile(example, "example", "exec"), {})
    assert [Path(request.program.path).name for request in asked] == ["repro.py"] * len(found)
    assert run.findings.culprit is not None
    assert str(run.findings.culprit.stage) in capsys.readouterr().out
