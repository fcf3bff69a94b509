"""Turns the files that a process left into an Outcome."""

from __future__ import annotations

import json
import re
import signal as signals
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from accel_lab.core.outcome import Facts, Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe
from accel_lab.core.untrusted import records
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, refuse_malformed
from accel_lab.core.untrusted.fact_shapes import FACTS, RESULT
from accel_lab.protocol.facts import NO_META_RESULT
from accel_lab.protocol.files import META_KERNEL, OPENED

from . import sanitizer
from .processes.process import ProcessExit
from .run_folder.admission import discard
from .run_folder.workspace import Place, Workspace

_LAST_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_FAULT_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')

#: Messages of glibc before it aborts because the heap, the stack or a lock is corrupted.
_HEAP_CHECK = re.compile(
    r"(?:[cm]alloc|realloc|free|malloc_consolidate|m(?:unmap|remap)_chunk|tcache_thread_shutdown)\(\): "
    r"[a-z][^\n]*|corrupted size vs\. prev_size[^\n]*|corrupted double-linked list[^\n]*"
    r"|double free or corruption[^\n]*|invalid fastbin entry[^\n]*|break adjusted to free malloc space"
    r"|(?:malloc|tpp|pthread_\w{1,60})\.c:\d+: \w+: Assertion [^\n]*"
    r"|Fatal glibc error: (?:malloc|tpp\.c|pthread_\w{1,60}\.c)[^\n]*"
    r"|The futex facility returned an unexpected error code"
    r"|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*[^\n]*"
)
#: An abort for another reason, after whatever was printed before.
_OTHER_ABORT = re.compile(r"terminate called |: Assertion [`']")
_TAIL_BYTES = 64 * 1024
_STDERR_BYTES = 8 << 20

# File in which the warm server reports that the lab itself failed in a run, not the program.
CRASH = "crash.txt"
_OPENED_BYTES = 8 << 20
_OPENED_KINDS = ("read", "written", "listed", "handed", "pythonpath", "spawned")

#: Runs whose files are deleted unread, because they may be large.
_DISCARDED = (Status.REFUSED, Status.DISK)
_LIMITS = {
    "timeout": Status.TIMEOUT,
    "memory": Status.MEMORY,
    "output": Status.OUTPUT,
    "processes": Status.PROCESSES,
    "disk": Status.DISK,
}


def collect(folder: Path, ended: ProcessExit, *, warm: bool, bare: bool) -> Outcome:
    """Returns the Outcome of a run whose files are in ``folder``.

    Its status is ``REFUSED`` if the files are not what the lab's child writes.
    """
    try:
        return _collect(ChildFiles(folder), ended, warm=warm, bare=bare)
    except UntrustedFileError as error:
        return refused(folder, ended, error, warm=warm)


def collected(workspace: Workspace, place: Place, ended: ProcessExit, probe: Probe, *, warm: bool) -> Outcome:
    """Makes the files of a run that just ended safe to read, and returns its Outcome."""
    try:
        workspace.admit(place)
    except UntrustedFileError as error:
        return refused(place.folder, ended, error, warm=warm)
    place.view.rewrite_paths(place.folder)
    outcome = collect(place.folder, ended, warm=warm, bare=probe.bare)
    if outcome.status is Status.DISK:
        note = f"wrote more than {_size(probe.limits.disk_mb)}; --max-disk allows more"
        outcome = replace(outcome, notes=(*outcome.notes, note))
    if outcome.status in _DISCARDED and not outcome.facts:
        discard(place.folder, ("stdout.txt", "stderr.txt"))
    return outcome


def _size(mb: float) -> str:
    return f"{mb / 1024:g} GB" if mb >= 1024 else f"{mb:g} MB"


def refused(folder: Path, ended: ProcessExit, why: UntrustedFileError, *, warm: bool) -> Outcome:
    """Returns the Outcome of a run whose files the lab does not read.

    Its status is the limit that ended the run, if there was one, else ``REFUSED``.
    """
    return Outcome(
        status=Status.REFUSED if ended.limit is None else _LIMITS[ended.limit],
        exit_code=ended.exit_code,
        signal=ended.signal,
        seconds=ended.seconds,
        peak_mb=ended.peak_mb,
        warm=warm,
        folder=str(folder),
        notes=(f"what the run left was not read: {why}",),
    )


