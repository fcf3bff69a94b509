"""Judges a release by runs made on another machine: what is requested, and how the results are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import Environment, EnvironmentId, EnvironmentSpec, Index
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Program
from accel_lab.core.record import Record
from accel_lab.core.signature import Signature
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.search.repeats import Tally

from .build_verdict import TargetFailure

#: File in the folder of a release whose runs another machine made.
REMOTE = "remote.json"


class RemoteLost(LabError):
    """The remote runner is gone, so that the search cannot continue (exit code 3)."""


class RemoteReleases(Protocol):
    """Gets the runs of releases made on other machines; thread-safe."""

    @property
    def side_by_side(self) -> int:
        """The number of releases that may be requested at a time."""

    @property
    def notes(self) -> Sequence[str]:
        """Problems of the machines that were recovered from, one line each."""

    def fetch(self, version: str, spec: EnvironmentSpec, folder: Path, target: TargetFailure | None) -> None:
        """Gets all runs made that judge a release by ``target`` (None: all rungs of the matrix).

        ``spec`` describes the environment as it would be made here. ``folder``, which must not exist, is
        filled as if the runs had been made in it, plus :data:`REMOTE`. Earlier requests are not repeated.
        Raises :class:`LabError` for a release that no machine could run; :class:`RemoteLost` and
        ``Interrupted`` end the search.
        """

    def stop(self) -> None:
        """Ends all waiting."""


@dataclass(frozen=True, kw_only=True)
class RemoteRuns(Record):
    """How the machine that made a release's runs named their probes.

    ``release`` is the release's name there. ``environment`` is that of its findings, so without the package
    index. ``worker`` is the machine's address.
    """

    release: str
    program: Program
    environment: dict[str, Any]
    worker: str = ""

    def write(self, folder: Path) -> None:
        write_atomic(folder / REMOTE, json.dumps(self.to_json(), indent=1))

    @classmethod
    def of(cls, folder: Path) -> RemoteRuns | None:
        """Reads a release's folder; None if its runs were made here.

        Raises :class:`UntrustedFileError` if the record is damaged.
        """
        read = ChildFiles(folder).json(REMOTE)
        if read is None:
            return None
        try:
            made = cls.from_json(read)
            Environment.from_json(made.environment)
        except ValueError as error:
            raise UntrustedFileError(f"{folder / REMOTE}: {error}") from None
        return made

    def made(self, here: EnvironmentSpec) -> Environment:
        """Returns the environment, with the spec ``here`` if both specs are equal but for the index."""
        there = Environment.from_json(self.environment)
        same = replace(here, index=Index()) == there.spec
        return replace(there, spec=here) if same else there

    @property
    def identity(self) -> EnvironmentId:
        """The name of the environment in the probes."""
        spec = self.environment["spec"]
        text = f"torch {self.release} {spec['provider']} {spec.get('key', '')}"
        return EnvironmentId(text=text, release=self.release)


@dataclass(frozen=True, kw_only=True)
class SentFailure(Record):
    """The part of a failure that decides which runs a release needs.

    The wrong values are not part of it: they only decide whether it is the same failure.
    """

    signature: Signature
    runs: int
    failures: int
    verdicts: int
    eager: bool
    compiled: bool

    @classmethod
    def of(cls, target: TargetFailure) -> SentFailure:
        return cls(
            signature=replace(target.signature, said=""),
            runs=target.tally.runs,
            failures=target.tally.failures,
            verdicts=target.verdicts,
            eager=target.eager,
            compiled=target.compiled,
        )

    @property
    def target(self) -> TargetFailure:
        return TargetFailure(
            signature=self.signature,
            tally=Tally(runs=self.runs, failures=self.failures),
            verdicts=self.verdicts,
            eager=self.eager,
            compiled=self.compiled,
        )
