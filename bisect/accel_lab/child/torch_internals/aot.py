"""Wraps AOTAutograd, its partitioners, and Inductor's decomposition table."""

from __future__ import annotations

from typing import Any

from .caches import no_caches


def aot_autograd(gm: Any, example_inputs: Any, **keywords: Any) -> Any:
    """Compiles a captured graph with AOTAutograd only (``torch/_dynamo/backends/common.py``)."""
    from torch._dynamo.backends.common import aot_autograd as backend

    with no_caches():
        return backend(**keywords)(gm, example_inputs)


def default_partition() -> Any:
    """Returns the partitioner that saves what the backward needs (``torch/_functorch/partitioners.py``)."""
    from torch._functorch.partitioners import default_partition as partition

    return partition


def min_cut_partition() -> Any:
    """Returns the partitioner that recomputes cheap activations (``torch/_functorch/partitioners.py``)."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition as partition

    return partition


def decomposition_table() -> Any:
    """Returns Inductor's table under its current settings (``torch/_inductor/decomposition.py``)."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()
