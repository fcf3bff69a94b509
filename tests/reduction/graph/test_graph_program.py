"""Captured graphs as programs: what is read, what is kept alive, how it is written out."""

from __future__ import annotations

import ast
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.reduction.graph import edits, input_edits
from accel_lab.reduction.graph.arguments import Name, Ref
from accel_lab.reduction.graph.emit import Check, emit
from accel_lab.reduction.graph.inputs import constructor
from accel_lab.reduction.graph.load import Capture, load_captures, program_of, programs_of, short_name
from accel_lab.reduction.graph.program import Made, Program, Stored, TensorInput, live, with_function
from accel_lab.reduction.graph.values import packed, read_literal, write_safetensors

F4 = {"shape": [4], "dtype": "float32", "stride": [1], "device": "cpu", "requires_grad": False}


def node(name: str, target: str, *args: Any, op: str = "call_function", **kwargs: Any) -> dict[str, Any]:
    return {"name": name, "op": op, "target": target, "args": list(args), "kwargs": kwargs, "meta": F4}


def ref(name: str) -> dict[str, str]:
    return {"ref": name}


def write_capture(
    folder: Path,
    nodes: list[dict[str, Any]],
    *,
    number: int = 0,
    inputs: int = 1,
    values: tuple[str, ...] = (),
    **changes: Any,
) -> None:
    """A capture as the child writes it: ``inputs`` vectors of four numbers named l_x0_, l_x1_, ..."""
    place = folder / "capture"
    place.mkdir(exist_ok=True, parents=True)
    names = [f"l_x{i}_" for i in range(inputs)]
    numbers = struct.pack("<4f", 1.0, 2.5, -3.0, 0.1)
    data = {f"s{i}": numbers for i in range(inputs)}
    write_safetensors(place / f"graph{number}_call0.safetensors", data, dict.fromkeys(data, "F32"))
    if values:
        kept = dict.fromkeys(values, numbers)
        write_safetensors(place / f"graph{number}_values.safetensors", kept, dict.fromkeys(kept, "F32"))
    view = {"kind": "tensor", "dtype": "float32", "size": [4], "stride": [1], "offset": 0}
    call: dict[str, Any] = {
        "order": number + 1,
        "reason": "",
        "file": f"graph{number}_call0.safetensors",
        "values": f"graph{number}_values.safetensors" if values else "",
        "backward": [],
        "storages": {f"s{i}": {"dtype": "float32", "numel": 4, "device": "cpu"} for i in range(inputs)},
        "inputs": [
            {**view, "name": name, "storage": f"s{i}", "requires_grad": False, "leaf": True}
            for i, name in enumerate(names)
        ],
        "settings": {"grad": True, "inference": False, "default_dtype": "float32", "autocast": []},
        "metas": {},
    }
    call.update(changes.pop("call", {}))
    placeholders = [{"name": name, "op": "placeholder", "meta": F4} for name in names]
    described = {
        "graph": number,
        "reason": "",
        "compile": {"backend": "inductor", "options": {}, "fullgraph": False, "dynamic": None},
        "nodes": placeholders + nodes,
        "functions": {},
        "sizes": {},
        "calls": [call],
        **changes,
    }
    (place / f"graph{number}.json").write_text(json.dumps(described))


def output(*names: str) -> dict[str, Any]:
    return {
        "name": "output",
        "op": "output",
        "args": [{"tuple": [ref(name) for name in names]}],
        "kwargs": {},
        "meta": None,
    }


def one(folder: Path, nodes: list[dict[str, Any]], **changes: Any) -> Program:
    write_capture(folder, nodes, **changes)
    return program_of(load_captures(folder)[0])


def source(program: Program, **check: Any) -> str:
    text = emit(program, Check(**check)).source
    ast.parse(text)
    return text


# -- reading ---------------------------------------------------------------------------------------


def test_a_capture_that_is_not_expressible_is_told_and_not_tried(tmp_path: Path) -> None:
    write_capture(tmp_path, [output("l_x0_")], number=0, reason="mine.op is not torch's own")
    write_capture(tmp_path, [node("y", "torch.neg", ref("l_x0_")), output("y")], number=1)
    captures = load_captures(tmp_path)
    assert [capture.reason for capture in captures] == ["mine.op is not torch's own", ""]
    assert len(programs_of(captures)) == 1


