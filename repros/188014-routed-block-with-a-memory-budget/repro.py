"""A routed block under selective checkpointing (the routing is always saved) and a small activation memory budget."""
from functools import partial

import torch
import torch._functorch.config
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

torch._functorch.config.activation_memory_budget = 0.01


def keep_routing(ctx, op, *args, **kwargs):
    if op == torch.ops.aten.topk.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


class Router(nn.Module):
    def forward(self, scores):
        gain, _ = torch.topk(scores.sin(), 3, dim=1)
        return gain * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()

    def forward(self, scores):
        contexts = partial(create_selective_checkpoint_contexts, keep_routing)
        return checkpoint(self.router, scores, use_reentrant=False, context_fn=contexts)


torch.manual_seed(0)
embed = nn.Linear(5, 8)
head = nn.Linear(3, 1)
block = torch.compile(Block())
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(6, 5), torch.randn(6, 1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(block(embed(x))), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
print("trained")