def _collect(files: ChildFiles, ended: ProcessExit, *, warm: bool, bare: bool) -> Outcome:
    folder = files.folder
    result = files.json("result.json", RESULT) or {}
    facts = cast(Facts, dict(result.get("facts") or {}))
    notes = [str(note) for note in result.get("notes") or ()]
    # Facts that the child wrote during the run, for runs that did not finish.
    if "regions" not in facts and (regions := files.json("regions.json", FACTS["regions"])) is not None:
        facts["regions"] = regions
    if "kernels" not in facts and (kernels := files.json("kernels.json", FACTS["kernels"])) is not None:
        facts["kernels"] = kernels
    entries = files.json("entries.json", FACTS["other_entries"]) if "other_entries" not in facts else None
    if entries is not None:
        facts["other_entries"] = entries
    if not result and (op := (files.head(META_KERNEL, 200) or "").strip()):
        facts["meta_mismatches"] = [
            dict(zip(("op", "what", "real", "fake"), (op, *NO_META_RESULT), strict=True))
        ]
    if opened := _opened(files):
        facts["opened"] = opened
    records.check(files)
    with refuse_malformed("result.json"):
        raised = Raised.from_json(result["raised"]) if result.get("raised") else None
    status = _status(ended, raised, bare)
    if facts.get("lab_error"):
        status = Status.REFUSED
        notes.append("the lab could not prepare this run: " + str(facts["lab_error"].get("message", "")))
    if (crash := files.text(CRASH)) is not None:
        status = Status.REFUSED
        facts["crashed"] = crash
        notes.append(f"the lab itself failed in this run: {crash}")
    elif (report := sanitizer.read_report(files)) is not None:
        facts["sanitizer"] = report
    elif not bare and not result and ended.exit_code is not None:
        notes.append("the program exited without returning to Python (os._exit or the like)")
    if facts.get("not_applicable"):
        status = Status.NOT_APPLICABLE
        notes.append(str(facts["not_applicable"]))
    if bare and ended.exit_code not in (None, 0):
        raised = _from_stderr(files.tail("stderr.txt", _STDERR_BYTES) or "")
        status = Status.EXCEPTION if raised is not None else Status.EXIT
    if ended.signal == signals.SIGABRT and (said := heap_check(files.tail("stderr.txt", _TAIL_BYTES) or "")):
        facts["heap_check"] = said
    if ended.signal is not None or ended.limit == "timeout":
        raised = _from_fault(files.head("fault.txt", _STDERR_BYTES) or "", ended) or raised
    return Outcome(
        status=status,
        exit_code=ended.exit_code,
        signal=ended.signal,
        raised=raised,
        seconds=ended.seconds,
        peak_mb=ended.peak_mb,
        torch=result.get("torch") or "",
        python=result.get("python") or "",
        warm=warm,
        folder=str(folder),
        facts=facts,
        notes=tuple(notes),
    )


def _status(ended: ProcessExit, raised: Raised | None, bare: bool) -> Status:
    if ended.limit is not None:
        return _LIMITS[ended.limit]
    if ended.signal is not None:
        return Status.SIGNAL
    if ended.exit_code == 0:
        return Status.OK
    if raised is not None and raised.type != "SystemExit" and not bare:
        return Status.MEMORY if raised.type == "MemoryError" else Status.EXCEPTION
    return Status.EXIT


def _opened(files: ChildFiles) -> dict[str, Any]:
    """Returns what the run opened, by kind and in order of first use; empty if that was not recorded."""
    found: dict[str, Any] = {kind: [] for kind in _OPENED_KINDS}
    for line in (files.head(OPENED, _OPENED_BYTES) or "").splitlines():
        try:
            kind, name = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            continue  # the last line is torn if the run was killed
        if kind == "cwd" and isinstance(name, str):
            found["cwd"] = name
        elif kind in _OPENED_KINDS and isinstance(name, str):
            found[kind].append(name)
    return {kind: names for kind, names in found.items() if names}


def heap_check(stderr: str) -> str:
    """Returns glibc's last message before an abort that glibc caused, else an empty string.

    ``terminate called`` and a failed ``assert`` are aborts that the program itself asks for.
    """
    said = list(_HEAP_CHECK.finditer(stderr))
    if not said or _OTHER_ABORT.search(stderr, said[-1].end()):
        return ""
    return said[-1].group().strip()[:200]


def _from_stderr(text: str) -> Raised | None:
    """Parses the last traceback in the stderr of a plain Python process."""
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("Traceback (most recent call last):")]
    if not starts:
        return None
    block = lines[starts[-1] :]
    frames, index = [], 1
    while index < len(block) and (block[index].startswith("  ") or not block[index].strip()):
        match = _FRAME.match(block[index])
        if match:
            frames.append(
                Frame(file=match["file"], line=int(match["line"]), function=match["function"] or "<module>")
            )
        index += 1
    rest = block[index:]
    match = _LAST_ERROR.match(rest[0]) if rest else None
    if match is None:
        return None
    message = "\n".join([match["message"] or "", *rest[1:]]).strip()
    return Raised(type=match["type"], message=message, frames=tuple(frames), text="\n".join(block))


def _from_fault(text: str, ended: ProcessExit) -> Raised | None:
    """Parses the Python stack that faulthandler wrote at a fatal signal or at a timeout."""
    current = text
    marker = text.find("Current thread")
    if marker >= 0:
        current = text[marker:]
        following = current.find("\nThread ")
        current = current[:following] if following >= 0 else current
    frames = []
    for line in current.splitlines():
        match = _FAULT_FRAME.match(line)
        if match and "accel_lab_child" not in match["file"]:
            frames.append(
                Frame(file=_short(match["file"]), line=int(match["line"]), function=match["function"])
            )
    if not frames and not text.strip():
        return None
    name = "timeout" if ended.signal is None else _signal_name(ended.signal)
    return Raised(type=name, message="", frames=tuple(reversed(frames)), text=text[-20000:])


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _short(path: str) -> str:
    cut = path.rfind("/site-packages/torch/")
    return path[cut + len("/site-packages/") :] if cut >= 0 else path
