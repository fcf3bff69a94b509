"""Cross-checks the culprit with torch's own CompilerBisector, if the build has it.

Only the one to three settings that bear on the answer are run; agreement or disagreement is reported. Source:
``torch/_inductor/compiler_bisector.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.findings import CrossCheck, CrossCheckAnswer, Culprit, Step
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict

from .ladder_runner import LadderRunner

#: (backend, subsystem, expected verdict) to run for each stage; the verdict that agrees with the culprit.
_QUESTIONS: dict[Stage, tuple[tuple[str, str | None, Verdict], ...]] = {
    Stage.DYNAMO: (("eager", None, Verdict.BAD),),
    Stage.AOT_AUTOGRAD: (("aot_eager", None, Verdict.BAD),),
    Stage.PARTITIONER: (("aot_eager", None, Verdict.BAD),),
    Stage.DECOMPOSITION: (("aot_eager_decomp_partition", "decomposition", Verdict.GOOD),),
    Stage.LOWERING: (("inductor", "lowerings", Verdict.GOOD),),
    Stage.SCHEDULER: (("inductor", "lowerings", Verdict.GOOD),),
    Stage.CODEGEN: (("inductor", "lowerings", Verdict.GOOD),),
    Stage.KERNEL: (("inductor", "lowerings", Verdict.GOOD),),
}
_NAME = "torch compiler bisector"
_PASS_GROUPS = ("post_grad_passes", "joint_graph_passes", "pre_grad_passes")


def ask(runner: LadderRunner, culprit: Culprit, ladder: Sequence[Step]) -> CrossCheck | None:
    """Returns CompilerBisector's opinion, or None if it has no matching question or the failure is flaky."""
    if culprit.stage is Stage.FX_PASSES:
        questions: tuple[tuple[str, str | None, Verdict], ...] = tuple(
            ("inductor", group, Verdict.GOOD) for group in _PASS_GROUPS if _blamed(culprit, group)
        )
    else:
        questions = _QUESTIONS.get(culprit.stage, ())
    if not questions or runner.baseline.flaky:
        return None
    asked, agrees = [], None
    for backend, subsystem, expected in questions:
        settings = (("bisector", {"backend": backend, "subsystem": subsystem, "max": 0}),)
        step = runner.one(Rung.KERNEL, settings, "witness")
        if step.verdict is Verdict.SKIP:
            return CrossCheck(name=_NAME, available=False, words=step.note)
        asked.append(CrossCheckAnswer(backend=backend, subsystem=subsystem, verdict=step.verdict))
        agrees = step.verdict is expected
        if agrees:
            break
    words = "torch's own CompilerBisector " + ("agrees" if agrees else "disagrees")
    last = asked[-1]
    what = f"backend {last.backend}" + (f" without its {last.subsystem}" if last.subsystem else "")
    words += f": with {what} the script {'passes' if last.verdict is Verdict.GOOD else 'fails'}"
    return CrossCheck(name=_NAME, agrees=agrees, asked=tuple(asked), words=words)


def _blamed(culprit: Culprit, group: str) -> bool:
    """Whether the blamed component is of this group; True for all groups if no pass was named."""
    return culprit.component is None or culprit.component.kind != "pass" or group in culprit.component.detail
