"""accel-lab: a bisect lab for PyTorch's compiler stack and the accelerators below it."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: Public names and where they live; loaded when asked for, so that importing the package costs nothing.
_PUBLIC = {
    "bisect_script": "accel_lab.session",
    "ComparisonConfig": "accel_lab.numerics.tolerances",
    "compare_tensors": "accel_lab.numerics.comparison",
}

__all__ = ["ComparisonConfig", "__version__", "bisect_script", "compare_tensors"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'accel_lab' has no attribute {name!r}")
