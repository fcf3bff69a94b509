"""The reference back end: runs kernel specs by their definition, on logical tensors, without optimization.

It has none of the main back end's seeded faults and shares only the memory's definition with the simulator.
"""

from __future__ import annotations

import torch

from accel_lab.mock.device import Device
from accel_lab.mock.runtime.memory import Memory, Region
from accel_lab.mock.spec.kernel_spec import KernelSpec
from accel_lab.mock.spec.problem import Problem, SpecError
from accel_lab.mock.spec.vocabulary import in_order

from .elementwise import Elementwise
from .units import meaning


class ReferenceBackEnd:
    """Runs kernel specs by their definition; same interface as the simulator's back end."""

    def __init__(self, memory: Memory, device: Device) -> None:
        self.memory = memory
        self.device = device
        self.scratchpads = Region(device.cores * device.scratchpad_bytes)

    def run(self, spec: KernelSpec, base: int = 0) -> None:
        """Runs one kernel with ``base`` added to its hbm addresses. Raises SpecError for unknown ops."""
        with torch.inference_mode(False), torch.no_grad():
            try:
                if spec.unit in ("pointwise", "reduction"):
                    Elementwise(self.memory, self.scratchpads, spec, base).run()
                else:
                    self._run_logical(spec, base)
            except KeyError as error:
                problem = Problem(
                    kernel=spec.name, rule="vocabulary", message=f"the device does not know {error}"
                )
                raise SpecError([problem]) from error

    def _run_logical(self, spec: KernelSpec, base: int) -> None:
        """Reads the inputs, computes, and writes the part that the division over cores covers."""
        function = meaning(spec.unit, spec.op, spec.attributes, spec.outputs[0].layout.size)
        inputs = [self.memory.read(operand.layout, base + operand.address) for operand in in_order(spec)]
        for operand, result in zip(spec.outputs, function(*inputs), strict=False):
            layout, address = operand.layout, base + operand.address
            value = result.to(layout.number.torch_dtype).expand(layout.size)
            if tuple(dim.extent for dim in spec.space[: len(layout.size)]) == layout.size:
                done = [
                    dim.extent // (dim.cores * dim.steps) * dim.cores * dim.steps
                    for dim in spec.space[: len(layout.size)]
                ]
                kept = self.memory.read(layout, address)
                part = tuple(slice(0, end) for end in done)
                kept[part] = value[part]
                value = kept
            self.memory.write(layout, address, value, operand.padding)