def test_programs_are_tried_last_graph_first_and_all_in_sequence_at_the_end(tmp_path: Path) -> None:
    for number, target in enumerate(("torch.neg", "torch.abs")):
        write_capture(tmp_path, [node("y", target, ref("l_x0_")), output("y")], number=number)
    programs = programs_of(load_captures(tmp_path))
    targets = [[f.body[0].target for f in program.functions] for program in programs]
    assert targets == [["torch.abs"], ["torch.neg"], ["torch.neg", "torch.abs"]]
    text = source(programs[-1])
    assert "run(torch.compile(f0), torch.compile(f1))" in text
    assert text.count("results.append(") == 2


def test_a_symbolic_size_is_read_off_the_tensor_that_has_it(tmp_path: Path) -> None:
    nodes = [
        {"name": "s0", "op": "placeholder", "meta": None},
        node("y", "view", ref("l_x0_"), ref("s0"), op="call_method"),
        output("y"),
    ]
    write_capture(tmp_path, nodes, sizes={"s0": ["l_x0_", 0]})
    path = tmp_path / "capture" / "graph0.json"
    data = json.loads(path.read_text())
    data["calls"][0]["inputs"].append({"name": "s0", "kind": "value", "value": 4})
    path.write_text(json.dumps(data))
    text = source(program_of(load_captures(tmp_path)[0]))
    assert "def f(x0):" in text
    assert "s0 = x0.shape[0]" in text
    assert "x0.view(s0)" in text
    assert "dynamic=True" in text


@pytest.mark.parametrize(
    ("captured", "short"),
    [
        ("l_x_", "x"),
        ("l_self_modules_layers_modules_0_parameters_weight_", "weight"),
        ("l_self_buffers_running_mean_", "running_mean"),
        ("L_", "L"),
        ("l_" + "long" * 20, "x"),
    ],
)
def test_names_are_those_a_person_would_give(captured: str, short: str) -> None:
    assert short_name(captured) == short


# -- what is kept ----------------------------------------------------------------------------------


def test_what_nothing_needs_goes_and_what_has_an_effect_stays(tmp_path: Path) -> None:
    program = one(
        tmp_path,
        [
            node("unused", "torch.neg", ref("l_x0_")),
            node("part", "torch.abs", ref("l_x1_")),
            node("set", "operator.setitem", ref("l_x0_"), 0, ref("part")),
            node("add_", "add_", ref("l_x0_"), 1, op="call_method"),
            node("init", "__init__", ref("l_x0_"), op="call_method"),
            output("l_x0_"),
        ],
        inputs=3,
    )
    assert [statement.name for statement in program.functions[0].body] == ["part", "set", "add_"]
    assert len(program.calls[0].inputs) == 2
    assert {storage.name for storage in program.calls[0].storages} == {"s0", "s1"}


def test_a_removed_statement_becomes_an_input_with_its_captured_value(tmp_path: Path) -> None:
    nodes = [node("a", "torch.neg", ref("l_x0_")), node("b", "torch.abs", ref("a")), output("b")]
    program = one(tmp_path, nodes, values=("a", "b"))
    cut = edits.without(program, 0, ["a"])
    assert cut is not None
    assert cut.functions[0].params == ("a",)
    assert cut.calls[0].storages[0].source == Stored(file="graph0_values.safetensors", key="a")
    write_capture(tmp_path / "bare", nodes)
    bare = program_of(load_captures(tmp_path / "bare")[0])
    assert edits.without(bare, 0, ["a"]) is None  # its value is not known


def test_a_cut_returns_what_the_rest_would_have_used(tmp_path: Path) -> None:
    nodes = [
        node("a", "torch.neg", ref("l_x0_")),
        node("b", "torch.abs", ref("l_x0_")),
        node("c", "operator.add", ref("a"), ref("b")),
        output("c"),
    ]
    cut = edits.cut_after(one(tmp_path, nodes), 0, 2)
    assert cut is not None
    assert cut.functions[0].results == (Ref("a"), Ref("b"))


