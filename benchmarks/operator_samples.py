"""What the operator benchmark runs: torch's own samples (``op_db``), and a grid of sizes and memory layouts
that straddle a stick."""

from __future__ import annotations

import importlib
import itertools
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import torch

from operator_cases import CASES
from operator_run import Sample

DTYPES = ("float32", "float16", "bfloat16", "int64", "bool")
#: A grid case's sizes: the last extent straddles a stick of each word length, and so does the first.
WIDTHS = (1, 63, 64, 65, 127, 128, 129)
SIZES = (*((3, width) for width in WIDTHS), (129, 2), (65, 65), (64, 1), (0, 5), (3, 0), (1, 1), (2, 3, 33))
LAYOUTS = ("contiguous", "transposed", "expanded", "offset")
GRID = "grid."


def op_db() -> dict[str, Any]:
    """torch's operator descriptions by full name; an empty dictionary where this build ships none."""
    if "expecttest" not in sys.modules:
        try:
            importlib.import_module("expecttest")
        except ImportError:  # torch's test helpers import it for a base class that samples do not need
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    try:
        from torch.testing._internal.common_methods_invocations import op_db as found
    except ImportError:
        return {}
    return {info.full_name: info for info in found}


def names(found: dict[str, Any]) -> list[str]:
    """All that can be run: op_db's entries, then the grid's cases."""
    return [*found, *(GRID + name for name in CASES)]


def samples(
    found: dict[str, Any], name: str, dtype: str, limit: int, *, backward: bool
) -> Iterator[tuple[str, Sample]]:
    """``(description, sample)`` of one operator in one dtype; none where it does not take that dtype."""
    if name.startswith(GRID):
        if not backward:
            yield from _grid(name.removeprefix(GRID), dtype, limit)
        return
    info, kind = found[name], getattr(torch, dtype)
    if kind not in info.supported_dtypes("cpu"):
        return
    if backward and not (info.supports_autograd and kind in info.supported_backward_dtypes("cpu")):
        return
    torch.manual_seed(0)
    every = list(info.sample_inputs("cpu", kind, requires_grad=False))
    for number in _spread(len(every), limit):
        entry = every[number]
        if _complex(entry):
            continue
        sample = Sample(info.op, (entry.input, *entry.args), dict(entry.kwargs), backward=backward)
        yield f"sample {number}: {_described(sample)}", sample


def _spread(count: int, limit: int) -> list[int]:
    """At most ``limit`` of ``count`` numbers, evenly spread, both ends among them."""
    if limit <= 0 or count <= limit:
        return list(range(count))
    if limit == 1:
        return [0]
    return sorted({round(n * (count - 1) / (limit - 1)) for n in range(limit)})


def _complex(entry: Any) -> bool:
    leaves = torch.utils._pytree.tree_leaves((entry.input, entry.args, entry.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.is_complex() for leaf in leaves)


def _grid(name: str, dtype: str, limit: int) -> Iterator[tuple[str, Sample]]:
    case = CASES[name]
    if dtype not in case.dtypes:
        return
    pairs = list(itertools.product(SIZES, LAYOUTS))
    for number in _spread(len(pairs), limit):
        size, layout = pairs[number]
        if not case.takes(size):
            continue
        x = laid_out(size, getattr(torch, dtype), layout)
        yield f"{list(size)} {layout}", Sample(case.function, (x,), {}, backward=False)


def laid_out(size: tuple[int, ...], dtype: torch.dtype, layout: str) -> torch.Tensor:
    """A seeded tensor of this size: row-major, turned, broadcast along its first dimension, or every second
    element of a larger one from an offset on."""
    generator = torch.Generator().manual_seed(hash(size) % 1000)
    if layout == "transposed":
        return _values((*size[:-2], size[-1], size[-2]), dtype, generator).transpose(-1, -2)
    if layout == "expanded":
        return _values((1, *size[1:]), dtype, generator).expand(size)
    if layout == "offset":
        larger = tuple(2 * extent + 1 for extent in size[:-1])
        where = tuple(slice(1, 1 + 2 * extent, 2) for extent in size[:-1])
        return _values((*larger, size[-1] + 3), dtype, generator)[(*where, slice(2, 2 + size[-1]))]
    return _values(size, dtype, generator)


def _values(size: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(0, 2, size, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(-9, 10, size, generator=generator).to(dtype)
    return torch.randn(size, generator=generator).to(dtype)


def _described(sample: Sample) -> str:
    shown = [
        f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
        if isinstance(leaf, torch.Tensor)
        else repr(leaf)[:30]
        for leaf in sample.leaves[:8]
    ]
    return ", ".join(shown)
