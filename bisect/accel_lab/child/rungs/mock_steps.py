"""The mock's transfers and host calls, one by one: by their definition, apart from the runtime, or compared.

The definitions share nothing with what they stand for: a tensor is moved as the memory defines its layout,
and an operator is called on the host with its arguments alone.
"""

from __future__ import annotations

from typing import Any, Dict, List

#: Steps that differ are kept up to here; of those that do not only their number.
MOST_ROWS = 60


class Steps:
    """What of a run is replaced, and what was seen of each transfer and each call.

    ``transfers``, ``calls``: "all", or the names of those that go by the definition. ``compare``: hold every
    one against its definition.
    """

    def __init__(self, transfers: Any = (), calls: Any = (), compare: bool = False) -> None:
        self.transfers = transfers
        self.calls = calls
        self.compare = compare
        self.rows: List[Dict[str, Any]] = []
        self.seen: Dict[str, int] = {"to_device": 0, "to_host": 0, "host_call": 0}
        self._program = ""
        self._buffer = ""

    def install(self) -> None:
        """Stand around the runtime's transfers and host calls, in this process."""
        from accel_lab.mock.runtime import runner as module

        runtime: Any = module
        real_device, real_host, real_call = runtime.to_device, runtime.to_host, runtime.run_host_call
        loaded = runtime.Loaded
        send, fetch, run = loaded._send, loaded._fetch, loaded._run

        def running(own: Any, inputs: Any) -> Any:
            self._program = own.program.name
            return run(own, inputs)

        def sending(own: Any, tensor: Any, buffer: Any) -> Any:
            self._buffer = buffer
            return send(own, tensor, buffer)

        def fetching(own: Any, buffer: Any) -> Any:
            self._buffer = buffer
            return fetch(own, buffer)

        def to_device(
            memory: Any, tensor: Any, layout: Any, address: int, padding: str = "undefined"
        ) -> None:
            name = "%s to the device" % self._place()
            if _among(name, self.transfers):
                _write(memory, tensor, layout, address, padding)
                return
            real_device(memory, tensor, layout, address, padding)
            self._transfer("to_device", name, tensor, tensor, _read(memory, layout, address), layout)

        def to_host(memory: Any, layout: Any, address: int) -> Any:
            name = "%s to the host" % self._place()
            if _among(name, self.transfers):
                return _read(memory, layout, address)
            got = real_host(memory, layout, address)
            if self.compare:
                self._transfer("to_host", name, got, _read(memory, layout, address), got, layout)
            return got

        def run_host_call(step: Any, resolve: Any, front_end: str) -> Any:
            name = "%s %s" % (self._program, step.node)
            if _among(name, self.calls):
                return call_apart(step, resolve)
            if not self.compare or not step.reason:
                return real_call(step, resolve, front_end)
            return self._call(name, step, resolve, lambda: real_call(step, resolve, front_end))

        loaded._run, loaded._send, loaded._fetch = running, sending, fetching
        runtime.to_device = to_device
        runtime.to_host = to_host
        runtime.run_host_call = run_host_call

    def to_json(self) -> Dict[str, Any]:
        """The steps that differ from their definition, in the order in which they ran, and all counts."""
        return {"seen": self.seen, "wrong": self.rows}

    def _place(self) -> str:
        return "%s %s" % (self._program, self._buffer)

    def _transfer(self, kind: str, name: str, shown: Any, want: Any, got: Any, layout: Any) -> None:
        if not self.compare:
            return
        self.seen[kind] += 1
        wrong = _differing(got, want)
        if wrong and len(self.rows) < MOST_ROWS:
            row = {"kind": kind, "name": name, "tensor": self._buffer, "wrong": wrong, "of": want.numel()}
            self.rows.append(dict(row, **_described(shown), layout=_layout(layout)))

    def _call(self, name: str, step: Any, resolve: Any, real: Any) -> Any:
        """The call as the runtime makes it; the same call apart from it draws the same random numbers."""
        import torch

        self.seen["host_call"] += 1
        state = torch.get_rng_state()
        want = call_apart(step, resolve)
        torch.set_rng_state(state)
        results = real()
        pairs = [(g, w) for g, w in zip(results, want) if isinstance(w, torch.Tensor)]
        wrong = sum(_differing(got, value) for got, value in pairs)
        if wrong and len(self.rows) < MOST_ROWS:
            row = {"kind": "host_call", "name": name, "tensor": str(step.target), "wrong": wrong}
            told = _described(pairs[0][1])
            self.rows.append(
                dict(row, **told, of=sum(w.numel() for _, w in pairs), layout="", source=step.source)
            )
        return results


def call_apart(step: Any, resolve: Any) -> Any:
    """Operators on the host are called with their arguments alone, and give what they give."""
    from torch.utils._pytree import tree_map

    from accel_lab.mock.ir.program import Ref

    def value(leaf: Any) -> Any:
        return resolve(leaf) if isinstance(leaf, Ref) else leaf

    args, kwargs = tree_map(value, (step.args, step.kwargs), is_leaf=lambda leaf: isinstance(leaf, Ref))
    result = step.target(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _among(name: str, chosen: Any) -> bool:
    return bool(chosen == "all" or name in chosen)


def _write(memory: Any, tensor: Any, layout: Any, address: int, padding: str) -> None:
    """Move a tensor as the memory defines it, not on the transfer's own fast path."""
    import torch

    with torch.inference_mode(False), torch.no_grad():
        memory.write(layout, address, tensor.detach(), padding)


def _read(memory: Any, layout: Any, address: int) -> Any:
    import torch

    with torch.inference_mode(False), torch.no_grad():
        return memory.read(layout, address)


def _differing(got: Any, want: Any) -> int:
    """How many elements differ by their bits: a transfer changes none."""
    import torch

    if tuple(got.shape) != tuple(want.shape) or got.dtype != want.dtype:
        return max(int(want.numel()), 1)
    if not want.numel():
        return 0
    with torch.inference_mode(False), torch.no_grad():
        pair = [value.detach().clone(memory_format=torch.contiguous_format) for value in (got, want)]
        width = pair[0].element_size()
        one, two = (value.reshape(-1).view(torch.uint8).reshape(-1, width) for value in pair)
        return int((one != two).any(1).sum())


def _described(tensor: Any) -> Dict[str, Any]:
    """A tensor in words, without its values."""
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }


def _layout(layout: Any) -> str:
    """How the tensor lies on the device: the order of its dimensions, the sticks and what the last holds."""
    return "order %s, sticks of %d along dimension %s, %d elements in the last" % (
        list(layout.order),
        layout.lanes,
        layout.stick_dim,
        (layout.valid - 1) % layout.lanes + 1 if layout.valid else 0,
    )
