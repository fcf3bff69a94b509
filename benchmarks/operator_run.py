"""Runs one function through the mock accelerator and through eager, and says what came of it, and where.

What ran natively is read off the traced graph and the program that the mock made of it, not off a list.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from accel_lab.accelerators.constraints.catalogue import UnsupportedOnDevice
from accel_lab.mock.compiled_graph import CompiledGraph
from accel_lab.mock.frontend import decompositions
from accel_lab.mock.ir.program import Kernel
from accel_lab.mock.lowering.graph import LoweringError
from accel_lab.mock.runtime.memory import OutOfDeviceMemory
from accel_lab.mock.settings import Settings, read_settings
from accel_lab.mock.spec.problem import SpecError
from accel_lab.numerics.comparison import compare_tensors

#: What a sample can come to, the worst last. ``decomposition``: not eager's result, but that of the graph
#: when the host runs it, so that torch's decomposition differs and not the device. ``untraced``: AOTAutograd
#: makes no graph of it, so that nothing of the mock ran. ``no operator``: a graph that computes nothing.
OUTCOMES = ("right", "no operator", "decomposition", "untraced", "refused", "wrong", "error")

Function = Callable[..., Any]


class EagerFails(Exception):
    """Eager itself does not run the sample: there is nothing to compare with."""


@dataclass(kw_only=True)
class Answer:
    """What came of one sample."""

    outcome: str
    detail: str = ""
    native: list[str] = field(default_factory=list)
    host: dict[str, str] = field(default_factory=dict)
    kernels: int = 0
    mock_s: float = 0.0
    eager_s: float = 0.0

    @property
    def where(self) -> str:
        """native: all on the device; mixed: some operators on the host; host: all of them."""
        if not self.host:
            return "native"
        return "mixed" if self.native else "host"


class Sample:
    """A call with its tensors apart, so that they can be copied, raised to float64, or be traced."""

    def __init__(self, function: Function, args: Any, kwargs: dict[str, Any], *, backward: bool) -> None:
        self.function = function
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.backward = backward

    @property
    def places(self) -> list[int]:
        return [n for n, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def tensors(self, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """Fresh copies with the strides of the originals, the floating ones in ``dtype`` if given."""
        made = []
        for place in self.places:
            value = _copied(self.leaves[place])
            if dtype is not None and value.is_floating_point():
                value = value.to(dtype)
            made.append(value.requires_grad_(self.backward and value.is_floating_point()))
        return made

    def call(self, tensors: Sequence[torch.Tensor], dtypes: dict[Any, Any] | None = None) -> list[Any]:
        """The results as a flat list, tensors and numbers; the gradients after them, if asked for."""
        leaves = [(dtypes or {}).get(leaf, leaf) if _is_dtype(leaf) else leaf for leaf in self.leaves]
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return [leaf for leaf in pytree.tree_leaves(self.function(*args, **kwargs)) if leaf is not None]

    def unordered(self) -> list[torch.Tensor]:
        """The tensors whose equal elements a sort may leave in any order; none where it must be stable."""
        _, kwargs = pytree.tree_unflatten(self.leaves, self.spec)
        return [] if kwargs.get("stable") else [self.leaves[place] for place in self.places]


def run(sample: Sample, settings: Settings | None = None, *, timed: int = 0) -> Answer:
    """The sample on the mock against eager and float64. Raises EagerFails."""
    settings = settings or read_settings()
    with _quiet():
        try:
            want = _results(sample, sample.call, sample.tensors())
        except Exception as error:
            raise EagerFails(_line(error)) from error
        graphs: list[CompiledGraph] = []
        mock = _compiled(sample, lambda graph, inputs: _lowered(graph, inputs, settings, graphs))
        answer = Answer(outcome="right")
        try:
            got = _results(sample, mock, sample.tensors())
        except Exception as error:
            answer.outcome, answer.detail = _named(error, sample), _line(error)
            _told(answer, graphs)
            return answer
        _told(answer, graphs)
        if answer.outcome in ("right", "no operator"):
            answer.detail = _difference(got, want, sample)
            if answer.detail:
                answer.outcome = "wrong"
                if _decomposition_differs(sample, got):
                    answer.outcome = "decomposition"
        if timed and answer.outcome in ("right", "decomposition"):
            answer.mock_s = _seconds(mock, sample, timed)
            answer.eager_s = _seconds(sample.call, sample, timed)
        return answer


def _compiled(sample: Sample, compiler: Callable[..., Any]) -> Function:
    from torch._functorch.aot_autograd import aot_function

    inner = aot_function(
        lambda *tensors: sample.call(tensors),
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions.table(),
    )
    return lambda tensors: inner(*tensors)


def _lowered(graph: Any, inputs: Any, settings: Settings, graphs: list[CompiledGraph]) -> CompiledGraph:
    made = _Kept(graph, inputs, settings)
    graphs.append(made)
    return made


class _Kept(CompiledGraph):
    """A compiled graph that keeps what it was made of also where it could not be made."""

    def __init__(self, graph: Any, inputs: Any, settings: Settings) -> None:
        try:
            super().__init__(graph, inputs, "sample", settings)
        except Exception as error:
            error.mock_made = True  # type: ignore[attr-defined] # from the mock, and not from tracing
            raise

    def __call__(self, args: list[Any]) -> list[Any]:
        try:
            return super().__call__(args)
        except Exception as error:
            error.mock_made = True  # type: ignore[attr-defined]
            raise


def _named(error: Exception, sample: Sample) -> str:
    """What an error of the mock's run is: refused, untraced, or an error of the lab."""
    if isinstance(error, (UnsupportedOnDevice, LoweringError, OutOfDeviceMemory)):
        return "refused"
    if isinstance(error, SpecError) or getattr(error, "mock_made", False):
        return "error"
    return "untraced"


