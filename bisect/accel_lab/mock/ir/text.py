"""Formats the loop IR as text, one block per nest, for the artifacts."""

from __future__ import annotations

from .loop_ir import HostNest, LoopBuffer, LoopProgram, Nest, Result, View


def program_text(program: LoopProgram) -> str:
    """Returns the whole program as text."""
    lines = [f"program {program.name}"]
    for place in program.buffers.values():
        if place.kind in ("input", "constant"):
            lines.append(f"  {place.kind} {_declared(place)}")
    for nest in program.nests:
        lines.append("")
        lines.extend(_host_text(nest) if isinstance(nest, HostNest) else _nest_text(nest, program.buffers))
    lines.append("")
    for number, result in enumerate(program.results):
        lines.append(f"  output {number} = {_result_text(result)}")
    return "\n".join(lines) + "\n"


def _declared(place: LoopBuffer) -> str:
    where = (
        ""
        if place.order is None
        else f" order {list(place.order)} on device {list(place.layout.device_size)}"
    )
    shared = f" shares {place.alias_of}" if place.alias_of else ""
    known = "" if place.padding == "undefined" else f" padding {place.padding}"
    return f"{place.name}: {place.format}{list(place.size)}{where}{known}{shared}"


def _view_text(view: View, buffers: dict[str, LoopBuffer], local: bool) -> str:
    if local:
        return view.buffer
    walked = {dim: f"i{axis}" for axis, dim in enumerate(view.dims) if dim is not None}
    inside = ", ".join(walked.get(dim, "0") for dim in range(len(buffers[view.buffer].size)))
    return f"{view.buffer}[{inside}]"


def _by_layout_text(view: View) -> str:
    axes = ", ".join("*" if dim is None else f"d{dim}" for dim in view.dims)
    return view.buffer if view.is_identity else f"{view.buffer}({axes})"


def _nest_text(nest: Nest, buffers: dict[str, LoopBuffer]) -> list[str]:
    stick = f" sticks along i{nest.order[-1]} of {nest.lanes} lanes" if nest.lanes and nest.order else ""
    loops = ", ".join(
        f"i{axis} in {extent}{' reduced' if axis in nest.reduced else ''}"
        for axis, extent in enumerate(nest.loops)
    )
    lines = [f"  {nest.name} ({nest.unit} {nest.op}) for {loops or 'one element'}{stick}:"]
    if nest.cores:
        lines.append(f"    cores {list(nest.cores)} steps {list(nest.steps)}")
    if nest.source:
        lines.append(f"    # {nest.source}")
    inside = {line.output for line in nest.body}
    for line in nest.body:
        shown = ", ".join(
            _view_text(entry, buffers, entry.buffer in inside) if isinstance(entry, View) else repr(entry)
            for entry in line.inputs
        )
        extra = "".join(f", {key}={value!r}" for key, value in line.attributes.items())
        stored = "" if line.output in nest.writes.values() else "local "
        if line.output in nest.scratch:
            stored = f"scratchpad {nest.scratch[line.output]} "
        lines.append(f"    {stored}{_declared(buffers[line.output])} = {line.op}({shown}{extra})")
    if not nest.strided:
        shown = ", ".join(f"{name}={_by_layout_text(view)}" for name, view in nest.reads.items())
        extra = "".join(f", {key}={value!r}" for key, value in nest.attributes.items())
        made = ", ".join(_declared(buffers[name]) for name in nest.writes.values())
        lines.append(f"    {made} = {nest.op}({shown}{extra})")
    return lines


def _host_text(nest: HostNest) -> list[str]:
    shown = ", ".join(f"{name}={_by_layout_text(view)}" for name, view in nest.reads.items())
    return [f"  host {', '.join(nest.names)} = {nest.target}({shown})  # {nest.reason or 'numbers only'}"]


def _result_text(result: Result) -> str:
    if result.view is not None:
        return _by_layout_text(result.view)
    if result.host is not None:
        return f"host {result.host}"
    if result.index is not None:
        return f"input {result.index}"
    return repr(result.value)
