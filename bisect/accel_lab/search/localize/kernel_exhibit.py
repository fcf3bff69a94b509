"""Shows the generated kernel with one operator's lines marked, or the C++ compiler's first error.

The child reports which lines of each kernel were written for which node (``child/hooks``). Only those lines
are marked; without that report none are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict
from accel_lab.search import frames
from accel_lab.search.ladder_runner import LadderRunner

from .ablation import Item
from .localization import Localization

#: Maximum lines shown of a kernel, and lines shown around a compiler error.
MOST_LINES = 120
AROUND = 5

_ERROR = re.compile(
    r"(?<![^\s:'\"])([^\s:'\"]+\.(?:cpp|cc|h|hpp)):(\d+):(?:(\d+):)? (?:fatal )?error: ([^\n]+)"
)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One generated kernel; ``origins`` maps a lowering's key to the lines written for it."""

    file: str
    language: str
    lines: tuple[str, ...]
    origins: Mapping[str, tuple[int, ...]]

    @staticmethod
    def from_facts(row: Mapping[str, Any]) -> Kernel:
        return Kernel(
            file=str(row["file"]),
            language=str(row["language"]),
            lines=tuple(str(row["text"]).splitlines()),
            origins={str(key): tuple(map(int, lines)) for key, lines in dict(row["origins"]).items()},
        )

    def node_of(self, line: int) -> str | None:
        """Returns the key of the lowering that a line was written for, if exactly one; else None."""
        keys = [key for key, lines in self.origins.items() if line in lines]
        return keys[0] if len(keys) == 1 else None


def show_kernel(runner: LadderRunner, result: Localization, items: Sequence[Item], at: Step) -> None:
    """Adds the kernel that contains the named operators, or the compiler's error, to ``result``."""
    broken = compile_error(at.outcome)
    if broken is None and (_ends_before_code(at.outcome) or not (items or result.component)):
        return
    step = runner.one(Rung.KERNEL, (("annotate", True),), "component")
    if step.verdict is not Verdict.BAD:
        return
    kernels = [Kernel.from_facts(row) for row in step.outcome.facts.get("kernels") or ()]
    if broken is not None:
        _show_error(result, kernels, step.outcome)
        return
    keys = [key for _, key in items] or _keys_of(result.component, kernels)
    best = max(kernels, key=lambda kernel: _held(kernel, keys), default=None)
    if best is not None and _marks(best, keys):
        marked = sorted({line for key in keys for line in best.origins.get(key, ())})
        names = ", ".join(dict.fromkeys(operator_of(key) for key in keys if key in best.origins))
        result.exhibits.append(
            exhibit_of("kernel", f"the generated kernel; marked: the lines written for {names}", best, marked)
        )
    elif best is not None and not keys and len(kernels) == 1:
        result.exhibits.append(exhibit_of("kernel", "the generated kernel", best, ()))


def _keys_of(component: Component | None, kernels: Sequence[Kernel]) -> list[str]:
    """Returns the lowerings of the operators that a fusion or buffer component names."""
    names = set(
        re.split(r", | \+ | written over |memory used again for ", component.name if component else "")
    )
    return sorted({key for kernel in kernels for key in kernel.origins if operator_of(key) in names})


def _ends_before_code(outcome: Outcome) -> bool:
    """Whether compilation itself fails, so that there is no kernel to show."""
    raised = outcome.raised
    return raised is not None and frames.innermost(raised.frames, _COMPILING) is not None


_COMPILING = (Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN)


def _held(kernel: Kernel, keys: Sequence[str]) -> tuple[int, int]:
    """Returns how many of the operators a kernel contains, and how many of its lines are theirs."""
    return sum(key in kernel.origins for key in keys), _marks(kernel, keys)


def _marks(kernel: Kernel, keys: Iterable[str]) -> int:
    return sum(len(kernel.origins.get(key, ())) for key in keys)


def operator_of(key: str) -> str:
    """Returns the operator of a lowering's key."""
    return key.rsplit("#", 1)[0].split("target=", 1)[-1]


def node_of(key: str) -> str:
    """Returns the node of a lowering's key."""
    return key.rsplit("#", 1)[0].split(" target=", 1)[0]


# -- the C++ compiler's error ------------------------------------------------------------------


def compile_error(outcome: Outcome) -> tuple[str, int, str] | None:
    """Returns file name, line and message of the C++ compiler's first error, or None."""
    raised = outcome.raised
    if raised is None:
        return None
    text = "\n".join([raised.message, *(message for _, message in raised.links)])
    kinds = " ".join([raised.type, *(kind for kind, _ in raised.links)])
    if "CppCompileError" not in kinds + text and "C++ compile error" not in text:
        return None
    errors = [(m[1].rsplit("/", 1)[-1], int(m[2]), m[4].strip()) for m in _ERROR.finditer(text)]
    return next((e for e in errors if e[0].endswith(".cpp")), errors[0] if errors else None)


def _show_error(result: Localization, kernels: Sequence[Kernel], outcome: Outcome) -> None:
    error = compile_error(outcome)
    kernel = next((k for k in kernels if error is not None and k.file == error[0]), None)
    if error is None or kernel is None or error[1] > len(kernel.lines):
        return
    _, line, message = error
    key = kernel.node_of(line)
    writer = f", written for {operator_of(key)}" if key else ""
    first, last = max(1, line - AROUND), min(len(kernel.lines), line + AROUND)
    result.exhibits.append(
        Exhibit(
            kind="compile_error",
            title=shorten(f"line {line} of the generated file{writer}: {message}", 300),
            text="\n".join(kernel.lines[first - 1 : last]),
            language="cpp",
            marked=(line - first + 1,),
        )
    )
    result.evidence.append(
        Evidence.of(
            EvidenceKind.LINE_DOES_NOT_COMPILE, operator=operator_of(key) if key else "", message=message
        )
    )
    if result.component is None and key:
        result.component = Component(
            kind="op",
            name=shorten(operator_of(key), 120),
            detail="the generated line that does not compile was written for it",
            confidence=Confidence.LIKELY,
        )


# -- an excerpt --------------------------------------------------------------------------------


def exhibit_of(kind: str, title: str, kernel: Kernel, marked: Sequence[int]) -> Exhibit:
    """Returns the kernel, or the relevant part of it, with some of its lines marked."""
    lines = list(kernel.lines)
    first, last = 1, _end(lines, max(marked, default=1))
    while first < last and not lines[first - 1].strip():
        first += 1
    if last - first >= MOST_LINES:
        # Marked lines take precedence over the head of the kernel, but lines between marks are kept.
        first = max(first, min(min(marked, default=first) - MOST_LINES // 4, last - MOST_LINES + 1))
        last = min(last, first + MOST_LINES - 1)
        title += f" (lines {first} to {last} of {len(lines)})"
    return Exhibit(
        kind=kind,
        title=title,
        text="\n".join(lines[first - 1 : last]),
        language=kernel.language,
        marked=tuple(line - first + 1 for line in marked if first <= line <= last),
    )


def _end(lines: Sequence[str], line: int) -> int:
    """Returns the last line of the function that contains a line; in Python, of the text."""
    closing = (n for n in range(line, len(lines) + 1) if lines[n - 1].startswith("}"))
    return next(closing, len(lines))
