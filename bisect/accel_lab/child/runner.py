"""Runs the user's program on one rung and writes ``result.json``.

The job is a JSON file. Facts go to ``result.json`` in the job's folder, regions to ``regions.json`` as they
appear. The parent relies on the process's exit status; a missing ``result.json`` means that the process did
not end by itself.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib.util
import itertools
import json
import os
import random
import signal
import sys
from typing import Any, Callable, Dict, List, Optional

from . import accelerator_library
from .artifacts import Artifacts, write_json
from .exceptions import NotApplicable, describe
from .opened_files import Opened
from .program import exit_code, free_program, join_threads, run_program
from .protocol import facts as protocol_facts
from .protocol import job as protocol_job
from .rungs.unreached_compilers import Entries
from .shadowed_modules import HiddenImports
from .torch_internals.dynamo import MODULE as DYNAMO
from .torch_internals.entries import ENTRIES

#: torch's default seed (c10/core/GeneratorImpl.h).
_TORCH_SEED = 67280421310721
_KEEP_OPEN: List[Any] = []  # files that stay open until the process ends


def run_once(job_path: str) -> None:
    """Runs a job in this process, which has not imported torch yet (a cold run), and exits."""
    with open(job_path, encoding="utf-8") as stream:
        job = json.load(stream)
    sys.exit(execute(job))


def execute(job: protocol_job.Job) -> Any:
    """Runs the job's program; returns the exit code that plain Python would have."""
    folder = job["folder"]
    if job["switches"].get("sanitize"):
        os.environ.pop("LD_PRELOAD", None)  # already loaded here; the compiler is faster without it
    _catch_faults(folder)
    _seed(job["seed"])
    session = Session(job)
    try:
        session.prepare()
    except SystemExit as stop:  # the rung could not be prepared, so the program does not run
        code = exit_code(stop)
        session.finish(code, describe(stop))
        return code
    session.hidden_imports = HiddenImports(job["program"])
    session.watch_files()
    code, raised, error = run_program(job["program"])
    join_threads()
    session.finish(code, raised, error)
    if os.environ.get("MALLOC_CHECK_"):
        del error
        free_program()
    return code


def disable_module_compile(nn: Any) -> None:
    """Makes ``Module.compile()`` do nothing; it would store torch.compile's result in the module."""
    if hasattr(nn.Module, "compile"):  # 2.0 has no such method
        nn.Module.compile = lambda self, *args, **kwargs: None


