"""Suggests code changes that avoid graph breaks and recompilations.

Patterns match torch's reasons, of old and new releases (``torch/_dynamo/graph_break_registry.json`` lists the
new ones). The suggestions are those of the torch.compile troubleshooting guide.
"""

from __future__ import annotations

import re

_BREAKS: tuple[tuple[str, str], ...] = (
    (
        r"\bprint\b|logg(er|ing)|reorderable_logging|warnings\.warn",
        "print after the compiled function returned, or add the function to "
        "torch._dynamo.config.reorderable_logging_functions",
    ),
    (
        r"generic_jump|[Dd]ata-dependent (branching|jump|control flow)|Data dependent branch",
        "compute both sides and choose with torch.where, or use torch.cond",
    ),
    (
        r"\.item\b|Tensor\.item|_local_scalar_dense|scalar_outputs|aten\._local_scalar",
        "keep the value in a tensor, or set torch._dynamo.config.capture_scalar_outputs = True",
    ),
    (
        r"nonzero|masked_select|dynamic_output_shape|dynamic shape operator|data-dependent output shape",
        "use a form of fixed size (torch.where with three arguments, a mask), or set "
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
    ),
    (
        r"graph_break\(\)|torch\._dynamo\.graph_break|call_graph_break",
        "the program asks for this break: remove the call of torch._dynamo.graph_break()",
    ),
    (
        r"_dynamo\.disable|compiler\.disable|skip_recursive|marked as skipped|skipfiles|[Ss]kipped function",
        "the function is excluded from compilation: remove torch.compiler.disable, or call it outside",
    ),
    (
        r"[Cc] (function|extension)|builtin_function_or_method|PyCapsule|pybind|ctypes|not traceable",
        "wrap it with torch.library.custom_op and a fake implementation, or call it outside",
    ),
    (
        r"numpy|np\.",
        "use torch operators, or keep the NumPy code outside of the compiled function",
    ),
    (
        r"context manager|ContextManager|with block|GenericContextWrappingVariable",
        "enter the context outside of the compiled function",
    ),
    (
        r"try/except|exception|raise",
        "keep exception handling outside of the compiled function",
    ),
    (
        r"\b(open|input|exec|eval|globals|locals|id|time|random|datetime)\b",
        "call it before the compiled function and pass the result in",
    ),
    (
        r"backward|autograd\.grad|requires_grad_",
        "call backward outside of the compiled function, or enable compiled autograd",
    ),
)
#: Patterns for the source line, used if the reason matches none.
_SOURCES: tuple[tuple[str, str], ...] = (_BREAKS[0], _BREAKS[2], (r"\bnp\.|\.numpy\(", _BREAKS[7][1]))
_GUARDS: tuple[tuple[str, str], ...] = (
    (
        r"size mismatch|\.size\(\)|\.shape|stride mismatch.*expected|\bsize\b",
        "mark the size as dynamic: torch._dynamo.mark_dynamic(tensor, dim), or torch.compile(dynamic=True)",
    ),
    (r"stride mismatch|\.stride\(\)", "pass tensors of one layout, e.g. x.contiguous()"),
    (r"dtype mismatch|\bdtype\b", "pass tensors of one dtype, or cast inside of the function"),
    (r"device mismatch|\bdevice\b", "pass tensors of one device"),
    (r"requires_grad|dispatch key set mismatch", "call the function always with or always without gradients"),
    (
        r"grad_mode|GRAD_MODE|___check_global_state|inference_mode|autocast",
        "call the function in one state: gradient mode, autocast and default dtype are guarded",
    ),
    (
        r"___check_obj_id|___check_function_id|\bis\b",
        "a new object is created for each call: create it once and reuse it",
    ),
    (r"___check_type_id|type\(", "pass arguments of one type"),
    (
        r"len\(|___tuple_iterator_len|___dict_contains|keys",
        "pass containers of one length and with the same keys",
    ),
)


def for_break(reason: str, source: str) -> str:
    """Returns advice to avoid a graph break; empty if there is none."""
    return _first(_BREAKS, reason) or _first(_SOURCES, source)


def for_recompile(guard: str) -> str:
    """Returns advice to avoid recompilations by a guard; empty if there is none."""
    known = _first(_GUARDS, guard)
    if known:
        return known
    if re.search(r"==\s*-?\d+\.\d*|==\s*-?\d*\.\d+", guard):
        return "a float is baked into the graph: pass it as a tensor"
    if re.search(r"==\s*-?\d+\s*$", guard):
        return (
            "an integer is baked into the graph: pass it as a tensor, or use torch.compile(dynamic=True); "
            "an attribute of a module needs torch._dynamo.config.allow_unspec_int_on_nn_module = True"
        )
    if re.search(r"==\s*['\"]|==\s*(True|False|None)\b", guard):
        return "the value is baked into the graph: compile one function for each of its few values"
    return ""


def _first(table: tuple[tuple[str, str], ...], text: str) -> str:
    return next((advice for pattern, advice in table if re.search(pattern, text)), "")
