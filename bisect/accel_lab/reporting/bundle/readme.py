"""Builds README.md of a bundle: how to run it, the result of a test run, its content and what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .issue import code
from .project import Project
from .size_budget import Dropped
from .sources import ORIGINAL

_NAMED = 40


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What the bundle has. ``missing`` are files that a re-run needs and that are not in it."""

    project: Project
    expected: dict[str, Any]
    reduced: bool
    dropped: Sequence[Dropped]
    missing: Sequence[str]
    checked: str


def readme(contents: Contents) -> str:
    """Returns the whole text."""
    expected = contents.expected
    parts = [
        "# A failure under torch.compile, to be run again",
        f"It was recorded with torch {expected['torch'] or '?'} on Python {expected['python'] or '?'}: "
        f"{code(expected['failure'])}",
        "## Run it",
        "```\nPYTHON=/path/to/python ./rerun.sh\n```",
        "It needs torch and nothing else, copies the program into a new folder, runs "
        f"{code(command_of(expected))} there, and says MATCH (exit code 0) or MISMATCH (1).",
        f"Before it was handed out: {contents.checked or 'it was not run again.'}",
    ]
    if contents.missing:
        parts += ["## Put these there first", _listed(map(code, contents.missing))]
    if contents.project.apart:
        parts += [
            "## Read from elsewhere, and not in here",
            _listed(
                f"{code(one.path)} ({one.size:,} bytes): {one.reason}; the program opens it by this path"
                for one in contents.project.apart
            ),
        ]
    parts += ["## What is in it", _listed(_contents(contents))]
    gone = [one for one in contents.dropped if one.name not in contents.missing]
    if gone:
        parts += [
            "## Left out",
            _listed(f"{code(one.name)} ({one.size:,} bytes): {one.reason}" for one in gone),
        ]
    return "\n\n".join(parts) + "\n"


def command_of(expected: dict[str, Any]) -> str:
    """Returns the command that is run, as a user would type it in the program's folder."""
    run = expected["run"]
    words = ["-m", str(run["module"])] if run["module"] else [str(run["script"])]
    line = shlex.join(["python", *words, *expected["args"]])
    return line + (f" < {run['stdin']}" if run["stdin"] else "")


def _contents(contents: Contents) -> list[str]:
    what = "the smallest script that fails in the same way" if contents.reduced else "runs the program again"
    rows = [f"`repro.py`: {what}"]
    members = contents.project.members
    opened = sum(member.needed for member in members)
    beside = len(members) - opened
    contents_line = f"the program as it was, {opened} files that a run of it opened or imports"
    if not contents.project.watched:
        contents_line = f"the program as it was, {opened} files by what its sources import"
    rows.append(f"`{ORIGINAL}`: {contents_line}" + (f", {beside} more of its folder" if beside else ""))
    if contents.expected.get("accelerator"):
        rows.append(
            "`accelerator/`: what the accelerator wrote of the failing run (the mock: transfers, loop IR "
            "before and after fusion, tiles, memory plan, the spec of each kernel), `kernel.py` (the first "
            "wrong kernel alone) and versions"
        )
    rows += [
        "`ISSUE.md`: the fields of PyTorch's issue form, filled in",
        "`report.html`, `report.json`: what was found; `artifacts/`: graphs, code and logs of each step",
        "`expected.json`: what a run is compared with; `MANIFEST.json`: size and hash of every file",
        "`LEDGER.json`: what was replaced because it looked private. Binary files are unchanged.",
    ]
    return rows


def _listed(rows: Any) -> str:
    rows = list(rows)
    more = [f"and {len(rows) - _NAMED:,} more"] if len(rows) > _NAMED else []
    return "\n".join(f"- {row}" for row in [*rows[:_NAMED], *more])
