"""Reads the graphs that the child captured and turns them into programs, in the order to try them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_lab.core.untrusted import shapes
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, parsed

from .arguments import Arg, Items, Meta, Name, Ref, ScalarMeta, Slice, Table, TensorMeta
from .program import (
    Call,
    CompileArgs,
    Function,
    Gradient,
    Input,
    Program,
    ScalarInput,
    Settings,
    Statement,
    Storage,
    Stored,
    TensorInput,
    substituted,
    tidy,
)

_NUMBERED = re.compile(r"graph(\d{1,9})\.json$")
MOST_BYTES = 1 << 30
MOST_HEADER_BYTES = 64 << 20
_GRAPH = {
    "graph": shapes.Range(0),
    "reason": str,
    "nodes": [{"op": str}],
    "calls": [{"reason": str}],
}
_ENTRY = {"dtype": str, "data_offsets": [shapes.Range(0, 1 << 48)], "shape?": [shapes.Range(0, 1 << 48)]}


@dataclass(frozen=True, kw_only=True)
class Capture:
    """One captured graph with its calls. ``reason`` says why it cannot be a program, or is empty."""

    number: int
    data: Mapping[str, Any]
    folder: Path
    reason: str

    @property
    def nodes(self) -> int:
        return sum(node["op"].startswith("call") for node in self.data["nodes"])

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The calls whose inputs were saved."""
        return [call for call in self.data["calls"] if not call["reason"]]


def load_captures(folder: Path) -> list[Capture]:
    """Loads all graphs that a probe captured, in compilation order; ``folder`` is the probe's."""
    names = [name for name in ChildFiles(folder).names("capture/graph*.json") if _NUMBERED.search(name)]
    names.sort(key=lambda name: int(_NUMBERED.findall(name)[0]))
    return [load_capture(folder / name) for name in names]


def load_capture(path: Path) -> Capture:
    """Loads one captured graph; its values are in files next to it.

    Raises :class:`UntrustedFileError` if it is malformed.
    """
    data = ChildFiles(path.parent).json(path.name, _GRAPH, most=MOST_BYTES)
    if data is None:
        raise UntrustedFileError(f"there is no {path.name}")
    reason = data["reason"]
    if not reason and not any(not call["reason"] for call in data["calls"]):
        said = [call["reason"] for call in data["calls"]]
        reason = said[0] if said else "the graph was never called"
    return Capture(number=data["graph"], data=data, folder=path.parent, reason=reason)


def program_of(capture: Capture, call: int = 0) -> Program:
    """Returns the program that makes one call of one graph."""
    return _program([(capture, capture.calls[call])])


def programs_of(captures: Sequence[Capture]) -> list[Program]:
    """Returns programs in the order to try them: single graphs (last one first), other calls, then all calls.

    The last graph comes first because a script that fails usually fails in the last graph that it compiled.
    """
    usable = [capture for capture in captures if not capture.reason]
    programs = [program_of(capture) for capture in reversed(usable)]
    programs += [
        program_of(capture, index) for capture in reversed(usable) for index in range(1, len(capture.calls))
    ]
    programs += [
        _program([(capture, call) for call in capture.calls])
        for capture in reversed(usable)
        if len(capture.calls) > 1
    ]
    every = sorted(
        ((capture, call) for capture in usable for call in capture.calls), key=lambda pair: pair[1]["order"]
    )
    if len(usable) > 1:
        programs.append(_program(every))
    return programs


def _program(parts: Sequence[tuple[Capture, Mapping[str, Any]]]) -> Program:
    functions: list[Function] = []
    numbers: dict[int, int] = {}
    calls: list[Call] = []
    files: dict[str, str] = {}
    for capture, call in parts:
        if capture.number not in numbers:
            numbers[capture.number] = len(functions)
            functions.append(_function(capture, call))
        made = _call(capture, call, numbers[capture.number], files)
        calls.append(made)
    settings = parts[0][1]["settings"]
    program = Program(
        functions=tuple(functions),
        calls=tuple(calls),
        default_dtype=settings["default_dtype"],
        files=files,
    )
    for index, function in enumerate(functions):
        program = _constants_inlined(program, index, function)
    return tidy(program)


