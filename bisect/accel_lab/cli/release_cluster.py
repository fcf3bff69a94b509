"""``matrix --engine`` and ``bisect --versions --engine``: workers of a cluster run the releases."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from accel_lab.cli.engine_options import Cluster, chosen, dispatching
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.environment import EnvironmentSpec
from accel_lab.core.machine.files import remove, write_atomic
from accel_lab.core.releases.versions import Tested
from accel_lab.core.text import command_line
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.untrusted.shapes import Table
from accel_lab.engine.dispatch import Dispatch, EngineLost, Fetched, Stopped
from accel_lab.engine.job import SCRIPT_FOLDER, PackedJob, lab_identity
from accel_lab.engine.job import Request as JobRequest
from accel_lab.engine.lab_command import newest_run
from accel_lab.engine.store import StoreLost
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.request import Request
from accel_lab.triage.remote import files_of
from accel_lab.versions.build_verdict import TargetFailure
from accel_lab.versions.release_session import FOLDER, folder_name
from accel_lab.versions.remote_release import RemoteLost, RemoteRuns, SentFailure

#: Files in a run's folder: its cluster, for --resume; the failure by which releases are judged.
ENGINE, FAILURE = "engine.json", "failure.json"
#: File in which a worker's command leaves the releases that it judged by a failure.
JUDGED = "judged.json"
_FETCHED = "fetched"
#: Most releases of one run that are submitted at a time.
_AT_A_TIME = 32


@dataclass(kw_only=True)
class ClusterReleases:
    """Runs releases on a cluster; a :class:`~accel_lab.versions.remote_release.RemoteReleases`.

    ``words`` are options for every release. ``again`` is the command that resumes the run.
    """

    request: Request
    folder: Path
    words: Sequence[str]
    dispatch: Dispatch
    again: str
    side_by_side: int = _AT_A_TIME
    notes: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def fetch(self, version: str, spec: EnvironmentSpec, folder: Path, target: TargetFailure | None) -> None:
        """Has a worker run the release and puts its results into ``folder``.

        Raises :class:`Interrupted` after :meth:`stop` and :class:`RemoteLost` if the engine or the store is
        lost.
        """
        apart = self.folder / _FETCHED / folder.name
        remove(apart)
        try:
            _take(self.dispatch.ask(self._job(version, spec, target), f"torch {version}", apart), folder)
        except Stopped:
            raise Interrupted("interrupted") from None
        except (EngineLost, StoreLost) as error:
            raise RemoteLost(f"{error}. Go on with: {self.again}") from None
        finally:
            remove(apart)

    def stop(self) -> None:
        """Stops waiting. Workers finish what they have begun, and its results stay in the store."""
        self.dispatch.stop()

    def _job(self, version: str, spec: EnvironmentSpec, target: TargetFailure | None) -> PackedJob:
        program = self.request.program
        assert program.path is not None
        script = Path(program.path)
        files, cwd = files_of(script, Path(self.request.cwd))
        words = ["matrix", *self._environment(version, spec, files), *self.words]
        if self.request.stdin is not None:
            files["stdin"] = self.request.stdin
            words += ["--stdin", "../stdin"]
        if target is not None:
            with self._lock:
                path = self.folder / FAILURE
                if not path.exists():
                    write_atomic(path, json.dumps(SentFailure.of(target).to_json()))
            files[FAILURE] = path
            words += ["--failure", f"../{FAILURE}"]
        request = JobRequest(
            words=(*words, "--require-releases", "--quiet"),
            script=f"{SCRIPT_FOLDER}/{script.name}",
            args=program.args,
            cwd=cwd,
            python="",
            torch="",
            lab=lab_identity(),
        )
        return PackedJob(request=request, files=files)

    def _environment(self, version: str, spec: EnvironmentSpec, files: dict[str, Path]) -> list[str]:
        """Returns the options for the release's environment; the workers' settings name the package index."""
        assert self.request.versions is not None
        options = self.request.versions.options
        if spec.provider == "local":  # a line of a single interpreter
            return ["--versions", "all", "--provider", "local", "--pythons", spec.python]
        words = ["--versions", version, "--provider", spec.provider]
        words += ["--python-version", spec.python] if spec.provider == "uv" else []
        words += [word for name in options.with_packages for word in ("--with", name)]
        for number, path in enumerate(options.with_requirements):
            files[f"requirements/{number}.txt"] = path
            words += ["--with-requirements", f"../requirements/{number}.txt"]
        words += {"yes": ["--slim"], "no": ["--full"]}.get(options.slim, [])
        words += ["--pre"] if options.pre else []
        words += ["--image", options.image] if options.image else []
        return [*words, *(["--build-images"] if options.build_images else [])]


def _take(fetched: Fetched, folder: Path) -> None:
    """Moves the folder of the worker's only release here, with the names that its probes had there."""
    worker, run = fetched.ran.worker, newest_run(fetched.folder)
    if run is None:
        raise LabError(f"{worker} left no run of this release: {fetched.ran.said}")
    asked = ChildFiles(run).json("request.json", {"program": object})
    release, environment = _release_of(run)
    left = run / FOLDER / folder_name(release)
    if asked is None or not left.is_dir() or left.is_symlink():
        raise UntrustedFileError(f"{worker}'s result for this release is malformed")
    runs = {"release": release, "program": asked["program"], "environment": environment, "worker": worker}
    try:
        RemoteRuns.from_json(runs).write(left)
    except ValueError as error:
        raise UntrustedFileError(f"what {worker} says of this release: {error}") from None
    RemoteRuns.of(left)  # checks the files, so that damaged ones do not enter the run's folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    left.rename(folder)


