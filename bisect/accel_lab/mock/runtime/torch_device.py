"""Registers ``mock`` as a torch device: ``x.to("mock")`` moves data into the mock's memory.

It uses torch's Python registration of PrivateUse1, so nothing is compiled. A device tensor owns a place in
device memory, row-major in sticks; a view stores its parent and strides. Places are looked up by storage,
because torch creates other tensors over a storage (``detach``). Eager operators on such tensors run on the
host and count as fallbacks; only ``torch.compile`` runs code on the device. Builds of torch without this
registration can only compile.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import backend_registration
from torch.utils._pytree import tree_map_only

from accel_lab.mock.device import FORMATS, Device, format_of
from accel_lab.mock.instruments import moves_by_definition
from accel_lab.mock.ir.layout import Layout, row_major
from accel_lab.mock.settings import read_settings

from .device_tensors import NAME, is_on_device
from .memory import Memory
from .run_statistics import collected
from .runner import shared_runtime
from .transfer import to_device, to_host

REASON = "eager operator on a mock tensor"
_SETUP = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)


class DeviceUnavailable(RuntimeError):
    """Raised if this process cannot register the device; the message says why, and what works instead."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The location of a tensor's elements in device memory."""

    memory: Memory
    address: int


@dataclass(frozen=True, kw_only=True)
class View:
    """A view of another device tensor: strides and offset, in elements of its row-major order."""

    parent: torch.Tensor
    stride: tuple[int, ...]
    offset: int


#: The data of each live device storage, by the storage's address.
_sources: dict[int, tuple[StorageWeakRef, Place | View]] = {}
_installed: list[torch.library.Library] = []
_device: list[Device] = []


def available() -> bool:
    """Whether this build of torch can register a device from Python."""
    return _SETUP is not None


def install(device: Device | None = None) -> None:
    """Registers the device for this process; repeated calls do nothing. Raises DeviceUnavailable."""
    if _installed:
        return
    if _SETUP is None:
        raise DeviceUnavailable(
            f"torch {torch.__version__} has no Python registration of devices (2.13 has): "
            f'there is no .to("{NAME}") here, but torch.compile(backend="{NAME}") works'
        )
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        raise DeviceUnavailable(
            f"PrivateUse1 is already registered as device {taken!r}, and torch allows only one"
        )
    _device.append(device or read_settings().device)
    _SETUP(NAME)
    aten, everything = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    aten.impl("empty.memory_format", _empty, "PrivateUse1")
    aten.impl("empty_strided", _empty, "PrivateUse1")
    aten.impl("_copy_from", _copy_from, "PrivateUse1")
    everything.fallback(_fallback, "PrivateUse1")
    _installed.extend((aten, everything))
    _show_by_host()


def _show_by_host() -> None:
    """Prints device tensors by a host copy: torch formats numbers in float64, which the device lacks."""
    original = torch._tensor_str._str

    def shown(tensor: torch.Tensor, *, tensor_contents: str | None = None) -> str:
        if source_of(tensor) is None:
            return original(tensor, tensor_contents=tensor_contents)
        return f"{original(fetch(tensor), tensor_contents=tensor_contents)} on {NAME}"

    torch._tensor_str._str = shown


#: The public name of :func:`install`.
install_mock_device = install


def memory() -> Memory:
    """Returns the device's memory, which compiled graphs use too."""
    _drop_expired()
    return shared_runtime(_device[0], read_settings().back_end).memory


def source_of(tensor: torch.Tensor) -> Place | View | None:
    """Returns the device data of a tensor; None for a host, fake or unknown tensor."""
    if tensor.device.type != NAME or isinstance(tensor, FakeTensor):
        return None
    held = _sources.get(tensor.untyped_storage()._cdata)
    return None if held is None or held[0].expired() else held[1]


def _drop_expired() -> None:
    """Removes expired storages, which frees their memory."""
    while gone := [key for key, (storage, _) in _sources.items() if storage.expired()]:
        for key in gone:
            del _sources[key]


def _made(size: Sequence[int], dtype: torch.dtype, source: Place | View | None = None) -> torch.Tensor:
    """A device tensor, with new memory unless ``source`` is given. Raises TypeError for other dtypes."""
    number = format_of(dtype)
    if number is None:
        held = ", ".join(str(entry.torch_dtype).removeprefix("torch.") for entry in FORMATS.values())
        raise TypeError(f"the mock device cannot hold {dtype}; it has {held}")
    if source is None:
        place = Place(memory=memory(), address=memory().allocate(row_major(tuple(size), number.name).bytes))
        weakref.finalize(place, place.memory.free, place.address)
        source = place
    made: torch.Tensor = torch._C._acc.create_empty_tensor(tuple(size), dtype)
    storage = made.untyped_storage()
    _sources[storage._cdata] = (StorageWeakRef(storage), source)
    return made


