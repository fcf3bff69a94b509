"""Alternative: the failing compiler is on no rung (torch.export, AOTInductor, TorchScript, ONNX)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.findings import Step
from accel_lab.core.outcome import Frame, Outcome
from accel_lab.core.signature import legible
from accel_lab.search.premise import Baseline

#: Entry points that generate code: what the script checks afterwards came from a compiler.
_GENERATE = frozenset(
    {
        "torch._inductor.aoti_compile_and_package",
        "torch._inductor.aot_compile",
        "torch._inductor.compile",
        "torch._inductor.standalone_compile",
        "torch._export.aot_compile",
    }
)
#: Prefixes of torch files that no torch.compile region passes through, with the API that owns them.
_AREAS = (
    ("torch/export/", "torch.export"),
    ("torch/_export/", "torch.export"),
    ("torch/_inductor/package/", "AOTInductor"),
    ("torch/jit/", "torch.jit"),
    ("torch/onnx/", "torch.onnx"),
)
#: Message of TorchScript when a scripted function fails at run time (``torch/csrc/jit/runtime``).
_INTERPRETER = "failed in the TorchScript interpreter"
#: Length of the start of a message that must appear in what a test runner printed.
_ENOUGH = 60


def detect(base: Baseline) -> str | None:
    """Returns one sentence on where the script fails, if outside every torch.compile region; else None."""
    step = next((s for s in base.steps if s.signature is not None and s.outcome.facts), None)
    if step is None or base.target is None or base.target.kind == "values":
        return None
    entries = [row for row in _list(step.outcome.facts.get("other_entries")) if isinstance(row, Mapping)]
    if not entries:
        return None
    through = _through(step, entries)
    if through:
        return f"it fails in {through}{_where(step.outcome)}"
    if _list(step.outcome.facts.get("caught")):
        return None
    if area := _area(step.outcome):
        return f"it fails in {area}{_where(step.outcome)}"
    return _checked(step, entries)


def about_entries(note: str) -> bool:
    """Whether a run's note is superseded by the sentence of :func:`detect`."""
    return "accel-lab only covers torch.compile regions" in note


def _through(step: Step, entries: Sequence[Mapping[str, Any]]) -> str:
    """Returns the entry point that the failure passed through; empty if none is known."""
    for row in entries:
        if row.get("ended") is True:
            return str(row.get("name"))
    outcome = step.outcome
    if outcome.signal is not None or outcome.exit_code is None:
        # The process was killed during the entry, so nothing was recorded afterwards.
        running = [row for row in entries if row.get("running")]
        return str(running[0].get("name")) if running else ""
    if step.signature is not None and step.signature.kind == "exit":
        # A test runner catches what its tests raise, and prints it.
        for row in entries:
            raised = row.get("raised")
            message = legible(str(raised[1]))[:_ENOUGH] if isinstance(raised, (list, tuple)) else ""
            if message and message in step.signature.said:
                return str(row.get("name"))
    return ""


def _area(outcome: Outcome) -> str:
    """Returns the API whose product fails when run, going by the frames or the message; empty if none."""
    raised = outcome.raised
    if raised is None:
        return ""
    if _INTERPRETER in raised.message:
        return "a function that torch.jit has compiled"
    for frame in raised.frames:
        for prefix, name in _AREAS:
            if frame.file.startswith(prefix):
                return f"what {name} has made"
    return ""


def _checked(step: Step, entries: Sequence[Mapping[str, Any]]) -> str | None:
    """Recognises a failed check of the script on generated code, with no torch.compile region called."""
    raised, regions = step.outcome.raised, _list(step.outcome.facts.get("regions"))
    if raised is None or raised.type.rpartition(".")[2] != "AssertionError":
        return None
    if any(isinstance(region, Mapping) and region.get("calls") for region in regions):
        return None
    made = [
        str(row.get("name")) for row in entries if row.get("by_user") is True and row.get("name") in _GENERATE
    ]
    return f"it checks code that was compiled by {made[0]}" if made else None


def _where(outcome: Outcome) -> str:
    """Returns the innermost torch frame in brackets; empty if there is none."""
    frames: Sequence[Frame] = outcome.raised.frames if outcome.raised is not None else ()
    own = [frame for frame in frames if frame.file.startswith("torch/")]
    return f" ({own[-1].file}:{own[-1].line}, {own[-1].function})" if own else ""


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
