"""What the child writes of a small graph's layers, as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

F4, F8 = {"dtype": "float32", "shape": [2, 3], "bytes": 24}, {"dtype": "float64", "shape": [4], "bytes": 32}
BAD = "<script>alert(1)</script>"


def node(
    name: str, op: str, target: str, inputs: tuple[str, ...] = (), *tensors: dict[str, Any], code: str = ""
) -> dict[str, Any]:
    """A node as the child writes it."""
    source = "/home/me/model.py:7" if code else ""
    return {
        "name": name,
        "op": op,
        "target": target,
        "inputs": list(inputs),
        "tensors": list(tensors),
        "source": source,
        "code": code,
    }


def graph() -> list[dict[str, Any]]:
    """x (24 bytes), its view, a product (24), a cast (32 more), returned."""
    return [
        node("x", "placeholder", "x", (), {**F4, "storage": 0}),
        node("view", "call_function", "aten.view.default", ("x",), {**F4, "shape": [6], "storage": 0}),
        node("mul", "call_function", "aten.mul.Tensor", ("view",), {**F4, "storage": 1}, code="y = x * 2"),
        node("cast", "call_function", "aten.cast." + BAD, ("mul",), {**F8, "storage": 2}, code=BAD),
        node("output", "output", "output", ("cast",)),
    ]


def layers() -> list[dict[str, Any]]:
    """Dynamo's graph, the backward graph, and loop IR."""
    return [
        {
            "kind": "dynamo",
            "direction": "",
            "order": 0,
            "file": "dynamo_0.py",
            "nodes": graph(),
            "left_out": 0,
        },
        {
            "kind": "post_grad",
            "direction": "backward",
            "order": 1,
            "file": "post_grad_0.py",
            "nodes": graph(),
        },
        {"kind": "ir_pre_fusion", "direction": "forward", "order": 2, "file": "ir_0.txt", "parts": 3},
    ]


def write(folder: Path) -> None:
    """A probe's folder with these layers, their texts, and a last line that was not finished."""
    (folder / "layers").mkdir(parents=True)
    for row in layers():
        (folder / "layers" / row["file"]).write_text(f"# {row['kind']} {BAD}\n")
    lines = "".join(json.dumps(row) + "\n" for row in layers())
    (folder / "layers.jsonl").write_text(lines + '{"kind": "dyn')


KERNEL = {
    "file": "ck.cpp",
    "language": "cpp",
    "text": "void kernel() {\n  auto t = x * 2;\n  out = (double)t;\n}",
    "origins": {"mul target=aten.mul.Tensor#0": [2], "cast target=aten.cast.default#0": [2, 3]},
    "sources": {"mul target=aten.mul.Tensor#0": "/home/me/model.py:7 y = x * 2"},
}
