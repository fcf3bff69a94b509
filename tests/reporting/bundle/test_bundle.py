"""The bundle: complete, the same bytes each time, nothing private; refused when it was tampered with."""

from __future__ import annotations

import ast
import hashlib
import importlib.resources
import io
import json
import os
import random
import runpy
import stat
import string
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_lab.cli.commands.verify_command import command as verify_command
from accel_lab.core import signature as signatures
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.findings import Findings, Repro, Step
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Program
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.bundle import verify
from accel_lab.reporting.bundle.expected import attempts_for, expectation
from accel_lab.reporting.bundle.project_copy import keep_project
from accel_lab.reporting.bundle.run_again import rerun_command
from accel_lab.reporting.bundle.size_budget import Entry, choose, pack
from accel_lab.reporting.bundle.verify import check_bundle, extract_bundle
from accel_lab.reporting.bundle.writer import BundleReport, write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.repro_reader import Reduced, other_of, repro_of
from accel_lab.reporting.schema import load_schema
from accel_lab.reporting.words.summary import next_steps, summarise
from fakes_run import SHAPES, FakeRun

TOP = {
    "ISSUE.md",
    "LEDGER.json",
    "MANIFEST.json",
    "README.md",
    "environment.json",
    "expected.json",
    "original/repro.py",
    "report.html",
    "report.json",
    "repro.py",
    "rerun.py",
    "rerun.sh",
}


def redactor() -> Redactor:
    return Redactor(homes=["/home/alice"], users=["alice"], hosts=["box77"])


def bundle(run: FakeRun, name: str = "bundle.zip", **options: Any) -> BundleReport:
    if run.script.is_file():
        keep_project(run.findings, run.run_dir)
    return write_bundle(run.findings, run.run_dir, run.root / name, redactor=redactor(), **options)


def unpacked(run: FakeRun, **options: Any) -> Path:
    bundle(run, **options)
    extract_bundle(run.root / "bundle.zip", run.root / "out")
    return run.root / "out"


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_makes_a_sound_bundle(tmp_path: Path, shape: str) -> None:
    run = FakeRun(tmp_path, shape)
    report = bundle(run)
    manifest = check_bundle(report.path)
    assert {row.path for row in manifest.files} | {"MANIFEST.json"} == set(report.files)
    needed = TOP if shape != "bare_bones" else TOP - {"original/repro.py"}
    assert needed <= set(report.files)
    assert report.size == report.path.stat().st_size
    assert report.sha256 == hashlib.sha256(report.path.read_bytes()).hexdigest()
    jsonschema.Draft202012Validator(load_schema()).validate(manifest.report)
    assert report.dropped == ()


def test_artifacts_lie_by_rung(tmp_path: Path) -> None:
    files = set(bundle(FakeRun(tmp_path)).files)
    assert "artifacts/kernel/output_code_0.py" in files
    assert "artifacts/fx/post_grad_0.py" in files
    assert "artifacts/baseline/stderr.txt" in files
    assert "artifacts/switch-fusion/outcome.json" in files


