"""A global tensor is frozen, used by compiled code, then thawed: on torch 2.6.0 no guard reads its requires_grad."""
import torch
scale = torch.ones(3, requires_grad=False)
@torch.compile
def f(x): return (x * scale).sum()
x = torch.ones(3, requires_grad=True)
f(x).backward()
scale.requires_grad_(True)
f(x).backward()
assert scale.grad is not None, "no gradient of the scale"
