"""Detects memory corruption: sets up the address sanitizer and glibc's heap checks, and parses reports.

The child compiles kernels with the sanitizer. Its library must be loaded before all others, so it is
preloaded together with the C++ library whose functions it wraps. Tried with g++ 12 on torch 2.6.0 to 2.14.1.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError

#: Prefix of report files in the probe's folder; the sanitizer appends the pid.
REPORT = "sanitizer"
#: Exit code of a process in which the sanitizer found an error.
EXIT_CODE = 99
MAX_REPORT_BYTES = 200_000
MAX_SOURCE_BYTES = 400_000

#: Skips torch's own leaks and mismatched frees; the sanitizer, not Python, reports a crash.
_OPTIONS = (
    "detect_leaks=0:halt_on_error=1:allow_user_segv_handler=0:alloc_dealloc_mismatch=0:"
    f"detect_odr_violation=0:exitcode={EXIT_CODE}"
)
_HEAP_LIBRARY = "libc_malloc_debug.so.0"
_WHERE = '"$@" --version && "$@" -print-file-name=libasan.so && "$@" -print-file-name=libstdc++.so'

_ERROR = re.compile(r"ERROR: AddressSanitizer: (?P<kind>[\w-]+)")
_ACCESS = re.compile(r"^(?P<access>READ|WRITE) of size (?P<size>\d+)", re.M)
_FAULT = re.compile(r"The signal is caused by a (READ|WRITE) memory access")
_FRAME = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ in (?P<rest>.+)$")
_PLACE = re.compile(r"(?<!\S)(?P<file>/[^\s:]+):(?P<line>\d+)(?::\d+)?")
_BLOCK = re.compile(
    r"is located (\d+ bytes (?:to the right of|to the left of|inside of|after|before) \d+-byte region)"
)


def compiler_words(environment: Mapping[str, str]) -> list[str]:
    """Returns the command that asks the kernels' compiler for its sanitizer libraries."""
    compiler = shlex.split(environment.get("CXX") or "") or ["g++"]
    return ["/bin/sh", "-c", _WHERE, "sh", *compiler]


def libraries(answer: str) -> tuple[str, ...]:
    """Returns the paths to preload from the compiler's answer; empty if it has no such library."""
    lines = [line.strip() for line in answer.splitlines()]
    paths = tuple(lines[-2:])
    # A compiler answers with the bare name of a file that it lacks; clang's own library has another name.
    if len(lines) < 3 or "clang" in lines[0] or not all(path.startswith("/") for path in paths):
        return ()
    return paths


def environment(base: Mapping[str, str], folder: Path, preload: Sequence[str]) -> dict[str, str]:
    """Returns the environment of a process with the sanitizer, which reports into ``folder``."""
    options = [base.get("ASAN_OPTIONS", ""), _OPTIONS, f"log_path={folder / REPORT}"]
    return {
        **base,
        "LD_PRELOAD": ":".join(filter(None, [*preload, base.get("LD_PRELOAD", "")])),
        "ASAN_OPTIONS": ":".join(filter(None, options)),
    }


def heap_checks(base: Mapping[str, str]) -> dict[str, str]:
    """Returns variables that make glibc check each freed block and abort if it was overwritten.

    Since glibc 2.34 the checks are in a separate library; if it is missing, the loader warns and goes on.
    """
    preload = [_HEAP_LIBRARY, base.get("LD_PRELOAD", "")]
    return {"MALLOC_CHECK_": "3", "LD_PRELOAD": ":".join(filter(None, preload))}


def read_report(files: ChildFiles) -> dict[str, Any] | None:
    """Returns the first error reported in a probe's folder, as :func:`parse` does, or None."""
    for name in files.names(f"{REPORT}.*"):
        text = files.head(name, MAX_REPORT_BYTES) or ""
        found = parse(text, lambda source: _source(files, source))
        if found is not None:
            return found
    return None


def parse(report: str, source: Callable[[str], str | None]) -> dict[str, Any] | None:
    """Parses the first error: kind, access and size, its location, and the line of generated code.

    ``source`` returns the text of a generated file, None for any other file. If no frame is in generated
    code, ``file`` is empty and ``function`` is the innermost function. Returns None for a text without an
    error.
    """
    error = _ERROR.search(report)
    if error is None:
        return None
    stack = report[error.start() :].split("\n\n", 1)[0]
    access, fault = _ACCESS.search(stack), _FAULT.search(report)
    block = _BLOCK.search(report)
    found: dict[str, Any] = {
        "kind": error["kind"],
        "access": access["access"] if access else fault[1] if fault else "",
        "size": int(access["size"]) if access else 0,
        "where": block[1] if block else "",
        "file": "",
        "line": 0,
        "function": "",
        "text": "",
    }
    frames = [_frame(match["rest"]) for line in stack.splitlines() if (match := _FRAME.match(line))]
    for _, file, line in frames:
        text = source(file) if file else None
        if text is not None:
            return {**found, "file": file.rsplit("/", 1)[-1], "line": line, "text": text}
    own = (function for function, _, _ in frames if "__interceptor" not in function)
    return {**found, "function": next(own, "")[:200]}


def _frame(text: str) -> tuple[str, str, int]:
    """Splits a stack frame into function, file and line; the last two may be empty."""
    head, _, last = text.rpartition(" ")
    place = _PLACE.fullmatch(last) if head else None
    if place is not None:
        return head, place["file"], int(place["line"][:9])
    head, bracket, _ = text.partition(" (")
    return (head if bracket and text.endswith(")") else text), "", 0


def _source(files: ChildFiles, path: str) -> str | None:
    """Returns the text of a file in the probe's own folder; a report may name any other file."""
    for folder in (str(files.folder), os.path.realpath(files.folder)):
        name = path.removeprefix(f"{folder}/")
        if name != path and name.endswith(".cpp"):
            try:
                return files.head(name, MAX_SOURCE_BYTES)
            except UntrustedFileError:
                return None
    return None
