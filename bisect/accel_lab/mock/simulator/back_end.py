"""The main back end: runs kernel specs on the device's bytes, using their addresses, strides and divisions.

A spec is prepared once for each base address, as a list of calls on views of the memory; later runs only make
these calls. The operands of by-layout units are identified by position:

- convolution: input, weight, [bias]; ``input_grad``: grad_output, weight; ``weight_grad``: grad_output, input
- pool: input; the gradients: grad_output, input, [indices]; ``max_pool2d`` has the outputs output, [indices]
- movement: input; ``cat``: all parts; ``slice_scatter`` and ``select_scatter``: input, source
- gather: input (or weight), index operands
- scatter: input, index operands, source (``scatter`` may have the attribute ``value`` instead; the source of
  ``index_put`` may be at any position if it is named ``values``); ``embedding_backward``: grad_output,
  indices
- sort: input; the outputs are values, indices. scan: input. fill: none.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from accel_lab.mock.device import Device
from accel_lab.mock.faults import VARIABLE
from accel_lab.mock.runtime.memory import Memory, Region
from accel_lab.mock.spec.kernel_spec import KernelSpec
from accel_lab.mock.spec.problem import SpecError

from .context import Call, Context
from .gather import fill_plan, gather_plan
from .matmul import matmul_plan
from .movement import movement_plan
from .pointwise import pointwise_plan
from .reduction import reduction_plan
from .windows import convolution_plan, pool_plan

__all__ = ["Simulator", "SpecError"]

PLANS: dict[str, Callable[[Context], list[Call]]] = {
    "pointwise": pointwise_plan,
    "reduction": reduction_plan,
    "matmul": matmul_plan,
    "convolution": convolution_plan,
    "pool": pool_plan,
    "movement": movement_plan,
    "gather": gather_plan,
    "scatter": gather_plan,
    "scan": gather_plan,
    "sort": gather_plan,
    "fill": fill_plan,
}
KEPT_PLANS = 20_000


class Simulator:
    """Simulates the device's cores and their scratchpads."""

    def __init__(self, memory: Memory, device: Device) -> None:
        self.memory = memory
        self.device = device
        self.scratchpads = Region(device.cores * device.scratchpad_bytes)
        self._plans: dict[tuple[int, int, str], tuple[KernelSpec, list[Call]]] = {}

    def run(self, spec: KernelSpec, base: int = 0) -> None:
        """Runs one kernel with ``base`` added to its addresses in main memory.

        Raises SpecError for unknown units or ops and DeviceAddressError for addresses outside the memory. It
        relies on the verifier for the spec's consistency.
        """
        key = (id(spec), base, os.environ.get(VARIABLE, ""))
        held = self._plans.get(key)
        if held is None:
            held = self._prepare(key, spec, base)
        for call in held[1]:
            call()

    def forget(self) -> None:
        """Drops all prepared kernels."""
        self._plans.clear()

    def _prepare(
        self, key: tuple[int, int, str], spec: KernelSpec, base: int
    ) -> tuple[KernelSpec, list[Call]]:
        context = Context(
            memory=self.memory, scratchpads=self.scratchpads, device=self.device, base=base, spec=spec
        )
        plan = PLANS.get(spec.unit)
        if plan is None:
            raise context.refuse("vocabulary", f"the device has no unit called {spec.unit!r}")
        with torch.inference_mode(False), torch.no_grad():
            held = (spec, plan(context))
        if len(self._plans) >= KEPT_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[key] = held  # keeps the spec alive, so that its id is not reused
        return held
