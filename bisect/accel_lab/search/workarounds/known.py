"""Matches known failures: catalogue entries with the same stage and component, confirmed by a run.

A name alone is no match. The entry's own script has to fail on the same build in the same kind of way. If a
few pasted lines make the user's script pass, the entry has to pass with them too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from packaging.version import InvalidVersion, Version

from accel_lab.core.component_names import same_component
from accel_lab.core.findings import Culprit, Findings
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.record import Record
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.time_budget import SpendingTracker
from accel_lab.core.workarounds import KnownFailure, Workaround
from accel_lab.search.lab import Lab
from accel_lab.search.ladder_runner import Switches

from .script_edits import paste

#: Component kinds whose names are torch's own; other components have names from the user's script.
_OF_TORCH = frozenset({"op", "decomposition", "pass", "pattern", "reinplacing", "setting", "cache"})
_KERNEL = frozenset({Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL})
#: Maximum entries that are run.
MOST_ENTRIES = 3
#: Exceptions by which a script's own check ends; the message is the script's, not torch's.
_CHECKS = ("AssertionError", "SystemExit")
#: The kind of failure of a script that shows wrong numbers, whoever noticed them.
_NUMBERS = ("numbers", "")
#: A torch file in a traceback.
_OF_TORCHS = re.compile(r"(?:^|/)torch/")


@dataclass(frozen=True, kw_only=True)
class Entry(Record):
    """One failure of the catalogue, with the script that shows it."""

    entry: str
    title: str
    issue: int | None
    stages: tuple[str, ...]
    component: str
    fails_on: tuple[str, ...]
    passes_on: tuple[str, ...]
    script: str

    @property
    def fixed_in(self) -> str | None:
        """The oldest release that passes and is newer than all that fail, among those that were run."""
        fails, passes = _sorted(self.fails_on), _sorted(self.passes_on)
        newer = [one for one in passes if not fails or Version(one) > Version(fails[-1])]
        return newer[0] if newer else None


def _sorted(releases: Iterable[str]) -> list[str]:
    try:
        return sorted(releases, key=Version)
    except InvalidVersion:
        return []


@cache
def catalogue() -> tuple[Entry, ...]:
    """Returns all entries that the package ships."""
    text = resources.files(__package__).joinpath("catalogue.json").read_text(encoding="utf-8")
    return tuple(Entry.from_json(row) for row in json.loads(text))


def alike(culprit: Culprit, entries: Sequence[Entry]) -> list[Entry]:
    """Returns entries with the same stage and component, which are worth a run."""
    part = culprit.component
    if part is None or part.kind not in _OF_TORCH:
        return []
    stages = {stage.value for stage in _KERNEL} if culprit.stage is Stage.KERNEL else {culprit.stage.value}
    return [
        entry
        for entry in entries
        if stages & set(entry.stages) and same_component(entry.component, part.name)
    ]


@dataclass(kw_only=True)
class KnownSearch:
    """Runs entries on the build of ``probe``.

    ``keep`` writes a text to a file of the run and returns its path. No run starts that would probably exceed
    ``spending``.
    """

    lab: Lab
    probe: Probe
    keep: Callable[[str], str]
    spending: SpendingTracker
    counts: dict[str, int]

    def run(self, findings: Findings, entries: Sequence[Entry]) -> list[KnownFailure]:
        """Returns the entries that match, in catalogue order."""
        culprit = findings.culprit
        if culprit is None or findings.signature is None:
            return []
        found = []
        for entry in alike(culprit, entries)[:MOST_ENTRIES]:
            if self.spending.is_over:
                break
            wanted = failure_class(findings.signature, _raised(findings))
            shown = self._shown(entry, wanted, findings.workarounds)
            if shown:
                name = culprit.component.name if culprit.component is not None else ""
                found.append(
                    KnownFailure(
                        entry=entry.entry,
                        title=entry.title,
                        issue=entry.issue,
                        match=f"the same stage ({culprit.stage.value}) and component ({name})",
                        shown=shown,
                        fails_on=entry.fails_on,
                        passes_on=entry.passes_on,
                        fixed_in=entry.fixed_in,
                    )
                )
        return found

    def _shown(self, entry: Entry, wanted: tuple[str, str], workarounds: Sequence[Workaround]) -> str:
        """Describes how the entry's runs ended if they show the same failure; else empty."""
        ended = self._ask(entry.script)
        if not ended.failed:
            return self._shown_by_values(entry) if wanted == _NUMBERS else ""
        if ended.status is Status.TIMEOUT:
            return ""
        signature = self.lab.signature(ended)
        if signature is None or failure_class(signature, ended.raised) != wanted:
            return ""
        how = f"it fails with exit code {ended.exit_code}" if ended.exit_code is not None else "it fails too"
        lines = _transferable(workarounds)
        edited = paste(entry.script, lines) if lines else None
        if edited is None or self.spending.is_over:
            return how
        if self._ask(edited.text).failed:
            return ""
        return f"{how}, and passes with the lines of the first workaround"

    def _shown_by_values(self, entry: Entry) -> str:
        """Compares the values of an entry that ends well with those of a float64 run; empty if they agree."""
        if self.spending.is_over and not self.lab.is_warm:
            return ""
        exact = self._ask(entry.script, rung=Rung.UNCOMPILED, switches=(("shadow", True),), bare=False)
        compiled = self._ask(entry.script, bare=False)
        if exact.failed or compiled.failed or not self.lab.differences(compiled, exact, exact):
            return ""
        return "it ends without an error, and its compiled regions return wrong values"

    def _ask(
        self, script: str, *, rung: Rung = Rung.KERNEL, switches: Switches = (), bare: bool = True
    ) -> Outcome:
        """Runs a script; a bare run is cold and without the lab."""
        self.counts["known"] = self.counts.get("known", 0) + 1
        path = self.keep(script)
        program = Program(path=path, sha256=path.rpartition("/")[2].removesuffix(".py"))
        probe = replace(
            self.probe,
            program=program,
            rung=rung,
            switches=switches,
            bare=bare,
            cold=bare,
            edited=None,
        )
        outcome = self.lab.submit(probe).result()
        self.spending.add(outcome.seconds)
        return outcome


def _transferable(workarounds: Sequence[Workaround]) -> list[str]:
    """Returns the first workaround's pasted lines, which refer only to torch and so fit other scripts."""
    first = next((one for one in workarounds if one.where == "paste"), None)
    return first.code.splitlines() if first is not None else []


def failure_class(signature: Signature, raised: Raised | None) -> tuple[str, str]:
    """Returns the kind of failure: wrong numbers, whoever noticed them, or one type of torch error.

    ``raised`` ended the run. An error raised by the script's own check counts as wrong numbers.
    """
    kind, name = signature.kind, signature.type.rpartition(".")[2]
    if kind in ("values", "check", "regex", "exit") or name in _CHECKS or not name:
        return _NUMBERS
    last = raised.frames[-1].file if raised is not None and raised.frames else ""
    if kind == "exception" and last and (not _OF_TORCHS.search(last) or "torch/testing/" in last):
        return _NUMBERS
    return (kind, name)


def _raised(findings: Findings) -> Raised | None:
    """Returns the exception that ended the user's script, preferably one with frames; or None."""
    found = [step.outcome.raised for step in findings.baseline if step.outcome.raised is not None]
    return next((one for one in found if one.frames), found[0] if found else None)
