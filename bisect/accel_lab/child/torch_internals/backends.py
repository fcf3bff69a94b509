"""Looks up, registers and describes backends of torch.compile, and changes Inductor's settings for one."""

from __future__ import annotations

import contextlib
from typing import Any

from . import settings
from .caches import no_caches
from .inductor import compile_fx


def lookup_backend(name: str) -> Any:
    """Returns the backend registered under ``name`` (``torch/_dynamo/backends/registry.py``)."""
    from torch._dynamo.backends.registry import lookup_backend as lookup

    return lookup(name)


def register_backend(name: str, compiler: Any) -> None:
    """Registers a backend; no effect if the name is taken (``torch/_dynamo/backends/registry.py``)."""
    from torch._dynamo.backends import registry

    # Listing the backends first would import them all; in a cold run torch is half imported at this point.
    with contextlib.suppress(AssertionError):
        registry.register_backend(compiler_fn=compiler, name=name)


def describe_backend(backend: Any) -> Any:
    """Returns ``(name, Inductor options or None, backend)`` of the argument of ``torch._dynamo.optimize``.

    ``torch.compile`` wraps its backend in ``_TorchCompileInductorWrapper`` (options in ``.config``)
    or ``_TorchCompileWrapper`` (``torch/__init__.py``).
    """
    if isinstance(backend, str):
        return backend, ({} if backend == "inductor" else None), backend
    if getattr(backend, "compiler_name", None) == "inductor" and hasattr(backend, "config"):
        return "inductor", dict(backend.config), backend
    inner = getattr(backend, "compiler_fn", None)
    name = (
        getattr(backend, "compiler_name", None)
        or getattr(backend, "__name__", None)
        or type(backend).__name__
    )
    if inner is not None and _registered_name(inner) is None and name in ("eager", "aot_eager", "inductor"):
        name = "custom:" + name  # a user's function with the name of one of torch's backends
    registered = _registered_name(inner if inner is not None else backend)
    return registered or str(name), None, backend


def _registered_name(fn: Any) -> Any:
    for name in ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor"):
        try:
            known = lookup_backend(name)
        except Exception:
            continue
        if fn is known:
            return name
    return None


def inductor_with(requested: Any, patches: Any) -> Any:
    """Returns the Inductor request with ``patches`` applied over the user's mode and options."""
    if isinstance(requested, str):
        # Dynamo would resolve the name itself, so the lab could not wrap the compiler.
        return _InductorWith(None, patches or {"fx_graph_cache": False})
    return _InductorWith(requested, patches) if patches else requested


class _InductorWith:
    """Calls Inductor with extra settings, which also apply to the lazily compiled backward graph."""

    compiler_name = "inductor"

    def __init__(self, wrapped: Any, patches: Any) -> None:
        self.config = dict(getattr(wrapped, "config", None) or {})
        self.config.update(patches)
        self.dynamic = getattr(wrapped, "dynamic", None)

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        with no_caches():
            return compile_fx(gm, example_inputs, patches=self.config)

    def get_compiler_config(self) -> Any:
        with settings.under("inductor", self.config):
            return settings.of("inductor").get_config_copy()
