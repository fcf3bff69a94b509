"""Single switches: settings changed on top of a rung, each with its label for users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_lab.core.torch_settings import KERNEL


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One row of the ablation table: ``settings`` are the probe's switches."""

    name: str
    label: str
    settings: tuple[tuple[str, Any], ...]


#: What can be switched off in Inductor's kernel stage, most informative first.
_LABELS = {
    "fallback": "every operator calls its eager kernel",
    "fusion": "no fusion",
    "epilogue_fusion": "no fusion into a kernel's epilogue",
    "vectorisation": "no vector instructions",
    "inplace_buffers": "no in-place buffers",
    "strict_math": "C++ compiled without relaxed floating-point rules",
    "buffer_reuse": "no reuse of buffers",
    "post_grad_passes": "no post-grad passes",
    "pattern_matcher": "no pattern matcher",
    "loop_tail_vec": "scalar loop tails",
    "horizontal_fusion": "no horizontal fusion",
    "loop_ordering": "no loop reordering after fusion",
    "split_reductions": "no split reductions",
    "layout": "no layout changes",
    "padding": "no padding of strides",
    "memory_planning": "no memory planning",
    "memory_order": "no reordering of kernels for peak memory",
    "freezing": "no freezing",
    "threads": "kernels written for one thread",
    "precision_casts": "casts as eager makes them",
}
#: Switches that are not torch settings.
_OTHERS: dict[str, tuple[tuple[str, Any], ...]] = {
    "fallback": (("off", {"lowerings": "all"}),),
    "strict_math": (("strict_math", True),),
}
KERNEL_SWITCHES: tuple[Switch, ...] = tuple(
    Switch(name=name, label=label, settings=_OTHERS.get(name) or (("inductor", KERNEL[name]),))
    for name, label in _LABELS.items()
)

#: Enough to separate fusion, vectorisation and memory; ``--ablation full`` runs the rest.
SHORT_TABLE = ("fallback", "fusion", "vectorisation", "inplace_buffers", "buffer_reuse", "strict_math")


def kernel_switches(full: bool) -> tuple[Switch, ...]:
    """Returns the switches to run on the kernel rung."""
    return KERNEL_SWITCHES if full else tuple(s for s in KERNEL_SWITCHES if s.name in SHORT_TABLE)
