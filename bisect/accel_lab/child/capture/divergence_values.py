"""Computes a graph's node values eagerly and in float64, and compares buffers with them.

The rule is that of ``numerics.closeness``, but more cautious: eager's error is the largest one of the whole
tensor, so an element counts as wrong only if its error exceeds every rounding error in the tensor.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

import torch

from ..shadow.mode import ShadowMode
from .values import undisturbed

#: A value is wrong if its error exceeds ``FACTOR`` times eager's plus a floor in epsilons of its dtype.
FACTOR = 3.0
FLOORS = {torch.float16: 4.0, torch.bfloat16: 4.0, torch.float32: 128.0, torch.float64: 4096.0}
FIRST_VALUES = 4


def of_nodes(gm: Any, args: List[Any], wanted: Set[str], inputs: Iterable[str]) -> Dict[str, Any]:
    """Returns ``(eager, float64 or None)`` of each wanted node, and of the ``inputs`` after the run."""
    found: Dict[str, Any] = {}
    changed = set(inputs)
    with undisturbed(), torch.no_grad(), ShadowMode() as shadow:
        interpreter = _Keeping(gm, wanted, found, shadow)
        interpreter.run(*[_copy(value) for value in args])
        for name in changed & set(interpreter.inputs):
            found[name] = _kept(interpreter.inputs[name], shadow)
    return found


class _Keeping(torch.fx.Interpreter):
    """Copies each wanted node's value right after it is computed, as in-place operators may change it."""

    def __init__(self, gm: Any, wanted: Set[str], found: Dict[str, Any], shadow: Any) -> None:
        super().__init__(gm)
        self.extra_traceback = False
        self._wanted = wanted
        self._found = found
        self._shadow = shadow
        self.inputs: Dict[str, Any] = {}

    def run_node(self, node: Any) -> Any:
        value = super().run_node(node)
        if isinstance(value, torch.Tensor):
            if node.op == "placeholder":
                self.inputs[node.name] = value
            elif node.name in self._wanted:
                self._found[node.name] = _kept(value, self._shadow)
        return value


def _kept(value: torch.Tensor, shadow: Any) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
    reference = shadow.lookup(value)
    return value.detach().clone(), reference


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is torch.strided and not any(s == 0 for s in value.stride()):
        twin = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
        return twin.copy_(value)
    return value.detach().clone()


def compare(
    got: Any, eager: torch.Tensor, reference: Optional[torch.Tensor], *, most: int
) -> Optional[Dict[str, Any]]:
    """Compares a buffer with eager and float64 values; returns a row, or None if they are not comparable.

    A row has ``differs``, ``wrong`` (number of elements), the largest errors against float64 (``error`` of
    the buffer, ``eager`` of eager; None for integers) and ``values`` (a few of them as text). Tensors with
    more than ``most`` elements are not comparable.
    """
    if not isinstance(got, torch.Tensor) or got.numel() > most or _shape(got) != _shape(eager):
        return None
    if got.dtype != eager.dtype or got.layout is not torch.strided:
        return None
    with torch.no_grad():
        got = got.detach().reshape(eager.shape)
        row: Dict[str, Any] = {"shape": list(eager.shape), "dtype": str(eager.dtype).replace("torch.", "")}
        if not (got.is_floating_point() or got.is_complex()):
            wrong = int((got != eager).sum())
            return dict(
                row, differs=bool(wrong), error=None, eager=None, wrong=wrong, values=_glance(got, eager)
            )
        ours, theirs, limit, same = _errors(got, eager, reference)
        beyond = ~(same | (ours <= limit))
        return dict(
            row,
            differs=bool(beyond.any()),
            error=_greatest(torch.where(same, torch.zeros_like(ours), ours)),
            eager=_greatest(theirs),
            wrong=int(beyond.sum()),
            values=_glance(got, eager),
        )


def _errors(got: torch.Tensor, eager: torch.Tensor, reference: Optional[torch.Tensor]) -> Any:
    wide = torch.complex128 if got.is_complex() else torch.float64
    a, b = got.to(wide), eager.to(wide)
    want = b if reference is None else reference.to(wide).reshape(b.shape)
    ours, theirs, size = (a - want).abs(), (b - want).abs(), want.abs()
    same = (a == b) | (a.isnan() & b.isnan())
    finite = theirs[theirs.isfinite()]
    worst = float(finite.max()) if finite.numel() else 0.0
    part = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(got.dtype, got.dtype)
    floor = FLOORS.get(part, 4.0) * torch.finfo(part).eps
    some = size[size.isfinite() & (size > 0)]
    typical = float(some.median()) if some.numel() else 0.0
    if reference is None:
        floor *= 8.0  # eager's own rounding is not known
    limit = FACTOR * worst + floor * (size + typical)
    limit = torch.where(size.isfinite(), limit, torch.zeros_like(limit))
    return ours, theirs, limit, same


def _greatest(errors: torch.Tensor) -> Optional[float]:
    if errors.numel() == 0:
        return 0.0
    return float("inf") if bool(errors.isnan().any()) else float(errors.max())


def _shape(tensor: torch.Tensor) -> List[int]:
    return [int(size) for size in tensor.shape if size != 1]


def _glance(got: torch.Tensor, eager: torch.Tensor) -> str:
    """The first differing values, or else the first values, as compiled / eager, and eager's range."""
    flat, want = got.reshape(-1), eager.reshape(-1)
    where = ((flat != want) & ~((flat != flat) & (want != want))).nonzero().reshape(-1)
    start = where[:FIRST_VALUES] if where.numel() else torch.arange(min(FIRST_VALUES, flat.numel()))
    text = ", ".join("[%d] %s / %s" % (int(i), _spell(flat[i]), _spell(want[i])) for i in start)
    if want.numel() and not want.is_complex():
        low, high = want.min(), want.max()
        text += "; range %s to %s" % (_spell(low), _spell(high))
    return text


def _spell(value: torch.Tensor) -> str:
    item = value.item()
    return "%.6g" % item if isinstance(item, float) else str(item)
