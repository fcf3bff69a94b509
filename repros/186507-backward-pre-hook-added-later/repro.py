"""#117265: a backward pre-hook is added to a layer after the network was compiled and used once."""
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
fast = torch.compile(net, backend="aot_eager")
x = torch.ones(2, 3)
fast(x).sum().backward()
net.zero_grad()
net[0].register_full_backward_pre_hook(lambda module, grads: (grads[0] * 0,))
fast(x).sum().backward()
assert net[0].weight.grad.abs().sum() == 0, "the hook did not run: " + str(net[0].weight.grad)
