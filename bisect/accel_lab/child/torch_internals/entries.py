"""Lists the compiler entry points other than torch.compile that users call; some are in private modules."""

from __future__ import annotations

from typing import Dict, Tuple

ENTRIES: Dict[str, Tuple[str, ...]] = {
    "torch.export": ("export", "export_for_training", "draft_export", "load"),
    "torch._export": ("aot_compile", "aot_load", "capture_pre_autograd_graph"),
    "torch._dynamo": ("export",),
    "torch._inductor": (
        "aoti_compile_and_package",
        "aoti_load_package",
        "aot_compile",
        "compile",
        "standalone_compile",
    ),
    "torch.jit": ("script", "trace", "trace_module", "freeze", "optimize_for_inference", "load"),
    "torch.onnx": ("export", "dynamo_export"),
}
#: Entry points that return a function; the work is done when that function is called.
RETURN_A_FUNCTION = frozenset({"torch._dynamo.export"})