# -- functions -------------------------------------------------------------------------------------


def _function(capture: Capture, call: Mapping[str, Any]) -> Function:
    data = capture.data
    metas = call.get("metas", {})
    symbolic = bool(data["sizes"])
    compile_args = CompileArgs(
        backend=data["compile"]["backend"],
        fullgraph=bool(data["compile"]["fullgraph"]),
        dynamic=True if symbolic else data["compile"]["dynamic"],
        options=tuple(sorted(data["compile"]["options"].items())),
    )
    nested = {name: _body(nodes, {}) for name, nodes in data["functions"].items()}
    made = _body(data["nodes"], metas, nested)
    body = [
        Statement(name=name, op="size", target="shape", args=(Ref(source[0]), source[1]))
        for name, source in data["sizes"].items()
        if source
    ]
    metas_of_params = tuple(
        (node["name"], _meta(metas.get(node["name"], node["meta"])))
        for node in data["nodes"]
        if node["op"] == "placeholder"
    )
    return replace(made, body=(*body, *made.body), compile=compile_args, metas=metas_of_params)


def _body(
    nodes: Sequence[Mapping[str, Any]], metas: Mapping[str, Any], nested: Mapping[str, Function] | None = None
) -> Function:
    params, body = [], []
    inner: list[tuple[str, Function]] = []
    result: Arg = None
    for node in nodes:
        if node["op"] == "placeholder":
            params.append(node["name"])
        elif node["op"] == "function":
            inner.append((node["name"], (nested or {})[node["name"]]))
        elif node["op"] == "output":
            result = _arg(node["args"][0])
        else:
            body.append(
                Statement(
                    name=node["name"],
                    op=node["op"].removeprefix("call_"),
                    target=node["target"],
                    args=tuple(_arg(arg) for arg in node["args"]),
                    kwargs=tuple((key, _arg(value)) for key, value in node["kwargs"].items()),
                    meta=_meta(metas.get(node["name"]) or node["meta"]),
                )
            )
    if nested is not None and isinstance(result, Items) and len(result.items) == 1:
        result = result.items[0]  # Dynamo always returns a tuple; a single value reads better
    return Function(params=tuple(params), body=tuple(body), result=result, nested=tuple(inner))


def _arg(data: Any) -> Arg:
    if not isinstance(data, dict):
        return data  # type: ignore[no-any-return]
    if "ref" in data:
        return Ref(data["ref"])
    if "name" in data:
        return Name(data["name"])
    if "slice" in data:
        start, stop, step = (_arg(item) for item in data["slice"])
        return Slice(start, stop, step)
    if "dict" in data:
        return Table(tuple((_arg(key), _arg(value)) for key, value in data["dict"]))
    kind = "tuple" if "tuple" in data else "list"
    return Items(kind, tuple(_arg(item) for item in data[kind]))


def _meta(data: Any) -> Meta:
    if data is None:
        return None
    if "items" in data:
        return tuple(_meta(item) for item in data["items"])
    if "value" in data:
        return ScalarMeta(_arg(data["value"]))
    stride = None if data["stride"] is None else tuple(data["stride"])
    return TensorMeta(tuple(data["shape"]), data["dtype"], stride, data["device"], data["requires_grad"])


# -- calls -----------------------------------------------------------------------------------------


