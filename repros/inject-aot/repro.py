"""A wrong functionalization rule for an operator: only AOTAutograd asks for it."""
import torch

aten = torch.ops.aten


@aten.sinh.default.py_functionalize_impl
def sinh(ctx, t):
    inner = ctx.unwrap_tensors(t)
    with ctx.redispatch_to_next():
        return ctx.wrap_tensors(aten.cosh.default(inner))


def fn(t):
    return torch.sinh(t) * 3


t = torch.linspace(-1, 1, 8)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
