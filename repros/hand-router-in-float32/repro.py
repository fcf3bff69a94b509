"""Wrong numbers and exit code 0: the router of a mixture of experts is float32, its gradient is not (#179804)."""
import torch

torch.manual_seed(1)


class Trainer:
    def __init__(self, width=64, experts=4):
        self.experts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(experts))
        self.router = torch.nn.Linear(width, experts)

    def loss(self, rows):
        hidden = torch.stack([expert(rows) for expert in self.experts], -1)
        with torch.autocast("cpu", enabled=False):
            share = torch.softmax(self.router(rows.float()) * 0.5, -1)
        return (hidden * share[:, None, :]).sum(-1).square().float().mean()


trainer = Trainer()
loss = torch.compile(trainer.loss)
for step in range(2):
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(torch.randn(24, 64))
    value.backward()
    print("step", step, "loss", value.item())
