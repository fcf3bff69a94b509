"""Installs the rung in processes that the script starts, and reads their facts for the probe.

The probe's process sets a variable that names a job, and puts ``start/`` first on PYTHONPATH. Its child
processes inherit both, so spawned workers, launchers like ``torchrun`` and other scripts run on the probe's
rung. An interpreter started with ``-I``, ``-E`` or ``-S`` ignores both.

A process may be killed at any time, so its facts are written while its regions are called. Values are not
recorded, as those of several processes have no common order.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import Any, Dict, List

from ..artifacts import write_json
from ..runner import Session

#: Variable with the path of the job for started processes; ``start/sitecustomize.py`` reads it.
VARIABLE = "ACCEL_LAB_PROCESS_JOB"
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start")
_FOLDER = "processes"
_RESULT = "result.json"
#: Facts that do not concern the compiler, or only the probe's own process.
_OWN_FACTS = ("lab_error", "not_applicable", "other_entries", "determinism", "opened")
#: Facts that are lists of what was observed.
_OBSERVATIONS = ("meta_mismatches", "order_conflicts")
#: Facts that make the whole run inconclusive, whichever process has them.
_NO_ANSWER = ("lab_error", "not_applicable")


def announce(job: Any) -> None:
    """Makes Python processes that this process starts run on the job's rung."""
    folder = os.path.join(job["folder"], _FOLDER)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "job.json")
    switches = {name: value for name, value in job["switches"].items() if name != "other_processes"}
    write_json(path, dict(job, switches=switches, record_bytes=0, opened=False))
    os.environ[VARIABLE] = path
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_HOOK, os.environ.get("PYTHONPATH", ""))))


def begin(path: str) -> None:
    """Prepares the rung in a process that the script has started; ``path`` is the job's file."""
    with open(path, encoding="utf-8") as stream:
        job = json.load(stream)
    job["folder"] = os.path.join(os.path.dirname(path), str(os.getpid()))
    os.makedirs(job["folder"], exist_ok=True)
    session = Session(job)
    session.on_region = session.write_facts
    atexit.register(session.write_facts)
    session.prepare()


def facts_of(folder: str) -> Dict[str, Any]:
    """Returns the facts of the most relevant process: one in which a region raised, else one with calls.

    What was compared is that of all processes: only one of them may have the inputs that show a difference.
    """
    found: List[Dict[str, Any]] = []
    no_answer: Dict[str, Any] = {}
    try:
        names = sorted(os.listdir(os.path.join(folder, _FOLDER)))
    except OSError:
        return {}
    for name in names:
        try:
            with open(os.path.join(folder, _FOLDER, name, _RESULT), encoding="utf-8") as stream:
                facts = json.load(stream)["facts"]
        except (OSError, ValueError, KeyError):
            continue
        no_answer.update({key: facts[key] for key in _NO_ANSWER if facts.get(key)})
        if any(region.get("calls") for region in facts.get("regions") or []):
            found.append(facts)
    found.sort(key=lambda facts: not facts.get("caught"))
    found_facts = {name: value for name, value in found[0].items() if name not in _OWN_FACTS} if found else {}
    return {**found_facts, **_compared(found), **no_answer}


def _compared(found: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Returns the comparisons of all processes: lists of observations, and each Python kernel once."""
    merged: Dict[str, Any] = {}
    for name in _OBSERVATIONS:
        rows = [row for facts in found for row in facts.get(name) or []]
        if rows:
            merged[name] = [row for at, row in enumerate(rows) if row not in rows[:at]]
    kernels: Dict[str, Dict[str, Any]] = {}
    with_kernels = [facts["python_kernels"] for facts in found if facts.get("python_kernels")]
    for row in (row for one in with_kernels for row in one.get("kernels") or []):
        known = kernels.setdefault(row["op"], dict(row, different=[]))
        known["different"] += [one for one in row["different"] if one not in known["different"]]
    if with_kernels:
        merged["python_kernels"] = dict(with_kernels[0], kernels=list(kernels.values()))
    return merged
