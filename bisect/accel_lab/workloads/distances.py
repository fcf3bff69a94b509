"""Computes each result tensor's distance from eager and from a float64 run; does not judge it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields ``(name, leaf)`` for all values in a model's output: mappings, dataclasses, sequences.

    A nested tensor counts as a sequence of tensors.
    """
    if isinstance(value, Mapping) or hasattr(value, "items"):
        for key, item in value.items():
            yield from leaves(item, f"{name}.{key}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from leaves(getattr(value, part.name), f"{name}.{part.name}")
    elif isinstance(value, torch.Tensor) and value.is_nested:
        yield from leaves(value.unbind(), name)
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", range(len(value)))
        for place, item in zip(names, value, strict=True):
            yield from leaves(item, f"{name}.{place}")
    else:
        yield name, value


def named_tensors(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the tensors among the :func:`leaves` of a model's output."""
    return ((place, leaf) for place, leaf in leaves(value, "output") if isinstance(leaf, torch.Tensor))


def rows(got: Any, want: Any, reference: Any) -> Any:
    """Returns one row for each tensor of three runs, given as dictionaries by name.

    A row has the greatest absolute distances (``to_eager``, ``to_float64``, and eager's own
    ``eager_to_float64``) and the greatest magnitude of the reference. NaN against NaN and equal infinities
    have distance 0; a number against either has an infinite one. ``reason`` says why two tensors cannot be
    compared.
    """
    found = []
    for name in [*want, *(name for name in got if name not in want)]:
        row = {"name": name, "reason": ""}
        if name not in got or name not in want:
            row["reason"] = "missing" if name not in got else "extra"
        else:
            one, two = got[name], want[name]
            row["dtype"] = str(two.dtype).replace("torch.", "")
            row["shape"] = list(two.shape)
            if one.dtype != two.dtype:
                row["reason"] = f"dtype {one.dtype} instead of {two.dtype}"
            elif one.shape != two.shape:
                row["reason"] = f"shape {tuple(one.shape)} instead of {tuple(two.shape)}"
            else:
                row.update(_distances(one, two, reference.get(name)))
        found.append(row)
    return found


def _distances(got: Any, want: Any, reference: Any) -> Any:
    got, want = got.detach().double(), want.detach().double()
    row = {"to_eager": _greatest(got, want)}
    if reference is not None and reference.shape == want.shape:
        high = reference.detach().double()
        row["to_float64"] = _greatest(got, high)
        row["eager_to_float64"] = _greatest(want, high)
        row["magnitude"] = _magnitude(high)
    else:
        row["magnitude"] = _magnitude(want)
    return row


def _greatest(one: Any, two: Any) -> float:
    if one.numel() == 0:
        return 0.0
    same = (one == two) | (one.isnan() & two.isnan())
    distance = (one - two).abs()
    distance = torch.where(distance.isnan(), torch.full_like(distance, float("inf")), distance)
    return float(distance.masked_fill(same, 0.0).max())


def _magnitude(tensor: Any) -> float:
    finite = tensor.abs()[torch.isfinite(tensor)]
    return float(finite.max()) if finite.numel() else 0.0