def test_a_program_that_uses_what_nothing_defines_is_refused(tmp_path: Path) -> None:
    nodes = [node("a", "torch.neg", ref("l_x0_")), output("a")]
    program = one(tmp_path, nodes)
    broken = with_function(program, 0, replace(program.functions[0], body=()))
    assert edits.checked(broken) is None
    assert live(program.functions[0]) == program.functions[0].body


def test_a_size_changes_everywhere_at_once(tmp_path: Path) -> None:
    nodes = [node("y", "expand", ref("l_x0_"), 3, 4, op="call_method"), output("y")]
    small = input_edits.resized(one(tmp_path, nodes), {4: 2})
    assert small is not None
    text = source(small)
    assert "x0.expand(3, 2)" in text
    assert 'load("graph0_call0.safetensors", "s0", torch.float32).view(4)[:2].contiguous()' in text


# -- writing ---------------------------------------------------------------------------------------


def test_the_script_reads_like_one_that_a_person_wrote(tmp_path: Path) -> None:
    whole = {"slice": [None, None, None]}
    nodes = [
        node("mul", "operator.mul", ref("l_x0_"), -2),
        node("relu", "torch.nn.functional.relu", ref("mul"), inplace=False),
        node("part", "operator.getitem", ref("relu"), {"tuple": [{"slice": [1, None, 2]}]}),
        node("set", "operator.setitem", ref("l_x1_"), {"tuple": [whole, {"name": "..."}]}, ref("part")),
        node("iadd", "operator.iadd", ref("relu"), ref("l_x1_")),
        node("len_1", "math.sqrt", 2),
        node("out", "torch.sum", ref("iadd"), {"list": [0]}, dtype={"name": "torch.float64"}),
        output("out", "relu"),
    ]
    text = source(one(tmp_path, nodes, inputs=2), tolerance=(0.1, 0.2), header="seen on torch 9")
    body = text[text.index("def f(") : text.index("def run(")].rstrip()
    assert body == (
        "def f(x0, x1):\n"
        "    mul = x0 * (-2)\n"
        "    relu = F.relu(mul, inplace=False)\n"
        "    part = relu[1::2,]\n"
        "    x1[:, ...] = part\n"
        "    relu += x1\n"
        "    out_ = torch.sum(relu, [0], dtype=torch.float64)\n"
        "    return out_, relu"
    )
    assert text.startswith("# seen on torch 9\n")
    assert "rtol=0.1, atol=0.2" in text
    assert "return out, x0, x1" in text
    assert "accel" not in text


def test_autocast_becomes_a_with_block(tmp_path: Path) -> None:
    enter = node("enter", "torch.amp.autocast_mode._enter_autocast", "cpu", {"name": "torch.bfloat16"}, True)
    leave = node("leave", "torch.amp.autocast_mode._exit_autocast", ref("enter"))
    nodes = [
        enter,
        node("y", "torch.neg", ref("l_x0_")),
        leave,
        node("z", "torch.abs", ref("y")),
        output("z"),
    ]
    text = source(one(tmp_path, nodes))
    assert (
        "    with torch.autocast('cpu', dtype=torch.bfloat16, enabled=True):\n        y = torch.neg(x0)\n"
        in text
    )
    assert "\n    z = torch.abs(y)\n" in text


def test_the_three_checks_say_what_counts(tmp_path: Path) -> None:
    program = one(tmp_path, [node("y", "torch.neg", ref("l_x0_")), output("y")])
    raises = source(program, kind="raises")
    assert raises.rstrip().endswith("run(f)  # works uncompiled\nrun(torch.compile(f))")
    assert "assert_close" not in raises
    assert "import sys" in source(program, kind="eager_raises")
    assert "check_dtype=False" in source(program, dtype=False)
    assert "check_stride=True" in source(program, stride=True)


def test_random_operators_draw_the_same_numbers_compiled_and_not(tmp_path: Path) -> None:
    program = one(tmp_path, [node("y", "torch.rand_like", ref("l_x0_")), output("y")])
    assert "fallback_random = True" in source(program)
    assert "fallback_random" not in source(program, kind="raises")