def _told(answer: Answer, graphs: list[CompiledGraph]) -> None:
    """Which operators of the traced graphs ran where."""
    native: dict[str, None] = {}
    nodes = 0
    for made in graphs:
        away: dict[str, str] = {}
        for loaded in made.loaded:
            for call in loaded.program.fallbacks:
                away[call.node] = call.reason
                answer.host[str(call.target)] = call.reason
            answer.kernels += sum(isinstance(step, Kernel) for step in loaded.program.steps)
        for node in made.graph_module.graph.nodes:
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                nodes += 1
                if node.name not in away and made.name not in away:
                    native[str(node.target)] = None
    answer.native = [name for name in native if name not in answer.host]
    if not nodes and graphs:
        answer.outcome = "no operator"


def _results(sample: Sample, call: Function, tensors: list[torch.Tensor]) -> list[Any]:
    torch.manual_seed(0)
    results = call(tensors)
    found = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in results]
    if sample.backward:
        found += _gradients(results, tensors)
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in found]


def _gradients(results: list[Any], tensors: list[torch.Tensor]) -> list[Any]:
    """The gradients of all floating inputs, for the same gradients of the results whatever their dtype."""
    outputs = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
    inputs = [t for t in tensors if t.requires_grad]
    if not outputs or not inputs:
        raise EagerFails("no result depends on an input")
    generator = torch.Generator().manual_seed(1)
    along = [torch.randn(out.shape, generator=generator).to(out.dtype) for out in outputs]
    found = torch.autograd.grad(outputs, inputs, along, allow_unused=True)
    return ["no gradient" if gradient is None else gradient for gradient in found]


def _reference(sample: Sample) -> list[Any] | None:
    """The results in float64, or None where that does not run."""
    low = {t.dtype for t in sample.tensors() if t.is_floating_point()}
    try:
        raised = sample.tensors(torch.float64)
        return _results(
            sample, lambda tensors: sample.call(tensors, dict.fromkeys(low, torch.float64)), raised
        )
    except Exception:  # some operators have no float64, or do not mix it: eager alone is the measure then
        return None


def _difference(got: list[Any], want: list[Any], sample: Sample) -> str:
    """What tells the sample's results from eager's; empty where they agree, but for the order of ties."""
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    high: list[Any] | None = None
    asked = False
    for number, (one, two) in enumerate(zip(got, want, strict=True)):
        if not isinstance(two, torch.Tensor):
            if type(one) is not type(two) or (one != two and not (one != one and two != two)):
                return f"result {number}: {one!r} instead of {two!r}"
            continue
        if not isinstance(one, torch.Tensor):
            return f"result {number}: {type(one).__name__} instead of a tensor"
        if two.layout != torch.strided or one.layout != torch.strided:
            if one.layout != two.layout or not torch.equal(one.to_dense(), two.to_dense()):
                return f"result {number}: another {two.layout} tensor"
            continue
        if one.dtype == two.dtype and one.shape == two.shape and _equal(one, two):
            continue
        if any(_sort_alike(one, two, values) for values in sample.unordered()):
            continue
        if not asked:
            high, asked = _reference(sample), True
        best = high[number] if high is not None and len(high) == len(want) else None
        if not isinstance(best, torch.Tensor) or best.shape != two.shape or not two.is_floating_point():
            best = None
        found = compare_tensors(one, two, reference=best)
        if not found.same:
            return f"result {number}: {found.detail or found.reason}"
    return ""


def _sort_alike(one: torch.Tensor, two: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether two tensors of indices put values into the same order, the places of equal ones apart.

    ``torch.sort`` leaves their order open unless it is asked for a stable one.
    """
    if not one.dtype == two.dtype == torch.int64 or not one.shape == two.shape == values.shape:
        return False
    for dim in range(values.dim()):
        places = torch.arange(values.shape[dim]).view([-1 if d == dim else 1 for d in range(values.dim())])
        whole = all(bool((indices.sort(dim).values == places).all()) for indices in (one, two))
        if whole and _equal(values.gather(dim, one), values.gather(dim, two)):
            return True
    return False


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return bool(torch.equal(one, two)) or bool(torch.allclose(one, two, rtol=0.0, atol=0.0, equal_nan=True))


def _decomposition_differs(sample: Sample, got: list[Any]) -> bool:
    """Whether the host gets the mock's results from the same graph."""
    host = _compiled(sample, lambda graph, inputs: _boxed(graph))
    try:
        return not _difference(got, _results(sample, host, sample.tensors()), sample)
    except Exception:
        return False


def _boxed(graph: torch.fx.GraphModule) -> Function:
    """The graph as AOTAutograd calls a compiled one: with one list of all inputs."""

    def call(args: list[Any]) -> Any:
        return graph(*args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _seconds(call: Function, sample: Sample, runs: int) -> float:
    """The median of the seconds of a call, without the copies of its inputs."""
    found = []
    with torch.no_grad():
        for _ in range(runs + 1):
            tensors = [t.detach() for t in sample.tensors()]
            start = time.perf_counter()
            call(tensors)
            found.append(time.perf_counter() - start)
    return sorted(found[1:])[runs // 2]


def _copied(value: torch.Tensor) -> torch.Tensor:
    """A copy over memory laid out as the original's, so that strides and offsets are kept."""
    if value.layout != torch.strided:
        return value.clone()
    if value.is_conj() or value.is_neg() or type(value) is not torch.Tensor:
        return value.clone()
    return copy.deepcopy(value)


def _is_dtype(leaf: Any) -> bool:
    return isinstance(leaf, torch.dtype)


@contextmanager
def _quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
