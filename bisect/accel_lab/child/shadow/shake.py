"""Shake: roundings of the real run drawn at random, so that a float64 run shows what rounding can do.

A value that happens to be exact in the real run says nothing of how well it can be computed: a difference
of equal numbers is exactly zero in one order of operations and the last bit of a large number in another. A
float64 run whose every result is moved by one rounding of the real type, up or down at random (Monte Carlo
arithmetic), moves its values as far as another order of operations may.
"""

from __future__ import annotations

from typing import Dict, Iterable, List

import torch

from .tensors import PARTS, shadowed

#: Half the distance from 1 to the next number: the most that one rounding moves a value of about 1.
UNIT: Dict[torch.dtype, float] = {
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
#: Larger tensors are not shaken: their own many elements tell enough, and memory is dear.
MOST_ELEMENTS = 1 << 22


def unit(dtype: torch.dtype) -> float:
    return UNIT[PARTS[dtype][0]]


class Shake:
    """Random roundings from a generator of its own: the script's draws stay as they are."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator()
        self._generator.manual_seed(seed)

    def can(self, tensors: Iterable[torch.Tensor]) -> bool:
        return all(tensor.numel() <= MOST_ELEMENTS for tensor in tensors)

    def result(self, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A result as the real operator might have rounded it."""
        return self._moved(values, unit(dtype))

    def inside(self, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """An operand moved by one rounding of the type that operators calculate in: at least float32."""
        if not (values.is_floating_point() or values.is_complex()):
            return values
        return self._moved(values, min(unit(dtype), unit(torch.float32)))

    def narrows(self, inputs: List[torch.Tensor], results: List[torch.Tensor]) -> bool:
        """Whether an operator that only moves values writes them in a narrower type."""
        units = [unit(t.dtype) for t in inputs if shadowed(t)]
        return bool(units) and any(unit(t.dtype) > min(units) for t in results)

    def _moved(self, values: torch.Tensor, by: float) -> torch.Tensor:
        signs = torch.empty(values.shape, dtype=torch.int8).random_(0, 2, generator=self._generator)
        factors = signs.to(torch.float64).mul_(2 * by).add_(1.0 - by)
        return values * factors.to(values.device)
