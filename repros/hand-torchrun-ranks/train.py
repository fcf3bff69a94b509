"""Two ranks under torchrun check their compiled model against the plain one."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Decay(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(300))

    def forward(self, rate: torch.Tensor) -> torch.Tensor:
        steps = torch.full((300,), 0.3, dtype=torch.bfloat16)
        times = torch.cumsum(steps, 0, dtype=torch.float32)
        return torch.exp(-rate[:, None] * times[None]) * self.scale


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(Decay())
    rate = torch.rand(3)
    got = torch.compile(model)(rate)
    got.sum().backward()
    worst = (got - model(rate)).abs().max().detach()
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()
    if worst > 1e-5:
        raise RuntimeError("the compiled model differs")


if __name__ == "__main__":
    main()
