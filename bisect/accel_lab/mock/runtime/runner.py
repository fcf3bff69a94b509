"""Runs programs: allocates an arena for each, transfers inputs, runs kernels and host calls, returns outputs.

The back end is chosen here; it sees only single specs and the memory.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch

from accel_lab.mock.device import Device
from accel_lab.mock.ir.program import Constant, Enter, HostCall, Kernel, Output, Program, Ref, Step
from accel_lab.mock.reference.back_end import ReferenceBackEnd
from accel_lab.mock.simulator.back_end import Simulator
from accel_lab.mock.spec.verifier import check

from .device_tensors import is_marked, marked
from .host_calls import restrided, run_host_call
from .memory import Memory, OutOfDeviceMemory
from .resident import ResidentInputs
from .run_statistics import Statistics, collected
from .transfer import to_device, to_host

BACK_ENDS: dict[str, Callable[[Memory, Device], Any]] = {"main": Simulator, "reference": ReferenceBackEnd}
#: Called after each step of a run with the step's number, the step and the running program.
Observer = Callable[[int, Step, "Loaded"], None]


class Runtime:
    """One device: its memory, its back end, and the programs with an arena in the memory."""

    def __init__(
        self, device: Device, back_end: str = "main", *, statistics: Statistics | None = None
    ) -> None:
        self.device = device
        self.back_end = back_end
        self.memory = Memory(device)
        self.engine = BACK_ENDS[back_end](self.memory, device)
        self.lock = threading.RLock()
        self._statistics = statistics
        self._placed: OrderedDict[int, weakref.ref[Loaded]] = OrderedDict()

    @property
    def statistics(self) -> Statistics:
        """The counters of the runs: by default those of the process."""
        return collected() if self._statistics is None else self._statistics

    def load(self, program: Program) -> Loaded:
        """Verifies all kernels of a program and loads it. Raises SpecError with kernel and rule."""
        with self.statistics.timed("verify"):
            for spec in program.kernels:
                check(spec, self.device, program.arena_bytes)
        self.statistics.programs += 1
        self.statistics.kernels_generated += len(program.kernels)
        return Loaded(self, program)

    def place(self, loaded: Loaded) -> int:
        """Allocates a program's arena and returns its address; evicts least recently used programs if needed.

        Raises OutOfDeviceMemory.
        """
        while True:
            try:
                address = self.memory.allocate(loaded.program.arena_bytes)
                break
            except OutOfDeviceMemory:
                if not self._evict():
                    raise
        if self.device.poison:
            self.memory.poison(address, loaded.program.arena_bytes)
        self._placed[id(loaded)] = weakref.ref(loaded)
        self.statistics.memory_peak = max(self.statistics.memory_peak, self.memory.peak)
        return address

    def touch(self, loaded: Loaded) -> None:
        """Marks a program as most recently used."""
        self._placed.move_to_end(id(loaded))

    def forget(self, loaded_id: int, address: int) -> None:
        """Frees a program's arena."""
        with self.lock:
            if self._placed.pop(loaded_id, None) is not None:
                self.memory.free(address)

    def _evict(self) -> bool:
        for reference in list(self._placed.values()):
            loaded = reference()
            if loaded is not None and not loaded.running:
                loaded.release()
                return True
        return False


