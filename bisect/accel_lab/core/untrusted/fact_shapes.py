"""The shapes of a child's ``result.json``, as far as the lab reads it without further checks.

The keys are those of ``protocol/facts.py``. Other keys are never read and may hold anything.
"""

from __future__ import annotations

from typing import Any

from .shapes import Range, Shape, Table

_COUNT = Range(0)
_NUMBER = (None, int, float, str)
_TEXTS = (None, [str])
_TEXT = (None, str)
_FLAG = (None, bool)
_STATE = Table(str)

_REGION = {
    "id": _COUNT,
    "name": str,
    "backend?": (None, bool, int, str),
    "calls?": (None, _COUNT),
    "graphs?": (None, _COUNT),
    "rung?": _TEXT,
    "wraps?": _TEXT,
    "fullgraph?": (None, bool, int, str),
    "options?": (None, Table()),
}
_FRAME = {"file": str, "line": (None, Range(-1)), "function": str}
RAISED: Shape = {
    "type": str,
    "message": str,
    "frames?": [_FRAME],
    "text?": str,
    "links?": [[str]],
    "operator?": str,
}
_CALL = {
    "region": (None, int, str),
    "call": _COUNT,
    "before": _STATE,
    "after": _STATE,
    "raised?": _TEXT,
    "born?": (None, [_COUNT]),
    "ran?": (None, [_COUNT]),
    "guards?": (None, [_COUNT]),
}
_FRONT = {
    "frames?": [{"key": str}],
    "inlined?": [{"key": str, "caller": _TEXT}],
    "units?": object,
    "guards?": _TEXTS,
    "names?": _TEXTS,
    "calls?": [_CALL],
    "calls_left_out?": (None, int),
}
_DIVERGED = {
    "node": str,
    "op": str,
    "shape": [_COUNT],
    "dtype": str,
    "differs": bool,
    "error": _NUMBER,
    "wrong": (None, int, float),
    "eager": _NUMBER,
    "values": object,
    "inputs?": _TEXTS,
    "between?": _TEXTS,
    "module?": _TEXT,
    "source?": _TEXT,
}
_ACCELERATOR_ENVIRONMENT = (
    None,
    {"variables": Table(_TEXT), "package?": _TEXT, "version?": _TEXT, "commit?": _TEXT},
)
_APPLICATION = {
    "subsystem": str,
    "key": str,
    "parent?": _TEXT,
    "changed?": _FLAG,
    "graph?": (None, Table((None, bool, int, str))),
    **{f"{name}?": _TEXT for name in ("raised", "function", "at", "hook", "search", "node")},
    **{f"{name}?": (None, [(int, str)]) for name in ("nodes", "added")},
}
_STEP = {
    "kind": str,
    "name": str,
    "tensor": str,
    "wrong": int,
    "of": int,
    "shape": [_COUNT],
    "dtype": str,
    "strides": [int],
    "offset": int,
}
_TRACED = {"program": object, "call": object, "name": str, "origins": [str], "graph": object}

_PLACE = {"function": str, "file": str, "line": _COUNT}
_COMPILE_LOG = {
    "frames": [
        {
            **_PLACE,
            "id": str,
            "operators": _COUNT,
            "guard_count": _COUNT,
            "guards": _TEXTS,
            "seconds": (int, float),
            "backend_seconds": (int, float),
            "code_gen_seconds": (int, float),
            "restarts": [str],
            "failed": str,
        }
    ],
    "frames_left_out": _COUNT,
    "breaks": [
        {**_PLACE, "source": str, "reason": str, "explanation": [str], "hints": [str], "times": _COUNT}
    ],
    "recompiles": [{**_PLACE, "failed": [{"compilation": str, "guard": str, "value": _TEXT}]}],
    "recompiles_left_out": _COUNT,
    "limit": _COUNT,
    "at_limit": [_PLACE],
}

FACTS: dict[str, Shape] = {
    "regions": (None, [_REGION]),
    "caught": (None, [{**RAISED, "region?": (None, int)}]),
    "kernels": (
        None,
        [{"file": str, "language": str, "text": str, "origins": Table([int]), "sources?": Table(str)}],
    ),
    "other_entries": (None, [Table()]),
    "graphs": (None, _COUNT),
    "reached": _TEXTS,
    "dtypes": _TEXTS,
    "graph_texts": _TEXTS,
    "shadow_fallbacks": _TEXTS,
    "random": _FLAG,
    "not_applicable": _TEXT,
    "lab_error": (None, {"type?": _TEXT, "message?": _TEXT}),
    "meta_mismatches": (None, [{"op": str, "what": str, "real": str, "fake": str}]),
    "graph_inputs": (None, [{"name": str, "what": str, "promised": str, "given": str}]),
    "counters": (None, Table(Table())),
    "shown": (None, {"before": object, "after": object}),
    "compile_log": (None, _COMPILE_LOG),
    "compiles": (None, {"again?": (None, [Table()]), "breaks?": (None, [object]), "limit?": (None, int)}),
    "mixed_sources": (None, {"loaded": [str], "executed": [str], "at_import": [str]}),
    "config": (None, Table()),
    "applied": (None, Table([str])),
    "applications": (None, [_APPLICATION]),
    "order_conflicts": (None, [{"operators?": _TEXTS}]),
    "front": (None, _FRONT),
    "python_kernels": (
        None,
        {"kernels?": [{"op": str, "keys": [str], "kernel": str, "different": [Table()]}], "removed?": object},
    ),
    "measures": (None, Table((None, float, Table(), [object]))),
    "mock": (
        None,
        {
            "faults?": _TEXTS,
            "kernels?": (None, [_TRACED]),
            "steps?": (None, {"wrong?": (None, [_STEP])}),
            "environment?": _ACCELERATOR_ENVIRONMENT,
        },
    ),
    "accelerator": (
        None,
        {
            "name?": _TEXT,
            "ways?": (None, [[str]]),
            "parts?": _TEXTS,
            "violations?": (None, Table(int)),
            "last?": _TEXT,
            "faults?": _TEXTS,
            "kernels?": (None, [_TRACED]),
            "steps?": (None, {"wrong?": (None, [_STEP])}),
            "environment?": _ACCELERATOR_ENVIRONMENT,
        },
    ),
    "divergence": (None, {"graphs?": [{"rows": [_DIVERGED]}], "problems?": _TEXTS}),
    "determinism": (None, Table()),
}

RESULT: dict[str, Any] = {
    "raised?": (None, RAISED),
    "torch?": _TEXT,
    "python?": _TEXT,
    "notes?": _TEXTS,
    "facts?": (None, {f"{name}?": shape for name, shape in FACTS.items()}),
}
