"""``accel-lab bisect --accelerator mock`` on a real torch, through the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from accel_lab.completion import keep_accelerator_files, keep_kernel_script
from accel_lab.core.findings import Culprit, Exhibit, Findings
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.execution.programs import read_program
from accel_lab.request import Request, load_request
from accel_lab.search.accelerator.replacements import Replacement, switches

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch

def f(x):
    return torch.relu(torch.exp(x) * 2)

torch.manual_seed(0)
print(torch.compile(f)(torch.randn(8, 70)).shape)
"""


def run(folder: Path, *words: str, fault: str = "", timeout: float = 900.0, **variables: str) -> Any:
    env = {k: v for k, v in os.environ.items() if not k.startswith("MOCK_")}
    env |= {"PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(folder / "home")}
    env |= {"MOCK_FAULTS": fault} if fault else {}
    env |= variables
    return subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.torch
def test_a_back_end_fault_down_to_its_kernel(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(SCRIPT)
    words = ("-m", "accel_lab", "bisect", "--accelerator", "mock", "--json", "-q", "--minimize-for", "45")
    words += ("--no-workarounds",)
    ended = run(tmp_path, *words, str(script), fault="exp_tail_wrong")
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    culprit = found["culprit"]
    assert (culprit["stage"], culprit["side"], culprit["level"]) == ("mock.back_end", "back_end", "kernel")
    assert culprit["confidence"] == "proven"
    assert culprit["component"]["kind"] == "kernel" and "exp" in culprit["component"]["detail"]
    assert culprit["component"]["confidence"] == "proven"
    assert {row["switch"] for row in found["ablation"]} == {
        row.value for row in Replacement if row is not Replacement.MAIN
    }
    assert any("exp_tail_wrong" in line for line in found["warnings"])
    kernel = Path(found["artifacts"], "kernel.py")
    assert run(tmp_path, str(kernel), fault="exp_tail_wrong").returncode == 1
    assert run(tmp_path, str(kernel), fault="tail_stick_dropped").returncode == 0
    # The checklist of an accelerator's debugging guide lies in the bundle as files.
    with zipfile.ZipFile(found["bundle"]) as bundle:
        kept = {name for name in bundle.namelist() if name.startswith("accelerator/")}
        assert bundle.read("accelerator/kernel.py") == kernel.read_bytes()
    texts = ("graph", "loop_ir", "fused", "tiled", "memory_plan")
    expected = {f"graph0_inference/{name}.txt" for name in texts} | {"transfers.jsonl", "versions.json"}
    assert {f"accelerator/{name}" for name in expected} <= kept
    assert any(name.startswith("accelerator/graph0_inference/specs/") for name in kept)
    # The smallest script asks for the accelerator by itself, and so does what the bundle runs again.
    repro = Path(found["repro"]["script"])
    assert repro.read_text().count("mock_backend") >= 1
    assert run(tmp_path, str(repro), fault="exp_tail_wrong").returncode == 1
    # It sets what the run depended on, unless that is set already.
    assert run(tmp_path, str(repro)).returncode == 1
    assert run(tmp_path, str(repro), MOCK_FAULTS="").returncode == 0
    ended = run(tmp_path, "-m", "accel_lab", "verify", "--yes", "--provider", "local", found["bundle"])
    assert ended.returncode == 0 and "MATCH" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.torch
def test_a_script_that_runs_well_on_the_accelerator(tmp_path: Path) -> None:
    script = tmp_path / "fine.py"
    script.write_text(SCRIPT.replace("torch.compile(f)", 'torch.compile(f, backend="mock")'))
    ended = run(tmp_path, "-m", "accel_lab", "bisect", "--accelerator", "mock", "--no-bundle", str(script))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "does not fail" in ended.stdout


@pytest.fixture
def tinychip(tmp_path: Path) -> Path:
    """The example's package as pip would have installed it, in a folder of its own."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "tests" / "data" / "example_adapter" / "tinychip", site / "tinychip")
    (site / "tinychip-1.0.dist-info").mkdir()
    (site / "tinychip-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tinychip\n")
    entry = "[accel_lab.adapters]\ntinychip = tinychip:TinyChip\n"
    (site / "tinychip-1.0.dist-info" / "entry_points.txt").write_text(entry)
    return site


@pytest.mark.torch
@pytest.mark.parametrize(
    ("bug", "stage"), [("back", "accelerator.back_end"), ("front", "accelerator.front_end")]
)
def test_the_examples_chip_down_to_its_end(tmp_path: Path, tinychip: Path, bug: str, stage: str) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(SCRIPT.replace("torch.relu(torch.exp(x) * 2)", "torch.cos(x) * 2"))
    # The smallest script is made the same way for both; once is enough.
    shrink = ("--no-workarounds", *(("--minimize-for", "45") if bug == "back" else ("--no-minimize",)))
    words = (
        "-m",
        "accel_lab",
        "bisect",
        "--accelerator",
        "tinychip",
        "--json",
        "-q",
        *shrink,
        "--no-workarounds",
    )
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT / "bisect"), str(tinychip)]), "TINYCHIP_BUG": bug}
    ended = run(tmp_path, *words, str(script), **variables)
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["culprit"]["stage"], found["culprit"]["confidence"]) == (stage, "proven")
    assert found["culprit"]["side"] == stage.partition(".")[2]
    words = ("-m", "accel_lab", "verify", "--yes", "--provider", "local", found["bundle"])
    if bug == "back":  # where the package is missing; which end is at fault does not matter
        ended = run(tmp_path, *words)
        assert ended.returncode == 3 and "no accelerator tinychip" in ended.stderr, (
            ended.stdout + ended.stderr
        )
    ended = run(tmp_path, *words, PYTHONPATH=variables["PYTHONPATH"])
    assert ended.returncode == 0 and "MATCH" in ended.stdout, ended.stdout + ended.stderr
    if bug == "front":
        # Not reduced: the script that asks for no backend at all is put on the accelerator.
        assert f"on the accelerator tinychip TINYCHIP_BUG={bug}" in ended.stdout
        return
    script = Path(found["repro"]["script"])
    assert 'load_adapter("tinychip").backend' in script.read_text().replace("'", '"')
    assert run(tmp_path, str(script), PYTHONPATH=variables["PYTHONPATH"]).returncode == 1
    assert run(tmp_path, str(script), **{**variables, "TINYCHIP_BUG": ""}).returncode == 0


@pytest.mark.torch
def test_an_unknown_accelerator_is_one_line_that_says_what_there_is(tmp_path: Path, tinychip: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("import torch\n")
    path = os.pathsep.join([str(ROOT / "bisect"), str(tinychip)])
    words = ("-m", "accel_lab", "bisect", "--accelerator", "none", str(script))
    ended = run(tmp_path, *words, PYTHONPATH=path)
    assert ended.returncode == 2
    assert "there is no accelerator 'none'" in ended.stderr and "mock, tinychip" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_run_that_is_resumed_keeps_its_accelerator(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("import torch\n")
    request = Request(program=read_program(str(script), None, ()), accelerator="mock")
    (tmp_path / "request.json").write_text(json.dumps(request.to_json()))
    assert load_request(tmp_path).accelerator == "mock"


def test_progress_says_what_was_replaced() -> None:
    probe = Probe(program=Program(path="/x.py"), rung=Rung.MOCK, switches=switches(Replacement.BACK_END))
    assert probe.label == "mock front_end=main back_end=reference"


def test_the_kernel_script_is_kept_beside_the_report(tmp_path: Path) -> None:
    left = tmp_path / "probe.py"
    left.write_text("raise SystemExit(1)\n")
    shown = Exhibit(kind="kernel_script", title="a kernel", text=str(left))
    culprit = Culprit(stage=Stage.MOCK_BACK_END, confidence=Confidence.PROVEN, exhibits=(shown,))
    found = Findings(program=Program(path="/x.py"), culprits=[culprit])
    keep_kernel_script(found, tmp_path)
    assert (tmp_path / "kernel.py").read_text() == left.read_text()
    assert str(tmp_path / "kernel.py") in found.culprits[0].exhibits[0].text


def test_what_explains_the_run_is_copied_with_the_versions(tmp_path: Path) -> None:
    run, probe = tmp_path / "run", tmp_path / "run" / "probes" / "ab"
    left = probe / "artifacts" / "accelerator"
    (left / "graph0" / "specs").mkdir(parents=True)
    (left / "transfers.jsonl").write_text('{"transfer": "to_device"}\n')
    (left / "graph0" / "specs" / "000_k.json").write_text("{}\n")
    (tmp_path / "secret.txt").write_text("not of this run")
    (left / "link.txt").symlink_to(tmp_path / "secret.txt")
    (left / "folder").symlink_to(tmp_path)
    found = Findings(program=Program(path="/x.py"))
    found.environment["accelerator"] = {"name": "mock", "version": "0.1", "files": str(probe)}
    keep_accelerator_files(found, run)
    files = [path for path in (run / "accelerator").rglob("*") if path.is_file()]
    kept = {path.relative_to(run / "accelerator").as_posix() for path in files}
    assert kept == {"transfers.jsonl", "graph0/specs/000_k.json", "versions.json"}
    versions = json.loads((run / "accelerator" / "versions.json").read_text())
    assert versions["accelerator"] == {"name": "mock", "version": "0.1"}


def test_files_outside_of_the_run_are_never_copied(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "artifacts" / "accelerator"
    outside.mkdir(parents=True)
    (outside / "secret.txt").write_text("not of this run")
    (tmp_path / "run").mkdir()
    found = Findings(program=Program(path="/x.py"))
    found.environment["accelerator"] = {"name": "chip", "files": str(tmp_path / "outside")}
    keep_accelerator_files(found, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "accelerator").iterdir()] == ["versions.json"]
