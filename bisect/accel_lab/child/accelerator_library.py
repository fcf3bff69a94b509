"""Where the copy of the lab's adapters and of its mock lies, and how a script finds it; without torch."""

from __future__ import annotations

import os
import sys
from typing import Any

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: As in ``accel_lab.mock.instruments``, which must not be imported before the script has imported its torch.
BY_DEFINITION_VARIABLE = "ACCEL_LAB_MOCK_BY_DEFINITION"


class library:
    """The copy is found while it is imported; other scripts than those for an accelerator do not see it."""

    def __enter__(self) -> None:
        sys.path.insert(0, _LIBRARY)

    def __exit__(self, *exc: Any) -> None:
        sys.path.remove(_LIBRARY)


def show_library() -> None:
    """A script that asks for its accelerator by itself finds the lab's, unless it has its own."""
    if _LIBRARY not in sys.path:
        sys.path.append(_LIBRARY)


def prepare(rung: Any, switches: Any) -> None:
    """Called before the script starts, whose first lines may move tensors to the mock's device.

    What a run computes in which nothing is compiled is what others are held against: there, and where
    transfers are replaced, its tensors go to the device and back without the device's transfers.
    """
    mock = switches.get("mock")
    if rung in ("mock", "accelerator") or mock or switches.get("adapter"):
        show_library()
    if mock and (rung == "uncompiled" or mock.get("transfer") == "definition"):
        os.environ[BY_DEFINITION_VARIABLE] = "1"
