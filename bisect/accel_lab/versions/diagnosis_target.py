"""The build that a bisection runs on: the user's own, or a release of the line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.machine.environment import EnvironmentId
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Probe
from accel_lab.core.untrusted.child_files import parsed
from accel_lab.execution.builds import FACTS, Build
from accel_lab.execution.prober import Prober
from accel_lab.lab import LocalLab

from .release_session import ReleaseSession

#: File in which a run records its target, so that its report can be rebuilt from the journal.
RECORD = "ground.json"


@dataclass(frozen=True, kw_only=True)
class DiagnosisTarget:
    """A build with its prober. ``cold`` says why no warm server is used; empty if one is."""

    prober: Prober
    lab: LocalLab
    probe: Probe
    build: Build
    provider: str = "local"
    cold: str = ""


@dataclass(frozen=True, kw_only=True)
class RecordedTarget:
    """The target of an earlier run, as recorded in its folder."""

    build: Build
    environment: EnvironmentId
    provider: str
    cold: str


def target_of(session: ReleaseSession) -> DiagnosisTarget:
    """Returns a release of the line as the target of the bisection."""
    facts = parsed(session.prober.child_output("doctor", ["doctor"]), "the answer to doctor", FACTS)
    return DiagnosisTarget(
        prober=session.prober,
        lab=session.lab,
        probe=session.probe,
        build=Build(
            python=session.environment.python, torch=facts.get("torch") or session.version, facts=facts
        ),
        provider=session.environment.spec.provider,
        cold=session.cold,
    )


def record(target: DiagnosisTarget, folder: Path) -> None:
    """Writes the target into the run's folder."""
    row = {
        "python": target.build.python,
        "torch": target.build.torch,
        "facts": target.build.facts,
        "environment": str(target.probe.environment),
        "provider": target.provider,
        "cold": target.cold,
    }
    write_atomic(folder / RECORD, json.dumps(row, indent=1, default=str))


def recorded(folder: Path) -> RecordedTarget | None:
    """Returns the target of an earlier run; None if its folder has none or a damaged one."""
    try:
        row = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return RecordedTarget(
            build=Build(python=row["python"], torch=row["torch"], facts=row["facts"]),
            environment=EnvironmentId(text=str(row["environment"])),
            provider=str(row["provider"]),
            cold=str(row["cold"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
