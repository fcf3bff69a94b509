"""The spec verifier: sound specs pass, and for each rule a spec that breaks just that one is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import jsonschema  # noqa: E402

import accel_lab.mock  # noqa: E402
from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.ir.layout import row_major  # noqa: E402
from accel_lab.mock.spec import verifier  # noqa: E402
from accel_lab.mock.spec.kernel_spec import KINDS, MEMORIES, PADDINGS, ROLES, SCHEMA, UNITS, Dim, KernelSpec  # noqa: E402
from accel_lab.mock.spec.kernel_spec import Statement as S  # noqa: E402
from accel_lab.mock.spec.verifier import SpecError, check, verify  # noqa: E402
from mock_specs import (  # noqa: E402
    SMALL,
    Bench,
    device_space,
    layout_kernel,
    pointwise,
    scratch,
    tile_bytes,
    values_of,
    walk,
)

pytestmark = pytest.mark.torch
SCHEMA_FILE = Path(str(accel_lab.mock.__file__)).parent / "spec" / "schema" / "kernel_spec.schema.json"
ROWS, COLUMNS = 6, 70
LAYOUT = row_major((ROWS, COLUMNS), "fp32")
ARENA = 1 << 16


def elementwise() -> KernelSpec:
    """out = exp(x) * x, by way of a scratchpad, on two cores."""
    bench = Bench()
    space = tuple(replace(dim, cores=2) if dim.kind == "outer" else dim for dim in device_space(LAYOUT))
    x = bench.put("x", "input", LAYOUT, strides=LAYOUT.device_strides)
    out = bench.put("out", "output", LAYOUT, strides=LAYOUT.device_strides)
    first = scratch("t", space, LAYOUT, 0)
    second = scratch("u", space, LAYOUT, tile_bytes(space, "fp32"))
    body = [
        S(op="exp", inputs=("x",), output="t"),
        S(op="mul", inputs=("t", "x"), output="u"),
        S(op="add", inputs=("u", "t"), output="out"),
    ]
    return pointwise(bench, space, [x, out, first, second], body)


def row_sum(op: str = "sum", value: Any = 0.0) -> KernelSpec:
    """A row reduction with its mask."""
    kept = row_major((ROWS, 1), "int64" if op.startswith("arg") else "fp32")
    space = device_space(LAYOUT, [1])
    strides = tuple(0 if dim.reduced else n for dim, n in zip(space, walk(kept, LAYOUT), strict=True))
    bench = Bench()
    x = bench.put("x", "input", LAYOUT, strides=LAYOUT.device_strides)
    held = bench.put("m", "scratch", LAYOUT, strides=LAYOUT.device_strides)
    out = bench.put("out", "output", kept, strides=strides)
    mask = {"dim": 0, "valid": COLUMNS, "value": value}
    return KernelSpec(
        name="k",
        unit="reduction",
        op=op,
        space=space,
        operands=(x, held, out),
        body=(
            S(op="mask_tail", inputs=("x",), output="m", attributes=mask),
            S(op=op, inputs=("m",), output="out"),
        ),
    )


def product() -> KernelSpec:
    """(4, 70) x (70, 33)."""
    space = (Dim(name="m", extent=4), Dim(name="n", extent=33), Dim(name="k", extent=70, reduced=True))
    left, right = values_of((4, 70), "fp32"), values_of((70, 33), "fp32")
    return layout_kernel("matmul", "matmul", [left, right], [((4, 33), "fp32")], space=space)[1]


def movement() -> KernelSpec:
    """A slice."""
    attributes = {"dim": 1, "start": 2, "end": 40, "step": 1}
    return layout_kernel("movement", "slice", [values_of((4, 70), "fp32")], [((4, 38), "fp32")], attributes)[
        1
    ]


def lookup() -> KernelSpec:
    """An index_select."""
    inputs = [values_of((4, 70), "fp32"), torch.tensor([1, 0, 3])]
    return layout_kernel("gather", "index_select", inputs, [((3, 70), "fp32")], {"dim": 0})[1]


def operand(spec: KernelSpec, which: str, /, **changes: Any) -> KernelSpec:
    return replace(
        spec, operands=tuple(replace(o, **changes) if o.name == which else o for o in spec.operands)
    )


def dim(spec: KernelSpec, number: int, **changes: Any) -> KernelSpec:
    space = list(spec.space)
    space[number] = replace(space[number], **changes)
    return replace(spec, space=tuple(space))


def line(spec: KernelSpec, number: int, **changes: Any) -> KernelSpec:
    body = list(spec.body)
    body[number] = replace(body[number], **changes)
    return replace(spec, body=tuple(body))


def masked(attributes: dict[str, Any]) -> KernelSpec:
    return line(row_sum(), 0, attributes=attributes)


def moving(spec: KernelSpec, name: str, number: int, stride: int) -> KernelSpec:
    strides = list(spec.operand(name).strides)
    strides[number] = stride
    return operand(spec, name, strides=tuple(strides))


def with_padding(spec: KernelSpec, padding: str) -> KernelSpec:
    return operand(spec, "out", padding=padding)


SOUND: dict[str, Callable[[], KernelSpec]] = {
    "elementwise": elementwise,
    "row_sum": row_sum,
    "row_amax": lambda: row_sum("amax", "-inf"),
    "row_argmin": lambda: row_sum("argmin", "inf"),
    "row_all": lambda: row_sum("all", 3.0),
    "in_place": lambda: operand(line(elementwise(), 2, inputs=("u", "t")), "out", address=0),
    "product": product,
    "movement": movement,
    "lookup": lookup,
    "declared_zero": lambda: with_padding(
        line(
            line(elementwise(), 0, op="mask_tail", attributes={"dim": 0, "valid": COLUMNS, "value": 0}),
            1,
            inputs=("t", "t"),
        ),
        "zero",
    ),
}
BROKEN: list[tuple[str, str, Callable[[], KernelSpec]]] = [
    (
        "document",
        "JSON",
        lambda: row_sum("sum", float("nan")),
    ),
    ("vocabulary", "no unit", lambda: replace(movement(), unit="warp")),
    ("vocabulary", "no op called 'teleport'", lambda: replace(movement(), op="teleport")),
    ("vocabulary", "needs the attribute dim", lambda: replace(movement(), attributes={})),
    ("vocabulary", "runs no statements", lambda: replace(movement(), body=elementwise().body)),
    ("vocabulary", "no statement is called 'expp'", lambda: line(elementwise(), 0, op="expp")),
    ("vocabulary", "no reduction is called 'exp'", lambda: line(row_sum(), 1, op="exp")),
    ("vocabulary", "takes 2 inputs", lambda: line(elementwise(), 1, inputs=("t",))),
    (
        "vocabulary",
        "no dimension 9",
        lambda: masked({"dim": 9, "valid": 70, "value": 0}),
    ),
    (
        "vocabulary",
        "needs the attribute valid",
        lambda: masked({"dim": 0, "value": 0}),
    ),
    ("vocabulary", "at least one statement", lambda: replace(elementwise(), body=())),
    ("vocabulary", "no known kind", lambda: dim(elementwise(), 0, kind="sideways")),
    ("vocabulary", "'maybe'", lambda: operand(elementwise(), "out", padding="maybe")),
    ("vocabulary", "'tape'", lambda: operand(elementwise(), "x", memory="tape")),
    ("operands", "called 'y'", lambda: line(elementwise(), 1, inputs=("t", "y"))),
    ("operands", "two operands", lambda: operand(elementwise(), "u", name="t")),
    ("operands", "writes the input", lambda: line(elementwise(), 1, output="x")),
    ("operands", "no statement writes", lambda: line(elementwise(), 2, output="u")),
    ("operands", "2 to 2 inputs", lambda: replace(lookup(), operands=lookup().operands[1:])),
    ("operands", "no operand is an output", lambda: operand(elementwise(), "out", role="scratch")),
    ("division", "4 cores x 1 steps make 4 of 6", lambda: dim(elementwise(), 1, cores=4)),
    ("division", "0 cores", lambda: dim(elementwise(), 1, cores=0)),
    ("division", "never divided", lambda: dim(elementwise(), 2, cores=2)),
    ("division", "a matmul is never divided", lambda: dim(product(), 2, cores=2)),
    ("division", "argmin is not done in steps", lambda: dim(row_sum("argmin", "inf"), 0, steps=3)),
    ("cores", "6 cores", lambda: dim(elementwise(), 1, cores=6)),
    ("alignment", "address 4", lambda: operand(elementwise(), "x", address=4)),
    ("bounds", "leave the arena", lambda: operand(elementwise(), "x", address=ARENA)),
    ("bounds", "an output lies in hbm", lambda: operand(elementwise(), "out", memory="scratchpad")),
    ("bounds", "are walked", lambda: moving(operand(elementwise(), "x", address=ARENA // 2), "x", 0, 384)),
    ("strides", "2 strides", lambda: operand(elementwise(), "x", strides=(1, 1))),
    ("strides", "negative", lambda: moving(elementwise(), "x", 0, -1)),
    ("strides", "along the reduced dimension", lambda: moving(row_sum(), "out", 0, 1)),
    ("strides", "by layout", lambda: operand(movement(), "in0", strides=(1,))),
    ("coverage", "are never written", lambda: dim(elementwise(), 0, extent=2)),
    (
        "stick_count",
        "do not fill",
        lambda: masked({"dim": 0, "valid": 64, "value": 0.0}),
    ),
    (
        "stick_count",
        "does not count sticks",
        lambda: masked({"dim": 1, "valid": 6, "value": 0.0}),
    ),
    ("race", "stands still", lambda: moving(elementwise(), "u", 0, 0)),
    ("lifetime", "before anything is written", lambda: line(elementwise(), 0, inputs=("u",))),
    ("overlap", "t and u share", lambda: operand(elementwise(), "u", address=128)),
    ("overlap", "x and out share", lambda: operand(elementwise(), "out", address=128)),
    ("overlap", "in0 and out0 share", lambda: operand(movement(), "out0", address=128)),
    ("capacity", "of a scratchpad", lambda: operand(elementwise(), "u", address=64 * 1024 - 128)),
    ("padding", "must be zero", lambda: replace(row_sum(), body=(S(op="sum", inputs=("x",), output="out"),))),
    ("padding", "it is 1.0", lambda: row_sum("sum", 1.0)),
    ("padding", "must be lowest", lambda: row_sum("amax", 0.0)),
    ("padding", "padding of k", lambda: operand(product(), "in0", padding="undefined")),
    ("padding_declared", "declared zero", lambda: with_padding(elementwise(), "zero")),
    ("dtype", "bool", lambda: line(elementwise(), 1, op="where", inputs=("t", "x", 0.0))),
    ("dtype", "takes no fp32", lambda: line(elementwise(), 1, op="bitwise_and")),
    ("dtype", "no format", lambda: line(elementwise(), 0, op="cast", attributes={"to": "fp8"})),
    (
        "dtype",
        "argmax yields int64",
        lambda: operand(row_sum("argmax", "-inf"), "out", layout=row_major((ROWS, 1), "fp32")),
    ),
    ("dtype", "an index cannot be fp32", lambda: operand(lookup(), "in1", layout=row_major((3,), "fp32"))),
    ("dtype", "one format", lambda: operand(product(), "in1", layout=row_major((70, 33), "bf16"))),
    ("space", "the output asks for", lambda: dim(movement(), 1, extent=39)),
    ("space", "k, is reduced", lambda: dim(product(), 2, reduced=False)),
    ("space", "reduces nothing", lambda: dim(elementwise(), 1, reduced=True)),
    ("space", "without a reduced", lambda: replace(row_sum(), space=elementwise_space())),
    (
        "sticks",
        "do not lie along k",
        lambda: operand(product(), "in0", layout=replace(row_major((4, 70), "fp32"), order=(1, 0))),
    ),
    ("shape", "makes (4, 38), not (4, 37)", lambda: narrower(movement())),
    ("shape", "cannot be applied", lambda: replace(movement(), attributes={"dim": 1, "step": 0})),
]


def elementwise_space() -> tuple[Dim, ...]:
    return device_space(LAYOUT)


def narrower(spec: KernelSpec) -> KernelSpec:
    return dim(operand(spec, "out0", layout=row_major((4, 37), "fp32")), 1, extent=37)


@pytest.mark.parametrize("name", sorted(SOUND))
def test_a_sound_spec_passes(name: str) -> None:
    spec = SOUND[name]()
    assert verify(spec, SMALL, ARENA) == []
    check(spec, SMALL, ARENA)


@pytest.mark.parametrize(
    ("rule", "says", "make"), BROKEN, ids=[f"{entry[0]}{n}" for n, entry in enumerate(BROKEN)]
)
def test_each_rule_is_broken_alone(rule: str, says: str, make: Callable[[], KernelSpec]) -> None:
    device = replace(SMALL, cores=4) if rule == "cores" else SMALL
    problems = verify(make(), device, ARENA)
    assert {problem.rule for problem in problems} == {rule}, problems
    assert any(says in problem.message for problem in problems), problems
    with pytest.raises(
        SpecError, match=re.escape(f"kernel k: {problems[0].message} (rule {rule})")
    ) as caught:
        check(make(), device, ARENA)
    assert (caught.value.kernel, caught.value.rule) == ("k", rule)


@pytest.mark.parametrize(
    ("make", "device", "rule"),
    [
        (elementwise, Device(span_bytes=128), "span"),
        (movement, Device(span_bytes=128), "span"),
        (elementwise, Device(use_scratchpad=False), "capacity"),
        (elementwise, Device(scratchpad_bytes=1024), "capacity"),
    ],
)
def test_a_smaller_device_refuses(make: Callable[[], KernelSpec], device: Device, rule: str) -> None:
    assert {problem.rule for problem in verify(make(), device, ARENA)} == {rule}


def test_every_rule_of_the_verifier_is_broken_here() -> None:
    named = set(re.findall(r"``(\w+)``", str(verifier.__doc__)))
    assert named == {rule for rule, _, _ in BROKEN} | {"span"}


def test_in_place_is_refused_when_the_input_is_still_read() -> None:
    spec = operand(line(elementwise(), 2, inputs=("u", "x")), "out", address=0)
    assert verify(spec, SMALL, ARENA) == []
    body = (*spec.body[:1], replace(spec.body[2], inputs=("t", 1)), *spec.body[1:2])
    assert {p.rule for p in verify(replace(spec, body=body), SMALL, ARENA)} == {"overlap"}


def test_scratch_may_share_bytes_when_its_lives_are_apart() -> None:
    spec = elementwise()
    body = (
        S(op="exp", inputs=("x",), output="t"),
        S(op="add", inputs=("t", 1), output="out"),
        S(op="neg", inputs=("x",), output="u"),
        S(op="add", inputs=("u", 1), output="out"),
    )
    assert verify(operand(replace(spec, body=body), "u", address=128), SMALL, ARENA) == []


def json_of(name: str) -> dict[str, Any]:
    return json.loads(SOUND[name]().to_text())


def test_the_schema_accepts_every_sound_spec_and_is_itself_sound() -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in SOUND:
        jsonschema.validate(json_of(name), schema)


def test_the_schema_knows_the_words_of_the_spec() -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    definitions = schema["$defs"]
    assert schema["properties"]["schema"]["const"] == SCHEMA
    assert tuple(schema["properties"]["unit"]["enum"]) == UNITS
    assert tuple(definitions["dim"]["properties"]["kind"]["enum"]) == KINDS
    described = definitions["operand"]["properties"]
    assert tuple(described["role"]["enum"]) == ROLES
    assert tuple(described["memory"]["enum"]) == MEMORIES
    assert tuple(described["padding"]["enum"]) == PADDINGS


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "accel-lab/kernel-spec/0"),
        (("unit",), "warp"),
        (("extra",), 1),
        (("body",), []),
        (("space", 0, "cores"), 0),
        (("space", 0, "kind"), "sideways"),
        (("operands", 0, "address"), 4),
        (("operands", 0, "address"), -128),
        (("operands", 0, "memory"), "scratchpad"),
        (("operands", 0, "strides"), []),
        (("operands", 0, "layout", "format"), "fp8"),
        (("operands", 0, "padding"), "maybe"),
        (("body", 0, "inputs"), [None]),
        (("body", 0, "output"), ""),
    ],
)
def test_the_schema_refuses(path: tuple[str | int, ...], value: Any) -> None:
    document: Any = json_of("elementwise")
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text()))
