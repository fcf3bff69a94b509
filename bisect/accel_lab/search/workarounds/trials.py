"""Runs candidates in the user's script, by plain Python; keeps those that pass, cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Rung
from accel_lab.core.time_budget import SpendingTracker
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Checked, Cost, Workaround
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline, values_verdict
from accel_lab.search.repeats import cautious_rate, runs_to_see

from .candidates import UNCOMPILED, Candidate

#: Maximum passing candidates; the widest changes are told only if none passed.
_ENOUGH = 3
_LAST_RESORT = 6
#: So many of the widest changes are tried even if the time for workarounds is over.
_SURE = 3
#: So many candidates are run side by side.
_AT_ONCE = 2
#: Maximum runs per candidate; a failure that is too rare for these is not tried.
_MOST_REPEATS = 6
_DOUBT = 0.05
#: Time limit in seconds for each change of a script that hangs.
_HANG_S = 90.0
#: Costs within this ratio count as equal, and the narrower change comes first.
_NOISE = 1.15


@dataclass(frozen=True, kw_only=True)
class RegionSeconds:
    """Median seconds of one call of all compiled regions, and of the same calls uncompiled."""

    compiled: float
    plain: float
    runs: int


@dataclass(kw_only=True)
class Trials:
    """Runs candidates.

    ``probe`` is the failing program, ``path`` the file of it that is changed. ``keep`` writes a text to a
    file of the run and returns its path. ``clock`` turns a script into one that times its regions,
    ``seconds_of`` reads its output. ``spending`` counts all runs.
    """

    lab: Lab
    probe: Probe
    baseline: Baseline
    path: str
    source: str
    keep: Callable[[str], str]
    clock: Callable[[str], str | None]
    seconds_of: Callable[[Outcome], RegionSeconds | None]
    spending: SpendingTracker
    counts: dict[str, int] = field(default_factory=dict)
    #: By a candidate's text: its first run.
    _begun: dict[str, Outcome] = field(default_factory=dict, init=False)

    def run(self, candidates: Sequence[Candidate]) -> list[Workaround]:
        """Returns the candidates that pass; empty if the failure is too rare to tell a pass from luck."""
        repeats = 1
        if self.baseline.flaky:
            repeats = runs_to_see(cautious_rate(self.baseline.tally, 0.2), _DOUBT)
        if repeats > _MOST_REPEATS or self.spending.is_over:
            return []
        narrow = [one for one in candidates if one.width < _LAST_RESORT]
        wide = [one for one in candidates if one.width >= _LAST_RESORT]
        # The first wide one most likely passes. It runs beside the narrowest, so that there is an answer
        # even if the time ends with these two.
        self._begin([*narrow[:1], *wide][:_AT_ONCE])
        passed = self._passing(narrow, repeats, _ENOUGH)
        if not passed:
            passed = self._passing(wide, repeats, 1, sure=_SURE)
        failing = self._failing() if passed and not self.spending.is_over else None
        measured = [(one.width, self._measured(one, found, failing)) for one, found in passed]
        return [found for _, found in sorted(measured, key=_price)]

    def _passing(
        self, candidates: Sequence[Candidate], repeats: int, most: int, *, sure: int = 0
    ) -> list[tuple[Candidate, Workaround]]:
        """Returns the first candidates that pass, ``most`` at most; several are run side by side.

        The first ``sure`` ones are tried even if the time is over.
        """
        passed: list[tuple[Candidate, Workaround]] = []
        for number, candidate in enumerate(candidates):
            if len(passed) >= most:
                break
            if candidate.edited.text not in self._begun:
                if self.spending.is_over and number >= sure:
                    break
                at_once = min(_AT_ONCE, most - len(passed))
                self._begin(candidates[number : number + at_once])
            found = self._tried(candidate, repeats)
            if found is not None:
                passed.append((candidate, found))
        return passed

    def _begin(self, candidates: Sequence[Candidate]) -> None:
        """Makes the first plain run of some candidates, side by side."""
        runs = [(one, self._submit(replace(self._changed(one), bare=True))) for one in candidates]
        for one, future in runs:
            self._begun[one.edited.text] = self._answered(future)

    def _changed(self, candidate: Candidate) -> Probe:
        return replace(self.probe, edited=(self.path, self.keep(candidate.edited.text)))

    def _tried(self, candidate: Candidate, repeats: int) -> Workaround | None:
        """Returns the candidate as a workaround, if all of its runs passed."""
        assert self.baseline.target is not None
        silent = self.baseline.target.kind == "values"
        changed = self._changed(candidate)
        seconds = []
        for attempt in range(repeats):
            plain = (
                self._ask(replace(changed, bare=True, attempt=attempt))
                if attempt
                else self._begun[candidate.edited.text]
            )
            seconds.append(plain.seconds)
            if self._plain_verdict(plain, silent) is not Verdict.GOOD:
                return None
            if silent and not self._agrees(replace(changed, attempt=attempt)):
                return None
        run_s = sorted(seconds)[len(seconds) // 2]
        return Workaround(
            kind=candidate.kind,
            code=candidate.code,
            where=candidate.where,
            words=candidate.words,
            verified=Checked.VALUES if silent else Checked.PLAIN,
            cost=Cost(of="run", seconds=run_s, failing=self._plain_seconds(), runs=repeats),
        )

    def _plain_verdict(self, outcome: Outcome, silent: bool) -> Verdict:
        """Returns the verdict of a plain run; for a silent failure GOOD only means that it ends well."""
        if self.lab.oracle_undecided(outcome):
            return Verdict.SKIP
        signature = self.lab.signature(outcome)
        if silent:
            return Verdict.GOOD if signature is None and not outcome.notes else Verdict.DIFFERENT
        assert self.baseline.target is not None
        return judge(outcome, self.baseline.target, signature)

    def _agrees(self, probe: Probe) -> bool:
        """Whether the recorded values of the changed script agree with the uncompiled run's."""
        outcome = self._ask(probe)
        # With nothing compiled there is nothing to compare, so that shows nothing.
        return bool(outcome.facts.get("regions")) and (
            values_verdict(self.lab, self.baseline, outcome) is Verdict.GOOD
        )

    def _plain_seconds(self) -> float | None:
        """Returns the seconds of the unchanged script's plain run, if it ended well."""
        plain = [step.outcome for step in self.baseline.steps if not step.outcome.facts]
        return plain[0].seconds if plain and not plain[0].failed else None

    # -- costs ---------------------------------------------------------------------------------

    def _failing(self) -> RegionSeconds | None:
        """Times the failing compiled regions, if the script runs to its end."""
        return self._timed(self.source) if self._plain_seconds() is not None else None

    def _measured(self, candidate: Candidate, found: Workaround, failing: RegionSeconds | None) -> Workaround:
        compiles = candidate.width < UNCOMPILED
        timed = self._timed(candidate.edited.text) if compiles and not self.spending.is_over else None
        if timed is None:
            return found
        cost = Cost(
            of="region",
            seconds=timed.compiled,
            eager=timed.plain,
            # Each was measured against eager in its own process, so the ratio to eager relates them.
            failing=failing.compiled * timed.plain / failing.plain if failing and failing.plain else None,
            runs=timed.runs,
        )
        return replace(found, cost=cost)

    def _timed(self, text: str) -> RegionSeconds | None:
        clocked = self.clock(text)
        if clocked is None:
            return None
        edited = (self.path, self.keep(clocked))
        return self.seconds_of(self._ask(replace(self.probe, edited=edited, bare=True)))

    def _ask(self, probe: Probe) -> Outcome:
        return self._answered(self._submit(probe))

    def _submit(self, probe: Probe) -> Future[Outcome]:
        self.counts["workarounds"] = self.counts.get("workarounds", 0) + 1
        probe = replace(probe, rung=Rung.KERNEL, cold=True)
        if self.baseline.target is not None and self.baseline.target.kind == "timeout":
            limit = min(probe.limits.timeout_s, _HANG_S)
            probe = replace(probe, limits=replace(probe.limits, timeout_s=limit))
        return self.lab.submit(probe)

    def _answered(self, future: Future[Outcome]) -> Outcome:
        outcome = future.result()
        self.spending.add(outcome.seconds)
        return outcome


def _price(row: tuple[int, Workaround]) -> tuple[int, int]:
    """Sorts by cost relative to eager in steps of the noise, then width; unmeasured ones come last."""
    width, found = row
    cost = found.cost
    if cost is None or cost.of != "region" or not cost.eager or cost.seconds <= 0:
        return 1_000, width
    return round(math.log(cost.seconds / cost.eager, _NOISE)), width
