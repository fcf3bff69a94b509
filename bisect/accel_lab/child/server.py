"""The warm server: imports torch, Dynamo and Inductor once and forks a child for each probe.

Reads jobs as JSON lines from standard input, and writes answers as JSON lines to its original standard
output: ``{"event": "ready"}``, ``{"event": "started", "id", "pid"}``, and ``{"event": "ended", "id",
"status"}`` with the raw wait status.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from typing import Any, Dict

#: Modules of this package that most runs need.
_PRELOADED = (".loops.interpreter", ".record.recorder", ".rungs.ladder", ".runner", ".shadow.mode", ".view")


def serve() -> None:
    """Imports torch, then serves jobs until standard input closes."""
    answers = take_answers()
    serve_from(answers, prepared())


def take_answers() -> Any:
    """Returns a stream to the original standard output and redirects standard output to standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def prepared() -> Any:
    """Imports what most probes need; returns the facts of the server's ready message."""
    # Without this, importing Inductor touches the CUDA driver and no forked child could use it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    started = time.time()
    from .torch_internals.preload import lazy_init, preload

    missing = preload()
    initialised = lazy_init()
    import torch

    # Imported here, so that no forked child has to.
    for module in _PRELOADED:
        importlib.import_module(module, __package__)

    return {
        "torch": str(torch.__version__),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "missing": missing,
        "initialised": initialised,
        "seconds": round(time.time() - started, 3),
    }


def serve_from(answers: Any, facts: Any) -> None:
    """Serves jobs until standard input closes; this process forks the probes and adopts their orphans."""
    _become_subreaper()
    _say(answers, event="ready", **facts)
    _loop(answers)


def _say(stream: Any, **message: Any) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


def _loop(answers: Any) -> None:
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: Dict[int, str] = {}
    pending = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [], 1.0)
        if wake_read in readable:
            try:
                os.read(wake_read, 4096)
            except BlockingIOError:
                pass
        _reap(running, answers)
        if 0 in readable:
            chunk = os.read(0, 65536)
            if not chunk:
                for pid in running:
                    _kill(pid)
                return
            pending += chunk
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                job = json.loads(line.decode())
                pid = _fork(job)
                running[pid] = job["id"]
                _say(answers, event="started", id=job["id"], pid=pid)


def _reap(running: Any, answers: Any) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        identity = running.pop(pid, None)
        if identity is not None:
            _say(answers, event="ended", id=identity, status=status)


def _kill(pid: Any) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        return


def _fork(job: Any) -> Any:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = _in_child(job)
    except BaseException as error:
        _own_failure(job, error)
    finally:
        try:
            import atexit

            atexit._run_exitfuncs()
        except BaseException:
            pass
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass
        os._exit(code)


def _own_failure(job: Any, error: BaseException) -> None:
    """Writes ``crash.txt``, which marks this as the lab's failure and not the program's."""
    import traceback

    traceback.print_exc()
    with open(
        os.path.join(job["folder"], "crash.txt"), "w", encoding="utf-8", errors="backslashreplace"
    ) as stream:
        stream.write("".join(traceback.format_exception_only(type(error), error)).strip())


def _in_child(job: Any) -> Any:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, path, flags in (
        (0, job["stdin"] or os.devnull, os.O_RDONLY),
        (1, job["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, job["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.closerange(3, 256)
    # New stream objects, because a program may close or replace them.
    for name, descriptor, mode, errors in (
        ("stdin", 0, "r", "surrogateescape"),
        ("stdout", 1, "w", "backslashreplace"),
        ("stderr", 2, "w", "backslashreplace"),
    ):
        buffering = 1 if descriptor == 2 else -1
        stream = open(  # noqa: SIM115 - lives as long as the process
            descriptor, mode, buffering, encoding="utf-8", errors=errors, closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.get("file_bytes"):
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], hard))
    os.environ.update(job["env"])
    tempfile.tempdir = None  # drops a cached TMPDIR
    if job.get("view"):
        from .view import enter

        enter(job["view"])
    os.chdir(job["cwd"])
    if job["program"] is None:
        from .collect_env import main

        main()
        return 0
    from .runner import execute
    from .shadowed_modules import shadowed_imports

    names = shadowed_imports(job["program"])
    if names:
        raise RuntimeError(
            "%s in the script's folder shadows an imported module; a cold process is required"
            % ", ".join(names)
        )
    return execute(job)


def _become_subreaper() -> None:
    """Makes this process the parent of a probe's orphans, so that it can find and reap them."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    except Exception:
        return
