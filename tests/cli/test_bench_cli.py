"""``accel-lab bench``: what it measures, its exit codes, streams and files; once with a real torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from accel_lab.reporting.schema import plain
from accel_lab.workloads.registry import BACKENDS, MODELS
from fakes_bench import RICH, FakePython

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "bisect"
SCHEMA = json.loads((SOURCE / "accel_lab" / "reporting" / "bench.schema.json").read_text())

#: A backend of another package, registered as an entry point, with statistics of its own.
ADAPTER = """
class Toy:
    seen = 0

    def backend(self, gm, inputs):
        Toy.seen += 1
        return gm.forward

    def statistics(self):
        return {"kernels_generated": 7, "fallbacks": {"aten.sum": Toy.seen}, "seconds": {"run": 1.0}}
"""


def bench(tmp_path: Path, *args: str, timeout: float = 900.0, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accel_lab", "bench", "--out", str(tmp_path / "out"), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
    )


def test_everything_by_a_fake_interpreter(tmp_path: Path) -> None:
    python = FakePython(tmp_path)
    done = bench(tmp_path, "--all", "--python", str(python.path), "--runs", "4", "--size", "small")
    assert done.returncode == 0, done.stderr
    asked = [job["name"] for job in python.asked]
    assert asked == ["describe", *(f"{m}-{b}" for m in MODELS for b in [*BACKENDS, "toy"])]
    (folder,) = (tmp_path / "out").iterdir()
    assert {"bench.html", "bench.json", "latency.svg", "first-call.svg"} <= {p.name for p in folder.iterdir()}
    assert not (folder / "rows" / "lib").exists()
    found = json.loads((folder / "bench.json").read_text())
    jsonschema.validate(found, SCHEMA)
    assert found["settings"]["runs"] == 4
    assert found["environment"]["threads"] == 2  # what the worker tells of its machine
    assert [row["standing"] for row in found["rows"]] == ["ok"] * len(asked[1:])
    for title in ("BERT-base", "ResNet-18", "state-space"):
        assert title in done.stdout
    assert str(folder) in done.stdout
    assert done.stderr.count("✓") == len(asked) - 1


def test_json_alone_stands_on_standard_output(tmp_path: Path) -> None:
    python = FakePython(tmp_path)
    given = (
        "--model",
        "ssm",
        "--backend",
        "inductor",
        "--backend",
        "eager",
        "--train",
        "--dtype",
        "bfloat16",
    )
    done = bench(tmp_path, *given, "--python", str(python.path), "--json", "-q")
    assert done.returncode == 0 and done.stderr == ""
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    assert [(row["model"], row["backend"]) for row in found["rows"]] == [
        ("ssm", "inductor"),
        ("ssm", "eager"),
    ]
    job = python.asked[1]
    assert job["train"] is True and job["dtype"] == "bfloat16" and job["size"] == "base"


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "--model"),
        (("--model", "gpt"), 2, "gpt"),
        (("--all", "--backend", "warp"), 2, "there is no backend 'warp'"),
        (("--all", "--device", "tpu"), 2, "tpu"),
        (("--all", "--runs", "0"), 2, "--runs"),
        (("--all", "--python", "/no/such/python"), 2, "--python"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    tmp_path: Path, args: tuple[str, ...], code: int, says: str
) -> None:
    python = () if "--python" in args else ("--python", str(FakePython(tmp_path).path))
    done = bench(tmp_path, *python, *args)
    assert done.returncode == code
    assert done.stdout == ""
    assert says in done.stderr and "Traceback" not in done.stderr


def test_what_the_interpreter_lacks_is_exit_code_3(tmp_path: Path) -> None:
    doctor = {"python": "3.11.9", "torch": "", "torch_error": "no package named torch"}
    done = bench(tmp_path, "--all", "--python", str(FakePython(tmp_path, doctor=doctor).path))
    assert done.returncode == 3
    assert "no usable torch" in done.stderr and len(done.stderr.splitlines()) == 1
    answers = {"describe": {"device_ready": False}}
    done = bench(tmp_path, "--all", "--device", "cuda", "--python", str(FakePython(tmp_path, answers).path))
    assert done.returncode == 3
    assert "sees no cuda device" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_model_without_its_package_is_skipped_and_the_others_run(tmp_path: Path) -> None:
    doctor = {"python": "3.11.9", "torch": "2.99.0", "packages": {"torchvision": "1"}}
    python = FakePython(tmp_path, doctor=doctor)
    # A narrow terminal breaks the line and loses nothing of it.
    done = bench(tmp_path, "--all", "--backend", "eager", "--python", str(python.path), COLUMNS="60")
    assert done.returncode == 0
    there = ("resnet18", "ssm", "decoder", "unet")
    assert [job["name"] for job in python.asked] == ["describe", *(f"{name}-eager" for name in there)]
    assert "pip install transformers" in " ".join(done.stdout.split())
    alone = bench(tmp_path, "--model", "bert", "--backend", "eager", "--python", str(python.path))
    assert alone.returncode == 3
    assert "NOTHING MEASURED" in alone.stdout


def test_a_backend_that_fails_or_differs_is_a_row_and_exit_code_1(tmp_path: Path) -> None:
    python = FakePython(tmp_path, {**RICH, "ssm-aot": {"part": "first call", "exit": 0}})
    done = bench(tmp_path, "--model", "bert", "--python", str(python.path), "--json")
    assert done.returncode == 1
    rows = {row["backend"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["aot"]["standing"] == "differs" and "output.0" in rows["aot"]["reason"]
    assert rows["mock"]["violations"] == {"shape alignment": 3, "dtype": 1}
    again = bench(tmp_path, "--model", "ssm", "--backend", "aot", "--python", str(python.path), "--json")
    assert again.returncode == 1
    assert "first call" in json.loads(again.stdout)["rows"][0]["reason"]


def test_a_backend_that_is_not_there_fails_nothing(tmp_path: Path) -> None:
    python = FakePython(tmp_path, {"ssm-mock": RICH["ssm-mock"]})
    done = bench(tmp_path, "--model", "ssm", "--python", str(python.path))
    assert done.returncode == 0
    assert "this accel-lab has no mock" in done.stdout


def test_an_interruption_keeps_what_was_measured(tmp_path: Path) -> None:
    python = FakePython(tmp_path, interrupt="ssm-aot")
    done = bench(tmp_path, "--model", "ssm", "--python", str(python.path), "--json", timeout=60)
    assert done.returncode == 130
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    assert found["complete"] is False
    assert [row["backend"] for row in found["rows"]] == ["eager", "dynamo"]
    assert "interrupted" in done.stderr
    early = bench(
        tmp_path,
        "--model",
        "ssm",
        "--python",
        str(FakePython(tmp_path, interrupt="describe").path),
        timeout=60,
    )
    assert early.returncode == 130 and early.stdout == ""


def test_the_list_names_models_and_backends_and_measures_nothing(tmp_path: Path) -> None:
    done = bench(tmp_path, "--list")
    assert done.returncode == 0 and not (tmp_path / "out").exists()
    for name in (*MODELS, *BACKENDS, "transformers", "torch alone"):
        assert name in done.stdout
    told = json.loads(bench(tmp_path, "--list", "--json").stdout)
    assert [model["name"] for model in told["models"]] == list(MODELS)


def test_a_slower_row_is_a_regression(tmp_path: Path) -> None:
    quick = {"samples_ms": [10.0 + n / 10 for n in range(8)], "eager_samples_ms": [10.0] * 8}
    slow = {**quick, "samples_ms": [20.0 + n / 10 for n in range(8)]}
    given = ("--model", "ssm", "--size", "small", "--backend", "aot", "--warmup", "1")
    python = FakePython(tmp_path, {"ssm-aot": quick})
    first = bench(tmp_path, *given, "--python", str(python.path), "--json")
    assert first.returncode == 0 and python.asked[-1]["warmup"] == 1
    base = tmp_path / "base.json"
    base.write_text(first.stdout)
    again = bench(tmp_path, *given, "--python", str(python.path), "--compare", str(base))
    assert again.returncode == 0, again.stderr
    assert "no regression" in again.stdout and "no difference beyond chance" in again.stdout
    python = FakePython(tmp_path, {"ssm-aot": slow})
    third = bench(tmp_path, *given, "--python", str(python.path), "--compare", str(base), "--json")
    assert third.returncode == 1
    found = json.loads(third.stdout)
    jsonschema.validate(found, SCHEMA)
    assert [row["change"] for row in found["compared"]["rows"]] == ["slower"]
    other = bench(tmp_path, *given, "--dtype", "float16", "--compare", str(base))
    assert other.returncode == 2 and "dtype 'float32'" in other.stderr
    assert len(other.stderr.strip().splitlines()) == 1


def test_what_is_no_benchmark_is_refused_in_one_line(tmp_path: Path) -> None:
    for text, says in (("{}", "earlier run"), ("[", "earlier run"), (None, "there is no file")):
        base = tmp_path / "base.json"
        base.unlink(missing_ok=True)
        if text is not None:
            base.write_text(text)
        done = bench(tmp_path, "--model", "ssm", "--compare", str(base))
        assert done.returncode == 2 and says in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_documented_commands_parse(tmp_path: Path) -> None:
    """Every bench command of docs/measuring.md parses; a fake interpreter runs it."""
    text = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    lines = re.findall(r"^accel-lab bench (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    assert len(lines) >= 3
    python = FakePython(tmp_path, {"describe": {"adapters": ["toy", "NAME"]}})
    for line in lines:
        done = bench(tmp_path, *line.split(), "--python", str(python.path))
        assert done.returncode == 0, (line, done.stderr)


def adapter_package(folder: Path) -> Path:
    """A package with an adapter, as pip would have installed it."""
    (folder / "toy-1.0.dist-info").mkdir(parents=True)
    (folder / "toy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (folder / "toy-1.0.dist-info" / "entry_points.txt").write_text(
        "[accel_lab.adapters]\ntoy = toy_adapter:Toy\n"
    )
    (folder / "toy_adapter.py").write_text(ADAPTER)
    return folder


@pytest.mark.torch
@pytest.mark.slow
def test_a_real_benchmark_with_an_adapter(torch_python: str, tmp_path: Path) -> None:
    path = adapter_package(tmp_path / "site")
    done = bench(
        tmp_path,
        *("--model", "ssm", "--size", "small", "--runs", "3", "--python", torch_python, "--json"),
        *("--backend", "eager", "--backend", "inductor", "--backend", "toy"),
        PYTHONPATH=os.pathsep.join([str(SOURCE), str(path)]),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(plain(found), SCHEMA)
    rows = {row["backend"]: row for row in found["rows"]}
    assert {row["standing"] for row in rows.values()} == {"ok"}
    assert rows["toy"]["fallbacks"] == {"aten.sum": 1} and rows["toy"]["kernels"] == 7
    assert rows["toy"]["violations"] is None and rows["toy"]["parts_ms"] == {"run": 0.0}
    assert rows["toy"]["distance"]["to_eager"] == 0
    assert rows["inductor"]["kernels"] > 0 and rows["inductor"]["graphs"] == 1
    assert rows["eager"]["graphs"] is None and rows["eager"]["ratio_to_eager"] is None
    assert all(row["latency_ms"]["count"] == 3 and row["first_call_s"] > 0 for row in rows.values())
    assert rows["inductor"]["memory"]["steady_mb"] > rows["inductor"]["memory"]["imports_mb"] > 0
