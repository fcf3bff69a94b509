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
out of a tensor (``item()``) counts as exact where it goes back into one; so do values written behind torch's
back into a computed tensor.
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
from .shake import Shake, unit
from .tensors import exact, shadowed, storage_key, tensors_in, view_of

#: How often a recorded run is followed with random roundings: one draw may be lucky, two seldom are.
DRAWS = 2
#: Python numbers whose float64 value is remembered.
_MOST_NUMBERS = 4096


class Number(NamedTuple):
    """The float64 value of a Python number, and how far rounding may move it."""

    value: complex
    spread: Optional[float]


class ShadowMode(TorchDispatchMode):
    """Keeps the shadows; ``lookup`` gives that of a tensor, ``spread`` how far rounding may move it.

    With ``draws`` the operators are followed so many times more, rounding at random (``shadow_shake``).
    ``half`` says that an operator made a tensor of a half type.
    """

    supports_higher_order_operators = True

    def __init__(self, draws: int = 0) -> None:
        super().__init__()
        self._exact = Follower()
        self._shaken = [Follower(Shake(seed)) for seed in range(draws)]
        self._followers = [self._exact, *self._shaken]
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
        """The operators that could not be followed, with how often."""
        return self._exact.fallbacks

    @property
    def followed(self) -> int:
        return self._exact.followed

    def lookup(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """The float64 values of a tensor, or None where there is no reference.

        None for types without shadows, for what depends on an operator that could not be followed, and for
        float64 values computed from float64 only: those are their own reference. None too in threads that
        the script starts: a mode is of one thread, so what they compute is not followed.
        """
        if threading.get_ident() != self._thread:
            return None
        with _aside():
            return self._exact.values(tensor)

    def spread(self, tensor: torch.Tensor) -> Optional[torch.Tensor]:
        """How far roundings drawn at random moved each element, in float64; None where it is not known."""
        if threading.get_ident() != self._thread or not self._shaken:
            return None
        with _aside():
            if not shadowed(tensor):
                return None
            kept = self._exact.rows.find(tensor)
            if kept is not None and kept.values is None:
                return None
            middle = exact(tensor) if kept is None or kept.values is None else view_of(kept.values, tensor)
            total = torch.zeros(tensor.shape, dtype=torch.float64, device=tensor.device)
            for follower in self._shaken:
                row = follower.rows.find(tensor)
                if row is None:
                    continue  # nothing was rounded on the way
                if row.values is None:
                    return None
                moved = (view_of(row.values, tensor) - middle).abs()
                total += torch.where(moved.isfinite(), moved, torch.zeros_like(moved)).square()
            return (total / len(self._shaken)).sqrt()

    def number(self, value: complex) -> Optional[Number]:
        """What was taken out of a tensor as this Python number (``item()``), in float64, and its spread."""
        return self._numbers.get(value) if threading.get_ident() == self._thread else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(map(dispatch.takes_operators_apart, types)):
            return NotImplemented  # the subclass takes the operator apart; its parts come back here
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
        """Run an operator of torch as it is, then on the shadows."""
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
        """Keep the float64 value of a number that leaves its tensor: the number itself carries none."""
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
            self._numbers[value] = None  # two tensors held this very number: which one it was is unknown

    def _foreign(self, op: Operation) -> Any:
        """Run an operator that is not torch's own once; what it does by torch's operators is followed.

        It is never run twice: it may count, print, or draw.
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
        """Run an operator that takes functions; what they compute is not followed."""
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
    """Shadows live under inference mode: no graph and no version counter, whatever the script does."""
    with dispatch.disable_functions(), torch.inference_mode(), dispatch.disable_modes():
        yield


def _teach_higher_order_operators() -> None:
    """Before torch had ``supports_higher_order_operators`` each such operator had to know each mode."""
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
