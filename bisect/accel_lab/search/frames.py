"""Maps the frames of a failure inside torch to a stage; a hint to be checked, never a proof."""

from __future__ import annotations

import re
from collections.abc import Sequence

from accel_lab.core.outcome import Frame, Raised
from accel_lab.core.stages import Stage

#: The longest prefix wins. The files are those of torch 2.6 to 2.15.
_AREAS: tuple[tuple[str, Stage], ...] = (
    ("torch/_dynamo/", Stage.DYNAMO),
    ("torch/_functorch/partitioners", Stage.PARTITIONER),
    ("torch/_functorch/_activation_checkpointing/", Stage.PARTITIONER),
    ("torch/_functorch/", Stage.AOT_AUTOGRAD),
    ("torch/_meta_registrations", Stage.META_KERNEL),
    ("torch/_subclasses/fake_impls", Stage.META_KERNEL),
    ("torch/_decomp/", Stage.DECOMPOSITION),
    ("torch/_inductor/decomposition", Stage.DECOMPOSITION),
    ("torch/_inductor/fx_passes/", Stage.FX_PASSES),
    ("torch/_inductor/pattern_matcher", Stage.FX_PASSES),
    ("torch/_inductor/constant_folding", Stage.FX_PASSES),
    ("torch/_inductor/freezing", Stage.FX_PASSES),
    ("torch/_inductor/fx_utils", Stage.FX_PASSES),
    ("torch/_inductor/lowering", Stage.LOWERING),
    ("torch/_inductor/graph", Stage.LOWERING),
    ("torch/_inductor/ir", Stage.LOWERING),
    ("torch/_inductor/index_propagation", Stage.LOWERING),
    ("torch/_inductor/loop_body", Stage.LOWERING),
    ("torch/_inductor/kernel/", Stage.LOWERING),
    ("torch/_inductor/mkldnn_lowerings", Stage.LOWERING),
    ("torch/_inductor/quantized_lowerings", Stage.LOWERING),
    ("torch/_inductor/subgraph_lowering", Stage.LOWERING),
    ("torch/_inductor/scheduler", Stage.SCHEDULER),
    ("torch/_inductor/memory", Stage.SCHEDULER),
    ("torch/_inductor/dependencies", Stage.SCHEDULER),
    ("torch/_inductor/codegen/", Stage.CODEGEN),
    ("torch/_inductor/codecache", Stage.RUNTIME),
    ("torch/_inductor/async_compile", Stage.RUNTIME),
    ("torch/_inductor/cpp_builder", Stage.RUNTIME),
    ("torch/_inductor/runtime/", Stage.RUNTIME),
)

#: Files whose frames only pass an exception on.
_CARRIERS = frozenset(
    {"torch/_dynamo/eval_frame.py", "torch/_dynamo/exc.py", "torch/_dynamo/output_graph.py"}
)

#: The stages of the kernel rung.
KERNEL_STAGES = (Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.RUNTIME)


def stage_of_file(file: str) -> Stage | None:
    """Returns the stage that a torch file belongs to, or None."""
    best: tuple[int, Stage] | None = None
    for prefix, stage in _AREAS:
        if file.startswith(prefix) and (best is None or len(prefix) > best[0]):
            best = (len(prefix), stage)
    return best[1] if best else None


#: Files that a stage uses besides its own; a change there may be the cause.
_SHARED: dict[Stage, tuple[str, ...]] = {
    Stage.DYNAMO: ("torch/_guards", "torch/_subclasses/", "torch/fx/experimental/"),
    Stage.AOT_AUTOGRAD: ("torch/_subclasses/", "torch/_higher_order_ops/"),
    Stage.META_KERNEL: ("torch/_refs/", "torch/_prims_common/", "torch/_subclasses/"),
    Stage.DECOMPOSITION: ("torch/_refs/", "torch/_prims_common/"),
    Stage.FX_PASSES: ("torch/fx/passes/",),
    Stage.LOWERING: ("torch/utils/_sympy/",),
    Stage.CODEGEN: ("torch/utils/_sympy/",),
}


