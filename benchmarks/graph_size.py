"""Counts the operators of every graph that a script compiles: one measure for all reducers' results.

    python benchmarks/graph_size.py SCRIPT

Runs inside the probed interpreter, so it needs torch and nothing else. Every ``torch.compile`` of the
script goes to a backend that counts and runs the graph as it is; the last line is a JSON object.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import Any

OPERATORS = ("call_function", "call_method", "call_module")


def operators(nodes: Any) -> int:
    """Nodes that compute something: no inputs, no constants, no output, no picking from a tuple."""
    return sum(n.op in OPERATORS and getattr(n.target, "__name__", "") != "getitem" for n in nodes)


def count(script: str) -> dict[str, int]:
    """Operators after Dynamo and after AOTAutograd (forward and backward), over all graphs."""
    import torch
    from torch._dynamo.backends.common import aot_autograd

    total = {"dynamo": 0, "aten": 0}

    def seen(gm: Any, inputs: Any) -> Any:
        total["aten"] += operators(gm.graph.nodes)
        return gm.forward

    inner = aot_autograd(fw_compiler=seen, bw_compiler=seen)

    def backend(gm: Any, inputs: Any, **options: Any) -> Any:
        total["dynamo"] += operators(gm.graph.nodes)
        return inner(gm, inputs)

    compile_ = torch.compile

    def counting(model: Any = None, **options: Any) -> Any:
        for name in ("mode", "options"):
            options.pop(name, None)
        options["backend"] = backend
        return compile_(model, **options) if model is not None else lambda fn: counting(fn, **options)

    torch.compile = counting
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).resolve().parent))
    # How the script ends, by an exception or by sys.exit, says nothing here.
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(script, run_name="__main__")
    return total


if __name__ == "__main__":
    print(json.dumps(count(sys.argv[1])))
