"""Writes the catalogue of known failures that the package ships, from the golden cases in ``repros/``.

``python benchmarks/catalogue.py`` writes it again; a test says when it is not what the cases say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from golden import ROOT, Case, load_cases

PATH = ROOT / "bisect" / "accel_lab" / "search" / "workarounds" / "catalogue.json"


def fits(case: Case) -> bool:
    """A public issue in a part of torch that has a name, shown by one script that needs nothing else."""
    return (
        case.issue is not None
        and case.component is not None
        and case.status in ("fails", "passes")
        and case.run == ("repro.py",)
        and not (case.args or case.env or case.needs or case.flaky or case.cannot_tell)
        and not {"eager", "environment"} & set(case.stages)
        and {path.name for path in case.folder.iterdir()} == {"repro.py", "expect.toml"}
    )


def entry(case: Case) -> dict[str, Any]:
    """What the package knows of one case."""
    return {
        "entry": case.slug,
        "title": case.title,
        "issue": case.issue,
        "stages": list(case.stages),
        "component": case.component,
        "fails_on": list(case.fails_on),
        "passes_on": list(case.passes_on),
        "script": (case.folder / "repro.py").read_text(encoding="utf-8"),
    }


def text() -> str:
    """The catalogue as its file has it."""
    rows = [entry(case) for case in load_cases() if fits(case)]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    Path(PATH).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
