"""The bundle as a whole: a failure whose message carries a secret matches, and no piece of it is inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.bundle.run_again import rerun_command
from accel_lab.reporting.bundle.verify import extract_bundle
from accel_lab.reporting.bundle.writer import write_bundle
from accel_lab.reporting.page.report import render_html
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.schema import report_json
from fakes_run import FakeRun

from .secret_sorts import SORTS, windows_of
from .test_secret_forms import HALVES, LINES, PASSWORD, TOKEN
from .test_secrets import planted

USER = "marlene7"
SECRETS = (TOKEN, PASSWORD, USER, *LINES)
#: Scripts that fail with something private in their message; {T}, {P}, {U} are a token, a password, a user.
SCRIPTS = {
    "literal": 'raise RuntimeError("step 3: token {T} refused")\n',
    "f-string": 'n = 12\nraise ValueError(f"{n} tries with {T}, gave up after {n / 7:.3f} s")\n',
    "only the token": 'raise RuntimeError("{T}")\n',
    "put together": f'a = "{HALVES[0]}"\nb = "{HALVES[1]}"\nraise RuntimeError("bad token " + a + b)\n',
    "joined literals": f'raise RuntimeError("bad token: " "{HALVES[0]}"\n    "{HALVES[1]}" " of 3")\n',
    "environment": "import os\n"
    'raise RuntimeError("refused: " + os.environ.get("HUB_TOKEN_OF_TEST", "hf_" + "a1B2" * 8))\n',
    "password by its name": 'password = "{P}"\n'
    'raise PermissionError("no login with " + password + " today")\n',
    "password in a dict": 'conf = {"user": "x", "password": "{P}"}\nraise KeyError(conf["password"])\n',
    "key of a dict": 'd = {}\nd["{T}"]\n',
    "JSON": 'import json\nraise ValueError("answer: " + json.dumps({"token": "{T}", "n": 3}, indent=1))\n',
    "URL": 'raise OSError("cannot open https://bot9:{P}@db.acme.corp:8443/x?n=3 now")\n',
    "home": 'raise FileNotFoundError("no file /home/{U}/data/x_17.bin here")\n',
    "home alone": 'raise FileNotFoundError("no folder /home/{U} and no /data/users/{U}")\n',
    "user": 'raise RuntimeError("queue of {U} is full, 3 jobs")\n',
    "host": 'raise ConnectionError("db07.internal:5432 at 10.20.30.40 said {U}@acme-corp.com is unknown")\n',
    "long": 'raise RuntimeError("x" * 390 + " {T} " + "y" * 100)\n',
    "key block": "KEY = '''"
    + "-----BEGIN PRIVATE "
    + "KEY-----\n"
    + "\n".join(LINES)
    + "\n-----END PRIVATE "
    + "KEY-----'''\n"
    "raise ValueError('cannot parse ' + KEY)\n",
    "chained": 'try:\n    raise KeyError("{T}")\n'
    'except KeyError as e:\n    raise RuntimeError("wrapped {T}") from e\n',
}


def failed(tmp_path: Path, script: str) -> FakeRun:
    """A run of the script, with what it really raised."""
    run = FakeRun(tmp_path, "kernel", script=script)
    try:
        exec(compile(script, str(run.script), "exec"), {"__name__": "__main__"})
    except Exception as error:
        frames = (Frame(file=str(run.script), line=1, function="<module>"),)
        raised = Raised(
            type=type(error).__name__, message=str(error), frames=frames, text=traceback.format_exc()
        )
    outcome = Outcome(status=Status.EXCEPTION, raised=raised, exit_code=1, seconds=1.0, torch="2.13.0+cpu")
    found = signature_of(outcome)
    step = run.step(Rung.KERNEL, Verdict.BAD, outcome=outcome, signature=found, bare=True)
    ladder = [replace(row, outcome=outcome, signature=found) for row in run.findings.ladder]
    run.findings = replace(run.findings, baseline=[step], signature=found, ladder=ladder)
    run.findings.environment["executable"] = f"/home/{USER}/venv/bin/python"
    return run


def filled(script: str) -> str:
    return script.replace("{T}", TOKEN).replace("{P}", PASSWORD).replace("{U}", USER)


def bundled(run: FakeRun) -> Path:
    redactor = Redactor(homes=[f"/home/{USER}"], users=[USER], hosts=["gpubox-12"])
    return write_bundle(run.findings, run.run_dir, run.root / "bundle.zip", redactor=redactor).path


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            yield name, name + "\n" + archive.read(name).decode("utf-8", "replace")


def rerun(folder: Path, fake: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """The bundle's own re-run, with an empty package in torch's place."""
    (fake / "torch").mkdir(parents=True, exist_ok=True)
    (fake / "torch" / "__init__.py").touch()
    env = {**os.environ, "PYTHONPATH": str(fake), **env}
    return subprocess.run(
        rerun_command(folder, sys.executable),
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
        check=False,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_matches_and_holds_no_piece(name: str, tmp_path: Path) -> None:
    path = bundled(failed(tmp_path, filled(SCRIPTS[name])))
    for file, text in texts_of(path):
        if file not in ("rerun.py", "rerun.sh"):
            assert [piece for piece in windows_of(SECRETS) if piece in text] == [], file
    extract_bundle(path, tmp_path / "out")
    done = rerun(tmp_path / "out", tmp_path / "fake", HUB_TOKEN_OF_TEST="hf_" + "Zz9Yy8" * 6)
    assert done.returncode == 0, done.stdout
    assert "MATCH" in done.stdout


@pytest.mark.parametrize(
    ("recorded", "rerun_as", "code"),
    [
        ("step 3: token {T} refused", "step 4: token REDACTED_TOKEN_1 refused", 0),
        ("step 3: token {T} refused", "step 3: token REDACTED_TOKEN_1 accepted", 1),
        ("step 3: token {T} refused", "step 3 refused", 1),
        ("{T} refused", "refused", 1),
        ("bad {T}", "good", 1),
        ("bad {T} or {T}: no", "bad x or y: no", 0),
        ("bad {T} or {T}: no", "bad x: no", 1),
    ],
)
def test_another_message_does_not_match(recorded: str, rerun_as: str, code: int, tmp_path: Path) -> None:
    """A hole takes anything, but only where the secret stood."""
    path = bundled(failed(tmp_path, f'raise RuntimeError("{filled(recorded)}")\n'))
    extract_bundle(path, tmp_path / "out")
    (tmp_path / "out" / "repro.py").write_text(f'raise RuntimeError("{rerun_as}")\n', encoding="utf-8")
    done = rerun(tmp_path / "out", tmp_path / "fake")
    assert done.returncode == code, done.stdout


def test_all_sorts_at_once_in_every_file(tmp_path: Path) -> None:
    """Script, message, logs, graphs, arguments, environment and data hold one of each sort."""
    found = {sort: planted(sort) for sort in SORTS}
    lines = [f"{number} {secret.text} end" for number, secret in enumerate(found.values())]
    script = "".join(f"# {line}\n" for line in lines) + "raise RuntimeError('all')\n"
    run = failed(tmp_path, script)
    raised = Raised(type="RuntimeError", message="\n".join(lines), text="\n".join(lines))
    for step in run.findings.ladder:
        folder = Path(step.outcome.folder or run.findings.baseline[0].outcome.folder)
        for log in ("stdout.txt", "stderr.txt"):
            (folder / log).write_text("\n".join(lines), encoding="utf-8")
        (folder / "artifacts" / "post_grad_0.py").write_text(script, encoding="utf-8")
        (folder / "artifacts" / "kernel.cpp").write_text(
            "\n".join(f"// {n}" for n in lines), encoding="utf-8"
        )
    outcome = replace(run.findings.baseline[0].outcome, raised=raised)
    found_again = signature_of(outcome)
    run.findings.baseline[0] = replace(run.findings.baseline[0], outcome=outcome, signature=found_again)
    run.findings = replace(run.findings, signature=found_again, warnings=lines)
    run.findings.environment["lines"] = lines
    everything = "\n".join(text for file, text in texts_of(bundled(run)) if file != "rerun.py")
    left = {sort: [w for w in windows_of(secret.parts) if w in everything] for sort, secret in found.items()}
    assert {sort: pieces for sort, pieces in left.items() if pieces} == {}


def test_what_stays_on_this_machine_names_no_token(tmp_path: Path) -> None:
    """The signature is masked from the start: the report, the page's head and the terminal show it."""
    run = failed(tmp_path, filled('raise RuntimeError("step 3: token {T} refused")\n'))
    signature = run.findings.signature
    assert signature is not None
    assert signature.line == "RuntimeError: step 3: token <private> refused"
    assert signature.message == "step <n>: token <private> refused"
    told = json.loads(report_json(run.findings))
    assert TOKEN not in json.dumps(told["baseline"])
    assert "token &lt;private&gt; refused" in render_html(run.findings, run.run_dir)
