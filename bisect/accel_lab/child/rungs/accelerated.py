"""What the rungs of accelerators share: the copy of the lab's mock and adapters, and a backend made late."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..torch_internals.caches import no_caches

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = os.path.dirname(_PACKAGE)


class library:
    """Where the copy of the lab's mock is found while it is imported; the script never sees it."""

    def __enter__(self) -> None:
        sys.path.insert(0, _LIBRARY)

    def __exit__(self, *exc: Any) -> None:
        sys.path.remove(_LIBRARY)


def show_library() -> None:
    """A script that asks for its accelerator by itself finds the lab's, unless it has its own."""
    if _LIBRARY not in sys.path:
        sys.path.append(_LIBRARY)


class Accelerated:
    """One accelerator in one run; its backend is made when the first region is compiled."""

    def __init__(self) -> None:
        self._backend: Any = None
        show_library()

    def compile(self, gm: Any, example_inputs: Any) -> Any:
        """The region on the accelerator."""
        if self._backend is None:
            self._backend = self._prepared()
        with no_caches():
            return self._backend(gm, example_inputs)

    def _prepared(self) -> Any:
        """The backend; only when a region is compiled is all of torch there."""
        raise NotImplementedError
