"""Arguments of a program's statements, and metadata of values: shape, dtype, stride, device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Union

# -- arguments -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ref:
    """A reference to a statement or parameter by name."""

    name: str


@dataclass(frozen=True)
class Name:
    """An expression that is emitted verbatim, such as ``torch.float32``."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list or a tuple, as ``kind`` says."""

    kind: str
    items: tuple[Arg, ...]


@dataclass(frozen=True)
class Slice:
    """``start:stop:step`` in a subscript."""

    start: Arg
    stop: Arg
    step: Arg


@dataclass(frozen=True)
class Table:
    """A dict."""

    items: tuple[tuple[Arg, Arg], ...]


Arg = None | bool | int | float | str | Ref | Name | Items | Slice | Table


def refs(arg: Arg) -> Iterator[str]:
    """Yields the names that an argument references, in order."""
    if isinstance(arg, Ref):
        yield arg.name
    elif isinstance(arg, Items):
        for item in arg.items:
            yield from refs(item)
    elif isinstance(arg, Slice):
        for item in (arg.start, arg.stop, arg.step):
            yield from refs(item)
    elif isinstance(arg, Table):
        for key, value in arg.items:
            yield from refs(key)
            yield from refs(value)


def mapped(arg: Arg, change: Callable[[Arg], Arg]) -> Arg:
    """Applies ``change`` to every leaf of an argument, rebuilding its containers."""
    if isinstance(arg, Items):
        return Items(arg.kind, tuple(mapped(item, change) for item in arg.items))
    if isinstance(arg, Slice):
        return Slice(mapped(arg.start, change), mapped(arg.stop, change), mapped(arg.step, change))
    if isinstance(arg, Table):
        return Table(tuple((mapped(k, change), mapped(v, change)) for k, v in arg.items))
    return change(arg)


# -- values ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorMeta:
    """Metadata of a tensor without its values."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] | None = None
    device: str = "cpu"
    requires_grad: bool = False

    @property
    def alike(self) -> tuple[tuple[int, ...], str, str]:
        """What two values must share for one to replace the other: shape, dtype, device."""
        return self.shape, self.dtype, self.device


@dataclass(frozen=True)
class ScalarMeta:
    """A number with its value."""

    value: Arg


Meta = Union[TensorMeta, ScalarMeta, tuple["Meta", ...], None]  # noqa: UP007 - it names itself


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor is contiguous; dimensions of size one may have any stride."""
    expected = contiguous(shape)
    return all(n <= 1 or s == e for n, s, e in zip(shape, stride, expected, strict=True)) or 0 in shape


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the tensor is contiguous for some order of its dimensions."""
    step = 1
    for s, n in sorted((s, n) for n, s in zip(shape, stride, strict=True) if n != 1):
        if s != step:
            return False
        step *= n
    return True


def elements(shape: Iterable[int]) -> int:
    """Returns the number of elements of a shape."""
    return prod(shape)
