"""Implements the interface ``search.lab.Lab`` with real probes, recorded values and the user's oracle."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from accel_lab.core.errors import Unanswered
from accel_lab.core.findings import Agreement
from accel_lab.core.judge import signature_of
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Limits, Probe
from accel_lab.core.record import Record
from accel_lab.core.signature import Signature
from accel_lab.core.text import shorten
from accel_lab.core.time_budget import TimeBudget
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.execution.auxiliary import Interrupted, auxiliary_folder
from accel_lab.execution.prober import Prober
from accel_lab.execution.processes import process
from accel_lab.numerics import recording, records
from accel_lab.numerics.tolerances import ComparisonConfig

TAIL_BYTES = 200_000
COMPILER_TIMEOUT_S = 60.0
#: File in a probe's folder that keeps the exit code of ``--check``.
_CHECKED = "checked.json"


@dataclass(frozen=True, kw_only=True)
class Oracle(Record):
    """What counts as the failure, in addition to how the script ends.

    ``check`` is a shell command that runs in the probe's folder: exit code 0 is good, 125 cannot tell, any
    other bad. ``fail_regex`` is searched in the script's output.
    """

    check: str | None = None
    fail_regex: str | None = None
    comparison: ComparisonConfig = field(default_factory=ComparisonConfig)


class LocalLab:
    """The :class:`accel_lab.search.lab.Lab` that runs probes on this machine."""

    def __init__(self, prober: Prober, oracle: Oracle, *, cold_only: str = "") -> None:
        self._prober = prober
        self._oracle = oracle
        self._cold_only = cold_only
        self._checked: dict[str, int] = {}
        self.load = lru_cache(maxsize=64)(recording.load)

    @property
    def is_warm(self) -> bool:
        return self._prober.is_warm

    @property
    def time_budget(self) -> TimeBudget:
        return self._prober.time_budget

    def submit(self, probe: Probe) -> Future[Outcome]:
        return self._prober.submit(probe)

    def warm_up(self) -> None:
        if not self._cold_only:
            self._prober.warm_up()

    def go_cold(self) -> None:
        self._prober.go_cold()

    def use_fixed_seed(self) -> None:
        self._prober.fixed_seed = True

    def check_heap(self, on: bool) -> None:
        self._prober.check_heap(on)

    # -- the oracle ----------------------------------------------------------------------------

    def signature(self, outcome: Outcome) -> Signature | None:
        """Returns the failure by ``--check``, else ``--fail-regex``, else by the script's end; or None."""
        if not outcome.was_run:
            return None
        if self._oracle.check is not None:
            code = self._check(outcome)
            return None if code in (0, 125) else Signature(kind="check", type=f"exit {code}")
        if self._oracle.fail_regex is not None:
            match = re.search(self._oracle.fail_regex, self._printed(outcome), re.M)
            return None if match is None else Signature(kind="regex", message=self._oracle.fail_regex)
        return signature_of(outcome, self._tail(outcome, "stdout.txt"), self._tail(outcome, "stderr.txt"))

    def oracle_undecided(self, outcome: Outcome) -> bool:
        return self._oracle.check is not None and self._check(outcome) == 125

    def _check(self, outcome: Outcome) -> int:
        if outcome.folder not in self._checked:
            folder = Path(outcome.folder)
            if self._prober.replay:
                self._checked[outcome.folder] = _kept_code(folder)
                return self._checked[outcome.folder]
            ended = process.run(
                ["/bin/sh", "-c", str(self._oracle.check)],
                cwd=folder,
                env={
                    **self._prober.environment,
                    "ACCEL_LAB_EXIT_CODE": "" if outcome.exit_code is None else str(outcome.exit_code),
                    "ACCEL_LAB_STATUS": outcome.status.value,
                },
                stdout=folder / "check.out.txt",
                stderr=folder / "check.err.txt",
                limits=Limits(timeout_s=60.0),
                marker=f"check-{uuid.uuid4().hex}",
                stop=self._prober.stopping,
            )
            if ended.limit == "interrupted":
                raise Interrupted("interrupted")
            code = 125 if ended.exit_code is None else ended.exit_code
            write_atomic(folder / _CHECKED, json.dumps({"code": code}))
            self._checked[outcome.folder] = code
        return self._checked[outcome.folder]

    def _printed(self, outcome: Outcome) -> str:
        return self._tail(outcome, "stdout.txt") + self._tail(outcome, "stderr.txt")

    @staticmethod
    def _tail(outcome: Outcome, name: str) -> str:
        try:
            return (ChildFiles(outcome.folder).tail(name, TAIL_BYTES) if outcome.folder else None) or ""
        except UntrustedFileError:
            return ""

    # -- recorded values -----------------------------------------------------------------------

    def differences(
        self, got: Outcome, want: Outcome, reference: Outcome | None = None
    ) -> list[records.Difference]:
        wanted = self.load((reference or want).folder)
        return records.failures(records.diff(self.load(got.folder), wanted, self._oracle.comparison))

    def eager_is_off(self, got: Outcome, reference: Outcome) -> bool:
        one, two = self.load(got.folder), self.load(reference.folder)
        return records.eager_is_off(one, two, self._oracle.comparison)

    def agreement(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> Agreement | None:
        config, prefilter = self._oracle.comparison, reference is None
        one, two = self.load(got.folder), self.load((reference or want).folder)
        if records.failures(records.diff(one, two, config, prefilter=prefilter)):
            return None
        return records.agreement(one, two, config, prefilter=prefilter)

    def same_differences(self, one: Sequence[Any], two: Sequence[Any]) -> bool:
        return records.same_difference(list(one), list(two))

    # -- the machine ---------------------------------------------------------------------------

    def compiler_works(self) -> tuple[bool, str]:
        """Compiles an empty library with ``CXX`` (default g++, as Inductor does) in the probes' environment.

        Returns whether that works, and the compiler or the error.
        """
        folder = auxiliary_folder(self._prober.workspace.root, "compiler")
        source, library = folder / "empty.cpp", folder / "empty.so"
        if not self._prober.replay:
            source.write_text('#include <cmath>\nextern "C" int answer() { return 42; }\n')
            library.unlink(missing_ok=True)
        compiler = self._prober.environment.get("CXX") or "g++"
        try:
            ended, _ = self._prober.run_auxiliary(
                "compiler",
                [compiler, "-shared", "-fPIC", str(source), "-o", str(library)],
                timeout_s=COMPILER_TIMEOUT_S,
            )
        except (Interrupted, Unanswered):
            raise
        except Exception as error:
            return False, f"{compiler}: {error}"
        if ended.exit_code == 0 and library.exists():
            return True, compiler
        said = (ChildFiles(folder).tail("err.txt", TAIL_BYTES) or "").strip().splitlines()
        return False, f"{compiler} ended with {ended.exit_code}" + (
            f": {shorten(said[-1], 200)}" if said else ""
        )


def _kept_code(folder: Path) -> int:
    """Returns the exit code of ``--check`` that an earlier run kept, or raises :class:`Unanswered`."""
    try:
        code = json.loads((folder / _CHECKED).read_text(encoding="utf-8"))["code"]
    except (OSError, ValueError, KeyError, TypeError):
        code = None
    if not isinstance(code, int):
        raise Unanswered(f"the run's folder does not say what --check said of probe {folder.name}")
    return code
