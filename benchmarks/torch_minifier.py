"""Drives torch's own minifier on a script: what it wrote, what it printed, whether its result is of use.

It works in two steps. The script, run with ``TORCHDYNAMO_REPRO_AFTER`` and ``TORCHDYNAMO_REPRO_LEVEL``,
fails and leaves a ``minifier_launcher.py``; that one shrinks the graph and leaves a ``repro.py``. After
AOTAutograd it tries every candidate in a process of its own (its isolating mode, the default); after
Dynamo it has no such mode. Everything happens in a scratch folder with caches of its own.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import clean_environment, run_command

#: After which step the graph is taken, and the level: 2 for what raises, 4 for wrong numbers.
MODES: tuple[tuple[str, int], ...] = (("aot", 2), ("aot", 4), ("dynamo", 2), ("dynamo", 4))

#: Exceptions of torch whose text begins with the exception that they wrap.
_WRAPPERS = frozenset({"InductorError", "BackendCompilerFailed", "LoweringException", "CppCompileError"})
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?:: ?(.*))?$")
_WRAPPED = re.compile(
    r"^(?:backend='[^']*' raised:\s*)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): ?(.*)$", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """How a run failed: the exception's own name, and the first line of its message, made comparable."""

    kind: str
    message: str = ""

    @property
    def line(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


@dataclass(frozen=True, kw_only=True)
class Printed:
    """What the launcher told on its way."""

    nodes_before: int | None = None
    nodes_after: int | None = None
    queries: int | None = None
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class Minified:
    """One attempt. ``usable``: its repro, run cold, fails with the failure of the script."""

    mode: str
    usable: bool = False
    reason: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_after: int | None = None
    candidates: int | None = None
    seconds: float = 0.0
    wall_s: float = 0.0
    finished: bool = False
    rerun: bool | None = None
    repro: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "seconds": round(self.seconds, 1), "wall_s": round(self.wall_s, 1)}


def own_lines(text: str) -> str:
    """The launcher's own lines: what a candidate printed is passed on behind ``>>``."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(">>"))


def parse_printed(text: str) -> Printed:
    """Read the launcher's standard error."""
    text = own_lines(text)
    before = re.search(r"^Started off with (\d+) nodes", text, flags=re.MULTILINE)
    # A success that did not hold is followed by a warning, and the next strategy starts with the old size.
    sizes = re.findall(
        r"^Strategy: .*?\((\d+) nodes|^SUCCESS: Went from \d+ to (\d+) nodes", text, flags=re.MULTILINE
    )
    after = next((int(a or b) for a, b in reversed(sizes)), None)
    if text.rstrip().endswith("not applying this minification"):
        after = next((int(a) for a, _ in reversed(sizes) if a), None)
    queries = re.search(r"^Made (\d+) queries", text, flags=re.MULTILINE)
    start = int(before.group(1)) if before else None
    return Printed(
        nodes_before=start,
        nodes_after=after if after is not None else start,
        queries=int(queries.group(1)) if queries else None,
        finished="Wrote minimal repro out to repro.py" in text,
    )


def last_failure(text: str) -> Failure | None:
    """The exception that ended a Python process, by its standard error; None where there is no traceback."""
    lines = own_lines(text).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return None
    for i in range(starts[-1] + 1, len(lines)):
        found = _EXCEPTION.match(lines[i])
        if found is not None:
            return _unwrapped(found.group(1), "\n".join([found.group(2) or "", *lines[i + 1 : i + 4]]))
    return None


def _unwrapped(kind: str, message: str) -> Failure:
    message = message.strip()
    while kind in _WRAPPERS:
        inner = _WRAPPED.match(message)
        if inner is None:
            break
        kind, message = inner.group(1).rpartition(".")[2], inner.group(2).strip()
    first = message.split("\n", 1)[0]
    return Failure(kind=kind, message=re.sub(r"0x[0-9a-f]+|\d+", "N", first)[:160])


def same_failure(script: Failure | None, repro: Failure | None) -> bool:
    """Whether a repro fails as the script does: torch has a word of its own for wrong numbers."""
    if script is None or repro is None:
        return False
    if script.kind == "AssertionError":
        return repro.kind == "AccuracyError"
    return script == repro


