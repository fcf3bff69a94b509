"""Records a job on Inductor: checks a sample of the calls of its compiled graphs and saves the first failure.

A call that is not sampled costs a few Python operations. The job is not changed: its exceptions propagate,
and errors of the recorder become notes.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Any, Dict, Iterator, List, NamedTuple

import torch

from ..capture.graphs import copy_of_graph
from ..exceptions import describe
from ..rungs.regions import Backend
from ..torch_internals.backends import describe_backend, lookup_backend
from .checked_call import CheckedCall
from .folder import CapsuleFolder, CapturedFailure

_RANDOM = re.compile(
    r"rand|dropout|bernoulli|normal_|multinomial|exponential|poisson|gumbel|cauchy|geometric"
)
#: Interval of the hang watch, in seconds.
_WATCH_S = 0.5


class Sampling(NamedTuple):
    """Which calls are checked, with the limits of a recording.

    Of each graph, the ``first`` calls and every ``every``-th call (0: none) are checked. ``memory_mb`` limits
    the copies of one call's inputs, ``disk_mb`` one capsule, ``capsules`` their number. A call that takes
    longer than ``hang_s`` seconds is saved too (0: hangs are not watched).
    """

    every: int = 100
    first: int = 2
    memory_mb: int = 4096
    disk_mb: int = 1024
    capsules: int = 1
    hang_s: float = 600.0


class Recording:
    """The recording of one process; writes capsules to ``home`` and calls ``on_capsule(path)`` for each."""

    def __init__(self, home: str, sampling: Sampling, on_capsule: Any = None) -> None:
        self.sampling = sampling
        self.home = home
        self.calls = self.checked = self.graphs = 0
        self.seconds = 0.0
        self.unchecked: Dict[str, int] = {}
        self.notes: List[str] = []
        self.capsules: List[str] = []
        self._on_capsule = on_capsule
        self._waiting: List[_Checked] = []
        self._flying: Dict[int, Any] = {}
        self._watching = False
        self._lock = threading.RLock()

    # -- public interface ----------------------------------------------------------------------------

    def recorded(self, backend: Any) -> Any:
        """Returns the backend to use: Inductor wrapped with sampling, any other backend unchanged."""
        return RecordedInductor(self, backend) if describe_backend(backend)[0] == "inductor" else backend

    def compiled(self, gm: Any, example_inputs: Any, inner: Any, options: Any, **kwargs: Any) -> Any:
        """Compiles a graph with ``inner`` and wraps the result so that its calls are sampled."""
        graph = None
        with self._aside():
            graph = _Graph(self.graphs, gm, options)
            self.graphs += 1
        if graph is None:
            return inner(gm, example_inputs, **kwargs)
        with self._watched(graph, None):
            try:
                compiled = inner(gm, example_inputs, **kwargs)
            except Exception as error:
                with self._aside():
                    self._failed(graph, graph.stand_ins(), error, stand_ins=True)
                raise

        def call(*args: Any) -> Any:
            turn = graph.calls
            graph.calls = turn + 1
            if self._waiting:
                self.finish_backward()
            if self._due(turn, graph):
                return self._checked(graph, compiled, args)
            key = threading.get_ident()
            self._flying[key] = (graph, args, time.monotonic())
            try:
                return compiled(*args)
            except Exception as error:
                with self._aside():
                    self._failed(graph, args, error)
                raise
            finally:
                self._flying.pop(key, None)

        return call

    def finish_backward(self) -> None:
        """Checks the gradients of earlier calls whose backward has run."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.call.has_backward:
                self._waiting.append(one)
                continue
            with self._aside():
                began = time.monotonic()
                wrong = one.call.backward()
                self.seconds += time.monotonic() - began
                if wrong:
                    self._keep(one.graph, one.call, CapturedFailure(kind="wrong", rows=wrong, turn=one.turn))

    def summary(self) -> Dict[str, Any]:
        """Returns counts, check time in seconds, capsules and notes."""
        return {
            "graphs": self.graphs,
            "checked": self.checked,
            "unchecked": dict(self.unchecked),
            "check_seconds": round(self.seconds, 3),
            "capsules": list(self.capsules),
            "notes": self.notes[:20],
        }

    # -- one call --------------------------------------------------------------------------------------

    def _due(self, turn: int, graph: _Graph) -> bool:
        every = self.sampling.every
        if turn >= self.sampling.first and (every <= 0 or (turn + 1) % every):
            return False
        if len(self.capsules) >= self.sampling.capsules:
            return False
        if graph.why_not:
            self._pass_over(graph.why_not)
            return False
        return True

    def _pass_over(self, why: str) -> None:
        self.unchecked[why] = self.unchecked.get(why, 0) + 1

    def _checked(self, graph: _Graph, compiled: Any, args: Any) -> Any:
        call = None
        with self._aside():
            began = time.monotonic()
            size = sum(v.numel() * v.element_size() for v in args if isinstance(v, torch.Tensor))
            if size > self.sampling.memory_mb << 20:
                self._pass_over("inputs of more than %d MB" % self.sampling.memory_mb)
            else:
                call = CheckedCall(graph.eager_graph, args)
            self.seconds += time.monotonic() - began
        turn = graph.calls
        with self._watched(graph, args):
            try:
                result = compiled(*(args if call is None else call.call_args))
            except Exception as error:
                with self._aside():
                    self._failed(graph, args if call is None else call.inputs, error)
                raise
        if call is not None:
            with self._aside():
                began = time.monotonic()
                wrong = call.forward(result)
                self.checked += 1
                self.seconds += time.monotonic() - began
                if wrong:
                    self._keep(graph, call, CapturedFailure(kind="wrong", rows=wrong, turn=turn))
                elif call.settings["grad"] and any(v is not a for v, a in zip(call.call_args, args)):
                    self._waiting = [one for one in self._waiting if one.graph is not graph]
                    self._waiting.append(_Checked(graph, call, turn))
        return result

    def _failed(self, graph: _Graph, args: Any, error: Any, stand_ins: bool = False) -> None:
        """Saves a call that raised, unless the graph also raises when run eagerly."""
        if len(self.capsules) >= self.sampling.capsules:
            return
        call = CheckedCall(graph.eager_graph, args)
        if not graph.why_not and call.raises():
            return
        found = CapturedFailure(kind="raises", error=describe(error), turn=graph.calls, stand_ins=stand_ins)
        self._keep(graph, call, found)

    def _keep(self, graph: _Graph, call: Any, found: CapturedFailure) -> None:
        with self._lock:
            if len(self.capsules) >= self.sampling.capsules:
                return
            name = "graph%d-call%d-%s" % (graph.number, found.turn, found.kind)
            folder = CapsuleFolder(os.path.join(self.home, name), self.sampling.disk_mb << 20)
            self.capsules.append(folder.path)
        folder.write(graph.eager_graph, graph.options, call, found)
        if self._on_capsule is not None:
            self._on_capsule(folder.path)

    # -- hangs -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _watched(self, graph: Any, args: Any) -> Iterator[None]:
        key = threading.get_ident()
        self._flying[key] = (graph, args, time.monotonic())
        if self.sampling.hang_s > 0 and not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="accel-lab-record", daemon=True).start()
        try:
            yield
        finally:
            self._flying.pop(key, None)

    def _watch(self) -> None:
        """Saves calls that take too long; runs only while the call releases the GIL."""
        seen = None
        while len(self.capsules) < self.sampling.capsules:
            time.sleep(_WATCH_S)
            for graph, args, since in list(self._flying.values()):
                if time.monotonic() - since < self.sampling.hang_s or since == seen:
                    continue
                seen = since
                with self._aside():
                    values = graph.stand_ins() if args is None else args
                    found = CapturedFailure(kind="hangs", turn=graph.calls, stand_ins=args is None)
                    self._keep(graph, CheckedCall(graph.eager_graph, values), found)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Turns an exception of the recorder into a note."""
        try:
            yield
        except Exception as error:
            note = "%s: %s" % (type(error).__name__, str(error)[:200])
            if note not in self.notes:
                self.notes.append(note)


class RecordedInductor(Backend):
    """Inductor as the job requested it, with the calls of its graphs sampled."""

    compiler_name = "inductor"

    def __init__(self, recording: Recording, requested: Any) -> None:
        super().__init__(requested, "record")
        self._recording = recording
        self._options = describe_backend(requested)[1]

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        inner = lookup_backend("inductor") if isinstance(self._requested, str) else self._requested
        return self._recording.compiled(gm, example_inputs, inner, self._options, **kwargs)

    def get_compiler_config(self) -> Any:
        getter = getattr(self._requested, "get_compiler_config", None)
        return getter() if getter else {}

    def reset(self) -> None:
        reset = getattr(self._requested, "reset", None)
        if reset is not None:
            reset()


class _Checked(NamedTuple):
    graph: _Graph
    call: CheckedCall
    turn: int


class _Graph:
    """A graph before compilation; ``why_not`` is the reason why its calls cannot be checked, if any."""

    def __init__(self, number: int, gm: Any, options: Any) -> None:
        self.number = number
        self.options = dict(options or {})
        self.calls = 0
        self.eager_graph = copy_of_graph(gm)
        self.why_not = ""
        nodes = list(gm.graph.nodes)
        if any(node.op == "call_module" for node in nodes):
            self.why_not = "a graph that holds modules (torch 2.4 or older)"
        elif any(_RANDOM.search(str(getattr(n.target, "__name__", n.target))) for n in nodes if _calls(n)):
            self.why_not = "a graph that draws random numbers"

    def stand_ins(self) -> List[Any]:
        """Returns random inputs with the placeholders' metadata, for a graph that was not called yet."""
        made = []
        for node in self.eager_graph.graph.nodes:
            if node.op == "placeholder":
                made.append(_stand_in(node.meta.get("example_value")))
        return made


def _calls(node: Any) -> bool:
    return node.op in ("call_function", "call_method")


def _stand_in(example: Any) -> Any:
    if isinstance(example, torch.Tensor):
        size, stride = [int(n) for n in example.shape], [int(n) for n in example.stride()]
        made = torch.empty_strided(size, stride, dtype=example.dtype, device=example.device)
        if made.is_floating_point() or made.is_complex():
            made.normal_()
        else:
            made.zero_()
        return made.requires_grad_(bool(example.requires_grad))
    if isinstance(example, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return example.node.hint
    return example


def summary_line(recording: Recording) -> str:
    """Returns the summary of a recording as one line."""
    done = recording.summary()
    rest = "".join("; %d calls not checked: %s" % (n, why) for why, n in sorted(done["unchecked"].items()))
    kept = "; kept: %s" % ", ".join(done["capsules"]) if done["capsules"] else "; no failures"
    return "accel-lab record: %d graphs, %d calls checked in %.1f s%s%s" % (
        done["graphs"],
        done["checked"],
        done["check_seconds"],
        rest,
        kept,
    )
