"""A real ``mock`` device in torch: ``x.to("mock")`` moves data into the mock's memory, and logs it.

It goes through torch's Python registration of PrivateUse1, so nothing is built. A tensor of the device owns a
place in device memory, row-major in sticks; a view of it is its parent and the strides over that. Operators
called on such tensors one by one run on the host and are counted as fallbacks: what runs on the device is
what ``torch.compile`` makes. Builds of torch without that registration can only compile.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_map_only

from accel_lab.mock.device import FORMATS, Device, format_of
from accel_lab.mock.ir.layout import row_major
from accel_lab.mock.settings import read_settings

from .memory import Memory
from .run_statistics import collected
from .runner import shared_runtime
from .transfer import to_device, to_host

NAME = "mock"
REASON = "an operator called by itself on a tensor of the mock device"
_SETUP = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)


class DeviceUnavailable(RuntimeError):
    """This process cannot have a mock device; the message says why, and what works all the same."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a tensor's elements lie in device memory."""

    memory: Memory
    address: int


@dataclass(frozen=True, kw_only=True)
class View:
    """A part of another tensor of the device: strides and offset over its elements in row-major order."""

    parent: MockTensor
    stride: tuple[int, ...]
    offset: int


class MockTensor(torch.Tensor):
    """A tensor of the mock device."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    source: Place | View

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{fetch(self)!r} on {NAME}"


_installed: list[torch.library.Library] = []
_device: list[Device] = []


def available() -> bool:
    """Whether this build of torch can register a device from Python."""
    return _SETUP is not None


def install(device: Device | None = None) -> None:
    """Register the device for this process; a second call changes nothing. Raises DeviceUnavailable."""
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
            f"PrivateUse1 is the device {taken!r} in this process, and torch has one such"
        )
    _device.append(device or read_settings().device)
    _SETUP(NAME)
    aten, everything = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    aten.impl("empty.memory_format", _empty, "PrivateUse1")
    aten.impl("empty_strided", _empty_strided, "PrivateUse1")
    aten.impl("_copy_from", _copy_from, "PrivateUse1")
    for name in ("detach", "alias"):
        aten.impl(name, _same, "PrivateUse1")
    everything.fallback(_fallback, "PrivateUse1")
    _installed.extend((aten, everything))


def memory() -> Memory:
    """The memory of the device, the one that compiled graphs use as well."""
    return shared_runtime(_device[0], read_settings().back_end).memory


def _made(size: Sequence[int], dtype: torch.dtype, source: Place | View | None = None) -> MockTensor:
    """A tensor of the device, in a new place where it has no source. Raises TypeError for other dtypes."""
    number = format_of(dtype)
    if number is None:
        held = ", ".join(str(entry.torch_dtype).removeprefix("torch.") for entry in FORMATS.values())
        raise TypeError(f"the mock device cannot hold {dtype}; it has {held}")
    if source is None:
        place = Place(memory=memory(), address=memory().allocate(row_major(tuple(size), number.name).bytes))
        weakref.finalize(place, place.memory.free, place.address)
        source = place
    made = torch._C._acc.create_empty_tensor(tuple(size), dtype)
    made.__class__ = MockTensor
    made.source = source
    return made  # type: ignore[no-any-return]


def fetch(tensor: MockTensor) -> torch.Tensor:
    """A contiguous host copy."""
    source = tensor.source
    with torch.no_grad():
        if isinstance(source, View):
            whole = fetch(source.parent)
            return whole.as_strided(tuple(tensor.shape), source.stride, source.offset).clone(
                memory_format=torch.contiguous_format
            )
        number = format_of(tensor.dtype)
        assert number is not None
        return to_host(source.memory, row_major(tuple(tensor.shape), number.name), source.address)


def store(tensor: MockTensor, value: torch.Tensor) -> None:
    """Write a host tensor of the same size and dtype into a tensor of the device."""
    source = tensor.source
    with torch.no_grad():
        if isinstance(source, View):
            whole = fetch(source.parent)
            whole.as_strided(tuple(tensor.shape), source.stride, source.offset).copy_(value)
            store(source.parent, whole)
            return
        number = format_of(tensor.dtype)
        assert number is not None
        to_device(source.memory, value, row_major(tuple(tensor.shape), number.name), source.address)


def _empty(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any) -> MockTensor:
    return _made(size, dtype or torch.get_default_dtype())


def _empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype | None = None, **_: Any
) -> MockTensor:
    return _made(size, dtype or torch.get_default_dtype())


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """A transfer: to the device, from it, or through the host from one place to another."""
    value = fetch(source) if isinstance(source, MockTensor) else source.detach()
    if isinstance(target, MockTensor):
        sent = value.to(target.dtype)
        store(target, sent if sent.shape == target.shape else sent.expand(target.shape))
    else:
        target.copy_(value)
    return target


def _same(tensor: MockTensor) -> MockTensor:
    """The same elements under another tensor."""
    return _made(tuple(tensor.shape), tensor.dtype, tensor.source)


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on the host; views stay views, and what it writes into is written back."""
    schema = operator._schema
    hosts: dict[int, torch.Tensor] = {}
    owners: dict[int, MockTensor] = {}

    def sent(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, MockTensor):
            if tensor.device.type == NAME:
                raise RuntimeError(f"{operator}: a tensor of the mock device that has no place in its memory")
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
        store(tensor, hosts[id(tensor)])
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


def _tensors(value: Any) -> list[MockTensor]:
    """The device's tensors in an argument: itself, or those of a list."""
    entries = value if isinstance(value, (list, tuple)) else [value]
    return [entry for entry in entries if isinstance(entry, MockTensor)]