def areas_of(stage: Stage) -> tuple[str, ...]:
    """Returns the path prefixes of the files that a stage consists of or uses; may be empty."""
    if stage is Stage.KERNEL:
        stages: tuple[Stage, ...] = KERNEL_STAGES
    else:
        stages = (stage,)
    own = [prefix for prefix, owner in _AREAS if owner in stages]
    shared = [prefix for one in stages for prefix in _SHARED.get(one, ())]
    return tuple(dict.fromkeys([*own, *shared]))


#: The larger part of the compiler that contains a stage.
_AROUND: dict[Stage, tuple[str, ...]] = {
    Stage.AOT_AUTOGRAD: ("torch/_functorch/",),
    Stage.META_KERNEL: ("torch/_decomp/",),
    Stage.PARTITIONER: ("torch/_functorch/",),
    Stage.DECOMPOSITION: ("torch/_meta_registrations", "torch/_prims/", "torch/_subclasses/"),
    **dict.fromkeys((Stage.FX_PASSES, Stage.KERNEL, *KERNEL_STAGES), ("torch/_inductor/",)),
}


def around(stage: Stage) -> tuple[str, ...]:
    """Returns the path prefixes of files around a stage: where to look after its own files."""
    return _AROUND.get(stage, ())


def innermost(frames: Sequence[Frame], among: Sequence[Stage] | None = None) -> tuple[Stage, Frame] | None:
    """Returns the innermost frame that belongs to a stage (of ``among``), with that stage; or None.

    Frames that only pass an exception on, such as the wrapper around a compiled function, are skipped.
    """
    for frame in reversed(frames):
        if frame.file in _CARRIERS or frame.function.startswith("unimplemented"):
            continue
        stage = stage_of_file(frame.file)
        if stage is not None and (among is None or stage in among):
            return stage, frame
    return None


#: A module of Python's own library.
_LIBRARY = re.compile(r"<frozen |.*/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)")


def innermost_outside_library(raised: Raised) -> Frame | None:
    """Returns the innermost frame that is not in Python's own library, or None."""
    return next((frame for frame in reversed(raised.frames) if not _LIBRARY.match(frame.file)), None)


def raised_by_torch(raised: Raised) -> bool:
    """Whether torch's own Python code raised an exception, or called what raised it in Python's library."""
    frame = innermost_outside_library(raised)
    return frame is not None and frame.file.startswith("torch/")


def about_fusion(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost Inductor frame whose function deals with kernel fusion, or None."""
    for frame in reversed(frames):
        name = frame.function.lower()
        if frame.file.startswith("torch/_inductor/") and ("fus" in name or "outer_loop" in name):
            return frame
    return None


#: Messages of autograd's own checks (``torch/csrc/autograd``: saved_variable.cpp, VariableTypeUtils.h,
#: variable.cpp).
_AUTOGRADS = re.compile(
    r"needed for gradient computation has been modified by an inplace operation"
    r"|backward through the graph a second time"
    r"|leaf Variable that requires grad is being used in an in-place operation"
    r"|is a view and (?:is being|its base or another view of its base has been) modified in-?place"
    r"|does not require grad and does not have a grad_fn"
)


def is_autograds(raised: Raised | None) -> bool:
    """Whether autograd itself refused: a check on what is saved, written or differentiated."""
    return raised is not None and _AUTOGRADS.search(raised.message) is not None


def refused_on_fake_tensors(raised: Raised | None) -> str:
    """Returns the operator that raised while running on fake tensors; else empty.

    A C++ meta kernel has no frame, so the innermost frames are ``FakeTensorMode`` and the operator's call.
    """
    if raised is None or not raised.operator:
        return ""
    around = [frame.file for frame in raised.frames[-3:]]
    return raised.operator if "torch/_subclasses/fake_tensor.py" in around else ""
