"""Decompositions are recorded and left out, whether the table is the mode's own or a global of the module."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from accel_lab.child.hooks.applications import Applications
from accel_lab.child.hooks.decompositions import install_decompositions
from accel_lab.child.hooks.subsystems import Subsystems

NAME = "torch.fx.experimental.proxy_tensor"
TABLE = {"aten.full_like.default": lambda value: value + 1}


def proxy_tensor(owner: str) -> tuple[Any, Any]:
    """torch's module and a tracing mode, with the table where 2.5.1 to 2.9 or later releases have it."""
    module: Any = types.ModuleType(NAME)
    mode: Any = types.SimpleNamespace()
    setattr(
        *((module, "CURRENT_DECOMPOSITION_TABLE") if owner == "module" else (mode, "decomposition_table")),
        TABLE,
    )

    def maybe_handle_decomp(mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
        return TABLE[op](*args, **kwargs) if op in TABLE else NotImplemented

    module.maybe_handle_decomp = maybe_handle_decomp
    return module, mode


@pytest.mark.parametrize("owner", ["module", "mode"])
def test_each_use_of_the_table_is_recorded_and_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    module, mode = proxy_tensor(owner)
    monkeypatch.setitem(sys.modules, NAME, module)
    applied = Applications(Subsystems({"decomposition": ["aten.full_like.default#1"]}), None)
    assert install_decompositions(applied)
    full, other = "aten.full_like.default", "aten.add.Tensor"
    results = [module.maybe_handle_decomp(mode, op, (1,), {}) for op in (full, full, other, full)]
    assert results == [2, NotImplemented, NotImplemented, 2]
    assert [(row["key"], row["changed"], row.get("off")) for row in applied.records] == [
        (f"{full}#0", True, None),
        (f"{full}#1", None, True),
        (f"{full}#2", True, None),
    ]
