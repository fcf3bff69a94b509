"""``accel-lab bench``: measures models under backends, each pair in its own process."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.bench_base import Base, read_base, show_list
from accel_lab.cli.bench_cluster import gather
from accel_lab.cli.engine_options import Cluster, chosen, dispatching
from accel_lab.cli.options import MAX_MB, MAX_SECONDS, Number, find_python, limits_from
from accel_lab.core.benchmark import Benchmark, Measurement, Reply, RowStatus
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.machine.places import state_folder
from accel_lab.core.text import printable
from accel_lab.execution.builds import Build, inspect_build
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.processes.isolated import Isolated
from accel_lab.execution.run_folder.lock import held
from accel_lab.request import new_folder
from accel_lab.workloads import measure, registry
from accel_lab.workloads.measure import Described, Settings


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """The options of ``accel-lab bench``, checked as far as possible without the probed interpreter."""

    models: list[registry.Model]
    backends: tuple[str, ...]
    settings: Settings
    python: str
    timeout: float
    memory: int
    out: Path | None
    base: Base | None = None
    cluster: Cluster | None = None

    @property
    def words(self) -> list[str]:
        """The options besides the model, for the command on a worker."""
        one = self.settings
        words = ["--device", one.device, "--dtype", one.dtype, "--size", one.size, "--seed", str(one.seed)]
        words += ["--runs", str(one.runs), "--warmup", str(one.warmup), *(["--train"] if one.train else [])]
        words += ["--timeout", f"{self.timeout:g}", "--memory", str(self.memory)]
        return [*words, *(word for name in self.backends for word in ("--backend", name))]


@click.command(name="bench")
@click.option("--all", "everything", is_flag=True, help="Measure every model.")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(list(registry.MODELS)),
    help="A model to measure. Repeatable.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="NAME",
    help=f"One of {', '.join(registry.BACKENDS)}, or an adapter of the probed environment. Repeatable. "
    "[default: all]",
)
@click.option("--device", type=click.Choice(registry.DEVICES), default="cpu", show_default=True)
@click.option("--dtype", type=click.Choice(registry.DTYPES), default="float32", show_default=True)
@click.option(
    "--size",
    type=click.Choice(registry.SIZES),
    default="base",
    show_default=True,
    help="small is for a first look: the same operators, few of them, tiny.",
)
@click.option("--train", is_flag=True, help="Measure a training step instead of inference.")
@click.option(
    "--runs",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Timed calls of each pair; slow ones get fewer, but no less than three.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0, 1_000),
    default=2,
    show_default=True,
    help="Calls after the first one that are not timed.",
)
@click.option(
    "--compare",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Compare with an earlier bench.json; exit code 1 if a row is slower than chance explains.",
)
@click.option("--list", "listed", is_flag=True, help="List models and backends, and measure nothing.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of weights and inputs.",
)
@click.option("--python", metavar="PATH", help="The interpreter to measure with. [default: this one]")
@click.option(
    "--timeout",
    type=Number(1, MAX_SECONDS),
    default=1800.0,
    show_default=True,
    help="Seconds for one model under one backend.",
)
@click.option(
    "--memory",
    type=click.IntRange(64, MAX_MB),
    default=16384,
    show_default=True,
    help="Memory limit of one of them, in MB.",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Where to measure: local, or dask:ADDRESS; a model is then measured by one worker. [default: local]",
)
@click.option("--store", metavar="URL", help="For a cluster: a folder that its workers reach too.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="Where to make the run's folder. [default: the user's data folder]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the benchmark as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    everything: bool,
    models: tuple[str, ...],
    backends: tuple[str, ...],
    device: str,
    dtype: str,
    size: str,
    train: bool,
    runs: int,
    warmup: int,
    compare: str | None,
    listed: bool,
    seed: int,
    python: str | None,
    timeout: float,
    memory: int,
    engine: str | None,
    store: str | None,
    out: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure models (BERT, ResNet-18, a decoder, a UNet, ...) under the backends of torch.compile.

    Exit codes: 0 all results agree with eager's, 1 a backend failed, differs from eager or is slower than in
    the benchmark of --compare, 2 wrong usage, 3 nothing could be measured, 130 interrupted.
    """
    if listed:
        show_list(as_json=as_json)
        return 0
    wanted = BenchRequest(
        models=registry.choose_models(models, everything),
        backends=backends,
        settings=Settings(
            size=size, device=device, dtype=dtype, runs=runs, warmup=warmup, train=train, seed=seed
        ),
        python=find_python(python),
        timeout=timeout,
        memory=memory,
        out=Path(out).resolve() if out else None,
        base=read_base(Path(compare)) if compare else None,
        cluster=chosen(engine, store),
    )
    if wanted.cluster is not None and wanted.base is not None:
        raise UsageError("--compare is for the figures of one machine: leave out --engine, or --compare")
    if wanted.base is not None:
        wanted.base.must_suit(wanted.settings)
    return work(wanted, as_json=as_json, quiet=quiet)


