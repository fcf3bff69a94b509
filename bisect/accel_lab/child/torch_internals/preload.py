"""Imports and sets up what most probes need, once for all forks of the warm server."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

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
    # A first compilation imports these itself, which takes about 0.3 s.
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
    """Imports the modules of ``PRELOAD``; returns the names of those that could not be imported."""
    missing = []
    for name in PRELOAD:
        try:
            __import__(name)
        except Exception:  # optional modules raise various errors if a dependency is missing
            missing.append(name)
    return missing


#: Matches a module of passes that calls ``lazy_init`` with a device.
_ASKS_BY_DEVICE = re.compile(r"^ +lazy_init\(input_device\)", re.MULTILINE)


def lazy_init() -> Any:
    """Does the set-up of Inductor's first compile: pattern registration and the test of vector units.

    Returns the names of the steps that succeeded.
    """
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
            # torch caches the registration by argument, so the call must use the same one as torch.
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
    """Clears the decomposition tables that pattern registration cached, as a script may change the table."""
    module = sys.modules.get("torch._inductor.decomposition")
    for value in list(vars(module).values()) if module is not None else ():
        clear = getattr(value, "cache_clear", None)
        if callable(clear):
            clear()


def _probe_vector_units() -> bool:
    """Makes Inductor detect the vector instruction set now, once for all forks; False if it fails.

    The result is cached in the process (``torch/_inductor/cpu_vec_isa.py``). Without a working compiler
    detection fails here, and again in the probe that needs it.
    """
    for name in ("torch._inductor.cpu_vec_isa", "torch._inductor.codecache"):
        try:
            module = __import__(name, fromlist=["pick_vec_isa"])
            module.pick_vec_isa()
            return True
        except Exception:
            continue
    return False
