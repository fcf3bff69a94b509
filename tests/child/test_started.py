"""What the processes that a script starts leave, put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accel_lab.child.processes import started


def left(folder: Path, number: int, **facts: Any) -> None:
    place = folder / "processes" / str(number)
    place.mkdir(parents=True)
    facts = {"regions": [{"calls": 1}], **facts}
    (place / "result.json").write_text(json.dumps({"facts": facts}), encoding="utf-8")


def kernel(op: str, *different: str) -> dict[str, Any]:
    return {"op": op, "keys": ["Autograd"], "kernel": "k", "different": [{"what": one} for one in different]}


def test_one_process_has_the_inputs_on_which_kernels_differ(tmp_path: Path) -> None:
    left(tmp_path, 1, python_kernels={"kernels": [kernel("a"), kernel("b")]})
    left(tmp_path, 2, python_kernels={"kernels": [kernel("a", "value"), kernel("c")]})
    left(tmp_path, 3, python_kernels={"kernels": [kernel("a", "value", "stride")]})
    found = started.facts_of(str(tmp_path))["python_kernels"]["kernels"]
    assert found == [kernel("a", "value", "stride"), kernel("b"), kernel("c")]


def test_observations_of_all_processes_are_kept_once(tmp_path: Path) -> None:
    left(tmp_path, 1, meta_mismatches=[{"op": "a"}])
    left(tmp_path, 2, meta_mismatches=[{"op": "a"}, {"op": "b"}])
    assert started.facts_of(str(tmp_path))["meta_mismatches"] == [{"op": "a"}, {"op": "b"}]


def test_facts_are_those_of_the_process_in_which_a_region_raised(tmp_path: Path) -> None:
    left(tmp_path, 1, counters={"frames": {"ok": 1}})
    left(tmp_path, 2, counters={"frames": {"ok": 2}}, caught=[{"type": "RuntimeError"}])
    found = started.facts_of(str(tmp_path))
    assert found["counters"] == {"frames": {"ok": 2}}
    assert "python_kernels" not in found and "meta_mismatches" not in found
