"""An accelerator of a few lines: it runs ATen graphs node by node, and has bugs to find.

With TINYCHIP_BUG=back its multiplier forgets the last element of a row, as a chip does that drops a tail;
with TINYCHIP_BUG=front its compiler makes sines of cosines.
"""

from __future__ import annotations

import os

import torch
from accel_lab import AcceleratorAdapter, AcceleratorCapabilities, AdapterRung

aten = torch.ops.aten


class TinyChip(AcceleratorAdapter):
    """float32 and float16, rows of eight elements, one megabyte, no matrix decompositions."""

    name = "tinychip"
    capabilities = AcceleratorCapabilities(
        dtypes=frozenset({"float32", "float16", "int32", "bool"}),
        int64=False,
        alignment=8,
        max_memory=1 << 20,
        denied=frozenset({"linalg_lu_factor", torch.nn.functional.conv2d}),
    )
    blames = "back end"  # what the chip adds to the last of the rungs

    def compile(self, graph_module, example_inputs):
        """The chip's compiler, and the chip."""
        return Chip(lowered(graph_module)).run

    def environment(self):
        """The chip's bugs are switched on by this variable."""
        return ["TINYCHIP_BUG"]

    def rungs(self):
        """The same program without the chip: if that fails, it is the compiler."""

        def in_software(graph_module, example_inputs):
            return torch.fx.Interpreter(lowered(graph_module)).run

        return [AdapterRung(name="compiled, run in software", blames="front end", compile=in_software)]


def lowered(graph_module):
    """The chip's compiler: here a graph is its program as it is."""
    if os.environ.get("TINYCHIP_BUG") == "front":
        for node in graph_module.graph.find_nodes(op="call_function", target=aten.cos.default):
            node.target = aten.sin.default
        graph_module.recompile()
    return graph_module


class Chip(torch.fx.Interpreter):
    """The chip: it runs the operators of a program in their order."""

    def call_function(self, target, args, kwargs):
        result = super().call_function(target, args, kwargs)
        if target is aten.mul.Tensor and os.environ.get("TINYCHIP_BUG") == "back":
            result[..., -1] = 0
        return result
