"""Runs an unmodified script on a chosen rung of the ladder.

``torch.compile`` in any form, ``nn.Module.compile()`` and the older APIs all call Dynamo's ``optimize``. The
ladder replaces ``optimize`` and leaves ``torch.compile`` alone. The replacement takes the backend from the
rung's builder and wraps the compiled callable, so that every outermost call of a region is recorded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import threading
from typing import Any, Callable, Dict, List, Optional, Set

from ..exceptions import NotApplicable, describe, missing_torch_part
from ..hooks.applications import Applications
from ..hooks.dynamo import DynamoHooks
from ..hooks.python_kernels import PythonKernels
from ..hooks.subsystems import LOWERINGS, Subsystems
from ..mixed_sources import lay_out
from ..protocol import rungs
from ..record.other_numbers import other_random, round_otherwise
from ..torch_internals import compilers, dynamo
from ..torch_internals.backends import describe_backend
from ..torch_internals.bisector import start_bisector
from .builder import RungBuilder, builder_of
from .graph_inputs import GraphInputs
from .meta_check import MismatchLog, checking_mode, correct_meta_kernels, watch_fake_kernels
from .regions import Context, Identity, identity

#: Rungs that replace every backend of a script, also one that the lab does not know.
_OWN_BACKENDS = frozenset(rung for rung in rungs.Rung if rung.record.own_backends)
_ORDER = list(rungs.Rung)


#: Matches calls of random operators in the code of a captured graph.
_RANDOM = re.compile(r"rand|dropout|bernoulli|normal|multinomial|exponential|poisson|gumbel|cauchy|geometric")


class Ladder:
    """The rung of this run, its switches (``protocol.switches``), and the observations of its regions."""

    def __init__(self, rung: str, switches: Any, recorder: Any, artifacts: Any) -> None:
        self.rung = rung
        self.switches = switches
        self.recorder = recorder
        self.artifacts = artifacts
        self.regions: List[Dict[str, Any]] = []
        self.meta_log = MismatchLog(artifacts.home)
        self.graph_inputs = GraphInputs(bool(switches.get("correct_inputs")))
        self.graphs = 0
        self.reached: Set[str] = set()
        self.caught: List[Dict[str, Any]] = []
        self.graph_texts: List[str] = []
        self.random = False
        self.dtypes: Set[str] = set()
        self.subsystems = Subsystems(switches.get("off"))
        self.applications = Applications(self.subsystems, switches.get("show_pass"))
        self.not_applicable = ""
        self.on_region: Optional[Callable[[], None]] = None
        self.on_compiler: Callable[[], None] = lambda: None
        self.front = DynamoHooks(switches["front"]) if switches.get("front") else None
        look, removed = switches.get("python_kernels"), switches.get("native_kernels") or ()
        self.python_kernels = PythonKernels(look, removed) if look or removed else None
        self._depth = threading.local()
        self._lock = threading.RLock()
        self._original: Any = None
        self._builders: Dict[str, RungBuilder] = {}
        self._capture: Any = None
        self.annotator: Any = None
        self.layers: Any = None
        self.divergence: Any = None
        self.checker: Any = None
        self.mock: Any = None
        self.adapter: Any = None
        self.meter: Any = None

    # -- installing ----------------------------------------------------------------------------

    def install(self) -> None:
        """Replaces Dynamo's ``optimize`` and applies the switches; only the first call has an effect.

        Raises ``NotApplicable`` if this torch lacks a place that a switch needs.
        """
        if self._original is None:
            self._original = dynamo.replace_optimize(self._optimize)
            self._apply_global_switches()

    def _apply_global_switches(self) -> None:
        bisector = self.switches.get("bisector")
        if bisector:
            if not start_bisector(bisector["backend"], bisector["subsystem"], bisector["max"]):
                raise NotApplicable("this torch has no CompilerBisector")
        elif not self.subsystems.install() and LOWERINGS in (self.switches.get("off") or {}):
            raise NotApplicable("this torch has no hook to switch single lowerings off")
        if rungs.Rung(self.rung).record.builder and not bisector:
            self._builder(self.rung).prepare()
        if self.switches.get("strict_math") and not compilers.strict_math():
            raise NotApplicable("the compiler flags of this torch are unknown")
        headers = (self.switches.get("mixed_sources") or {}).get("headers")
        if headers and not compilers.include_first(lay_out(headers, self.artifacts.home)):
            raise NotApplicable("the include paths of this torch's C++ compiler are unknown")
        if self.switches.get("sanitize") and not compilers.sanitize_kernels():
            raise NotApplicable("the compiler flags of this torch are unknown")
        if self.switches.get("layers"):
            from ..hooks.layers import Layers

            self.layers = Layers(self.artifacts.home)
        if self.front is not None:
            self.front.install()
        if self.switches.get("check"):
            from .constraint_check import Checker

            self.checker = Checker(self.switches["check"], self.artifacts.home)
        if self.rung == "mock" or self.switches.get("mock"):
            from .mock import MockRung

            self.mock = MockRung(self.switches.get("mock") or {}, self.artifacts.home)
        if self.rung == "accelerator" or self.switches.get("adapter"):
            from .adapter import AdapterRung

            self.adapter = AdapterRung(self.switches["adapter"], self.artifacts.home)
        if self.switches.get("meta_fix"):
            correct_meta_kernels(self.switches["meta_fix"])
        if self.switches.get("meta_watch"):
            watch_fake_kernels(self.meta_log)

    def _builder(self, rung: str) -> RungBuilder:
        if rung not in self._builders:
            self._builders[rung] = builder_of(self, rung)
        return self._builders[rung]

    def _optimize(self, backend: Any, **kwargs: Any) -> Any:
        if kwargs.get("disable") or os.environ.get("TORCHDYNAMO_DISABLE", "") == "1":
            return self._original(backend, **kwargs)
        name, options, _ = describe_backend(backend)
        region = self._new_region(name, options, kwargs)
        if self.front is not None and not self.front.fullgraph:
            kwargs["nopython"] = False
        if region["rung"] == "uncompiled":
            context = Identity()
        else:
            built = self._builder(region["rung"]).backend(region, backend, options)
            context = self._original(built, **kwargs)
        return Context(context, self, region)

    def _new_region(self, name: str, options: Any, kwargs: Any) -> Any:
        with self._lock:
            index = len(self.regions)
            region_rung = self._rung_on(index, name)
            region = {
                "id": index,
                "name": "",
                "backend": name,
                "options": {str(k): repr(v) for k, v in (options or {}).items()},
                "fullgraph": bool(kwargs.get("nopython", False)),
                "dynamic": kwargs.get("dynamic"),
                "rung": region_rung,
                "calls": 0,
            }
            self.regions.append(region)
            self._changed()
            return region

    def _changed(self) -> None:
        if self.on_region is not None:
            self.on_region()

    def _rung_on(self, index: int, backend: str) -> str:
        """Returns a region's rung: ``kernel`` (backend unchanged) if the run's rung cannot replace it."""
        asked = (self.switches.get("hold") or {}).get(str(index), self.rung)
        rung = rungs.Rung(asked)
        known = rungs.BY_BACKEND.get(backend)
        if rung.record.place is rungs.Place.ACCELERATOR:
            return asked
        if _ORDER.index(rung) > _ORDER.index(known or rungs.Rung.KERNEL):
            return rungs.Rung.KERNEL.value  # the user's backend runs less of the compiler than this rung
        if known is None and rung not in _OWN_BACKENDS:
            return rungs.Rung.KERNEL.value  # an unknown backend can only run unchanged
        return asked

    # -- calls ---------------------------------------------------------------------------------

    def wrap(self, compiled: Any, original: Any, region: Any) -> Any:
        """Wraps the compiled callable so that outermost calls are recorded; Dynamo inlines the original."""
        import torch

        if isinstance(original, type):
            return compiled
        if isinstance(original, torch.nn.Module) and compiled is not original:
            region["wraps"] = "module"
            region["name"] = type(original).__qualname__
            if self.recorder is not None:
                self.recorder.watch_module(region["id"], original)
            compiled.forward = self._recording(compiled.forward, original, region)
            self._changed()
            return compiled
        region["name"] = getattr(original, "__qualname__", None) or type(original).__qualname__
        owner = getattr(original, "__self__", None)
        region["wraps"] = "method" if isinstance(owner, torch.nn.Module) else "function"
        if isinstance(owner, torch.nn.Module) and self.recorder is not None:
            self.recorder.watch_module(region["id"], owner)
        self._changed()
        return self._recording(compiled, original, region)

    def _recording(self, compiled: Any, original: Any, region: Any) -> Any:
        ladder = self

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(ladder._depth, "value", 0) or dynamo.is_tracing():
                return compiled(*args, **kwargs)
            if ladder.switches.get("fresh"):
                dynamo.reset()
            ladder._depth.value = 1
            region["calls"] += 1
            handle = (
                ladder.recorder.begin_call(region["id"], region["name"], args, kwargs, original)
                if ladder.recorder
                else None
            )
            before = ladder.meter.begin() if ladder.meter is not None else None
            try:
                if ladder.front is None:
                    result = ladder._call(compiled, original, args, kwargs)
                else:
                    with ladder.front.call(region, original, args, kwargs) as returned:
                        result = ladder._call(compiled, original, args, kwargs)
                        returned(result)
            except BaseException as error:
                if ladder.recorder:
                    ladder.recorder.raised(handle, error)
                ladder._note_raised(region, error)
                raise
            finally:
                ladder._depth.value = 0
                if region["calls"] & (region["calls"] - 1) == 0:  # calls 1, 2, 4, 8, ...
                    ladder._changed()
                if ladder.meter is not None:
                    ladder.meter.end(before)
            if ladder.recorder:
                ladder.recorder.end_call(handle, result)
            return result

        call._torchdynamo_inline = compiled  # type: ignore[attr-defined]
        return call

    def _call(self, compiled: Any, original: Any, args: Any, kwargs: Any) -> Any:
        with contextlib.ExitStack() as around:
            if self.switches.get("meta_eager"):
                around.enter_context(checking_mode(self.meta_log))
            if self.switches.get("other_random"):
                around.enter_context(other_random(self.switches["other_random"]))
            result = compiled(*args, **kwargs)
        if self.switches.get("other_rounding"):
            module = getattr(original, "__self__", original)
            state = list(module.state_dict().values()) if hasattr(module, "state_dict") else []
            round_otherwise(result, self.switches["other_rounding"], [*args, *kwargs.values(), *state])
        return result

    def order_conflicts(self) -> List[Dict[str, Any]]:
        """Returns loops whose result depends on iteration order, as the loop interpreter found them."""
        if "loops" not in self.reached:
            return []
        from ..loops.conflicts import FOUND

        return FOUND

    def note_not_applicable(self, error: Any) -> None:
        seen = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if type(error).__name__ in ("NotApplicable", "NotInterpretable") and not self.not_applicable:
                self.not_applicable = str(error) or type(error).__name__
            self.not_applicable = self.not_applicable or missing_torch_part(error)
            error = error.__cause__ or error.__context__

    def _note_raised(self, region: Any, error: Any) -> None:
        self.note_not_applicable(error)
        if len(self.caught) < 20:
            self.caught.append(dict(describe(error), region=region["id"], call=region["calls"]))

    # -- artifacts -----------------------------------------------------------------------------

    def capturing(self, gm: Any, region: Any) -> Any:
        """Returns a wrapper for the compiled graph that writes down its calls; call this before compiling."""
        if not self.switches.get("capture") or self.artifacts is None:
            return identity
        if self._capture is None:
            from ..capture.graphs import Capture

            self._capture = Capture(self.artifacts.home, self.switches["capture"])
        return self._capture.graph(gm, region)

    def save_text(self, kind: str, text: str) -> None:
        if self.artifacts is not None:
            self.artifacts.text(kind, text, "txt" if kind.endswith("_ir") else "py")

    def save_graph(self, kind: str, gm: Any) -> None:
        self.graphs += 1
        if kind == "dynamo_graph" and len(self.graph_texts) < 200:
            self.graph_texts.append(hashlib.sha256(gm.code.encode()).hexdigest()[:16])
        if kind == "dynamo_graph":
            self.random = self.random or bool(_RANDOM.search(gm.code))
            self.dtypes.update(_dtypes(gm))
        if self.layers is not None:
            self.layers.graph(kind, gm)
        elif self.artifacts is not None and self.graphs <= 60:
            self.artifacts.graph(kind, gm)


def _dtypes(gm: Any) -> Set[str]:
    """Names of the floating-point dtypes in a captured graph, such as ``float32``."""
    values = [node.meta.get("example_value") for node in gm.graph.nodes]
    kinds = {getattr(value, "dtype", None) for value in values}
    return {str(kind)[6:] for kind in kinds if kind is not None and kind.is_floating_point}
