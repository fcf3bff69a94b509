"""One bisection from options to findings: the run folder, the interpreter, the search, the report."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import secrets
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.findings import Findings
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.execution import process
from accel_lab.execution.journal import write_atomic
from accel_lab.execution.prober import Interrupted, Listener, Prober
from accel_lab.execution.workspace import Workspace
from accel_lab.lab import LocalLab, Oracle
from accel_lab.minimize.work import Minimizer, interrupted
from accel_lab.search.accelerator_search import AcceleratorDiagnosis
from accel_lab.search.diagnosis import Diagnosis, Options


@dataclass(frozen=True, kw_only=True)
class Request:
    """All that one bisection is asked for."""

    program: Program
    python: str = sys.executable
    out: Path | None = None
    limits: Limits = field(default_factory=Limits)
    oracle: Oracle = field(default_factory=Oracle)
    options: Options = field(default_factory=Options)
    cold: bool = False
    stdin: Path | None = None
    workers: int = 2
    keep: bool = False
    minimize_s: float = 0.0
    package: Path | None = None
    accelerator: str = ""

    def to_json(self) -> dict[str, Any]:
        """What a resumed run needs to ask the same questions again."""
        return {
            "program": self.program.to_json(),
            "python": self.python,
            "limits": self.limits.to_json(),
            "check": self.oracle.check,
            "fail_regex": self.oracle.fail_regex,
            "signed_zero": self.oracle.comparison.signed_zero,
            "ablation": self.options.ablation,
            "components": self.options.components,
            "cold": self.cold,
            "stdin": str(self.stdin) if self.stdin else None,
            "workers": self.workers,
            "minimize_s": self.minimize_s,
            "package": str(self.package) if self.package else None,
            "accelerator": self.accelerator,
            "cwd": os.getcwd(),
        }


@dataclass(frozen=True, kw_only=True)
class Build:
    """The interpreter that is probed and what it has."""

    python: str
    torch: str
    facts: dict[str, Any]


def state_folder() -> Path:
    """Where runs are kept unless ``--out`` says otherwise: ``ACCEL_LAB_HOME`` or the user's data folder."""
    home = os.environ.get("ACCEL_LAB_HOME")
    return Path(home) if home else Path(platformdirs.user_data_dir("accel-lab"))