def test_inputs_that_share_a_storage_still_share_it(tmp_path: Path) -> None:
    view = {"kind": "tensor", "storage": "s0", "dtype": "float32", "requires_grad": False, "leaf": True}
    call = {
        "storages": {"s0": {"dtype": "float32", "numel": 4, "device": "cpu"}},
        "inputs": [
            {**view, "name": "l_x0_", "size": [2, 2], "stride": [1, 2], "offset": 0},
            {**view, "name": "l_x1_", "size": [2], "stride": [1], "offset": 2},
        ],
    }
    nodes = [node("y", "torch.add", ref("l_x0_"), ref("l_x1_")), output("y")]
    program = one(tmp_path, nodes, inputs=2, call=call)
    text = source(program)
    assert 'base = load("graph0_call0.safetensors", "s0", torch.float32)' in text
    assert "x0 = base.as_strided((2, 2), (1, 2))" in text
    assert "x1 = base.as_strided((2,), (1,), 2)" in text
    own = input_edits.made_contiguous(program.calls[0], 0)
    assert own is not None
    changed = own.inputs[0]
    assert isinstance(changed, TensorInput)
    assert changed.stride == (2, 1)
    assert own.sharers("s0") == 1


@pytest.mark.parametrize(
    ("made", "shape", "dtype", "text"),
    [
        (Made(kind="ones"), (2, 3), "float32", "torch.ones(2, 3)"),
        (Made(kind="zeros"), (), "bfloat16", "torch.zeros((), dtype=torch.bfloat16)"),
        (Made(kind="full", value="2.0"), (2,), "float32", "torch.full((2,), 2.0)"),
        (Made(kind="arange"), (2, 3), "float32", "torch.arange(6.0).reshape(2, 3)"),
        (Made(kind="arange"), (6,), "int64", "torch.arange(6)"),
        (Made(kind="arange"), (2, 2), "bool", "(torch.arange(4) % 2 == 0).reshape(2, 2)"),
        (Made(kind="linspace", value="-1, 1"), (5,), "float32", "torch.linspace(-1, 1, 5)"),
        (Made(kind="randn", value="2"), (3,), "int64", "torch.randint(0, 2, (3,))"),
        (Made(kind="literal", value="[1, -2]"), (2,), "int64", "torch.tensor([1, -2])"),
    ],
)
def test_constructors(made: Made, shape: tuple[int, ...], dtype: str, text: str) -> None:
    assert constructor(made, shape, dtype, "float32") == text


def test_literals_are_the_very_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    numbers = [0.1, float("inf"), -0.0, 1e-45, 16777217.0]
    data = struct.pack("<5f", *numbers)
    write_safetensors(path, {"a": data, "b": b"\x80\x3f\x00\xc0"}, {"a": "F32", "b": "BF16"})
    read = eval(read_literal(str(path), "a", "float32"))
    assert struct.pack("<5f", *read) == data
    assert read_literal(str(path), "b", "bfloat16") == "[1.0, -2.0]"


def test_only_what_is_used_is_packed(tmp_path: Path) -> None:
    nodes = [node("y", "torch.add", ref("l_x0_"), ref("l_x1_")), output("y")]
    program = one(tmp_path, nodes, inputs=3)
    small = packed(program, tmp_path / "inputs.safetensors")
    assert emit(small, Check()).files == {"inputs.safetensors": tmp_path / "inputs.safetensors"}
    assert {s.source for s in small.calls[0].storages} == {Stored(file="inputs.safetensors", key="t0")}
    assert (tmp_path / "inputs.safetensors").stat().st_size < 150


def test_types_change_in_inputs_and_arguments(tmp_path: Path) -> None:
    nodes = [node("y", "torch.sum", ref("l_x0_"), dtype={"name": "torch.float32"}), output("y")]
    changed = input_edits.retyped(one(tmp_path, nodes), "float32", "float64")
    assert changed.functions[0].body[0].kwargs == (("dtype", Name("torch.float64")),)
    assert ".to(torch.float64)" in source(changed)


def test_captures_are_plain_data(tmp_path: Path) -> None:
    write_capture(tmp_path, [node("y", "torch.neg", ref("l_x0_")), output("y")])
    (capture,) = load_captures(tmp_path)
    assert isinstance(capture, Capture)
    assert (capture.nodes, len(capture.calls)) == (1, 1)
