"""Reduces a bisected script to its smallest repro: first the graph, then the script, then the proof.

If both exist, both are offered, the smaller first. A repro is offered only if it failed again in fresh
processes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from accel_lab.core.findings import Findings, Repro
from accel_lab.core.probe import Probe, Program
from accel_lab.core.untrusted.child_files import UntrustedFileError
from accel_lab.reduction.problem import Candidate, OutOfBudget
from accel_lab.reduction.script.reducer import inline_local_imports, reduce_script
from accel_lab.search.bisection import Pair
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline

from . import graphs
from .candidates import Clock, LabProblem, Listener
from .on_backend import Binding
from .repro_writer import ReproWriter
from .result import PassingBuild, Product
from .target import Target, limits_for, stops_early, target_of

#: Share of the time for the graph, if both formats can be tried.
GRAPH_SHARE = 0.6
#: Candidates run in their own folder; at most this many files next to the script are linked there.
MAX_NEIGHBOURS = 200


class Minimizer:
    """Reduces the program of ``findings``. ``folder`` is the run's folder; work files are in ``reduce/``."""

    def __init__(
        self,
        *,
        lab: Lab,
        probe: Probe,
        base: Baseline,
        findings: Findings,
        folder: Path,
        seconds: float,
        build: str,
        workers: int = 2,
        listener: Listener | None = None,
        package: Path | None = None,
        passing_build: PassingBuild | None = None,
        pair: Pair | None = None,
        backend: Binding | None = None,
        stdin: str = "",
    ) -> None:
        """``pair`` are the runs that isolate an accelerator's culprit; ``backend`` binds it in a script.

        ``stdin`` is the name of the file for the script's standard input.
        """
        self._stdin = stdin
        self._lab = lab
        self._pair = pair
        self._backend = backend
        self._passing_build = passing_build
        self._base = base
        self._findings = findings
        self._folder = folder
        self._clock = Clock(seconds=seconds)
        self._build = build
        self._workers = workers
        self._listener = listener
        self._package = package
        self._probe = probe
        self._cold = probe.limits
        self.result = Repro()

    def run(self) -> Repro:
        """Runs the reduction; ``result`` is filled step by step, so an interruption keeps the best so far."""
        result, findings = self.result, self._findings
        program = findings.program
        target, why = target_of(self._base, findings.ladder, findings.culprit, self._pair)
        if target is None:
            result.why_not = why
            return result
        if program.path is None:
            result.why_not = "a module run with -m cannot be minimized: give a script that runs it"
            return result
        seconds = max((s.outcome.seconds for s in self._base.steps if s.outcome.warm), default=30.0)
        self._probe = replace(self._probe, limits=limits_for(self._probe.limits, seconds, target))
        target = stops_early(self._lab, self._probe, target)
        products: list[Product] = []
        for make, share in ((self._graph, GRAPH_SHARE), (self._script, 1.0)):
            product = make(target, program, self._clock.part(share))
            if product is not None:
                products.append(product)
        self._finish(products, self._writer())
        result.seconds = self._clock.spent
        return result

    # -- the two formats -----------------------------------------------------------------------

    def _problem(self, name: str, target: Target, clock: Clock, args: tuple[str, ...]) -> LabProblem:
        return LabProblem(
            lab=self._lab,
            probe=self._probe,
            target=target,
            folder=self._folder / "reduce" / name,
            clock=clock,
            workers=self._workers,
            listener=self._listener,
            args=args,
        )

    def _graph(self, target: Target, program: Program, clock: Clock) -> Product | None:
        plan = graphs.plan(self._lab, self._probe, self._base, self._findings.ladder, target)
        if isinstance(plan, str):
            self.result.notes.append(f"no graph repro: {plan}")
            return None
        problem = self._problem("graph", plan.target, clock, ())
        try:
            reduced = graphs.reduce(problem, plan)
        except OutOfBudget:
            reduced = "the time was over before a graph failed"
        except UntrustedFileError as error:
            reduced = f"what was captured was not read: {error}"
        finally:
            problem.close()
        self.result.candidates += problem.asked
        if isinstance(reduced, str):
            self.result.notes.append(f"no graph repro: {reduced}")
            return None
        return Product(
            kind="graph",
            candidate=reduced.candidate,
            target=replace(plan.target, early=False),
            problem=problem,
            nodes_before=reduced.nodes_before,
            nodes_after=reduced.nodes_after,
            minimal=not problem.ran_out,
        )

    def _script(self, target: Target, program: Program, clock: Clock) -> Product | None:
        path = Path(str(program.path))
        source = path.read_text(encoding="utf-8", errors="replace")
        start = Candidate(source, _neighbours(path))
        problem = self._problem("script", target, clock, program.args)
        try:
            joined = inline_local_imports(source, path.parent, self._package)
            wholes = [Candidate(joined), Candidate(joined, start.files)] if joined is not None else []
            whole = next((one for one in wholes if problem.submit(one).result()), None)
            if whole is not None:
                start = whole
            elif not problem.submit(start).result():
                self.result.notes.append("the script does not fail once it is copied to another folder")
                return None
            reduced = reduce_script(problem, start)
            alone = Candidate(reduced.source)
            if reduced.files and problem.submit(alone).result():
                reduced = alone
        except OutOfBudget:
            reduced = problem.best or start
        finally:
            problem.close()
            self.result.candidates += problem.asked
        if problem.answer(reduced) is None:
            return None
        return Product(
            kind="script",
            candidate=reduced,
            target=replace(target, early=False),
            problem=problem,
            minimal=not problem.ran_out,
        )

    # -- the result ----------------------------------------------------------------------------

    def _writer(self) -> ReproWriter:
        return ReproWriter(
            lab=self._lab,
            probe=self._probe,
            cold=self._cold,
            base=self._base,
            findings=self._findings,
            folder=self._folder,
            clock=self._clock,
            build=self._build,
            passing_build=self._passing_build,
            backend=self._backend,
            stdin=self._stdin,
            notes=self.result.notes,
        )

    def _finish(self, products: list[Product], writer: ReproWriter) -> None:
        """Makes the smallest proven product the repro, and offers the other one too."""
        result = self.result
        written = [(product, writer.write(product)) for product in sorted(products, key=lambda p: p.size)]
        kept = [(product, row) for product, row in written if row is not None]
        # A product with another component than the script's is sorted last, whatever its size.
        kept.sort(key=lambda pair: pair[1].same_component is False)
        if not kept:
            result.why_not = "no smaller script fails in the same way"
            return
        (best, first), *rest = kept
        result.offer(first)
        result.other = rest[0][1] if rest else None
        result.graph = next((row.script for _, row in kept if row.kind == "graph"), None)
        neighbour = writer.nearest_passing(best, Path(first.script).parent)
        if neighbour is not None:
            result.min_good, result.exhibits = str(neighbour[0]), tuple(neighbour[1])


def _neighbours(script: Path) -> dict[str, Path]:
    """Returns the other files in the script's folder, which it may import or open."""
    try:
        entries = sorted(script.parent.iterdir())
    except OSError:
        return {}
    skipped = {script.name, "repro.py", "__pycache__"}
    return {
        e.name: e for e in entries[:MAX_NEIGHBOURS] if e.name not in skipped and not e.name.startswith(".")
    }
