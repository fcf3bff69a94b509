"""torch's caches of compiled graphs, which would answer in the place of what a rung looks at."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence

from .settings import of, patched


@contextlib.contextmanager
def no_caches(but: Sequence[str] = ()) -> Iterator[Any]:
    """Compile without the FX graph cache and AOTAutograd's cache, ``but`` for ``fx`` or ``autograd`` of them.

    Either would answer instead of the part of the compiler that a rung wants to look at.
    """
    fx = {} if "fx" in but else {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    names = ("enable_autograd_cache", "enable_remote_autograd_cache")
    autograd = {} if "autograd" in but else dict.fromkeys(names, False)
    with patched(of("inductor"), **fx), patched(of("functorch"), **autograd):
        yield
