"""A release whose runs are made on another machine: what is asked there, and the answers read again here."""

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
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.search.repeats import Tally

from .build_verdict import TargetFailure

#: In the folder of a release whose runs another machine made.
REMOTE = "remote.json"


class RemoteLost(LabError):
    """Who makes the runs is gone, so that the search cannot go on now (exit code 3)."""


class RemoteReleases(Protocol):
    """Has the runs of releases made on other machines; many threads may ask."""

    @property
    def side_by_side(self) -> int:
        """How many releases may be asked at a time."""

    @property
    def notes(self) -> Sequence[str]:
        """What befell the machines and was made good, one line each."""

    def fetch(self, version: str, spec: EnvironmentSpec, folder: Path, target: TargetFailure | None) -> None:
        """Have all runs of a release made that judge it by ``target`` (None: all rungs of the matrix).

        ``spec`` is what its environment would be made from here.
        ``folder``, which is not there yet, is then as if they had been made in it, and holds :data:`REMOTE`.
        What was asked before is not asked again. Raises :class:`LabError` for a release that no machine could
        run, :class:`RemoteLost` and ``Interrupted`` for what ends the search.
        """

    def stop(self) -> None:
        """End all waiting."""


@dataclass(frozen=True, kw_only=True)
class RemoteRuns(Record):
    """How the probes of a release were named on the machine that made them.

    ``release`` is the release's name there. ``environment`` is as in the findings there, so without the index
    of packages. ``worker`` is the machine's address.
    """

    release: str
    program: Program
    environment: dict[str, Any]
    worker: str = ""

    def write(self, folder: Path) -> None:
        write_atomic(folder / REMOTE, json.dumps(self.to_json(), indent=1))

    @classmethod
    def of(cls, folder: Path) -> RemoteRuns | None:
        """What a release's folder holds; None for one whose runs were made here.

        Raises :class:`Refused` where it is damaged.
        """
        read = ChildFiles(folder).json(REMOTE)
        if read is None:
            return None
        try:
            made = cls.from_json(read)
            Environment.from_json(made.environment)
        except ValueError as error:
            raise Refused(f"{folder / REMOTE}: {error}") from None
        return made

    def made(self, here: EnvironmentSpec) -> Environment:
        """The environment. Made from the same as it would be ``here``, it has the same description."""
        there = Environment.from_json(self.environment)
        same = replace(here, index=Index()) == there.spec
        return replace(there, spec=here) if same else there

    @property
    def identity(self) -> EnvironmentId:
        """What the probes call the environment."""
        spec = self.environment["spec"]
        text = f"torch {self.release} {spec['provider']} {spec.get('key', '')}"
        return EnvironmentId(text=text, release=self.release)


@dataclass(frozen=True, kw_only=True)
class SentFailure(Record):
    """As much of a failure as decides which runs a release needs.

    Which values are wrong is not part of it: they only say whether it is the same failure.
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
