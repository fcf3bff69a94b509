"""accel-lab: a bisect lab for PyTorch's compiler stack and the accelerators below it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_lab.accelerators.adapter import AcceleratorAdapter as AcceleratorAdapter
    from accel_lab.accelerators.adapter import AdapterPart as AdapterPart
    from accel_lab.accelerators.adapter import AdapterRung as AdapterRung
    from accel_lab.accelerators.capabilities import AcceleratorCapabilities as AcceleratorCapabilities
    from accel_lab.accelerators.loading import load_adapter as load_adapter
    from accel_lab.core.findings import Findings as Findings
    from accel_lab.inspection.guard_inspector import GuardInspector as GuardInspector
    from accel_lab.mock.backend import aot_mock_backend as aot_mock_backend
    from accel_lab.mock.backend import mock_backend as mock_backend
    from accel_lab.mock.runtime.torch_device import install_mock_device as install_mock_device
    from accel_lab.numerics.comparison import compare_tensors as compare_tensors
    from accel_lab.numerics.tolerances import ComparisonConfig as ComparisonConfig
    from accel_lab.session import bisect_script as bisect_script
    from accel_lab.workloads.harness import KernelDiffHarness as KernelDiffHarness

__version__ = "0.1.0"

#: Maps public names to the modules that define them; a module is imported on first access.
_PUBLIC = {
    "bisect_script": "accel_lab.session",
    "Findings": "accel_lab.core.findings",
    "ComparisonConfig": "accel_lab.numerics.tolerances",
    "compare_tensors": "accel_lab.numerics.comparison",
    # The following need torch, which is imported on first access.
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
    "Findings",
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

if not TYPE_CHECKING:  # a type checker reads the imports above and reports unknown names

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC:
            return getattr(importlib.import_module(_PUBLIC[name]), name)
        raise AttributeError(f"module 'accel_lab' has no attribute {name!r}")
