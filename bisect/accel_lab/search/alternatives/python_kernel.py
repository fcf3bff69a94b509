"""Alternative: a Python kernel that torch's Python dispatcher applies while AOTAutograd traces.

An operator may have a Python kernel for autograd's dispatch key or a composite one. AOTAutograd then traces
that kernel as a decomposition instead of the native one, so its fault first shows at AOTAutograd's rung. It
is blamed if removing only that kernel fixes the failure and if it differs from the native kernel on the
script's own inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit, Exhibit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .case import NOTHING, Alternative, Case, Moment, Ruling

NAME = "python_kernel"
#: Kernels are removed one by one up to this number; a graph that uses more is halved first.
SINGLES = 8
#: A composite operator's native kernel calls other operators, whose Python kernels are removed as well, so
#: many levels deep (upsample_bilinear2d.vec of uint8 calls upsample_bilinear2d.default, which has one too).
LEVELS = 3


def ask(case: Case) -> Ruling:
    """Tests whether removing a Python kernel that differs from the native one fixes the failure."""
    runner, start = case.runner, case.start
    listed = runner.one(start, (("python_kernels", "list"),), "Python kernels")
    if listed.verdict is not Verdict.BAD:
        return NOTHING
    used = [str(row["op"]) for row in kernels_of(listed)]
    if not used:
        why = Evidence.of(EvidenceKind.NO_PYTHON_KERNEL)
        return Ruling(considered=Considered(name=NAME, open=False, why=why))
    fixes = _fixes(case, used)
    if not fixes:
        why = Evidence.of(EvidenceKind.FAILS_WITH_NATIVE_KERNELS, operators=used)
        return Ruling(considered=Considered(name=NAME, open=False, why=why))
    compared = runner.one(Rung.DYNAMO, (("python_kernels", "compare"),), "Python kernels")
    rows = {str(row["op"]): row for row in kernels_of(compared)}
    different = [op for op in fixes if rows.get(op, {}).get("different")]
    if not different:
        why = Evidence.of(EvidenceKind.NATIVE_KERNEL_FIXES, operators=list(fixes))
        return Ruling(considered=Considered(name=NAME, open=True, why=why), warnings=(why,))
    op = different[0]
    return _blamed(case, op, fixes[op], rows[op], comparisons=len(used), alone=len(different) == 1)


def _fixes(case: Case, used: Sequence[str]) -> dict[str, Step]:
    """Returns the operators whose native kernel alone fixes the failure, each with its passing run."""
    runner, start = case.runner, case.start
    everything = _with_those_below(case, runner.one(start, _native(used), "Python kernels"), used)
    if everything.verdict is not Verdict.GOOD:
        # If one operator cannot be traced natively, each is tested alone.
        if everything.verdict is Verdict.BAD or len(used) > SINGLES:
            return {}
    elif len(used) == 1:
        return {used[0]: everything}
    candidates = list(used)
    while len(candidates) > SINGLES:
        half = candidates[: len(candidates) // 2]
        step = runner.one(start, _native(half), "Python kernels")
        passes = _with_those_below(case, step, used).verdict is Verdict.GOOD
        candidates = half if passes else candidates[len(half) :]
    steps = runner.ask([(start, _native([op])) for op in candidates], "Python kernels")
    deep = [_with_those_below(case, step, used) for step in steps]
    return {op: s for op, s in zip(candidates, deep, strict=True) if s.verdict is Verdict.GOOD}


def _native(ops: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    return (("native_kernels", sorted(ops)), ("python_kernels", "list"))


def _with_those_below(case: Case, step: Step, used: Sequence[str]) -> Step:
    """Goes on from a failing run with native kernels: without the Python kernels that only those call."""
    for _ in range(LEVELS - 1):
        removed = _removed(step)
        under = [op for row in kernels_of(step) if (op := str(row["op"])) not in {*removed, *used}]
        if step.verdict is not Verdict.BAD or not under:
            break
        step = case.runner.one(case.start, _native([*removed, *under]), "Python kernels")
    return step


def _removed(step: Step) -> list[str]:
    """Returns the operators whose Python kernels a run was made without."""
    return list(dict(step.settings)["native_kernels"])


def _blamed(
    case: Case, op: str, passing_run: Step, row: Mapping[str, Any], *, comparisons: int, alone: bool
) -> Ruling:
    differences = [(d["what"], d["native"], d["python"]) for d in row["different"]]
    what, native, python = differences[0]
    difference = f"{what}: native {native}, Python {python}"
    part = Component(kind="decomposition", name=op, detail=shorten(f"{row['kernel']}; {difference}", 300))
    culprit = Culprit(
        stage=Stage.DECOMPOSITION,
        confidence=Confidence.LIKELY,
        component=part,
        evidence=(
            Evidence.of(
                EvidenceKind.PYTHON_KERNEL_TRACED,
                at=case.start,
                kernel=str(row["kernel"]),
                operator=op,
                under=[name for name in _removed(passing_run) if name != op],
            ),
            Evidence.of(
                EvidenceKind.PYTHON_KERNEL_DIFFERS, what=str(what), native=str(native), python=str(python)
            ),
        ),
        exhibits=(
            Exhibit(
                kind="python_kernel",
                title=f"{op}: the native kernel and the Python one on the same inputs",
                rows=(("what", "native kernel", "Python kernel"), *differences),
            ),
        ),
    )
    return Ruling(culprit=culprit, passing_run=passing_run, isolates=alone, comparisons=comparisons)


def kernels_of(step: Step) -> list[dict[str, Any]]:
    """Returns what the child recorded about the Python kernels that were called."""
    return (step.outcome.facts.get("python_kernels") or {}).get("kernels") or []


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#195422",  # dropout's Python kernel copies its input where the native one returns it
    stages=frozenset({Stage.AOT_AUTOGRAD}),
    moment=Moment.STAGE,
    applies=lambda case: (
        case.start is Rung.AOT and case.at.verdict is Verdict.BAD and not case.runner.baseline.flaky
    ),
    ask=ask,
)
