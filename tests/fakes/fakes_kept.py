"""Folders of finished runs of every command that is no bisection, as the commands leave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accel_lab.execution.run_folder.marker import mark

BAD = "<script>alert(1)</script>|"
PROGRAM = "model.py"
#: What each command writes.
FILES: dict[str, dict[str, Any]] = {
    "run": {"program": PROGRAM, "torch": "2.9.0", "rung": "kernel", "failed": "ValueError: no"},
    "check": {
        "program": PROGRAM,
        "torch": "2.9.0",
        "accelerator": "mock",
        "constraints": ["dtype", "layout"],
        "violations": [
            {"constraint": "dtype", "severity": "error", "count": 2},
            {"constraint": "dtype", "severity": "error", "count": 1},
            {"constraint": "layout", "severity": "warning", "count": 1},
        ],
    },
    "diff": {
        "program": PROGRAM,
        "torch": "2.9.0",
        "test": "inductor",
        "reference": "eager",
        "summary": {"values": 2, "differ": 1},
        "rows": [{"metrics": {"relative": {"max": 0.25}}}, {"metrics": None}],
    },
    "guards": {"program": PROGRAM, "torch": "2.9.0", "breaks": [{"times": 3}], "recompilations": []},
    "capture": {
        "program": PROGRAM,
        "torch": "2.9.0",
        "backend": "own",
        "failed": "",
        "layers": [{}],
        "kernels": [],
    },
}
KINDS = tuple(FILES)


def write(folder: Path, kind: str, **changes: Any) -> Path:
    """The folder of one run."""
    folder.mkdir(parents=True)
    mark(folder, kind)
    (folder / f"{kind}.json").write_text(json.dumps({**FILES[kind], **changes}))
    return folder


def write_all(base: Path) -> None:
    """One run of each kind."""
    for kind in KINDS:
        write(base / f"kept-{kind}", kind)


def write_bisection(folder: Path, **changes: Any) -> Path:
    """A finished bisection that found a lowering."""
    folder.mkdir(parents=True)
    mark(folder, "bisect")
    culprit = {"stage": "lowering", "confidence": "proven", "component": {"name": "aten.sum"}}
    report = {
        "verdict": "fails",
        "script": {"path": f"/home/me/{PROGRAM}", "module": None},
        "culprit": culprit,
        "ladder": [{"verdict": "good", "torch": "2.9.0"}, {"verdict": "bad", "max_abs_error": 0.5}],
    }
    (folder / "request.json").write_text("{}")
    (folder / "report.json").write_text(json.dumps({**report, **changes}))
    (folder / "report.html").write_text("page")
    return folder
