"""The loop interpreter: right where lowering is right, wrong where it is wrong, deaf to what lies below."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[1] / "fakes"
CHILD = HERE.parents[1] / "bisect" / "accel_lab" / "child"
CASES = re.findall(
    r"^@case\(.*\n(?:.*\n)*?def (\w+)", (HERE / "torch_loops_cases.py").read_text(), re.MULTILINE
)

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def run_torch(python: str, arguments: list[str], cache: Path) -> str:
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(cache))
    command = [python, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def told(torch_pythons: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each interpreter tells of the cases, by rung: an empty string where all is equal to eager."""
    script = str(HERE / "torch_loops_cases.py")
    cache = tmp_path_factory.mktemp("inductor")
    words = {python: ["together"] if python == torch_pythons[0] else [] for python in torch_pythons}
    return {
        python: json.loads(run_torch(python, [script, str(CHILD), *words[python]], cache))
        for python in torch_pythons
    }


#: What the interpreter may say instead of running fused loops index by index.
TOO_MANY = "not interpretable: fused loops over too many points to run them one by one"


@pytest.mark.parametrize("mode", ["loops", "scheduled"])
@pytest.mark.parametrize("name", CASES)
def test_program_is_equal_to_eager(told: dict[str, Any], name: str, mode: str) -> None:
    assert {python: answer[mode][name] for python, answer in told.items()} == dict.fromkeys(told, "")


@pytest.mark.parametrize("name", CASES)
def test_fused_loops_are_equal_to_eager(told: dict[str, Any], torch_python: str, name: str) -> None:
    assert told[torch_python]["together"][name] in ("", TOO_MANY)


def test_every_case_is_asserted_here(told: dict[str, Any], torch_python: str) -> None:
    assert CASES
    for answer in told.values():
        assert list(answer["loops"]) == list(answer["scheduled"]) == CASES
    assert list(told[torch_python]["together"].values()).count("") > len(CASES) / 2


# A fault in each layer, put in by hand, and the rungs on which it must show: one word a rung.
FAULTS = """
import functools, importlib.util, json, sys
from pathlib import Path
import torch
child = Path(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "accel_lab_child", child / "__init__.py", submodule_search_locations=[str(child)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["accel_lab_child"])
loops = importlib.import_module("accel_lab_child.loops.interpreter")
seen = {}

def verdict(function, inputs, scheduled, **patches):
    torch._dynamo.reset()
    hear = lambda kind, text: seen.setdefault(kind, text)
    backend = functools.partial(
        loops.compile_loops, scheduled=scheduled, config_patches=patches, on_graph=hear
    )
    try:
        got = torch.compile(function, backend=backend)(*inputs)
    except Exception as error:
        return "unknown" if loops.not_interpretable(error) else type(error).__name__
    return "pass" if torch.allclose(got, function(*inputs)) else "wrong"

def both(function, inputs, **patches):
    return [verdict(function, inputs, scheduled, **patches) for scheduled in (False, True)]

x = torch.randn(6, 7)
answer = {}
"""

