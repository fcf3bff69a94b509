"""Runs the jobs of a triage through an executor, writes every result at once, and combines them.

The executor has the interface of ``concurrent.futures``: threads of this machine, each of which waits for a
process, or anything else that calls a function.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError

from .faults import changes, group
from .jobs import ERROR, Job, Result
from .scripts import Found, Script

SCHEMA = "accel-lab/triage/1"
#: Files in a triage's folder: its request, one line for each result, and the whole triage.
REQUEST, RESULTS, TRIAGE = "triage-request.json", "results.jsonl", "triage.json"
_MOST_BYTES = 1 << 30

Listener = Callable[[int, int, Result], None]


@dataclass(kw_only=True)
class EngineReport:
    """Where the bisections run, and one line for each fault of the engine that was recovered from."""

    name: str
    store: str = ""
    faults: list[str] = field(default_factory=list)


LOCAL = EngineReport(name="local")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a triage bisects. ``options`` are those of ``accel-lab bisect`` for each script."""

    place: str
    folder: Path
    cwd: str
    options: tuple[str, ...]
    found: Found

    @property
    def jobs(self) -> list[Job]:
        """One job for each distinct content; scripts with equal content share the result."""
        made: dict[str, Job] = {}
        for script in self.found.scripts:
            key = script.key(self.options)
            folder = str(self.folder / "scripts" / key)
            made.setdefault(
                key, Job(key=key, script=script, options=self.options, folder=folder, cwd=self.cwd)
            )
        return list(made.values())


def run(
    plan: Plan,
    executor: Executor,
    ask: Callable[[Job], Result],
    *,
    known: Mapping[str, Result],
    listener: Listener = lambda done, of, result: None,
    engine: EngineReport = LOCAL,
) -> dict[str, Any]:
    """Runs all jobs that are not ``known``, and returns the triage as JSON data.

    ``ask`` is called in the executor; an exception from it ends the triage. Every result is written to the
    folder at once. Jobs that the lab could not do are run again by the next triage.
    """
    began = time.monotonic()
    jobs = plan.jobs
    answers = {
        job.key: known[job.key] for job in jobs if job.key in known and known[job.key].verdict != ERROR
    }
    reused = len(answers)
    with (plan.folder / RESULTS).open("a", encoding="utf-8") as stream:
        for result in answers.values():
            _keep(stream, result)
        futures = [executor.submit(ask, job) for job in jobs if job.key not in answers]
        try:
            for future in as_completed(futures):
                result = future.result()
                answers[result.key] = result
                _keep(stream, result)
                listener(len(answers), len(jobs), result)
        finally:
            for future in futures:
                # It finished while another job ended the triage: keep its result too.
                if not future.cancel() and future.done() and future.exception() is None:
                    result = future.result()
                    if result.key not in answers and result.verdict != ERROR:
                        _keep(stream, result)
    results = [replace(answers[script.key(plan.options)], script=script) for script in plan.found.scripts]
    return whole(plan, results, reused=reused, seconds=time.monotonic() - began, engine=engine)


def whole(
    plan: Plan, results: Sequence[Result], *, reused: int, seconds: float, engine: EngineReport = LOCAL
) -> dict[str, Any]:
    """Returns the triage as JSON data."""
    return {
        "schema": SCHEMA,
        "place": plan.place,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "options": list(plan.options),
        "scripts": [_row(result) for result in results],
        "faults": [fault.to_json() for fault in group(results)],
        "refused": list(plan.found.refused),
        "asked": len(plan.jobs) - reused,
        "reused": reused,
        "seconds": round(seconds, 1),
        "engine": {"name": engine.name, "store": engine.store, "faults": list(engine.faults)},
        "changes": None,
        "artifacts": str(plan.folder),
    }


def _row(result: Result) -> dict[str, Any]:
    return {
        "script": result.script.name,
        "path": result.script.path,
        "sha256": result.script.sha256,
        "verdict": result.verdict,
        "said": result.said,
        "confidence": result.confidence,
        "run": result.run,
        "repro": result.repro,
        "lines": result.lines,
        "seconds": round(result.seconds, 1),
        "probes": result.probes,
        "torch": result.torch,
        "unasked": list(result.notes),
    }


def _keep(stream: Any, result: Result) -> None:
    stream.write(json.dumps(result.to_json()) + "\n")
    stream.flush()
    os.fsync(stream.fileno())


def kept_results(folder: Path) -> dict[str, Result]:
    """Returns the results in a triage's folder by key; skips a torn last line and results without a run."""
    try:
        data = ChildFiles(folder).data(RESULTS, _MOST_BYTES) or b""
    except (UntrustedFileError, OSError):
        return {}
    found: dict[str, Result] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            result = Result.from_json(json.loads(line))
        except (ValueError, RecursionError):
            continue
        if result.run and (Path(result.run) / "report.json").is_file():
            found[result.key] = result
    return found


def last_triage(folders: Iterable[Path], place: str) -> Path | None:
    """Returns the newest finished triage of the same place among some folders, or None."""
    found = []
    for folder in folders:
        try:
            data = ChildFiles(folder).json(TRIAGE, {"schema": str, "place": str, "time": str})
        except (UntrustedFileError, OSError):
            continue
        if data is not None and data["schema"] == SCHEMA and data["place"] == place:
            found.append((data["time"], folder))
    return max(found, default=(None, None))[1]


def compared(triage: dict[str, Any], earlier: Path | None) -> dict[str, Any]:
    """Returns the triage with the changes since ``earlier``; unchanged if that is None or damaged."""
    if earlier is None:
        return triage
    try:
        before = ChildFiles(earlier).json(
            TRIAGE,
            {
                "time": str,
                "scripts": [{"script": str, "verdict": str}],
                "faults": [{"id": str, "members": [str]}],
            },
            most=_MOST_BYTES,
        )
    except UntrustedFileError:
        return triage
    return {**triage, "changes": changes(triage, before)} if before is not None else triage


__all__ = [
    "LOCAL",
    "REQUEST",
    "RESULTS",
    "SCHEMA",
    "TRIAGE",
    "EngineReport",
    "Plan",
    "Script",
    "compared",
    "kept_results",
    "last_triage",
    "run",
    "whole",
]
