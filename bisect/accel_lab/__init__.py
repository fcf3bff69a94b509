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
    # These need torch, which is imported when one of them is asked for.
    "AcceleratorAdapter": "accel_lab.accelerators.adapter",
    "AcceleratorCapabilities": "accel_lab.accelerators.capabilities",
    "AdapterPart": "accel_lab.accelerators.adapter",
    "AdapterRung": "accel_lab.accelerators.adapter",
    "GuardInspector": "accel_lab.inspection.guard_inspector",
    "KernelDiffHarness": "accel_lab.workloads.harness",
    "aot_mock_backend": "accel_lab.mock.backend",
    "install_mock_device": "accel_lab.mock.runtime.torch_device",
    "load_adapter": "accel_lab.accelerators.loading",
    "mock_backend": "accel_lab.mock.backend",
}

__all__ = [
    "AcceleratorAdapter",
    "AcceleratorCapabilities",
    "AdapterPart",
    "AdapterRung",
    "ComparisonConfig",
    "GuardInspector",
    "KernelDiffHarness",
    "__version__",
    "aot_mock_backend",
    "bisect_script",
    "compare_tensors",
    "install_mock_device",
    "load_adapter",
    "mock_backend",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'accel_lab' has no attribute {name!r}")
