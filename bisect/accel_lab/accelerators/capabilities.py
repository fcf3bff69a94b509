"""The capabilities that an accelerator declares, and the constraints that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .constraints.catalogue import Constraint
from .constraints.node_checks import DtypeConstraint
from .constraints.selection import ConstraintLimits, constraint_of, denied_operators, dtype_of
from .limits import COMMON_DTYPES, DeviceLimits
from .settings import read_size, read_whole

#: The largest allowed alignment, in elements.
MOST_ALIGNMENT = 4096


@dataclass(frozen=True, kw_only=True)
class AcceleratorCapabilities:
    """Declares what a device can do. The constraints on its graphs are derived from it.

    ``dtypes``: torch dtypes or their names. ``int64``: whether the device computes in int64; if not, int64 is
    removed from ``dtypes``. ``alignment`` is in elements along the last dimension. ``stick_bytes``: the last
    dimension of a tensor is stored in whole sticks of this many bytes. ``max_memory`` is in bytes.
    ``supported``: the device's operators, in any spelling that torch knows; None if every operator is
    supported that is not in ``denied``.
    """

    dtypes: frozenset[Any] = COMMON_DTYPES
    max_memory: int = DeviceLimits.memory_bytes
    alignment: int = 1
    supported: frozenset[Any] | None = None
    denied: frozenset[Any] = frozenset()
    int64: bool = True
    contiguous_only: bool = False
    stick_bytes: int = DeviceLimits.stick_bytes

    def __post_init__(self) -> None:
        """Normalizes all names. Raises SettingError (a ValueError) that lists the allowed values."""
        dtypes = frozenset(dtype_of("dtypes", dtype) for dtype in self.dtypes)
        object.__setattr__(self, "dtypes", dtypes if self.int64 else dtypes - {torch.int64})
        object.__setattr__(self, "denied", denied_operators("denied", self.denied))
        if self.supported is not None:
            object.__setattr__(self, "supported", denied_operators("supported", self.supported))
        object.__setattr__(self, "max_memory", read_size("max_memory", self.max_memory))
        object.__setattr__(self, "alignment", read_whole("alignment", self.alignment, 1, MOST_ALIGNMENT))
        object.__setattr__(self, "stick_bytes", read_whole("stick_bytes", self.stick_bytes, 1, 1 << 20))

    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that graphs must satisfy."""
        limits = ConstraintLimits(
            device=DeviceLimits(memory_bytes=self.max_memory, stick_bytes=self.stick_bytes),
            alignment=self.alignment,
            denied=self.denied,
            supported=self.supported,
        )
        names = ["alignment", "memory", "peak_memory", "unsupported"]
        names += ["layout"] if self.contiguous_only else []
        made = (constraint_of("constraints", name, limits) for name in names)
        return (DtypeConstraint(allowed=self.dtypes), *made)
