"""ShadowMode: a float64 run alongside the real one, along the same discrete choices.

While the mode is active the script's eager operators run as they are, and each is run once more in float64
(complex128) on shadows of its inputs. So one uncompiled run yields what it computed and, for the same
inputs, what it would have computed without rounding: the reference that compiled results are measured
against.

Where shadows live: one per storage, a row of float64 with an element for each real number of the storage;
the shadow of a tensor is that row seen through the tensor's own size, stride and offset. So views, in-place
operators, ``out=`` and aliasing need nothing more. A storage without a row is exact: its shadow is the real
value in float64, taken anew at each use, so an input that numpy writes into is never stale.

What is taken from the real run: everything discrete (comparisons, indices, integers, rounding, signs) and
every random draw; random operators are never run twice, so the generators advance as without the mode.
Casts between floating-point types, though the script asked for them, do not round the shadow: the reference
measures all rounding, that of casts too. float8 and integers end a shadow: their values are data.

What cannot be followed: an operator that has no float64 kernel, or answers otherwise there, or is not
torch's own. Its result is the real one, it is counted in ``fallbacks``, and what depends on it has no
reference (``lookup`` returns None), since the errors made before it would not be seen. A Python number taken
out of a tensor (``item()``) and values written behind torch's back into a computed tensor count as exact.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from typing import Any, Callable, Counter, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .record_values import disable_modes
from .shadow_ops import Plan, kernel_key
from .shadow_rows import Rows, Unfollowed
from .shadow_tensors import (
    WIDE,
    adopt,
    agrees,
    copy_into,
    covers,
    exact,
    map_leaves,
    shadowed,
    storage_key,
    tensors_in,
    view_of,
    wide,
)


class _Operation:
    """One call of an operator: its tensors by the part that they play."""

    __slots__ = ("args", "bound", "func", "inputs", "keys", "kwargs", "made", "plan", "real", "written")

    def __init__(self, func: Any, plan: Plan, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.func = func
        self.plan = plan
        self.args = args
        self.kwargs = kwargs
        self.bound = plan.bind(args, kwargs)
        self.inputs = list(tensors_in(self.bound))
        self.written = [t for name in plan.writes for t in tensors_in(self.bound.get(name))]
        self.keys = {storage_key(tensor) for tensor in self.inputs}
        self.real: Any = None
        self.made: List[torch.Tensor] = []

    def returned(self, real: Any) -> None:
        """Take the real result; what shares an input's storage is a view and has its shadow already."""
        self.real = real
        self.made = _made(real, self.keys)


def _made(real: Any, keys: Set[int]) -> List[torch.Tensor]:
    return [t for t in tensors_in(real) if t.numel() and shadowed(t) and storage_key(t) not in keys]


