"""A dispatch mode that runs a script's operators a second time in float64, with the same discrete choices.

While the mode is active, the script's eager operators run unchanged, and each one runs again in float64
(complex128) on shadows of its inputs. One uncompiled run thus yields its own results and a reference without
rounding errors, against which compiled results are measured.

Storage: each storage has one shadow, a row of float64 with an element for each real number of the storage. A
tensor's shadow is that row viewed with the tensor's size, stride and offset, which covers views, in-place
operators, ``out=`` and aliasing. A storage without a row is exact: its shadow is the real value in float64,
converted at each use, so that writes by numpy are seen.

Taken from the real run: all discrete values (comparisons, indices, integers, rounding, signs) and all random
draws. Random operators never run twice, so the generators advance as without the mode. Casts between
floating-point dtypes do not round the shadow, because the reference measures the rounding of casts too. A
shadow ends at float8 and integers, whose values count as data.

Not followed: an operator without a float64 kernel, one that behaves differently in float64, and a custom
operator. Its real result is used, ``fallbacks`` counts it, and values that depend on it have no reference
(``lookup`` returns None), because earlier errors would be missed. A Python number from a tensor (``item()``)
counts as exact when it is used in an operator; so do values that are written to a computed tensor without
torch.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Counter, Dict, Iterator, NamedTuple, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..torch_internals import dispatch
from .follower import Follower, Operation, made_of
from .operators import Plan, kernel_key
from .random_rounding import RandomRounding, unit
from .tensors import exact, shadowed, storage_key, tensors_in, view_of

#: Number of randomly rounded runs of a recorded run; a single one may be off by chance.
DRAWS = 2
#: Limit on Python numbers whose float64 value is kept.
_MOST_NUMBERS = 4096


class Number(NamedTuple):
    """The float64 reference of a Python number, and how far rounding may move it (None: not known)."""

    value: complex
    spread: Optional[float]


class ShadowMode(TorchDispatchMode):
    """Keeps float64 shadows; ``lookup`` returns that of a tensor, ``spread`` the effect of rounding on it.

    ``draws`` is the number of additional runs that round at random (``random_rounding``). ``half`` is true
    once an operator has created a float16 or bfloat16 tensor.
    """

    supports_higher_order_operators = True

    def __init__(self, draws: int = 0) -> None:
        super().__init__()
        self._exact = Follower()
        self._rounded_runs = [Follower(RandomRounding(seed)) for seed in range(draws)]
        self._followers = [self._exact, *self._rounded_runs]
        self.half = False
        self._numbers: Dict[complex, Optional[Number]] = {}
        self._plans: Dict[Any, Plan] = {}
        self._thread = threading.get_ident()

    def __enter__(self) -> ShadowMode:
        self._thread = threading.get_ident()
        _teach_higher_order_operators()
        super().__enter__()
        return self

    @property
    def fallbacks(self) -> Counter[str]:
        """Counts the operators that could not be followed, by name."""
        return self._exact.fallbacks

    @property
    def followed(self) -> int:
        return self._exact.followed

    def lookup(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """Returns the float64 values of a tensor, or None if there is no reference.

        None for dtypes without shadows, for values that depend on an operator that could not be followed, and
        for float64 values computed only from float64 (they are their own reference). Also None in other
        threads, because a dispatch mode applies to one thread.
        """
        if threading.get_ident() != self._thread:
            return None
        with _aside():
            return self._exact.values(tensor)

    def spread(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """Returns each element's RMS distance of the randomly rounded runs from float64; None if unknown."""
        if threading.get_ident() != self._thread or not self._rounded_runs:
            return None
        with _aside():
            if not shadowed(tensor):
                return None
            kept = self._exact.rows.find(tensor)
            if kept is not None and kept.values is None:
                return None
            middle = exact(tensor) if kept is None or kept.values is None else view_of(kept.values, tensor)
            total = torch.zeros(tensor.shape, dtype=torch.float64, device=tensor.device)
            for follower in self._rounded_runs:
                row = follower.rows.find(tensor)
                if row is None:
                    continue  # nothing was rounded
                if row.values is None:
                    return None
                moved = (view_of(row.values, tensor) - middle).abs()
                total += torch.where(moved.isfinite(), moved, torch.zeros_like(moved)).square()
            return (total / len(self._rounded_runs)).sqrt()

    def number(self, value: complex) -> Optional[Number]:
        """Returns the reference of a number that came from a tensor (``item()``); None if not known."""
        return self._numbers.get(value) if threading.get_ident() == self._thread else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(map(dispatch.takes_operators_apart, types)):
            return NotImplemented  # the subclass decomposes the operator; the mode sees its parts
        if not dispatch.is_operator(func):
            return self._higher_order(func, args, kwargs)
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = Plan(func)
        if plan.kind == "real":
            return func(*args, **kwargs)
        if plan.kind == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        operation = Operation(func, plan, args, kwargs)
        return self._foreign(operation) if plan.kind == "foreign" else self._operator(operation)

    def _operator(self, op: Operation) -> Any:
        """Runs an operator of torch, then again on the shadows."""
        takes_real = op.plan.kind == "discrete" or op.plan.draws(op.bound)
        if op.writes and not takes_real:
            with _aside():
                for follower in self._followers:
                    follower.before(op)
        op.returned(op.func(*op.args, **op.kwargs))
        if op.plan.name == "_local_scalar_dense":
            self._remember(op.real, op.inputs[0])
        if op.made or op.writes:
            self.half = self.half or any(unit(t.dtype) > unit(torch.float32) for t in op.made)
            with _aside():
                for follower in self._followers:
                    follower.after(op, takes_real)
        return op.real

    def _remember(self, value: Any, tensor: torch.Tensor) -> None:
        """Stores the reference of a Python number that was read from a tensor."""
        if not isinstance(value, (float, complex)) or threading.get_ident() != self._thread:
            return
        shadow, spread = self.lookup(tensor), self.spread(tensor)
        with _aside():
            here = Number(
                value if shadow is None else shadow.tolist(), None if spread is None else spread.tolist()
            )
        if value not in self._numbers:
            if len(self._numbers) < _MOST_NUMBERS:
                self._numbers[value] = here
        elif self._numbers[value] != here:
            self._numbers[value] = None  # ambiguous: two tensors had this value with different references

    def _foreign(self, op: Operation) -> Any:
        """Runs a custom operator once and follows the torch operators inside it.

        It never runs twice, as it may have side effects.
        """
        with _aside():
            for follower in self._followers:
                follower.before(op)
        kernel = kernel_key(op.func, op.inputs)
        if kernel is None:
            op.returned(op.func(*op.args, **op.kwargs))
        else:
            with self:
                op.returned(op.func._op_dk(kernel, *op.args, **op.kwargs))
        with _aside():
            for follower in self._followers:
                follower.after_foreign(op)
        return op.real

    def _higher_order(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Runs a higher-order operator; its results get no reference."""
        keys = {storage_key(tensor) for tensor in tensors_in([args, kwargs])}
        real = func(*args, **kwargs)
        made = made_of(real, keys)
        if made:
            with _aside():
                for follower in self._followers:
                    follower.give_up(str(func), made)
        return real


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Turns off modes and enables inference mode, so that shadows have no graph and no version counter."""
    with dispatch.disable_functions(), torch.inference_mode(), dispatch.disable_modes():
        yield


def _teach_higher_order_operators() -> None:
    """Registers the mode with each higher-order operator, if this torch requires it."""
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for operator in dispatch.higher_order_operators():
        table = getattr(operator, "python_key_table", None)
        if table is not None and ShadowMode not in table:
            operator.py_impl(ShadowMode)(_rule(operator))


def _rule(operator: Any) -> Callable[..., Any]:
    def run(mode: ShadowMode, *args: Any, **kwargs: Any) -> Any:
        return mode._higher_order(operator, args, kwargs)

    return run