def _source(tensor: torch.Tensor) -> Place | View:
    found = source_of(tensor)
    if found is None:
        raise RuntimeError("a tensor of the mock device that has no place in its memory")
    return found


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """Transfers a device tensor to a contiguous host copy."""
    source = _source(tensor)
    with torch.no_grad():
        if isinstance(source, View):
            whole = fetch(source.parent)
            return whole.as_strided(tuple(tensor.shape), source.stride, source.offset).clone(
                memory_format=torch.contiguous_format
            )
        if moves_by_definition():
            return source.memory.read(_layout(tensor), source.address)
        return to_host(source.memory, _layout(tensor), source.address)


def peek(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous host copy, read by the memory's definition without a transfer."""
    source = _source(tensor)
    with torch.inference_mode(False), torch.no_grad():
        if isinstance(source, View):
            whole = peek(source.parent)
            return whole.as_strided(tuple(tensor.shape), source.stride, source.offset).contiguous()
        return source.memory.read(_layout(tensor), source.address)


def place(value: torch.Tensor, *, transferred: bool) -> torch.Tensor:
    """Returns a new device tensor; unless ``transferred``, it is written by the memory's definition."""
    made = _made(tuple(value.shape), value.dtype)
    if transferred:
        store(made, value)
    else:
        source = _source(made)
        assert isinstance(source, Place)
        with torch.inference_mode(False), torch.no_grad():
            source.memory.write(_layout(made), source.address, value.detach())
    return made


def _layout(tensor: torch.Tensor) -> Layout:
    number = format_of(tensor.dtype)
    assert number is not None
    return row_major(tuple(tensor.shape), number.name)


def store(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Writes a host tensor of the same size and dtype to a device tensor."""
    source = _source(tensor)
    with torch.no_grad():
        if isinstance(source, View):
            whole = fetch(source.parent)
            whole.as_strided(tuple(tensor.shape), source.stride, source.offset).copy_(value)
            store(source.parent, whole)
            return
        if moves_by_definition():
            source.memory.write(_layout(tensor), source.address, value)
            return
        to_device(source.memory, value, _layout(tensor), source.address)


def _empty(size: Sequence[int], *_: Any, dtype: torch.dtype | None = None, **__: Any) -> torch.Tensor:
    """Creates a dense tensor; requested strides are ignored."""
    return _made(size, dtype or torch.get_default_dtype())


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copies to or from the device, or within the device through the host."""
    value = fetch(source) if is_on_device(source) else source.detach()
    if is_on_device(target):
        sent = value.to(target.dtype)
        store(target, sent if sent.shape == target.shape else sent.expand(target.shape))
    else:
        target.copy_(value)
    return target


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an operator on the host; keeps views and writes mutated arguments back."""
    schema = operator._schema
    hosts: dict[int, torch.Tensor] = {}
    owners: dict[int, torch.Tensor] = {}

    def sent(tensor: torch.Tensor) -> torch.Tensor:
        if not is_on_device(tensor):
            return tensor
        if id(tensor) not in hosts:
            hosts[id(tensor)] = fetch(tensor)
            owners[hosts[id(tensor)].untyped_storage()._cdata] = tensor
        return hosts[id(tensor)]

    call_args, call_kwargs = tree_map_only(torch.Tensor, sent, (args, kwargs))
    call_args, call_kwargs = tree_map_only(
        torch.device, lambda _: torch.device("cpu"), (call_args, call_kwargs)
    )
    result = operator(*call_args, **call_kwargs)
    written = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            written += [entry for entry in _tensors(value) if id(entry) in hosts]
    for tensor in written:
        value = hosts[id(tensor)]
        if value.shape == tensor.shape:
            store(tensor, value)
        else:  # the operator resized it, as `abs` resizes its empty out tensor
            tensor.data = place(value, transferred=True)
    collected().fell_back(str(operator), REASON, "")
    own = {hosts[id(tensor)].untyped_storage()._cdata: tensor for tensor in written}

    def returned(value: torch.Tensor) -> Any:
        owner = own.get(value.untyped_storage()._cdata)
        if owner is not None:
            return owner
        parent = owners.get(value.untyped_storage()._cdata)
        if parent is None:
            made = _made(tuple(value.shape), value.dtype)
            store(made, value)
            return made
        view = View(parent=parent, stride=tuple(value.stride()), offset=int(value.storage_offset()))
        return _made(tuple(value.shape), value.dtype, view)

    return tree_map_only(torch.Tensor, returned, result)


def _tensors(value: Any) -> list[torch.Tensor]:
    """The device tensors in an argument: itself, or those of a list."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    return [entry for entry in entries if is_on_device(entry)]
