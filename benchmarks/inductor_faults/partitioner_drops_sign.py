"""The min-cut partitioner's last step leaves the negations out of the backward graph."""

import torch
import torch._functorch.partitioners as partitioners

real_step = partitioners.reordering_to_mimic_autograd_engine


def wrong_step(module):
    module = real_step(module)
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.neg.default):
        node.replace_all_uses_with(node.args[0])
    module.recompile()
    return module


partitioners.reordering_to_mimic_autograd_engine = wrong_step
