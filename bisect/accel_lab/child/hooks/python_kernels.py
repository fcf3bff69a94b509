"""Counts, compares and removes Python kernels: decompositions that apply whatever the table says.

While AOTAutograd traces, torch's Python dispatcher prefers an operator's Python kernel (``py_impl``) to the
native one. This module counts calls of Python kernels, removes chosen ones so that the native kernel is
traced, and compares both kernels on the same real tensors.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch.utils._pytree import tree_flatten, tree_map

from ..exceptions import NotApplicable
from ..record.values import memory_address
from ..torch_internals import dispatch

#: Calls compared per operator.
MAX_CALLS = 12
MAX_DIFFERENCES = 12
#: Largest accepted error between two kernels, relative to the largest value.
_ROUNDING = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}


class PythonKernels:
    """Watches Python kernels: ``look`` is ``list``, ``compare`` or None; ``removed`` names operators."""

    def __init__(self, look: Optional[str], removed: Sequence[str]) -> None:
        self.comparing = look == "compare"
        self._looking = bool(look)
        self._wanted = frozenset(removed)
        self.removed: Dict[str, List[str]] = {}
        self.rows: Dict[str, Dict[str, Any]] = {}
        self._seen: Set[Tuple[str, str]] = set()
        self._inside = False

    def install(self) -> None:
        """Wraps or removes the kernels registered so far; called before each graph is compiled.

        Raises ``NotApplicable`` if an operator in ``removed`` has no Python kernel.
        """
        for op, kernels in dispatch.python_kernels():
            name = str(op)
            for key, kernel in kernels.items():
                if name in self._wanted:
                    del op.py_kernels[key]
                    self.removed.setdefault(name, []).append(_key_name(key))
                elif self._looking and (name, str(key)) not in self._seen:
                    self._seen.add((name, str(key)))
                    op.py_kernels[key] = self._watched(op, key, kernel)
            op._dispatch_cache.clear()
        lacking = sorted(self._wanted - set(self.removed))
        if lacking:
            raise NotApplicable("there is no Python kernel of %s to remove" % ", ".join(lacking))

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps ``compiled`` in the Python dispatcher when comparing, so that kernels get real tensors."""
        if not self.comparing:
            return compiled

        def run(*args: Any) -> Any:
            with dispatch.python_dispatcher(True):
                return compiled(*args)

        return run

    def facts(self) -> Dict[str, Any]:
        return {"kernels": list(self.rows.values()), "removed": self.removed}

    def _watched(self, op: Any, key: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:  # nested in another Python kernel: only the outer result is compared
                self._row(op, key, kernel)
                return kernel(*args, **kwargs)
            row = self._row(op, key, kernel)
            if not self.comparing or not _is_real(args, kwargs):
                return kernel(*args, **kwargs)
            self._inside = True
            try:
                if row["compared"] < MAX_CALLS:
                    self._compare(op, kernel, args, kwargs, row)
            except Exception as error:  # the script continues with the native kernel
                row["not_compared"] = "%s: %s" % (type(error).__name__, str(error)[:160])
            finally:
                self._inside = False
            with dispatch.python_dispatcher(False):
                return op(*args, **kwargs)

        return call

    def _row(self, op: Any, key: Any, kernel: Any) -> Dict[str, Any]:
        row = self.rows.setdefault(
            str(op),
            {
                "op": str(op),
                "keys": [],
                "kernel": "%s.%s" % (kernel.__module__, getattr(kernel, "__qualname__", kernel)),
                "times": 0,
                "compared": 0,
                "random": False,
                "different": [],
            },
        )
        row["times"] += 1
        if _key_name(key) not in row["keys"]:
            row["keys"].append(_key_name(key))
        return row

    @staticmethod
    def _compare(op: Any, kernel: Any, args: Any, kwargs: Any, row: Dict[str, Any]) -> None:
        state = torch.random.get_rng_state()
        row["compared"] += 1
        native, python = _Run(args, kwargs), _Run(args, kwargs)
        try:
            with dispatch.python_dispatcher(False):
                native.go(op)
            random = not torch.equal(state, torch.random.get_rng_state())
            torch.random.set_rng_state(state)
            python.go(kernel)
            random = random or not torch.equal(state, torch.random.get_rng_state())
        finally:
            torch.random.set_rng_state(state)
        row["random"] = row["random"] or random
        for what, one, two in _differences(native, python, random):
            if len(row["different"]) < MAX_DIFFERENCES:
                row["different"].append({"what": what, "native": one, "python": two})


class _Run:
    """One call of a kernel on copies of its arguments, with outputs, error and written inputs."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = _copied((args, kwargs))
        self.inputs = _tensors((self.args, self.kwargs))
        self._versions = [tensor._version for tensor in self.inputs]
        self.outputs: List[Any] = []
        self.raised = ""

    def go(self, kernel: Callable[..., Any]) -> None:
        try:
            self.outputs = tree_flatten(kernel(*self.args, **self.kwargs))[0]
        except Exception as error:
            self.raised = type(error).__name__

    @property
    def written(self) -> List[int]:
        pairs = zip(self.inputs, self._versions)
        return [number for number, (tensor, version) in enumerate(pairs) if tensor._version != version]

    def origin(self, output: Any) -> str:
        """Says whether an output is an input, a view of one, or new memory."""
        for number, tensor in enumerate(self.inputs):
            if output is tensor:
                return "tensor argument %d itself" % number
        for number, tensor in enumerate(self.inputs):
            if memory_address(output) is not None and memory_address(output) == memory_address(tensor):
                return "a view of tensor argument %d" % number
        return "new memory"

    def gradients(self) -> Optional[List[Any]]:
        """Returns input gradients of the weighted sum of all outputs; None if no gradient is required."""
        leaves = [t for t in self.inputs if t.requires_grad]
        ends = [o for o in self.outputs if isinstance(o, torch.Tensor) and o.requires_grad]
        if not leaves or not ends:
            return None
        total = sum((_real(end) * _weights(end)).sum() for end in ends)
        return list(torch.autograd.grad(total, leaves, allow_unused=True))  # type: ignore[arg-type]


def _differences(native: _Run, python: _Run, random: bool) -> List[Tuple[str, str, str]]:
    """Lists differences as ``(what, native, Python)``; values are not compared if ``random``."""
    if native.raised or python.raised:
        pair = (native.raised or "returns", python.raised or "returns")
        return [] if pair[0] == pair[1] else [("exception", *pair)]
    if len(native.outputs) != len(python.outputs):
        return [("number of outputs", str(len(native.outputs)), str(len(python.outputs)))]
    found = []
    for number, (one, two) in enumerate(zip(native.outputs, python.outputs)):
        place = "output %d: " % number
        if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
            if isinstance(one, torch.Tensor) or isinstance(two, torch.Tensor):
                found.append((place + "type", type(one).__name__, type(two).__name__))
            continue
        for what, ours, theirs in (
            ("dtype", one.dtype, two.dtype),
            ("shape", list(one.shape), list(two.shape)),
            ("strides", _strides(one), _strides(two)),
            ("memory", native.origin(one), python.origin(two)),
            ("requires_grad", one.requires_grad, two.requires_grad),
        ):
            if ours != theirs:
                found.append((place + what, str(ours), str(theirs)))
        if not random and one.dtype == two.dtype and one.shape == two.shape:
            found += _numbers(place + "values", one.detach(), two.detach())
    if native.written != python.written:
        found.append(("tensor arguments written", str(native.written), str(python.written)))
    elif not random:
        for number in native.written:
            found += _numbers("argument %d" % number, native.inputs[number], python.inputs[number])
    if not random and not found:
        found += _of_gradients(native, python)
    return found


def _of_gradients(native: _Run, python: _Run) -> List[Tuple[str, str, str]]:
    ours, theirs = native.gradients(), python.gradients()
    found = []
    for number, (one, two) in enumerate(zip(ours or (), theirs or ())):
        place = "gradient %d" % number
        if one is None or two is None:
            if one is not two:
                found.append((place, "none" if one is None else "some", "none" if two is None else "some"))
        else:
            found += _numbers(place, one, two)
    return found


def _numbers(what: str, one: Any, two: Any) -> List[Tuple[str, str, str]]:
    """Reports values that differ by more than ``_ROUNDING`` times the largest one; exact for integers."""
    rounding = _ROUNDING.get(one.dtype)
    if not one.numel() or (rounding is None and torch.equal(one, two)):
        return []
    if rounding is None:
        return [(what, "%d elements" % one.numel(), "other values")]
    wide = torch.complex128 if one.dtype.is_complex else torch.float64
    a, b = one.to(wide), two.to(wide)
    if not torch.equal(a.isfinite(), b.isfinite()) or not torch.equal(a.isnan(), b.isnan()):
        return [(what, "%d finite" % int(a.isfinite().sum()), "%d finite" % int(b.isfinite().sum()))]
    finite = a.isfinite()
    error = (a[finite] - b[finite]).abs()
    size = a[finite].abs()
    if not error.numel() or float(error.max()) <= rounding * float(size.max()):
        return []
    return [(what, "up to %.4g" % float(size.max()), "off by %.4g" % float(error.max()))]


def _copied(values: Any) -> Any:
    """Copies the tensors in ``values``, keeping strides and shared storages."""
    storages: Dict[int, Any] = {}
    tensors: Dict[int, Any] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in tensors:
            tensors[id(value)] = _copy(value, storages).requires_grad_(value.requires_grad)
        return tensors[id(value)]

    return tree_map(copy, values)


def _copy(value: Any, storages: Dict[int, Any]) -> Any:
    plain = value.detach()
    if plain.layout is not torch.strided or plain.is_conj() or plain.is_neg():
        return plain.clone()
    storage = plain.untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = storage.clone()
    fresh = torch.empty(0, dtype=plain.dtype, device=plain.device)
    return fresh.set_(storages[storage.data_ptr()], plain.storage_offset(), plain.shape, plain.stride())


def _tensors(values: Any) -> List[Any]:
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


def _is_real(args: Any, kwargs: Any) -> bool:
    """Whether a call has tensors, and none is fake or of another subclass."""
    tensors = _tensors((args, kwargs))
    return bool(tensors) and all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in tensors)


def _strides(value: Any) -> Any:
    if value.layout is not torch.strided or not value.numel():
        return None
    return [step for size, step in zip(value.shape, value.stride()) if size > 1]


def _real(value: Any) -> Any:
    return torch.view_as_real(value) if value.is_complex() else value


def _weights(value: Any) -> Any:
    """Unequal weights, so that errors in single elements of a gradient do not cancel."""
    shape = _real(value.detach()).shape
    return torch.linspace(1, 2, shape.numel(), dtype=torch.float64).reshape(shape).to(value.device)


def _key_name(key: Any) -> str:
    return str(key).rsplit(".", 1)[-1]
