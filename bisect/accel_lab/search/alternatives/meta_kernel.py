"""Alternative: a wrong meta (fake) kernel, which shows at a later stage that relies on it."""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .case import Alternative, Case, Moment, Ruling

NAME = "meta_kernel"
#: Text of a mismatch where only the real kernel refuses the arguments.
_ACCEPTS = "meta kernel accepts"


def ask(case: Case) -> Ruling:
    """Runs the meta rung, corrects the meta kernels that it finds wrong, and reruns the failing rung."""
    runner, start = case.runner, case.start
    # For Dynamo there is no graph to check yet, so operators are checked as the script calls them.
    if start is Rung.DYNAMO:
        check = runner.one(Rung.UNCOMPILED, (("meta_eager", True),), "meta check")
        row = None
    else:
        check = row = runner.one(Rung.META, (), "meta check")
    if check.verdict is Verdict.SKIP:
        return Ruling(row=row)
    found = _mismatches(check, start)
    ruling = _corrected(case, found) if found else None
    if start in (Rung.DYNAMO, Rung.AOT) and (ruling is None or ruling.culprit is None):
        # These rungs can fail on fake results before there is a graph to check. A composite operator may also
        # call another kernel on fake tensors than on real ones.
        watched = _mismatches(runner.one(start, (("meta_watch", True),), "meta check"), start)
        others = [m for m in watched if m["op"] not in {known["op"] for known in found}]
        ruling = _corrected(case, others) if others else ruling
    if ruling is None:
        why = Evidence.of(EvidenceKind.META_KERNELS_AGREE)
        ruling = Ruling(considered=Considered(name=NAME, open=False, why=why))
    return replace(ruling, row=row)


def _mismatches(check: Step, start: Rung) -> list[dict[str, str]]:
    return [m for m in check.outcome.facts.get("meta_mismatches") or [] if counts(m, start)]


def _corrected(case: Case, mismatches: list[dict[str, str]]) -> Ruling:
    """Blames these meta kernels if the failing rung passes with only them corrected."""
    ops = sorted({str(m["op"]) for m in mismatches})
    promises = [f"{m['op']}: {m['what']} really {m['real']}, meta {m['fake']}" for m in mismatches[:3]]
    corrected = case.runner.one(case.start, (("meta_fix", ops),), "meta check")
    if corrected.verdict is not Verdict.GOOD:
        why = Evidence.of(EvidenceKind.META_KERNELS_NOT_THE_CAUSE, promises=promises)
        return Ruling(considered=Considered(name=NAME, open=False, why=why), warnings=(why,))
    # pytorch#141865: a check missing in the meta kernel may belong to the part that drops the call.
    sure = not any(_ACCEPTS in m["what"] for m in mismatches)
    culprit = Culprit(
        stage=Stage.META_KERNEL,
        confidence=Confidence.LIKELY,
        component=Component(kind="op", name=ops[0], detail=shorten("; ".join(promises), 300)),
        evidence=(
            Evidence.of(EvidenceKind.META_KERNEL_DIFFERS, promises=promises),
            Evidence.of(EvidenceKind.META_KERNEL_CORRECTED, operators=ops, at=case.start),
        ),
    )
    return Ruling(culprit=culprit, passing_run=corrected if sure else None, isolates=len(ops) == 1)


def counts(mismatch: dict[str, str], start: Rung) -> bool:
    """Whether a mismatch can cause a failure that starts at ``start``.

    A meta kernel that accepts what the real kernel refuses is harmless while the real one is still called. If
    a decomposition or a pass replaced that call, it lost the check. A meta kernel cannot check what depends
    on values (an index) or on a device's kernels ("not implemented for 'Bool'"); those checks belong to
    whatever replaces the kernel.
    """
    if _ACCEPTS not in mismatch["what"] or start is Rung.DYNAMO:
        return True
    if start in (Rung.DECOMP, Rung.FX):
        return False
    return not mismatch["real"].startswith(("NotImplementedError", "IndexError"))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#180771",  # slice_scatter's meta kernel promises other strides
    stages=frozenset(Stage) - {Stage.EAGER},
    moment=Moment.STAGE,
    ask=ask,
)


def lost_check(case: Case) -> Ruling:
    """Checks whether the real kernel of the operator at fault refuses inputs that its meta kernel accepts.

    The lowering lost the refusal, but a meta kernel could have made it.
    """
    check: Step | None = case.row(Rung.META)
    if check is None or case.component is None:
        return Ruling()
    for mismatch in check.outcome.facts.get("meta_mismatches") or []:
        refused = mismatch["real"].startswith("NotImplementedError") and _ACCEPTS in mismatch["what"]
        if refused and str(mismatch["op"]) == case.component.name:
            why = Evidence.of(EvidenceKind.META_KERNEL_LACKS_CHECK, operator=case.component.name)
            return Ruling(considered=Considered(name=LOST_CHECK.name, open=True, why=why))
    return Ruling()


LOST_CHECK = Alternative(
    name="lost_check",
    issue="pytorch#177630",  # bmm's own meta kernel has no check of its dtypes
    stages=frozenset({Stage.LOWERING}),
    moment=Moment.COMPONENT,
    ask=lost_check,
)
