"""The vocabulary of kernel specs: the ops of each unit, and the arguments of statements."""

from __future__ import annotations

from accel_lab.mock.ir.neutral import NEUTRAL

from .kernel_spec import KernelSpec, Operand

#: Functions that return a float for any input dtype.
FLOAT_FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan"),
    *("tanh", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc"),
)
ROUNDINGS = ("floor", "ceil", "round", "trunc")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNARY_OPS = (
    *("copy", "cast", "neg", "abs", *FLOAT_FUNCTIONS, "relu", *ROUNDINGS, "sign", "isnan", "isinf"),
    *("logical_not", "bitwise_not", "clamp", "mask_tail"),
)
BINARY_OPS = (
    *("add", "sub", "mul", "div", "pow", "fmod", "remainder", "floor_div", "atan2", "maximum", "minimum"),
    *COMPARISONS,
    *("logical_and", "logical_or", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
)
#: The number of inputs of each elementwise statement.
ARITY: dict[str, int] = {
    **dict.fromkeys(UNARY_OPS, 1),
    **dict.fromkeys(BINARY_OPS, 2),
    "where": 3,
    "index": 0,
}
#: Attributes that a statement must have.
STATEMENT_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "cast": ("to",),
    "mask_tail": ("dim", "valid", "value"),
    "index": ("dim",),
}
#: The neutral padding state of each reduction.
REDUCTIONS = NEUTRAL
ARGUMENTS = ("argmax", "argmin")
INTEGER_ONLY = ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor")
STRIDED_UNITS = ("pointwise", "reduction")

_POOL_WINDOW = ("kernel_size", "stride", "padding")
_CONVOLUTION = ("stride", "padding", "dilation")
#: Ops of by-layout units: least and most inputs, and required attributes.
LAYOUT_OPS: dict[str, dict[str, tuple[int, int, tuple[str, ...]]]] = {
    "matmul": {"matmul": (2, 2, ())},
    "convolution": {
        "convolution": (2, 3, _CONVOLUTION),
        "input_grad": (2, 2, _CONVOLUTION),
        "weight_grad": (2, 2, _CONVOLUTION),
    },
    "pool": {
        "max_pool2d": (1, 1, _POOL_WINDOW),
        "max_pool2d_backward": (3, 3, _POOL_WINDOW),
        "avg_pool2d": (1, 1, _POOL_WINDOW),
        "avg_pool2d_backward": (2, 2, _POOL_WINDOW),
        "adaptive_avg_pool2d": (1, 1, ("output_size",)),
        "adaptive_avg_pool2d_backward": (2, 2, ()),
    },
    "movement": {
        "view": (1, 1, ("size",)),
        "permute": (1, 1, ("dims",)),
        "restickify": (1, 1, ()),
        "copy": (1, 1, ()),
        "slice": (1, 1, ("dim",)),
        "expand": (1, 1, ("size",)),
        "cat": (1, 4096, ("dim",)),
        "constant_pad": (1, 1, ("pad",)),
        "flip": (1, 1, ("dims",)),
        "select": (1, 1, ("dim", "index")),
        "slice_scatter": (2, 2, ("dim",)),
        "select_scatter": (2, 2, ("dim", "index")),
        "repeat": (1, 1, ("repeats",)),
        "roll": (1, 1, ("shifts",)),
        "diagonal": (1, 1, ()),
        "unfold": (1, 1, ("dim", "size", "step")),
        "as_strided": (1, 1, ("size", "stride")),
        "tril": (1, 1, ()),
        "triu": (1, 1, ()),
    },
    "gather": {
        "gather": (2, 2, ("dim",)),
        "index_select": (2, 2, ("dim",)),
        "embedding": (2, 2, ()),
        "index": (2, 64, ("dims",)),
    },
    "scatter": {
        "scatter": (2, 3, ("dim",)),
        "scatter_add": (3, 3, ("dim",)),
        "index_put": (3, 64, ("dims",)),
        "embedding_backward": (2, 2, ("num_weights",)),
        "index_add": (3, 3, ("dim",)),
    },
    "scan": {"cumsum": (1, 1, ("dim",)), "cumprod": (1, 1, ("dim",))},
    "fill": {"full": (0, 0, ("value",)), "arange": (0, 0, ())},
    "sort": {"topk": (1, 1, ("k",)), "sort": (1, 1, ())},
}


def in_order(spec: KernelSpec) -> tuple[Operand, ...]:
    """Returns a by-layout unit's inputs in the op's argument order: ``values`` of ``index_put`` last."""
    if spec.op == "index_put":
        return tuple(sorted(spec.inputs, key=lambda operand: operand.name == "values"))
    return spec.inputs
