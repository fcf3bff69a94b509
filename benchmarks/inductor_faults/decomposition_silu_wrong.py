"""An entry of Inductor's decomposition table is wrong: silu with twice the slope."""

import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.silu.default] = lambda x: x * torch.sigmoid(2 * x)