class Session:
    """The instruments of one run (ladder, recorder, logs) and its results."""

    def __init__(self, job: protocol_job.Job) -> None:
        self.job = job
        self.folder = job["folder"]
        self.notes: List[str] = []
        self.ladder: Any = None
        self.compile_log: Any = None
        self.mixed_sources: Any = None
        self.recorder: Any = None
        self.shadow: Any = None
        self.lab_error: Optional[Dict[str, Any]] = None
        self.not_applicable = ""
        self.entries = Entries(self.folder, self.notes, self._in_regions)
        self.hidden_imports: Any = None
        self.opened = Opened(self.folder, job["program"]["path"]) if job["opened"] else None
        self.on_region: Callable[[], None] = self._write_regions

    def watch_files(self) -> None:
        """Starts to note opened files, if the job asks for it."""
        if self.opened is not None:
            self.opened.start()

    def prepare(self) -> None:
        """Installs the rung now if torch is imported, else when the script imports it.

        Raises ``SystemExit`` if this child does not support the job, because a run without the unknown part
        would give a wrong result.
        """
        self.not_applicable = protocol_job.job_error(self.job)
        if self.not_applicable:
            raise SystemExit("accel-lab: %s" % self.not_applicable)
        switches = self.job.get("switches") or {}
        accelerator_library.prepare(self.job.get("rung"), switches)
        if switches.get("trace"):  # torch reads the variable at import
            os.environ["TORCH_TRACE"] = os.path.join(self.folder, "trace")
        if switches.get("disable_everywhere"):  # child processes inherit it
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
        if switches.get("other_processes"):
            from .processes import started

            started.announce(self.job)
        mixed = switches.get("mixed_sources")
        if mixed:
            from .mixed_sources import MixedSources

            self.mixed_sources = MixedSources(mixed["served"], mixed["watched"])
            self.mixed_sources.install()
        waiting: Dict[str, Callable[[], None]] = {
            name: functools.partial(self._arrived, name)
            for name in ("numpy", "torch", DYNAMO, "torch.nn", *ENTRIES)
        }
        for name in list(waiting):
            if name in sys.modules:
                waiting.pop(name)()
        if waiting:
            sys.meta_path.insert(0, AfterImport(waiting))

    def _arrived(self, name: str) -> None:
        if name in ("numpy", "torch"):
            self._seed_library(name)
            return
        if name == DYNAMO:
            self._install()
        if name == "torch.nn":
            # Must happen before the script calls ``Module.compile``, which imports Dynamo.
            if self.job["switches"].get("identity"):
                disable_module_compile(sys.modules[name])
            return
        self.entries.watch(name)

    def _in_regions(self) -> Any:
        """Nesting depth in regions, number of exceptions from regions, number of region calls."""
        if self.ladder is None:
            return 0, 0, 0
        calls = sum(region["calls"] for region in self.ladder.regions)
        return getattr(self.ladder._depth, "value", 0), len(self.ladder.caught), calls

    def _seed_library(self, name: str) -> None:
        """Seeds torch or numpy, so that a script without a seed draws the same numbers in each run."""
        seed = self.job["seed"]
        if name == "torch":
            sys.modules[name].manual_seed(_TORCH_SEED + seed)
            return
        numpy_random = sys.modules[name].random
        numpy_random.seed(seed % 2**32)
        if hasattr(numpy_random, "default_rng"):
            numpy_random.default_rng = _seeded(numpy_random.default_rng, seed)

    def _install(self) -> None:
        try:
            if self.hidden_imports is None:
                self._install_rung()
            else:
                with self.hidden_imports.restored():
                    self._install_rung()
        except NotApplicable as error:
            self.not_applicable = str(error)
            raise SystemExit("accel-lab: %s" % error) from error
        except Exception as error:
            # Without its instruments the run would not be the requested probe.
            self.lab_error = describe(error)
            raise SystemExit("accel-lab could not prepare this run: %s" % error) from error

    def _install_rung(self) -> None:
        from .record.recorder import Recorder
        from .rungs.ladder import Ladder

        switches = self.job["switches"]
        if switches.get("shadow"):
            from .shadow.mode import DRAWS, ShadowMode

            self.shadow = ShadowMode(draws=DRAWS)
            self.shadow.__enter__()
        if self.opened is not None:
            from .torch_internals.dynamo import leave_uncompiled

            leave_uncompiled(self.opened.codes())
        if switches.get("compile_log"):
            from .hooks.compile_log import CompileLog

            self.compile_log = CompileLog()
        # Recording takes time and memory and keeps tensors alive, so these switches exclude it.
        if self.job["record_bytes"] and not any(
            switches.get(name) for name in ("measure", "compile_log", "layers", "trace")
        ):
            self.recorder = Recorder(self.folder, self.job["record_bytes"], shadow=self.shadow)
        self.ladder = Ladder(
            self.job["rung"], switches, self.recorder, Artifacts(os.path.join(self.folder, "artifacts"))
        )
        if switches.get("measure"):
            from .record.measures import Meter

            self.ladder.meter = Meter()
        self.ladder.on_region = self.on_region
        self.ladder.on_compiler = self._stop
        self.ladder.install()

    def _stop(self) -> None:
        """Ends the run before the native compiler starts (switch ``before_compiler``)."""
        code = 70
        try:
            self.not_applicable = "stopped where the native compiler would start"
            self.finish(0, None)
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)

    def _write_regions(self) -> None:
        write_json(os.path.join(self.folder, "regions.json"), self.ladder.regions, default=str)

    def finish(self, code: Any, raised: Any, ended_by: Any = None) -> None:
        """Ends the recording and writes ``result.json``; ``raised`` describes the exception ``ended_by``."""
        facts: protocol_facts.ChildFacts = {}
        if self.opened is not None:
            self.opened.finish()
        if self.shadow is not None:
            facts["shadow_fallbacks"] = sorted(getattr(self.shadow, "fallbacks", {}))[:50]
            try:
                self.shadow.__exit__(None, None, None)
            except Exception as error:
                self.notes.append("the float64 reference could not be closed: %r" % error)
        if self.mixed_sources is not None:
            facts["mixed_sources"] = self.mixed_sources.facts()
        if self.recorder is not None:
            try:
                self.recorder.finish()
            except Exception as error:
                self.notes.append("the final state could not be recorded: %r" % error)
        self._add_facts(facts)
        if self.job["switches"].get("other_processes") and not self._calls_regions():
            from .processes import started

            facts.update(started.facts_of(self.folder))  # type: ignore[typeddict-item]
        self._write(facts, code, raised, ended_by)

    def write_facts(self) -> None:
        """Writes the facts so far, for a process that may be killed at any time."""
        facts: protocol_facts.ChildFacts = {}
        self._add_facts(facts)
        self._write(facts, 0, None, None)

    def _calls_regions(self) -> bool:
        return self.ladder is not None and any(region["calls"] for region in self.ladder.regions)

    def _add_facts(self, facts: protocol_facts.ChildFacts) -> None:
        facts["lab_error"] = self.lab_error
        facts["not_applicable"] = self.not_applicable
        if self.ladder is not None:
            from .hooks import recompiles
            from .torch_internals import metrics, settings

            facts.update(
                {
                    "regions": self.ladder.regions,
                    "graphs": self.ladder.graphs,
                    "reached": sorted(self.ladder.reached),
                    "caught": self.ladder.caught,
                    "meta_mismatches": self.ladder.meta_log.entries,
                    "graph_inputs": self.ladder.graph_inputs.entries,
                    "counters": metrics.counters(),
                    "compiles": recompiles.facts(),
                    "config": settings.changed_config(),
                    "not_applicable": self.ladder.not_applicable or self.not_applicable,
                    "applied": self.ladder.subsystems.applied,
                    "applications": self.ladder.applications.records,
                    "shown": self.ladder.applications.shown,
                    "graph_texts": self.ladder.graph_texts,
                    "random": self.ladder.random,
                    "order_conflicts": self.ladder.order_conflicts(),
                    "dtypes": sorted(self.ladder.dtypes),
                    "front": self.ladder.front.facts() if self.ladder.front is not None else {},
                }
            )
            if self.ladder.python_kernels is not None:
                facts["python_kernels"] = self.ladder.python_kernels.facts()
            if self.compile_log is not None:
                facts["compile_log"] = self.compile_log.facts()
            if self.ladder.meter is not None:
                facts["measures"] = self.ladder.meter.facts()
            if self.ladder.mock is not None:
                facts["mock"] = self.ladder.mock.facts()
            if self.ladder.adapter is not None:
                facts["accelerator"] = self.ladder.adapter.facts()
            if self.job["rung"] == "kernel":
                cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
                if cache:
                    annotator = self.ladder.annotator
                    if annotator is None:
                        self.ladder.artifacts.generated_code(cache)
                    else:
                        self.ladder.artifacts.generated_code(cache, annotator.cleaned)
                        facts["kernels"] = annotator.kernels(cache)
                if self.ladder.divergence is not None:
                    facts["divergence"] = self.ladder.divergence.to_json()

    def _write(self, facts: protocol_facts.ChildFacts, code: Any, raised: Any, ended_by: Any) -> None:
        facts["other_entries"] = self.entries.facts(ended_by)
        torch = sys.modules.get("torch")
        facts["determinism"] = _determinism(torch)
        write_json(
            os.path.join(self.folder, "result.json"),
            {
                "exit_code": code,
                "raised": raised,
                "torch": str(getattr(torch, "__version__", "")),
                "python": "%d.%d.%d" % sys.version_info[:3],
                "facts": facts,
                "notes": self.notes,
            },
            default=str,
        )


