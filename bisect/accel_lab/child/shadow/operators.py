"""Classifies operators for the shadow run: written arguments, random draws, discrete results, rounding."""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, List, Tuple

import torch

from ..torch_internals import dispatch

_TAG_RANDOM = getattr(torch.Tag, "nondeterministic_seeded", None)
_TAG_INPLACE_VIEW = getattr(torch.Tag, "inplace_view", None)

# By name as well, as torch 2.0 has fewer tags, and running a random operator twice would change the script.
_RANDOM = re.compile(
    r"((new_)?rand|normal|uniform|bernoulli|multinomial|poisson$|binomial|exponential|geometric|cauchy|log_normal"
    r"|random|rrelu|_?sample_dirichlet|_?standard_gamma|_scaled_dot_product|_?fused_dropout|native_dropout"
    r"|(feature_)?(alpha_)?dropout)"
)
_NOT_RANDOM = re.compile(r".*(backward|_masked_scale)")
_EMPTY = re.compile(r"(new_)?empty(_like|_strided|_permuted|_quantized)?$")

#: Operators that change geometry or storage but no values.
_GEOMETRY = re.compile(
    r"(set|resize|resize_as|_resize_output|as_strided|t|transpose|swapaxes|swapdims|squeeze|unsqueeze|detach|movedim"
    r"|rename|requires_grad)_$|record_stream$"
)

#: Piecewise constant functions, and draws by a given probability; their real results are used.
_DISCRETE = re.compile(
    r"(sign|sgn|floor|ceil|round|trunc|fix|heaviside|floor_divide|nextafter|bernoulli|multinomial|poisson|binomial)$"
)

#: Arguments that select a branch; the shadow run uses their real values.
_BRANCH_ARGUMENTS: Dict[str, Tuple[str, ...]] = {
    "threshold_backward": ("self",),
    "hardtanh_backward": ("self",),
    "hardsigmoid_backward": ("self",),
    "leaky_relu_backward": ("self",),
    "hardshrink_backward": ("self",),
    "softshrink_backward": ("self",),
    "copysign": ("other",),
}

#: Kernels whose workspaces depend on the dtype, or that exist for one dtype only.
_OPAQUE = re.compile(
    r"_?(cudnn|miopen|mkldnn|thnn_fused|flash_attention|efficient_attention)|_scaled_mm|_fake_quant"
)

#: Operators that overwrite their written argument completely.
_OVERWRITES = frozenset(("copy_", "fill_", "zero_"))

#: Operators that only move values, so that they round only if the result's dtype is narrower.
_MOVES = re.compile(
    r"(_to_copy|copy|clone|contiguous|cat|stack|index|index_select|index_copy|gather|take|where|(constant_)?pad(_nd)?"
    r"|expand|repeat|flip|roll|tri[lu]|masked_(fill|select|scatter)|(select|slice|diagonal|as_strided)(_scatter"
    r"|_backward|_copy)?|fill|zero|zeros|ones|full|scalar_tensor|(new_)?(zeros|ones|full)(_like)?|neg|abs|relu"
    r"|threshold(_backward)?|hardtanh|clamp(_min|_max)?|maximum|minimum|fmax|fmin|max|min|amax|amin|scatter"
    r"|max_pool[123]d(_with_indices)?|sort|topk|kthvalue|median|mode|diag(_embed)?|real|imag|complex|lift_fresh(_copy)?"
    r"|alias|detach|arange|eye|nan_to_num|unbind|split(_with_sizes)?)(_copy)?$"
)
#: Operators whose result is the exact result, rounded once.
_ONE_ROUNDING = re.compile(r"(add|sub|rsub|mul|div|reciprocal|sqrt|_foreach_(add|sub|mul|div|neg|sqrt))$")

_TORCH_NAMESPACES = frozenset(("aten", "prims", "prim"))


class Plan:
    """How to follow an operator, derived from its schema.

    ``kind`` is ``real`` (creates no values), ``composite`` (calls operators that the mode sees), ``foreign``
    (custom), ``random``, ``discrete``, ``opaque`` (no float64 version) or ``shadow`` (runs in float64).
    ``rounding`` is ``none`` (only moves values), ``once`` (rounds its result) or ``inside`` (rounds
    intermediate values too).
    """

    __slots__ = ("branch_arguments", "kind", "name", "names", "overwrites", "rounding", "writes")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, self.name = schema.name.split("::", 1)
        base = self.name[:-1] if self.name.endswith("_") and not self.name.endswith("__") else self.name
        self.names = tuple(argument.name for argument in schema.arguments)
        writes = {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
        outs = {a.name for a in schema.arguments if a.name in writes and a.kwarg_only}
        if "batch_norm" in self.name and not self.name.endswith("backward"):
            # Schemas of old releases do not mark the running statistics as written.
            writes |= {"running_mean", "running_var"} & set(self.names)
        self.writes: FrozenSet[str] = frozenset(writes)
        self.overwrites = bool(writes) and (writes == outs or self.name in _OVERWRITES)
        self.branch_arguments = frozenset(_BRANCH_ARGUMENTS.get(base, ()))
        self.kind = self._kind(func, namespace, base)
        self.rounding = "none" if _MOVES.match(base) else "once" if _ONE_ROUNDING.match(base) else "inside"

    def _kind(self, func: Any, namespace: str, base: str) -> str:
        tags = getattr(func, "tags", ())
        if _GEOMETRY.match(self.name) or (_TAG_INPLACE_VIEW is not None and _TAG_INPLACE_VIEW in tags):
            return "real"
        if _EMPTY.match(self.name):
            return "real"
        if namespace not in _TORCH_NAMESPACES:
            return "foreign"
        if _composite(func):
            return "composite"
        if _DISCRETE.match(base):
            return "discrete"
        tagged = _TAG_RANDOM is not None and _TAG_RANDOM in tags
        if tagged or (_RANDOM.match(base) and not _NOT_RANDOM.match(base)):
            return "random"
        return "opaque" if _OPAQUE.match(self.name) else "shadow"

    def bind(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Dict[str, Any]:
        """Returns the arguments by name."""
        return {**dict(zip(self.names, args)), **kwargs}

    def draws(self, bound: Dict[str, Any]) -> bool:
        """Whether this call draws random numbers; false with zero dropout or in evaluation mode."""
        if self.kind != "random":
            return False
        if self.name.startswith("_scaled_dot_product"):
            return bool(bound.get("dropout_p", 0.0))
        return bound.get("train", True) is not False and bound.get("training", True) is not False


def _composite(func: Any) -> bool:
    """Whether the operator only calls others; under inference mode the mode sees it undecomposed."""
    name = func.name()
    if not dispatch.has_kernel(name, "CompositeImplicitAutograd"):
        return False
    return not any(dispatch.has_kernel(name, key) for key in ("CPU", "CUDA"))


def kernel_key(func: Any, inputs: List[torch.Tensor]) -> Any:
    """Returns the dispatch key of the kernel that a custom operator would run, or None."""
    if not hasattr(func, "_op_dk"):
        return None
    device = next((t.device.type for t in inputs if t.device.type != "cpu"), "cpu")
    for name in (device.upper(), "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
        if dispatch.has_kernel(func.name(), name):
            return dispatch.dispatch_key(name)
    return None
