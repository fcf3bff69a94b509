"""A line of builds without environments: each release answers as a small table says, and every run is noted.

The provider gives interpreters that do not exist; the prober's runner writes what a child would have
written. So everything between the command line and the process is the real thing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.machine.environment import Environment, EnvironmentSpec, EnvironmentUnavailable, Release
from accel_lab.core.process_exit import ProcessExit

#: What a run does: ``ok``, or an exception's type and message.
Deed = str | tuple[str, str]
#: ``behave(release, rung, job)`` says what a run does.
Behave = Callable[[str, str, Mapping[str, Any]], Deed]

REGIONS = [{"id": 0, "name": "f", "backend": "inductor"}]
ORDER = ("uncompiled", "dynamo", "aot", "partition", "decomp", "fx", "kernel")


@dataclass
class FakeProvider:
    """``line`` maps releases to behaviour; ``missing`` cannot be made; ``packages`` are the companions."""

    behave: Behave
    names: Sequence[str]
    missing: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pinnable: bool = True
    name: str = "uv"
    #: The numbers that a measured run has: ``numbers(release, attempt)``.
    numbers: Callable[[str, int], Mapping[str, Any]] = lambda release, attempt: {}
    #: Interpreters of releases that are there already, as the local provider has them.
    pythons: Mapping[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    runs: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def releases(self, *, pre: bool = False) -> list[Release]:
        return [Release(version=name) for name in self.names]

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        if pins and not self.pinnable:
            raise EnvironmentUnavailable("packages cannot be held here")
        python = self.pythons.get(version, "3.11")
        return EnvironmentSpec(provider=self.name, torch=version, python=python, pins=tuple(pins))

    def make(self, spec: EnvironmentSpec) -> Environment:
        if spec.torch in self.missing:
            raise EnvironmentUnavailable(self.missing[spec.torch])
        with self.lock:
            self.made.append(spec.label)
        packages = {**self.packages.get(spec.torch, {}), **dict(spec.pins)}
        return Environment(
            spec=spec,
            python=f"/no/such/{spec.torch}/{'+'.join(f'{n}={v}' for n, v in spec.pins)}/python",
            provenance={"packages": packages, "python": "3.11.7"},
            seconds=1.0,
        )

    def runner(self, environment: Environment, workspace: Any) -> Callable[..., ProcessExit]:
        """Plays the child: the files that it would write, and how it would end."""

        def run(command: Sequence[str], *, stdout: Path, stderr: Path, **_: Any) -> ProcessExit:
            release = environment.spec.torch
            if "files" in command:
                return self._tell_files(release, command, stdout)
            if "doctor" in command:
                stdout.write_text(json.dumps({"torch": release, "packages": {}, "accelerators": []}))
                return ProcessExit(exit_code=0)
            job = json.loads(Path(command[-1]).read_text()) if "once" in command else {}
            bare = not job
            rung = "kernel" if bare else job["rung"]
            with self.lock:
                self.runs.append((release, "plain" if bare else rung))
            held = dict(environment.spec.pins)
            deed = self.behave(release, rung, {**job, "pins": held, "bare": bare})
            measures = dict(self.numbers(release, job.get("seed", 0))) if job else {}
            return self._end(deed, release, job, stderr, measures)

        return run

    @staticmethod
    def _end(
        deed: Deed, release: str, job: Mapping[str, Any], stderr: Path, measures: Mapping[str, Any]
    ) -> ProcessExit:
        code = 0 if deed == "ok" else 1
        raised = None
        if isinstance(deed, tuple):
            raised = {"type": deed[0], "message": deed[1], "frames": [], "text": "", "links": []}
            head = 'Traceback (most recent call last):\n  File "s.py", line 1, in <module>\n'
            stderr.write_text(f"{head}{deed[0]}: {deed[1]}\n")
        if job:
            reached = not (isinstance(deed, tuple) and deed[0] == "AttributeError")
            result: dict[str, Any] = {
                "exit_code": code,
                "raised": raised,
                "torch": release,
                "python": "3.11.7",
                "facts": {"regions": REGIONS if reached else [], "applied": {}, "measures": measures},
                "notes": [],
            }
            Path(job["folder"], "result.json").write_text(json.dumps(result))
            artifacts = Path(job["folder"], "artifacts")
            artifacts.mkdir(exist_ok=True)
            (artifacts / "output_code_0.py").write_text(f"# made by {release}\nasync_compile = 1\n")
        return ProcessExit(exit_code=code, seconds=0.1)

    def _tell_files(self, release: str, command: Sequence[str], stdout: Path) -> ProcessExit:
        place = command.index("files")
        target, prefixes = Path(command[place + 1]), tuple(command[place + 2 :])
        listed = {}
        for name, text in self.files.get(release, {}).items():
            if name.startswith(prefixes):
                listed[name] = text
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        stdout.write_text(json.dumps({"files": listed, "native": {"libtorch.so": release}}))
        return ProcessExit(exit_code=0)


def broken_between(
    first_bad: str,
    fixed: str | None,
    names: Sequence[str],
    rung: str = "fx",
    deed: Deed = ("ValueError", "boom"),
) -> Behave:
    """Fails with ``deed`` at ``rung`` and above, from ``first_bad`` to the release before ``fixed``."""
    bad = list(names)[list(names).index(first_bad) : list(names).index(fixed) if fixed else None]

    def behave(release: str, at: str, job: Mapping[str, Any]) -> Deed:
        if release in bad and at in ORDER and ORDER.index(at) >= ORDER.index(rung):
            return deed
        return "ok"

    return behave
