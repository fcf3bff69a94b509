"""Everything that depends on a torch release, picked by feature: one place to mend when torch changes.

Checked on torch 2.6.0 to 2.14.1. The names used here are private to torch; each function says which
file of torch it relies on.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import threading
import warnings
from typing import Any, Iterator, Sequence

_LOWERING_LOCK = threading.RLock()


class LoweringReached(BaseException):
    """Carries the final FX graph out of Inductor.

    A BaseException, so that torch's own ``except Exception`` handlers let it pass.
    """

    def __init__(self, gm: Any) -> None:
        super().__init__("the final FX graph")
        self.gm = gm


def leave_uncompiled(codes: Sequence[Any]) -> None:
    """Let Dynamo run these code objects as they are, wherever they are called from.

    ``skip_code`` of ``torch/_dynamo/eval_frame.py``; in older releases a function of its C part.
    """
    try:
        from torch._dynamo.eval_frame import skip_code
    except ImportError:
        try:
            from torch._C._dynamo.eval_frame import skip_code
        except ImportError:
            return  # then Dynamo looks at them, finds no tensor, and leaves them alone
    for code in codes:
        skip_code(code)


def cpp_compiler() -> str:
    """The C++ compiler that Inductor calls (``torch/_inductor/cpp_builder.py``; before it ``codecache``)."""
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:
        from torch._inductor.codecache import cpp_compiler as get_cpp_compiler
    return str(get_cpp_compiler())


def lookup_backend(name: str) -> Any:
    """The backend registered under a name (``torch/_dynamo/backends/registry.py``)."""
    from torch._dynamo.backends.registry import lookup_backend as lookup

    return lookup(name)


def describe_backend(backend: Any) -> Any:
    """``(name, inductor options or None, callable)`` of what was handed to ``torch._dynamo.optimize``.

    ``torch.compile`` wraps its backend in ``_TorchCompileInductorWrapper`` (options in ``.config``)
    or ``_TorchCompileWrapper`` (``torch/__init__.py``).
    """
    if isinstance(backend, str):
        return backend, ({} if backend == "inductor" else None), backend
    if getattr(backend, "compiler_name", None) == "inductor" and hasattr(backend, "config"):
        return "inductor", dict(backend.config), backend
    inner = getattr(backend, "compiler_fn", None)
    name = (
        getattr(backend, "compiler_name", None)
        or getattr(backend, "__name__", None)
        or type(backend).__name__
    )
    if inner is not None and _registered_name(inner) is None and name in ("eager", "aot_eager", "inductor"):
        name = "custom:" + name  # a user's own function that happens to carry a well-known name
    registered = _registered_name(inner if inner is not None else backend)
    return registered or str(name), None, backend


def _registered_name(fn: Any) -> Any:
    for name in ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor"):
        try:
            known = lookup_backend(name)
        except Exception:
            continue
        if fn is known:
            return name
    return None


def with_inductor_config(backend: Any, patches: Any) -> Any:
    """The same Inductor request with some settings changed, over the user's own mode and options."""
    if not patches:
        return backend
    if isinstance(backend, str):
        return _InductorWith(None, patches)
    return _InductorWith(backend, patches)


class _InductorWith:
    """Calls Inductor with extra settings; they hold for the lazily compiled backward graph too."""

    compiler_name = "inductor"

    def __init__(self, wrapped: Any, patches: Any) -> None:
        self.config = dict(getattr(wrapped, "config", None) or {})
        self.config.update(patches)
        self.dynamic = getattr(wrapped, "dynamic", None)

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx

        with no_caches():
            return compile_fx(gm, example_inputs, config_patches=dict(self.config))

    def get_compiler_config(self) -> Any:
        from torch._inductor import config

        with config.patch(self.config):
            return config.get_config_copy()


