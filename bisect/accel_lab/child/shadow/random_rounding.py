"""Rounds the results of a float64 run at random, to show how far rounding can move a value.

A value that is exact in the real run by chance does not show how accurately it can be computed: a difference
may be exactly zero in one order of operations, and the last bit of a large number in another. A float64 run
that moves each result up or down at random by one rounding of the real dtype (Monte Carlo arithmetic) moves
values as far as another order of operations may.
"""

from __future__ import annotations

from typing import Dict, Iterable, List

import torch

from .tensors import PARTS, shadowed

#: Unit roundoff per dtype: half the distance from 1 to the next number.
UNIT: Dict[torch.dtype, float] = {
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
#: Larger tensors (in elements) are not rounded at random, to save memory.
MOST_ELEMENTS = 1 << 22


def unit(dtype: torch.dtype) -> float:
    return UNIT[PARTS[dtype][0]]


class RandomRounding:
    """Rounds at random with its own generator, so that the script's random numbers do not change."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator()
        self._generator.manual_seed(seed)

    def fits(self, tensors: Iterable[torch.Tensor]) -> bool:
        return all(tensor.numel() <= MOST_ELEMENTS for tensor in tensors)

    def result(self, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns a result with each element moved up or down by one rounding of ``dtype``."""
        return self._moved(values, unit(dtype))

    def inside(self, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns an operand moved by one rounding of ``dtype``, or of float32 if that is more precise."""
        if not (values.is_floating_point() or values.is_complex()):
            return values
        return self._moved(values, min(unit(dtype), unit(torch.float32)))

    def narrows(self, inputs: List[torch.Tensor], results: List[torch.Tensor]) -> bool:
        """Whether a result has a narrower dtype than an input."""
        units = [unit(t.dtype) for t in inputs if shadowed(t)]
        return bool(units) and any(unit(t.dtype) > min(units) for t in results)

    def _moved(self, values: torch.Tensor, by: float) -> torch.Tensor:
        signs = torch.empty(values.shape, dtype=torch.int8).random_(0, 2, generator=self._generator)
        factors = signs.to(torch.float64).mul_(2 * by).add_(1.0 - by)
        return values * factors.to(values.device)
