"""Writes a capsule: a graph, its inputs as safetensors, and a description of the failure.

``capsule.json`` has the failure, versions and settings. ``graph0.json`` and its files are a captured graph
(``capture.graphs``), from which the lab writes ``repro.py``. No pickle is written.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

import torch

from ..artifacts import write_json
from ..capture.graphs import CapturedGraph
from ..capture.values import Budget
from ..torch_internals.settings import changed_config
from .main import rank

SCHEMA = "accel-lab/capsule/1"
NAME = "capsule.json"


class CapturedFailure(NamedTuple):
    """A failure at call ``turn`` of a graph; ``kind`` is ``wrong`` (with ``rows``), ``raises`` or ``hangs``.

    ``error`` describes the exception of ``raises``. ``stand_ins``: the failure was during compilation, so the
    inputs are random.
    """

    kind: str
    turn: int
    rows: Optional[List[Dict[str, Any]]] = None
    error: Optional[Dict[str, Any]] = None
    stand_ins: bool = False


class CapsuleFolder:
    """The folder of one capsule; ``path`` gets a number appended if it exists."""

    def __init__(self, path: str, most_bytes: int) -> None:
        self.path = _free(os.path.abspath(path))
        self._most = most_bytes

    def write(self, eager_graph: Any, options: Any, call: Any, failure: CapturedFailure) -> None:
        """Writes the graph and the call, then ``capsule.json``, which marks the capsule as complete."""
        os.makedirs(self.path)
        region = {"id": 0, "backend": "inductor", "fullgraph": False, "dynamic": None}
        region["options"] = {str(key): repr(value) for key, value in options.items()}
        graph = CapturedGraph(self.path, 0, eager_graph, region, Budget(self._most))
        if graph.expressible:
            graph.keep(call.inputs, call.state, call.settings, call.incoming)
        calls = graph.data["calls"]
        data = {
            "schema": SCHEMA,
            "kind": failure.kind,
            "call": failure.turn,
            "rows": [_row(row) for row in (failure.rows or [])[:20]],
            "error": _error(failure.error),
            "stand_ins": failure.stand_ins,
            "reason": graph.data["reason"] or (calls[0]["reason"] if calls else ""),
            "rank": rank(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "executable": sys.executable,
            "settings": changed_config(),
            "verified": None,
            "said": "",
        }
        write_json(os.path.join(self.path, NAME), data, indent=1)


def _row(row: Dict[str, Any]) -> Dict[str, Any]:
    """A comparison as JSON; an infinite or NaN error becomes text."""
    kept = {key: row.get(key) for key in ("what", "shape", "dtype", "wrong", "values", "reference")}
    for key in ("error", "eager"):
        value = row.get(key)
        kept[key] = value if value is None or abs(value) < float("inf") else str(value)
    return kept


def _error(error: Optional[Dict[str, Any]]) -> Optional[Dict[str, str]]:
    if error is None:
        return None
    return {"type": str(error.get("type", "")), "message": str(error.get("message", ""))[:2000]}


def _free(path: str) -> str:
    number, name = 1, path
    while os.path.exists(name):
        number += 1
        name = "%s-%d" % (path, number)
    return name
