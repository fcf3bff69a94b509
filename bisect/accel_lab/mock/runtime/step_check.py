"""Replaces transfers and host calls of the mock by their definition, or compares them with it.

The definitions are independent of the runtime: a tensor is moved as the memory defines its layout, and an
operator is called on the host with its arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils._pytree import tree_map

from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.ir.program import HostCall, Ref

from . import runner
from .memory import Memory

#: The greatest number of differing steps that are recorded; others are only counted.
MOST_ROWS = 60


class StepCheck:
    """Replaces transfers and host calls of a run, or compares each with its definition.

    ``transfers``, ``calls``: "all", or the names of those to replace. ``compare``: compare the others, except
    host calls that are no fallbacks.
    """

    def __init__(
        self, transfers: Collection[str] = (), calls: Collection[str] = (), compare: bool = False
    ) -> None:
        self.transfers = transfers
        self.calls = calls
        self.compare = compare
        self.rows: list[dict[str, Any]] = []
        self.seen = {"to_device": 0, "to_host": 0, "host_call": 0}
        self._program = ""
        self._buffer = ""

    def install(self) -> None:
        """Wraps the runtime's transfers and host calls in this process."""
        runtime: Any = runner
        real_device, real_host, real_call = runtime.to_device, runtime.to_host, runtime.run_host_call
        loaded = runtime.Loaded
        send, fetch, run = loaded._send, loaded._fetch, loaded._run

        def running(own: Any, inputs: Any, on_device: Any = ()) -> Any:
            self._program = own.program.name
            return run(own, inputs, on_device)

        def sending(own: Any, tensor: Any, buffer: Any) -> Any:
            self._buffer = buffer
            return send(own, tensor, buffer)

        def fetching(own: Any, buffer: Any) -> Any:
            self._buffer = buffer
            return fetch(own, buffer)

        def to_device(
            memory: Memory, tensor: torch.Tensor, layout: Layout, address: int, padding: str = "undefined"
        ) -> None:
            name = f"{self._place()} to the device"
            if _among(name, self.transfers):
                _write(memory, tensor, layout, address, padding)
                return
            real_device(memory, tensor, layout, address, padding)
            if self.compare:
                self._transfer("to_device", name, tensor, tensor, _read(memory, layout, address), layout)

        def to_host(memory: Memory, layout: Layout, address: int) -> torch.Tensor:
            name = f"{self._place()} to the host"
            if _among(name, self.transfers):
                return _read(memory, layout, address)
            got: torch.Tensor = real_host(memory, layout, address)
            if self.compare:
                self._transfer("to_host", name, got, _read(memory, layout, address), got, layout)
            return got

        def run_host_call(step: HostCall, resolve: Callable[[Ref], Any], front_end: str) -> Any:
            name = f"{self._program} {step.node}"
            if _among(name, self.calls):
                return call_apart(step, resolve)
            if not self.compare or not step.reason:
                return real_call(step, resolve, front_end)
            return self._call(name, step, resolve, lambda: real_call(step, resolve, front_end))

        loaded._run, loaded._send, loaded._fetch = running, sending, fetching
        runtime.to_device = to_device
        runtime.to_host = to_host
        runtime.run_host_call = run_host_call

    def to_json(self) -> dict[str, Any]:
        """Returns the differing steps, in execution order, and the counts of all."""
        return {"seen": self.seen, "wrong": self.rows}

    def _place(self) -> str:
        return f"{self._program} {self._buffer}"

    def _transfer(
        self,
        kind: str,
        name: str,
        shown: torch.Tensor,
        want: torch.Tensor,
        got: torch.Tensor,
        layout: Layout,
    ) -> None:
        self.seen[kind] += 1
        wrong = _differing(got, want)
        if wrong and len(self.rows) < MOST_ROWS:
            row = {"kind": kind, "name": name, "tensor": self._buffer, "wrong": wrong, "of": want.numel()}
            self.rows.append({**row, **_described(shown), "layout": _layout_words(layout)})

    def _call(self, name: str, step: HostCall, resolve: Callable[[Ref], Any], real: Callable[[], Any]) -> Any:
        """Makes a call both ways, with the same random state, and compares the results."""
        self.seen["host_call"] += 1
        state = torch.get_rng_state()
        want = call_apart(step, resolve)
        torch.set_rng_state(state)
        results = real()
        pairs = [(g, w) for g, w in zip(results, want, strict=False) if isinstance(w, torch.Tensor)]
        wrong = sum(_differing(got, value) for got, value in pairs)
        if wrong and len(self.rows) < MOST_ROWS:
            self.rows.append(
                {
                    "kind": "host_call",
                    "name": name,
                    "tensor": str(step.target),
                    "wrong": wrong,
                    **_described(pairs[0][1]),
                    "of": sum(value.numel() for _, value in pairs),
                    "layout": "",
                    "source": step.source,
                }
            )
        return results


def call_apart(step: HostCall, resolve: Callable[[Ref], Any]) -> list[Any]:
    """Runs a host call by definition, independent of the runtime; returns its results."""

    def value(leaf: Any) -> Any:
        return resolve(leaf) if isinstance(leaf, Ref) else leaf

    args, kwargs = tree_map(value, (step.args, step.kwargs), is_leaf=lambda leaf: isinstance(leaf, Ref))
    result = step.target(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _among(name: str, chosen: Collection[str]) -> bool:
    return chosen == "all" or name in chosen


def _write(memory: Memory, tensor: torch.Tensor, layout: Layout, address: int, padding: str) -> None:
    """Writes a tensor by the memory's definition instead of the transfer."""
    with torch.inference_mode(False), torch.no_grad():
        memory.write(layout, address, tensor.detach(), padding)


def _read(memory: Memory, layout: Layout, address: int) -> torch.Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return memory.read(layout, address)


def _differing(got: torch.Tensor, want: torch.Tensor) -> int:
    """The number of elements that differ in any bit."""
    if tuple(got.shape) != tuple(want.shape) or got.dtype != want.dtype:
        return max(int(want.numel()), 1)
    if not want.numel():
        return 0
    with torch.inference_mode(False), torch.no_grad():
        pair = [value.detach().clone(memory_format=torch.contiguous_format) for value in (got, want)]
        width = pair[0].element_size()
        one, two = (value.reshape(-1).view(torch.uint8).reshape(-1, width) for value in pair)
        return int((one != two).any(1).sum())


def _described(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }


def _layout_words(layout: Layout) -> str:
    """Describes a layout: dimension order, sticks, and elements in the last stick."""
    filled = (layout.valid - 1) % layout.lanes + 1 if layout.valid else 0
    return (
        f"order {list(layout.order)}, sticks of {layout.lanes} along dimension {layout.stick_dim}, "
        f"{filled} elements in the last"
    )
