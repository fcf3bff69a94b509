"""A bundle of a run on an accelerator puts its program on that accelerator again, with what steered it."""

from __future__ import annotations

import os
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.signature import Signature, normalise
from accel_lab.minimize.accelerator_binding import binding_of, variables_of

from .test_bundle_rerun import Recorded, rerun, write

#: A torch and an accel-lab that tell what torch.compile was given.
PACKAGES = {
    "torch/__init__.py": (
        "def compile(model=None, *, backend='inductor', **options):\n"
        "    return f'{backend} {sorted(options)}'\n"
    ),
    "accel_lab/__init__.py": (
        "mock_backend = 'the mock'\n"
        "class Adapter:\n    backend = 'the chip'\ndef load_adapter(name):\n    return Adapter()\n"
    ),
    "accel_lab/accelerators/__init__.py": "",
    "accel_lab/accelerators/discovery.py": "def adapters():\n    return {'chip': None}\n",
}
SCRIPT = (
    "import os, torch\n"
    "got = torch.compile(len, mode='max-autotune', fullgraph=True, backend='aot_eager')\n"
    "raise ValueError(f'it is {got}, BUG={os.environ.get(\"CHIP_BUG\")}')\n"
)


def recorded(folder: Path, name: str, variables: dict[str, str]) -> Recorded:
    """A run of ``SCRIPT`` on an accelerator, with a fault switched on."""
    message = f"it is the {name} ['fullgraph'], BUG=back"
    run = Recorded(
        folder,
        {"main.py": SCRIPT},
        opened={"read": []},
        outcome=Outcome(
            status=Status.EXCEPTION, exit_code=1, raised=Raised(type="ValueError", message=message)
        ),
        signature=Signature(kind="exception", type="ValueError", message=normalise(message)),
    )
    write(folder / "python" / "site", PACKAGES)
    run.findings.environment["accelerator"] = {"name": name, "variables": variables}
    return run


@pytest.mark.parametrize("name", ["mock", "chip"])
def test_it_runs_again_on_the_accelerator(tmp_path: Path, name: str) -> None:
    run = recorded(tmp_path, name, {"CHIP_BUG": "back"})
    python = str(run.findings.environment["executable"])
    done = rerun(run.bundle().path, python, tmp_path / "out")
    assert done.returncode == 0, done.stdout
    assert f"running main.py on the accelerator {name} CHIP_BUG=back with " in done.stdout
    env = {name: os.environ[name] for name in ("PATH", "HOME")}
    command = [python, str(tmp_path / "out" / "repro.py")]
    for more, bug in (({}, "back"), ({"CHIP_BUG": "none"}, "none")):
        done = subprocess.run(command, env={**env, **more}, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"ValueError: it is the {name} ['fullgraph'], BUG={bug}" in done.stderr


def test_without_what_steered_it_it_is_another_failure(tmp_path: Path) -> None:
    run = recorded(tmp_path, "mock", {})
    done = rerun(run.bundle().path, str(run.findings.environment["executable"]), tmp_path / "out")
    assert done.returncode == 1 and "BUG=None" in done.stdout


def test_an_accelerator_that_is_not_there_is_no_mismatch(tmp_path: Path) -> None:
    run = recorded(tmp_path, "other", {})
    python = str(run.findings.environment["executable"])
    done = rerun(run.bundle().path, python, tmp_path / "out")
    assert done.returncode == 2 and "has no accelerator other" in done.stdout


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"CHIP_BUG": "back", "CHIP_HOME": "/opt/chip"}, {"CHIP_BUG": "back"}),
        ({"CHIP_BUG": 3, "A B": "c", "D": "x" * 2_000}, {}),
        ([1], {}),
        ("CHIP_BUG", {}),
    ],
)
def test_what_an_adapter_names_is_a_strangers_word(tmp_path: Path, told: object, found: object) -> None:
    run = Recorded(tmp_path, {"main.py": SCRIPT})
    step = run.findings.baseline[0]
    facts = {"accelerator": {"name": "chip", "environment": {"variables": told}}}
    run.findings.baseline[0] = replace(step, outcome=replace(step.outcome, facts=facts))
    assert variables_of("chip", {}, run.findings) == found


def test_the_mocks_variables_are_known_by_their_name(tmp_path: Path) -> None:
    facts = {"variables": {"MOCK_FAULTS": "exp_tail_wrong", "TORCH_LOGS": "x", "MOCK_A": "/tmp/a"}}
    run = Recorded(tmp_path, {"main.py": SCRIPT})
    assert variables_of("mock", facts, run.findings) == {"MOCK_FAULTS": "exp_tail_wrong"}
    binding = binding_of("mock", facts, run.findings)
    assert binding is not None and "mock_backend" in binding.code and binding.variables
    assert binding_of("", facts, run.findings) is None


def test_the_bundle_has_what_explains_the_run(tmp_path: Path) -> None:
    run = recorded(tmp_path, "mock", {})
    place = run.run_dir / "accelerator"
    write(place, {"graph0/tiled.txt": "rows of alice\n", "transfers.jsonl": "{}\n", "kernel.py": "x = 1\n"})
    (place / "link.txt").symlink_to("/etc/hostname")
    with zipfile.ZipFile(run.bundle().path) as bundle:
        kept = {name for name in bundle.namelist() if name.startswith("accelerator/")}
        assert bundle.read("accelerator/kernel.py") == b"x = 1\n"
        assert b"`accelerator/`" in bundle.read("README.md")
    assert kept == {"accelerator/" + name for name in ("graph0/tiled.txt", "transfers.jsonl", "kernel.py")}
