"""Single switches: settings changed on top of a rung, each with the words that a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_lab.core.stages import Rung


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One row of the ablation table: ``settings`` are the probe's switches."""

    name: str
    label: str
    rung: Rung
    settings: tuple[tuple[str, Any], ...]


def _inductor(**values: Any) -> tuple[tuple[str, Any], ...]:
    return (("inductor", {k.replace("__", "."): v for k, v in values.items()}),)


#: What can be switched off in Inductor's kernel stage, most telling first.
KERNEL_SWITCHES: tuple[Switch, ...] = (
    Switch(
        name="fallback",
        label="every operator calls its eager kernel",
        rung=Rung.KERNEL,
        settings=(("off", {"lowerings": "all"}),),
    ),
    Switch(
        name="fusion",
        label="no fusion",
        rung=Rung.KERNEL,
        settings=_inductor(max_fusion_size=1, epilogue_fusion=False),
    ),
    Switch(
        name="epilogue_fusion",
        label="no fusion into a kernel's epilogue",
        rung=Rung.KERNEL,
        settings=_inductor(epilogue_fusion=False),
    ),
    Switch(
        name="vectorisation",
        label="no vector instructions",
        rung=Rung.KERNEL,
        settings=_inductor(cpp__simdlen=1),
    ),
    Switch(
        name="inplace_buffers",
        label="no in-place buffers",
        rung=Rung.KERNEL,
        settings=_inductor(inplace_buffers=False),
    ),
    Switch(
        name="strict_math",
        label="C++ compiled without relaxed floating-point rules",
        rung=Rung.KERNEL,
        settings=(("strict_math", True),),
    ),
    Switch(
        name="buffer_reuse",
        label="no reuse of buffers",
        rung=Rung.KERNEL,
        settings=_inductor(allow_buffer_reuse=False),
    ),
    Switch(
        name="post_grad_passes",
        label="no post-grad passes",
        rung=Rung.KERNEL,
        settings=_inductor(use_post_grad_passes=False),
    ),
    Switch(
        name="pattern_matcher",
        label="no pattern matcher",
        rung=Rung.KERNEL,
        settings=_inductor(pattern_matcher=False),
    ),
    Switch(
        name="loop_tail_vec",
        label="scalar loop tails",
        rung=Rung.KERNEL,
        settings=_inductor(cpp__enable_loop_tail_vec=False),
    ),
    Switch(
        name="horizontal_fusion",
        label="no horizontal fusion",
        rung=Rung.KERNEL,
        settings=_inductor(cpp__max_horizontal_fusion_size=1),
    ),
    Switch(
        name="loop_ordering",
        label="no loop reordering after fusion",
        rung=Rung.KERNEL,
        settings=_inductor(loop_ordering_after_fusion=False),
    ),
    Switch(
        name="split_reductions",
        label="no split reductions",
        rung=Rung.KERNEL,
        settings=_inductor(split_reductions=False),
    ),
    Switch(
        name="layout",
        label="no layout changes",
        rung=Rung.KERNEL,
        settings=_inductor(layout_optimization=False),
    ),
    Switch(
        name="padding",
        label="no padding of strides",
        rung=Rung.KERNEL,
        settings=_inductor(comprehensive_padding=False),
    ),
    Switch(
        name="memory_planning",
        label="no memory planning",
        rung=Rung.KERNEL,
        settings=_inductor(memory_planning=False),
    ),
    Switch(
        name="memory_order",
        label="no reordering of kernels for peak memory",
        rung=Rung.KERNEL,
        settings=_inductor(reorder_for_peak_memory=False),
    ),
    Switch(
        name="freezing",
        label="no freezing",
        rung=Rung.KERNEL,
        settings=_inductor(freezing=False),
    ),
    Switch(
        name="threads",
        label="kernels written for one thread",
        rung=Rung.KERNEL,
        settings=_inductor(cpp__threads=1),
    ),
    Switch(
        name="precision_casts",
        label="casts as eager makes them",
        rung=Rung.KERNEL,
        settings=_inductor(emulate_precision_casts=True),
    ),
)

#: Enough to tell fusion, vectorisation and memory apart; the rest is asked with ``--ablation full``.
SHORT_TABLE = ("fallback", "fusion", "vectorisation", "inplace_buffers", "buffer_reuse", "strict_math")

#: What can be switched off among the FX passes; asked at the ``fx`` rung, where no kernel is built.
PASS_SWITCHES: tuple[Switch, ...] = (
    Switch(
        name="pre_grad_passes",
        label="no pre-grad passes",
        rung=Rung.FX,
        settings=_inductor(use_pre_grad_passes=False),
    ),
    Switch(
        name="joint_graph_passes",
        label="no joint-graph passes",
        rung=Rung.FX,
        settings=_inductor(use_joint_graph_passes=False),
    ),
    Switch(
        name="post_grad_passes",
        label="no post-grad passes",
        rung=Rung.FX,
        settings=_inductor(use_post_grad_passes=False),
    ),
    Switch(
        name="pattern_matcher",
        label="no pattern matcher",
        rung=Rung.FX,
        settings=_inductor(pattern_matcher=False),
    ),
)


def kernel_switches(full: bool) -> tuple[Switch, ...]:
    """The switches to ask of the kernel rung."""
    return KERNEL_SWITCHES if full else tuple(s for s in KERNEL_SWITCHES if s.name in SHORT_TABLE)
