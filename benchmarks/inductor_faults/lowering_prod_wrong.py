"""A wrong lowering of a reduction: the product along a dimension is lowered as the sum."""

import torch
from torch._inductor.lowering import lowerings

aten = torch.ops.aten


def prod(x, dim, keepdim=False, dtype=None):
    return lowerings[aten.sum.dim_IntList](x, [dim], keepdim, dtype=dtype)


lowerings[aten.prod.dim_int] = prod
