"""An interpreter without torch that answers the lab as the child does, in milliseconds: for whole runs.

``made(folder)`` writes the program to name with ``--python``. It speaks all that the lab asks of one: plain
runs, ``doctor``, ``once JOB``, ``serve`` and ``lend``. A script sees the rung that it is run under in
``FAKE_RUNG`` (empty in a plain run) and the way it was started in ``FAKE_WAY``: plain, cold or warm.

Where ``FAKE_STOPS`` names a folder with a file called like a moment, the process stops there: see ``stop``.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

TORCH = "2.99.0"
#: Further processes live so long at most, should the code under test fail to end them.
NAP = "import time; time.sleep(300)"


def made(folder: Path) -> Path:
    """The program, in a folder."""
    path = folder / "python"
    path.write_text(
        f"#!{sys.executable} -S\n"
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        "import fakes_interpreter\nfakes_interpreter.main(sys.argv[1:])\n"
    )
    path.chmod(0o755)
    return path


def main(words: list[str]) -> None:
    if len(words) > 1 and words[1] == "doctor":
        facts = {"python": "3.11.0", "torch": TORCH, "packages": {"torch": TORCH}, "accelerators": []}
        print(json.dumps({**facts, "variables": {}}))
    elif len(words) > 2 and words[1] == "once":
        sys.exit(execute(json.loads(Path(words[2]).read_text()), "cold"))
    elif len(words) > 1 and words[1] == "serve":
        serve()
    elif len(words) > 2 and words[1] == "lend":
        lend(words[0], int(words[2]))
    else:
        stop("check" if words[0] == os.environ.get("FAKE_CHECK") else "plain", words[0])
        os.environ.update(FAKE_WAY="plain", FAKE_RUNG="")
        os.execv(sys.executable, [sys.executable, "-S", *words])


def stop(moment: str, program: str = "") -> None:
    """Where it is asked for, leave a daemon, say so in the file ``reached``, and sleep.

    A program that is not the user's own is a candidate of a reduction. ``cleared`` in the file: nothing
    in the daemon's environment says whose it is.
    """
    folder = Path(os.environ.get("FAKE_STOPS", "/nowhere"))
    if moment != "check" and program and Path(program).parent != folder.parent / "work":
        moment = "reduction"
    wanted = folder / moment
    if not wanted.exists():
        return
    bare = wanted.read_text() == "cleared"
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            daemon = [sys.executable, "-S", "-c", NAP, str(folder)]
            os.closerange(0, 64)
            os.execve(sys.executable, daemon, {} if bare else dict(os.environ))
        os._exit(0)
    os.wait()
    time.sleep(1.5 if bare else 0.05)  # until the lab has seen the daemon
    (folder / "reached").touch()
    time.sleep(300)


def execute(job: dict[str, Any], way: str) -> int:
    """Run the program of a job and leave ``result.json``; the exit code."""
    os.environ.update(job.get("env", {}), FAKE_WAY=way, FAKE_RUNG=job["rung"])
    os.chdir(job["cwd"])
    sanitized = dict(job.get("switches") or ()).get("sanitize")
    stop("sanitized" if sanitized else f"{way} {job['rung']}", job["program"]["path"])
    raised, code = None, 0
    try:
        runpy.run_path(job["program"]["path"], run_name="__main__")
    except BaseException as error:
        code = 1
        traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)[-1:]
        raised = {
            "type": type(error).__name__,
            "message": str(error),
            "frames": [{"file": f.filename, "line": f.lineno, "function": f.name} for f in frames],
        }
    region = {"id": 0, "name": "f", "backend": "inductor", "calls": 1}
    facts = {"regions": [region], "random": False, "not_applicable": ""}
    result = {"exit_code": code, "raised": raised, "torch": TORCH, "python": "3.11.0", "facts": facts}
    Path(job["folder"], "result.json").write_text(json.dumps({**result, "notes": []}))
    return code


def lend(entry: str, descriptor: int) -> None:
    """The clean server, by the child's own code; what it forks are the servers of this module."""
    sys.path[0] = str(Path(entry).parents[1])
    from accel_lab_child import lender

    lender.lend(descriptor, dict, lambda answers, facts: serve(answers))


def serve(answers: Any = None) -> None:
    """The warm server's protocol."""
    answers = answers or os.fdopen(os.dup(1), "w", buffering=1)
    print(json.dumps({"event": "ready", "torch": TORCH, "python": "3.11.0"}), file=answers)
    running: dict[int, str] = {}

    def reap(*_: object) -> None:
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                message = {"event": "ended", "id": running.pop(pid), "status": status}
                print(json.dumps(message), file=answers)

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        job = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            _fork(job)
        running[pid] = job["id"]
        print(json.dumps({"event": "started", "id": job["id"], "pid": pid}), file=answers)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _fork(job: dict[str, Any]) -> None:
    os.setsid()
    for descriptor, path in ((1, job["stdout"]), (2, job["stderr"])):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, descriptor)
    code = execute(job, "warm")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
