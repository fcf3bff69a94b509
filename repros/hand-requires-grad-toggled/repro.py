# A parameter is frozen, compiled, and then thawed: on torch 2.5.1 no guard reads its requires_grad.
import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
net.weight.requires_grad_(False)
fast = torch.compile(net)
x = torch.ones(4, 3)
fast(x).sum().backward()
net.weight.requires_grad_(True)
fast(x).sum().backward()
assert net.weight.grad is not None, "no gradient of the weight"
