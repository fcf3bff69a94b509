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
answer = lib.old.answer()
print(json.dumps({"answer": answer, **hook.facts()}))
"""


def ran(folder: Path, served: dict[str, str], watched: dict[str, list[str]]) -> dict[str, object]:
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
    found: dict[str, object] = json.loads(made.stdout)
    return found


def test_a_served_text_replaces_the_file(tmp_path: Path) -> None:
    found = ran(tmp_path, {"lib.old": "def answer():\n    return 2\n"}, {})
    assert found == {"answer": 2, "loaded": ["lib.old"], "executed": [], "at_import": []}


def test_a_watched_function_is_noted_when_it_runs(tmp_path: Path) -> None:
    found = ran(tmp_path, {}, {"lib.old": ["answer"]})
    assert found == {"answer": 1, "loaded": ["lib.old"], "executed": ["lib.old::answer"], "at_import": []}


def test_what_runs_only_while_torch_is_imported_is_told_apart(tmp_path: Path) -> None:
    """A factory runs at import; what it returned counts as its own code, and runs later."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        "def registered():\n    pass\n\n\n"
        "def factory():\n    def inner():\n        return 7\n    return inner\n\n\n"
        "def unused():\n    pass\n\n\nregistered()\nmade = factory()\n"
    )
    served = {"lib.old": "import torch\n\n\ndef answer():\n    return torch.made()\n"}
    found = ran(tmp_path, served, {"torch": ["registered", "factory", "unused"]})
    assert found["answer"] == 7
    assert (found["executed"], found["at_import"]) == (["torch::factory"], ["torch::registered"])


def test_a_module_and_a_package_that_the_release_lacks_can_be_imported(tmp_path: Path) -> None:
    served = {
        "lib.old": "from lib.new.base import number\nfrom lib.other import more\n\n\n"
        "def answer():\n    return number + more\n",
        "lib.new": "",
        "lib.new.base": "number = 40\n",
        "lib.other": "more = 2\n",
    }
    found = ran(tmp_path, served, {})
    assert (found["answer"], found["loaded"]) == (42, sorted(served))
