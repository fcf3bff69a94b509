"""The switches: what a child refuses, and that lab and child mean the same ones."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import accel_lab
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.protocol.job import PROTOCOL, job_error
from accel_lab.protocol.switches import SWITCHES, Shape, switch_error

PACKAGE = Path(accel_lab.__file__).parent


@pytest.mark.parametrize(
    ("rung", "switches", "says"),
    [
        ("kernel", {"fusions": True}, "unknown switch fusions"),
        ("kernel", {"fresh": 1}, "switch fresh takes true or false"),
        ("kernel", {"caches": "fx"}, "switch caches takes a list of names"),
        ("kernel", {"caches": [1]}, "switch caches takes a list of names"),
        ("uncompiled", {"other_random": True}, "switch other_random takes a whole number"),
        ("kernel", {"divergence": []}, "switch divergence takes true or false or an object"),
        ("dynamo", {"front": {"look": True, "lok": True}}, "switch front has no key lok"),
        ("loops", {"together": True}, "rung loops does not support switch together"),
        ("kernel", {"contiguous": True}, "rung kernel does not support switch contiguous"),
        ("aot", {"caches": ["fx"]}, "rung aot does not support switch caches"),
    ],
)
def test_what_is_not_known_is_refused(rung: str, switches: dict[str, Any], says: str) -> None:
    assert switch_error(rung, switches) == says


@pytest.mark.parametrize(
    ("rung", "switches"),
    [
        ("kernel", {"inductor": {"cpp.simdlen": 1}, "off": {"lowerings": "all"}, "strict_math": True}),
        ("scheduled", {"together": True, "hold": {"0": "uncompiled"}}),
        ("kernel", {"divergence": {"realize": False}, "caches": ["fx"]}),
        ("dynamo", {"capture": True, "caches": ["fx"], "python_kernels": "compare"}),
        ("dynamo", {"front": {"stop": ["f file.py:1", 3], "fullgraph": False}}),
        ("mock", {"mock": {"cores": 1}}),
    ],
)
def test_what_is_known_is_not_refused(rung: str, switches: dict[str, Any]) -> None:
    assert switch_error(rung, switches) == ""


def test_every_switch_is_used_by_the_child_and_asked_by_the_lab() -> None:
    """A switch that nothing reads, or nothing asks for, is dead."""
    child = {word for file in (PACKAGE / "child").rglob("*.py") for word in _strings(file)}
    lab = {
        word
        for folder in ("search", "versions", "minimize", "cli", "execution")
        for file in (PACKAGE / folder).rglob("*.py")
        for word in _strings(file)
    }
    assert set(SWITCHES) <= child
    assert set(SWITCHES) <= lab
    assert all(record.name == name and record.words for name, record in SWITCHES.items())
    assert all(Shape.TABLE in record.shapes for record in SWITCHES.values() if record.keys)


def _strings(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str}


def test_a_job_of_another_protocol_or_rung_is_refused() -> None:
    job = {"protocol": PROTOCOL, "rung": "fx", "switches": {}}
    assert job_error(job) == ""
    assert job_error({**job, "rung": "vx"}) == "unknown rung vx"
    assert job_error({**job, "protocol": PROTOCOL + 1}).startswith(f"protocol mismatch: lab {PROTOCOL + 1}")
    assert job_error({"rung": "fx", "switches": {}}).startswith("protocol mismatch: lab None")
    assert job_error({**job, "switches": {"together": True}}).startswith("rung fx does not support")


@pytest.mark.parametrize(
    ("switches", "label"),
    [
        ({}, "kernel"),
        ({"off": {"lowerings": "all"}}, "kernel every operator falls back to eager"),
        ({"inductor": {"cpp.simdlen": 1}}, "kernel Inductor's settings: cpp.simdlen=1"),
        ({"shadow": True, "caches": ["fx"]}, "kernel a float64 run alongside, torch's caches on: fx"),
    ],
)
def test_a_progress_line_says_a_switch_in_words(switches: dict[str, Any], label: str) -> None:
    probe = Probe(program=Program(path="x.py"), rung=Rung.KERNEL, switches=tuple(switches.items()))
    assert probe.label == label
