"""From a bisected script to its smallest repro: the graph first, then the script, then the proof.

Both are offered where both exist, the smaller first. Nothing is called a result that did not fail
again in fresh processes.
"""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Exhibit, Findings
from accel_lab.core.judge import unwrap
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import Refused
from accel_lab.core.verdict import Verdict
from accel_lab.reduction.problem import Candidate, OutOfBudget
from accel_lab.reduction.script.reducer import inline_local_imports, reduce_script, size_of
from accel_lab.search.bisection import Pair
from accel_lab.search.lab import Lab
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.premise import Baseline

from . import graphs, recheck_component, repro, shipping
from .candidates import Clock, LabProblem, Listener
from .on_backend import Binding
from .target import VALUES_DIFFER, Target, ask, limits_for, stops_early, target_of, tolerances_for
from .value_assertion import with_check

#: The part of the time that the graph may take where both formats can be tried.
GRAPH_SHARE = 0.6
#: A script is run from a folder of its own; this many of its neighbours are linked there.
MAX_NEIGHBOURS = 200


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A build on which the script passes: what shows the same fault passes there as well."""

    name: str
    lab: Lab
    probe: Probe


@dataclass(frozen=True, kw_only=True)
class Product:
    """One reduced program. ``kind`` is ``graph`` or ``script``; sizes are before and after."""

    kind: str
    candidate: Candidate
    target: Target
    problem: LabProblem
    nodes_before: int | None = None
    nodes_after: int | None = None
    minimal: bool = True

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self.candidate.source)


@dataclass(kw_only=True)
class Reduction:
    """What came of it: the repro, where it lies, how much smaller it is, and why there is none."""

    why_not: str = ""
    script: str | None = None
    graph: str | None = None
    kind: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    verified: bool = False
    proof: dict[str, Any] = field(default_factory=dict)
    minimal: bool = False
    same_component: bool | None = None
    candidates: int = 0
    seconds: float = 0.0
    min_good: str | None = None
    other: dict[str, Any] | None = None
    exhibits: list[Exhibit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        row = {k: v for k, v in self.__dict__.items() if k != "exhibits"}
        row["exhibits"] = [exhibit.to_json() for exhibit in self.exhibits]
        row["seconds"] = round(self.seconds, 1)
        return row


class Minimizer:
    """Reduces the program of ``findings``. ``folder`` is the run's folder; work lies under ``reduce/``."""

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
        elsewhere: Elsewhere | None = None,
        pair: Pair | None = None,
        backend: Binding | None = None,
        stdin: str = "",
    ) -> None:
        """``pair``: the runs that told an accelerator's culprit; ``backend``: how a script asks for it.

        ``stdin`` is the name of the file that the script has as standard input.
        """
        self._stdin = stdin
        self._lab = lab
        self._pair = pair
        self._backend = backend
        self._elsewhere = elsewhere
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
        self.result = Reduction()

    def run(self) -> Reduction:
        """The reduction; ``result`` is filled as it goes, so an interruption keeps the best so far."""
        result, found = self.result, self._findings
        program = found.program
        target, why = target_of(self._base, found.ladder, found.culprit, self._pair)
        if target is None:
            result.why_not = why
            return result
        if program.path is None:
            result.why_not = "a module run with -m cannot be shrunk: give a script that runs it"
            return result
        seconds = max((s.outcome.seconds for s in self._base.steps if s.outcome.warm), default=30.0)
        self._probe = replace(self._probe, limits=limits_for(self._probe.limits, seconds, target))
        target = stops_early(self._lab, self._probe, target)
        products: list[Product] = []
        for make, share in ((self._graph, GRAPH_SHARE), (self._script, 1.0)):
            product = make(target, program, self._clock.part(share))
            if product is not None:
                products.append(product)
        self._finish(products)
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
            reduced = "the time was over before a graph was seen to fail"
        except Refused as error:
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
                self.result.notes.append("the script fails no more once it is copied to another folder")
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

    def _finish(self, products: list[Product]) -> None:
        """The smallest product that is proven becomes the repro; the other one is told beside it."""
        result = self.result
        written = [(product, self._write(product)) for product in sorted(products, key=lambda p: p.size)]
        kept = [(product, row) for product, row in written if row is not None]
        # A program that shows another component than the script did comes last, however small it is.
        kept.sort(key=lambda pair: pair[1]["same_component"] is False)
        if not kept:
            result.why_not = "no smaller script was seen to fail in the same way"
            return
        (best, first), *rest = kept
        for name, value in first.items():
            setattr(result, name, value)
        result.other = rest[0][1] if rest else None
        result.graph = next((row["script"] for product, row in kept if product.kind == "graph"), None)
        self._neighbour(best, Path(first["script"]).parent)

    def _speaking(self, product: Product) -> Product:
        """A script that ends well with wrong numbers gets a check, if it shows the fault then."""
        if product.target.signature.kind != "values":
            return product
        for rtol, atol in tolerances_for(product.target.error or 0.0):
            text = with_check(product.candidate.source, rtol=rtol, atol=atol)
            if text is None:
                return product
            spoken = replace(
                product,
                candidate=Candidate(text, product.candidate.files),
                target=replace(product.target, signature=VALUES_DIFFER, error=None),
            )
            probe = replace(
                product.problem.probe_of(spoken.candidate),
                rung=product.target.bad,
                switches=product.target.bad_with,
            )
            raised = self._lab.submit(probe).result().raised
            if raised is not None and raised.type.endswith("AssertionError"):
                return spoken
        return product

    def _on_backend(self, product: Product) -> Product:
        """The lab puts the accelerator under any script; a script by itself has to ask for it."""
        if not self._backend or product.target.bad is Rung.UNCOMPILED:
            return product
        text = self._backend.put_into(product.candidate.source)
        if text is None:
            return product
        return replace(product, candidate=Candidate(text, product.candidate.files))

    def _write(self, product: Product) -> dict[str, Any] | None:
        product = self._speaking(self._on_backend(product))
        comment = repro.head_comment(
            self._findings.culprit,
            product.target,
            build=self._build,
            value=self._value(product),
            args=self._findings.program.args if product.kind == "script" else (),
            stdin=self._stdin if product.kind == "script" else "",
        )
        final = repro.with_head(product.candidate, comment, product.target)
        folder = self._folder / "repro" / product.kind
        key = product.problem.key(final)
        proof, files = self._proven(product, final, folder, key)
        if not proof.holds:
            self.result.notes.append(
                f"the reduced {product.kind} did not hold in fresh processes, so it is not offered: "
                + "; ".join(proof.words)
            )
            shutil.rmtree(folder, ignore_errors=True)
            return None
        if not self._passes_elsewhere(product, folder / "repro.py", key, proof):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        script = shipping.lay_out(final, files, folder)
        return {
            "kind": product.kind,
            "script": str(script),
            "nodes_before": product.nodes_before,
            "nodes_after": product.nodes_after,
            "lines_before": self._script_lines(),
            "lines_after": product.size[0],
            "verified": True,
            "proof": proof.to_json(),
            "minimal": product.minimal,
            "same_component": self._same_component(product),
        }

    def _proven(
        self, product: Product, final: Candidate, folder: Path, key: str
    ) -> tuple[repro.Proof, dict[str, Path]]:
        """The proof of a program with what it opens beside it, else with all that lies there; those files."""
        probe = self._probe_for(product)
        files = shipping.everything(final)
        if product.kind == "script" and final.files:
            bad = replace(probe, rung=product.target.bad, switches=product.target.bad_with, limits=self._cold)
            linked = self._folder / "reduce" / product.kind / "linked"
            files = shipping.opened_by(self._lab, bad, final, linked, key)
        proof = repro.prove(self._lab, probe, final, product.target, folder, key, self._cold, files)
        rest = shipping.everything(final)
        if not proof.holds and product.kind == "script" and rest.keys() - files.keys():
            files = {**rest, **files}
            proof = repro.prove(self._lab, probe, final, product.target, folder, f"{key}+", self._cold, files)
        return proof, files

    def _passes_elsewhere(self, product: Product, script: Path, key: str, proof: repro.Proof) -> bool:
        """The last word on a repro: a build on which the script passes must pass with it too."""
        other = self._elsewhere
        if other is None:
            return True
        args = self._findings.program.args if product.kind == "script" else ()
        program = Program(path=str(script), args=args, sha256=key)
        wanted = replace(product.target, bad=Rung.KERNEL, good=None, early=False)
        probe = replace(other.probe, program=program, cwd=str(script.parent))
        answer, _ = ask(other.lab, probe, wanted)
        proof.elsewhere = f"{other.name}: {answer.bad.value}"
        if answer.bad is Verdict.BAD:
            self.result.notes.append(
                f"the reduced {product.kind} fails on {other.name} too, where the script itself passes: "
                "it shows another fault, so it is not offered"
            )
            return False
        said = "passes" if answer.bad is Verdict.GOOD else "does not show the failure, nor pass,"
        proof.words.append(f"{said} on {other.name}, as the script does")
        return True

    def _same_component(self, product: Product) -> bool | None:
        """Whether the smaller program still shows the component of the whole one; None: not asked or told."""
        culprit = self._findings.culprit
        if (
            self._clock.left <= 0
            or culprit is None
            or not recheck_component.worth_asking(culprit, product.target)
        ):
            return None
        probe = product.problem.probe_of(product.candidate)
        component = recheck_component.component_of(self._lab, probe, product.target, culprit.stage)
        if component is None or culprit.component is None:
            return None
        if recheck_component.same(component, culprit.component):
            return True
        self.result.notes.append(
            f"the smallest {product.kind} fails in the same way at the same stage, but by "
            f"{component.kind} {component.name}: it may show another fault"
        )
        return False

    def _script_lines(self) -> int:
        path = Path(str(self._findings.program.path))
        return size_of(path.read_text(encoding="utf-8", errors="replace"))[0]

    def _value(self, product: Product) -> str:
        """The failing value in words: what the smallest program says, or the first difference."""
        if product.target.signature.kind == "values":
            return self._base.values[0].line if self._base.values else ""
        raised = self._kept(product, product.candidate, product.target.bad, product.target.bad_with).raised
        if raised is None or product.target.signature.kind not in ("exception", "exit"):
            return ""
        kind, message = unwrap(raised)
        return textwrap.shorten(f"{kind}: {message}" if message else kind, 160, placeholder=" ...")

    def _probe_for(self, product: Product) -> Probe:
        args = self._findings.program.args if product.kind == "script" else ()
        return replace(self._probe, program=Program(path="", args=args))

    def _neighbour(self, product: Product, folder: Path) -> None:
        """The largest neighbour that passes, and what the compiler made of both."""
        passing = repro.nearest_passing(product.problem.passing, product.candidate)
        if passing is None:
            return
        if product.problem.target.early:  # it was stopped at the native compiler: does it pass?
            passes = replace(product.target, good=None)
            answer, _ = ask(self._lab, product.problem.probe_of(passing), passes)
            if answer.bad is not Verdict.GOOD:
                return
        own = shipping.everything(passing) if product.kind == "graph" else {}
        path = shipping.lay_out(passing, {**own, **shipping.beside(folder)}, folder / "min-good")
        self.result.min_good = str(path)
        # Where no code was generated, or it is the same, the final graphs tell.
        looks = ((Rung.KERNEL, repro.GENERATED), (Rung.FX, repro.GRAPHS))
        code = ("", "")
        for rung, kinds in () if product.target.bad_with else looks:
            pair = [self._kept(product, candidate, rung) for candidate in (passing, product.candidate)]
            code = repro.code_diff(pair[0], pair[1], kinds)
            if code[1]:
                break
        self.result.exhibits = repro.neighbour_exhibits(passing, product.candidate, code)

    def _kept(self, product: Product, candidate: Candidate, rung: Rung, switches: Switches = ()) -> Outcome:
        """One more run whose artifacts stay."""
        probe = product.problem.probe_of(candidate)
        return self._lab.submit(replace(probe, rung=rung, switches=switches, attempt=_KEPT)).result()


#: The attempt number of the runs whose artifacts are kept; candidates use small ones.
_KEPT = 900


def _neighbours(script: Path) -> dict[str, Path]:
    """What lies beside the script: it may import or open it."""
    try:
        entries = sorted(script.parent.iterdir())
    except OSError:
        return {}
    skipped = {script.name, "repro.py", "__pycache__"}
    return {
        e.name: e for e in entries[:MAX_NEIGHBOURS] if e.name not in skipped and not e.name.startswith(".")
    }


def interrupted(folder: Path) -> dict[str, Any]:
    """What a reduction that was stopped leaves: the smallest program so far, not proven by a fresh run."""
    found = [p for p in (folder / "reduce" / kind / "best.py" for kind in ("graph", "script")) if p.exists()]
    result = Reduction(notes=["stopped: the smallest program so far, not run again in a fresh process"])
    if found:
        best = min(found, key=lambda path: size_of(path.read_text(encoding="utf-8")))
        result.kind, result.script = best.parent.name, str(best)
        result.lines_after = size_of(best.read_text(encoding="utf-8"))[0]
    else:
        result.why_not = "stopped before a smaller program was found"
    return result.to_json()


__all__ = ["Elsewhere", "Minimizer", "Product", "Reduction", "interrupted"]
