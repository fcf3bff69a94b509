"""Faults at a known place: the mock accelerator's own, and patches of torch's compiler (inductor_faults/).

A fault is off unless it is asked for by name. The mock's is switched on by MOCK_FAULTS; one of the compiler's
is the text of its patch on top of the script, so whoever reads the report sees it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = HERE / "fault_scripts"
PATCHES = HERE / "inductor_faults"
sys.path.insert(0, str(ROOT / "bisect"))

from accel_lab.mock.faults import CATALOGUE, VARIABLE  # noqa: E402 - the path is set above


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault. ``want`` is the stage that must be named, ``part`` a word of the component, if it is known.

    ``patch`` is the code that puts it into the compiler; the mock's faults have none.
    """

    name: str
    want: str
    part: str = ""
    patch: Path | None = None

    @property
    def on_mock(self) -> bool:
        return self.patch is None

    @property
    def environment(self) -> dict[str, str]:
        """What switches it on."""
        return {VARIABLE: self.name} if self.on_mock else {}

    @property
    def scripts(self) -> list[Path]:
        """The scripts that show it."""
        return sorted(SCRIPTS.glob(f"{self.name}__*.py"))

    def program(self, script: Path, folder: Path) -> Path:
        """What to bisect: the script, with the patch on top where there is one."""
        if self.patch is None:
            return script
        program = folder / script.name
        texts = [path.read_text(encoding="utf-8") for path in (self.patch, script)]
        program.write_text("\n\n".join(texts), encoding="utf-8")
        return program


#: The patches of the compiler: what each must be found at, and a word of the component.
_COMPILER = {
    "dynamo_swaps_operands": ("dynamo", ""),
    "dynamo_polyfill_wrong": ("dynamo", "crc32"),
    "aot_functionalization_wrong": ("aot_autograd", "tan"),
    "partitioner_drops_sign": ("partitioner", ""),
    "decomposition_silu_wrong": ("decomposition", "silu"),
    "decomposition_leaky_relu_raises": ("decomposition", "leaky_relu"),
    "fx_pass_drops_abs": ("fx_passes", "remove_noop_ops"),
    "fx_pass_breaks_graph": ("fx_passes", "joint_custom_post_pass"),
    "fx_pattern_wrong": ("fx_passes", "softplus_is_x"),
    "lowering_floor_wrong": ("lowering", "floor"),
    "lowering_prod_wrong": ("lowering", "prod"),
    "scheduler_reversed": ("scheduler", ""),
    "codegen_expm1_wrong": ("codegen", "expm1"),
}

FAULTS: dict[str, Fault] = {
    **{info.name: Fault(name=info.name, want=f"mock.{info.side}") for info in CATALOGUE.values()},
    **{
        name: Fault(name=name, want=want, part=part, patch=PATCHES / f"{name}.py")
        for name, (want, part) in _COMPILER.items()
    },
}
