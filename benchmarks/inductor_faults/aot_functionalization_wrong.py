"""A wrong functionalization rule of an operator, for which AOTAutograd alone asks: tan becomes tanh."""

import torch


@torch.ops.aten.tan.default.py_functionalize_impl
def tan(ctx, t):
    inner = ctx.unwrap_tensors(t)
    with ctx.redispatch_to_next():
        return ctx.wrap_tensors(torch.ops.aten.tanh.default(inner))