def _call(capture: Capture, call: Mapping[str, Any], function: int, files: dict[str, str]) -> Call:
    def file(name: str) -> str:
        files[name] = str(capture.folder / name)
        return name

    storages = tuple(
        Storage(
            name=name,
            dtype=described["dtype"],
            numel=described["numel"],
            device=described["device"],
            source=Stored(file=file(call["file"]), key=name),
        )
        for name, described in call["storages"].items()
    )
    gradients = tuple(
        Gradient(
            output=known["output"],
            size=tuple(known["size"]),
            dtype=known["dtype"],
            source=Stored(file=file(call["grads"]), key=known["key"]),
        )
        for known in call["backward"]
        if known["key"]
    )
    values: tuple[tuple[str, Stored], ...] = ()
    if call["values"]:
        name = file(call["values"])
        values = tuple((key, Stored(file=name, key=key)) for key in header(capture.folder / name))
    settings = call["settings"]
    return Call(
        function=function,
        storages=storages,
        inputs=tuple(_input(described) for described in call["inputs"]),
        settings=Settings(
            grad=settings["grad"],
            inference=settings["inference"],
            autocast=tuple((entry["device"], entry["dtype"]) for entry in settings["autocast"]),
        ),
        backward=gradients or None,
        values=values,
    )


def _input(data: Mapping[str, Any]) -> Input:
    if data["kind"] == "value":
        return ScalarInput(value=_arg(data["value"]))
    return TensorInput(
        storage=data["storage"],
        dtype=data["dtype"],
        size=tuple(data["size"]),
        stride=tuple(data["stride"]),
        offset=data["offset"],
        requires_grad=data["requires_grad"],
        leaf=data["leaf"],
    )


def _constants_inlined(program: Program, index: int, function: Function) -> Program:
    """Drops parameters that only carry a size; the size is read from its tensor."""
    sized = {statement.name for statement in function.body if statement.op == "size"}
    if not sized:
        return program
    keep = [i for i, name in enumerate(function.params) if name not in sized]
    changed = replace(function, params=tuple(function.params[i] for i in keep))
    calls = tuple(
        replace(call, inputs=tuple(call.inputs[i] for i in keep)) if call.function == index else call
        for call in program.calls
    )
    functions = tuple(changed if i == index else f for i, f in enumerate(program.functions))
    return replace(program, functions=functions, calls=calls)


def header(path: Path) -> dict[str, Any]:
    """Returns the entries of a safetensors file."""
    return dict(_header(path)[1])


def read_entry(path: Path, key: str) -> bytes:
    """Returns the bytes of one entry of a safetensors file.

    Raises :class:`UntrustedFileError` if the entry is missing or cut.
    """
    start, entries = _header(path)
    if key not in entries:
        raise UntrustedFileError(f"{path.name} has no entry {key!r}"[:200])
    begin, end = entries[key]["data_offsets"]
    data = ChildFiles(path.parent).part(path.name, start + begin, end - begin, most=MOST_BYTES)
    if data is None or len(data) != end - begin:
        raise UntrustedFileError(f"{path.name} is shorter than its header says")
    return data


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    files = ChildFiles(path.parent)
    size = int.from_bytes(files.part(path.name, 0, 8, most=8) or b"", "little")
    text = files.part(path.name, 8, size, most=MOST_HEADER_BYTES) or b""
    entries: dict[str, Any] = parsed(text, path.name, shapes.Table(shapes.Table()))
    entries.pop("__metadata__", None)
    for key, entry in entries.items():
        if wrong := shapes.misfit(entry, _ENTRY):
            raise UntrustedFileError(f"{path.name}: {key[:40]!r}: {wrong}")
        if len(entry["data_offsets"]) != 2 or entry["data_offsets"][0] > entry["data_offsets"][1]:
            raise UntrustedFileError(f"{path.name}: {key[:40]!r} has no place")
    return 8 + size, entries


_PIECES = re.compile(r"(?:^l_(?:self_|args_|kwargs_|stack0_)?|_$)")


def short_name(name: str) -> str:
    """Shortens a captured name: ``l_x_`` becomes x, a parameter gets the last part of its path."""
    for mark in ("_parameters_", "_buffers_"):
        if mark in name:
            name = name.rsplit(mark, 1)[1]
    name = _PIECES.sub("", _PIECES.sub("", name)).strip("_")
    if not name or not name.isidentifier():
        return "x"
    return name if len(name) <= 24 else "x"


__all__ = ["Capture", "header", "load_captures", "program_of", "programs_of", "short_name", "substituted"]
