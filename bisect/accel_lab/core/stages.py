"""Rungs, stages, sides and levels, and the stage that each rung blames."""

from __future__ import annotations

from enum import Enum

from accel_lab.protocol.rungs import BY_BACKEND, Place, Rung


class Stage(str, Enum):
    """The part of the compiler that a verdict blames (DESIGN section 10)."""

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
    """The representation that a fault is in: the Python script, a captured graph, or a generated kernel."""

    SCRIPT = "script"
    GRAPH = "graph"
    KERNEL = "kernel"

    def __str__(self) -> str:
        return self.value


class Confidence(str, Enum):
    """How sure a verdict is; ``proven`` needs runs that fail with the culprit and pass without it."""

    PROVEN = "proven"
    LIKELY = "likely"
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value


#: The rungs of the ladder, lowest first, without separate checks and accelerators.
LADDER: tuple[Rung, ...] = tuple(rung for rung in Rung if rung.record.place is Place.STEP)

#: The ladder with the inner rungs of the kernel stage, which are run only if the kernel rung fails first.
LONG_LADDER: tuple[Rung, ...] = tuple(
    rung for rung in Rung if rung.record.place in (Place.STEP, Place.WITHIN_KERNEL)
)

#: All rungs of torch itself, those of the ladder first.
TORCH_RUNGS: tuple[Rung, ...] = (
    *LADDER,
    *(rung for rung in Rung if rung not in LADDER and rung.record.place is not Place.ACCELERATOR),
)

#: The stage that each rung adds to the rung below it.
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
    """Returns the side of the stack that a stage belongs to."""
    return _SIDES.get(stage, Side.FRONT_END)


def level_of(stage: Stage) -> Level:
    """Returns the level that a stage works at."""
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
