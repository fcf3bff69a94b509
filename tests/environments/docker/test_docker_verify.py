"""``accel-lab verify`` of a bundle against a real daemon: what the bundle's code sees in its container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.bundle.writer import write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from fakes_run import FakeRun

from .test_docker_daemon import PINNED, ROOT, needs, there

pytestmark = pytest.mark.docker

TELLS = """
import os, socket, torch
root = os.getuid() == 0
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
    network = True
except OSError as error:
    network = error.errno not in (101, 113)  # unreachable
secret = "PLANTED" in os.environ.values()
fast = torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1)).item() == 1
raise RuntimeError(f"kernel said {root} {network} {secret} {fast} in torch {torch.__version__[:6]}")
"""


@pytest.mark.parametrize(("said", "code"), [("False False False True", 0), ("something else", 1)])
def test_a_bundle_is_verified_in_a_container(tmp_path: Path, said: str, code: int) -> None:
    """By the command line, without being told to: the daemon has an image of the bundle's torch."""
    version = next((one for one in PINNED if there(f"accel-lab-torch:{one}")), PINNED[0])
    needs(f"accel-lab-torch:{version}", f"make docker-build TORCH={version}")
    made = FakeRun(tmp_path / "made", "kernel", script=TELLS)
    message = f"kernel said {said} in torch {version}"
    raised = Raised(type="RuntimeError", message=message)
    outcome = Outcome(status=Status.EXCEPTION, exit_code=1, raised=raised, torch=version)
    signature = Signature(kind="exception", type="RuntimeError", message=normalise(message))
    step = made.step(Rung.KERNEL, Verdict.BAD, outcome=outcome, signature=signature, bare=True)
    found = replace(made.findings, baseline=[step], signature=signature, ladder=[], repro=None)
    found.environment = {"torch": version}
    bundle = tmp_path / "bundle.zip"
    write_bundle(found, made.run_dir, bundle, redactor=Redactor())
    done = subprocess.run(
        [sys.executable, "-m", "accel_lab", "verify", "--yes", "--json", str(bundle)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "bisect"), "A_KEY": "PLANTED"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"]) == (code, "MATCH" if code == 0 else "MISMATCH"), told["said"]
    assert told["where"] == f"in a container of accel-lab-torch:{version}, without network"