def work(wanted: BenchRequest, *, as_json: bool, quiet: bool) -> int:
    """Measures, writes the files and prints the result; returns the exit code."""
    place = wanted.out if wanted.out is not None else state_folder() / "bench"
    folder = new_folder(place, "bench", "folder", "bench")
    with held(folder):
        if wanted.cluster is not None:
            return _on_cluster(wanted, wanted.cluster, folder, as_json=as_json, quiet=quiet)
        return _work(wanted, folder, as_json=as_json, quiet=quiet)


def _work(wanted: BenchRequest, folder: Path, *, as_json: bool, quiet: bool) -> int:
    build = inspect_build(wanted.python, folder)
    shutil.rmtree(folder / "lib", ignore_errors=True)  # inspect_build's copy is not needed any more
    worker = Isolated(
        python=wanted.python,
        folder=folder / "rows",
        module=measure.WORKER,
        limits=limits_from(wanted.timeout, wanted.memory),
    )
    benchmark = Benchmark(
        settings=wanted.settings.to_json(),
        environment=_environment(build),
        titles={model.name: model.title for model in wanted.models},
        artifacts=str(folder),
    )
    began = time.monotonic()
    backends: list[registry.Backend] = []
    try:
        backends = registry.choose_backends(wanted.backends, _described(wanted, worker).adapters)
        packages = sorted(build.facts.get("packages", {}))
        for row, facts in measure.run(wanted.models, backends, wanted.settings, packages, worker.ask):
            benchmark.rows.append(row)
            benchmark.environment.update(facts.get("machine", {}))
            _tell(row, quiet)
        benchmark.complete = True
    except KeyboardInterrupt:
        if not benchmark.rows:
            raise
        sys.stderr.write("interrupted: what was measured so far is in the report\n")
    finally:
        worker.tidy()
        benchmark.seconds = time.monotonic() - began
    if wanted.base is not None:
        benchmark.compared = wanted.base.against(benchmark.rows)
    _write_files(benchmark, folder, [(backend.name, backend.title) for backend in backends])
    _show(benchmark, as_json)
    return exit_code(benchmark)


def _on_cluster(wanted: BenchRequest, cluster: Cluster, folder: Path, *, as_json: bool, quiet: bool) -> int:
    """Does the same as :func:`_work`, but a worker measures each model."""
    build = inspect_build(wanted.python, folder)
    shutil.rmtree(folder / "lib", ignore_errors=True)
    benchmark = Benchmark(
        settings=wanted.settings.to_json(),
        titles={model.name: model.title for model in wanted.models},
        artifacts=str(folder),
    )
    began = time.monotonic()
    stopped = threading.Event()

    def say(line: str) -> None:
        if not quiet:
            sys.stderr.write(printable(line) + "\n")

    try:
        with (
            dispatching(cluster, say) as dispatch,
            Interruptible([stopped.set, dispatch.stop]),
        ):
            gather(
                benchmark,
                [model.name for model in wanted.models],
                wanted.words,
                python=wanted.python,
                torch=build.torch,
                dispatch=dispatch,
                folder=folder,
                jobs=len(wanted.models),
                listener=lambda row: _tell(row, quiet),
            )
        benchmark.complete = not stopped.is_set()
    finally:
        benchmark.seconds = time.monotonic() - began
        benchmark.environment = {**_environment(build), **benchmark.environment}
        if benchmark.rows:
            titles = {backend.name: backend.title for backend in registry.BACKENDS.values()}
            backends = [(name, titles.get(name, "an adapter")) for name in benchmark.backends]
            _write_files(benchmark, folder, backends)
    if not benchmark.rows:
        raise LabError("no worker measured anything")
    _show(benchmark, as_json)
    return exit_code(benchmark)


