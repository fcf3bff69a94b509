"""Instruments in a process that the probed script starts: its rung, and the facts for the probe.

The probe's process names a job in its environment and puts ``start/`` first on PYTHONPATH. What it starts
inherits both, so that a pool of spawned workers, a launcher like ``torchrun`` and a script of its own run on
the rung that the question asks for. An interpreter started with ``-I``, ``-E`` or ``-S`` reads neither.

A process may be ended at any moment, so its facts are written as its regions are called. Nothing is recorded:
the values of several processes have no common order.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import Any, Dict, List

from ..artifacts import write_json
from ..runner import Session

#: Names the job in the environment of the processes that the script starts; start/sitecustomize.py reads it.
VARIABLE = "ACCEL_LAB_PROCESS_JOB"
_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start")
_FOLDER = "processes"
_RESULT = "result.json"
#: What says nothing of the compiler, or something of the probe's own process alone.
_OWN_FACTS = ("lab_error", "not_applicable", "other_entries", "determinism", "opened")
#: What takes every answer from the whole run, whichever process says it.
_NO_ANSWER = ("lab_error", "not_applicable")


def announce(job: Any) -> None:
    """Let the Python processes that this one starts run on the job's rung."""
    folder = os.path.join(job["folder"], _FOLDER)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "job.json")
    switches = {name: value for name, value in job["switches"].items() if name != "other_processes"}
    write_json(path, dict(job, switches=switches, record_bytes=0, opened=False))
    os.environ[VARIABLE] = path
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_HOOK, os.environ.get("PYTHONPATH", ""))))


def begin(path: str) -> None:
    """In a process that the script has started: prepare the rung, as in the probe's own process."""
    with open(path, encoding="utf-8") as stream:
        job = json.load(stream)
    job["folder"] = os.path.join(os.path.dirname(path), str(os.getpid()))
    os.makedirs(job["folder"], exist_ok=True)
    session = Session(job)
    session.on_region = session.write_facts
    atexit.register(session.write_facts)
    session.prepare()


def facts_of(folder: str) -> Dict[str, Any]:
    """The facts of the process that tells most: one in which a region raised, else one with regions."""
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
    told = {name: value for name, value in found[0].items() if name not in _OWN_FACTS} if found else {}
    return {**told, **no_answer}
