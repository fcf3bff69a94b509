"""The arguments of a program's statements, and what is known of a value without its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Union

# -- arguments -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ref:
    """The value of a statement or parameter."""

    name: str


@dataclass(frozen=True)
class Name:
    """An expression that is written as it is, such as ``torch.float32``."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list or a tuple; ``kind`` says which."""

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
    """The names that an argument mentions, in order."""
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
    """The argument with ``change`` applied to everything in it that is no container."""
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
    """What is known of a tensor without its values."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] | None = None
    device: str = "cpu"
    requires_grad: bool = False

    @property
    def alike(self) -> tuple[tuple[int, ...], str, str]:
        """What two values must share for one to stand in for the other."""
        return self.shape, self.dtype, self.device


@dataclass(frozen=True)
class ScalarMeta:
    """A number, and which one it was."""

    value: Arg


Meta = Union[TensorMeta, ScalarMeta, tuple["Meta", ...], None]  # noqa: UP007 - it names itself


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements lie in order without gaps; sizes of one have any stride."""
    expected = contiguous(shape)
    return all(n <= 1 or s == e for n, s, e in zip(shape, stride, expected, strict=True)) or 0 in shape


def is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether some order of the dimensions makes the tensor contiguous."""
    step = 1
    for s, n in sorted((s, n) for n, s in zip(shape, stride, strict=True) if n != 1):
        if s != step:
            return False
        step *= n
    return True


def elements(shape: Iterable[int]) -> int:
    """The number of elements of a shape."""
    return prod(shape)
