"""Writes a reduced program as a repro, proves it in fresh processes, and finds its passing neighbour."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_lab.core.findings import Exhibit, Findings, ReducedScript, ReproProof
from accel_lab.core.judge import unwrap
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.reduction.problem import Candidate
from accel_lab.reduction.script.reducer import size_of
from accel_lab.search.lab import Lab
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.premise import Baseline

from . import recheck_component, repro, shipping
from .candidates import Clock
from .on_backend import Binding
from .result import PassingBuild, Product
from .target import VALUES_DIFFER, ask, tolerances_for
from .value_assertion import with_check

#: Attempt number of runs whose artifacts are kept; candidates use small numbers.
_KEPT = 900


@dataclass(kw_only=True)
class ReproWriter:
    """Writes and proves repros.

    ``probe`` has the limits of a candidate, ``cold`` those of a fresh process. ``backend`` binds the
    accelerator in a script. ``stdin`` names the script's standard input. ``notes`` go to the findings.
    """

    lab: Lab
    probe: Probe
    cold: Limits
    base: Baseline
    findings: Findings
    folder: Path
    clock: Clock
    build: str
    passing_build: PassingBuild | None = None
    backend: Binding | None = None
    stdin: str = ""
    notes: list[str] = field(default_factory=list)

    def write(self, product: Product) -> ReducedScript | None:
        product = self._with_check(self._on_backend(product))
        comment = repro.head_comment(
            self.findings.culprit,
            product.target,
            build=self.build,
            value=self._value(product),
            args=self.findings.program.args if product.kind == "script" else (),
            stdin=self.stdin if product.kind == "script" else "",
        )
        final = repro.with_head(product.candidate, comment, product.target)
        folder = self.folder / "repro" / product.kind
        key = product.problem.key(final)
        proof, files = self._proven(product, final, folder, key)
        if not proof.holds:
            self.notes.append(
                f"the reduced {product.kind} did not hold in fresh processes, so it is not offered: "
                + "; ".join(proof.words)
            )
            shutil.rmtree(folder, ignore_errors=True)
            return None
        if not self._passes_on_other_build(product, folder / "repro.py", key, proof):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        script = shipping.lay_out(final, files, folder)
        return ReducedScript(
            kind=product.kind,
            script=str(script),
            nodes_before=product.nodes_before,
            nodes_after=product.nodes_after,
            lines_before=self._script_lines(),
            lines_after=product.size[0],
            verified=True,
            proof=proof,
            minimal=product.minimal,
            same_component=self._same_component(product),
        )

    def nearest_passing(self, product: Product, folder: Path) -> tuple[Path, list[Exhibit]] | None:
        """Writes the nearest passing neighbour into the repro's folder; returns its path and both diffs."""
        passing = repro.nearest_passing(product.problem.passing, product.candidate)
        if passing is None:
            return None
        if product.problem.target.early:  # it was stopped at the native compiler: does it pass?
            passes = replace(product.target, good=None)
            answer, _ = ask(self.lab, product.problem.probe_of(passing), passes)
            if answer.bad is not Verdict.GOOD:
                return None
        own = shipping.everything(passing) if product.kind == "graph" else {}
        path = shipping.lay_out(passing, {**own, **shipping.beside(folder)}, folder / "min-good")
        # If no code was generated, or it is equal, the final graphs are compared.
        looks = ((Rung.KERNEL, repro.GENERATED), (Rung.FX, repro.GRAPHS))
        code = ("", "")
        for rung, kinds in () if product.target.bad_with else looks:
            pair = [self._kept(product, candidate, rung) for candidate in (passing, product.candidate)]
            code = repro.code_diff(pair[0], pair[1], kinds)
            if code[1]:
                break
        return path, repro.neighbour_exhibits(passing, product.candidate, code)

    def _with_check(self, product: Product) -> Product:
        """Adds an assertion to a script with silently wrong values, if the script then fails."""
        if product.target.signature.kind != "values":
            return product
        for rtol, atol in tolerances_for(product.target.error or 0.0):
            text = with_check(product.candidate.source, rtol=rtol, atol=atol)
            if text is None:
                return product
            checked = replace(
                product,
                candidate=Candidate(text, product.candidate.files),
                target=replace(product.target, signature=VALUES_DIFFER, error=None),
            )
            probe = replace(
                product.problem.probe_of(checked.candidate),
                rung=product.target.bad,
                switches=product.target.bad_with,
            )
            raised = self.lab.submit(probe).result().raised
            if raised is not None and raised.type.endswith("AssertionError"):
                return checked
        return product

    def _on_backend(self, product: Product) -> Product:
        """Binds the accelerator's backend in the product, so that it runs without the lab."""
        if not self.backend or product.target.bad is Rung.UNCOMPILED:
            return product
        text = self.backend.put_into(product.candidate.source)
        if text is None:
            return product
        return replace(product, candidate=Candidate(text, product.candidate.files))

    def _proven(
        self, product: Product, final: Candidate, folder: Path, key: str
    ) -> tuple[ReproProof, dict[str, Path]]:
        """Proves a program with the files that it opens, else with all files of its folder."""
        probe = self._probe_for(product)
        files = shipping.everything(final)
        if product.kind == "script" and final.files:
            bad = replace(probe, rung=product.target.bad, switches=product.target.bad_with, limits=self.cold)
            linked = self.folder / "reduce" / product.kind / "linked"
            files = shipping.opened_by(self.lab, bad, final, linked, key)
        proof = repro.prove(self.lab, probe, final, product.target, folder, key, self.cold, files)
        rest = shipping.everything(final)
        if not proof.holds and product.kind == "script" and rest.keys() - files.keys():
            files = {**rest, **files}
            proof = repro.prove(self.lab, probe, final, product.target, folder, f"{key}+", self.cold, files)
        return proof, files

    def _passes_on_other_build(self, product: Product, script: Path, key: str, proof: ReproProof) -> bool:
        """Whether the repro passes on a build on which the script passes; true without such a build."""
        other = self.passing_build
        if other is None:
            return True
        args = self.findings.program.args if product.kind == "script" else ()
        program = Program(path=str(script), args=args, sha256=key)
        wanted = replace(product.target, bad=Rung.KERNEL, good=None, early=False)
        probe = replace(other.probe, program=program, cwd=str(script.parent))
        answer, _ = ask(other.lab, probe, wanted)
        proof.elsewhere = f"{other.name}: {answer.bad.value}"
        if answer.bad is Verdict.BAD:
            self.notes.append(
                f"the reduced {product.kind} fails on {other.name} too, where the script itself passes: "
                "it shows another fault, so it is not offered"
            )
            return False
        outcome = "passes" if answer.bad is Verdict.GOOD else "neither passes nor shows the failure"
        proof.words.append(f"{outcome} on {other.name}, as the script does")
        return True

    def _same_component(self, product: Product) -> bool | None:
        """Whether the smaller program has the same component at fault; None if unknown."""
        culprit = self.findings.culprit
        if (
            self.clock.left <= 0
            or culprit is None
            or not recheck_component.worth_asking(culprit, product.target)
        ):
            return None
        probe = product.problem.probe_of(product.candidate)
        component = recheck_component.component_of(self.lab, probe, product.target, culprit.stage)
        if component is None or culprit.component is None:
            return None
        if recheck_component.same(component, culprit.component):
            return True
        self.notes.append(
            f"the smallest {product.kind} fails in the same way at the same stage, but by "
            f"{component.kind} {component.name}: it may show another fault"
        )
        return False

    def _script_lines(self) -> int:
        path = Path(str(self.findings.program.path))
        return size_of(path.read_text(encoding="utf-8", errors="replace"))[0]

    def _value(self, product: Product) -> str:
        """Returns the failing value in words: the smallest program's message, or the first difference."""
        if product.target.signature.kind == "values":
            return self.base.values[0].line if self.base.values else ""
        raised = self._kept(product, product.candidate, product.target.bad, product.target.bad_with).raised
        if raised is None or product.target.signature.kind not in ("exception", "exit"):
            return ""
        kind, message = unwrap(raised)
        return textwrap.shorten(f"{kind}: {message}" if message else kind, 160, placeholder=" ...")

    def _probe_for(self, product: Product) -> Probe:
        args = self.findings.program.args if product.kind == "script" else ()
        return replace(self.probe, program=Program(path="", args=args))

    def _kept(self, product: Product, candidate: Candidate, rung: Rung, switches: Switches = ()) -> Outcome:
        """Runs the candidate once more and keeps its artifacts."""
        probe = product.problem.probe_of(candidate)
        return self.lab.submit(replace(probe, rung=rung, switches=switches, attempt=_KEPT)).result()
