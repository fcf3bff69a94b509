"""A frame with torch.cond keeps its input after the call; the next batch then needs twice the memory."""

import weakref

import torch


def gate(flag: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    return torch.cond(flag, lambda x: x * 2, lambda x: x * 3, (batch,))


step = torch.compile(gate)
batch = torch.ones(64)
alive = weakref.ref(batch)
out = step(torch.tensor(True), batch)
del batch
assert alive() is None, "the batch is still in memory"
print(out.sum().item())
