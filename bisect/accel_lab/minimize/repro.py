"""Builds the repro for a maintainer: head comment, proof that it fails, and the nearest passing neighbour."""

from __future__ import annotations

import difflib
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from accel_lab.core.findings import Culprit, Exhibit, ReproProof
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.core.verdict import Verdict
from accel_lab.reduction.problem import Candidate
from accel_lab.search.lab import Lab
from accel_lab.search.premise import same_failure

from .candidates import SCRIPT_NAME
from .shipping import lay_out, probe_in
from .target import Target, ask

#: Signatures that the exit code does not show: only the user's oracle or recorded values do.
JUDGED_FROM_OUTSIDE = ("check", "regex", "values")
#: Seconds after which a hanging repro ends itself, with all stacks and exit code 1.
HANG_S = 60
MAX_DIFF_LINES = 160
MAX_ARTIFACT_BYTES = 16 << 20
#: Number of recent passing candidates that are compared with the result.
NEIGHBOURS = 300


def with_head(candidate: Candidate, comment: str, target: Target) -> Candidate:
    """Puts the comment on top of the candidate; a hang also gets its own time limit."""
    body = candidate.source.strip("\n")
    future: list[str] = []
    while body.startswith("from __future__"):
        line, _, body = body.partition("\n")
        future.append(line)
        body = body.lstrip("\n")
    parts = [comment, *future]
    if target.signature.kind == "timeout" and "dump_traceback_later" not in body:
        parts.append(f"import faulthandler\n\nfaulthandler.dump_traceback_later({HANG_S}, exit=True)")
    return Candidate("\n".join(parts) + "\n\n" + body + "\n", candidate.files)


def head_comment(
    culprit: Culprit | None,
    target: Target,
    *,
    build: str,
    value: str,
    args: Sequence[str],
    stdin: str = "",
) -> str:
    """Returns the head comment: what the script shows, in lines that start with ``#``."""
    lines = [_title(culprit)]
    lines.append(f"Fails on torch {build}: {value or target.signature.line}")
    if target.good is not None:
        lines.append(f"It passes with {target.without or target.good.record.passes_with}.")
    how = shlex.join(["python", SCRIPT_NAME, *args]) + (f" < {shlex.quote(stdin)}" if stdin else "")
    if target.signature.kind in JUDGED_FROM_OUTSIDE:
        lines.append(f"Run: {how}. Its exit code does not show the bug: {_OUTSIDE[target.signature.kind]}.")
    elif target.signature.kind == "memory_fault":
        lines.append(
            f"Run: {how}. It dies by {target.signature.type} or another signal of a memory fault while the "
            "bug is there; then it exits 0."
        )
    elif target.signature.kind == "signal":
        lines.append(
            f"Run: {how}. It dies by {target.signature.type} while the bug is there; then it exits 0."
        )
    else:
        lines.append(f"Run: {how}. Exits with 1 while the bug is there, with 0 when it is gone.")
    wrapped = [part for line in lines for part in textwrap.wrap(line, 96, break_long_words=False)]
    return "\n".join(f"# {line}" for line in wrapped)


_OUTSIDE = {
    "check": "the command given with --check judges it",
    "regex": "the expression given with --fail-regex judges it",
    "values": "the numbers of the compiled function are silently wrong",
}


def _title(culprit: Culprit | None) -> str:
    if culprit is None:
        return "A failure whose stage is unknown."
    stage = "the script itself, or an eager kernel" if culprit.stage is Stage.EAGER else str(culprit.stage)
    text = f"Stage at fault: {stage} ({culprit.confidence})"
    if culprit.component is not None:
        text += f"; {culprit.component.kind} {culprit.component.name}"
        text += (
            "" if culprit.component.confidence is culprit.confidence else f" ({culprit.component.confidence})"
        )
    return text + "."


def prove(
    lab: Lab,
    probe: Probe,
    candidate: Candidate,
    target: Target,
    folder: Path,
    key: str,
    cold: Limits,
    files: Mapping[str, Path] = MappingProxyType({}),
) -> ReproProof:
    """Proves a repro: it must fail in the same way in a fresh plain process and on both rungs.

    The program runs in ``folder``, which contains only it and ``files``. ``key`` identifies the content, so
    that repeated probes are answered by the journal. ``cold`` are the limits of the plain run, which has to
    import torch.
    """
    proof = ReproProof()
    base = probe_in(probe, lay_out(candidate, files, folder), key)
    plain_runs = [
        replace(
            base,
            bare=True,
            cold=True,
            rung=Rung.KERNEL,
            switches=target.bad_with,
            attempt=attempt,
            limits=cold,
        )
        for attempt in range(target.attempts)
    ]
    # Sequential, because a run must not find the files of an earlier one.
    same = False
    for plain in plain_runs:
        outcome = lab.submit(plain).result()
        lay_out(candidate, files, folder)
        same = _same_plain(lab, outcome, target.signature)
        proof.plain = _end(outcome)
        if same:
            break
    answer, _ = ask(lab, base, target)
    lay_out(candidate, files, folder)
    proof.bad, proof.good = answer.bad.value, "" if answer.good is None else answer.good.value
    proof.holds = same and answer.interesting
    proof.words.append(
        f"a plain run in a fresh process {'failed in the same way' if same else 'did not reproduce it'}"
    )
    proof.words.append(
        f"at {target.bad}: {_said(answer.bad)}"
        + ("" if target.good is None or answer.good is None else f"; at {target.good}: {_said(answer.good)}")
    )
    return proof