def _release_of(run: Path) -> tuple[str, object]:
    """Returns the release that a worker's command ran, and its environment."""
    files = ChildFiles(run)
    judged = files.json(JUDGED, [{"torch": str, "environment": Table()}])
    if judged is not None:
        made = {row["torch"]: row["environment"] for row in judged}
    else:
        grid = files.json("matrix.json", {"environments": Table()})
        made = grid["environments"] if grid is not None else {}
    if len(made) != 1:
        raise UntrustedFileError(f"a worker's run is of {len(made)} releases, not of one")
    ((release, environment),) = made.items()
    if isinstance(environment, dict):
        environment = {name: value for name, value in environment.items() if name != "outcome"}
    return release, environment


def write_judged(folder: Path, rows: Sequence[Tested]) -> None:
    """Writes the releases that a worker judged by a failure to ``judged.json``."""
    write_atomic(folder / JUDGED, json.dumps([row.to_json() for row in rows], default=str))


def read_failure(path: Path) -> TargetFailure:
    """Reads the failure that another lab sent. Raises :class:`UsageError` if the file is damaged."""
    try:
        return SentFailure.from_json(ChildFiles(path.parent).json(path.name)).target
    except (ValueError, UntrustedFileError) as error:
        raise UsageError(f"--failure {path}: {error}") from None


def cluster_of(engine: str | None, words: dict[str, object], request: Request) -> Cluster | None:
    """Returns the cluster of a command whose ``--store`` otherwise means the environments' folder.

    Removes ``store`` from ``words`` if it belongs to the cluster. Raises :class:`UsageError` for a module or
    a notebook, which cannot be sent.
    """
    store = words.get("store")
    cluster = chosen(engine, str(store) if store and engine not in (None, "local") else None)
    if cluster is not None:
        words["store"] = None
        if request.program.path is None:
            raise UsageError("--engine takes a script: what -m names is on this machine; leave out --engine")
        if request.program.path.endswith(".ipynb"):
            raise UsageError("--engine takes a script: save the notebook as one, or leave out --engine")
    return cluster


def keep_cluster(cluster: Cluster | None, folder: Path) -> None:
    """Writes the cluster into a run's folder, for ``--resume``."""
    if cluster is not None:
        write_atomic(folder / ENGINE, json.dumps({"engine": cluster.name, "store": cluster.store}))


def kept_cluster(folder: Path, engine: str | None, store: str | None) -> Cluster | None:
    """Returns the cluster of a resumed run: that of the options, else the kept one; None if there is none."""
    kept = ChildFiles(folder).json(ENGINE, {"engine": str, "store": str})
    if engine is None and kept is None:
        return None
    return chosen(engine or kept["engine"], store or (kept["store"] if kept is not None else None))


@contextmanager
def releases(
    cluster: Cluster | None,
    request: Request,
    folder: Path,
    *,
    command: str,
    more: Sequence[str] = (),
    listener: Callable[[str], None],
) -> Iterator[ClusterReleases | None]:
    """Yields the releases of a cluster, or None for this machine. ``more`` are options for the workers."""
    if cluster is None:
        yield None
        return
    notes: list[str] = []

    def fault(line: str) -> None:
        notes.append(line)
        listener(line)

    with dispatching(cluster, fault) as dispatch:
        try:
            yield ClusterReleases(
                request=request,
                folder=folder,
                words=[*_words(request), *more],
                dispatch=dispatch,
                again=command_line("accel-lab", command, "--resume", folder),
                notes=notes,
            )
        finally:
            remove(folder / _FETCHED)


def _words(request: Request) -> list[str]:
    """Returns the options for limits and oracle, for the command on a worker."""
    limits, oracle = request.limits, request.oracle
    words = ["--timeout", f"{limits.timeout_s:g}", "--memory", str(limits.memory_mb)]
    words += ["--max-disk", str(limits.disk_mb), "--jobs", str(request.workers)]
    words += ["--check", oracle.check] if oracle.check is not None else []
    words += ["--fail-regex", oracle.fail_regex] if oracle.fail_regex is not None else []
    words += ["--signed-zero"] if oracle.comparison.signed_zero else []
    return [*words, *(["--cold"] if request.cold else [])]
