"""Inductor's pass that removes operators without effect takes abs for one of them."""

import torch
import torch._inductor.fx_passes.post_grad as post_grad

real_pass = post_grad.remove_noop_ops


def remove_noop_ops(graph):
    real_pass(graph)
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.abs.default):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


post_grad.remove_noop_ops = remove_noop_ops
