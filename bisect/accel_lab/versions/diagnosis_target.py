"""Where a bisection itself is run: on the user's own build, or on a release of the line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.probe import Probe
from accel_lab.core.untrusted.child_files import parsed
from accel_lab.execution.builds import FACTS, Build
from accel_lab.execution.journal import write_atomic
from accel_lab.execution.prober import Prober
from accel_lab.lab import LocalLab

from .release_session import ReleaseSession


@dataclass(frozen=True, kw_only=True)
class DiagnosisTarget:
    """Where the bisection itself is run: on the user's own build, or on a release of the line."""

    prober: Prober
    lab: LocalLab
    probe: Probe
    build: Build
    provider: str = "local"
    cold: str = ""


def on_bench(session: ReleaseSession) -> DiagnosisTarget:
    """A release of the line as the place of the bisection."""
    facts = parsed(session.prober.aside("doctor", ["doctor"]), "the answer to doctor", FACTS)
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


def keep_ground(ground: DiagnosisTarget, folder: Path) -> None:
    """Write down what the bisection runs on, so that its report can be written again from the journal."""
    row = {
        "python": ground.build.python,
        "torch": ground.build.torch,
        "facts": ground.build.facts,
        "environment": ground.probe.environment,
        "provider": ground.provider,
        "cold": ground.cold,
    }
    write_atomic(folder / "ground.json", json.dumps(row, indent=1, default=str))


def kept_ground(folder: Path) -> tuple[Build, str, str, str] | None:
    """``(build, the probes' environment, provider, why cold)`` of an earlier run; None where it left none."""
    try:
        row = json.loads((folder / "ground.json").read_text(encoding="utf-8"))
        build = Build(python=row["python"], torch=row["torch"], facts=row["facts"])
        return build, str(row["environment"]), str(row["provider"]), str(row["cold"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