class ShadowMode(TorchDispatchMode):
    """Keeps the shadows; ``lookup`` gives that of a tensor.

    ``fallbacks`` counts the operators that could not be followed, ``followed`` is the number of those that
    were.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.fallbacks: Counter[str] = collections.Counter()
        self.followed = 0
        self._rows = Rows()
        self._plans: Dict[Any, Plan] = {}
        self._thread = threading.get_ident()

    def __enter__(self) -> ShadowMode:
        self._thread = threading.get_ident()
        _teach_higher_order_operators()
        super().__enter__()
        return self

    def lookup(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """The float64 values of a tensor, or None where there is no reference.

        None for types without shadows, for what depends on an operator that could not be followed, and for
        float64 values computed from float64 only: those are their own reference. None too in threads that
        the script starts: a mode is of one thread, so what they compute is not followed.
        """
        if threading.get_ident() != self._thread:
            return None
        with _aside():
            if not shadowed(tensor):
                return None
            row = self._rows.find(tensor)
            if row is None:
                return None if tensor.dtype in WIDE else exact(tensor)
            return None if row.values is None else view_of(row.values, tensor).clone()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl for kind in types):
            return NotImplemented  # the subclass takes the operator apart; its parts come back here
        if not isinstance(func, torch._ops.OpOverload):
            return self._higher_order(func, args, kwargs)
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = Plan(func)
        if plan.kind == "real":
            return func(*args, **kwargs)
        if plan.kind == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        operation = _Operation(func, plan, args, kwargs)
        return self._foreign(operation) if plan.kind == "foreign" else self._operator(operation)

    def _operator(self, op: _Operation) -> Any:
        """Run an operator of torch as it is, then on the shadows."""
        takes_real = op.plan.kind == "discrete" or op.plan.draws(op.bound)
        if op.written and not takes_real:
            with _aside():
                self._rows.before_write(op.inputs, op.written)
        op.returned(op.func(*op.args, **op.kwargs))
        if not op.made and not op.written:
            return op.real
        with _aside():
            op.written = self._rows.after_write(op.written)
            try:
                if takes_real:
                    self._take_real(op)
                elif op.made or op.written:
                    self._follow(op)
            except Exception:  # whatever it is, the script must not see it
                self.fallbacks[str(op.func)] += 1
                self._rows.give_up(op.made + op.written)
        return op.real

    def _follow(self, op: _Operation) -> None:
        """Run the float64 twin and keep what it made."""
        narrow = any(t.dtype not in WIDE for t in op.made + op.written)
        if not narrow and not self._rows.any_of(op.inputs):
            return  # float64 computed from float64
        if self._depends_on_lost(op):
            self._rows.give_up(op.made + op.written)
            return
        if op.plan.kind == "opaque":
            raise Unfollowed(op.plan.name)
        was_exact = not self._rows.any_of(t for t in op.inputs if not any(t is w for w in op.written))
        taken: Set[int] = set()

        def twins(name: str, value: Any) -> Any:
            return map_leaves(value, lambda leaf: self._twin(op, name, leaf, taken))

        args = [twins(name, value) for name, value in zip(op.plan.names, op.args)]
        kwargs = {name: twins(name, value) for name, value in op.kwargs.items()}
        floats = any(t.is_floating_point() or t.is_complex() for t in op.inputs)
        with contextlib.nullcontext() if floats else _default_float64():
            twin = op.func(*args, **kwargs)
        self._keep(op, twin, taken, was_exact)
        self.followed += 1

    def _depends_on_lost(self, op: _Operation) -> bool:
        """Whether an input that matters has no reference."""
        writes = {id(t) for t in op.written} if op.plan.overwrites else set()
        chosen = {id(t) for name in op.plan.choosers for t in tensors_in(op.bound.get(name))}
        for tensor in op.inputs:
            row = self._rows.find(tensor) if shadowed(tensor) else None
            if row is not None and row.values is None and id(tensor) not in writes | chosen:
                return True
        return False

    def _twin(self, op: _Operation, name: str, leaf: Any, taken: Set[int]) -> Any:
        """What the float64 twin is given for an argument; storages that it may hold go to ``taken``."""
        if isinstance(leaf, torch.dtype):
            return wide(leaf)
        if not isinstance(leaf, torch.Tensor):
            return False if name == "half_to_float" else leaf
        if name in op.plan.writes:
            followed = any(leaf is tensor for tensor in op.written)
            twin = view_of(self._rows.to_write(leaf, op.plan.overwrites), leaf) if followed else leaf.clone()
        elif not shadowed(leaf):
            return leaf
        else:
            row = self._rows.find(leaf)
            if row is None or row.values is None or name in op.plan.choosers:
                twin = exact(leaf)
            else:
                twin = view_of(row.values, leaf)
        taken.add(storage_key(twin))
        return twin

    def _keep(self, op: _Operation, twin: Any, taken: Set[int], was_exact: bool) -> None:
        """Make rows of the twin's outputs, once all of them fit; none where exact values stayed exact."""
        for tensor in op.written if was_exact and op.plan.overwrites else ():
            values = self._rows.to_write(tensor, True)
            if covers(tensor) and torch.equal(view_of(values, tensor), exact(tensor)):
                self._rows.drop(tensor)
        if not op.made:
            return
        reals, twins = list(tensors_in(op.real)), list(tensors_in(twin))
        if len(reals) != len(twins):
            raise Unfollowed("another number of outputs")
        pairs = [(a, b) for a, b in zip(reals, twins) if any(a is tensor for tensor in op.made)]
        for a, b in pairs:
            if a.shape != b.shape or b.dtype not in WIDE or a.is_complex() != b.is_complex():
                raise Unfollowed("another shape or type")
        rows: Dict[int, torch.Tensor] = {}
        for a, b in pairs:
            key = storage_key(a)
            if key in rows:  # outputs that share a storage
                copy_into(view_of(rows[key], a), b)
            else:
                rows[key] = adopt(a, b, taken)
                if not (was_exact and torch.equal(b, exact(a))):
                    self._rows.put(a, rows[key])

    def _take_real(self, op: _Operation) -> None:
        """After a discrete or random operator: what it gave is exact, unless it scaled rounded values."""
        if op.plan.name == "native_dropout" and self._dropout(op):
            return
        read = [t for t in op.inputs if shadowed(t) and not any(t is w for w in op.written)]
        if op.plan.kind == "random" and self._rows.any_of(read):
            raise Unfollowed("random numbers scaled by rounded ones")
        for tensor in op.written:
            row = self._rows.find(tensor)
            if row is None:
                continue
            if covers(tensor):
                self._rows.drop(tensor)
            elif row.values is not None:
                copy_into(view_of(row.values, tensor), tensor)

    def _dropout(self, op: _Operation) -> bool:
        """The fused dropout tells its mask: the shadow goes through the same one."""
        source, probability, (result, mask) = op.bound["input"], op.bound["p"], op.real
        row = self._rows.find(source)
        if not op.made or (row is not None and row.values is None):
            return False
        values = exact(source) if row is None or row.values is None else view_of(row.values, source)
        scale = 0.0 if probability == 1 else 1.0 / (1.0 - probability)
        self._rows.put(result, adopt(result, values * mask * scale, set()))
        self.followed += 1
        return True

    def _foreign(self, op: _Operation) -> Any:
        """Run an operator that is not torch's own once; what it does by torch's operators is followed.

        It is never run twice: it may count, print, or draw.
        """
        with _aside():
            self._rows.before_write(op.inputs, op.written)
        kernel = kernel_key(op.func, op.inputs)
        if kernel is None:
            op.returned(op.func(*op.args, **op.kwargs))
        else:
            with self:
                op.returned(op.func._op_dk(kernel, *op.args, **op.kwargs))
        with _aside():
            lost = list(op.made)
            try:
                lost = self._lost(op)
            except Exception:
                lost += op.written
            if lost:
                self.fallbacks[str(op.func)] += 1
                self._rows.give_up(lost)
        return op.real

    def _lost(self, op: _Operation) -> List[torch.Tensor]:
        """What a foreign operator made or wrote by other means than torch's operators."""
        rounded = self._rows.any_of(op.inputs)
        lost = [t for t in op.made if self._rows.find(t) is None and (rounded or t.dtype not in WIDE)]
        for tensor in self._rows.after_write(op.written):
            row = self._rows.find(tensor)
            if row is None or (row.values is not None and not agrees(row.values, tensor)):
                lost.append(tensor)
        return lost

    def _higher_order(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Run an operator that takes functions; what they compute is not followed."""
        keys = {storage_key(tensor) for tensor in tensors_in([args, kwargs])}
        real = func(*args, **kwargs)
        made = _made(real, keys)
        if made:
            self.fallbacks[str(func)] += 1
            with _aside():
                self._rows.give_up(made)
        return real


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Shadows live under inference mode: no graph and no version counter, whatever the script does."""
    with torch._C.DisableTorchFunction(), torch.inference_mode(), disable_modes():
        yield


@contextlib.contextmanager
def _default_float64() -> Iterator[None]:
    """Operators that make floats out of nothing, or of integers, make float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _teach_higher_order_operators() -> None:
    """Before torch had ``supports_higher_order_operators`` each such operator had to know each mode."""
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in getattr(torch._ops, "_higher_order_ops", {}).values():
        table = getattr(operator, "python_key_table", None)
        if table is not None and ShadowMode not in table:
            operator.py_impl(ShadowMode)(_rule(operator))


def _rule(operator: Any) -> Callable[..., Any]:
    def run(mode: ShadowMode, *args: Any, **kwargs: Any) -> Any:
        return mode._higher_order(operator, args, kwargs)

    return run
