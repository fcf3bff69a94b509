"""Compares two backends on one model in this process: outputs, gradients, buffers and aliasing."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from accel_lab.numerics.comparison import compare, record_of
from accel_lab.numerics.metrics import Metrics, measure
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.numerics.values import Comparison

from .distances import leaves

EAGER, FLOAT64 = "eager", "fp64"


@dataclass(frozen=True, kw_only=True)
class DiffRow:
    """The comparison of one value: ``output.loss``, ``grad.weight``, ``buffer.running_mean``, ``aliasing``.

    ``errors`` are the greatest absolute errors of all runs of the tested backend, in order.
    """

    name: str
    comparison: Comparison
    metrics: Metrics | None = None
    errors: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DiffResult:
    """The comparisons of all values: outputs, inputs, gradients, buffers, aliasing."""

    rows: tuple[DiffRow, ...]

    @property
    def same(self) -> bool:
        """Whether no row differs."""
        return all(row.comparison.same for row in self.rows)

    @property
    def differing(self) -> tuple[DiffRow, ...]:
        return tuple(row for row in self.rows if not row.comparison.same)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The values of one run by name; ``shares`` has the pairs of values that share memory."""

    values: dict[str, Any]
    shares: frozenset[tuple[str, str]] = frozenset()


@dataclass(kw_only=True)
class KernelDiffHarness:
    """Runs ``model(*inputs)`` under two backends and compares the results.

    ``inputs`` is a tuple of arguments or a mapping of keyword arguments; tensors may be nested in containers.
    A backend is a name for ``torch.compile``, ``eager`` (not compiled) or a callable. The reference may also
    be ``fp64``: errors are then relative to a float64 run, and dtypes are compared with eager's. Model state,
    training mode, inputs and all random generators are restored between runs. With ``backward``, gradients of
    parameters and inputs are compared too. If the reference is ``eager``, a float64 run decides what counts
    as a difference, if the model supports it.
    """

    model: Any
    inputs: Sequence[Any] | Mapping[str, Any]
    reference_backend: Any = EAGER
    test_backend: Any = "inductor"
    config: ComparisonConfig = field(default_factory=ComparisonConfig)
    backward: bool = True
    runs: int = 1

    def run(self) -> DiffResult:
        """Runs both backends and compares. Exceptions of the model or a backend are passed on.

        Raises :class:`ValueError` if there is nothing to compare, or if ``fp64`` is the tested backend.
        """
        if self.test_backend == FLOAT64:
            raise ValueError("test_backend is fp64, which is a reference: name it as reference_backend")
        against_float64 = self.reference_backend == FLOAT64
        reference = EAGER if against_float64 else self.reference_backend
        with _kept_random_state() as put_back:
            want = self._run(reference)
            exact = None
            if reference == EAGER:
                put_back()
                exact = self._float64(must=against_float64)
            tested = []
            for _ in range(max(1, self.runs)):
                put_back()
                tested.append(self._run(self.test_backend))
        names = list(dict.fromkeys([*want.values, *tested[0].values]))
        if not names:
            raise ValueError("the model takes and returns no values: there is nothing to compare")
        rows = [self._row(name, tested, want, exact) for name in names]
        if tested[0].shares != want.shares:
            rows.append(DiffRow(name="aliasing", comparison=_other_aliasing(tested[0].shares, want.shares)))
        return DiffResult(rows=tuple(rows))

    def _row(self, name: str, tested: Sequence[_Run], want: _Run, exact: _Run | None) -> DiffRow:
        if name not in want.values or name not in tested[0].values:
            reason = "missing" if name in want.values else "extra"
            return DiffRow(
                name=name, comparison=Comparison(same=False, reason=reason, detail=f"{reason}: {name}")
            )
        got, wanted = record_of(tested[0].values[name]), record_of(want.values[name])
        high = record_of(exact.values[name]).data if exact is not None and name in exact.values else None
        if high is not None and (wanted.data is None or high.shape != wanted.data.shape):
            high = None
        result = compare(got, wanted, high, self.config)
        if got.data is None or wanted.data is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
            return DiffRow(name=name, comparison=result)
        against = high if high is not None and self.reference_backend == FLOAT64 else wanted.data
        metrics = measure(got.data, against, wanted.dtype)
        errors = [metrics.absolute.max or 0.0]
        for run in tested[1:]:
            other = record_of(run.values.get(name)).data
            if other is not None and other.shape == wanted.data.shape:
                errors.append(measure(other, against, wanted.dtype).absolute.max or 0.0)
        return DiffRow(name=name, comparison=result, metrics=metrics, errors=tuple(errors))

    def _float64(self, *, must: bool) -> _Run | None:
        """The float64 run; None if the model does not support it, unless it ``must``."""
        try:
            return self._run(FLOAT64)
        except Exception:  # an operator without a float64 kernel, a dtype hard-coded in the model
            if must:
                raise
            return None

    def _run(self, backend: Any) -> _Run:
        wide = backend == FLOAT64
        model = copy.deepcopy(self.model) if isinstance(self.model, torch.nn.Module) else self.model
        if wide and isinstance(model, torch.nn.Module):
            model = model.double()
        keywords = isinstance(self.inputs, Mapping)
        inputs = _fresh(dict(_items(self.inputs)), wide)
        compiled = model if backend in (EAGER, FLOAT64) else torch.compile(model, backend=backend)
        out = compiled(**inputs) if keywords else compiled(*inputs.values())
        values = dict(leaves(out, "output"))
        taken = dict(leaves(inputs, "input"))
        shares = _shares({**values, **taken})
        outputs = dict(values)
        if self.backward:
            self._backward(outputs)
        for name, value in taken.items():
            if isinstance(value, torch.Tensor):
                values[name] = value
                if value.requires_grad:
                    values[f"grad.{name}"] = value.grad
        if isinstance(model, torch.nn.Module):
            for name, parameter in model.named_parameters():
                if self.backward and parameter.requires_grad:
                    values[f"grad.{name}"] = parameter.grad
            values.update({f"buffer.{name}": buffer for name, buffer in model.named_buffers()})
        return _Run(values=values, shares=shares)

    @staticmethod
    def _backward(outputs: Mapping[str, Any]) -> None:
        """Backpropagates outputs weighted by fixed random numbers: a plain sum of a softmax cancels."""
        draw = torch.Generator().manual_seed(0)
        total: Any = None
        for value in outputs.values():
            if isinstance(value, torch.Tensor) and value.requires_grad:
                weights = torch.rand(value.shape, generator=draw, dtype=torch.float64).to(value.device)
                part = (value * weights.to(value.dtype)).sum()
                part = part.real if part.is_complex() else part
                total = part.double() if total is None else total + part.double()
        if total is not None:
            total.backward()


