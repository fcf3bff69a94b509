"""Defines the rungs of the ladder, one record each; every other table of rungs is derived from these.

A new rung needs a member here, a builder in ``child/rungs/`` and a test. Members are listed lowest rung
first; reports show them in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Dict


class Place(str, Enum):
    """Position of a rung: a step of the ladder, a part of the step ``kernel``, a check, or an accelerator."""

    STEP = "step"
    WITHIN_KERNEL = "within_kernel"
    CHECK = "check"
    ACCELERATOR = "accelerator"


@dataclass(frozen=True)
class RungRecord:
    """Properties of one rung.

    ``stage``: the stage at fault if this is the first rung that fails (a value of ``core.stages.Stage``).
    ``runs``, ``adds``: phrases for what runs on the rung and what it adds to the rung below.
    ``torch_backend``: the backend of torch that runs the same part of the compiler; if there is none, issues
    print ``issue`` instead. ``passes_with``: the phrase in a repro's header for the rung that passes.
    ``builder``: its module in ``child/rungs``; empty if nothing is compiled.
    ``own_backends``: the rung replaces every backend of a script, also one that the lab does not know.
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
    """One way to run a script's ``torch.compile`` regions; each step adds one part of the compiler."""

    record: RungRecord

    if TYPE_CHECKING:
        # Type checkers do not see that ``__new__`` sets ``_value_`` to a string.
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
        # Default blame. The search replaces the mock's front end or back end to tell them apart.
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


#: Maps each of torch's backends to the rung that runs the same part of the compiler.
BY_BACKEND: Dict[str, Rung] = {rung.record.torch_backend: rung for rung in Rung if rung.record.torch_backend}
