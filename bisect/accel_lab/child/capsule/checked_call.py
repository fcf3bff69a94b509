"""One call of a compiled graph that is checked: against the same graph run eagerly, and in float64 in doubt.

The call's inputs are copied before it. Its results are held against an eager run's at once, its gradients
when the script's backward has made them. An eager run is a sieve: what differs by more than the floor of the
type is asked of a float64 run, which decides (``capture.divergence_values``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from ..capture.divergence_values import FACTOR, FLOORS, compare
from ..capture.graphs import thread_settings
from ..capture.values import copies, undisturbed
from ..shadow.mode import ShadowMode

#: Elements of one tensor that are compared at most.
MOST_ELEMENTS = 1 << 28
#: Runs with inputs moved by a rounding, for what a float64 run calls wrong.
DRAWS = 4
#: What was compared, eager's value, and the compiled one.
Pair = Tuple[str, Any, Any]


class CheckedCall:
    """The call of a graph (``twin``: as it was before it was compiled) on ``args``.

    ``given`` are the arguments to call the compiled graph with: an input that needs a gradient goes in as a
    view of itself, so that the gradient which this call alone sends to it is seen.
    """

    def __init__(self, twin: Any, args: Any) -> None:
        self._twin = twin
        self.state = torch.get_rng_state()
        self.settings = thread_settings()
        self.inputs = copies(args)
        self.given = list(args)
        self._gradients: Dict[int, Any] = {}
        self.incoming: Dict[int, Any] = {}
        self._eager: Any = None
        if torch.is_grad_enabled():
            for place, value in enumerate(args):
                if isinstance(value, torch.Tensor) and value.requires_grad:
                    self.given[place] = value.view_as(value)
                    self.given[place].register_hook(_keeper(self._gradients, place))

    @property
    def has_backward(self) -> bool:
        """Whether the script has sent gradients through the call."""
        return bool(self._gradients)

    def forward(self, result: Any) -> List[Dict[str, Any]]:
        """The rows of what is wrong in the results; what an input became counts as one."""
        results = _listed(result)
        inputs, outputs = self._eager = self._run()
        pairs = self._results(results, inputs, outputs)
        wrong = self._wrong(pairs, lambda moved: self._results(results, *self._run(moved)))
        for place, value in enumerate(results):
            if isinstance(value, torch.Tensor) and value.requires_grad and not wrong:
                value.register_hook(_keeper(self.incoming, place))
        return wrong

    def backward(self) -> List[Dict[str, Any]]:
        """The rows of the gradients that are wrong; of those that came."""
        inputs, outputs = self._eager
        self._eager = None
        return self._wrong(self._sent(inputs, outputs), lambda moved: self._sent(*self._run(moved)))

    def raises(self) -> bool:
        """Whether the graph raises uncompiled as well."""
        try:
            self._run()
        except Exception:
            return True
        return False

    # -- the runs that it is held against ------------------------------------------------------------

    def _run(self, moved: int = 0) -> Tuple[List[Any], List[Any]]:
        """The graph run eagerly on copies, as the call was: what became of its inputs, and its results.

        ``moved``: with inputs that are off by as much as the floor of their type, at random by this number.
        """
        inputs = copies(self.inputs)
        with undisturbed():
            if moved:
                _move(inputs, moved)
            torch.set_rng_state(self.state)
            return inputs, _listed(self._twin(*inputs))

    def _results(self, results: List[Any], inputs: List[Any], outputs: List[Any]) -> List[Pair]:
        pairs = [("output %d" % n, want, got) for n, (want, got) in enumerate(zip(outputs, results))]
        for place, value in enumerate(inputs):
            if isinstance(value, torch.Tensor) and _version(value) > _version_of_copy(self.inputs[place]):
                pairs.append(("input %d after the call" % place, value, self.given[place]))
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
        """The rows that are wrong by more than the sieve, moved inputs and a float64 run allow.

        The float64 run takes eager's way at every comparison (the sign before a relu, where a maximum is).
        Compiled code may go the other way by a rounding, and a gradient then differs by much. So what is
        wrong must be further from eager than eager itself moves when its inputs are off by a rounding.
        """
        suspects = {name: (want, got) for name, want, got in pairs if not _near(got, want)}
        for moved in range(1, DRAWS + 1):
            if not suspects:
                return []
            others = {name: want for name, want, _ in again(moved)}
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
    """Move floating-point inputs by up to the floor of their type, relative to their size."""
    torch.manual_seed(seed)
    for value in inputs:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        if any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape)):
            continue  # several elements in one place
        with torch.no_grad():
            size = FLOORS.get(value.dtype, 4.0) * torch.finfo(value.dtype).eps
            value.mul_(1.0 + size * (2.0 * torch.rand_like(value) - 1.0))


def _explained(got: Any, want: Any, other: Any) -> bool:
    """Whether eager's own value (``other``: with moved inputs) moves as far as the compiled one is off."""
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
    """A hook that keeps a copy of the first gradient that comes.

    torch makes that very memory the parameter's ``grad``, which a script changes: an all-reduce, clipping.
    """

    def keep(gradient: Any) -> None:
        if place not in into:
            into[place] = gradient.detach().clone()

    return keep


def _listed(result: Any) -> List[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _kind(value: Any) -> str:
    """``float32[2, 3]`` of a tensor, the type of anything else."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return "%s%s" % (str(value.dtype).replace("torch.", ""), list(value.shape))


def _near(got: Any, want: Any) -> bool:
    """Whether two values are equal up to the floor of their type, which no float64 run would call wrong."""
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
