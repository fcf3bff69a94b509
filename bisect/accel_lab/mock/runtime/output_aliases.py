"""Makes outputs that share a storage in the traced graph share one in the results too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .host_calls import filled


def alias_groups(traced: Sequence[Any]) -> list[list[int]]:
    """Returns groups of positions of outputs that share a storage."""
    groups: dict[int, list[int]] = {}
    for position, value in enumerate(traced):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            groups.setdefault(value.untyped_storage()._cdata, []).append(position)
    return [group for group in groups.values() if len(group) > 1]


def share(values: list[Any], traced: Sequence[Any], groups: Sequence[Sequence[int]]) -> None:
    """Replaces each group's outputs by views of one storage, in place."""
    for group in groups:
        held = [values[position] for position in group]
        if not all(isinstance(value, torch.Tensor) for value in held):
            continue
        count = max(int(traced[position].untyped_storage().nbytes()) for position in group)
        storage = torch.empty(count, dtype=torch.uint8, device="cpu").untyped_storage()
        for position, value in zip(group, held, strict=True):
            like = traced[position]
            view = torch.empty(0, dtype=value.dtype, device="cpu").set_(
                storage, like.storage_offset(), tuple(like.shape), like.stride()
            )
            values[position] = filled(view, value)
