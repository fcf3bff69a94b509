"""Writes a kernel as a standalone script: its spec and input bytes, to run again and compare."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from accel_lab.mock import faults
from accel_lab.mock.device import FORMATS, Device
from accel_lab.mock.reference.back_end import ReferenceBackEnd
from accel_lab.mock.simulator.back_end import Simulator
from accel_lab.mock.spec.kernel_spec import KernelSpec

from .memory import Memory

#: Tolerance by dtype, relative to the largest value; sums may be in another order.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
#: The distance if NaN or infinity is compared with a number.
NO_SIZE = -1.0

_SCRIPT = '''"""Kernel {name} ({unit} {op}) of the mock accelerator, for {origins}, by itself.

{explanation}
It needs accel-lab and torch: exits with 1 while the values differ, with 0 once they agree.
"""

import json

from accel_lab.mock.runtime.kernel_script import replay

CASE = r"""
{case}
"""

code, lines = replay(json.loads(CASE))
print("\\n".join(lines))
raise SystemExit(code)
'''
_BETWEEN = "The simulator's output is compared with the reference back end's, from the same spec and bytes."
_AGAINST = "The simulator's output is compared with what the ATen nodes gave on the host."


def operand_bytes(memory: Memory, spec: KernelSpec, base: int) -> dict[str, torch.Tensor]:
    """Returns copies of the bytes of a kernel's operands in main memory, by name."""
    return {
        operand.name: memory.typed(base + operand.address, torch.uint8, (operand.layout.bytes,), (1,)).clone()
        for operand in spec.operands
        if operand.memory == "hbm"
    }


@dataclass(frozen=True, kw_only=True)
class Capture:
    """One kernel with its operands' bytes before the run; ``want`` are the expected outputs.

    Without ``want`` the reference back end gives the expected outputs.
    """

    spec: KernelSpec
    device: Device
    before: dict[str, torch.Tensor]
    want: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of the captured data in bytes."""
        wanted = sum(value.numel() * value.element_size() for value in self.want.values())
        return sum(data.numel() for data in self.before.values()) + wanted

    def to_json(self) -> dict[str, Any]:
        """Returns the argument of :func:`replay`."""
        return {
            "spec": self.spec.to_json(),
            "device": asdict(self.device),
            "faults": os.environ.get(faults.VARIABLE, ""),
            "before": {name: _packed(data) for name, data in self.before.items()},
            "want": {name: _packed(self._bytes(name, value)) for name, value in self.want.items()},
        }

    def _bytes(self, name: str, value: torch.Tensor) -> torch.Tensor:
        dtype = self.spec.operand(name).layout.number.torch_dtype
        return value.to(dtype).contiguous().reshape(-1).view(torch.uint8)

    def write(self, folder: str) -> str:
        """Writes the script to a folder; returns its path."""
        path = Path(folder, re.sub(r"[^\w.-]", "_", f"kernel_{self.spec.name}")[:80] + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.script(), "utf-8", "backslashreplace")
        return str(path)

    def script(self) -> str:
        """Returns the script's text."""
        case = json.dumps(self.to_json(), indent=0)
        return _SCRIPT.format(
            name=self.spec.name,
            unit=self.spec.unit,
            op=self.spec.op,
            origins=", ".join(self.spec.origins) or "no node",
            explanation=_AGAINST if self.want else _BETWEEN,
            case=case,
        )


def distance(got: torch.Tensor, want: torch.Tensor) -> float | None:
    """Returns the largest difference if it exceeds rounding, else 0; NO_SIZE for NaN or infinity.

    For integers it returns the number of differing elements. None if the shapes differ.
    """
    if got.shape != want.shape:
        return None
    if got.dtype != want.dtype:
        want = want.to(got.dtype)
    if not got.dtype.is_floating_point:
        return float((got != want).sum())
    one, two = got.double(), want.double()
    finite = torch.isfinite(one) & torch.isfinite(two)
    same = finite | (one == two) | (torch.isnan(one) & torch.isnan(two))
    if not bool(same.all()):
        return NO_SIZE
    if not bool(finite.any()):
        return 0.0
    apart = float((one - two)[finite].abs().max())
    scale = float(two[finite].abs().max())
    return apart if apart > TOLERANCES.get(got.dtype, 0.0) * scale else 0.0


def replay(case: dict[str, Any]) -> tuple[int, list[str]]:
    """Runs a captured kernel. Returns 1 if an output differs, else 0, and one line for each output."""
    spec = KernelSpec.from_json(case["spec"])
    device = Device(**case["device"])
    if case["faults"]:
        os.environ.setdefault(faults.VARIABLE, case["faults"])
    got = _run(Simulator, spec, device, case["before"])
    want = {name: _value(spec, name, text) for name, text in case["want"].items()}
    want = want or _run(ReferenceBackEnd, spec, device, case["before"])
    code, lines = 0, []
    for name, value in want.items():
        apart = distance(got[name], value)
        code |= int(bool(apart))
        size = "NaN or infinity against a number" if apart == NO_SIZE else f"by {apart}"
        lines.append(f"{spec.name}: {name} {'differs, ' + size if apart else 'agrees'}")
    return code, lines


def _value(spec: KernelSpec, name: str, text: str) -> torch.Tensor:
    layout = spec.operand(name).layout
    return _unpacked(text).view(FORMATS[layout.format].torch_dtype).reshape(layout.size)


def _run(engine: Any, spec: KernelSpec, device: Device, before: dict[str, str]) -> dict[str, torch.Tensor]:
    """The outputs of a kernel on a new device with those bytes."""
    memory = Memory(device)
    if device.poison:
        ends = [o.address + o.layout.bytes for o in spec.operands if o.memory == "hbm"]
        memory.poison(0, max(ends, default=0))
    for name, text in before.items():
        data = _unpacked(text)
        memory.typed(spec.operand(name).address, torch.uint8, (len(data),), (1,)).copy_(data)
    engine(memory, device).run(spec)
    return {
        operand.name: memory.read(operand.layout, operand.address)
        for operand in spec.outputs
        if operand.memory == "hbm"
    }


def _packed(data: torch.Tensor) -> str:
    return base64.b64encode(zlib.compress(bytes(data.tolist()))).decode()


def _unpacked(text: str) -> torch.Tensor:
    data = bytearray(zlib.decompress(base64.b64decode(text)))
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
