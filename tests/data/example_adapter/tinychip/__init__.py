"""An accelerator of a few lines: it runs ATen graphs node by node, and has one bug to find.

With TINYCHIP_BUG=1 its multiplier forgets the last element of a row, as a chip does that drops a tail.
"""

from __future__ import annotations

import os

import torch
from accel_lab import AcceleratorAdapter, AcceleratorCapabilities


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

    def compile(self, graph_module, example_inputs):
        """The chip's compiler: here an interpreter stands for it."""
        return Chip(graph_module).run


class Chip(torch.fx.Interpreter):
    """Runs the operators of a graph in their order."""

    def call_function(self, target, args, kwargs):
        result = super().call_function(target, args, kwargs)
        if target is torch.ops.aten.mul.Tensor and os.environ.get("TINYCHIP_BUG") == "1":
            result[..., -1] = 0
        return result
