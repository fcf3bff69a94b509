"""``torch.compile(backend="mock")``: the backend of :class:`.adapter.MockAdapter` as plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from accel_lab.accelerators.constraints.catalogue import Constraint

from .adapter import MockAdapter
from .sizes import Device

Compiled = Callable[..., Any]


def mock_backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **given: Any) -> Compiled:
    """The backend for ``torch.compile``, configured by environment variables and by ``options``."""
    options = given.get("options") or {}
    return aot_mock_backend(**options)(gm, example_inputs)


def aot_mock_backend(
    *,
    strict: bool | None = None,
    constraints: Sequence[str | Constraint] | None = None,
    dtypes: Sequence[str | torch.dtype] | None = None,
    denied: Sequence[Any] | None = None,
    device: Device | None = None,
    front_end: str | None = None,
    back_end: str | None = None,
    artifacts: str | None = None,
    table: Mapping[str, object] | None = None,
    **others: object,
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]:
    """Returns a backend for ``torch.compile`` with its own settings.

    Settings that are not given come from the environment, then from ``table`` (a project's
    ``[tool.accel-lab.mock]``). ``constraints`` are names or objects, by default all of the mock's. ``dtypes``
    narrows the allowed dtypes. ``denied`` names operators to refuse. ``errors`` names constraints whose
    warnings become errors. Raises SettingError for invalid values, here and not at a run.
    """
    adapter = MockAdapter(
        {
            "strict": strict,
            "constraints": constraints,
            "dtypes": dtypes,
            "denied": denied,
            "device": device,
            "front_end": front_end,
            "back_end": back_end,
            "artifacts": artifacts,
            **others,
        },
        table=table,
    )

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Compiled:
        return adapter.backend(gm, example_inputs)

    return compile_graph


def register() -> None:
    """Registers the backend "mock" with Dynamo, unless the installed entry point already did."""
    from torch._dynamo.backends import registry

    if "mock" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(compiler_fn=mock_backend, name="mock")
