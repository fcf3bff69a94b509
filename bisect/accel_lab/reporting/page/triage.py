"""Renders triage.html: one file without scripts or external resources; the faults, then every script."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accel_lab.core.machine.files import write_atomic
from accel_lab.reporting.words import terms
from accel_lab.reporting.words import triage as words

from .files import page
from .text_budget import Redact, TextBudget, keep

#: Maximum engine faults on the page; the JSON has all.
_MOST_FAULTS = 200
_MARKS = {"fails": terms.BAD, "passes": terms.GOOD, "by_design": terms.GOOD}


def render(triage: Mapping[str, Any], folder: Path, *, redact: Redact = keep) -> str:
    """Returns the page as text, for a file in ``folder``."""
    say = TextBudget(redact).say
    rows = {row["script"]: row for row in triage["scripts"]}
    return page(
        "triage.html.j2",
        "report.css",
        "grid.css",
        mark=terms.BAD if triage["faults"] else terms.GOOD,
        place=say(triage["place"], limit=400),
        headline=say(words.headline(triage)),
        counts=say(words.counts(triage)),
        changes=[say(line, limit=300) for line in words.change_lines(triage)],
        faults=[
            {
                "name": say(words.fault_name(fault), limit=300),
                "confidence": say(fault["confidence"]),
                "signature": say(fault["signature"], limit=400),
                "flips": say(", ".join(fault["flips"]), limit=200),
                "smallest": say(words.smallest(fault), limit=400),
                "bundle": say(fault["bundle"], limit=400),
                "link": _link(rows[fault["members"][0]]["run"], folder),
                "members": [
                    (say(name, limit=200), _link(rows[name]["run"], folder)) for name in fault["members"]
                ],
            }
            for fault in triage["faults"]
        ],
        scripts=[
            {
                "name": say(row["script"], limit=200),
                "mark": _MARKS.get(row["verdict"], terms.SKIP),
                "verdict": row["verdict"].replace("_", " "),
                "said": say(row["said"], limit=400),
                "seconds": f"{row['seconds']:.0f}",
                "link": _link(row["run"], folder),
            }
            for row in triage["scripts"]
        ],
        engine=say(triage["engine"]["name"], limit=200),
        engine_faults=[say(line, limit=400) for line in triage["engine"]["faults"][:_MOST_FAULTS]],
        refused=[say(line, limit=300) for line in triage["refused"]],
        schema=say(triage["schema"]),
    )


def _link(run: str, folder: Path) -> str:
    """Returns the relative path of a run's report, never an address; empty without a run."""
    if not run:
        return ""
    return quote(os.path.relpath(os.path.join(run, "report.html"), folder))


def write(triage: Mapping[str, Any], folder: Path) -> None:
    """Writes the page atomically."""
    write_atomic(folder / "triage.html", render(triage, folder))
