"""Compares each kernel's outputs with its ATen nodes, run on the host, and with the reference back end.

:meth:`KernelTrace.install` wraps the back ends of the process. Kernels that are not compared run as usual.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from accel_lab.mock.compiled_graph import CompiledGraph
from accel_lab.mock.device import Device
from accel_lab.mock.ir.program import Program
from accel_lab.mock.reference.back_end import ReferenceBackEnd
from accel_lab.mock.spec.kernel_spec import KernelSpec, Operand

from . import runner
from .kernel_script import NO_SIZE, Capture, distance, operand_bytes
from .memory import Memory

MOST_KERNELS = 2000
MOST_BYTES = 1 << 30
MOST_SCRIPT_BYTES = 4 << 20


class KernelTrace:
    """Compares kernels and records a row for each, in execution order."""

    def __init__(self, *, compare: bool = True, by_reference: Collection[str] = (), folder: str = "") -> None:
        """Configures the trace; :meth:`install` starts it.

        ``compare``: compare every kernel. ``by_reference``: names of kernels that the reference back end
        runs. ``folder``: where scripts of differing kernels are written; empty for nowhere.
        """
        self.compare = compare
        self.by_reference = frozenset(by_reference)
        self.folder = folder
        self.rows: list[dict[str, Any]] = []
        self._nodes: dict[str, torch.Tensor] = {}
        self._programs: dict[int, tuple[Program, frozenset[str]]] = {}
        self._calls: dict[str, int] = {}
        self._shown: set[str] = set()

    def install(self) -> None:
        """Wraps the back ends, program loading and graph calls of this process."""
        for name, make in list(runner.BACK_ENDS.items()):
            runner.BACK_ENDS[name] = _around(make, self)
        if not self.compare:
            return
        load = runner.Runtime.load
        call = CompiledGraph.on_host

        def loading(own: runner.Runtime, program: Program) -> runner.Loaded:
            loaded = load(own, program)
            self._note(program)
            return loaded

        def calling(own: CompiledGraph, args: list[Any]) -> list[Any]:
            self._evaluate(own.graph_module, args)
            try:
                return call(own, args)
            finally:
                self._nodes = {}

        runner.Runtime.load = loading  # type: ignore[method-assign,assignment]
        CompiledGraph.on_host = calling  # type: ignore[method-assign,assignment]

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the rows, one for each kernel."""
        return self.rows

    # -- values of the graph -------------------------------------------------------------------

    def _note(self, program: Program) -> None:
        """Records the last kernel of each node, which holds the node's value."""
        last: dict[str, int] = {}
        for spec in program.kernels:
            for origin in spec.origins:
                last[origin] = id(spec)
        for spec in program.kernels:
            final = frozenset(origin for origin in spec.origins if last[origin] == id(spec))
            self._programs[id(spec)] = (program, final)

    def _evaluate(self, graph: torch.fx.GraphModule, args: Sequence[Any]) -> None:
        """Computes the value of each node with torch on the host, from copies of the inputs."""
        held: dict[str, torch.Tensor] = {}
        room = [MOST_BYTES]

        class Keeping(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                value = super().run_node(n)
                if isinstance(value, torch.Tensor) and room[0] > 0:
                    held[n.name] = value.detach().clone()
                    room[0] -= value.numel() * value.element_size()
                return value

        with torch.no_grad(), _disable_current_modes(), torch.random.fork_rng(devices=[]):
            copies = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]
            try:
                Keeping(graph).run(*copies)
            except Exception:
                held.clear()  # the host cannot run the graph: compare with the reference back end only
        self._nodes = held

    # -- one kernel ----------------------------------------------------------------------------

    def kernel(self, engine: Any, reference: ReferenceBackEnd, spec: KernelSpec, base: int) -> None:
        """Runs a kernel and compares its outputs."""
        if spec.name in self.by_reference:
            reference.run(spec, base)
            return
        if not self.compare or len(self.rows) >= MOST_KERNELS:
            engine.run(spec, base)
            return
        memory: Memory = reference.memory
        before = operand_bytes(memory, spec, base)
        engine.run(spec, base)
        got = _outputs(memory, spec, base)
        after = operand_bytes(memory, spec, base)
        between = self._between(memory, reference, spec, base, before, got)
        _put(memory, spec, base, after)
        program, final = self._programs.get(id(spec), (None, frozenset()))
        name = program.name if program is not None else ""
        graph, want = self._against_graph(spec, final, got)
        row = {
            "program": name,
            "call": self._calls.setdefault(name, 0),
            "name": spec.name,
            "origins": list(spec.origins),
            "source": spec.source,
            "graph": graph,
            "back_end": between,
        }
        for kind, wrong in (("graph", graph), ("back_end", between)):
            if wrong and kind not in self._shown:
                self._shown.add(kind)
                row.update(
                    self._shown_of(memory.device, spec, program, before, want if kind == "graph" else {})
                )
        self.rows.append(row)

    def _between(
        self,
        memory: Memory,
        reference: ReferenceBackEnd,
        spec: KernelSpec,
        base: int,
        before: dict[str, torch.Tensor],
        got: dict[str, torch.Tensor],
    ) -> float | None:
        _put(memory, spec, base, before)
        try:
            reference.run(spec, base)
        except Exception:
            return None
        return _worst([distance(got[name], want) for name, want in _outputs(memory, spec, base).items()])

    def _against_graph(
        self, spec: KernelSpec, final: frozenset[str], got: dict[str, torch.Tensor]
    ) -> tuple[float | None, dict[str, torch.Tensor]]:
        """(distance of the outputs from the nodes' values, those values by operand)."""
        want: dict[str, torch.Tensor] = {}
        for operand in spec.outputs:
            node = _node_of(operand, spec, final)
            value = self._nodes.get(node) if node else None
            if value is not None and tuple(value.shape) == operand.layout.size:
                want[operand.name] = value
        return _worst([distance(got[name], value) for name, value in want.items()]), want

    def _shown_of(
        self,
        device: Device,
        spec: KernelSpec,
        program: Program | None,
        before: dict[str, torch.Tensor],
        want: dict[str, torch.Tensor],
    ) -> dict[str, str]:
        """The texts of the first differing kernel: its spec, loop IR and script."""
        shown = {"spec": spec.to_text(), "loop_ir": _loops(program, spec)}
        capture = Capture(spec=spec, device=device, before=before, want=want)
        if self.folder and capture.bytes <= MOST_SCRIPT_BYTES:
            shown["script"] = capture.write(self.folder)
        return shown


