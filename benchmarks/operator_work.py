"""Processes that run operators one after the other: a crash or a hang costs one operator, not the run.

As a program it is such a process: it reads one task a line and answers with one line of JSON for each.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Failures of one cell that are told; the others are counted.
TOLD = 6


class Fleet:
    """Some workers, and what they say of the build that they run."""

    def __init__(self, *, jobs: int, threads: int, timeout_s: float) -> None:
        self.threads = threads
        self.timeout_s = timeout_s
        self.workers = [Worker(threads) for _ in range(max(1, jobs))]
        self.about: dict[str, Any] = {}

    def __enter__(self) -> Fleet:
        self.about = self.workers[0].answer(self.timeout_s)
        for worker in self.workers[1:]:
            worker.answer(self.timeout_s)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def work(self, tasks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The answers, in the order in which they come."""
        waiting: queue.Queue[dict[str, Any]] = queue.Queue()
        for task in tasks:
            waiting.put(task)
        answers: queue.Queue[dict[str, Any]] = queue.Queue()

        def serve(number: int) -> None:
            while True:
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                answers.put(self._ask(number, task))

        for number in range(len(self.workers)):
            threading.Thread(target=serve, args=(number,), daemon=True).start()
        for _ in tasks:
            yield answers.get()

    def _ask(self, number: int, task: dict[str, Any]) -> dict[str, Any]:
        worker = self.workers[number]
        try:
            worker.ask(task)
            return worker.answer(self.timeout_s)
        except (queue.Empty, EOFError, OSError) as error:
            why = "out of time" if isinstance(error, queue.Empty) else str(error)
            worker.end()
            self.workers[number] = fresh = Worker(self.threads)
            fresh.answer(self.timeout_s)
            failure = {"sample": "-", "outcome": "error", "detail": why}
            return {**task, "counts": {"error": 1}, "failures": [failure]}


class Worker:
    """One process."""

    def __init__(self, threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        paths = (str(ROOT / "bisect"), os.environ.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, task: dict[str, Any]) -> None:
        """Hand a task over."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """The next answer. Raises queue.Empty when it does not come in time, EOFError at the end."""
        line = self._lines.get(timeout=timeout_s)
        if not line:
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip().splitlines()
            raise EOFError(f"the process died: {said[-1] if said else 'it said nothing'}")
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()
        self.errors.close()


def serve() -> None:
    """Answer tasks until there are no more."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is not an answer
    import torch

    from accel_lab.mock.frontend import pipeline as front_end
    from accel_lab.mock.lowering.builder import REGISTRY
    from operator_samples import names, op_db

    del front_end  # its import enters the lowerings
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    found = op_db()
    about = {
        "torch": torch.__version__,
        "op_db": len(found),
        "names": names(found),
        "native": sorted(REGISTRY),
        "never_traced": sorted(filter(never_traced, REGISTRY)),
        "threads": torch.get_num_threads(),
    }
    out.write(json.dumps(about) + "\n")
    out.flush()
    for line in sys.stdin:
        task = json.loads(line)
        answer = timed_cell(task) if task["speed"] else cell(found, task)
        out.write(json.dumps({**task, **answer}) + "\n")
        out.flush()


def never_traced(name: str) -> bool:
    """Whether AOTAutograd takes an operator apart before a backend sees it: its lowering is for graphs that
    were made otherwise."""
    import torch

    from accel_lab.mock.frontend import decompositions

    library, _, rest = name.partition(".")
    packet = getattr(getattr(torch.ops, library), rest.partition(".")[0], None)
    if packet is None:
        return True
    overloads = [rest.partition(".")[2]] if "." in rest else packet.overloads()
    table = decompositions.table()
    there = [found for each in overloads if (found := getattr(packet, each, None)) is not None]
    return all(each in table or _composite(each.name()) for each in there)


def _composite(name: str) -> bool:
    """Whether an overload is made of others, or is TorchScript's alone and not known to the dispatcher."""
    import torch

    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))
    except RuntimeError:
        return True


def cell(found: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """All samples of one operator in one dtype."""
    from operator_run import EagerFails, run
    from operator_samples import samples

    counts: dict[str, int] = {}
    where: dict[str, int] = {}
    native: dict[str, int] = {}
    host: dict[str, str] = {}
    failures: list[dict[str, str]] = []
    try:
        every = samples(found, task["name"], task["dtype"], task["limit"], backward=task["backward"])
        for described, sample in every:
            try:
                answer = run(sample)
            except EagerFails:
                counts["eager fails"] = counts.get("eager fails", 0) + 1
                continue
            counts[answer.outcome] = counts.get(answer.outcome, 0) + 1
            where[answer.where] = where.get(answer.where, 0) + 1
            for name in answer.native:
                native[name] = native.get(name, 0) + 1
            host.update(answer.host)
            if answer.outcome not in ("right", "no operator") and len(failures) < TOLD:
                failures.append({"sample": described, "outcome": answer.outcome, "detail": answer.detail})
    except Exception as error:  # torch's own samples may fail to be made, which is no result of the mock's
        counts["no samples"] = 1
        failures.append(
            {"sample": "-", "outcome": "no samples", "detail": f"{type(error).__name__}: {error}"}
        )
    gc.collect()  # compiled graphs stand in cycles, and each holds its arena of the device
    return {"counts": counts, "where": where, "native": native, "host": host, "failures": failures}


def timed_cell(task: dict[str, Any]) -> dict[str, Any]:
    """One case of the grid at a size where the work outweighs the call."""
    import torch

    from operator_cases import CASES
    from operator_run import EagerFails, Sample, run
    from operator_samples import laid_out

    case = CASES[task["name"].removeprefix("grid.")]
    if task["dtype"] not in case.dtypes:
        return {"counts": {}}
    x = laid_out((1024, 1024), getattr(torch, task["dtype"]), "contiguous")
    try:
        answer = run(Sample(case.function, (x,), {}, backward=False), timed=5)
    except EagerFails:
        return {"counts": {"eager fails": 1}}
    failures = []
    if answer.outcome not in ("right", "no operator"):
        failures.append({"sample": "1024 x 1024", "outcome": answer.outcome, "detail": answer.detail})
    return {
        "counts": {answer.outcome: 1},
        "where": {answer.where: 1},
        "host": answer.host,
        "failures": failures,
        "mock_ms": answer.mock_s * 1e3,
        "eager_ms": answer.eager_s * 1e3,
        "kernels": answer.kernels,
    }


if __name__ == "__main__":
    serve()
