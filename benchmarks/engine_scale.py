"""What the engine costs: fake jobs of drawn lengths on 2 to 64 simulated workers of a real Dask scheduler.

    python benchmarks/engine_scale.py [--workers N ...] [--each N] [--mean SECONDS] [--seed N] [--json FILE]

All is real but the bisection: packing, store (a local folder), scheduler, futures, the folders of jobs and
their locks, fetching. A job sleeps for its length and leaves a run folder of the usual size. All workers are
threads of this process, so the overhead of many is also that of one Python: the figures are an upper bound.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bisect"))

from accel_lab.engine.dask_engine import DaskEngine  # noqa: E402 - the path is set above
from accel_lab.engine.dispatch import Dispatch  # noqa: E402
from accel_lab.engine.job import SCRIPT_FOLDER, PackedJob, Request, lab_identity  # noqa: E402
from accel_lab.engine.lab_command import LabRun  # noqa: E402
from accel_lab.engine.store import Store  # noqa: E402
from accel_lab.engine.worker import Worker  # noqa: E402

#: A run folder as a bisection leaves it, packed: files, and bytes that do not compress.
FILES, FILE_BYTES = 60, 6_000
#: A bisection takes about so long on a quiet machine of two cores, for the last column.
BISECTION_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of workers. ``work_s`` is the sum of the jobs' lengths, ``wall_s`` the time for all.

    ``ideal_s`` is the time for all of an engine that costs nothing and gives out the jobs in their order.
    ``cpu_s`` is the processor time of this process: of the asking side, the scheduler and all workers.
    """

    workers: int
    jobs: int
    work_s: float
    wall_s: float
    ideal_s: float
    cpu_s: float

    @property
    def efficiency(self) -> float:
        """The part of the workers' time that was work."""
        return self.work_s / (self.workers * self.wall_s)

    @property
    def ideal(self) -> float:
        """The efficiency of that engine: at the end workers have nothing left to do."""
        return self.work_s / (self.workers * self.ideal_s)

    @property
    def overhead_s(self) -> float:
        """Seconds of a worker's time, a job, beyond those of that engine."""
        return self.workers * (self.wall_s - self.ideal_s) / self.jobs

    @property
    def at_a_bisection(self) -> float:
        """The efficiency with jobs as long as a bisection, from the overhead."""
        return BISECTION_S / (BISECTION_S + self.overhead_s)


def sleep_job(words: list[str], *, cwd: Path, folder: Path) -> LabRun:
    """Stands for ``accel-lab bisect``: it sleeps as long as its script says."""
    time.sleep(float(Path(words[-1]).read_text(encoding="utf-8")))
    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    (run / "request.json").write_text("{}", encoding="utf-8")
    for number in range(FILES):
        (run / f"{number}.bin").write_bytes(os.urandom(FILE_BYTES))
    return LabRun(exit_code=0, said="(exit code 0)")


def no_torch(python: str) -> str:
    """In the place of asking an interpreter for its torch."""
    return "none"


def lengths(count: int, mean_s: float, seed: int) -> list[float]:
    """Seconds, drawn: most are short and some are long, as bisections are (a log-normal law, sigma 0.7)."""
    rng = random.Random(seed)
    drawn = [rng.lognormvariate(0.0, 0.7) for _ in range(count)]
    scale = mean_s * count / sum(drawn)
    return [one * scale for one in drawn]


def ideal(drawn: Sequence[float], workers: int) -> float:
    """When the last job ends, if each worker that is free takes the next one at once."""
    free = [0.0] * workers
    for length in drawn:
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def measured(workers: int, each: int, mean_s: float, seed: int) -> Row:
    """Run ``each`` jobs a worker."""
    from distributed import LocalCluster

    warnings.filterwarnings("ignore", message="Port .* is already in use")
    drawn = lengths(workers * each, mean_s, seed)
    with tempfile.TemporaryDirectory(prefix="accel-lab-scale-") as name:
        folder = Path(name)
        jobs = [_job(folder, number, length) for number, length in enumerate(drawn)]
        url = f"file://{folder / 'store'}"
        worker = Worker(
            store=url, scratch=str(folder / "scratch"), run=sleep_job, torch_of=no_torch, least_free=0
        )
        with LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            local_directory=str(folder / "dask"),
        ) as cluster:
            engine = DaskEngine(cluster.scheduler_address)
            try:
                dispatch = Dispatch(engine, Store(url), worker)
                began, cpu = time.monotonic(), time.process_time()
                with ThreadPoolExecutor(max_workers=2 * workers) as pool:
                    asked = [
                        pool.submit(dispatch.ask, job, f"job {number}", folder / "out" / str(number))
                        for number, job in enumerate(jobs)
                    ]
                    for future in asked:
                        future.result()
                wall, cpu = time.monotonic() - began, time.process_time() - cpu
            finally:
                engine.close()
    return Row(
        workers=workers,
        jobs=len(drawn),
        work_s=sum(drawn),
        wall_s=wall,
        ideal_s=ideal(drawn, workers),
        cpu_s=cpu,
    )


def _job(folder: Path, number: int, length: float) -> PackedJob:
    script = folder / "in" / f"job{number}.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"{length!r}", encoding="utf-8")
    request = Request(
        words=("bisect", "--quiet"),
        script=f"{SCRIPT_FOLDER}/{script.name}",
        cwd=SCRIPT_FOLDER,
        python=sys.executable,
        torch="none",
        lab=lab_identity(),
    )
    return PackedJob(request=request, files={f"{SCRIPT_FOLDER}/{script.name}": script})


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = "workers   jobs   work s   wall s   efficiency   at no cost      overhead a job   CPU a job   "
    head += "at 60 s a job"
    lines = [
        f"{row.workers:7d} {row.jobs:6d} {row.work_s:8.1f} {row.wall_s:8.1f} {row.efficiency:11.1%} "
        f"{row.ideal:14.1%} {row.overhead_s:13.3f} s {row.cpu_s / row.jobs:9.3f} s {row.at_a_bisection:14.1%}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--each", type=int, default=6, help="jobs a worker")
    parser.add_argument("--mean", type=float, default=5.0, help="seconds that a job takes on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args(argv)
    rows: list[Row] = []
    for workers in args.workers:
        rows.append(measured(workers, args.each, args.mean, args.seed))
        print(table(rows[-1:]).splitlines()[-1] if len(rows) > 1 else table(rows), flush=True)
    if args.json:
        args.json.write_text(json.dumps([row.__dict__ for row in rows], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