class Loaded:
    """A program loaded on a device."""

    def __init__(self, runtime: Runtime, program: Program) -> None:
        self.runtime = runtime
        self.program = program
        self.observer: Observer | None = None
        self.running = False
        self.base: int | None = None
        self._resident = ResidentInputs()
        self._constants_sent = False
        self._finalizer: weakref.finalize[Any, Loaded] | None = None

    def run(self, inputs: Sequence[Any], on_device: Sequence[bool] = ()) -> list[Any]:
        """Runs the program; ``on_device`` marks outputs that are not transferred to the host."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.runtime.lock)
            stack.enter_context(torch.no_grad())
            if hasattr(torch._C, "_DisableAutocast"):
                stack.enter_context(torch._C._DisableAutocast())
            self.running = True
            try:
                return self._run(inputs, on_device)
            finally:
                self.running = False
                if not self.runtime.device.use_cache:
                    self.release()

    def release(self) -> None:
        """Frees the arena; the next run allocates a new one."""
        if self._finalizer is not None:
            self._finalizer()
        self.base, self._finalizer, self._constants_sent = None, None, False
        self._resident.clear()

    def value(self, buffer: str) -> torch.Tensor:
        """Returns a buffer's current content, read by the layout's definition instead of a transfer."""
        entry = self.program.buffers[buffer]
        return self.runtime.memory.read(entry.layout, self._start() + entry.address)

    def _start(self) -> int:
        if self.base is None:
            self.base = self.runtime.place(self)
            self._finalizer = weakref.finalize(self, self.runtime.forget, id(self), self.base)
        return self.base

    def _run(self, inputs: Sequence[Any], on_device: Sequence[bool] = ()) -> list[Any]:
        base, statistics = self._start(), self.runtime.statistics
        self.runtime.touch(self)
        engine, clock = self.runtime.engine, time.perf_counter
        host: dict[str, Any] = {}
        units: dict[str, int] = {}
        seconds = statistics.seconds
        for number, step in enumerate(self.program.steps):
            start = clock()
            if isinstance(step, Kernel):
                engine.run(step.spec, base)
                units[step.spec.unit] = units.get(step.spec.unit, 0) + 1
                part = "kernels"
            elif isinstance(step, HostCall):
                self._call(step, inputs, host)
                part = "host"
            else:
                self._enter(step, inputs)
                part = "to_device"
            seconds[part] = seconds.get(part, 0.0) + clock() - start
            if self.observer is not None:
                self.observer(number, step, self)
        self._constants_sent = True
        statistics.runs += 1
        for unit, count in units.items():
            statistics.kernels += count
            statistics.kernels_by_unit[unit] = statistics.kernels_by_unit.get(unit, 0) + count
        with statistics.timed("outputs"):
            stays = itertools.chain(on_device, itertools.repeat(False))
            return [
                self._output(*pair, inputs, host) for pair in zip(self.program.outputs, stays, strict=False)
            ]

    def _enter(self, step: Enter | Constant, inputs: Sequence[Any]) -> None:
        """Transfers a graph input or a constant, unless it is already on the device."""
        if isinstance(step, Constant):
            if self._constants_sent:
                return
            tensor = step.value
        else:
            tensor = inputs[step.index]
            if step.resident and self._resident.unchanged(step.index, tensor):
                self.runtime.statistics.transfers_skipped += 1
                return
        self._send(tensor, step.buffer)

    def _send(self, tensor: torch.Tensor, buffer: str) -> None:
        entry = self.program.buffers[buffer]
        if is_marked(tensor):
            self.runtime.memory.write(entry.layout, self._start() + entry.address, tensor)
            return
        to_device(self.runtime.memory, tensor, entry.layout, self._start() + entry.address)
        self.runtime.statistics.transfers_to_device += 1
        self.runtime.statistics.bytes_to_device += entry.layout.bytes

    def _fetch(self, buffer: str) -> torch.Tensor:
        entry = self.program.buffers[buffer]
        self.runtime.statistics.transfers_to_host += 1
        self.runtime.statistics.bytes_to_host += entry.layout.bytes
        return to_host(self.runtime.memory, entry.layout, self._start() + entry.address)

    def _call(self, step: HostCall, inputs: Sequence[Any], host: dict[str, Any]) -> None:
        def resolve(reference: Ref) -> Any:
            if reference.host is not None:
                value = host[reference.host]
            elif reference.index is not None:
                value = inputs[reference.index]
            else:
                assert reference.buffer is not None
                value = self._fetch(reference.buffer)
            return restrided(value, reference.stride) if isinstance(value, torch.Tensor) else value

        results = run_host_call(step, resolve, self.program.front_end)
        for name, buffer, result in zip(step.names, step.buffers, results, strict=False):
            host[name] = result
            if buffer is not None and isinstance(result, torch.Tensor):
                self._send(result, buffer)
        if step.reason:
            self.runtime.statistics.fell_back(str(step.target), step.reason, step.source)

    def _output(self, output: Output, stays: bool, inputs: Sequence[Any], host: dict[str, Any]) -> Any:
        """Returns one output with the traced dtype and strides; ``stays``: without a transfer."""
        if output.buffer is not None:
            value = self.value(output.buffer) if stays else self._fetch(output.buffer)
        elif output.host is not None:
            value = host[output.host]
        elif output.index is not None:
            return inputs[output.index]
        else:
            return output.value
        if not isinstance(value, torch.Tensor):
            return value
        if output.dtype is not None and value.dtype != output.dtype:
            value = value.to(output.dtype)
        value = restrided(value, output.stride)
        return marked(value) if stays and output.buffer is not None else value


_shared: dict[tuple[Device, str], Runtime] = {}


def shared_runtime(device: Device, back_end: str) -> Runtime:
    """Returns the process's runtime for this device; all graphs share its memory."""
    key = (device, back_end)
    if key not in _shared:
        _shared[key] = Runtime(device, back_end)
    return _shared[key]