def _said(verdict: Verdict) -> str:
    return {
        Verdict.BAD: "fails in the same way",
        Verdict.GOOD: "passes",
        Verdict.DIFFERENT: "fails in another way",
        Verdict.SKIP: "is inconclusive",
    }[verdict]


def _same_plain(lab: Lab, outcome: Outcome, target: Signature) -> bool:
    if target.kind == "values":
        return outcome.status is Status.OK
    if target.kind == "timeout" and outcome.exit_code == 1:
        return True  # the repro ends its own hang with this exit code
    signature = lab.signature(outcome)
    return signature is not None and same_failure(signature, target)


def _end(outcome: Outcome) -> str:
    if outcome.exit_code is not None:
        return f"exit {outcome.exit_code}"
    return f"signal {outcome.signal}" if outcome.signal is not None else outcome.status.value


# -- the passing neighbour ------------------------------------------------------------------------


def nearest_passing(passing: Sequence[Candidate], result: Candidate) -> Candidate | None:
    """Returns the passing candidate whose text is closest to the result's; the longer one on a tie."""
    want = result.source.splitlines()
    best: tuple[float, int, Candidate] | None = None
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(want)
    for candidate in passing[-NEIGHBOURS:]:
        lines = candidate.source.splitlines()
        matcher.set_seq1(lines)
        if best is not None and matcher.real_quick_ratio() < best[0]:
            continue
        score = (matcher.ratio(), len(lines), candidate)
        if lines != want and (best is None or score[:2] > best[:2]):
            best = score
    return None if best is None else best[2]


def source_diff(passing: Candidate, failing: Candidate) -> str:
    """Returns the diff from the passing script to the failing one."""
    return _diff(passing.source, failing.source, "passes.py", "fails.py")


#: Kinds of artifacts, closest to the kernel first: generated code, then the graphs before it.
GENERATED = ("kernel", "output_code")
GRAPHS = ("post_grad", "aot_forward", "aot_backward", "dynamo_graph")


def code_diff(passing: Outcome, failing: Outcome, kinds: Sequence[str]) -> tuple[str, str]:
    """Returns ``(kind, diff)`` for the first kind of artifact that differs; empty strings if none does."""
    for kind in kinds:
        one, two = _artifacts(passing, kind), _artifacts(failing, kind)
        if one and two and one != two:
            return kind, _diff(one, two, f"{kind} (passes)", f"{kind} (fails)")
    return "", ""


def _artifacts(outcome: Outcome, kind: str) -> str:
    files = ChildFiles(outcome.folder)
    names = files.names(f"artifacts/{kind}_*") if outcome.folder else []
    texts = [files.head(name, MAX_ARTIFACT_BYTES) or "" for name in names[:4]]
    # The script's path is in these lines, and it always differs.
    return "\n".join(line for text in texts for line in text.splitlines() if "# File: " not in line)


def _diff(one: str, two: str, name_one: str, name_two: str) -> str:
    lines = list(
        difflib.unified_diff(one.splitlines(), two.splitlines(), name_one, name_two, lineterm="", n=2)
    )
    if len(lines) > MAX_DIFF_LINES:
        lines = [*lines[:MAX_DIFF_LINES], f"... {len(lines) - MAX_DIFF_LINES} more lines"]
    return "\n".join(lines)


def neighbour_exhibits(passing: Candidate, failing: Candidate, code: tuple[str, str]) -> list[Exhibit]:
    """Returns the two diffs as exhibits."""
    shown = [
        Exhibit(
            kind="min_good",
            title="The nearest script that passes, against the one that fails",
            text=source_diff(passing, failing),
            language="diff",
        )
    ]
    if code[1]:
        shown.append(
            Exhibit(
                kind="min_good_code",
                title=f"What the compiler made of the two ({code[0]})",
                text=code[1],
                language="diff",
            )
        )
    return shown
