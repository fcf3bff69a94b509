"""Base class of the bisections: the lab, the program, the findings, the probe counts."""

from __future__ import annotations

from dataclasses import dataclass

from accel_lab.core.findings import Findings
from accel_lab.core.probe import Probe
from accel_lab.core.record import Record
from accel_lab.core.stages import Rung

from .lab import Lab
from .ladder_runner import LadderRunner, Switches
from .premise import Baseline


@dataclass(frozen=True, kw_only=True)
class Options(Record):
    """What a bisection may run, and how sure the answer has to be.

    ``time_s`` is the limit in seconds for the whole bisection. None: no limit for finding the stage, and an
    allowance in multiples of a plain run for what follows (``localize.allowance``).
    """

    budget: float = 0.01
    ablation: str = "short"
    components: bool = True
    witness: bool = True
    most_faults: int = 3
    time_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two runs that isolate the culprit where no two rungs do.

    ``bad`` and ``good`` are the rung and switches of the failing and the passing run; ``without`` describes
    what the passing run has instead.
    """

    bad: tuple[Rung, Switches]
    good: tuple[Rung, Switches] | None = None
    without: str = ""


class Bisection:
    """The state of a bisection.

    ``probe`` carries the program, the environment and the limits. The search may turn its recording off.
    """

    def __init__(self, lab: Lab, probe: Probe, options: Options | None = None) -> None:
        self._lab = lab
        self.probe = probe
        self._options = options or Options()
        self.findings = Findings(program=probe.program)
        self.baseline: Baseline | None = None
        self.counts: dict[str, int] = {}
        self.pair: Pair | None = None
        #: Switches that every later question carries, once the search found that it needs them.
        self.everywhere: Switches = ()
        self._time = lab.time_budget
        self.findings.unasked = self._time.unasked
        self.findings.budget_s = self._options.time_s

    def run(self) -> Findings:
        """Runs the search; ``findings`` is filled step by step, so an interruption keeps what is known."""
        raise NotImplementedError

    def _take_baseline(self, base: Baseline, runs: int) -> None:
        """Copies the baseline, which took ``runs`` runs, into the findings."""
        findings = self.findings
        findings.baseline = list(base.steps)
        findings.signature = base.target
        findings.failure_rate = (base.unchecked or base.tally).rate  # as a user would see it
        findings.agreement = base.agreement
        findings.warnings = [*base.notes, *base.doubts]
        self.counts["baseline"] = runs
        findings.probes = self.counts

    def _ladder_runner(self, base: Baseline, held: Switches = ()) -> LadderRunner:
        return LadderRunner(
            lab=self._lab,
            probe=self.probe,
            baseline=base,
            budget=self._options.budget,
            held=(*self.everywhere, *held),
            counts=self.counts,
        )