@contextlib.contextmanager
def patched(module: Any, **values: Any) -> Iterator[Any]:
    """Set config entries for a while; entries that this release lacks are left out.

    Yields the names that could be set.
    """
    have = {}
    for name, value in values.items():
        dotted = name.replace("__", ".")
        if has_config(module, dotted):
            have[dotted] = value
    with contextlib.ExitStack() as stack:
        if have:
            stack.enter_context(module.patch(have))
        yield tuple(have)


def has_config(module: Any, name: str) -> bool:
    """Whether a torch config module has the (dotted) entry ``name``."""
    target = module
    try:
        for part in name.split("."):
            target = getattr(target, part)
    except AttributeError:
        return False
    return True


@contextlib.contextmanager
def no_caches(but: Sequence[str] = ()) -> Iterator[Any]:
    """Compile without the FX graph cache and AOTAutograd's cache, ``but`` for ``fx`` or ``autograd`` of them.

    Either would answer instead of the part of the compiler that a rung wants to look at.
    """
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    fx = {} if "fx" in but else {"fx_graph_cache": False, "fx_graph_remote_cache": False}
    names = ("enable_autograd_cache", "enable_remote_autograd_cache")
    autograd = {} if "autograd" in but else dict.fromkeys(names, False)
    with patched(inductor_config, **fx), patched(functorch_config, **autograd):
        yield


def partitioners() -> Any:
    """The default and the min-cut partitioner (``torch/_functorch/partitioners.py``)."""
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    return default_partition, min_cut_rematerialization_partition


def decomposition_table() -> Any:
    """Inductor's table under the settings of the moment (``torch/_inductor/decomposition.py``)."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


@contextlib.contextmanager
def stop_before_lowering() -> Iterator[Any]:
    """While active, Inductor's lowering hands out its graph (:class:`LoweringReached`) and does no more."""
    from torch._inductor.graph import GraphLowering

    def run(self: Any, *args: Any) -> None:
        raise LoweringReached(getattr(self, "orig_gm", None) or self.module)

    with _LOWERING_LOCK:
        original = GraphLowering.run
        GraphLowering.run = run
        try:
            yield
        finally:
            GraphLowering.run = original


def strict_math() -> bool:
    """Compile kernels without the flags that relax floating-point rules; False where they are not known.

    Relies on ``torch/_inductor/cpp_builder.py: _get_ffast_math_flags`` (from 2.5 on).
    """
    try:
        from torch._inductor import cpp_builder
    except ImportError:
        return False
    if not hasattr(cpp_builder, "_get_ffast_math_flags"):
        return False
    cpp_builder._get_ffast_math_flags = lambda: ["ffp-contract=off"]
    return True


def sanitize_kernels() -> bool:
    """Compile kernels with the address sanitizer and line numbers; False where the flags are not known.

    Relies on ``torch/_inductor/cpp_builder.py: _get_ffast_math_flags`` (from 2.5 on). The test program for
    the vector units (``torch/_inductor/cpu_vec_isa.py``) is built without it: the process that loads that
    one has not the sanitizer, and a kernel without vectors would be another kernel.
    """
    try:
        from torch._inductor import cpp_builder
    except ImportError:
        return False
    flags = getattr(cpp_builder, "_get_ffast_math_flags", None)
    if flags is None:
        return False

    def sanitized() -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.endswith("cpu_vec_isa.py"):
                return flags()
            frame = frame.f_back  # type: ignore[assignment]
        return [*flags(), "fsanitize=address", "g", "fno-omit-frame-pointer"]

    cpp_builder._get_ffast_math_flags = sanitized
    return True


#: How a module of passes asks for its own patterns, where it does so for one device.
_ASKS_BY_DEVICE = re.compile(r"^ +lazy_init\(input_device\)", re.MULTILINE)