class _Traced:
    def __init__(self, engine: Any, memory: Memory, device: Device, trace: KernelTrace) -> None:
        self.engine = engine
        self.reference = ReferenceBackEnd(memory, device)
        self.trace = trace

    def run(self, spec: KernelSpec, base: int = 0) -> None:
        self.trace.kernel(self.engine, self.reference, spec, base)


def _around(make: Any, trace: KernelTrace) -> Any:
    return lambda memory, device: _Traced(make(memory, device), memory, device, trace)


def _node_of(operand: Operand, spec: KernelSpec, final: frozenset[str]) -> str:
    """The node whose complete value an output holds; "" for a kernel before the node's last."""
    if operand.name in final:
        return operand.name
    ends = [origin for origin in spec.origins if origin in final]
    return ends[-1] if ends and len(spec.outputs) == 1 and ends[-1] == spec.origins[-1] else ""


def _outputs(memory: Memory, spec: KernelSpec, base: int) -> dict[str, torch.Tensor]:
    return {
        operand.name: memory.read(operand.layout, base + operand.address)
        for operand in spec.outputs
        if operand.memory == "hbm"
    }


def _put(memory: Memory, spec: KernelSpec, base: int, held: dict[str, torch.Tensor]) -> None:
    for operand in spec.operands:
        if operand.name in held:
            data = held[operand.name]
            memory.typed(base + operand.address, torch.uint8, (len(data),), (1,)).copy_(data)


def _worst(found: Sequence[float | None]) -> float | None:
    sizes = [entry for entry in found if entry is not None]
    if not sizes:
        return None
    return NO_SIZE if NO_SIZE in sizes else max(sizes)


def _loops(program: Program | None, spec: KernelSpec) -> str:
    """The paragraphs of the loop IR for the kernel's nodes."""
    text = program.texts.get("loop_ir.txt", "") if program is not None else ""
    parts = [part for part in text.split("\n\n") if _heads(part) in spec.origins]
    return "\n\n".join(parts)


def _heads(paragraph: str) -> str:
    words = paragraph.split()
    return words[0].partition("__")[0] if words else ""
