"""Records the outputs, mutated inputs, state and gradients of compiled regions while the script runs.

Each event is one line of ``records.jsonl``. Tensor values are stored in ``tensors.bin`` as contiguous logical
values, so that strides are compared separately; the event has the offset (``event_file``).

The recorder must not disturb the run. It turns off autograd, dispatch modes and function modes, draws no
random numbers, and does not touch gradients or version counters. Its own exceptions become events, not
errors of the script. It keeps watched modules and leaf inputs alive within a memory budget; beyond that it
holds them weakly.
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
    memory_address,
    name_of,
    random_state,
    raw_bytes,
    text_of,
    type_name,
    undisturbed,
)

if TYPE_CHECKING:
    from ..shadow.mode import ShadowMode

#: Bytes of inputs checksummed per call, to detect writes that no version counter shows.
SNAPSHOT_BYTES = 16 << 20
#: Leaf inputs kept alive for their gradients, in bytes; the rest are held weakly.
LEAF_BYTES = 64 << 20
#: Non-leaf inputs whose gradients are recorded in a run.
MOST_HOOKS = 2000


class _Input:
    """A tensor input of a call, with version and checksum to detect a write."""

    __slots__ = ("checksum", "path", "tensor", "version")

    def __init__(self, path: str, tensor: torch.Tensor, budget: int) -> None:
        self.path = path
        self.tensor = tensor
        self.version = _version(tensor)
        self.checksum = self._checksum() if tensor.numel() * tensor.element_size() <= budget else None

    def _checksum(self) -> Optional[int]:
        return zlib.crc32(raw_bytes(flat_values(self.tensor)))

    def change(self) -> Tuple[bool, Optional[bool]]:
        """Returns ``(may have been written, values differ)``; the second is None without a checksum."""
        different = None if self.checksum is None else self.checksum != self._checksum()
        return different is True or self.version != _version(self.tensor), different


class Call:
    """A call in progress. ``digest`` identifies its arguments, ``thread`` is the number of its thread."""

    __slots__ = ("digest", "index", "inputs", "name", "reads", "region", "state", "thread")

    def __init__(self, region: int, name: str, index: int, thread: int) -> None:
        self.region = region
        self.name = name
        self.index = index
        self.thread = thread
        self.digest = 0
        self.inputs: List[_Input] = []
        self.reads: Optional[Tuple[Any, Dict[str, Any]]] = None
        self.state: Dict[str, Tuple[Callable[[], Any], Optional[int]]] = {}

    def add_argument(self, path: str, value: Any) -> None:
        """Adds an argument to the digest: a tensor by checksum, dtype and shape, a scalar by value."""
        if isinstance(value, _Input):
            tensor = value.tensor
            value = f"{value.checksum} {tensor.dtype} {tuple(tensor.shape)}"
        elif not isinstance(value, (bool, int, float, complex, str, type(None))):
            return
        if path.startswith(("args", "kwargs")):
            self.digest = zlib.crc32(f"{path} {value}".encode("utf-8", "replace"), self.digest)


class Recorder:
    """Writes the events of one run into ``folder``, with at most ``cap_bytes`` of full tensor values.

    ``shadow`` looks up the float64 reference of a tensor or number.
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

    # ---- public interface --------------------------------------------------------------------------

    def begin_call(
        self, region: int, name: str, args: Tuple[Any, ...], kwargs: Dict[str, Any], function: Any = None
    ) -> Call:
        """Notes a call's inputs; pass the result to ``end_call`` or ``raised``.

        Tensors that ``function`` can read besides its arguments count as inputs; modules are watched.
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
                call.reads = (function, {"args": args, "kwargs": kwargs})
                left = state_of(*call.reads)
                call.state = {path: (weakref.ref(one), _version(one)) for path, one in left.items()}
        self._await_parameter_gradients()
        return call

    def end_call(self, call: Call, result: Any) -> None:
        """Records the call's result, the state that it left, and the inputs that it changed."""
        with self._guard(), undisturbed(), self._lock:
            memory = {memory_address(entry.tensor): entry.path for entry in reversed(call.inputs)}
            for path, value in leaves(result, "out"):
                event = self._head(call, "output", path)
                address = memory_address(value)
                if address is not None:
                    event["shares"] = memory.get(address, "")
                    memory.setdefault(address, path)
                self._file.leaf(event, value)
            self._left_state(call, result)
            self._changed_inputs(call)

    def raised(self, call: Call, error: BaseException) -> None:
        """Records the call's exception and the inputs that it changed."""
        with self._guard(), undisturbed(), self._lock:
            event = self._head(call, "raised", "raised")
            bases = [name_of(c) for c in type(error).__mro__[1:] if c not in (BaseException, object)]
            event.update(kind="value", type=type_name(error), value=text_of(error), bases=bases)
            self._file.emit(event)
            self._changed_inputs(call)

    def watch_module(self, region: int, module: torch.nn.Module, *, untrained: bool = False) -> None:
        """Records the module's parameters, buffers and gradients at the end of the run.

        ``untrained``: only if no parameter was written until then. After some optimizer steps, rounding in
        bfloat16 causes differences as large as those of a fault.
        """
        with self._guard(), self._lock:
            if any(get() is module for _, get, _ in self._modules):
                return
            size = 0
            with contextlib.suppress(Exception):  # uninitialized (lazy) parameters have no size
                size = sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])
            keep = size <= self._module_left
            self._module_left -= size if keep else 0
            self._modules.append((region, _hold(module, keep), _versions(module) if untrained else None))

    def finish(self) -> None:
        """Records the final state: watched modules, gradients of leaf inputs, random state."""
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

    # ---- internals ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Turns an exception of the recorder into a note event."""
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
        """Yields ``(path, value)`` of each input of a call; modules that it reads are watched instead."""
        yield from leaves(tuple(args), "args")
        yield from leaves(dict(kwargs), "kwargs")
        for path, value in reached(function) if function is not None else ():
            if isinstance(value, torch.nn.Module):
                self.watch_module(region, value, untrained=True)
            else:
                yield path, value

    def _await_gradient(self, call: Call, path: str, tensor: torch.Tensor) -> None:
        """Records the gradient of a non-leaf input.

        The hook is on its ``grad_fn``, because Dynamo would see a hook on the tensor.
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
        """Starts recording parameter gradients of modules that are watched since the last call."""
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
        """Records tensors that the call left in lists, attributes and modules and did not return."""
        reads, call.reads = call.reads, None
        if reads is None or len(self._threads) > 1:
            return  # another thread may have changed the state meanwhile
        known = {id(entry.tensor) for entry in call.inputs}
        known.update(id(value) for _, value in leaves(result, "out"))
        for path, tensor in state_of(*reads).items():
            get, version = call.state.get(path, (lambda: None, None))
            if id(tensor) not in known and not (get() is tensor and version == _version(tensor)):
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
    """Returns a getter of an object that holds it strongly (``keep``) or weakly."""
    return functools.partial(_same, value) if keep else weakref.ref(value)


def _version(tensor: torch.Tensor) -> Optional[int]:
    """A tensor's version counter; None for inference tensors and uninitialized parameters."""
    try:
        return None if tensor.is_inference() else int(tensor._version)
    except Exception:
        return None


def _versions(module: torch.nn.Module) -> List[Optional[int]]:
    return [_version(parameter) for parameter in module.parameters()]


def _same(value: Any) -> Any:
    return value
