"""Forces a rung of the ladder onto an unmodified script.

``torch._dynamo.optimize`` is what ``torch.compile`` (as function, decorator, with any arguments),
``nn.Module.compile()`` and old code all end in, so that one function is replaced; ``torch.compile``
itself stays as it is. The replacement picks the backend for the rung and wraps what comes back, so
that every outermost call of a compiled region is recorded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
from typing import Any, Callable, Dict, List, Optional, Set

from .. import torch_internals
from ..exceptions import NotApplicable, describe, lacking
from ..hooks.applications import Applications
from ..hooks.decompositions import install_decompositions
from ..hooks.dynamo import Front
from ..hooks.passes import Passes
from ..hooks.patterns import Patterns
from ..hooks.python_kernels import PythonKernels
from ..hooks.subsystems import Subsystems
from ..record.other_numbers import other_random, round_otherwise
from .meta_check import MismatchLog, checking_interpreter, checking_mode, correct_meta_kernels
from .regions import Context, Identity, KernelBackend, RungBackend, boxed, identity, interpreted, tracing

ORDER = (
    "uncompiled",
    "dynamo",
    "aot",
    "meta",
    "partition",
    "decomp",
    "fx",
    "loops",
    "scheduled",
    "kernel",
    "mock",
    "accelerator",
)
#: Rungs that are another accelerator's: whatever backend was asked for, it takes its place.
ACCELERATORS = ("mock", "accelerator")

#: How far down the ladder the backends of torch go by themselves.
DEPTHS = {
    "eager": "dynamo",
    "aot_eager": "partition",
    "aot_eager_decomp_partition": "decomp",
    "inductor": "kernel",
}


#: Operators that draw random numbers, as they are called in a captured graph.
_RANDOM = re.compile(r"rand|dropout|bernoulli|normal|multinomial|exponential|poisson|gumbel|cauchy|geometric")


class Ladder:
    """The rung in force, the settings on top of it, and what was noticed on the way.

    ``switches`` may hold: ``inductor`` (its settings), ``hold`` (region number to the rung it is kept
    on), ``fresh`` (forget all compiled code before each call), ``off`` (applications of a subsystem to
    leave out, by name or all), ``strict_math`` (C++ without relaxed floating-point rules),
    ``sanitize`` (C++ with the address sanitizer, which the process was started with), ``meta_eager``
    (check meta kernels while the regions run uncompiled), ``meta_fix`` (operators whose meta kernel is
    corrected), ``show_pass`` (the application of a pass or decomposition whose graphs are kept),
    ``bisector`` (drive torch's own compiler bisector), ``shadow`` (a float64 run alongside),
    ``front`` (look into Dynamo and AOTAutograd, see ``front``), ``python_kernels`` (``list`` or ``compare``
    the kernels of the Python dispatcher, see ``python_kernels``), ``native_kernels`` (operators whose
    Python kernel is removed), ``other_random`` and ``other_rounding`` (a number: regions draw other random
    numbers, or return other roundings, see ``other_numbers``),
    ``identity`` (uncompiled without a wrapper: torch.compile returns its argument),
    ``mock`` (how the mock accelerator is set up, see ``mock_rung``),
    ``adapter`` (which other accelerator, by which way, see ``adapter_rung``),
    ``measure`` (time and memory of each call, and no records, see ``measures``),
    ``check`` (hold the graphs to an accelerator's constraints, see ``checking``),
    ``capture`` (write the graphs and their calls down; true or limits, see ``capture``), ``annotate``
    (tell the node that each line of a kernel was written for), ``together`` (interpret what the scheduler
    fused as fused loops), ``divergence`` (compare the buffers between kernels with the nodes that they
    hold, see ``divergence``).
    """

    def __init__(self, rung: str, switches: Any, recorder: Any, artifacts: Any) -> None:
        self.rung = rung
        self.switches = switches
        self.recorder = recorder
        self.artifacts = artifacts
        self.regions: List[Dict[str, Any]] = []
        self.meta_log = MismatchLog()
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
        self.front = Front(switches["front"]) if switches.get("front") else None
        look, removed = switches.get("python_kernels"), switches.get("native_kernels") or ()
        self.python_kernels = PythonKernels(look, removed) if look or removed else None
        self._depth = threading.local()
        self._lock = threading.RLock()
        self._original: Any = None
        self._capture: Any = None
        self.annotator: Any = None
        self.divergence: Any = None
        self.checker: Any = None
        self.mock: Any = None
        self.adapter: Any = None
        self.meter: Any = None

    # -- installing ----------------------------------------------------------------------------

    def install(self, dynamo: Any) -> None:
        """Replace ``optimize`` in ``torch._dynamo`` (a module object), once."""
        from torch._dynamo import eval_frame

        if self._original is not None:
            return
        self._original = eval_frame.optimize

        @functools.wraps(self._original)
        def replacement(backend: Any = "inductor", **kwargs: Any) -> Any:
            return self._optimize(backend, **kwargs)

        dynamo.optimize = replacement
        eval_frame.optimize = replacement
        self._apply_global_switches()

    def _apply_global_switches(self) -> None:
        bisector = self.switches.get("bisector")
        if bisector:
            if not torch_internals.start_bisector(
                bisector["backend"], bisector["subsystem"], bisector["max"]
            ):
                raise NotApplicable("this torch has no compiler bisector to ask")
        elif not self.subsystems.install() and self.switches.get("off"):
            raise NotApplicable("this torch has no places to switch single applications off")
        if self.rung == "fx" and not bisector:
            Passes(self.applications).install()
            Patterns(self.applications).install()
        if self.rung == "decomp" and not bisector:
            install_decompositions(self.applications)
        if self.rung in ("scheduled", "kernel") and not bisector:
            self._open_kernels()
        if self.switches.get("strict_math") and not torch_internals.strict_math():
            raise NotApplicable("the compiler flags of this torch are not known")
        if self.switches.get("sanitize") and not torch_internals.sanitize_kernels():
            raise NotApplicable("the compiler flags of this torch are not known")
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

    def _open_kernels(self) -> None:
        from ..hooks.scheduler import install_choices

        install_choices(self.subsystems)
        wanted = self.switches.get("before_compiler")
        if wanted and not torch_internals.stop_before_compiler(self.on_compiler):
            raise NotApplicable("where this torch starts the native compiler is not known")
        if self.switches.get("annotate"):
            from ..hooks.kernel_lines import Annotator

            self.annotator = Annotator(self.subsystems)
            if not self.annotator.install():
                raise NotApplicable("where the lines of a kernel come from cannot be told with this torch")
        if self.switches.get("divergence"):
            from ..capture.divergence import Divergence

            self.divergence = Divergence(self.switches["divergence"])
            if not self.divergence.install():
                raise NotApplicable("the buffers between kernels cannot be had from this torch")

    def _optimize(self, backend: Any, **kwargs: Any) -> Any:
        import os

        if kwargs.get("disable") or os.environ.get("TORCHDYNAMO_DISABLE", "") == "1":
            return self._original(backend, **kwargs)
        region = self._new_region(backend, kwargs)
        if self.front is not None and not self.front.fullgraph:
            kwargs["nopython"] = False
        if region["rung"] == "uncompiled":
            context = Identity()
        else:
            context = self._original(self._backend_for(region, backend), **kwargs)
        return Context(context, self, region)

    def _new_region(self, backend: Any, kwargs: Any) -> Any:
        name, options, _ = torch_internals.describe_backend(backend)
        with self._lock:
            index = len(self.regions)
            depth = DEPTHS.get(name, "kernel")
            rung = self._rung_of(index)
            if rung in ACCELERATORS:
                depth = rung
            if ORDER.index(rung) > ORDER.index(depth):
                rung = "kernel"  # the user's own backend ends above this rung: it is run as it is
            if name not in DEPTHS and rung not in ("uncompiled", "dynamo", "aot", *ACCELERATORS):
                rung = "kernel"  # a backend that we know nothing of can only be run as it is
            region = {
                "id": index,
                "name": "",
                "backend": name,
                "options": {str(k): repr(v) for k, v in (options or {}).items()},
                "fullgraph": bool(kwargs.get("nopython", False)),
                "dynamic": kwargs.get("dynamic"),
                "rung": rung,
                "calls": 0,
            }
            self.regions.append(region)
            self._changed()
            return region

    def _changed(self) -> None:
        if self.on_region is not None:
            self.on_region()

    def _rung_of(self, index: Any) -> Any:
        return (self.switches.get("hold") or {}).get(str(index), self.rung)

    # -- backends ------------------------------------------------------------------------------

    def _backend_for(self, region: Any, requested: Any) -> Any:
        rung = region["rung"]
        if rung == "kernel":
            return requested if self.switches.get("bisector") else self._kernel(region, requested)
        _, options, _ = torch_internals.describe_backend(requested)
        patches = dict(options or {})
        patches.update(self.switches.get("inductor") or {})
        builder = getattr(self, "_" + rung) if self.checker is None else self.checker.compile
        if self.front is not None:
            builder = self.front.around(builder)

        def build(gm: Any, example_inputs: Any) -> Any:
            self._save_graph("dynamo_graph", gm)
            capturing = self._capturing(gm, region)
            region["graphs"] = region.get("graphs", 0) + 1
            try:
                if self.python_kernels is not None:
                    self.python_kernels.install()
                with self.applications.at(region=region["id"], graph=region["graphs"] - 1):
                    return capturing(builder(gm, example_inputs, patches))
            except Exception as error:
                self._note_not_applicable(error)
                raise

        name = "inductor" if region["backend"] == "inductor" else "accel_lab_" + rung
        return RungBackend(requested, rung, name, build)

    def _kernel(self, region: Any, requested: Any) -> Any:
        name, _, _ = torch_internals.describe_backend(requested)
        if name != "inductor":
            return requested
        patches = self._checked_inductor_patches()
        inner = torch_internals.with_inductor_config(requested, patches) if patches else requested
        if isinstance(inner, str):
            inner = torch_internals.with_inductor_config("inductor", {"fx_graph_cache": False})
        return KernelBackend(requested, inner, self, region)

    def _checked_inductor_patches(self) -> Any:
        patches = dict(self.switches.get("inductor") or {})
        if patches:
            import torch._inductor.config as config

            for key in patches:
                if not torch_internals.has_config(config, key):
                    raise NotApplicable("this torch has no setting torch._inductor.config.%s" % key)
        return patches

    def _dynamo(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        compiled = torch_internals.lookup_backend("eager")(gm, example_inputs)
        return compiled if self.python_kernels is None else self.python_kernels.around(compiled)

    def _aot(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        default, _ = torch_internals.partitioners()
        return self._aot_autograd(gm, example_inputs, default, None, self._nop)

    def _meta(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        default, _ = torch_internals.partitioners()
        return self._aot_autograd(gm, example_inputs, default, None, self._checked)

    def _partition(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        _, min_cut = torch_internals.partitioners()
        return self._aot_autograd(gm, example_inputs, min_cut, None, self._nop)

    def _decomp(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        import torch._inductor.config as config

        _, min_cut = torch_internals.partitioners()
        with config.patch(patches):
            table = torch_internals.decomposition_table()
            return self._aot_autograd(gm, example_inputs, min_cut, table, self._nop)

    def _fx(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        from torch._inductor import compile_fx

        place = self.applications.place()

        def inner(gm_: Any, inputs_: Any, **kwargs: Any) -> Any:
            direction = "backward" if kwargs.get("is_backward") else "forward"
            with self.applications.at(**place, direction=direction), torch_internals.stop_before_lowering():
                last = None if torch_internals.has_calls(gm_) else gm_
                try:
                    compile_fx.compile_fx_inner(gm_, inputs_, **kwargs)
                except torch_internals.LoweringReached as reached:
                    last = reached.gm
            if last is None:
                raise NotApplicable("Inductor never came to its lowering, so the fx rung saw nothing")
            self.reached.add("fx")
            self._save_graph("post_grad", last)
            return interpreted(last, contiguous=bool(self.switches.get("contiguous")))

        return self._inductor(gm, example_inputs, inner, patches)

    def _loops(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        return self._by_loops(gm, example_inputs, patches, scheduled=False)

    def _scheduled(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        return self._by_loops(gm, example_inputs, patches, scheduled=True)

    def _by_loops(self, gm: Any, example_inputs: Any, patches: Any, scheduled: Any) -> Any:
        from ..loops.interpreter import compile_loops

        self.reached.add("loops")
        return compile_loops(
            gm,
            example_inputs,
            scheduled=scheduled,
            together=bool(self.switches.get("together")),
            on_graph=self._save_text,
            config_patches=patches,
        )

    def order_conflicts(self) -> List[Dict[str, Any]]:
        """What the loop interpreter found of loops whose result depends on the order of their iterations."""
        if "loops" not in self.reached:
            return []
        from ..loops.conflicts import FOUND

        return FOUND

    def _mock(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.reached.add("mock")
        return self.mock.compile(gm, example_inputs)

    def _accelerator(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.reached.add("accelerator")
        return self.adapter.compile(gm, example_inputs)

    def _inductor(self, gm: Any, example_inputs: Any, inner: Any, patches: Any) -> Any:
        from torch._inductor import compile_fx

        with torch_internals.no_caches():
            return compile_fx.compile_fx(
                gm, example_inputs, inner_compile=inner, config_patches=dict(patches, cpp_wrapper=False)
            )

    def _aot_autograd(self, gm: Any, example_inputs: Any, partition: Any, table: Any, compiler: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        keywords = {
            "fw_compiler": functools.partial(compiler, "aot_forward"),
            "bw_compiler": functools.partial(compiler, "aot_backward"),
            "partition_fn": partition,
            "keep_inference_input_mutations": True,
        }
        if table is not None:
            keywords["decompositions"] = table
        with torch_internals.no_caches():
            return aot_autograd(**keywords)(gm, example_inputs)

    def _nop(self, kind: str, gm: Any, example_inputs: Any) -> Any:
        self.reached.add("aot")
        self._save_graph(kind, gm)
        return interpreted(gm, contiguous=True) if self.switches.get("contiguous") else boxed(gm)

    def _checked(self, kind: str, gm: Any, example_inputs: Any) -> Any:
        self.reached.add("aot")
        self._save_graph(kind, gm)
        return checking_interpreter(gm, self.meta_log)

    # -- calls ---------------------------------------------------------------------------------

    def wrap(self, compiled: Any, original: Any, region: Any) -> Any:
        """The compiled callable, recording each outermost call; Dynamo looks through it when nested."""
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
            if getattr(ladder._depth, "value", 0) or tracing():
                return compiled(*args, **kwargs)
            if ladder.switches.get("fresh"):
                torch_internals.reset_dynamo()
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

    def _note_not_applicable(self, error: Any) -> None:
        seen = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if type(error).__name__ in ("NotApplicable", "NotInterpretable") and not self.not_applicable:
                self.not_applicable = str(error) or type(error).__name__
            self.not_applicable = self.not_applicable or lacking(error)
            error = error.__cause__ or error.__context__

    def _note_raised(self, region: Any, error: Any) -> None:
        self._note_not_applicable(error)
        if len(self.caught) < 20:
            self.caught.append(dict(describe(error), region=region["id"], call=region["calls"]))

    # -- artifacts -----------------------------------------------------------------------------

    def _capturing(self, gm: Any, region: Any) -> Any:
        """What turns the compiled graph into one whose calls are written down; called before compiling."""
        if not self.switches.get("capture") or self.artifacts is None:
            return identity
        if self._capture is None:
            from ..capture.graphs import Capture

            self._capture = Capture(self.artifacts.home, self.switches["capture"])
        return self._capture.graph(gm, region)

    def _save_text(self, kind: str, text: str) -> None:
        if self.artifacts is not None:
            self.artifacts.text(kind, text, "txt" if kind.endswith("_ir") else "py")

    def _save_graph(self, kind: str, gm: Any) -> None:
        self.graphs += 1
        if kind == "dynamo_graph" and len(self.graph_texts) < 200:
            self.graph_texts.append(hashlib.sha256(gm.code.encode()).hexdigest()[:16])
        if kind == "dynamo_graph":
            self.random = self.random or bool(_RANDOM.search(gm.code))
            self.dtypes.update(_dtypes(gm))
        if self.artifacts is not None and self.graphs <= 60:
            self.artifacts.graph(kind, gm)


def _dtypes(gm: Any) -> Set[str]:
    """The types of floating-point numbers that a captured graph computes with."""
    values = [node.meta.get("example_value") for node in gm.graph.nodes]
    kinds = {getattr(value, "dtype", None) for value in values}
    return {str(kind)[6:] for kind in kinds if kind is not None and kind.is_floating_point}
