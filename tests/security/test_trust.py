"""Who may tell the lab what to do: bundles of strangers, folders that look like runs, its own mistakes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from accel_lab.cli import internal_errors, main
from accel_lab.cli.commands import verify_command
from accel_lab.core.errors import Unanswered, UsageError
from accel_lab.core.machine.environment import EnvironmentSpec, EnvironmentUnavailable
from accel_lab.core.machine.variables import restricted_environment
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder import marker as run_marker
from accel_lab.reporting.bundle import run_again
from accel_lab.reporting.bundle.sources import rerun_files
from accel_lab.reporting.bundle.verify import verify_bundle
from accel_lab.reporting.bundle.writer import write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from fakes_run import FakeRun

Capture = pytest.CaptureFixture[str]
SCRIPT = "import torch\nraise RuntimeError('kernel said 42 at /home/alice/work/x.py')\n"


def ask(capsys: Capture, *words: str) -> tuple[int, list[str], list[str]]:
    """Exit code, lines on standard output and on standard error of a command line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main.main(list(words))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out.splitlines(), said.err.splitlines()


# -- bundles ---------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of a failure that needs no real torch: an empty package of that name is enough."""
    run = FakeRun(tmp_path / "made", "kernel", script=SCRIPT)
    (tmp_path / "fake" / "torch").mkdir(parents=True)
    (tmp_path / "fake" / "torch" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    path = tmp_path / "bundle.zip"
    write_bundle(run.findings, run.run_dir, path, redactor=Redactor())
    return path


def changed(path: Path, edit: Callable[[dict[str, bytes]], None]) -> None:
    """The bundle with other contents, and a manifest that lists them: what anybody can make."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    edit(files)
    manifest = json.loads(files.pop("MANIFEST.json"))
    manifest["files"] = [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, "MANIFEST.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, data)


def put(name: str, text: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: text.encode()})


def expect(**values: Any) -> Callable[[dict[str, bytes]], None]:
    def edit(files: dict[str, bytes]) -> None:
        files["expected.json"] = json.dumps({**json.loads(files["expected.json"]), **values}).encode()

    return edit


def test_nothing_of_a_bundle_is_run_before_somebody_agrees(
    bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*args: Any, **kwargs: Any) -> ProcessExit:
        raise AssertionError("it was run")

    monkeypatch.setattr(process, "run", started)
    code, out, err = ask(capsys, "verify", "--python", sys.executable, str(bundle))
    assert (code, out) == (2, []) and len(err) == 1 and "--yes" in err[0] and "no terminal" in err[0]
    with pytest.raises(UsageError, match="was not confirmed"):
        verify_bundle(bundle, confirmed=False, python=sys.executable, run=started)
    assert ask(capsys, "verify", "--no-run", str(bundle))[0] == 0


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 130)])
def test_a_terminal_is_asked(
    answer: bool, code: int, bundle: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confirmed(text: str, *, abort: bool, err: bool) -> None:
        assert "bundle.zip" in text and "as you on this machine" in text and err
        if abort and not answer:
            raise click.Abort

    monkeypatch.setattr(verify_command.sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirmed)
    assert ask(capsys, "verify", "--python", sys.executable, str(bundle))[0] == code


def test_the_labs_own_rerun_runs_a_bundle(bundle: Path, capsys: Capture) -> None:
    """The bundle's says MATCH, and so does a module of its own that the lab's rerun.py would import."""
    lie = "print('MATCH: trust me')\nraise SystemExit(0)\n"
    changed(bundle, put("repro.py", "import torch\nprint('MATCH: trust me')\n"))
    for name in ("rerun.py", "json.py", "runpy.py", "sitecustomize.py", "torch.py"):
        changed(bundle, put(name, lie))
    code, out, _ = ask(capsys, "verify", "--yes", "--provider", "local", str(bundle))
    assert code == 1 and any(line.startswith("MISMATCH") for line in out)
    assert any(line.startswith("note: the bundle's rerun.py is not this lab's") for line in out)


def test_a_bundles_own_rules_do_not_count(bundle: Path, capsys: Capture) -> None:
    changed(bundle, put("repro.py", "import torch\nraise RuntimeError('another thing altogether')\n"))
    changed(bundle, expect(rules=[["(?s).*", ""]], advice="(?s)never"))
    code, out, _ = ask(capsys, "verify", "--yes", "--provider", "local", str(bundle))
    assert code == 1 and any("other rules" in line for line in out)


def test_a_sound_bundle_matches_without_a_note(bundle: Path, capsys: Capture) -> None:
    done = verify_bundle(bundle, confirmed=True, python=sys.executable, run=process.run)
    assert done.matches and not done.notes and "MATCH" in done.said
    code, out, _ = ask(capsys, "verify", "-y", "--provider", "local", "--json", str(bundle))
    told = json.loads("\n".join(out))
    assert code == 0 and told["result"] == "MATCH" and told["notes"] == []


@pytest.mark.parametrize(
    "edit",
    [
        expect(attempts="many"),
        expect(attempts=None),
        expect(timeout_s="soon"),
        expect(args=3),
        expect(environment=["a"]),
        expect(environment={"A\0": "b"}),
        put("expected.json", "{}"),
    ],
)
def test_a_rerun_that_crashes_is_no_mismatch(
    edit: Callable[[dict[str, bytes]], None], bundle: Path, capsys: Capture
) -> None:
    changed(bundle, edit)
    code, _, err = ask(capsys, "verify", "--yes", "--provider", "local", str(bundle))
    assert code == 3 and len(err) == 1 and "could not be run again" in err[0]


@pytest.mark.parametrize("text", ["[]", "nothing", "[" * 100_000, "null"])
def test_a_damaged_expectation_is_one_line(text: str, bundle: Path, capsys: Capture) -> None:
    changed(bundle, put("expected.json", text))
    code, _, err = ask(capsys, "verify", "--yes", "--provider", "local", str(bundle))
    assert code == 2 and len(err) == 1 and "expected.json" in err[0]


def test_a_bundle_that_outlives_its_time_is_no_mismatch(bundle: Path, capsys: Capture) -> None:
    changed(bundle, put("repro.py", "import time\ntime.sleep(600)\n"))
    code, _, err = ask(capsys, "verify", "--yes", "--provider", "local", "--timeout", "1", str(bundle))
    assert code == 3 and "timeout" in err[0]


def test_a_bundles_code_gets_no_secrets(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "PIP_INDEX_URL",
        "SSH_AUTH_SOCK",
        "TORCH_TOKEN",
    )
    for name in secrets:
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    seen = tmp_path / "seen.json"
    text = f"import json, os\njson.dump(dict(os.environ), open({str(seen)!r}, 'w'))\nraise RuntimeError\n"
    changed(bundle, put("repro.py", text))
    verify_bundle(bundle, confirmed=True, python=sys.executable, run=process.run)
    env = json.loads(seen.read_text())
    assert "planted" not in env.values() and env["TORCH_LOGS"] == "+dynamo"
    assert env["HOME"] != os.environ.get("HOME") and "PATH" in env


class Containers:
    """Stands in for the docker provider: what it runs is noted, and run here."""

    def __init__(self, there: bool) -> None:
        self.there, self.ran = there, []
        self.notes: list[str] = []

    def __call__(self, name: str, options: Any, *, run: Any) -> Containers:
        assert name == "docker"
        return self

    def __enter__(self) -> Containers:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def spec(self, torch: str) -> EnvironmentSpec:
        return EnvironmentSpec(provider="docker", torch=torch, image=f"accel-lab-torch:{torch}@sha256:0")

    def make(self, spec: EnvironmentSpec) -> Any:
        if not self.there:
            raise EnvironmentUnavailable("no docker daemon answers")
        return type("Made", (), {"python": sys.executable, "spec": spec})()

    def runner(self, made: Any, workspace: Any, *, read: list[Path]) -> Any:
        def run(command: list[str], **more: Any) -> ProcessExit:
            self.ran.append(command)
            assert all(any(place in Path(word).parents for place in read) for word in command[1:])
            assert more["stdout"].parent in (more["cwd"], *more["cwd"].parents)
            return process.run(command, **more)

        return run


@pytest.mark.parametrize(
    ("words", "there", "code", "contained"),
    [
        ((), True, 0, True),
        ((), False, 0, False),
        (("--provider", "docker"), True, 0, True),
        (("--provider", "docker"), False, 3, False),
        (("--image", "mine:{version}"), False, 3, False),
        (("--provider", "local"), True, 0, False),
        (("--python", sys.executable), True, 0, False),
        (("--python", sys.executable, "--provider", "docker"), True, 2, False),
    ],
)
def test_a_bundle_runs_in_a_container_where_there_is_one(
    words: tuple[str, ...],
    there: bool,
    code: int,
    contained: bool,
    bundle: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    containers = Containers(there)
    monkeypatch.setattr(verify_command, "provider", containers)
    found, out, _ = ask(capsys, "verify", "--yes", "--json", *words, str(bundle))
    assert (found, bool(containers.ran)) == (code, contained)
    if code == 0:
        assert ("container" in json.loads("\n".join(out))["where"]) is contained


def test_only_named_variables_are_passed(tmp_path: Path) -> None:
    base = {"PATH": "/bin", "OMP_NUM_THREADS": "2", "ACCEL_LAB_KEY": "s", "LD_PRELOAD": "x", "A": "b"}
    found = restricted_environment(base, tmp_path)
    assert {"PATH", "OMP_NUM_THREADS", "HOME"} <= set(found)
    assert not {"ACCEL_LAB_KEY", "LD_PRELOAD", "A"} & set(found)


def test_the_own_rerun_takes_the_folder_of_a_bundle(tmp_path: Path) -> None:
    assert {entry.name for entry in rerun_files()} == {"rerun.py", "rerun.sh"}
    command = run_again.rerun_command(tmp_path, "py", tmp_path / "own.py")
    assert command == ["py", str(tmp_path / "own.py"), str(tmp_path)]


# -- folders that look like runs -------------------------------------------------------------------------


def run_folder(base: Path, name: str = "x-20260101-000000-abcd") -> Path:
    folder = base / name
    folder.mkdir(parents=True)
    run_marker.mark(folder, "run folder")
    (folder / "request.json").write_text("{}")
    return folder


def marker(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        row = json.loads((folder / run_marker.MARKER).read_text())
        (folder / run_marker.MARKER).write_text(json.dumps({**row, **changes}))

    return edit


def raw(data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / run_marker.MARKER).write_bytes(data) and None


def no_marker(folder: Path) -> None:
    (folder / run_marker.MARKER).unlink()


def elsewhere(folder: Path) -> None:
    """The marker is a link to a sound one."""
    (folder / run_marker.MARKER).rename(folder.parent / "marker")
    (folder / run_marker.MARKER).symlink_to(folder.parent / "marker")


def a_pipe(folder: Path) -> None:
    no_marker(folder)
    os.mkfifo(folder / run_marker.MARKER)


def a_folder(folder: Path) -> None:
    no_marker(folder)
    (folder / run_marker.MARKER).mkdir()


LOOK_ALIKES: dict[str, Callable[[Path], None]] = {
    "a project with a request.json": no_marker,
    "another schema": marker(schema="somebody/else/1"),
    "a later version": marker(schema="accel-lab/run/2"),
    "no schema": marker(schema=None),
    "a copied marker": marker(name="another"),
    "no name": marker(name=None),
    "a number for a name": marker(name=3),
    "a list": raw(b"[]"),
    "an empty marker": raw(b""),
    "not JSON": raw(b"accel-lab/run/1"),
    "not UTF-8": raw(b"\xff\xfe"),
    "a huge marker": raw(b"{" + b" " * 10_000_000 + b"}"),
    "a deep marker": raw(b"[" * 4_000),
    "a link for a marker": elsewhere,
    "a pipe for a marker": a_pipe,
    "a folder for a marker": a_folder,
    "a repository": lambda folder: (folder / ".git").mkdir(),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_only_looks_like_a_run_stays(name: str, tmp_path: Path, capsys: Capture) -> None:
    folder = run_folder(tmp_path)
    (folder / "precious.txt").write_text("mine")
    LOOK_ALIKES[name](folder)
    code, _, err = ask(capsys, "clean", str(folder))
    assert code == 2 and len(err) == 1 and "is not removed" in err[0]
    assert (folder / "precious.txt").read_text() == "mine"


def test_links_are_not_followed(tmp_path: Path, capsys: Capture) -> None:
    folder = run_folder(tmp_path / "real")
    link = tmp_path / folder.name
    link.symlink_to(folder)
    assert ask(capsys, "clean", str(link))[0] == 2 and folder.is_dir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("mine")
    (folder / "cwd").symlink_to(outside)
    assert ask(capsys, "clean", "--yes", str(folder))[0] == 0 and not folder.exists()
    assert (outside / "precious.txt").exists()


def test_a_folder_that_one_is_in_stays(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(tmp_path)
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert ask(capsys, "clean", str(folder))[0] == 2 and folder.is_dir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(folder))
    assert ask(capsys, "clean", str(folder))[0] == 2 and folder.is_dir()


def test_one_that_is_none_keeps_all(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path))
    run, other = run_folder(tmp_path / "runs"), run_folder(tmp_path / "runs", "y-20260101-000000-abcd")
    no_marker(other)
    assert ask(capsys, "clean", run.name, other.name)[0] == 2 and run.is_dir()
    code, out, err = ask(capsys, "clean", "--all", "--yes")
    assert code == 0 and not run.exists() and other.is_dir()
    assert len(out) == 1 and len(err) == 1 and "kept" in err[0]


# -- mistakes of the lab ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("boom \x1b[31m \ud800 \u202e" + "x" * 10_000),
        RecursionError("deep"),
        MemoryError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        KeyError("a\nb"),
        AssertionError(),
    ],
)
def test_an_unforeseen_exception_is_one_line_with_a_number(
    error: Exception, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> None:
        raise type(error)(*error.args)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(internal_errors.tempfile, "tempdir", None)
    monkeypatch.setattr("accel_lab.cli.commands.runs_command.state_folder", fails)
    monkeypatch.setattr(internal_errors, "_run_folder", lambda: None)
    numbers = set()
    for _ in range(2):
        code, out, err = ask(capsys, "list")
        assert code == 3 and not out and len(err) == 1 and len(err[0]) < 500
        assert "\x1b" not in err[0] and "\u202e" not in err[0]
        numbers.add(err[0].split("internal error ")[1].split()[0])
    assert len(numbers) == 1
    kept = sorted(tmp_path.glob("mistake-*.txt"))
    assert len(kept) == 2 and all("Traceback" in path.read_text() for path in kept)
    assert any(str(path) in err[0] for path in kept)


def test_the_traceback_goes_into_the_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_errors, "_run_folder", lambda: tmp_path)
    try:
        raise ValueError("boom")
    except ValueError as error:
        said = internal_errors.keep(error)
    (kept,) = tmp_path.glob("mistake-*.txt")
    assert str(kept) in said and "ValueError: boom" in kept.read_text()


def test_a_reader_that_went_away_is_no_failure() -> None:
    """``accel-lab list | true``: neither 1, which means a failure that was reproduced, nor a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "accel_lab", "list"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert ended.returncode == 141 and ended.stderr == ""


def test_git_bisect_is_not_misled_by_a_mistake(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("accel_lab.cli.commands.bisect_command.opened", fails)
    assert ask(capsys, "bisect", __file__)[0] == 3
    code, _, err = ask(capsys, "bisect", "--exit-code", "git", __file__)
    assert code == 125 and len(err) == 1 and "number" in err[0]
    assert ask(capsys, "bisect", "--exit-code", "git", "missing.py")[0] == 2


NUMBERS = ("nan", "inf", "-inf", "-1", "1e400", "99999999999999999999", "0x10", "", "1_0_0e9")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "words",
    [
        ("bisect", "--timeout"),
        ("bisect", "--memory"),
        ("bisect", "--jobs"),
        ("bisect", "--minimize-for"),
        ("minimize", "--for"),
        ("bench", "--timeout"),
        ("bench", "--runs"),
        ("bench", "--seed"),
        ("bundle", "--limit-mb"),
        ("clean", "--older-than"),
        ("verify", "--timeout"),
        ("env", "prune", "--older-than"),
    ],
)
def test_numbers_that_cannot_be_meant_are_wrong_usage(
    words: tuple[str, ...], number: str, capsys: Capture
) -> None:
    code, out, err = ask(capsys, *words, number, __file__)
    assert code == 2 and not out and err


@pytest.mark.parametrize(
    "words",
    [
        ("bisect", "--versions", "9" * 10_000, __file__),
        ("bisect", "--versions", "minor:" * 5_000 + "all", __file__),
        ("bisect", "--versions", "all", "--metric", "latency", "--worse-by", "9" * 400, __file__),
        ("env", "prune", "--max-size", "9" * 400 + "T"),
        ("env", "build", "all", "--provider", "local", "--python-version", "3." + "9" * 5_000),
    ],
)
def test_texts_with_numbers_in_them_as_well(words: tuple[str, ...], capsys: Capture, tmp_path: Path) -> None:
    code, _, err = ask(capsys, *words, *(("--store", str(tmp_path)) if words[0] == "env" else ()))
    assert code == 2 and len(err) == 1


# -- processes -------------------------------------------------------------------------------------------


def test_nothing_starts_while_that_holds(tmp_path: Path) -> None:
    def start() -> ProcessExit:
        return process.run(
            [sys.executable, "-c", "pass"],
            cwd=tmp_path,
            env=dict(os.environ),
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            limits=Limits(timeout_s=60.0),
            marker="x",
        )

    with process.nothing_starts("no"), pytest.raises(Unanswered, match="no"):
        start()
    assert not (tmp_path / "out").exists()
    assert start().exit_code == 0
