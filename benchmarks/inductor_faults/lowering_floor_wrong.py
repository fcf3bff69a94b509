"""A wrong lowering: floor is lowered as ceil."""

import torch
from torch._inductor.lowering import lowerings

lowerings[torch.ops.aten.floor.default] = lowerings[torch.ops.aten.ceil.default]