def test_two_bundles_are_the_same_bytes(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    one = bundle(run, "one.zip")
    run.findings.bundle = str(tmp_path / "one.zip")
    for path in run.run_dir.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    two = bundle(run, "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert one.sha256 == two.sha256
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        infos = archive.infolist()
    assert [i.filename for i in infos] == sorted(i.filename for i in infos)
    assert {i.date_time for i in infos} == {(1980, 1, 1, 0, 0, 0)}
    executable = {i.filename for i in infos if i.external_attr >> 16 == stat.S_IFREG | 0o755}
    assert executable == {"rerun.py", "rerun.sh"}
    assert {i.external_attr >> 16 for i in infos} == {stat.S_IFREG | 0o755, stat.S_IFREG | 0o644}


def test_nothing_private_is_in_it_and_the_ledger_says_so(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    out = unpacked(run)
    everything = b"".join(path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file())
    assert b"alice" not in everything
    assert b"acme-corp" not in everything
    ledger = json.loads((out / "LEDGER.json").read_text(encoding="utf-8"))["replaced"]
    assert {row["kind"] for row in ledger} == {"email", "home", "user"}
    assert next(row for row in ledger if row["kind"] == "email")["placeholder"] == "person1@mail.invalid"
    script = (out / "repro.py").read_text(encoding="utf-8")
    assert "(x @ w).float()" in script
    assert "2.13.0+cpu" in script
    compile(script, "repro.py", "exec")
    assert "10.3.5.147" in (out / "environment.json").read_text(encoding="utf-8")
    assert "10.3.5.147" in (out / "report.html").read_text(encoding="utf-8")


def test_report_json_names_the_bundles_own_files(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    (run.run_dir / "small.py").write_text("import torch\nraise ValueError\n", encoding="utf-8")
    run.findings.repro = Repro(script="small.py", verified=True)
    run.findings.report = str(tmp_path / "report.html")
    out = unpacked(run)
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert (report["artifacts"], report["report"], report["bundle"]) == ("artifacts", "report.html", None)
    assert report["repro"]["script"] == "repro.py"
    assert (out / "repro.py").read_text(encoding="utf-8") == "import torch\nraise ValueError\n"
    assert "kernel said" in (out / "original/repro.py").read_text(encoding="utf-8")


def test_a_reduced_repro_lies_with_what_it_reads(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    run.findings.summary = summarise(run.findings)
    run.findings.next_steps = next_steps(run.findings)
    out = unpacked(run)
    data = (run.run_dir / "repro/graph/inputs.safetensors").read_bytes()
    assert (out / "inputs.safetensors").read_bytes() == data  # binary: as it is, whatever it holds
    assert (out / "min-good/inputs.safetensors").read_bytes() == data
    assert 'rounding_mode="floor"' in (out / "repro.py").read_text(encoding="utf-8")
    assert 'rounding_mode="trunc"' in (out / "min-good/repro.py").read_text(encoding="utf-8")
    assert "(x @ w).float()" in (out / "reduced/script/repro.py").read_text(encoding="utf-8")
    assert "kernel said 42" in (out / "original/repro.py").read_text(encoding="utf-8")
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    repro = report["repro"]
    assert (repro["script"], repro["graph"]) == ("repro.py", "repro.py")
    assert (repro["min_good"], repro["other"]["script"]) == ("min-good/repro.py", "reduced/script/repro.py")
    assert report["summary"].endswith("(of 34): repro.py.")
    assert "python repro.py exits 1 while the bug is there" in report["next_steps"]
    texts = [
        p.read_text(encoding="utf-8") for p in out.rglob("*") if p.suffix in (".html", ".md", ".json", ".py")
    ]
    assert not [text for text in texts if "alice" in text or str(run.run_dir / "repro") in text]


def test_modules_and_texts_beside_a_repro_are_redacted(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    folder = run.run_dir / "repro" / "graph"
    (folder / "pkg").mkdir()
    (folder / "pkg" / "helper.py").write_text("alice = '/home/alice/x'  # alice\n", encoding="utf-8")
    (folder / "words.txt").write_text("alice@acme-corp.com", encoding="utf-8")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"\0")
    (folder / "link").symlink_to(tmp_path / "repro.py")
    out = unpacked(run)
    assert (out / "pkg/helper.py").read_text(encoding="utf-8") == "alice = '/home/user1/x'  # alice\n"
    assert "alice" not in (out / "words.txt").read_text(encoding="utf-8")
    assert not (out / "__pycache__").exists()
    assert not (out / "link").exists()


def test_modules_of_the_original_lie_beside_it(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich", script="import helper\nimport rerun\n")
    (tmp_path / "helper.py").write_text("y = 1\n", encoding="utf-8")
    out = unpacked(run)
    assert (out / "original/helper.py").is_file()
    assert not (out / "helper.py").exists()


def test_data_that_does_not_fit_is_dropped_with_a_note(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    noise = random.Random(0).randbytes(700_000)
    (run.run_dir / "repro" / "graph" / "inputs.safetensors").write_bytes(noise)
    report = bundle(run, limit_bytes=1_000_000)
    assert report.size <= 1_000_000
    assert [d.name for d in report.dropped] == ["reduced/graph/inputs.safetensors"]
    assert "cannot run without this file" in report.dropped[0].reason
    assert "inputs.safetensors beside it has 700,000 bytes" in report.warnings[0]
    extract_bundle(report.path, tmp_path / "out")
    # The next best takes its place, and can be run.
    assert "(x @ w).float()" in (tmp_path / "out/repro.py").read_text(encoding="utf-8")
    assert "floor" in (tmp_path / "out/reduced/graph/repro.py").read_text(encoding="utf-8")
    assert run.findings.repro is not None
    run.findings.repro.other = None
    bundle(run, limit_bytes=1_000_000)
    extract_bundle(report.path, tmp_path / "again")
    repro = (tmp_path / "again/repro.py").read_text(encoding="utf-8")
    assert repro == (tmp_path / "again/original/repro.py").read_text(encoding="utf-8")
    whole = bundle(run)
    assert whole.dropped == ()
    assert "inputs.safetensors" in whole.files


def test_data_named_as_a_file_of_the_bundles(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    (run.run_dir / "repro" / "graph" / "Report.json").write_text("{}", encoding="utf-8")
    report = bundle(run)
    assert "Report.json beside it has the name of a file of the bundle's" in report.warnings[0]
    check_bundle(report.path)
    assert "reduced/graph/Report.json" in report.files


def test_an_unproven_repro_is_not_what_is_run_again(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "stopped")
    out = unpacked(run)
    assert (out / "reduced/script/repro.py").is_file()
    assert not list(out.rglob("answers.jsonl"))
    assert "kernel said 42" in (out / "repro.py").read_text(encoding="utf-8")
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["repro"]["script"] == "reduced/script/repro.py"


def test_a_bundle_of_a_moved_run_is_the_same(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    one = bundle(run, "one.zip")
    run.run_dir = run.run_dir.rename(tmp_path / "elsewhere")
    assert bundle(run, "two.zip").sha256 == one.sha256


def test_the_script_of_the_run_can_be_given(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.script.unlink()
    out = unpacked(run, script_text="import torch  # as it was\n")
    assert (out / "repro.py").read_text(encoding="utf-8") == "import torch  # as it was\n"


def test_a_script_that_is_gone_is_told(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.script.unlink()
    assert bundle(run).warnings == ("the script is gone or empty: repro.py",)


def test_modules_beside_the_script_come_along(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, script="import os\nimport helper\nfrom pkg.deep import x\nimport rerun\n")
    (tmp_path / "helper.py").write_text("import second\n", encoding="utf-8")
    (tmp_path / "second.py").write_text("y = '/home/bob/x'\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("", encoding="utf-8")
    (tmp_path / "rerun.py").write_text("the user's own", encoding="utf-8")
    (tmp_path / "pkg").mkdir()
    for name in ("__init__", "deep"):
        (tmp_path / "pkg" / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
    out = unpacked(run)
    assert (out / "original/second.py").read_text(encoding="utf-8") == "y = '/home/user1/x'\n"
    assert (out / "original/helper.py").is_file()
    assert (out / "original/pkg/deep.py").is_file()
    assert not (out / "original/other.py").exists()
    assert (out / "original/rerun.py").read_text(encoding="utf-8") == "the user's own"
    assert "the user's own" not in (out / "rerun.py").read_text(encoding="utf-8")


def test_a_module_run_is_run_as_a_module(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test(): assert 0\n", encoding="utf-8")
    run = FakeRun(tmp_path)
    run.findings.program = Program(module="json.tool", args=(f"{test}::test", "-q"))
    out = unpacked(run)
    assert (out / "original/inputs/test_it.py").is_file()  # an argument that names a file from elsewhere
    text = (out / "repro.py").read_text(encoding="utf-8")
    assert "[sys.executable, '-m', 'json.tool', 'inputs/test_it.py::test', '-q']" in text
    compile(text, "repro.py", "exec")
    expected = json.loads((out / "expected.json").read_text(encoding="utf-8"))
    assert expected["args"] == ["inputs/test_it.py::test", "-q"]
    assert (expected["run"]["module"], expected["run"]["script"]) == ("json.tool", None)


def test_an_encoding_cookie_stays_true(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    run.script.write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    out = unpacked(run)
    made = runpy.run_path(str(out / "repro.py"))
    assert made["x"] == "é"


def test_binary_and_huge_artifacts(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    folder = Path(run.findings.ladder[-1].outcome.folder)
    (folder / "artifacts" / "kernel.so").write_bytes(b"\x7fELF\0\0")
    (folder / "stderr.txt").write_text("line\n" * 200_000, encoding="utf-8")
    report = bundle(run)
    assert [(d.name, d.size) for d in report.dropped] == [
        ("artifacts/kernel/kernel.so", 6),
        ("artifacts/kernel/stderr.txt", 1_000_000),
    ]
    assert "artifacts/kernel/kernel.so" not in report.files
    assert "artifacts/kernel/stderr.txt" in report.files
    manifest = check_bundle(report.path)
    assert [row["path"] for row in manifest.dropped] == [d.name for d in report.dropped]


def test_the_least_useful_is_dropped_first(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    noise = random.Random(0)
    for step in [*run.findings.ladder, *run.findings.ablation]:
        for name in ("stdout.txt", "artifacts/output_code_1.py"):
            text = "".join(noise.choices(string.ascii_letters, k=60_000))
            Path(step.outcome.folder, name).write_text(text, encoding="utf-8")
    whole = bundle(run)
    assert whole.dropped == ()
    small = bundle(run, limit_bytes=400_000)
    assert small.size <= 400_000
    assert set(small.files) >= TOP
    assert "artifacts/kernel/output_code_1.py" in small.files
    assert "artifacts/fx/output_code_1.py" in small.files
    gone = {d.name for d in small.dropped}
    assert "artifacts/dynamo/stdout.txt" in gone
    assert "artifacts/switch-fusion/output_code_1.py" in gone
    assert gone | set(small.files) == set(whole.files)
    assert gone == {row["path"] for row in check_bundle(small.path).dropped}
    tiny = bundle(run, limit_bytes=120_000)
    assert tiny.size <= 120_000
    with pytest.raises(LabError, match="does not fit"):
        bundle(run, limit_bytes=30_000)


def test_repetitive_texts_are_no_bomb(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    Path(run.findings.ladder[-1].outcome.folder, "artifacts/output_code_0.py").write_text(
        "0" * 3_000_000, "utf-8"
    )
    check_bundle(bundle(run).path)


def test_names_that_differ_in_case_only(tmp_path: Path) -> None:
    run = FakeRun(tmp_path)
    folder = Path(run.findings.ladder[-1].outcome.folder, "artifacts")
    (folder / "A.py").write_text("1", encoding="utf-8")
    (folder / "a.py").write_text("2", encoding="utf-8")
    report = bundle(run)
    assert [d.name for d in report.dropped] == ["artifacts/kernel/a.py"]
    check_bundle(report.path)


_ENTRIES = st.dictionaries(
    st.text(string.ascii_lowercase, min_size=1, max_size=6),
    st.tuples(st.binary(max_size=300), st.integers(0, 3)),
    max_size=8,
)


@given(_ENTRIES, st.integers(0, 3_000))
def test_planner_keeps_the_limit_and_loses_nothing(
    contents: dict[str, tuple[bytes, int]], limit: int
) -> None:
    entries = [Entry(name=name, data=data, rank=rank) for name, (data, rank) in contents.items()]
    try:
        kept, dropped = choose(entries, limit)
    except LabError:
        assert sum(pack(e).size for e in entries if e.rank == 0) > limit
        return
    assert sum(p.size for p in kept) <= limit
    assert {p.entry.name for p in kept} | {d.name for d in dropped} == set(contents)
    assert len(kept) + len(dropped) == len(contents)
    assert all(contents[d.name][1] > 0 for d in dropped)
    assert choose(reversed(entries), limit) == (kept, dropped)


# Bundles that were tampered with.


def rewritten(
    source: Path, target: Path, change: Callable[[dict[str, bytes]], None], *, refresh: bool = False
) -> Path:
    """A copy with its files changed; ``refresh`` makes the manifest agree again."""
    with zipfile.ZipFile(source) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    if refresh:
        manifest = json.loads(files["MANIFEST.json"])
        manifest["files"] = [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
            if name != "MANIFEST.json"
        ]
        files["MANIFEST.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return bundle(FakeRun(tmp_path)).path


def refused(path: Path, words: str) -> None:
    """Refused in one line by both, and nothing is written."""
    with pytest.raises(UsageError, match=words) as caught:
        check_bundle(path)
    assert "\n" not in str(caught.value)
    folder = path.parent / "never"
    with pytest.raises(UsageError):
        extract_bundle(path, folder)
    assert not folder.exists()


def test_not_a_zip(tmp_path: Path, sound: Path) -> None:
    refused(tmp_path / "none.zip", "no such bundle")
    refused(tmp_path / "run", "no such bundle")
    (tmp_path / "text.zip").write_text("hello", encoding="utf-8")
    refused(tmp_path / "text.zip", "not a sound zip")
    (tmp_path / "empty.zip").write_bytes(b"")
    refused(tmp_path / "empty.zip", "not a sound zip")
    (tmp_path / "half.zip").write_bytes(sound.read_bytes()[: sound.stat().st_size // 2])
    refused(tmp_path / "half.zip", "not a sound zip")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.pop("MANIFEST.json"), "has no MANIFEST.json"),
        (lambda f: f.pop("repro.py"), "repro.py is missing"),
        (lambda f: f.update({"extra.py": b"1"}), "extra.py is not in its manifest"),
        (lambda f: f.update({"repro.py": f["repro.py"].replace(b"float", b"short")}), "repro.py has another"),
        (
            lambda f: f.update({"repro.py": f["repro.py"].replace(b"float", b"flout")}),
            "repro.py has another sha256",
        ),
        (lambda f: f.update({"MANIFEST.json": b"{"}), "damaged manifest"),
        (lambda f: f.update({"MANIFEST.json": b"[]"}), "damaged manifest"),
        (lambda f: f.update({"MANIFEST.json": b"[" * 100_000}), "damaged manifest"),
        (lambda f: f.update({"MANIFEST.json": b'{"schema": "other/1"}'}), "has the format 'other/1'"),
        (
            lambda f: f.update(
                {"MANIFEST.json": f["MANIFEST.json"].replace(b'"size": ', b'"size": "1",  "x": ')}
            ),
            "damaged",
        ),
    ],
)
def test_changed_contents(
    tmp_path: Path, sound: Path, change: Callable[[dict[str, bytes]], None], words: str
) -> None:
    refused(rewritten(sound, tmp_path / "bad.zip", change), words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil.py", "leads elsewhere"),
        ("a/../../evil.py", "leads elsewhere"),
        ("./evil.py", "leads elsewhere"),
        ("a//evil.py", "leads elsewhere"),
        ("folder/", "leads elsewhere"),
        ("/etc/evil", "absolute"),
        ("C:/evil", "absolute"),
        ("a\\..\\evil", "backslash"),
        ("evil\n.py", "unsafe"),
        ("REPRO.py", "two entries"),
        ("repro.py/evil", "below an entry"),
    ],
)
def test_names_that_lead_elsewhere(tmp_path: Path, sound: Path, name: str, words: str) -> None:
    path = rewritten(sound, tmp_path / "bad.zip", lambda files: files.update({name: b"1"}), refresh=True)
    refused(path, words)


def test_required_files_must_be_listed(tmp_path: Path, sound: Path) -> None:
    path = rewritten(sound, tmp_path / "bad.zip", lambda files: files.pop("rerun.py"), refresh=True)
    refused(path, "lists no rerun.py")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_entries(tmp_path: Path, sound: Path) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(sound.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("repro.py", "print('other')")
    refused(path, "two entries are called repro.py")


def test_links_and_special_files(tmp_path: Path, sound: Path) -> None:
    for kind in (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO):
        path = tmp_path / "bad.zip"
        path.write_bytes(sound.read_bytes())
        with zipfile.ZipFile(path, "a") as archive:
            info = zipfile.ZipInfo("link")
            info.external_attr = (kind | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
        refused(path, "link or another special file")


def test_bombs(tmp_path: Path, sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rewritten(sound, tmp_path / "bomb.zip", lambda f: f.update({"z": bytes(5_000_000)}), refresh=True)
    refused(path, "unpacks to 200 times its size")
    noise = random.Random(1).randbytes(200_000)
    path = rewritten(sound, tmp_path / "big.zip", lambda f: f.update({"a": noise, "b": noise}), refresh=True)
    check_bundle(path)
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", 150_000)
    refused(path, "more than 150,000 bytes")
    monkeypatch.setattr(verify, "MAX_FILE_BYTES", 10**9)
    monkeypatch.setattr(verify, "MAX_TOTAL_BYTES", 300_000)
    refused(path, "more than 300,000 bytes unpacked")
    monkeypatch.setattr(verify, "MAX_FILES", 10)
    refused(path, "more than 10 entries")


def test_a_size_that_lies_is_not_believed(tmp_path: Path, sound: Path) -> None:
    """The directory says 10 bytes, the data unpack to many more."""
    path = rewritten(
        sound, tmp_path / "lie.zip", lambda f: f.update({"zz": b"0123456789" * 5_000}), refresh=True
    )
    data = bytearray(path.read_bytes())
    size = (50_000).to_bytes(4, "little")
    places = [n for n in range(len(data)) if data[n : n + 4] == size]
    assert len(places) == 2
    for place in places:
        data[place : place + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"zz|sound zip"):
        check_bundle(path)


def test_overlapping_entries(tmp_path: Path, sound: Path) -> None:
    data = bytearray(sound.read_bytes())
    with zipfile.ZipFile(sound) as archive:
        second, third = archive.infolist()[1:3]
    old, new = third.header_offset.to_bytes(4, "little"), second.header_offset.to_bytes(4, "little")
    central = data.rindex(b"PK\x01\x02", 0, data.rindex(third.filename.encode()))
    place = data.index(old, central)
    data[place : place + 4] = new
    path = tmp_path / "bad.zip"
    path.write_bytes(data)
    refused(path, "overlap|sound zip")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_is_one_clean_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever byte changes, the answer is a sound manifest or a LabError, never another exception."""
    path = tmp_path_factory.mktemp("damage") / "b.zip"
    content = bytearray(_small_bundle())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        check_bundle(path)
    except LabError as error:
        assert "\n" not in str(error)


def _small_bundle() -> bytes:
    files = dict.fromkeys(verify.REQUIRED, b"{}")
    rows = [{"path": n, "size": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()]
    manifest = {"schema": "accel-lab/bundle/1", "accel_lab": "0", "files": rows, "dropped": []}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, "MANIFEST.json": json.dumps(manifest).encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def test_extraction(tmp_path: Path, sound: Path) -> None:
    folder = tmp_path / "a" / "b"
    manifest = extract_bundle(sound, folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {row.path for row in manifest.files} | {"MANIFEST.json"}
    assert sum(row.size for row in manifest.files) == manifest.size
    assert os.access(folder / "rerun.sh", os.X_OK)
    assert not os.access(folder / "repro.py", os.X_OK)
    with pytest.raises(UsageError, match="is not empty"):
        extract_bundle(sound, folder)
    assert rerun_command(folder, "python9") == ["python9", str(folder / "rerun.py")]


# Running a bundle again.


def test_rerun_is_old_pythons_python() -> None:
    text = (
        importlib.resources.files("accel_lab.reporting.bundle")
        .joinpath("rerun.py.j2")
        .read_text(encoding="utf-8")
    )
    ast.parse(text, feature_version=(3, 8))
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def rerun(folder: Path, python: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        rerun_command(folder, python), capture_output=True, text=True, timeout=300, env={**os.environ, **env}
    )


def with_fake_torch(folder: Path) -> dict[str, str]:
    """An empty package called torch: enough for scripts that do not use it."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("", encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


def failing(run: FakeRun, outcome: Outcome, signature: Signature | None) -> Findings:
    """The run's findings, its plain run having ended so."""
    step: Step = run.step(Rung.KERNEL, Verdict.BAD, outcome=outcome, signature=signature, bare=True)
    return replace(run.findings, baseline=[step], signature=signature)


@pytest.mark.parametrize(
    ("script", "outcome", "signature", "match"),
    [
        (
            "raise KeyError('value 7')",
            Outcome(status=Status.EXCEPTION, raised=Raised(type="KeyError", message="'value 12'")),
            Signature(kind="exception", type="KeyError"),
            True,
        ),
        (
            "raise KeyError('value 7')",
            Outcome(status=Status.EXCEPTION, raised=Raised(type="KeyError", message="'other'")),
            Signature(kind="exception", type="KeyError"),
            False,
        ),
        (
            "raise LookupError('value')",
            Outcome(status=Status.EXCEPTION, raised=Raised(type="KeyError", message="value")),
            Signature(kind="exception", type="KeyError"),
            False,
        ),
        (
            "class Wrapped(Exception): pass\n"
            "try:\n  raise KeyError('inner')\nexcept KeyError as e:\n  raise Wrapped('w') from e",
            Outcome(status=Status.EXCEPTION, raised=Raised(type="mine.Wrapped", message="w")),
            Signature(kind="exception", type="KeyError"),
            True,
        ),
        ("import sys; sys.exit(3)", Outcome(status=Status.EXIT, exit_code=3), Signature(kind="exit"), True),
        ("import sys; sys.exit(4)", Outcome(status=Status.EXIT, exit_code=3), Signature(kind="exit"), False),
        (
            "import os; os.kill(os.getpid(), 11)",
            Outcome(status=Status.SIGNAL, signal=11),
            Signature(kind="signal", type="SIGSEGV"),
            True,
        ),
        ("pass", Outcome(status=Status.SIGNAL, signal=11), Signature(kind="signal", type="SIGSEGV"), False),
        (
            "import os; os.kill(os.getpid(), 6)",
            Outcome(status=Status.SIGNAL, signal=11),
            Signature(kind="memory_fault", type="SIGSEGV"),
            True,
        ),
        (
            "import os; os.kill(os.getpid(), 8)",
            Outcome(status=Status.SIGNAL, signal=11),
            Signature(kind="memory_fault", type="SIGSEGV"),
            False,
        ),
        ("raise MemoryError", Outcome(status=Status.MEMORY), Signature(kind="memory"), True),
        ("pass", Outcome(status=Status.OK, exit_code=0), None, True),
    ],
)
def test_rerun_compares(
    tmp_path: Path, script: str, outcome: Outcome, signature: Signature | None, match: bool
) -> None:
    run = FakeRun(tmp_path, "passes", script=script)
    run.findings = failing(run, outcome, signature)
    env = with_fake_torch(tmp_path / "fake")
    done = rerun(unpacked(run), **env)
    assert done.stdout.splitlines()[0].startswith("running repro.py with")
    assert ("\nMATCH: " if match else "\nMISMATCH: ") in done.stdout
    assert done.returncode == (0 if match else 1)


def rerun_reduced(tmp_path: Path, run: FakeRun) -> subprocess.CompletedProcess[str]:
    env = with_fake_torch(tmp_path / "fake")
    stand_in = "def compile(f): return f\ndef arange(n): return n\ndef div(*args, **named): return 0\n"
    (tmp_path / "fake" / "torch" / "__init__.py").write_text(stand_in, encoding="utf-8")
    return rerun(unpacked(run), **env)


def test_rerun_runs_the_reduced_repro(tmp_path: Path) -> None:
    """Redacted, with its data beside it; the script of the run would end otherwise."""
    run = FakeRun(tmp_path, "rich", script="pass  # the original passes here\n")
    done = rerun_reduced(tmp_path, run)
    assert done.returncode == 0, done.stdout
    assert "\nMATCH: RuntimeError: kernel said <n>" in done.stdout


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("raise RuntimeError('kernel said 7 at /x/x.py')", True),
        ("raise RuntimeError('another thing')", False),
        ("raise ValueError('kernel said 7 at /x/x.py')", False),
        ("raise ImportError('no module')", False),
        ("pass", False),
        # The exception inside of a wrapper counts, be it chained or told in the message.
        ("raise LookupError(\"backend='inductor' raised:\\nRuntimeError: kernel said 7 at /x/x.py\")", True),
        ("raise LookupError('w') from RuntimeError('kernel said 9 at /x/x.py')", True),
    ],
)
def test_the_reduced_repro_must_fail_alike(tmp_path: Path, line: str, match: bool) -> None:
    run = FakeRun(tmp_path, "rich")
    run.repro("graph", f"import torch\n{line}\n")
    done = rerun_reduced(tmp_path, run)
    assert done.returncode == (0 if match else 1), done.stdout


@pytest.mark.parametrize(
    ("kind", "plain", "line", "match"),
    [
        ("values", "exit 1", "raise AssertionError('the compiled function returns other values')", True),
        ("values", "exit 1", "raise SystemExit('the uncompiled function raises')", True),
        ("values", "exit 1", "raise ModuleNotFoundError('x')", False),
        ("values", "exit 1", "pass", False),
        ("signal", "signal 11", "import os; os.kill(os.getpid(), 11)", True),
        ("signal", "signal 11", "import os; os.kill(os.getpid(), 6)", False),
        ("memory_fault", "signal 11", "import os; os.kill(os.getpid(), 6)", True),
        ("timeout", "exit 1", "import os; os._exit(1)", True),
        ("timeout", "exit 1", "pass", False),
        ("exit", "exit 3", "raise SystemExit(3)", True),
        ("exit", "exit 3", "raise SystemExit(4)", False),
        ("check", "exit 0", "pass", True),
        ("check", "exit 0", "raise SystemExit(1)", False),
        ("regex", "exit 1", "raise ValueError('judged by what it printed')", True),
        ("memory", "exit 1", "raise MemoryError", True),
        ("memory", "signal 9", "import os; os.kill(os.getpid(), 9)", True),
        ("memory", "exit 1", "raise ValueError", False),
    ],
)
def test_rerun_of_every_kind_of_reduced_failure(
    tmp_path: Path, kind: str, plain: str, line: str, match: bool
) -> None:
    status = {
        "signal": Status.SIGNAL,
        "timeout": Status.TIMEOUT,
        "exit": Status.EXIT,
        "memory": Status.MEMORY,
        "regex": Status.EXCEPTION,
    }.get(kind, Status.OK)
    run = FakeRun(tmp_path, "rich")
    repro = run.findings.repro
    assert repro is not None
    repro.proof.plain = plain
    run.repro("graph", f"import torch\n{line}\n")
    run.findings = failing(run, Outcome(status=status, seconds=1.0), Signature(kind=kind))
    done = rerun_reduced(tmp_path, run)
    assert done.returncode == (0 if match else 1), done.stdout


def test_a_reduced_script_gets_the_arguments_and_a_graph_does_not(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "rich")
    run.findings.program = replace(run.program, args=("--size", "3"))
    graph, script = repro_of(run.findings, run.run_dir), other_of(run.findings, run.run_dir)
    assert graph is not None
    assert script is not None
    assert expectation(run.findings, graph)["args"] == []
    assert expectation(run.findings, script)["args"] == ["--size", "3"]
    assert script.command("repro.py") == "python repro.py --size 3"


def test_verify_command_runs_the_reduced_repro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun(tmp_path, "rich", script="pass\n")
    run.repro("graph", "import torch\nraise RuntimeError('kernel said 1 at /home/alice/x.py')\n")
    monkeypatch.setenv("PYTHONPATH", with_fake_torch(tmp_path / "fake")["PYTHONPATH"])
    path = bundle(run).path
    arguments = [str(path), "--python", sys.executable, "--yes"]
    code = verify_command.main(arguments, standalone_mode=False)
    assert code == 0


def test_rerun_ends_a_hang(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "passes", script="import time\ntime.sleep(600)\n")
    outcome = Outcome(status=Status.TIMEOUT, seconds=0.5)
    run.findings = failing(run, outcome, Signature(kind="timeout"))
    out = unpacked(run)
    expected = json.loads((out / "expected.json").read_text(encoding="utf-8"))
    assert expected["timeout_s"] == 10.0
    (out / "expected.json").write_text(json.dumps({**expected, "timeout_s": 1.0}), encoding="utf-8")
    assert rerun(out, **with_fake_torch(tmp_path / "fake")).returncode == 0


def test_rerun_tries_a_flaky_failure_again(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = (
        f"import pathlib\np = pathlib.Path({str(counter)!r})\nn = len(p.read_text()) if p.exists() else 0\n"
    )
    script += "p.write_text('x' * (n + 1))\nif n == 1:\n    raise ValueError('now')\n"
    run = FakeRun(tmp_path, "passes", script=script)
    outcome = Outcome(status=Status.EXCEPTION, raised=Raised(type="ValueError", message="now"))
    run.findings = failing(run, outcome, Signature(kind="exception", type="ValueError", message="now"))
    run.findings.failure_rate = 0.5
    done = rerun(unpacked(run), **with_fake_torch(tmp_path / "fake"))
    assert done.returncode == 0
    assert "try 2 of at most 7" in done.stdout


def test_attempts() -> None:
    assert [attempts_for(rate) for rate in (None, 1.0, 0.99, 0.9, 0.7, 0.5, 0.01, 0.0)] == [
        1,
        1,
        2,
        2,
        4,
        7,
        40,
        40,
    ]


def test_rerun_without_torch_is_2(tmp_path: Path) -> None:
    out = unpacked(FakeRun(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(out / "rerun.py")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "has no torch" in done.stdout
    shell = subprocess.run(
        ["sh", str(out / "rerun.sh")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHON": "/nonexistent/python"},
    )
    assert shell.returncode == 2
    assert "is not a program" in shell.stdout


def test_rerun_normalises_as_the_lab_does(tmp_path: Path) -> None:
    out = unpacked(FakeRun(tmp_path))
    script = runpy.run_path(str(out / "rerun.py"))
    expected = json.loads((out / "expected.json").read_text(encoding="utf-8"))
    messages = [
        "size 3 at 0x7f12 in /home/x/y.py: buf12 [1, 2, 3] -1.5e-3 nan",
        "backend='inductor' raised:\nLoweringException: X\n\nSet TORCHDYNAMO_VERBOSE=1 for more",
        "\x1b[31mred\x1b[0m " + "long " * 200,
        "",
    ]
    for message in messages:
        assert script["normalise"](message, expected)[:400] == normalise(message)
    assert len(expected["rules"]) == len(signatures._RULES)


def test_expectation_of_wrong_numbers(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "values")
    assert expectation(run.findings)["compare_values"] is True
    silent = Reduced(path="r.py", text="x", verified=True, end=("exit", 0), kind="script")
    assert expectation(run.findings, silent)["compare_values"] is True
    checked = expectation(run.findings, replace(silent, end=("exit", 1)))
    assert (checked["compare_values"], checked["type"]) == (False, "AssertionError")


VALUES = """
import torch

@torch.library.custom_op("lab::bad", mutates_args=())
def bad(x: torch.Tensor) -> torch.Tensor:
    return x + {wrong} * float(torch.compiler.is_compiling() or torch._dynamo.is_compiling())

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        y = self.drop(self.linear(x))
        if torch.compiler.is_compiling():
            y = y * {factor}
        return y

net = Net()
compiled = torch.compile(net, backend="aot_eager_decomp_partition")
net(torch.ones(2, 4))
for _ in range(2):
    compiled(torch.ones(2, 4)).sum().backward()

@torch.compile(backend="eager")
def f(x):
    return x * 2

assert isinstance(compiled, torch.nn.Module)
f(torch.arange(3))
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("factor", "code"), [("1.5", 0), ("1.0", 1)])
def test_rerun_compares_numbers(tmp_path: Path, torch_python: str, factor: str, code: int) -> None:
    script = VALUES.replace("{factor}", factor)
    script = script[: script.index("@torch.library")] + script[script.index("class Net") :]
    run = FakeRun(tmp_path, "passes", script=script)
    outcome = Outcome(status=Status.OK, exit_code=0)
    run.findings = failing(run, outcome, Signature(kind="values", message="output differs"))
    done = rerun(unpacked(run), torch_python)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("MATCH: values" if code == 0 else "they agree") in done.stdout


@pytest.mark.torch
@pytest.mark.slow
def test_rerun_of_a_real_compiler_failure(tmp_path: Path, torch_python: str) -> None:
    script = "import torch\n\ndef broken(gm, inputs):\n    raise ValueError('size 3 is bad')\n\n"
    script += "print(torch.compile(lambda x: x + 1, backend=broken)(torch.ones(3)))  # /home/alice\n"
    run = FakeRun(tmp_path, "passes", script=script)
    printed = "backend='broken' raised:\nValueError: size 9 is bad\n\nSet TORCHDYNAMO_VERBOSE=1 for the rest"
    raised = Raised(type="torch._dynamo.exc.BackendCompilerFailed", message=printed)
    outcome = Outcome(status=Status.EXCEPTION, raised=raised)
    run.findings = failing(run, outcome, Signature(kind="exception", type="BackendCompilerFailed"))
    out = unpacked(run)
    shell = subprocess.run(
        ["sh", str(out / "rerun.sh")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHON": torch_python},
    )
    assert shell.returncode == 0, shell.stdout
