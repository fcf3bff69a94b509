"""A post-grad pass that rewrites a multiplication into an addition."""
import torch
import torch._inductor.config


def wrong_pass(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
        node.target = torch.ops.aten.add.Tensor


torch._inductor.config.post_grad_custom_post_pass = wrong_pass


def fn(a, b):
    return torch.sin(a) * b


a, b = torch.linspace(0, 1, 6), torch.linspace(2, 3, 6)
torch.testing.assert_close(torch.compile(fn)(a, b), fn(a, b))
