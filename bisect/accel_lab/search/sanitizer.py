"""Shows the line of a generated kernel that reads or writes out of bounds, for a script that dies of it.

The script is run once more with its kernels compiled by the address sanitizer, which stops at the first bad
access. It is a witness beside the proof: it names a line, never a stage.
"""

from __future__ import annotations

import re
from typing import Any

from accel_lab.core.findings import Component
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .ladder_runner import LadderRunner
from .localize.kernel_exhibit import Kernel, exhibit_of, node_of, operator_of
from .localize.localization import Localization
from .memory_fault import is_memory_fault

#: The marks of ``child/hooks/kernel_lines.py`` in a kernel's text.
_MARK = re.compile(r"(?<! )[ ]*/\*@\d+\*/")
_SWITCHES = (("annotate", True), ("sanitize", True))


def show_fault(runner: LadderRunner, result: Localization) -> None:
    """Add the line, and what was done there, to what was found; nothing but for a memory fault."""
    if not is_memory_fault(runner.baseline.target):
        return
    outcome = runner.look(Rung.KERNEL, _SWITCHES, "sanitizer")
    report: dict[str, Any] = outcome.facts.get("sanitizer") or {}
    if not report:
        if not outcome.failed and outcome.notes:
            result.evidence.append("no line can be shown: " + shorten("; ".join(outcome.notes), 200))
        return
    did = _access(report)
    if not report["file"]:
        if report["function"]:
            result.evidence.append(
                f"the address sanitizer finds {did}, in {report['function']} and not in a generated kernel"
            )
        return
    kernel = _kernel(report, outcome.facts.get("kernels") or ())
    line = int(report["line"])
    if not 1 <= line <= len(kernel.lines):
        return
    key = kernel.node_of(line)
    writer = f", at a line written for {operator_of(key)}" if key else ""
    title = f"AddressSanitizer: {did}, in the generated kernel; marked: the line that does it"
    result.exhibits.append(exhibit_of("kernel", title, kernel, (line,)))
    result.evidence.append(f"compiled with the address sanitizer, the generated kernel stops{writer}: {did}")
    inner = runner.ask([(Rung.LOOPS, ()), (Rung.SCHEDULED, ())], "sanitizer")
    if all(step.verdict is Verdict.GOOD for step in inner):
        result.evidence.append(
            "no index of the loop IR is out of bounds, as the interpreter checks each: only the code "
            "generated from it leaves the buffer"
        )
    known = result.component
    if key and (known is None or known.confidence is not Confidence.PROVEN):
        # Which operators must be left out for a crash to go is a matter of luck as well; the line is not.
        result.component = Component(
            kind="op",
            name=shorten(operator_of(key), 120),
            detail=f"node {shorten(node_of(key), 120)}: the line that leaves its buffer was written for it",
            confidence=Confidence.LIKELY,
        )


def _access(report: dict[str, Any]) -> str:
    """Such as ``heap-buffer-overflow, WRITE of size 64 (0 bytes after a block of 640 bytes)``."""
    size = f" of size {report['size']}" if report["size"] else ""
    words = [str(report["kind"]), f"{report['access']}{size}" if report["access"] else ""]
    where = f" ({report['where']})" if report["where"] else ""
    return ", ".join(filter(None, words)) + where


def _kernel(report: dict[str, Any], rows: Any) -> Kernel:
    """The kernel that was reported, with the lines of each node where the child told them."""
    row = next((row for row in rows if row["file"] == report["file"]), None)
    if row is not None:
        return Kernel.from_facts(row)
    lines = tuple(_MARK.sub("", line) for line in str(report["text"]).splitlines())
    return Kernel(file=str(report["file"]), language="cpp", lines=lines, origins={})