def exit_code(benchmark: Benchmark) -> int:
    """Returns 0 (all agree), 1 (failed, differs or slower), 3 (nothing measured), 130 (interrupted)."""
    if not benchmark.complete:
        return 130
    slower = benchmark.compared is not None and benchmark.compared.regressions
    if slower or benchmark.count(RowStatus.FAILED, RowStatus.DIFFERS):
        return 1
    return 0 if benchmark.count(RowStatus.OK) else 3


def _described(wanted: BenchRequest, worker: Isolated) -> Described:
    """Describes the probed environment's adapters and device.

    Raises LabError if torch there does not see the device or the worker does not answer.
    """
    description = measure.describe(worker.ask, wanted.settings.device)
    if isinstance(description, Reply):
        error = description.facts.get("error", {})
        why = error.get("message") or description.ended or description.stderr_line or "it gave no answer"
        raise LabError(f"{wanted.python} does not run the lab's worker: {why}")
    if not description.device_ready:
        raise LabError(f"torch in {wanted.python} sees no {wanted.settings.device} device: use --device cpu")
    return description


def _environment(build: Build) -> dict[str, Any]:
    """Returns the environment that the numbers hold for, with the mock's variables next to torch's."""
    mock = {name: os.environ[name] for name in sorted(os.environ) if name.startswith("MOCK_")}
    variables = {**build.facts.get("variables", {}), **mock}
    return {**build.facts, "variables": variables, "load_at_start": round(os.getloadavg()[0], 2)}


def _tell(row: Measurement, quiet: bool) -> None:
    if quiet:
        return
    from accel_lab.reporting.tables.findings import one_line
    from accel_lab.reporting.words.bench import MARKS

    mark = MARKS[row.standing]
    name = f"{row.model} {row.backend}".strip()
    latency = f"{row.latency_ms.median:.1f} ms" if row.latency_ms else ""
    said = row.reason or latency
    sys.stderr.write(f"{mark.symbol} {name:20s} {row.seconds:6.1f} s  {one_line(said, 100)}\n")
    sys.stderr.flush()


def _write_files(benchmark: Benchmark, folder: Path, backends: list[tuple[str, str]]) -> None:
    from accel_lab.reporting.page.bench import render
    from accel_lab.reporting.page.bench_plots import plots
    from accel_lab.reporting.schema import json_text

    pictures = plots(benchmark)
    for picture in pictures:
        write_atomic(folder / f"{picture.name}.svg", picture.svg)
    benchmark.report = str(folder / "bench.html")
    write_atomic(folder / "bench.html", render(benchmark, pictures, backends))
    write_atomic(folder / "bench.json", json_text(benchmark.to_json()))


def _show(benchmark: Benchmark, as_json: bool) -> None:
    if as_json:
        from accel_lab.reporting.schema import json_text

        click.echo(json_text(benchmark.to_json()), nl=False)
        return
    from accel_lab.reporting.tables.bench import text

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
    width = shutil.get_terminal_size((120, 24)).columns
    click.echo(text(benchmark, colour=colour, unicode=unicode, width=width))
    click.echo(f"\nreport  {benchmark.report}\nfolder  {benchmark.artifacts}")
