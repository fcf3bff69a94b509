"""Shows the line of a generated kernel that accesses memory out of bounds, for a script that crashes.

The script runs once more with its kernels compiled by AddressSanitizer, which stops at the first bad access.
It is not part of the proof: it names a line, never a stage.
"""

from __future__ import annotations

import re
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .ladder_runner import LadderRunner
from .localize.kernel_exhibit import Kernel, exhibit_of, node_of, operator_of
from .localize.localization import Localization
from .memory_fault import is_memory_fault

#: The markers of ``child/hooks/kernel_lines.py`` in a kernel's text.
_MARK = re.compile(r"(?<! )[ ]*/\*@\d+\*/")
_SWITCHES = (("annotate", True), ("sanitize", True))


def show_fault(runner: LadderRunner, result: Localization) -> None:
    """Adds the line and its bad access to ``result``; does nothing unless it is a memory fault."""
    if not is_memory_fault(runner.baseline.target):
        return
    outcome = runner.look(Rung.KERNEL, _SWITCHES, "sanitizer")
    report: dict[str, Any] = outcome.facts.get("sanitizer") or {}
    if not report:
        if not outcome.failed and outcome.notes:
            result.evidence.append(Evidence.of(EvidenceKind.SANITIZER_SHOWS_NO_LINE, notes=outcome.notes))
        return
    did = _access(report)
    if not report["file"]:
        if report["function"]:
            function = str(report["function"])
            result.evidence.append(
                Evidence.of(EvidenceKind.SANITIZER_STOPS_ELSEWHERE, access=did, function=function)
            )
        return
    kernel = _kernel(report, outcome.facts.get("kernels") or ())
    line = int(report["line"])
    if not 1 <= line <= len(kernel.lines):
        return
    key = kernel.node_of(line)
    title = f"AddressSanitizer: {did}, in the generated kernel; marked: the line that does it"
    result.exhibits.append(exhibit_of("kernel", title, kernel, (line,)))
    writer = operator_of(key) if key else ""
    result.evidence.append(Evidence.of(EvidenceKind.SANITIZER_STOPS_IN_KERNEL, operator=writer, access=did))
    inner = runner.ask([(Rung.LOOPS, ()), (Rung.SCHEDULED, ())], "sanitizer")
    if all(step.verdict is Verdict.GOOD for step in inner):
        result.evidence.append(Evidence.of(EvidenceKind.LOOPS_WITHIN_BOUNDS))
    known = result.component
    if key and (known is None or known.confidence is not Confidence.PROVEN):
        # Which operators must be left out to stop a crash is partly luck; the reported line is not.
        result.component = Component(
            kind="op",
            name=shorten(operator_of(key), 120),
            detail=f"node {shorten(node_of(key), 120)}: the line that leaves its buffer was written for it",
            confidence=Confidence.LIKELY,
        )


def _access(report: dict[str, Any]) -> str:
    """Describes the access: ``heap-buffer-overflow, WRITE of size 64 (0 bytes after a block of 640)``."""
    size = f" of size {report['size']}" if report["size"] else ""
    words = [str(report["kind"]), f"{report['access']}{size}" if report["access"] else ""]
    where = f" ({report['where']})" if report["where"] else ""
    return ", ".join(filter(None, words)) + where


def _kernel(report: dict[str, Any], rows: Any) -> Kernel:
    """Returns the reported kernel, with the lines of each node if the child recorded them."""
    row = next((row for row in rows if row["file"] == report["file"]), None)
    if row is not None:
        return Kernel.from_facts(row)
    lines = tuple(_MARK.sub("", line) for line in str(report["text"]).splitlines())
    return Kernel(file=str(report["file"]), language="cpp", lines=lines, origins={})