def _items(inputs: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(inputs, Mapping):
        return [(str(name), value) for name, value in inputs.items()]
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return [(str(place), value) for place, value in enumerate(values)]


def _fresh(inputs: dict[str, Any], wide: bool) -> dict[str, Any]:
    """Fresh copies of the inputs; tensors keep their strides."""
    tensors = (value for _, value in leaves(inputs, "") if isinstance(value, torch.Tensor))
    made = {id(value): _copied(value, wide) for value in tensors}
    return copy.deepcopy(inputs, made)  # uses the tensors in the memo


def _copied(value: Any, wide: bool) -> Any:
    made = value.detach().clone()
    if wide and (made.is_floating_point() or made.is_complex()):
        made = made.to(torch.complex128 if made.is_complex() else torch.float64)
    return made.requires_grad_(value.requires_grad)


def _shares(values: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """The pairs of values that share a storage."""
    owners: dict[int, str] = {}
    found = set()
    for name, value in values.items():
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.numel():
            continue
        place = value.untyped_storage().data_ptr()
        if place in owners:
            found.add((owners[place], name))
        else:
            owners[place] = name
    return frozenset(found)


def _other_aliasing(got: frozenset[tuple[str, str]], want: frozenset[tuple[str, str]]) -> Comparison:
    more, less = sorted(got - want), sorted(want - got)
    differences = [f"{a} shares memory with {b}" for a, b in more]
    differences += [f"{a} no longer shares memory with {b}" for a, b in less]
    return Comparison(same=False, reason="aliasing", detail="; ".join(differences)[:300])


@contextlib.contextmanager
def _kept_random_state() -> Iterator[Any]:
    """Yields a function that restores all random generators; also restores them at the end."""
    numpy = sys.modules.get("numpy")
    state = random.getstate(), None if numpy is None else numpy.random.get_state()
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    on_host = torch.get_rng_state()

    def put_back() -> None:
        random.setstate(state[0])
        if numpy is not None:
            numpy.random.set_state(state[1])
        torch.set_rng_state(on_host)
        if on_devices:
            torch.cuda.set_rng_state_all(on_devices)

    try:
        yield put_back
    finally:
        put_back()