def _determinism(torch: Any) -> Any:
    facts: Dict[str, Any] = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "")}
    try:
        facts["deterministic_algorithms"] = bool(torch.are_deterministic_algorithms_enabled())
        facts["threads"] = int(torch.get_num_threads())
    except Exception:
        return facts
    return facts


def _catch_faults(folder: str) -> None:
    stream = open(os.path.join(folder, "fault.txt"), "w")  # noqa: SIM115 - lives as long as the process
    _KEEP_OPEN.append(stream)
    faulthandler.enable(stream)
    if hasattr(faulthandler, "register") and hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=stream, all_threads=True, chain=False)


def _seed(seed: int) -> None:
    random.seed(seed)


def _seeded(default_rng: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """Wraps numpy's ``default_rng`` to use a fixed seed if the caller gives none."""
    number = itertools.count()

    @functools.wraps(default_rng)
    def seeded(given: Any = None) -> Any:
        return default_rng([seed, next(number)] if given is None else given)

    return seeded


class AfterImport:
    """A meta path finder that calls ``callbacks[name]()`` right after a module's body has run."""

    def __init__(self, callbacks: Any) -> None:
        self._callbacks = dict(callbacks)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        callback = self._callbacks.pop(name, None)
        if callback is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self._callbacks[name] = callback
            return None
        original = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            original(module)
            callback()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
