"""Runs an unpacked bundle again with the lab's own rerun.py; only data and the script come from the bundle.

The bundle's rerun.py and its rules for messages are not used: its author could have written MATCH into
either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.reporting.run_files import read_text

from .expected import message_rules
from .sources import ORIGINAL, rerun_files

MATCH, MISMATCH = 0, 1
_SAID_BYTES = 400_000
_SCRIPT_BYTES = 2_000_000


class Runner(Protocol):
    """Runs a command to its end within limits; ``execution.process.run`` is one, a container's another."""

    def __call__(
        self,
        command: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: Path,
        stderr: Path,
        limits: Limits,
        marker: str,
    ) -> ProcessExit: ...


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of one re-run below ``root``: the bundle, the lab's own program, and the output folder."""

    root: Path

    @property
    def bundle(self) -> Path:
        return self.root / "bundle"

    @property
    def program(self) -> Path:
        """The lab's own rerun.py, in a separate folder so that it cannot import the bundle's modules."""
        return self.root / "program" / "rerun.py"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def home(self) -> Path:
        return self.out / "home"


@dataclass(frozen=True, kw_only=True)
class Haste:
    """Shorter limits for a bundle that was just made, on an interpreter that ran the program.

    An intermittent failure gets at most ``most_tries``, a hang ``patience_s`` seconds. A module that the
    interpreter lacks is then missing from the bundle.
    """

    most_tries: int
    patience_s: float

    def applied(self, expected: dict[str, Any]) -> dict[str, Any]:
        changed = {"attempts": min(expected["attempts"], self.most_tries), "recorded_here": True}
        if expected["status"] == "timeout":
            changed["timeout_s"] = min(expected["timeout_s"], self.patience_s)
        return {**expected, **changed}


def put_in_place(places: Places, missing: Iterable[tuple[str, Path]]) -> None:
    """Links the files that did not fit into the bundle to the paths that its README names."""
    for name, path in missing:
        target = places.bundle / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(path)


def prepare(places: Places, haste: Haste | None = None) -> list[str]:
    """Writes the lab's rerun.py, and its rules into expected.json; notes what the bundle changed."""
    own = {entry.name: entry.data for entry in rerun_files()}["rerun.py"]
    notes = []
    if (places.bundle / "rerun.py").read_bytes() != own:
        notes.append(
            "the bundle's rerun.py is not this lab's (another version made it, or somebody changed it): "
            "this lab's was run"
        )
    for folder in (places.program.parent, places.home):
        folder.mkdir(parents=True)
    places.program.write_bytes(own)
    expected = _expected(places.bundle)
    rules = message_rules()
    if any(expected.get(name) != value for name, value in rules.items()):
        notes.append("the bundle has other rules for what is accidental in a message: this lab's were used")
    wanted = {**(expected if haste is None else haste.applied(expected)), **rules}
    (places.bundle / "expected.json").write_text(json.dumps(wanted), encoding="utf-8")
    return notes


def rerun_command(bundle: Path, python: str, program: Path | None = None) -> list[str]:
    """Returns the command that runs an unpacked bundle, by its own rerun.py or by ``program``.

    Exit codes: 0 MATCH, 1 MISMATCH, 2 no torch, 3 undecided.
    """
    return [python, str(bundle / "rerun.py")] if program is None else [python, str(program), str(bundle)]


def rerun(
    places: Places,
    *,
    python: str,
    run: Runner,
    timeout_s: float,
    environment: Mapping[str, str],
    library: Callable[[], Path] | None,
    marker: str,
) -> tuple[ProcessExit, str]:
    """Returns how it ended (MATCH or MISMATCH) and its output; raises :class:`LabError` if it crashed."""
    env = dict(environment)
    if library is not None and _asks_for_the_lab(places.bundle):
        env["PYTHONPATH"] = ":".join(filter(None, [env.get("PYTHONPATH", ""), str(library())]))
    cwd = places.out / "cwd"
    cwd.mkdir()
    out, err = places.out / "stdout.txt", places.out / "stderr.txt"
    ended = run(
        rerun_command(places.bundle, python, places.program),
        cwd=cwd,
        env=env,
        stdout=out,
        stderr=err,
        limits=Limits(timeout_s=timeout_s),
        marker=marker,
    )
    said = (read_text(out, _SAID_BYTES).text + read_text(err, _SAID_BYTES).text).strip()
    if ended.exit_code not in (MATCH, MISMATCH):
        last = (said.splitlines() or [""])[-1][:300]
        raise LabError(f"the bundle could not be run again ({ended.summary}){f': {last}' if last else ''}")
    return ended, said


def _asks_for_the_lab(bundle: Path) -> bool:
    """Whether a program may import the lab's accelerators, which the interpreter may lack."""
    sources = [bundle / "repro.py", *(bundle / ORIGINAL).rglob("*.py")]
    if _expected(bundle).get("accelerator"):
        return True
    return any("accel_lab" in read_text(path, _SCRIPT_BYTES).text for path in sources)


def _expected(bundle: Path) -> dict[str, Any]:
    try:
        data = json.loads((bundle / "expected.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UsageError("the bundle has a damaged expected.json: it cannot be run again")
    return data