def lazy_init() -> Any:
    """Do, once, what Inductor would do at its first compile: pattern registration and operator tables."""
    import torch

    done = []
    for module_name, function in (
        ("torch._inductor.fx_passes.pre_grad", "lazy_init"),
        ("torch._inductor.fx_passes.joint_graph", "lazy_init"),
        ("torch._inductor.fx_passes.post_grad", "lazy_init"),
    ):
        try:
            module = __import__(module_name, fromlist=[function])
            hook = getattr(module, function)
        except (ImportError, AttributeError):
            continue
        try:
            # What was registered is kept by the argument: asked in another way, torch would do it all again.
            asks = _ASKS_BY_DEVICE.search(inspect.getsource(module))
            hook(*([torch.device("cpu")] if asks else []))
        except Exception:
            continue
        done.append(module_name)
    _forget_decomposition_tables()
    if _probe_vector_units():
        done.append("cpu vector units")
    return done


def _forget_decomposition_tables() -> None:
    """Registering patterns has cached Inductor's decomposition table; a script may still change it."""
    module = sys.modules.get("torch._inductor.decomposition")
    for value in list(vars(module).values()) if module is not None else ():
        clear = getattr(value, "cache_clear", None)
        if callable(clear):
            clear()


def _probe_vector_units() -> bool:
    """Let Inductor compile its test program for the vector instruction set now, once for all forks.

    The answer is kept in the process (``torch/_inductor/cpu_vec_isa.py``); without a working
    compiler there is none, and the probe that needs one will say so itself.
    """
    for name in ("torch._inductor.cpu_vec_isa", "torch._inductor.codecache"):
        try:
            module = __import__(name, fromlist=["pick_vec_isa"])
            module.pick_vec_isa()
            return True
        except Exception:
            continue
    return False


PRELOAD = (
    "torch",
    "torch._dynamo",
    "torch._dynamo.backends.debugging",
    "torch._functorch.aot_autograd",
    "torch._functorch.partitioners",
    "torch._inductor.compile_fx",
    "torch._inductor.decomposition",
    "torch._inductor.lowering",
    "torch._inductor.scheduler",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cpp_wrapper_cpu",
    "torch._inductor.codegen.triton",
    "torch._inductor.fx_passes.joint_graph",
    "torch._inductor.fx_passes.post_grad",
    "torch._inductor.fx_passes.pre_grad",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.kernel.bmm",
    "torch._inductor.kernel.conv",
    "torch._inductor.kernel.mm",
    "torch._inductor.async_compile",
    "torch._inductor.mkldnn_lowerings",
    "torch._inductor.quantized_lowerings",
    "torch.testing",
    "torch.fx.experimental.symbolic_shapes",
    # What a first compilation imports by itself, a third of a second of it.
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "torch._dynamo.backends.cudagraphs",
    "torch._dynamo.backends.distributed",
    "torch._dynamo.backends.inductor",
    "torch._dynamo.dce_extra_outputs",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.db.logging",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.cpu_device_op_overrides",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.nv_universal_gemm.nv_universal_gemm_scheduling",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.hooks",
    "torch._inductor.kernel_template_choice",
    "torch._subclasses.schema_check_mode",
    "torch.export._trace",
    "torch.export._unlift",
    "torch.fx.experimental.validator",
    "torch.utils._cpp_embed_headers",
)


def preload() -> Any:
    """Import all that a probe is likely to need; modules that this release lacks are left out."""
    missing = []
    for name in PRELOAD:
        try:
            __import__(name)
        except Exception:  # optional parts fail in many ways where what they need is not there
            missing.append(name)
    return missing


def stop_before_compiler(stop: Any) -> bool:
    """Call ``stop`` where the native compiler would start (``torch/_inductor/async_compile.py``)."""
    found = False
    for module_name in ("torch._inductor.async_compile", "torch._inductor.codecache"):
        try:
            module = __import__(module_name, fromlist=["AsyncCompile"])
        except ImportError:
            continue
        owner = getattr(module, "AsyncCompile", None)
        for name in ("cpp", "cpp_pybinding", "triton"):
            if hasattr(owner, name):
                setattr(owner, name, lambda *args, **kwargs: stop())
                found = True
    return found