LAYERS = """
from unittest import mock
from torch._inductor import ir, scheduler
from torch._inductor.lowering import lowerings, make_pointwise
from torch._inductor.virtualized import ops

answer["codegen"] = both(torch.relu, [x], **{"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"})

wrong = make_pointwise(lambda a: ops.add(a, ops.constant(1.0, torch.float32)))
with mock.patch.dict(lowerings, {torch.ops.aten.sin.default: wrong}):
    answer["lowering"] = both(torch.sin, [x])

def doubled(a):
    return a.t().contiguous() * 2

def reordered(self, *args, **kwargs):
    sizes, body = original(self, *args, **kwargs)
    body.indexing_exprs = {k: v * 0 if "index0" == k else v for k, v in body.indexing_exprs.items()}
    return sizes, body

original = ir.ComputedBuffer.simplify_and_reorder
with mock.patch.object(ir.ComputedBuffer, "simplify_and_reorder", reordered):
    answer["scheduler"] = both(doubled, [x])

def outside(a):
    return a.expand(6, 7) + 0

def beyond(loader, shift):
    return lambda index: loader([index[0] + shift, *index[1:]])

def bad_sin(a):
    return ir.Pointwise.create(
        device=a.get_device(), dtype=a.get_dtype(), inner_fn=beyond(a.make_loader(), 1), ranges=a.get_size()
    )

with mock.patch.dict(lowerings, {torch.ops.aten.sin.default: bad_sin}):
    answer["out_of_bounds"] = both(torch.sin, [x])

answer["unknown"] = []
strange = make_pointwise(lambda a: ops.halide_clamp(a, 3, False))
with mock.patch.dict(lowerings, {torch.ops.aten.sin.default: strange}):
    answer["unknown"] = both(torch.sin, [x])

answer["bounds_check"] = both(lambda a, i: a[i], [x, torch.tensor([1, 9])])
answer["told"] = sorted(seen)
answer["text"] = seen["loop_ir"]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def layers(torch_pythons: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("faults")
    script = folder / "faults.py"
    script.write_text(FAULTS + LAYERS, encoding="utf-8")
    return [json.loads(run_torch(python, [str(script), str(CHILD)], folder)) for python in torch_pythons]


@pytest.mark.parametrize(
    ("fault", "verdicts"),
    [
        ("codegen", ["pass", "pass"]),
        ("lowering", ["wrong", "wrong"]),
        ("scheduler", ["pass", "wrong"]),
        ("out_of_bounds", ["IndexError", "IndexError"]),
        ("unknown", ["unknown", "unknown"]),
        ("bounds_check", ["RuntimeError", "RuntimeError"]),
    ],
)
def test_fault_shows_from_its_layer_on(layers: list[dict[str, Any]], fault: str, verdicts: list[str]) -> None:
    assert [answer[fault] for answer in layers] == [verdicts] * len(layers)


def test_graphs_are_told(layers: list[dict[str, Any]]) -> None:
    for answer in layers:
        assert answer["told"] == ["loop_ir", "post_grad", "scheduled_ir"]
        assert "ComputedBuffer" in answer["text"] and "relu" in answer["text"]


def test_caches_do_not_answer_instead(torch_python: str, tmp_path: Path) -> None:
    """A second process with warm caches still interprets: the case counts its kernels."""
    script = str(HERE / "torch_loops_cases.py")
    for _ in range(2):
        answer = json.loads(run_torch(torch_python, [script, str(CHILD), "pointwise_chain"], tmp_path))
        assert answer == {"loops": {"pointwise_chain": ""}, "scheduled": {"pointwise_chain": ""}}


UNITS = """
import importlib.util, itertools, json, sys
from pathlib import Path
import sympy, torch
child = Path(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "accel_lab_child", child / "__init__.py", submodule_search_locations=[str(child)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["accel_lab_child"])
index = importlib.import_module("accel_lab_child.loops.index_expressions")
from torch.utils._sympy import functions as f

i, s = sympy.Symbol("i", integer=True), sympy.Symbol("s", integer=True, positive=True)
values = {i: torch.arange(-6, 7), s: 5}
expressions = {
    "floor": (f.FloorDiv(i, 4), lambda i: i // 4),
    "modular": (f.ModularIndexing(i + 6, 2, 3), lambda i: (i + 6) // 2 % 3),
    "python_mod": (f.PythonMod(i, 4), lambda i: i % 4),
    "half": (sympy.Rational(1, 2) * (2 * i + 4), lambda i: i + 2),
    "polynomial": (3 * i**2 - i * s + 7, lambda i: 3 * i * i - 5 * i + 7),
    "extremes": (f.Max(f.Min(i, 3), -2), lambda i: max(min(i, 3), -2)),
    "where": (f.Where(sympy.Lt(i, 0), -i, i + s), lambda i: -i if i < 0 else i + 5),
    "clean": (f.CleanDiv(4 * i, 4) + f.Identity(s), lambda i: i + 5),
    "size": (f.FloorDiv(s * 7, 3), lambda i: 11),
    "truncated": (f.TruncToInt(f.IntTrueDiv(i, 4)), lambda i: int(i / 4)),
}
wrong = []
for name, (expr, meaning) in expressions.items():
    got = index.evaluate(expr, values.__getitem__)
    got = [got] * 13 if not torch.is_tensor(got) else got.tolist()
    if got != [meaning(n) for n in range(-6, 7)]:
        wrong.append([name, str(expr), got])
covered = []
for sizes, outer in (([3, 4, 5], 2), ([3, 4, 5], 3), ([7], 1), ([100, 2], 1), ([], 0)):
    pieces = index.blocks(sizes, outer, 10)
    points = [p for piece in pieces for p in itertools.product(*[range(a, b) for a, b in piece])]
    covered.append(points == list(itertools.product(*[range(n) for n in sizes[:outer]])))
trace = importlib.import_module("accel_lab_child.loops.nest_trace")
a, b, c = sympy.symbols("a b c", integer=True)

def reads(loops, index):
    return trace.Program(loops, 0, [trace.Instruction(trace.Ref(0), "load", ("x", index))])

logical = reads([(a, 7), (b, 5)], a + 7 * b)
positions = [
    trace.same_positions(logical, form)
    for form in (
        reads([(a, 7), (b, 5), (c, 1)], a + 7 * b),
        reads([(c, 35)], c),
        reads([(b, 5), (a, 7)], a + 7 * b),
        reads([(a, 7), (b, 5)], f.ModularIndexing(a + 7 * b, 1, 35)),
    )
]
positions.append(trace.same_positions(reads([(a, 7), (b, 5)], 5 * a + b), reads([(c, 35)], c)))
positions.append(trace.same_positions(reads([(a, s)], a), reads([(b, s)], f.FloorDiv(b, 2))))
run = importlib.import_module("accel_lab_child.loops.run")

def copies(source, target, index, extents=(2, 3)):
    loops = [(a, extents[0]), (b, extents[1])][: len(extents)]
    body = [
        trace.Instruction(trace.Ref(0), "load", (source, index)),
        trace.Instruction(None, "store", (target, 3 * a + b, trace.Ref(0), None)),
    ]
    return trace.Program(loops, len(loops), body), torch.device("cpu")

def after(execute):
    memory = {"x": torch.arange(6.0), "y": torch.zeros(6), "z": torch.full((6,), -1.0)}
    execute(memory.__getitem__, {}.__getitem__)
    return [memory["y"].tolist(), memory["x"].tolist()]

# y takes x backwards while x is overwritten; as fused loops, the second half of y is read too late
parts = [copies("x", "y", 5 - 3 * a - b), copies("z", "x", 3 * a + b)]
fused = {
    "apart": after(lambda m, s: run.run_in_turn(parts, m, s)),
    "together": after(lambda m, s: run.run_together(parts, m, s)),
}
run.MOST_POINTS = 2  # the outer loop alone is stepped through then
fused["rows"] = after(lambda m, s: run.run_together(parts, m, s))
other = [parts[0], copies("z", "x", 3 * a + b, (1, 3))]
fused["other sizes"] = after(lambda m, s: run.run_together(other, m, s))[0]
run.MOST_POINTS = 1
try:
    after(lambda m, s: run.run_together(parts, m, s))
except trace.NotInterpretable as error:
    fused["too many"] = str(error)
fused["one alone"] = after(lambda m, s: run.run_together(parts[:1], m, s))[0]  # of any size: nothing is fused
print(json.dumps({"wrong": wrong, "covered": covered, "positions": positions, "fused": fused}))
"""


def test_index_arithmetic_is_exact(torch_python: str, tmp_path: Path) -> None:
    script = tmp_path / "units.py"
    script.write_text(UNITS, encoding="utf-8")
    assert json.loads(run_torch(torch_python, [str(script), str(CHILD)], tmp_path)) == {
        "wrong": [],
        "covered": [True] * 5,
        # the same loops; memory order and a swap are not the logical order of a transposed tensor; what is
        # not affine is not known; contiguous loops may be merged; one loop cannot be reordered
        "positions": [True, False, False, False, True, True],
        "fused": {
            "apart": [[5, 4, 3, 2, 1, 0], [-1] * 6],
            "together": [[5, 4, 3, -1, -1, -1], [-1] * 6],
            "rows": [[5, 4, 3, -1, -1, -1], [-1] * 6],
            "other sizes": [5, 4, 3, 2, 1, 0],
            "too many": TOO_MANY.partition(": ")[2],
            "one alone": [5, 4, 3, 2, 1, 0],
        },
    }


ORDERS = """
import importlib.util, json, sys
from pathlib import Path
import sympy, torch
child = Path(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "accel_lab_child", child / "__init__.py", submodule_search_locations=[str(child)]
)
sys.modules["accel_lab_child"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["accel_lab_child"])
run = importlib.import_module("accel_lab_child.loops.run")
order = importlib.import_module("accel_lab_child.loops.order")
conflicts = importlib.import_module("accel_lab_child.loops.conflicts")
trace = importlib.import_module("accel_lab_child.loops.nest_trace")
i, j, t = sympy.symbols("i j t", integer=True)

def nest(name, extents, body, scatters=False):
    instructions = []
    for n, (op, *args) in enumerate(body):
        stores = op in ("store", "indirect_indexing")
        instructions.append(trace.Instruction(None if stores else trace.Ref(n), op, tuple(args)))
    made = trace.Program(list(zip((i, j), extents)), len(extents), instructions)
    made.name, made.operators, made.scatters = name, ["aten.one", "aten.last"], scatters
    return made

R = trace.Ref
def at(buffer):  # t is what an index tensor says
    return ("load", "rows", i), ("indirect_indexing", t, R(0), 4, True, True), ("load", buffer, t)

def told(rows, *nests, **memory):
    conflicts.FOUND.clear()
    memory = {"x": torch.arange(1.0, 5.0), "y": torch.tensor([5.0, 6.0, 7.0, 8.0]), "z": torch.zeros(4),
              "rows": torch.tensor(rows), **memory}
    run.run_fused([(n, torch.device("cpu")) for n in nests], memory.__getitem__, {}.__getitem__)
    found = [[r["kind"], r["buffer"], r["kernel"], r["by_contract"], r["points"]] for r in conflicts.FOUND]
    return [found, memory["x"].tolist(), memory["z"].tolist()]

half = ("constant", 0.5, torch.float32)
decay = nest("decay", [3], [*at("x"), half, ("mul", R(2), R(3)), ("store", "x", t, R(4), None)])
copied = nest("copied", [4], [("load", "y", i), ("store", "x", i, R(0), None)])
mirror = nest("mirror", [4], [("load", "x", 3 - i), ("store", "z", i, R(0), None)])
gather = nest("gather", [4], [*at("x"), ("store", "z", i, R(2), None)])
def shift(source, target):
    return nest("shift", [3], [("load", "x", i + source), ("store", "x", i + target, R(0), None)])
def put(mode, scatters=True):
    body = [("load", "rows", i), ("indirect_indexing", t, R(0), 4, True, True), ("load", "y", i),
            ("store", "x", t, R(2), mode)]
    return nest("put", [4], body, scatters)
doubled = nest("doubled", [4], [("load", "x", i), ("add", R(0), R(0)), ("store", "x", i, R(1), None)])
masked = nest("masked", [2], [("index_expr", i, torch.int64), ("constant", 5, torch.int64),
    ("gt", R(0), R(1)),
    ("masked", R(2), trace.Block([trace.Instruction(R(9), "load", ("x", i + 1))], R(9)), 0.0),
    ("load", "x", i), ("add", R(3), R(4)), ("store", "x", i, R(5), None)])
spread = nest("spread", [2, 2], [("load", "y", 2 * i + j), ("store", "x", i, R(0), None)])
same = nest("same", [2, 2], [("load", "y", i), ("store", "x", 2 * i + 0 * j, R(0), None)])
nan = torch.full((4,), float("nan"))
answer = {
    "repeated": told([2, 2, 0], decay),
    "each once": told([2, 1, 0], decay),
    "shifted up": told([0], shift(0, 1)),
    "shifted down": told([0], shift(1, 0)),
    "shifted, all equal": told([0], shift(0, 1), x=torch.ones(4)),
    "shifted, all nan": [str(told([0], shift(0, 1), x=nan.clone())[0])],
    "in place": told([0], doubled),
    "read behind a mask": told([0], masked),
    "put twice": told([1, 1, 2, 3], put(None)),
    "put twice, no scatter": told([1, 1, 2, 3], put(None, False)),
    "put twice, equal": told([1, 1, 2, 3], put(None), y=torch.ones(4)),
    "put twice, nan": [str(told([1, 1, 2, 3], put(None), y=nan.clone())[0])],
    "added twice": told([1, 1, 2, 3], put("atomic_add")),
    "added, then read": told([1, 1, 2, 3], put("atomic_add"), gather),
    "added once, then read": told([3, 1, 2, 0], put("atomic_add"), gather),
    "maximum, then read": told([1, 1, 2, 3], put("atomic_max"), gather),
    "maximum once, then read": told([3, 1, 2, 0], put("atomic_max"), gather),
    "copied, then mirrored": told([0], copied, mirror),
    "mirrored, then copied": told([0], mirror, copied),
    "copied, then the same": told([0], copied, doubled),
    "copied over": told([3, 2, 1, 0], copied, put(None)),
    "spread": told([0], spread),
    "same": told([0], same),
}
order.MOST_CHECKED = 2
answer["too large"] = told([2, 2, 0], decay)
print(json.dumps(answer))
"""

READ, WRITE = "read_write", "write_write"


def test_loops_that_depend_on_their_order_are_found(torch_pythons: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "orders.py"
    script.write_text(ORDERS, encoding="utf-8")
    start, zeros = [1.0, 2.0, 3.0, 4.0], [0.0] * 4
    # what was found; the buffers x and z afterwards, in loop order where the order matters
    expected = {
        "repeated": [[[READ, "x", "decay", False, [[0], [1]]]], [0.5, 2.0, 0.75, 4.0], zeros],
        "each once": [[], [0.5, 1.0, 1.5, 4.0], zeros],
        "shifted up": [[[READ, "x", "shift", False, [[1], [0]]]], [1.0] * 4, zeros],
        # loop order is right by luck, another order is not
        "shifted down": [[[READ, "x", "shift", False, [[0], [1]]]], [2.0, 3.0, 4.0, 4.0], zeros],
        "shifted, all equal": [[], [1.0] * 4, zeros],
        "shifted, all nan": ["[]"],
        "in place": [[], [2.0, 4.0, 6.0, 8.0], zeros],
        "read behind a mask": [[], start, zeros],
        "put twice": [[[WRITE, "x", "put", True, [[0], [1]]]], [1.0, 6.0, 7.0, 8.0], zeros],
        "put twice, no scatter": [[[WRITE, "x", "put", False, [[0], [1]]]], [1.0, 6.0, 7.0, 8.0], zeros],
        "put twice, equal": [[], [1.0, 1.0, 1.0, 1.0], zeros],
        "put twice, nan": ["[]"],
        "added twice": [[], [1.0, 13.0, 10.0, 12.0], zeros],
        "added, then read": [
            [[READ, "x", "put, gather", False, [[0], [1]]]],
            [1.0, 13.0, 10.0, 12.0],
            [7.0, 13.0, 10.0, 12.0],
        ],
        "added once, then read": [[], [9.0, 8.0, 10.0, 9.0], [9.0, 8.0, 10.0, 9.0]],
        "maximum, then read": [
            [[READ, "x", "put, gather", False, [[0], [1]]]],
            [1.0, 6.0, 7.0, 8.0],
            [5.0, 6.0, 7.0, 8.0],
        ],
        "maximum once, then read": [[], [8.0, 6.0, 7.0, 5.0], [5.0, 6.0, 7.0, 8.0]],
        "copied, then mirrored": [
            [[READ, "x", "copied, mirror", False, [[0], [3]]]],
            [5.0, 6.0, 7.0, 8.0],
            [4.0, 3.0, 6.0, 5.0],
        ],
        "mirrored, then copied": [
            [[READ, "x", "mirror, copied", False, [[0], [3]]]],
            [5.0, 6.0, 7.0, 8.0],
            [4.0, 3.0, 6.0, 5.0],
        ],
        "copied, then the same": [[], [10.0, 12.0, 14.0, 16.0], zeros],
        "copied over": [[[WRITE, "x", "copied, put", False, [[0], [3]]]], [8.0, 7.0, 7.0, 8.0], zeros],
        "spread": [[[WRITE, "x", "spread", False, [[0, 0], [0, 1]]]], [6.0, 8.0, 3.0, 4.0], zeros],
        "same": [[], [5.0, 2.0, 6.0, 4.0], zeros],
        "too large": [[["unchecked", "x", "decay", False, []]], [0.5, 2.0, 1.5, 4.0], zeros],
    }
    for python in torch_pythons:
        assert json.loads(run_torch(python, [str(script), str(CHILD)], tmp_path)) == expected
