"""The import hook that serves mixed sources, in a fresh interpreter without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import accel_lab

ROOT = Path(accel_lab.__file__).parents[1]
PROGRAM = """
import json, sys
from accel_lab.child.mixed_sources import MixedSources
hook = MixedSources(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
hook.install()
import lib.old
print(json.dumps([lib.old.answer(), sorted(hook.facts()["loaded"]), hook.facts()["executed"]]))
"""


def ran(folder: Path, served: dict[str, str], watched: dict[str, list[str]]) -> list[object]:
    package = folder / "lib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "old.py").write_text("def answer():\n    return 1\n")
    places = {}
    for number, (name, text) in enumerate(served.items()):
        path = folder / f"{number}.py"
        path.write_text(text)
        places[name] = str(path)
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(places), json.dumps(watched)],
        cwd=folder,
        env={"PYTHONPATH": f"{ROOT}:{folder}", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    found: list[object] = json.loads(made.stdout)
    return found


def test_a_served_text_replaces_the_file(tmp_path: Path) -> None:
    served = {"lib.old": "def answer():\n    return 2\n"}
    assert ran(tmp_path, served, {}) == [2, ["lib.old"], []]


def test_a_watched_function_is_noted_when_it_runs(tmp_path: Path) -> None:
    assert ran(tmp_path, {}, {"lib.old": ["answer"]}) == [1, ["lib.old"], ["lib.old::answer"]]


def test_a_module_and_a_package_that_the_release_lacks_can_be_imported(tmp_path: Path) -> None:
    served = {
        "lib.old": "from lib.new.base import number\nfrom lib.other import more\n\n\n"
        "def answer():\n    return number + more\n",
        "lib.new": "",
        "lib.new.base": "number = 40\n",
        "lib.other": "more = 2\n",
    }
    assert ran(tmp_path, served, {}) == [42, sorted(served), []]
