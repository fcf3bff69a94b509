"""The rungs of the ladder: one record a rung, from which every other table of rungs is made.

A new rung is a member here, a builder in ``child/rungs/`` and its test. The members' order is the order of
the table that a reader sees, lowest rung first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict


class Place(str, Enum):
    """Where a rung stands: on the ladder, within its last step, off it, or on another accelerator."""

    STEP = "step"
    WITHIN_KERNEL = "within_kernel"
    CHECK = "check"
    ACCELERATOR = "accelerator"


@dataclass(frozen=True)
class RungRecord:
    """All that is known of one rung.

    ``stage`` is what a failure that starts here blames (a value of ``core.stages.Stage``). ``runs`` and
    ``adds`` say in half a sentence what runs and what it adds to the rung below. ``torch_backend`` is the
    backend of torch that stops at the same place; where there is none, ``issue`` stands in its place in an
    issue's table. ``passes_with`` is how a repro's header calls the rung that passes. ``builder`` is the
    module of ``child/rungs`` that builds it; empty where nothing is compiled. ``own_backends``: it takes the
    place of any backend that a script brings, also of one that the lab knows nothing of.
    """

    name: str
    stage: str
    place: Place
    runs: str
    adds: str
    passes_with: str
    torch_backend: str = ""
    issue: str = ""
    builder: str = ""
    own_backends: bool = False


class Rung(str, Enum):
    """One way of running a script under ``torch.compile``; each adds one part of the compiler."""

    record: RungRecord

    if TYPE_CHECKING:
        # A type checker cannot see what ``__new__`` makes of a member's value.
        @property
        def value(self) -> str: ...

    def __new__(cls, record: Any) -> Rung:
        member = str.__new__(cls, record.name)
        member._value_ = record.name
        member.record = record
        return member

    def __str__(self) -> str:
        return self.value

    UNCOMPILED = RungRecord(
        name="uncompiled",
        stage="eager",
        place=Place.STEP,
        runs="the script without torch.compile",
        adds="the script itself",
        passes_with="torch.compile left out",
        own_backends=True,
    )
    DYNAMO = RungRecord(
        name="dynamo",
        stage="dynamo",
        place=Place.STEP,
        runs="graph captured by Dynamo, run as captured",
        adds="Dynamo's capture and guards",
        passes_with="backend='eager'",
        torch_backend="eager",
        builder="dynamo",
        own_backends=True,
    )
    AOT = RungRecord(
        name="aot",
        stage="aot_autograd",
        place=Place.STEP,
        runs="AOTAutograd, default partition, no decompositions",
        adds="AOTAutograd (functionalization and the joint graph)",
        passes_with="AOTAutograd alone (no min-cut partitioner, no decompositions)",
        issue="AOTAutograd, default partitioner (no backend of torch's)",
        builder="aot",
        own_backends=True,
    )
    META = RungRecord(
        name="meta",
        stage="meta_kernel",
        place=Place.CHECK,
        runs="each operator checked against its meta kernel",
        adds="a check of every meta kernel",
        passes_with="AOTAutograd alone",
        issue="aot_eager with every operator checked against its meta kernel",
        builder="meta",
    )
    PARTITION = RungRecord(
        name="partition",
        stage="partitioner",
        place=Place.STEP,
        runs="the min-cut partitioner",
        adds="the min-cut partitioner",
        passes_with="backend='aot_eager'",
        torch_backend="aot_eager",
        builder="partition",
    )
    DECOMP = RungRecord(
        name="decomp",
        stage="decomposition",
        place=Place.STEP,
        runs="Inductor's decompositions",
        adds="Inductor's decomposition table",
        passes_with="backend='aot_eager_decomp_partition'",
        torch_backend="aot_eager_decomp_partition",
        builder="decomp",
    )
    FX = RungRecord(
        name="fx",
        stage="fx_passes",
        place=Place.STEP,
        runs="all FX passes of Inductor, final graph run in eager mode",
        adds="Inductor's FX passes",
        passes_with="Inductor's final FX graph run by an interpreter",
        issue="inductor up to its last FX graph, run in eager mode",
        builder="fx",
    )
    LOOPS = RungRecord(
        name="loops",
        stage="lowering",
        place=Place.WITHIN_KERNEL,
        runs="the lowered loops, run by an interpreter",
        adds="Inductor's lowering to loop IR",
        passes_with="Inductor's loop IR, before scheduling, run by an interpreter",
        issue="inductor up to its loop IR, interpreted",
        builder="loops",
    )
    SCHEDULED = RungRecord(
        name="scheduled",
        stage="scheduler",
        place=Place.WITHIN_KERNEL,
        runs="the scheduled and fused loops, run by an interpreter",
        adds="Inductor's scheduler",
        passes_with="Inductor's loop IR, as scheduled, run by an interpreter",
        issue="inductor up to its scheduled loops, interpreted",
        builder="scheduled",
    )
    KERNEL = RungRecord(
        name="kernel",
        stage="kernel",
        place=Place.STEP,
        runs="lowering, scheduling, generated kernels",
        adds="lowering, scheduling, code generation and the kernels",
        passes_with="Inductor",
        torch_backend="inductor",
        builder="kernel",
    )
    MOCK = RungRecord(
        name="mock",
        # The four combinations beside it say which of the accelerator's two ends it is.
        stage="mock.back_end",
        place=Place.ACCELERATOR,
        runs="every region on the mock accelerator",
        adds="the mock accelerator",
        passes_with="the mock accelerator",
        issue="the mock accelerator",
        builder="mock",
        own_backends=True,
    )
    ACCELERATOR = RungRecord(
        name="accelerator",
        stage="accelerator",
        place=Place.ACCELERATOR,
        runs="every region on the accelerator",
        adds="the accelerator",
        passes_with="the accelerator",
        issue="the accelerator",
        builder="adapter",
        own_backends=True,
    )


#: How far down the ladder the backends of torch go by themselves.
BY_BACKEND: Dict[str, Rung] = {rung.record.torch_backend: rung for rung in Rung if rung.record.torch_backend}
