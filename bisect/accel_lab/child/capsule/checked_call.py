"""Checks one call of a compiled graph against the same graph run eagerly and, if they differ, in float64.

Inputs are copied before the call. Results are compared with an eager run at once, gradients after the
script's backward has run. The eager run is a filter: values that differ by more than the dtype's floor are
compared with a float64 run, which decides (``capture.divergence_values``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from ..capture.divergence_values import FACTOR, FLOORS, compare
from ..capture.graphs import thread_settings
from ..capture.values import copies, undisturbed
from ..shadow.mode import ShadowMode

#: Largest tensor, in elements, that is compared.
MOST_ELEMENTS = 1 << 28
#: Eager runs with inputs perturbed by rounding, made for values that differ.
DRAWS = 4
#: ``(name, eager value, compiled value)``.
Pair = Tuple[str, Any, Any]


class CheckedCall:
    """A call of a compiled graph on ``args``; ``eager_graph`` is a copy of the graph made before compilation.

    Call the compiled graph with ``call_args``: there an input that requires a gradient is replaced by a view,
    so that the gradient of this call alone can be observed.
    """

    def __init__(self, eager_graph: Any, args: Any) -> None:
        self._eager_graph = eager_graph
        self.state = torch.get_rng_state()
        self.settings = thread_settings()
        self.inputs = copies(args)
        self.call_args = list(args)
        self._gradients: Dict[int, Any] = {}
        self.incoming: Dict[int, Any] = {}
        self._eager: Any = None
        if torch.is_grad_enabled():
            for place, value in enumerate(args):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    self.call_args[place] = value.view_as(value)
                    self.call_args[place].register_hook(_keeper(self._gradients, place))

    @property
    def has_backward(self) -> bool:
        """Whether a gradient has arrived at an input of the call."""
        return bool(self._gradients)

    def forward(self, result: Any) -> List[Dict[str, Any]]:
        """Returns a row for each wrong result; an input that was written counts as a result."""
        results = _listed(result)
        inputs, outputs = self._eager = self._run()
        pairs = self._results(results, inputs, outputs)
        wrong = self._wrong(pairs, lambda seed: self._results(results, *self._run(seed)))
        for place, value in enumerate(results):
            if isinstance(value, torch.Tensor) and value.requires_grad and not wrong:
                value.register_hook(_keeper(self.incoming, place))
        return wrong

    def backward(self) -> List[Dict[str, Any]]:
        """Returns a row for each wrong gradient among those that arrived; call it once, after ``forward``."""
        inputs, outputs = self._eager
        self._eager = None
        return self._wrong(self._sent(inputs, outputs), lambda seed: self._sent(*self._run(seed)))

    def raises(self) -> bool:
        """Whether the graph also raises when run eagerly."""
        try:
            self._run()
        except Exception:
            return True
        return False

    # -- reference runs ------------------------------------------------------------------------------

    def _run(self, perturbation_seed: int = 0) -> Tuple[List[Any], List[Any]]:
        """Runs the graph eagerly on copies; returns the inputs after the call, and the results.

        With a nonzero ``perturbation_seed``, inputs are perturbed at random by up to the floor of their
        dtype.
        """
        inputs = copies(self.inputs)
        with undisturbed():
            if perturbation_seed:
                _move(inputs, perturbation_seed)
            torch.set_rng_state(self.state)
            return inputs, _listed(self._eager_graph(*inputs))

    def _results(self, results: List[Any], inputs: List[Any], outputs: List[Any]) -> List[Pair]:
        pairs = [("output %d" % n, want, got) for n, (want, got) in enumerate(zip(outputs, results))]
        for place, value in enumerate(inputs):
            if isinstance(value, torch.Tensor) and _version(value) > _version_of_copy(self.inputs[place]):
                pairs.append(("input %d after the call" % place, value, self.call_args[place]))
        return pairs

    def _sent(self, inputs: List[Any], outputs: List[Any]) -> List[Pair]:
        places = sorted(place for place in self._gradients if inputs[place].requires_grad)
        ends = [n for n in sorted(self.incoming) if outputs[n].requires_grad]
        if not places or not ends:
            return []
        with undisturbed():
            found = torch.autograd.grad(
                [outputs[n] for n in ends],
                [inputs[place] for place in places],
                [self.incoming[n] for n in ends],
                allow_unused=True,
            )
        named = [("gradient of input %d" % place, place) for place in places]
        return [
            (name, want, self._gradients[place])
            for (name, place), want in zip(named, found)
            if want is not None
        ]

    @staticmethod
    def _wrong(pairs: List[Pair], again: Callable[[int], List[Pair]]) -> List[Dict[str, Any]]:
        """Returns rows of values that differ by more than the filter, perturbed inputs and float64 allow.

        The float64 run takes the same branch as eager at each comparison (sign before a relu, position of a
        maximum). Rounding may take compiled code to the other branch, which changes a gradient a lot. A wrong
        value must therefore be further from eager than eager moves when its inputs are perturbed.
        """
        suspects = {name: (want, got) for name, want, got in pairs if not _near(got, want)}
        for seed in range(1, DRAWS + 1):
            if not suspects:
                return []
            others = {name: want for name, want, _ in again(seed)}
            suspects = {
                name: (want, got)
                for name, (want, got) in suspects.items()
                if not _explained(got, want, others.get(name))
            }
        if not suspects:
            return []
        rows = []
        with ShadowMode() as shadow:
            exact = [pair for pair in again(0) if pair[0] in suspects]
            references = [shadow.lookup(want) for _, want, _ in exact]
        for (name, want, got), reference in zip(exact, references):
            row = compare(got, want.detach(), reference, most=MOST_ELEMENTS)
            if row is None and _kind(got) != _kind(want):
                row = {"differs": True, "error": None, "values": "%s / %s" % (_kind(got), _kind(want))}
            if row is not None and row["differs"]:
                rows.append(dict(row, what=name, reference=reference is not None))
        return rows


def _move(inputs: List[Any], seed: int) -> None:
    """Perturbs floating-point inputs in place by up to the floor of their dtype, relative to their values."""
    torch.manual_seed(seed)
    for value in inputs:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        if any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape)):
            continue  # several elements share one memory location
        with torch.no_grad():
            size = FLOORS.get(value.dtype, 4.0) * torch.finfo(value.dtype).eps
            value.mul_(1.0 + size * (2.0 * torch.rand_like(value) - 1.0))


def _explained(got: Any, want: Any, other: Any) -> bool:
    """Whether eager's value with perturbed inputs (``other``) moves as far as the compiled value differs."""
    if _kind(got) != _kind(want) or _kind(other) != _kind(want):
        return False
    with torch.no_grad():
        if not (want.is_floating_point() or want.is_complex()):
            return not torch.equal(other, want)
        wide = torch.complex128 if want.is_complex() else torch.float64
        apart, spread = ((value.to(wide) - want.to(wide)).abs() for value in (got, other))
        if not bool(apart.isfinite().all() & spread.isfinite().all()):
            return False
        return bool(apart.max() <= FACTOR * spread.max()) if want.numel() else True


