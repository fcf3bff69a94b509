"""Makes the copy of the lab's adapters and mock importable; does not import torch."""

from __future__ import annotations

import os
import sys
from typing import Any

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Same value as in ``accel_lab.mock.instruments``, which must be imported only after the script's torch.
BY_DEFINITION_VARIABLE = "ACCEL_LAB_MOCK_BY_DEFINITION"


class library:
    """A context in which the copy is importable; only scripts for an accelerator see it permanently."""

    def __enter__(self) -> None:
        sys.path.insert(0, _LIBRARY)

    def __exit__(self, *exc: Any) -> None:
        sys.path.remove(_LIBRARY)


def show_library() -> None:
    """Makes the copy importable for the script, after all other entries of ``sys.path``."""
    if _LIBRARY not in sys.path:
        sys.path.append(_LIBRARY)


def prepare(rung: Any, switches: Any) -> None:
    """Prepares the accelerator before the script starts, whose first lines may move tensors to its device.

    An uncompiled run on the mock is the reference for other runs, so its tensors bypass the mock's transfers;
    the same holds if the mock's option ``transfer`` is ``definition``.
    """
    mock = switches.get("mock")
    if rung in ("mock", "accelerator") or mock or switches.get("adapter"):
        show_library()
    if mock and (rung == "uncompiled" or mock.get("transfer") == "definition"):
        os.environ[BY_DEFINITION_VARIABLE] = "1"
