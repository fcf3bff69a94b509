"""The request of a run: what is written into its folder is all that was asked, and is read back."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_lab.core.errors import UsageError
from accel_lab.core.probe import Limits
from accel_lab.execution.programs import read_program
from accel_lab.lab import Oracle
from accel_lab.request import Request, load_request
from accel_lab.search.diagnosis import Options
from accel_lab.versions.line import VersionsRequest

st.register_type_strategy(Path, st.sampled_from(("/somewhere", "relative/x y", ".")).map(Path))
_PARTS = (Limits, Oracle, Options, VersionsRequest)
_ASKED = st.builds(
    dict,
    **{
        name: st.from_type(kind)
        for name, kind in {
            "python": str,
            "out": Path | None,
            "limits": Limits,
            "oracle": Oracle,
            "options": Options,
            "cold": bool,
            "stdin": Path | None,
            "workers": int,
            "keep": bool,
            "minimize_s": float,
            "workarounds_s": float | None,
            "package": Path | None,
            "accelerator": str,
            "versions": VersionsRequest | None,
        }.items()
    },
)


def _finite(value: Any) -> bool:
    """JSON has no infinity and no NaN that equals itself."""
    text = json.dumps(value, default=str)
    return "NaN" not in text and "Infinity" not in text


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "s.py"
    path.write_text("print(1)\n")
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(asked=_ASKED)
def test_every_field_comes_back(script: Path, asked: dict[str, Any]) -> None:
    request = Request(program=read_program(str(script), None, ("--a", "b")), **asked)
    assert {field.name for field in fields(Request)} == {"program", *asked}
    if not _finite(request.to_json()):
        return
    (script.parent / "request.json").write_text(json.dumps(request.to_json()))
    assert load_request(script.parent) == request


def test_a_request_of_before_is_still_read(script: Path) -> None:
    """As runs wrote it while it left out the budget, the witness and the number of faults."""
    program = read_program(str(script), None, ())
    old = {
        "program": {"path": str(script), "module": None, "args": [], "sha256": program.sha256},
        "python": "/usr/bin/python3",
        "limits": Limits(timeout_s=20.0).to_json(),
        "check": "test -e x",
        "fail_regex": None,
        "signed_zero": True,
        "ablation": "full",
        "components": False,
        "cold": True,
        "stdin": None,
        "workers": 3,
        "cwd": "/",
    }
    (script.parent / "request.json").write_text(json.dumps(old))
    request = load_request(script.parent)
    assert request.oracle.check == "test -e x" and request.oracle.comparison.signed_zero
    assert request.options == Options(ablation="full", components=False)
    assert request.limits.timeout_s == 20.0 and request.workers == 3 and request.cold


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": "2"},
        {"limits": []},
        {"oracle": {"check": 1}},
        {"options": None},
        {"program": {"args": "x"}},
    ],
)
def test_a_strange_request_is_refused(script: Path, wrong: dict[str, Any]) -> None:
    request = Request(program=read_program(str(script), None, ()))
    (script.parent / "request.json").write_text(json.dumps({**request.to_json(), **wrong}))
    with pytest.raises(UsageError, match=r"request\.json is damaged"):
        load_request(script.parent)