def _keeper(into: Dict[int, Any], place: int) -> Callable[[Any], None]:
    """A hook that copies the first gradient that arrives.

    A copy, because torch may use the same memory as ``.grad``, which a script changes (all-reduce, clipping).
    """

    def keep(gradient: Any) -> None:
        if place not in into:
            into[place] = gradient.detach().clone()

    return keep


def _listed(result: Any) -> List[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _kind(value: Any) -> str:
    """``float32[2, 3]`` for a tensor, else the type's name."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return "%s%s" % (str(value.dtype).replace("torch.", ""), list(value.shape))


def _near(got: Any, want: Any) -> bool:
    """Whether two values are equal up to the floor of their dtype, which a float64 run would accept too."""
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        return True
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    with torch.no_grad():
        if not (want.is_floating_point() or want.is_complex()):
            return bool(torch.equal(got, want))
        size = want.abs()
        typical = torch.linalg.vector_norm(size.float()) / max(1, want.numel()) ** 0.5
        limit = FLOORS.get(want.dtype, 4.0) * torch.finfo(want.dtype).eps * (size + typical.to(size.dtype))
        near = ((got - want).abs() <= limit) | (got == want) | (got.isnan() & want.isnan())
        return bool(near.all())


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _version_of_copy(value: Any) -> int:
    return _version(value) if isinstance(value, torch.Tensor) else 0