def counters() -> Any:
    """What Dynamo counted: graphs, graph breaks, ... (``torch/_dynamo/utils.py``)."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    return {
        str(group): {str(k): int(v) for k, v in values.items()}
        for group, values in utils.counters.items()
        if values
    }


def changed_config() -> Any:
    """Settings of Dynamo, functorch and Inductor that differ from their defaults, as text."""
    changed = {}
    for name in ("torch._dynamo.config", "torch._functorch.config", "torch._inductor.config"):
        module = sys.modules.get(name)
        entries = getattr(module, "_config", None)
        if not isinstance(entries, dict):
            continue
        for key, entry in entries.items():
            if getattr(entry, "alias", None) is not None or getattr(entry, "deprecated", False):
                continue
            default = getattr(entry, "default", entry)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = getattr(module, key)
                if value != default and type(value) in (bool, int, float, str, type(None)):
                    changed[name + "." + key] = repr(value)
            except Exception:
                continue
    return changed


def has_calls(gm: Any) -> bool:
    """Whether a graph calls anything; one that does not Inductor hands back as it is, lowering nothing."""
    from torch._dynamo.utils import count_calls

    return bool(count_calls(gm.graph))


def unsupported(message: str) -> Any:
    """What Dynamo raises where it cannot go on tracing (``torch/_dynamo/exc.py``)."""
    from torch._dynamo.exc import Unsupported

    try:
        return Unsupported(message)
    except TypeError:
        return Unsupported(message, gb_type="accel-lab")


def reset_dynamo() -> None:
    """Forget every compiled frame, so that the next call compiles afresh."""
    import torch._dynamo

    torch._dynamo.reset()


def start_bisector(backend: Any, subsystem: str, maximum: int) -> bool:
    """Drive torch's own compiler bisector by its environment variables; False where there is none.

    ``maximum`` is how often the subsystem may be applied (``torch/_inductor/compiler_bisector.py``).
    """
    try:
        from torch._inductor.compiler_bisector import CompilerBisector, get_env_val
    except ImportError:
        return False
    names = {
        "TORCH_BISECT_BACKEND": backend,
        "TORCH_BISECT_SUBSYSTEM": subsystem,
        "TORCH_BISECT_MAX": maximum,
    }
    for name, value in names.items():
        if value is not None and (subsystem is not None or name == "TORCH_BISECT_BACKEND"):
            os.environ[name] = str(value)
    clear = getattr(get_env_val, "cache_clear", None)
    if clear is not None:
        clear()
    CompilerBisector.bisection_enabled = True  # decided at import, which was before these were set
    return bool(CompilerBisector.get_backend() == backend)


def python_kernels() -> Any:
    """Each operator with its kernels written in Python, by dispatch key (``torch/_ops.py: py_kernels``).

    Only those that stand in for a native kernel: of autograd's keys and of composite ones.
    """
    import torch

    found = []
    for namespace in list(vars(torch.ops).values()):
        if type(namespace).__name__ != "_OpNamespace":
            continue
        for packet in list(vars(namespace).values()):
            if not isinstance(packet, torch._ops.OpOverloadPacket):
                continue
            for op in list(vars(packet).values()):
                kernels = getattr(op, "py_kernels", None) if isinstance(op, torch._ops.OpOverload) else None
                chosen = {k: v for k, v in (kernels or {}).items() if _DECOMPOSING.search(str(k))}
                if chosen:
                    found.append((op, chosen))
    return found


_DECOMPOSING = re.compile(r"Autograd|Composite")


def python_dispatcher(on: bool) -> Any:
    """A context in which torch's Python dispatcher is on or off (``torch/_dispatch/python.py``)."""
    import torch

    return torch._C._EnablePythonDispatcher() if on else torch._C._DisablePythonDispatcher()
