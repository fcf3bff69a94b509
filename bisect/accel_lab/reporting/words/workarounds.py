"""Describes workarounds and known failures: what to paste, what was run to show it, what it costs."""

from __future__ import annotations

from accel_lab.core.findings import Findings
from accel_lab.core.text import capital
from accel_lab.core.workarounds import Checked, Cost, KnownFailure, Workaround

TITLE = "Workarounds"
KNOWN_TITLE = "Known failure"

_WHERE = {
    "paste": "below import torch",
    "top": "above import torch",
    "edit": "in your script",
    "shell": "in a shell",
}
_VERIFIED = {
    Checked.PLAIN: "your script with it was run by plain Python and passes",
    Checked.VALUES: "your script with it was run by plain Python, and once recorded: its values agree "
    "with an uncompiled run's",
    Checked.RELEASE: "your script was run on that release and passes",
}


def head_of(workaround: Workaround) -> str:
    """Says what it does, and where its code goes."""
    return f"{capital(workaround.words)} ({_WHERE.get(workaround.where, workaround.where)})"


def notes_of(workaround: Workaround) -> list[str]:
    """Says what was run to verify it, and what it costs."""
    lines = [capital(_VERIFIED[workaround.verified])]
    if workaround.cost is not None:
        lines.append(cost_of(workaround.cost))
    return lines


def cost_of(cost: Cost) -> str:
    """Describes the median costs, and what they are compared with."""
    times = f", median of {cost.runs} interleaved" if cost.runs > 1 else ", one run"
    if cost.of != "region":
        failing = f" against {cost.failing:.1f} s without it" if cost.failing is not None else ""
        return f"Cost: the whole script takes {cost.seconds:.1f} s{failing}{times}"
    against = []
    if cost.eager is not None and cost.eager > 0:
        against.append(f"{_seconds(cost.eager)} in eager mode ({cost.seconds / cost.eager:.2f}x)")
    if cost.failing is not None:
        against.append(f"{_seconds(cost.failing)} with the failing compile")
    joined = f" against {', '.join(against)}" if against else ""
    return f"Cost: a call of the compiled region takes {_seconds(cost.seconds)}{joined}{times}"


def _seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def known_line(known: KnownFailure) -> str:
    """Describes a failure of the catalogue that was run on this build and fails in the same way."""
    issue = f" (pytorch#{known.issue})" if known.issue is not None else ""
    fixed = f" It does not fail on torch {known.fixed_in}." if known.fixed_in else ""
    return (
        f"{known.title}{issue}: {known.match}. The catalogue's own script was run on this build: "
        f"{known.shown}.{fixed}"
    )


def plain_lines(findings: Findings) -> list[str]:
    """Returns the first workaround in one line, for the next steps; empty if there is none."""
    if not findings.workarounds:
        return []
    first = findings.workarounds[0]
    lines = first.code.splitlines()
    if len(lines) > 1:
        return [f"Until it is fixed: paste the {len(lines)} lines of {TITLE!r} ({first.words})"]
    return [f"Until it is fixed: {first.code} ({first.words}); see {TITLE!r}"]
