"""The names of the ladder: rungs, stages, sides and levels, and which rung blames which stage."""

from __future__ import annotations

from enum import Enum

from accel_lab.protocol.rungs import BY_BACKEND, Place, Rung


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


#: The steps of the ladder, lowest first; checks beside it and accelerators are left out.
LADDER: tuple[Rung, ...] = tuple(rung for rung in Rung if rung.record.place is Place.STEP)

#: The ladder with the inner steps of the kernel rung that are asked only when it is the kernel rung.
LONG_LADDER: tuple[Rung, ...] = tuple(
    rung for rung in Rung if rung.record.place in (Place.STEP, Place.WITHIN_KERNEL)
)

#: The rungs that are torch's own, those of the ladder first.
TORCH_RUNGS: tuple[Rung, ...] = (
    *LADDER,
    *(rung for rung in Rung if rung not in LADDER and rung.record.place is not Place.ACCELERATOR),
)

#: The stage that a rung adds to the one below it.
BLAMES: dict[Rung, Stage] = {rung: Stage(rung.record.stage) for rung in Rung}

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


__all__ = [
    "BLAMES",
    "BY_BACKEND",
    "LADDER",
    "LONG_LADDER",
    "TORCH_RUNGS",
    "Confidence",
    "Level",
    "Rung",
    "Side",
    "Stage",
    "level_of",
    "side_of",
]
