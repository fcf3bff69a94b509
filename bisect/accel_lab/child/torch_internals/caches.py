"""Turns off torch's caches of compiled graphs, which would bypass the part of the compiler under test."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence

from .settings import of, patched


@contextlib.contextmanager
def no_caches(but: Sequence[str] = ()) -> Iterator[Any]:
    """Turns off the FX graph cache and AOTAutograd's cache; ``but`` keeps ``fx`` or ``autograd`` on."""
    fx = {} if "fx" in but else {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    names = ("enable_autograd_cache", "enable_remote_autograd_cache")
    autograd = {} if "autograd" in but else dict.fromkeys(names, False)
    with patched(of("inductor"), **fx), patched(of("functorch"), **autograd):
        yield
