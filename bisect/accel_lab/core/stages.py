"""The names of the ladder: rungs, stages, sides and levels, and which rung blames which stage."""

from __future__ import annotations

from enum import Enum


class Rung(str, Enum):
    """One way of running a script under ``torch.compile``; each adds one part of the compiler."""

    UNCOMPILED = "uncompiled"
    DYNAMO = "dynamo"
    AOT = "aot"
    META = "meta"
    PARTITION = "partition"
    DECOMP = "decomp"
    FX = "fx"
    LOOPS = "loops"
    SCHEDULED = "scheduled"
    KERNEL = "kernel"
    MOCK = "mock"
    ACCELERATOR = "accelerator"

    def __str__(self) -> str:
        return self.value


class Stage(str, Enum):
    """The part of the stack that a verdict blames (DESIGN section 10)."""

    EAGER = "eager"
    DYNAMO = "dynamo"
    AOT_AUTOGRAD = "aot_autograd"
    META_KERNEL = "meta_kernel"
    PARTITIONER = "partitioner"
    DECOMPOSITION = "decomposition"
    FX_PASSES = "fx_passes"
    KERNEL = "kernel"
    LOWERING = "lowering"
    SCHEDULER = "scheduler"
    CODEGEN = "codegen"
    RUNTIME = "runtime"
    MOCK_FRONT_END = "mock.front_end"
    MOCK_BACK_END = "mock.back_end"
    MOCK_TRANSFER = "mock.transfer"
    MOCK_RUNTIME = "mock.runtime"
    ACCELERATOR = "accelerator"
    ACCELERATOR_FRONT_END = "accelerator.front_end"
    ACCELERATOR_BACK_END = "accelerator.back_end"
    ACCELERATOR_TRANSFER = "accelerator.transfer"
    ENVIRONMENT = "environment"

    def __str__(self) -> str:
        return self.value


class Side(str, Enum):
    """Front end: everything up to the final FX graph. Back end: below it."""

    FRONT_END = "front_end"
    BACK_END = "back_end"
    EAGER = "eager"
    ENVIRONMENT = "environment"

    def __str__(self) -> str:
        return self.value


class Level(str, Enum):
    """What a fault is about: the script as Python, a captured graph, or a generated kernel."""

    SCRIPT = "script"
    GRAPH = "graph"
    KERNEL = "kernel"

    def __str__(self) -> str:
        return self.value


class Confidence(str, Enum):
    """``proven`` needs a pair of runs: culprit in fails, culprit out passes."""

    PROVEN = "proven"
    LIKELY = "likely"
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value


#: The steps of the ladder, lowest first. ``meta``, ``loops`` and ``scheduled`` are checks beside it;
#: ``mock`` and ``accelerator`` are other ways down, below AOTAutograd.
LADDER: tuple[Rung, ...] = (
    Rung.UNCOMPILED,
    Rung.DYNAMO,
    Rung.AOT,
    Rung.PARTITION,
    Rung.DECOMP,
    Rung.FX,
    Rung.KERNEL,
)

#: The ladder with the two inner steps of the kernel rung that are asked only when it is the kernel rung.
LONG_LADDER: tuple[Rung, ...] = (*LADDER[:-1], Rung.LOOPS, Rung.SCHEDULED, Rung.KERNEL)

#: The stage that a rung adds to the one below it.
BLAMES: dict[Rung, Stage] = {
    Rung.UNCOMPILED: Stage.EAGER,
    Rung.DYNAMO: Stage.DYNAMO,
    Rung.AOT: Stage.AOT_AUTOGRAD,
    Rung.META: Stage.META_KERNEL,
    Rung.PARTITION: Stage.PARTITIONER,
    Rung.DECOMP: Stage.DECOMPOSITION,
    Rung.FX: Stage.FX_PASSES,
    Rung.LOOPS: Stage.LOWERING,
    Rung.SCHEDULED: Stage.SCHEDULER,
    Rung.KERNEL: Stage.KERNEL,
    # The four combinations beside it say which of the accelerator's two ends it is.
    Rung.MOCK: Stage.MOCK_BACK_END,
    Rung.ACCELERATOR: Stage.ACCELERATOR,
}

_SIDES: dict[Stage, Side] = {
    Stage.EAGER: Side.EAGER,
    Stage.ENVIRONMENT: Side.ENVIRONMENT,
    Stage.KERNEL: Side.BACK_END,
    Stage.LOWERING: Side.BACK_END,
    Stage.SCHEDULER: Side.BACK_END,
    Stage.CODEGEN: Side.BACK_END,
    Stage.RUNTIME: Side.BACK_END,
    Stage.MOCK_BACK_END: Side.BACK_END,
    Stage.MOCK_TRANSFER: Side.BACK_END,
    Stage.MOCK_RUNTIME: Side.BACK_END,
    Stage.ACCELERATOR: Side.BACK_END,
    Stage.ACCELERATOR_BACK_END: Side.BACK_END,
    Stage.ACCELERATOR_TRANSFER: Side.BACK_END,
}

_LEVELS: dict[Stage, Level] = {
    Stage.EAGER: Level.SCRIPT,
    Stage.ENVIRONMENT: Level.SCRIPT,
    Stage.DYNAMO: Level.SCRIPT,
    Stage.KERNEL: Level.KERNEL,
    Stage.LOWERING: Level.KERNEL,
    Stage.SCHEDULER: Level.KERNEL,
    Stage.CODEGEN: Level.KERNEL,
    Stage.RUNTIME: Level.KERNEL,
    Stage.MOCK_BACK_END: Level.KERNEL,
    Stage.MOCK_TRANSFER: Level.KERNEL,
    Stage.MOCK_RUNTIME: Level.KERNEL,
    Stage.ACCELERATOR_BACK_END: Level.KERNEL,
    Stage.ACCELERATOR_TRANSFER: Level.KERNEL,
}


def side_of(stage: Stage) -> Side:
    """The side of the stack that a stage lies on."""
    return _SIDES.get(stage, Side.FRONT_END)


def level_of(stage: Stage) -> Level:
    """The level that a stage works at."""
    return _LEVELS.get(stage, Level.GRAPH)
