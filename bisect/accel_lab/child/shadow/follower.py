"""Runs each operator again on a set of float64 shadows and keeps the results."""

from __future__ import annotations

import collections
import contextlib
from typing import Any, Counter, Dict, Iterator, List, Optional, Set, Tuple

import torch

from .operators import Plan
from .random_rounding import RandomRounding
from .rows import Rows, Unfollowed
from .tensors import (
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


class Operation:
    """One call of an operator, with its input, written and created tensors."""

    __slots__ = ("args", "bound", "func", "inputs", "keys", "kwargs", "made", "plan", "real", "writes")

    def __init__(self, func: Any, plan: Plan, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.func = func
        self.plan = plan
        self.args = args
        self.kwargs = kwargs
        self.bound = plan.bind(args, kwargs)
        self.inputs = list(tensors_in(self.bound))
        self.writes = [t for name in plan.writes for t in tensors_in(self.bound.get(name))]
        self.keys = {storage_key(tensor) for tensor in self.inputs}
        self.real: Any = None
        self.made: List[torch.Tensor] = []

    def returned(self, real: Any) -> None:
        """Sets the real result; an output that shares an input's storage already has a shadow."""
        self.real = real
        self.made = made_of(real, self.keys)


def made_of(real: Any, keys: Set[int]) -> List[torch.Tensor]:
    """Returns the tensors of a result that do not share a storage of ``keys``."""
    return [t for t in tensors_in(real) if t.numel() and shadowed(t) and storage_key(t) not in keys]


class Follower:
    """One float64 run alongside the real run; with ``random_rounding`` it rounds each result at random.

    ``fallbacks`` counts the operators that could not be followed, ``followed`` the calls that were. Call all
    methods inside ``mode._aside()``, so that the script's state is not changed.
    """

    def __init__(self, random_rounding: Optional[RandomRounding] = None) -> None:
        self.fallbacks: Counter[str] = collections.Counter()
        self.followed = 0
        self.rows = Rows(wide_too=random_rounding is not None)
        self._random_rounding = random_rounding

    def values(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """Returns the float64 values of a tensor; None if they were lost or equal the tensor's own."""
        if not shadowed(tensor):
            return None
        row = self.rows.find(tensor)
        if row is None:
            return None if tensor.dtype in WIDE else exact(tensor)
        return None if row.values is None else view_of(row.values, tensor).clone()

    def before(self, op: Operation) -> None:
        """Saves the values that the operator is about to overwrite."""
        self.rows.before_write(op.inputs, op.writes)

    def after(self, op: Operation, takes_real: bool) -> None:
        """Repeats the real operator on the shadows; an error makes its results lose their reference."""
        written = self.rows.after_write(op.writes)
        try:
            if takes_real:
                self._use_real_result(op, written)
            elif op.made or written:
                self._follow(op, written)
        except Exception:
            self.fallbacks[str(op.func)] += 1
            self.rows.give_up(op.made + written)

    def after_foreign(self, op: Operation) -> None:
        """Drops the reference of tensors that a custom operator made or wrote without torch operators."""
        lost = list(op.made)
        try:
            lost = self._lost(op)
        except Exception:
            lost += op.writes
        if lost:
            self.fallbacks[str(op.func)] += 1
            self.rows.give_up(lost)

    def give_up(self, op_name: str, tensors: List[torch.Tensor]) -> None:
        """Drops the reference of these tensors."""
        self.fallbacks[op_name] += 1
        self.rows.give_up(tensors)

    def _follow(self, op: Operation, written: List[torch.Tensor]) -> None:
        """Runs the operator on shadows and keeps its results."""
        if self._random_rounding is None:
            narrow = any(t.dtype not in WIDE for t in op.made + written)
            if not narrow and not self.rows.any_of(op.inputs):
                return  # float64 computed from exact float64
        elif not self._random_rounding.fits(op.made + written):
            self.rows.give_up(op.made + written)
            return
        if self._depends_on_lost(op, written):
            self.rows.give_up(op.made + written)
            return
        if op.plan.kind == "opaque":
            raise Unfollowed(op.plan.name)
        was_exact = not self.rows.any_of(t for t in op.inputs if not any(t is w for w in written))
        taken: Set[int] = set()

        def twins(name: str, value: Any) -> Any:
            return map_leaves(value, lambda leaf: self._twin(op, written, name, leaf, taken))

        args = [twins(name, value) for name, value in zip(op.plan.names, op.args)]
        kwargs = {name: twins(name, value) for name, value in op.kwargs.items()}
        floats = any(t.is_floating_point() or t.is_complex() for t in op.inputs)
        with contextlib.nullcontext() if floats else _default_float64():
            twin = op.func(*args, **kwargs)
        if self._random_rounding is not None:
            twin = self._rounded(op, written, twin)
        self._keep(op, written, twin, taken, was_exact)
        self.followed += 1

    def _depends_on_lost(self, op: Operation, written: List[torch.Tensor]) -> bool:
        """Whether an input that affects the result has no reference."""
        writes = {id(t) for t in written} if op.plan.overwrites else set()
        chosen = {id(t) for name in op.plan.branch_arguments for t in tensors_in(op.bound.get(name))}
        for tensor in op.inputs:
            row = self.rows.find(tensor) if shadowed(tensor) else None
            if row is not None and row.values is None and id(tensor) not in writes | chosen:
                return True
        return False

    def _twin(self, op: Operation, written: List[torch.Tensor], name: str, leaf: Any, taken: Set[int]) -> Any:
        """The float64 argument for a real one; its storage is added to ``taken``."""
        if isinstance(leaf, torch.dtype):
            return wide(leaf)
        if not isinstance(leaf, torch.Tensor):
            return False if name == "half_to_float" else leaf
        if name in op.plan.writes:
            followed = any(leaf is tensor for tensor in written)
            twin = view_of(self.rows.to_write(leaf, op.plan.overwrites), leaf) if followed else leaf.clone()
        elif not shadowed(leaf):
            return leaf
        else:
            row = self.rows.find(leaf)
            if row is None or row.values is None or name in op.plan.branch_arguments:
                twin = exact(leaf)
            else:
                twin = view_of(row.values, leaf)
            if (
                self._random_rounding is not None
                and op.plan.rounding == "inside"
                and name not in op.plan.branch_arguments
            ):
                twin = self._random_rounding.inside(twin, leaf.dtype)
        taken.add(storage_key(twin))
        return twin

    def _rounded(self, op: Operation, written: List[torch.Tensor], twin: Any) -> Any:
        """Rounds the float64 results at random, to the precision of the real ones."""
        assert self._random_rounding is not None
        if op.plan.rounding == "none" and not self._random_rounding.narrows(op.inputs, op.made + written):
            return twin
        for tensor in written:
            row = self.rows.find(tensor)
            if row is not None and row.values is not None:
                view = view_of(row.values, tensor)
                copy_into(view, self._random_rounding.result(view, tensor.dtype))
        made = [id(tensor) for tensor in op.made]
        reals, twins = list(tensors_in(op.real)), list(tensors_in(twin))
        if len(reals) != len(twins):
            raise Unfollowed("another number of outputs")
        return [
            self._random_rounding.result(b, a.dtype) if id(a) in made else b for a, b in zip(reals, twins)
        ]

    def _keep(
        self, op: Operation, written: List[torch.Tensor], twin: Any, taken: Set[int], was_exact: bool
    ) -> None:
        """Stores the float64 outputs as rows if all match the real ones; exact values need no row.

        Raises :class:`Unfollowed` if number, shape or dtype of the outputs differ.
        """
        for tensor in written if was_exact and op.plan.overwrites else ():
            values = self.rows.to_write(tensor, True)
            if covers(tensor) and torch.equal(view_of(values, tensor), exact(tensor)):
                self.rows.drop(tensor)
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
                    self.rows.put(a, rows[key])

    def _use_real_result(self, op: Operation, written: List[torch.Tensor]) -> None:
        """Treats the real result of a discrete or random operator as exact.

        Raises :class:`Unfollowed` if a random operator scaled rounded values.
        """
        if op.plan.name == "native_dropout" and self._dropout(op):
            return
        read = [t for t in op.inputs if shadowed(t) and not any(t is w for w in written)]
        if op.plan.kind == "random" and self.rows.any_of(read):
            raise Unfollowed("random numbers scaled by rounded ones")
        for tensor in written:
            row = self.rows.find(tensor)
            if row is None:
                continue
            if covers(tensor):
                self.rows.drop(tensor)
            elif row.values is not None:
                copy_into(view_of(row.values, tensor), tensor)

    def _dropout(self, op: Operation) -> bool:
        """Applies the mask that fused dropout returned to the shadow; False if that is not possible."""
        source, probability, (result, mask) = op.bound["input"], op.bound["p"], op.real
        row = self.rows.find(source)
        if not op.made or (row is not None and row.values is None):
            return False
        values = exact(source) if row is None or row.values is None else view_of(row.values, source)
        scale = 0.0 if probability == 1 else 1.0 / (1.0 - probability)
        twin = values * mask * scale
        if self._random_rounding is not None:
            twin = self._random_rounding.result(twin, result.dtype)
        self.rows.put(result, adopt(result, twin, set()))
        self.followed += 1
        return True

    def _lost(self, op: Operation) -> List[torch.Tensor]:
        """Tensors that a custom operator made or wrote without torch operators."""
        rounded = self.rows.any_of(op.inputs)
        lost = [t for t in op.made if self.rows.find(t) is None and (rounded or t.dtype not in WIDE)]
        for tensor in self.rows.after_write(op.writes):
            row = self.rows.find(tensor)
            if row is None or (row.values is not None and not agrees(row.values, tensor)):
                lost.append(tensor)
        return lost


@contextlib.contextmanager
def _default_float64() -> Iterator[None]:
    """Makes operators without floating-point inputs create float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
