"""Maps tensors to their float64 shadows: which tensors have one, and how a row covers a storage."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Set, Tuple

import torch

from ..torch_internals import dispatch

#: Dtypes that have shadows, with the dtype and the size in bytes of their real and imaginary parts.
PARTS: Dict[torch.dtype, Tuple[torch.dtype, int]] = {
    torch.float16: (torch.float16, 2),
    torch.bfloat16: (torch.bfloat16, 2),
    torch.float32: (torch.float32, 4),
    torch.float64: (torch.float64, 8),
    torch.complex32: (torch.float16, 2),
    torch.complex64: (torch.float32, 4),
    torch.complex128: (torch.float64, 8),
}
WIDE = (torch.float64, torch.complex128)
_NO_SHADOW_DEVICES = ("meta", "mps")


def shadowed(tensor: torch.Tensor) -> bool:
    """Whether the tensor's dtype, layout and device can have a shadow."""
    return (
        tensor.dtype in PARTS
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.device.type not in _NO_SHADOW_DEVICES
        and not tensor._is_zerotensor()
    )


def storage_key(tensor: torch.Tensor) -> int:
    """Returns the identity of a tensor's storage; 0 if it has none (sparse tensors and wrappers)."""
    try:
        if tensor.layout is not torch.strided or tensor._is_zerotensor():
            return 0
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return 0


def wide(dtype: torch.dtype) -> torch.dtype:
    if dtype not in PARTS:
        return dtype
    return torch.complex128 if dtype.is_complex else torch.float64


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the real values in float64."""
    return tensor.to(wide(tensor.dtype))


def _bare(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without conjugate and negative bits, as in its storage."""
    tensor = tensor.conj() if tensor.is_conj() else tensor
    return dispatch.negated_view(tensor) if tensor.is_neg() else tensor


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor's whole storage as a new row of float64."""
    count = tensor.untyped_storage().nbytes() // PARTS[tensor.dtype][1]
    bare = _bare(tensor)
    flat = torch.view_as_real(bare) if bare.is_complex() else bare
    return flat.as_strided((count,), (1,), 0).to(torch.float64, copy=True)


def view_of(values: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a row viewed with a tensor's size, stride, offset, and conjugate and negative bits."""
    if tensor.is_complex():
        values = torch.view_as_complex(values[: values.numel() // 2 * 2].view(-1, 2))
    view = values.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    view = view.conj() if tensor.is_conj() else view
    return dispatch.negated_view(view) if tensor.is_neg() else view


def covers(tensor: torch.Tensor) -> bool:
    """Whether the tensor covers every element of its storage."""
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes() and not _repeats(
        tensor
    )


def _repeats(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride()))


def copy_into(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies ``source``, also into an expanded target (one element per memory location)."""
    for dimension, (size, stride) in enumerate(zip(target.shape, target.stride())):
        if stride == 0 and size > 1:
            target, source = target.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
    target.copy_(source)


def adopt(real: torch.Tensor, twin: torch.Tensor, taken: Set[int]) -> torch.Tensor:
    """Returns the row for a new output: the memory of ``twin`` if its geometry is equal, else a copy."""
    count = real.untyped_storage().nbytes() // PARTS[real.dtype][1]
    storage = twin.untyped_storage()
    key = int(storage._cdata)
    plain = not (twin.is_conj() or twin.is_neg() or real.is_conj() or real.is_neg())
    same = twin.stride() == real.stride() and twin.storage_offset() == real.storage_offset()
    if plain and same and key not in taken and storage.nbytes() // 8 >= count:
        taken.add(key)
        flat = torch.view_as_real(twin) if twin.is_complex() else twin
        return flat.as_strided((count,), (1,), 0)
    if covers(real):
        values = torch.empty(count, dtype=torch.float64, device=real.device)
    else:
        values = whole_storage(real)
    copy_into(view_of(values, real), twin)
    return values


def agrees(values: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a row roughly equals its storage, so that the same operator must have written both."""
    whole = whole_storage(tensor)
    scale = float(whole.abs().nan_to_num(posinf=0.0).max()) if whole.numel() else 0.0
    return torch.allclose(values, whole, rtol=0.05, atol=0.01 * scale, equal_nan=True)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns nested arguments with ``change`` applied to each leaf; tuples become lists."""
    if isinstance(value, (tuple, list)):
        return [map_leaves(item, change) for item in value]
    return change(value)
