"""A pre-grad pass that takes cos for sin, before AOTAutograd sees the graph."""
import torch
import torch._inductor.config


def wrong_pass(graph):
    for node in graph.nodes:
        if node.op == "call_function" and node.target is torch.sin:
            node.target = torch.cos


torch._inductor.config.pre_grad_custom_pass = wrong_pass


def fn(t):
    return torch.sin(t) * 2


t = torch.linspace(0, 1, 6)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
