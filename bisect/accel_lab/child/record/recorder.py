"""Recorder: what the compiled regions took, changed and returned, written down as it happens.

Each event is one line of ``records.jsonl``; the values of tensors lie in ``tensors.bin`` as contiguous
logical values (so that strides are compared apart from values) and the event says where (``event_file``).

The recorder must never disturb the run: it works with autograd, dispatch modes and function modes
switched off, draws no random number, touches no gradient and no version counter, and an exception of its
own becomes an ``object`` event with a note instead of reaching the script. What it keeps alive until the
end are watched modules and leaf inputs, within a budget of memory; beyond that it holds them weakly.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
import weakref
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from .event_file import EventFile
from .gradients import ArrivingGradients
from .reachable import reached, state_of
from .values import (
    flat_values,
    has_memory,
    is_plain,
    leaves,
    name_of,
    random_state,
    raw_bytes,
    text_of,
    type_name,
    undisturbed,
)

if TYPE_CHECKING:
    from ..shadow.mode import ShadowMode

#: Inputs up to this much per call are checksummed, so that a change is seen without a version counter.
SNAPSHOT_BYTES = 16 << 20
#: Leaf inputs kept alive for their gradients, in bytes; the rest are held weakly.
LEAF_BYTES = 64 << 20
#: Inputs made by earlier operators whose gradients are recorded.
MOST_HOOKS = 2000


class _Input:
    """A tensor that went into a call, with what tells whether the call changed it."""

    __slots__ = ("checksum", "path", "tensor", "version")

    def __init__(self, path: str, tensor: torch.Tensor, budget: int) -> None:
        self.path = path
        self.tensor = tensor
        self.version = _version(tensor)
        self.checksum = self._checksum() if tensor.numel() * tensor.element_size() <= budget else None

    def _checksum(self) -> Optional[int]:
        return zlib.crc32(raw_bytes(flat_values(self.tensor)))

    def change(self) -> Tuple[bool, Optional[bool]]:
        """``(worth recording, known to have other values)``."""
        different = None if self.checksum is None else self.checksum != self._checksum()
        return different is True or self.version != _version(self.tensor), different


class Call:
    """A call in progress. ``digest`` tells its arguments apart, ``thread`` the threads that called."""

    __slots__ = ("digest", "function", "index", "inputs", "name", "region", "state", "thread")

    def __init__(self, region: int, name: str, index: int, thread: int) -> None:
        self.region = region
        self.name = name
        self.index = index
        self.thread = thread
        self.digest = 0
        self.inputs: List[_Input] = []
        self.function: Any = None
        self.state: Dict[str, Tuple[Callable[[], Any], Optional[int]]] = {}

    def add_argument(self, path: str, value: Any) -> None:
        """Take an argument into the digest: a tensor by its values where they were read, else by its form."""
        if isinstance(value, _Input):
            tensor = value.tensor
            value = f"{value.checksum} {tensor.dtype} {tuple(tensor.shape)}"
        elif not isinstance(value, (bool, int, float, complex, str, type(None))):
            return
        if path.startswith(("args", "kwargs")):
            self.digest = zlib.crc32(f"{path} {value}".encode("utf-8", "replace"), self.digest)


class Recorder:
    """Writes the events of one run into ``folder``; at most ``cap_bytes`` of tensor values.

    ``shadow`` gives the float64 values that belong to a tensor or a number, where there are any.
    """

    def __init__(self, folder: str, cap_bytes: int, shadow: Optional[ShadowMode] = None) -> None:
        self.folder = os.path.abspath(folder)
        self._file = EventFile(self.folder, cap_bytes, shadow)
        self._module_left = cap_bytes
        self._leaf_left = LEAF_BYTES
        self._hooks_left = MOST_HOOKS
        self._shadow = shadow
        self._lock = threading.RLock()
        self._calls: Dict[int, int] = {}
        self._threads: weakref.WeakKeyDictionary[threading.Thread, int] = weakref.WeakKeyDictionary()
        self._thread_numbers = itertools.count()
        self._modules: List[Tuple[int, Callable[[], Any], Optional[List[Optional[int]]]]] = []
        self._leaf_inputs: List[Tuple[int, str, int, str, Callable[[], Any], Optional[int]]] = []
        self._known_leaves: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()
        self._gradients = ArrivingGradients(self._arrived)
        self._awaited = 0

    # ---- what the instruments call -----------------------------------------------------------------

    def begin_call(
        self, region: int, name: str, args: Tuple[Any, ...], kwargs: Dict[str, Any], function: Any = None
    ) -> Call:
        """Remember a call's tensor inputs; the handle goes to ``end_call`` or ``raised``.

        What ``function`` reads beside its arguments counts as input too, and its modules are watched.
        """
        with self._lock:
            index = self._calls.get(region, 0)
            self._calls[region] = index + 1
            thread = threading.current_thread()
            if thread not in self._threads:
                self._threads[thread] = next(self._thread_numbers)
            call = Call(region, name, index, self._threads[thread])
        if not self._file.ours:
            return call
        budget = SNAPSHOT_BYTES
        seen = set()
        with self._guard(), undisturbed():
            for path, value in self._inputs(region, args, kwargs, function):
                if not isinstance(value, torch.Tensor):
                    call.add_argument(path, value)
                    continue
                if id(value) in seen:
                    continue
                seen.add(id(value))
                with self._guard():
                    if not is_plain(value) or not has_memory(value):
                        continue
                    self._remember_leaf(call, path, value)
                    self._await_gradient(call, path, value)
                    entry = _Input(path, value, budget)
                    if entry.checksum is not None:
                        budget -= value.numel() * value.element_size()
                    call.add_argument(path, entry)
                    call.inputs.append(entry)
            if function is not None and len(self._threads) == 1:
                call.function = function
                call.state = {path: (weakref.ref(t), _version(t)) for path, t in state_of(function).items()}
        self._await_parameter_gradients()
        return call

    def end_call(self, call: Call, result: Any) -> None:
        """Record what the call returned and the inputs that it changed."""
        with self._guard(), undisturbed(), self._lock:
            memory = {_address(entry.tensor): entry.path for entry in reversed(call.inputs)}
            for path, value in leaves(result, "out"):
                event = self._head(call, "output", path)
                address = _address(value)
                if address is not None:
                    event["shares"] = memory.get(address, "")
                    memory.setdefault(address, path)
                self._file.leaf(event, value)
            self._left_state(call, result)
            self._changed_inputs(call)

    def raised(self, call: Call, error: BaseException) -> None:
        """Record that the call raised, and the inputs that it had changed by then."""
        with self._guard(), undisturbed(), self._lock:
            event = self._head(call, "raised", "raised")
            bases = [name_of(c) for c in type(error).__mro__[1:] if c not in (BaseException, object)]
            event.update(kind="value", type=type_name(error), value=text_of(error), bases=bases)
            self._file.emit(event)
            self._changed_inputs(call)

    def watch_module(self, region: int, module: torch.nn.Module, *, untrained: bool = False) -> None:
        """Record the module's parameters, buffers and gradients at the end.

        ``untrained``: only if no parameter was written until then. What an optimizer makes of roundings in
        bfloat16 within some steps is as large as a fault.
        """
        with self._guard(), self._lock:
            if any(get() is module for _, get, _ in self._modules):
                return
            size = 0
            with contextlib.suppress(Exception):  # parameters that are not yet materialised have no size
                size = sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])
            keep = size <= self._module_left
            self._module_left -= size if keep else 0
            self._modules.append((region, _hold(module, keep), _versions(module) if untrained else None))

    def finish(self) -> None:
        """Record the end state: watched modules, gradients of leaf inputs, the random state."""
        if not self._file.ours:
            return
        with self._guard(), undisturbed(), self._lock:
            if self._shadow is not None and self._shadow.half:
                self._file.emit({"event": "half"})
            for index, (region, get, versions) in enumerate(self._modules):
                module = get()
                if module is not None and (versions is None or versions == _versions(module)):
                    self._module(region, index, module)
            for region, name, call, path, get, version in self._leaf_inputs:
                tensor = get()
                if tensor is None or (version is not None and version != _version(tensor)):
                    continue
                event = {"event": "end", "phase": "leaf_grad", "region": region, "name": name, "call": call}
                self._file.leaf({**event, "path": path}, tensor.grad)
            self._file.emit({"event": "rng", **random_state()})

    # ---- inside ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """An error of the recorder itself is noted and goes no further."""
        try:
            yield
        except Exception as error:
            with contextlib.suppress(Exception):
                self._file.emit({"event": "note", "note": f"{type(error).__name__}: {text_of(error)}"})

    @staticmethod
    def _head(call: Call, phase: str, path: str) -> Dict[str, Any]:
        return {
            "event": "call",
            "region": call.region,
            "name": call.name,
            "call": call.index,
            "phase": phase,
            "path": path,
            "thread": call.thread,
            "inputs": f"{call.digest:08x}",
        }

    @staticmethod
    def _module_head(region: int, index: int, module: torch.nn.Module) -> Dict[str, Any]:
        return {"event": "end", "region": region, "module": index, "name": type_name(module)}

    def _inputs(
        self, region: int, args: Tuple[Any, ...], kwargs: Dict[str, Any], function: Any
    ) -> Iterator[Tuple[str, Any]]:
        """All that goes into a call, with where it comes from; modules that it reads are watched instead."""
        yield from leaves(tuple(args), "args")
        yield from leaves(dict(kwargs), "kwargs")
        for path, value in reached(function) if function is not None else ():
            if isinstance(value, torch.nn.Module):
                self.watch_module(region, value, untrained=True)
            else:
                yield path, value

    def _await_gradient(self, call: Call, path: str, tensor: torch.Tensor) -> None:
        """Record the gradient that reaches an input which earlier operators made.

        The hook sits on the operator, not on the tensor, which Dynamo would see.
        """
        node = tensor.grad_fn
        if node is None or self._hooks_left <= 0 or not hasattr(node, "register_prehook"):
            return
        self._hooks_left -= 1
        event = {"event": "end", "phase": "input_grad", "region": call.region, "name": call.name}
        event.update(call=call.index, path=path)
        turn = int(tensor.output_nr)
        passes = itertools.count()

        def arrived(gradients: Tuple[Any, ...]) -> None:
            with self._guard(), undisturbed(), self._lock:
                again = next(passes)
                suffix = f" pass {again}" if again else ""
                self._file.leaf({**event, "path": path + suffix}, gradients[turn])

        node.register_prehook(arrived)

    def _await_parameter_gradients(self) -> None:
        """Record what arrives at the parameters of modules that were not watched at the last call."""
        with self._lock:
            first, self._awaited = self._awaited, len(self._modules)
            fresh = self._modules[first:]
        for index, (region, get, _) in enumerate(fresh, first):
            module = get()
            if module is not None:
                with self._guard():
                    self._gradients.watch(self._module_head(region, index, module), module)

    def _arrived(self, event: Dict[str, Any], gradient: torch.Tensor) -> None:
        with self._guard(), undisturbed(), self._lock:
            self._file.leaf(event, gradient)

    def _remember_leaf(self, call: Call, path: str, tensor: torch.Tensor) -> None:
        if not (tensor.requires_grad and tensor.is_leaf) or self._known_leaves.get(id(tensor)) is tensor:
            return
        self._known_leaves[id(tensor)] = tensor
        size = tensor.numel() * tensor.element_size()
        keep = size <= self._leaf_left
        self._leaf_left -= size if keep else 0
        beside = not path.startswith(("args", "kwargs"))
        version = _version(tensor) if beside else None
        self._leaf_inputs.append((call.region, call.name, call.index, path, _hold(tensor, keep), version))

    def _left_state(self, call: Call, result: Any) -> None:
        """Record the tensors that the call left in lists, attributes and modules, beside what it returned."""
        function, call.function = call.function, None
        if function is None or len(self._threads) > 1:
            return  # what another thread leaves at the same time is not this call's
        told = {id(entry.tensor) for entry in call.inputs} | {id(value) for _, value in leaves(result, "out")}
        for path, tensor in state_of(function).items():
            get, version = call.state.get(path, (lambda: None, None))
            if id(tensor) not in told and not (get() is tensor and version == _version(tensor)):
                self._file.leaf(self._head(call, "state", path), tensor)

    def _changed_inputs(self, call: Call) -> None:
        for entry in call.inputs:
            with self._guard():
                worth, different = entry.change()
                if worth:
                    event = self._head(call, "mutated_input", entry.path)
                    event["changed"] = different
                    self._file.leaf(event, entry.tensor)
        call.inputs = []

    def _module(self, region: int, index: int, module: torch.nn.Module) -> None:
        event = self._module_head(region, index, module)
        for name, parameter in module.named_parameters():
            self._file.leaf({**event, "phase": "parameter", "path": name}, parameter)
            if parameter.requires_grad:
                self._file.leaf({**event, "phase": "grad", "path": name}, parameter.grad)
        for name, buffer in module.named_buffers():
            self._file.leaf({**event, "phase": "buffer", "path": name}, buffer)


def _hold(value: Any, keep: bool) -> Callable[[], Any]:
    """A way back to an object: by keeping it, or weakly."""
    return functools.partial(_same, value) if keep else weakref.ref(value)


def _version(tensor: torch.Tensor) -> Optional[int]:
    """How often a tensor was written; None for one that does not count it, or is not yet materialised."""
    try:
        return None if tensor.is_inference() else int(tensor._version)
    except Exception:
        return None


def _address(value: Any) -> Optional[int]:
    """Where a tensor's memory begins; None where it has none, or none that can be told."""
    try:
        return value.untyped_storage().data_ptr() or None
    except Exception:  # no tensor, sparse, a subclass, a device without addresses
        return None


def _versions(module: torch.nn.Module) -> List[Optional[int]]:
    return [_version(parameter) for parameter in module.parameters()]


def _same(value: Any) -> Any:
    return value
