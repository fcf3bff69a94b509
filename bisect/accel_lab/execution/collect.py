"""Turns what a process left behind into an Outcome."""

from __future__ import annotations

import json
import re
import signal as signals
from pathlib import Path
from typing import Any

from accel_lab.core.outcome import Frame, Outcome, Raised, Status

from . import sanitizer
from .process import Ended

_LAST_ERROR = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|\w*))(?:: (?P<message>.*))?$"
)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_FAULT_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$')

#: What glibc says before it aborts because it found its heap, the stack or a lock overwritten.
_HEAP_CHECK = re.compile(
    r"(?:[cm]alloc|realloc|free|malloc_consolidate|m(?:unmap|remap)_chunk|tcache_thread_shutdown)\(\): "
    r"[a-z][^\n]*|corrupted size vs\. prev_size[^\n]*|corrupted double-linked list[^\n]*"
    r"|double free or corruption[^\n]*|invalid fastbin entry[^\n]*|break adjusted to free malloc space"
    r"|(?:malloc|tpp|pthread_\w+)\.c:\d+: \w+: Assertion [^\n]*"
    r"|Fatal glibc error: (?:malloc|tpp\.c|pthread_\w+\.c)[^\n]*"
    r"|The futex facility returned an unexpected error code"
    r"|\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*[^\n]*"
)
#: Aborts that somebody else made, after whatever was printed before.
_OTHER_ABORT = re.compile(r"terminate called |: Assertion [`']")
_TAIL_BYTES = 64 * 1024

# Where the warm server says that a run ended by a mistake of the lab, not by the program.
CRASH = "crash.txt"
# The files that the program opened, one a line (``child.opened``).
OPENED = "opened.txt"
_OPENED_BYTES = 8 << 20
_OPENED_KINDS = ("read", "written", "listed", "handed", "pythonpath")

_LIMITS = {
    "timeout": Status.TIMEOUT,
    "memory": Status.MEMORY,
    "output": Status.OUTPUT,
    "processes": Status.PROCESSES,
}


def collect(folder: Path, ended: Ended, *, warm: bool, bare: bool) -> Outcome:
    """The Outcome of a run whose files lie in ``folder``."""
    result = _read_json(folder / "result.json") or {}
    facts: dict[str, Any] = dict(result.get("facts") or {})
    notes = [str(note) for note in result.get("notes", ())]
    for name, file in (("regions", "regions"), ("kernels", "kernels"), ("other_entries", "entries")):
        if name not in facts:
            left = _read_json(folder / f"{file}.json")
            if left is not None:
                facts[name] = left
    if opened := _opened(folder / OPENED):
        facts["opened"] = opened
    raised = Raised.from_json(result["raised"]) if result.get("raised") else None
    status = _status(ended, raised, bare)
    if facts.get("lab_error"):
        status = Status.REFUSED
        notes.append("the lab could not prepare this run: " + str(facts["lab_error"].get("message", "")))
    if (crash := _text(folder / CRASH)) is not None:
        status = Status.REFUSED
        notes.append(f"the lab itself failed in this run: {crash}")
    elif (report := sanitizer.read_report(folder)) is not None:
        facts["sanitizer"] = report
    elif not bare and not result and ended.exit_code is not None:
        notes.append("the program ended by itself without returning to Python (os._exit or the like)")
    if facts.get("not_applicable"):
        status = Status.NOT_APPLICABLE
        notes.append(str(facts["not_applicable"]))
    if bare and ended.exit_code not in (None, 0):
        raised = _from_stderr(folder / "stderr.txt")
        status = Status.EXCEPTION if raised is not None else Status.EXIT
    if ended.signal == signals.SIGABRT and (said := heap_check(_tail(folder / "stderr.txt"))):
        facts["heap_check"] = said
    if ended.signal is not None or ended.limit == "timeout":
        raised = _from_fault(folder / "fault.txt", ended) or raised
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


def _status(ended: Ended, raised: Raised | None, bare: bool) -> Status:
    if ended.limit is not None:
        return _LIMITS[ended.limit]
    if ended.signal is not None:
        return Status.SIGNAL
    if ended.exit_code == 0:
        return Status.OK
    if raised is not None and raised.type != "SystemExit" and not bare:
        return Status.MEMORY if raised.type == "MemoryError" else Status.EXCEPTION
    return Status.EXIT


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _opened(path: Path) -> dict[str, Any]:
    """What the run opened, by kind, in the order of its first use; empty where that was not noted."""
    try:
        if path.is_symlink() or not path.is_file():
            return {}
        with path.open("rb") as stream:
            lines = stream.read(_OPENED_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found: dict[str, Any] = {kind: [] for kind in _OPENED_KINDS}
    for line in lines:
        try:
            kind, name = json.loads(line)
        except (ValueError, TypeError):
            continue  # the torn last line of a run that was killed
        if kind == "cwd" and isinstance(name, str):
            found["cwd"] = name
        elif kind in _OPENED_KINDS and isinstance(name, str):
            found[kind].append(name)
    return {kind: names for kind, names in found.items() if names}


def heap_check(stderr: str) -> str:
    """What the allocator (or the stack's guard) said before it aborted; empty if it was not the last word.

    ``terminate called`` and a failed ``assert`` are aborts that a program asks for.
    """
    said = list(_HEAP_CHECK.finditer(stderr))
    if not said or _OTHER_ABORT.search(stderr, said[-1].end()):
        return ""
    return said[-1].group().strip()[:200]


def _tail(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _from_stderr(path: Path) -> Raised | None:
    """The last traceback that a plain Python process printed."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
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


def _from_fault(path: Path, ended: Ended) -> Raised | None:
    """The Python stack that faulthandler wrote at a fatal signal, or when we asked at a timeout."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
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
