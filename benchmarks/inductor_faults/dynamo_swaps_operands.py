"""A rewrite at the end of Dynamo: the captured graph's subtractions have their operands swapped."""

import operator

import torch
from torch._dynamo.output_graph import OutputGraph

real_compiler = OutputGraph.call_user_compiler


def swapping_compiler(self, gm, *args):
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in (operator.sub, torch.sub):
            node.args = (node.args[1], node.args[0])
    gm.recompile()
    return real_compiler(self, gm, *args)


OutputGraph.call_user_compiler = swapping_compiler
