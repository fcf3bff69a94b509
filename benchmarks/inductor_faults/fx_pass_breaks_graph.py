"""A joint-graph pass leaves a broken graph behind: a node loses its operand."""

import torch
import torch._inductor.config


def forgetful_pass(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.atan.default):
        node.args = ()


torch._inductor.config.joint_custom_post_pass = forgetful_pass
