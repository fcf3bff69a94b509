"""A joint-graph pass that swaps two operands of a subtraction: the gradients come out negated."""
import torch
import torch._inductor.config


def wrong_pass(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sub.Tensor):
        node.args = (node.args[1], node.args[0])


torch._inductor.config.joint_custom_post_pass = wrong_pass


def grads(f):
    a = torch.linspace(0, 1, 6, requires_grad=True)
    b = torch.linspace(2, 4, 6, requires_grad=True)
    f(a, b).sum().backward()
    return a.grad, b.grad


def fn(a, b):
    return torch.exp(a * a - b)


torch.testing.assert_close(grads(torch.compile(fn)), grads(fn))