def read_program(script: str | None, module: str | None, args: tuple[str, ...]) -> Program:
    """The program that the user named; raises :class:`UsageError` in one line if it cannot be one."""
    if module is not None:
        return Program(module=module, args=args, sha256=_tree_digest(args))
    assert script is not None
    path = Path(script)
    try:
        if path.is_dir():
            raise UsageError(f"{script} is a folder: name a Python script, or a module with -m")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{script} does not exist: name a Python script, or a module with -m") from None
    except OSError as error:
        raise UsageError(f"{script} cannot be read ({error.strerror}): check its permissions") from None
    if data[:4] == b"PK\x03\x04":
        raise UsageError(f"{script} is a zip file: a bundle is re-run with `accel-lab verify {script}`")
    if not data.strip():
        raise UsageError(f"{script} is empty: there is nothing to run")
    if b"\x00" in data:
        raise UsageError(f"{script} is not Python source: it contains NUL bytes")
    try:
        ast.parse(data, filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{script} is not valid Python{line}: {getattr(error, 'msg', error)}") from None
    return Program(path=str(path.resolve()), args=args, sha256=hashlib.sha256(data).hexdigest())


def _tree_digest(args: tuple[str, ...]) -> str:
    """A digest of the files that a module's arguments name (``pytest tests/x.py::case``)."""
    digest = hashlib.sha256()
    for arg in args:
        path = Path(arg.split("::", 1)[0])
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def must_run_cold(program: Program) -> str:
    """Why the warm server would not do: the script sets environment variables; torch reads them at import."""
    if program.path is None:
        return ""
    tree = ast.parse(Path(program.path).read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            if any(isinstance(t, ast.Subscript) and _is_environ(t.value) for t in targets):
                return "the script sets environment variables"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("setdefault", "update", "pop") and _is_environ(node.func.value):
                return "the script sets environment variables"
            if node.func.attr in ("putenv", "unsetenv"):
                return "the script sets environment variables"
    return ""


def _is_environ(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "environ"


#: Ways into the compiler that no rung reaches; said in one line when the script's text names one.
_NOT_COVERED = re.compile(
    r"torch\.export\.export|aoti_compile_and_package|aoti_load_package|\baot_compile\b|torch\._inductor\.compile\b"
    r"|standalone_compile|torch\.jit\.(?:script|trace)\b"
)


def not_covered(program: Program) -> list[str]:
    """One line for each way into the compiler that the script's text names and the ladder cannot reach."""
    if program.path is None:
        return []
    text = Path(program.path).read_text(encoding="utf-8", errors="replace")
    return [
        f"{name} is used: the ladder covers torch.compile regions only, not this"
        for name in sorted(set(_NOT_COVERED.findall(text)))
    ]


def inspect_build(python: str, folder: Path) -> Build:
    """Ask the interpreter what it is; raises :class:`LabError` if it has no torch or does not run."""
    library = Workspace(folder, Path.cwd()).library
    out, err = folder / "doctor.out.txt", folder / "doctor.err.txt"
    ended = process.run(
        [python, str(library), "doctor"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=out,
        stderr=err,
        limits=Limits(timeout_s=120.0),
        marker=f"doctor-{uuid.uuid4().hex}",
    )
    try:
        facts = json.loads(out.read_text(encoding="utf-8"))
    except ValueError:
        last = (err.read_text(errors="replace").strip().splitlines() or [f"exit code {ended.exit_code}"])[-1]
        raise LabError(f"{python} does not run as a Python interpreter: {last[:200]}") from None
    if not facts.get("torch"):
        why = facts.get("torch_error", "")
        raise LabError(
            f"{python} has no usable torch ({why}): install it there, or name another with --python"
        )
    return Build(python=python, torch=facts["torch"], facts=facts)


def new_run_folder(request: Request) -> Path:
    """A new folder for a run, under ``--out`` or the state folder."""
    base = request.out if request.out is not None else state_folder() / "runs"
    name = re.sub(r"[^\w.-]+", "-", request.program.name).strip("-.") or "run"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = base / f"{name}-{stamp}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(
            f"cannot make the run folder {folder} ({error.strerror}): choose another with --out"
        ) from None
    return folder


class Session:
    """Runs a request in a folder. ``resume`` is the same call on a folder that exists already."""

    def __init__(
        self,
        request: Request,
        folder: Path,
        listener: Listener | None = None,
        reducing: Callable[[str, int, str], None] | None = None,
    ) -> None:
        """``reducing(note, candidates asked, source)`` is told of every smaller program."""
        self.request = request
        self.folder = folder
        self._listener = listener
        self._reducing = reducing
        self.findings: Findings | None = None

    def run(self) -> Findings:
        """The findings; on an interruption those so far, with ``verdict`` left inconclusive."""
        started = time.monotonic()
        write_atomic(self.folder / "request.json", json.dumps(self.request.to_json(), indent=1))
        build = inspect_build(self.request.python, self.folder)
        cold = "you asked for cold runs" if self.request.cold else must_run_cold(self.request.program)
        workspace = Workspace(self.folder, Path.cwd())
        probe = Probe(
            program=self.request.program,
            environment=f"{build.python} torch {build.torch}",
            limits=self.request.limits,
        )
        with Prober(
            python=build.python,
            workspace=workspace,
            stdin=self.request.stdin,
            listener=self._listener,
            workers=self.request.workers,
            keep=self.request.keep,
        ) as prober:
            lab = LocalLab(prober, self.request.oracle, cold_only=cold)
            search = AcceleratorDiagnosis if self.request.accelerator else Diagnosis
            diagnosis = search(lab, probe, self.request.options)
            self.findings = diagnosis.findings
            with _Interruptible(prober):
                try:
                    diagnosis.run()
                    keep_kernel_script(self.findings, self.folder)
                    wanted = self.request.minimize_s > 0 and self.findings.verdict == "fails"
                    if wanted and isinstance(diagnosis, Diagnosis):
                        self._minimize(lab, probe, diagnosis, build)
                finally:
                    self._describe(build, prober, started, cold)
        return self.findings

    def _minimize(self, lab: LocalLab, probe: Probe, diagnosis: Diagnosis, build: Build) -> None:
        """Shrink the script and the graph; a run that is stopped keeps the smallest program so far."""
        found, base = diagnosis.findings, diagnosis.baseline
        assert base is not None
        minimizer = Minimizer(
            lab=lab,
            probe=probe,
            base=base,
            findings=found,
            folder=self.folder,
            seconds=self.request.minimize_s,
            build=build.torch,
            workers=self.request.workers,
            listener=self._reducing,
            package=self.request.package,
        )
        try:
            found.repro = minimizer.run().to_json()
        except Interrupted:
            found.repro = interrupted(self.folder)
            raise

    def _describe(self, build: Build, prober: Prober, started: float, cold: str) -> None:
        found = self.findings
        assert found is not None
        found.environment = {
            "provider": "local",
            **build.facts,
            "warm": not cold and prober.is_warm,
            "cold_because": cold or None,
        }
        found.warnings += not_covered(self.request.program)
        notes = {note for step in found.baseline for note in step.outcome.notes}
        found.warnings += sorted(note for note in notes if note not in found.warnings)
        found.artifacts = str(self.folder)
        found.seconds_total = time.monotonic() - started
        found.seconds_probes = prober.seconds


def bisect_script(
    script: str | Path,
    args: tuple[str, ...] = (),
    *,
    python: str = sys.executable,
    out: str | Path | None = None,
    timeout_s: float = 300.0,
) -> Findings:
    """Find the stage at which ``script`` fails under ``torch.compile``; the Python form of the command.

    ``timeout_s`` is for one run, in seconds. Nothing is printed; the run's folder is
    ``Findings.artifacts``. Raises :class:`UsageError` for a script that cannot be one and
    :class:`LabError` where the lab cannot do it, for instance without torch in ``python``.
    """
    request = Request(
        program=read_program(str(script), None, args),
        python=python,
        out=Path(out) if out is not None else None,
        limits=Limits(timeout_s=timeout_s),
    )
    return Session(request, new_run_folder(request)).run()


def keep_kernel_script(findings: Findings, folder: Path) -> None:
    """Copy the script of a captured kernel, which its probe left behind, beside the report."""
    for place, culprit in enumerate(findings.culprits):
        for number, exhibit in enumerate(culprit.exhibits):
            if exhibit.kind != "kernel_script":
                continue
            try:
                text = Path(exhibit.text).read_text(encoding="utf-8")
            except OSError:
                continue
            write_atomic(folder / "kernel.py", text)
            shown = replace(exhibit, text=f"python {folder / 'kernel.py'}\n")
            exhibits = (*culprit.exhibits[:number], shown, *culprit.exhibits[number + 1 :])
            findings.culprits[place] = replace(culprit, exhibits=exhibits)


class _Interruptible:
    """Turns the first Ctrl-C into a stop of the probes, so that what was found is kept."""

    def __init__(self, prober: Prober) -> None:
        self._prober = prober

    def __enter__(self) -> None:
        self._old = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._stop)

    def _stop(self, *_: object) -> None:
        self._prober.interrupt()
        signal.signal(signal.SIGINT, self._old or signal.default_int_handler)

    def __exit__(self, *exc: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)


def load_request(folder: Path) -> Request:
    """The request of an earlier run, to resume it; raises :class:`UsageError` if the folder holds none."""
    try:
        data = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            f"{folder} is not the folder of an accel-lab run: it holds no request.json"
        ) from None
    program = data["program"]
    again = read_program(program["path"], program["module"], tuple(program["args"]))
    if again.sha256 != program["sha256"]:
        raise UsageError(f"{again.name} has changed since that run: start a new one")
    base = Request(program=again)
    return replace(
        base,
        python=data["python"],
        limits=Limits(**data["limits"]),
        oracle=Oracle(
            check=data["check"],
            fail_regex=data["fail_regex"],
            comparison=replace(base.oracle.comparison, signed_zero=data["signed_zero"]),
        ),
        options=replace(base.options, ablation=data["ablation"], components=data["components"]),
        cold=data["cold"],
        stdin=Path(data["stdin"]) if data["stdin"] else None,
        workers=data["workers"],
        minimize_s=data.get("minimize_s", 0.0),
        package=Path(data["package"]) if data.get("package") else None,
        accelerator=data.get("accelerator", ""),
    )
