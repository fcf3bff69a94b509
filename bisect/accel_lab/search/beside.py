"""What lies beside the ladder and makes the first failing rung misname the stage.

Some faults show later than where they are: a wrong meta kernel (only a later stage trusts what it says,
or runs it), a missed guard (only a stage that specialises on the stale graph goes wrong), and a mode of
torch's that the captured graph leaves in another state (only a stage that runs the graph more than once
meets it). The first two are blamed where correcting just them cures the failure; what cannot be corrected
here is never more than likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from . import frames, front_guards
from .climb import Climber, tally_of
from .flaky import doubt, passes_needed
from .front_dynamo import lost_state
from .ladder import Reading
from .named import Named


@dataclass(kw_only=True)
class Beside:
    """The ladder with the checks' rows added, and a culprit if one of them is it.

    ``stale`` says that a graph was used again where a fresh one passes, and that no value tells why: whether
    Dynamo should have made another or the stage below it made one that does not last is open.
    """

    ladder: list[Step]
    culprit: Culprit | None = None
    doubt: float = 1.0
    stale: bool = False
    warnings: list[str] = field(default_factory=list)


def look(climber: Climber, ladder: Sequence[Step], reading: Reading, start: Rung) -> Beside:
    """Check meta kernels always, guards and modes where the graph that was captured could be the cause."""
    result = Beside(ladder=list(ladder))
    if start is Rung.UNCOMPILED:
        return result
    _meta(climber, result, start)
    if result.culprit is None and start is Rung.AOT:
        for check in (_guards, _modes, _refused):
            if result.culprit is None:
                check(climber, result, start)
    return result


def _meta(climber: Climber, result: Beside, start: Rung) -> None:
    """Ask the meta rung; correct what it finds wrong and ask the failing rung again."""
    # Below AOTAutograd there is no graph to check, so the operators are checked as the script calls them.
    if start is Rung.DYNAMO:
        if not _fake_tensors_involved(result.ladder):
            return
        check = climber.one(Rung.UNCOMPILED, (("meta_eager", True),), "meta check")
    else:
        check = climber.one(Rung.META, (), "meta check")
        place = next(n for n, s in enumerate(result.ladder) if s.rung is Rung.AOT)
        result.ladder.insert(place + 1, check)
    mismatches = [m for m in check.outcome.facts.get("meta_mismatches") or [] if _counts(m, start)]
    if not mismatches:
        return
    ops = sorted({str(m["op"]) for m in mismatches})
    told = "; ".join(f"{m['op']}: {m['what']} really {m['real']}, meta {m['fake']}" for m in mismatches[:3])
    cured = climber.one(start, (("meta_fix", ops),), "meta check")
    if cured.verdict is not Verdict.GOOD:
        result.warnings.append(f"meta kernels disagree with the real ones, without being the cause: {told}")
        return
    failing = tally_of(s for s in result.ladder if s.verdict is Verdict.BAD)
    runs = passes_needed(failing, climber.budget)
    cured = climber.repeat(cured, max(0, runs - cured.runs), "proof", until_bad=True)
    # A check that is missing in the meta kernel could as well be made by the part that drops the call.
    sure = cured.verdict is Verdict.GOOD and not any("accepts" in m["what"] for m in mismatches)
    result.doubt = doubt(failing, cured.runs) if sure else 1.0
    result.culprit = Culprit(
        stage=Stage.META_KERNEL,
        confidence=Confidence.PROVEN if sure and result.doubt <= climber.budget else Confidence.LIKELY,
        component=Component(kind="op", name=ops[0], detail=shorten(told, 300)),
        evidence=(
            f"the meta kernel promises something else than the real one returns: {told}",
            f"with the meta kernel of {', '.join(ops)} corrected and nothing else changed, {start} passes "
            f"{cured.runs} of {cured.runs} runs",
        ),
    )


def unchecked(ladder: Sequence[Step], component: Component | None) -> str:
    """What to say of an operator that eager does not have for these inputs, and that its meta kernel takes.

    Where the operator was lowered, the lowering has lost the refusal; but a meta kernel could have made it.
    """
    check = next((step for step in ladder if step.rung is Rung.META), None)
    if check is None or component is None:
        return ""
    for mismatch in check.outcome.facts.get("meta_mismatches") or []:
        refused = mismatch["real"].startswith("NotImplementedError") and "accepts" in mismatch["what"]
        if refused and str(mismatch["op"]) == component.name:
            return (
                f"the real kernel of {component.name} refuses these inputs and its meta kernel takes them: "
                "the check could be missing there as well"
            )
    return ""


def misread_layout(climber: Climber, stage: Stage, at: Step) -> str:
    """What to say where the graph is right once every operator gets its tensors laid out row by row.

    Up to the FX passes a graph is run by eager's kernels. A part that only chose other strides than eager
    would is then not what goes wrong: a kernel that misreads them may be.
    """
    graphs = stage in (Stage.DECOMPOSITION, Stage.FX_PASSES)
    if not graphs or at.verdict is not Verdict.BAD or climber.baseline.flaky:
        return ""
    dense = climber.one(at.rung, (("contiguous", True),), "layout check")
    if dense.verdict is not Verdict.GOOD:
        return ""
    return (
        f"at {at.rung} it passes when every operator gets contiguous copies of its tensors: that an eager "
        "kernel misreads legal strides could be the fault as well"
    )


def _counts(mismatch: dict[str, str], start: Rung) -> bool:
    """Whether a mismatch could be the cause of a failure that starts at ``start``.

    A meta kernel that accepts what the real one refuses does no harm while the real one is still
    called; where a decomposition or a pass has replaced that call, it is they that lost the check.
    Nor can it know what depends on values (an index) or on a device's kernels ("not implemented for
    'Bool'"): those checks belong to whoever replaces the kernel.
    """
    if "accepts" not in mismatch["what"] or start is Rung.DYNAMO:
        return True
    if start in (Rung.DECOMP, Rung.FX):
        return False
    return not mismatch["real"].startswith(("NotImplementedError", "IndexError"))


def _fake_tensors_involved(ladder: Sequence[Step]) -> bool:
    at = next((s for s in ladder if s.rung is Rung.DYNAMO), None)
    if at is None or at.outcome.raised is None:
        return True
    raised = at.outcome.raised
    hint = frames.innermost(raised.frames)
    return hint is not None or "faketensor" in raised.message.lower().replace(" ", "")


def _guards(climber: Climber, result: Beside, start: Rung) -> None:
    """Does compiling every call afresh cure it, and does a fresh capture see another graph?"""
    fresh = climber.one(start, (("fresh", True),), "guard check")
    if fresh.verdict is not Verdict.GOOD:
        return
    graphs = fresh.outcome.facts.get("graph_texts") or []
    named = front_guards.look(climber, start) or Named()
    proven = named.component is not None and named.component.confidence is Confidence.PROVEN
    if len(set(graphs)) < 2 and not proven:
        result.stale = True
        result.warnings.append(
            "it passes when every call is compiled afresh, though each call captures the same graph: "
            "a guard may be missing, or what was compiled does not last"
        )
        return
    result.culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=named.component
        or Component(kind="guard", name="reused graph", detail="a later call needs another graph"),
        evidence=(
            f"at {start} it passes when every call is compiled afresh"
            + (", and then the calls capture different graphs" if len(set(graphs)) > 1 else "")
            + ": a graph was used again that does not fit (a missed guard or a wrong generalisation)",
            *named.evidence,
        ),
        exhibits=tuple(named.exhibits),
    )


def _modes(climber: Climber, result: Beside, start: Rung) -> None:
    """Does what Dynamo captured leave torch's own modes as the script leaves them?"""
    if climber.baseline.flaky:
        return
    look = (("front", {"look": True}),)
    captured, plain = climber.ask([(Rung.DYNAMO, look), (Rung.UNCOMPILED, look)], "guard check")
    rows = [row for row in lost_state(captured, plain) if row[1].startswith("torch.")]
    if not rows:
        return
    call, mode, want, got = rows[0]
    result.culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=Component(
            kind="side_effect",
            name=mode,
            detail=shorten(
                f"after call {call}: {want} uncompiled, {got} with the captured graph run as it is", 300
            ),
        ),
        evidence=(
            f"the graph that Dynamo captured leaves {mode} as {got}, the script as {want}; run once, as at "
            f"{Rung.DYNAMO}, that does no harm to this script, and {start} runs the graph more than once",
        ),
    )


def _refused(climber: Climber, result: Beside, start: Rung) -> None:
    """Is it an operator that raises, run on fake tensors, where the real one does what the script wants?"""
    at = next(step for step in result.ladder if step.rung is start)
    op = frames.refused_on_fake_tensors(at.outcome.raised)
    if op:
        result.culprit = Culprit(
            stage=Stage.META_KERNEL,
            confidence=Confidence.LIKELY,
            component=Component(kind="op", name=op, detail="raises when it is traced on fake tensors"),
            evidence=(
                f"{start} runs {op} on fake tensors, and there it raises; uncompiled the real kernel does "
                "not: its meta kernel, or what it takes sizes as, is likelier at fault than who calls it",
            ),
        )
