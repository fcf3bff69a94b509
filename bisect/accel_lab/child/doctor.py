"""Describes an interpreter: Python, torch and related packages, variables. Does not import torch."""

from __future__ import annotations

import json
import os
import platform
import sys
from typing import Any


def main() -> None:
    """Prints one JSON object on standard output."""
    facts = {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cxx": os.environ.get("CXX", ""),
        "variables": {
            name: os.environ[name]
            for name in sorted(os.environ)
            if name.startswith(("TORCH", "PYTORCH_", "OMP_", "MKL_", "TRITON_", "CUDA_VISIBLE", "MOCK_"))
        },
    }
    facts.update(_distributions())
    facts["accelerators"] = _accelerators()
    sys.stdout.write(json.dumps(facts) + "\n")


def _accelerators() -> Any:
    """The names of the available accelerators; their packages are not imported."""
    try:
        from accel_lab.accelerators.discovery import BUILT_IN, registered

        return [*BUILT_IN, *sorted(registered())]
    except Exception as error:
        return {"error": str(error)}


def _distributions() -> Any:
    """Package versions from installed metadata, which is fast and works even if torch does not load."""
    try:
        from importlib import metadata
    except ImportError:
        return {"torch": "", "torch_error": "Python is too old"}
    found = {}
    for name in ("torch", "numpy", "triton", "sympy", "setuptools", "torchvision", "transformers"):
        try:
            found[name] = metadata.version(name)
        except Exception:
            continue
    facts = {"torch": found.get("torch", ""), "packages": found}
    if not facts["torch"]:
        import importlib.util

        # A source build may have no metadata.
        if importlib.util.find_spec("torch") is not None:
            facts["torch"] = "unknown"
        else:
            facts["torch_error"] = "no package named torch"
    return facts
