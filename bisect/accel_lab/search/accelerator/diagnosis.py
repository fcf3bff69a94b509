"""Runs the whole accelerator search: premise, parts or rungs, proof, kernel or transfer."""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.accelerator_record import KEY, AcceleratorRecord
from accel_lab.core.errors import OutOfTime
from accel_lab.core.findings import Findings, Step
from accel_lab.core.probe import Probe
from accel_lab.core.verdict import Verdict
from accel_lab.search.bisection import Bisection, Options
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline
from accel_lab.search.proof import out_of_time, qualify

from .accelerator import MOCK, accelerator_named
from .accelerator_rungs import search_rungs
from .case import Case
from .part_search import search_parts
from .premise import Premise
from .replacements import offered


class AcceleratorDiagnosis(Bisection):
    """Bisects a program on the accelerator of ``adapter``, by default the mock.

    If the adapter offers replaceable parts, the search replaces them; otherwise it uses the adapter's rungs.
    """

    def __init__(
        self, lab: Lab, probe: Probe, options: Options | None = None, *, adapter: str = MOCK.name
    ) -> None:
        super().__init__(lab, probe, options)
        self._accelerator = accelerator_named(adapter)

    def run(self) -> Findings:
        """Returns the findings; they name the culprit if the script fails on the accelerator.

        ``findings`` is filled while the search runs. Out of time, the partial findings are returned.
        """
        try:
            return self._search()
        except OutOfTime:
            left, found = "the rest of the search below the accelerator", self.findings
            self._time.note_unasked(left)
            found.culprits = [qualify(culprit, [out_of_time(left)]) for culprit in found.culprits]
            found.verdict = "fails" if found.culprits else "inconclusive"
            return found

    def _search(self) -> Findings:
        found, accelerator = self.findings, self._accelerator
        on_it = replace(self.probe, rung=accelerator.rung, switches=accelerator.switches())
        base = self.baseline = Premise(self._lab, on_it).run()
        self._take_baseline(base, len(base.steps) + 1)
        self._seeded(base)
        self._record(base)
        if base.target is None:
            found.verdict = "inconclusive" if base.doubts else "passes"
            return found
        case = Case(
            accelerator=accelerator,
            runner=self._ladder_runner(base),
            base=base,
            findings=found,
            top=_top(base),
            components=self._options.components,
        )
        parts = offered(accelerator, case.top.outcome)
        if parts:
            search_parts(case, parts)
        else:
            search_rungs(case)
        self.pair = case.pair
        found.verdict = "fails" if found.culprits else "inconclusive"
        self._keep_files(case)
        return found

    def _keep_files(self, case: Case) -> None:
        """Repeats the failing run once more, with the files that explain it written."""
        if KEY not in self.findings.environment or not self._options.components:
            return
        switches = self._accelerator.switches(files=True)
        left = case.runner.look(self._accelerator.rung, switches, "files")
        self.findings.environment[KEY]["files"] = left.folder

    def _seeded(self, base: Baseline) -> None:
        """Warns which seeded faults are on; their effects are no fault of program or accelerator."""
        runs = [self._accelerator.facts(step.outcome).get("faults") or () for step in base.steps]
        faults = sorted({fault for run in runs for fault in run})
        if faults:
            where = " (MOCK_FAULTS)" if self._accelerator.is_mock else ""
            self.findings.warnings.append(f"seeded faults are on{where}: " + ", ".join(faults))

    def _record(self, base: Baseline) -> None:
        """Keeps which parts of the accelerator the runs depended on."""
        name, facts = self._accelerator.name, self._accelerator.facts
        records = (AcceleratorRecord.of_facts(name, facts(step.outcome)) for step in base.steps)
        found = next((record for record in records if record is not None), None)
        if found is not None:
            self.findings.environment[KEY] = found.to_json()


def _top(base: Baseline) -> Step:
    """Returns the run on the unchanged accelerator that the rows are compared with, warm if there is one."""
    failing = [step for step in base.steps if step.verdict is Verdict.BAD]
    warm = [step for step in failing if step.outcome.warm]
    return replace((warm or failing)[-1], label="", runs=base.tally.runs, failures=base.tally.failures)