def why_not(printed: Printed, failure: Failure | None, text: str, stopped: bool) -> str:
    """The reason why nothing came of it, in one line."""
    if "Input graph does not fail accuracy testing" in text:
        return "its own test passes the graph"
    if failure is not None and failure.message.startswith("Input graph did not fail the tester"):
        return "its own test passes the graph"
    if stopped:
        return "stopped at the limit"
    if failure is not None:
        return failure.line
    return "" if printed.finished else "ended without a result"


def wanted_modes(names: Sequence[str]) -> list[tuple[str, int]]:
    """``aot/2`` and the like; all of them where none is named."""
    known = {f"{after}/{level}": (after, level) for after, level in MODES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"no such mode: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(MODES)


def run_torch_minifier(
    python: str,
    script: Path,
    mode: tuple[str, int],
    *,
    failure: Failure | None,
    env: Mapping[str, str],
    limit_s: float,
) -> Minified:
    """Let torch minify one script; ``failure`` is how the script fails by itself. Each step has the limit."""
    folder = Path(tempfile.mkdtemp(prefix="accel-lab-torch-minifier-"))
    try:
        return _drive(python, script, mode, failure=failure, env=env, limit_s=limit_s, folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _drive(
    python: str,
    script: Path,
    mode: tuple[str, int],
    *,
    failure: Failure | None,
    env: Mapping[str, str],
    limit_s: float,
    folder: Path,
) -> Minified:
    after, level = mode
    result = Minified(mode=f"{after}/{level}")
    # The script's neighbours may be part of it.
    shutil.copytree(script.parent, folder / "work")
    work = folder / "work"
    cold = {**clean_environment(str(folder), env), "TORCH_COMPILE_DEBUG_DIR": str(folder / "debug")}
    asked = {"TORCHDYNAMO_REPRO_AFTER": after, "TORCHDYNAMO_REPRO_LEVEL": str(level)}
    first = run_command([python, script.name], env={**cold, **asked}, timeout_s=limit_s, cwd=str(work))
    launchers = sorted(
        path for root in (folder / "debug", work) for path in root.rglob("minifier_launcher.py")
    )
    if not launchers:
        seen = last_failure(first.stderr)
        ending = (
            seen.line if seen else ("stopped at the limit" if first.code is None else f"exit {first.code}")
        )
        return replace(
            result, wall_s=first.seconds, reason=f"wrote no launcher; the script ended by {ending}"
        )
    (work / "repro.py").unlink(missing_ok=True)
    ended = run_command([python, str(launchers[0])], env=cold, timeout_s=limit_s, cwd=str(work))
    text = ended.stderr
    printed = parse_printed(text)
    isolated = len(list((work / "isolate").glob("*.py"))) or None
    repro = work / "repro.py"
    result = replace(
        result,
        nodes_before=printed.nodes_before,
        nodes_after=printed.nodes_after,
        candidates=max(printed.queries or 0, isolated or 0) or None,
        seconds=ended.seconds,
        wall_s=first.seconds + ended.seconds,
        finished=printed.finished,
        reason=why_not(printed, last_failure(text), text, ended.code is None),
    )
    if not repro.is_file():
        return replace(result, reason=result.reason or "wrote no repro")
    source = repro.read_text(encoding="utf-8", errors="replace")
    # The repro sets the cache folders of the run that wrote it: they are emptied, so that it runs cold.
    for name in ("inductor", "triton"):
        shutil.rmtree(folder / name, ignore_errors=True)
    again = run_command([python, "repro.py"], env=cold, timeout_s=limit_s, cwd=str(work))
    seen = last_failure(again.stderr) if again.code else None
    same = same_failure(failure, seen)
    if not same:
        ending = f"exit {again.code}" if seen is None else seen.line
        note = f"its repro does not fail as the script does ({ending})"
        result = replace(result, reason=f"{result.reason}; {note}" if result.reason else note)
    return replace(
        result,
        usable=same,
        rerun=same,
        repro=source,
        lines_after=sum(
            1 for line in source.splitlines() if line.strip() and not line.lstrip().startswith("#")
        ),
    )
