"""Writes a call's inputs as short constructors or as reads from a safetensors file next to the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .arguments import contiguous, elements, is_contiguous, is_dense
from .program import Call, Made, ScalarInput, Storage, Stored, TensorInput

LOADER = '''\
def load(file, key, dtype):
    """A flat tensor out of a safetensors file beside this script."""
    with open(Path(__file__).with_name(file), "rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        start, end = json.loads(stream.read(size))[key]["data_offsets"]
        stream.seek(8 + size + start)
        return torch.frombuffer(bytearray(stream.read(end - start)), dtype=dtype)
'''

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")


@dataclass
class WrittenInputs:
    """The lines that make the inputs; ``loads`` is set if they need the loader."""

    lines: list[str] = field(default_factory=list)
    loads: bool = False


def written_inputs(call: Call, names: Sequence[str], default_dtype: str) -> WrittenInputs:
    """Writes one line for each input; shared storages get their own lines first."""
    out = WrittenInputs()
    bases: dict[str, str] = {}
    for storage in call.storages:
        if call.sharers(storage.name) > 1:
            bases[storage.name] = base = f"base{len(bases) or ''}"
            out.lines.append(f"{base} = {_flat(storage, default_dtype, out)}")
    for name, value in zip(names, call.inputs, strict=True):
        if isinstance(value, TensorInput):
            out.lines.append(f"{name} = {_tensor(value, call, bases, default_dtype, out)}")
    return out


def _tensor(
    value: TensorInput, call: Call, bases: dict[str, str], default_dtype: str, out: WrittenInputs
) -> str:
    storage = call.storage(value.storage)
    base = bases.get(value.storage)
    if base is not None:
        text = base + ("" if storage.dtype == value.dtype else f".view(torch.{value.dtype})") + _layout(value)
    elif isinstance(storage.source, Made):
        text = _made(storage, value, default_dtype)
    else:
        text = _flat(storage, default_dtype, out)
        if storage.dtype != value.dtype:
            text += f".view(torch.{value.dtype})"
        if value.origin is not None or not _is_flat(value, storage.numel):
            text += _layout(value)
    if value.cast and value.cast != value.dtype:
        text += f".to(torch.{value.cast})"
    if storage.device != "cpu":
        text += f".to({storage.device!r})"
    if value.requires_grad:
        text += ".requires_grad_()" + ("" if value.leaf else ".clone()")
    return text


def _is_flat(value: TensorInput, numel: int) -> bool:
    return value.size == (numel,) and value.stride == (1,) and not value.offset


def _layout(value: TensorInput) -> str:
    """Returns the expression that turns the flat storage into the input."""
    if value.origin is None:
        return _view(value.size, value.stride, value.offset)
    size, stride, offset = value.origin
    text = _view(size, stride, offset)
    if size != value.size:
        text += "[" + ", ".join(f":{n}" for n in value.size) + "]"
    return text + ".contiguous()"


def _view(size: Sequence[int], stride: Sequence[int], offset: int) -> str:
    if not offset and is_contiguous(size, stride) and elements(size):
        return f".view({_sizes(size)})"
    end = f", {offset}" if offset else ""
    return f".as_strided({tuple(size)!r}, {tuple(stride)!r}{end})"


def _sizes(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape)) or "()"


def _flat(storage: Storage, default_dtype: str, out: WrittenInputs) -> str:
    if isinstance(storage.source, Made):
        return constructor(storage.source, (storage.numel,), storage.dtype, default_dtype)
    if not storage.numel:
        return f"torch.empty(0, dtype=torch.{storage.dtype})"
    out.loads = True
    return f'load("{storage.source.file}", "{storage.source.key}", torch.{storage.dtype})'


def load_text(source: Stored, dtype: str, size: Sequence[int]) -> str:
    """Returns the expression that loads a contiguous tensor."""
    return f'load("{source.file}", "{source.key}", torch.{dtype}).view({_sizes(size)})'


def _made(storage: Storage, value: TensorInput, default_dtype: str) -> str:
    """Returns a constructor with the input's layout: contiguous, permuted, or a view of a flat tensor."""
    source = storage.source
    assert isinstance(source, Made)
    if value.dtype == storage.dtype and not value.offset and value.origin is None:
        if is_contiguous(value.size, value.stride):
            return constructor(source, value.size, value.dtype, default_dtype)
        if is_dense(value.size, value.stride):
            order = sorted(range(len(value.size)), key=lambda d: (-value.stride[d], d))
            stored = tuple(value.size[d] for d in order)
            back = tuple(order.index(d) for d in range(len(order)))
            strides = contiguous(stored)
            if all(n == 1 or strides[back[d]] == value.stride[d] for d, n in enumerate(value.size)):
                text = constructor(source, stored, value.dtype, default_dtype)
                return text + (".t()" if back == (1, 0) else f".permute({_sizes(back)})")
    flat = constructor(source, (storage.numel,), storage.dtype, default_dtype)
    cast = "" if storage.dtype == value.dtype else f".view(torch.{value.dtype})"
    return f"{flat}{cast}{_layout(value)}"


def constructor(made: Made, shape: Sequence[int], dtype: str, default_dtype: str) -> str:
    """Returns the expression for a contiguous tensor of this shape."""
    shape = tuple(shape)
    count = elements(shape)
    sizes = _sizes(shape)
    as_dtype = "" if dtype == default_dtype else f", dtype=torch.{dtype}"
    reshaped = "" if len(shape) == 1 else f".reshape({sizes})"
    if made.kind in ("zeros", "ones"):
        return f"torch.{made.kind}({sizes}{as_dtype})"
    if made.kind == "full":
        return f"torch.full({shape!r}, {made.value}{as_dtype})"
    if made.kind == "literal":
        return f"torch.tensor({made.value}{as_dtype if not _inferred(made.value, dtype) else ''}){reshaped}"
    if dtype == "bool":
        if made.kind == "arange":
            return (
                f"torch.arange({count}){reshaped} % 2 == 0"
                if not reshaped
                else (f"(torch.arange({count}) % 2 == 0){reshaped}")
            )
        return f"(torch.rand({sizes}) > 0.5)"
    if made.kind == "arange":
        if dtype == "int64":
            return f"torch.arange({count}){reshaped}"
        if dtype in _INTEGERS or dtype != default_dtype:
            return f"torch.arange({count}, dtype=torch.{dtype}){reshaped}"
        return f"torch.arange({count}.0){reshaped}"
    if made.kind == "linspace":
        return f"torch.linspace({made.value or '-1, 1'}, {count}{as_dtype}){reshaped}"
    if dtype in _INTEGERS:
        return f"torch.randint(0, {made.value or '10'}, {shape!r}{'' if dtype == 'int64' else as_dtype})"
    return f"torch.randn({sizes}{as_dtype})"


def _inferred(text: str, dtype: str) -> bool:
    """Whether ``torch.tensor`` infers this dtype from the literal."""
    if dtype == "int64":
        return text.strip("[]") != "" and all(piece.strip("[] -").isdigit() for piece in text.split(","))
    return dtype == "bool" and text.strip("[]") != ""


__all__ = ["LOADER", "ScalarInput", "WrittenInputs", "constructor", "load_text", "written_inputs"]
